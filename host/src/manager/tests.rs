//! What controllers are initialised with, and in which order; the tests of other parts take their options from here.

mod controllers;
mod https;
mod lending;
mod recorder;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use topoloom_core::controllers::Selection;
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::nodelock::{Retry, Takeover};
use topoloom_core::queue::Requeue;

use super::controller::InitError;
use super::options::{LendingOptions, LockOptions, Profiling};
use super::*;
use crate::config::Location;
use crate::delivery::oci::Allowed;
use crate::manager::options::Kept;
use crate::nodelock::lock;
use crate::plugin;
use crate::plugin::trust::TrustOptions;
use crate::topology::status::Scope;

/// The default options, without leases and with free ports.
pub(super) fn options() -> Options {
    Options {
        location: Location::from_environment(None, None),
        namespace: "topoloom-system".into(),
        controllers: Selection::all(),
        on_init_failure: OnInitFailure::Exit,
        election: Elects::Off,
        drain: Duration::from_secs(30),
        mode: Mode::Apply,
        writes: Writes::Allowed,
        rivals: Vec::new(),
        status: Scope::All,
        concurrency: 8,
        requeue: Requeue::default(),
        admin: (Ipv4Addr::LOCALHOST, 0).into(),
        health: None,
        metrics: None,
        executable: PathBuf::new(),
        rate: None,
        profiling: Profiling::Off,
        plugins: None,
        poll: Duration::from_secs(30),
        registries: Allowed::Nothing,
        documents: None,
        modules: None,
        kept: Kept::InConfigMaps,
        cache: None,
        trust: TrustOptions::default(),
        runtime: plugin::Options::default(),
        locks: LockOptions {
            lock: lock::Options { ttl: Duration::from_secs(300), takeover: Takeover::State, retry: Retry::CLASSIC },
            backends: Backend::known().into(),
            sweep: None,
            extender: None,
        },
        lending: LendingOptions::default(),
    }
}

/// Of a replica whose API server is there.
pub(super) async fn connection(server: &str) -> Connection {
    // Where a host has one, the connection takes it from the process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    client::connect(Some(&kubeconfig), None, None).await.unwrap()
}

/// A process before its controllers are initialised. Its API server does not answer.
struct Process {
    options: Options,
    connection: Connection,
    switch: Switch,
    groups: Option<Arc<dyn Stands>>,
    events: Events,
    health: Health,
    requests: requests::Metrics,
    work: work::Options,
    metrics: MetricRegistry,
}

impl Process {
    async fn new(options: Options) -> Self {
        let connection = connection("http://127.0.0.1:9").await;
        let mut metrics = MetricRegistry::with_prefix(super::metrics::catalogue::PREFIX);
        let counted = super::Process::register(&mut metrics);
        let health = Health::default();
        health.register(&mut metrics);
        Self {
            events: Events::new(connection.client.clone()),
            work: queues(&options, counted.work),
            options,
            connection,
            switch: Switch::new(ReadOnly::No),
            groups: None,
            health,
            requests: counted.requests,
            metrics,
        }
    }

    fn initialise(&mut self, controllers: Vec<Box<dyn Controller>>) -> Result<Vec<Ready>, Error> {
        let mut registry = Registry::default();
        for controller in controllers {
            registry.register(controller).unwrap();
        }
        let mut parts = ProcessParts {
            options: &self.options,
            connection: &self.connection,
            elections: &[],
            groups: self.groups.as_ref(),
            switch: &self.switch,
            restores: &Restores::default(),
            nodes: &Arc::new(NodeWatch::new(&Restores::default())),
            events: &self.events,
            health: &self.health,
            requests: &self.requests,
            limit: &RateLimit::default(),
            work: &self.work,
            metrics: &mut self.metrics,
            pages: &mut Vec::new(),
            debug: &mut Debug::default(),
            locks: &OnceCell::new(),
        };
        initialise(&mut parts, registry)
    }

    /// Whether the process is ready, and what it says of one controller.
    fn says(&self, controller: &str) -> (bool, String) {
        let (ready, text) = self.health.report();
        let line = text.lines().find(|line| line.contains(&format!("controller {controller} ")));
        (ready, line.unwrap_or_default().to_owned())
    }

    fn exposition(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics).unwrap();
        text
    }
}

type Initialise = Box<dyn FnOnce(Context<'_>) -> Result<Initialized, InitError> + Send>;

/// A controller of which only the initialisation is real.
struct Fake {
    name: &'static str,
    initialise: Initialise,
}

impl Controller for Fake {
    fn name(&self) -> &'static str {
        self.name
    }

    fn group(&self) -> Option<LeaseGroup> {
        Some(LeaseGroup::HyperNode)
    }

    fn initialize(self: Box<Self>, context: Context<'_>) -> Result<Initialized, InitError> {
        (self.initialise)(context)
    }
}

fn fake(
    name: &'static str,
    initialise: impl FnOnce(Context<'_>) -> Result<Initialized, InitError> + Send + 'static,
) -> Box<dyn Controller> {
    Box::new(Fake { name, initialise: Box::new(initialise) })
}
