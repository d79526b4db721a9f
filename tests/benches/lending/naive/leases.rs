//! A task for each lease.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::stage::LEASES;

const INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct Beats {
    leases: Api<Lease>,
    started: Mutex<HashSet<String>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Beats {
    pub(super) fn new(lent: Client) -> Self {
        let leases = Api::namespaced(lent, LEASES);
        Self { leases, started: Mutex::default(), tasks: Mutex::default() }
    }

    /// Renews the lease of a node from now on, if that was not begun before.
    pub(super) fn start(&self, node: &str) {
        let is_new = self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned());
        if is_new {
            let renewing = renew(self.leases.clone(), node.to_owned());
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(renewing);
        }
    }
}

async fn renew(leases: Api<Lease>, node: String) {
    let mut ticks = interval(INTERVAL);
    let mut last: Option<Lease> = None;
    loop {
        ticks.tick().await;
        let stored = match last.take() {
            Some(lease) => Ok(lease),
            None => leases.get(&node).await,
        };
        if let Ok(mut lease) = stored {
            lease.spec.get_or_insert_default().renew_time = Some(MicroTime(Timestamp::now()));
            last = leases.replace(&node, &PostParams::default(), &lease).await.ok();
        }
    }
}
