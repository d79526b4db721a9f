//! The command line: flags to typed options, one file per verb.
//!
//! Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 refused or failed with one
//! sentence, 2 the words of the call are wrong, or (`lend plan`) the guard would hold a part of the plan, 3
//! (`plan --exit-code`) there is something to write.

#[macro_use]
mod lines;

mod admin;
mod config;
mod crd;
mod debug;
mod desk;
mod discover;
mod explain;
mod fabric;
mod groups;
mod host_args;
mod installation;
mod lend;
mod live;
mod lock;
mod man;
mod options;
mod output;
mod plan;
mod plugin;
mod preflight;
mod print;
mod private;
mod read_only;
mod run;
mod source;
mod status;
mod tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cluster;
use crate::config::Location;
use crate::log;
use crate::plugin::builtin;
use crate::traces::TraceLayer;
pub use options::reference::reference;
use options::values::{config_map, namespace, release, server};
use options::{Given, Outside, Reading};
pub use output::schemas;
use topoloom_core::plugin::Embedded;

/// Keeps the topology of a Kubernetes cluster as HyperNodes, and locks nodes while pods get devices.
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
    Run(Box<run::RunArgs>),
    /// Run the discoverers on a file of nodes, without a cluster
    Discover(discover::DiscoverArgs),
    /// Show the active topology, with counts, drift and problems
    Tree(tree::TreeArgs),
    /// Show what the next round would write, in order and with reasons; writes nothing
    Plan(plan::PlanArgs),
    /// Show where a node is placed and by which labels, or why it has no place
    Explain(explain::ExplainArgs),
    /// Confirm the held result of a source, so that the host writes it
    Confirm(source::ConfirmArgs),
    /// List sources, run or pause one, and delete what a removed one left
    #[command(subcommand)]
    Source(source::SourceVerb),
    /// Write, test, inspect, sign, push, pull, diff and list plugins; roll back, or accept a new one
    #[command(subcommand)]
    Plugin(plugin::PluginVerb),
    /// Show the holders of node locks, and release a lock by hand
    #[command(subcommand)]
    Lock(lock::LockVerb),
    /// Lend nodes to another cluster: grant, plan, explain, report, drain, pause, confirm, release
    #[command(subcommand)]
    Lend(lend::LendCommand),
    /// Report mistakes in the cabling of fabrics, or simulate a fabric manager
    #[command(subcommand)]
    Fabric(fabric::FabricVerb),
    /// Check options files and discovery documents, without a cluster
    #[command(subcommand)]
    Config(config::ConfigVerb),
    /// Check what the host needs: rights, CRDs, configuration, leases, admission, other writers
    ///
    /// Give it the flags that `run` gets. It checks the rights of the caller: in the pod, those of the host. With
    /// --service-account it checks those of another account, which needs create on subjectaccessreviews. Where nodes are
    /// lent it asks the physical cluster of each ClusterBinding, too, with the kubeconfig in its Secret; it reads no other
    /// Secret. It changes nothing.
    Preflight(Box<preflight::PreflightArgs>),
    /// Show the leader, the replicas, each source and what waits for a person; writes nothing
    Status(status::StatusArgs),
    /// Stop all writes of every replica except leases, or allow them again
    ReadOnly(read_only::ReadOnlyArgs),
    /// Look into a running host: dump its state, change what it logs, profile it
    #[command(subcommand)]
    Debug(debug::DebugVerb),
    /// Print the CustomResourceDefinitions, for kubectl apply --server-side -f -
    Crd,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder, one page for each verb
    Man(man::ManArgs),
}

/// How much is logged, and how.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// What is logged: a level (error, warn, info, debug, trace) or directives such as info,topoloom::topology=debug
    #[arg(long, global = true, env = "TOPOLOOM_LOG", default_value = "info", value_name = "FILTER", value_parser = log::check)]
    log: String,
    /// The format of the log
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
    /// The URL of the API server, in place of the one in the kubeconfig
    #[arg(long, env = "TOPOLOOM_MASTER", value_name = "URL", value_parser = server)]
    master: Option<http::Uri>,
    /// The context in the kubeconfig
    #[arg(long, env = "TOPOLOOM_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Our own namespace, where the configuration is; default: KUBE_POD_NAMESPACE, volcano-system
    #[arg(long, env = crate::config::location::NAMESPACE_VARIABLE, value_name = "NAME", value_parser = namespace)]
    namespace: Option<String>,
    /// The Helm release that the ConfigMap is named after, RELEASE-controller-configmap; default: HELM_RELEASE_NAME,
    /// volcano
    #[arg(long, env = crate::config::location::RELEASE_VARIABLE, value_name = "RELEASE", value_parser = release)]
    release: Option<String>,
    /// The ConfigMap of the configuration, in any namespace and with any name
    #[arg(long, env = "TOPOLOOM_CONFIG_MAP", value_name = "[NAMESPACE/]NAME", value_parser = config_map)]
    config_map: Option<String>,
}

impl ClusterArgs {
    /// Where the configuration is.
    fn location(&self) -> Location {
        let usual = Location::from_environment(self.namespace.as_deref(), self.release.as_deref());
        let named = self.config_map.as_deref().and_then(|text| Location::parse(text, &usual.namespace).ok());
        named.unwrap_or(usual)
    }

    /// Our own namespace: leases, and the modules that are kept.
    fn own_namespace(&self) -> String {
        Location::from_environment(self.namespace.as_deref(), None).namespace
    }

    /// Whether a flag or a variable says which installation is meant, as in a pod of the chart.
    fn names_an_installation(&self) -> bool {
        is_given(self.namespace.as_deref()) || self.names_a_configuration()
    }

    /// Whether one says where the configuration is, beside the namespace.
    fn names_a_configuration(&self) -> bool {
        is_given(self.release.as_deref()) || is_given(self.config_map.as_deref())
    }

    /// The same with the installation that is meant: the only one, where nothing says which.
    async fn found(&self) -> anyhow::Result<Self> {
        if self.names_an_installation() {
            return Ok(self.clone());
        }
        let found = installation::look(&self.connect().await?, installation::Without::Fails).await?;
        Ok(found.map_or_else(|| self.clone(), |found| self.of(&found)))
    }

    /// The same for that installation.
    fn of(&self, found: &installation::Installation) -> Self {
        let Location { namespace, name, .. } = &found.config;
        Self {
            namespace: Some(found.namespace.clone()),
            config_map: Some(format!("{namespace}/{name}")),
            ..self.clone()
        }
    }

    async fn connect(&self) -> anyhow::Result<kube::Client> {
        Ok(self.connection().await?.client)
    }

    async fn connection(&self) -> anyhow::Result<cluster::Connection> {
        Ok(cluster::connect(self.kubeconfig.as_deref(), self.context.as_deref(), self.master.as_ref()).await?)
    }
}

/// Whether a text was given. An empty one counts as none.
fn is_given(text: Option<&str>) -> bool {
    text.is_some_and(|text| !text.is_empty())
}

/// The whole command line. Every flag of `run` has a variable, named by one rule.
fn command() -> Command {
    let variable = |arg: clap::Arg| match arg.get_long().map(options::flags::variable) {
        // Only in the help: what it holds is read in one place, with all other layers.
        Some(name) => arg.env(name).hide_env_values(true),
        None => arg,
    };
    let volcanos = |arg: clap::Arg| arg.help_heading(options::VOLCANOS);
    let command = Cli::command().mut_subcommand(options::flags::VERB, |run| {
        run.mut_args(variable).mut_arg("kubeconfig", volcanos).mut_arg("master", volcanos)
    });
    let template = groups::template(&command);
    command.help_template(template)
}

/// Parses the arguments and does what they say, with the plugins that the program embeds.
#[must_use]
pub fn main(plugins: &'static [Embedded]) -> ExitCode {
    builtin::embed(plugins);
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let outside = Outside { variables: variables.collect(), read: &read_options };
    let ended = match options::read(&command(), &arguments, &outside) {
        Reading::Usage(error) => return usage(&error),
        Reading::Run(read) => start_run(&read.0, read.1),
        Reading::Other => {
            let matches = command().try_get_matches_from(&arguments);
            match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
                Ok(cli) => start(cli),
                Err(error) => return usage(&error),
            }
        }
    };
    match ended {
        Ok(_) if print::failed() => ExitCode::FAILURE,
        Ok(code) => code,
        Err(error) => {
            print::error(&format!("topoloom: {}", chain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    // Where standard error is closed, the exit code has to do.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// An options file. A ConfigMap holds no larger one.
fn read_options(path: &Path) -> Result<String, String> {
    let bytes = plugin::read_bounded(path, crate::config::MAX_BYTES as u64).map_err(|error| chain(&error))?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// How long threads that block may take when everything else has ended.
const LAST_PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

/// `run`, if its options are valid: mistakes are printed before it writes a log or connects to anything.
fn start_run(matches: &ArgMatches, mut given: Given) -> anyhow::Result<ExitCode> {
    let (log, args) = (LogArgs::from_arg_matches(matches)?, run::RunArgs::from_arg_matches(matches)?);
    let log = args.log(log, &given);
    let settings = args.settle(run::Depth::Files, &mut given);
    if !given.mistakes().is_empty() {
        given.mistakes().iter().for_each(|mistake| print::error(&format!("topoloom: {mistake}")));
        anyhow::bail!("not started: {} of the options are wrong", count(given.mistakes().len()));
    }
    let (layer, spans) = settings.collect();
    let log = prepare(&log, layer)?;
    given.warnings().iter().for_each(|warning| tracing::warn!(option = warning, "an option may be a mistake"));
    let runtime = runtime()?;
    let ended = runtime.block_on(run::run(settings, log, spans));
    if ended.is_ok() {
        run::last_words(&runtime);
    }
    end(runtime);
    ended
}

/// Ends the remaining threads. One that hangs in the kernel, on a volume or a name server, must not keep the process:
/// no task receives signals now.
fn end(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(LAST_PATIENCE);
}

/// A number of mistakes in words.
fn count(mistakes: usize) -> String {
    if mistakes == 1 { "one thing".to_owned() } else { format!("{mistakes} things") }
}

/// What every verb needs.
fn prepare(args: &LogArgs, traces: Option<TraceLayer>) -> anyhow::Result<log::Control> {
    let format = match args.log_format {
        LogFormat::Text => log::Format::Text,
        LogFormat::Json => log::Format::Json,
    };
    let log = log::start(&args.log, format, traces)?;
    // All of TLS uses this one provider; a second installation is no failure.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Err(error) = private::memory() {
        tracing::warn!(%error, "a crash may leave a core dump that contains Secrets");
    }
    Ok(log)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    prepare(&cli.log, None)?;
    match cli.verb {
        Verb::Crd => crd::print(),
        Verb::Config(verb) => config::run(verb),
        Verb::Man(args) => man::run(&args, command()),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "topoloom", &mut script);
            print::out(&String::from_utf8_lossy(&script));
            Ok(ExitCode::SUCCESS)
        }
        verb => runtime()?.block_on(async {
            match verb {
                Verb::Discover(args) => discover::run(args).await,
                Verb::Tree(args) => tree::run(args).await,
                Verb::Plan(args) => plan::run(args).await,
                Verb::Explain(args) => explain::run(args).await,
                Verb::Confirm(args) => source::confirm(args).await,
                Verb::Source(verb) => source::run(verb).await,
                Verb::Plugin(verb) => plugin::run(verb).await,
                Verb::Lock(verb) => lock::run(verb).await,
                Verb::Lend(verb) => Box::pin(lend::run(verb)).await,
                Verb::Fabric(verb) => fabric::run(verb).await,
                Verb::Preflight(args) => Box::pin(preflight::run(*args)).await,
                Verb::Status(args) => status::run(args).await,
                Verb::ReadOnly(args) => read_only::run(args).await,
                Verb::Debug(verb) => debug::run(verb).await,
                // Done above, or with its layers.
                Verb::Run(_) | Verb::Crd | Verb::Config(_) | Verb::Man(_) | Verb::Completions { .. } => {
                    Ok(ExitCode::SUCCESS)
                }
            }
        }),
    }
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
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_flags_are_sound() {
        command().debug_assert();
    }

    #[test]
    fn a_thread_that_hangs_does_not_keep_the_process_from_ending() {
        let runtime = runtime().unwrap();
        let (hangs, is_hanging) = mpsc::channel();
        let (frees, freed) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || {
            hangs.send(()).unwrap();
            // It is freed when the test is over.
            freed.recv().unwrap_err();
        });
        is_hanging.recv().unwrap();
        let (ends, ended) = mpsc::channel();
        let ending = std::thread::spawn(move || {
            end(runtime);
            ends.send(()).unwrap();
        });
        // Much later than its last patience: other tests share the machine.
        let in_time = ended.recv_timeout(20 * LAST_PATIENCE);
        drop(frees);
        ending.join().unwrap();
        assert_eq!(in_time, Ok(()), "the thread still hangs, and the process waits for it");
    }
}
