//! Random histories of a queue against a slow and plain model of it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const CAPACITY: usize = 5;
const MOST: u32 = 2;
const INTERVAL: i64 = 100;
const BURST: i64 = 3;

#[derive(Debug, Clone)]
enum Step {
    Add(u8),
    AddAfter(u8, u16),
    AddRateLimited(u8),
    Next,
    /// The oldest, second oldest, ... work that is under way.
    Done(usize),
    Failed(usize),
    /// The same work succeeds.
    Succeeded(usize),
    Forget(u8),
    Revive,
    Pass(u16),
    ShutDown,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..8;
    let step = prop_oneof![
        6 => key.clone().prop_map(Step::Add),
        3 => (key.clone(), 0_u16..40).prop_map(|(key, pause)| Step::AddAfter(key, pause)),
        1 => key.clone().prop_map(Step::AddRateLimited),
        8 => Just(Step::Next),
        5 => (0_usize..3).prop_map(Step::Done),
        4 => (0_usize..3).prop_map(Step::Failed),
        3 => (0_usize..3).prop_map(Step::Succeeded),
        1 => key.prop_map(Step::Forget),
        1 => Just(Step::Revive),
        5 => (0_u16..60).prop_map(Step::Pass),
        1 => prop_oneof![20 => Just(Step::Next), 1 => Just(Step::ShutDown)],
    ];
    prop::collection::vec(step, 0..200)
}

/// The state of each key, in milliseconds.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    line: Vec<u8>,
    busy: Vec<(u8, bool)>,
    later: Vec<(u64, u8)>,
    /// The keys for which a time was asked for since they were taken.
    asked: BTreeSet<u8>,
    dropped: BTreeSet<u8>,
    failures: BTreeMap<u8, u32>,
    /// Milliseconds of tokens in the bucket.
    tokens: i64,
    filled: u64,
    closed: bool,
}

impl Model {
    fn new() -> Self {
        Self { tokens: INTERVAL * BURST, ..Self::default() }
    }

    fn known(&self) -> BTreeSet<u8> {
        let busy = self.busy.iter().map(|(key, _)| *key);
        let later = self.later.iter().map(|(_, key)| *key);
        self.line.iter().copied().chain(busy).chain(later).chain(self.dropped.iter().copied()).collect()
    }

    fn admit(&mut self, key: u8) -> Result<(), NotAdded> {
        if self.closed {
            return Err(NotAdded::Closed);
        }
        let known = self.known();
        let remembered: BTreeSet<u8> = self.failures.keys().copied().filter(|key| !known.contains(key)).collect();
        if known.contains(&key) || remembered.contains(&key) || known.len() + remembered.len() < CAPACITY {
            return Ok(());
        }
        let first = remembered.first().ok_or(NotAdded::Full)?;
        self.failures.remove(first);
        Ok(())
    }

    fn arrive(&mut self, key: u8) -> Added {
        self.dropped.remove(&key);
        if let Some((_, again)) = self.busy.iter_mut().find(|(busy, _)| *busy == key) {
            return if std::mem::replace(again, true) { Added::Known } else { Added::Queued };
        }
        if self.line.contains(&key) {
            return Added::Known;
        }
        self.line.push(key);
        Added::Queued
    }

    fn add(&mut self, key: u8, pause: u64) -> Result<Added, NotAdded> {
        self.admit(key)?;
        if pause == 0 {
            return Ok(self.arrive(key));
        }
        let at = self.now + pause;
        let is_busy = self.busy.iter().any(|(busy, _)| *busy == key);
        if is_busy {
            self.asked.insert(key);
        }
        let known = self.later.iter().find(|(known, other)| *other == key && *known <= at).copied();
        if let Some(known) = known {
            if is_busy {
                // Of keys with one time it is the last one.
                self.later.retain(|(_, other)| *other != key);
                self.later.push(known);
            }
            return Ok(Added::Known);
        }
        self.later.retain(|(_, other)| *other != key);
        self.later.push((at, key));
        Ok(Added::Queued)
    }

    fn add_rate_limited(&mut self, key: u8) -> Result<u64, NotAdded> {
        self.admit(key)?;
        let elapsed = i64::try_from(self.now - self.filled).unwrap();
        self.tokens = (self.tokens + elapsed).min(INTERVAL * BURST) - INTERVAL;
        self.filled = self.now;
        let failures = self.failures.entry(key).or_default();
        let own = (5 << (*failures).min(20)).min(1_000_000);
        *failures += 1;
        let pause = own.max(u64::try_from(-self.tokens).unwrap_or(0));
        self.add(key, pause).map(|_| pause)
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        // A stable sort: equal times keep the order in which they were given.
        self.later.sort_by_key(|(at, _)| *at);
        while self.later.first().is_some_and(|(at, _)| *at <= self.now) {
            let (_, key) = self.later.remove(0);
            self.arrive(key);
        }
    }

    fn next(&mut self) -> Next<u8> {
        if self.line.is_empty() {
            let first = self.later.iter().map(|(at, _)| Duration::from_millis(*at)).min();
            return if self.closed { Next::Closed } else { Next::Wait(first) };
        }
        let key = self.line.remove(0);
        self.busy.push((key, false));
        self.asked.remove(&key);
        Next::Take(key)
    }

    fn end(&mut self, nth: usize, dropped: bool) {
        let (key, again) = self.busy.remove(nth);
        if again {
            self.line.push(key);
        } else if dropped {
            self.dropped.insert(key);
        }
    }

    fn succeeded(&mut self, nth: usize) {
        let (key, _) = self.busy[nth];
        if !self.asked.contains(&key) {
            self.later.retain(|(_, other)| *other != key);
        }
        self.failures.remove(&key);
        self.end(nth, false);
    }

    fn failed(&mut self, nth: usize) -> RetryVerdict {
        let (key, _) = self.busy[nth];
        if self.failures.get(&key).is_some_and(|failures| *failures >= MOST) {
            self.failures.remove(&key);
            self.end(nth, true);
            return RetryVerdict::Dropped;
        }
        let pause = self.add_rate_limited(key);
        self.end(nth, false);
        pause.map_or(RetryVerdict::Closed, |pause| RetryVerdict::AgainAfter(Duration::from_millis(pause)))
    }

    fn revive(&mut self) -> usize {
        if self.closed {
            return 0;
        }
        let dropped = std::mem::take(&mut self.dropped);
        for key in &dropped {
            self.arrive(*key);
        }
        dropped.len()
    }

    fn shut_down(&mut self) -> Vec<u8> {
        self.closed = true;
        self.later.sort_by_key(|(at, _)| *at);
        self.later.drain(..).map(|(_, key)| key).collect()
    }
}

/// The queue and the model side by side, and properties that hold independently of the model.
struct Both {
    queue: Queue<u8>,
    model: Model,
    /// Keys that were accepted and not taken since then.
    owed: BTreeSet<u8>,
    /// Keys that were taken while another one waited.
    passed: BTreeMap<u8, BTreeSet<u8>>,
}

impl Both {
    fn new() -> Self {
        let bucket = Bucket::new(Duration::from_millis(INTERVAL.unsigned_abs()), u32::try_from(BURST).unwrap());
        let limiter = Limiter::new(Backoff::STANDARD, bucket);
        Self {
            queue: Queue::new(NonZeroUsize::new(CAPACITY).unwrap(), limiter),
            model: Model::new(),
            owed: BTreeSet::new(),
            passed: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        let now = Duration::from_millis(self.model.now);
        let busy = |model: &Model, nth: usize| (nth < model.busy.len()).then(|| model.busy[nth].0);
        match *step {
            Step::Add(key) => {
                let added = self.queue.add(key, now);
                assert_eq!(added, self.model.add(key, 0));
                self.owed.extend(added.map(|_| key));
            }
            Step::AddAfter(key, pause) => {
                let added = self.queue.add_after(key, Duration::from_millis(pause.into()), now);
                assert_eq!(added, self.model.add(key, pause.into()));
                self.owed.extend(added.map(|_| key));
            }
            Step::AddRateLimited(key) => {
                let pause = self.queue.add_rate_limited(key, now);
                assert_eq!(pause, self.model.add_rate_limited(key).map(Duration::from_millis));
                self.owed.extend(pause.map(|_| key));
            }
            Step::Next => drop(self.next(now)),
            Step::Done(nth) => {
                let Some(key) = busy(&self.model, nth) else { return };
                self.queue.done(&key, now);
                self.model.end(nth, false);
            }
            Step::Failed(nth) => {
                let Some(key) = busy(&self.model, nth) else { return };
                let verdict = self.queue.failed(&key, Requeue::at_most(MOST), now);
                assert_eq!(verdict, self.model.failed(nth));
                if matches!(verdict, RetryVerdict::AgainAfter(_)) {
                    self.owed.insert(key);
                }
            }
            Step::Succeeded(nth) => {
                let Some(key) = busy(&self.model, nth) else { return };
                self.queue.succeeded(&key, now);
                self.queue.done(&key, now);
                self.model.succeeded(nth);
                let is_awaited =
                    self.model.line.contains(&key) || self.model.later.iter().any(|(_, later)| *later == key);
                if !is_awaited {
                    self.owed.remove(&key);
                }
            }
            Step::Forget(key) => {
                self.queue.forget(&key);
                self.model.failures.remove(&key);
            }
            Step::Revive => {
                let dropped = self.model.dropped.clone();
                assert_eq!(self.queue.revive(now), self.model.revive());
                if !self.model.closed {
                    self.owed.extend(dropped);
                }
            }
            Step::Pass(time) => self.model.pass(time.into()),
            Step::ShutDown => {
                let gone = self.queue.shut_down(now);
                assert_eq!(gone, self.model.shut_down());
                let served = |key: &u8| self.model.line.contains(key) || self.model.busy.contains(&(*key, true));
                for key in gone.iter().filter(|key| !served(key)) {
                    self.owed.remove(key);
                }
            }
        }
        self.compare();
    }

    fn next(&mut self, now: Duration) -> Next<u8> {
        let busy = self.model.busy.clone();
        let next = self.queue.next(now);
        assert_eq!(next, self.model.next());
        if let Next::Take(key) = next {
            assert!(busy.iter().all(|(busy, _)| *busy != key), "two workers on {key}");
            self.owed.remove(&key);
            self.passed.remove(&key);
            for waiting in &self.model.line {
                let first = self.passed.entry(*waiting).or_default().insert(key);
                assert!(first, "{key} was taken twice while {waiting} waited");
            }
        }
        next
    }

    fn compare(&self) {
        // The queue moves due keys at the next call, and time passes without one.
        let mut queue = self.queue.clone();
        queue.done(&u8::MAX, Duration::from_millis(self.model.now));
        let counts = queue.counts();
        let model = &self.model;
        assert_eq!(
            (counts.waiting, counts.later, counts.processing, counts.dropped_now),
            (model.line.len(), model.later.len(), model.busy.len(), model.dropped.len())
        );
        for key in 0..8 {
            assert_eq!(queue.requeues(&key), model.failures.get(&key).copied().unwrap_or(0), "{key}");
        }
    }

    /// Shuts down and serves what is left.
    fn drain(mut self) {
        self.step(&Step::ShutDown);
        let now = Duration::from_millis(self.model.now);
        loop {
            if self.next(now) == Next::Closed && self.model.busy.is_empty() {
                break;
            }
            self.step(&Step::Done(0));
        }
        assert!(self.queue.is_drained());
        assert_eq!(self.owed, BTreeSet::new(), "accepted and never served");
        assert_eq!(self.queue.add(0, now), Err(NotAdded::Closed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn r9_a_queue_behaves_as_its_model_and_loses_no_key(steps in steps()) {
        let mut both = Both::new();
        for step in &steps {
            both.step(step);
        }
        both.drain();
    }

    /// However often one key is added, and whichever worker takes it, every other key is served in one turn of the
    /// queue.
    #[test]
    fn a_hot_key_starves_no_other(cold in prop::collection::btree_set(1_u32..1000, 1..50), heat in 1_usize..5) {
        let capacity = NonZeroUsize::new(cold.len() + 1).unwrap();
        let mut queue = Queue::new(capacity, Limiter::default());
        let now = Duration::ZERO;
        queue.add(0, now).unwrap();
        for key in &cold {
            queue.add(*key, now).unwrap();
        }
        let mut served = BTreeSet::new();
        for _ in 0..=cold.len() {
            let Next::Take(key) = queue.next(now) else { panic!("nothing to do") };
            for _ in 0..heat {
                queue.add(0, now).unwrap();
            }
            queue.done(&key, now);
            served.insert(key);
        }
        prop_assert_eq!(served.len(), cold.len() + 1);
    }
}
