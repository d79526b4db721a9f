//! `topoloom lock …`: who holds which node, why, and how a lock is taken away by hand (decision N9).
//!
//! What a verdict needs is read anew; nothing is believed that a cache says. Only `release` writes.

mod explain;
mod list;
mod look;
mod release;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::nodelock::{Retry, Takeover};

use super::ClusterArgs;
use super::options::values;
use super::plugin::read_bounded;
use crate::config::lock_resources;
use crate::nodelock::lock::Options;

/// Verbs about node locks.
#[derive(Debug, Subcommand)]
pub(super) enum LockVerb {
    /// Show every node on which a lock stands: its holder, its age, how it stands and why
    List(ListArgs),
    /// Say everything about the locks of one node, and what happens next
    Explain(NodeArgs),
    /// Remove a lock by hand, if it still is the one that you saw
    Release(ReleaseArgs),
}

/// Where, and by which terms a lock is judged.
#[derive(Debug, Args)]
pub(super) struct TermsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How long a lock lasts whose pod does not tell whether it holds it, as `run` has it
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_TIMEOUT", value_name = "DURATION", default_value = "5m", value_parser = values::lasting::<10_000, 86_400_000>)]
    node_lock_timeout: Duration,
    /// Who loses a lock for its age alone, as `run` has it
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_TAKEOVER", value_enum, default_value_t = TakeoverWord::State)]
    node_lock_takeover: TakeoverWord,
    /// The resources that need the lock, as `run` has it
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_RESOURCES", value_name = "FILE", value_parser = values::path)]
    node_lock_resources: Option<PathBuf>,
}

/// Whom age alone robs, as flags have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TakeoverWord {
    /// Nobody whose device plugin may still be asked
    State,
    /// Everybody
    Age,
}

impl From<TakeoverWord> for Takeover {
    fn from(word: TakeoverWord) -> Self {
        match word {
            TakeoverWord::State => Self::State,
            TakeoverWord::Age => Self::Age,
        }
    }
}

/// Flags of `lock list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    terms: TermsArgs,
    /// Text for people or JSON for programs
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Flags of `lock explain`.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    terms: TermsArgs,
    /// The node
    node: String,
}

/// Flags of `lock release`.
#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    terms: TermsArgs,
    /// The node
    node: String,
    /// The whole value of the lock that you saw: another one is left alone
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    expect: Option<String>,
    /// Remove it although its pod holds it: it may be given another pod's devices
    #[arg(long)]
    even_if_live: bool,
}

impl TermsArgs {
    fn options(&self) -> Options {
        Options { ttl: self.node_lock_timeout, takeover: self.node_lock_takeover.into(), retry: Retry::CLASSIC }
    }

    fn backends(&self) -> anyhow::Result<Vec<Backend>> {
        let Some(path) = &self.node_lock_resources else { return Ok(Backend::known()) };
        let named = || format!("--node-lock-resources {}", path.display());
        let bytes = read_bounded(path, lock_resources::LARGEST).map_err(|error| error.context(named()))?;
        let read = lock_resources::parse(&String::from_utf8(bytes)?)?;
        if let Some(problem) = read.problems.first() {
            anyhow::bail!("{}: {problem}", named());
        }
        Ok(read.backends)
    }
}

/// Does what is asked for.
pub(super) async fn run(verb: LockVerb) -> anyhow::Result<ExitCode> {
    match verb {
        LockVerb::List(args) => list::run(args).await,
        LockVerb::Explain(args) => explain::run(args).await,
        LockVerb::Release(args) => release::run(args).await,
    }
}
