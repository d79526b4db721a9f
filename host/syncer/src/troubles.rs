//! What a binding may not read or cannot find, for its conditions (decision S19).
//!
//! Owns the last refusal of each thing that is read or written again and again, until it succeeds. A missing right is a sentence
//! with verb, resource and side, and never an empty list. Never decides what follows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use topoloom_cluster::{Refusal, RefusalReason, Side};

/// What is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thing {
    /// The watch of the physical nodes.
    PhysicalNodes,
    /// The watch of the physical pods of this virtual cluster.
    OurPods,
    /// The watch of all other physical pods.
    OtherPods,
    /// The watch of the virtual nodes.
    LentNodes,
    /// The watch of the virtual pods.
    LentPods,
    /// The watch of the policies.
    Policies,
    /// The status of policies.
    PolicyStatus,
    /// The Lease of the borrower in `mountNamespace`.
    BorrowerLease,
    /// The witness in the lease of the binding.
    Witness,
    /// The status and the metadata of the binding.
    Binding,
    /// The list of all bindings.
    AllBindings,
    /// Live reads of physical pods.
    PhysicalPodReads,
    /// Live reads of physical nodes.
    PhysicalNodeReads,
    /// Deletions of physical pods that have no virtual one.
    OrphanDeletions,
    /// Live reads of virtual pods.
    LentPodReads,
    /// The status of virtual pods.
    LentPodStatus,
    /// Deletions of virtual pods whose physical one is gone.
    LentPodDeletions,
    /// Placeholders for host ports.
    HostPorts,
}

/// The refusals of one binding. Clones are the same.
#[derive(Clone, Default)]
pub struct Troubles(Arc<Shared>);

#[derive(Default)]
struct Shared {
    refused: Mutex<BTreeMap<Thing, Refusal>>,
    changed: Arc<Notify>,
}

/// Whether a person has to do something about it. All else is tried again, and shows in the state of the connection.
#[must_use]
pub fn lasts(reason: RefusalReason) -> bool {
    match reason {
        RefusalReason::Forbidden
        | RefusalReason::Unauthorized
        | RefusalReason::NoSuchResource
        | RefusalReason::NotFound
        | RefusalReason::Invalid
        | RefusalReason::DeniedByAdmission
        | RefusalReason::WebhookUnreachable => true,
        RefusalReason::Conflict
        | RefusalReason::AlreadyExists
        | RefusalReason::TooManyRequests
        | RefusalReason::Expired
        | RefusalReason::ServerError
        | RefusalReason::Unreachable
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => false,
    }
}

impl Troubles {
    /// This was refused in one of the two clusters.
    pub fn met(&self, thing: Thing, refusal: &Refusal, side: Side) {
        if !lasts(refusal.reason) {
            return;
        }
        let refusal = refusal.clone().on(side);
        let differs = self.refused().insert(thing, refusal.clone()).as_ref() != Some(&refusal);
        if differs {
            tracing::warn!(?thing, reason = refusal.reason.as_str(), error = %refusal, "a request for a binding is refused");
            self.0.changed.notify_one();
        }
    }

    /// It succeeded.
    pub fn over(&self, thing: Thing) {
        if self.refused().remove(&thing).is_some() {
            self.0.changed.notify_one();
        }
    }

    /// All of them, the most basic first.
    #[must_use]
    pub fn all(&self) -> Vec<Refusal> {
        self.refused().values().cloned().collect()
    }

    /// Is notified when they change.
    #[must_use]
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.0.changed)
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<Thing, Refusal>> {
        self.0.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Troubles").field(&self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(reason: RefusalReason) -> Refusal {
        Refusal { reason, message: "no".to_owned(), retry_after: None }
    }

    #[test]
    fn s19_what_a_person_has_to_do_something_about_is_kept_until_it_succeeds() {
        let troubles = Troubles::default();
        troubles.met(Thing::Policies, &refusal(RefusalReason::Unreachable), Side::Physical);
        assert_eq!(troubles.all(), []);
        troubles.met(Thing::Policies, &refusal(RefusalReason::Forbidden), Side::Physical);
        troubles.met(Thing::LentPods, &refusal(RefusalReason::Forbidden), Side::Virtual);
        let sentences: Vec<String> = troubles.all().iter().map(ToString::to_string).collect();
        assert_eq!(sentences, ["the virtual cluster: no", "the physical cluster: no"]);
        troubles.over(Thing::LentPods);
        troubles.over(Thing::LentNodes);
        assert_eq!(troubles.all().len(), 1);
    }

    #[tokio::test]
    async fn a_change_is_notified_and_the_same_refusal_again_is_none() {
        let troubles = Troubles::default();
        let changed = troubles.changed();
        troubles.met(Thing::Policies, &refusal(RefusalReason::Forbidden), Side::Physical);
        changed.notified().await;
        troubles.met(Thing::Policies, &refusal(RefusalReason::Forbidden), Side::Physical);
        assert!(futures::FutureExt::now_or_never(changed.notified()).is_none());
        troubles.over(Thing::Policies);
        changed.notified().await;
    }
}
