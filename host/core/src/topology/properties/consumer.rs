//! The scheduler's tree of HyperNodes, as `hypernode.md` 14.2 and 14.3 describe it. Events come one at a time. A build
//! that fails leaves the tree not ready and incomplete. A child that is deleted while a parent has it crashes the
//! scheduler at the next job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster::Cluster;
use crate::topology::Spec;

/// The tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Consumer {
    specs: BTreeMap<Arc<str>, Spec>,
    infos: BTreeMap<Arc<str>, Info>,
    ready: Ready,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ready {
    #[default]
    Yes,
    No,
}

/// What the tree knows about one HyperNode. Without a spec it is a placeholder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Info {
    tier: u32,
    parent: Option<Arc<str>>,
    children: BTreeSet<Arc<str>>,
}

impl Consumer {
    /// The tree of a freshly started scheduler: parents of higher tiers last, so that every build succeeds.
    pub(super) fn start(cluster: &Cluster) -> Self {
        let mut consumer = Self::default();
        let mut objects: Vec<_> = cluster.objects.values().collect();
        objects.sort_by_key(|object| (object.spec.tier, object.name.clone()));
        for object in objects {
            consumer.update(&object.name, &object.spec);
        }
        consumer
    }

    /// One watch event: what is stored under that name now.
    pub(super) fn event(&mut self, cluster: &Cluster, name: &Arc<str>) {
        match cluster.objects.get(name) {
            Some(object) => self.update(name, &object.spec),
            None => self.delete(name),
        }
    }

    /// Why the next job with a topology constraint would not be placed; `None` if it would.
    pub(super) fn trouble(&self) -> Option<String> {
        if self.ready == Ready::No {
            return Some("not ready".to_owned());
        }
        for (name, info) in &self.infos {
            // A placeholder is an entry of its own; a child without any entry was deleted.
            if let Some(gone) = info.children.iter().find(|child| !self.infos.contains_key(*child)) {
                return Some(format!("crash: {name} has the deleted child {gone}"));
            }
        }
        None
    }

    fn update(&mut self, name: &Arc<str>, spec: &Spec) {
        let old = self.specs.insert(name.clone(), spec.clone());
        if old.as_ref() == Some(spec) {
            return;
        }
        let info = self.infos.entry(name.clone()).or_default();
        info.tier = spec.tier;
        let released: Vec<Arc<str>> =
            info.children.iter().filter(|child| !spec.children().any(|kept| kept == *child)).cloned().collect();
        for child in released {
            self.release(name, &child);
        }
        if self.infos.get(name).is_some_and(|info| info.parent.is_none()) {
            self.find_parent(name, spec.tier);
        }
        self.rebuild_up(name);
    }

    fn delete(&mut self, name: &Arc<str>) {
        self.specs.remove(name);
        let Some(info) = self.infos.remove(name) else { return };
        for child in info.children {
            if let Some(child) = self.infos.get_mut(&child)
                && child.parent.as_ref() == Some(name)
            {
                child.parent = None;
            }
        }
        // The parent keeps the name among its children.
        match info.parent {
            Some(parent) => self.rebuild_up(&parent),
            None => self.ready = Ready::Yes,
        }
    }

    /// Frees a child; every other HyperNode that lists it is rebuilt at once.
    fn release(&mut self, parent: &Arc<str>, child: &Arc<str>) {
        if let Some(info) = self.infos.get_mut(parent) {
            info.children.remove(child);
        }
        if let Some(info) = self.infos.get_mut(child)
            && info.parent.as_ref() == Some(parent)
        {
            info.parent = None;
            if !self.specs.contains_key(child) {
                self.infos.remove(child);
            }
        }
        let others: Vec<Arc<str>> = self
            .specs
            .iter()
            .filter(|(name, spec)| *name != parent && spec.children().any(|listed| listed == child))
            .map(|(name, _)| name.clone())
            .collect();
        for other in others {
            self.rebuild_up(&other);
        }
    }

    /// A child only finds a parent of a strictly higher tier.
    fn find_parent(&mut self, child: &Arc<str>, tier: u32) {
        let lists = |spec: &Spec| spec.tier > tier && spec.children().any(|listed| listed == child);
        let parent = self.specs.iter().find(|(_, spec)| lists(spec)).map(|(name, _)| name.clone());
        if let (Some(parent), Some(info)) = (parent, self.infos.get_mut(child)) {
            info.parent = Some(parent);
        }
    }

    /// Recomputes a HyperNode and its ancestors; the result of the last one decides whether the tree is ready.
    fn rebuild_up(&mut self, name: &Arc<str>) {
        let mut at = Some(name.clone());
        let mut seen = BTreeSet::new();
        let mut outcome = Ready::Yes;
        while let Some(name) = at {
            if !seen.insert(name.clone()) || self.build(&name) == Ready::No {
                outcome = Ready::No;
                break;
            }
            at = self.infos.get(&name).and_then(|info| info.parent.clone());
        }
        self.ready = outcome;
    }

    /// Links the children one by one; the first that has another parent ends the build half-way.
    fn build(&mut self, name: &Arc<str>) -> Ready {
        let children: Vec<Arc<str>> =
            self.specs.get(name).map(|spec| spec.children().cloned().collect()).unwrap_or_default();
        for child in children {
            if child == *name {
                return Ready::No;
            }
            let known = self.infos.get(&child).and_then(|info| info.parent.clone());
            if known.is_some_and(|parent| parent != *name) {
                return Ready::No;
            }
            let had = self.infos.get(name).is_some_and(|info| info.children.contains(&child));
            if !had || self.specs.contains_key(&child) {
                self.infos.entry(child.clone()).or_default().parent = Some(name.clone());
            }
            if let Some(info) = self.infos.get_mut(name) {
                info.children.insert(child);
            }
        }
        Ready::Yes
    }
}

/// The model must fail where `hypernode.md` 14.3 says that the scheduler fails; otherwise it would prove nothing.
mod tests {
    use super::super::cluster::arc;
    use super::super::draw::hand_made;
    use super::*;
    use crate::topology::Member;

    fn spec(tier: u32, children: &[&str]) -> Spec {
        let mut members: Vec<Member> = children.iter().map(|child| Member::hyper_node(arc(child))).collect();
        if members.is_empty() {
            members.push(Member::node("n".into()));
        }
        Spec { tier, tier_name: None, members }
    }

    /// Writes and deletes, one event each; the trouble after each of them.
    fn play(start: &[(&str, Spec)], events: &[(&str, Option<Spec>)]) -> (Vec<Option<String>>, Consumer, Cluster) {
        let mut cluster = Cluster::of(start.iter().map(|(name, spec)| hand_made(name, spec.clone())));
        let mut consumer = Consumer::start(&cluster);
        let mut trouble = Vec::new();
        for (name, spec) in events {
            let name = arc(name);
            match spec {
                Some(spec) => cluster.objects.insert(name.clone(), hand_made(&name, spec.clone())),
                None => cluster.objects.remove(&name),
            };
            consumer.event(&cluster, &name);
            trouble.push(consumer.trouble());
        }
        (trouble, consumer, cluster)
    }

    #[test]
    fn a_new_parent_before_the_old_one_is_gone_stays_empty() {
        let start = [("s1", spec(2, &["a"])), ("a", spec(1, &[]))];
        let (trouble, consumer, cluster) = play(&start, &[("s2", Some(spec(2, &["a"]))), ("s1", None)]);
        assert_eq!(trouble, [Some("not ready".to_owned()), None]);
        assert_ne!(consumer, Consumer::start(&cluster), "it heals only by a real change");
        let (trouble, consumer, cluster) = play(&start, &[("s1", None), ("s2", Some(spec(2, &["a"])))]);
        assert_eq!(trouble, [None, None]);
        assert_eq!(consumer, Consumer::start(&cluster));
    }

    #[test]
    fn a_child_that_is_deleted_while_it_is_listed_is_a_crash() {
        let start = [("s", spec(2, &["a", "b"])), ("a", spec(1, &[])), ("b", spec(1, &[]))];
        let (trouble, ..) = play(&start, &[("a", None)]);
        assert_eq!(trouble, [Some("crash: s has the deleted child a".to_owned())]);
    }

    #[test]
    fn a_swap_by_two_updates_is_trouble_only_in_between() {
        let start = [
            ("p", spec(2, &["a", "b"])),
            ("q", spec(2, &["c", "d"])),
            ("a", spec(1, &[])),
            ("b", spec(1, &[])),
            ("c", spec(1, &[])),
            ("d", spec(1, &[])),
        ];
        let events = [("p", Some(spec(2, &["a", "c"]))), ("q", Some(spec(2, &["b", "d"])))];
        let (trouble, consumer, cluster) = play(&start, &events);
        assert_eq!(trouble, [Some("not ready".to_owned()), None]);
        assert_eq!(consumer, Consumer::start(&cluster));
    }

    #[test]
    fn a_child_may_be_listed_before_it_exists() {
        let (trouble, consumer, cluster) = play(&[], &[("s", Some(spec(2, &["a"]))), ("a", Some(spec(1, &[])))]);
        assert_eq!(trouble, [None, None]);
        assert_eq!(consumer, Consumer::start(&cluster));
    }
}
