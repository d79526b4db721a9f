//! `topoloom fabric`: report on the cabling of fabrics, and simulate a fabric.

pub(super) mod report;
mod simulate;

use std::process::ExitCode;

use clap::Subcommand;

/// Verbs about fabrics.
#[derive(Debug, Subcommand)]
pub(super) enum FabricVerb {
    /// Show what is wrong with the cabling, with evidence: wrong cables, dead links, switches that serve two units,
    /// names that match no Node
    Report(report::ReportArgs),
    /// Simulate a fabric manager over a generated fabric, with faults on request, until interrupted
    Simulate(simulate::SimulateArgs),
}

/// Does what the verb says.
pub(super) async fn run(verb: FabricVerb) -> anyhow::Result<ExitCode> {
    match verb {
        FabricVerb::Report(args) => report::run(args).await,
        FabricVerb::Simulate(args) => simulate::run(args).await,
    }
}
