//! An election without a server: a test sets the leader, and until when the lease is confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Election, History, LeaseGroup, LeaseName, Pulse, Role};
use crate::cluster::gate::{Gate, ReadOnly, Switch};

/// An election, and what its renew loop would say.
pub(in crate::manager) struct Staged {
    pub(in crate::manager) election: Election,
    role: watch::Sender<Role>,
}

impl Staged {
    /// One whose lease was not read yet.
    pub(in crate::manager) fn new(group: LeaseGroup, grace: Duration) -> Self {
        let (sender, role) = watch::channel(Role::Unknown);
        let lease = LeaseName { namespace: "default".into(), name: group.lease("test"), identity: "me".into() };
        let election = Election {
            group,
            lease: Some(Arc::new(lease)),
            role,
            gate: Gate::closed(&Switch::new(ReadOnly::No)),
            pulse: Arc::new(Pulse { until: AtomicU64::new(0), grace }),
            history: History::default(),
            begin: CancellationToken::new(),
            release: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        Self { election, role: sender }
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
