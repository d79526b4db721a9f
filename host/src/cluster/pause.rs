//! The pauses of a watch that breaks: short at first, and never so long that an operator waits for a host that only waits.
//!
//! An API server that was restarted is back after some seconds, and half a minute of waiting beyond that is half a minute in
//! which a new leader decides on what it saw before. There are few replicas, so that this costs the API server nothing.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// After the first failure.
const FIRST: Duration = Duration::from_millis(200);
/// At most.
const LONGEST: Duration = Duration::from_secs(5);

/// Doubling pauses between 200 ms and 5 s; from the beginning after a success.
#[derive(Debug, Clone)]
pub struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        Some(pause)
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_seconds_and_begin_anew_after_a_success() {
        let mut pauses = Pauses::default();
        let millis =
            |pauses: &mut Pauses, count| -> Vec<u128> { pauses.take(count).map(|pause| pause.as_millis()).collect() };
        assert_eq!(millis(&mut pauses, 7), [200, 400, 800, 1600, 3200, 5000, 5000]);
        pauses.reset();
        assert_eq!(millis(&mut pauses, 2), [200, 400]);
    }
}
