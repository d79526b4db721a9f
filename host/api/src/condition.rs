//! Conditions: one type that reads what any program wrote, and the words that we use in ours.
//!
//! `lastTransitionTime` is text on purpose: the API server accepts more spellings of a date than an RFC 3339 parser
//! does, and a condition of another program must not stop the watch.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One condition of an object's status, as Kubernetes defines it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What the condition is about; unique in its list.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The `metadata.generation` that was looked at.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "crate::lenient::optional_integer")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed, RFC 3339.
    pub last_transition_time: String,
    /// One CamelCase word for programs.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
}

/// The three values of a condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It could not be found out.
    Unknown,
}

impl ConditionStatus {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Declares an enum of CamelCase words and their text, so that no word is written twice.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$word_meta:meta])* $word:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$word_meta])* $word,)*
        }

        impl $name {
            /// All words, in the order in which they are declared.
            pub const ALL: &'static [Self] = &[$(Self::$word,)*];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => stringify!($word),)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The types of conditions that we write.
    ConditionType {
        /// The source serves what its entry asks for; the binding, what its spec and its policies ask for. What
        /// `kubectl wait`, Argo CD and Flux look at.
        Ready,
        /// The entry of the configuration is valid and is what runs.
        Configured,
        /// A plugin is loaded, compiled and allowed to do what it asks for.
        Loaded,
        /// The last round produced a result.
        Discovered,
        /// The last result is what the cluster holds.
        Applied,
        /// A result, or a batch of evictions and deletions, waits for confirmation; nothing of it is written.
        Held,
        /// What the cluster holds is older than it should be.
        Stale,
        /// Nodes that exist lose their places.
        CoverageFalls,
        /// Some Node is in two groups of one tier.
        Overlap,
        /// Another program keeps changing our objects, or Volcano's own controller is alive.
        SecondWriter,
        /// Some HyperNode names members that do not exist.
        MissingMembers,
        /// A tier name already means another tier.
        TierNameConflict,
        /// A name that must be used is taken by an object of someone else.
        NameConflict,
        /// The result differs from what Volcano makes of the same document, or its form was chosen for compatibility.
        Compatibility,
        /// An endpoint is called without checking its certificate.
        InsecureTls,
        /// A plugin that serves or served is stored nowhere: after a restart a rollback to it is not possible.
        ModuleNotStored,
        /// The physical cluster of a binding answers, and accepts its credentials.
        Connected,
        /// Another binding or borrower has what this binding needs.
        Conflict,
        /// Another physical cluster answers than the one that the binding borrows from.
        PhysicalClusterChanged,
        /// One of the two clusters of a binding was set back to an earlier state.
        Restored,
        /// An operator paused the binding.
        Paused,
        /// The spec of a policy is valid.
        Valid,
        /// A policy is valid, and its windows are open.
        Active,
        /// Another policy is in force wherever this one could be.
        Shadowed,
        /// The pods of a virtual node request more than is lent now.
        Overcommitted,
    }
}

words! {
    /// The reasons that we give in conditions and Events.
    Reason {
        /// All is as it should be.
        Ok,
        /// Not there yet; will change without anyone's help.
        Pending,
        /// The entry of the configuration is invalid; the last good one runs on.
        InvalidConfig,
        /// The document of the configuration cannot be read at all.
        InvalidDocument,
        /// The ConfigMap, or its key, does not exist.
        ConfigMissing,
        /// The entry says `enabled: false`, or is gone.
        Disabled,
        /// The operator paused the source or the binding.
        Paused,
        /// No host runs: the last one stopped.
        HostStopped,
        /// The host does everything but write.
        Observing,
        /// No plugin of that name, or no such file or key.
        PluginNotFound,
        /// The bytes do not have the digest that is pinned.
        DigestMismatch,
        /// The bytes are no plugin for this host.
        PluginInvalid,
        /// Digest or signature are missing, or not those of a trusted key.
        Untrusted,
        /// The plugin asks for something that is not granted.
        PermissionDenied,
        /// A plugin waits for the operator before it takes over.
        CanaryHeld,
        /// Another plugin serves from now on.
        Swapped,
        /// A new plugin failed, and the one before it serves again.
        RolledBack,
        /// A plugin could not be stored for a rollback; storing it is tried again.
        StoreFailed,
        /// A task of the host for this source crashed, which is a defect of topoloom; the source was restarted.
        Crashed,
        /// The plugin failed too often and is left alone for a while.
        Quarantined,
        /// The plugin reported a failure.
        GuestError,
        /// The plugin crashed.
        Trap,
        /// The plugin used up its time.
        Deadline,
        /// The plugin used up its memory.
        OutOfMemory,
        /// The result breaks a rule of topologies.
        InvalidResult,
        /// An endpoint is unreachable or answers nonsense.
        Upstream,
        /// An endpoint does not accept the credentials.
        Unauthorized,
        /// A Secret is missing or lacks a key.
        CredentialsMissing,
        /// The round would delete too many HyperNodes.
        TooManyDeletions,
        /// The round would take the placement from too many Nodes.
        TooManyNodesLost,
        /// Nodes that had a place lately have none in the newest result.
        NodesWithoutPlace,
        /// The round is empty while the source has objects.
        EmptyResult,
        /// The configuration names no source any more, while HyperNodes would go with theirs.
        EmptyDocument,
        /// The operator, or time, confirmed a held round; the operator confirmed a held batch, or another or restored
        /// cluster.
        Confirmed,
        /// Some writes failed and will be tried again.
        WriteFailed,
        /// The API server refuses what would be written; the message names the field.
        WriteRefused,
        /// The API server took what was written, and did not store all of it; the message names the fields.
        WriteNotStored,
        /// A name is taken by an object that is not ours.
        NameTaken,
        /// Another program writes the same objects.
        ForeignWriter,
        /// A fresh lease of Volcano's controller exists.
        VolcanoActive,
        /// Two sources, or two types, place one Node in one tier.
        SharedNodes,
        /// A member does not exist.
        MemberNotFound,
        /// One tier name would mean two tiers.
        TierNameTaken,
        /// `compat: volcano` was assumed because of the objects found.
        CompatAssumed,
        /// Volcano's result for the same document is another one.
        DiffersFromVolcano,
        /// `insecureSkipVerify` is set.
        VerificationOff,
        /// The spec is valid.
        ValidationPassed,
        /// The spec breaks a rule, or cannot be read; the message names the field.
        ValidationError,
        /// A window of the policy is open, or it has none and is always active.
        ActiveTimeWindow,
        /// No window of the policy is open.
        InactiveTimeWindow,
        /// The policy is in force on at least one node.
        InForce,
        /// The policy selects no node that its binding selects.
        SelectsNoNode,
        /// Another policy comes first on every node that this one selects; the message names it.
        Shadowed,
        /// The pods of the virtual node request no more than is lent.
        Fits,
        /// The pods of the virtual node request more than is lent; the message names the resources.
        LentLessThanRequested,
        /// The API server of the physical cluster has not answered for a while; nothing is created, evicted or deleted.
        PhysicalClusterSuspect,
        /// The API server of the physical cluster does not answer.
        PhysicalClusterUnreachable,
        /// The kubeconfig cannot be used: it is no kubeconfig, or has something that is refused.
        CredentialsInvalid,
        /// The certificate or token of the kubeconfig ends soon.
        CredentialsExpiring,
        /// A right is missing; the message names verb and resource.
        Forbidden,
        /// The batch would remove too many of the running pods.
        TooManyPodsRemoved,
        /// The batch would take away too many of the nodes.
        TooManyNodesRemoved,
        /// The Lease in `mountNamespace` belongs to another binding or another virtual cluster.
        BorrowerLeaseTaken,
        /// Another binding has the same `clusterID`.
        ClusterIdTaken,
        /// Another installation of topoloom serves the binding, and this one stays away from it.
        ServedElsewhere,
        /// Physical nodes that the binding selects are claimed by another binding or borrower, and are left out.
        NodesClaimed,
        /// The annotation with the claim of physical nodes was edited, and is no claim.
        ClaimsUnreadable,
        /// Virtual nodes of the binding lack labels of identity, lead to no physical node, or are of an earlier binding of its name that had
        /// another `clusterID`; the message names them.
        NodesUnclear,
        /// Objects with the name of this binding belong to another binding that exists.
        BindingExists,
        /// Another physical cluster answers at the address of the kubeconfig.
        AnotherCluster,
        /// The kubeconfig leads to the virtual cluster itself: no cluster lends to itself.
        SameCluster,
        /// The namespace `mountNamespace` does not exist in the physical cluster, or that of placeholders in the virtual one.
        NamespaceMissing,
        /// The definition of policies is not installed in the cluster that they are read from.
        DefinitionMissing,
        /// The physical cluster has more nodes, pods or policies than one syncer reads; the message has the bound.
        TooManyObjects,
        /// The virtual cluster was set back to an earlier state.
        VirtualClusterRestored,
        /// The physical cluster was set back to an earlier state.
        PhysicalClusterRestored,
        /// The binding is being deleted; its virtual nodes go first.
        Deleting,
        /// An operator drains the binding.
        Draining,
        /// Writes are switched off in the whole process.
        ReadOnly,
        /// The wall clock was set, or is not that of the replica that served the binding before.
        ClockDiffers,
        /// The API server of the physical cluster answers again.
        PhysicalClusterReachable,
        /// A virtual node is being taken away; the message says why.
        NodeLeaving,
        /// Pods were evicted or deleted from a virtual node; the message says why.
        PodsRemoved,
        /// The physical pod of a virtual one lost labels by which it is followed; the message names them.
        PodNotFollowed,
        /// A virtual node lacks labels or annotations that its machine has, or keeps some that it has not; the message names
        /// them.
        MetadataIncomplete,
    }
}

impl Condition {
    /// A condition without a transition time; [`set_condition`] gives it one.
    #[must_use]
    pub fn new(type_: ConditionType, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            type_: type_.as_str().to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.as_str().to_owned(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same condition with the generation that was looked at.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }
}

/// Puts `condition` into the list, in place of the one of its type, and says whether anything changed.
///
/// `now` (RFC 3339) becomes the transition time only where the status changes; what is equal stays untouched, so that
/// an unchanged round writes nothing.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: &str) -> bool {
    let Some(old) = conditions.iter_mut().find(|old| old.type_ == condition.type_) else {
        condition.last_transition_time = now.to_owned();
        conditions.push(condition);
        return true;
    };
    condition.last_transition_time =
        if old.status == condition.status { old.last_transition_time.clone() } else { now.to_owned() };
    let changed = *old != condition;
    *old = condition;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut list = Vec::new();
        let held = |status, message: &str| Condition::new(ConditionType::Held, status, Reason::EmptyResult, message);
        assert!(set_condition(&mut list, held(ConditionStatus::True, "a"), "t1"));
        assert!(!set_condition(&mut list, held(ConditionStatus::True, "a"), "t2"), "nothing changed");
        assert!(set_condition(&mut list, held(ConditionStatus::True, "b"), "t3"));
        assert_eq!(list.first().map(|it| it.last_transition_time.as_str()), Some("t1"));
        assert!(set_condition(&mut list, held(ConditionStatus::False, "b"), "t4"));
        assert_eq!(list.first().map(|it| it.last_transition_time.as_str()), Some("t4"));
        let other = Condition::new(ConditionType::Stale, ConditionStatus::Unknown, Reason::Pending, "");
        assert!(set_condition(&mut list, other, "t5"));
        assert_eq!(list.len(), 2);
    }
}
