//! `topoloom status`: the leader, the replicas, the state of each source and each binding, and what waits for a person.
//!
//! It only reads. A right that is missing makes a remark and not a failure: at three in the morning half an answer is
//! worth more than none.

mod admin;
mod advice;
mod bindings;
mod look;
mod show;
mod waits;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::admin as server;
use super::host_args::{HostArgs, RivalArgs};
use super::output::parts::PlacedNodes;
use super::output::{Document, OutputArgs};
use crate::cluster::leases::LeaseStatus;
use crate::topology::writers::ForeignWriter;
use bindings::Binding;
use waits::Waiting;

/// Flags of `status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    rivals: RivalArgs,
    /// The label selector for the pods of the replicas, as in kubectl; default: the labels of the leader's pod
    #[arg(long, env = "TOPOLOOM_SELECTOR", value_name = "LABELS")]
    selector: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// The admin server of one replica, for details about it: PORT, IP:PORT or a URL; default: 8082, if it answers
    #[arg(long, value_name = "ADDRESS", value_parser = server::address)]
    admin: Option<SocketAddr>,
}

/// Who leads, the replicas, each source and what waits.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// When, by the clock of the API server, RFC 3339.
    time: String,
    /// The version of the API server.
    server: String,
    /// The version of this command.
    version: &'static str,
    /// Where the configuration is.
    config: String,
    /// Whether the annotation ends all writes; absent if it could not be read.
    read_only: Option<bool>,
    leases: Vec<Lease>,
    replicas: Vec<Replica>,
    sources: Vec<Source>,
    /// The ClusterBindings: what is lent to this cluster.
    bindings: Vec<Binding>,
    /// Parts of the configuration that wait for a person.
    waits: Vec<Waiting>,
    second_writers: SecondWriters,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<OneReplica>,
    /// What could not be read, and what is unusual.
    remarks: Vec<String>,
}

impl Document for Status {
    const KIND: &'static str = "Status";
}

/// The lease of one group.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    group: &'static str,
    #[serde(flatten)]
    held: LeaseStatus,
}

/// One replica.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replica {
    /// The pod.
    name: String,
    /// The groups that it leads.
    leads: Vec<&'static str>,
    /// The state of its pod, if it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Pod>,
}

/// What a pod reports.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    image: String,
    ready: bool,
    phase: String,
    restarts: i32,
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_seconds: Option<i64>,
}

/// One source.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    source: String,
    state: &'static str,
    /// Name and version of the active plugin.
    plugin: String,
    digest: String,
    nodes: Option<PlacedNodes>,
    groups: Option<i64>,
    /// Seconds since a round succeeded. What is stored is refreshed every ten minutes at least.
    lag_seconds: Option<i64>,
    message: String,
    waits: Vec<Waiting>,
}

/// Other programs that write HyperNodes.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SecondWriters {
    leases: Vec<LeaseStatus>,
    managers: Vec<ForeignWriter>,
}

/// The answer of the admin server of one replica.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OneReplica {
    admin: String,
    version: String,
    ready: bool,
    /// The lines of `/readyz`.
    lines: Vec<String>,
    queues: Vec<Queue>,
}

/// One work queue of it.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Queue {
    name: String,
    waiting: u64,
    later: u64,
    working: u64,
    resting: u64,
    retries: u64,
}

/// Looks, and prints what it saw.
pub(super) async fn run(args: StatusArgs) -> anyhow::Result<ExitCode> {
    let mut status = look::look(&args).await?;
    match admin::look(args.admin.unwrap_or(server::USUAL)).await {
        Ok(replica) => status.replica = Some(replica),
        // No flag says that there is one.
        Err(_) if args.admin.is_none() => {}
        Err(error) => status.remarks.push(format!("{error:#}")),
    }
    args.output.print(&status, show::text)?;
    Ok(ExitCode::SUCCESS)
}
