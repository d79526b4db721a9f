//! What tests of several replicas and several bindings have in common: the accounts of the syncer in two clusters with exactly the
//! rights that its table has, and bindings that share a lender.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use topoloom::manager::rights::Extent;
use topoloom::manager::rights::lending::{
    BindingLeases, Evictions, HostPorts, PhysicalSettings, Streams, VirtualSettings,
};
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};
use topoloom_api::{cluster_binding, resource_leasing_policy};
use topoloom_sync::naming::BindingName;
use topoloom_syncer::kubeconfig::KEY;
use topoloom_tests::controlplane::ControlPlane;
use topoloom_tests::lending::kubelets::STOP;

use super::accounts::of_chart;
use super::pair::{BORROWED, SHOP, namespace};
use super::program::account;

/// Where the syncer is.
pub(super) const SYSTEM: &str = "topoloom-system";
/// The label of a machine with the binding that it is lent to.
pub(super) const LENT_TO: &str = "lent-to";
/// The Secret with the kubeconfig of the lender, which all bindings name.
const LENDER: &str = "lender";

/// Prepares a virtual cluster with these ConfigMaps, by each of which writes may be switched off, and an account of the syncer
/// for each; the kubeconfigs. The first one is that of the chart, with its admission policies, and others have the same rights.
pub(super) async fn borrows(plane: &ControlPlane, switches: &[&str]) -> Result<Vec<PathBuf>> {
    plane.apply_crd(cluster_binding::definition()).await?;
    for name in [SYSTEM, SHOP] {
        namespace(plane, name).await?;
    }
    let mut kubeconfigs = Vec::new();
    for name in switches {
        let metadata = json!({"name": name, "namespace": SYSTEM});
        plane.apply(&[json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})]).await?;
        if kubeconfigs.is_empty() {
            kubeconfigs.push(of_chart(plane, name, json!({"secrets": [LENDER]})).await?);
            continue;
        }
        let settings = VirtualSettings {
            leases: BindingLeases::Elected(SYSTEM.to_owned()),
            config: (SYSTEM.to_owned(), (*name).to_owned()),
            extent: Extent::Everything,
            secrets: vec![(SYSTEM.to_owned(), LENDER.to_owned())],
            policies: PolicySource::Physical,
            evictions: Evictions::Allowed,
            host_ports: HostPorts::Off,
            streams: Streams::Off,
        };
        kubeconfigs.push(account(plane, SYSTEM, &format!("syncer-{name}"), &settings.rights()).await?);
    }
    Ok(kubeconfigs)
}

/// Prepares a physical cluster with one account for these bindings; its kubeconfig.
pub(super) async fn lends(plane: &ControlPlane, bindings: &[String]) -> Result<PathBuf> {
    plane.apply_crd(resource_leasing_policy::definition()).await?;
    namespace(plane, BORROWED).await?;
    let mut rights = Vec::new();
    for name in bindings {
        let settings = PhysicalSettings {
            binding: BindingName::parse(name)?,
            mount_namespace: BORROWED.to_owned(),
            writes: PhysicalWrites::All,
            policies: PolicySource::Physical,
            streams: Streams::Off,
        };
        rights.extend(settings.rights());
    }
    account(plane, BORROWED, "borrower", &rights).await
}

/// Stores the kubeconfig of the lender in the virtual cluster.
pub(super) async fn stores(plane: &ControlPlane, kubeconfig: &Path) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": LENDER, "namespace": SYSTEM},
        "stringData": {KEY: std::fs::read_to_string(kubeconfig)?},
    });
    plane.apply(&[secret]).await
}

/// A binding that borrows the machines with its label.
pub(super) fn binding(name: &str, timing: &Value) -> Value {
    let term = json!({"matchExpressions": [{"key": LENT_TO, "operator": "In", "values": [name]}]});
    json!({
        "apiVersion": cluster_binding::API_VERSION, "kind": cluster_binding::KIND, "metadata": {"name": name},
        "spec": {
            "clusterID": name, "secretRef": {"name": LENDER}, "mountNamespace": BORROWED,
            "nodeSelector": {"nodeSelectorTerms": [term]}, "disableNodeDefaultTaint": true, "timing": timing,
        },
    })
}

/// A pod on a virtual node that taint-eviction would remove at once.
pub(super) fn pod(name: &str, node: &str) -> Value {
    let tolerations = ["not-ready", "unreachable"].map(|taint| {
        let key = format!("node.kubernetes.io/{taint}");
        json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0})
    });
    json!({
        "metadata": {"name": name, "annotations": {STOP: "300ms,Succeeded"}},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "none"}]},
    })
}
