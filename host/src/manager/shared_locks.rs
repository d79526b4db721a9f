//! What the two controllers of the node lock share: the watches of Nodes and pods, and what these show of locks.

use std::sync::Arc;

use prometheus_client::registry::Registry as MetricRegistry;

use super::debug::Debug;
use super::health::Health;
use super::options::LockOptions;
use crate::cluster::node_watch::NodeWatch;
use crate::cluster::{Check, Restores, instance};
use crate::nodelock::carry::Carrier;
use crate::nodelock::metrics::hold_histogram;
use crate::nodelock::requests::Requests;
use crate::nodelock::view::View;

/// The watches of the process for locks.
#[derive(Clone)]
pub struct SharedLocks {
    pub(super) view: Arc<View>,
    nodes: Arc<NodeWatch>,
    pods: Check,
}

impl SharedLocks {
    /// Watches that do not run yet.
    #[must_use]
    pub fn new(
        options: &LockOptions,
        nodes: &Arc<NodeWatch>,
        restores: &Restores,
        health: &Health,
        metrics: &mut MetricRegistry,
        debug: &mut Debug,
    ) -> Self {
        let view = View::new(Arc::clone(&options.backends), hold_histogram(metrics)).of(restores);
        let view = Arc::new(view);
        let dumped = Arc::clone(&view);
        debug.part("locks", move || dumped.dump());
        let check = Check::from(health.check("lock-nodes"));
        nodes.follow(Arc::clone(&view) as _, Box::new(move |answer| check.take(answer)));
        Self { view, nodes: Arc::clone(nodes), pods: health.check("lock-pods").into() }
    }

    /// Watches Nodes and pods, for as long as it is polled.
    pub(super) async fn watch(self, client: kube::Client) {
        let pods = self.pods.clone();
        tokio::join!(self.nodes.run(client.clone()), self.view.watch_pods(client, move |answer| pods.take(answer)));
    }

    /// What writes locks through this client.
    pub(super) fn carrier(&self, writes: kube::Client) -> Carrier {
        let requests = Requests::new(writes, Arc::clone(self.view.backends()));
        Carrier::new(Arc::clone(&self.view), requests, instance().into(), crate::nodelock::number())
    }
}

#[cfg(test)]
mod tests;
