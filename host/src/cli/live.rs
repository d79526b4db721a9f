//! The cluster as the command line sees it: one list of everything, no watch.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Api, ListParams, PartialObjectMeta};
use topoloom_api::{DiscoverySource, HyperNode};
use topoloom_core::names::SourceName;
use topoloom_core::snapshot::{Change, ColumnKey, NodeMeta, Store};
use topoloom_core::topology::Object;
use topoloom_workshop::node_file::FileNode;

use super::ClusterArgs;
use crate::cluster::{self, Refusal, RefusalReason};
use crate::config::{ConfigProblem, Document, Entry, EntryState, Load};
use crate::delivery::{Delivery, Module, Modules, Registries, Sites, Supply};
use crate::discovery::oneshot::{Applied, Compared, EntryName, NoResult, OneshotResult, Prepared, Shot};
use crate::discovery::revision::Host;
use crate::discovery::supervisor::losses;
use crate::endpoints::Outside;
use crate::endpoints::api_server::ApiServer;
use crate::plugin::{Compiler, Digest, Metrics, Runtime};
use crate::topology::convert;
use crate::topology::observe::HyperNodes;

/// What one look at the cluster found.
pub(super) struct Live {
    pub(super) client: kube::Client,
    /// Where its API server is.
    server: http::Uri,
    /// The namespace of the configuration.
    pub(super) namespace: String,
    /// Our own, where modules are kept.
    pub(super) own_namespace: String,
    pub(super) hyper_nodes: Vec<HyperNode>,
    pub(super) sources: Vec<DiscoverySource>,
    pub(super) document: Document,
    /// There is no ConfigMap, so the document is empty.
    pub(super) no_config: bool,
    pub(super) store: Store,
    /// What each list of nodes changed in the store, in order.
    pub(super) changes: Vec<Change>,
}

impl Live {
    /// Looks at HyperNodes, sources and configuration.
    pub(super) async fn look(args: &ClusterArgs) -> anyhow::Result<Self> {
        let args = &args.found().await?;
        let cluster::Connection { client, server, .. } = args.connection().await?;
        let hyper_nodes = list::<HyperNode>(&client).await.context("listing HyperNodes")?;
        let sources = match list::<DiscoverySource>(&client).await {
            Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => Vec::new(),
            other => other.context("listing DiscoverySources")?,
        };
        let document = document(args, &client).await?;
        let no_config = document.is_none();
        let document = document.unwrap_or_default();
        let namespace = args.location().namespace;
        Ok(Self {
            client,
            server,
            namespace,
            own_namespace: args.own_namespace(),
            hyper_nodes,
            sources,
            document,
            no_config,
            store: Store::new(),
            changes: Vec::new(),
        })
    }

    /// The models of all HyperNodes.
    pub(super) fn objects(&self) -> Vec<Arc<Object>> {
        self.hyper_nodes.iter().map(convert::object).map(Arc::new).collect()
    }

    /// Whether the configuration has an entry of this source that runs, or would if it were right.
    pub(super) fn enables(&self, source: &SourceName) -> bool {
        matches!(self.document.state_of(source), EntryState::Enabled(_) | EntryState::Invalid(_))
    }

    /// One round of every enabled entry (or of one), over the nodes as they are now. Writes nothing.
    pub(super) async fn rounds(&mut self, only: Option<&SourceName>) -> anyhow::Result<Vec<Shot>> {
        if let Some(only) = only
            && !self.enables(only)
        {
            return Err(not_enabled(only, &self.document));
        }
        for warning in &self.document.warnings {
            super::print::error(&format!("topoloom: warning: {warning}"));
        }
        let runtime = Runtime::start(Compiler::AtDesk { exe: super::executable() })?;
        let outside = self.outside();
        let prepared = self.prepared(Host::at_desk(&runtime, &outside), only).await;
        self.nodes(&prepared.keys()).await?;
        let objects = self.objects();
        let mut shots = prepared.round(&self.store, &objects, &self.applied()).await;
        shots.extend(invalid(&self.document, only));
        Ok(shots)
    }

    /// Every enabled entry (or one) with the bytes that serve it.
    async fn prepared(&self, host: Host<'_>, only: Option<&SourceName>) -> Prepared {
        // A person pulls with their own rights, as they read Secrets and call endpoints here.
        let api_server = Arc::new(ApiServer::new(&self.server));
        let registries = Registries { api_server, ..super::plugin::registries() };
        let sites = Sites { registries, ..Sites::at(&self.namespace) };
        let supply = Supply {
            delivery: Delivery::new(Some(self.client.clone()), sites, Metrics::default()),
            modules: Modules::new(Some(self.client.clone()), &self.own_namespace, None),
        };
        let serving = self.sources.iter().filter_map(|source| {
            let digest = Digest::parse(&source.status.plugin.as_ref()?.digest)?;
            Some((SourceName::parse(&source.status.source).ok()?, digest))
        });
        Prepared::new(host, &supply, &self.document, only, &serving.collect(), &self.objects()).await
    }

    /// What plugins may reach, with the rights of the caller of the command.
    fn outside(&self) -> Outside {
        // Files are read where the host runs, not here.
        Outside::cluster(&self.client, &self.namespace, &self.server)
    }

    /// What the DiscoverySources say of the objects in the cluster.
    fn applied(&self) -> BTreeMap<SourceName, Applied> {
        let of = |DiscoverySource { status, .. }: &DiscoverySource| Applied {
            config_hash: status.config_hash.clone(),
            nodes_by_name: status.nodes_by_name == Some(true),
            losses: losses(status, Timestamp::now()),
        };
        let named = self.sources.iter().filter_map(|source| {
            let name = SourceName::parse(&source.status.source).ok()?;
            Some((name, of(source)))
        });
        named.collect()
    }

    /// Another plugin beside the active one of a source: both answer about the nodes as they are now. Writes nothing.
    pub(super) async fn compare(&mut self, source: &SourceName, module: Module) -> anyhow::Result<Compared> {
        let EntryState::Enabled(entry) = self.document.state_of(source) else {
            return Err(not_enabled(source, &self.document));
        };
        let entry = Arc::new(entry.clone());
        let runtime = Runtime::start(Compiler::AtDesk { exe: super::executable() })?;
        let outside = self.outside();
        let host = Host::at_desk(&runtime, &outside);
        let serving = self.prepared(host, Some(source)).await;
        let candidate = Prepared::one(host, entry, Arc::new(module), &self.objects()).await;
        let known = HyperNodes::default();
        self.hyper_nodes.iter().for_each(|object| known.written(object));
        let mut keys = [serving.keys(), candidate.keys(), known.selector_keys()].concat();
        self.nodes(&keys).await?;
        let (objects, applied) = (self.objects(), self.applied());
        let serving = serving.round(&self.store, &objects, &applied).await.pop().context("there is no such source")?;
        let candidate =
            candidate.round(&self.store, &objects, &applied).await.pop().context("there is no candidate")?;
        // The choice of a selector is known only with the labels that it reads.
        let read = keys.len();
        for shot in [&serving, &candidate] {
            let selected = shot.result.iter().flat_map(|found| found.decision.forest.selector_keys());
            keys.extend(selected.collect::<Vec<_>>());
        }
        if keys.len() > read {
            self.nodes(&keys).await?;
        }
        Ok(Compared::of(&serving, candidate, &objects, &self.store.view(&keys)))
    }

    /// Reads the nodes.
    pub(super) async fn nodes(&mut self, keys: &[ColumnKey]) -> anyhow::Result<()> {
        self.store.require(keys.iter().cloned());
        self.store.begin_relist();
        let store = &mut self.store;
        each_node(&self.client, |node| {
            store.relist(NodeMeta {
                name: &node.name,
                labels: node.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())),
                annotations: node.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
            });
        })
        .await?;
        self.changes.push(self.store.commit_relist());
        Ok(())
    }
}

/// Every Node of the cluster, read page by page.
pub(super) async fn each_node(client: &kube::Client, mut sink: impl FnMut(FileNode)) -> anyhow::Result<()> {
    let api: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let mut page = ListParams::default().limit(500);
    loop {
        let list = api.list(&page).await.map_err(|error| Refusal::of(&error)).context("listing Nodes")?;
        for node in list.items {
            let pairs = |map: Option<BTreeMap<String, String>>| map.into_iter().flatten().collect();
            sink(FileNode {
                name: node.metadata.name.unwrap_or_default().into(),
                labels: pairs(node.metadata.labels),
                annotations: pairs(node.metadata.annotations),
            });
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Invalid entries: what they would do is unknown, and they must not look switched off.
fn invalid(document: &Document, only: Option<&SourceName>) -> Vec<Shot> {
    let wrong = document.entries.iter().filter_map(|entry| Some((entry, entry.config.as_ref().err()?)));
    let wanted = wrong.filter(|(entry, _)| only.is_none_or(|only| entry.source.as_ref() == Some(only)));
    let shot = |(entry, problems): (&Entry, &Vec<ConfigProblem>)| {
        let name = entry.source.clone().map_or(EntryName::Line(entry.line), EntryName::Source);
        Shot { entry: name, revision: None, result: Err(NoResult::Entry(problems.clone())) }
    };
    wanted.map(shot).collect()
}

/// That the document enables no such source, and which it does.
pub(super) fn not_enabled(source: &SourceName, document: &Document) -> anyhow::Error {
    let known: Vec<&str> = document.enabled().map(|entry| &*entry.source).collect();
    let known = if known.is_empty() { "none is enabled".to_owned() } else { format!("enabled: {}", known.join(", ")) };
    anyhow::anyhow!("no enabled entry has source {source:?}; {known}")
}

/// The exit code after rounds: one that has no result is a failure, and is named where failures are looked for.
pub(super) fn outcome(shots: &[Shot]) -> ExitCode {
    let failed = shots.iter().filter(|shot| shot.result.is_err());
    let failed: Vec<String> = failed.map(|shot| shot.entry.to_string()).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    super::print::error(&format!("topoloom: no result for: {}", failed.join(", ")));
    ExitCode::FAILURE
}

/// Every object of a cluster-scoped resource.
pub(super) async fn list<K>(client: &kube::Client) -> Result<Vec<K>, Refusal>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.map_err(|error| Refusal::of(&error))?;
    Ok(list.items)
}

/// The configuration; `None` when there is no ConfigMap, which is printed.
async fn document(args: &ClusterArgs, client: &kube::Client) -> anyhow::Result<Option<Document>> {
    let location = args.location();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &location.namespace);
    let map =
        api.get_opt(&location.name).await.map_err(|error| Refusal::of(&error)).context("reading the configuration")?;
    let load = Load::from_data(map.map(|map| map.data.unwrap_or_default()).as_ref(), &location.key);
    match (load.lack(&location), load) {
        (_, Load::Valid(document)) => Ok(Some(document)),
        (Some(lack), Load::NoConfigMap) => {
            super::print::error(&format!("topoloom: no source is enabled: {lack}"));
            Ok(None)
        }
        (lack, _) => anyhow::bail!("{}", lack.map(|lack| lack.to_string()).unwrap_or_default()),
    }
}

/// What an entry is about, for headings.
pub(super) fn heading(shot: &Shot) -> String {
    let name = &shot.entry;
    match &shot.revision {
        Some(revision) => format!(
            "{name}: plugin {} {} ({})",
            revision.description.name,
            revision.description.version,
            revision.plugin.digest()
        ),
        None => name.to_string(),
    }
}

/// What a result says about nodes and labels, one line per kind.
pub(super) fn diagnostics(found: &OneshotResult) -> String {
    let lines = found.decision.numbers.diagnostics.iter();
    lines.map(|(code, (count, example))| format!("  {code} ({count}): {example}\n")).collect()
}

/// How much of the cluster a result places.
pub(super) fn coverage(found: &OneshotResult) -> String {
    let numbers = &found.decision.numbers;
    format!("{} of {} nodes have a place in {} groups", numbers.covered, numbers.total, numbers.groups())
}
