//! What a binding may not read or cannot find, for its conditions (decision S19).
//!
//! Owns the refusal of each thing that is read or written again and again, until it succeeds. A missing right is a sentence
//! with verb, resource and side, and never an empty list. Never decides what follows.
//!
//! What differs by verb or resource is a thing of its own: otherwise a write that succeeds would hide another one that is refused,
//! and the condition would change with every request. Of many objects that one rule would cure, the first is named and stays; and so
//! of many that are refused for one reason without a rule, each in a text of its own.
//!
//! Where admission denies one of many objects, the others are written on, so a success says nothing about that one: it is remembered
//! by itself ([`Troubles::met_of`]), or the binding would be ready and not ready by turns, with every sweep.
//!
//! # Failure story
//!
//! The texts are those of servers that another party may run: each is kept on one line, up to a bound, or a condition would be too
//! long for its object and no status could be written any more.
//!
//! What is refused and then never tried again, because its cause is gone, would be shown for ever: a refusal that was not met for
//! half an hour is forgotten. Everything that lasts is tried more often than that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::text;

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
    /// The same, where it is only compared with its copy.
    WitnessReads,
    /// What is kept of the binding in its lease, for the nodes that it leaves if it is deleted by force.
    BindingRecord,
    /// The watch of the binding.
    BindingWatch,
    /// The metadata of the binding: its finalizer, and verbs that were obeyed.
    Binding,
    /// The status of the binding.
    BindingStatus,
    /// The list of all bindings.
    AllBindings,
    /// The list of the leases of virtual nodes.
    LeaseLists,
    /// New leases of virtual nodes.
    LeaseCreations,
    /// Renewals of leases of virtual nodes.
    LeaseRenewals,
    /// Live reads of leases of virtual nodes.
    LeaseReads,
    /// The list of the virtual nodes with which a replica takes a binding over.
    LentNodeLists,
    /// Live reads of physical pods.
    PhysicalPodReads,
    /// Live reads of physical nodes.
    PhysicalNodeReads,
    /// Claims on physical nodes, and the policy in force on them.
    NodeClaims,
    /// Deletions of physical pods that have no virtual one.
    OrphanDeletions,
    /// New virtual nodes.
    LentNodeCreations,
    /// The status of virtual nodes.
    LentNodeStatus,
    /// Taints, the cordon and the finalizer of virtual nodes.
    LentNodeSpecs,
    /// Deletions of virtual nodes.
    LentNodeDeletions,
    /// Live reads of virtual nodes.
    LentNodeReads,
    /// Live reads of virtual pods.
    LentPodReads,
    /// Live lists of the pods of one virtual node.
    LentPodLists,
    /// The status of virtual pods.
    LentPodStatus,
    /// Deletions of virtual pods.
    LentPodDeletions,
    /// Evictions of virtual pods.
    LentPodEvictions,
    /// The watch of the physical CSINodes.
    PhysicalCsiNodes,
    /// The watch of the virtual CSINodes.
    LentCsiNodes,
    /// Live reads of physical CSINodes.
    PhysicalCsiNodeReads,
    /// Live reads of virtual CSINodes.
    LentCsiNodeReads,
    /// New virtual CSINodes.
    LentCsiNodeCreations,
    /// Changes of virtual CSINodes.
    LentCsiNodeChanges,
    /// Deletions of virtual CSINodes.
    LentCsiNodeDeletions,
    /// Placeholders for host ports.
    HostPorts,
}

/// After this time a refusal that was not met again is forgotten. What is refused is tried again with each sweep, which is every
/// ten minutes, or sooner.
const FORGOTTEN: Duration = Duration::from_secs(30 * 60);
/// After this time the object that is named gives way to another one that is refused for the same reason: longer than a sweep, so
/// that one that is refused still keeps its place.
const REPLACED: Duration = Duration::from_secs(15 * 60);
/// So many objects of one thing are remembered that are refused by themselves: the first is shown.
const OBJECTS: usize = 20;
/// The longest text of a refusal that is kept, in bytes: that of a missing right names a user and an object, and the rule.
const SHOWN: usize = 2_000;

/// The refusals of one binding. Clones are the same.
#[derive(Clone, Default)]
pub struct Troubles(Arc<Shared>);

#[derive(Default)]
struct Shared {
    refused: Mutex<Refused>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Refused {
    things: BTreeMap<Thing, Met>,
    /// Objects that are refused by themselves, in the order in which they were met first.
    objects: BTreeMap<Thing, Vec<MetObject>>,
}

/// One of many objects that is refused, and when that was met last.
struct MetObject {
    name: Box<str>,
    refusal: Refusal,
    last: Instant,
}

impl MetObject {
    /// Whether a sweep has met it lately: each tries it again.
    fn is_met(&self) -> bool {
        self.last.elapsed() < REPLACED
    }
}

/// A refusal, and when it was met last.
struct Met {
    refusal: Refusal,
    /// It, or another one that is shown by it.
    last: Instant,
    /// It itself.
    itself: Instant,
}

impl Met {
    /// Whether it shows this refusal, too, which is met now.
    fn shows(&mut self, refusal: &Refusal, now: Instant) -> bool {
        let is_itself = self.refusal.cause() == refusal.cause();
        if is_itself {
            self.itself = now;
        }
        let has_rule = self.refusal.rule().is_some() || refusal.rule().is_some();
        let is_alike = self.refusal.reason == refusal.reason && !has_rule;
        let shows = is_itself || (is_alike && now.duration_since(self.itself) < REPLACED);
        if shows {
            self.last = now;
        }
        shows
    }
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
        | RefusalReason::WebhookUnreachable
        | RefusalReason::TooLarge => true,
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

/// Whether a right is missing, or the credential is not accepted: then the same is refused for every object of the kind.
#[must_use]
pub fn is_missing_right(reason: RefusalReason) -> bool {
    matches!(reason, RefusalReason::Forbidden | RefusalReason::Unauthorized)
}

/// Whether the same request about another object may succeed.
fn is_of_an_object(reason: RefusalReason) -> bool {
    match reason {
        RefusalReason::Invalid | RefusalReason::DeniedByAdmission | RefusalReason::WebhookUnreachable => true,
        RefusalReason::Forbidden
        | RefusalReason::Unauthorized
        | RefusalReason::NoSuchResource
        | RefusalReason::NotFound
        | RefusalReason::TooLarge
        | RefusalReason::Conflict
        | RefusalReason::AlreadyExists
        | RefusalReason::TooManyRequests
        | RefusalReason::Expired
        | RefusalReason::ServerError
        | RefusalReason::Unreachable
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => false,
    }
}

/// On one line, and up to a bound.
fn shown(refusal: &Refusal) -> Refusal {
    Refusal { message: text::line(&refusal.message, SHOWN), ..refusal.clone() }
}

impl Troubles {
    /// This was refused in one of the two clusters.
    pub fn met(&self, thing: Thing, refusal: &Refusal, side: Side) {
        self.met_at(thing, &refusal.clone().on(side));
    }

    /// The same for a refusal whose sentence names its cluster already.
    pub fn met_at(&self, thing: Thing, refusal: &Refusal) {
        if !lasts(refusal.reason) {
            return;
        }
        let (refusal, now) = (shown(refusal), Instant::now());
        {
            let mut refused = self.refused();
            if refused.things.get_mut(&thing).is_some_and(|known| known.shows(&refusal, now)) {
                return;
            }
            refused.things.insert(thing, Met { refusal: refusal.clone(), last: now, itself: now });
        }
        self.tell(thing, &refusal);
    }

    fn tell(&self, thing: Thing, refusal: &Refusal) {
        tracing::warn!(?thing, reason = refusal.reason.as_str(), error = %refusal, "a request for a binding is refused");
        self.0.changed.notify_one();
    }

    /// This was refused for one of many objects. What a rule would cure is no matter of this object alone.
    pub fn met_of(&self, thing: Thing, object: &str, refusal: &Refusal, side: Side) {
        if !is_of_an_object(refusal.reason) {
            return self.met(thing, refusal, side);
        }
        let (refusal, now) = (shown(&refusal.clone().on(side)), Instant::now());
        {
            let mut refused = self.refused();
            let objects = refused.objects.entry(thing).or_default();
            objects.retain(MetObject::is_met);
            if let Some(known) = objects.iter_mut().find(|known| *known.name == *object) {
                known.last = now;
                return;
            }
            if objects.len() < OBJECTS {
                objects.push(MetObject { name: object.into(), refusal: refusal.clone(), last: now });
            }
            if objects.len() > 1 {
                return;
            }
        }
        self.tell(thing, &refusal);
    }

    /// It succeeded for one of many objects. Others may be refused still.
    pub fn over_of(&self, thing: Thing, object: &str) {
        self.over(thing);
        let is_news = {
            let mut refused = self.refused();
            let Some(objects) = refused.objects.get_mut(&thing) else { return };
            let was_shown = objects.first().is_some_and(|first| *first.name == *object);
            objects.retain(|known| *known.name != *object);
            if objects.is_empty() {
                refused.objects.remove(&thing);
            }
            was_shown
        };
        if is_news {
            self.0.changed.notify_one();
        }
    }

    /// What came of a request, with the cluster that it went to: a right that is missing is a trouble until the same succeeds, and
    /// all else is the caller's.
    pub fn of_right<T>(&self, thing: Thing, side: Side, answer: &Result<T, Refusal>) {
        match answer {
            Ok(_) => self.over(thing),
            Err(refusal) if is_missing_right(refusal.reason) => self.met(thing, refusal, side),
            Err(_) => {}
        }
    }

    /// The same for an answer whose refusal names its cluster already.
    pub fn of_right_at<T>(&self, thing: Thing, answer: &Result<T, Refusal>) {
        match answer {
            Ok(_) => self.over(thing),
            Err(refusal) if is_missing_right(refusal.reason) => self.met_at(thing, refusal),
            Err(_) => {}
        }
    }

    /// It succeeded.
    pub fn over(&self, thing: Thing) {
        let is_news = self.refused().things.remove(&thing).is_some();
        if is_news {
            self.0.changed.notify_one();
        }
    }

    /// It is not tried any more, for no object.
    pub fn forget(&self, thing: Thing) {
        self.refused().objects.remove(&thing);
        self.over(thing);
        self.0.changed.notify_one();
    }

    /// Another life of the binding begins: what was refused in the one before is not known any more, but for these things.
    pub fn keep_only(&self, things: &[Thing]) {
        let mut refused = self.refused();
        refused.things.retain(|thing, _| things.contains(thing));
        refused.objects.retain(|thing, _| things.contains(thing));
    }

    /// Whether this was refused last, whatever the object.
    #[must_use]
    pub fn is_met(&self, thing: Thing) -> bool {
        self.refused().things.contains_key(&thing)
    }

    /// All of them, the most basic first.
    #[must_use]
    pub fn all(&self) -> Vec<Refusal> {
        let mut refused = self.refused();
        refused.things.retain(|_, met| met.last.elapsed() < FORGOTTEN);
        refused.objects.retain(|_, objects| {
            objects.retain(MetObject::is_met);
            !objects.is_empty()
        });
        let things = refused.things.iter().map(|(thing, met)| (*thing, &met.refusal));
        let objects = refused.objects.iter().filter_map(|(thing, objects)| Some((*thing, &objects.first()?.refusal)));
        let mut all: Vec<(Thing, &Refusal)> = things.chain(objects).collect();
        all.sort_by_key(|(thing, _)| *thing);
        all.into_iter().map(|(_, refusal)| refusal.clone()).collect()
    }

    /// Is notified when they change.
    #[must_use]
    pub fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.0.changed)
    }

    fn refused(&self) -> MutexGuard<'_, Refused> {
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

    /// A node that may not be patched, in the words of an API server.
    fn forbidden(node: &str) -> Refusal {
        let message = format!(
            "nodes \"{node}\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope"
        );
        let status = serde_json::json!({
            "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message,
        });
        let status: kube::core::Status = serde_json::from_value(status).unwrap();
        Refusal::of(&kube::Error::Api(Box::new(status)))
    }

    fn sentences(troubles: &Troubles) -> Vec<String> {
        troubles.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn s19_what_a_person_has_to_do_something_about_is_kept_until_it_succeeds() {
        let troubles = Troubles::default();
        troubles.met(Thing::Policies, &refusal(RefusalReason::Unreachable), Side::Physical);
        assert_eq!(troubles.all(), []);
        assert!(!troubles.is_met(Thing::Policies));
        troubles.met(Thing::Policies, &refusal(RefusalReason::Forbidden), Side::Physical);
        assert!(troubles.is_met(Thing::Policies) && !troubles.is_met(Thing::LentPods));
        troubles.met(Thing::LentPods, &refusal(RefusalReason::Forbidden), Side::Virtual);
        assert_eq!(sentences(&troubles), ["the virtual cluster: no", "the physical cluster: no"]);
        troubles.over(Thing::LentPods);
        troubles.over(Thing::LentNodes);
        assert_eq!(troubles.all().len(), 1);
        troubles.over(Thing::Policies);
        assert!(!troubles.is_met(Thing::Policies));
    }

    #[test]
    fn s19_a_missing_right_names_verb_resource_and_side_and_of_many_objects_the_first_one() {
        let troubles = Troubles::default();
        for node in ["w1", "w2", "w1"] {
            troubles.of_right::<()>(Thing::NodeClaims, Side::Physical, &Err(forbidden(node)));
        }
        let rule = r#"The missing rule: ClusterRole: {apiGroups: [""], resources: ["nodes"], verbs: ["patch"]} in the physical cluster"#;
        let all = sentences(&troubles);
        let [said] = &all[..] else { panic!("{all:?}") };
        assert!(said.starts_with(r#"the physical cluster: nodes "w1" is forbidden"#) && said.ends_with(rule), "{said}");
        // A conflict says nothing about the right, and an answer does.
        troubles.of_right::<()>(Thing::NodeClaims, Side::Physical, &Err(refusal(RefusalReason::Conflict)));
        assert_eq!(troubles.all().len(), 1);
        troubles.of_right(Thing::NodeClaims, Side::Physical, &Ok(()));
        assert_eq!(troubles.all(), []);
        // An object that admission denies is one object, and no right.
        troubles.of_right::<()>(Thing::NodeClaims, Side::Physical, &Err(refusal(RefusalReason::DeniedByAdmission)));
        assert_eq!(troubles.all(), []);
    }

    #[tokio::test]
    async fn a_change_is_notified_and_the_same_refusal_again_is_none() {
        let troubles = Troubles::default();
        let changed = troubles.changed();
        troubles.met(Thing::Policies, &forbidden("w1"), Side::Physical);
        changed.notified().await;
        troubles.met(Thing::Policies, &forbidden("w2"), Side::Physical);
        assert!(futures::FutureExt::now_or_never(changed.notified()).is_none());
        troubles.met(Thing::Policies, &refusal(RefusalReason::Unauthorized), Side::Physical);
        changed.notified().await;
        troubles.over(Thing::Policies);
        changed.notified().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_and_never_tried_again_is_forgotten_and_what_is_tried_again_is_not() {
        let troubles = Troubles::default();
        troubles.met(Thing::LentNodeDeletions, &refusal(RefusalReason::Forbidden), Side::Virtual);
        for _ in 0..4 {
            troubles.met(Thing::NodeClaims, &forbidden("w1"), Side::Physical);
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        let all = sentences(&troubles);
        assert!(matches!(&all[..], [claims] if claims.contains("cannot patch")), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_objects_that_are_denied_the_first_one_is_shown_until_it_is_not_met_any_more() {
        let (troubles, reason) = (Troubles::default(), RefusalReason::DeniedByAdmission);
        let meet = |pod: &str| {
            let denied = Refusal { message: format!("{pod} is denied"), ..refusal(reason) };
            troubles.met(Thing::HostPorts, &denied, Side::Virtual);
        };
        let changed = troubles.changed();
        meet("a");
        changed.notified().await;
        for _ in 0..3 {
            meet("b");
            meet("a");
            tokio::time::advance(Duration::from_secs(600)).await;
        }
        meet("b");
        assert_eq!(sentences(&troubles), ["the virtual cluster: a is denied"]);
        assert!(futures::FutureExt::now_or_never(changed.notified()).is_none());
        // That one has been well for a while.
        tokio::time::advance(Duration::from_secs(600)).await;
        meet("b");
        assert_eq!(sentences(&troubles), ["the virtual cluster: b is denied"]);
        changed.notified().await;
        troubles.met(Thing::HostPorts, &refusal(RefusalReason::Forbidden), Side::Virtual);
        assert_eq!(sentences(&troubles), ["the virtual cluster: no"], "another reason");
    }

    #[tokio::test(start_paused = true)]
    async fn s19_one_object_that_is_denied_is_a_trouble_until_it_is_not_however_many_others_succeed() {
        let troubles = Troubles::default();
        let changed = troubles.changed();
        let is_news = || futures::FutureExt::now_or_never(changed.notified()).is_some();
        let denied =
            |pod: &str| Refusal { message: format!("{pod} is denied"), ..refusal(RefusalReason::DeniedByAdmission) };
        let meet = |pod: &str| troubles.met_of(Thing::LentPodStatus, pod, &denied(pod), Side::Virtual);
        let shows = |pod: &str| assert_eq!(sentences(&troubles), [format!("the virtual cluster: {pod} is denied")]);
        meet("a");
        assert!(is_news());
        // Every sweep tries it again, and others are written all the time.
        for _ in 0..5 {
            troubles.over_of(Thing::LentPodStatus, "b");
            shows("a");
            tokio::time::advance(Duration::from_secs(600)).await;
            meet("a");
            meet("c");
        }
        assert!(!is_news());
        troubles.over_of(Thing::LentPodStatus, "a");
        assert!(is_news());
        shows("c");
        // A right is not of one object, and goes with any success.
        troubles.met_of(Thing::LentPodStatus, "d", &forbidden("w1"), Side::Virtual);
        assert_eq!(troubles.all().len(), 2);
        troubles.over_of(Thing::LentPodStatus, "d");
        shows("c");
        // It does not exist any more, so no sweep meets it.
        tokio::time::advance(REPLACED).await;
        assert_eq!(troubles.all(), []);
        (0..1_000).for_each(|number| meet(&format!("p{number}")));
        assert_eq!(troubles.refused().objects[&Thing::LentPodStatus].len(), OBJECTS);
        troubles.forget(Thing::LentPodStatus);
        assert_eq!(troubles.all(), []);
    }

    #[test]
    fn what_a_server_says_is_kept_on_one_line_and_up_to_a_bound() {
        let troubles = Troubles::default();
        let endless = format!("no\u{1b}[2J\n{}", "x".repeat(1 << 20));
        let endless = Refusal { message: endless, ..refusal(RefusalReason::Forbidden) };
        troubles.met(Thing::PhysicalNodes, &endless, Side::Physical);
        let all = sentences(&troubles);
        let [said] = &all[..] else { panic!("{} sentences", all.len()) };
        assert!(said.starts_with("the physical cluster: no\\u{1b}[2J\\nxxx"), "{said}");
        assert!(said.len() <= SHOWN + '…'.len_utf8(), "{}", said.len());
    }

    #[test]
    fn another_life_of_a_binding_knows_only_what_is_not_of_the_one_before() {
        let troubles = Troubles::default();
        troubles.met(Thing::Policies, &refusal(RefusalReason::Forbidden), Side::Physical);
        troubles.met(Thing::BindingWatch, &refusal(RefusalReason::Forbidden), Side::Virtual);
        troubles.keep_only(&[Thing::BindingWatch]);
        assert_eq!(sentences(&troubles), ["the virtual cluster: no"]);
    }
}
