//! The accounts of lending as operators make them: that of the syncer out of the chart, and that of a borrower out of `topoloom lend
//! grant`. A test whose programs have their tokens sees each right that is missing.
//!
//! The admission policies of the chart are the same in every test, so control planes that tests share can have them. Those of a grant
//! name the virtual cluster: what `lend grant` prints is applied as a whole where the physical cluster is of that test alone.

use std::path::PathBuf;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
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
    let rendering = Rendering { namespace: SYSTEM.to_owned(), ..Rendering::new(values) };
    let mut objects = rendering.objects().await?;
    objects.retain(|object| {
        let is_of_syncer = object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(SYNCER));
        is_of_syncer && is_one_of(object, &JUDGED_BY)
    });
    plane.apply(&objects).await?;
    plane.kubeconfig_for(SYSTEM, SYNCER).await
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
