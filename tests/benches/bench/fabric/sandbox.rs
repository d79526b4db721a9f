//! A builtin discoverer as the host runs it: prepared from an entry, with its endpoints and a Secret.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use topoloom::config;
use topoloom::delivery::Module;
use topoloom::discovery::revision::{Host, Revision, prepare};
use topoloom::endpoints::Outside;
use topoloom::endpoints::vault::Vault;
use topoloom::plugin::{Compiler, RoundInput, Runtime};
use topoloom_core::plugin::{Answer, Answered, Usage};
use topoloom_core::snapshot::{NodeMeta, Store, View};

use super::manager::{Known, secret};

/// A discoverer that is ready for rounds.
pub(crate) struct Sandbox {
    revision: Revision,
    /// The time that every round gets.
    time: jiff::Timestamp,
    _runtime: Runtime,
}

/// A round that had an answer.
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) usage: Usage,
    pub(crate) took: Duration,
}

impl Sandbox {
    /// The builtin plugin of that name for a manager.
    pub(crate) async fn new(plugin: &str, known: &Known, folder: &Path) -> Result<Self> {
        let runtime = Runtime::start(Compiler::Child { exe: topoloom_tests::host::binary()? })?;
        let (endpoint, config) = match plugin {
            "ufm" => ("ufm", self::config(&known.ufm, known)),
            _ => ("fabric", self::config(&known.document, known)),
        };
        let text = format!(
            "networkTopologyDiscovery:\n- source: {plugin}\n  enabled: true\n  credentials: {{secretRef: {{name: s}}}}\n  \
             permissions: {{endpoints: {{{endpoint}: {{addresses: [loopback]}}}}}}\n  config: {config}\n"
        );
        let document = config::parse(&text)?;
        let entry = document.enabled().next().cloned();
        let entry = entry.ok_or_else(|| anyhow!("{:?}", document.errors().collect::<Vec<_>>()))?;
        let outside = Outside { vault: Vault::folder(secret(folder)), ..Outside::offline() };
        topoloom_tests::builtins::embed();
        let module = Arc::new(Module::builtin(plugin).context("there is no such plugin")?);
        let revision = prepare(Host::at_desk(&runtime, &outside), Arc::new(entry), module, None).await;
        let revision = revision.map_err(|refused| anyhow!(refused.message))?;
        Ok(Self { revision, time: jiff::Timestamp::now(), _runtime: runtime })
    }

    /// One round.
    pub(crate) async fn discover(&self, nodes: &View, state: &Arc<[u8]>) -> Result<Done> {
        let round = RoundInput {
            config: Arc::clone(&self.revision.config),
            granted: Arc::clone(&self.revision.granted),
            nodes: nodes.clone(),
            applied: Arc::default(),
            endpoints: Arc::clone(&self.revision.endpoints),
            time: self.time,
            state: Arc::clone(state),
        };
        let source = &self.revision.entry.source;
        let begin = Instant::now();
        let call = self.revision.plugin.discover(source, round).await;
        let took = begin.elapsed();
        Ok(Done { answer: call.end?, usage: call.usage, took })
    }
}

/// The configuration of a discoverer that reads from this URL.
pub(crate) fn config(url: &str, known: &Known) -> String {
    json!({"endpoint": url, "caBundle": known.authority}).to_string()
}

/// Nodes with these names, without labels and annotations.
pub(crate) fn view(names: &[String]) -> View {
    let mut store = Store::new();
    store.begin_relist();
    for name in names {
        store.relist(NodeMeta { name, labels: [], annotations: [] });
    }
    store.commit_relist();
    store.view(&[])
}

/// How many groups an answer has; none if it reports that nothing changed.
pub(crate) fn groups(answer: &Answer) -> Option<usize> {
    match &answer.outcome {
        Answered::Topology(topology) => Some(topology.groups.len()),
        Answered::Unchanged => None,
    }
}
