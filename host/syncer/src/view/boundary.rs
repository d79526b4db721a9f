//! Whether nodes follow the boundaries of their time windows in time (decision S18), for metrics.
//!
//! Owns, of each node, the boundary that comes next, and the one that is due: it has passed, and the taint of the virtual node is
//! not yet what the windows want. Never decides about a taint, and counts no boundary that a bar keeps from being followed.
//!
//! # Failure story
//!
//! A take-over forgets what was due: it is counted again with the next boundary. A node that is not decided about when its boundary
//! comes is late from that moment on, whatever keeps the worker.

use std::time::Duration;

use jiff::Timestamp;
use topoloom_sync::bars::{Bars, Doing};
use topoloom_sync::keys;
use topoloom_sync::node::{LentNode, NodeDecision, NodeState, Window};

use super::View;
use crate::ledger::PhysicalName;

/// What happens at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The windows open.
    Opens,
    /// They close.
    Closes,
}

impl Turn {
    /// Whether the taint of a virtual node is what it has to be afterwards.
    fn is_met(self, lent: &LentNode) -> bool {
        let is_tainted = lent.metadata.taints.iter().any(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
        is_tainted == (self == Self::Closes)
    }

    /// What is written for it.
    fn doing(self) -> Doing {
        match self {
            Self::Opens => Doing::Enlarge,
            Self::Closes => Doing::Protect,
        }
    }
}

/// The boundaries of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Boundary {
    /// The one that comes next, as of the last decision.
    next: Option<Timestamp>,
    /// The one that has passed and is not followed yet.
    due: Option<(Timestamp, Turn)>,
}

impl Boundary {
    /// The node was decided about.
    pub(super) fn see(&mut self, decision: &NodeDecision<'_>, lent: Option<&LentNode>, now: Timestamp) {
        // What is read first says nothing of windows.
        if matches!(decision.state, NodeState::Asking(_)) {
            return;
        }
        let window = decision.details.as_ref().map(|details| details.window);
        let turn = match window {
            Some(Window::Open { until }) => Some((Turn::Opens, until)),
            Some(Window::Closed { until }) => Some((Turn::Closes, until)),
            Some(Window::Always | Window::Kept) | None => None,
        };
        let (Some((turn, until)), Some(lent)) = (turn, lent) else {
            *self = Self::default();
            return;
        };
        let before = self.due.filter(|(_, due)| *due == turn).map(|(at, _)| at);
        // What an edit opened or closed is no boundary.
        let passed = self.next.filter(|next| *next <= now);
        let due = before.or(passed).filter(|_| !turn.is_met(lent));
        *self = Self { next: until, due: due.map(|at| (at, turn)) };
    }

    /// The earliest time at which it had, or will have, something to follow.
    fn earliest(self, bars: &Bars) -> Option<Timestamp> {
        let due = self.due.filter(|(_, turn)| bars.allow(turn.doing())).map(|(at, _)| at);
        due.or(self.next)
    }
}

impl View {
    /// For how long a boundary has been due that is not followed; of several the longest time.
    #[must_use]
    pub fn overdue(&self, now: Timestamp) -> Duration {
        // Nothing that a boundary asks for may be written.
        if !self.bars.allow(Doing::Protect) {
            return Duration::ZERO;
        }
        let earliest = self.remembered.values().filter_map(|remembered| remembered.boundary.earliest(&self.bars)).min();
        // One that is still to come is overdue by a negative time.
        earliest.and_then(|at| Duration::try_from(now.duration_since(at)).ok()).unwrap_or_default()
    }

    /// The taints of a virtual node were written. How long after a boundary of its windows that was, where one was due.
    pub fn boundary_followed(&mut self, name: &PhysicalName, now: Timestamp) -> Option<Duration> {
        let lent_name = self.ledger.node(name)?;
        let lent = self.lent.get(&lent_name)?;
        let boundary = &mut self.remembered.get_mut(name)?.boundary;
        let (at, _) = boundary.due.filter(|(_, turn)| turn.is_met(lent))?;
        boundary.due = None;
        Duration::try_from(now.duration_since(at)).ok()
    }
}

#[cfg(test)]
mod tests {
    use topoloom_core::names::NodeName;
    use topoloom_sync::bars::Bar;
    use topoloom_sync::node::Now;
    use topoloom_sync::policy::object::Policy;
    use topoloom_sync::policy::spec::PolicySpec;
    use topoloom_sync::taints::{Effect, Taint};

    use super::super::Evidence;
    use super::super::examples::{lend, now, view, within};
    use super::*;

    /// So many seconds after 13:00, when the windows of the policy close; they open at 12:00 and at 14:00. By both clocks: one
    /// alone would have been set.
    fn at(seconds: i64) -> Now {
        let since = jiff::SignedDuration::from_secs(3_600 + seconds);
        Now { wall: now().wall.checked_add(since).unwrap(), steady: now().steady + since.unsigned_abs() }
    }

    /// A lent node under a policy whose windows are open until 13:00.
    fn open() -> View {
        let mut view = view(1);
        lend(&mut view, 1);
        let windows = [("12:00", "12:59"), ("14:00", "14:29")];
        let _ = view.policies.insert(within("noon", &windows, PolicySpec::default()));
        look(&mut view, -60);
        assert_eq!(view.overdue(at(-60).wall), Duration::ZERO);
        view
    }

    fn look(view: &mut View, seconds: i64) {
        view.decide(&"w1".into(), &Evidence::default(), at(seconds));
    }

    /// The API server shows the virtual node with the taint of closed windows, or without it.
    fn taint(view: &mut View, version: &str, since: Option<i64>) {
        let name = NodeName::from("vnode-east-w1");
        let mut node = view.lent(&name).unwrap().clone();
        node.version = version.into();
        node.metadata.taints.retain(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT);
        let closed = Taint::new(keys::OUT_OF_WINDOWS_TAINT, "true", Effect::NoSchedule);
        node.metadata.taints.extend(since.map(|since| Taint { time_added: Some(at(since).wall), ..closed }));
        view.lent_node(&name, node);
    }

    #[test]
    fn s18_a_boundary_that_passed_is_overdue_until_the_taint_is_written_and_that_is_its_lag() {
        let mut view = open();
        // No decision was made yet.
        assert_eq!(view.overdue(at(7).wall), Duration::from_secs(7));
        look(&mut view, 8);
        assert_eq!(view.overdue(at(9).wall), Duration::from_secs(9));
        assert_eq!(view.boundary_followed(&"w1".into(), at(9).wall), None, "it has no taint yet");
        taint(&mut view, "30", Some(8));
        assert_eq!(view.boundary_followed(&"w1".into(), at(10).wall), Some(Duration::from_secs(10)));
        assert_eq!(view.boundary_followed(&"w1".into(), at(11).wall), None, "it is counted once");
        look(&mut view, 12);
        assert_eq!(view.overdue(at(3_599).wall), Duration::ZERO);
        // The opening is the next one.
        assert_eq!(view.overdue(at(3_602).wall), Duration::from_secs(2));
        look(&mut view, 3_602);
        taint(&mut view, "31", None);
        assert_eq!(view.boundary_followed(&"w1".into(), at(3_603).wall), Some(Duration::from_secs(3)));
    }

    #[test]
    fn s18_a_node_is_looked_at_again_at_its_boundary_and_not_before_it() {
        let mut view = open();
        let (before, part) = (at(-30), Duration::from_millis(250));
        let before = Now { wall: before.wall.checked_sub(part).unwrap(), steady: before.steady - part };
        let again = view.decide(&"w1".into(), &Evidence::default(), before).again;
        assert_eq!(again, Some(Duration::from_millis(30_250)));
        // At the boundary the windows are closed, and the next one is that of the opening.
        let work = view.decide(&"w1".into(), &Evidence::default(), at(0));
        assert!(work.orders.iter().any(|order| order.to_string().starts_with("patch node")), "{:?}", work.orders);
        assert_eq!(work.again, Some(Duration::from_secs(3_600)));
    }

    #[test]
    fn s18_what_a_bar_keeps_from_being_followed_is_not_overdue() {
        let mut view = open();
        look(&mut view, 8);
        view.bars = [Bar::Observing].into_iter().collect();
        assert_eq!(view.overdue(at(60).wall), Duration::ZERO);
        view.bars = Bars::default();
        taint(&mut view, "30", Some(8));
        look(&mut view, 12);
        // Windows that open are not followed while the cluster is suspect; windows that close are.
        view.bars = [Bar::Suspect].into_iter().collect();
        look(&mut view, 3_602);
        assert_eq!(view.overdue(at(3_700).wall), Duration::ZERO);
        view.bars = Bars::default();
        assert_eq!(view.overdue(at(3_700).wall), Duration::from_secs(100));
    }

    #[test]
    fn windows_that_an_edit_closes_are_no_boundary() {
        let mut view = open();
        let mut object = view.policies.get("noon").unwrap().object().clone();
        object.spec.time_windows.remove(0);
        let _ = view.policies.insert(Policy::new(object));
        look(&mut view, -30);
        assert_eq!(view.overdue(at(-20).wall), Duration::ZERO);
        taint(&mut view, "30", Some(-30));
        assert_eq!(view.boundary_followed(&"w1".into(), at(-20).wall), None);
    }
}
