//! The metrics of sources: their rounds and their active plugins. Labels come from closed sets only.

mod swaps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use topoloom_api::discovery_source::Held;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::rollout::{Cause, Rollout, RolloutStep};

use self::swaps::SwapMetrics;

/// Whether another program changes the same objects again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// None does.
    Quiet,
    /// One does, so nothing is written.
    Fighting,
}

/// One source. The set of sources is closed by the configuration; a source that is gone is removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SourceLabels {
    source: Arc<str>,
}

impl SourceLabels {
    fn of(source: &SourceName) -> Self {
        Self { source: source.into() }
    }
}

/// One source and how its round ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RoundLabels {
    source: Arc<str>,
    outcome: &'static str,
}

/// Rounds of sources.
#[derive(Debug, Clone)]
pub struct RoundMetrics {
    rounds: Family<RoundLabels, Counter>,
    seconds: Family<SourceLabels, Histogram>,
    nodes: Family<SourceLabels, Gauge>,
    existing: Family<SourceLabels, Gauge>,
    groups: Family<SourceLabels, Gauge>,
    held: Family<SourceLabels, Gauge>,
    drift: Family<SourceLabels, Counter>,
    crashes: Family<SourceLabels, Counter>,
    name_conflicts: Family<SourceLabels, Gauge>,
    second_writer: Family<SourceLabels, Gauge>,
    interval: Family<SourceLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    swaps: SwapMetrics,
    /// Which outcomes each source has had, so that its series can end.
    outcomes: Arc<Mutex<BTreeMap<SourceName, BTreeSet<&'static str>>>>,
}

/// From half a millisecond (an unchanged round of a small cluster) to half a minute (a slow fabric manager).
const ROUND_BUCKETS: [f64; 10] = [0.0005, 0.002, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0];

impl RoundMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            rounds: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(ROUND_BUCKETS)),
            nodes: Family::default(),
            existing: Family::default(),
            groups: Family::default(),
            held: Family::default(),
            drift: Family::default(),
            crashes: Family::default(),
            name_conflicts: Family::default(),
            second_writer: Family::default(),
            interval: Family::default(),
            swaps: SwapMetrics::register(registry),
            outcomes: Arc::default(),
        };
        registry.register("rounds", "Rounds by source and outcome", metrics.rounds.clone());
        registry.register_with_unit(
            "round",
            "Time of a round from its start to its last write",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register("nodes_covered", "Existing Nodes with a place in the applied result", metrics.nodes.clone());
        registry.register("nodes", "Existing Nodes at the last decision about the source", metrics.existing.clone());
        registry.register("groups", "HyperNodes of the applied result", metrics.groups.clone());
        registry.register("held", "1 while a result waits for confirmation", metrics.held.clone());
        registry.register("drift", "Objects of the source that another program changed", metrics.drift.clone());
        registry.register(
            "source_crashes",
            "Crashes of the tasks of the source, each a defect of the host; the source is restarted",
            metrics.crashes.clone(),
        );
        registry.register(
            "name_conflicts",
            "Fixed names of the source that are taken by objects of other owners",
            metrics.name_conflicts.clone(),
        );
        registry.register(
            "second_writer",
            "1 while another program writes the objects of the source, so that this one does not",
            metrics.second_writer.clone(),
        );
        registry.register_with_unit(
            "source_interval",
            "The pause between two rounds of a source with a timer; a source that only reacts to changes has none",
            Unit::Seconds,
            metrics.interval.clone(),
        );
        metrics
    }

    /// A round ended.
    pub fn round(&self, source: &SourceName, outcome: &'static str, seconds: f64) {
        self.rounds.get_or_create(&RoundLabels { source: source.into(), outcome }).inc();
        self.outcomes().entry(source.clone()).or_default().insert(outcome);
        self.seconds.get_or_create(&SourceLabels::of(source)).observe(seconds);
    }

    /// A plugin became active; `cause`: by a delivery or by a rollback.
    pub fn swapped(&self, source: &SourceName, cause: Cause) {
        self.swaps.swapped(source, cause);
    }

    /// A plugin was refused at a step.
    pub fn refused(&self, source: &SourceName, step: RolloutStep) {
        self.swaps.refused(source, step);
    }

    /// What serves a source.
    pub fn serves(&self, source: &SourceName, plugin: &str, version: &str, digest: &str) {
        self.swaps.serves(source, plugin, version, digest);
    }

    /// A round had a valid result.
    pub fn succeeded(&self, source: &SourceName, at: jiff::Timestamp) {
        self.swaps.succeeded(source, at);
    }

    /// What is in force.
    pub fn in_force(&self, source: &SourceName, nodes: usize, groups: usize) {
        let labels = SourceLabels::of(source);
        self.nodes.get_or_create(&labels).set(i64::try_from(nodes).unwrap_or(i64::MAX));
        self.groups.get_or_create(&labels).set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// How many Nodes there are: what coverage is compared with.
    pub fn nodes(&self, source: &SourceName, nodes: usize) {
        let labels = SourceLabels::of(source);
        self.existing.get_or_create(&labels).set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// Whether a result waits.
    pub fn held(&self, source: &SourceName, held: Option<&Held>) {
        self.held.get_or_create(&SourceLabels::of(source)).set(i64::from(held.is_some()));
    }

    /// Another program changed an object.
    pub fn drift(&self, source: &SourceName) {
        self.drift.get_or_create(&SourceLabels::of(source)).inc();
    }

    /// A source begins: that it never crashed is a number too, for a rate.
    pub fn begins(&self, source: &SourceName) {
        let _ = self.crashes.get_or_create(&SourceLabels::of(source));
    }

    /// A task of a source crashed.
    pub fn crashed(&self, source: &SourceName) {
        self.crashes.get_or_create(&SourceLabels::of(source)).inc();
    }

    /// Names that objects of others have.
    pub fn name_conflicts(&self, source: &SourceName, conflicts: usize) {
        let labels = SourceLabels::of(source);
        self.name_conflicts.get_or_create(&labels).set(i64::try_from(conflicts).unwrap_or(i64::MAX));
    }

    /// Whether nothing is written, because another program writes.
    pub fn second_writer(&self, source: &SourceName, others: Others) {
        let is_fight = others == Others::Fighting;
        self.second_writer.get_or_create(&SourceLabels::of(source)).set(i64::from(is_fight));
    }

    /// The pause between two rounds, where time alone starts one.
    pub fn interval(&self, source: &SourceName, timer: Option<Duration>) {
        let labels = SourceLabels::of(source);
        match timer {
            Some(pause) => {
                self.interval.get_or_create(&labels).set(pause.as_secs_f64());
            }
            None => {
                self.interval.remove(&labels);
            }
        }
    }

    /// The state of the plugin: whether it is in quarantine, and whether a candidate waits for a person.
    pub fn rollout<R: Clone>(&self, source: &SourceName, rollout: &Rollout<R>) {
        self.swaps.rollout(source, rollout);
    }

    /// So many plugins of a source are stored nowhere.
    pub fn not_stored(&self, source: &SourceName, modules: usize) {
        self.swaps.not_stored(source, modules);
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub(crate) fn examples(&self, any: &'static str, source: &SourceName) {
        self.round(source, any, 0.0);
        self.in_force(source, 0, 0);
        self.nodes(source, 0);
        self.held(source, None);
        self.drift(source);
        self.begins(source);
        self.name_conflicts(source, 0);
        self.second_writer(source, Others::Quiet);
        self.interval(source, Some(Duration::ZERO));
        self.swaps.examples(any, source);
    }

    /// A source is gone: its series end.
    pub fn forget(&self, source: &SourceName) {
        let labels = SourceLabels::of(source);
        for outcome in self.outcomes().remove(source).unwrap_or_default() {
            self.rounds.remove(&RoundLabels { source: source.into(), outcome });
        }
        self.seconds.remove(&labels);
        self.nodes.remove(&labels);
        self.existing.remove(&labels);
        self.groups.remove(&labels);
        self.held.remove(&labels);
        self.drift.remove(&labels);
        self.crashes.remove(&labels);
        self.name_conflicts.remove(&labels);
        self.second_writer.remove(&labels);
        self.interval.remove(&labels);
        self.swaps.forget(source);
    }

    fn outcomes(&self) -> MutexGuard<'_, BTreeMap<SourceName, BTreeSet<&'static str>>> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_source_with_a_timer_has_an_interval() {
        let mut registry = Registry::default();
        let metrics = RoundMetrics::register(&mut registry);
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let series = text.lines().filter(|line| line.starts_with("source_interval_seconds{"));
            series.map(str::to_owned).collect::<Vec<_>>()
        };
        metrics.interval(&"label".parse().unwrap(), None);
        metrics.interval(&"ufm".parse().unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(shown(), ["source_interval_seconds{source=\"ufm\"} 90.0"]);
        // Another plugin of the source has no timer.
        metrics.interval(&"ufm".parse().unwrap(), None);
        assert_eq!(shown(), [""; 0]);
        metrics.interval(&"ufm".parse().unwrap(), Some(Duration::from_secs(90)));
        metrics.forget(&"ufm".parse().unwrap());
        assert_eq!(shown(), [""; 0]);
    }
}
