//! What goes wrong, and what must be true then: each row of the table of lending, on real control planes. kube-controller-manager
//! runs in each virtual cluster with the controllers that take pods away ([`KEEPERS`]), so that an eviction that follows from a
//! mistake of the syncer happens here, too.
//!
//! | module | what goes wrong |
//! |---|---|
//! | `outage` | a physical API server is gone; a binding is deleted meanwhile |
//! | `silence` | the virtual API server is gone, both are, etcd stalls, the history of a watch is gone |
//! | `history` | another physical cluster answers; a store is set back |
//! | `claims` | two want the same; a binding is deleted by force; a virtual cluster is built again |
//! | `clocks` | the clock of a new leader is wrong; the clock is set |
//! | `settings` | mistakes in policies, rights and definitions; a selector or a job takes most nodes away |
//! | `machines` | machines, kubelets and virtual nodes that break or are edited; pods that do not want to go |
//! | `labels` | a person takes labels of identity off virtual nodes, or copies one |
//! | `leaders` | a leader is killed, or stopped and resumed |
//! | `ownership` | what is not ours, through all of it |
//!
//! Cases that do not disturb each other share control planes. Variations beyond the first are played by `make soak`.

mod claims;
mod clocks;
mod history;
mod labels;
mod leaders;
mod machines;
mod outage;
mod ownership;
mod settings;
mod silence;

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use topoloom_sync::keys;
use topoloom_tests::chart::SYNCER;
use topoloom_tests::controlplane::{ControlPlane, WriteKind, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::PATIENCE;

use super::accounts::of_chart;
use super::lent::{Lent, SYSTEM};

/// After whatever happened, everything is right again within this time, without a hand.
const RECOVERY: Duration = Duration::from_secs(30);
/// How often `make soak` plays what `make test` plays once.
const FAULTS: &str = "TOPOLOOM_FAULTS";
/// The ConfigMap whose annotation switches writes off.
const SWITCH: &str = "switch";
/// Other replicas take a binding over this long after the last renewal of its lease.
const LEASES: [&str; 3] =
    ["--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=4s", "--leader-elect-retry-period=500ms"];
/// As long as the lease of a replica that cannot renew it is at most believed, and a moment.
const LOST: Duration = Duration::from_secs(7);

/// How many variations are played.
fn plays() -> Result<usize> {
    match std::env::var(FAULTS) {
        Ok(text) => text.parse().with_context(|| format!("{FAULTS} is {text:?}: it must be a number")),
        Err(_) => Ok(1),
    }
}

/// The machines with this label.
fn of_loan(loan: &str) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "loan", "operator": "In", "values": [loan]}]}]})
}

/// A virtual pod that is bound to a lent node, with these fields beside, or in place of, the usual ones of its metadata and its
/// spec. It tolerates a node that is not well for a second.
async fn bound(plane: &ControlPlane, name: &str, node: &str, more: Value) -> Result<Pod> {
    let tolerates =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1});
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "none"}],
            "tolerations": [tolerates("node.kubernetes.io/unreachable"), tolerates("node.kubernetes.io/not-ready")],
        },
    });
    for (part, fields) in more.as_object().into_iter().flatten() {
        for (key, value) in fields.as_object().into_iter().flatten() {
            pod[part][key] = value.clone();
        }
    }
    Ok(pods(plane).create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
}

/// The pods of users, in the namespace `default`.
fn pods(plane: &ControlPlane) -> Api<Pod> {
    Api::default_namespaced(plane.client())
}

/// A top-down half for a binding, which copies its pods to this namespace of that cluster.
async fn player_to(lent: &mut Lent, physical: kube::Client, binding: &str, namespace: &str) -> Result<Player> {
    let settings = player::Settings {
        identity: lent.identity(binding).await?,
        mount_namespace: namespace.to_owned(),
        // A pod that ends while a cluster is gone may end unseen.
        patience: Duration::from_secs(5),
    };
    let (player, run) = Player::new(lent.virtual_plane.client(), physical, settings);
    lent.background.spawn(run);
    Ok(player)
}

/// The same to the physical cluster of the test.
async fn player(lent: &mut Lent, binding: &str, namespace: &str) -> Result<Player> {
    let physical = lent.physical_plane.client();
    player_to(lent, physical, binding, namespace).await
}

/// A replica of the program in a virtual cluster, as one of the Deployment of the syncer, with the token that the chart gives it.
async fn host(plane: &ControlPlane, name: &str) -> Result<Host> {
    let kubeconfig = plane.kubeconfig_for(SYSTEM, SYNCER).await?;
    host_with(&kubeconfig, name).await
}

/// The same with this kubeconfig.
async fn host_with(kubeconfig: &Path, name: &str) -> Result<Host> {
    let (own, switch) = (format!("--namespace={SYSTEM}"), format!("--config-map={SYSTEM}/{SWITCH}"));
    let usual = [
        "--controllers=bottomup-syncer",
        "--leader-elect-resource-name=topoloom-syncer",
        "--syncer-allow-loopback",
        own.as_str(),
        switch.as_str(),
    ];
    Host::launch_as(name, kubeconfig, &[&usual[..], &LEASES].concat()).await
}

/// What the chart gives replicas, for a binding `east`.
async fn chart(plane: &ControlPlane) -> Result<()> {
    switch(plane).await?;
    of_chart(plane, SWITCH, json!({"secrets": ["east"]})).await.map(drop)
}

/// What a replica of the program reads at its start.
async fn switch(plane: &ControlPlane) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH, "namespace": SYSTEM}, "data": {},
    });
    plane.apply(&[map]).await
}

/// Waits this long until an object is as it is wanted.
async fn within<K>(time: Duration, api: &Api<K>, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value
where
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    eventually(&format!("{name} {what}"), time, async || {
        let object = api.get(name).await.map_err(|error| error.to_string())?;
        let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
        if is_so(&object) { Ok(object) } else { Err(object.to_string()) }
    })
    .await
}

/// Waits until this much time has passed since then: what must not happen would have happened.
async fn pass(since: Instant, time: Duration) {
    eventually("the time has passed", time + PATIENCE, async || {
        let passed = since.elapsed();
        if passed >= time { Ok(()) } else { Err(format!("{passed:?}")) }
    })
    .await;
}

/// The states of an object that were written after a revision, the oldest first.
async fn states(plane: &ControlPlane, key: &str, after: u64) -> Result<Vec<Value>> {
    let writes = plane.writes_since(key, after + 1).await?;
    let of_it = writes.into_iter().filter(|write| write.key == key && write.kind == WriteKind::Put);
    Ok(of_it.map(|write| write.value).collect())
}

/// Whether a node has a taint of this key.
fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

/// The effects of the taints of a node with this key.
fn effects<'a>(node: &'a Value, key: &str) -> Vec<&'a str> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.filter(|taint| taint["key"] == key).filter_map(|taint| taint["effect"].as_str()).collect()
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whom a machine is lent to.
fn claim(machine: &Value) -> Option<&str> {
    machine["metadata"]["annotations"][keys::LEASED_BY].as_str()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}
