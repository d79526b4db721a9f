//! Random histories against a second clock that no step and no restart touches: a node is closed for new pods, and for
//! all pods, exactly when that clock has reached the time for it.

use proptest::prelude::*;

use super::*;
use crate::merge::{Metadata, Wanted, merge};

#[derive(Debug, Clone)]
enum Deed {
    /// Time passes, and the syncer looks.
    Pass(i64),
    /// The wall clock is set, and the syncer looks.
    Step(i64),
    /// The policy is edited, or the window opens or closes; the syncer looks.
    Window(Window),
    /// The syncer is restarted, or another leader takes over.
    Restart,
}

fn deed() -> impl Strategy<Value = Deed> {
    let grace = prop_oneof![Just(0_u64), Just(60), Just(600), 1_u64..900];
    let window = prop_oneof![
        1 => Just(Window::Inside),
        2 => Just(Window::Outside(OnClose::Keep)),
        5 => grace.prop_map(|grace| {
            Window::Outside(OnClose::Reclaim { grace: Duration::from_secs(grace), via: ReclaimVia::Delete })
        }),
    ];
    prop_oneof![
        6 => (1_i64..400).prop_map(Deed::Pass),
        2 => prop_oneof![5_i64..7_200, -7_200_i64..-4].prop_map(Deed::Step),
        4 => window.prop_map(Deed::Window),
        2 => Just(Deed::Restart),
    ]
}

/// What must be, by the clock that nothing touches.
#[derive(Debug, Default)]
struct Truth {
    closed: Option<i64>,
    promised: i64,
    since: Option<i64>,
}

impl Truth {
    fn look(&mut self, window: Window, steady: i64) -> &'static str {
        let Window::Outside(on_close) = window else {
            *self = Self::default();
            return "none";
        };
        let closed = *self.closed.get_or_insert(steady);
        let OnClose::Reclaim { grace, .. } = on_close else {
            self.since = None;
            return "NoSchedule";
        };
        self.promised = self.promised.max(i64::try_from(grace.as_secs()).unwrap());
        if self.since.is_none() && steady < closed + self.promised {
            return "NoSchedule";
        }
        self.since.get_or_insert(steady);
        "NoExecute"
    }
}

#[derive(Default)]
struct World {
    steady: i64,
    /// The wall clock is ahead of the steady one by so much.
    ahead: i64,
    node: Metadata,
    /// What the process remembers: the time that it saw in the taint, and how far the wall clock was ahead then.
    seen: Option<(Timestamp, i64)>,
    truth: Truth,
}

impl World {
    fn look(&mut self, window: Window) -> Result<(), TestCaseError> {
        let now = Timestamp::from_second(1_772_352_000 + self.steady + self.ahead).unwrap();
        let added = |node: &Metadata| node.taints.first().and_then(|taint| taint.time_added);
        self.remember(added(&self.node));
        let stepped = SignedDuration::from_secs(self.seen.map_or(0, |(_, ahead)| self.ahead - ahead));
        let (taints, annotations) = (&self.node.taints, &self.node.annotations);
        let reclaim = decide(&Facts { window, taints, annotations, closed: None, stepped, pods: &[] }, now);
        let annotations = reclaim.annotations().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let taints = reclaim.taint.taint().into_iter().collect();
        let wanted = Wanted { annotations, taints, stamp: reclaim.stamp, ..Wanted::default() };
        if let Some(patch) = merge(&wanted, &self.node).patch {
            self.node = patch.onto(&self.node);
        }
        self.remember(added(&self.node));

        let must = self.truth.look(window, self.steady);
        let effect = self.node.taints.first().map_or("none", |taint| taint.effect.word());
        prop_assert_eq!(effect, must, "{:?} {:?}", reclaim, &self.truth);
        let steady = |time: Timestamp| time.as_second() - 1_772_352_000 - self.ahead;
        prop_assert_eq!(reclaim.since.map(steady), self.truth.since);
        prop_assert_eq!(added(&self.node).map(steady), self.truth.closed);
        let wrong = |reason: &Reason| !matches!(reason, Reason::Stepped(_)) && reason.is_unusual();
        prop_assert!(!reclaim.reasons.iter().any(wrong), "{:?}", reclaim.reasons);
        Ok(())
    }

    fn remember(&mut self, added: Option<Timestamp>) {
        if self.seen.map(|(time, _)| time) != added {
            self.seen = added.map(|time| (time, self.ahead));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn s17_no_restart_no_step_and_no_edit_shortens_skips_or_restarts_a_grace(
        deeds in proptest::collection::vec(deed(), 1..40)
    ) {
        let mut world = World::default();
        let mut window = Window::Inside;
        for deed in deeds {
            match deed {
                Deed::Pass(seconds) => world.steady += seconds,
                Deed::Step(seconds) => world.ahead += seconds,
                Deed::Window(next) => window = next,
                Deed::Restart => world.seen = None,
            }
            world.look(window)?;
        }
    }
}
