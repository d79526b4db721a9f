//! What plugins cost and how their calls end, for `/metrics`.
//!
//! A series belongs to the bytes of a plugin (its short digest) and carries its name once it has said one. It ends with
//! the last handle of those bytes, so their number is bounded by what is loaded, not by what ever was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CallError, Limit, Usage};

use super::engine::Optimise;
use super::load::LoadError;

/// The name of a plugin that has not said one yet.
const UNNAMED: &str = "unknown";

/// A call that ended with an answer.
const OK: &str = "ok";

/// A call whose caller was gone.
const CANCELLED: &str = "cancelled";

/// Every outcome there is: `ok`, `cancelled`, and the words of [`CallError::outcome`].
const OUTCOMES: [&str; 12] = [
    OK,
    CANCELLED,
    "config",
    "denied",
    "upstream",
    "fault",
    "trap",
    "timeout",
    "memory",
    "limit",
    "invalid-result",
    "host",
];

/// From a tenth of a millisecond (a small cluster) to the longest call that is allowed by default.
const CALL_BUCKETS: [f64; 9] = [0.0001, 0.0005, 0.002, 0.01, 0.05, 0.25, 1.0, 5.0, 60.0];

/// From a small Rust plugin to the longest compile that is allowed by default.
const COMPILE_BUCKETS: [f64; 7] = [0.02, 0.05, 0.2, 1.0, 5.0, 10.0, 60.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: Arc<str>,
    digest: Arc<str>,
}

/// What a plugin costs is paid for a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostLabels {
    source: Arc<str>,
    plugin: Arc<str>,
    digest: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    plugin: Arc<str>,
    digest: Arc<str>,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CompileLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

/// The metrics of the plugin runtime. Clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    calls: Family<CallLabels, Counter>,
    seconds: Family<PluginLabels, Histogram>,
    cpu: Family<CostLabels, Counter<f64, AtomicU64>>,
    peak_memory: Family<CostLabels, Gauge>,
    received: Family<PluginLabels, Counter>,
    sent: Family<PluginLabels, Counter>,
    log_dropped: Family<PluginLabels, Counter>,
    compiles: Family<CompileLabels, Histogram>,
    limits: Family<LimitLabels, Counter>,
    live: Arc<Mutex<BTreeMap<Arc<str>, Live>>>,
}

/// The bytes of one digest, however often they are loaded.
#[derive(Debug, Default)]
struct Live {
    handles: usize,
    /// A plugin is a function of its arguments, and `describe` has none: the first name is the name.
    name: Option<Arc<str>>,
    /// Which sources have called it.
    sources: BTreeSet<SourceName>,
}

impl Default for Metrics {
    /// Metrics that are never served, for commands that run a plugin once.
    fn default() -> Self {
        Self {
            calls: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(CALL_BUCKETS)),
            cpu: Family::default(),
            peak_memory: Family::default(),
            received: Family::default(),
            sent: Family::default(),
            log_dropped: Family::default(),
            compiles: Family::new_with_constructor(|| Histogram::new(COMPILE_BUCKETS)),
            limits: Family::default(),
            live: Arc::default(),
        }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("plugin_calls", "Calls of plugins by outcome", metrics.calls.clone());
        let seconds = "Elapsed time of a call, without its time in the queue";
        registry.register_with_unit("plugin_call", seconds, Unit::Seconds, metrics.seconds.clone());
        registry.register_with_unit("plugin_cpu", "Processor time of plugin calls", Unit::Seconds, metrics.cpu.clone());
        let memory = "Peak memory of the last call";
        registry.register_with_unit("plugin_peak_memory", memory, Unit::Bytes, metrics.peak_memory.clone());
        let received = "Bytes that the host passed to the plugin";
        registry.register_with_unit("plugin_received", received, Unit::Bytes, metrics.received.clone());
        let sent = "Bytes that the plugin passed to the host";
        registry.register_with_unit("plugin_sent", sent, Unit::Bytes, metrics.sent.clone());
        let dropped = "Log lines of the plugin dropped beyond its limit";
        registry.register("plugin_log_lines_dropped", dropped, metrics.log_dropped.clone());
        let compiles = "Elapsed time of a compile, by kind (quick, optimised) and outcome";
        registry.register_with_unit("plugin_compile", compiles, Unit::Seconds, metrics.compiles.clone());
        registry.register("plugin_limit_hits", "How often each limit was reached", metrics.limits.clone());
        metrics
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub fn examples(&self, any: &'static str) {
        let both = || (Arc::<str>::from(any), Arc::<str>::from(any));
        for outcome in OUTCOMES {
            let (plugin, digest) = both();
            self.calls.get_or_create(&CallLabels { plugin, digest, outcome }).inc();
        }
        let (plugin, digest) = both();
        let labels = PluginLabels { plugin, digest };
        self.seconds.get_or_create(&labels).observe(0.0);
        let (plugin, digest) = both();
        let cost = CostLabels { source: any.into(), plugin, digest };
        self.cpu.get_or_create(&cost).inc_by(0.0);
        self.peak_memory.get_or_create(&cost).set(0);
        for counter in [&self.received, &self.sent, &self.log_dropped] {
            counter.get_or_create(&labels).inc();
        }
        self.compiles.get_or_create(&CompileLabels { kind: any, outcome: any }).observe(0.0);
        Limit::ALL.iter().for_each(|limit| self.limit(*limit));
    }

    /// A limit acted.
    pub fn limit(&self, limit: Limit) {
        self.limits.get_or_create(&LimitLabels { limit: limit.word() }).inc();
    }

    /// How often a limit has acted.
    #[must_use]
    pub fn hits(&self, limit: Limit) -> u64 {
        self.limits.get_or_create(&LimitLabels { limit: limit.word() }).get()
    }

    /// A load or a compile ended badly.
    pub(super) fn refused(&self, error: &LoadError) {
        if let Some(limit) = error.limit() {
            self.limit(limit);
        }
    }

    /// A compile ended.
    pub(super) fn compiled(&self, optimise: Optimise, error: Option<&LoadError>, time: Duration) {
        let outcome = match error {
            None => OK,
            Some(LoadError::CompileLimit { .. }) => "limit",
            Some(LoadError::Compile { .. }) => "refused",
            Some(_) => "failed",
        };
        let labels = CompileLabels { kind: optimise.word(), outcome };
        self.compiles.get_or_create(&labels).observe(time.as_secs_f64());
    }

    /// The series of a plugin, which end with the last of these for the same bytes.
    pub(super) fn series(&self, digest: &Arc<str>) -> Series {
        self.live().entry(Arc::clone(digest)).or_default().handles += 1;
        Series { metrics: self.clone(), digest: Arc::clone(digest) }
    }

    /// A source is gone: its series end. Other sources may continue with the same plugins.
    pub fn forget_source(&self, source: &SourceName) {
        for (digest, live) in self.live().iter_mut() {
            if live.sources.remove(source) {
                for plugin in live.name.iter().chain([&UNNAMED.into()]) {
                    self.forget_cost(source, plugin, digest);
                }
            }
        }
    }

    fn forget_cost(&self, source: &SourceName, plugin: &Arc<str>, digest: &Arc<str>) {
        let labels = CostLabels { source: source.into(), plugin: Arc::clone(plugin), digest: Arc::clone(digest) };
        self.cpu.remove(&labels);
        self.peak_memory.remove(&labels);
    }

    fn forget(&self, plugin: &Arc<str>, digest: &Arc<str>) {
        for outcome in OUTCOMES {
            let (plugin, digest) = (Arc::clone(plugin), Arc::clone(digest));
            self.calls.remove(&CallLabels { plugin, digest, outcome });
        }
        let labels = PluginLabels { plugin: Arc::clone(plugin), digest: Arc::clone(digest) };
        self.seconds.remove(&labels);
        self.received.remove(&labels);
        self.sent.remove(&labels);
        self.log_dropped.remove(&labels);
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The series of one loaded plugin.
#[derive(Debug)]
pub(super) struct Series {
    metrics: Metrics,
    digest: Arc<str>,
}

impl Series {
    /// The plugin said its name.
    pub(super) fn named(&self, name: &str) {
        if let Some(live) = self.metrics.live().get_mut(&self.digest) {
            live.name.get_or_insert_with(|| name.into());
        }
    }

    /// What the plugin calls itself, as far as it is known.
    pub(super) fn name(&self) -> Arc<str> {
        let name = self.metrics.live().get(&self.digest).and_then(|live| live.name.clone());
        name.unwrap_or_else(|| UNNAMED.into())
    }

    /// A call begins. It counts as cancelled unless it ends.
    pub(super) fn begin(&self, source: &SourceName) -> Ending<'_> {
        if let Some(live) = self.metrics.live().get_mut(&self.digest)
            && !live.sources.contains(source)
        {
            live.sources.insert(source.clone());
        }
        Ending { series: Some((self, source.clone())) }
    }

    fn outcome(&self, outcome: &'static str) {
        let labels = CallLabels { plugin: self.name(), digest: Arc::clone(&self.digest), outcome };
        self.metrics.calls.get_or_create(&labels).inc();
    }

    fn ended(&self, source: &SourceName, error: Option<&CallError>, usage: &Usage) {
        self.outcome(error.map_or(OK, CallError::outcome));
        let metrics = &self.metrics;
        let labels = PluginLabels { plugin: self.name(), digest: Arc::clone(&self.digest) };
        metrics.seconds.get_or_create(&labels).observe(usage.wall.as_secs_f64());
        let PluginLabels { plugin, digest } = labels.clone();
        let cost = CostLabels { source: source.into(), plugin, digest };
        metrics.cpu.get_or_create(&cost).inc_by(usage.cpu.as_secs_f64());
        metrics.peak_memory.get_or_create(&cost).set(i64::try_from(usage.peak_memory).unwrap_or(i64::MAX));
        metrics.received.get_or_create(&labels).inc_by(usage.received as u64);
        metrics.sent.get_or_create(&labels).inc_by(usage.sent as u64);
        metrics.log_dropped.get_or_create(&labels).inc_by(usage.log_dropped as u64);
        for limit in usage.met.iter().chain(error.and_then(CallError::limit)) {
            metrics.limit(limit);
        }
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        let mut live = self.metrics.live();
        let Some(left) = live.get_mut(&self.digest) else { return };
        left.handles = left.handles.saturating_sub(1);
        if left.handles > 0 {
            return;
        }
        // Removed under the lock: a load of the same bytes now begins a new series after it.
        let Live { name, sources, .. } = live.remove(&self.digest).unwrap_or_default();
        for name in name.into_iter().chain([UNNAMED.into()]) {
            self.metrics.forget(&name, &self.digest);
            sources.iter().for_each(|source| self.metrics.forget_cost(source, &name, &self.digest));
        }
    }
}

/// A call under way.
pub(super) struct Ending<'a> {
    series: Option<(&'a Series, SourceName)>,
}

impl Ending<'_> {
    /// How it ended.
    pub(super) fn with(mut self, error: Option<&CallError>, usage: &Usage) {
        if let Some((series, source)) = self.series.take() {
            series.ended(&source, error, usage);
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some((series, _)) = self.series.take() {
            series.outcome(CANCELLED);
        }
    }
}

#[cfg(test)]
mod tests;
