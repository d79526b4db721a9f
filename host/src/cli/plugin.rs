//! `topoloom plugin`: what can be done with a plugin file at a desk, before it sees a cluster. One file per verb.

mod file;
mod sandbox;
mod sign;

use std::process::ExitCode;

use clap::Subcommand;

/// Verbs about plugin files.
#[derive(Debug, Subcommand)]
pub(super) enum PluginVerb {
    /// Sign a plugin: write FILE.sig beside it, for hosts that ask for signatures
    Sign(sign::SignArgs),
}

/// Does what the verb says.
pub(super) async fn run(verb: PluginVerb) -> anyhow::Result<ExitCode> {
    match verb {
        PluginVerb::Sign(args) => sign::run(args).await,
    }
}
