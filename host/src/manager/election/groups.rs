//! Elections of groups that come and go: with what a controller stands for the leases of bindings (decision S11).
//!
//! Owns what all of them have in common. Each is an election like any other, on the thread of elections. Where the process
//! runs without leases, every binding is its own from the beginning, and no other process may run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, watch};

use super::{Election, Elector, Group, Metrics, Setup};
use crate::cluster::gate::{Gate, Switch};
use crate::cluster::rate::RateLimit;
use crate::cluster::{Check, Connection, Restores, client, requests};
use crate::manager::options::LeaseOptions;

/// Stands for the leases of bindings.
pub trait Stands: Send + Sync {
    /// Stands for the lease of a binding, from now on. Of one binding there must be one election at a time.
    fn stand(&self, wanted: BindingElection) -> Election;

    /// How long leases last and where they are; nothing where there is no election.
    fn leases(&self) -> Option<&LeaseOptions>;

    /// Our name in them.
    fn identity(&self) -> &Arc<str>;
}

/// What is a binding's own in its election.
pub struct BindingElection {
    /// The name of the ClusterBinding.
    pub binding: Arc<str>,
    /// The name of its Lease.
    pub lease: String,
    /// Whether the lease can be read.
    pub check: Check,
    /// How much later than it could this replica claims the lease, now and from each change on.
    pub courtesy: watch::Receiver<Duration>,
}

/// What the elections of all bindings have in common.
pub struct GroupElections {
    identity: Arc<str>,
    switch: Switch,
    asks: SharedClient,
    elected: Option<Elected>,
}

/// The same, where there are elections.
pub(in crate::manager) struct Elected {
    /// What begins them.
    pub(in crate::manager) elector: Elector,
    /// Where leases are and how long they last.
    pub(in crate::manager) options: LeaseOptions,
    /// The API server.
    pub(in crate::manager) connection: Connection,
    /// What is counted.
    pub(in crate::manager) metrics: Metrics,
    /// Requests are counted, too.
    pub(in crate::manager) requests: requests::Metrics,
    /// How elections are notified that the API server went back.
    pub(in crate::manager) restores: Restores,
    /// `NAMESPACE/NAME` of the ConfigMap of the configuration.
    pub(in crate::manager) configuration: String,
}

/// The client with which all bindings ask for their leases: it reads, watches and claims, and needs no gate. It is made with the
/// first of them. Clones are the same.
#[derive(Clone, Default)]
pub struct SharedClient(Arc<OnceCell<kube::Client>>);

impl SharedClient {
    /// The client; its connections belong to the runtime that it is asked for on first.
    pub(super) async fn get(
        &self,
        connection: &Connection,
        requests: &requests::Metrics,
    ) -> Result<kube::Client, client::ConnectError> {
        let open = Gate::none();
        self.0.get_or_try_init(|| made_aside(connection, &open, requests)).await.cloned()
    }
}

/// A client that is made beside this thread: certificates are read for it, and a program may be asked for a credential, and
/// meanwhile this thread has leases to renew. Its connections belong to the runtime of this thread.
pub(super) async fn made_aside(
    connection: &Connection,
    gate: &Gate,
    requests: &requests::Metrics,
) -> Result<kube::Client, client::ConnectError> {
    let (connection, gate, requests) = (connection.clone(), gate.clone(), requests.clone());
    let make = move || connection.behind(&gate, &requests, &RateLimit::default());
    match tokio::task::spawn_blocking(make).await {
        Ok(made) => made,
        // It panicked, or the process ends.
        Err(error) => Err(client::ConnectError::Client(error.to_string())),
    }
}

impl GroupElections {
    /// For a process that runs without leases.
    #[must_use]
    pub fn off(identity: Arc<str>, switch: &Switch) -> Self {
        Self { identity, switch: switch.clone(), asks: SharedClient::default(), elected: None }
    }

    /// For one of several replicas. There may be many bindings: their leases are renewed three times within the deadline and
    /// not more often, however short the period of the flag is.
    pub(in crate::manager) fn on(identity: Arc<str>, switch: &Switch, mut elected: Elected) -> Self {
        let leases = &mut elected.options;
        leases.retry_period = leases.retry_period.max(leases.renew_deadline / 3);
        Self { identity, switch: switch.clone(), asks: SharedClient::default(), elected: Some(elected) }
    }
}

impl Stands for GroupElections {
    fn stand(&self, wanted: BindingElection) -> Election {
        let BindingElection { binding, lease, check, courtesy } = wanted;
        let group = Group::Binding(binding);
        let Some(elected) = &self.elected else { return Election::off(group, &self.switch) };
        let election = elected.elector.election(Setup {
            group,
            name: lease,
            options: &elected.options,
            courtesy: Some(courtesy),
            identity: Arc::clone(&self.identity),
            connection: &elected.connection,
            asks: Some(self.asks.clone()),
            metrics: elected.metrics.clone(),
            requests: elected.requests.clone(),
            check,
            switch: self.switch.clone(),
            restores: elected.restores.clone(),
            configuration: elected.configuration.clone(),
        });
        election.begin();
        election
    }

    fn leases(&self) -> Option<&LeaseOptions> {
        self.elected.as_ref().map(|elected| &elected.options)
    }

    fn identity(&self) -> &Arc<str> {
        &self.identity
    }
}
