//! Which plugin of a source is active, and which ones were refused or rolled back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::rollout::{Cause, Rollout, RolloutMemory, RolloutStep};

use super::SourceLabels;

/// One source and the step that refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    source: Arc<str>,
    step: &'static str,
}

/// One source and what serves it: one series per source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InfoLabels {
    source: Arc<str>,
    plugin: String,
    version: String,
    digest: String,
}

/// Swaps of plugins.
#[derive(Debug, Clone, Default)]
pub(super) struct SwapMetrics {
    swaps: Family<SourceLabels, Counter>,
    rollbacks: Family<SourceLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    info: Family<InfoLabels, Gauge>,
    quarantined: Family<SourceLabels, Gauge>,
    waiting: Family<SourceLabels, Gauge>,
    not_stored: Family<SourceLabels, Gauge>,
    last_success: Family<SourceLabels, Gauge<f64, std::sync::atomic::AtomicU64>>,
    /// What `info` shows of each source, so that it can be removed.
    serving: Arc<Mutex<BTreeMap<SourceName, InfoLabels>>>,
}

impl SwapMetrics {
    /// Registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "plugin_swaps",
            "Plugins that became active, including the first of a source",
            metrics.swaps.clone(),
        );
        registry.register("plugin_rollbacks", "Rollbacks of plugins", metrics.rollbacks.clone());
        registry.register("plugin_refusals", "Plugins that were refused, by step", metrics.refusals.clone());
        registry.register("plugin_info", "1 for the active plugin of a source", metrics.info.clone());
        registry.register(
            "plugin_quarantined",
            "1 while the active plugin of a source is in quarantine: it fails, and there is none to roll back to",
            metrics.quarantined.clone(),
        );
        registry.register(
            "plugin_waiting",
            "1 while a candidate plugin of the source waits for a person",
            metrics.waiting.clone(),
        );
        registry.register(
            "plugin_modules_not_stored",
            "Plugins of a source that could not be stored, so that a rollback to them is not possible after a restart",
            metrics.not_stored.clone(),
        );
        registry.register_with_unit(
            "last_success_timestamp",
            "Unix time of the last valid round of the source: `time()` minus this is its age",
            Unit::Seconds,
            metrics.last_success.clone(),
        );
        metrics
    }

    /// A plugin took over, for this cause.
    pub(super) fn swapped(&self, source: &SourceName, cause: Cause) {
        let labels = SourceLabels::of(source);
        self.swaps.get_or_create(&labels).inc();
        if cause == Cause::Rollback {
            self.rollbacks.get_or_create(&labels).inc();
        }
    }

    /// A plugin was refused.
    pub(super) fn refused(&self, source: &SourceName, step: RolloutStep) {
        self.refusals.get_or_create(&RefusalLabels { source: source.into(), step: step.as_str() }).inc();
    }

    /// What serves a source.
    pub(super) fn serves(&self, source: &SourceName, plugin: &str, version: &str, digest: &str) {
        let labels = InfoLabels {
            source: source.into(),
            plugin: plugin.to_owned(),
            version: version.to_owned(),
            digest: digest.to_owned(),
        };
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = serving.insert(source.clone(), labels.clone()) {
            self.info.remove(&old);
        }
        self.info.get_or_create(&labels).set(1);
    }

    /// The state of the plugin.
    pub(super) fn rollout<R: Clone>(&self, source: &SourceName, rollout: &Rollout<R>) {
        let labels = SourceLabels::of(source);
        self.quarantined.get_or_create(&labels).set(i64::from(rollout.quarantine_pause().is_some()));
        self.waiting.get_or_create(&labels).set(i64::from(rollout.needs_person()));
    }

    /// So many plugins of a source are stored nowhere.
    pub(super) fn not_stored(&self, source: &SourceName, modules: usize) {
        let labels = SourceLabels::of(source);
        self.not_stored.get_or_create(&labels).set(i64::try_from(modules).unwrap_or(i64::MAX));
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub(super) fn examples(&self, any: &str, source: &SourceName) {
        self.swapped(source, Cause::Rollback);
        RolloutStep::ALL.into_iter().for_each(|step| self.refused(source, step));
        self.serves(source, any, any, any);
        self.rollout(source, &Rollout::<()>::new(RolloutMemory::default()));
        self.not_stored(source, 0);
        self.succeeded(source, jiff::Timestamp::UNIX_EPOCH);
    }

    /// A round had a valid result.
    pub(super) fn succeeded(&self, source: &SourceName, at: jiff::Timestamp) {
        let labels = SourceLabels::of(source);
        // Milliseconds since 1970 are exact in an f64 for longer than anyone looks.
        #[allow(clippy::cast_precision_loss, reason = "exact up to the year 287396")]
        self.last_success.get_or_create(&labels).set(at.as_millisecond() as f64 / 1000.0);
    }

    /// A source is gone: its series end.
    pub(super) fn forget(&self, source: &SourceName) {
        let labels = SourceLabels::of(source);
        self.swaps.remove(&labels);
        self.rollbacks.remove(&labels);
        self.last_success.remove(&labels);
        self.quarantined.remove(&labels);
        self.waiting.remove(&labels);
        self.not_stored.remove(&labels);
        for step in RolloutStep::ALL {
            self.refusals.remove(&RefusalLabels { source: source.into(), step: step.as_str() });
        }
        if let Some(old) = self.serving.lock().unwrap_or_else(PoisonError::into_inner).remove(source) {
            self.info.remove(&old);
        }
    }
}
