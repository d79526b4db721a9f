//! How many bindings come at about one moment: their elections begin one after the other, and one that comes alone does not wait.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use topoloom_sync::spread::stagger_among;

use super::groups::BindingId;

/// The bindings that came lately.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<Option<Burst>>);

/// Bindings that came within one period.
struct Burst {
    since: Instant,
    count: u32,
}

impl Arrivals {
    /// A binding comes: how long its election waits, within a period.
    pub(super) fn pause(&self, binding: &BindingId, period: Duration) -> Duration {
        let mut burst = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let last = burst.take().filter(|burst| now.saturating_duration_since(burst.since) < period);
        let Burst { since, count } = last.unwrap_or(Burst { since: now, count: 0 });
        *burst = Some(Burst { since, count: count.saturating_add(1) });
        stagger_among(&binding.uid, count, period)
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::naming::BindingName;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(2);

    fn binding(number: usize) -> BindingId {
        let name = BindingName::parse(&format!("b{number}")).unwrap();
        BindingId { name, uid: format!("u{number}").into() }
    }

    #[tokio::test(start_paused = true)]
    async fn s11_the_first_of_a_crowd_does_not_wait_and_the_others_are_spread_over_a_period() {
        let arrivals = Arrivals::default();
        for _ in 0..2 {
            assert_eq!(arrivals.pause(&binding(0), PERIOD), Duration::ZERO);
            let pauses: Vec<Duration> = (1..1000).map(|number| arrivals.pause(&binding(number), PERIOD)).collect();
            assert!(pauses.iter().all(|pause| *pause < PERIOD));
            let late = pauses.iter().filter(|pause| **pause > PERIOD / 2).count();
            assert!((400..600).contains(&late), "{late}");
            tokio::time::advance(PERIOD).await;
        }
    }
}
