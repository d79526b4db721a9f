//! Random histories against a second clock that no step, no restart and no user touches: a node is closed for new pods, and for
//! all pods, exactly when that clock has reached the time for it.

use proptest::prelude::*;

use super::*;
use crate::merge::{Metadata, Wanted, merge};
use crate::texts::TextMap;
use crate::wall::{Difference, TakeOver};

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
    /// A user takes the taint off, and the syncer looks.
    Untaint,
    /// A user sets the taint again, without its time.
    Timeless,
    /// A user takes off the taint and all annotations.
    Strip,
    /// A user takes the taint off while no syncer runs.
    UntaintUnseen,
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
        2 => prop_oneof![
            Just(Deed::Untaint), Just(Deed::Timeless), Just(Deed::Strip), Just(Deed::UntaintUnseen)
        ],
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

    /// The taint was taken off. Only a grace that is over makes it one that evicts again.
    fn untainted(&mut self, steady: i64) {
        let is_over = self.closed.is_some_and(|closed| steady >= closed + self.promised);
        self.since = self.since.filter(|_| is_over);
    }
}

#[derive(Default)]
struct World {
    steady: i64,
    /// The wall clock is ahead of the steady one by so much.
    ahead: i64,
    node: Metadata,
    /// What the process remembers: the time that it saw on the node, and how far the wall clock was ahead then.
    seen: Option<(Timestamp, i64)>,
    memory: ClosingMemory,
    truth: Truth,
}

impl World {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_772_352_000 + self.steady + self.ahead).unwrap()
    }

    fn added(&self) -> Option<Timestamp> {
        self.node.taints.first().and_then(|taint| taint.time_added)
    }

    fn effect(&self) -> &str {
        self.node.taints.first().map_or("none", |taint| taint.effect.word())
    }

    /// Looks, and writes what follows.
    fn write(&mut self, window: Window) -> Reclaim {
        let now = self.now();
        self.remember();
        let stepped = SignedDuration::from_secs(self.seen.map_or(0, |(_, ahead)| self.ahead - ahead));
        let (taints, annotations, remembered) = (&self.node.taints, &self.node.annotations, self.memory.known());
        let facts = Facts { window, taints, annotations, closed: None, judged: now, stepped, remembered, pods: &[] };
        let reclaim = decide(&facts, now);
        self.memory.decided(&reclaim);
        let annotations = reclaim.annotations().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let taints = reclaim.taint.taint().into_iter().collect();
        let wanted = Wanted { annotations, taints, stamp: reclaim.stamp, ..Wanted::default() };
        if let Some(patch) = merge(&wanted, &self.node).patch {
            self.node = patch.onto(&self.node);
            self.memory.written();
        }
        self.remember();
        reclaim
    }

    fn look(&mut self, window: Window) -> Result<(), TestCaseError> {
        let reclaim = self.write(window);
        let must = self.truth.look(window, self.steady);
        prop_assert_eq!(self.effect(), must, "{:?} {:?}", reclaim, &self.truth);
        let steady = |time: Timestamp| time.as_second() - 1_772_352_000 - self.ahead;
        prop_assert_eq!(reclaim.since.map(steady), self.truth.since);
        prop_assert_eq!(self.added().map(steady), self.truth.closed);
        let explained = |reason: &Reason| matches!(reason, Reason::Stepped(_) | Reason::Missing(_));
        let wrong = |reason: &Reason| !explained(reason) && reason.is_unusual();
        prop_assert!(!reclaim.reasons.iter().any(wrong), "{:?}", reclaim.reasons);
        Ok(())
    }

    fn remember(&mut self) {
        let started = started(&self.node.taints, &self.node.annotations);
        if self.seen.map(|(time, _)| time) != started {
            self.seen = started.map(|time| (time, self.ahead));
        }
    }

    fn step(&mut self, seconds: i64) {
        self.ahead += seconds;
        self.memory.stepped(SignedDuration::from_secs(seconds));
    }

    fn restart(&mut self) {
        (self.seen, self.memory) = (None, ClosingMemory::default());
    }

    fn untaint(&mut self) {
        self.node.taints.clear();
        self.truth.untainted(self.steady);
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
                Deed::Step(seconds) => world.step(seconds),
                Deed::Window(next) => window = next,
                Deed::Restart => world.restart(),
                Deed::Untaint => world.untaint(),
                Deed::Timeless => world.node.taints.iter_mut().for_each(|taint| taint.time_added = None),
                Deed::Strip => {
                    world.untaint();
                    world.node.annotations = TextMap::default();
                }
                Deed::UntaintUnseen => {
                    world.restart();
                    world.untaint();
                    // No process is left that has seen it evict.
                    world.truth.since = None;
                }
            }
            world.look(window)?;
        }
    }

    #[test]
    fn s17_under_another_clock_a_grace_goes_on_from_where_it_was_at_the_last_renewal(
        (grace, passed, out, ahead) in (60_i64..900, 5_i64..900, 0_i64..4_000, -7_200_i64..7_200)
    ) {
        prop_assume!(passed < grace);
        let (length, via) = (Duration::from_secs(grace.unsigned_abs()), ReclaimVia::Delete);
        let window = Window::Outside(OnClose::Reclaim { grace: length, via });
        let mut world = World::default();
        world.look(window)?;
        world.steady = passed;
        world.look(window)?;
        let earlier = world.now();
        // Another process takes over: with its clock, and this long after the last renewal.
        (world.steady, world.ahead) = (passed + out, ahead);
        let difference = TakeOver { earlier, latest: earlier, now: world.now() }.difference();
        let shift = difference.map_or(SignedDuration::ZERO, Difference::shift);
        world.restart();
        world.seen = world.added().map(|added| (added, ahead - shift.as_secs()));
        world.write(window);
        let end = if difference.is_some() { grace + out } else { grace - ahead };
        prop_assert!((grace - 60..=grace + out + 5).contains(&end), "{end}");
        if world.steady < end {
            prop_assert_eq!(world.effect(), "NoSchedule");
            world.steady = end - 1;
            world.write(window);
            prop_assert_eq!(world.effect(), "NoSchedule");
            world.steady = end;
            world.write(window);
        }
        prop_assert_eq!(world.effect(), "NoExecute");
    }
}
