//! Every label, annotation, taint and finalizer of lending, once (`bottomup-syncer.md` section 4, decisions D15 and S6).
//!
//! The top-down half, schedulers and operators depend on each of them.

pub use super::{MANAGED_BY, PREFIX};

/// Label on virtual nodes, CSINodes and physical pods: [`MANAGED_BY`].
pub const MANAGED_BY_LABEL: &str = key!("managed-by");
/// Label of identity: the virtual cluster (UID of its namespace `kube-system`).
pub const VIRTUAL_CLUSTER: &str = key!("virtual-cluster");
/// Label of identity: the name of the ClusterBinding, hashed when it is no label value.
pub const BINDING: &str = key!("binding");
/// Label of identity: the UID of the ClusterBinding.
pub const BINDING_UID: &str = key!("binding-uid");
/// Label on a virtual node and its CSINode: the name of the ClusterBinding, as the original system writes it.
pub const CLUSTER_BINDING: &str = key!("cluster-binding");
/// Label on a virtual node and its CSINode: `spec.clusterID`.
pub const PHYSICAL_CLUSTER_ID: &str = key!("physical-cluster-id");
/// Label and annotation on a virtual node: the name of the physical one.
pub const PHYSICAL_NODE_NAME: &str = key!("physical-node-name");
/// Label and annotation on a virtual node: the UID of the physical one.
pub const PHYSICAL_NODE_UID: &str = key!("physical-node-uid");
/// Label on a virtual node: the InternalIP of the physical one, where it has one.
pub const PHYSICAL_NODE_INNER_IP: &str = key!("physical-node-innerip");
/// Annotation on a virtual CSINode: the UID of the physical one.
pub const PHYSICAL_CSI_NODE_UID: &str = key!("physical-csinode-uid");

/// Annotation on what we write: when, RFC 3339. It changes with another change only.
pub const LAST_SYNC_TIME: &str = key!("last-sync-time");
/// Annotation on a virtual node: the policy in force, or nothing.
pub const POLICIES_APPLIED: &str = key!("policies-applied");
/// Annotation on a virtual node: the limits of the policy in force.
pub const POLICY_DETAILS: &str = key!("policy-details");
/// Annotation on a virtual node: which keys and taints we wanted last, the base of the three-way merge.
pub const EXPECTED_METADATA: &str = key!("expected-metadata");
/// Annotation on a virtual node: since when it is being deleted, RFC 3339.
pub const DELETION_TAINT_TIME: &str = key!("deletion-taint-time");
/// Annotation on a virtual node that we cordoned.
pub const CORDONED: &str = key!("cordoned");
/// Annotation on a virtual node outside of its windows: when the clock of its grace started, RFC 3339. It is the `timeAdded` of the
/// taint, for the case that another client takes that off.
pub const RECLAIM_STARTED: &str = key!("reclaim-started");
/// Annotation on a virtual node: since when its taint says NoExecute, RFC 3339.
pub const RECLAIM_SINCE: &str = key!("reclaim-since");
/// Annotation on a virtual node: the longest grace that was in force since its window closed, in seconds.
pub const RECLAIM_GRACE: &str = key!("reclaim-grace");
/// Annotation on a virtual node: which closing of its windows the taint stands for, RFC 3339, where its `timeAdded` was moved since.
pub const RECLAIM_MARKED: &str = key!("reclaim-marked");
/// Annotation on the lease of a virtual node: what the clock of its holder showed at the renewal, RFC 3339, where `renewTime` has to
/// be later than that.
pub const RENEWED_AT: &str = key!("renewed-at");
/// Annotation on a virtual node: the numbers of its size in one line.
pub const LEASE_SUMMARY: &str = key!("lease-summary");

/// Taint of every virtual node, unless the binding switches it off.
pub const VNODE_TAINT: &str = key!("vnode");
/// Taint of a virtual node whose physical one is cordoned, in place of [`UNSCHEDULABLE_TAINT`].
pub const PHYSICAL_UNSCHEDULABLE_TAINT: &str = key!("physical-node-unschedulable");
/// Taint of a virtual node outside of the windows of its policy.
pub const OUT_OF_WINDOWS_TAINT: &str = key!("out-of-time-windows");
/// Taint of a virtual node that is being deleted.
pub const DELETING_TAINT: &str = key!("vnode-deleting");
/// Taint of a virtual node whose physical API server does not answer.
pub const UNREACHABLE_TAINT: &str = key!("physical-unreachable");
/// Kubernetes' taint of a cordoned node.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Finalizer of every virtual node.
pub const VNODE_FINALIZER: &str = key!("vnode");

/// Finalizer of a ClusterBinding that lends, or has claimed anything.
pub const BINDING_FINALIZER: &str = key!("clusterbinding-syncer");

/// Annotation on the Lease that replicas stand for to serve a binding: the counter of the witness, and the copy of it that was
/// confirmed last (decision S25).
pub const WITNESS: &str = key!("witness");
/// Annotation on the same Lease: what is kept of the binding, for the nodes that it leaves if it is deleted by force (decision S22).
pub const BINDING_RECORD: &str = key!("binding-record");
/// Annotation on the Lease of the borrower in the physical cluster: the copy of the witness's counter.
pub const WITNESS_COPY: &str = key!("witness-copy");

/// Label on a physical node: the policy in force.
pub const POLICY_APPLIED: &str = key!("policy-applied");
/// Annotation on a physical node: the binding that claims it.
pub const LEASED_BY: &str = key!("leased-by");

/// Label on a physical pod: the namespace of its virtual pod.
pub const VIRTUAL_NAMESPACE: &str = key!("virtual-namespace");
/// Label on a physical pod: the kind of the virtual pod's owner, in lower case.
pub const WORKLOAD_TYPE: &str = key!("workload-type");
/// Label on a physical pod: the name of the virtual pod's owner.
pub const WORKLOAD_NAME: &str = key!("workload-name");
/// Annotation on a physical pod: the namespace of its virtual pod.
pub const VIRTUAL_POD_NAMESPACE: &str = key!("virtual-pod-namespace");
/// Annotation on a physical pod: the name of its virtual pod.
pub const VIRTUAL_POD_NAME: &str = key!("virtual-pod-name");
/// Annotation on a physical pod: the UID of its virtual pod.
pub const VIRTUAL_POD_UID: &str = key!("virtual-pod-uid");
/// Annotation on a physical pod: the virtual node that its virtual pod is bound to.
pub const VIRTUAL_NODE_NAME: &str = key!("virtual-node-name");
/// Annotation on a virtual pod: the namespace of its physical pod.
pub const PHYSICAL_POD_NAMESPACE: &str = key!("physical-pod-namespace");
/// Annotation on a virtual pod: the name of its physical pod.
pub const PHYSICAL_POD_NAME: &str = key!("physical-pod-name");
/// Annotation on a virtual pod: the UID of its physical pod, from its creation on.
pub const PHYSICAL_POD_UID: &str = key!("physical-pod-uid");

/// Label on a placeholder pod for host ports, with the value `true`.
pub const HOST_PORT_PLACEHOLDER: &str = key!("hostport-fake-pod");
/// The namespace of the virtual cluster where the placeholder pods of all bindings are. The syncer does not make it: the chart does
/// (`syncer.hostPorts`).
pub const HOST_PORT_NAMESPACE: &str = "topoloom-host-ports";
