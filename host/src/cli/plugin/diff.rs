//! `topoloom plugin diff`: the shadow round of a swap, from the operator's desk. Nothing is written.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::rollout::Rails;

use super::file::PluginFile;
use super::place::{PluginPlace, RegistryArgs};
use crate::cli::live::Live;
use crate::cli::{ClusterArgs, print};

/// Exit code for a plugin that would wait for a person.
const HELD: u8 = 3;

/// Flags of `plugin diff`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The plugin: a component, packed with zstd or not; or a reference, oci://REGISTRY/NAME:TAG
    file: PluginPlace,
    /// The source that would use it, with its entry as it is in the cluster
    #[arg(long)]
    source: SourceName,
    #[command(flatten)]
    registry: RegistryArgs,
}

pub(super) async fn run(args: DiffArgs) -> anyhow::Result<ExitCode> {
    let file = PluginFile::find(&args.file, &args.registry).await?;
    let mut live = Live::look(&args.cluster).await?;
    let compared = live.compare(&args.source, file.module()).await.context("comparing")?;
    let mut text = String::new();
    let _ =
        writeln!(text, "source {}, {} nodes, as the cluster is now; nothing was written", args.source, compared.nodes);
    push_line!(text, "serving:   {}", compared.serving);
    push_line!(text, "candidate: {}", compared.candidate);
    let comparison = match &compared.comparison {
        Ok(comparison) => comparison,
        Err(message) => {
            print::out(&text);
            bail!("the candidate would be refused: {message}")
        }
    };
    push_line!(text, "\n{comparison}");
    for (tier, (old, new)) in &comparison.groups {
        push_line!(text, "  tier {tier}: {old} groups now, {new} with the candidate");
    }
    for line in &compared.changes {
        push_line!(text, "  {line}");
    }
    let held = Rails::default().hold(comparison);
    let verdict = match held {
        true => "a host would hold it until `topoloom plugin continue`",
        false => "a host would activate it",
    };
    push_line!(text, "{verdict}");
    print::out(&text);
    Ok(if held { ExitCode::from(HELD) } else { ExitCode::SUCCESS })
}
