//! Flags of the bottom-up syncer (`bottomup-syncer.md` 3, decisions S6, S19 to S21 and S26).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgAction, Args};
use topoloom_core::names::Uid;
use topoloom_sync::deletion::Evictions;
use topoloom_syncer::kubeconfig::Loopback;
use topoloom_syncer::kubelet::options::{ADDRESS, CERTIFICATE, CLIENTS, KEY, LISTEN, PORT};
use topoloom_syncer::kubelet::{self, GivenOptions};
use topoloom_syncer::physical::WriteRate;

use super::Depth;
use crate::authorities;
use crate::cli::options::{Given, values};
use crate::cli::plugin::read_bounded;
use crate::manager::options::LendingOptions;

/// Flags of the bottom-up syncer.
#[derive(Debug, Args)]
pub(super) struct LendingArgs {
    /// The address that virtual nodes show for kubectl logs, exec, attach and port-forward of lent pods: that of the Service in
    /// front of all replicas; without it they are not served
    #[arg(long, value_name = "IP", value_parser = values::ip)]
    syncer_kubelet_address: Option<IpAddr>,
    /// The port that virtual nodes show with it (1 to 65535)
    #[arg(long, value_name = "PORT", default_value = "10250", value_parser = values::whole::<1, 65_535>)]
    syncer_kubelet_port: u32,
    /// Where this process serves them, if --syncer-kubelet-address is given
    #[arg(long, value_name = "[IP]:PORT", default_value = "[::]:10250", value_parser = values::listener)]
    syncer_kubelet_listen_address: SocketAddr,
    /// The certificate for that in PEM, with its chain; read again when it changes
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    syncer_tls_cert_file: Option<PathBuf>,
    /// The private key for that in PEM
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    syncer_tls_private_key_file: Option<PathBuf>,
    /// Authorities in PEM: API servers need a client certificate of one of them; default: those that the API server of this
    /// cluster publishes in the ConfigMap kube-system/extension-apiserver-authentication
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    syncer_client_ca_file: Option<PathBuf>,
    /// The identity of this cluster, on everything that is lent to it; default: the UID of its namespace kube-system. With
    /// another one all that was lent before is another cluster's
    #[arg(long, value_name = "ID", value_parser = values::identity)]
    virtual_cluster_id: Option<String>,
    /// Writes per second to each physical API server (0 to 100000; 0: no limit)
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = values::whole::<0, 100_000>)]
    physical_client_qps: u32,
    /// How many of these writes may follow at once after a pause (0 to 100000; 0: no limit, whatever --physical-client-qps is)
    #[arg(long, value_name = "COUNT", default_value = "200", value_parser = values::whole::<0, 100_000>)]
    physical_client_burst: u32,
    /// Evict pods that leave a virtual node as their disruption budgets allow, which needs the right to evict any pod of this
    /// cluster; without it they are deleted at the end of their deadline
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_evictions: bool,
    /// Let kubeconfigs of physical clusters lead to this machine, for tests and demos
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_allow_loopback: bool,
}

impl LendingArgs {
    /// What was asked for, if it fits together.
    pub(super) fn lending(self, depth: Depth, given: &mut Given) -> LendingOptions {
        let writes = match (self.physical_client_qps, self.physical_client_burst) {
            (0, _) | (_, 0) => WriteRate::Unlimited,
            (per_second, burst) => WriteRate::Limited { per_second, burst },
        };
        LendingOptions {
            virtual_cluster: self.virtual_cluster_id.as_deref().map(Uid::from),
            writes,
            evictions: if self.syncer_evictions { Evictions::Allowed } else { Evictions::Off },
            loopback: if self.syncer_allow_loopback { Loopback::Allowed } else { Loopback::Refused },
            kubelet: self.kubelet(depth, given),
        }
    }

    fn kubelet(self, depth: Depth, given: &mut Given) -> Option<kubelet::Options> {
        if self.syncer_kubelet_address.is_none() {
            let others = [PORT, LISTEN, CERTIFICATE, KEY, CLIENTS];
            let idle: Vec<&str> = others.into_iter().filter(|flag| given.is_given(flag)).collect();
            if !idle.is_empty() && given.are_sound(&[ADDRESS]) {
                given.warn(&idle, format!("has no effect without --{ADDRESS}"));
            }
            return None;
        }
        if depth == Depth::Files {
            let files = [
                (CERTIFICATE, &self.syncer_tls_cert_file),
                (KEY, &self.syncer_tls_private_key_file),
                (CLIENTS, &self.syncer_client_ca_file),
            ];
            for (flag, file) in files {
                let read = file.as_deref().map(|path| read_bounded(path, authorities::LARGEST));
                if let Some(Err(error)) = read {
                    given.mistake(&[flag], format!("cannot be read: {}", crate::cli::chain(&error)));
                }
            }
        }
        let checked = GivenOptions {
            address: self.syncer_kubelet_address,
            port: u16::try_from(self.syncer_kubelet_port).ok(),
            listen: Some(self.syncer_kubelet_listen_address),
            certificate: self.syncer_tls_cert_file,
            key: self.syncer_tls_private_key_file,
            clients: self.syncer_client_ca_file,
        }
        .check();
        match checked {
            Ok(options) => options,
            Err(wrong) => {
                // What is broken in another way was said already.
                if given.are_sound(&[wrong.flag]) {
                    given.mistake(&[wrong.flag], wrong.why);
                }
                None
            }
        }
    }
}
