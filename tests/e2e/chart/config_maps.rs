//! The admission policy lets our ServiceAccount write only the ConfigMaps of kept modules, even if RBAC allows
//! everything.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::chart::USER;
use topoloom_tests::scene::NAMESPACE;

use super::policies::{Fate, allow_everything, check, delete, enforced, installed, patch, post};

const DENIED: Fate = Fate::Denied("may write only the ConfigMaps topoloom-module-* in volcano-system");

fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_creates_and_deletes_no_config_map_but_the_modules_that_it_keeps() -> Result<()> {
    let (scene, _) = installed(json!({})).await?;
    allow_everything(&scene, USER).await?;
    for name in ["topoloom-module-0123456789ab", "topoloom-controller-configmap"] {
        check(&scene, "what is there", post(maps(NAMESPACE), map(name)), Fate::Accepted).await;
    }
    let created = |name: &str, namespace: &str| post(maps(namespace), map(name)).dry();
    let path = |name: &str| format!("{}/{name}", maps(NAMESPACE));
    let deleted = |name: &str| delete(path(name)).dry();
    enforced(&scene, deleted("topoloom-controller-configmap").by(USER), DENIED).await;

    let note = json!({"metadata": {"annotations": {"note": "mine"}}});
    let rows = [
        ("a module is kept", created("topoloom-module-ba9876543210", NAMESPACE), Fate::Accepted),
        ("a module is let go", deleted("topoloom-module-0123456789ab"), Fate::Accepted),
        ("a module in another namespace", created("topoloom-module-ba9876543210", "default"), DENIED),
        ("another name", created("kube-root-ca.crt2", NAMESPACE), DENIED),
        ("a name that only ends so", created("a-topoloom-module-1", NAMESPACE), DENIED),
        ("the configuration", deleted("topoloom-controller-configmap"), DENIED),
        ("an edit", patch(path("topoloom-controller-configmap"), note).dry(), DENIED),
    ];
    for (name, call, fate) in rows {
        check(&scene, name, call.clone().by(USER), fate).await;
        // The policy does not apply to other clients.
        check(&scene, name, call, Fate::Accepted).await;
    }
    // The policy also applies to a name that the API server generates.
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "any-"}});
    check(&scene, "a generated name", post(maps(NAMESPACE), generated).dry().by(USER), DENIED).await;
    scene.plane.stop().await
}
