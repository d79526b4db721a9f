//! What queues hold and how long work takes, for `/metrics`.
//!
//! Sizes and counts are read from the queues at each scrape, so that they cannot drift. The names of queues are
//! constants; the shards of one name count together, and so do queues of one name that come and go. What is counted never falls: a
//! queue that ended stays in the counts, with what they were when it was last read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use topoloom_core::queue::{QueueCounts, RunningWork};

use super::queue::Shared;
use super::{WorkKey, WorkQueue};

/// From work that finds nothing to do to a request that runs into its timeout.
const BUCKETS: [f64; 9] = [0.0001, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    queue: &'static str,
}

/// The metrics of the queues. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    seconds: Family<QueueLabels, Histogram>,
    shown: Shown,
}

impl Default for Metrics {
    /// Metrics that are never served.
    fn default() -> Self {
        Self { seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)), shown: Shown::default() }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Time that the work on one item takes";
        registry.register_with_unit("workqueue_work_duration", help, Unit::Seconds, metrics.seconds.clone());
        registry.register_collector(Box::new(metrics.shown.clone()));
        metrics
    }

    /// Every queue with its sizes, for `topoloom debug dump`.
    #[must_use]
    pub fn dump(&self) -> serde_json::Value {
        let queue = |(counts, running): (QueueCounts, RunningWork)| {
            serde_json::json!({
                "waiting": counts.waiting,
                "later": counts.later,
                "working": counts.processing,
                "resting": counts.dropped_now,
                "adds": counts.adds,
                "retries": counts.retries,
                "drops": counts.drops,
                "refusals": counts.refusals,
                "longestWorkSeconds": running.longest.as_secs_f64(),
            })
        };
        self.shown.read().now.into_iter().map(|(name, sizes)| (name.to_owned(), queue(sizes))).collect()
    }

    /// Shows a queue for as long as there is one.
    pub(super) fn show<K: WorkKey>(&self, queue: &WorkQueue<K>) {
        let shared: Arc<dyn Sizes> = Arc::clone(queue.shared()) as _;
        let shared = Arc::downgrade(&shared);
        let mut known = self.shown.lock();
        // It may be that no scraper ever asks.
        known.forget_ended();
        if !known.queues.iter().any(|known| known.queue.ptr_eq(&shared)) {
            known.queues.push(KnownQueue { queue: shared, last: None });
        }
    }

    /// One series of each kind there can be, for as long as what is returned is kept; `any` is the name of a queue.
    pub fn examples(&self, any: &'static str) -> impl Sized + use<> {
        self.worked(any, Duration::ZERO);
        let example: Arc<dyn Sizes> = Arc::new(Example(any));
        self.shown.lock().queues.push(KnownQueue { queue: Arc::downgrade(&example), last: None });
        example
    }

    /// Work on a key ended, well or not.
    pub(super) fn worked(&self, queue: &'static str, time: Duration) {
        self.seconds.get_or_create(&QueueLabels { queue }).observe(time.as_secs_f64());
    }
}

/// A queue with keys of any type.
trait Sizes: Send + Sync {
    fn sizes(&self) -> (&'static str, QueueCounts, RunningWork);
}

impl<K: WorkKey> Sizes for Shared<K> {
    fn sizes(&self) -> (&'static str, QueueCounts, RunningWork) {
        let (counts, running) = Self::sizes(self);
        (self.name(), counts, running)
    }
}

/// A queue that never held anything.
struct Example(&'static str);

impl Sizes for Example {
    fn sizes(&self) -> (&'static str, QueueCounts, RunningWork) {
        (self.0, QueueCounts::default(), RunningWork::default())
    }
}

/// A queue for as long as there is one.
struct KnownQueue {
    queue: Weak<dyn Sizes>,
    /// Its name and counts when it was last read.
    last: Option<(&'static str, QueueCounts)>,
}

#[derive(Default)]
struct KnownQueues {
    queues: Vec<KnownQueue>,
    /// What those that ended had counted, by name.
    ended: BTreeMap<&'static str, QueueCounts>,
}

impl KnownQueues {
    /// What a queue that ended has counted stays, and nothing else of it.
    fn forget_ended(&mut self) {
        let Self { queues, ended } = self;
        queues.retain(|known| {
            let is_there = known.queue.strong_count() > 0;
            if let Some((name, counts)) = known.last.filter(|_| !is_there) {
                add(ended, name, counts);
            }
            is_there
        });
    }
}

/// All queues at one time.
struct QueuesRead {
    /// Those that there are, by name.
    now: BTreeMap<&'static str, (QueueCounts, RunningWork)>,
    /// What they and those that ended have counted, by name. The sizes in it mean nothing.
    counted: BTreeMap<&'static str, QueueCounts>,
}

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<KnownQueues>>);

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

/// A number of a queue that only grows, by its name and its help.
type QueueCounter = (&'static str, &'static str, fn(&QueueCounts) -> u64);
/// A number of a queue as it is now.
type Measured = (&'static str, &'static str, fn(&QueueCounts, &RunningWork) -> f64);

const COUNTED: [QueueCounter; 4] = [
    ("workqueue_adds", "Work items added to the queue", |counts| counts.adds),
    ("workqueue_retries", "Retries of failed work items", |counts| counts.retries),
    ("workqueue_dropped", "Work items that failed too often and were dropped until the next resync", |counts| {
        counts.drops
    }),
    (
        "workqueue_refused",
        "Work items that were not queued because the queue was full; the next resync adds them",
        |counts| counts.refusals,
    ),
];

const MEASURED: [Measured; 5] = [
    ("workqueue_depth", "Work items that wait for a worker", |counts, _| count(counts.waiting)),
    ("workqueue_delayed", "Work items that are added later, at a set time", |counts, _| count(counts.later)),
    ("workqueue_resting", "Dropped work items that wait for the next resync", |counts, _| count(counts.dropped_now)),
    ("workqueue_unfinished_work_seconds", "Elapsed time of all work under way", |_, running| {
        running.total.as_secs_f64()
    }),
    ("workqueue_longest_running_processor_seconds", "Elapsed time of the longest work under way", |_, running| {
        running.longest.as_secs_f64()
    }),
];

fn count(number: usize) -> f64 {
    u32::try_from(number).unwrap_or(u32::MAX).into()
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, KnownQueues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every queue, by name.
    fn read(&self) -> QueuesRead {
        let mut known = self.lock();
        let KnownQueues { queues, ended } = &mut *known;
        let mut now: BTreeMap<&'static str, (QueueCounts, RunningWork)> = BTreeMap::new();
        queues.retain_mut(|known| {
            let Some(queue) = known.queue.upgrade() else {
                if let Some((name, counts)) = known.last {
                    add(ended, name, counts);
                }
                return false;
            };
            let (name, counts, running) = queue.sizes();
            known.last = Some((name, counts));
            let sum = now.entry(name).or_default();
            *sum = (sum.0.plus(counts), sum.1.plus(running));
            true
        });
        let mut counted = ended.clone();
        for (name, (counts, _)) in &now {
            add(&mut counted, name, *counts);
        }
        QueuesRead { now, counted }
    }
}

fn add(to: &mut BTreeMap<&'static str, QueueCounts>, name: &'static str, counts: QueueCounts) {
    let sum = to.entry(name).or_default();
    *sum = sum.plus(counts);
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.read();
        for (name, help, read) in COUNTED {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (queue, counts) in &queues.counted {
                ConstCounter::new(read(counts)).encode(family.encode_family(&[("queue", *queue)])?)?;
            }
        }
        for (name, help, read) in MEASURED {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, (counts, running)) in &queues.now {
                ConstGauge::new(read(counts, running)).encode(family.encode_family(&[("queue", *queue)])?)?;
            }
        }
        Ok(())
    }
}
