{{/* Names and labels. Two installs never share one: names in a namespace are made from the release, and names of cluster-wide
     objects from release and namespace. */}}

{{- define "topoloom.name" -}}
{{- default .Chart.Name .Values.nameOverride -}}
{{- end -}}

{{/* At most 50 characters, so that every suffix used here fits into 63; a longer name is cut and gets a hash. */}}
{{- define "topoloom.fullname" -}}
{{- $name := include "topoloom.name" . -}}
{{- $full := .Values.fullnameOverride -}}
{{- if not $full -}}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- end -}}
{{- $full = $full | replace "." "-" -}}
{{- if gt (len $full) 50 -}}
{{- printf "%s-%s" (trunc 41 $full) (trunc 8 (sha256sum $full)) -}}
{{- else -}}
{{- $full -}}
{{- end -}}
{{- end -}}

{{- define "topoloom.clusterName" -}}
{{- printf "%s.%s" (include "topoloom.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "topoloom.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "topoloom.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required if serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The user name of our requests. */}}
{{- define "topoloom.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "topoloom.serviceAccount" .) -}}
{{- end -}}

{{/* The lease of the group hypernode; other groups add a suffix. */}}
{{- define "topoloom.lease" -}}
{{- printf "%s-hypernode" (include "topoloom.fullname" .) -}}
{{- end -}}

{{- define "topoloom.configMap" -}}
{{- default (printf "%s-controller-configmap" .Release.Name) .Values.config.existing.name -}}
{{- end -}}

{{- define "topoloom.configNamespace" -}}
{{- default .Release.Namespace .Values.config.existing.namespace -}}
{{- end -}}

{{/* "true" if Helm can ask a cluster, otherwise nothing: every cluster has the namespace `default`. */}}
{{- define "topoloom.hasCluster" -}}
{{- if lookup "v1" "Namespace" "" "default" -}}true{{- end -}}
{{- end -}}

{{- define "topoloom.selectorLabels" -}}
app.kubernetes.io/name: {{ include "topoloom.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "topoloom.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "topoloom.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
