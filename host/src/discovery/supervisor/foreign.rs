//! Changes of our objects by other programs: one is repaired, many are a fight without an end (decision H17).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use topoloom_api::names::FIELD_MANAGER;

use super::wake::Drift;

/// Changes of one object within [`WATCHED`] that make another writer of us two: repairing on would be a fight. One
/// sweep over many objects (`kubectl label hypernodes --all`) is repaired and no fight.
const FIGHT: usize = 5;
/// How long a foreign change is remembered.
const WATCHED: Duration = Duration::from_secs(120);
/// Changes that are remembered.
const REMEMBERED: usize = 4096;

/// The latest changes by others, oldest first.
#[derive(Default)]
pub(super) struct Foreign {
    changes: VecDeque<(Instant, Drift)>,
}

/// Another program that writes our objects.
pub(super) struct SecondWriter {
    /// The other program, how often it wrote, and what we do about it.
    pub(super) message: String,
    /// Whether writing on would be a fight.
    pub(super) is_fight: bool,
    /// When the oldest change will be forgotten.
    pub(super) look_again: Instant,
}

impl Foreign {
    /// Another program changed or deleted an object.
    pub(super) fn changed(&mut self, drift: &Drift, now: Instant) {
        self.forget(now);
        if self.changes.len() >= REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back((now, drift.clone()));
    }

    fn forget(&mut self, now: Instant) {
        while self.changes.front().is_some_and(|(when, _)| now.duration_since(*when) > WATCHED) {
            self.changes.pop_front();
        }
    }

    /// Whether another program changes our objects these days. A deletion does not say whose it is, so it counts only
    /// where one object is deleted again and again.
    pub(super) fn second_writer(&mut self, now: Instant) -> Option<SecondWriter> {
        self.forget(now);
        let mut by_object: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, drift) in &self.changes {
            *by_object.entry(&drift.object).or_default() += 1;
        }
        let is_fight = by_object.values().any(|changes| *changes >= FIGHT);
        let known = self.changes.iter().filter(|(_, drift)| drift.writer.is_some() || is_fight);
        let count = known.clone().count();
        let (_, last) = known.clone().next_back()?;
        let (oldest, _) = known.clone().next()?;
        let writer = match last.writer.as_deref() {
            Some(FIELD_MANAGER) => "another topoloom".to_owned(),
            Some(writer) => format!("{writer:?}"),
            None => "an unknown program".to_owned(),
        };
        let message = format!(
            "{count} changes of our objects by {writer} within two minutes, the last one of {}{}",
            last.object,
            if is_fight { "; this source writes nothing until that ends" } else { "; repaired" }
        );
        Some(SecondWriter { message, is_fight, look_again: *oldest + WATCHED + Duration::from_secs(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(object: &str, writer: Option<&str>) -> Drift {
        Drift { object: object.to_owned(), writer: writer.map(str::to_owned) }
    }

    #[test]
    fn five_changes_of_one_object_within_two_minutes_are_a_fight_and_are_forgotten() {
        let (mut foreign, start) = (Foreign::default(), Instant::now());
        assert!(foreign.second_writer(start).is_none());
        for second in 0..5 {
            let now = start + Duration::from_secs(second);
            foreign.changed(&drift("rack", Some("other")), now);
            let found = foreign.second_writer(now).unwrap();
            assert_eq!(found.is_fight, second == 4, "{}", found.message);
        }
        let later = start + WATCHED + Duration::from_secs(1);
        assert!(!foreign.second_writer(later).unwrap().is_fight, "the first one is forgotten");
        assert!(foreign.second_writer(later + WATCHED).is_none());
    }

    #[test]
    fn a_sweep_over_many_objects_is_no_fight() {
        let (mut foreign, now) = (Foreign::default(), Instant::now());
        for object in 0..10_000 {
            foreign.changed(&drift(&format!("rack-{object}"), Some("kubectl-label")), now);
        }
        assert!(!foreign.second_writer(now).unwrap().is_fight);
        assert_eq!(foreign.changes.len(), REMEMBERED, "what is remembered is bounded");
    }

    #[test]
    fn a_deletion_is_no_second_writer_until_it_comes_again_and_again() {
        let (mut foreign, now) = (Foreign::default(), Instant::now());
        for _ in 0..4 {
            foreign.changed(&drift("rack", None), now);
            assert!(foreign.second_writer(now).is_none());
        }
        foreign.changed(&drift("rack", None), now);
        assert!(foreign.second_writer(now).unwrap().is_fight);
    }

    #[test]
    fn another_topoloom_is_another_writer() {
        let (mut foreign, now) = (Foreign::default(), Instant::now());
        foreign.changed(&drift("rack", Some(FIELD_MANAGER)), now);
        let found = foreign.second_writer(now).unwrap();
        assert!(found.message.contains("another topoloom"), "{}", found.message);
    }
}
