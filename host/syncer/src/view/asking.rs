//! What the guard is asked for, and when its leave counts (decisions S9 and S25).
//!
//! Owns the acts that follow from one cause together, the orphans among the physical pods, and the proof that neither cluster was
//! set back: a round of the witness that began after these acts were wanted. Never reads the witness: the controller of the
//! binding does, at once where something waits for it ([`View::awaits_round`]).
//!
//! # Failure story
//!
//! A cluster that was set back shows nodes and pods as gone that are not, and the rounds of the witness are a minute apart: an
//! orphan would go after half of one. So nothing is disrupted before a round that began later has found that the stores agree. While
//! no round can be made, everything waits. Where an operator has said that the physical cluster is gone for good, no round is
//! possible, and none is waited for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::Doing;
use topoloom_sync::deletion::Leave;
use topoloom_sync::guard::{Act, Cause, Guard, Safety, Size, Verdict};
use topoloom_sync::node::Now;

use super::View;
use crate::ledger::{PhysicalName, Touched};

/// How long what waits for a round of the witness waits until it asks again.
const LOOK: Duration = Duration::from_secs(1);

/// What the guard was asked for together.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The acts.
    acts: BTreeSet<Act>,
    /// Since when all of them are wanted.
    since: Option<Duration>,
    /// Since when the guard allows them.
    given: Option<jiff::Timestamp>,
}

impl Asked {
    /// The guard's answer to all acts that follow from one cause together. What is not wanted any more is withdrawn.
    pub(super) fn ask(
        &mut self,
        guard: &mut Guard,
        acts: Option<(Cause, Vec<Act>)>,
        safety: &Safety,
        size: Size,
        now: Now,
    ) -> Leave {
        let (cause, acts) = acts.map_or((Cause::Operator, Vec::new()), |(cause, acts)| (cause, acts));
        let wanted: BTreeSet<Act> = acts.into_iter().collect();
        for act in self.acts.difference(&wanted) {
            guard.withdraw(act);
        }
        if !wanted.is_subset(&self.acts) {
            self.since = Some(now.steady);
        }
        let verdicts: Vec<Verdict> = wanted.iter().map(|act| guard.ask(act, cause, safety, size, now.steady)).collect();
        self.acts = wanted;
        if verdicts.contains(&Verdict::Held) {
            self.given = None;
            return Leave::Held;
        }
        let gathering = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Gathering { until } => Some(until.saturating_sub(now.steady)),
            Verdict::Go | Verdict::Held => None,
        });
        if let Some(left) = gathering.max() {
            self.given = None;
            return Leave::Gathering { until: now.wall.checked_add(left).unwrap_or(now.wall) };
        }
        if self.acts.is_empty() {
            (self.since, self.given) = (None, None);
            return Leave::Given { since: now.wall };
        }
        Leave::Given { since: *self.given.get_or_insert(now.wall) }
    }

    /// The wall clock was set by so much: a deadline that counts from the leave is as far away as before.
    pub(super) fn stepped(&mut self, by: jiff::SignedDuration) {
        self.given = self.given.map(|given| given.checked_add(by).unwrap_or(given));
    }

    /// Whether nothing was.
    pub(super) fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// Whether this was asked for.
    pub(super) fn contains(&self, act: &Act) -> bool {
        self.acts.contains(act)
    }
}

/// What the witness showed last.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// When the last round began that found that the two stores agree.
    agreed: Option<Duration>,
    /// Something waits for a round that begins at this time or later.
    wanted: Option<Duration>,
}

impl Proof {
    /// The leave of the guard, once a round of the witness has begun since these acts were wanted.
    pub(super) fn confirm(&mut self, leave: Leave, asked: &Asked, now: Now) -> Leave {
        let (Leave::Given { .. }, Some(since)) = (leave, asked.since) else { return leave };
        if self.agreed.is_some_and(|agreed| agreed >= since) {
            return leave;
        }
        self.wanted = Some(self.wanted.map_or(since, |wanted| wanted.max(since)));
        Leave::Gathering { until: now.wall.checked_add(LOOK).unwrap_or(now.wall) }
    }
}

impl View {
    /// A round of the witness that began at this time has found that the two stores agree.
    pub fn agreed(&mut self, begun: Duration) {
        self.proof.agreed = Some(begun);
        self.proof.wanted = self.proof.wanted.filter(|wanted| begun < *wanted);
    }

    /// Whether something that may be done otherwise waits for a round of the witness.
    #[must_use]
    pub fn awaits_round(&self) -> bool {
        self.proof.wanted.is_some() && self.bars.allow(Doing::Disrupt)
    }

    /// Asks the guard whether a physical pod of this name that is an orphan may be deleted; again for as long as it is one.
    pub fn ask_orphan(&mut self, name: &Arc<str>, pod: &Uid, node: NodeName, now: Now) -> Leave {
        let size = self.size();
        let asked = self.orphans.entry(Arc::clone(name)).or_default();
        let acts = vec![Act::RemoveOrphan { node, pod: pod.clone() }];
        let leave = asked.ask(&mut self.guard, Some((Cause::Orphan, acts)), &self.safety, size, now);
        let leave = self.proof.confirm(leave, asked, now);
        self.tell();
        leave
    }

    /// The API server was asked to delete it, and has, or may have. It is an orphan until it is gone.
    pub fn orphan_deleted(&mut self, name: &str, now: Now) {
        for act in self.orphans.get(name).into_iter().flat_map(|asked| &asked.acts) {
            self.guard.happened(act, now.steady);
        }
    }

    /// It is no orphan any more, or is gone.
    pub fn orphan_kept(&mut self, name: &str) {
        for act in self.orphans.remove(name).unwrap_or_default().acts {
            self.guard.withdraw(&act);
        }
    }

    /// Whether the guard holds the deletion of this pod: until an operator confirms it nothing has to be read for it.
    #[must_use]
    pub fn is_orphan_held(&self, name: &str, pod: &Uid) -> bool {
        let is_held =
            |act: &Act| matches!(act, Act::RemoveOrphan { pod: asked, .. } if asked == pod) && self.guard.holds(act);
        self.orphans.get(name).is_some_and(|asked| asked.acts.iter().any(is_held))
    }

    /// The nodes for which the guard was asked for anything.
    #[must_use]
    pub fn asking(&self) -> Touched {
        let asking = self.remembered.iter().filter(|(_, remembered)| !remembered.asked.acts.is_empty());
        asking.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Whether the guard holds what follows for this node.
    #[must_use]
    pub fn is_held(&self, name: &str) -> bool {
        let mut acts = self.remembered.get(name).into_iter().flat_map(|remembered| &remembered.asked.acts);
        acts.any(|act| self.guard.holds(act))
    }

    /// The names of all physical pods that the guard was asked about.
    #[must_use]
    pub fn orphans(&self) -> Vec<Arc<str>> {
        self.orphans.keys().cloned().collect()
    }

    /// A pod of a virtual node was removed, or may have been.
    pub fn pod_removed(&mut self, name: &PhysicalName, lent: &NodeName, pod: &Uid, now: Now) {
        self.happened(name, &[Act::RemovePod { node: lent.clone(), pod: pod.clone() }], now);
    }

    /// Of these acts those happened that were asked for.
    pub(super) fn happened(&mut self, name: &PhysicalName, acts: &[Act], now: Now) {
        let Some(remembered) = self.remembered.get(name) else { return };
        for act in acts.iter().filter(|act| remembered.asked.contains(act)) {
            self.guard.happened(act, now.steady);
        }
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::node::NodeOrder;

    use super::super::examples::{lend, mark, now, view};
    use super::super::{Evidence, VerbOnBinding};
    use super::*;

    fn later(seconds: u64) -> Now {
        let by = Duration::from_secs(seconds);
        Now { wall: now().wall.checked_add(by).unwrap(), steady: now().steady + by }
    }

    fn waits(now: Now) -> Leave {
        Leave::Gathering { until: now.wall.checked_add(LOOK).unwrap() }
    }

    #[test]
    fn s25_an_orphan_waits_for_a_round_of_the_witness_that_began_after_it_was_one() {
        let mut view = view(10);
        let name: Arc<str> = "lent/p".into();
        let ask = |view: &mut View, now: Now| view.ask_orphan(&name, &"p".into(), "vnode-east-w1".into(), now);
        view.agreed(now().steady - Duration::from_secs(1));
        assert!(matches!(ask(&mut view, now()), Leave::Gathering { .. }), "the guard gathers");
        assert!(!view.awaits_round());
        assert_eq!(ask(&mut view, later(5)), waits(later(5)));
        assert!(view.awaits_round());
        // Time alone proves nothing.
        assert_eq!(ask(&mut view, later(600)), waits(later(600)));
        view.agreed(now().steady);
        assert!(!view.awaits_round());
        assert!(matches!(ask(&mut view, later(601)), Leave::Given { .. }));
        // Another pod of that name was not wanted then.
        let other = view.ask_orphan(&name, &"p2".into(), "vnode-east-w1".into(), later(602));
        assert!(matches!(other, Leave::Gathering { .. }), "{other:?}");
        let other = view.ask_orphan(&name, &"p2".into(), "vnode-east-w1".into(), later(608));
        assert_eq!((other, view.awaits_round()), (waits(later(608)), true));
    }

    #[test]
    fn s25_a_node_is_marked_without_a_round_of_the_witness_and_not_deleted_before_one() {
        let mut view = view(10);
        lend(&mut view, 10);
        view.agreed(Duration::ZERO);
        view.set_verb(VerbOnBinding::DrainNodes(["w1".to_owned()].into()));
        let look = |view: &mut View, now: Now| view.decide(&"w1".into(), &Evidence::default(), now);
        let work = look(&mut view, now());
        assert!(matches!(&work.orders[..], [NodeOrder::PatchSpec { .. }]), "{work:?}");
        mark(&mut view, 1);
        let work = look(&mut view, later(1));
        assert_eq!((work.orders.len(), work.again), (0, Some(LOOK)), "{work:?}");
        assert!(view.awaits_round());
        view.agreed(later(1).steady);
        assert_ne!(look(&mut view, later(2)).orders, []);
    }

    #[test]
    fn s23_s25_what_a_dead_cluster_lends_waits_for_no_round() {
        let mut view = view(1);
        lend(&mut view, 1);
        view.agreed(Duration::ZERO);
        view.set_verb(VerbOnBinding::Detach);
        mark(&mut view, 1);
        assert_ne!(view.decide(&"w1".into(), &Evidence::default(), later(1)).orders, []);
    }

    #[test]
    fn s25_under_a_bar_no_round_is_asked_for() {
        let mut view = view(10);
        view.agreed(Duration::ZERO);
        let name: Arc<str> = "lent/p".into();
        view.ask_orphan(&name, &"p".into(), "vnode-east-w1".into(), now());
        view.ask_orphan(&name, &"p".into(), "vnode-east-w1".into(), later(5));
        assert!(view.awaits_round());
        view.bars = [topoloom_sync::bars::Bar::Suspect].into_iter().collect();
        assert!(!view.awaits_round());
    }

    #[test]
    fn s9_a_pod_whose_deletion_was_not_answered_counts_once_until_it_is_gone() {
        let mut view = view(10);
        let name: Arc<str> = "lent/p".into();
        let ask = |view: &mut View, now: Now| view.ask_orphan(&name, &"p".into(), "vnode-east-w1".into(), now);
        ask(&mut view, now());
        assert!(matches!(ask(&mut view, later(5)), Leave::Given { .. }));
        view.orphan_deleted(&name, later(5));
        // It is there, and is asked for again.
        assert!(matches!(ask(&mut view, later(6)), Leave::Given { .. }));
        view.orphan_deleted(&name, later(6));
        assert_eq!(view.guard().spent().pods, 1);
        view.orphan_kept(&name);
        assert_eq!((view.guard().spent().pods, view.orphans().len()), (1, 0));
    }
}
