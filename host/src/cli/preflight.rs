//! `topoloom preflight`: whether everything is there that a host needs, before it runs and when it does not work.
//!
//! It reads, asks for rights, asks the plugins of this binary what they would read, and creates one HyperNode that is never
//! stored (a dry run). Secrets are asked about and not read.

mod access;
mod cluster;
mod config;
mod line;
mod wishes;

use std::process::ExitCode;

use anyhow::bail;
use clap::{ArgAction, Args};
use topoloom_core::controllers::{HYPER_NODE, OURS, Selection};

use super::host_args::{HostArgs, RivalArgs};
use super::options::values;
use super::print;
use crate::cluster::access::{Extent, Kept, Setting};
use crate::cluster::{Reason, leases};
use crate::endpoints::Outside;
use access::Subject;
use line::{Line, Mark};

/// Flags of `preflight`.
#[derive(Debug, Args)]
pub(super) struct PreflightArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    rivals: RivalArgs,
    /// Which controllers run, as `run` has it
    #[arg(long, env = "TOPOLOOM_CONTROLLERS", value_name = "NAMES", default_value = "*", allow_hyphen_values = true, action = ArgAction::Append)]
    controllers: Vec<String>,
    /// The host holds a lease while it writes, as `run` has it
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    leader_elect: bool,
    /// The host writes no HyperNodes, as `run` has it
    #[arg(long, env = "TOPOLOOM_OBSERVE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    observe: bool,
    /// The host writes nothing but leases, as `run` has it
    #[arg(long, env = "TOPOLOOM_READ_ONLY", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    read_only: bool,
    /// Ask for the rights of this ServiceAccount in place of our own
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    service_account: Option<Subject>,
}

fn account(text: &str) -> Result<Subject, String> {
    Subject::account(text).ok_or_else(|| "must be NAMESPACE/NAME of a ServiceAccount".to_owned())
}

/// Checks, and says what it found; the code is 1 if anything is missing.
pub(super) async fn run(args: PreflightArgs) -> anyhow::Result<ExitCode> {
    let connection = args.host.cluster.connection().await?;
    let client = connection.client;
    let controllers = match Selection::parse(args.controllers.iter().map(String::as_str), &OURS) {
        Ok(reading) => reading.selection,
        Err(mistakes) => {
            let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            bail!("--controllers: {}", mistakes.join("; "));
        }
    };
    let where_ = connection.server.to_string();
    let server = match leases::server(&client).await {
        Ok(server) => server,
        // Nothing else can be asked.
        Err(refusal) => {
            let todo = match refusal.reason {
                Reason::Unauthorized => {
                    "the credentials of the kubeconfig or the token of the ServiceAccount are not valid there"
                }
                _ => "look at the network, the address and the certificate in the kubeconfig",
            };
            return Ok(end(&[Line::fail("API server", format!("{where_}: {refusal}"), todo)]));
        }
    };
    let mut lines = vec![Line::ok("API server", format!("{} at {}", server.version, where_.trim_end_matches('/')))];
    let location = args.host.location();
    let outside = Outside::cluster(&client, &location.namespace, &connection.server);
    let (configuration, references) = config::look(&client, &outside, &location).await;
    let setting = Setting {
        own: args.host.own_namespace(),
        config: (location.namespace.clone(), location.name.clone()),
        controllers,
        leases: args.leader_elect.then(|| args.host.lease()),
        extent: match (args.read_only, args.observe) {
            (true, _) => Extent::LeasesOnly,
            (false, true) => Extent::NoHyperNodes,
            (false, false) => Extent::Everything,
        },
        kept: Kept::InConfigMaps,
        rivals: args.rivals.leases(&location),
        references,
    };
    lines.extend(cluster::definitions(&client).await);
    let subject = args.service_account.unwrap_or(Subject::Caller);
    lines.extend(access::ask(&client, &subject, &setting).await);
    lines.extend(configuration);
    lines.extend(cluster::leaders(&client, &setting, server.now).await);
    if setting.controllers.enables(HYPER_NODE) {
        lines.extend(cluster::second_writers(&client, &setting, server.now).await);
        lines.push(cluster::admission(&client, setting.extent).await);
    }
    Ok(end(&lines))
}

/// Prints the lines and what they come to.
fn end(lines: &[Line]) -> ExitCode {
    print::out(&line::render(lines));
    if lines.iter().any(|line| line.mark == Mark::Fail) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
