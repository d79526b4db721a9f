//! One request to an API server that tests stop and kill, and what its answer means.
//!
//! A request has a time limit, since a server that is stopped in the middle may never answer. Whether a request without an
//! answer had an effect is unknown; all requests here can be made twice.

use std::future::Future;
use std::time::Duration;

use kube::Error;
use kube::api::{DeleteParams, Preconditions};
use tokio::time::timeout;

use crate::device_plugin::is_an_answer;

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What came of a request.
#[derive(Debug)]
pub(super) enum Answer<T> {
    /// It was done.
    Done(T),
    /// There is no such object, or none of this UID.
    Absent,
    /// There is an object of this name already.
    Exists,
    /// The server did not answer, or cannot now. The same request may succeed later.
    Again,
    /// It is refused, with this message.
    Refused(String),
}

/// Makes a request once.
pub(super) async fn ask<T>(request: impl Future<Output = Result<T, Error>>) -> Answer<T> {
    match timeout(LIMIT, request).await {
        Ok(Ok(value)) => Answer::Done(value),
        Ok(Err(error)) => judge(&error),
        Err(_) => Answer::Again,
    }
}

fn judge<T>(error: &Error) -> Answer<T> {
    match error {
        Error::Api(status) if status.code == 404 => Answer::Absent,
        Error::Api(status) if status.reason == "AlreadyExists" => Answer::Exists,
        // A precondition names another UID, or too many clients write at once: only a new look shows which.
        Error::Api(status) if status.code == 409 => Answer::Again,
        // The answer to a patch that names another UID.
        Error::Api(status) if status.code == 422 && status.message.contains("metadata.uid") => Answer::Absent,
        error if is_an_answer(error) => Answer::Refused(error.to_string()),
        _ => Answer::Again,
    }
}

/// Deletes a pod of this UID and no other; with `None` after the grace period that the pod has.
pub(super) fn only_this(uid: &str, grace: Option<u32>) -> DeleteParams {
    let only_it = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    DeleteParams { grace_period_seconds: grace, preconditions: Some(only_it), ..DeleteParams::default() }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn word(code: u16, reason: &str, message: &str) -> String {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        let answer = judge::<()>(&Error::Api(Box::new(Status { code, reason, message, ..Status::default() })));
        format!("{answer:?}").split('(').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn an_answer_is_final_only_where_the_same_request_would_get_it_again() {
        for (code, reason, message, wanted) in [
            (404, "NotFound", "", "Absent"),
            (409, "AlreadyExists", "", "Exists"),
            (409, "Conflict", "Precondition failed", "Again"),
            (422, "Invalid", "metadata.uid: Invalid value: field is immutable", "Absent"),
            (422, "Invalid", "spec.containers[0].name: Required value", "Refused"),
            (403, "Forbidden", "", "Refused"),
            (429, "TooManyRequests", "", "Again"),
            (500, "InternalError", "", "Again"),
            (503, "ServiceUnavailable", "", "Again"),
        ] {
            assert_eq!(word(code, reason, message), wanted, "{code} {reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_left() {
        let answer = ask(std::future::pending::<Result<(), Error>>()).await;
        assert!(matches!(answer, Answer::Again), "{answer:?}");
    }
}
