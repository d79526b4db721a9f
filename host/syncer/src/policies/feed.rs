//! Policies on their way into the view.
//!
//! Owns what is stored of each policy, in one version together: its spec as it was judged, and its status. The status is decided on
//! both, and its write carries that version: otherwise a spec that was replaced meanwhile could become the last valid one of an
//! object that never held it.
//!
//! The watch shows the policies for all borrowers to each binding. Of one that is for another binding, or for another virtual cluster,
//! nothing is kept: each of many bindings would hold all of them. One that was for this binding and is given to another goes with that
//! edit. It is in no doubt, since its object is still there.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use topoloom_api::{ResourceLeasingPolicy, ResourceLeasingPolicyStatus};
use topoloom_cluster::watched::{Earlier, Index};
use topoloom_cluster::work::WorkQueue;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::naming::BindingName;
use topoloom_sync::policy::object::Policy;

use super::PolicyName;
use crate::convert;
use crate::feeds::{Follows, SharedView};
use crate::ledger::Touched;
use crate::shared::Shown;

/// The policies of a cluster on their way into the view of a binding. Clones are the same.
#[derive(Clone)]
pub struct PolicyFeed(Arc<Shared>);

struct Shared {
    view: SharedView,
    stored: Mutex<HashMap<PolicyName, StoredPolicy>>,
    statuses: WorkQueue<PolicyName>,
    binding: BindingName,
    virtual_cluster: Uid,
}

/// A policy as it is stored, in one version.
#[derive(Debug, Clone)]
pub struct StoredPolicy {
    pub(super) version: ResourceVersion,
    pub(super) policy: Arc<Policy>,
    pub(super) status: ResourceLeasingPolicyStatus,
}

impl PolicyFeed {
    /// Into this view. Policies whose status may have to change are added to the queue.
    #[must_use]
    pub fn new(view: &SharedView, statuses: &WorkQueue<PolicyName>) -> Self {
        let identity = view.lock().unwrap_or_else(PoisonError::into_inner).binding.identity.clone();
        Self(Arc::new(Shared {
            view: Arc::clone(view),
            stored: Mutex::default(),
            statuses: statuses.clone(),
            binding: identity.binding().clone(),
            virtual_cluster: identity.virtual_cluster().clone(),
        }))
    }

    /// The policies cannot be read any more, or are read from another cluster.
    pub fn lost(&self) -> Touched {
        self.stored().clear();
        self.view().policies_lost()
    }

    /// Every policy whose status this binding writes is looked at again.
    pub fn look_at_all(&self) {
        for name in self.names() {
            // A full queue is counted, and the next sweep adds what it refused.
            let _refused = self.0.statuses.add(name);
        }
    }

    /// The policies whose status this binding writes.
    pub(super) fn names(&self) -> Vec<PolicyName> {
        let names = |(name, stored): (&PolicyName, &StoredPolicy)| self.is_ours(stored).then(|| Arc::clone(name));
        self.stored().iter().filter_map(names).collect()
    }

    /// A policy whose status this binding writes, as it is stored.
    pub(super) fn ours(&self, name: &str) -> Option<StoredPolicy> {
        self.stored().get(name).filter(|stored| self.is_ours(stored)).cloned()
    }

    /// Whether the policy, as it is now, is for this binding: of several syncers that see it, only that one writes its status.
    fn is_ours(&self, stored: &StoredPolicy) -> bool {
        stored.policy.names(&self.0.binding, &self.0.virtual_cluster)
    }

    /// The answer to a write of ours. A policy that is gone meanwhile stays gone.
    pub(super) fn answered(&self, object: &ResourceLeasingPolicy) -> Touched {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let is_known = self.stored().get(name).is_some_and(|stored| *stored.policy.object().uid == *uid(object));
        if is_known { self.take(object) } else { Touched::new() }
    }

    /// Whether a policy may be for this binding, or was when it was shown last.
    fn may_matter(&self, object: &ResourceLeasingPolicy) -> bool {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        convert::policy::may_be_for(object, &self.0.binding, &self.0.virtual_cluster)
            || self.view().policies.get(name).is_some()
    }

    /// Whether this binding has to look at it, now that it is judged.
    fn is_kept(&self, stored: &StoredPolicy) -> bool {
        stored.policy.is_for(&self.0.binding, &self.0.virtual_cluster)
    }

    fn take(&self, object: &ResourceLeasingPolicy) -> Touched {
        if !self.may_matter(object) {
            return Touched::new();
        }
        let (name, stored) = self.read(object);
        {
            let mut all = self.stored();
            // An event that is behind the answer to our own write says nothing new.
            if all.get(&name).is_some_and(|known| stored.version.is_older_than(&known.version)) {
                return Touched::new();
            }
            if self.is_kept(&stored) {
                all.insert(Arc::clone(&name), stored.clone());
            } else {
                all.remove(&name);
            }
        }
        let touched = self.view().policy(Policy::clone(&stored.policy));
        if self.is_ours(&stored) {
            let _refused = self.0.statuses.add(name);
        }
        touched
    }

    fn read(&self, object: &ResourceLeasingPolicy) -> (PolicyName, StoredPolicy) {
        let policy = Policy::new(convert::policy::object(object, &self.0.binding));
        let name = PolicyName::from(policy.name());
        let version = ResourceVersion::from(object.metadata.resource_version.as_deref());
        (name, StoredPolicy { version, policy: Arc::new(policy), status: object.status.clone() })
    }

    fn stored(&self) -> MutexGuard<'_, HashMap<PolicyName, StoredPolicy>> {
        self.0.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> MutexGuard<'_, crate::view::View> {
        self.0.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn uid(object: &ResourceLeasingPolicy) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

impl Index<Shown<ResourceLeasingPolicy>> for PolicyFeed {
    type List = HashMap<PolicyName, StoredPolicy>;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> Self::List {
        HashMap::new()
    }

    fn list(&mut self, list: &mut Self::List, shown: Shown<ResourceLeasingPolicy>) {
        // One that was given away is in the list, or it would count as gone.
        match shown.object.filter(|object| self.may_matter(object)) {
            Some(object) => list.extend([self.read(&object)]),
            // It may have been, earlier in this list.
            None => drop(list.remove(&shown.key)),
        }
    }

    fn reset(&mut self, mut list: Self::List, _: &ResourceVersion) -> Touched {
        let policies = list.values().map(|stored| Policy::clone(&stored.policy)).collect();
        list.retain(|_, stored| self.is_kept(stored));
        *self.stored() = list;
        let touched = self.view().policies_listed(policies);
        self.look_at_all();
        touched
    }

    fn apply(&mut self, shown: Shown<ResourceLeasingPolicy>) -> Touched {
        shown.object.map(|object| self.take(&object)).unwrap_or_default()
    }

    fn delete(&mut self, shown: Shown<ResourceLeasingPolicy>) -> Touched {
        self.stored().remove(&shown.key);
        self.view().policy_gone(&shown.key)
    }
}

impl Follows<ResourceLeasingPolicy> for PolicyFeed {
    fn given_up(&mut self, _: Option<Self::List>) -> Touched {
        // They are not known, as after any refusal that makes them so.
        Touched::new()
    }
}

impl fmt::Debug for PolicyFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyFeed").field("binding", &self.0.binding).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use serde_json::{Value, json};
    use topoloom_core::queue::Limiter;

    use super::*;
    use crate::feeds::tests::list;
    use crate::view::examples;

    /// The feed of the binding `east`, over so many nodes.
    fn feed(nodes: usize) -> PolicyFeed {
        let view: SharedView = Arc::new(Mutex::new(examples::view(nodes)));
        let statuses = WorkQueue::new("test", NonZeroUsize::MIN.saturating_add(99), Limiter::default());
        PolicyFeed::new(&view, &statuses)
    }

    /// A policy in a version of its object, as the watch shows it.
    fn shown(name: &str, version: u64, spec: &Value) -> Shown<ResourceLeasingPolicy> {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
        Shown::new(name, Some(Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())))
    }

    /// How many policies are kept here and in the view, and how many were found gone.
    fn kept(feed: &PolicyFeed) -> (usize, usize, u64) {
        let stored = feed.stored().len();
        let view = feed.view();
        (stored, view.policies.names().count(), view.policies.doubts())
    }

    #[test]
    fn s8_a_policy_that_is_given_to_another_binding_while_it_is_listed_is_none_of_ours() {
        let mut feed = feed(2);
        let [ours, theirs] = ["east", "west"].map(|cluster| json!({"cluster": cluster}));
        // A list that is shown in portions also shows what changes meanwhile.
        list(&mut feed, vec![shown("p", 10, &ours), shown("p", 11, &theirs)]);
        assert_eq!(kept(&feed), (0, 0, 0));
        list(&mut feed, vec![shown("p", 12, &theirs), shown("p", 13, &ours)]);
        assert_eq!(kept(&feed), (1, 1, 0));
    }

    #[test]
    fn s21_of_policies_that_are_for_other_bindings_nothing_is_kept() {
        let mut feed = feed(2);
        let placement = feed.view().placement();
        let others = [json!({"cluster": "west"}), json!({"cluster": "east", "virtualCluster": "another"})];
        let all = |version: u64| -> Vec<_> {
            let of = |number: usize| shown(&format!("p{number}"), version, &others[number % 2]);
            (0..1_000).map(of).collect()
        };
        assert!(list(&mut feed, all(1)).is_empty());
        assert_eq!(kept(&feed), (0, 0, 0));
        for policy in all(2) {
            assert!(feed.apply(policy).is_empty());
        }
        assert_eq!(kept(&feed), (0, 0, 0));
        for policy in all(3) {
            assert!(feed.delete(policy).is_empty());
        }
        assert!(list(&mut feed, Vec::new()).is_empty());
        assert_eq!((kept(&feed), feed.view().placement()), ((0, 0, 0), placement));
    }

    #[test]
    fn s8_a_policy_that_is_given_to_another_binding_goes_at_once_and_is_in_no_doubt() {
        let (ours, theirs) = (json!({"cluster": "east"}), json!({"cluster": "west"}));
        let mut feed = feed(2);
        assert_eq!(feed.apply(shown("p", 5, &ours)).len(), 2);
        assert_eq!(kept(&feed), (1, 1, 0));
        assert!(feed.apply(shown("p", 4, &theirs)).is_empty(), "it is behind what is known");
        assert_eq!(kept(&feed), (1, 1, 0));
        assert_eq!(feed.apply(shown("p", 6, &theirs)).len(), 2);
        assert_eq!(kept(&feed), (0, 0, 0));
        assert!(feed.apply(shown("p", 7, &theirs)).is_empty());
        assert!(feed.delete(shown("p", 8, &theirs)).is_empty());
        // A list shows the same, also after the policies could not be read for a while.
        for is_lost in [false, true] {
            feed.apply(shown("p", 9, &ours));
            if is_lost {
                feed.lost();
            }
            assert_eq!(list(&mut feed, vec![shown("p", 10, &theirs)]).len(), 2);
            assert_eq!(kept(&feed), (0, 0, 0));
        }
        feed.apply(shown("p", 11, &ours));
        assert_eq!(feed.delete(shown("p", 12, &ours)).len(), 2);
        assert_eq!(kept(&feed), (0, 0, 1));
    }
}
