//! Waiting for a condition: the only place of the tests that pauses.

use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// The first pause between two probes.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest pause: a test may see a slow change a little later, and the probes of tests that wait use less of the
/// servers.
const LONGEST_PAUSE: Duration = Duration::from_millis(300);
/// A pause is this part of the time that has passed.
const PART: u32 = 15;
/// A pause is at least as long as this many probes: one that starts a program, or reads long lists, would keep a processor busy
/// for as long as a test waits.
const PROBES: u32 = 2;
/// The longest pause after a slow probe.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A probe that hangs is given up after this part of the time for all of them: a connection to a server that ended while it
/// was made may never be answered.
const PROBE: u32 = 2;

/// Calls `probe` until it gives a value. A probe that takes more than half of `timeout` is dropped, and called again.
///
/// # Panics
///
/// When it returned none within `timeout`: with `what` was awaited, the last error, and the place of the call.
#[track_caller]
pub fn eventually<T>(
    what: &str,
    timeout: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let began = Instant::now();
        let deadline = began + timeout;
        let (mut last, mut hung) = ("nothing".to_owned(), 0);
        loop {
            let probed = Instant::now();
            match timeout_at(deadline.min(probed + timeout / PROBE), probe()).await {
                Ok(Ok(value)) => return value,
                Ok(Err(state)) => last = state,
                Err(_) => hung += 1,
            }
            if hung > 0 && Instant::now() >= deadline {
                panic!("{place}: not within {timeout:?}: {what}; {hung} probes hung; last seen: {last}");
            }
            assert!(Instant::now() < deadline, "{place}: not within {timeout:?}: {what}; last seen: {last}");
            let rest = (probed.elapsed() * PROBES).min(LONGEST_REST);
            sleep((began.elapsed() / PART).clamp(PAUSE, LONGEST_PAUSE).max(rest)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_value_ends_it() {
        let mut calls = 0;
        let value = eventually("three calls", Duration::from_secs(5), async || {
            calls += 1;
            if calls == 3 { Ok(calls) } else { Err(format!("{calls} calls")) }
        });
        assert_eq!(value.await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_hangs_is_called_again() {
        let mut calls = 0;
        let value = eventually("the second probe", Duration::from_secs(5), async || {
            calls += 1;
            if calls == 1 { std::future::pending().await } else { Ok(calls) }
        });
        assert_eq!(value.await, 2);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "an answer; 2 probes hung; last seen: nothing")]
    async fn a_probe_that_always_hangs_ends() {
        eventually::<()>("an answer", Duration::from_secs(5), async || std::future::pending().await).await;
    }

    #[tokio::test]
    #[should_panic(expected = "the sun; last seen: clouds")]
    async fn the_last_state_is_reported() {
        eventually::<()>("the sun", Duration::ZERO, async || Err("clouds".into())).await;
    }
}
