//! How an orphaned virtual node is taken away: the steps of decision S10, for a binding that does not exist any more.
//!
//! What is known of the binding is what stands on the node. Nothing is asked of the physical cluster: the claim on the machine
//! is released by itself, when the virtual node is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use topoloom_core::names::Uid;
use topoloom_core::text::line;

use super::SHOWN;
use crate::bars::Bars;
use crate::copied::CopyRules;
use crate::deletion::{DeletionTiming, Evictions, Existence, Leave};
use crate::identity::{Identity, IdentityError};
use crate::keys;
use crate::liveness::{OnUnreachable, Reach};
use crate::naming::{BindingName, ClusterId, NameError, label_value, virtual_node_name};
use crate::node::{
    Binding, Chained, Facts, LentNode, LentPod, LiveLent, LiveNode, Memory, NodeClaims, NodeOrder, Now, Physical,
    PodsBy, VerbOnNode, draft,
};
use crate::policy::in_force::{NoPolicy, Policies};
use crate::resources::ResourceList;
use crate::selector::NodeSelector;
use crate::taints::DefaultTaint;
use crate::texts::Keyed;

/// The binding that made a virtual node, and the machine that the node stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Former {
    binding: Binding,
    physical: String,
}

/// Why a virtual node does not show which binding made it. Then it is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFormer {
    /// A label or annotation is missing.
    #[error("it has no {0}")]
    Missing(&'static str),
    /// The name of the binding is too long for a label, and the one that was given is another.
    #[error("its label {} is {:?}, which is the hash of a long name: give the name of the binding", keys::BINDING, line(.0, SHOWN))]
    Hashed(String),
    /// One of its names is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its identity is none.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The name that its labels give is another one.
    #[error("its labels and annotations give the name {0}, so one of them was edited")]
    OtherName(String),
}

/// Reads which binding made a virtual node of this virtual cluster. `named`: the binding that was asked for, which tells the
/// whole name where the label is a hash.
///
/// # Errors
/// What is missing, or does not fit together.
pub fn former(
    virtual_cluster: &str,
    name: &str,
    lent: &LentNode,
    named: Option<&BindingName>,
    timing: DeletionTiming,
) -> Result<Former, NoFormer> {
    let (labels, annotations) = (&lent.metadata.labels, &lent.metadata.annotations);
    let label = |key: &'static str| labels.text(key).ok_or(NoFormer::Missing(key));
    let in_label = label(keys::BINDING)?;
    let binding = match named.filter(|named| label_value(named) == in_label) {
        Some(named) => named.clone(),
        None => BindingName::parse(in_label).map_err(|_| NoFormer::Hashed(in_label.to_owned()))?,
    };
    let uid: Uid = label(keys::BINDING_UID)?.into();
    let cluster = ClusterId::parse(label(keys::PHYSICAL_CLUSTER_ID)?)?;
    let physical = annotations.text(keys::PHYSICAL_NODE_NAME).ok_or(NoFormer::Missing(keys::PHYSICAL_NODE_NAME))?;
    let given = virtual_node_name(&cluster, physical)?;
    if &*given != name {
        return Err(NoFormer::OtherName(given.to_string()));
    }
    let identity = Identity::new(virtual_cluster.into(), binding, uid)?;
    Ok(Former { binding: gone(identity, cluster, timing), physical: physical.to_owned() })
}

/// A binding of which nothing is known but who it was.
fn gone(identity: Identity, cluster: ClusterId, deletion: DeletionTiming) -> Binding {
    Binding {
        identity,
        cluster,
        selector: NodeSelector::default(),
        // No physical pod is looked at.
        mount: String::new(),
        no_policy: NoPolicy::Withdraw,
        existence: Existence::Terminating,
        default_taint: DefaultTaint::On,
        copy: CopyRules::default(),
        chained: Chained::Refused,
        claims: NodeClaims::None,
        endpoint: None,
        on_unreachable: OnUnreachable::Unknown,
        grow: Duration::ZERO,
        deletion,
        evictions: Evictions::Allowed,
    }
}

/// What has to be done next for a virtual node that was read with all of its pods a moment ago. `since`: when the operator
/// released it, from which its pods have time to leave by themselves.
#[must_use]
pub fn leave(former: &Former, lent: &LentNode, pods: &[LentPod], since: Timestamp, now: Now) -> Vec<NodeOrder> {
    let policies = Policies::new(former.binding.identity.virtual_cluster());
    let (nothing, no_keys, bars, memory) = (ResourceList::new(), BTreeSet::new(), Bars::default(), Memory::default());
    let (live, live_lent) = (LiveNode::Unasked, LiveLent::Unasked);
    let facts = Facts {
        binding: &former.binding,
        name: &former.physical,
        physical: Physical::Unlisted,
        live: &live,
        lent: Some(lent),
        live_lent: &live_lent,
        known: None,
        bindings: None,
        policies: &policies,
        usage: &nothing,
        requested: &nothing,
        pods,
        pods_by: PodsBy::List,
        topology_keys: &no_keys,
        bars: &bars,
        reach: Reach::Reachable,
        // Nothing more will be known of the machine here.
        verb: VerbOnNode::Detach,
        memory: &memory,
    };
    let decision = draft(&facts, now).conclude(Leave::Given { since });
    decision.orders
}
