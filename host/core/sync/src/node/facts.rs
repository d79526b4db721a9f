//! What a decision about a node follows from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{NodeDecision, Window};
use crate::bars::Bars;
use crate::conditions::{NodeCondition, READY};
use crate::copied::CopyRules;
use crate::deletion::{BoundPod, DeletionTiming, Evictions, Existence, Finalizer, PodClass, RefusedEviction};
use crate::identity::{Claim, Earlier, Identity, Owner, lacking, names_binding};
use crate::keys;
use crate::liveness::{Liveness, LivenessFacts, Machine, OnUnreachable, Reach, Ready, judge};
use crate::merge::{Cordon, Metadata};
use crate::naming::{ClusterId, label_value};
use crate::phase::Phase;
use crate::policy::in_force::{NoPolicy, Policies};
use crate::reclaim::{self, Closing, ClosingMemory, PodRef};
use crate::resources::{ResourceList, WrittenList};
use crate::selector::NodeSelector;
use crate::taints::{DefaultTaint, Taint, Toleration};
use crate::texts::{Document, Keyed, TextMap};
use crate::truth::Truth;
use crate::wall::STEP;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// A binding, as far as its nodes depend on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// Who it is.
    pub identity: Identity,
    /// `spec.clusterID`.
    pub cluster: ClusterId,
    /// `spec.mountNamespace`: its physical pods are there, and nowhere else.
    pub mount: String,
    /// `spec.nodeSelector`.
    pub selector: NodeSelector,
    /// `spec.noPolicy`.
    pub no_policy: NoPolicy,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// `spec.disableNodeDefaultTaint`.
    pub default_taint: DefaultTaint,
    /// `spec.copy`.
    pub copy: CopyRules,
    /// `spec.allowChained`.
    pub chained: Chained,
    /// `spec.physicalWrites`.
    pub claims: NodeClaims,
    /// Where the kubelet's API of its virtual nodes is served, where it is (decision S26).
    pub endpoint: Option<KubeletEndpoint>,
    /// `spec.onUnreachable` and `spec.holdFor`.
    pub on_unreachable: OnUnreachable,
    /// How long a node that left its policy for none does not grow.
    pub grow: Duration,
    /// The times of a deletion.
    pub deletion: DeletionTiming,
    /// Whether the Eviction API may be used.
    pub evictions: Evictions,
}

/// Whether virtual nodes of other topolooms are lent on (decision S22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chained {
    /// They are not.
    #[default]
    Refused,
    /// They are.
    Allowed,
}

/// Whether physical nodes are written to (decision S19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeClaims {
    /// A node is claimed before it is lent.
    #[default]
    Written,
    /// `physicalWrites: none`: the lender grants no right to patch nodes.
    None,
}

/// Where the kubelet's API is served for all virtual nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletEndpoint {
    /// The address of the Service.
    pub address: String,
    /// Its port.
    pub port: u16,
}

/// A physical node.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalNode {
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// Its labels.
    pub labels: TextMap,
    /// Its annotations.
    pub annotations: TextMap,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// `status.allocatable`.
    pub allocatable: Arc<WrittenList>,
    /// `status.capacity`.
    pub capacity: Arc<WrittenList>,
    /// Its first InternalIP.
    pub internal_ip: Option<String>,
    /// `status.nodeInfo` as it stands there.
    pub info: Document,
}

/// A virtual node.
#[derive(Debug, Clone, PartialEq)]
pub struct LentNode {
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// Its finalizers, all of them.
    pub finalizers: Vec<String>,
    /// Its labels, annotations, taints and cordon.
    pub metadata: Metadata,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// `status.allocatable`.
    pub allocatable: Arc<WrittenList>,
    /// `status.capacity`.
    pub capacity: Arc<WrittenList>,
    /// `status.addresses` as it stands there.
    pub addresses: Document,
    /// `status.daemonEndpoints.kubeletEndpoint.Port`.
    pub port: Option<u16>,
    /// `status.nodeInfo` as it stands there.
    pub info: Document,
}

/// A pod that is bound to a virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LentPod {
    /// Which one.
    pub pod: PodRef,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its class.
    pub class: PodClass,
    /// Its phase.
    pub phase: Phase,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// What it tolerates, at least as far as that decides about the taint that [evicts](reclaim::evicting).
    pub tolerations: Vec<Toleration>,
    /// When the API server refused its eviction last.
    pub refused: Option<RefusedEviction>,
    /// How long it has to end from the request to delete it on, where it is being deleted: its `deletionGracePeriodSeconds`.
    pub grace: Option<Duration>,
}

impl LentPod {
    /// As the deletion of its node sees it.
    #[must_use]
    pub fn bound(&self) -> BoundPod {
        BoundPod {
            uid: self.pod.uid.clone(),
            class: self.class,
            phase: self.phase,
            existence: self.existence,
            refused: self.refused,
            grace: self.grace,
        }
    }

    /// As the closing of windows sees it.
    pub(super) fn reclaimed(&self) -> reclaim::Pod {
        reclaim::Pod {
            pod: self.pod.clone(),
            tolerations: self.tolerations.clone(),
            of_daemon_set: self.class == PodClass::DaemonSet,
            terminating: self.existence == Existence::Terminating,
            grace: self.grace,
            phase: self.phase,
        }
    }
}

/// What the cache of physical nodes holds under a name.
#[derive(Debug, Clone, Copy)]
pub enum Physical<'a> {
    /// Nothing is known: the first list has not come, or none since the cluster was unreachable.
    Unlisted,
    /// No such node. That proves nothing.
    Absent,
    /// A node.
    Present(&'a PhysicalNode),
}

/// What a live read of the physical node said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LiveNode {
    /// It was not read.
    #[default]
    Unasked,
    /// There is none of that name.
    Gone,
    /// There is one with this UID.
    Found(Uid),
}

/// What a live read of the virtual node said, where the cache has none.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LiveLent {
    /// It was not read.
    #[default]
    Unasked,
    /// There is none of that name.
    Gone,
    /// There is this one.
    Found(Arc<LentNode>),
}

/// How the pods of the virtual node were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodsBy {
    /// As their watch has shown them: one that was bound a moment ago may be missing.
    #[default]
    Watch,
    /// By a live list for this decision.
    List,
}

/// What an operator asked for (decision S23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerbOnNode {
    /// Nothing.
    #[default]
    None,
    /// `lend drain` or `release`.
    Remove,
    /// `lend detach`: the physical cluster is gone for good, so what is known of its nodes does not matter.
    Detach,
}

/// What the process remembers of a node. Losing it makes every wait longer and none shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// When it was written larger last.
    pub grown: Option<Duration>,
    /// Since when it has no policy although its annotation names one.
    pub alone_since: Option<Duration>,
    /// How far the wall clock was set since its window taint was first seen; of one that an earlier process wrote, also how far our
    /// clock is from that one.
    pub stepped: SignedDuration,
    /// By which time windows are judged, where that is later than now ([`crate::wall::Judged`]).
    pub judged: Option<Timestamp>,
    /// Since when its lease has not been renewed.
    pub unrenewed_since: Option<Duration>,
    /// The present closing of its windows.
    pub closing: ClosingMemory,
}

impl Memory {
    /// The node was decided about.
    pub fn decided(&mut self, decision: &NodeDecision<'_>) {
        let details = decision.details.as_deref();
        // Where it is not known whether they are closed, that they were is not forgotten.
        match details.filter(|details| details.window != Window::Kept) {
            Some(details) => self.closing.decided(&details.reclaim),
            None => self.closing.undecided(),
        }
    }
}

/// The time, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// By the wall clock, which can be set: for windows and for what stands in objects.
    pub wall: Timestamp,
    /// By a clock that cannot be set.
    pub steady: Duration,
}

impl Now {
    /// By how much the wall clock was set since another look, if it was. Two looks have to be close together: over a day a clock that
    /// is slewed drifts as far.
    #[must_use]
    pub fn stepped_since(self, earlier: Self) -> Option<SignedDuration> {
        let wall = self.wall.duration_since(earlier.wall);
        let steady = |now: Self| SignedDuration::try_from(now.steady).unwrap_or(SignedDuration::MAX);
        let by = wall.saturating_sub(steady(self).saturating_sub(steady(earlier)));
        (by.unsigned_abs() > STEP.unsigned_abs()).then_some(by)
    }
}

/// What a decision about one node follows from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The binding.
    pub binding: &'a Binding,
    /// The name of the physical node.
    pub name: &'a str,
    /// The physical node.
    pub physical: Physical<'a>,
    /// What a live read of it said.
    pub live: &'a LiveNode,
    /// The virtual node of the name that it gives.
    pub lent: Option<&'a LentNode>,
    /// What a live read of that said.
    pub live_lent: &'a LiveLent,
    /// The UID of the one that was ours, where its watch shows it no more: it is gone, or its labels were changed.
    pub known: Option<&'a Uid>,
    /// The UIDs of all ClusterBindings by a live list, where one was made for this decision.
    pub bindings: Option<&'a BTreeSet<Uid>>,
    /// The policies.
    pub policies: &'a Policies,
    /// What counts as used of the physical node.
    pub usage: &'a ResourceList,
    /// What the pods of the virtual node request in sum.
    pub requested: &'a ResourceList,
    /// The pods of the virtual node.
    pub pods: &'a [LentPod],
    /// How they were read.
    pub pods_by: PodsBy,
    /// The keys that the `topologyKeys` of its CSINode name.
    pub topology_keys: &'a BTreeSet<String>,
    /// What may not be written.
    pub bars: &'a Bars,
    /// How the connection to the physical cluster is doing.
    pub reach: Reach,
    /// What an operator asked for.
    pub verb: VerbOnNode,
    /// What the process remembers.
    pub memory: &'a Memory,
}

impl<'a> Facts<'a> {
    /// Whose the virtual node is.
    pub(super) fn owner(&self, lent: &LentNode) -> Owner {
        Owner::of_node(&lent.metadata.labels, &self.binding.identity, self.bindings)
    }

    /// What is known of a binding with another UID than ours.
    pub(super) fn earlier(&self, uid: &Uid) -> Earlier {
        Earlier::of(uid, self.bindings)
    }

    /// Whether the virtual node is ours, or becomes ours with the next write.
    pub(super) fn is_ours(&self, lent: &LentNode) -> bool {
        matches!(self.owner(lent), Owner::Ours | Owner::Adoptable(_))
    }

    /// Whether a virtual node with these labels may be ours.
    pub(super) fn may_be_ours(&self, labels: &dyn Keyed) -> bool {
        names_binding(labels, &self.binding.identity)
    }

    /// The labels of identity that a virtual node of ours lacks. No label of it says that it is ours, so something else has to: it was
    /// ours before, under the same UID; or it has our finalizer, and we claim its machine.
    pub(super) fn stripped(&self, lent: &LentNode) -> Option<Vec<&'static str>> {
        let keys = lacking(&lent.metadata.labels, &self.binding.identity)?;
        let claims = || self.present().is_some_and(|physical| self.claim(physical) == Claim::Ours);
        let is_ours = self.known == Some(&lent.uid) || (lent.finalizer() == Finalizer::Present && claims());
        is_ours.then_some(keys)
    }

    /// The virtual node that no watch shows, and that a live read has found to be ours all the same.
    pub(super) fn hidden(&self) -> Option<&'a LentNode> {
        let (None, LiveLent::Found(lent)) = (self.lent, self.live_lent) else { return None };
        let is_back = || self.known == Some(&lent.uid) && self.may_be_ours(&lent.metadata.labels);
        (self.stripped(lent).is_some() || is_back()).then_some(&**lent)
    }

    /// Who claims a physical node.
    pub(super) fn claim(&self, physical: &PhysicalNode) -> Claim {
        let value = physical.annotations.text(keys::LEASED_BY);
        Claim::read(value, &self.binding.identity)
    }

    /// Whether the claim on the machine of a virtual node of ours was edited, so that it is none any more.
    pub(super) fn is_claim_broken(&self, physical: &PhysicalNode) -> bool {
        let is_lent = self.lent.is_some() && self.binding.claims == NodeClaims::Written;
        is_lent && matches!(self.claim(physical), Claim::Malformed(_))
    }

    /// What is remembered of the present closing of its windows. A virtual node that is made anew has none behind it.
    pub(super) fn closing(&self) -> Option<Closing> {
        self.lent.and(self.memory.closing.known())
    }

    /// The physical node, where the cache has one.
    pub(super) fn present(&self) -> Option<&'a PhysicalNode> {
        match self.physical {
            Physical::Present(physical) => Some(physical),
            Physical::Unlisted | Physical::Absent => None,
        }
    }

    /// Whether the node lives, and who writes its conditions.
    pub(super) fn liveness(&self, now: Duration) -> Liveness {
        let facts = LifeFacts {
            lent: self.lent.or_else(|| self.hidden()),
            physical: self.physical,
            reach: self.reach,
            on_unreachable: self.binding.on_unreachable,
            unrenewed_since: self.memory.unrenewed_since,
        };
        facts.judge(now)
    }
}

/// What shows whether a virtual node lives.
#[derive(Debug, Clone, Copy)]
pub struct LifeFacts<'a> {
    /// The virtual node, where one is known.
    pub lent: Option<&'a LentNode>,
    /// Its machine.
    pub physical: Physical<'a>,
    /// How the connection to the physical cluster is doing.
    pub reach: Reach,
    /// What the binding wants while that does not answer.
    pub on_unreachable: OnUnreachable,
    /// Since when its lease has not been renewed.
    pub unrenewed_since: Option<Duration>,
}

impl LifeFacts<'_> {
    /// Whether it lives, and who writes its conditions. Where there is no physical node, the virtual one says it.
    #[must_use]
    pub fn judge(&self, now: Duration) -> Liveness {
        let virtual_ready = self.lent.map_or(Ready::Absent, |lent| ready(&lent.conditions));
        let facts = LivenessFacts {
            reach: self.reach,
            on_unreachable: self.on_unreachable,
            machine: match self.physical {
                Physical::Unlisted => Machine::Unlisted,
                Physical::Absent => Machine::Shown(virtual_ready),
                Physical::Present(physical) => Machine::Shown(ready(&physical.conditions)),
            },
            virtual_ready,
            unrenewed_since: self.unrenewed_since,
        };
        judge(&facts, now)
    }
}

impl LentNode {
    /// Whether our finalizer is on it.
    pub(super) fn finalizer(&self) -> Finalizer {
        if self.finalizers.iter().any(|finalizer| finalizer == keys::VNODE_FINALIZER) {
            Finalizer::Present
        } else {
            Finalizer::Absent
        }
    }

    /// Whether it says that its machine is the one with this UID. Label or annotation may have been edited, and a label has a hash of a
    /// UID that is too long for one.
    #[must_use]
    pub fn names_uid(&self, uid: &Uid) -> bool {
        let is_it = |said: &str| *said == *label_value(uid) || *said == **uid;
        let maps = [&self.metadata.labels, &self.metadata.annotations];
        maps.into_iter().filter_map(|map| map.text(keys::PHYSICAL_NODE_UID)).any(is_it)
    }

    /// Since when it is marked for deletion: the annotation beside the taint, or the time of the taint where that found no room.
    pub(super) fn marked(&self) -> Option<Timestamp> {
        let marks = || self.metadata.taints.iter().filter(|taint| taint.key == keys::DELETING_TAINT);
        marks().next()?;
        let time = self.metadata.annotations.get(keys::DELETION_TAINT_TIME).and_then(|time| time.parse().ok());
        time.or_else(|| marks().find_map(|taint| taint.time_added))
    }

    /// Whether it takes pods.
    pub(super) fn is_cordoned(&self) -> bool {
        self.metadata.cordon == Cordon::Cordoned
    }
}

/// The Ready condition of a node.
pub(super) fn ready(conditions: &[NodeCondition]) -> Ready {
    match conditions.iter().find(|condition| condition.kind == READY).map(|ready| &ready.status) {
        None => Ready::Absent,
        Some(Truth::True) => Ready::True,
        Some(Truth::False) => Ready::False,
        Some(Truth::Unknown | Truth::Other(_)) => Ready::Unknown,
    }
}
