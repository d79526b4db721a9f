//! When the last answer is decided about again, and what of the writes is refused.
//!
//! Invariants: nothing is due before something asks for it; a change of an object never ends a pause; a decision that begins
//! answers everything that was due.

use tokio::time::Instant;

use crate::topology::refusals::Refusals;

/// The writes of one source.
#[derive(Default)]
pub(super) struct Writing {
    /// When a plan is decided again, without a call.
    decide_at: Option<Instant>,
    /// When a remark about another writer, or about coverage, is looked at again.
    look_at: Option<Instant>,
    /// What of the writes is refused.
    pub(super) refusals: Refusals,
}

impl Writing {
    /// When the next decision is due.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.decide_at, self.look_at].into_iter().flatten().min()
    }

    /// A decision begins.
    pub(super) fn begins(&mut self) {
        self.decide_at = None;
        self.look_at = None;
    }

    /// What is decided may be another thing now: it is decided again at once.
    pub(super) fn decide(&mut self, now: Instant) {
        self.decide_at = Some(now);
    }

    /// The same for events that are so frequent that they must not end a pause.
    pub(super) fn decide_unless_pausing(&mut self, now: Instant) {
        self.decide_at.get_or_insert(now);
    }

    /// Writes wait until then.
    pub(super) fn pause(&mut self, until: Option<Instant>) {
        self.decide_at = until;
    }

    /// A remark may have to go at that time.
    pub(super) fn look(&mut self, at: Option<Instant>) {
        self.look_at = [self.look_at, at].into_iter().flatten().min();
    }

    /// The operator asks, or the obstacle is gone: refused writes no longer wait.
    pub(super) fn end_pauses(&mut self, now: Instant) {
        self.refusals.end_pauses(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_earliest_of_what_is_asked_for_is_due_and_a_decision_answers_all() {
        let (mut writing, now) = (Writing::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(writing.due(), None);
        writing.look(Some(at(60)));
        writing.look(None);
        writing.look(Some(at(90)));
        assert_eq!(writing.due(), Some(at(60)));
        writing.pause(Some(at(30)));
        assert_eq!(writing.due(), Some(at(30)));
        writing.begins();
        assert_eq!(writing.due(), None);
    }

    #[test]
    fn a_change_of_an_object_does_not_end_a_pause_and_a_person_does() {
        let (mut writing, now) = (Writing::default(), Instant::now());
        let until = now + Duration::from_secs(30);
        writing.pause(Some(until));
        writing.decide_unless_pausing(now);
        assert_eq!(writing.due(), Some(until));
        writing.decide(now);
        assert_eq!(writing.due(), Some(now));
        writing.begins();
        writing.decide_unless_pausing(now);
        assert_eq!(writing.due(), Some(now));
    }
}
