//! The owner of a task that runs beside a test.
//!
//! It ends with this value. A task that panics makes the test fail where it waits for the end, and not in silence.

use std::future::Future;

use tokio::task::JoinSet;

/// Tasks that end when this value is dropped.
#[derive(Default)]
pub struct Background(JoinSet<()>);

impl Background {
    /// Nothing runs yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs this, too.
    pub fn spawn(&mut self, run: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(run);
    }

    /// Ends all of them, also in the middle of their work.
    ///
    /// # Panics
    /// When one of them has panicked.
    pub async fn stop(mut self) {
        self.0.abort_all();
        while let Some(ended) = self.0.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_never_ends_is_stopped() {
        let mut background = Background::new();
        background.spawn(std::future::pending());
        background.stop().await;
    }

    #[tokio::test]
    #[should_panic(expected = "it broke")]
    async fn a_panic_is_passed_on() {
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let mut background = Background::new();
        background.spawn(async move {
            let _ended = ended;
            panic!("it broke");
        });
        end.await.unwrap_err();
        background.stop().await;
    }
}
