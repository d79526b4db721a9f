//! `topoloom plugin`: plugin files at a desk, on their way into a cluster, and in service there. One file per verb.

mod bench;
mod diff;
mod file;
pub(super) mod inspect;
mod push;
mod run;
mod sandbox;
pub(super) mod serving;
mod sign;
mod target;
mod test;
mod watch;

pub(super) use bench::Benched;
pub(super) use file::read_bounded;
pub(super) use test::Tested;

use std::process::ExitCode;

use clap::Subcommand;

/// Verbs about plugins.
#[derive(Debug, Subcommand)]
pub(super) enum PluginVerb {
    /// Show for each source the active plugin, the candidate and the earlier plugins
    List(serving::PluginListArgs),
    /// Roll back to an earlier plugin
    Rollback(serving::RollbackArgs),
    /// Activate a waiting plugin, or end a rollback
    Continue(serving::ContinueArgs),
    /// Put a plugin file into a ConfigMap
    Push(push::PushArgs),
    /// Compare a plugin file with the active plugin of a source, on the live cluster; writes nothing
    Diff(diff::DiffArgs),
    /// Run one round over a file of nodes, or over those of a cluster, with the permissions that the plugin asks for
    Run(Box<run::PluginRunArgs>),
    /// Try every promise of a plugin, and its cases, without a cluster; fails where one does not hold
    Test(test::TestArgs),
    /// Measure a plugin over 1 000, 10 000 and 100 000 nodes, and how much of each limit it takes
    Bench(bench::BenchArgs),
    /// Show what a plugin is, what it requests, and whether the host would accept it
    Inspect(inspect::InspectArgs),
    /// Sign a plugin: write a .sig file beside it, for hosts that require signatures
    Sign(sign::SignArgs),
}

/// Does what the verb says.
pub(super) async fn run(verb: PluginVerb) -> anyhow::Result<ExitCode> {
    match verb {
        PluginVerb::List(args) => serving::show(args).await,
        PluginVerb::Rollback(args) => serving::rollback(args).await,
        PluginVerb::Continue(args) => serving::go_on(args).await,
        PluginVerb::Push(args) => push::run(args).await,
        PluginVerb::Diff(args) => diff::run(args).await,
        PluginVerb::Run(args) => Box::pin(run::run(*args)).await,
        PluginVerb::Test(args) => Box::pin(test::run(args)).await,
        PluginVerb::Bench(args) => bench::run(args).await,
        PluginVerb::Inspect(args) => inspect::run(args).await,
        PluginVerb::Sign(args) => sign::run(args).await,
    }
}
