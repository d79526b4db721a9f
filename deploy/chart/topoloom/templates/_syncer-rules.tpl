{{/* The rights of the bottom-up syncer in this cluster: exactly the calls that it makes, each with its reason. Its rights in a
     physical cluster are the lender's to grant: `topoloom lend grant` prints them. RBAC cannot express that only virtual nodes and
     their pods are touched: the policies of syncer-admission.yaml restrict that. */}}

{{- define "topoloom.syncer.rules.cluster" -}}
{{- $v := .Values -}}
# The UID of this namespace is the identity of the cluster: everything that the syncer makes carries it, in both clusters.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
- apiGroups: [topoloom.dev]
  resources: [clusterbindings]
  {{- if not $v.readOnly }}
  # patch: the finalizer of a binding, and the removal of one-time annotations of operators (such as confirm).
  {{- end }}
  verbs: [get, list, watch{{ if not $v.readOnly }}, patch{{ end }}]
- apiGroups: [""]
  resources: [nodes]
  {{- if not $v.readOnly }}
  # patch: taints with labels and annotations, the cordon and the finalizer. Every write carries the version that it was decided on.
  {{- end }}
  verbs: [get, list, watch{{ if not $v.readOnly }}, create, patch, delete{{ end }}]
# Pods of every namespace that are bound to virtual nodes.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch{{ if not $v.readOnly }}, delete{{ end }}]
- apiGroups: [storage.k8s.io]
  resources: [csinodes]
  verbs: [get, list, watch{{ if not $v.readOnly }}, create, patch, delete{{ end }}]
{{- if $v.syncer.virtualPolicies }}
- apiGroups: [topoloom.dev]
  resources: [resourceleasingpolicies]
  verbs: [get, list, watch]
{{- if not $v.readOnly }}
# Whether a policy is valid and in force, and its last valid version.
- apiGroups: [topoloom.dev]
  resources: [resourceleasingpolicies/status]
  verbs: [patch]
{{- end }}
{{- end }}
{{- if not $v.readOnly }}
- apiGroups: [topoloom.dev]
  resources: [clusterbindings/status]
  verbs: [patch]
# Sizes, conditions, labels and annotations of virtual nodes.
- apiGroups: [""]
  resources: [nodes/status]
  verbs: [patch]
# How the physical pod is doing.
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- if $v.syncer.evictions }}
# Evictions honour PodDisruptionBudgets. No admission policy sees the pod of an Eviction, so this rule is for every pod of the
# cluster. `syncer.evictions: false` removes it; the syncer then deletes a pod at the end of its deadline.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- end }}
# Events about virtual pods are in the namespaces of the pods, so this rule is for all namespaces. patch counts an Event that
# happens again. Without this rule everything works, but there are no Events.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- if $v.syncer.kubelet.enabled }}
# Whether a caller of `kubectl logs` and `kubectl exec` may use a kubelet.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- end -}}

{{/* Every namespace that may need rules. */}}
{{- define "topoloom.syncer.namespaces" -}}
{{- $all := list .Release.Namespace (include "topoloom.configNamespace" .) "kube-node-lease" "kube-system" -}}
{{- if .Values.syncer.hostPorts -}}
{{- $all = append $all (include "topoloom.syncer.hostPortNamespace" .) -}}
{{- end -}}
{{- $all | uniq | toJson -}}
{{- end -}}

{{/* Rules in one namespace. Takes {root, namespace}. */}}
{{- define "topoloom.syncer.rules.namespaced" -}}
{{- $v := .root.Values -}}
{{- $own := eq .namespace .root.Release.Namespace -}}
{{- if eq .namespace "kube-node-lease" }}
# The heartbeats of virtual nodes, also with readOnly. The syncer lists them once, when it takes over a binding.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, update]
{{- end }}
{{- if and $own $v.leaderElection.enabled }}
# Which replica serves which binding, and which replicas there are: one lease for each. Their names have hashes, so no rule can
# name them; an admission policy restricts the names that are written. patch: the witness of a binding, by which a restored etcd
# is noticed. delete: what a replica that died left.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch, delete]
{{- end }}
{{- if and $own (not $v.leaderElection.enabled) }}
# One lease for each binding: the witness in it, by which a restored etcd is noticed. Without it nothing is evicted or deleted. Their
# names have hashes, so no rule can name them; an admission policy restricts the names that are written. list: bindings that were
# deleted by force, whose nodes are kept alive.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, create, patch]
{{- end }}
{{- if $own }}
# The kubeconfigs, only by these names. With list and watch, which have the field selector metadata.name, the syncer uses a new
# one without a restart.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: {{ toJson $v.syncer.secrets }}
  verbs: [get, list, watch]
{{- end }}
{{- if eq .namespace (include "topoloom.configNamespace" .root) }}
# The syncer does not read the configuration, but an annotation of its ConfigMap switches all writes off except those of leases.
# get is for the command line in the pod (preflight, status).
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ include "topoloom.configMap" .root }}]
  verbs: [list, watch, get]
{{- end }}
{{- if and $v.syncer.hostPorts (not $v.readOnly) (eq .namespace (include "topoloom.syncer.hostPortNamespace" .root)) }}
# The placeholder pods that hold host ports of virtual nodes. An admission policy restricts what is in them and where they are.
- apiGroups: [""]
  resources: [pods]
  verbs: [create]
{{- end }}
{{- if and $v.syncer.kubelet.enabled (eq .namespace "kube-system") }}
# The authority that signs client certificates of this cluster, those of API servers among them. It is not read with
# syncer.kubelet.clientAuthoritiesConfigMap.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [extension-apiserver-authentication]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}
