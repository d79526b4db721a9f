//! `topoloom lend explain`: why a node lends as much as it does, or what becomes of a pod (decision S23).
//!
//! Owns which bindings are asked, and what is read for one node or one pod: its two objects and what is on them, and the virtual nodes of
//! an earlier `clusterID`, which stand in the way of new ones; never a whole cluster. What is shown is what the controllers decide by.
//!
//! # Failure story
//!
//! What cannot be read is a remark beside what can. The limits of the guard are those of a whole binding, so here they do not count; what
//! the guard holds at present is said from the status of the binding. Of a node under none of the bindings its
//! labels or the claim on it say whose it is.

pub(in crate::cli) mod document;
mod node;
mod owner;
mod pod;
mod text;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kube::{Api, Resource as _};
use topoloom_api::ClusterBinding;
use topoloom_api::rules::is_dns_subdomain;
use topoloom_core::names::Uid;
use topoloom_sync::identity::mapping::VirtualPodRef;
use topoloom_sync::keys;
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::Binding;
use topoloom_sync::reclaim::PodRef;
use topoloom_sync::sizes::base_of;
use topoloom_syncer::convert::binding::{Reading, read};
use topoloom_syncer::slices::node::NodeSlice;
use topoloom_syncer::slices::pod::PodSlice;
use topoloom_syncer::survey::is_of_binding;
use topoloom_syncer::survey::lists::{self, LentLists, Scope};

use self::document::{LendExplanation, NodeExplained, PodExplained};
use self::pod::Judging;
use super::clusters::{Clusters, Common, Known, PairArgs, Seen, UNDEFINED};
use super::overlay::Overlay;
use crate::cli::output::OutputArgs;
use crate::cli::print;
use crate::cluster::Refusal;

/// How many pods of a machine are looked up because their virtual pod is bound elsewhere.
const LOOKED_UP: usize = 50;

/// Flags of `lend explain`.
#[derive(Debug, Args)]
pub(in crate::cli) struct LendExplainArgs {
    #[command(flatten)]
    pair: PairArgs,
    /// A node or a pod by its name in either cluster
    ///
    /// A name alone is a node, and if there is none, a pod in the namespace of the kubeconfig.
    #[arg(value_name = "NODE|[NAMESPACE/]POD", value_parser = subject)]
    subject: String,
    /// Only under this ClusterBinding; default: under every one that knows the node or the pod
    #[arg(long, value_name = "NAME")]
    binding: Option<String>,
    /// How many of the pods that use a node are listed
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    top: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is asked about. It ends in the paths of requests.
fn subject(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let is_one = parts.len() <= 2 && parts.iter().all(|part| is_dns_subdomain(part));
    let wanted = || "must be the name of a node, or [NAMESPACE/]NAME of a pod".to_owned();
    is_one.then(|| text.to_owned()).ok_or_else(wanted)
}

/// Explains.
pub(super) async fn run(args: LendExplainArgs) -> anyhow::Result<ExitCode> {
    let clusters = Clusters::connect(&args.pair, args.binding.as_deref()).await?;
    let stored = clusters.bindings().await?;
    let why_none = why_none(stored.as_deref(), args.binding.as_deref());
    let bindings = stored.unwrap_or_default();
    let is_meant = |binding: &&ClusterBinding| {
        args.binding.as_deref().is_none_or(|only| binding.metadata.name.as_deref() == Some(only))
    };
    let selected: Vec<&ClusterBinding> = bindings.iter().filter(is_meant).collect();
    if selected.is_empty() {
        match Box::pin(owner(&clusters, &bindings, &args.subject)).await {
            Some(owner) => anyhow::bail!("{why_none}; {owner}"),
            None => anyhow::bail!("{why_none}"),
        }
    }
    let asked = Asked { clusters: &clusters, bindings: &bindings, selected, top: args.top };
    let mut explanation =
        LendExplanation { time: clusters.now.wall.to_string(), nodes: Vec::new(), pod: None, remarks: Vec::new() };
    match args.subject.split_once('/') {
        Some((namespace, name)) => {
            explanation.pod = Box::pin(asked.pod(namespace, name, &mut explanation.remarks)).await?
        }
        None => {
            explanation.nodes = Box::pin(asked.nodes(&args.subject, &mut explanation.remarks)).await?;
            if explanation.nodes.is_empty() {
                let namespace = clusters.lent.default_namespace();
                explanation.pod = Box::pin(asked.pod(namespace, &args.subject, &mut explanation.remarks)).await?;
            }
        }
    }
    if explanation.nodes.is_empty() && explanation.pod.is_none() {
        explanation.remarks.iter().for_each(|remark| print::error(&format!("topoloom: {remark}")));
        if let Some(owner) = Box::pin(owner(&clusters, &bindings, &args.subject)).await {
            anyhow::bail!("{owner}");
        }
        let subject = topoloom_core::text::word(&args.subject);
        anyhow::bail!(
            "nothing called {subject} was found in the virtual cluster, nor in a physical one that it borrows from"
        );
    }
    args.output.print(&explanation, text::text)?;
    Ok(ExitCode::SUCCESS)
}

/// Why there is no binding to ask. `stored`: all of them; nothing where the cluster has no definition of them.
fn why_none(stored: Option<&[ClusterBinding]>, named: Option<&str>) -> String {
    match (stored, named) {
        (None, _) => UNDEFINED.to_owned(),
        (Some(_), Some(named)) => format!("there is no ClusterBinding {named}"),
        (Some(_), None) => "there are no ClusterBindings".to_owned(),
    }
}

/// Whose the node of this name is, by what is written on it; nothing where there is none, or nothing of it is ours.
async fn owner(clusters: &Clusters, bindings: &[ClusterBinding], name: &str) -> Option<String> {
    // A pod with its namespace.
    if name.contains('/') {
        return None;
    }
    let api: Api<NodeSlice> = Api::all(clusters.lent.clone());
    let node = api.get_opt(name).await.ok()??;
    owner::of(&node, bindings, &clusters.virtual_cluster)
}

/// What is asked, and of which bindings.
struct Asked<'a> {
    clusters: &'a Clusters,
    bindings: &'a [ClusterBinding],
    selected: Vec<&'a ClusterBinding>,
    top: usize,
}

impl Asked<'_> {
    /// The node under every binding that knows it.
    async fn nodes(&self, name: &str, remarks: &mut Vec<String>) -> anyhow::Result<Vec<NodeExplained>> {
        let api: Api<NodeSlice> = Api::all(self.clusters.lent.clone());
        let known = api.get_opt(name).await.map_err(|error| Refusal::of(&error))?;
        let mut nodes = Vec::new();
        for binding in &self.selected {
            match Box::pin(self.node(binding, name, known.as_ref(), remarks)).await {
                Ok(node) => nodes.extend(node),
                Err(error) => remarks.push(format!("binding {}: {error:#}", named(binding))),
            }
        }
        Ok(nodes)
    }

    async fn node(
        &self,
        binding: &ClusterBinding,
        name: &str,
        known: Option<&NodeSlice>,
        remarks: &mut Vec<String>,
    ) -> anyhow::Result<Option<NodeExplained>> {
        let terms = self.read(binding)?.terms;
        let physical = physical_name(name, known, &terms.binding);
        let Ok(lent) = virtual_node_name(&terms.binding.cluster, &physical) else { return Ok(None) };
        let scope = Scope::Machine { physical: &physical, lent: &lent };
        let (lists, mut seen) = self.look(binding, scope).await?;
        let Some(machine) = seen.survey.machine(&physical) else {
            return match seen.machines {
                Ok(_) => Ok(None),
                Err(why) => anyhow::bail!("the physical cluster was not read: {why}"),
            };
        };
        self.twins(&lists, &mut seen).await;
        seen.survey.without_limits();
        let now = self.clusters.now;
        let mut explained = seen.survey.see(&machine, now, |facts, decision| node::explained(facts, decision, now));
        // It is there, and no watch of the binding shows it.
        explained.lent |= seen.survey.stripped().contains_key(&lent);
        explained.why = seen.hindered.why.clone();
        explained.why.extend(node::held(&binding.status, &named(binding)));
        if let (Some(size), Ok(machines), Some(node)) =
            (&mut explained.size, &seen.machines, seen.survey.view.physical(&machine))
        {
            let (base, _) = base_of(&node.allocatable, &node.capacity);
            let names: HashMap<Uid, PodRef> =
                machines.lists.pods.iter().map(PodSlice::pod).map(|pod| (pod.uid.clone(), pod)).collect();
            (size.pods, size.other_pods) = node::usage(seen.survey.view.ledger.usage(&machine), &names, base, self.top);
        }
        if let Some(lease) = &mut explained.lease {
            match lists::renewal(&self.clusters.lent, &lent).await {
                Ok(at) => {
                    let lasts = Duration::from_secs(seen.reading.terms.heartbeats.seconds().into());
                    node::renewed(lease, at, lasts, now.wall);
                }
                Err(refusal) => remarks.push(format!("the lease of node {lent} could not be read: {refusal}")),
            }
        }
        remarks.extend(seen.remarks);
        if let Err(why) = &seen.machines {
            remarks.push(format!("binding {}: the physical cluster was not read: {why}", named(binding)));
        }
        Ok(Some(explained))
    }

    /// The pod, by its name in either cluster.
    async fn pod(
        &self,
        namespace: &str,
        name: &str,
        remarks: &mut Vec<String>,
    ) -> anyhow::Result<Option<PodExplained>> {
        if let Some(lent) = pod::read(&self.clusters.lent, namespace, name).await? {
            return self.virtual_pod(&lent, remarks).await.map(Some);
        }
        for binding in &self.selected {
            let reading = match self.read(binding) {
                Ok(reading) if reading.terms.mount_namespace == namespace => reading,
                Ok(_) => continue,
                Err(error) => {
                    remarks.push(format!("binding {}: {error:#}", named(binding)));
                    continue;
                }
            };
            let found = async {
                let client = self.clusters.physical(binding, &reading, self.bindings).await?;
                anyhow::Ok(pod::read(&client, namespace, name).await?)
            };
            match found.await {
                Ok(Some(physical)) => return self.physical_pod(binding, &physical, remarks).await.map(Some),
                Ok(None) => {}
                Err(error) => remarks.push(format!("binding {}: {error:#}", named(binding))),
            }
        }
        Ok(None)
    }

    async fn virtual_pod(&self, lent: &PodSlice, remarks: &mut Vec<String>) -> anyhow::Result<PodExplained> {
        let Some(node) = lent.node() else {
            return Ok(pod::alone(lent, "it is not bound to a node yet, so it has no physical pod".to_owned()));
        };
        let api: Api<NodeSlice> = Api::all(self.clusters.lent.clone());
        let found = api.get_opt(node).await.map_err(|error| Refusal::of(&error))?;
        for binding in &self.selected {
            let Ok(reading) = self.read(binding) else { continue };
            let terms = &reading.terms.binding;
            let Some(of_binding) = found.as_ref().filter(|node| is_of_binding(node, &terms.identity)) else { continue };
            let physical = physical_name(node, Some(of_binding), terms);
            let (_, seen) = self.look(binding, Scope::Machine { physical: &physical, lent: node }).await?;
            remarks.extend(seen.remarks.iter().cloned());
            let twin = match (&seen.machines, pod::named(lent)) {
                (Err(why), _) => return Ok(pod::unread(lent, terms.identity.binding(), why)),
                (Ok(_), None) => None,
                (Ok(machines), Some(named)) => pod::read(&machines.client, &named.namespace, &named.name).await?,
            };
            return Ok(self.explained(Some(lent), twin.as_ref(), &seen));
        }
        Ok(pod::alone(lent, format!("its node {node} is lent by none of the bindings that were asked")))
    }

    async fn physical_pod(
        &self,
        binding: &ClusterBinding,
        physical: &PodSlice,
        remarks: &mut Vec<String>,
    ) -> anyhow::Result<PodExplained> {
        let terms = self.read(binding)?.terms;
        let node = physical.node().unwrap_or_default();
        let lent_node = virtual_node_name(&terms.binding.cluster, node);
        let scope = match &lent_node {
            Ok(lent) => Scope::Machine { physical: node, lent },
            Err(_) => Scope::All,
        };
        let (_, seen) = self.look(binding, scope).await?;
        remarks.extend(seen.remarks.iter().cloned());
        let lent = match physical.names() {
            Some(named) => pod::read(&self.clusters.lent, &named.namespace, &named.name).await?,
            None => None,
        };
        Ok(self.explained(lent.as_ref(), Some(physical), &seen))
    }

    fn explained(&self, lent: Option<&PodSlice>, physical: Option<&PodSlice>, seen: &Seen) -> PodExplained {
        let terms = &seen.reading.terms;
        let uids = self.bindings.iter().filter_map(|binding| binding.metadata.uid.as_deref());
        let bindings: BTreeSet<Uid> = uids.map(Uid::from).collect();
        let judging = Judging {
            identity: &terms.binding.identity,
            bars: &seen.hindered.bars,
            orphan_delay: terms.orphan_delay,
            bindings: &bindings,
            now: self.clusters.now,
        };
        pod::explained(lent, physical, &judging)
    }

    fn read(&self, binding: &ClusterBinding) -> anyhow::Result<Reading> {
        read(binding, &self.clusters.around(&[])).map_err(|problems| anyhow::anyhow!("{problems}"))
    }

    async fn look(&self, binding: &ClusterBinding, scope: Scope<'_>) -> anyhow::Result<(LentLists, Seen)> {
        let mut lent = self.clusters.lists(scope).await?;
        if let Scope::Machine { .. } = scope {
            let binding = self.read(binding)?.terms.binding;
            lent.nodes.extend(lists::under_other_ids(&self.clusters.lent, &binding).await?);
        }
        let overlay = Overlay::default();
        let common = Common { bindings: self.bindings, lent: &lent, overlay: &overlay };
        let seen = self.clusters.look(binding, &common, scope, &mut Known::new()).await?;
        Ok((lent, seen))
    }

    /// The virtual pods of physical ones that are bound elsewhere: they say how much of the physical ones counts.
    async fn twins(&self, lists: &LentLists, seen: &mut Seen) {
        let Ok(machines) = &seen.machines else { return };
        let known: HashSet<Uid> = lists.pods.iter().map(|pod| pod.pod().uid).collect();
        let is_ours = |pod: &&PodSlice| {
            let labels = pod.metadata().labels.as_ref();
            labels
                .and_then(|labels| labels.get(keys::VIRTUAL_CLUSTER))
                .is_some_and(|of| **of == *self.clusters.virtual_cluster)
        };
        let named = machines.lists.pods.iter().filter(is_ours).filter_map(PodSlice::names);
        let elsewhere: Vec<VirtualPodRef> = named.filter(|named| !known.contains(&named.uid)).take(LOOKED_UP).collect();
        for named in elsewhere {
            if let Ok(Some(pod)) = pod::read(&self.clusters.lent, &named.namespace, &named.name).await
                && pod.pod().uid == named.uid
            {
                seen.survey.virtual_pod(pod);
            }
        }
    }
}

fn named(binding: &ClusterBinding) -> String {
    binding.metadata.name.clone().unwrap_or_default()
}

/// The physical node that is meant: by the annotation of its virtual node, by the form of that one's name, or as it is.
fn physical_name(name: &str, known: Option<&NodeSlice>, binding: &Binding) -> String {
    let ours = known.filter(|node| is_of_binding(node, &binding.identity));
    if let Some(physical) = ours.and_then(|node| node.meta().annotations.as_ref()?.get(keys::PHYSICAL_NODE_NAME)) {
        return physical.clone();
    }
    let of_any = virtual_node_name(&binding.cluster, "x").ok();
    let rest = of_any.and_then(|any| name.strip_prefix(any.strip_suffix('x')?));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests;
