//! What the guard holds and who confirmed it (decision H6).
//!
//! Invariants: each confirmation of the operator counts for one decision, and each answer for one agreeing round; a
//! confirmation names exactly one result; while a result is held, no lost Node is forgotten.

use jiff::Timestamp;
use topoloom_core::topology::guard::{
    Bucket, Confirmation, ConfirmationState, DecisionCause, GuardRule, GuardVerdict, Hold, Loss, Losses, Safety,
};

/// The guard's memory of one source.
pub(super) struct Guarded {
    hold: Hold,
    /// What written results took lately: a part of the guard's reference.
    losses: Losses,
    /// Whether the answer has been decided about since a round gave it: only a round agrees with what is held.
    seen: DecisionCause,
    /// The result that the operator confirmed.
    confirmed: Option<String>,
}

/// What the guard decided about a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    /// It passes by itself.
    ByItself,
    /// It was held and is confirmed.
    Confirmed(Confirmation),
    /// It waits.
    Held {
        /// Since when.
        since: Timestamp,
        /// Rounds that agree so far.
        agreeing: u32,
        /// How many are needed.
        needed: u32,
        /// When the next round that counts should run; nothing where time does not confirm it.
        next: Option<Timestamp>,
    },
}

/// The outcome of the operator's confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// It confirms what is held.
    Confirms,
    /// Nothing was decided yet: it may name what the first round will find.
    Kept,
    /// Another result is held, or none.
    Ignored(Option<String>),
}

/// Whether anything was decided since the start of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounds {
    /// No answer so far.
    NoneYet,
    /// At least one.
    Some,
}

impl Guarded {
    /// Of a source that starts. `confirmed` is what the operator confirmed since the annotation was last read.
    pub(super) fn new(losses: Losses, confirmed: Option<String>) -> Self {
        Self { hold: Hold::default(), losses, seen: DecisionCause::Again, confirmed }
    }

    /// What written results took lately, as far as it counts now.
    pub(super) fn losses(&mut self, now: Timestamp, safety: &Safety) -> &Losses {
        self.losses.pass(now, safety);
        &self.losses
    }

    /// A round gave an answer.
    pub(super) fn answered(&mut self) {
        self.seen = DecisionCause::Round;
    }

    /// How a decision passes; what is held is kept.
    pub(super) fn judge(&mut self, result: &str, verdict: &GuardVerdict, now: Timestamp, safety: &Safety) -> Passage {
        let seen = std::mem::replace(&mut self.seen, DecisionCause::Again);
        let operator = self.confirmed.take_if(|hash| seen == DecisionCause::Round || hash == result);
        let rule: GuardRule = match verdict {
            GuardVerdict::Held(held) => held.rule,
            GuardVerdict::Pass => {
                self.hold.clear();
                self.losses.release();
                return Passage::ByItself;
            }
        };
        match self.hold.agree(result, rule, now, seen, operator.as_deref(), safety) {
            ConfirmationState::Confirmed(by) => Passage::Confirmed(by),
            ConfirmationState::Held { since, agreeing, needed, next_due } => {
                self.losses.hold();
                Passage::Held { since, agreeing, needed, next: next_due }
            }
        }
    }

    /// Takes in what a result costs that is about to be written. Answers when the first of it will be forgotten.
    pub(super) fn account(
        &mut self,
        confirmed: Option<Confirmation>,
        loss: &Loss,
        now: Timestamp,
        safety: &Safety,
    ) -> Option<Timestamp> {
        match confirmed {
            None => self.losses.take_in(loss, now),
            Some(_) => self.losses.forget(),
        }
        self.losses.until(safety.hold_for)
    }

    /// What has to survive a restart.
    pub(super) fn buckets(&self, safety: &Safety) -> Vec<Bucket> {
        self.losses.buckets(safety)
    }

    /// A result is completely written: nothing is waited for any more.
    pub(super) fn written(&mut self) {
        self.hold.clear();
    }

    /// Everything was taken out of the cluster.
    pub(super) fn removed(&mut self) {
        self.losses.forget();
    }

    /// The operator vouches for a result that was looked at before.
    pub(super) fn vouch(&mut self, result: String) {
        self.confirmed = Some(result);
    }

    /// The operator confirms a result. Before anything was decided it may name what the first round will find; afterwards
    /// a word about another result says nothing, now or later.
    pub(super) fn confirm(&mut self, result: &str, rounds: Rounds) -> Word {
        let held = self.hold.waiting().map(|(held, _)| held);
        match held {
            Some(held) if held == result => {
                self.confirmed = Some(result.to_owned());
                Word::Confirms
            }
            None if rounds == Rounds::NoneYet => {
                self.confirmed = Some(result.to_owned());
                Word::Kept
            }
            held => Word::Ignored(held.map(str::to_owned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use topoloom_core::topology::guard;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn held() -> GuardVerdict {
        let rule = GuardRule::Deletes { deletes: 6, of: 10, explained: 0 };
        GuardVerdict::Held(guard::GuardHold { rule, sentence: "held".to_owned() })
    }

    fn guarded() -> Guarded {
        Guarded::new(Losses::default(), None)
    }

    fn judge(guarded: &mut Guarded, result: &str, verdict: &GuardVerdict) -> Passage {
        guarded.judge(result, verdict, now(), &Safety::default())
    }

    #[test]
    fn what_passes_is_not_held_and_what_is_held_is_confirmed_by_its_name_alone() {
        let mut guarded = guarded();
        assert_eq!(judge(&mut guarded, "a", &GuardVerdict::Pass), Passage::ByItself);
        guarded.answered();
        assert!(matches!(judge(&mut guarded, "a", &held()), Passage::Held { agreeing: 1, .. }));
        assert_eq!(guarded.confirm("b", Rounds::Some), Word::Ignored(Some("a".to_owned())));
        assert!(
            matches!(judge(&mut guarded, "a", &held()), Passage::Held { agreeing: 1, .. }),
            "nothing was confirmed"
        );
        assert_eq!(guarded.confirm("a", Rounds::Some), Word::Confirms);
        assert_eq!(judge(&mut guarded, "a", &held()), Passage::Confirmed(Confirmation::Operator));
        guarded.written();
        assert_eq!(guarded.confirm("a", Rounds::Some), Word::Ignored(None));
    }

    #[test]
    fn a_word_before_the_first_round_counts_for_that_round_and_no_other() {
        let mut guarded = guarded();
        assert_eq!(guarded.confirm("a", Rounds::NoneYet), Word::Kept);
        guarded.answered();
        assert!(matches!(judge(&mut guarded, "b", &held()), Passage::Held { .. }));
        guarded.answered();
        assert!(matches!(judge(&mut guarded, "a", &held()), Passage::Held { .. }), "the word is used up");
    }

    #[test]
    fn a_word_waits_while_the_result_is_only_looked_at_again() {
        let mut guarded = guarded();
        guarded.vouch("a".to_owned());
        assert!(matches!(judge(&mut guarded, "b", &held()), Passage::Held { .. }));
        guarded.answered();
        assert_eq!(judge(&mut guarded, "a", &held()), Passage::Confirmed(Confirmation::Operator));
    }

    #[test]
    fn only_a_round_agrees_and_once() {
        let mut guarded = guarded();
        let safety = Safety::default();
        let later = now().checked_add(safety.hold_for).unwrap();
        guarded.answered();
        let _ = judge(&mut guarded, "a", &held());
        let again = guarded.judge("a", &held(), later, &safety);
        assert!(matches!(again, Passage::Held { agreeing: 1, .. }), "{again:?}");
        guarded.answered();
        let again = guarded.judge("a", &held(), later, &safety);
        assert!(!matches!(again, Passage::Held { agreeing: 1, .. }), "{again:?}");
    }
}
