//! Modules that the host stores for a rollback, and what an operator sees while the API server refuses to store them.

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{Api, PostParams};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, Scene};

use super::{kept, push, serving, until_serving, until_status};

/// Removes the right to create ConfigMaps from every Role of the namespace. Returns the Roles as they were.
async fn forbid_creating_config_maps(scene: &Scene) -> Result<Vec<Role>> {
    let roles: Api<Role> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let mut before = Vec::new();
    for mut role in roles.list(&Default::default()).await? {
        let old = role.clone();
        for rule in role.rules.iter_mut().flatten() {
            let is_about = rule.resources.iter().flatten().any(|resource| resource == "configmaps");
            rule.verbs.retain(|verb| !is_about || verb != "create");
        }
        role.rules.get_or_insert_default().retain(|rule| !rule.verbs.is_empty());
        if role.rules != old.rules {
            let name = role.metadata.name.clone().context("a Role has a name")?;
            roles.replace(&name, &PostParams::default(), &role).await?;
            before.push(old);
        }
    }
    Ok(before)
}

/// Restores the rules.
async fn allow_again(scene: &Scene, before: Vec<Role>) -> Result<()> {
    let roles: Api<Role> = Api::namespaced(scene.plane.client(), NAMESPACE);
    for old in before {
        let name = old.metadata.name.context("a Role has a name")?;
        let mut role = roles.get(&name).await?;
        role.rules = old.rules;
        roles.replace(&name, &PostParams::default(), &role).await?;
    }
    Ok(())
}

async fn until_metric(host: &Host, wanted: &str) {
    eventually(wanted, PATIENCE, async || {
        let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.lines().any(|line| line == wanted) { Ok(()) } else { Err(metrics) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_the_api_server_refuses_is_reported_and_stored_as_soon_as_it_allows_that() -> Result<()> {
    let (scene, host) = serving().await?;
    let first = kept_one(&scene).await;
    until_metric(&host, "topoloom_plugin_modules_not_stored{source=\"fabric\"} 0").await;
    let before = forbid_creating_config_maps(&scene).await?;
    assert!(!before.is_empty(), "the host may create ConfigMaps in its namespace");
    let second = push(&scene, "good", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;

    let message = scene.until_condition("fabric", "ModuleNotStored", "True", "StoreFailed").await;
    assert!(message.contains("2.0.0") && message.contains("is stored nowhere"), "{message}");
    assert!(message.contains("forbidden"), "it says what the API server said: {message}");
    until_metric(&host, "topoloom_plugin_modules_not_stored{source=\"fabric\"} 1").await;
    assert_eq!(kept(&scene).await?, std::slice::from_ref(&first));
    // The active plugin continues.
    scene.until_condition("fabric", "Ready", "True", "Ok").await;

    allow_again(&scene, before).await?;
    until_status(&scene, "nothing is missing", |status| {
        status.conditions.iter().all(|condition| condition.type_ != "ModuleNotStored")
    })
    .await;
    until_metric(&host, "topoloom_plugin_modules_not_stored{source=\"fabric\"} 0").await;
    let mut both = [first, second.to_string()];
    both.sort();
    assert_eq!(kept(&scene).await?, both);
    host.stop().await
}

/// The digest of the only module that is kept, once there is one.
async fn kept_one(scene: &Scene) -> String {
    eventually("one module is kept", PATIENCE, async || {
        let kept = kept(scene).await.map_err(|error| error.to_string())?;
        match kept.as_slice() {
            [one] => Ok(one.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}
