{{/* The bottom-up syncer: nodes that physical clusters lend. Its objects are in the files syncer-*.yaml. It shares names, image,
     election, log, traces and ports with the first Deployment, and no right, label of a pod or ServiceAccount. */}}

{{/* Shorter than the other names, because its suffixes are longer: those of its Services fit into 63, too. */}}
{{- define "topoloom.syncer.fullname" -}}
{{- $full := include "topoloom.fullname" . -}}
{{- if gt (len $full) 40 -}}
{{- $full = printf "%s-%s" (trunc 31 $full) (trunc 8 (sha256sum $full)) -}}
{{- end -}}
{{- printf "%s-syncer" $full -}}
{{- end -}}

{{- define "topoloom.syncer.clusterName" -}}
{{- printf "%s.%s" (include "topoloom.syncer.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "topoloom.syncer.serviceAccount" -}}
{{- $account := .Values.syncer.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "topoloom.syncer.fullname" .) $account.name -}}
{{- else -}}
{{- required "syncer.serviceAccount.name is required if syncer.serviceAccount.create is false" $account.name -}}
{{- end -}}
{{- end -}}

{{/* The user name of its requests. */}}
{{- define "topoloom.syncer.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "topoloom.syncer.serviceAccount" .) -}}
{{- end -}}

{{/* The names of its leases begin with this: one for each binding, and one for each replica. */}}
{{- define "topoloom.syncer.lease" -}}
{{- include "topoloom.syncer.fullname" . -}}
{{- end -}}

{{/* The beginning of the names of its leases that it writes. Without an election the program gives those of bindings a name of its own. */}}
{{- define "topoloom.syncer.leasePrefix" -}}
{{- if .Values.leaderElection.enabled -}}{{- printf "%s-" (include "topoloom.syncer.lease" .) -}}{{- else -}}topoloom-binding-{{- end -}}
{{- end -}}

{{/* Where the placeholder pods for host ports are. The syncer knows it by this name, so two releases cannot both make it. */}}
{{- define "topoloom.syncer.hostPortNamespace" -}}
topoloom-host-ports
{{- end -}}

{{/* Another name than that of the pods of the first Deployment: no selector of those may match these. */}}
{{- define "topoloom.syncer.selectorLabels" -}}
app.kubernetes.io/name: {{ printf "%s-syncer" (include "topoloom.name" . | trunc 56 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "topoloom.syncer.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "topoloom.syncer.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Relations between values. */}}
{{- define "topoloom.syncer.checks" -}}
{{- $v := .Values -}}
{{- $syncer := $v.syncer -}}
{{- if and (not $v.leaderElection.enabled) (gt (int $syncer.replicas) 1) -}}
{{- fail (printf "syncer.replicas is %v and leaderElection.enabled is false: all replicas would write" $syncer.replicas) -}}
{{- end -}}
{{- if not $syncer.secrets -}}
{{- fail "syncer.enabled needs syncer.secrets: the names of the Secrets with the kubeconfigs of physical clusters. The syncer may read no others" -}}
{{- end -}}
{{- if eq (include "topoloom.syncer.serviceAccount" .) (include "topoloom.serviceAccount" .) -}}
{{- fail (printf "syncer.serviceAccount.name is %s, which is the ServiceAccount of the other Deployment: its admission policies refuse every write of the syncer" (include "topoloom.serviceAccount" .)) -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $v.networkPolicy.apiServer.cidrs (not $syncer.networkPolicy.physicalServers) -}}
{{- fail "networkPolicy.apiServer.cidrs is set and syncer.networkPolicy.physicalServers is empty: the syncer could reach no physical cluster" -}}
{{- end -}}
{{- with $syncer.kubelet -}}
{{- if .enabled -}}
{{- if not .address -}}
{{- fail "syncer.kubelet.enabled needs syncer.kubelet.address: the address at which API servers reach the Service, and which virtual nodes show" -}}
{{- end -}}
{{- if not .tls.secret -}}
{{- fail "syncer.kubelet.enabled needs syncer.kubelet.tls.secret: a client of it can run commands in containers, so it serves only TLS, and only clients with a certificate" -}}
{{- end -}}
{{- if has (int .port) (list (int $v.ports.health) (int $v.ports.metrics)) -}}
{{- fail (printf "syncer.kubelet.port is %v, which is also ports.health or ports.metrics" .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "topoloom.syncer.args" -}}
{{- $v := .Values -}}
- run
- --controllers=bottomup-syncer
{{ include "topoloom.args.servers" (dict "root" . "lease" (include "topoloom.syncer.lease" .)) }}
- --drain-timeout={{ int $v.drainTimeoutSeconds }}s
{{- if $v.readOnly }}
- --read-only
{{- end }}
{{- if $v.profiling }}
- --profiling
{{- end }}
{{- with $v.syncer }}
{{- with .virtualClusterID }}
- --virtual-cluster-id={{ . }}
{{- end }}
{{- if not .evictions }}
- --syncer-evictions=false
{{- end }}
{{- with .kubelet }}
{{- if .enabled }}
- --syncer-kubelet-address={{ .address }}
- --syncer-kubelet-port={{ int .port }}
- --syncer-kubelet-listen-address=:{{ int .port }}
- --syncer-tls-cert-file=/etc/topoloom/kubelet/tls.crt
- --syncer-tls-private-key-file=/etc/topoloom/kubelet/tls.key
{{- if .clientAuthoritiesConfigMap }}
- --syncer-client-ca-file=/etc/topoloom/kubelet-clients/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{ include "topoloom.args.log" . }}
{{- range $v.syncer.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "topoloom.syncer.volumes" -}}
{{- if .Values.profiling }}
- name: samples
  emptyDir:
    sizeLimit: 64Mi
{{- end }}
{{- if include "topoloom.traceFiles" . }}
{{ include "topoloom.traceVolume" . }}
{{- end }}
{{- with .Values.syncer.kubelet }}
{{- if .enabled }}
- name: kubelet
  secret:
    secretName: {{ .tls.secret | quote }}
    # 0444 in octal: every YAML parser reads 292 as the same number.
    defaultMode: 292
    items:
    - key: tls.crt
      path: tls.crt
    - key: tls.key
      path: tls.key
{{- with .clientAuthoritiesConfigMap }}
- name: kubelet-clients
  configMap:
    name: {{ . | quote }}
    defaultMode: 292
    items:
    - key: ca.crt
      path: ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "topoloom.syncer.mounts" -}}
{{- if .Values.profiling }}
- name: samples
  mountPath: /var/cache/topoloom
{{- end }}
{{- if include "topoloom.traceFiles" . }}
{{ include "topoloom.traceMount" . }}
{{- end }}
{{- with .Values.syncer.kubelet }}
{{- if .enabled }}
- name: kubelet
  mountPath: /etc/topoloom/kubelet
  readOnly: true
{{- if .clientAuthoritiesConfigMap }}
- name: kubelet-clients
  mountPath: /etc/topoloom/kubelet-clients
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
