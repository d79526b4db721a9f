{{/* The rights of the host: exactly the calls that it makes, each with its reason. If a rule is missing, the host prints it in
     /readyz, in the log and in the condition of the source. (SelfSubjectAccessReviews, which `topoloom preflight` sends, are
     allowed for every authenticated user, by system:basic-user.) */}}

{{/* Rules of the ClusterRole for the controllers that run. */}}
{{- define "topoloom.rules.cluster" -}}
{{- $root := . -}}
{{- range include "topoloom.controllers" . | fromYamlArray -}}
{{- if include "topoloom.runs" (dict "root" $root "name" .) -}}
{{- include (printf "topoloom.rules.%s.cluster" .) $root -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rules in one namespace, for the controllers that run and those that all of them share. Takes {root, namespace}. */}}
{{- define "topoloom.rules.namespaced" -}}
{{- $it := . -}}
{{- include "topoloom.rules.shared" $it -}}
{{- range include "topoloom.controllers" .root | fromYamlArray -}}
{{- if include "topoloom.runs" (dict "root" $it.root "name" .) -}}
{{- include (printf "topoloom.rules.%s.namespaced" .) $it -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Every namespace that may need rules. */}}
{{- define "topoloom.namespaces" -}}
{{- $config := include "topoloom.configNamespace" . -}}
{{- $all := list .Release.Namespace $config "default" -}}
{{- range concat .Values.access.secrets .Values.access.configMaps .Values.plugins.watched (default (list) .Values.plugins.pullSecrets) -}}
{{- $all = append $all (default $config .namespace) -}}
{{- end -}}
{{- uniq $all | toJson -}}
{{- end -}}

{{/* The names from a list of {name, namespace} that are in one namespace. Takes {root, namespace, list}. */}}
{{- define "topoloom.namesIn" -}}
{{- $config := include "topoloom.configNamespace" .root -}}
{{- $namespace := .namespace -}}
{{- $names := list -}}
{{- range .list -}}
{{- if eq $namespace (default $config .namespace) -}}{{- $names = append $names .name -}}{{- end -}}
{{- end -}}
{{- if $names -}}{{- uniq $names | toJson -}}{{- end -}}
{{- end -}}

{{- define "topoloom.rules.shared" -}}
{{- $v := .root.Values -}}
{{- if and $v.leaderElection.enabled (eq .namespace .root.Release.Namespace) }}
{{- $leases := list -}}
{{- if include "topoloom.runs" (dict "root" .root "name" "hyperNode-controller") -}}
{{- $leases = append $leases (include "topoloom.lease" .root) -}}
{{- end -}}
{{- if include "topoloom.runs" (dict "root" .root "name" "nodelock-sweeper") -}}
{{- $leases = append $leases (printf "%s-nodelock" (include "topoloom.lease" .root)) -}}
{{- end -}}
{{- if $leases }}
# Leader election, one lease per group of controllers. A create cannot be restricted by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# list and watch have the field selector metadata.name, so resourceNames can restrict them. With them a follower sees at once
# that a lease is free. update: every renewal carries the resourceVersion that it was decided on.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ $leases | toJson }}
  verbs: [get, list, watch, update]
{{- end }}
{{- end }}
{{- $locks := or (include "topoloom.extends" .root) (include "topoloom.sweeps" .root) -}}
{{- if and (not $v.readOnly) (not $locks) (or (eq .namespace "default") (and $v.leaderElection.enabled (eq .namespace .root.Release.Namespace))) }}
# Events about cluster-wide objects such as DiscoverySources are in the namespace default; those about leases are beside the
# lease. patch counts an Event that happens again. Without this rule everything works, but there are no Events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if and $locks (not (include "topoloom.runs" (dict "root" .root "name" "hyperNode-controller"))) (eq .namespace (include "topoloom.configNamespace" .root)) }}
# No controller here reads the configuration, but an annotation of its ConfigMap switches all writes off. get is for the command
# line in the pod (preflight, status).
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "topoloom.configMap" .root }}]
  verbs: [list, watch, get]
{{- end }}
{{- end -}}

{{/* ----------------------------------------------------------------------------------------- hyperNode-controller */}}

{{- define "topoloom.rules.hyperNode-controller.cluster" }}
# Names, labels and annotations only: the host watches nodes as metadata. It never writes them.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- if or .Values.observe .Values.readOnly }}
# get is for the command line in the pod. With observe or readOnly the host writes nothing.
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [list, watch, get]
{{- else }}
# get: after a conflict the host reads the object again. patch: every write is a server-side apply, and the API server
# requires create as well if the apply creates an object.
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [list, watch, get, create, patch, delete]
# nodeCount and the condition MissingMembers.
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes/status]
  verbs: [patch]
{{- end }}
{{- if .Values.readOnly }}
- apiGroups: [topoloom.dev]
  resources: [discoverysources]
  verbs: [list, watch, get]
{{- else }}
# One object per source; patch also removes the operator's one-time annotations (run, confirm, continue). get is for the
# command line in the pod (`kubectl exec … -- topoloom confirm SOURCE`). The host never deletes them.
- apiGroups: [topoloom.dev]
  resources: [discoverysources]
  verbs: [list, watch, get, create, patch]
- apiGroups: [topoloom.dev]
  resources: [discoverysources/status]
  verbs: [patch]
{{- end }}
{{- with .Values.volcanoLeases }}
{{- $names := . }}
{{- $map := include "topoloom.configMap" $ }}
{{- if hasSuffix "-controller-configmap" $map }}
{{- $names = append $names (printf "%s-hypernode-controller-manager" (trimSuffix "-controller-configmap" $map)) | uniq }}
{{- end }}
# A fresh lease of Volcano's own HyperNode controller means a second writer. By name, in every namespace; list and watch have
# the field selector metadata.name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ $names | toJson }}
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{- define "topoloom.rules.hyperNode-controller.namespaced" -}}
{{- $v := .root.Values -}}
{{- if eq .namespace (include "topoloom.configNamespace" .root) }}
# The configuration, one ConfigMap. get is for the command line in the pod (plan, tree, explain).
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "topoloom.configMap" .root }}]
  verbs: [list, watch, get]
{{- end }}
{{- if and $v.plugins.kept (not $v.readOnly) (eq .namespace .root.Release.Namespace) }}
# Plugins that have served, stored for a rollback after a restart: ConfigMaps topoloom-module-<12 digits of a digest>. Their
# names are not known beforehand, and a create cannot be restricted by name at all, so this rule is for every ConfigMap of this
# namespace. admission.configMaps refuses create and delete of others, but cannot refuse reading: a compromised host could read
# every ConfigMap of this namespace. `plugins.kept: false` removes the rule; then everything works except a rollback after a
# restart. Builtin plugins are never stored.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, delete]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.plugins.watched) }}
# Plugins that entries take from a ConfigMap: the host watches these objects and never writes them.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ . }}
  verbs: [list, watch]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.access.configMaps) }}
# Documents and CA bundles.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ . }}
  verbs: [get, list, watch]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.access.secrets) }}
# Credentials, only by these names. get reads them once per round; with list and watch the host sees a rotation at once.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ . }}
  verbs: [get, list, watch]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" (default (list) $v.plugins.pullSecrets)) }}
# Credentials of registries, only by these names. The host reads them again when a registry refuses them.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ . }}
  verbs: [get]
{{- end }}
{{- end -}}

{{/* ---------------------------------------------------------------- extender and nodelock-sweeper, if they are configured */}}

{{/* The rules that both need, once. Locks are annotations of Nodes, so these rules cannot be restricted by name. admission.nodes
     and admission.pods restrict what may be written. */}}
{{- define "topoloom.rules.locks.cluster" }}
{{- $repairs := and (not .Values.readOnly) (or (include "topoloom.extends" .) (eq "repair" (include "topoloom.sweeps" .))) }}
{{- $watched := include "topoloom.runs" (dict "root" . "name" "hyperNode-controller") }}
# The locks. The host watches Nodes as metadata; if the hyperNode-controller runs, its rule allows that. get: the host reads the
# Node again before a take-over, and never trusts the watch alone.
{{- if $repairs }}
# patch: take and release locks, only in exactly the version of the Node that the decision was made on.
{{- end }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ if not $watched }}list, watch, {{ end }}get{{ if $repairs }}, patch{{ end }}]
# The holder of a lock, and whether that pod may still be bound or served: pods of every namespace. get: as above.
{{- if $repairs }}
# patch: mark a pod that loses its lock, so that it cannot be bound under that lock.
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, get{{ if $repairs }}, patch{{ end }}]
{{- if not .Values.readOnly }}
# Events about Pods are in the namespaces of the Pods, so this rule is for all namespaces. patch counts an Event that happens
# again. Without this rule everything works, but there are no Events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- end -}}

{{- define "topoloom.rules.nodelock-sweeper.cluster" }}
{{- if include "topoloom.sweeps" . }}
{{- include "topoloom.rules.locks.cluster" . }}
{{- end }}
{{- end -}}
{{- define "topoloom.rules.nodelock-sweeper.namespaced" }}{{ end -}}

{{- define "topoloom.rules.extender.cluster" }}
{{- if include "topoloom.extends" . }}
{{- if not (include "topoloom.sweeps" .) }}
{{- include "topoloom.rules.locks.cluster" . }}
{{- end }}
{{- if not .Values.readOnly }}
# kube-scheduler asks the extender to bind pods. A Binding names UID and version of the pod that the decision was made on.
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
{{- end }}
{{- end }}
{{- end -}}
{{- define "topoloom.rules.extender.namespaced" }}{{ end -}}
