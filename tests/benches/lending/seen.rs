//! What the watches of the benchmark have shown, so that it does not poll the API servers.
//!
//! A watch runs beside the measurement and notes when it showed what; a wait looks at the notes. So the time of a change is that of
//! its event, and not that of a look.

mod leases;
mod nodes;
mod pods;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use topoloom_tests::lending::Background;

pub(crate) use leases::{Gaps, Leases};
pub(crate) use nodes::{Nodes, milli};
pub(crate) use pods::{Pods, ShownPod};

/// The pause between two looks of a wait. It grows with the time that has passed, since a look may go through thousands of notes: the
/// time of a change is not that of a look.
const LOOKS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(200)];
const PART: u32 = 50;

/// Notes that the task of a watch writes. Clones are the same.
pub(crate) struct Seen<T>(Arc<Mutex<T>>);

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Seen<T> {
    /// Watches until the background ends.
    pub(crate) fn follow<K>(
        background: &mut Background,
        api: Api<K>,
        config: Config,
        begin: T,
        mut see: impl FnMut(&mut T, Event<K>) + Send + 'static,
    ) -> Self
    where
        K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let seen = Self(Arc::new(Mutex::new(begin)));
        let notes = seen.clone();
        background.spawn(async move {
            let mut events = pin!(watcher(api, config).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => notes.look(|notes| see(notes, event)),
                    Err(error) => eprintln!("bench: watch: {error}"),
                }
            }
        });
        seen
    }

    /// Looks at the notes, or changes them.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the notes have something.
    pub(crate) async fn until<R>(
        &self,
        what: &str,
        patience: Duration,
        mut find: impl FnMut(&mut T) -> Option<R>,
    ) -> Result<R> {
        let (begin, [least, most]) = (Instant::now(), LOOKS);
        loop {
            if let Some(found) = self.look(&mut find) {
                return Ok(found);
            }
            let passed = begin.elapsed();
            ensure!(passed < patience, "not within {patience:?}: {what}");
            sleep((passed / PART).clamp(least, most)).await;
        }
    }
}
