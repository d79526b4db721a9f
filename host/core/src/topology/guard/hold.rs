//! The path of a held result to its confirmation.
//!
//! ```text
//!            agree(other result)
//!          ┌────────────────────┐
//!  (free) ─┴─► held, 1 round ───┴─► held, n rounds ──► confirmed ──► clear() ──► (free)
//!                  └── the operator names this result ─────┘
//! ```
//!
//! A failed round neither agrees nor disagrees: the host does not pass it to this machine. A result that is decided
//! again without a new answer (for instance after an edit of an object) is no new evidence about the source: it is
//! passed as [`DecisionCause::Again`] and never counts as an agreeing round.

use std::sync::Arc;

use jiff::Timestamp;

use super::{GuardRule, Safety};

/// The held result of a source, if it has one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hold {
    waiting: Option<HeldResult>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HeldResult {
    result: Arc<str>,
    since: Timestamp,
    /// The last round that counted.
    counted: Timestamp,
    agreeing: u32,
    /// Kept until the result is written or there is another one: a write that fails half-way must not need a second
    /// confirmation.
    by_operator: bool,
}

/// Why a result is decided about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionCause {
    /// A round has just returned it.
    Round,
    /// It is the result of the last round; something else changed.
    Again,
}

/// How far the confirmation of a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmationState {
    /// Not confirmed yet.
    Held {
        /// When it was first held.
        since: Timestamp,
        /// Rounds that count so far. A round counts when it is at least `holdFor` after the last one that counted.
        agreeing: u32,
        /// How many are needed.
        needed: u32,
        /// When the host should run the next round that counts; `None`: time does not confirm this result.
        next_due: Option<Timestamp>,
    },
    /// It may be written.
    Confirmed(Confirmation),
}

/// What confirmed a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Enough agreeing rounds, far enough apart.
    Time,
    /// The operator, who named exactly this result.
    Operator,
}

impl Hold {
    /// The given rule holds this result (its hash). `operator` is the result that the operator confirmed, if any: it
    /// confirms exactly that result and no other.
    ///
    /// A result that differs from the last one restarts the hold. The answer stays *confirmed* for the same result
    /// until [`clear`](Self::clear), so that the host can continue writing after a failure.
    pub fn agree(
        &mut self,
        result: &str,
        rule: GuardRule,
        now: Timestamp,
        seen: DecisionCause,
        operator: Option<&str>,
        safety: &Safety,
    ) -> ConfirmationState {
        let same = self.waiting.take().filter(|waiting| &*waiting.result == result);
        let mut waiting = same.unwrap_or_else(|| HeldResult {
            result: result.into(),
            since: now,
            counted: now,
            agreeing: 1,
            by_operator: false,
        });
        if now < waiting.counted {
            // The clock went back. How long ago the last round was is unknown, so the wait starts again now.
            waiting.counted = now;
            waiting.since = waiting.since.min(now);
        }
        let due = waiting.counted.checked_add(safety.hold_for).ok();
        if seen == DecisionCause::Round && due.is_some_and(|due| due <= now) {
            waiting.agreeing = waiting.agreeing.saturating_add(1);
            waiting.counted = now;
        }
        waiting.by_operator |= operator == Some(result);
        let standing = if waiting.by_operator {
            ConfirmationState::Confirmed(Confirmation::Operator)
        } else if rule.yields_to_time() && waiting.agreeing >= safety.confirmations {
            ConfirmationState::Confirmed(Confirmation::Time)
        } else {
            let next_due = waiting.counted.checked_add(safety.hold_for).ok();
            ConfirmationState::Held {
                since: waiting.since,
                agreeing: waiting.agreeing,
                needed: safety.confirmations,
                next_due: next_due.filter(|_| rule.yields_to_time()),
            }
        };
        self.waiting = Some(waiting);
        standing
    }

    /// A round passed, or the confirmed result is completely written: no result is held any more.
    pub fn clear(&mut self) {
        self.waiting = None;
    }

    /// The result that is held, and since when. `topoloom confirm` has to name it.
    #[must_use]
    pub fn waiting(&self) -> Option<(&str, Timestamp)> {
        self.waiting.as_ref().map(|waiting| (&*waiting.result, waiting.since))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DELETES: GuardRule = GuardRule::Deletes { deletes: 6, of: 10, explained: 0 };
    const EMPTY: GuardRule = GuardRule::Empty { objects: 3 };

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).expect("a time")
    }

    fn agree(hold: &mut Hold, result: &str, seconds: i64) -> ConfirmationState {
        hold.agree(result, DELETES, at(seconds), DecisionCause::Round, None, &Safety::default())
    }

    fn held(since: i64, agreeing: u32, next_due: i64) -> ConfirmationState {
        ConfirmationState::Held { since: at(since), agreeing, needed: 2, next_due: Some(at(next_due)) }
    }

    #[test]
    fn two_agreeing_rounds_ten_minutes_apart_confirm() {
        let mut hold = Hold::default();
        assert_eq!(agree(&mut hold, "a", 0), held(0, 1, 600));
        assert_eq!(agree(&mut hold, "a", 599), held(0, 1, 600));
        assert_eq!(agree(&mut hold, "a", 600), ConfirmationState::Confirmed(Confirmation::Time));
    }

    #[test]
    fn many_rounds_close_together_confirm_nothing() {
        let mut hold = Hold::default();
        for second in 0..600 {
            assert_eq!(agree(&mut hold, "a", second), held(0, 1, 600));
        }
    }

    #[test]
    fn a_result_that_is_only_decided_about_again_confirms_nothing() {
        let mut hold = Hold::default();
        agree(&mut hold, "a", 0);
        for second in [60, 600, 6000] {
            let again = hold.agree("a", DELETES, at(second), DecisionCause::Again, None, &Safety::default());
            assert_eq!(again, held(0, 1, 600), "no round has seen it since");
        }
        assert_eq!(agree(&mut hold, "a", 6001), ConfirmationState::Confirmed(Confirmation::Time));
    }

    #[test]
    fn three_confirmations_take_two_waits() {
        let safety = Safety { confirmations: 3, ..Safety::default() };
        let mut hold = Hold::default();
        let mut agree = |second| hold.agree("a", DELETES, at(second), DecisionCause::Round, None, &safety);
        agree(0);
        let second = ConfirmationState::Held { since: at(0), agreeing: 2, needed: 3, next_due: Some(at(1300)) };
        assert_eq!(agree(700), second);
        assert_eq!(agree(1299), second);
        assert_eq!(agree(1300), ConfirmationState::Confirmed(Confirmation::Time));
    }

    #[test]
    fn a_different_result_starts_anew() {
        let mut hold = Hold::default();
        agree(&mut hold, "a", 0);
        assert_eq!(agree(&mut hold, "b", 500), held(500, 1, 1100));
        assert_eq!(agree(&mut hold, "a", 700), held(700, 1, 1300));
    }

    #[test]
    fn the_operator_confirms_that_very_result_at_once() {
        let mut hold = Hold::default();
        let safety = Safety::default();
        assert_eq!(hold.agree("a", DELETES, at(0), DecisionCause::Round, Some("b"), &safety), held(0, 1, 600));
        let confirmed = ConfirmationState::Confirmed(Confirmation::Operator);
        assert_eq!(hold.agree("a", DELETES, at(1), DecisionCause::Round, Some("a"), &safety), confirmed);
        // The annotation is removed and the write failed: still confirmed.
        assert_eq!(hold.agree("a", DELETES, at(2), DecisionCause::Round, None, &safety), confirmed);
        assert_eq!(hold.agree("c", DELETES, at(3), DecisionCause::Round, None, &safety), held(3, 1, 603));
    }

    #[test]
    fn time_never_confirms_an_empty_result() {
        let mut hold = Hold::default();
        let safety = Safety::default();
        for day in 0..100 {
            let standing = hold.agree("e", EMPTY, at(day * 86_400), DecisionCause::Round, None, &safety);
            assert!(matches!(standing, ConfirmationState::Held { next_due: None, .. }), "{standing:?}");
        }
        let confirmed = hold.agree("e", EMPTY, at(0), DecisionCause::Round, Some("e"), &safety);
        assert_eq!(confirmed, ConfirmationState::Confirmed(Confirmation::Operator));
    }

    #[test]
    fn a_clock_that_goes_back_restarts_the_wait() {
        let mut hold = Hold::default();
        agree(&mut hold, "a", 1000);
        assert_eq!(agree(&mut hold, "a", 100), held(100, 1, 700));
        assert_eq!(agree(&mut hold, "a", 700), ConfirmationState::Confirmed(Confirmation::Time));
    }

    #[test]
    fn a_written_result_is_not_held() {
        let mut hold = Hold::default();
        agree(&mut hold, "a", 0);
        assert_eq!(hold.waiting(), Some(("a", at(0))));
        hold.clear();
        assert_eq!(hold.waiting(), None);
        assert_eq!(agree(&mut hold, "a", 600), held(600, 1, 1200));
    }

    proptest! {
        /// Confirmed by time means: enough rounds of this result since the last different one, each far enough from the
        /// one before. A host that keeps to `next_due` is confirmed after exactly as many rounds as are needed.
        #[test]
        fn time_confirms_a_result_that_agreed_often_and_long_enough(
            rounds in prop::collection::vec((0..2u8, 0..900i64), 1..30),
            confirmations in 2..5u32,
        ) {
            let safety = Safety { confirmations, ..Safety::default() };
            let mut hold = Hold::default();
            let mut now = 0;
            let mut history: Vec<(u8, i64)> = Vec::new();
            for (result, wait) in rounds {
                now += wait;
                history.push((result, now));
                let standing = hold.agree(&result.to_string(), DELETES, at(now), DecisionCause::Round, None, &safety);
                let same: Vec<i64> =
                    history.iter().rev().take_while(|(other, _)| *other == result).map(|(_, time)| *time).collect();
                let mut counted = vec![*same.last().expect("this round")];
                for time in same.iter().rev() {
                    if time - counted.last().expect("one") >= 600 {
                        counted.push(*time);
                    }
                }
                let confirmed = counted.len() >= confirmations as usize;
                prop_assert_eq!(standing == ConfirmationState::Confirmed(Confirmation::Time), confirmed);
            }
            hold.clear();
            let mut due = at(now);
            for _ in 1..confirmations {
                match hold.agree("x", DELETES, due, DecisionCause::Round, None, &safety) {
                    ConfirmationState::Held { next_due: Some(next), .. } => due = next,
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(hold.agree("x", DELETES, due, DecisionCause::Round, None, &safety), ConfirmationState::Confirmed(Confirmation::Time));
        }
    }
}
