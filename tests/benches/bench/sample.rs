//! Many measurements of one thing.

use std::time::Duration;

/// Durations of the same thing.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<Duration>);

impl Sample {
    pub(crate) fn push(&mut self, duration: Duration) {
        let at = self.0.partition_point(|other| *other <= duration);
        self.0.insert(at, duration);
    }

    /// Adds the durations of another sample.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
    }

    pub(crate) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// The duration that `percent` percent of the measurements do not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let at = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
