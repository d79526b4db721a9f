//! Flags about what the process serves, and where.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};

use crate::authorities;
use crate::cli::options::{Given, VOLCANOS, values};
use crate::cli::plugin::read_bounded;
use crate::manager::options::HealthListener;
use crate::serving::tls::TlsFiles;

const TLS: [&str; 3] = ["ca-cert-file", "tls-cert-file", "tls-private-key-file"];

/// Flags about what the process serves, and where.
#[derive(Debug, Args)]
pub(super) struct ListenerArgs {
    /// Where the admin server listens, for people on the same machine or in the same pod; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "IP:PORT", value_parser = values::loopback)]
    admin_address: SocketAddr,
    /// Serve /healthz and /readyz
    #[arg(long, help_heading = VOLCANOS, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    enable_healthz: bool,
    /// Where /healthz and /readyz are served
    #[arg(long, help_heading = VOLCANOS, value_name = "[IP]:PORT", default_value = ":11251", value_parser = values::listener)]
    healthz_address: SocketAddr,
    /// Serve /metrics
    #[arg(long, help_heading = VOLCANOS, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    enable_metrics: bool,
    /// Where /metrics is served
    #[arg(long, help_heading = VOLCANOS, value_name = "[IP]:PORT", default_value = ":8081", value_parser = values::listener)]
    listen_address: SocketAddr,
    /// Authorities in PEM; with the other two files, health is served over TLS
    #[arg(long, help_heading = VOLCANOS, value_name = "FILE", value_parser = values::path)]
    ca_cert_file: Option<PathBuf>,
    /// The certificate of the health server in PEM, with its chain
    #[arg(long, help_heading = VOLCANOS, value_name = "FILE", value_parser = values::path)]
    tls_cert_file: Option<PathBuf>,
    /// The private key of the health server in PEM
    #[arg(long, help_heading = VOLCANOS, value_name = "FILE", value_parser = values::path)]
    tls_private_key_file: Option<PathBuf>,
}

/// Where the process listens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listeners {
    pub(super) admin: SocketAddr,
    pub(super) health: Option<HealthListener>,
    pub(super) metrics: Option<SocketAddr>,
}

impl ListenerArgs {
    /// Where the process listens, if no two of its servers are in each other's way.
    pub(super) fn listeners(self, given: &mut Given) -> Listeners {
        let enabled = [
            (Some("admin-address"), self.admin_address),
            (self.enable_healthz.then_some("healthz-address"), self.healthz_address),
            (self.enable_metrics.then_some("listen-address"), self.listen_address),
        ];
        let enabled: Vec<_> = enabled.into_iter().filter_map(|(flag, address)| Some((flag?, address))).collect();
        for (index, (flag, address)) in enabled.iter().enumerate() {
            for (other, beside) in enabled.iter().skip(index + 1) {
                if given.are_sound(&[flag, other]) && overlap(*address, *beside) {
                    given.mistake(&[flag, other], "two servers cannot listen there; give one of them another port");
                }
            }
        }
        let is_served = self.enable_healthz;
        let address = self.healthz_address;
        let tls = self.tls(given);
        Listeners {
            admin: enabled.first().map_or(address, |(_, address)| *address),
            health: is_served.then_some(HealthListener { address, tls }),
            metrics: enabled.iter().find(|(flag, _)| *flag == "listen-address").map(|(_, address)| *address),
        }
    }

    fn tls(self, given: &mut Given) -> Option<TlsFiles> {
        let files = [self.ca_cert_file, self.tls_cert_file, self.tls_private_key_file];
        let is_given = |given: &Given, flag: &str| given.is_given(flag);
        let there: Vec<&str> = TLS.into_iter().filter(|flag| is_given(given, flag)).collect();
        if !there.is_empty() && there.len() < TLS.len() {
            let missing: Vec<String> =
                TLS.iter().filter(|flag| !there.contains(flag)).map(|flag| format!("--{flag}")).collect();
            given.mistake(
                &there,
                format!("health is served over TLS with all three files or none; missing: {}", missing.join(", ")),
            );
        }
        if !there.is_empty() && !self.enable_healthz && given.are_sound(&["enable-healthz"]) {
            given.warn(&there, "has no effect without --enable-healthz");
        }
        let [Some(authorities), Some(certificate), Some(key)] = files else { return None };
        Some(TlsFiles { authorities, certificate, key })
    }
}

/// Whether two servers would want the same port of the same address. Port 0 is a free one.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && one.port() != 0 && (a == b || a.is_unspecified() || b.is_unspecified())
}

/// Says which of the files cannot be read: the health server would not start, or start without TLS.
pub(super) fn check_files(health: Option<&HealthListener>, given: &mut Given) {
    let Some(files) = health.and_then(|health| health.tls.as_ref()) else { return };
    let paths: [&Path; 3] = [&files.authorities, &files.certificate, &files.key];
    for (flag, path) in TLS.iter().zip(paths) {
        if let Err(error) = read_bounded(path, authorities::LARGEST) {
            given.mistake(&[flag], format!("cannot be read: {}", crate::cli::chain(&error)));
        }
    }
}
