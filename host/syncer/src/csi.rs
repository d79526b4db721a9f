//! The controller of CSINodes: it carries out what [`csi`](topoloom_sync::csi) decides (`bottomup-syncer.md` section 9, decisions
//! S5, S6, S13 and S22).
//!
//! Owns the work on the CSINode of one virtual node: decide under the lock of the [`View`], send one request, and decide again
//! with its answer until nothing follows. A driver that changed is two writes, and the second one follows from the answer to the
//! first. Never decides anything by itself, never deletes a CSINode to make it anew, and never sends a write that carries no
//! version or UID, but for the one that makes a CSINode.
//!
//! # Failure story
//!
//! A request that fails ends the work on a CSINode; the queue tries again with a pause of this one alone, and what is stored then
//! says where it continues: also where the process died between the two writes of a driver. Where a CSINode of that name exists that
//! is not ours, it is left alone, the virtual node has an Event about it once, and no write is tried under that name before a read
//! has shown that it is free. A right that is missing is in the conditions of the binding ([`Troubles`]); nodes are lent all the
//! same, since nothing about them waits for this controller.

mod requests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use topoloom_api::Reason;
use topoloom_cluster::events::{Events, Urgency};
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome};
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::csi::{Change, CsiOrder, VirtualCsiNode, WhyNothing};
use topoloom_sync::identity::WhyForeign;
use topoloom_sync::node::Now;
use topoloom_sync::precondition::Precondition;
use tracing::field::Empty;

pub use self::requests::{CsiClients, CsiRequests};
use crate::ledger::PhysicalName;
use crate::metrics::{Counted, WriteKind};
use crate::nodes::{Notice, Notices};
use crate::troubles::{Thing, Troubles};
use crate::view::{CsiEvidence, CsiWork, View};

/// How often the work on a CSINode may decide again before it is left to the next try. The longest way has nine: the name is
/// taken, the object is read, its binding is read, the number of volumes is refused, a driver is taken out and added, and between
/// the last two another client changes it.
const ROUNDS: usize = 12;
/// What API servers say of a field that cannot be changed.
const IMMUTABLE: &str = "field is immutable";

/// The controller of the CSINodes of one binding.
pub struct CsiNodes {
    view: Arc<Mutex<View>>,
    requests: CsiRequests,
    notices: Notices,
    counted: Counted,
    troubles: Troubles,
    now: fn() -> Now,
}

/// Why the work on a CSINode failed.
#[derive(Debug, thiserror::Error)]
pub enum CsiNodeError {
    /// A request was refused.
    #[error("{order}: {refusal}")]
    Refused {
        /// What was to be done.
        order: String,
        /// Why not.
        refusal: Refusal,
    },
    /// It came not to rest.
    #[error("after {ROUNDS} answers there was more to do: {0}")]
    Restless(String),
}

/// Whether there is more to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Rest,
    Decide,
}

impl CsiNodes {
    /// The controller that writes by these requests.
    #[must_use]
    pub fn new(view: Arc<Mutex<View>>, requests: CsiRequests, events: Events, now: fn() -> Now) -> Self {
        let notices = Notices::new(events);
        Self { view, requests, notices, counted: Counted::default(), troubles: Troubles::default(), now }
    }

    /// The same, which counts its writes here.
    #[must_use]
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted, ..self }
    }

    /// The same, which says here which rights are missing.
    #[must_use]
    pub fn telling(self, troubles: Troubles) -> Self {
        Self { troubles, ..self }
    }

    /// The answer to a request. A right that is missing is a trouble of the binding until the same succeeds.
    fn told<T>(&self, thing: Thing, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        self.troubles.of_right_at(thing, &answer);
        answer
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the CSINode of a virtual node until nothing follows.
    async fn look(&self, name: &PhysicalName) -> Result<(), CsiNodeError> {
        let mut evidence = CsiEvidence::default();
        let mut last = String::new();
        for _ in 0..ROUNDS {
            let now = (self.now)().wall;
            let Some(work) = self.view().decide_csi_node(name, &evidence, now) else { return Ok(()) };
            match self.carry(name, &work, &mut evidence).await {
                Ok(Then::Rest) => return Ok(()),
                Ok(Then::Decide) => last = work.order.to_string(),
                Err(refusal) => return Err(self.refused(name, &work, refusal).await),
            }
        }
        Err(CsiNodeError::Restless(last))
    }

    async fn carry(&self, name: &PhysicalName, work: &CsiWork, evidence: &mut CsiEvidence) -> Result<Then, Refusal> {
        let CsiWork { lent, order, .. } = work;
        match order {
            CsiOrder::Nothing(why) => {
                tracing::trace!(node = %name, %why, "nothing follows for a CSINode");
                self.rest(work, why).await;
                return Ok(Then::Rest);
            }
            CsiOrder::Withheld(bar) => {
                tracing::debug!(node = %name, %bar, "the CSINode of a virtual node is not written");
                return Ok(Then::Rest);
            }
            CsiOrder::AskBinding(_) => {
                evidence.bindings = Some(self.told(Thing::AllBindings, self.requests.bindings().await)?);
            }
            CsiOrder::AskPhysical => {
                evidence.live.physical = self.told(Thing::PhysicalCsiNodeReads, self.requests.physical(name).await)?;
            }
            CsiOrder::AskNode => {
                evidence.live.node = self.told(Thing::LentNodeReads, self.requests.node(lent).await)?;
            }
            CsiOrder::Create(body) => self.create(work, body, evidence).await?,
            CsiOrder::Patch { body, changes, .. } => self.patch(work, body, changes, evidence).await?,
            CsiOrder::Delete { precondition, .. } => {
                match self.delete(work, precondition).await? {
                    Some(kept) => self.store(work, kept),
                    None => {
                        self.view().lent_csi_node_gone(lent);
                        // What was read before the deletion is none any more.
                        evidence.existing = None;
                    }
                }
            }
        }
        tracing::debug!(node = %name, %order, "carried out");
        Ok(Then::Decide)
    }

    /// Makes the CSINode. Where there is one of that name, what is stored decides.
    #[tracing::instrument(level = "debug", name = "csinode", skip_all, fields(node = &*work.lent, verb = "create", result = Empty, otel.status_code = Empty))]
    async fn create(&self, work: &CsiWork, body: &Value, evidence: &mut CsiEvidence) -> Result<(), Refusal> {
        // Where the name was taken a read is enough to see whether it still is.
        if !work.was_taken {
            let created = self.told(Thing::LentCsiNodeCreations, self.requests.create(body).await);
            self.counted.wrote(WriteKind::CsiNode, "create", &created);
            match created {
                Ok(stored) => {
                    self.store(work, stored);
                    return Ok(());
                }
                Err(refusal) if refusal.reason == RefusalReason::AlreadyExists => {}
                Err(refusal) => return Err(refusal),
            }
        }
        evidence.existing = self.told(Thing::LentCsiNodeReads, self.requests.existing(&work.lent).await)?;
        if evidence.existing.is_none() {
            self.view().csi.name_free(&work.lent);
        }
        Ok(())
    }

    #[tracing::instrument(level = "debug", name = "csinode", skip_all, fields(node = &*work.lent, verb = "patch", result = Empty, otel.status_code = Empty))]
    async fn patch(
        &self,
        work: &CsiWork,
        body: &Value,
        changes: &[Change],
        evidence: &mut CsiEvidence,
    ) -> Result<(), Refusal> {
        let counts = changes.iter().any(|change| matches!(change, Change::Count(_)));
        let patched = self.told(Thing::LentCsiNodeChanges, self.requests.patch(&work.lent, body).await);
        self.counted.wrote(WriteKind::CsiNode, "change", &patched);
        match patched {
            Ok(stored) => self.patched(work, stored, evidence),
            Err(refusal)
                if counts && refusal.reason == RefusalReason::Invalid && refusal.message.contains(IMMUTABLE) =>
            {
                tracing::debug!(node = %work.lent, error = %refusal, "the number of volumes of a driver cannot be changed in place");
                self.view().csi.count_edit_refused();
            }
            Err(refusal) => return Err(refusal),
        }
        Ok(())
    }

    #[tracing::instrument(level = "debug", name = "csinode", skip_all, fields(node = &*work.lent, verb = "delete", result = Empty, otel.status_code = Empty))]
    async fn delete(&self, work: &CsiWork, judged: &Precondition) -> Result<Option<VirtualCsiNode>, Refusal> {
        let deleted = self.told(Thing::LentCsiNodeDeletions, self.requests.delete(&work.lent, judged).await);
        self.counted.wrote(WriteKind::CsiNode, "delete", &deleted);
        deleted
    }

    /// The answer to a change counts for the object that is known. Where the watch shows it as gone, or another one, that is the
    /// later news; and one that was read because none was known is known for this look.
    fn patched(&self, work: &CsiWork, stored: VirtualCsiNode, evidence: &mut CsiEvidence) {
        let is_known = self.view().csi.lent(&work.lent).is_some_and(|known| known.uid == stored.uid);
        if is_known {
            self.store(work, stored);
            return;
        }
        evidence.existing = evidence.existing.take().filter(|existing| existing.uid == stored.uid).map(|_| stored);
    }

    /// An answer shows what is stored: the next decision does not repeat a write that the watch has not shown yet.
    fn store(&self, work: &CsiWork, stored: VirtualCsiNode) {
        self.view().lent_csi_node(&work.lent, stored);
    }

    /// Nothing follows. Where that is because another's object has the name, a person has to know.
    async fn rest(&self, work: &CsiWork, why: &WhyNothing) {
        match why {
            WhyNothing::Foreign(why) => self.left_alone(work, why).await,
            WhyNothing::Same if work.was_taken => self.view().csi.name_free(&work.lent),
            WhyNothing::Same
            | WhyNothing::Absent
            | WhyNothing::ForeignNode(_)
            | WhyNothing::Taken(_)
            | WhyNothing::Terminating
            | WhyNothing::CacheBehind
            | WhyNothing::Unguarded => {}
        }
    }

    async fn left_alone(&self, work: &CsiWork, why: &WhyForeign) {
        let (Some(existing), Some(node)) = (&work.existing, &work.node) else { return };
        if !self.view().csi.name_taken(&work.lent, existing) {
            return;
        }
        let note = format!(
            "the CSINode {} is left alone: {why}. Drivers and limits of volumes of this node are what it says, and not those of \
             the physical node, until it is deleted",
            work.lent
        );
        tracing::warn!(node = %work.lent, %why, "another's CSINode has the name of a virtual node; it is left alone");
        self.notice(&work.lent, node, Reason::NameTaken, &note).await;
    }

    /// A person has to act on this.
    async fn notice(&self, node: &NodeName, uid: &Uid, reason: Reason, note: &str) {
        let notice = Notice { node, uid: Some(&**uid), urgency: Urgency::Warning, reason, note };
        self.notices.send(&notice, (self.now)().steady).await;
    }

    async fn refused(&self, name: &PhysicalName, work: &CsiWork, refusal: Refusal) -> CsiNodeError {
        let order = work.order.to_string();
        tracing::debug!(node = %name, %order, reason = refusal.reason.as_str(), error = %refusal, "refused");
        if let (RefusalReason::Invalid | RefusalReason::DeniedByAdmission, Some(node)) = (refusal.reason, &work.node) {
            let note = format!("the CSINode of this node was to be {order}; that was refused: {refusal}");
            self.notice(&work.lent, node, Reason::WriteRefused, &note).await;
        }
        CsiNodeError::Refused { order, refusal }
    }
}

impl Work<PhysicalName> for CsiNodes {
    type Error = CsiNodeError;

    async fn work(&self, name: &PhysicalName) -> Result<WorkOutcome, CsiNodeError> {
        self.look(name).await?;
        Ok(WorkOutcome::Done)
    }

    fn dropped(&self, name: &PhysicalName, failure: &WorkFailure<CsiNodeError>) {
        tracing::warn!(node = %name, error = %failure, "the CSINode of a virtual node could not be brought up to date; it rests until the next sweep");
    }

    fn all(&self) -> Vec<PhysicalName> {
        self.view().all_csi_nodes().into_iter().collect()
    }
}

impl fmt::Debug for CsiNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CsiNodes")
    }
}

#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;
