//! `topoloom source list`.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::DiscoverySource;

use crate::cli::live::list;
use crate::cli::output::parts::{PlacedNodes, Plugin};
use crate::cli::output::{Document, OutputArgs};
use crate::cli::{ClusterArgs, print};

/// Characters of a digest that a table shows.
const DIGEST: usize = 19;

/// Flags of `source list`.
#[derive(Debug, Args)]
pub(in crate::cli) struct SourceListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Every source, as its DiscoverySource says.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Sources {
    sources: Vec<Source>,
}

impl Document for Sources {
    const KIND: &'static str = "SourceList";
}

/// One source.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Source {
    source: String,
    /// What it is doing, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// The reason for the state.
    message: String,
    /// The active plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<Plugin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<PlacedNodes>,
    /// HyperNodes of the topology in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<i64>,
    /// When a round last succeeded, RFC 3339. Refreshed every ten minutes at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<String>,
}

/// Shows every source.
pub(in crate::cli) async fn run(args: &SourceListArgs) -> anyhow::Result<ExitCode> {
    let client = args.cluster.connect().await?;
    let mut sources = list::<DiscoverySource>(&client).await.context("listing DiscoverySources")?;
    sources.sort_by(|a, b| a.status.source.cmp(&b.status.source));
    let sources = Sources { sources: sources.iter().map(source).collect() };
    args.output.print(&sources, table)?;
    Ok(ExitCode::SUCCESS)
}

fn source(object: &DiscoverySource) -> Source {
    let status = &object.status;
    Source {
        source: status.source.clone(),
        state: status.state.map(|state| state.as_str()),
        message: status.message.clone(),
        plugin: Plugin::serving(status),
        nodes: status.nodes.map(PlacedNodes::from),
        groups: status.groups,
        last_success: status.last_success.clone(),
    }
}

fn table(sources: &Sources) -> String {
    let head = ["SOURCE", "STATE", "PLUGIN", "DIGEST", "NODES", "GROUPS", "LAST SUCCESS", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let none = || "-".to_owned();
    for source in &sources.sources {
        let plugin = source.plugin.as_ref();
        rows.push(vec![
            source.source.clone(),
            source.state.unwrap_or("-").to_owned(),
            plugin.map_or_else(none, |plugin| format!("{} {}", plugin.name, plugin.version)),
            plugin.map_or_else(none, |plugin| plugin.digest.chars().take(DIGEST).collect()),
            source.nodes.map_or_else(none, |nodes| format!("{}/{}", nodes.covered, nodes.total)),
            source.groups.map_or_else(none, |groups| groups.to_string()),
            source.last_success.clone().unwrap_or_else(none),
            source.message.clone(),
        ]);
    }
    print::table(&rows)
}
