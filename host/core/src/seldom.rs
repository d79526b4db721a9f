//! A line of the log that strangers or a crowd could repeat without end: it is written once a minute, with how often it was meant.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one line suppresses those that follow.
const PAUSE: Duration = Duration::from_secs(60);

/// When the line was written, and how often it was meant since.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<(Option<Instant>, u64)>);

impl Seldom {
    /// It is meant once more. Where it is due, says how often it was meant since it was written last, this time included.
    pub fn due(&self, now: Instant) -> Option<u64> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, meant) = *last;
        let meant = meant.saturating_add(1);
        let due = written.is_none_or(|written| now.saturating_duration_since(written) >= PAUSE);
        *last = if due { (Some(now), 0) } else { (written, meant) };
        due.then_some(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "there is no other way to an Instant, and any will do")]
    fn the_first_line_is_written_at_once_and_the_next_one_counts_those_that_were_left_out() {
        let (line, begin) = (Seldom::default(), Instant::now());
        let at = |seconds: u64| line.due(begin + Duration::from_secs(seconds));
        assert_eq!([at(0), at(1), at(59), at(60), at(61)], [Some(1), None, None, Some(3), None]);
    }
}
