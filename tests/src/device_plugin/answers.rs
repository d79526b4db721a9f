//! Requests to an API server that tests stop and kill.

use std::time::Duration;

use kube::Error;
use tokio::time::sleep;

/// The pause between two tries of a request.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// A minute: an API server that was killed is back by then, or the test has failed.
const TRIES: usize = 600;

/// Repeats a request until there is an answer.
pub(super) async fn insist<T, F>(ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut left = TRIES;
    loop {
        match ask().await {
            Err(error) if left > 0 && !is_an_answer(&error) => left -= 1,
            answer => return answer,
        }
        sleep(PAUSE).await;
    }
}

/// Whether the same request would get the same answer, as far as it depends on the API server's health.
pub(crate) fn is_an_answer(error: &Error) -> bool {
    match error {
        Error::Api(status) => (400..500).contains(&status.code) && status.code != 429,
        Error::BuildRequest(_) => true,
        _ => false,
    }
}

/// Whether the error means that there is no such object, or no longer this one.
pub(super) fn is_gone(error: &Error) -> bool {
    // 422 is the answer to a patch that names another UID.
    matches!(error, Error::Api(status) if matches!(status.code, 404 | 409 | 422))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16) -> Error {
        Error::Api(Box::new(Status { code, ..Status::default() }))
    }

    #[test]
    fn only_what_may_change_is_asked_again() {
        for (code, wanted) in [(404, true), (409, true), (422, true), (429, false), (500, false), (503, false)] {
            assert_eq!(is_an_answer(&answer(code)), wanted, "{code}");
        }
        assert!(is_gone(&answer(404)) && !is_gone(&answer(403)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_it() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let count = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let third = insist(|| {
            let count = count();
            async move { if count == 3 { Ok(count) } else { Err(answer(503)) } }
        });
        assert_eq!(third.await.unwrap(), 3);
        let refused = insist(|| async { Err::<(), _>(answer(404)) });
        assert!(is_gone(&refused.await.unwrap_err()));
    }
}
