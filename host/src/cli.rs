//! The command line: flags to typed options, one file per verb.
//!
//! Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 refused or failed with one
//! sentence, 2 the words of the call are wrong, 3 (`plan --exit-code`) there is something to write.

mod crd;
mod desk;
mod discover;
mod explain;
mod fabric;
mod live;
mod plan;
mod plugin;
mod print;
mod private;
mod run;
mod source;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::cluster;
use crate::config::Location;

/// Discovers how a Kubernetes cluster is wired and keeps it as HyperNode objects.
#[derive(Debug, Parser)]
#[command(name = "topoloom", version, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    log: LogArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch the cluster and keep its HyperNodes, until stopped
    Run(run::RunArgs),
    /// Discover from a file of nodes: the same pipeline without a cluster
    Discover(discover::DiscoverArgs),
    /// Show the topology that is in force, with counts, drift and problems
    Tree(tree::TreeArgs),
    /// Show what a round would write now, in order and with the reason for the order; writes nothing
    Plan(plan::PlanArgs),
    /// Say where a node is placed, by which labels, or why it is not
    Explain(explain::ExplainArgs),
    /// Confirm the held result of a source, so that it is written
    Confirm(source::ConfirmArgs),
    /// List, delete, run or pause sources
    #[command(subcommand)]
    Source(source::SourceVerb),
    /// Inspect or sign a plugin file, before it sees a cluster
    #[command(subcommand)]
    Plugin(plugin::PluginVerb),
    /// Report on the cabling of fabrics
    #[command(subcommand)]
    Fabric(fabric::FabricVerb),
    /// Print the CustomResourceDefinitions, to be piped into kubectl apply --server-side -f -
    Crd,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How much is logged, and how.
#[derive(Debug, Clone, Args)]
struct LogArgs {
    /// What is logged: a level (error, warn, info, debug, trace) or directives such as info,topoloom::topology=debug
    #[arg(long, global = true, env = "TOPOLOOM_LOG", default_value = "info", value_name = "FILTER", value_parser = filter)]
    log: String,
    /// How it is written
    #[arg(long, global = true, env = "TOPOLOOM_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Which cluster, and where its configuration is.
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount
    #[arg(long, env = "TOPOLOOM_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
    #[arg(long, env = "TOPOLOOM_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// The namespace of the configuration
    #[arg(long, env = crate::config::location::NAMESPACE_VARIABLE, value_name = "NAME")]
    namespace: Option<String>,
    /// The Helm release that the ConfigMap is named after: RELEASE-controller-configmap
    #[arg(long, env = crate::config::location::RELEASE_VARIABLE, value_name = "RELEASE")]
    release: Option<String>,
}

impl ClusterArgs {
    fn location(&self) -> Location {
        Location::from_environment(self.namespace.as_deref(), self.release.as_deref())
    }

    async fn connect(&self) -> anyhow::Result<kube::Client> {
        Ok(self.connection().await?.client)
    }

    async fn connection(&self) -> anyhow::Result<cluster::Connection> {
        Ok(cluster::connect(self.kubeconfig.as_deref(), self.context.as_deref()).await?)
    }
}

/// Parses the arguments and does what they say.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match start(cli) {
        Ok(_) if print::failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            print::error(&format!("topoloom: {}", chain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    init_log(&cli.log)?;
    // Whoever needs TLS finds the one provider; a second installation is no failure.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Err(error) = private::memory() {
        tracing::warn!(%error, "a crash may leave a core, with the Secrets that are in it");
    }
    match cli.verb {
        Verb::Crd => crd::print(),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "topoloom", &mut script);
            print::out(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        verb => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(async {
                match verb {
                    Verb::Run(args) => run::run(args).await,
                    Verb::Discover(args) => discover::run(args).await,
                    Verb::Tree(args) => tree::run(args).await,
                    Verb::Plan(args) => plan::run(args).await,
                    Verb::Explain(args) => explain::run(args).await,
                    Verb::Confirm(args) => source::confirm(args).await,
                    Verb::Source(verb) => source::run(verb).await,
                    Verb::Plugin(verb) => plugin::run(verb).await,
                    Verb::Fabric(verb) => fabric::run(verb).await,
                    Verb::Crd | Verb::Completions { .. } => Ok(ExitCode::SUCCESS),
                }
            })
        }
    }
}

/// A filter for the log. A lone word that is no level would be taken for the name of a module, and nothing be logged.
fn filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let lone = text.split(',').map(str::trim).filter(|part| !part.contains(['=', ':', '[']) && !part.is_empty());
    match lone.into_iter().find(|word| !is_level(word)) {
        Some(word) => Err(format!("{word:?} is no level; give one of {}, or TARGET=LEVEL", LEVELS.join(", "))),
        None => {
            tracing_subscriber::EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
        }
    }
}

fn init_log(args: &LogArgs) -> anyhow::Result<()> {
    use std::io::IsTerminal;
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_new(&args.log)
        .map_err(|error| anyhow::anyhow!("--log {:?}: {error}; give a level or TARGET=LEVEL directives", args.log))?;
    // A request that fails is told by whoever sent it, with what it means; the client's own lines say less, and quote
    // whole answers that it does not understand, Secrets among them: nobody can switch those on.
    let quiet = "kube_client::client=off".parse().ok();
    let filter = quiet.into_iter().fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

/// An error with its causes, each part once.
fn chain(error: &anyhow::Error) -> String {
    cluster::client::chain(error.as_ref())
}

/// This executable, which also compiles foreign plugins in a process of its own. By this name it is the same one even
/// when an upgrade has put another file, or none, in its place.
fn executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_sound() {
        Cli::command().debug_assert();
    }
}
