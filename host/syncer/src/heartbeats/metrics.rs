//! What is counted of the leases of virtual nodes, by binding.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::SignedDuration;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use topoloom_cluster::RefusalReason;
use topoloom_sync::naming::BindingName;

/// How one request for a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeatOutcome {
    /// The lease was renewed.
    Renewed,
    /// The lease was made.
    Created,
    /// It was read, and is ours.
    Read,
    /// It was read, and is another's.
    Foreign,
    /// It was written by another client meanwhile.
    Conflict,
    /// It is not there.
    Missing,
    /// It is there, although it was to be made.
    Exists,
    /// The API server asked us to wait.
    Throttled,
    /// A rule refused it: RBAC, admission, the schema.
    Refused,
    /// The API server failed.
    Failed,
    /// The API server did not answer in time.
    Unanswered,
    /// Nothing was sent: this replica does not hold the lease of the binding.
    Closed,
}

impl BeatOutcome {
    /// Every one.
    pub const ALL: [Self; 12] = [
        Self::Renewed,
        Self::Created,
        Self::Read,
        Self::Foreign,
        Self::Conflict,
        Self::Missing,
        Self::Exists,
        Self::Throttled,
        Self::Refused,
        Self::Failed,
        Self::Unanswered,
        Self::Closed,
    ];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Created => "created",
            Self::Read => "read",
            Self::Foreign => "foreign",
            Self::Conflict => "conflict",
            Self::Missing => "missing",
            Self::Exists => "exists",
            Self::Throttled => "throttled",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unanswered => "unanswered",
            Self::Closed => "closed",
        }
    }
}

impl From<RefusalReason> for BeatOutcome {
    fn from(reason: RefusalReason) -> Self {
        match reason {
            RefusalReason::Conflict => Self::Conflict,
            RefusalReason::AlreadyExists => Self::Exists,
            RefusalReason::NotFound => Self::Missing,
            RefusalReason::TooManyRequests => Self::Throttled,
            RefusalReason::NoSuchResource
            | RefusalReason::Forbidden
            | RefusalReason::Unauthorized
            | RefusalReason::Invalid
            | RefusalReason::DeniedByAdmission => Self::Refused,
            RefusalReason::WebhookUnreachable
            | RefusalReason::Expired
            | RefusalReason::TooLarge
            | RefusalReason::ServerError => Self::Failed,
            RefusalReason::Unreachable => Self::Unanswered,
            RefusalReason::NotLeader | RefusalReason::ReadOnly => Self::Closed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BindingLabels {
    binding: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    binding: String,
    outcome: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// Counts the leases of all bindings of a process. Clones are the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    leases: Family<BindingLabels, Gauge>,
    failing: Family<BindingLabels, Gauge>,
    foreign: Family<BindingLabels, Gauge>,
    oldest: Family<BindingLabels, Seconds>,
    skew: Family<BindingLabels, Seconds>,
    gap: Family<BindingLabels, Seconds>,
    requests: Family<OutcomeLabels, Counter>,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            leases: Family::default(),
            failing: Family::default(),
            foreign: Family::default(),
            oldest: Family::default(),
            skew: Family::default(),
            gap: Family::default(),
            requests: Family::default(),
        };
        registry.register(
            "virtual_node_leases",
            "Leases of virtual nodes that are to be renewed",
            metrics.leases.clone(),
        );
        registry.register(
            "virtual_node_leases_failing",
            "Leases of virtual nodes whose last request failed",
            metrics.failing.clone(),
        );
        registry.register(
            "virtual_node_leases_foreign",
            "Leases with the name of a virtual node that belong to another, and are left alone",
            metrics.foreign.clone(),
        );
        registry.register_with_unit(
            "virtual_node_lease_oldest",
            "Time since the last renewal of the lease that was renewed longest ago, of those that are to be renewed",
            Unit::Seconds,
            metrics.oldest.clone(),
        );
        registry.register_with_unit(
            "virtual_node_lease_clock_skew",
            "How far a stored time of a renewal is ahead of the clock of this replica, where it is more than 5 s",
            Unit::Seconds,
            metrics.skew.clone(),
        );
        registry.register_with_unit(
            "virtual_node_lease_takeover_gap",
            "How long ago, by its clock, leases had been renewed when this replica took the binding over: more than a minute is an \
             outage or a clock that is ahead, less than nothing one that is behind",
            Unit::Seconds,
            metrics.gap.clone(),
        );
        registry.register(
            "virtual_node_lease_renewals",
            "Requests for leases of virtual nodes by how they ended",
            metrics.requests.clone(),
        );
        metrics
    }

    /// The series of one binding. They end when this value is dropped.
    #[must_use]
    pub fn of(&self, binding: &BindingName) -> BindingMetrics {
        self.series(binding)
    }

    /// One series of each kind there can be, for as long as what is returned is kept; `any` is the value of labels without a closed
    /// set.
    pub fn examples(&self, any: &'static str) -> impl Sized + use<> {
        self.series(any)
    }

    fn series(&self, binding: &str) -> BindingMetrics {
        let labels = BindingLabels { binding: binding.to_owned() };
        let requests = BeatOutcome::ALL.map(|outcome| {
            let labels = OutcomeLabels { binding: binding.to_owned(), outcome: outcome.word() };
            self.requests.get_or_create_owned(&labels)
        });
        BindingMetrics {
            leases: self.leases.get_or_create_owned(&labels),
            failing: self.failing.get_or_create_owned(&labels),
            foreign: self.foreign.get_or_create_owned(&labels),
            oldest: self.oldest.get_or_create_owned(&labels),
            skew: self.skew.get_or_create_owned(&labels),
            gap: self.gap.get_or_create_owned(&labels),
            requests,
            all: self.clone(),
            labels,
        }
    }
}

/// Counts the leases of one binding.
#[derive(Debug)]
pub struct BindingMetrics {
    leases: Gauge,
    failing: Gauge,
    foreign: Gauge,
    oldest: Seconds,
    skew: Seconds,
    gap: Seconds,
    requests: [Counter; BeatOutcome::ALL.len()],
    all: Metrics,
    labels: BindingLabels,
}

/// The state of the leases of a binding in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeatCounts {
    /// Leases that are to be renewed.
    pub leases: usize,
    /// Those whose last request failed.
    pub failing: usize,
    /// Those that belong to another.
    pub foreign: usize,
    /// The time since the oldest last renewal.
    pub oldest: Duration,
    /// The largest skew of clocks that is more than tolerable.
    pub skew: Duration,
}

impl BindingMetrics {
    /// A request ended.
    pub(super) fn ended(&self, outcome: BeatOutcome) {
        if let Some(counter) = self.requests.get(outcome as usize) {
            counter.inc();
        }
    }

    /// How long ago leases had been renewed when they were taken over, by our clock.
    pub(super) fn took_over(&self, gap: SignedDuration) {
        self.gap.set(gap.as_secs_f64());
    }

    /// The state of all leases.
    pub(super) fn show(&self, counts: &BeatCounts) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.leases.set(number(counts.leases));
        self.failing.set(number(counts.failing));
        self.foreign.set(number(counts.foreign));
        self.oldest.set(counts.oldest.as_secs_f64());
        self.skew.set(counts.skew.as_secs_f64());
    }
}

impl Drop for BindingMetrics {
    fn drop(&mut self) {
        self.all.leases.remove(&self.labels);
        self.all.failing.remove(&self.labels);
        self.all.foreign.remove(&self.labels);
        self.all.oldest.remove(&self.labels);
        self.all.skew.remove(&self.labels);
        self.all.gap.remove(&self.labels);
        for outcome in BeatOutcome::ALL {
            let labels = OutcomeLabels { binding: self.labels.binding.clone(), outcome: outcome.word() };
            self.all.requests.remove(&labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn the_series_of_a_binding_begin_at_zero_and_end_with_it() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let east = metrics.of(&BindingName::parse("east").unwrap());
        let _west = metrics.of(&BindingName::parse("west").unwrap());
        for outcome in BeatOutcome::ALL {
            let line =
                format!("virtual_node_lease_renewals_total{{binding=\"east\",outcome=\"{}\"}} 0", outcome.word());
            assert!(text(&registry).contains(&line), "{line}");
        }
        for (index, outcome) in BeatOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
            east.ended(outcome);
        }
        east.show(&BeatCounts { leases: 3, oldest: Duration::from_millis(1500), ..BeatCounts::default() });
        let shown = text(&registry);
        assert!(shown.contains("virtual_node_leases{binding=\"east\"} 3"), "{shown}");
        assert!(shown.contains("virtual_node_lease_oldest_seconds{binding=\"east\"} 1.5"), "{shown}");
        assert!(shown.contains("virtual_node_lease_renewals_total{binding=\"east\",outcome=\"foreign\"} 1"), "{shown}");
        drop(east);
        let left = text(&registry);
        assert!(!left.contains("east") && left.contains("west"), "{left}");
    }
}
