//! `topoloom debug`: what a running host reports about itself at its admin server.
//!
//! It never has a part of a Secret; the file is nevertheless readable by its owner alone, since it names nodes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::{admin, print, private};
use crate::manager::profile;

/// Bytes of one page of the admin server that go into a dump; a larger one is named and left out.
const PAGE: usize = 32 << 20;

/// Verbs that help to find a fault.
#[derive(Debug, Subcommand)]
pub(super) enum DebugVerb {
    /// Write the state of a running host as one JSON document: state, queues, leases, last decisions
    Dump(DumpArgs),
    /// Show or set what a running host logs
    Log(LogFilterArgs),
    /// Show where a running host spends its processor time, as folded stacks for a flame graph; it must run with
    /// --profiling
    Profile(ProfileArgs),
}

/// Which running host.
#[derive(Debug, Args)]
pub(super) struct AdminArgs {
    /// Its admin server: PORT, IP:PORT or a URL with a loopback address
    #[arg(long, value_name = "ADDRESS", default_value_t = admin::USUAL, value_parser = admin::address)]
    admin: SocketAddr,
}

/// Flags of `debug dump`.
#[derive(Debug, Args)]
pub(super) struct DumpArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Where it is written; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Flags of `debug log`.
#[derive(Debug, Args)]
pub(super) struct LogFilterArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// What the host logs from now on, until its process ends: a level or directives such as
    /// info,topoloom::topology=debug
    #[arg(value_name = "FILTER", value_parser = crate::log::check)]
    filter: Option<String>,
}

/// Flags of `debug profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// How long the host is sampled, in seconds: 1 to 60
    #[arg(long, value_name = "N", default_value_t = profile::USUAL.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=profile::LONGEST.as_secs()))]
    seconds: u64,
    /// Where it is written; default: standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Does what a verb says.
pub(super) async fn run(verb: DebugVerb) -> anyhow::Result<ExitCode> {
    match verb {
        DebugVerb::Dump(args) => dump(args).await,
        DebugVerb::Log(args) => log(args).await,
        DebugVerb::Profile(args) => profile(args).await,
    }
}

async fn dump(args: DumpArgs) -> anyhow::Result<ExitCode> {
    let server = args.admin.admin;
    let mut pages = BTreeMap::new();
    // The first one that is not answered ends it: then there is no host.
    let state = admin::get(server, "/debug/dump", PAGE).await?.good("/debug/dump")?;
    let state: Value = serde_json::from_str(&state).context("/debug/dump is no JSON")?;
    for page in ["readyz", "metrics", "debug/log"] {
        pages.insert(page, page_of(server, page).await);
    }
    let dump = json!({
        "time": jiff::Timestamp::now().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "admin": server.to_string(),
        "state": state,
        "readyz": pages.remove("readyz"),
        "log": pages.remove("debug/log"),
        "metrics": pages.remove("metrics"),
    });
    written(args.output.as_deref(), &format!("{}\n", serde_json::to_string_pretty(&dump)?))
}

/// Prints a text, or puts it into a file of the user's own.
fn written(output: Option<&Path>, text: &str) -> anyhow::Result<ExitCode> {
    match output {
        None => print::out(text),
        Some(path) => {
            private::write(path, text.as_bytes()).with_context(|| format!("--output {}", path.display()))?;
            print::error(&format!("topoloom: {} bytes in {}", text.len(), path.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A page line by line, which is easier to read in JSON than one long text; or why there is none.
async fn page_of(server: SocketAddr, page: &str) -> Value {
    match admin::get(server, &format!("/{page}"), PAGE).await {
        // `/readyz` of a replica that is not ready is worth as much as of one that is.
        Ok(answer) => json!({"status": answer.status.as_u16(), "lines": answer.text.lines().collect::<Vec<_>>()}),
        Err(error) => json!({"error": format!("{error:#}")}),
    }
}

async fn profile(args: ProfileArgs) -> anyhow::Result<ExitCode> {
    let path = format!("/debug/profile?seconds={}", args.seconds);
    // Naming the functions comes after the watching, and takes a while the first time.
    let patience = Duration::from_secs(args.seconds + 50);
    let answer = admin::ask(args.admin.admin, Method::GET, &path, String::new(), PAGE, patience).await?;
    written(args.output.as_deref(), &answer.good("/debug/profile")?)
}

async fn log(args: LogFilterArgs) -> anyhow::Result<ExitCode> {
    let (method, filter) = match args.filter {
        None => (Method::GET, String::new()),
        Some(filter) => (Method::PUT, filter),
    };
    let answer = admin::ask(args.admin.admin, method, "/debug/log", filter, PAGE, Duration::from_secs(10)).await?;
    print::out(&answer.good("/debug/log")?);
    Ok(ExitCode::SUCCESS)
}
