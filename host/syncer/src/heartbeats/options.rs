//! How often leases are renewed, and by how many requests at the same time.

use std::time::Duration;

/// The shortest lease: a renewal each second (decision S28).
const SHORTEST: u64 = 4;
/// The longest: a dead node that is seen an hour later is no better than one without a lease.
const LONGEST: u64 = 3600;
/// As node-lifecycle's grace period of 40 s wants it (section 7).
const USUAL: u32 = 40;
/// So many requests at the same time: 5 000 leases need 500 a second, which an API server that answers within 128 ms gives.
/// Each has a connection of its own where the server does not share one.
const USUAL_IN_FLIGHT: usize = 64;
/// More would wait in the client.
const MOST_IN_FLIGHT: usize = 1024;
/// The longest deadline of a request, and so the longest time that a stop waits (section 7).
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Attempts to renew one lease before its next turn (section 7).
pub(super) const ATTEMPTS: u32 = 5;

/// A number that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The lease.
    #[error(
        "the lease (spec.timing) must be whole seconds from {least} to {most}, got {0:?}",
        least = SHORTEST,
        most = LONGEST
    )]
    Lease(Duration),
    /// The requests.
    #[error("requests for leases at the same time must be 1 to {most}, got {0}", most = MOST_IN_FLIGHT)]
    InFlight(usize),
}

/// Times and numbers of the heartbeats of one binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    seconds: u32,
    in_flight: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seconds: USUAL, in_flight: USUAL_IN_FLIGHT }
    }
}

impl Options {
    /// Leases that are valid for this long, renewed four times within it.
    ///
    /// # Errors
    /// It is not whole seconds, too short or too long.
    pub fn new(lease: Duration) -> Result<Self, OptionsError> {
        let is_whole = lease.subsec_nanos() == 0 && (SHORTEST..=LONGEST).contains(&lease.as_secs());
        match u32::try_from(lease.as_secs()) {
            Ok(seconds) if is_whole => Ok(Self { seconds, ..Self::default() }),
            _ => Err(OptionsError::Lease(lease)),
        }
    }

    /// The same with so many requests at the same time.
    ///
    /// # Errors
    /// It is none, or more than a client takes.
    pub fn in_flight(self, requests: usize) -> Result<Self, OptionsError> {
        if (1..=MOST_IN_FLIGHT).contains(&requests) {
            Ok(Self { in_flight: requests, ..self })
        } else {
            Err(OptionsError::InFlight(requests))
        }
    }

    /// `leaseDurationSeconds`.
    #[must_use]
    pub fn seconds(self) -> u32 {
        self.seconds
    }

    /// The time between two renewals of one lease: a quarter of it.
    #[must_use]
    pub fn interval(self) -> Duration {
        Duration::from_secs(self.seconds.into()) / 4
    }

    /// The deadline of one request: shorter than the interval, so that a request that hangs costs one turn.
    #[must_use]
    pub fn patience(self) -> Duration {
        (self.interval() / 2).min(PATIENCE)
    }

    /// How many requests are under way at most.
    pub(super) fn most_in_flight(self) -> usize {
        self.in_flight
    }

    /// How many of them may be for leases whose last request failed: a lease that never succeeds holds up no other.
    pub(super) fn most_retries(self) -> usize {
        (self.in_flight / 2).max(1)
    }

    /// The pause before attempt number `attempts + 1` to renew: 1, 2, 3 and 4 s with the usual interval.
    pub(super) fn renew_pause(self, attempts: u32) -> Duration {
        self.interval() / 10 * attempts
    }

    /// The pause after failure number `failures` to read or to make a lease: 0.2, 0.4 s and so on up to 7 s.
    pub(super) fn make_pause(self, failures: u32) -> Duration {
        let doubled = (self.interval() / 50).saturating_mul(1 << failures.saturating_sub(1).min(8));
        doubled.min(self.interval() * 7 / 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_40_s_has_the_times_of_section_7() {
        let options = Options::default();
        assert_eq!((options.interval(), options.patience()), (Duration::from_secs(10), Duration::from_secs(5)));
        assert_eq!([1, 2, 3, 4].map(|attempts| options.renew_pause(attempts).as_secs()), [1, 2, 3, 4]);
        let pauses = [1, 2, 3, 4, 5, 6, 7, 8, 1000].map(|failures| options.make_pause(failures).as_millis());
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 7000, 7000, 7000]);
        assert_eq!(Options::new(Duration::from_secs(40)), Ok(options));
    }

    #[test]
    fn s28_shorter_leases_have_shorter_times() {
        let options = Options::new(Duration::from_secs(4)).unwrap();
        assert_eq!((options.interval(), options.patience()), (Duration::from_secs(1), Duration::from_millis(500)));
        assert!(options.make_pause(u32::MAX) < options.interval());
    }

    #[test]
    fn numbers_that_cannot_be_used_are_refused_with_their_range() {
        for lease in [Duration::ZERO, Duration::from_secs(3), Duration::from_secs(3601), Duration::from_millis(4500)] {
            let error = Options::new(lease).unwrap_err().to_string();
            assert!(error.contains("from 4 to 3600") && error.contains(&format!("{lease:?}")), "{error}");
        }
        for requests in [0, 1025] {
            let error = Options::default().in_flight(requests).unwrap_err().to_string();
            assert!(error.contains("1 to 1024") && error.ends_with(&requests.to_string()), "{error}");
        }
        assert_eq!(Options::default().in_flight(1).unwrap().most_retries(), 1);
    }
}
