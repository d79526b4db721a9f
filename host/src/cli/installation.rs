//! Which installation a command on a desk is about if no flag names it: the only one.
//!
//! In a pod of the chart variables name it, elsewhere flags can. Otherwise Deployments and leases are looked up by
//! their label; if there is exactly one installation, it is taken and printed. With several, none is taken, since a
//! command about the wrong one confirms, deletes or switches off the wrong thing.

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use topoloom_api::names::{CONFIGURATION_ANNOTATION, NAME, NAME_LABEL};
use topoloom_sync::naming::base_of_binding_lease;

use super::host_args::LEASE;
use super::options::values::{LEASE_SUFFIX, boolean};
use super::print;
use crate::cluster::leases::{self, LeaseFreshness, LeaseStatus};
use crate::cluster::{Refusal, RefusalReason};
use crate::config::Location;
use crate::config::location::{NAMESPACE_VARIABLE, RELEASE_VARIABLE};

/// One installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installation {
    /// What shows that it is there.
    what: String,
    /// Its own namespace.
    pub(super) namespace: String,
    /// Where its configuration is.
    pub(super) config: Location,
    /// Namespace and name of its first lease; nothing where it runs without one.
    pub(super) lease: Option<(String, String)>,
}

/// What a command does where there is no installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Without {
    /// It fails, unless the configuration is where a host without flags would read it.
    Fails,
    /// It continues with what a host without flags would look at.
    GoesOn,
}

/// Looks for the only installation and prints which it is. `None`: there is none, and the command continues with what a
/// host without flags would look at.
///
/// # Errors
/// If there are several, if they could not be looked up, or if there is none and no default.
pub(super) async fn look(client: &kube::Client, without: Without) -> anyhow::Result<Option<Installation>> {
    let by = ListParams::default().labels(&format!("{NAME_LABEL}={NAME}"));
    let deployments: Api<Deployment> = Api::all(client.clone());
    let leases: Api<Lease> = Api::all(client.clone());
    let (deployments, leases) = tokio::join!(deployments.list(&by), leases.list(&by));
    let deployments = deployments.map_err(|error| Refusal::of(&error));
    let leases = leases.map_err(|error| Refusal::of(&error));
    // What an API server says that cannot be reached is the same for both.
    if let (Err(refusal), Err(_)) = (&deployments, &leases)
        && refusal.reason != RefusalReason::Forbidden
    {
        return Err(refusal.clone()).context("looking for the installation");
    }
    let now = match &leases {
        Ok(leases) if !leases.items.is_empty() => leases::server(client).await?.now,
        _ => Timestamp::now(),
    };
    let refused = [deployments.as_ref().err(), leases.as_ref().err()].into_iter().flatten().next().cloned();
    let deployed = deployments.map(|list| list.items.iter().map(of_deployment).collect()).unwrap_or_default();
    let leased = leases.map(|list| list.items.iter().filter_map(|lease| of_lease(lease, now)).collect());
    let candidates = candidates(deployed, leased.unwrap_or_default());
    match (candidates.as_slice(), refused) {
        ([found], _) => {
            let Installation { what, config: Location { namespace, name, .. }, .. } = found;
            print::error(&format!("topoloom: looking at {what}, configuration {namespace}/{name}"));
            Ok(Some(found.clone()))
        }
        ([], Some(refusal)) if without == Without::Fails => {
            Err(refusal).context("the installation could not be looked up; name it with --namespace and --release")
        }
        ([], _) => nothing(client, without).await,
        (several, _) => bail!("there are several installations; name one:{}", listed(several)),
    }
}

/// There is none.
async fn nothing(client: &kube::Client, without: Without) -> anyhow::Result<Option<Installation>> {
    let usual = Location::from_environment(None, None);
    let Location { namespace, name, .. } = &usual;
    let none = format!("there is no installation: neither a Deployment nor a lease has the label {NAME_LABEL}={NAME}");
    if without == Without::Fails {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let found = api.get_opt(name).await.map_err(|error| Refusal::of(&error));
        if found.with_context(|| format!("{none}; looking for the ConfigMap {namespace}/{name}"))?.is_none() {
            bail!(
                "{none}, and there is no ConfigMap {namespace}/{name}. Install topoloom first (helm install topoloom …), or \
                 say with --namespace and --release, or with --config-map, where the configuration is"
            );
        }
    }
    print::error(&format!(
        "topoloom: {none}; looking at the configuration {namespace}/{name}, as a host without flags would"
    ));
    Ok(None)
}

/// Each with the flags that name it.
fn listed(several: &[Installation]) -> String {
    let line = |found: &Installation| {
        let Installation { what, namespace, config, lease } = found;
        let lease = lease.as_ref().filter(|(_, name)| name != LEASE);
        let lease = lease.map(|(_, name)| {
            format!(" (status, preflight and read-only take --leader-elect-resource-name {name}, too)")
        });
        let config = format!("{}/{}", config.namespace, config.name);
        format!("\n  {what}: --namespace {namespace} --config-map {config}{}", lease.unwrap_or_default())
    };
    several.iter().map(line).collect()
}

/// The installations that there are: those that are deployed or hold a lease, and only where there is none of these,
/// those that once held one: a lease outlives an uninstall.
fn candidates(deployed: Vec<Installation>, leased: Vec<(Installation, LeaseFreshness)>) -> Vec<Installation> {
    let (fresh, old): (Vec<_>, Vec<_>) =
        leased.into_iter().partition(|(_, standing)| *standing == LeaseFreshness::Fresh);
    let mut found = deployed;
    let mut add = |leased: Vec<(Installation, LeaseFreshness)>| {
        for (installation, _) in leased {
            // A host holds a lease for each group, and its Deployment names the first.
            if !found.iter().any(|other| other.lease == installation.lease) {
                found.push(installation);
            }
        }
        found.is_empty()
    };
    if add(fresh) {
        add(old);
    }
    found
}

/// What a Deployment runs, by the flags and variables of its container.
fn of_deployment(deployment: &Deployment) -> Installation {
    let (namespace, name) = (deployment.namespace().unwrap_or_default(), deployment.name_any());
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = pod.map(|pod| pod.containers.as_slice()).unwrap_or_default();
    let flags = ContainerFlags::of(containers);
    let own = flags.by("namespace", NAMESPACE_VARIABLE).unwrap_or_else(|| namespace.clone());
    let usual = Location::from_environment(Some(&own), flags.by("release", RELEASE_VARIABLE).as_deref());
    let named = flags.by("config-map", "TOPOLOOM_CONFIG_MAP");
    let config = named.and_then(|text| Location::parse(&text, &own).ok()).unwrap_or(usual);
    let elects = flags.by("leader-elect", "TOPOLOOM_LEADER_ELECT").is_none_or(|text| boolean(&text) != Ok(false));
    let beside = flags.by("lock-object-namespace", "TOPOLOOM_LOCK_OBJECT_NAMESPACE");
    let beside = beside.or(flags.by("leader-elect-resource-namespace", "TOPOLOOM_LEADER_ELECT_RESOURCE_NAMESPACE"));
    let lease = flags.by("leader-elect-resource-name", "TOPOLOOM_LEADER_ELECT_RESOURCE_NAME");
    let lease = (beside.unwrap_or_else(|| own.clone()), lease.unwrap_or_else(|| LEASE.to_owned()));
    Installation {
        what: format!("Deployment {namespace}/{name}"),
        namespace: own,
        config,
        lease: elects.then_some(lease),
    }
}

/// Whether a pod of ours was started to write nothing but leases.
pub(super) fn is_started_read_only(pod: &Pod) -> bool {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    ContainerFlags::of(containers).is_on("read-only", "TOPOLOOM_READ_ONLY")
}

/// The arguments and variables of a container.
struct ContainerFlags<'a>(Option<&'a Container>);

impl<'a> ContainerFlags<'a> {
    /// Those of the container that is ours.
    fn of(containers: &'a [Container]) -> Self {
        Self(containers.iter().find(|container| container.name == NAME).or(containers.first()))
    }

    /// Whether a switch is on: it stands alone, or has its value behind `=`.
    fn is_on(&self, flag: &str, variable: &str) -> bool {
        let words = self.0.and_then(|container| container.args.as_deref()).unwrap_or_default();
        let flag = format!("--{flag}");
        let given = words.iter().rev().find_map(|word| match word.strip_prefix(&flag)? {
            "" => Some("true".to_owned()),
            rest => rest.strip_prefix('=').map(str::to_owned),
        });
        given.or_else(|| self.variable(variable)).is_some_and(|text| boolean(&text) == Ok(true))
    }

    /// By a flag, otherwise by a variable.
    fn by(&self, flag: &str, variable: &str) -> Option<String> {
        let container = self.0?;
        let words = container.args.as_deref().unwrap_or_default();
        let flag = format!("--{flag}");
        let given = words.iter().enumerate().rev().find_map(|(at, word)| {
            let rest = word.strip_prefix(&flag)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if rest.is_empty() => words.get(at + 1).filter(|next| !next.starts_with("--")).cloned(),
                None => None,
            }
        });
        given.or_else(|| self.variable(variable)).filter(|text| !text.is_empty())
    }

    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String> {
        let variables = self.0?.env.as_deref().unwrap_or_default();
        variables.iter().rev().find(|env| env.name == name)?.value.clone()
    }
}

/// What holds a lease, or held it last. One without the place of a configuration is none of a host's.
fn of_lease(lease: &Lease, now: Timestamp) -> Option<(Installation, LeaseFreshness)> {
    let (namespace, name) = (lease.namespace()?, lease.name_any());
    let config = Location::parse(lease.annotations().get(CONFIGURATION_ANNOTATION)?, &namespace).ok()?;
    // A host holds one for each group, and one for each binding that it serves.
    let first = name.strip_suffix(LEASE_SUFFIX).or_else(|| base_of_binding_lease(&name)).unwrap_or(&name).to_owned();
    let what = format!("the host of the lease {namespace}/{name}");
    let found = Installation { what, namespace: namespace.clone(), config, lease: Some((namespace, first)) };
    Some((found, LeaseStatus::of(lease, now).standing))
}

#[cfg(test)]
mod tests;
