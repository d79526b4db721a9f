//! The clients of one physical API server by one credential.
//!
//! Owns how they are made: what a kubeconfig says and the settings of every client of ours; answers that are bounded in time and
//! size, but for watches; addresses that are judged again when a name is resolved. Writes share a budget per server in lanes:
//! claims on nodes go first, since a virtual node waits for each. Streams to pods have connections of their own, each one, and no
//! share of that budget. Leases of virtual nodes are none of its business: they are in the virtual cluster.
//!
//! # Failure story
//!
//! A binding that loses its lease closes its gate (decisions M4 and S11), and its writers with it; those of other bindings on the
//! same connection go on, since each binding has writers of its own. Reads go through no gate.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use topoloom_cluster::client::{self, Bounds, ConnectError};
use topoloom_cluster::gate::Gate;
use topoloom_cluster::lanes::{Budget, WeakBudget};
use topoloom_cluster::requests;

use crate::kubeconfig::{Access, Fingerprint};

/// How long an answer may take, with its body.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How many writes per second one physical API server gets by default (decision S21).
pub const WRITES_PER_SECOND: u32 = 200;

/// How many writes one physical API server gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRate {
    /// As many as come, until it says that it has enough.
    Unlimited,
    /// A bucket. Neither number is zero: one is the least.
    Limited {
        /// Per second.
        per_second: u32,
        /// At once after a pause.
        burst: u32,
    },
}

impl WriteRate {
    /// So many per second, and the same number at once after a pause: what is claimed begins with a whole list of machines.
    #[must_use]
    pub fn per_second(per_second: u32) -> Self {
        Self::Limited { per_second, burst: per_second }
    }

    fn budget(self) -> Budget {
        match self {
            Self::Unlimited => Budget::unlimited(),
            Self::Limited { per_second, burst } => Budget::with_burst(per_second, burst),
        }
    }
}

impl Default for WriteRate {
    fn default() -> Self {
        Self::per_second(WRITES_PER_SECOND)
    }
}

type MakeWriters = dyn Fn(&Gate) -> Result<Writers, ConnectError> + Send + Sync;

/// The clients of a server. Clones share their connections.
#[derive(Clone)]
pub struct Connection {
    server: http::Uri,
    fingerprint: Fingerprint,
    reads: kube::Client,
    streams: kube::Client,
    writers: Arc<MakeWriters>,
}

/// The clients that a binding writes with, in lanes: those of nodes go before all others.
#[derive(Clone)]
pub struct Writers {
    /// Claims on nodes and their labels.
    pub nodes: kube::Client,
    /// All else: pods, the status of policies, the Lease of the borrower.
    pub others: kube::Client,
}

/// What makes connections.
pub trait Opens: Send + Sync {
    /// Makes one. Does not talk to the server yet.
    ///
    /// # Errors
    /// When no client can be made of what the kubeconfig says.
    fn open(&self, access: &Access) -> Result<Connection, ConnectError>;
}

impl Connection {
    /// A connection of given clients. Its streams go by the client of its reads.
    pub fn of(
        access: &Access,
        reads: kube::Client,
        writers: impl Fn(&Gate) -> Result<Writers, ConnectError> + Send + Sync + 'static,
    ) -> Self {
        let (server, fingerprint) = (access.server().clone(), access.fingerprint());
        Self { server, fingerprint, streams: reads.clone(), reads, writers: Arc::new(writers) }
    }

    /// The same, whose streams go by this client.
    #[must_use]
    pub fn with_streams(self, streams: kube::Client) -> Self {
        Self { streams, ..self }
    }

    /// The URL of the server.
    #[must_use]
    pub fn server(&self) -> &http::Uri {
        &self.server
    }

    /// What it was made of.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The client for lists, watches and single reads. Nothing is written with it.
    #[must_use]
    pub fn reads(&self) -> &kube::Client {
        &self.reads
    }

    /// The client for logs and for connections that are upgraded. Only connecting is bounded in time: its user bounds the rest.
    /// Nothing of ours is written with it, so it has no gate.
    #[must_use]
    pub fn streams(&self) -> &kube::Client {
        &self.streams
    }

    /// Clients with connections of their own that write while the gate of a binding is open.
    ///
    /// # Errors
    /// When no client can be made, which has been possible before.
    pub fn writers(&self, gate: &Gate) -> Result<Writers, ConnectError> {
        (self.writers)(gate)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Connection");
        shown.field("server", &self.server).field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// Makes connections over the network.
pub struct Dialer {
    metrics: requests::Metrics,
    rate: WriteRate,
    /// By URL: two credentials of one server share what it can take.
    budgets: Mutex<BTreeMap<String, WeakBudget>>,
}

impl Dialer {
    /// Requests are counted in these metrics, and each server gets so many writes per second.
    #[must_use]
    pub fn new(metrics: &requests::Metrics, writes_per_second: u32) -> Self {
        Self::with_rate(metrics, WriteRate::per_second(writes_per_second))
    }

    /// The same with a rate of any kind.
    #[must_use]
    pub fn with_rate(metrics: &requests::Metrics, rate: WriteRate) -> Self {
        Self { metrics: metrics.clone(), rate, budgets: Mutex::default() }
    }

    fn budget(&self, server: &http::Uri) -> Budget {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|_, budget| budget.upgrade().is_some());
        let kept = budgets.entry(server.to_string()).or_default();
        kept.upgrade().unwrap_or_else(|| {
            let budget = self.rate.budget();
            *kept = budget.downgrade();
            budget
        })
    }
}

impl Opens for Dialer {
    fn open(&self, access: &Access) -> Result<Connection, ConnectError> {
        let bounds = Bounds { dial: access.dial(), deadline: Some(DEADLINE) };
        let connection = client::Connection::bounded(access.config().clone(), bounds, &self.metrics)?;
        let streams = connection.for_streams(&self.metrics)?;
        let (reads, budget, metrics) = (connection.client.clone(), self.budget(access.server()), self.metrics.clone());
        let writers = move |gate: &Gate| {
            let lane = |number| connection.in_lane(&budget.lane(number), gate, &metrics);
            Ok(Writers { nodes: lane(0)?, others: lane(1)? })
        };
        Ok(Connection::of(access, reads, writers).with_streams(streams))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use topoloom_cluster::gate::{ReadOnly, Switch};
    use topoloom_cluster::{Refusal, RefusalReason};

    use super::*;
    use crate::kubeconfig::tests::access;

    fn dialer() -> Dialer {
        Dialer::new(&requests::Metrics::register(&mut Registry::default()), 2)
    }

    async fn patch(client: &kube::Client) -> Refusal {
        let request = http::Request::patch("/api/v1/nodes/n").body(Vec::new()).unwrap();
        Refusal::of(&client.request::<serde_json::Value>(request).await.unwrap_err())
    }

    #[tokio::test]
    async fn a_binding_writes_behind_its_own_gate_and_reads_have_none() {
        // A name that never resolves (RFC 6761, 6.4).
        let connection = dialer().open(&access("https://physical.invalid:6443", "t")).unwrap();
        let (ours, theirs) = (Gate::closed(&Switch::new(ReadOnly::No)), Gate::open(&Switch::new(ReadOnly::Yes)));
        let (closed, read_only) = (connection.writers(&ours).unwrap(), connection.writers(&theirs).unwrap());
        assert_eq!(patch(&closed.nodes).await.reason, RefusalReason::NotLeader);
        assert_eq!(patch(&closed.others).await.reason, RefusalReason::NotLeader);
        assert_eq!(patch(&read_only.nodes).await.reason, RefusalReason::ReadOnly);
        let refusal = patch(connection.reads()).await;
        assert_eq!(refusal.reason, RefusalReason::Unreachable);
        assert!(refusal.message.contains("https://physical.invalid:6443"), "{refusal}");
    }

    #[tokio::test]
    async fn s20_a_name_that_leads_to_this_machine_is_not_dialled() {
        let connection = dialer().open(&access("https://localhost:1", "t")).unwrap();
        let refusal = patch(connection.reads()).await;
        assert_eq!(refusal.reason, RefusalReason::Unreachable);
        assert!(refusal.message.contains("a loopback address, which is not dialled"), "{refusal}");
    }

    #[tokio::test]
    async fn s21_credentials_of_one_server_share_its_budget_for_as_long_as_one_is_used() {
        let dialer = dialer();
        let [east, west] = ["https://east.invalid", "https://west.invalid"];
        let (one, two, other) =
            (dialer.open(&access(east, "a")).unwrap(), dialer.open(&access(east, "b")).unwrap(), access(west, "a"));
        let count = || dialer.budgets.lock().unwrap().values().filter(|budget| budget.upgrade().is_some()).count();
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(count(), 1);
        let other = dialer.open(&other).unwrap();
        assert_eq!(count(), 2);
        drop((one, other));
        assert_eq!(count(), 1);
        drop(two);
        assert_eq!(count(), 0);
    }
}
