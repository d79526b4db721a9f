//! The guard against mass evictions of one binding (decision S9).
//!
//! Owns the count of disruptive acts and the decision whether they happen. A disruptive act is a taint to NoExecute, the
//! eviction or deletion of a pod in either cluster, or the deletion of a virtual node. Some causes are free: the lender
//! announced them, an operator asked for them, or a machine is really gone. All others form a batch. A batch beyond the limits of
//! the binding is held: its nodes take no new pods, and nothing else happens until an operator confirms exactly this batch, or
//! its cause goes. Never: releases anything because time passed.
//!
//! # Failure story
//!
//! A relabelling job takes nodes away one by one, each within the limits. So what the guard allowed in the last ten minutes
//! counts too: the job is held at the same number of nodes as an edit that takes them all at once.
//!
//! A process that takes over inherits what was spent, what was allowed and what was held ([`Inherited`]). It does not know the acts
//! of a batch that was held, only their hash and their number. Until it has decided about every node again ([`Guard::recalled`]),
//! nothing happens that is neither free nor allowed already; then what is wanted is judged in place of that batch, with the numbers
//! that it was held for. So a restart releases nothing, and acts that are the same have the same hash. What was allowed or confirmed
//! and has not happened yet goes on, and counts once. After a store was set back it does not ([`Guard::forget_grants`]): the state is
//! another one then than what was allowed or confirmed.
//!
//! While a batch waits for a person, pods of it end, one each second in a large one. A batch that only became smaller keeps its
//! hash: that confirms what the person read about, as far as it is still wanted. Where something came to it, the earlier hashes
//! confirm what they were shown with, for ten minutes.

mod batch;
mod grants;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};

use topoloom_core::names::{NodeName, Uid};

pub use self::batch::{BrokenLimit, HeldBatch, HeldBefore, NotHeld, WouldBeHeld};
pub use self::grants::{ActKind, GrantedActs};
use self::grants::{Groups, Unasked};

/// How long acts are gathered before they are judged together.
pub const GATHER: Duration = Duration::from_secs(5);
/// For how long an act that was allowed counts.
pub const REMEMBERED: Duration = Duration::from_secs(600);
/// Up to this many percent of the nodes may be gone for good within [`REMEMBERED`] and still be free.
const FREE_GONE_PERCENT: usize = 10;
/// Fewer pods than this are never held.
const FEWEST_PODS: usize = 5;
/// Fewer nodes than this are never held.
const FEWEST_NODES: usize = 2;
/// For how long an operator may still confirm a batch after another one took its place. Acts come while a person reads; what is
/// confirmed is what that person has read.
const SHOWN: Duration = Duration::from_secs(600);
/// How many batches these are at most, with the one that is held.
const MOST_SHOWN: usize = 100;

/// The limits of a binding (`spec.safety`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Safety {
    /// The share of running pods that may go at once, 1 to 100; 100 switches this limit off.
    pub max_evict_percent: u8,
    /// The share of nodes that may go at once, 1 to 100; 100 switches this limit off.
    pub max_nodes_percent: u8,
    /// For how long the status has to have announced that a window closes, for that to be free.
    pub announce: Duration,
}

impl Default for Safety {
    fn default() -> Self {
        Self { max_evict_percent: 20, max_nodes_percent: 20, announce: Duration::from_secs(600) }
    }
}

/// What is about to happen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// The taint of a node becomes NoExecute.
    NoExecute(NodeName),
    /// A pod of a node is evicted or deleted, in the virtual or in the physical cluster.
    RemovePod {
        /// The node that it runs on.
        node: NodeName,
        /// The pod.
        pod: Uid,
    },
    /// A physical pod without a virtual one is deleted. It is no [`Self::RemovePod`]: two looks come first, so it is not asked for
    /// when its node is decided about.
    RemoveOrphan {
        /// The virtual node of the machine that it runs on.
        node: NodeName,
        /// The physical pod.
        pod: Uid,
    },
    /// A virtual node is deleted.
    DeleteNode(NodeName),
}

impl Act {
    /// The node that it is about.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        match self {
            Self::NoExecute(node)
            | Self::DeleteNode(node)
            | Self::RemovePod { node, .. }
            | Self::RemoveOrphan { node, .. } => node,
        }
    }

    /// Which kind it is of.
    #[must_use]
    pub fn kind(&self) -> ActKind {
        match self {
            Self::NoExecute(_) => ActKind::NoExecute,
            Self::RemovePod { .. } => ActKind::RemovePod,
            Self::RemoveOrphan { .. } => ActKind::RemoveOrphan,
            Self::DeleteNode(_) => ActKind::DeleteNode,
        }
    }

    /// The word for the hash: other acts of the same node are other acts.
    fn word(&self) -> String {
        match self {
            Self::NoExecute(node) => format!("no-execute {node}"),
            Self::RemovePod { node, pod } => format!("remove-pod {node} {pod}"),
            Self::RemoveOrphan { node, pod } => format!("remove-orphan {node} {pod}"),
            Self::DeleteNode(node) => format!("delete-node {node}"),
        }
    }
}

/// Why it is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A window closed, which the status of its policy had announced for this long.
    WindowClosed {
        /// For how long.
        announced: Duration,
    },
    /// An operator asked for it (`lend drain`, `release`, `detach`).
    Operator,
    /// The physical node is gone: a live read found no node of that UID.
    NodeGone,
    /// The physical node is being deleted, and still exists.
    NodeTerminating,
    /// The node does not match the selector of the binding any more.
    Selector,
    /// The policies of the node do not allow it any more.
    Policy,
    /// The binding is being deleted.
    BindingDeleted,
    /// A physical pod has no virtual pod.
    Orphan,
    /// Another client deleted the virtual node.
    DeletedByOthers,
    /// Another borrower, or another binding, claims the physical node.
    Claimed,
}

impl Cause {
    /// The words of all causes.
    pub const WORDS: [&'static str; 10] = [
        "window-closed",
        "operator",
        "node-gone",
        "node-terminating",
        "selector",
        "policy",
        "binding-deleted",
        "orphan",
        "deleted-by-others",
        "claimed",
    ];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WindowClosed { .. } => "window-closed",
            Self::Operator => "operator",
            Self::NodeGone => "node-gone",
            Self::NodeTerminating => "node-terminating",
            Self::Selector => "selector",
            Self::Policy => "policy",
            Self::BindingDeleted => "binding-deleted",
            Self::Orphan => "orphan",
            Self::DeletedByOthers => "deleted-by-others",
            Self::Claimed => "claimed",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WindowClosed { .. } => "a window closed",
            Self::Operator => "an operator asked for it",
            Self::NodeGone => "the physical node is gone",
            Self::NodeTerminating => "the physical node is being deleted",
            Self::Selector => "the selector of the binding does not select the node",
            Self::Policy => "no policy lends the node",
            Self::BindingDeleted => "the binding is being deleted",
            Self::Orphan => "the physical pod has no virtual pod",
            Self::DeletedByOthers => "another client deleted the virtual node",
            Self::Claimed => "another borrower or binding claims the physical node",
        })
    }
}

/// How large the binding is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Its virtual nodes.
    pub nodes: usize,
    /// Its running pods.
    pub pods: usize,
}

/// What the guard says of an act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Go,
    /// It is gathered with others until this time.
    Gathering {
        /// Ask again then.
        until: Duration,
    },
    /// It is held.
    Held,
}

/// How many acts a binding spent of its limits within [`REMEMBERED`]. It stands in the status of the binding, so that a
/// restart does not give the limits anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Nodes that were taken away or emptied.
    pub nodes: usize,
    /// Pods that were removed.
    pub pods: usize,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number: usize| if number == 1 { "" } else { "s" };
        let Self { nodes, pods } = *self;
        write!(f, "{nodes} node{} and {pods} pod{}", plural(nodes), plural(pods))
    }
}

impl Spent {
    fn larger(self, other: Self) -> Self {
        Self { nodes: self.nodes.max(other.nodes), pods: self.pods.max(other.pods) }
    }

    fn and(self, other: Self) -> Self {
        Self { nodes: self.nodes.saturating_add(other.nodes), pods: self.pods.saturating_add(other.pods) }
    }

    fn without(self, other: Self) -> Self {
        Self { nodes: self.nodes.saturating_sub(other.nodes), pods: self.pods.saturating_sub(other.pods) }
    }
}

/// What an earlier process left in the status of the binding, for the guard of the one that takes over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inherited {
    /// What it spent, with what of its grants counts.
    pub spent: Spent,
    /// What it allowed, and what is wanted still.
    pub grants: Vec<GrantedActs>,
    /// What it held.
    pub held: Option<HeldBefore>,
}

impl From<Spent> for Inherited {
    fn from(spent: Spent) -> Self {
        Self { spent, ..Self::default() }
    }
}

/// The guard of one binding. Times are those of a clock that cannot be set.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// What is gathered or held.
    waiting: BTreeMap<Act, Waiting>,
    /// What may happen and has not happened yet.
    granted: BTreeMap<Act, Grant>,
    /// What happened, for as long as the caller asks for it: a pod that was evicted runs on for its grace, and a node that
    /// was deleted waits for its finalizer. It was judged, and is not judged a second time.
    happened: BTreeMap<Act, Grant>,
    /// What happened within [`REMEMBERED`] and counts.
    allowed: VecDeque<(Duration, Act)>,
    /// What an earlier process spent, and until when that counts.
    inherited: Option<(Duration, Spent)>,
    /// What an earlier process allowed, and was not asked for yet.
    unasked: Unasked,
    /// Nodes that were gone for good within [`REMEMBERED`], and free.
    gone: VecDeque<(Duration, NodeName)>,
    held: Option<HeldActs>,
    /// What is held is known from an earlier process, and what waits is not complete yet.
    is_recalling: bool,
    /// The batches that were shown last. The newest is the one that is held, if any is.
    shown: VecDeque<Shown>,
    /// How many were shown.
    shows: u64,
}

/// An act that is gathered or held.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    cause: Cause,
    since: Duration,
    /// The number of the first batch that was shown with it; it was in all that came after that one.
    shown: Option<u64>,
}

/// A batch that was shown: all that waits since it or an earlier one was.
#[derive(Debug, Clone)]
struct Shown {
    hash: String,
    number: u64,
    /// When it was held last.
    at: Duration,
}

/// Why an act may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// It is within the limits and counts.
    Counted,
    /// The same, and an earlier process allowed it: a request of that one may arrive late.
    Resumed,
    /// An operator confirmed it, or it happened before this process began.
    Confirmed,
    /// Its cause is free.
    Free,
}

impl Grant {
    fn counts(self) -> bool {
        matches!(self, Self::Counted | Self::Resumed)
    }
}

/// What is held.
#[derive(Debug, Clone)]
struct HeldActs {
    batch: HeldBatch,
    acts: BTreeSet<Act>,
    /// What happened since it was judged: it had been granted before, and counts against the batch whatever time passes.
    since: BTreeSet<Act>,
}

impl HeldActs {
    /// Those of an earlier process: how many they are is known, and which they are is not.
    fn before(before: HeldBefore) -> Self {
        let HeldBefore { hash, nodes, pods, size, spent } = before;
        let batch = HeldBatch { hash, nodes, pods, size, spent, causes: BTreeMap::new(), broken: Vec::new() };
        Self { batch, acts: BTreeSet::new(), since: BTreeSet::new() }
    }

    /// What counts against the batch. It does not shrink with time, or time would release the batch.
    fn spent(&self) -> Spent {
        let (nodes, pods) = count(self.since.iter());
        Spent { nodes: self.batch.spent.nodes + nodes, pods: self.batch.spent.pods + pods }
    }
}

impl Guard {
    /// The guard of a process that takes over from one that left this. What it spent counts for [`REMEMBERED`] from now on,
    /// whenever it was spent: the wall clock that says when is not trusted.
    #[must_use]
    pub fn inherit(earlier: impl Into<Inherited>, now: Duration) -> Self {
        let Inherited { spent, grants, held } = earlier.into();
        let unasked = Unasked::new(grants);
        Self {
            inherited: Some((now.saturating_add(REMEMBERED), spent.without(unasked.counted()))),
            unasked,
            is_recalling: held.is_some(),
            held: held.map(HeldActs::before),
            ..Self::default()
        }
    }

    /// Whether a batch of an earlier process is held whose acts are not all known again. Until then nothing of it is confirmed:
    /// [`Self::confirm`] could not tell which acts the operator has read about.
    #[must_use]
    pub fn is_recalling(&self) -> bool {
        self.is_recalling
    }

    /// Whether something of an earlier process waits until the caller has decided about every node: what it held, or what it allowed
    /// and is not asked for yet.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.is_recalling || !self.unasked.is_empty()
    }

    /// The caller has decided about every node since it took over, so what waits is all that is wanted: it is judged in place
    /// of the batch of the earlier process. What that one allowed and is not asked for is not wanted. Returns what is still held.
    pub fn recalled(&mut self, safety: &Safety, size: Size, now: Duration) -> Option<&HeldBatch> {
        self.forget(now);
        self.forget_unasked();
        if std::mem::take(&mut self.is_recalling) {
            self.judge(safety, size, now);
        }
        self.held()
    }

    /// Asks for one act, and again for as long as the caller wants it. The caller asks for everything that follows from one
    /// cause before it begins with the first act: a node that goes with all of its pods. When an act has happened, it calls
    /// [`Self::happened`]; when the cause is gone, [`Self::withdraw`].
    pub fn ask(&mut self, act: &Act, cause: Cause, safety: &Safety, size: Size, now: Duration) -> Verdict {
        self.forget(now);
        if self.granted.contains_key(act) || self.happened.contains_key(act) || self.resumes(act) {
            return Verdict::Go;
        }
        if !self.is_held_as_gone(act, cause) && self.is_free(act, cause, safety, size, now) {
            self.waiting.remove(act);
            self.granted.insert(act.clone(), Grant::Free);
            return Verdict::Go;
        }
        let since = self.waiting.entry(act.clone()).or_insert(Waiting { cause, since: now, shown: None }).since;
        let until = since.saturating_add(GATHER);
        if self.is_recalling || self.is_held(act) {
            return Verdict::Held;
        }
        if now < until {
            return Verdict::Gathering { until };
        }
        self.judge(safety, size, now);
        if self.is_held(act) { Verdict::Held } else { Verdict::Go }
    }

    /// Whether an earlier process allowed it. It was judged there, and goes on.
    fn resumes(&mut self, act: &Act) -> bool {
        let Some(is_counted) = self.unasked.take(act) else { return false };
        self.granted.insert(act.clone(), if is_counted { Grant::Resumed } else { Grant::Confirmed });
        true
    }

    /// The caller has decided about a node, knows all that there is on it, and has asked for every act that is wanted of it. What an
    /// earlier process allowed beside these is not wanted any more: asked for later, it is judged. Orphans are known later: they wait
    /// for [`Self::recalled`].
    pub fn decided(&mut self, node: &NodeName) {
        let dropped = self.unasked.decided(node);
        self.may_have_happened(dropped);
    }

    /// A store was set back. What an earlier process left was allowed for another state, and so was what an operator confirmed: as far
    /// as it has not happened, it is judged when it is asked for again.
    pub fn forget_grants(&mut self) {
        self.forget_unasked();
        let resumed = self.granted.iter().filter(|(_, grant)| **grant == Grant::Resumed);
        let (nodes, pods) = count(resumed.map(|(act, _)| act));
        self.may_have_happened(Spent { nodes, pods });
        self.granted.retain(|_, grant| match grant {
            Grant::Counted | Grant::Free => true,
            Grant::Resumed | Grant::Confirmed => false,
        });
    }

    /// What an earlier process allowed, and was not asked for yet, allows nothing more.
    fn forget_unasked(&mut self) {
        let dropped = std::mem::take(&mut self.unasked).counted();
        self.may_have_happened(dropped);
    }

    /// The caller does not want it any more: its cause is gone.
    pub fn withdraw(&mut self, act: &Act) {
        self.waiting.remove(act);
        self.happened.remove(act);
        if self.granted.remove(act) == Some(Grant::Resumed) {
            let (nodes, pods) = count(std::iter::once(act));
            self.may_have_happened(Spent { nodes, pods });
        }
    }

    /// An earlier process allowed it, and may have done it without noting it: it counts as what that one spent.
    fn may_have_happened(&mut self, acts: Spent) {
        self.inherited = self.inherited.map(|(until, spent)| (until, spent.and(acts)));
    }

    /// It has happened. What was free or confirmed does not count against what comes next. Until it is
    /// [withdrawn](Self::withdraw) it may be asked for again: that is the same act. What was not granted has not happened: it stays
    /// in its batch, or the rest of that would be released.
    pub fn happened(&mut self, act: &Act, now: Duration) {
        let Some(grant) = self.granted.remove(act) else { return };
        self.happened.insert(act.clone(), grant);
        if grant.counts() {
            self.allowed.push_back((now, act.clone()));
            if let Some(held) = &mut self.held {
                held.since.insert(act.clone());
            }
        }
    }

    /// Judges again what is held: causes that went may have made it small enough. Returns what is still held.
    pub fn review(&mut self, safety: &Safety, size: Size, now: Duration) -> Option<&HeldBatch> {
        self.forget(now);
        if self.held.is_some() && !self.is_recalling {
            self.judge(safety, size, now);
        }
        self.held()
    }

    /// What is held now.
    #[must_use]
    pub fn held(&self) -> Option<&HeldBatch> {
        self.held.as_ref().map(|held| &held.batch)
    }

    /// What counts against the limits now.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.spent_by(self.allowed.iter().map(|(_, act)| act))
    }

    /// The same with what may happen already, for the status of the binding: a process that ends in the middle of a batch
    /// leaves the whole of it to the one that takes over.
    #[must_use]
    pub fn committed(&self) -> Spent {
        self.spent_by(self.allowed.iter().map(|(_, act)| act).chain(self.counted())).and(self.unasked.counted())
    }

    /// What may happen already and what has happened, as far as it is wanted still, for the status of the binding: the process that
    /// takes over is asked for it again. What is free is free there, too.
    #[must_use]
    pub fn grants(&self) -> Vec<GrantedActs> {
        let mut groups = Groups::default();
        let granted = self.granted.iter().filter(|(_, grant)| **grant != Grant::Free);
        granted.for_each(|(act, grant)| groups.add(act, grant.counts()));
        // A pod whose removal was answered terminates.
        let happened = self.happened.iter().filter(|(act, _)| !act.kind().is_of_pods());
        happened.filter(|(_, grant)| **grant != Grant::Free).for_each(|(act, _)| groups.add(act, false));
        self.unasked.groups().for_each(|acts| groups.add_all(acts));
        groups.into_acts()
    }

    /// What this process leaves to the one that takes over.
    #[must_use]
    pub fn left(&self) -> Inherited {
        let held = self.held().map(|batch| HeldBefore {
            hash: batch.hash.clone(),
            nodes: batch.nodes,
            pods: batch.pods,
            size: batch.size,
            spent: batch.spent,
        });
        Inherited { spent: self.committed(), grants: self.grants(), held }
    }

    fn spent_by<'a>(&self, acts: impl Iterator<Item = &'a Act>) -> Spent {
        let (nodes, pods) = count(acts);
        let inherited = self.inherited.map(|(_, spent)| spent).unwrap_or_default();
        inherited.and(Spent { nodes, pods })
    }

    /// What may happen, has not happened yet, and counts.
    fn counted(&self) -> impl Iterator<Item = &Act> {
        self.granted.iter().filter(|(_, grant)| grant.counts()).map(|(act, _)| act)
    }

    /// The operator confirms the batch with that hash: what it had when its hash was shown, as far as it is still wanted.
    /// Returns how many acts that are.
    ///
    /// # Errors
    /// No batch with that hash was shown lately, by this process: see [`Self::is_recalling`].
    pub fn confirm(&mut self, hash: &str) -> Result<usize, NotHeld> {
        let at = self.shown.iter().position(|shown| shown.hash == hash);
        let Some(shown) = at.and_then(|at| self.shown.remove(at)) else {
            return Err(NotHeld { asked: hash.to_owned(), held: self.held().map(|batch| batch.hash.clone()) });
        };
        let was_shown = |waiting: &Waiting| waiting.shown.is_some_and(|first| first <= shown.number);
        let acts = self.waiting.iter().filter(|(_, waiting)| was_shown(waiting)).map(|(act, _)| act.clone());
        let acts: Vec<Act> = acts.collect();
        for act in &acts {
            self.waiting.remove(act);
            self.granted.insert(act.clone(), Grant::Confirmed);
        }
        if let Some(held) = &mut self.held {
            held.acts.retain(|act| self.waiting.contains_key(act));
            if held.acts.is_empty() {
                self.held = None;
            }
        }
        Ok(acts.len())
    }

    /// The hashes of earlier batches of which something is held, the newest first. Each confirms what it was shown with.
    #[must_use]
    pub fn earlier(&self) -> Vec<String> {
        let Some(held) = self.held() else { return Vec::new() };
        let Some(first) = self.waiting.values().filter_map(|waiting| waiting.shown).min() else { return Vec::new() };
        let others = self.shown.iter().rev().filter(|shown| shown.hash != held.hash && shown.number >= first);
        others.map(|shown| shown.hash.clone()).collect()
    }

    /// Whether this act, which was asked for, would be held: it is, or what an earlier process held is not complete yet.
    #[must_use]
    pub fn holds(&self, act: &Act) -> bool {
        self.is_recalling || self.is_held(act)
    }

    fn is_held(&self, act: &Act) -> bool {
        self.held.as_ref().is_some_and(|held| held.acts.contains(act))
    }

    /// Whether it is held although machines that are gone may be free. The memory of the others that went becomes shorter with
    /// time, and time releases nothing.
    fn is_held_as_gone(&self, act: &Act, cause: Cause) -> bool {
        let was_gone = |waiting: &Waiting| waiting.cause == Cause::NodeGone;
        cause == Cause::NodeGone && self.is_held(act) && self.waiting.get(act).is_some_and(was_gone)
    }

    /// Whether it needs no limit.
    fn is_free(&mut self, act: &Act, cause: Cause, safety: &Safety, size: Size, now: Duration) -> bool {
        match cause {
            Cause::Operator => true,
            Cause::WindowClosed { announced } => announced >= safety.announce,
            Cause::NodeGone => self.is_gone_free(act.node(), size, now),
            Cause::NodeTerminating
            | Cause::Selector
            | Cause::Policy
            | Cause::BindingDeleted
            | Cause::Orphan
            | Cause::DeletedByOthers
            | Cause::Claimed => false,
        }
    }

    /// Whether few enough nodes are gone for good for this one to be free too. One node always is: its pods are gone with it,
    /// and a binding of four nodes must not wait for a person because one machine broke.
    fn is_gone_free(&mut self, node: &NodeName, size: Size, now: Duration) -> bool {
        if self.gone.iter().any(|(_, gone)| gone == node) {
            return true;
        }
        let gone = self.gone.len() + 1;
        let of = size.nodes.max(gone);
        let is_free = gone == 1 || gone.saturating_mul(100) <= of.saturating_mul(FREE_GONE_PERCENT);
        if is_free {
            self.gone.push_back((now, node.clone()));
        }
        is_free
    }

    fn forget(&mut self, now: Duration) {
        let is_over = |at: Duration| now.saturating_sub(at) >= REMEMBERED;
        while self.allowed.front().is_some_and(|(at, _)| is_over(*at)) {
            self.allowed.pop_front();
        }
        while self.gone.front().is_some_and(|(at, _)| is_over(*at)) {
            self.gone.pop_front();
        }
        if self.inherited.is_some_and(|(until, _)| until <= now) {
            self.inherited = None;
            // It counts no more, so it is judged like anything else.
            self.unasked.forget_counted();
        }
        let held = self.held.as_ref().map(|held| &held.batch.hash);
        self.shown.retain(|shown| held == Some(&shown.hash) || now.saturating_sub(shown.at) < SHOWN);
    }

    /// Judges everything that waits as one batch, together with what was granted before: all of it is held, or granted.
    fn judge(&mut self, safety: &Safety, size: Size, now: Duration) {
        let before = self.held.take();
        if self.waiting.is_empty() {
            return;
        }
        let spent = self.spent().larger(before.as_ref().map(HeldActs::spent).unwrap_or_default());
        let (nodes, pods) = count(self.waiting.keys().chain(self.counted()));
        let Spent { nodes, pods } = Spent { nodes, pods }.and(self.unasked.counted()).and(spent);
        // What went is missing in the present size. A batch that is held does not become legal because the binding grew.
        let size = Size { nodes: size.nodes + spent.nodes, pods: size.pods + spent.pods };
        let size = before.as_ref().map_or(size, |held| Size {
            nodes: size.nodes.min(held.batch.size.nodes),
            pods: size.pods.min(held.batch.size.pods),
        });
        let broken = broken(safety, size, nodes, pods);
        if broken.is_empty() {
            let granted = std::mem::take(&mut self.waiting).into_keys().map(|act| (act, Grant::Counted));
            self.granted.extend(granted);
            return;
        }
        let acts: BTreeSet<Act> = self.waiting.keys().cloned().collect();
        let mut causes = BTreeMap::new();
        for waiting in self.waiting.values() {
            *causes.entry(class(waiting.cause)).or_insert(0) += 1;
        }
        // One that only became smaller keeps its hash.
        let kept = before.filter(|held| !held.acts.is_empty() && acts.is_subset(&held.acts));
        let hash = kept.map_or_else(|| hash(&acts), |held| held.batch.hash);
        self.show(&hash, now);
        self.held = Some(HeldActs {
            batch: HeldBatch { hash, nodes, pods, size, spent, causes, broken },
            acts,
            since: BTreeSet::new(),
        });
    }

    /// All that waits is shown with this hash.
    fn show(&mut self, hash: &str, now: Duration) {
        match self.shown.back_mut() {
            Some(last) if last.hash == hash => last.at = now,
            Some(_) | None => {
                self.shows += 1;
                self.shown.retain(|shown| shown.hash != hash);
                self.shown.push_back(Shown { hash: hash.to_owned(), number: self.shows, at: now });
                if self.shown.len() > MOST_SHOWN {
                    self.shown.pop_front();
                }
            }
        }
        let number = self.shown.back().map_or(self.shows, |shown| shown.number);
        self.waiting.values_mut().for_each(|waiting| _ = waiting.shown.get_or_insert(number));
    }
}

/// The limits that so many nodes and pods break.
fn broken(safety: &Safety, size: Size, nodes: usize, pods: usize) -> Vec<BrokenLimit> {
    let is_beyond = |count: usize, of: usize, percent: u8, fewest: usize| {
        percent < 100 && count >= fewest && count.saturating_mul(100) > of.saturating_mul(usize::from(percent))
    };
    let mut broken = Vec::new();
    if is_beyond(pods, size.pods, safety.max_evict_percent, FEWEST_PODS) {
        broken.push(BrokenLimit::Pods { percent: safety.max_evict_percent });
    }
    if is_beyond(nodes, size.nodes, safety.max_nodes_percent, FEWEST_NODES) {
        broken.push(BrokenLimit::Nodes { percent: safety.max_nodes_percent });
    }
    broken
}

/// Causes that differ only in their numbers count as one.
fn class(cause: Cause) -> Cause {
    match cause {
        Cause::WindowClosed { .. } => Cause::WindowClosed { announced: Duration::ZERO },
        other => other,
    }
}

/// How many nodes and pods some acts are about.
fn count<'a>(acts: impl Iterator<Item = &'a Act>) -> (usize, usize) {
    let (mut nodes, mut pods) = (BTreeSet::new(), BTreeSet::new());
    for act in acts {
        match act {
            Act::NoExecute(node) | Act::DeleteNode(node) => {
                nodes.insert(node);
            }
            Act::RemovePod { pod, .. } | Act::RemoveOrphan { pod, .. } => {
                pods.insert(pod);
            }
        }
    }
    (nodes.len(), pods.len())
}

/// Twelve digits that stand for exactly these acts.
fn hash(acts: &BTreeSet<Act>) -> String {
    let mut hasher = Sha256::new();
    for act in acts {
        hasher.update(act.word());
        hasher.update([0]);
    }
    hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
