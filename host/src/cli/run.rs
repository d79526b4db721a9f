//! `topoloom run`.

mod accepted;
mod access;
mod election;
mod lending;
mod listeners;
mod node_lock;
mod plugins;
mod traces;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::{OURS, Selection};
use topoloom_core::plugin::{Amount, Limit, LimitSetting};
use topoloom_core::queue::Requeue;

use super::host_args::RivalArgs;
use super::options::{Given, VOLCANOS, values};
use super::{ClusterArgs, LogArgs};
use crate::config::Mode;
use crate::config::size::{self, ByteSize};
use crate::log;
use crate::manager::options::{OnInitFailure, Profiling, Writes};
use crate::manager::{self, Options};
use crate::plugin;
use crate::topology::status::Scope;
use crate::traces::{Settings, Spans, TraceLayer};

/// Flags of `run`. Each is also a variable of the environment and a key of the options file, see [`super::options`].
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A file with flags, one `NAME: VALUE` per line; flags and variables take precedence
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    options: Option<PathBuf>,
    /// Do everything except writing HyperNodes, for a trial beside another controller
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    observe: bool,
    /// Write nothing except leases, for an emergency
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    read_only: bool,
    /// Which controllers run: names separated by commas, `*` for all others, `-NAME` to leave one out; may be repeated.
    /// The controllers are bottomup-syncer, extender, hyperNode-controller, nodelock-sweeper
    #[arg(long, help_heading = VOLCANOS, value_name = "NAMES", default_value = "*", allow_hyphen_values = true, action = ArgAction::Append)]
    controllers: Vec<String>,
    /// How often a failing work item is tried again before it is dropped; below zero: no limit
    #[arg(long, help_heading = VOLCANOS, value_name = "COUNT", default_value = "15", allow_hyphen_values = true, value_parser = values::tries)]
    max_requeue_num: i64,
    /// Continue without a controller that cannot be initialised; /readyz says which, and why. A controller that fails
    /// later still ends the process
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    tolerate_controller_failures: bool,
    /// How long work under way may take after the process is asked to stop (1s to 10m)
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::lasting::<1_000, 600_000>)]
    drain_timeout: Duration,
    /// Serve profiles at the admin address
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    profiling: bool,
    #[command(flatten)]
    rivals: RivalArgs,
    /// Which HyperNodes get their status.nodeCount updated
    #[arg(long, value_enum, default_value_t = StatusScope::All)]
    status: StatusScope,
    /// How many HyperNode writes run at once, for objects and for statuses each (1 to 64)
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = values::whole::<1, 64>)]
    concurrency: u32,
    #[command(flatten)]
    listeners: listeners::ListenerArgs,
    #[command(flatten)]
    plugins: plugins::PluginArgs,
    /// The folder of documents that entries may grant to plugins with `permissions.endpoints.NAME.file`
    #[arg(long, value_name = "DIR", value_parser = values::path)]
    documents: Option<PathBuf>,
    /// Stack of WebAssembly code in each call of a plugin (64Ki to 8Mi)
    #[arg(long, default_value_t = default(Limit::Stack), value_parser = stack, value_name = "SIZE")]
    plugin_stack: ByteSize,
    /// How many plugin calls run at once; the others wait (1 to 32)
    #[arg(long, default_value_t = Limit::ProcessCalls.fixed().number(), value_parser = calls, value_name = "COUNT")]
    plugin_calls: u64,
    /// Memory of all plugin calls together; a call that needs more waits until others release theirs (16Mi to 64Gi)
    #[arg(long, default_value_t = default(Limit::ProcessMemory), value_parser = memory, value_name = "SIZE")]
    plugin_memory: ByteSize,
    #[command(flatten)]
    traces: traces::TraceArgs,
    #[command(flatten)]
    locks: node_lock::NodeLockArgs,
    #[command(flatten)]
    lending: lending::LendingArgs,
    // Those with a heading of their own come last: it holds for what follows.
    #[command(flatten)]
    election: election::ElectionArgs,
    #[command(flatten)]
    access: access::AccessArgs,
    #[command(flatten)]
    verbosity: accepted::VerbosityArgs,
    #[command(flatten)]
    accepted: accepted::AcceptedArgs,
}

fn default(limit: Limit) -> ByteSize {
    ByteSize::bytes(limit.fixed().number())
}

fn stack(text: &str) -> Result<ByteSize, String> {
    within(Limit::Stack, size::parse(text).map(|size| Amount::Bytes(size.as_u64()))).map(ByteSize::bytes)
}

fn memory(text: &str) -> Result<ByteSize, String> {
    within(Limit::ProcessMemory, size::parse(text).map(|size| Amount::Bytes(size.as_u64()))).map(ByteSize::bytes)
}

fn calls(text: &str) -> Result<u64, String> {
    within(Limit::ProcessCalls, text.parse().ok().map(Amount::Count))
}

/// The value, if it is in the range that the table of limits gives to the flags of the host.
fn within(limit: Limit, amount: Option<Amount>) -> Result<u64, String> {
    let LimitSetting::Host { low, high, .. } = limit.row().setting else {
        return Err("it cannot be set for the host".to_owned());
    };
    let amount = amount.filter(|amount| *amount >= low && *amount <= high);
    amount.map(Amount::number).ok_or_else(|| format!("must be {low} to {high}"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusScope {
    /// Every HyperNode's, hand-made ones included
    All,
    /// Only those of a source
    Own,
}

/// What is checked before the first request to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The rules across flags, which need no machine.
    Rules,
    /// Files too: keys, certificates.
    Files,
}

/// The settings of `run`, typed and checked.
pub(super) struct RunSettings {
    /// How to reach the cluster.
    cluster: ClusterArgs,
    /// Where spans go, if anywhere.
    traces: Option<Settings>,
    /// The rest.
    pub(super) options: Options,
}

impl RunSettings {
    /// Begins to collect spans, if a collector is configured.
    pub(super) fn collect(&self) -> (Option<TraceLayer>, Option<Spans>) {
        let resource = crate::traces::resource(&crate::cluster::instance());
        self.traces.clone().map(|settings| crate::traces::start(settings, resource)).unzip()
    }
}

impl RunArgs {
    /// What is logged: `--log`, or what `--v` means.
    pub(super) fn log(&self, log: LogArgs, given: &Given) -> LogArgs {
        match self.verbosity.filter() {
            Some(filter) if !given.is_given("log") => LogArgs { log: filter.to_owned(), ..log },
            _ => log,
        }
    }

    /// Applies the rules across flags. What is wrong is in `given` then; the answer only counts where nothing is.
    pub(super) fn settle(self, depth: Depth, given: &mut Given) -> RunSettings {
        self.accepted.warn(given);
        if let Some(why) = self.rivals.left_out() {
            given.warn(&["volcano-leases"], why);
        }
        let controllers = controllers(given);
        let namespace = self.cluster.own_namespace();
        let listeners = self.listeners.listeners(given);
        let election = self.election.election(&namespace, given);
        self.plugins.rules(given);
        let (mut cache, mut trust) = (None, plugin::trust::TrustOptions::default());
        if depth == Depth::Files {
            listeners::check_files(listeners.health.as_ref(), given);
            (cache, trust) = (self.plugins.cache(given), self.plugins.trust(given));
        }
        let traces = self.traces.settings(depth, given);
        let locks = self.locks.locks(depth, given);
        if let Some(extender) = &locks.extender {
            node_lock::check_drain(extender, self.drain_timeout, given);
        }
        let lending = self.lending.lending(depth, given);
        let location = self.cluster.location();
        let options = Options {
            rivals: self.rivals.leases(&location),
            location,
            namespace,
            controllers,
            on_init_failure: match self.tolerate_controller_failures {
                true => OnInitFailure::Tolerate,
                false => OnInitFailure::Exit,
            },
            election,
            drain: self.drain_timeout,
            mode: if self.observe { Mode::Observe } else { Mode::Apply },
            writes: if self.read_only { Writes::LeasesOnly } else { Writes::Allowed },
            status: match self.status {
                StatusScope::All => Scope::All,
                StatusScope::Own => Scope::Own,
            },
            concurrency: usize::try_from(self.concurrency).unwrap_or(usize::MAX),
            requeue: Requeue::of_flag(self.max_requeue_num),
            admin: listeners.admin,
            health: listeners.health,
            metrics: listeners.metrics,
            rate: self.access.rate(given),
            profiling: if self.profiling { Profiling::On } else { Profiling::Off },
            executable: super::executable(),
            plugins: self.plugins.folder(),
            poll: self.plugins.poll(),
            registries: self.plugins.registries(),
            modules: self.plugins.modules(),
            kept: self.plugins.kept(),
            documents: self.documents,
            cache,
            trust,
            runtime: plugin::Options {
                stack: self.plugin_stack.as_usize(),
                calls: usize::try_from(self.plugin_calls).unwrap_or(usize::MAX),
                memory: self.plugin_memory.as_usize(),
                codegen: plugin::Codegen::Service,
            },
            locks,
            lending,
        };
        RunSettings { cluster: self.cluster, traces, options }
    }
}

/// The list of controllers that counts; those of other layers are judged too.
fn controllers(given: &mut Given) -> Selection {
    let mut counting = None;
    for setting in given.layers("controllers") {
        match Selection::parse(setting.values.iter().map(String::as_str), &OURS) {
            Ok(reading) if counting.is_none() => counting = Some(reading),
            Ok(_) => {}
            Err(mistakes) => mistakes.iter().for_each(|mistake| given.broken("controllers", &setting, mistake)),
        }
    }
    let Some(reading) = counting else { return Selection::all() };
    if !reading.elsewhere.is_empty() {
        let names = reading.elsewhere.join(", ");
        given.warn(
            &["controllers"],
            format!("switches off controllers that topoloom does not have: {names} run in Volcano's own binary"),
        );
    }
    reading.selection
}

/// How long the tasks of the clients may take to notice that they are not needed any more.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// Runs the host until a signal. A second one ends the process at once.
pub(super) async fn run(settings: RunSettings, log: log::Control, spans: Option<Spans>) -> anyhow::Result<ExitCode> {
    let RunSettings { cluster, options, .. } = settings;
    let connection = cluster.connection().await?;
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut host = std::pin::pin!(manager::run(connection, options, log, spans, stop.clone()));
    tokio::select! {
        ended = &mut host => { ended?; return Ok(ExitCode::SUCCESS); }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping; a second signal stops at once");
    stop.cancel();
    tokio::select! {
        ended = &mut host => { ended?; Ok(ExitCode::SUCCESS) }
        _ = terminate.recv() => at_once(),
        _ = interrupt.recv() => at_once(),
    }
}

#[allow(clippy::disallowed_methods, reason = "destructors are what the second signal does not want to wait for")]
fn at_once() -> ! {
    tracing::warn!("stopped at once by a second signal");
    std::process::exit(1)
}

/// Says how many tasks are left when the manager has returned: none, or something was forgotten.
pub(super) fn last_words(runtime: &tokio::runtime::Runtime) {
    let left = || runtime.metrics().num_alive_tasks();
    let began = std::time::Instant::now();
    // Connections of clients end a moment after the last handle of their client.
    while left() > 0 && began.elapsed() < LEFT_BEHIND {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(5)).await });
    }
    tracing::info!(tasks = left(), "topoloom has stopped");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn flags_that_are_limits_have_the_ranges_of_the_table() {
        let help = <Command as clap::CommandFactory>::command().render_long_help().to_string();
        for limit in Limit::ALL {
            let LimitSetting::Host { flag, low, high } = limit.row().setting else { continue };
            assert!(help.contains(flag) && help.contains(&format!("({low} to {high})")), "{help}");
            for (value, is_good) in [(low.to_string(), true), (high.to_string(), true), ("0".to_owned(), false)] {
                let parsed = Command::try_parse_from(["run", flag, &value]);
                assert_eq!(parsed.is_ok(), is_good, "{flag} {value}: {parsed:?}");
            }
        }
        let command = Command::try_parse_from(["run", "--plugin-stack", "1Mi", "--plugin-calls", "2"]).unwrap();
        assert_eq!((command.run.plugin_stack.as_u64(), command.run.plugin_calls), (1 << 20, 2));
    }
}
