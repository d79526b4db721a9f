//! The controller of nodes: it carries out what [`node`](topoloom_sync::node) decides, in the order in which it is decided.
//!
//! Owns the work on one node: decide under the lock of the [`View`], send the requests one after the other, decide again where
//! something had to be read live. Never decides anything by itself, and never sends a request that carries no version or UID.
//!
//! # Failure story
//!
//! The first request that fails ends the work on a node: what follows depends on it. The one exception is a write of a virtual node
//! that its API server refuses for what it says, since the next one would say the same: the taint behind a status is written all the
//! same, and pods go that are due, for the process remembers the closing that it could not write. A conflict means that the node changed
//! meanwhile; its watch brings it, and the queue tries again with a pause of this node alone. An answer shows what is stored:
//! it is put into the view, so that the next decision does not repeat a write that the watch has not shown yet. What an answer does
//! not have, although it was written, is left out of the decisions that follow, and said in an Event: it is tried again after ten
//! minutes, and no virtual node is made while the claim on its machine is not stored. Where another's
//! object has the name of a virtual node, no watch shows when it goes: it is known for one look, and each sweep tries again. A
//! request that was not answered counts for the guard as one that was carried out. A right that is missing is missing for every
//! node: the binding says so ([`Troubles`]), with the cluster, until such a request succeeds. A lease of another is never touched: a
//! person is notified by an Event on the node. What is due for many nodes at one moment has a [pace](Pace): a node that waits for its
//! turn is put aside, so that no other waits behind it, and decided about anew then.

mod notices;
mod pace;
mod requests;
mod written;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use topoloom_api::Reason;
use topoloom_cluster::events::{Events, Urgency};
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome};
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::DeletionCause;
use topoloom_sync::guard::Cause;
use topoloom_sync::identity::names_binding;
use topoloom_sync::liveness::{Lease, Reach};
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::{Answer, LentNode, LiveLent, NodeOrder, Now, PodRemoval, Question, RemovalMeans};
use tracing::field::Empty;

use self::notices::Said;
pub(crate) use self::notices::{Notice, Notices};
pub use self::pace::Pace;
use self::pace::Turns;
pub use self::requests::{NodeClients, NodeRequests, Stored};
pub(crate) use self::requests::{binding_uids, create, create_in, unreadable};
use self::written::{word, written};
use crate::ledger::PhysicalName;
use crate::metrics::{Counted, WriteKind};
use crate::troubles::{Thing, Troubles};
use crate::view::{Evidence, NodeWork, View};

/// How many nodes of a binding are looked at at once. A look waits for its requests, two of them to two API servers where a node is lent
/// for the first time, and the boundary of a window touches all nodes of a policy at the same time. What a physical API server gets of
/// it per second has a limit of its own, in its connection.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// How often a decision may ask for something before it is left to the next try. The longest way has four: the physical node is
/// read, the bindings are listed, the pods are listed, and what follows is carried out.
const QUESTIONS: usize = 6;

/// For how long pods are removed because of one decision. What forbids it, or makes it needless, counts for those that are left then:
/// each removal waits for its place in a lane, and a node may have hundreds.
const FRESH: Duration = Duration::from_secs(2);

/// The leases of virtual nodes, as the controller of nodes needs them.
pub trait Leases: Send + Sync + 'static {
    /// The lease of this virtual node is renewed from now on.
    fn start(&self, node: &NodeName, uid: &Uid);

    /// It is renewed no more; an outstanding renewal has ended when this returns.
    fn stop(&self, node: &NodeName) -> impl Future<Output = ()> + Send;

    /// The same of a virtual node that does not exist: nothing is remembered of its lease.
    fn forget(&self, node: &NodeName) -> impl Future<Output = ()> + Send {
        self.stop(node)
    }

    /// Why the lease of this virtual node is another's, and is not renewed, where it is. A node of which this becomes known has to be
    /// looked at.
    fn foreign(&self, node: &NodeName) -> Option<String>;
}

/// Live reads of physical nodes.
const READS_MACHINES: (Thing, Side) = (Thing::PhysicalNodeReads, Side::Physical);
/// Live reads of virtual nodes.
const READS_LENT: (Thing, Side) = (Thing::LentNodeReads, Side::Virtual);

/// What a right is needed for where an order is carried out, and in which cluster; nothing where it sends nothing, or has an answer of
/// its own for each pod.
fn thing(order: &NodeOrder) -> Option<(Thing, Side)> {
    let of = |thing| Some((thing, Side::Virtual));
    match order {
        NodeOrder::Ask(_) | NodeOrder::StopLease(_) | NodeOrder::RemovePods(_) => None,
        NodeOrder::PatchPhysical { .. } | NodeOrder::ReleasePhysical { .. } => {
            Some((Thing::NodeClaims, Side::Physical))
        }
        NodeOrder::Create { .. } => of(Thing::LentNodeCreations),
        NodeOrder::PatchStatus { .. } => of(Thing::LentNodeStatus),
        NodeOrder::PatchSpec { .. } | NodeOrder::RemoveFinalizer { .. } => of(Thing::LentNodeSpecs),
        NodeOrder::Delete { .. } => of(Thing::LentNodeDeletions),
    }
}

/// Whether an API server refused a request for what it says.
fn is_for_content(refusal: &Refusal) -> bool {
    matches!(refusal.reason, RefusalReason::Invalid | RefusalReason::DeniedByAdmission)
}

/// Whether what is behind an order is carried out although that was refused: the guard has allowed the removal of pods, and the grace
/// that they had is remembered.
fn holds_up_nothing(order: &NodeOrder, refusal: &Refusal) -> bool {
    let is_of_lent = matches!(order, NodeOrder::PatchStatus { .. } | NodeOrder::PatchSpec { .. });
    is_of_lent && is_for_content(refusal)
}

/// What comes after an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The next one.
    Next,
    /// Another decision: something else is stored than was known.
    Decide,
}

/// The controller of the nodes of one binding.
pub struct Nodes<L> {
    view: Arc<Mutex<View>>,
    requests: NodeRequests,
    leases: L,
    notices: Notices,
    counted: Counted,
    troubles: Troubles,
    pace: Pace,
    /// The nodes whose taint waits for its turn.
    taints: Turns,
    /// The nodes whose pods wait for theirs.
    removals: Turns,
    binding: BindingName,
    /// What was said of the labels and annotations of nodes that lack some.
    remarked: Said,
    /// What was said of writes that are not stored.
    unstored: Said,
    /// What was said of the leases of nodes that are another's.
    foreign: Said,
    now: fn() -> Now,
}

/// Pods that one Event names.
const NAMED: usize = 5;

/// Why the work on a node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A request was refused.
    #[error("{order}: {refusal}")]
    Refused {
        /// What was to be done.
        order: String,
        /// Why not.
        refusal: Refusal,
    },
    /// A decision asked again and again.
    #[error("the answers to {QUESTIONS} live reads led to no decision: {0}")]
    Unanswered(String),
}

impl<L: Leases> Nodes<L> {
    /// The controller that writes by these requests.
    #[must_use]
    pub fn new(view: Arc<Mutex<View>>, requests: NodeRequests, leases: L, events: Events, now: fn() -> Now) -> Self {
        let binding = view.lock().unwrap_or_else(PoisonError::into_inner).binding.identity.binding().clone();
        let (notices, counted, troubles) = (Notices::new(events), Counted::default(), Troubles::default());
        let (pace, taints, removals) = (Pace::default(), Turns::default(), Turns::default());
        let (remarked, unstored, foreign) = (Said::default(), Said::default(), Said::default());
        Self {
            view,
            requests,
            leases,
            notices,
            counted,
            troubles,
            pace,
            taints,
            removals,
            binding,
            remarked,
            unstored,
            foreign,
            now,
        }
    }

    /// The same, which counts here what it does.
    #[must_use]
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted, ..self }
    }

    /// The same, which says here which rights are missing.
    #[must_use]
    pub fn telling(self, troubles: Troubles) -> Self {
        Self { troubles, ..self }
    }

    /// The same, which taints the nodes of a cluster that does not answer, and removes pods, at this pace.
    #[must_use]
    pub fn pacing(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a node until nothing has to be read for it any more, and does what follows.
    async fn look(&self, name: &PhysicalName) -> Result<NodeWork, NodeError> {
        let mut evidence = Evidence::default();
        for _ in 0..QUESTIONS {
            let mut work = self.view().decide(name, &evidence, (self.now)());
            if let [NodeOrder::Ask(question)] = &work.orders[..] {
                self.answer(name, &work, question, &mut evidence).await?;
                continue;
            }
            self.lease(&work).await;
            if let (Some(lent), Some(conflict)) = (&work.lent, &work.conflict) {
                tracing::warn!(node = %name, %lent, conflict, "another's object has the name of a virtual node");
                let note = format!("physical node {name}: {conflict}");
                self.notice(lent, Urgency::Warning, Reason::NameTaken, &note).await;
            }
            self.remark(&work).await;
            self.left_out(name, &work).await;
            if let Some((at, left)) = self.waits(name, &work) {
                work.orders.truncate(at);
                work.again = Some(work.again.map_or(left, |again| again.min(left)));
            }
            // A node at rest has no trace.
            if work.orders.is_empty() {
                return Ok(work);
            }
            match self.follow(name, &work, &mut evidence).await? {
                Then::Next => return Ok(work),
                Then::Decide => {}
            }
        }
        Err(NodeError::Unanswered(self.view().decide(name, &evidence, (self.now)()).state))
    }

    /// Carries out what was decided.
    #[tracing::instrument(level = "debug", name = "lend", skip_all, fields(binding = &*self.binding, node = &**name, why = work.why, orders = work.orders.len()))]
    async fn follow(&self, name: &PhysicalName, work: &NodeWork, evidence: &mut Evidence) -> Result<Then, NodeError> {
        let (mut answered, mut refused) = (None, None);
        for order in &work.orders {
            match self.carry(name, work, order, evidence, &mut answered).await {
                Ok(Then::Next) => {}
                Ok(Then::Decide) => return Ok(Then::Decide),
                Err(_) if order.may_fail() => {}
                Err(NodeError::Refused { order: what, refusal }) if holds_up_nothing(order, &refusal) => {
                    refused.get_or_insert(NodeError::Refused { order: what, refusal });
                }
                Err(error) => return Err(error),
            }
        }
        refused.map_or(Ok(Then::Next), Err)
    }

    /// Reads what a decision asked for.
    async fn answer(
        &self,
        name: &PhysicalName,
        work: &NodeWork,
        question: &Question,
        evidence: &mut Evidence,
    ) -> Result<(), NodeError> {
        // Without a name of a virtual node neither of the two is asked for.
        let lent = work.lent.as_deref().unwrap_or_default();
        let refused = |refusal| NodeError::Refused { order: question.to_string(), refusal };
        match question {
            Question::PhysicalNode => {
                let machine = work.reads.as_ref().unwrap_or(name);
                let found = self.told(READS_MACHINES, self.requests.physical_node(machine).await);
                evidence.live = found.map_err(refused)?;
            }
            Question::Binding(_) => {
                let found = self.told((Thing::AllBindings, Side::Virtual), self.requests.bindings().await);
                evidence.bindings = Some(found.map_err(refused)?);
            }
            Question::LentNode => {
                let found = self.told(READS_LENT, self.requests.lent_node(lent).await).map_err(refused)?;
                evidence.live_lent = found.map_or(LiveLent::Gone, |node| LiveLent::Found(Arc::new(node)));
            }
            Question::PodsOfNode => {
                let found = self.told((Thing::LentPodLists, Side::Virtual), self.requests.pods_of(lent).await);
                evidence.pods = Some(found.map_err(refused)?);
            }
        }
        Ok(())
    }

    /// The answer to a request. A right that is missing is a trouble of the binding until the same succeeds.
    fn told<T>(&self, (thing, side): (Thing, Side), answer: Result<T, Refusal>) -> Result<T, Refusal> {
        self.troubles.of_right(thing, side, &answer);
        answer
    }

    /// Starts the lease of a node, or stops it: also where no virtual node of ours is left, because it is gone or its labels
    /// name another. One that only lacks labels is renewed. Before its node is deleted it is stopped by an order of its own.
    async fn lease(&self, work: &NodeWork) {
        let Some(name) = &work.lent else { return };
        let (uid, is_listed) = {
            let view = self.view();
            (view.uid_of_lent(name), view.is_lent_listed())
        };
        match (work.lease, uid) {
            (Some(Lease::Renew), Some(uid)) => self.leases.start(name, &uid),
            (Some(Lease::Stop(why)), _) => {
                tracing::debug!(node = %name, %why, "the lease of a node is not renewed");
                self.leases.stop(name).await;
            }
            // Until the virtual nodes are listed, one that is not known may be ours: its lease was taken over with the binding.
            (None, None) if !is_listed => {}
            // A cluster whose machines get new names all the time would fill the memory.
            (None, None) => self.leases.forget(name).await,
            (None, Some(_)) => self.leases.stop(name).await,
            (Some(Lease::Renew), None) => {}
        }
        self.lease_of_another(name).await;
    }

    /// That another has the lease of a node is said once, and again when that is for another reason.
    async fn lease_of_another(&self, lent: &NodeName) {
        let why = self.leases.foreign(lent);
        if let (true, Some(why)) = (self.foreign.is_news(lent, why.as_deref()), why) {
            let note = format!("its Lease in kube-node-lease is not renewed, so the node will be Unknown: {why}");
            self.notice(lent, Urgency::Warning, Reason::NameTaken, &note).await;
        }
    }

    /// Carries out one order. `answered` is the version of the virtual node in the answer to the order before: what the view knows by
    /// now may be a write of another client, which this order has not seen.
    #[tracing::instrument(level = "debug", name = "order", skip_all, fields(kind = word(order), result = Empty, otel.status_code = Empty))]
    async fn carry(
        &self,
        name: &PhysicalName,
        work: &NodeWork,
        order: &NodeOrder,
        evidence: &mut Evidence,
        answered: &mut Option<ResourceVersion>,
    ) -> Result<Then, NodeError> {
        let before = answered.take();
        let stored = match order {
            NodeOrder::RemovePods(pods) => {
                self.remove(name, work, pods).await?;
                Stored::Nothing
            }
            NodeOrder::StopLease(lent) => {
                self.leases.stop(lent).await;
                Stored::Nothing
            }
            other => {
                let sent = self.requests.send(name, other, before.as_ref()).await;
                let sent = if let Some(thing) = thing(other) { self.told(thing, sent) } else { sent };
                if let Some((kind, why)) = written(work, order) {
                    self.counted.wrote(kind, why, &sent);
                }
                match sent {
                    Ok(stored) => stored,
                    Err(refusal) => {
                        if refusal.reason.may_be_done() {
                            self.view().carried(name, work, order, (self.now)());
                        } else if holds_up_nothing(order, &refusal) {
                            self.view().closing_begun(name, order);
                            // Nothing was written: the next request is made from the version that this one was.
                            if let NodeOrder::PatchStatus { version, .. } = order {
                                *answered = Some(version.clone());
                            }
                        }
                        if let NodeOrder::Create { name: lent, .. } = order
                            && refusal.reason == RefusalReason::AlreadyExists
                            && let Ok(Some(node)) = self.told(READS_LENT, self.requests.lent_node(lent).await)
                        {
                            self.exists(lent, node, evidence);
                            return Ok(Then::Decide);
                        }
                        return Err(self.refused(name, work, order, refusal).await);
                    }
                }
            }
        };
        tracing::debug!(node = %name, %order, "carried out");
        let now = (self.now)();
        let spec = if let NodeOrder::PatchSpec { name: lent, .. } = order { Some(lent) } else { None };
        let mut then = Then::Next;
        let lag = {
            let mut view = self.view();
            view.carried(name, work, order, now);
            match stored {
                Stored::Physical(node) => {
                    // What is not claimed is not lent (decision S7): a webhook of the lender may have taken the claim off.
                    if !order.is_claimed_in(&node) {
                        then = Then::Decide;
                    }
                    view.answered(name, order, Answer::Physical(&node), now);
                    drop(view.physical_node(name, *node));
                }
                Stored::Lent(lent, node) => {
                    view.answered(name, order, Answer::Lent(&node), now);
                    *answered = Some(node.version.clone());
                    drop(view.lent_node(&lent, *node));
                }
                Stored::LentGone(lent) => drop(view.lent_node_gone(&lent)),
                Stored::Nothing => {}
            }
            spec.and_then(|_| view.boundary_followed(name, now.wall))
        };
        if let Some(lag) = lag {
            self.counted.followed(lag);
        }
        if let (Some(lent), Some(cause)) = (spec, work.leaving) {
            self.leaves(lent, cause).await;
        }
        // A node that was just made gets its lease at once: a second later node-lifecycle would miss it.
        if let NodeOrder::Create { name: lent, .. } = order {
            let uid = self.view().lent(lent).map(|node| node.uid.clone());
            if let Some(uid) = uid {
                self.leases.start(lent, &uid);
            }
        }
        Ok(then)
    }

    /// Which of the orders waits for its turn, and for how long: it is left out with all that is behind it.
    fn waits(&self, name: &PhysicalName, work: &NodeWork) -> Option<(usize, Duration)> {
        let now = (self.now)().steady;
        // While the physical cluster does not answer, the taint is all that is written of a spec.
        let is_gone = matches!(self.view().reach, Reach::Unreachable { .. });
        let is_taint = |order: &NodeOrder| is_gone && matches!(order, NodeOrder::PatchSpec { .. });
        let taint = work.orders.iter().position(is_taint);
        let removal = work.orders.iter().enumerate().find_map(|(at, order)| {
            if let NodeOrder::RemovePods(pods) = order { Some((at, pods.len())) } else { None }
        });
        let taint = taint.map(|at| (at, self.taints.left(name, now, || self.pace.taint(now))));
        let removal = removal.map(|(at, pods)| (at, self.removals.left(name, now, || self.pace.removal(pods, now))));
        // What is not wanted any more waits for nothing.
        if taint.is_none() {
            self.taints.forget(name);
        }
        if removal.is_none() {
            self.removals.forget(name);
        }
        [taint, removal].into_iter().flatten().filter(|(_, left)| !left.is_zero()).min()
    }

    /// A node of that name exists already. One that may be ours the watch shows, too.
    fn exists(&self, lent: &NodeName, node: LentNode, evidence: &mut Evidence) {
        let mut view = self.view();
        if names_binding(&node.metadata.labels, &view.binding.identity) {
            view.lent_node(lent, node);
        } else {
            evidence.existing = Some(Arc::new(node));
        }
    }

    /// A request about a node was refused.
    async fn refused(&self, name: &PhysicalName, work: &NodeWork, order: &NodeOrder, refusal: Refusal) -> NodeError {
        if is_for_content(&refusal)
            && let Some(lent) = &work.lent
        {
            let note = format!("{order} was refused: {refusal}");
            self.notice(lent, Urgency::Warning, Reason::WriteRefused, &note).await;
        }
        tracing::debug!(node = %name, %order, reason = refusal.reason.as_str(), error = %refusal, "refused");
        NodeError::Refused { order: order.to_string(), refusal }
    }

    /// Removes pods, each by itself: one that cannot be removed holds up no other. Those that are left when the decision is not fresh any
    /// more are decided about anew.
    async fn remove(&self, name: &PhysicalName, work: &NodeWork, pods: &[PodRemoval]) -> Result<(), NodeError> {
        let Some(lent) = &work.lent else { return Ok(()) };
        let (mut failed, mut removed) = (None, Vec::new());
        let begun = (self.now)().steady;
        for removal in pods {
            if (self.now)().steady.saturating_sub(begun) >= FRESH {
                break;
            }
            match self.remove_pod(name, lent, work, removal).await {
                Ok(()) => removed.push(removal),
                Err(refusal) if refusal.reason == RefusalReason::TooManyRequests => {
                    let now = (self.now)().wall;
                    self.view().ledger.refused(lent, &removal.pod.uid, now);
                }
                Err(refusal) => failed = Some(refusal),
            }
        }
        let is_slow = |removal: &&PodRemoval| removal.means == RemovalMeans::Shorten;
        let (slow, gone): (Vec<&PodRemoval>, Vec<&PodRemoval>) = removed.into_iter().partition(is_slow);
        for (what, pods) in [("taken from this node", gone), ("have an hour at most to end", slow)] {
            if pods.is_empty() {
                continue;
            }
            let why = work.cause.map_or_else(|| work.state.clone(), |cause| cause.to_string());
            let named: Vec<String> = pods.iter().take(NAMED).map(|removal| removal.pod.to_string()).collect();
            let more = match pods.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let note = format!("{what} ({why}): pods {}{more}", named.join(", "));
            self.notice(lent, Urgency::Normal, Reason::PodsRemoved, &note).await;
        }
        match failed {
            None => Ok(()),
            Some(refusal) => Err(NodeError::Refused { order: "remove pods".to_owned(), refusal }),
        }
    }

    #[tracing::instrument(level = "debug", name = "remove", skip_all, fields(pod = %removal.pod, result = Empty, otel.status_code = Empty))]
    async fn remove_pod(
        &self,
        name: &PhysicalName,
        lent: &NodeName,
        work: &NodeWork,
        removal: &PodRemoval,
    ) -> Result<(), Refusal> {
        let (thing, kind, word) = match removal.means {
            RemovalMeans::Eviction => (Thing::LentPodEvictions, WriteKind::PodEvict, "evicted"),
            RemovalMeans::Delete => (Thing::LentPodDeletions, WriteKind::PodDelete, "deleted"),
            RemovalMeans::Shorten => (Thing::LentPodDeletions, WriteKind::PodDelete, "given less time to end"),
        };
        let removed = self.told((thing, Side::Virtual), self.requests.remove_pod(removal).await);
        let why = work.cause.map_or(work.why, Cause::word);
        self.counted.wrote(kind, why, &removed);
        let may_be_done = removed.as_ref().map_or_else(|refusal| refusal.reason.may_be_done(), |()| true);
        if may_be_done {
            self.view().pod_removed(name, lent, &removal.pod.uid, (self.now)());
        }
        removed?;
        self.view().ledger.removed(lent, &removal.pod.uid);
        // One that is being deleted was counted when it was evicted, or is its user's to delete.
        if removal.means != RemovalMeans::Shorten {
            self.counted.evicted(why);
        }
        tracing::info!(node = %lent, pod = %removal.pod, why, state = work.state, "a lent pod was {word}");
        Ok(())
    }

    /// What the labels and annotations of a virtual node lack is said once, and again when it is something else.
    async fn remark(&self, work: &NodeWork) {
        let Some(lent) = &work.lent else { return };
        // Of one that is made now it is said with the next look, which follows at once: then there is an object to say it of.
        let is_there = self.view().lent(lent).is_some();
        if let Some(remark) = self.remarked.news(lent, &work.remark, is_there) {
            tracing::warn!(node = %lent, remark, "a virtual node cannot have everything of its machine, or has more of it");
            self.notice(lent, Urgency::Warning, Reason::MetadataIncomplete, remark).await;
        }
    }

    /// What an API server takes and does not store is counted each time that it was sent, and said once, and again when it is something
    /// else. Nothing of it need be there: a machine whose claim is not stored has no virtual node.
    async fn left_out(&self, name: &PhysicalName, work: &NodeWork) {
        for left_out in work.left_out.iter().filter(|left_out| left_out.is_news) {
            if let Some((kind, _)) = written(work, &left_out.order) {
                self.counted.not_stored(kind);
            }
        }
        let Some(lent) = &work.lent else { return };
        let is_there = {
            let view = self.view();
            view.lent(lent).is_some() || view.physical(name).is_some()
        };
        if let Some(what) = self.unstored.news(lent, &work.unstored, is_there) {
            tracing::warn!(node = %name, %lent, what, "an API server does not store what is written of a node");
            let note = format!(
                "physical node {name}: {what}. The server is older than the field, or a webhook changes what is written; it is tried again \
                 every ten minutes"
            );
            self.notice(lent, Urgency::Warning, Reason::WriteNotStored, &note).await;
        }
    }

    /// The virtual node is marked from now on: no pod comes to it any more, and those that are there go.
    async fn leaves(&self, lent: &NodeName, cause: DeletionCause) {
        tracing::info!(binding = %self.binding, node = %lent, why = cause.word(), "a virtual node is being taken away");
        let note = format!("this node is being taken away: {cause}");
        self.notice(lent, Urgency::Normal, Reason::NodeLeaving, &note).await;
    }

    /// A person may want to know this of a virtual node.
    async fn notice(&self, node: &NodeName, urgency: Urgency, reason: Reason, note: &str) {
        let uid = self.view().lent(node).map(|node| node.uid.to_string());
        let notice = Notice { node, uid: uid.as_deref(), urgency, reason, note };
        self.notices.send(&notice, (self.now)().steady).await;
    }
}

impl<L: Leases> Work<PhysicalName> for Nodes<L> {
    type Error = NodeError;

    async fn work(&self, name: &PhysicalName) -> Result<WorkOutcome, NodeError> {
        let work = self.look(name).await?;
        // What was written changes the facts: look once more, when nothing follows it is at rest. Of one that is decided about under its
        // own name it is not remembered what an API server does not store.
        let is_alone = work.lent.as_deref() == Some(&**name);
        if work.orders.iter().any(NodeOrder::is_write) && !is_alone {
            return Ok(WorkOutcome::Again(Duration::ZERO));
        }
        Ok(work.again.map_or(WorkOutcome::Done, WorkOutcome::Again))
    }

    fn dropped(&self, name: &PhysicalName, failure: &WorkFailure<NodeError>) {
        tracing::warn!(node = %name, error = %failure, "a node of a binding could not be brought up to date; it rests until the next sweep");
    }

    fn all(&self) -> Vec<PhysicalName> {
        self.view().everything().into_iter().collect()
    }
}

impl<L> fmt::Debug for Nodes<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nodes")
    }
}

#[cfg(test)]
mod tests;
