//! The queue of a controller: each key once, never twice at the same time, and of several later times the earliest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<String>,
    waiting: HashSet<String>,
    busy: HashSet<String>,
    /// Added while busy.
    again: HashSet<String>,
    later: HashMap<String, Instant>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, key: String) {
        self.state().add(key);
        self.added.notify_one();
    }

    /// Adds it after this time, unless it is added earlier.
    pub(super) fn add_after(&self, key: &str, time: Duration) {
        let due = Instant::now() + time;
        let mut state = self.state();
        let known = state.later.entry(key.to_owned()).or_insert(due);
        *known = due.min(*known);
    }

    /// Adds what is due.
    pub(super) fn wake(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let due: Vec<String> = state.later.iter().filter(|(_, due)| **due <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            state.later.remove(&key);
            state.add(key);
            self.added.notify_one();
        }
    }

    /// The next key, which is busy until it is done.
    pub(super) async fn next(&self) -> String {
        loop {
            let found = self.state().take();
            if let Some(key) = found {
                // A notification wakes one worker, and is lost where that one was not asleep.
                self.added.notify_one();
                return key;
            }
            self.added.notified().await;
        }
    }

    pub(super) fn done(&self, key: &str) {
        let mut state = self.state();
        state.busy.remove(key);
        if let Some(key) = state.again.take(key) {
            state.add(key);
            self.added.notify_one();
        }
    }

    /// Whether no key waits, and none is busy.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.ready.is_empty() && state.busy.is_empty()
    }
}

impl State {
    fn add(&mut self, key: String) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn take(&mut self) -> Option<String> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }
}
