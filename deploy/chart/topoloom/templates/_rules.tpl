{{/* What the host may do: exactly the calls that it makes, each with its reason. A missing rule is no riddle: the host prints
     the rule that a 403 asks for, in /readyz, in the log and in the condition of the source. (SelfSubjectAccessReviews,
     which `topoloom preflight` asks, are allowed to everybody who is authenticated, by system:basic-user.) */}}

{{/* Rules of the ClusterRole for the controllers that run. */}}
{{- define "topoloom.rules.cluster" -}}
{{- $root := . -}}
{{- range include "topoloom.controllers" . | fromYamlArray -}}
{{- if include "topoloom.runs" (dict "root" $root "name" .) -}}
{{- include (printf "topoloom.rules.%s.cluster" .) $root -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Rules in one namespace, for the controllers that run and for what all of them share. Takes {root, namespace}. */}}
{{- define "topoloom.rules.namespaced" -}}
{{- $it := . -}}
{{- include "topoloom.rules.shared" $it -}}
{{- range include "topoloom.controllers" .root | fromYamlArray -}}
{{- if include "topoloom.runs" (dict "root" $it.root "name" .) -}}
{{- include (printf "topoloom.rules.%s.namespaced" .) $it -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Every namespace in which something may be needed. */}}
{{- define "topoloom.namespaces" -}}
{{- $config := include "topoloom.configNamespace" . -}}
{{- $all := list .Release.Namespace $config "default" -}}
{{- range concat .Values.access.secrets .Values.access.configMaps .Values.plugins.watched -}}
{{- $all = append $all (default $config .namespace) -}}
{{- end -}}
{{- uniq $all | toJson -}}
{{- end -}}

{{/* The names of a list of {name, namespace} that lie in one namespace. Takes {root, namespace, list}. */}}
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
# Who leads, one lease per group of controllers. A create cannot be restricted by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# list and watch carry the field selector metadata.name, which is what lets resourceNames restrict them: a follower hears at
# once that a lease is free. update: every renewal carries the resourceVersion that it was decided on.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ $leases | toJson }}
  verbs: [get, list, watch, update]
{{- end }}
{{- end }}
{{- $locks := or (include "topoloom.extends" .root) (include "topoloom.sweeps" .root) -}}
{{- if and (not $v.readOnly) (not $locks) (or (eq .namespace "default") (and $v.leaderElection.enabled (eq .namespace .root.Release.Namespace))) }}
# Events about objects of the whole cluster, which DiscoverySources are, live in the namespace default; those about leases
# beside the lease. patch counts an Event that happens again. Without this everything works and nobody is told by Event.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if and $locks (not (include "topoloom.runs" (dict "root" .root "name" "hyperNode-controller"))) (eq .namespace (include "topoloom.configNamespace" .root)) }}
# Nobody reads the configuration here, but an annotation of its ConfigMap switches all writes off. get is for the command line
# inside the pod (preflight, status).
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "topoloom.configMap" .root }}]
  verbs: [list, watch, get]
{{- end }}
{{- end -}}

{{/* ----------------------------------------------------------------------------------------- hyperNode-controller */}}

{{- define "topoloom.rules.hyperNode-controller.cluster" }}
# Names, labels and annotations only: nodes are watched as metadata. Never written.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- if or .Values.observe .Values.readOnly }}
# get is for the command line inside the pod. Nothing is written with observe or readOnly.
- apiGroups: [topology.volcano.sh]
  resources: [hypernodes]
  verbs: [list, watch, get]
{{- else }}
# get: an object that a write found changed is read again. patch: every write is a server-side apply, and the API server
# asks for create as well where the apply creates.
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
# One object per source; patch also takes the operator's one-time annotations (run, confirm, continue) off again. get is
# for the command line inside the pod (`kubectl exec … -- topoloom confirm SOURCE`). Never deleted by the host.
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
# A fresh lease of Volcano's own HyperNode controller: a second writer. By name, in whichever namespace it is; list and watch
# carry the field selector metadata.name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: {{ $names | toJson }}
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{- define "topoloom.rules.hyperNode-controller.namespaced" -}}
{{- $v := .root.Values -}}
{{- if eq .namespace (include "topoloom.configNamespace" .root) }}
# The configuration, one ConfigMap. get is for the command line inside the pod (plan, tree, explain).
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "topoloom.configMap" .root }}]
  verbs: [list, watch, get]
{{- end }}
{{- if and $v.plugins.kept (not $v.readOnly) (eq .namespace .root.Release.Namespace) }}
# Modules that served, kept for the way back after a restart: ConfigMaps topoloom-module-<12 digits of a digest>. Their names
# are not known beforehand, and a create cannot be restricted by name at all, so this rule is for every ConfigMap of this
# namespace. create and delete of others are refused by admission.configMaps; reading them is not: a host that is led astray
# could read all that lie here. `plugins.kept: false` takes the rule away, and then everything works but the way back after a
# restart. Builtin plugins are never kept.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, delete]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.plugins.watched) }}
# Plugins that entries take from a ConfigMap: the watch on those objects. Nothing is written into them.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ . }}
  verbs: [list, watch]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.access.configMaps) }}
# Documents and bundles of authorities.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: {{ . }}
  verbs: [get, list, watch]
{{- end }}
{{- with include "topoloom.namesIn" (dict "root" .root "namespace" .namespace "list" $v.access.secrets) }}
# Credentials, by name and no other. get reads them once per round; with list and watch a rotation is heard of at once.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ . }}
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{/* ------------------------------------------------------------- extender and nodelock-sweeper, where they are configured */}}

{{/* What both need, once. Locks are annotations of Nodes, so nothing here can be restricted by name, and what may be written is
     narrowed by admission.nodes and admission.pods. */}}
{{- define "topoloom.rules.locks.cluster" }}
{{- $repairs := and (not .Values.readOnly) (or (include "topoloom.extends" .) (eq "repair" (include "topoloom.sweeps" .))) }}
{{- $watched := include "topoloom.runs" (dict "root" . "name" "hyperNode-controller") }}
# The locks. Nodes are watched as metadata, where the hyperNode-controller runs by its rule. get: nobody loses a lock by what a
# watch said last.
{{- if $repairs }}
# patch: locks are taken and given back, in exactly the version that was judged.
{{- end }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [{{ if not $watched }}list, watch, {{ end }}get{{ if $repairs }}, patch{{ end }}]
# Who holds a lock, and whether that pod may still be bound or served: pods of every namespace. get: as above.
{{- if $repairs }}
# patch: the mark of a pod that loses its lock, so that it is not bound under it.
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, get{{ if $repairs }}, patch{{ end }}]
{{- if not .Values.readOnly }}
# Events about Pods live in the namespaces of the Pods, so these are for all of them. patch counts an Event that happens again.
# Without this everything works and nobody is told by Event.
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
# Binding pods is what kube-scheduler asks the extender for. A Binding names UID and version of the pod that was judged.
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
{{- end }}
{{- end }}
{{- end -}}
{{- define "topoloom.rules.extender.namespaced" }}{{ end -}}

{{/* --------------------------------------------------------- controllers that wait until they are configured: no calls */}}

{{- define "topoloom.rules.bottomup-syncer.cluster" }}{{ end -}}
{{- define "topoloom.rules.bottomup-syncer.namespaced" }}{{ end -}}
