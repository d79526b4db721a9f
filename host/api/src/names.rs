//! Every key and fixed name that the cluster sees, once.
//!
//! A label or annotation key is an interface: other programs, dashboards and operators' habits depend on it. Nothing
//! here is ever renamed; a new meaning gets a new key. The keys of lending have a room of their own, [`lending`].

/// The group of every key of ours (decision D15).
macro_rules! group {
    () => {
        "topoloom.dev"
    };
}

/// A key of ours.
macro_rules! key {
    ($name:literal) => {
        concat!(group!(), "/", $name)
    };
}

pub mod lending;

/// The API group of our resources.
pub const GROUP: &str = group!();

/// How every key of ours begins.
pub const PREFIX: &str = key!("");

/// API group of HyperNode, which is Volcano's.
pub const VOLCANO_TOPOLOGY_GROUP: &str = "topology.volcano.sh";

/// Label on a HyperNode: the source that owns it. Ownership, listing and deletion are decided by this label alone.
pub const SOURCE_LABEL: &str = "volcano.sh/network-topology-source";

/// Annotation on a HyperNode: the opaque identity of its group, unique in its source.
pub const GROUP_ID_ANNOTATION: &str = key!("group-id");

/// Annotation on a HyperNode: the object whose Nodes it was first made of. While a domain is relabelled Node by Node
/// this says which of the two objects keeps the name at the end.
pub const SPLIT_FROM_ANNOTATION: &str = key!("split-from");

/// Annotation on a HyperNode: what people call its group, for instance the switches of a unit.
pub const DESCRIPTION_ANNOTATION: &str = key!("description");

/// Annotation on a DiscoverySource: apply the held result with exactly this hash. On a ClusterBinding: carry out the
/// held batch, or accept the other or restored cluster, with exactly this hash.
pub const CONFIRM_ANNOTATION: &str = key!("confirm");

/// Annotation on a DiscoverySource: let the waiting plugin with this digest take over.
pub const CONTINUE_ANNOTATION: &str = key!("continue");

/// Annotation on a DiscoverySource: serve with the plugin of this digest, an earlier one included.
pub const SERVE_ANNOTATION: &str = key!("serve");

/// Annotation on a DiscoverySource: run a round now. Any value that was not seen before counts as a new request.
pub const RUN_ANNOTATION: &str = key!("run");

/// Annotation on a DiscoverySource: while it is `true`, no round runs and nothing is written. On a ClusterBinding:
/// while it is `true`, leases are renewed and facts are mirrored, and nothing is created, resized, evicted or deleted.
pub const PAUSE_ANNOTATION: &str = key!("pause");

/// Annotation on a ClusterBinding: while it is `true`, all of its nodes take no new pods, their pods are evicted as their
/// disruption budgets allow, and then the virtual nodes go. Names of nodes with commas between them: these nodes. On a
/// virtual node: while it is `true`, that one; a node that went is lent again.
pub const DRAIN_ANNOTATION: &str = key!("drain");

/// Annotation on a ClusterBinding that is being deleted: the UID of the physical cluster that is gone for good. The
/// deletion does not wait for that cluster.
pub const DETACH_ANNOTATION: &str = key!("detach");

/// Name of the definition of ClusterBindings.
pub const CLUSTER_BINDING_CRD: &str = "clusterbindings.topoloom.dev";

/// Name of the definition of ResourceLeasingPolicies.
pub const RESOURCE_LEASING_POLICY_CRD: &str = "resourceleasingpolicies.topoloom.dev";

/// Annotation on a ConfigMap that keeps a module: its whole digest.
pub const MODULE_DIGEST_ANNOTATION: &str = key!("module-digest");

/// Annotations of the manifest of an OCI artifact that is a plugin: its declaration (`plugin.yaml`), and its signature
/// (`plugin.sig`). The form of such keys is the image specification's: a domain from behind.
pub const OCI_DECLARATION_ANNOTATION: &str = "dev.topoloom.plugin.declaration";
/// The second of them.
pub const OCI_SIGNATURE_ANNOTATION: &str = "dev.topoloom.plugin.signature";

/// Label on what the host makes for itself, and its value (Kubernetes' recommended labels).
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// See [`MANAGED_BY_LABEL`].
pub const MANAGED_BY: &str = "topoloom";

/// The field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "topoloom";

/// The reporting component of every Event.
pub const EVENT_COMPONENT: &str = "topoloom";

/// Node label whose value is the Node's own name; as the last level of a label list it means the Node itself.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// On a Lease without a holder: the holder that released it. Others then need not wait for that holder's time to pass.
pub const RELEASED_ANNOTATION: &str = key!("released-by");

/// Label on what belongs to an installation, as the chart sets it and a host on its leases: by it the command line
/// finds one.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
/// See [`NAME_LABEL`].
pub const NAME: &str = "topoloom";

/// On a Lease: `NAMESPACE/NAME` of the ConfigMap from which its holder takes the configuration.
pub const CONFIGURATION_ANNOTATION: &str = key!("configuration");

/// Label on a Lease by which a replica announces itself as one of those that serve bindings: the name of their leases,
/// hashed when it is no label value. Such a Lease is of no leader, so it does not have [`NAME_LABEL`].
pub const MEMBER_LABEL: &str = key!("member-of");

/// An annotation that `topoloom preflight` asks to put on a Node of a lender, which has to be refused. It is asked for as a dry run,
/// and never stored.
pub const PREFLIGHT_ANNOTATION: &str = key!("preflight");

/// On the ConfigMap of the configuration: `"true"` stops all writes except leases, on every replica.
pub const READ_ONLY_ANNOTATION: &str = key!("read-only");

/// Annotation on a Node: our notes about the locks beside it, with the UID of the pod that each is for. Each counts
/// only while its value is the lock's, byte for byte.
pub const NODE_LOCK_ANNOTATION: &str = key!("node-lock");

/// Annotation on a Pod that is not bound: the value of a lock that was taken from it.
pub const LOCK_REVOKED_ANNOTATION: &str = key!("lock-revoked");

/// Annotation on a Pod, HAMi's: `allocating`, `success` or `failed`.
pub const BIND_PHASE_ANNOTATION: &str = "hami.io/bind-phase";

/// How annotations on a Pod end that hold a work list, HAMi's: devices that a plugin has not given yet.
pub const DEVICES_TO_ALLOCATE_SUFFIX: &str = "-devices-to-allocate";

/// Annotation on a Pod, HAMi's: when it was bound, in seconds since 1970.
pub const BIND_TIME_ANNOTATION: &str = "hami.io/bind-time";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d15_every_key_of_ours_begins_with_the_one_prefix() {
        assert_eq!((GROUP, PREFIX), ("topoloom.dev", "topoloom.dev/"));
        assert_eq!(CONFIRM_ANNOTATION, "topoloom.dev/confirm");
        assert_eq!(lending::VNODE_FINALIZER, "topoloom.dev/vnode");
    }
}
