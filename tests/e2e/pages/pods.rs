//! Stands in for the kubelet: the Deployment's own controllers create the pods, and each has the real binary as its
//! container.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::chart::{self, Container};
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::host::{Host, Port};
use topoloom_tests::scene::PATIENCE;

use super::NAMESPACE;
use super::desk::PageReader;

/// How many replicas the chart has by default.
const REPLICAS: usize = 2;

/// Pods that run.
pub(super) struct Pods {
    hosts: Vec<Host>,
}

impl Pods {
    /// Starts the controllers of Deployments, and for each pod of ours the binary; a pod is ready when its probe
    /// succeeds.
    pub(super) async fn start(plane: &mut ControlPlane, desk: &PageReader) -> Result<Self> {
        plane.start_controllers(&["deployment-controller", "replicaset-controller"])?;
        let Replica { container, kubeconfig } = Replica::of(plane, desk).await?;
        // The environment of `kubectl exec` in a pod.
        let mut variables = format!("export KUBECONFIG='{}'\n", kubeconfig.display());
        for (name, value) in &container.env {
            let _ = writeln!(variables, "export {name}='{value}'");
        }
        desk.file("container.env", variables.as_bytes())?;
        let pods: Api<Pod> = Api::namespaced(plane.client(), NAMESPACE);
        let found = eventually("the Deployment has its pods", PATIENCE, async || {
            let list = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            if list.len() == REPLICAS { Ok(list) } else { Err(format!("{} pods", list.len())) }
        })
        .await;
        let mut hosts = Vec::new();
        for pod in found {
            let name = pod.name_any();
            let host = launch(plane, &kubeconfig, &container, &name).await?;
            let ready = json!({"status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": jiff::Timestamp::now().to_string()}],
            }});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await?;
            hosts.push(host);
        }
        Ok(Self { hosts })
    }

    /// Ends them.
    pub(super) async fn stop(self) -> Result<()> {
        for host in self.hosts {
            host.stop().await?;
        }
        Ok(())
    }
}

/// The container and the kubeconfig of a pod of the release.
pub(super) struct Replica {
    pub(super) container: Container,
    pub(super) kubeconfig: PathBuf,
}

impl Replica {
    /// Reads the container from the Deployment in the cluster. The kubeconfig has the rights of its ServiceAccount.
    pub(super) async fn of(plane: &ControlPlane, desk: &PageReader) -> Result<Self> {
        let deployment = desk.shell("kubectl -n topoloom-system get deployment topoloom -o json").await?;
        let container = Container::of(&[serde_json::from_str(&deployment)?])?;
        let kubeconfig = plane.kubeconfig_for(NAMESPACE, chart::NAME).await?;
        Ok(Self { container, kubeconfig })
    }
}

/// Starts the binary as the container of a pod and waits until its probe succeeds.
async fn launch(plane: &ControlPlane, kubeconfig: &Path, container: &Container, pod: &str) -> Result<Host> {
    let flags = container.flags_below(&plane.folder().join(pod))?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let env: Vec<(&str, &str)> = container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with(pod, kubeconfig, &flags, &env).await.context("the container of a pod")?;
    eventually("its probe is content", Duration::from_secs(60), async || {
        match host.ask(Port::Health, "/readyz").await {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    Ok(host)
}
