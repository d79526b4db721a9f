//! What lending needs, in both clusters (decisions S6, S13, S19, S20, S26 and S27).
//!
//! Owns which ClusterBindings are checked, and what the virtual cluster has to have for them. What the physical cluster of a binding
//! has to have is in [`borrowed`], how far each account is held back by admission policies in [`guards`], and whether a definition is of
//! this version in [`definitions`].
//!
//! Nothing is stored: what is written is a dry run. The Secrets that bindings name are read, and of a kubeconfig only its server, its
//! end and what is wrong with it is shown.
//!
//! # Failure story
//!
//! A physical cluster that does not answer has lines of its own, and changes no other line. Without the right to list ClusterBindings,
//! or without their definition, a host that has other controllers lends nothing and works, so nothing is missing.

mod borrowed;
mod definitions;
mod guards;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{ArgAction, Args};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use tokio::net::TcpStream;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::rules::is_dns_subdomain;
use topoloom_api::{ClusterBinding, resource_leasing_policy};
use topoloom_core::controllers::{BOTTOMUP_SYNCER, EXTENDER, HYPER_NODE, NODELOCK_SWEEPER, Selection};
use topoloom_core::names::Uid;
use topoloom_sync::deletion;
use topoloom_sync::naming::BindingName;
use topoloom_sync::ports::Mirroring;
use topoloom_syncer::convert::binding::{Problems, Reading, Surroundings, read};
use topoloom_syncer::kubeconfig::Loopback;
use topoloom_syncer::survey::lists;

use self::borrowed::Lender;
use super::access::{self, Subject};
use super::cluster;
use super::line::Line;
use crate::cli::options::values;
use crate::cluster::{RefusalReason, Side};
use crate::manager::rights::lending::{BindingLeases, Evictions, HostPorts, Streams, VirtualSettings};
use crate::manager::rights::{Extent, RightsSettings};

/// Physical clusters that are asked at the same time.
const CONCURRENCY: usize = 4;
/// How long a connection to the kubelet's API may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The check of ClusterBindings.
const BINDINGS: &str = "ClusterBindings";
/// The check of their definition.
const DEFINITION: &str = "definition of ClusterBindings";
/// What makes a definition, and renews it.
const APPLY: &str = topoloom_api::crd::APPLY;
/// What makes all that a borrower needs in a physical cluster.
const GRANT: &str = "the lender applies what `topoloom lend grant` prints";

/// Flags of `preflight` about lending.
#[derive(Debug, Args)]
pub(super) struct LendingArgs {
    /// Check this ClusterBinding and its physical cluster, and no other one; may be given several times
    #[arg(long = "binding", value_name = "NAME", action = ArgAction::Append, value_parser = binding)]
    bindings: Vec<BindingName>,
    /// The address that virtual nodes show for kubectl logs, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_KUBELET_ADDRESS", value_name = "IP", value_parser = values::ip)]
    syncer_kubelet_address: Option<IpAddr>,
    /// The port that virtual nodes show with it, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_KUBELET_PORT", value_name = "PORT", default_value = "10250", value_parser = values::whole::<1, 65_535>)]
    syncer_kubelet_port: u32,
    /// Whether pods are evicted by the Eviction API, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_EVICTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_evictions: bool,
    /// Whether the kubeconfig in a Secret may lead to this machine, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_ALLOW_LOOPBACK", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_allow_loopback: bool,
}

fn binding(text: &str) -> Result<BindingName, String> {
    BindingName::parse(text).map_err(|error| error.to_string())
}

/// The virtual cluster, as this command asks it.
pub(super) struct Virtual<'a> {
    /// The caller's.
    pub(super) client: &'a kube::Client,
    /// Whose rights are asked for.
    pub(super) subject: &'a Subject,
    /// What the host is started with.
    pub(super) setting: &'a RightsSettings,
    /// By the clock of the API server.
    pub(super) now: Timestamp,
}

/// A binding, as it was read.
struct Read<'a> {
    object: &'a ClusterBinding,
    reading: Result<Reading, Problems>,
}

/// Whether the host lends nodes and does nothing else.
pub(super) fn is_alone(controllers: &Selection) -> bool {
    controllers.enables(BOTTOMUP_SYNCER)
        && ![HYPER_NODE, NODELOCK_SWEEPER, EXTENDER].iter().any(|name| controllers.enables(name))
}

/// Checks both sides.
pub(super) async fn look(cluster: &Virtual<'_>, args: &LendingArgs) -> Vec<Line> {
    let controllers = &cluster.setting.controllers;
    if !controllers.enables(BOTTOMUP_SYNCER) {
        return Vec::new();
    }
    let is_wanted = is_alone(controllers) || !args.bindings.is_empty();
    let mut lines = Vec::new();
    let all = match lists::bindings(cluster.client).await {
        Ok(all) if all.is_empty() && !is_wanted => return lines,
        Ok(all) => all,
        Err(refusal) => {
            let waits = matches!(refusal.reason, RefusalReason::NoSuchResource | RefusalReason::Forbidden);
            if waits && !is_wanted {
                return lines;
            }
            let todo = if refusal.reason == RefusalReason::NoSuchResource { APPLY } else { "" };
            lines.push(Line::fail(BINDINGS, format!("they could not be listed: {refusal}"), todo));
            Vec::new()
        }
    };
    if lines.is_empty() {
        lines.push(definitions::BINDINGS.compare(cluster.client, DEFINITION, Side::Virtual).await);
        if all.is_empty() {
            lines.push(Line::ok(BINDINGS, "there is none yet, so no physical cluster was asked"));
        }
    }
    lines.extend(args.unknown(&all));
    let kube_system = match lists::cluster(cluster.client, Side::Virtual).await {
        Ok(uid) => Some(uid),
        // Without it the process does not begin, and which right is missing is said below.
        Err(refusal) => {
            lines.push(Line::fail("identity of the virtual cluster", refusal.to_string(), ""));
            None
        }
    };
    let read = args.read(&all, kube_system.as_ref());
    let settings = args.settings(cluster.setting, &read);
    lines.extend(access::ask(cluster.client, cluster.subject, &settings.rights()).await);
    if settings.policies == PolicySource::Virtual {
        lines.push(policies(cluster.client, Side::Virtual).await);
    }
    lines.extend(ranges::look(cluster.client).await);
    lines.extend(guards::of_syncer(cluster.client, cluster.subject).await);
    lines.extend(args.endpoint().await);
    let lender = Lender {
        lent: cluster.client,
        namespace: &cluster.setting.own,
        kube_system: kube_system.as_ref(),
        streams: settings.streams,
        loopback: if args.syncer_allow_loopback { Loopback::Allowed } else { Loopback::Refused },
        now: cluster.now,
    };
    let looks: Vec<_> = read.iter().map(|read| lender.look(read.object, &read.reading)).collect();
    let found: Vec<Vec<Line>> = stream::iter(looks).buffered(CONCURRENCY).collect().await;
    lines.extend(found.into_iter().flatten());
    lines
}

impl LendingArgs {
    /// The names that no binding has.
    fn unknown(&self, all: &[ClusterBinding]) -> Vec<Line> {
        let is_one = |name: &BindingName| all.iter().any(|object| object.metadata.name.as_deref() == Some(&**name));
        let unknown = self.bindings.iter().filter(|name| !is_one(name));
        unknown
            .map(|name| {
                Line::fail("ClusterBinding", "there is none of this name", "kubectl get clusterbindings").of(name)
            })
            .collect()
    }

    /// The bindings that are checked.
    fn read<'a>(&self, all: &'a [ClusterBinding], kube_system: Option<&Uid>) -> Vec<Read<'a>> {
        let around = Surroundings {
            // What is read with it goes nowhere.
            virtual_cluster: kube_system.cloned().unwrap_or_else(|| "unknown".into()),
            evictions: deletion::Evictions::Allowed,
            endpoint: None,
        };
        let is_asked = |object: &&ClusterBinding| {
            let name = object.metadata.name.as_deref();
            self.bindings.is_empty() || self.bindings.iter().any(|wanted| Some(&**wanted) == name)
        };
        all.iter().filter(is_asked).map(|object| Read { object, reading: read(object, &around) }).collect()
    }

    /// What the rights in the virtual cluster depend on.
    fn settings(&self, setting: &RightsSettings, read: &[Read<'_>]) -> VirtualSettings {
        let terms = || read.iter().filter_map(|read| read.reading.as_ref().ok()).map(|reading| &reading.terms);
        let secrets: BTreeSet<&str> =
            terms().map(|terms| terms.secret.as_str()).filter(|name| is_dns_subdomain(name)).collect();
        let has_policies = terms().any(|terms| terms.policy_source == PolicySource::Virtual);
        let mirrors = terms().any(|terms| terms.host_ports == Mirroring::On);
        VirtualSettings {
            leases: match &setting.leases {
                Some((namespace, _)) => BindingLeases::Elected(namespace.clone()),
                None => BindingLeases::Unelected(setting.own.clone()),
            },
            config: setting.config.clone(),
            extent: match setting.extent {
                Extent::LeasesOnly => Extent::LeasesOnly,
                // A trial is about HyperNodes; a binding has a mode of its own.
                Extent::Everything | Extent::NoHyperNodes => Extent::Everything,
            },
            secrets: secrets.into_iter().map(|name| (setting.own.clone(), name.to_owned())).collect(),
            policies: if has_policies { PolicySource::Virtual } else { PolicySource::Physical },
            evictions: if self.syncer_evictions { Evictions::Allowed } else { Evictions::Never },
            host_ports: if mirrors { HostPorts::Mirrored } else { HostPorts::Off },
            streams: if self.syncer_kubelet_address.is_some() { Streams::Served } else { Streams::Off },
        }
    }

    /// Whether the kubelet's API of virtual nodes answers, where one is shown.
    async fn endpoint(&self) -> Option<Line> {
        let what = "kubelet endpoint";
        let address = SocketAddr::new(self.syncer_kubelet_address?, u16::try_from(self.syncer_kubelet_port).ok()?);
        let why = match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Some(Line::ok(what, format!("{address} answers"))),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        let found = format!(
            "{address} cannot be reached from here ({why}): without it kubectl logs and exec of lent pods fail"
        );
        let todo = "see that the Service has this address and a pod that is ready, and that API servers reach it; a network policy \
                    may let them and not this command";
        Some(Line::warn(what, found, todo))
    }
}

/// Whether policies can be there.
async fn policies(client: &kube::Client, side: Side) -> Line {
    let what = format!("definition of ResourceLeasingPolicies in {side}");
    let version = resource_leasing_policy::API_VERSION;
    let todo = match side {
        Side::Virtual => APPLY,
        Side::Physical => GRANT,
    };
    match cluster::served(client, version, resource_leasing_policy::PLURAL).await {
        Ok(true) => definitions::POLICIES.compare(client, &what, side).await,
        Ok(false) => {
            let found = format!(
                "the API server does not serve them: the nodes of bindings that take policies from {side} stay as they are"
            );
            Line::fail(&what, found, todo)
        }
        Err(refusal) => Line::fail(&what, format!("it could not be read: {}", refusal.on(side)), ""),
    }
}
