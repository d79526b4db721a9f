//! `topoloom lend …`: nodes that one cluster lends to another (decision S23).
//!
//! `plan`, `explain` and `report` look once and write nothing. What they show is decided by the very functions that the controllers
//! call, over a [`View`](topoloom_syncer::view::View) that lists fill in place of watches.

mod amounts;
mod clusters;
pub(super) mod explain;
mod overlay;
mod parts;
pub(super) mod plan;
pub(super) mod report;

use std::process::ExitCode;

use clap::Subcommand;

/// Verbs about lending.
#[derive(Debug, Subcommand)]
pub(super) enum LendCommand {
    /// Show what would be lent, resized, taken away and evicted, now and at the next boundary; writes nothing
    ///
    /// With -f the objects in a file count as if they were applied. Exit code 2: the guard would hold a part of it, and
    /// the numbers are printed. 1: something is wrong with the file, or a cluster could not be read.
    Plan(plan::LendPlanArgs),
    /// Show why a node lends as much as it does, or what becomes of a lent pod; writes nothing
    Explain(explain::LendExplainArgs),
    /// Show what is lent, used and idle by binding and policy, and what waits; writes nothing
    Report(report::LendReportArgs),
}

/// Does what the verb says.
pub(super) async fn run(command: LendCommand) -> anyhow::Result<ExitCode> {
    match command {
        LendCommand::Plan(args) => plan::run(args).await,
        LendCommand::Explain(args) => explain::run(args).await,
        LendCommand::Report(args) => report::run(args).await,
    }
}
