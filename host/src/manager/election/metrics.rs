//! What is counted of elections.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use topoloom_core::election::LeaseOutcome;

use super::{Group, Role};

/// Counts the outcomes of lease writes.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    leader: Family<GroupLabels, Gauge>,
    attempts: Family<AttemptLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabels {
    group: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    group: &'static str,
    result: &'static str,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("leader", "1 while this replica writes for the group", metrics.leader.clone());
        registry.register(
            "lease_writes",
            "Claims and renewals of leases by result: confirmed, conflict, unknown",
            metrics.attempts.clone(),
        );
        metrics
    }

    /// The role of this replica. Of bindings there are many, and no series for each: their number is shown elsewhere.
    pub(in crate::manager) fn role(&self, group: &Group, role: &Role) {
        match group {
            Group::Controllers(group) => {
                let labels = GroupLabels { group: group.as_str() };
                self.leader.get_or_create(&labels).set(i64::from(*role == Role::Leader));
            }
            Group::Binding(_) => {}
        }
    }

    pub(super) fn attempt(&self, group: &Group, answer: &LeaseOutcome) {
        self.attempts.get_or_create(&AttemptLabels { group: group.as_str(), result: word(answer) }).inc();
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub(in crate::manager) fn examples(&self, any: &'static str) {
        self.leader.get_or_create(&GroupLabels { group: any }).set(0);
        for answer in [LeaseOutcome::Confirmed(any.into()), LeaseOutcome::Conflict, LeaseOutcome::Unknown] {
            self.attempts.get_or_create(&AttemptLabels { group: any, result: word(&answer) }).inc();
        }
    }
}

fn word(answer: &LeaseOutcome) -> &'static str {
    match answer {
        LeaseOutcome::Confirmed(_) => "confirmed",
        LeaseOutcome::Conflict => "conflict",
        LeaseOutcome::Unknown => "unknown",
    }
}
