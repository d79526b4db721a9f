//! `topoloom source …` and `topoloom confirm`: the operator's verbs (decision H17).

pub(super) mod list;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topoloom_api::discovery_source::State;
use topoloom_api::names::{CONFIRM_ANNOTATION, PAUSE_ANNOTATION, RUN_ANNOTATION};
use topoloom_api::{DiscoverySource, HyperNode, object_name};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;
use topoloom_core::topology::Object;

use super::live::{self, Live};
use super::{ClusterArgs, print};
use crate::cluster::{Refusal, RefusalReason};
use crate::config::EntryState;
use crate::delivery::modules;
use crate::discovery::supervisor::remove;
use crate::topology::apply::Writer;
use crate::topology::convert;
use crate::topology::metrics::WriteMetrics;
use crate::topology::observe::HyperNodes;

/// Deletes under way at most.
const CONCURRENCY: usize = 8;

/// The field manager of what a person does with this command line.
pub(super) const OPERATOR: &str = "topoloom-cli";

/// Flags of `confirm`.
#[derive(Debug, Args)]
pub(super) struct ConfirmArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source whose result is held
    source: SourceName,
    /// Confirm only if the held result has this hash
    #[arg(long, value_name = "HASH")]
    result: Option<String>,
}

/// Verbs about sources.
#[derive(Debug, Subcommand)]
pub(super) enum SourceVerb {
    /// Show every source: state, plugin, coverage and message
    List(list::SourceListArgs),
    /// Delete what a removed source left: its HyperNodes, in a safe order, and its DiscoverySource
    Delete(DeleteArgs),
    /// Run a round now
    Run(NameArgs),
    /// Stop the rounds and writes of a source, until resumed
    Pause(PauseArgs),
}

/// A source.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source
    source: SourceName,
}

/// Flags of `source pause`.
#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source
    source: SourceName,
    /// Resume rounds and writes
    #[arg(long)]
    resume: bool,
}

/// Flags of `source delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The source
    source: SourceName,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Delete even if a host may still run the source
    #[arg(long)]
    force: bool,
}

/// Confirms what is held.
pub(super) async fn confirm(args: ConfirmArgs) -> anyhow::Result<ExitCode> {
    let api: Api<DiscoverySource> = Api::all(args.cluster.connect().await?);
    let object = get(&api, &args.source).await?;
    let Some(held) = object.status.held else {
        bail!("source {:?} has no held result: there is nothing to confirm", args.source);
    };
    if let Some(wanted) = args.result.filter(|wanted| *wanted != held.hash) {
        bail!(
            "source {:?} holds result {}, not {wanted}: look at it again (`topoloom plan --source {}`)",
            args.source,
            held.hash,
            args.source
        );
    }
    annotate(&api, &args.source, CONFIRM_ANNOTATION, Some(&held.hash)).await?;
    print::out(&format!("confirmed result {} of source {}: {}\n", held.hash, args.source, held.sentence));
    Ok(ExitCode::SUCCESS)
}

/// Does what a verb says.
pub(super) async fn run(verb: SourceVerb) -> anyhow::Result<ExitCode> {
    match verb {
        SourceVerb::List(args) => list::run(&args).await,
        SourceVerb::Delete(args) => delete(&args).await,
        SourceVerb::Run(args) => {
            let api: Api<DiscoverySource> = Api::all(args.cluster.connect().await?);
            annotate(&api, &args.source, RUN_ANNOTATION, Some(&jiff::Timestamp::now().to_string())).await?;
            print::out(&format!("requested a round of source {}\n", args.source));
            Ok(ExitCode::SUCCESS)
        }
        SourceVerb::Pause(args) => {
            let api: Api<DiscoverySource> = Api::all(args.cluster.connect().await?);
            annotate(&api, &args.source, PAUSE_ANNOTATION, (!args.resume).then_some("true")).await?;
            let what = if args.resume { "continues" } else { "is paused: no rounds, no writes" };
            print::out(&format!("source {} {what}\n", args.source));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Why a host seems to run the source, as far as its DiscoverySource shows.
async fn running(client: &kube::Client, source: &SourceName) -> anyhow::Result<Option<String>> {
    let api: Api<DiscoverySource> = Api::all(client.clone());
    match api.get_opt(&object_name(source)).await.map_err(|error| Refusal::of(&error)) {
        Ok(object) => Ok(object.and_then(|object| object.status.state).and_then(|state| {
            let runs = state != State::Disabled;
            runs.then(|| {
                format!("its DiscoverySource says {}, so a host runs it or has not seen that it is off", state.as_str())
            })
        })),
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => Ok(None),
        Err(refusal) => Err(refusal).context("reading the DiscoverySource"),
    }
}

async fn delete(args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let live = Live::look(&args.cluster).await?;
    // An entry that is wrong still runs in its last good version.
    match live.document.state_of(&args.source) {
        EntryState::Enabled(_) | EntryState::Invalid(_) => bail!(
            "source {:?} has an enabled entry in the configuration: disable or remove it first, or the host would create its HyperNodes again",
            args.source
        ),
        EntryState::Disabled(_) | EntryState::Absent => {}
    }
    let client = live.client.clone();
    if !args.force {
        let wrong = live.no_config.then(|| "there is no ConfigMap that shows whether it is switched off".to_owned());
        let unnamed = || {
            let unnamed = !live.document.names_all_sources();
            unnamed.then(|| "an entry of the configuration has no readable `source`, which may be this one".to_owned())
        };
        let runs = running(&client, &args.source).await?;
        if let Some(why) = wrong.or_else(unnamed).or(runs) {
            bail!("source {:?} is not deleted: {why}. If you are sure, add --force", args.source);
        }
    }
    let hyper_nodes = live::list::<HyperNode>(&client).await.context("listing HyperNodes")?;
    let objects: Vec<Arc<Object>> = hyper_nodes.iter().map(convert::object).map(Arc::new).collect();
    let source = &args.source;
    let count = objects.iter().filter(|object| object.source.as_ref() == Some(source)).count();
    let shown = live.sources.iter().any(|shown| shown.status.source == **source);
    if count == 0 && !shown {
        bail!("there is no source {:?}: it owns no HyperNode and has no DiscoverySource", args.source);
    }
    if args.dry_run {
        print::out(&format!("{count} HyperNodes of source {} would be deleted\n", args.source));
        return Ok(ExitCode::SUCCESS);
    }
    let known = Arc::new(HyperNodes::default());
    hyper_nodes.iter().for_each(|object| known.written(object));
    let writer = Writer {
        client: client.clone(),
        hyper_nodes: known,
        concurrency: CONCURRENCY,
        metrics: WriteMetrics::default(),
        stop: CancellationToken::new(),
    };
    let removal = remove(&writer, source).await;
    if let Some(why) = removal.left {
        bail!("{} of {count} HyperNodes deleted; {why}", removal.deleted);
    }
    let api: Api<DiscoverySource> = Api::all(client.clone());
    match api.delete(&object_name(&args.source), &DeleteParams::default()).await.map_err(|error| Refusal::of(&error)) {
        Ok(_) => {}
        Err(refusal) if matches!(refusal.reason, RefusalReason::NotFound | RefusalReason::NoSuchResource) => {}
        Err(refusal) => return Err(refusal).context("deleting the DiscoverySource"),
    }
    let modules = forget_modules(&client, &live.own_namespace, &live.sources, &args.source).await;
    print::out(&format!("{count} HyperNodes of source {} deleted{modules}\n", args.source));
    Ok(ExitCode::SUCCESS)
}

/// Deletes the modules that were kept for this source and for no other. Returns the end of the message about it.
async fn forget_modules(
    client: &kube::Client,
    namespace: &str,
    sources: &[DiscoverySource],
    source: &SourceName,
) -> String {
    let (own, others): (Vec<_>, Vec<_>) = sources.iter().partition(|other| other.status.source == **source);
    let others: BTreeSet<Digest> = others.iter().flat_map(|other| modules::wanted(&other.status)).collect();
    let own: BTreeSet<Digest> = own.iter().flat_map(|own| modules::wanted(&own.status)).collect();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut deleted = 0;
    for digest in own.difference(&others) {
        match modules::delete(&api, *digest).await {
            Ok(found) => deleted += usize::from(found),
            Err(refusal) => print::error(&format!("topoloom: a stored module could not be deleted: {refusal}")),
        }
    }
    if deleted == 0 { String::new() } else { format!(", and {deleted} modules that were stored for it") }
}

pub(super) async fn get(api: &Api<DiscoverySource>, source: &SourceName) -> anyhow::Result<DiscoverySource> {
    match api.get_opt(&object_name(source)).await.map_err(|error| Refusal::of(&error))? {
        Some(object) => Ok(object),
        None => bail!("there is no source {source:?} (`topoloom source list` shows all)"),
    }
}

pub(super) async fn annotate(
    api: &Api<DiscoverySource>,
    source: &SourceName,
    key: &str,
    value: Option<&str>,
) -> anyhow::Result<()> {
    get(api, source).await?;
    let body = json!({"metadata": {"annotations": {key: value}}});
    let parameters = PatchParams { field_manager: Some(OPERATOR.into()), ..PatchParams::default() };
    api.patch(&object_name(source), &parameters, &Patch::Merge(&body))
        .await
        .map_err(|error| Refusal::of(&error))
        .with_context(|| format!("annotating the DiscoverySource of {source:?}"))?;
    Ok(())
}
