//! The controller of pods: the status of physical pods flows up, orphans go, and virtual pods that no other program ends are
//! finished (`bottomup-syncer.md` section 8, decisions D13, D14, S1, S5, S6, S10, S15, S16 and S21).
//!
//! Owns the work on one pod: look at what the watches showed, read live what a decision asks for, ask the guard of the
//! [`View`] before a deletion, and send one request. What follows from the two pods is decided by
//! [`pods`](topoloom_sync::pods), and what a write holds by [`projection`](topoloom_sync::projection). Never decides anything by
//! itself, never writes a physical pod, and never sends a request without the version, and for a deletion the UID, of what was
//! judged.
//!
//! | room | owns |
//! |---|---|
//! | `inbox` | what the watches show, on its way into the book |
//! | `book` | what is known of the pods of both clusters, and which of them are at rest |
//! | `shelf` | texts of pods, bounded |
//! | `look` | the work on a physical pod |
//! | `stray` | virtual pods whose physical pod lost a label of ours |
//! | `ending` | the work on a virtual pod that terminates |
//! | `requests`, `metrics` | requests with deadlines, counts |
//!
//! # What a change costs
//!
//! One patch, where the text of the virtual pod is held, which it is for those that were shown last; one read before it
//! otherwise. A change of the virtual pod by another client that is at rest costs a read of its physical pod. What changes
//! nothing that is copied costs no request.
//!
//! # Failure story
//!
//! A request that fails ends the look; the queue tries again with a pause of this pod alone. Where a right is missing, or an
//! admission policy denies it, only a person can change that: the binding says so ([`Troubles`]), and the pod rests until the next
//! sweep. A conflict means that another client
//! wrote the virtual pod: it is read live and decided about again, in the same look. A status that the API server refuses (422)
//! is reported once for each version of the physical pod, and not sent again. A bar that forbids a write ends the look; whatever
//! changes a bar has to call [`Inbox::wake`]. What is lost with the process makes waits longer and never shorter.

mod book;
mod ending;
mod inbox;
mod key;
mod look;
pub mod metrics;
mod requests;
mod shelf;
mod stray;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use topoloom_cluster::events::Events;
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome};
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::Now;

use self::metrics::BindingMetrics;
use self::requests::PodRequests;
use crate::metrics::Counted;
use crate::nodes::{Notices, unreadable};
use crate::pod_state::PodState;
use crate::slices::pod::{PodName, WholePod};
use crate::troubles::{Thing, Troubles};
use crate::view::View;

pub use self::inbox::Inbox;
pub use self::key::PodKey;
pub use self::requests::PodClients;

/// How many pods are worked on at once: each waits for one answer at a time, and an API server answers some hundred writes a
/// second with as many under way.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// How often a look may read or write before it is left to the next try: binding, physical pod, virtual pod, and the last again
/// after a conflict.
const QUESTIONS: usize = 8;

/// The controller of the pods of one binding.
pub struct Pods {
    view: Arc<Mutex<View>>,
    inbox: Inbox,
    requests: PodRequests,
    notices: Notices,
    troubles: Troubles,
    metrics: BindingMetrics,
    counted: Counted,
    binding: BindingName,
    /// The last list of virtual pods that name a physical one.
    naming: tokio::sync::Mutex<Option<Naming>>,
    now: Box<dyn Fn() -> Now + Send + Sync>,
}

/// The virtual pods that name a physical one, by the name of that.
struct Naming {
    /// When the list was asked for, by the steady clock.
    begun: Duration,
    pods: HashMap<PodName, Vec<Arc<PodState>>>,
}

/// What is asked of an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    ReadPhysical,
    ReadNode,
    DeletePhysical,
    ReadTwin,
    WriteStatus,
    WritePhase,
    RemoveTwin,
    Bindings,
}

impl Ask {
    fn sentence(self) -> &'static str {
        match self {
            Self::ReadPhysical => "the physical pod is read",
            Self::ReadNode => "the physical node is read",
            Self::DeletePhysical => "the physical pod is deleted",
            Self::ReadTwin => "the virtual pod is read",
            Self::WriteStatus => "the status of the virtual pod is written",
            Self::WritePhase => "a final phase is written",
            Self::RemoveTwin => "the virtual pod is removed",
            Self::Bindings => "the ClusterBindings are listed",
        }
    }

    /// Of what it is, and in which cluster.
    fn thing(self) -> (Thing, Side) {
        match self {
            Self::ReadPhysical => (Thing::PhysicalPodReads, Side::Physical),
            Self::ReadNode => (Thing::PhysicalNodeReads, Side::Physical),
            Self::DeletePhysical => (Thing::OrphanDeletions, Side::Physical),
            Self::ReadTwin => (Thing::LentPodReads, Side::Virtual),
            Self::WriteStatus | Self::WritePhase => (Thing::LentPodStatus, Side::Virtual),
            Self::RemoveTwin => (Thing::LentPodDeletions, Side::Virtual),
            Self::Bindings => (Thing::AllBindings, Side::Virtual),
        }
    }
}

/// Why the work on a pod failed.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// A request was refused.
    #[error("{what}: {refusal}")]
    Refused {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        refusal: Refusal,
    },
    /// What was read is not what was asked for.
    #[error("the virtual pod that it names could not be read")]
    Unread,
    /// A decision asked again and again.
    #[error("{QUESTIONS} live reads led to no decision")]
    Unanswered,
}

impl Pods {
    /// The controller that takes from this inbox and writes by these clients.
    #[must_use]
    pub fn new(
        view: Arc<Mutex<View>>,
        inbox: Inbox,
        clients: PodClients,
        events: Events,
        troubles: Troubles,
        metrics: BindingMetrics,
        now: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Self {
        let (requests, naming, now) = (PodRequests::new(clients), tokio::sync::Mutex::default(), Box::new(now));
        let binding = view.lock().unwrap_or_else(PoisonError::into_inner).binding.identity.binding().clone();
        let (notices, counted) = (Notices::new(events), Counted::default());
        Self { view, inbox, requests, notices, troubles, metrics, counted, binding, naming, now }
    }

    /// The same, which counts its writes here.
    #[must_use]
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted, ..self }
    }

    /// Where the watches show pods.
    #[must_use]
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request for this pod. One that a person has to do something about is a trouble of the binding until the same
    /// succeeds, for this pod where it is about it alone.
    fn told<T>(&self, ask: Ask, of: &PodName, answer: Result<T, Refusal>) -> Result<T, PodError> {
        let (thing, side) = ask.thing();
        match answer {
            Ok(found) => {
                self.troubles.over_of(thing, of.text());
                Ok(found)
            }
            Err(refusal) => {
                self.troubles.met_of(thing, of.text(), &refusal, side);
                Err(PodError::Refused { what: ask.sentence(), refusal })
            }
        }
    }

    /// An answer, as far as anything follows from it.
    fn state(&self, whole: WholePod) -> Result<PodState, Refusal> {
        let (slice, copied) = whole.split().map_err(|error| unreadable(&error))?;
        Ok(self.inbox.state(&slice, copied))
    }
}

impl Work<PodKey> for Pods {
    type Error = PodError;

    async fn work(&self, key: &PodKey) -> Result<WorkOutcome, PodError> {
        let worked = match key {
            PodKey::Physical(name) => self.look(name).await,
            PodKey::Ending(name) => self.finish(name).await,
        };
        match worked {
            Err(PodError::Refused { what, refusal }) if is_for_a_person(refusal.reason) => {
                tracing::debug!(pod = %key, what, error = %refusal, "a pod waits until a person has changed what is refused");
                Ok(WorkOutcome::Done)
            }
            worked => worked,
        }
    }

    fn dropped(&self, key: &PodKey, failure: &WorkFailure<PodError>) {
        tracing::warn!(pod = %key, error = %failure, "a pod of a binding could not be brought up to date; it rests until the next sweep");
    }

    fn all(&self) -> Vec<PodKey> {
        // A full queue may have refused the look that withdraws what was asked for.
        let asked = self.view().orphans();
        let gone: Vec<_> = {
            let book = self.inbox.book();
            asked.into_iter().filter(|name| !book.knows(&PodName::of(name))).collect()
        };
        gone.iter().for_each(|name| self.view().orphan_kept(name));
        self.inbox.book().all()
    }
}

/// Whether the same request is refused until a person has changed something.
fn is_for_a_person(reason: RefusalReason) -> bool {
    matches!(reason, RefusalReason::Forbidden | RefusalReason::DeniedByAdmission)
}

impl fmt::Debug for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pods")
    }
}

#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;
