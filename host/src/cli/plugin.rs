//! `topoloom plugin`: what can be done with a plugin file at a desk, before it sees a cluster. One file per verb.

mod file;
mod inspect;
mod sandbox;
mod sign;

use std::process::ExitCode;

use clap::Subcommand;

/// Verbs about plugin files.
#[derive(Debug, Subcommand)]
pub(super) enum PluginVerb {
    /// Show what a plugin is, what it asks for, and whether the host would take it
    Inspect(inspect::InspectArgs),
    /// Sign a plugin: write FILE.sig beside it, for hosts that ask for signatures
    Sign(sign::SignArgs),
}

/// Does what the verb says.
pub(super) async fn run(verb: PluginVerb) -> anyhow::Result<ExitCode> {
    match verb {
        PluginVerb::Inspect(args) => inspect::run(args).await,
        PluginVerb::Sign(args) => sign::run(args).await,
    }
}
