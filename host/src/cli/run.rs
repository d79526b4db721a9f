//! `topoloom run`.

mod plugins;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
use topoloom_core::plugin::{Amount, Limit, Setting};

use super::ClusterArgs;
use crate::config::Mode;
use crate::config::size::{self, ByteSize};
use crate::manager::{self, Options};
use crate::plugin;
use crate::topology::status::Scope;

/// Flags of `run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do everything but write HyperNodes, for a trial beside another controller
    #[arg(long, env = "TOPOLOOM_OBSERVE")]
    observe: bool,
    /// Whose status.nodeCount is kept
    #[arg(long, env = "TOPOLOOM_STATUS", value_enum, default_value_t = StatusScope::All)]
    status: StatusScope,
    /// HyperNode writes under way at most, for objects and for statuses each (1 to 64)
    #[arg(long, env = "TOPOLOOM_CONCURRENCY", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Where /healthz, /readyz, /metrics and /sources are served; port 0 picks a free one
    #[arg(long, env = "TOPOLOOM_ADMIN_ADDRESS", default_value = "127.0.0.1:8081", value_name = "IP:PORT")]
    admin_address: SocketAddr,
    #[command(flatten)]
    plugins: plugins::PluginArgs,
    /// Where documents may lie: files that entries grant to plugins with `permissions.endpoints.NAME.file`
    #[arg(long, env = "TOPOLOOM_DOCUMENTS", value_name = "DIR")]
    documents: Option<PathBuf>,
    /// Stack of WebAssembly code in each call of a plugin (64Ki to 8Mi)
    #[arg(long, env = "TOPOLOOM_PLUGIN_STACK", default_value_t = default(Limit::Stack), value_parser = stack, value_name = "SIZE")]
    plugin_stack: ByteSize,
    /// Calls of plugins under way at most; the others wait (1 to 32)
    #[arg(long, env = "TOPOLOOM_PLUGIN_CALLS", default_value_t = Limit::ProcessCalls.fixed().number(), value_parser = calls, value_name = "COUNT")]
    plugin_calls: u64,
}

fn default(limit: Limit) -> ByteSize {
    ByteSize::bytes(limit.fixed().number())
}

fn stack(text: &str) -> Result<ByteSize, String> {
    within(Limit::Stack, size::parse(text).map(|size| Amount::Bytes(size.as_u64()))).map(ByteSize::bytes)
}

fn calls(text: &str) -> Result<u64, String> {
    within(Limit::ProcessCalls, text.parse().ok().map(Amount::Count))
}

/// The value, if it is in the range that the table of limits gives to whoever starts the host.
fn within(limit: Limit, amount: Option<Amount>) -> Result<u64, String> {
    let Setting::Host { low, high, .. } = limit.row().setting else {
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

/// Runs the host until a signal.
pub(super) async fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    // Before the cluster is asked for anything: what is wrong with these is wrong everywhere.
    let (cache, trust) = (args.plugins.cache()?, args.plugins.trust()?);
    let connection = args.cluster.connection().await?;
    let options = Options {
        location: args.cluster.location(),
        mode: if args.observe { Mode::Observe } else { Mode::Apply },
        status: match args.status {
            StatusScope::All => Scope::All,
            StatusScope::Own => Scope::Own,
        },
        concurrency: usize::from(args.concurrency),
        admin: args.admin_address,
        executable: super::executable(),
        plugins: args.plugins.folder(),
        poll: args.plugins.poll(),
        modules: args.plugins.modules(),
        documents: args.documents,
        cache,
        trust,
        runtime: plugin::Options {
            stack: args.plugin_stack.as_usize(),
            calls: usize::try_from(args.plugin_calls).unwrap_or(usize::MAX),
        },
    };
    let stop = CancellationToken::new();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let mut host = std::pin::pin!(manager::run(connection, options, stop.clone()));
    tokio::select! {
        ended = &mut host => { ended?; return Ok(ExitCode::SUCCESS); }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("asked to stop; a second signal stops at once");
    stop.cancel();
    tokio::select! {
        ended = &mut host => { ended?; Ok(ExitCode::SUCCESS) }
        _ = terminate.recv() => Ok(ExitCode::FAILURE),
        _ = interrupt.recv() => Ok(ExitCode::FAILURE),
    }
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
            let Setting::Host { flag, low, high } = limit.row().setting else { continue };
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
