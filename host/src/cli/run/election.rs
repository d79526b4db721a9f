//! Flags of leader election (`node-lock-and-bind.md` B9, with the checks of B7 and R11).

use std::time::Duration;

use clap::{ArgAction, Args};

use crate::cli::options::{Given, VOLCANOS, values};
use crate::manager::options::{Election, LeaseOptions};

const DURATION: &str = "leader-elect-lease-duration";
const DEADLINE: &str = "leader-elect-renew-deadline";
const PERIOD: &str = "leader-elect-retry-period";

/// Flags of leader election.
#[derive(Debug, Args)]
#[command(next_help_heading = VOLCANOS)]
pub(super) struct ElectionArgs {
    /// Hold a lease while writing, so that only one of several replicas writes
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    leader_elect: bool,
    /// How long other replicas wait after the last renewal that they saw (1s to 24h)
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = values::lasting::<1_000, 86_400_000>)]
    leader_elect_lease_duration: Duration,
    /// How long the leader tries to renew before it stops; shorter than the lease (1ms to 24h)
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::lasting::<1, 86_400_000>)]
    leader_elect_renew_deadline: Duration,
    /// The pause between two tries; 1.2 times the pause must be shorter than the deadline (1ms to 24h)
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = values::lasting::<1, 86_400_000>)]
    leader_elect_retry_period: Duration,
    /// The kind of lock: leases
    #[arg(long, value_name = "KIND", default_value = "leases", value_parser = values::lock)]
    leader_elect_resource_lock: String,
    /// The name of the lease; groups of controllers beside the HyperNodes add a suffix
    #[arg(long, value_name = "NAME", default_value = "topoloom-hypernode", value_parser = values::lease)]
    leader_elect_resource_name: String,
    /// The namespace of the lease; default: our own
    #[arg(long, value_name = "NAME", value_parser = values::some_namespace)]
    leader_elect_resource_namespace: Option<String>,
    /// The older name of --leader-elect-resource-namespace; it takes precedence
    #[arg(long, value_name = "NAME", value_parser = values::namespace)]
    lock_object_namespace: Option<String>,
}

impl ElectionArgs {
    /// How the writing replica is elected. `own` is our own namespace.
    pub(super) fn election(self, own: &str, given: &mut Given) -> Election {
        if given.is_given("lock-object-namespace") {
            given.warn(&["lock-object-namespace"], "is deprecated; use --leader-elect-resource-namespace");
        }
        if !self.leader_elect {
            return Election::Off;
        }
        let (duration, deadline) = (self.leader_elect_lease_duration, self.leader_elect_renew_deadline);
        let period = self.leader_elect_retry_period;
        if given.are_sound(&[DURATION, DEADLINE]) && duration <= deadline {
            given.mistake(&[DURATION, DEADLINE], "the lease must last longer than the deadline");
        }
        // In whole numbers: 1.2 times the period, without rounding.
        if given.are_sound(&[DEADLINE, PERIOD]) && deadline * 5 <= period * 6 {
            given.mistake(&[DEADLINE, PERIOD], "the deadline must be longer than 1.2 times the period");
        }
        let namespace = self.lock_object_namespace.or(self.leader_elect_resource_namespace);
        Election::On(LeaseOptions {
            namespace: namespace.unwrap_or_else(|| own.to_owned()),
            name: self.leader_elect_resource_name,
            duration,
            renew_deadline: deadline,
            retry_period: period,
        })
    }
}
