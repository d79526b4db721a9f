{{/* Image, flags and volumes of the pod, and the checks that a schema cannot express. */}}

{{- define "topoloom.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is required: the name under which you pushed the image of `make image`" $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) | quote -}}
{{- end -}}
{{- end -}}

{{/* Relations between values. */}}
{{- define "topoloom.checks" -}}
{{- $v := .Values -}}
{{- $lease := $v.leaderElection -}}
{{- if $lease.enabled -}}
{{- if le (float64 $lease.leaseDurationSeconds) (float64 $lease.renewDeadlineSeconds) -}}
{{- fail (printf "leaderElection.leaseDurationSeconds is %v and must be longer than renewDeadlineSeconds, which is %v" $lease.leaseDurationSeconds $lease.renewDeadlineSeconds) -}}
{{- end -}}
{{- if le (float64 $lease.renewDeadlineSeconds) (mulf 1.2 $lease.retryPeriodSeconds) -}}
{{- fail (printf "leaderElection.renewDeadlineSeconds is %v and must be longer than 1.2 times retryPeriodSeconds, which is %v" $lease.renewDeadlineSeconds $lease.retryPeriodSeconds) -}}
{{- end -}}
{{- else if gt (int $v.replicas) 1 -}}
{{- fail (printf "replicas is %v and leaderElection.enabled is false: all replicas would write" $v.replicas) -}}
{{- end -}}
{{- $pause := int (include "topoloom.preStop" . | default "0") -}}
{{- if lt (int $v.terminationGracePeriodSeconds) (int (add $pause $v.drainTimeoutSeconds 10)) -}}
{{- if $pause -}}
{{- fail (printf "terminationGracePeriodSeconds is %v and must be at least ten seconds longer than drainTimeoutSeconds and extender.preStopSeconds together, which are %v and %d" $v.terminationGracePeriodSeconds $v.drainTimeoutSeconds $pause) -}}
{{- end -}}
{{- fail (printf "terminationGracePeriodSeconds is %v and must be at least ten seconds longer than drainTimeoutSeconds, which is %v" $v.terminationGracePeriodSeconds $v.drainTimeoutSeconds) -}}
{{- end -}}
{{- if eq (int $v.ports.health) (int $v.ports.metrics) -}}
{{- fail (printf "ports.health and ports.metrics are both %v" $v.ports.health) -}}
{{- end -}}
{{- with $v.nodeLock -}}
{{- $lasts := float64 (include "topoloom.seconds" .timeout) -}}
{{- if or (lt $lasts 10.0) (gt $lasts 86400.0) -}}
{{- fail (printf "nodeLock.timeout is %s and must be 10s to 24h" .timeout) -}}
{{- end -}}
{{- if include "topoloom.extends" $ -}}
{{- $least := mul 2 (min 28 (sub (int $v.extender.httpTimeoutSeconds) 2)) -}}
{{- if lt $lasts (float64 $least) -}}
{{- fail (printf "nodeLock.timeout is %s and must be at least %ds: twice as long as a Bind may take (extender.httpTimeoutSeconds)" .timeout $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $v.extender -}}
{{- if .enabled -}}
{{- if not (or .tls.secret .allowAnonymous) -}}
{{- fail "extender.enabled needs extender.tls.secret: a client of the extender can bind any pod to any node, so it requires client certificates. extender.allowAnonymous accepts clients without one" -}}
{{- end -}}
{{- if not (include "topoloom.extends" $) -}}
{{- fail (printf "extender.enabled is true, but with controllers %v the extender does not run" $v.controllers) -}}
{{- end -}}
{{- $longest := add 2 (min 28 (sub (int .httpTimeoutSeconds) 2)) -}}
{{- if lt (int $v.drainTimeoutSeconds) (int $longest) -}}
{{- fail (printf "drainTimeoutSeconds is %v and must be at least %d: as long as a Bind and undoing it may take (extender.httpTimeoutSeconds)" $v.drainTimeoutSeconds $longest) -}}
{{- end -}}
{{- if has (int .port) (list (int $v.ports.health) (int $v.ports.metrics)) -}}
{{- fail (printf "extender.port is %v, which is also ports.health or ports.metrics" .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $v.plugins.trust.level "signature") (not $v.plugins.trust.keys) -}}
{{- fail "plugins.trust.level signature needs plugins.trust.keys: the public keys of those who may sign" -}}
{{- end -}}
{{- with $v.traces -}}
{{- if gt (int (include "topoloom.collectorPort" $)) 65535 -}}
{{- fail (printf "traces.endpoint is %s: there is no such port" .endpoint) -}}
{{- end -}}
{{- if and (not .endpoint) (or .headersSecret .authoritiesConfigMap) -}}
{{- fail "traces.headersSecret and traces.authoritiesConfigMap need a collector: set traces.endpoint, which is empty" -}}
{{- end -}}
{{- end -}}
{{- $tokens := $v.controllers -}}
{{- $names := list -}}
{{- range $tokens -}}
{{- if ne . "*" -}}
{{- $name := trimPrefix "+" (trimPrefix "-" .) -}}
{{- if has $name $names -}}{{- fail (printf "controllers names %s twice" $name) -}}{{- end -}}
{{- if and (eq $name "bottomup-syncer") (not (hasPrefix "-" .)) -}}
{{- fail "controllers names bottomup-syncer, which has a Deployment of its own: remove it there, and set syncer.enabled" -}}
{{- end -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- $on := false -}}
{{- range $tokens -}}{{- if not (hasPrefix "-" .) -}}{{- $on = true -}}{{- end -}}{{- end -}}
{{- if and $tokens (not $on) -}}
{{- fail (printf "with controllers %v none runs: add \"*\"" $tokens) -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a duration such as 1h30m or 90s. The schema has checked its form. */}}
{{- define "topoloom.seconds" -}}
{{- $units := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+[hms]" . -1 -}}
{{- $unit := trimAll ".0123456789" . -}}
{{- $seconds = addf $seconds (mulf (float64 (trimSuffix $unit .)) (get $units $unit)) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/* A quantity of memory in MiB, in any form that Kubernetes accepts; 0 if it is invalid or less than 1 MiB. */}}
{{- define "topoloom.mebibytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if regexMatch "^[0-9]+([.][0-9]+)?([eE][+]?[0-9]+)?([kMGT]|[KMGT]i)?$" . -}}
{{- $number := regexFind "^[0-9.]+([eE][+]?[0-9]+)?" . -}}
{{ divf (mulf (float64 $number) (get $units (trimPrefix $number .))) 1048576 | floor | int64 }}
{{- else -}}
0
{{- end -}}
{{- end -}}

{{/* The memory of all plugin calls together: plugins.memory, or half of the container's limit after a cache in memory is
subtracted. Nothing if the container has no limit: the host then uses its default. */}}
{{- define "topoloom.pluginMemory" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString -}}
{{- $has := include "topoloom.mebibytes" $limit | int64 -}}
{{- $cache := .Values.plugins.cache -}}
{{- $cached := 0 -}}
{{- if and $cache.enabled (eq $cache.medium "Memory") -}}
{{- $cached = include "topoloom.mebibytes" $cache.size | int64 -}}
{{- end -}}
{{- if and $limit (not $has) (not .Values.plugins.memory) -}}
{{- fail (printf "resources.limits.memory is %s: half of it is for plugins, but the chart cannot read this value; write it in Mi or Gi, or set plugins.memory" $limit) -}}
{{- end -}}
{{- if .Values.plugins.memory -}}
{{- $wants := include "topoloom.mebibytes" .Values.plugins.memory | int64 -}}
{{- if and (gt $has 0) (gt (add $wants $cached 256) $has) -}}
{{- fail (printf "plugins.memory is %s and resources.limits.memory is %s: the host itself needs 256Mi beside its plugins%s" .Values.plugins.memory $limit (ternary (printf " and the cache in memory, which is %s" $cache.size) "" (gt $cached 0))) -}}
{{- end -}}
{{ .Values.plugins.memory }}
{{- else if gt $has 0 -}}
{{ max 16 (div (sub $has $cached) 2) }}Mi
{{- end -}}
{{- end -}}

{{/* What both Deployments are started with: the configuration, the servers and the election. Takes {root, lease}. */}}
{{- define "topoloom.args.servers" -}}
{{- $root := .root -}}
{{- $lease := .lease -}}
{{- $v := $root.Values -}}
{{- if $v.config.existing.name -}}
- --config-map={{ include "topoloom.configNamespace" $root }}/{{ include "topoloom.configMap" $root }}
{{ end -}}
- --enable-healthz
- --healthz-address=:{{ int $v.ports.health }}
{{- if $v.metrics.enabled }}
- --enable-metrics
- --listen-address=:{{ int $v.ports.metrics }}
{{- end }}
{{- with $v.leaderElection }}
{{- if .enabled }}
- --leader-elect=true
- --leader-elect-resource-namespace={{ $root.Release.Namespace }}
- --leader-elect-resource-name={{ $lease }}
- --leader-elect-lease-duration={{ .leaseDurationSeconds }}s
- --leader-elect-renew-deadline={{ .renewDeadlineSeconds }}s
- --leader-elect-retry-period={{ .retryPeriodSeconds }}s
{{- else }}
- --leader-elect=false
{{- end }}
{{- end }}
{{- end -}}

{{/* The log and the traces of both. */}}
{{- define "topoloom.args.log" -}}
- {{ printf "--log=%s" .Values.log.level | quote }}
- --log-format={{ .Values.log.format }}
{{- with .Values.traces }}
{{- if .endpoint }}
- {{ printf "--otlp-endpoint=%s" .endpoint | quote }}
{{- if .headersSecret }}
- --otlp-headers-file=/etc/topoloom/traces/headers
{{- end }}
{{- if .authoritiesConfigMap }}
- --otlp-ca-file=/etc/topoloom/traces/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "topoloom.args" -}}
{{- $v := .Values -}}
- run
- --controllers={{ include "topoloom.controllersFlag" . }}
{{ include "topoloom.args.servers" (dict "root" . "lease" (include "topoloom.lease" .)) }}
{{- with $v.volcanoLeases }}
- --volcano-leases={{ join "," . }}
{{- end }}
- --drain-timeout={{ int $v.drainTimeoutSeconds }}s
- --status={{ $v.status }}
{{- if $v.observe }}
- --observe
{{- end }}
{{- if $v.readOnly }}
- --read-only
{{- end }}
{{- if $v.profiling }}
- --profiling
{{- end }}
{{- with include "topoloom.pluginMemory" $ }}
- --plugin-memory={{ . }}
{{- end }}
{{- if $v.plugins.cache.enabled }}
- --plugin-cache=/var/cache/topoloom/plugins
- --plugin-cache-size={{ $v.plugins.cache.size }}
{{- end }}
{{- if $v.plugins.mounted }}
- --plugin-dir=/var/lib/topoloom/plugins
{{- end }}
{{- with $v.plugins.registries }}
- --plugin-registries={{ join "," . }}
{{- end }}
{{- if not $v.plugins.kept }}
- --modules-kept=false
{{- end }}
- --plugin-trust={{ $v.plugins.trust.level }}
{{- range $index, $key := $v.plugins.trust.keys }}
- --plugin-trust-key=/etc/topoloom/trust/{{ $index }}.pem
{{- end }}
{{- if $v.documents }}
- --documents=/var/lib/topoloom/documents
{{- end }}
{{- with $v.nodeLock }}
- --node-lock-timeout={{ .timeout }}
- --node-lock-takeover={{ .takeover }}
- --node-lock-retry={{ .retry }}
{{- if .resources }}
- --node-lock-resources=/etc/topoloom/node-lock/resources.yaml
{{- end }}
{{- with .sweep }}
- --nodelock-sweep={{ . }}
{{- end }}
{{- end }}
{{- if include "topoloom.extends" . }}
{{- with $v.extender }}
- --extender-address=:{{ int .port }}
{{- if .tls.secret }}
- --extender-tls-cert-file=/etc/topoloom/extender/tls.crt
- --extender-tls-private-key-file=/etc/topoloom/extender/tls.key
{{- end }}
{{- if .allowAnonymous }}
- --extender-allow-anonymous
{{- else }}
- --extender-client-ca-file=/etc/topoloom/extender/ca.crt
- {{ printf "--extender-client-names=%s" (join "," (default (list "system:kube-scheduler") .tls.clientNames)) | quote }}
{{- end }}
- --extender-http-timeout={{ int .httpTimeoutSeconds }}s
- --extender-filter={{ .filter }}
- --extender-max-waiting-binds={{ int (default 256 .maxWaitingBinds) }}
{{- end }}
{{- end }}
{{ include "topoloom.args.log" . }}
{{- range $v.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* A volume whose source may be missing when the pod starts. Takes the volume's source. */}}
{{- define "topoloom.optionalVolume" -}}
{{- $volume := deepCopy . -}}
{{- range $kind, $source := $volume -}}
{{- if has $kind (list "configMap" "secret") -}}
{{- if not (hasKey $source "optional") -}}{{- $_ := set $source "optional" true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $volume -}}
{{- end -}}

{{/* The port of the collector of traces; nothing without a collector. */}}
{{- define "topoloom.collectorPort" -}}
{{- with .Values.traces -}}
{{- if .endpoint -}}
{{- $url := urlParse .endpoint -}}
{{- default (ternary "443" "80" (eq $url.scheme "https")) (trimPrefix ":" (regexFind ":[0-9]+$" $url.host)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ports of the registries that plugins may come from, as JSON. Values reused from an earlier chart have none. */}}
{{- define "topoloom.registryPorts" -}}
{{- $ports := list -}}
{{- range .Values.plugins.registries -}}
{{- $ports = append $ports (int (default "443" (trimPrefix ":" (regexFind ":[0-9]+$" .)))) -}}
{{- end -}}
{{- uniq $ports | toJson -}}
{{- end -}}

{{/* Whether the collector of traces needs files; values reused from an earlier chart have none. */}}
{{- define "topoloom.traceFiles" -}}
{{- with .Values.traces -}}
{{- if and .endpoint (or .headersSecret .authoritiesConfigMap) -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* How long a pod with an extender continues to serve before the kubelet sends SIGTERM; nothing without an extender. */}}
{{- define "topoloom.preStop" -}}
{{- if include "topoloom.extends" . -}}
{{- $seconds := int (dig "preStopSeconds" 5 .Values.extender) -}}
{{- if $seconds -}}{{- $seconds -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret of the extender; nothing without an extender or without TLS. */}}
{{- define "topoloom.extenderSecret" -}}
{{- if include "topoloom.extends" . -}}{{- .Values.extender.tls.secret -}}{{- end -}}
{{- end -}}

{{/* The file of --node-lock-resources; nothing if the built-in table is used. */}}
{{- define "topoloom.lockResources" -}}
{{- with (default dict .Values.nodeLock).resources -}}
{{- toYaml (dict "backends" .) -}}
{{- end -}}
{{- end -}}

{{- define "topoloom.traceVolume" -}}
- name: traces
  projected:
    defaultMode: 292
    sources:
    {{- with .Values.traces.headersSecret }}
    - secret:
        name: {{ . | quote }}
        items:
        - key: headers
          path: headers
    {{- end }}
    {{- with .Values.traces.authoritiesConfigMap }}
    - configMap:
        name: {{ . | quote }}
        items:
        - key: ca.crt
          path: ca.crt
    {{- end }}
{{- end -}}

{{- define "topoloom.traceMount" -}}
- name: traces
  mountPath: /etc/topoloom/traces
  readOnly: true
{{- end -}}

{{- define "topoloom.volumes" -}}
{{- $plugins := .Values.plugins -}}
{{- if $plugins.cache.enabled }}
- name: cache
  emptyDir:
    sizeLimit: {{ $plugins.cache.volumeSize }}
    {{- with $plugins.cache.medium }}
    medium: {{ . }}
    {{- end }}
{{- end }}
{{- with $plugins.trust.keys }}
- name: trust
  projected:
    # 0444 in octal: every YAML parser reads 292 as the same number.
    defaultMode: 292
    sources:
    {{- range $index, $key := . }}
    - {{ ternary "configMap" "secret" (hasKey $key "configMap") }}:
        name: {{ default $key.secret $key.configMap }}
        items:
        - key: {{ $key.key | quote }}
          path: {{ $index }}.pem
    {{- end }}
{{- end }}
{{- if include "topoloom.traceFiles" . }}
{{ include "topoloom.traceVolume" . }}
{{- end }}
{{- if include "topoloom.lockResources" . }}
- name: node-lock
  configMap:
    name: {{ include "topoloom.fullname" . }}-lock-resources
{{- end }}
{{- with include "topoloom.extenderSecret" . }}
- name: extender
  secret:
    secretName: {{ . | quote }}
    defaultMode: 292
    items:
    {{- range ternary (list "tls.crt" "tls.key") (list "tls.crt" "tls.key" "ca.crt") $.Values.extender.allowAnonymous }}
    - key: {{ . }}
      path: {{ . }}
    {{- end }}
{{- end }}
{{- range $plugins.mounted }}
- name: plugin-{{ .name }}
  {{- include "topoloom.optionalVolume" .volume | nindent 2 }}
{{- end }}
{{- range .Values.documents }}
- name: document-{{ .name }}
  {{- include "topoloom.optionalVolume" .volume | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "topoloom.mounts" -}}
{{- $plugins := .Values.plugins -}}
{{- if $plugins.cache.enabled }}
# The host creates a folder in it that only the host can read.
- name: cache
  mountPath: /var/cache/topoloom
{{- end }}
{{- if $plugins.trust.keys }}
- name: trust
  mountPath: /etc/topoloom/trust
  readOnly: true
{{- end }}
{{- if include "topoloom.traceFiles" . }}
{{ include "topoloom.traceMount" . }}
{{- end }}
{{- if include "topoloom.lockResources" . }}
- name: node-lock
  mountPath: /etc/topoloom/node-lock
  readOnly: true
{{- end }}
{{- if include "topoloom.extenderSecret" . }}
- name: extender
  mountPath: /etc/topoloom/extender
  readOnly: true
{{- end }}
{{- range $plugins.mounted }}
- name: plugin-{{ .name }}
  mountPath: /var/lib/topoloom/plugins/{{ .name }}
  readOnly: true
{{- end }}
{{- range .Values.documents }}
- name: document-{{ .name }}
  mountPath: /var/lib/topoloom/documents/{{ .name }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What PodSecurity `restricted` asks for of a pod, and of its container. */}}
{{- define "topoloom.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "topoloom.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "topoloom.probes" -}}
# Fails only when the process is stuck: a failing API server or source is no reason to restart it.
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
# A host with large plugins compiles them before its first answer.
startupProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
{{- end -}}

{{/* A new pod starts before an old one stops, except where two must never run at once. */}}
{{- define "topoloom.strategy" -}}
{{- if .Values.leaderElection.enabled -}}
# The new pod is ready before the old one stops; the lease decides which of them leads.
type: RollingUpdate
rollingUpdate:
  maxUnavailable: 0
  maxSurge: 1
{{- else -}}
# Without leader election two pods must never run at once.
type: Recreate
{{- end }}
{{- end -}}
