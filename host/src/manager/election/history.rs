//! What happened to a lease lately, as this replica saw it: for the question in the morning why its holder changed at
//! night.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

/// Events that are remembered.
const REMEMBERED: usize = 20;

/// The latest events of one election, oldest first. Clones are the same history.
#[derive(Debug, Clone, Default)]
pub struct History(Arc<Mutex<VecDeque<Happened>>>);

/// One event, or several equal ones in a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happened {
    /// When it happened first, RFC 3339.
    pub since: String,
    /// When it happened last.
    pub last: String,
    /// How often.
    pub times: u32,
    /// What.
    pub what: String,
}

impl History {
    /// Something happened now.
    pub(super) fn add(&self, what: impl Into<String>) {
        self.add_at(Timestamp::now(), what.into());
    }

    fn add_at(&self, now: Timestamp, what: String) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = events.back_mut().filter(|last| last.what == what) {
            last.last = now.to_string();
            last.times = last.times.saturating_add(1);
            return;
        }
        if events.len() >= REMEMBERED {
            events.pop_front();
        }
        let now = now.to_string();
        events.push_back(Happened { since: now.clone(), last: now, times: 1, what });
    }

    /// Everything that is remembered.
    #[must_use]
    pub fn all(&self) -> Vec<Happened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_events_in_a_row_are_one_and_the_oldest_is_forgotten_first() {
        let (history, start) = (History::default(), Timestamp::UNIX_EPOCH);
        let after = |seconds| start + jiff::SignedDuration::from_secs(seconds);
        history.add_at(start, "leads".into());
        for second in 1..=100 {
            history.add_at(after(second), "no answer".into());
        }
        let wanted = Happened {
            since: "1970-01-01T00:00:01Z".into(),
            last: "1970-01-01T00:01:40Z".into(),
            times: 100,
            what: "no answer".into(),
        };
        assert_eq!(history.all().get(1..), Some(&[wanted][..]));
        for number in 0..REMEMBERED {
            history.add_at(after(200), format!("event {number}"));
        }
        let all = history.all();
        assert_eq!((all.len(), all.first().map(|first| first.what.as_str())), (REMEMBERED, Some("event 0")));
    }
}
