//! What is counted of the pods of bindings.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use topoloom_sync::naming::BindingName;
use topoloom_sync::pods::Orphan;

/// From a status that is written with the first answer to one that waits for a cluster that was gone.
const LAG: [f64; 11] = [0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0];

/// What was done about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodOutcome {
    /// The status of a virtual pod was written.
    Mirrored,
    /// It was written, and the API server did not store all of it.
    NotStored,
    /// The API server refused it (422). Counted once for each version of the physical pod.
    Refused,
    /// Another client had written the virtual pod meanwhile: it is read again.
    Conflict,
    /// A physical pod without a virtual one was deleted.
    OrphanDeleted,
    /// The guard holds the deletion of one.
    OrphanHeld,
    /// A final phase was written for a virtual pod whose physical one is gone.
    Ended,
    /// A virtual pod whose physical one is gone was removed.
    Removed,
}

impl PodOutcome {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::Mirrored,
        Self::NotStored,
        Self::Refused,
        Self::Conflict,
        Self::OrphanDeleted,
        Self::OrphanHeld,
        Self::Ended,
        Self::Removed,
    ];

    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Mirrored => "mirrored",
            Self::NotStored => "not-stored",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::OrphanDeleted => "orphan-deleted",
            Self::OrphanHeld => "orphan-held",
            Self::Ended => "ended",
            Self::Removed => "removed",
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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    binding: String,
    verdict: &'static str,
}

/// Counts the pods of all bindings of a process. Clones are the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    outcomes: Family<OutcomeLabels, Counter>,
    orphans: Family<BindingLabels, Gauge>,
    deleted: Family<VerdictLabels, Counter>,
    lag: Family<BindingLabels, Histogram>,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            outcomes: Family::default(),
            orphans: Family::default(),
            deleted: Family::default(),
            lag: Family::new_with_constructor(|| Histogram::new(LAG)),
        };
        registry.register("lent_pod_outcomes", "What was done about lent pods", metrics.outcomes.clone());
        registry.register(
            "lent_pod_orphans",
            "Physical pods without a virtual pod that are looked at a second time before they are deleted",
            metrics.orphans.clone(),
        );
        registry.register(
            "lent_pod_orphans_deleted",
            "Physical pods without a virtual pod that were deleted, by what was found of their virtual pods",
            metrics.deleted.clone(),
        );
        registry.register_with_unit(
            "lent_pod_status_lag",
            "Time from the event of a physical pod until its virtual pod has the status",
            Unit::Seconds,
            metrics.lag.clone(),
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
        let outcomes = PodOutcome::ALL.map(|outcome| {
            let labels = OutcomeLabels { binding: binding.to_owned(), outcome: outcome.word() };
            self.outcomes.get_or_create_owned(&labels)
        });
        let deleted = Orphan::WORDS.map(|verdict| {
            let labels = VerdictLabels { binding: binding.to_owned(), verdict };
            self.deleted.get_or_create_owned(&labels)
        });
        let labels = BindingLabels { binding: binding.to_owned() };
        let (orphans, lag) = (self.orphans.get_or_create_owned(&labels), self.lag.get_or_create_owned(&labels));
        BindingMetrics { outcomes, orphans, deleted, lag, all: self.clone(), labels }
    }
}

/// Counts the pods of one binding.
#[derive(Debug)]
pub struct BindingMetrics {
    outcomes: [Counter; PodOutcome::ALL.len()],
    orphans: Gauge,
    deleted: [Counter; Orphan::WORDS.len()],
    lag: Histogram,
    all: Metrics,
    labels: BindingLabels,
}

impl BindingMetrics {
    /// Something was done.
    pub(super) fn count(&self, outcome: PodOutcome) {
        if let Some(counter) = self.outcomes.get(outcome as usize) {
            counter.inc();
        }
    }

    /// So many orphans are waiting for their second look.
    pub(super) fn orphans(&self, count: usize) {
        self.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// An orphan was deleted.
    pub(super) fn orphan_deleted(&self, why: &Orphan) {
        let mut verdicts = Orphan::WORDS.into_iter().zip(&self.deleted);
        if let Some((_, counter)) = verdicts.find(|(verdict, _)| *verdict == why.word()) {
            counter.inc();
        }
    }

    /// A virtual pod has the status of its physical one, so long after that was shown.
    pub(super) fn mirrored(&self, lag: Duration) {
        self.lag.observe(lag.as_secs_f64());
    }

    /// How often this was done.
    #[cfg(test)]
    pub(super) fn counted(&self, outcome: PodOutcome) -> u64 {
        self.outcomes.get(outcome as usize).map_or(0, Counter::get)
    }
}

impl Drop for BindingMetrics {
    fn drop(&mut self) {
        self.all.orphans.remove(&self.labels);
        self.all.lag.remove(&self.labels);
        for verdict in Orphan::WORDS {
            let labels = VerdictLabels { binding: self.labels.binding.clone(), verdict };
            self.all.deleted.remove(&labels);
        }
        for outcome in PodOutcome::ALL {
            let labels = OutcomeLabels { binding: self.labels.binding.clone(), outcome: outcome.word() };
            self.all.outcomes.remove(&labels);
        }
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::identity::mapping::VirtualPodRef;

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
        for (index, outcome) in PodOutcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
            let line = format!("lent_pod_outcomes_total{{binding=\"east\",outcome=\"{}\"}} 0", outcome.word());
            assert!(text(&registry).contains(&line), "{line}");
            east.count(outcome);
            assert_eq!(east.counted(outcome), 1);
        }
        east.orphans(3);
        assert!(text(&registry).contains("lent_pod_orphans{binding=\"east\"} 3"));
        let named = VirtualPodRef { namespace: "shop".to_owned(), name: "web-0".to_owned(), uid: "v-uid".into() };
        east.orphan_deleted(&Orphan::TwinGone(named));
        east.mirrored(Duration::from_millis(250));
        let shown = text(&registry);
        for line in [
            "lent_pod_orphans_deleted_total{binding=\"east\",verdict=\"gone\"} 1",
            "lent_pod_orphans_deleted_total{binding=\"east\",verdict=\"unmapped\"} 0",
            "lent_pod_status_lag_seconds_sum{binding=\"east\"} 0.25",
            "lent_pod_status_lag_seconds_count{binding=\"west\"} 0",
        ] {
            assert!(shown.contains(line), "{line} is not in\n{shown}");
        }
        drop(east);
        let left = text(&registry);
        assert!(!left.contains("east") && left.contains("west"), "{left}");
    }
}
