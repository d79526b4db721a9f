//! Random histories, including late and wrong messages, against what must always hold.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::service::LONGEST_QUARANTINE;
use super::*;

/// One event; a number picks its digest.
#[derive(Debug, Clone)]
enum Happens {
    Wanted(u8, Cause),
    Unwanted,
    Edited,
    Again,
    Renew,
    /// The executor is ready for a shadow round.
    BeginShadow,
    /// The executor reports on its last order, or on anything else.
    Prepared(Option<u8>),
    Failed(Option<u8>, RolloutStep, Failed),
    Shadowed(Option<u8>, Option<bool>),
    Continue(u8),
    Forgiven(u8),
    Called(Call),
    /// Seconds pass.
    Later(u16),
}

fn digest(number: u8) -> Digest {
    Digest::of(&[number])
}

fn happens() -> impl Strategy<Value = Happens> {
    let which = || prop_oneof![4 => Just(None), 1 => (0..5_u8).prop_map(Some)];
    let failed = prop_oneof![Just(Failed::ForGood), Just(Failed::Fault), Just(Failed::Circumstance)];
    let call = prop_oneof![3 => Just(Call::Answered), 3 => Just(Call::Fault), 1 => Just(Call::Circumstance)];
    let cause = prop_oneof![4 => Just(Cause::Delivery), 1 => Just(Cause::Operator)];
    prop_oneof![
        3 => (0..5_u8, cause).prop_map(|(which, cause)| Happens::Wanted(which, cause)),
        1 => Just(Happens::Unwanted),
        1 => Just(Happens::Edited),
        1 => Just(Happens::Again),
        2 => Just(Happens::Renew),
        3 => Just(Happens::BeginShadow),
        6 => which().prop_map(Happens::Prepared),
        3 => (which(), prop::sample::select(&RolloutStep::ALL[..]), failed).prop_map(|(w, s, f)| Happens::Failed(w, s, f)),
        6 => (which(), prop::option::weighted(0.9, any::<bool>())).prop_map(|(w, c)| Happens::Shadowed(w, c)),
        1 => (0..5_u8).prop_map(Happens::Continue),
        1 => (0..5_u8).prop_map(Happens::Forgiven),
        8 => call.prop_map(Happens::Called),
        2 => any::<u16>().prop_map(Happens::Later),
    ]
}

/// What the executor last got to work on.
#[derive(Default)]
struct World {
    now: Time,
    asked: Option<Digest>,
    served: BTreeSet<Digest>,
}

impl World {
    fn event(&mut self, happens: Happens) -> Option<Event<Digest>> {
        let asked = self.asked.unwrap_or_else(|| digest(0));
        let which = |number: Option<u8>| number.map_or(asked, digest);
        Some(match happens {
            Happens::BeginShadow => return None,
            Happens::Again => Event::Again,
            Happens::Renew => Event::Renew,
            Happens::Wanted(which, cause) => Event::Wanted(digest(which), cause),
            Happens::Unwanted => Event::Unwanted,
            Happens::Edited => Event::Edited,
            Happens::Prepared(number) => Event::Prepared(which(number), which(number)),
            Happens::Failed(number, step, failed) => Event::Failed(which(number), step, failed),
            Happens::Shadowed(number, far) => {
                let comparison = far.map(|far| Comparison {
                    placed: 100,
                    kept: if far { 60 } else { 100 },
                    ..Comparison::default()
                });
                Event::Shadowed(which(number), comparison)
            }
            Happens::Continue(which) => Event::Continue(digest(which)),
            Happens::Forgiven(which) => Event::Forgiven(digest(which)),
            Happens::Called(call) => Event::Called(call),
            Happens::Later(seconds) => {
                self.now += Duration::from_secs(seconds.into());
                Event::Tick
            }
        })
    }
}

/// Whether the event may activate a candidate at once: the events about its end.
fn may_swap(event: &Event<Digest>) -> bool {
    matches!(event, Event::Prepared(..) | Event::Shadowed(..) | Event::Continue(_))
}

/// Whether the event may begin a rollback.
fn may_roll_back(event: &Event<Digest>) -> bool {
    matches!(event, Event::Called(Call::Fault) | Event::Failed(..))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(
        history in prop::collection::vec(happens(), 1..80),
        previous in prop::collection::vec(0..5_u8, 0..3),
        watched in prop::option::of(0..5_u8),
        standing in prop::option::of((0..5_u8, any::<bool>())),
    ) {
        let previous_digests = previous.iter().copied().map(digest).collect();
        let memory = RolloutMemory { previous: previous_digests, taken_back: Vec::new(), watched: watched.map(digest) };
        let (mut rollout, mut world) = (Rollout::<Digest>::new(memory), World::default());
        world.served.extend(previous.into_iter().map(digest));
        let standing = standing.map(|(which, pinned)| {
            Happens::Wanted(which, if pinned { Cause::Operator } else { Cause::Delivery })
        });
        // A lasting request is repeated after every event.
        let history = history.into_iter().flat_map(|happens| [Some(happens), standing.clone()]).flatten();
        for happens in history {
            let Some(event) = world.event(happens) else {
                let due = rollout.is_shadow_due();
                let both = rollout.begin_shadow();
                let (candidate, serving) = (rollout.candidate(), rollout.serving());
                let expected = candidate.zip(serving).filter(|_| due);
                prop_assert_eq!(both, expected.map(|(candidate, serving)| (candidate.digest, serving.digest)));
                prop_assert!(!rollout.is_shadow_due());
                continue;
            };
            let before = rollout.clone();
            let order = rollout.handle(event.clone(), world.now);
            let (old, new) = (before.serving(), rollout.serving());

            // Never none after the first.
            prop_assert!(old.is_none() || new.is_some(), "{event:?}");
            // The active plugin changes only by such an order, to the candidate of before, and by no other event.
            let changed = old.map(|serving| serving.digest) != new.map(|serving| serving.digest);
            prop_assert_eq!(changed, matches!(order, Some(RolloutOrder::Swap(_))), "{:?}", event);
            if let Some(RolloutOrder::Swap(to)) = order {
                prop_assert_eq!(to, new.expect("it serves").digest);
                // Only a candidate swaps, or what served before and is whole.
                let candidate = before.candidate().filter(|_| may_swap(&event));
                let cause = candidate.map_or(Cause::Rollback, |candidate| candidate.cause);
                if let Some(candidate) = candidate {
                    prop_assert_eq!(to, candidate.digest);
                    prop_assert!(!matches!(candidate.stage, Stage::Refused { .. }), "a refused candidate changes nothing");
                } else {
                    prop_assert!(may_roll_back(&event), "{event:?}");
                    prop_assert_eq!(before.earlier(), Some(&to));
                }
                // What was rolled back becomes active again only if a person asks for it.
                let failed_before = before.taken_back().any(|taken| taken == to);
                prop_assert!(!failed_before || cause == Cause::Operator || matches!(event, Event::Continue(_)));
                // A comparison that is off never swaps by itself.
                if let Event::Shadowed(_, Some(comparison)) = &event {
                    prop_assert!(comparison.kept == 100 || cause == Cause::Operator);
                }
                // A rollback ends at what served before, and what failed is not kept whole.
                if cause == Cause::Rollback {
                    prop_assert_eq!(rollout.earlier(), None);
                    prop_assert!(world.served.contains(&to));
                    let bad = old.expect("something failed").digest;
                    prop_assert!(rollout.taken_back().any(|taken| taken == bad));
                } else if let Some(old) = old {
                    prop_assert_eq!(rollout.previous().next(), Some(old.digest));
                    prop_assert_eq!(rollout.earlier(), Some(&old.digest));
                }
                // What is new is watched: it took the place of another, now or in the life before.
                let is_new = cause != Cause::Rollback && (old.is_some() || watched.map(digest) == Some(to));
                prop_assert_eq!(rollout.is_watched(), is_new);
                prop_assert!(rollout.is_wish_due(), "what is wanted may be something else by now");
                world.served.insert(to);
            }
            // Each kept plugin was active once, is not the active one, and is there once; their number is bounded.
            let kept: Vec<Digest> = rollout.previous().collect();
            prop_assert!(kept.len() <= KEPT && kept.iter().all(|kept| world.served.contains(kept)));
            prop_assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), kept.len());
            prop_assert!(new.is_none_or(|serving| !kept.contains(&serving.digest)));
            prop_assert!(rollout.taken_back().count() <= REMEMBERED);
            // Each handle is that of the digest beside it.
            prop_assert!(new.is_none_or(|serving| serving.revision == serving.digest));
            prop_assert!(rollout.earlier().is_none_or(|earlier| kept.first() == Some(earlier)));
            // The candidate is not the active plugin.
            let candidate = rollout.candidate();
            prop_assert!(candidate.is_none_or(|candidate| candidate.ready.is_none_or(|ready| ready == candidate.digest)));
            prop_assert!(candidate.is_none_or(|candidate| new.is_none_or(|serving| serving.digest != candidate.digest)));
            // Quarantine and refusal end by time, or ask for a person.
            if let Some(Stage::Refused { until, .. }) = candidate.map(|candidate| &candidate.stage) {
                let ends = match until {
                    Some(until) => {
                        *until <= world.now + LONGEST_PAUSE && rollout.next_tick().is_some_and(|tick| tick <= *until)
                    }
                    None => rollout.needs_person(),
                };
                prop_assert!(ends);
            }
            prop_assert!(rollout.quarantined_until().is_none_or(|until| until <= world.now + LONGEST_QUARANTINE));
            // The end of patience is five faults in a row.
            if let Some(RolloutOrder::Quarantine(_)) = order {
                prop_assert!(new.is_some_and(|serving| serving.strikes >= STRIKES));
            }
            // What is waited for was asked for.
            match order {
                Some(RolloutOrder::Prepare(digest) | RolloutOrder::Shadow(digest)) => {
                    prop_assert_eq!(candidate.map(|candidate| candidate.digest), Some(digest));
                    world.asked = Some(digest);
                }
                Some(RolloutOrder::Renew(digest)) => {
                    prop_assert_eq!(rollout.work(), Some(RolloutWork::Renew(digest)));
                    prop_assert_eq!(new.map(|serving| serving.digest), Some(digest));
                    world.asked = Some(digest);
                }
                Some(RolloutOrder::Renewed(_)) => prop_assert!(before.is_renewing() && !rollout.is_renewing()),
                Some(RolloutOrder::Swap(_) | RolloutOrder::Quarantine(_)) | None => {}
            }
            if let Some(Candidate { digest, stage: Stage::Preparing | Stage::Shadow, .. }) = candidate {
                prop_assert_eq!(world.asked, Some(*digest), "no work is done on the candidate");
            }
            // What is worked on is what waits for it, and nothing else is.
            let work = match candidate.map(|candidate| (candidate.digest, &candidate.stage)) {
                Some((digest, Stage::Preparing)) => vec![Some(RolloutWork::Prepare(digest))],
                Some((digest, Stage::Shadow)) => vec![None, Some(RolloutWork::Shadow(digest))],
                _ => vec![None, new.map(|serving| RolloutWork::Renew(serving.digest))],
            };
            prop_assert!(work.contains(&rollout.work()), "{:?} of {work:?} after {event:?}", rollout.work());
            // What was wanted during a rollback is requested once more after it.
            prop_assert!(!before.is_rolling_back() || rollout.is_rolling_back() || rollout.is_wish_due());
        }
    }
}
