//! Tasks with names and an owner.
//!
//! Nothing in the process runs without one: a task that ends early is reported by its name, a panic too, and a set that
//! is dropped ends its remaining tasks.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

/// A set of tasks that are not meant to end by themselves.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<Result<(), String>>,
    names: HashMap<Id, &'static str>,
}

/// A task that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Which one.
    pub name: &'static str,
    /// Its result.
    pub how: Result<(), TaskFailure>,
}

/// Why a task did not end as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// It returned this error.
    #[error("{0}")]
    Error(String),
    /// It panicked with this message: a defect.
    #[error("it panicked: {0}")]
    Panic(String),
    /// Its set cut it off.
    #[error("it was cut off")]
    CutOff,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.how {
            Ok(()) => write!(f, "task {} ended without an error", self.name),
            Err(error) => write!(f, "task {} ended: {error}", self.name),
        }
    }
}

impl Tasks {
    /// Starts one.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_fallible(name, async move {
            task.await;
            Ok(())
        });
    }

    /// Starts one that may say why it ended.
    pub fn spawn_fallible(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Waits for the next one that ends; never returns if there is none.
    pub async fn next(&mut self) -> Ended {
        match self.set.join_next_with_id().await {
            Some(ended) => self.named(ended),
            None => std::future::pending().await,
        }
    }

    /// Whether none is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Waits for all of them.
    pub async fn finish(&mut self) {
        while let Some(ended) = self.set.join_next_with_id().await {
            let ended = self.named(ended);
            if let Err(error) = &ended.how {
                tracing::warn!(task = ended.name, %error, "a task ended with an error while the process stopped");
            }
        }
    }

    /// Cuts off the remaining tasks, and waits until they have ended.
    pub async fn cut_off(&mut self) {
        self.set.shutdown().await;
        self.names.clear();
    }

    fn named(&mut self, ended: Result<(Id, Result<(), String>), JoinError>) -> Ended {
        let (id, how) = match ended {
            Ok((id, how)) => (id, how.map_err(TaskFailure::Error)),
            Err(error) => {
                let id = error.id();
                let panic = error.try_into_panic();
                let why = panic.map_or(TaskFailure::CutOff, |panic| TaskFailure::Panic(panic_text(&*panic).to_owned()));
                (id, Err(why))
            }
        };
        Ended { name: self.names.remove(&id).unwrap_or("unnamed"), how }
    }
}

/// The message of a panic.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_is_reported_by_its_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("waits", std::future::pending());
        tasks.spawn_fallible("fails", async { Err("no more".into()) });
        assert_eq!(tasks.next().await.to_string(), "task fails ended: no more");
        tasks.spawn("ends", async {});
        assert_eq!(tasks.next().await.to_string(), "task ends ended without an error");
        assert!(!tasks.is_empty());
        tasks.cut_off().await;
        assert!(tasks.is_empty());
    }

    #[tokio::test]
    async fn a_panic_has_the_name_of_its_task_and_its_words() {
        let mut tasks = Tasks::default();
        tasks.spawn("breaks", async { panic!("at {}", 7) });
        let ended = tasks.next().await;
        assert_eq!(ended.to_string(), "task breaks ended: it panicked: at 7");
        assert_eq!(ended.how, Err(TaskFailure::Panic("at 7".to_owned())));
    }
}
