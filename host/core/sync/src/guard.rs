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
//! A process that takes over inherits what was spent and what was held ([`Inherited`]). It does not know the acts of a batch
//! that was held, only their hash and their number. Until it has decided about every node again ([`Guard::recalled`]), nothing
//! happens that is not free; then what is wanted is judged in place of that batch, with the numbers that it was held for. So a
//! restart releases nothing, and acts that are the same have the same hash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};

use topoloom_core::names::{NodeName, Uid};

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
/// How many batches an operator may still confirm after others took their place. Acts come and go while a person reads; what
/// is confirmed is what that person has read.
const SHOWN: usize = 8;

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
    /// A virtual node is deleted.
    DeleteNode(NodeName),
}

impl Act {
    /// The node that it is about.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        match self {
            Self::NoExecute(node) | Self::DeleteNode(node) | Self::RemovePod { node, .. } => node,
        }
    }

    /// The word for the hash: other acts of the same node are other acts.
    fn word(&self) -> String {
        match self {
            Self::NoExecute(node) => format!("no-execute {node}"),
            Self::RemovePod { node, pod } => format!("remove-pod {node} {pod}"),
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

/// A batch that is held, for the condition `Held`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBatch {
    /// What an operator confirms.
    pub hash: String,
    /// The nodes that it would take away or empty, with those that were spent before.
    pub nodes: usize,
    /// The pods that it would remove, with those that were spent before.
    pub pods: usize,
    /// The size of the binding that the limits refer to, before anything was spent.
    pub size: Size,
    /// What was spent before, when it was held. It does not shrink with time, or time would release the batch.
    pub spent: Spent,
    /// The causes with the number of acts of each.
    pub causes: BTreeMap<Cause, usize>,
    /// The limits that it breaks.
    pub broken: Vec<BrokenLimit>,
}

/// A limit that a batch breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenLimit {
    /// `spec.safety.maxEvictPercent`.
    Pods {
        /// The limit.
        percent: u8,
    },
    /// `spec.safety.maxNodesPercent`.
    Nodes {
        /// The limit.
        percent: u8,
    },
}

impl fmt::Display for HeldBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, pods, size, spent, hash, .. } = self;
        write!(f, "{nodes} of {} nodes and {pods} of {} running pods would be taken away", size.nodes, size.pods)?;
        // Both numbers have them, or a person would believe that they are there still.
        if *spent != Spent::default() {
            write!(f, ", counting {spent} that went shortly before")?;
        }
        let all: usize = self.causes.values().sum();
        for (index, (cause, count)) in self.causes.iter().enumerate() {
            write!(f, "{} {cause}", if index == 0 { ":" } else { "," })?;
            // Of a single cause the sentence has said how much it is.
            if *count != all {
                write!(f, " ({count} of {all} writes)")?;
            }
        }
        for broken in &self.broken {
            match broken {
                BrokenLimit::Pods { percent } => write!(f, "; safety.maxEvictPercent allows {percent} %")?,
                BrokenLimit::Nodes { percent } => write!(f, "; safety.maxNodesPercent allows {percent} %")?,
            }
        }
        write!(f, "; confirm with hash {hash}, or take the cause back")
    }
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
}

/// What an earlier process left in the status of the binding, for the guard of the one that takes over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inherited {
    /// What it spent.
    pub spent: Spent,
    /// What it held.
    pub held: Option<HeldBefore>,
}

impl From<Spent> for Inherited {
    fn from(spent: Spent) -> Self {
        Self { spent, held: None }
    }
}

/// A batch that an earlier process held, as far as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldBefore {
    /// What an operator confirms.
    pub hash: String,
    /// The nodes that it would take away or empty.
    pub nodes: usize,
    /// The pods that it would remove.
    pub pods: usize,
    /// The size of the binding that the limits refer to.
    pub size: Size,
    /// What was spent before, when it was held.
    pub spent: Spent,
}

/// The guard of one binding. Times are those of a clock that cannot be set.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    /// What is gathered or held, with its cause and since when.
    waiting: BTreeMap<Act, (Cause, Duration)>,
    /// What may happen and has not happened yet.
    granted: BTreeMap<Act, Grant>,
    /// What happened, for as long as the caller asks for it: a pod that was evicted runs on for its grace, and a node that
    /// was deleted waits for its finalizer. It was judged, and is not judged a second time.
    happened: BTreeSet<Act>,
    /// What happened within [`REMEMBERED`] and counts.
    allowed: VecDeque<(Duration, Act)>,
    /// What an earlier process spent, and until when that counts.
    inherited: Option<(Duration, Spent)>,
    /// Nodes that were gone for good within [`REMEMBERED`], and free.
    gone: VecDeque<(Duration, NodeName)>,
    held: Option<HeldActs>,
    /// What is held is known from an earlier process, and what waits is not complete yet.
    is_recalling: bool,
    /// The batches that were shown last, by their hashes.
    shown: VecDeque<(String, BTreeSet<Act>)>,
}

/// Why an act may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grant {
    /// It is within the limits and counts.
    Counted,
    /// Its cause is free, or an operator confirmed it.
    Free,
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
        let Inherited { spent, held } = earlier.into();
        Self {
            inherited: Some((now.saturating_add(REMEMBERED), spent)),
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

    /// The caller has decided about every node since it took over, so what waits is all that is wanted: it is judged in place
    /// of the batch of the earlier process. Returns what is still held.
    pub fn recalled(&mut self, safety: &Safety, size: Size, now: Duration) -> Option<&HeldBatch> {
        self.forget(now);
        if std::mem::take(&mut self.is_recalling) {
            self.judge(safety, size);
        }
        self.held()
    }

    /// Asks for one act, and again for as long as the caller wants it. The caller asks for everything that follows from one
    /// cause before it begins with the first act: a node that goes with all of its pods. When an act has happened, it calls
    /// [`Self::happened`]; when the cause is gone, [`Self::withdraw`].
    pub fn ask(&mut self, act: &Act, cause: Cause, safety: &Safety, size: Size, now: Duration) -> Verdict {
        self.forget(now);
        if self.granted.contains_key(act) || self.happened.contains(act) {
            return Verdict::Go;
        }
        if !self.is_held_as_gone(act, cause) && self.is_free(act, cause, safety, size, now) {
            self.waiting.remove(act);
            self.granted.insert(act.clone(), Grant::Free);
            return Verdict::Go;
        }
        let since = self.waiting.entry(act.clone()).or_insert((cause, now)).1;
        let until = since.saturating_add(GATHER);
        if self.is_recalling || self.is_held(act) {
            return Verdict::Held;
        }
        if now < until {
            return Verdict::Gathering { until };
        }
        self.judge(safety, size);
        if self.is_held(act) { Verdict::Held } else { Verdict::Go }
    }

    /// The caller does not want it any more: its cause is gone.
    pub fn withdraw(&mut self, act: &Act) {
        self.waiting.remove(act);
        self.granted.remove(act);
        self.happened.remove(act);
    }

    /// It has happened. What was free or confirmed does not count against what comes next. Until it is
    /// [withdrawn](Self::withdraw) it may be asked for again: that is the same act. What was not granted has not happened: it stays
    /// in its batch, or the rest of that would be released.
    pub fn happened(&mut self, act: &Act, now: Duration) {
        let Some(grant) = self.granted.remove(act) else { return };
        self.happened.insert(act.clone());
        if grant == Grant::Counted {
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
            self.judge(safety, size);
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
        self.spent_by(self.allowed.iter().map(|(_, act)| act).chain(self.counted()))
    }

    fn spent_by<'a>(&self, acts: impl Iterator<Item = &'a Act>) -> Spent {
        let (nodes, pods) = count(acts);
        let inherited = self.inherited.map(|(_, spent)| spent).unwrap_or_default();
        Spent { nodes: nodes + inherited.nodes, pods: pods + inherited.pods }
    }

    /// What may happen, has not happened yet, and counts.
    fn counted(&self) -> impl Iterator<Item = &Act> {
        self.granted.iter().filter(|(_, grant)| **grant == Grant::Counted).map(|(act, _)| act)
    }

    /// The operator confirms the batch with that hash: what it had when its hash was shown, as far as it is still wanted.
    /// Returns how many acts that are.
    ///
    /// # Errors
    /// No batch with that hash was shown lately, by this process: see [`Self::is_recalling`].
    pub fn confirm(&mut self, hash: &str) -> Result<usize, NotHeld> {
        let Some(at) = self.shown.iter().position(|(shown, _)| shown == hash) else {
            return Err(NotHeld { asked: hash.to_owned(), held: self.held().map(|batch| batch.hash.clone()) });
        };
        let (_, acts) = self.shown.remove(at).unwrap_or_default();
        let mut count = 0;
        for act in acts {
            if self.waiting.remove(&act).is_some() {
                self.granted.insert(act, Grant::Free);
                count += 1;
            }
        }
        if let Some(held) = &mut self.held {
            held.acts.retain(|act| self.waiting.contains_key(act));
            if held.acts.is_empty() {
                self.held = None;
            }
        }
        Ok(count)
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
        let was_gone = |(cause, _): &(Cause, Duration)| *cause == Cause::NodeGone;
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
        self.inherited = self.inherited.filter(|(until, _)| now < *until);
    }

    /// Judges everything that waits as one batch, together with what was granted before: all of it is held, or granted.
    fn judge(&mut self, safety: &Safety, size: Size) {
        let before = self.held.take();
        if self.waiting.is_empty() {
            return;
        }
        let spent = self.spent().larger(before.as_ref().map(HeldActs::spent).unwrap_or_default());
        let (nodes, pods) = count(self.waiting.keys().chain(self.counted()));
        let (nodes, pods) = (nodes + spent.nodes, pods + spent.pods);
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
        for (cause, _) in self.waiting.values() {
            *causes.entry(class(*cause)).or_insert(0) += 1;
        }
        let hash = hash(&acts);
        if self.shown.back().is_none_or(|(last, _)| *last != hash) {
            self.shown.retain(|(shown, _)| *shown != hash);
            self.shown.push_back((hash.clone(), acts.clone()));
            if self.shown.len() > SHOWN {
                self.shown.pop_front();
            }
        }
        self.held = Some(HeldActs {
            batch: HeldBatch { hash, nodes, pods, size, spent, causes, broken },
            acts,
            since: BTreeSet::new(),
        });
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

/// A confirmation that confirms nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "hash {asked} confirms nothing: {}",
    held.as_ref().map_or_else(|| "no batch is held".to_owned(), |held| format!("the held batch has hash {held}"))
)]
pub struct NotHeld {
    /// What the operator wrote.
    pub asked: String,
    /// What is held.
    pub held: Option<String>,
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
            Act::RemovePod { pod, .. } => {
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
