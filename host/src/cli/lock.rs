//! `topoloom lock …`: the holders of nodes, why they hold them, and the release of a lock by hand (decision N9).
//!
//! Every verdict is made of live reads; no cache is trusted. Only `release` writes.

pub(super) mod explain;
pub(super) mod list;
mod look;
mod release;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use topoloom_core::names::NodeName;
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::nodelock::{Retry, Takeover};

use super::ClusterArgs;
use super::options::values;
use super::output::OutputArgs;
use super::plugin::read_bounded;
use crate::config::lock_resources;
use crate::nodelock::lock::{EXPIRE_DEFAULT, EXPIRE_VARIABLE, Options};

/// Verbs about node locks.
#[derive(Debug, Subcommand)]
pub(super) enum LockVerb {
    /// Show every locked node: the holder of the lock, its age, its state and why
    List(LockListArgs),
    /// Show everything about the locks of one node, and what happens next
    Explain(NodeArgs),
    /// Remove a lock by hand, if it is still the one that you saw
    Release(ReleaseArgs),
}

/// Where, and by which terms a lock is judged.
#[derive(Debug, Args)]
pub(super) struct TermsArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Age at which a lock expires if the state of its pod cannot show that the lock is still needed, as for `run`
    /// (10s to 24h; default: the variable HAMI_NODELOCK_EXPIRE, otherwise 5m)
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_TIMEOUT", value_name = "DURATION", value_parser = values::node_lock_timeout)]
    node_lock_timeout: Option<Duration>,
    /// When a lock may be taken over, as for `run`
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_TAKEOVER", value_enum, default_value_t = TakeoverWord::State)]
    node_lock_takeover: TakeoverWord,
    /// The resources that need the lock, as for `run`
    #[arg(long, env = "TOPOLOOM_NODE_LOCK_RESOURCES", value_name = "FILE", value_parser = values::path)]
    node_lock_resources: Option<PathBuf>,
}

/// When a lock may be taken over, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TakeoverWord {
    /// Only when the pod is provably done with the lock
    State,
    /// Whenever the lock is older than the timeout
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
pub(super) struct LockListArgs {
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags of `lock explain`.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    terms: TermsArgs,
    /// The node
    node: NodeName,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags of `lock release`.
#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    terms: TermsArgs,
    /// The node
    node: NodeName,
    /// The whole value of the lock that you saw; a lock with another value is not removed
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    expect: Option<String>,
    /// Remove the lock although its pod holds it: that pod may then get the devices of another pod
    #[arg(long)]
    even_if_live: bool,
}

impl TermsArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let ttl = ttl(self.node_lock_timeout, std::env::var(EXPIRE_VARIABLE).ok().as_deref())?;
        Ok(Options { ttl, takeover: self.node_lock_takeover.into(), retry: Retry::CLASSIC })
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

/// Runs a verb.
pub(super) async fn run(verb: LockVerb) -> anyhow::Result<ExitCode> {
    match verb {
        LockVerb::List(args) => list::run(args).await,
        LockVerb::Explain(args) => explain::run(args).await,
        LockVerb::Release(args) => release::run(args).await,
    }
}

/// What was asked for, otherwise what the variable of the original protocol says; an empty variable is none.
fn ttl(asked: Option<Duration>, original: Option<&str>) -> anyhow::Result<Duration> {
    match (asked, original.filter(|text| !text.is_empty())) {
        (Some(asked), _) => Ok(asked),
        (None, Some(text)) => {
            let read = values::node_lock_timeout(text);
            read.map_err(|why| anyhow::anyhow!("environment variable {EXPIRE_VARIABLE}: {text:?} {why}"))
        }
        (None, None) => Ok(EXPIRE_DEFAULT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a3_a_lock_lasts_as_long_as_it_does_for_run() {
        let [asked, original] = [120, 600].map(Duration::from_secs);
        assert_eq!(ttl(Some(asked), Some("10m")).unwrap(), asked);
        assert_eq!(ttl(None, Some("10m")).unwrap(), original);
        assert_eq!([ttl(None, Some("")).unwrap(), ttl(None, None).unwrap()], [EXPIRE_DEFAULT; 2]);
        let why = ttl(None, Some("5")).unwrap_err().to_string();
        assert!(why.contains("HAMI_NODELOCK_EXPIRE: \"5\" must be a duration with units, 10s to 24h"), "{why}");
    }
}
