//! The accounts of lending as operators make them: that of the syncer out of the chart, and that of a borrower out of `topoloom lend
//! grant`. A test whose programs have their tokens sees each right that is missing.
//!
//! The admission policies of the chart are the same in every test, so control planes that tests share can have them. Those of a grant
//! name the virtual cluster: what `lend grant` prints is applied as a whole where the physical cluster is of that test alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use topoloom::manager::rights::lending::PhysicalSettings;
use topoloom::manager::rights::lending::grant::{ACCOUNTS, Grant};
use topoloom_sync::naming::borrower_lease;
use topoloom_tests::chart::{Rendering, SYNCER, merge};
use topoloom_tests::controlplane::{ControlPlane, client_from, eventually};
use topoloom_tests::scene::PATIENCE;

use super::lent::SYSTEM;

/// The kinds of objects by which an API server judges the requests of an account.
const JUDGED_BY: [&str; 8] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "FlowSchema",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
/// What of a grant changes slowly, and is another object in every test.
const NOT_SHARED: [&str; 3] =
    ["CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];

fn is_one_of(object: &Value, kinds: &[&str]) -> bool {
    object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

/// The account that the chart gives the syncer in [`SYSTEM`], with its rules and its admission policies; its kubeconfig. Writes are
/// switched off by this ConfigMap. The values of the syncer must not change an admission policy.
pub(super) async fn of_chart(plane: &ControlPlane, config_map: &str, of_syncer: Value) -> Result<PathBuf> {
    let mut values = json!({
        "config": {"existing": {"namespace": SYSTEM, "name": config_map}}, "syncer": {"enabled": true},
    });
    merge(&mut values["syncer"], of_syncer);
    plane.apply(&of_syncer_in(values).await?).await?;
    plane.kubeconfig_for(SYSTEM, SYNCER).await
}

/// The account of the chart in a virtual cluster whose bindings have the Secrets of [`BINDINGS`]: for a replica of this process.
pub(super) async fn replica(plane: &ControlPlane) -> Result<kube::Client> {
    let client = client_from(&replica_with(plane, json!({})).await?).await?;
    // Before that the syncer would report missing rules to operators.
    let (nodes, secrets): (Api<Node>, Api<Secret>) =
        (Api::all(client.clone()), Api::namespaced(client.clone(), SYSTEM));
    eventually("the rules of the chart are in force", PATIENCE, async || {
        nodes.list(&ListParams::default().limit(1)).await.map_err(|error| error.to_string())?;
        for name in BINDINGS {
            secrets.get_opt(name).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
    .await;
    Ok(client)
}

/// The same account with what these values of the syncer add to its rules; its kubeconfig.
pub(super) async fn replica_with(plane: &ControlPlane, of_syncer: Value) -> Result<PathBuf> {
    let mut values = json!({"secrets": BINDINGS});
    merge(&mut values, of_syncer);
    of_chart(plane, "topoloom", values).await
}

/// The bindings that replicas of test processes serve.
const BINDINGS: [&str; 12] =
    ["east", "west", "south", "north", "twin", "dash", "breaks", "pods", "people", "job", "edit", "rights"];

/// What the chart renders of the syncer by which an API server judges its requests. Helm runs once for the same values.
async fn of_syncer_in(values: Value) -> Result<Vec<Value>> {
    static RENDERED: LazyLock<Mutex<BTreeMap<String, Vec<Value>>>> = LazyLock::new(Mutex::default);
    let mut rendered = RENDERED.lock().await;
    let key = values.to_string();
    if let Some(objects) = rendered.get(&key) {
        return Ok(objects.clone());
    }
    let rendering = Rendering { namespace: SYSTEM.to_owned(), ..Rendering::new(values) };
    let mut objects = rendering.objects().await?;
    objects.retain(|object| {
        let is_of_syncer = object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(SYNCER));
        is_of_syncer && is_one_of(object, &JUDGED_BY)
    });
    rendered.insert(key, objects.clone());
    Ok(objects)
}

/// The account that `topoloom lend grant` gives the borrower in this virtual cluster, with its roles; its kubeconfig.
pub(super) async fn of_grant(
    plane: &ControlPlane,
    settings: PhysicalSettings,
    virtual_cluster: &str,
) -> Result<PathBuf> {
    let (mount, lease) = (settings.mount_namespace.clone(), borrower_lease(&settings.binding));
    let grant = Grant::new(settings, ACCOUNTS, Some(virtual_cluster))?;
    let mut objects = grant.objects();
    objects.retain(|object| !is_one_of(object, &NOT_SHARED));
    plane.apply(&objects).await?;
    let account = grant.account();
    let kubeconfig = plane.kubeconfig_for(&account.namespace, &account.name).await?;
    // Roles are in force a moment after they were stored.
    let client = client_from(&kubeconfig).await?;
    let (nodes, leases): (Api<Node>, Api<Lease>) = (Api::all(client.clone()), Api::namespaced(client, &mount));
    eventually("the roles of a grant are in force", PATIENCE, async || {
        nodes.list(&ListParams::default().limit(1)).await.map_err(|error| error.to_string())?;
        leases.get_opt(&lease).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    Ok(kubeconfig)
}
