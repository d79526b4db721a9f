//! `topoloom preflight`: whether everything is there that a host needs, before it runs and when it does not work.
//!
//! It reads, asks for rights, asks the plugins of this binary what they would read, and tries writes that are never stored (dry
//! runs). Secrets are asked about and not read, but for those with the kubeconfigs of physical clusters, which are asked, too.

mod access;
mod cluster;
mod config;
mod lending;
pub(super) mod line;
mod wishes;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::bail;
use clap::{ArgAction, Args};
use topoloom_core::controllers::{HYPER_NODE, OURS, Selection};

use super::host_args::{HostArgs, RivalArgs, SweepWord};
use super::installation::Without;
use super::options::values;
use super::output::OutputArgs;
use crate::cluster::{RefusalReason, leases};
use crate::config::{Location, References};
use crate::endpoints::Outside;
use crate::manager::options::Kept;
use crate::manager::rights::{Extent, LockSettings, RightsSettings};
use crate::nodelock::sweeper::SweepMode;
use access::Subject;
use lending::LendingArgs;
use line::{Checks, Line, Mark};

/// Flags of `preflight`.
#[derive(Debug, Args)]
pub(super) struct PreflightArgs {
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    rivals: RivalArgs,
    /// Which controllers run, as for `run`
    #[arg(long, env = "TOPOLOOM_CONTROLLERS", value_name = "NAMES", default_value = "*", allow_hyphen_values = true, action = ArgAction::Append)]
    controllers: Vec<String>,
    /// The host holds a lease while it writes, as for `run`
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    leader_elect: bool,
    /// The host writes no HyperNodes, as for `run`
    #[arg(long, env = "TOPOLOOM_OBSERVE", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    observe: bool,
    /// The host writes nothing but leases, as for `run`
    #[arg(long, env = "TOPOLOOM_READ_ONLY", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    read_only: bool,
    /// Plugins that have served are stored in ConfigMaps, which needs the RBAC rule of `plugins.kept` in the chart
    #[arg(long, env = "TOPOLOOM_MODULES_KEPT", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    modules_kept: bool,
    /// What the sweeper does about orphaned locks, as for `run`
    #[arg(long, env = "TOPOLOOM_NODELOCK_SWEEP", value_enum)]
    nodelock_sweep: Option<SweepWord>,
    /// Where the extender listens, as for `run`; preflight does not connect to it
    #[arg(long, env = "TOPOLOOM_EXTENDER_ADDRESS", value_name = "[IP]:PORT", value_parser = values::listener)]
    extender_address: Option<SocketAddr>,
    #[command(flatten)]
    lending: LendingArgs,
    /// Check the rights of this ServiceAccount instead of the caller's; in a physical cluster those of the kubeconfig count
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    service_account: Option<Subject>,
    #[command(flatten)]
    output: OutputArgs,
}

fn account(text: &str) -> Result<Subject, String> {
    Subject::account(text).ok_or_else(|| "must be NAMESPACE/NAME of a ServiceAccount".to_owned())
}

impl PreflightArgs {
    /// What the rights of this host depend on.
    fn setting(&self, location: &Location, controllers: Selection, references: References) -> RightsSettings {
        RightsSettings {
            own: self.host.own_namespace(),
            config: (location.namespace.clone(), location.name.clone()),
            controllers,
            leases: self.leader_elect.then(|| self.host.lease()),
            extent: match (self.read_only, self.observe) {
                (true, _) => Extent::LeasesOnly,
                (false, true) => Extent::NoHyperNodes,
                (false, false) => Extent::Everything,
            },
            kept: if self.modules_kept { Kept::InConfigMaps } else { Kept::Nowhere },
            rivals: self.rivals.leases(location),
            references,
            locks: match (self.nodelock_sweep.map(SweepMode::from), self.extender_address) {
                (sweep, Some(_)) => LockSettings::with_extender(sweep),
                (sweep, None) => LockSettings::without_extender(sweep),
            },
        }
    }
}

/// Checks, and says what it found; the code is 1 if anything is missing.
pub(super) async fn run(mut args: PreflightArgs) -> anyhow::Result<ExitCode> {
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
                RefusalReason::Unauthorized => {
                    "the API server does not accept the credentials of the kubeconfig or the token of the ServiceAccount"
                }
                _ => "look at the network, the address and the certificate in the kubeconfig",
            };
            return end(args.output, vec![Line::fail("API server", format!("{where_}: {refusal}"), todo)]);
        }
    };
    let mut lines = vec![Line::ok("API server", format!("{} at {}", server.version, where_.trim_end_matches('/')))];
    // Before the first install there is none.
    args.host = args.host.found(Without::GoesOn).await?;
    let location = args.host.location();
    let outside = Outside::cluster(&client, &location.namespace, &connection.server);
    let (configuration, references) = config::look(&client, &outside, &location).await;
    let setting = args.setting(&location, controllers, references);
    let has_sources = setting.controllers.enables(HYPER_NODE);
    if has_sources {
        lines.extend(cluster::definitions(&client).await);
    }
    let subject = args.service_account.unwrap_or(Subject::Caller);
    // What lending needs is a table of its own, with all Events.
    if !lending::is_alone(&setting.controllers) {
        lines.extend(access::ask(&client, &subject, &setting.rights()).await);
    }
    // Where nothing is discovered, all that counts of it is the switch of all writes.
    lines.extend(configuration.into_iter().filter(|line| has_sources || line.what == config::WRITES));
    lines.extend(cluster::leaders(&client, &setting, server.now).await);
    if has_sources {
        lines.extend(args.rivals.left_out().map(|why| Line::warn("--volcano-leases", why, "leave it away")));
        lines.extend(cluster::second_writers(&client, &setting, server.now).await);
        lines.push(cluster::admission(&client, setting.extent).await);
    }
    let asked = lending::Virtual { client: &client, subject: &subject, setting: &setting, now: server.now };
    lines.extend(Box::pin(lending::look(&asked, &args.lending)).await);
    end(args.output, lines)
}

/// Prints the lines and what they come to.
fn end(output: OutputArgs, lines: Vec<Line>) -> anyhow::Result<ExitCode> {
    let checks = Checks::of(lines);
    output.print(&checks, line::render)?;
    Ok(if checks.count(Mark::Fail) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        preflight: PreflightArgs,
    }

    fn setting(words: &[&str]) -> RightsSettings {
        let words = [&["preflight"][..], words].concat();
        let args = Command::try_parse_from(words).unwrap().preflight;
        args.setting(&Location::new("conf", "map"), Selection::all(), References::default())
    }

    /// Whether it asks for the right to keep modules.
    fn asks(words: &[&str]) -> bool {
        setting(words).rights().iter().any(|right| right.resource == "configmaps" && right.verbs.contains(&"create"))
    }

    /// The variable by which the chart gives a flag.
    fn variable(flag: &str) -> Option<String> {
        let command = Command::command();
        let flag = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
        flag.get_env().and_then(std::ffi::OsStr::to_str).map(str::to_owned)
    }

    #[test]
    fn the_rule_for_stored_modules_is_not_required_where_none_are_stored() {
        assert!(asks(&[]) && asks(&["--modules-kept"]) && asks(&["--modules-kept=true"]));
        assert!(!asks(&["--modules-kept=false"]));
        // The chart says it by this variable where it leaves the rule out.
        assert_eq!(variable("modules-kept").as_deref(), Some("TOPOLOOM_MODULES_KEPT"));
    }

    #[test]
    fn what_a_syncer_is_started_with_is_given_by_the_variables_of_the_chart() {
        for (flag, wanted) in [
            ("syncer-kubelet-address", "TOPOLOOM_SYNCER_KUBELET_ADDRESS"),
            ("syncer-kubelet-port", "TOPOLOOM_SYNCER_KUBELET_PORT"),
            ("syncer-evictions", "TOPOLOOM_SYNCER_EVICTIONS"),
            ("syncer-allow-loopback", "TOPOLOOM_SYNCER_ALLOW_LOOPBACK"),
        ] {
            assert_eq!(variable(flag).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn what_the_node_lock_takes_is_asked_for_where_it_is_configured() {
        let locks = |words: &[&str]| setting(words).locks;
        assert_eq!(locks(&[]), LockSettings::default());
        assert_eq!(
            locks(&["--nodelock-sweep=report"]),
            LockSettings { sweep: Some(SweepMode::Report), extender: false }
        );
        assert_eq!(
            locks(&["--extender-address=:8888"]),
            LockSettings { sweep: Some(SweepMode::Repair), extender: true }
        );
        assert_eq!(variable("nodelock-sweep").as_deref(), Some("TOPOLOOM_NODELOCK_SWEEP"));
        assert_eq!(variable("extender-address").as_deref(), Some("TOPOLOOM_EXTENDER_ADDRESS"));
    }
}
