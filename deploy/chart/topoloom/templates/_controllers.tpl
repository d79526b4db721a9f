{{/* Whether a controller runs, by the grammar of --controllers: the first token that names it decides, `*` means all others, no
     token at all means all. Takes {root, name}; returns "true" or nothing. */}}
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

{{/* Whether the extender serves: its controller runs and it is enabled. "true" or nothing. Values reused from an earlier chart do
     not have it. */}}
{{- define "topoloom.extends" -}}
{{- if (default dict .Values.extender).enabled -}}
{{- include "topoloom.runs" (dict "root" . "name" "extender") -}}
{{- end -}}
{{- end -}}

{{/* What the sweeper of node locks does: `report`, `repair`, or nothing if it waits or does not run. */}}
{{- define "topoloom.sweeps" -}}
{{- if include "topoloom.runs" (dict "root" . "name" "nodelock-sweeper") -}}
{{- with (default dict .Values.nodeLock).sweep -}}
{{- . -}}
{{- else -}}
{{- if include "topoloom.extends" . -}}repair{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The controllers of the first Deployment: each has a template topoloom.rules.NAME.cluster and one
     topoloom.rules.NAME.namespaced. */}}
{{- define "topoloom.controllers" -}}
[hyperNode-controller, nodelock-sweeper, extender]
{{- end -}}

{{/* --controllers of the first Deployment. The bottomup-syncer never runs there: it has a Deployment and rights of its own. */}}
{{- define "topoloom.controllersFlag" -}}
{{- $tokens := default (list "*") .Values.controllers -}}
{{- $syncer := "-bottomup-syncer" -}}
{{- if and (has "*" $tokens) (not (has $syncer $tokens)) -}}{{- $tokens = append $tokens $syncer -}}{{- end -}}
{{- join "," $tokens -}}
{{- end -}}

{{/* Whether the bottom-up syncer is installed: "true" or nothing. Values reused from an earlier chart do not have it. */}}
{{- define "topoloom.lends" -}}
{{- if (default dict .Values.syncer).enabled -}}true{{- end -}}
{{- end -}}
