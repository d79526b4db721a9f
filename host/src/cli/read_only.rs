//! `topoloom read-only`: ends all writes of every replica, and allows them again, without an uninstall.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use topoloom_api::names::READ_ONLY_ANNOTATION;

use super::host_args::HostArgs;
use super::installation::Without;
use super::print;
use super::source::OPERATOR;
use crate::cluster::{Refusal, RefusalReason};

/// Flags of `read-only`.
#[derive(Debug, Args)]
pub(super) struct ReadOnlyArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Whether writes stop or are allowed
    #[arg(value_enum)]
    position: Position,
    /// Annotate the ConfigMap even if no lease shows that a host of ours runs there (a host with --leader-elect=false
    /// has no lease)
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Position {
    /// Stop all writes except leases
    On,
    /// Allow writes again
    Off,
}

impl Position {
    /// The value of the annotation.
    fn value(self) -> Option<&'static str> {
        match self {
            Self::On => Some("true"),
            Self::Off => None,
        }
    }

    /// What it does.
    fn effect(self) -> &'static str {
        match self {
            Self::On => {
                "writes stop within a second on every replica: no HyperNode, no status, no Event. Replicas still renew leases and run rounds in memory, and HyperNodes stay as they are. `topoloom plan` shows what would be written, `topoloom read-only off` allows writes again"
            }
            Self::Off => {
                "writes are allowed again: every source decides again from what it observes, with all its guards. A host that was started with --read-only still writes nothing"
            }
        }
    }
}

/// Sets or takes the annotation.
pub(super) async fn run(args: ReadOnlyArgs) -> anyhow::Result<ExitCode> {
    let host = args.host.found(Without::GoesOn).await?;
    let location = host.location();
    let client = host.cluster.connect().await?;
    if !args.force {
        a_host_is_there(&client, &host).await?;
    }
    let api: Api<ConfigMap> = Api::namespaced(client, &location.namespace);
    let body = json!({"metadata": {"annotations": {READ_ONLY_ANNOTATION: args.position.value()}}});
    let parameters = PatchParams { field_manager: Some(OPERATOR.into()), ..PatchParams::default() };
    match api.patch(&location.name, &parameters, &Patch::Merge(&body)).await.map_err(|error| Refusal::of(&error)) {
        Ok(_) => {
            print::out(&format!("{}/{}: {}\n", location.namespace, location.name, args.position.effect()));
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) if refusal.reason == RefusalReason::NotFound => bail!(
            "there is no ConfigMap {}/{} to annotate: name it with --config-map, or --namespace and --release",
            location.namespace,
            location.name
        ),
        Err(refusal) => Err(refusal).with_context(|| format!("annotating {}/{}", location.namespace, location.name)),
    }
}

/// An operator who believes that writes have stopped must not have annotated another ConfigMap: Volcano's has the name
/// that we look for where nothing else is said. A lease is what every host leaves that has ever run there.
async fn a_host_is_there(client: &kube::Client, host: &HostArgs) -> anyhow::Result<()> {
    let (namespace, name) = host.lease();
    let way = "name the installation with --namespace and --release (in the chart: topoloom-system, topoloom), and with --config-map and --leader-elect-resource-name if it has other names; --force skips this check";
    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    match leases.get_opt(&name).await.map_err(|error| Refusal::of(&error)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => bail!(
            "nothing was annotated: there is no lease {namespace}/{name}, so no host of ours seems to run there: {way}"
        ),
        Err(refusal) => Err(refusal)
            .with_context(|| format!("nothing was annotated: the lease {namespace}/{name} could not be read ({way})")),
    }
}
