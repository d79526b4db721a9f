{{/* Which controllers run, by the grammar of --controllers: the first token that names one decides, `*` stands for the rest,
     no token at all for everything. Takes {root, name}; answers "true" or nothing. */}}
{{- define "topoloom.runs" -}}
{{- $name := .name -}}
{{- $tokens := .root.Values.controllers -}}
{{- $answer := "" -}}
{{- range $tokens -}}
{{- if not $answer -}}
{{- if or (eq . $name) (eq . (printf "+%s" $name)) -}}{{- $answer = "true" -}}
{{- else if eq . (printf "-%s" $name) -}}{{- $answer = "false" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not $answer) (or (empty $tokens) (has "*" $tokens)) -}}{{- $answer = "true" -}}{{- end -}}
{{- if eq $answer "true" -}}true{{- end -}}
{{- end -}}

{{/* Those with rules of their own: each has a template topoloom.rules.NAME.cluster and one topoloom.rules.NAME.namespaced. */}}
{{- define "topoloom.controllers" -}}
[hyperNode-controller, nodelock-sweeper, extender, bottomup-syncer]
{{- end -}}
