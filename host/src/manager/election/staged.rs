//! An election without a server: a test sets the leader, and until when the lease is confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Election, Group, History, LeaseGroup, LeaseName, Pulse, Role};
use crate::cluster::gate::{Gate, ReadOnly, Switch, boot_time};

/// An election, and what its renew loop would say.
pub(in crate::manager) struct Staged {
    pub(in crate::manager) election: Election,
    role: watch::Sender<Role>,
}

impl Staged {
    /// One whose lease was not read yet.
    pub(in crate::manager) fn new(group: LeaseGroup, grace: Duration) -> Self {
        Self::of(group.into(), group.lease("test"), grace)
    }

    /// The same for the lease of a binding.
    pub(in crate::manager) fn binding(name: &str, grace: Duration) -> Self {
        Self::of(Group::Binding(name.into()), format!("test-binding-{name}"), grace)
    }

    fn of(group: Group, name: String, grace: Duration) -> Self {
        let (sender, role) = watch::channel(Role::Unknown);
        let lease = LeaseName { namespace: "default".into(), name, identity: "me".into() };
        let release = CancellationToken::new();
        let election = Election {
            group,
            lease: Some(Arc::new(lease)),
            role,
            gate: Gate::closed(&Switch::new(ReadOnly::No)),
            held: Gate::closed(&Switch::new(ReadOnly::No)),
            pulse: Arc::new(Pulse { until: AtomicU64::new(0), grace }),
            history: History::default(),
            begin: CancellationToken::new(),
            // It is given back as soon as that is asked for.
            ended: release.clone(),
            release,
        };
        Self { election, role: sender }
    }

    /// The replica leads, and its gates are open.
    pub(in crate::manager) fn leads(&self) {
        let until = boot_time() + Duration::from_secs(3600);
        self.election.gate.open_until(until);
        self.election.held.open_until(until);
        self.becomes(Role::Leader);
    }

    /// Whether its lease was given back.
    pub(in crate::manager) fn is_released(&self) -> bool {
        self.election.release.is_cancelled()
    }

    /// What the replica is from now on.
    pub(in crate::manager) fn becomes(&self, role: Role) {
        self.role.send_replace(role);
    }

    /// Until when the lease is confirmed, by the boot-time clock.
    pub(in crate::manager) fn confirmed_until(&self, until: Duration) {
        self.election.pulse.until.store(u64::try_from(until.as_millis()).unwrap(), Ordering::SeqCst);
    }
}
