//! What breaks a task breaks its owner.
//!
//! A task that panicked is gone, and a task that waits for its work would never end. So its owner panics with the same
//! message; the owner's owner decides what follows: a source is restarted, a task of the manager ends the process.

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use tokio::task::{JoinError, JoinSet};

/// Takes the result of a task; its panic is raised again here.
pub fn pass_on<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(value) => Some(value),
        Err(Ok(panic)) => resume_unwind(panic),
        // It was cut off by an owner that does not need it any more.
        Err(Err(_)) => None,
    }
}

/// Waits for the panic of any of these tasks, and raises it again here. They are not meant to end by themselves; one
/// that is cut off does not count.
pub async fn of_any(tasks: &Mutex<JoinSet<()>>) -> Infallible {
    std::future::poll_fn(|context| {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while let Poll::Ready(Some(ended)) = tasks.poll_join_next(context) {
            pass_on(ended);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_continues_with_its_message_and_a_task_that_is_cut_off_is_no_panic() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { 7 });
        assert_eq!(pass_on(tasks.join_next().await.unwrap()), Some(7));
        tasks.spawn(std::future::pending());
        tasks.abort_all();
        assert_eq!(pass_on(tasks.join_next().await.unwrap()), None);

        let watched = Mutex::new(JoinSet::new());
        watched.lock().unwrap().spawn(std::future::pending());
        watched.lock().unwrap().spawn(async { panic!("words") });
        watched.lock().unwrap().spawn(std::future::pending()).abort();
        let mut owner = JoinSet::new();
        owner.spawn(async move { match of_any(&watched).await {} });
        let panic = owner.join_next().await.unwrap().unwrap_err().into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"words"));
    }
}
