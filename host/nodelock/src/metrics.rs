//! What is counted of the node lock (requirement R20).

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use topoloom_core::nodelock::attempt::{BindFailure, Bound};
use topoloom_core::nodelock::sweep::LEAKED;
use topoloom_core::nodelock::{OrphanReason, Why};

use super::lock::BindReport;

/// From a Bind that need not wait (2 ms) to the longest wait (28 s).
const WAITS: [f64; 12] = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 30.0];

/// From a device plugin that answers at once to one that does not.
const HOLDS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SweepLabels {
    reason: &'static str,
    done: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    verb: &'static str,
}

/// Why a client of the extender was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedClient {
    /// Its certificate has none of the names.
    Name,
    /// Its certificate is not one of the authority, or not valid now.
    Certificate,
}

impl RefusedClient {
    /// Every reason there is.
    pub const ALL: [Self; 2] = [Self::Name, Self::Certificate];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Certificate => "certificate",
        }
    }
}

/// What is counted of the extender.
#[derive(Clone)]
pub struct BindMetrics {
    binds: Family<OutcomeLabels, Counter>,
    waits: Histogram,
    takeovers: Family<ReasonLabels, Counter>,
    contended: Counter,
    kept: Counter,
    under_way: Gauge,
    filtered: Counter,
    requests: Family<VerbLabels, Histogram>,
    refused: Family<ReasonLabels, Counter>,
}

impl BindMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            binds: Family::default(),
            waits: Histogram::new(WAITS),
            takeovers: Family::default(),
            contended: Counter::default(),
            kept: Counter::default(),
            under_way: Gauge::default(),
            filtered: Counter::default(),
            requests: Family::new_with_constructor(|| Histogram::new(WAITS)),
            refused: Family::default(),
        };
        registry.register("node_lock_binds", "Binds by how they ended", metrics.binds.clone());
        registry.register_with_unit(
            "node_lock_wait",
            "Time that a Bind waited for a lock",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        registry.register("node_lock_takeovers", "Orphaned locks taken over, by reason", metrics.takeovers.clone());
        registry.register("node_lock_contended", "Binds that had to wait for a lock", metrics.contended.clone());
        registry.register(
            "node_lock_kept",
            "Binds that failed and left their lock to the sweeper, since the pod may still become bound",
            metrics.kept.clone(),
        );
        registry.register("node_lock_under_way", "Binds under way", metrics.under_way.clone());
        registry.register("extender_filtered_nodes", "Nodes that the filter left out", metrics.filtered.clone());
        registry.register_with_unit(
            "extender_request_duration",
            "Time of a request to the extender",
            Unit::Seconds,
            metrics.requests.clone(),
        );
        registry.register(
            "extender_refused_clients",
            "Clients that the extender refused, by what was wrong with their certificate",
            metrics.refused.clone(),
        );
        metrics.begin();
        metrics
    }

    /// A count begins with nothing, so that the first one is seen as growth.
    fn begin(&self) {
        for outcome in ["bound", "bound-before"].into_iter().chain(BindFailure::WORDS) {
            let _ = self.binds.get_or_create(&OutcomeLabels { outcome });
        }
        for reason in OrphanReason::ALL {
            let _ = self.takeovers.get_or_create(&ReasonLabels { reason: reason.word() });
        }
        for why in RefusedClient::ALL {
            let _ = self.refused.get_or_create(&ReasonLabels { reason: why.word() });
        }
        for verb in ["bind", "filter"] {
            let _ = self.requests.get_or_create(&VerbLabels { verb });
        }
    }

    /// A Bind ended.
    pub fn bound(&self, report: &BindReport) {
        let outcome = match &report.result {
            Ok(Bound::Now) => "bound",
            Ok(Bound::Before) => "bound-before",
            Err(failure) => failure.word(),
        };
        self.binds.get_or_create(&OutcomeLabels { outcome }).inc();
        self.kept.inc_by(u64::from(report.kept));
        if !report.keys.is_empty() {
            self.waits.observe(report.waited.as_secs_f64());
            self.contended.inc_by(u64::from(!report.waited.is_zero()));
        }
        for reason in &report.took {
            self.takeovers.get_or_create(&ReasonLabels { reason: reason.word() }).inc();
        }
    }

    /// How many Binds are under way.
    pub fn under_way(&self, binds: usize) {
        self.under_way.set(i64::try_from(binds).unwrap_or(i64::MAX));
    }

    /// A client was not let in.
    pub fn refused(&self, why: RefusedClient) {
        self.refused.get_or_create(&ReasonLabels { reason: why.word() }).inc();
    }

    /// The filter left nodes out.
    pub fn filtered(&self, nodes: usize) {
        self.filtered.inc_by(nodes as u64);
    }

    /// A request was answered.
    pub fn answered(&self, verb: &'static str, took: Duration) {
        self.requests.get_or_create(&VerbLabels { verb }).observe(took.as_secs_f64());
    }
}

/// What is counted of the sweeper.
#[derive(Clone)]
pub struct SweepMetrics {
    states: Family<StateLabels, Gauge>,
    found: Family<SweepLabels, Counter>,
    /// The age of the oldest lock whose pod waits for its device plugin for too long.
    stuck: Gauge<f64, AtomicU64>,
}

/// What is done about an orphaned lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It was removed.
    Removed,
    /// It was reported.
    Reported,
}

impl Done {
    const ALL: [Self; 2] = [Self::Removed, Self::Reported];

    fn word(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Reported => "reported",
        }
    }
}

impl SweepMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self { states: Family::default(), found: Family::default(), stuck: Gauge::default() };
        registry.register(
            "node_locks",
            "Locks on nodes by state: leaked is an orphaned lock, stuck is one whose pod has waited for its device plugin longer than the timeout",
            metrics.states.clone(),
        );
        registry.register("node_lock_leaks", "Orphaned locks found, by reason and action", metrics.found.clone());
        registry.register_with_unit(
            "node_lock_longest_stuck",
            "Longest wait for a device plugin among pods past the timeout",
            Unit::Seconds,
            metrics.stuck.clone(),
        );
        metrics.states(&[]);
        for (reason, done) in OrphanReason::ALL.into_iter().flat_map(|reason| Done::ALL.map(|done| (reason, done))) {
            let _ = metrics.leak(reason, done);
        }
        metrics
    }

    fn leak(&self, reason: OrphanReason, done: Done) -> Counter {
        let labels = SweepLabels { reason: reason.word(), done: done.word() };
        self.found.get_or_create(&labels).clone()
    }

    /// An orphaned lock was found.
    pub fn found(&self, reason: OrphanReason, done: Done) {
        self.leak(reason, done).inc();
    }

    /// The states of all locks.
    pub fn states(&self, counts: &[(&'static str, usize)]) {
        for state in Why::ALL.into_iter().map(Why::word).chain([LEAKED]) {
            let count = counts.iter().find(|(of, _)| *of == state).map_or(0, |(_, count)| *count);
            self.states.get_or_create(&StateLabels { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// How long the longest stuck one waits.
    pub fn longest_stuck(&self, age: Duration) {
        self.stuck.set(age.as_secs_f64());
    }
}

/// How long locks of this process existed; for the view.
pub fn hold_histogram(registry: &mut Registry) -> Histogram {
    let stood = Histogram::new(HOLDS);
    registry.register_with_unit(
        "node_lock_hold",
        "Time from the write of a lock by this process until the lock was gone",
        Unit::Seconds,
        stood.clone(),
    );
    stood
}
