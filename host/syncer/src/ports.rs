//! The controller of placeholders for host ports: it carries out what [`ports`](topoloom_sync::ports) decides (`bottomup-syncer.md`
//! 11.2, decisions S3 and S6).
//!
//! Owns the work on the placeholders of one virtual node: decide under the lock of the [`View`], send one request, and decide again
//! with its answer until nothing follows. Never decides anything by itself, never writes a pod outside of the namespace of
//! placeholders, and never sends a write that carries no version or UID, but for the one that makes a placeholder.
//!
//! # Failure story
//!
//! A request that fails ends the work on a node; the queue tries again with a pause of this node alone, and what is stored then says
//! where it continues. A placeholder has the name that follows from what it holds: where the answer to the request that made it was
//! lost, the next one finds it, and none is made twice. One that is gone before it was marked is made again once its watch shows that.
//! Where a right or the namespace is missing, the binding says so ([`Troubles`]), and nodes are lent all the same: pods that want a
//! port that is taken are refused by the kubelet, as without placeholders. A pod that is not ours and has the name of a placeholder
//! is left alone, and the virtual node has an Event about it once.

mod requests;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use topoloom_api::Reason;
use topoloom_cluster::events::{Events, Urgency};
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome};
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::identity::WhyForeign;
use topoloom_sync::keys::HOST_PORT_NAMESPACE;
use topoloom_sync::node::Now;
use topoloom_sync::ports::{Placeholder, PortOrder, WhyGone, WhyNothing};
use topoloom_sync::precondition::Precondition;
use tracing::field::Empty;

pub use self::requests::PortRequests;
use crate::metrics::{Counted, WriteKind};
use crate::nodes::{Notice, Notices};
use crate::troubles::{Thing, Troubles};
use crate::view::{PortEvidence, PortWork, View};

/// How often the work on a node may decide again before it is left to the next try: a placeholder is made and marked, and a kubelet
/// takes 110 pods unless its configuration says otherwise.
const ROUNDS: usize = 300;

/// The controller of the placeholders of one binding.
pub struct Placeholders {
    view: Arc<Mutex<View>>,
    requests: PortRequests,
    notices: Notices,
    troubles: Troubles,
    counted: Counted,
    now: fn() -> Now,
}

/// Why the work on the placeholders of a node failed.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
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

impl Placeholders {
    /// The controller that writes by these requests.
    #[must_use]
    pub fn new(
        view: Arc<Mutex<View>>,
        requests: PortRequests,
        events: Events,
        troubles: Troubles,
        now: fn() -> Now,
    ) -> Self {
        Self { view, requests, notices: Notices::new(events), troubles, counted: Counted::default(), now }
    }

    /// The same, which counts its writes here.
    #[must_use]
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted, ..self }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the placeholders of a virtual node until nothing follows.
    async fn look(&self, node: &NodeName) -> Result<(), PortError> {
        let mut evidence = PortEvidence::default();
        let mut last = String::new();
        for _ in 0..ROUNDS {
            let now = (self.now)().wall;
            let Some(work) = self.view().decide_ports(node, &evidence, now) else { return Ok(()) };
            match self.carry(node, &work, &mut evidence).await {
                Ok(Then::Rest) => return Ok(()),
                Ok(Then::Decide) => last = work.order.to_string(),
                Err(refusal) => return Err(self.refused(node, &work, refusal).await),
            }
        }
        Err(PortError::Restless(last))
    }

    async fn carry(&self, node: &NodeName, work: &PortWork, evidence: &mut PortEvidence) -> Result<Then, Refusal> {
        match &work.order {
            PortOrder::Nothing(why) => {
                tracing::trace!(%node, %why, "nothing follows for the placeholders of a node");
                if let WhyNothing::Foreign { name, uid, why } = why {
                    self.left_alone(node, work, (name, uid), why).await;
                }
                return Ok(Then::Rest);
            }
            PortOrder::Withheld(why) => {
                tracing::debug!(%node, %why, "the placeholders of a node are not written");
                return Ok(Then::Rest);
            }
            PortOrder::AskBinding(_) => {
                evidence.bindings = Some(self.told(Thing::AllBindings, self.requests.bindings().await)?);
            }
            PortOrder::AskNode => evidence.node = self.told(Thing::LentNodeReads, self.requests.node(node).await)?,
            PortOrder::Create { name, body } => self.create(node, work, name, body, evidence).await?,
            PortOrder::Mark { name, body } => {
                let marked = self.mark(node, name, body).await?;
                self.store(node, marked, evidence);
            }
            PortOrder::Delete { name, why, precondition } => match self.delete(node, name, *why, precondition).await? {
                Some(kept) => self.store(node, kept, evidence),
                None => {
                    self.troubles.over(Thing::HostPorts);
                    self.view().placeholder_gone(precondition.uid());
                    // What was read before the deletion is none any more.
                    evidence.existing = None;
                }
            },
        }
        let order = &work.order;
        tracing::debug!(%node, %order, "carried out");
        Ok(Then::Decide)
    }

    /// The answer to a read. A right that is missing is a trouble of the binding until the same succeeds.
    fn told<T>(&self, thing: Thing, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        self.troubles.of_right(thing, Side::Virtual, &answer);
        answer
    }

    /// Makes a placeholder. Where there is a pod of that name, what is stored decides.
    #[tracing::instrument(level = "debug", name = "host-port", skip_all, fields(node = &**node, verb = "create", result = Empty, otel.status_code = Empty))]
    async fn create(
        &self,
        node: &NodeName,
        work: &PortWork,
        name: &str,
        body: &Value,
        evidence: &mut PortEvidence,
    ) -> Result<(), Refusal> {
        let created = self.requests.create(body).await;
        self.counted.wrote(WriteKind::HostPort, "create", &created);
        match created {
            Ok(made) => {
                if work.left_out > 0 {
                    let left_out = work.left_out;
                    tracing::warn!(%node, left_out, "a machine has more host ports than placeholders may hold; the last ones look free");
                }
                self.view().ports.name_free(name);
                self.store(node, made, evidence);
                Ok(())
            }
            Err(refusal) if refusal.reason == RefusalReason::AlreadyExists => {
                evidence.existing = self.requests.existing(name).await?;
                Ok(())
            }
            Err(refusal) => Err(refusal),
        }
    }

    #[tracing::instrument(level = "debug", name = "host-port", skip_all, fields(node = &**node, verb = "patch", result = Empty, otel.status_code = Empty))]
    async fn mark(&self, node: &NodeName, name: &str, body: &Value) -> Result<Placeholder, Refusal> {
        let marked = self.requests.mark(name, body).await;
        self.counted.wrote(WriteKind::HostPort, "mark", &marked);
        marked
    }

    #[tracing::instrument(level = "debug", name = "host-port", skip_all, fields(node = &**node, verb = "delete", result = Empty, otel.status_code = Empty))]
    async fn delete(
        &self,
        node: &NodeName,
        name: &str,
        why: WhyGone,
        judged: &Precondition,
    ) -> Result<Option<Placeholder>, Refusal> {
        let deleted = self.requests.delete(name, judged).await;
        self.counted.wrote(WriteKind::HostPort, why.word(), &deleted);
        deleted
    }

    /// An answer shows what is stored: the next decision does not repeat a write that the watch has not shown yet.
    fn store(&self, node: &NodeName, stored: Placeholder, evidence: &mut PortEvidence) {
        self.troubles.over(Thing::HostPorts);
        evidence.existing = None;
        self.view().placeholder(node, stored);
    }

    async fn left_alone(&self, node: &NodeName, work: &PortWork, (name, uid): (&str, &Uid), why: &WhyForeign) {
        if !self.view().ports.name_taken(name, uid) {
            return;
        }
        let note = format!(
            "the pod {HOST_PORT_NAMESPACE}/{name} is left alone: {why}. Host ports that it should hold look free on this node until \
             it is deleted"
        );
        tracing::warn!(%node, pod = name, %why, "another's pod has the name of a placeholder; it is left alone");
        self.notice(node, work, Reason::NameTaken, &note).await;
    }

    /// A person has to act on this.
    async fn notice(&self, node: &NodeName, work: &PortWork, reason: Reason, note: &str) {
        let notice = Notice { node, uid: work.node.as_deref(), urgency: Urgency::Warning, reason, note };
        self.notices.send(&notice, (self.now)().steady).await;
    }

    async fn refused(&self, node: &NodeName, work: &PortWork, refusal: Refusal) -> PortError {
        let order = work.order.to_string();
        tracing::debug!(%node, %order, reason = refusal.reason.as_str(), error = %refusal, "refused");
        if is_trouble(&work.order, refusal.reason) {
            self.troubles.met(Thing::HostPorts, &refusal, Side::Virtual);
        }
        let refusal = refusal.on(Side::Virtual);
        if matches!(refusal.reason, RefusalReason::Invalid | RefusalReason::DeniedByAdmission) && work.node.is_some() {
            let note =
                format!("host ports of the physical node may look free here, or taken: {order} was refused: {refusal}");
            self.notice(node, work, Reason::WriteRefused, &note).await;
        }
        PortError::Refused { order, refusal }
    }
}

/// Whether a write that was refused so is a trouble of the whole binding.
fn is_trouble(order: &PortOrder, reason: RefusalReason) -> bool {
    match order {
        // The namespace is what is not found then.
        PortOrder::Create { .. } => true,
        // A placeholder that is gone is looked for again.
        PortOrder::Mark { .. } | PortOrder::Delete { .. } => reason != RefusalReason::NotFound,
        PortOrder::Nothing(_) | PortOrder::AskBinding(_) | PortOrder::AskNode | PortOrder::Withheld(_) => false,
    }
}

impl Work<NodeName> for Placeholders {
    type Error = PortError;

    async fn work(&self, node: &NodeName) -> Result<WorkOutcome, PortError> {
        self.look(node).await?;
        Ok(WorkOutcome::Done)
    }

    fn dropped(&self, node: &NodeName, failure: &WorkFailure<PortError>) {
        tracing::warn!(%node, error = %failure, "the placeholders of a virtual node could not be brought up to date; they rest until the next sweep");
    }

    fn all(&self) -> Vec<NodeName> {
        self.view().all_ports().into_iter().collect()
    }
}

impl fmt::Debug for Placeholders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placeholders")
    }
}

#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;
