//! `topoloom explain NODE`: where a node is placed, by what, or why it is not.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::names::{NodeName, SourceName};
use topoloom_core::topology::{FindingSubject, Object};

use super::ClusterArgs;
use super::live::{Live, heading, outcome};
use super::output::parts::{Plugin, texts};
use super::output::{Document, OutputArgs};
use crate::discovery::oneshot::{OneshotResult, Shot};

/// Flags of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The node
    node: NodeName,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Where a node is placed by each source, and why, or why not.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explained {
    node: String,
    /// Whether the cluster has a Node of that name.
    exists: bool,
    sources: Vec<UnderSource>,
}

impl Document for Explained {
    const KIND: &'static str = "Explanation";
}

/// What one source makes of the node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnderSource {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<Plugin>,
    /// The labels and annotations that the plugin could read.
    read: Vec<Column>,
    /// Why a round has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Each place that a round gives it now; empty if it has none.
    placements: Vec<Placement>,
    /// Findings of the plugin about it.
    because: Vec<Remark>,
    /// The stored HyperNodes of the source that list it.
    in_force: Vec<String>,
    /// As the text has it.
    #[serde(skip)]
    heading: String,
}

/// A label or an annotation of the node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Column {
    /// Its key, as the text has it.
    key: String,
    /// Its value; absent where the node has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

/// A place, from the inside out.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Placement {
    groups: Vec<Group>,
}

/// A group that the node is in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Group {
    tier: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier_name: Option<String>,
    /// The HyperNode; absent where it would get no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    labels: BTreeMap<String, String>,
}

/// A finding of a plugin.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Remark {
    /// A short stable word for the kind.
    code: String,
    detail: String,
}

/// Explains one node under every source.
pub(super) async fn run(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let mut live = Live::look(&args.cluster).await?;
    let shots = live.rounds(args.source.as_ref()).await?;
    let objects = live.objects();
    let explained = Explained {
        exists: live.store.view(&[]).find(&args.node).is_some(),
        sources: shots.iter().map(|shot| under(&live, &objects, shot, &args.node)).collect(),
        node: args.node.to_string(),
    };
    args.output.print(&explained, text)?;
    let code = outcome(&shots);
    Ok(if explained.exists { code } else { ExitCode::FAILURE })
}

fn under(live: &Live, objects: &[Arc<Object>], shot: &Shot, node: &NodeName) -> UnderSource {
    let found = shot.result.as_ref().ok();
    let of_source = objects.iter().filter(|object| shot.entry.owns(object));
    let listing = of_source.filter(|object| object.spec.exact_nodes().any(|name| **name == **node));
    UnderSource {
        source: shot.entry.to_string(),
        plugin: Plugin::of(shot),
        read: read(live, shot, node),
        error: shot.result.as_ref().err().map(ToString::to_string),
        placements: found.map(|found| placements(found, node)).unwrap_or_default(),
        because: found.map(|found| remarks(found, node)).unwrap_or_default(),
        in_force: listing.map(|object| object.name.to_string()).collect(),
        heading: heading(shot),
    }
}

/// What the plugin could read of the node.
fn read(live: &Live, shot: &Shot, node: &NodeName) -> Vec<Column> {
    let Some(revision) = &shot.revision else { return Vec::new() };
    let view = live.store.view(&revision.keys);
    let Some(row) = view.find(node) else { return Vec::new() };
    let column = |key| Column { value: view.value(row, key).map(|value| value.to_string()), key: key.to_string() };
    revision.keys.iter().map(column).collect()
}

/// Where the result puts the node.
fn placements(found: &OneshotResult, node: &NodeName) -> Vec<Placement> {
    let domains = found.decision.forest.domains();
    let mut parents: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, domain) in domains.iter().enumerate() {
        parents.extend(domain.children.iter().map(|child| (*child, index)));
    }
    let names: BTreeMap<&str, &Arc<str>> = found
        .decision
        .named
        .objects
        .iter()
        .filter_map(|(name, object)| Some((object.group_id.as_deref()?, name)))
        .collect();
    let direct = domains.iter().enumerate();
    let direct = direct.filter(|(_, domain)| domain.nodes.binary_search_by(|name| name.cmp(node)).is_ok());
    let placement = |(index, _)| {
        let upwards = std::iter::successors(Some(index), |index| parents.get(index).copied());
        let groups = upwards.filter_map(|index| domains.get(index)).map(|domain| Group {
            tier: domain.tier.get(),
            tier_name: domain.tier_name.as_ref().map(ToString::to_string),
            name: names.get(&*domain.id).map(ToString::to_string),
            labels: texts(&domain.labels),
        });
        Placement { groups: groups.collect() }
    };
    direct.map(placement).collect()
}

/// What the plugin remarked about the node.
fn remarks(found: &OneshotResult, node: &NodeName) -> Vec<Remark> {
    let findings = found.decision.forest.findings().iter();
    let about =
        findings.filter(|finding| matches!(&finding.subject, FindingSubject::Nodes(nodes) if nodes.contains(node)));
    about.map(|finding| Remark { code: finding.code.to_string(), detail: finding.detail.clone() }).collect()
}

fn text(explained: &Explained) -> String {
    let mut text = String::new();
    if !explained.exists {
        push_line!(text, "there is no Node {:?} in the cluster", explained.node);
    }
    for source in &explained.sources {
        source.text(&mut text);
    }
    if explained.sources.is_empty() {
        text.push_str("no entry of the configuration is enabled\n");
    }
    text
}

impl UnderSource {
    fn text(&self, text: &mut String) {
        push_line!(text, "{}", self.heading);
        if !self.read.is_empty() {
            text.push_str("  read:\n");
        }
        for Column { key, value } in &self.read {
            let value = value.as_ref().map_or_else(|| "(absent)".to_owned(), |value| format!("{value:?}"));
            push_line!(text, "    {key} = {value}");
        }
        for placement in &self.placements {
            text.push_str("  placed:\n");
            for Group { tier, tier_name, name, labels } in &placement.groups {
                let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let name = name.as_deref().unwrap_or("(not named)");
                let tier_name = tier_name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
                push_line!(text, "    tier {tier}{tier_name}  {name}  {}", labels.join(","));
            }
        }
        match &self.error {
            Some(message) => {
                push_line!(text, "  no result: {message}");
            }
            None if self.placements.is_empty() => text.push_str("  not placed\n"),
            None => {}
        }
        for Remark { code, detail } in &self.because {
            push_line!(text, "  because ({code}): {detail}");
        }
        let listing = if self.in_force.is_empty() { "in no HyperNode".to_owned() } else { self.in_force.join(", ") };
        push_line!(text, "  in force: {listing}");
    }
}
