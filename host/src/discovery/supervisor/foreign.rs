//! Changes of our objects by other programs: one is repaired, many are a fight that nobody wins (decision H17).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::wake::Drift;

/// Foreign changes within [`WATCHED`] that make another writer of us two: repairing on would be a fight.
const FIGHT: usize = 5;
/// How long a foreign change is remembered.
const WATCHED: Duration = Duration::from_secs(120);

/// The latest changes by others, oldest first.
#[derive(Default)]
pub(super) struct Foreign {
    changes: VecDeque<(Instant, Drift)>,
}

/// Another program that writes our objects.
pub(super) struct SecondWriter {
    /// Who, how often, and what we do about it.
    pub(super) message: String,
    /// Whether writing on would be a fight.
    pub(super) is_fight: bool,
    /// When the oldest change will be forgotten.
    pub(super) look_again: Instant,
}

impl Foreign {
    /// Somebody changed an object.
    pub(super) fn changed(&mut self, drift: &Drift, now: Instant) {
        if drift.writer.is_some() {
            self.changes.push_back((now, drift.clone()));
        }
    }

    /// Whether another program changes our objects these days.
    pub(super) fn second_writer(&mut self, now: Instant) -> Option<SecondWriter> {
        while self.changes.front().is_some_and(|(when, _)| now.duration_since(*when) > WATCHED) {
            self.changes.pop_front();
        }
        let ((oldest, _), (_, last)) = (self.changes.front()?, self.changes.back()?);
        let is_fight = self.changes.len() >= FIGHT;
        let message = format!(
            "{} changes of our objects by {:?} within two minutes, the last one of {}{}",
            self.changes.len(),
            last.writer.as_deref().unwrap_or("unknown"),
            last.object,
            if is_fight { "; this source writes nothing until that ends" } else { "; repaired" }
        );
        Some(SecondWriter { message, is_fight, look_again: *oldest + WATCHED + Duration::from_secs(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(writer: Option<&str>) -> Drift {
        Drift { object: "rack".to_owned(), writer: writer.map(str::to_owned) }
    }

    #[test]
    fn five_changes_within_two_minutes_are_a_fight_and_are_forgotten() {
        let (mut foreign, start) = (Foreign::default(), Instant::now());
        assert!(foreign.second_writer(start).is_none());
        for second in 0..5 {
            let now = start + Duration::from_secs(second);
            foreign.changed(&drift(Some("other")), now);
            let found = foreign.second_writer(now).unwrap();
            assert_eq!(found.is_fight, second == 4, "{}", found.message);
        }
        let later = start + WATCHED + Duration::from_secs(1);
        assert!(!foreign.second_writer(later).unwrap().is_fight, "the first one is forgotten");
        assert!(foreign.second_writer(later + WATCHED).is_none());
    }

    #[test]
    fn a_change_without_a_name_is_not_held_against_anybody() {
        let mut foreign = Foreign::default();
        foreign.changed(&drift(None), Instant::now());
        assert!(foreign.second_writer(Instant::now()).is_none());
    }
}
