//! Flags of the node lock, its sweeper and the extender (`node-lock-and-bind.md` part A, decisions N2, N3, N7 to N9).

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use topoloom_core::nodelock::Retry;
use topoloom_core::nodelock::needs::Backend;

use super::Depth;
use crate::authorities;
use crate::cli::host_args::SweepWord;
use crate::cli::lock::TakeoverWord;
use crate::cli::options::{Given, values};
use crate::cli::plugin::read_bounded;
use crate::config::duration;
use crate::config::lock_resources::{self, LockResources};
use crate::extender::{ExtenderOptions, Filter, ServingFiles};
use crate::manager::options::LockOptions;
use crate::nodelock::lock;
use crate::nodelock::sweeper::SweepMode;

const ADDRESS: &str = "extender-address";
const CERTIFICATE: &str = "extender-tls-cert-file";
const KEY: &str = "extender-tls-private-key-file";
const CLIENTS: &str = "extender-client-ca-file";
const NAMES: &str = "extender-client-names";
const ANONYMOUS: &str = "extender-allow-anonymous";
const TIMEOUT: &str = "extender-http-timeout";
const WAITING: &str = "extender-max-waiting-binds";
const TTL: &str = "node-lock-timeout";
const DRAIN: &str = "drain-timeout";
const RESOURCES: &str = "node-lock-resources";

/// Flags of the node lock.
#[derive(Debug, Args)]
pub(super) struct NodeLockArgs {
    /// Age at which a lock expires if the state of its pod cannot show that the lock is still needed (10s to 24h; twice
    /// the time of a Bind at least)
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::node_lock_timeout)]
    node_lock_timeout: Duration,
    /// When a lock may be taken over: with `state` only when its pod is provably done with it; with `age` whenever it
    /// is older than the timeout, as in HAMi, so that two pods may share a device
    #[arg(long, value_enum, default_value_t = TakeoverWord::State)]
    node_lock_takeover: TakeoverWord,
    /// How the node lock retries after API errors and conflicts
    #[arg(long, value_enum, default_value_t = RetryWord::Classic)]
    node_lock_retry: RetryWord,
    /// A YAML file with the resources that need the lock, in place of the built-in table
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    node_lock_resources: Option<PathBuf>,
    /// What the sweeper does about orphaned locks; default: repair where the extender runs, otherwise the sweeper waits
    #[arg(long, value_enum)]
    nodelock_sweep: Option<SweepWord>,
    /// Where the extender listens for kube-scheduler; without it the extender waits
    #[arg(long, value_name = "[IP]:PORT", value_parser = values::listener)]
    extender_address: Option<SocketAddr>,
    /// The certificate of the extender in PEM, with its chain; read again when it changes
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    extender_tls_cert_file: Option<PathBuf>,
    /// The private key of the extender in PEM
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    extender_tls_private_key_file: Option<PathBuf>,
    /// Authorities in PEM: clients need a certificate of one of them
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    extender_client_ca_file: Option<PathBuf>,
    /// Which certificates of those authorities are accepted: common names or organisations, separated by commas
    #[arg(long, value_name = "NAMES", default_value = "system:kube-scheduler", value_parser = values::client_names)]
    extender_client_names: values::ClientNames,
    /// Accept clients without a certificate: anyone who can connect can bind any pod to any node
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    extender_allow_anonymous: bool,
    /// The httpTimeout of the extender in the configuration of kube-scheduler; a Bind waits for a lock at most 2s less
    /// than that, and at most 28s (3s to 10m)
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::lasting::<3_000, 600_000>)]
    extender_http_timeout: Duration,
    /// How many Binds may wait for a lock, and a quarter of that for one node; a Bind beyond that fails at once with
    /// contention, and kube-scheduler tries again (1 to 4096)
    #[arg(long, value_name = "COUNT", default_value = "256", value_parser = values::whole::<1, 4096>)]
    extender_max_waiting_binds: u32,
    /// Which nodes the filter of the extender leaves out
    #[arg(long, value_enum, default_value_t = FilterWord::Stuck)]
    extender_filter: FilterWord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RetryWord {
    /// 5 tries, 100 ms between them
    Classic,
    /// 5 tries, 100, 200, 400 and 800 ms between them, up to half as much longer at random
    #[value(name = "hami-2.10")]
    Hami,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FilterWord {
    /// No nodes
    Off,
    /// Nodes whose device plugin has not answered for longer than the lock timeout
    Stuck,
    /// Nodes that a pod holds
    Locked,
}

impl NodeLockArgs {
    /// What was asked for, if it fits together.
    pub(super) fn locks(self, depth: Depth, given: &mut Given) -> LockOptions {
        let backends = match (&self.node_lock_resources, depth) {
            (Some(path), Depth::Files) => self::backends(path, given),
            _ => Backend::known(),
        };
        let lock = lock::Options {
            ttl: self.node_lock_timeout,
            takeover: self.node_lock_takeover.into(),
            retry: match self.node_lock_retry {
                RetryWord::Classic => Retry::CLASSIC,
                RetryWord::Hami => Retry::HAMI_2_10,
            },
        };
        let sweep = self.nodelock_sweep.map(SweepMode::from);
        let extender = self.extender(depth, given);
        let sweep = sweep.or(extender.as_ref().map(|_| SweepMode::Repair));
        LockOptions { lock, backends: backends.into(), sweep, extender }
    }

    fn extender(self, depth: Depth, given: &mut Given) -> Option<ExtenderOptions> {
        let files = [(CERTIFICATE, &self.extender_tls_cert_file), (KEY, &self.extender_tls_private_key_file)];
        let Some(address) = self.extender_address else {
            let idle: Vec<&str> = [CERTIFICATE, KEY, CLIENTS, NAMES, ANONYMOUS, TIMEOUT, WAITING, "extender-filter"]
                .into_iter()
                .filter(|flag| given.is_given(flag))
                .collect();
            if !idle.is_empty() {
                given.warn(&idle, "has no effect without --extender-address");
            }
            return None;
        };
        let there: Vec<&str> = files.iter().filter(|(_, file)| file.is_some()).map(|(flag, _)| *flag).collect();
        if there.len() == 1 {
            given.mistake(
                &there,
                format!("a certificate needs its key and a key its certificate: --{CERTIFICATE} and --{KEY}"),
            );
        }
        if self.extender_client_ca_file.is_some() && there.is_empty() {
            given.mistake(
                &[CLIENTS],
                format!("clients show a certificate over TLS only: --{CERTIFICATE} and --{KEY} are missing"),
            );
        }
        if depth == Depth::Files {
            for (flag, file) in files.into_iter().chain([(CLIENTS, &self.extender_client_ca_file)]) {
                let read = file.as_deref().map(|path| read_bounded(path, authorities::LARGEST));
                if let Some(Err(error)) = read {
                    given.mistake(&[flag], format!("cannot be read: {}", crate::cli::chain(&error)));
                }
            }
        }
        if self.extender_client_ca_file.is_none() && given.is_given(NAMES) {
            given.warn(&[NAMES], format!("has no effect without --{CLIENTS}: no client shows a certificate"));
        }
        let is_local = address.ip().to_canonical().is_loopback();
        let asks = self.extender_client_ca_file.is_some() && there.len() == 2;
        if !is_local && !asks && !self.extender_allow_anonymous && given.are_sound(&[ADDRESS, ANONYMOUS]) {
            given.mistake(
                &[ADDRESS],
                format!(
                    "anyone who can connect can bind any pod to any node, so it must be a loopback address such as 127.0.0.1:8888, or serve over TLS and require client certificates (--{CERTIFICATE}, --{KEY}, --{CLIENTS}); --{ANONYMOUS} accepts clients without one"
                ),
            );
        }
        let tls = match (self.extender_tls_cert_file, self.extender_tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                let names = self.extender_client_names.0;
                Some(ServingFiles { certificate, key, clients: self.extender_client_ca_file, names })
            }
            _ => None,
        };
        let filter = match self.extender_filter {
            FilterWord::Off => Filter::Off,
            FilterWord::Stuck => Filter::Stuck,
            FilterWord::Locked => Filter::Locked,
        };
        let extender = ExtenderOptions {
            address,
            tls,
            http_timeout: self.extender_http_timeout,
            filter,
            max_waiting: usize::try_from(self.extender_max_waiting_binds).unwrap_or(usize::MAX),
        };
        let least = extender.patience() * 2;
        if given.are_sound(&[TTL, TIMEOUT]) && self.node_lock_timeout < least {
            let (least, patience) = (duration::format(least), duration::format(extender.patience()));
            given.mistake(
                &[TTL, TIMEOUT],
                format!("a lock must last at least twice as long as a Bind may take ({patience}): {least}"),
            );
        }
        Some(extender)
    }
}

/// A Bind that is cut off at the end of a drain is not lost, but its pod and its node wait for the sweeper.
pub(super) fn check_drain(extender: &ExtenderOptions, drain: Duration, given: &mut Given) {
    let longest = extender.longest();
    if drain < longest && given.are_sound(&[DRAIN, TIMEOUT]) {
        let longest = duration::format(longest);
        let warning = format!(
            "a Bind and its rollback may take {longest}; a Bind that is cut off leaves its lock to the sweeper"
        );
        given.warn(&[DRAIN], warning);
    }
}

fn backends(path: &Path, given: &mut Given) -> Vec<Backend> {
    let read = read_bounded(path, lock_resources::LARGEST).map_err(|error| crate::cli::chain(&error));
    let text = read.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
    match text.and_then(|text| lock_resources::parse(&text).map_err(|error| error.to_string())) {
        Err(why) => {
            given.mistake(&[RESOURCES], why);
            Backend::known()
        }
        Ok(LockResources { backends, problems }) => {
            problems.iter().for_each(|problem| given.mistake(&[RESOURCES], problem));
            backends
        }
    }
}
