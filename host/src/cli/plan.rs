//! `topoloom plan`: what a round would write now.

pub(super) mod document;

use std::process::ExitCode;

use clap::Args;
use topoloom_core::names::SourceName;
use topoloom_core::topology::guard::GuardVerdict;

use super::ClusterArgs;
use super::live::{Live, heading, outcome};
use super::output::OutputArgs;
use crate::discovery::oneshot::Shot;
use document::Plans;

/// Flags of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    /// Exit with 3 if there is something to write, and with 1 if no entry is enabled
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Exit code of `--exit-code` when there is something to write.
const DUE: u8 = 3;

/// Prints the plan of every source.
pub(super) async fn run(args: PlanArgs) -> anyhow::Result<ExitCode> {
    let mut live = Live::look(&args.cluster).await?;
    let shots = live.rounds(args.source.as_ref()).await?;
    args.output.print(&Plans::of(&shots), |_| text(&shots))?;
    let due = shots.iter().any(|shot| shot.result.as_ref().is_ok_and(|found| !found.decision.plan.is_empty()));
    Ok(match outcome(&shots) {
        // A script that reads the exit code takes "nothing to write" for "all is well".
        ExitCode::SUCCESS if shots.is_empty() && args.exit_code => ExitCode::FAILURE,
        ExitCode::SUCCESS if due && args.exit_code => ExitCode::from(DUE),
        code => code,
    })
}

fn text(shots: &[Shot]) -> String {
    let mut text = String::new();
    for shot in shots {
        push_line!(text, "{}", heading(shot));
        match &shot.result {
            Err(message) => {
                push_line!(text, "  no plan: {message}");
            }
            Ok(found) => {
                let plan = &found.decision.plan;
                if let GuardVerdict::Held(held) = &found.decision.verdict {
                    push_line!(text, "  held, nothing of this would be written: {}", held.sentence);
                    push_line!(text, "  result {}", found.decision.hash);
                }
                let body = plan.to_string();
                body.lines().for_each(|line| {
                    push_line!(text, "  {line}");
                });
            }
        }
    }
    if shots.is_empty() {
        text.push_str("no entry of the configuration is enabled\n");
    }
    text
}
