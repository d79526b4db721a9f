//! The queue itself: a line of keys in which each key is once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::time::Duration;

use super::{Added, Limiter, Next, NotAdded, QueueCounts, Requeue, RequeueDecision, RetryVerdict, RunningWork};

/// A line of keys: first come, first served; a key is worked on by one worker at a time.
#[derive(Debug, Clone)]
pub struct Queue<K> {
    capacity: NonZeroUsize,
    limiter: Limiter,
    items: BTreeMap<K, Item>,
    waiting: VecDeque<K>,
    later: BTreeSet<(Duration, u64, K)>,
    /// Keys of which only the count of failures is known: the first to be forgotten when room is needed.
    remembered: BTreeSet<K>,
    /// Keys added for the same time are served in the order in which they were added.
    sequence: u64,
    open: Openness,
    counts: QueueCounts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Openness {
    Open,
    Closed,
}

/// What is known about a key. It is forgotten when it rests, has no time at which it is added, and never failed.
#[derive(Debug, Clone, Default)]
struct Item {
    place: LinePlace,
    later: Option<(Duration, u64)>,
    failures: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LinePlace {
    #[default]
    Resting,
    Waiting,
    Processing {
        since: Duration,
        then: Then,
        /// The last sequence when it was taken.
        sequence: u64,
    },
    Dropped,
}

/// Whether a key was added while it was worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Rest,
    Again,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue for at most so many keys.
    #[must_use]
    pub fn new(capacity: NonZeroUsize, limiter: Limiter) -> Self {
        Self {
            capacity,
            limiter,
            items: BTreeMap::new(),
            waiting: VecDeque::new(),
            later: BTreeSet::new(),
            remembered: BTreeSet::new(),
            sequence: 0,
            open: Openness::Open,
            counts: QueueCounts::default(),
        }
    }

    /// Puts a key at the end of the queue. A key that waits keeps its place; a key that is worked on is queued again
    /// when that work is done. A time at which it is added later is kept.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add(&mut self, key: K, now: Duration) -> Result<Added, NotAdded> {
        self.wake(now);
        self.admit(&key)?;
        Ok(self.arrive(key))
    }

    /// Adds a key after a pause. Of several times the earliest counts.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add_after(&mut self, key: K, pause: Duration, now: Duration) -> Result<Added, NotAdded> {
        if pause.is_zero() {
            return self.add(key, now);
        }
        self.wake(now);
        self.admit(&key)?;
        let asked = now.saturating_add(pause);
        let item = self.items.entry(key.clone()).or_default();
        let is_worked_on = matches!(item.place, LinePlace::Processing { .. });
        let (at, added) = match item.later {
            Some((known, _)) if known <= asked && !is_worked_on => return Ok(Added::Known),
            Some((known, sequence)) => {
                self.later.remove(&(known, sequence, key.clone()));
                // The earlier time stays, and is one that was given meanwhile: the work that is under way has not judged this.
                if known <= asked { (known, Added::Known) } else { (asked, Added::Queued) }
            }
            None => (asked, Added::Queued),
        };
        self.sequence += 1;
        item.later = Some((at, self.sequence));
        self.later.insert((at, self.sequence, key));
        Ok(added)
    }

    /// Counts a failure of a key and adds it after its pause, which is returned.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add_rate_limited(&mut self, key: K, now: Duration) -> Result<Duration, NotAdded> {
        self.wake(now);
        self.admit(&key)?;
        let item = self.items.entry(key.clone()).or_default();
        let pause = self.limiter.pause(item.failures, now);
        item.failures = item.failures.saturating_add(1);
        self.counts.retries += 1;
        self.add_after(key, pause, now).map(|_| pause)
    }

    /// The key that has waited longest. The caller must end the work with [`done`](Self::done) or
    /// [`failed`](Self::failed).
    pub fn next(&mut self, now: Duration) -> Next<K> {
        self.wake(now);
        let Some(key) = self.waiting.pop_front() else {
            return match self.open {
                Openness::Open => Next::Wait(self.later.first().map(|(at, _, _)| *at)),
                Openness::Closed => Next::Closed,
            };
        };
        let place = LinePlace::Processing { since: now, then: Then::Rest, sequence: self.sequence };
        self.items.entry(key.clone()).or_default().place = place;
        self.counts.processing += 1;
        Next::Take(key)
    }

    /// The work on a key ended. Does nothing for a key that is not worked on.
    pub fn done(&mut self, key: &K, now: Duration) {
        self.wake(now);
        self.end(key, LinePlace::Resting);
    }

    /// The work on a key failed: it ends, and the key is tried again or dropped. A key that was added meanwhile is
    /// queued in any case. For a key that is not worked on, only the failure is counted.
    pub fn failed(&mut self, key: &K, requeue: Requeue, now: Duration) -> RetryVerdict {
        self.wake(now);
        if requeue.decide(self.requeues(key)) == RequeueDecision::Drop {
            self.counts.drops += 1;
            if let Some(item) = self.items.get_mut(key) {
                item.failures = 0;
            }
            self.end(key, LinePlace::Dropped);
            return RetryVerdict::Dropped;
        }
        let added = self.add_rate_limited(key.clone(), now);
        self.end(key, LinePlace::Resting);
        added.map_or(RetryVerdict::Closed, RetryVerdict::AgainAfter)
    }

    /// The work on a key succeeded, so nothing of what was before it counts any more: neither failures nor a time at which the key was
    /// to be added, since this work has judged when there is something to do next. A time that was given meanwhile stays, and one that
    /// came meanwhile is work to do. The caller gives that next time and ends the work after this.
    pub fn succeeded(&mut self, key: &K, now: Duration) {
        self.wake(now);
        if let Some(item) = self.items.get_mut(key)
            && let LinePlace::Processing { sequence: taken, .. } = item.place
            && let Some((at, sequence)) = item.later
            && sequence <= taken
        {
            item.later = None;
            self.later.remove(&(at, sequence, key.clone()));
        }
        self.forget(key);
    }

    /// Sets the count of failures of a key to zero.
    pub fn forget(&mut self, key: &K) {
        if let Some(item) = self.items.get_mut(key) {
            item.failures = 0;
            self.settle(key);
        }
    }

    /// How often a key was tried again since it was last forgotten.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.items.get(key).map_or(0, |item| item.failures)
    }

    /// Adds every dropped key again and returns how many there were.
    pub fn revive(&mut self, now: Duration) -> usize {
        self.wake(now);
        if self.open == Openness::Closed {
            return 0;
        }
        let dropped = self.items.iter().filter(|(_, item)| item.place == LinePlace::Dropped);
        let dropped: Vec<K> = dropped.map(|(key, _)| key.clone()).collect();
        let revived = dropped.len();
        for key in dropped {
            self.arrive(key);
        }
        revived
    }

    /// Accepts no key from now on. Keys that wait are still served, and so are those that were added while they were
    /// worked on. Keys that would have been added later are removed and returned.
    pub fn shut_down(&mut self, now: Duration) -> Vec<K> {
        self.wake(now);
        self.open = Openness::Closed;
        let later = std::mem::take(&mut self.later);
        let later: Vec<K> = later.into_iter().map(|(_, _, key)| key).collect();
        for key in &later {
            if let Some(item) = self.items.get_mut(key) {
                item.later = None;
                self.settle(key);
            }
        }
        later
    }

    /// Whether it was shut down and every key is served.
    #[cfg(test)]
    pub(super) fn is_drained(&self) -> bool {
        self.open == Openness::Closed && self.waiting.is_empty() && self.counts.processing == 0
    }

    /// How full it is, and the counts so far.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        QueueCounts { waiting: self.waiting.len(), later: self.later.len(), ..self.counts }
    }

    /// How long the present work has been under way.
    #[must_use]
    pub fn running(&self, now: Duration) -> RunningWork {
        let mut running = RunningWork::default();
        for item in self.items.values() {
            if let LinePlace::Processing { since, .. } = item.place {
                let time = now.saturating_sub(since);
                running.longest = running.longest.max(time);
                running.total = running.total.saturating_add(time);
            }
        }
        running
    }

    /// Whether there is a key for a second worker.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.waiting.is_empty() || !self.later.is_empty()
    }

    /// Moves due keys into the queue.
    fn wake(&mut self, now: Duration) {
        while self.later.first().is_some_and(|(at, _, _)| *at <= now) {
            let Some((_, _, key)) = self.later.pop_first() else { return };
            if let Some(item) = self.items.get_mut(&key) {
                item.later = None;
            }
            self.arrive(key);
        }
    }

    /// Whether a key may be added. Makes room if that loses only a count of failures.
    fn admit(&mut self, key: &K) -> Result<(), NotAdded> {
        if self.open == Openness::Closed {
            return Err(NotAdded::Closed);
        }
        if !self.items.contains_key(key) && self.items.len() >= self.capacity.get() {
            let Some(forgotten) = self.remembered.pop_first() else {
                self.counts.refusals += 1;
                return Err(NotAdded::Full);
            };
            self.items.remove(&forgotten);
        }
        self.remembered.remove(key);
        Ok(())
    }

    fn arrive(&mut self, key: K) -> Added {
        let item = self.items.entry(key.clone()).or_default();
        match &mut item.place {
            LinePlace::Waiting | LinePlace::Processing { then: Then::Again, .. } => return Added::Known,
            LinePlace::Processing { then, .. } => *then = Then::Again,
            LinePlace::Resting => self.stand(key),
            LinePlace::Dropped => {
                self.counts.dropped_now -= 1;
                self.stand(key);
            }
        }
        self.counts.adds += 1;
        Added::Queued
    }

    fn stand(&mut self, key: K) {
        self.items.entry(key.clone()).or_default().place = LinePlace::Waiting;
        self.waiting.push_back(key);
    }

    /// Ends the work on a key. It goes to `place`, unless it was added meanwhile.
    fn end(&mut self, key: &K, place: LinePlace) {
        let Some(item) = self.items.get_mut(key) else { return };
        let LinePlace::Processing { then, .. } = item.place else { return };
        self.counts.processing -= 1;
        item.place = LinePlace::Resting;
        match then {
            Then::Again => self.stand(key.clone()),
            Then::Rest if place == LinePlace::Dropped => {
                item.place = LinePlace::Dropped;
                self.counts.dropped_now += 1;
            }
            Then::Rest => self.settle(key),
        }
    }

    /// Forgets a key about which nothing is left to remember.
    fn settle(&mut self, key: &K) {
        let Some(item) = self.items.get(key) else { return };
        if item.place != LinePlace::Resting || item.later.is_some() {
            return;
        }
        if item.failures == 0 {
            self.items.remove(key);
            self.remembered.remove(key);
        } else {
            self.remembered.insert(key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
