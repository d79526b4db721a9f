//! The admission policy lets our ServiceAccount write only the ConfigMaps of kept modules, even if RBAC allows
//! everything.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::chart::{USER, manifest};
use topoloom_tests::scene::NAMESPACE;

use super::policies::{Fate, check, enforced, installed};

const DENIED: Fate = Fate::Denied("may write only the ConfigMaps topoloom-module-* in volcano-system");
const TRY: &str = "--dry-run=server";

#[tokio::test(flavor = "multi_thread")]
async fn the_host_creates_and_deletes_no_config_map_but_the_modules_that_it_keeps() -> Result<()> {
    let (scene, _) = installed(json!({})).await?;
    let subject = USER.replacen("system:serviceaccount:", "--serviceaccount=", 1);
    scene.plane.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", &subject]).await?;
    for name in ["topoloom-module-0123456789ab", "topoloom-controller-configmap"] {
        scene.plane.kubectl(&["create", "configmap", name, "-n", NAMESPACE]).await?;
    }
    let us = format!("--as={USER}");
    let us = us.as_str();
    let in_namespace =
        |words: [&'static str; 3], namespace: &'static str| [&words[..], &["-n", namespace, TRY]].concat();
    let deletion = in_namespace(["delete", "configmap", "topoloom-controller-configmap"], NAMESPACE);
    enforced(&scene, &[&deletion[..], &[us]].concat(), DENIED).await;

    let rows = [
        ("a module is kept", ["create", "configmap", "topoloom-module-ba9876543210"], NAMESPACE, Fate::Accepted),
        ("a module is let go", ["delete", "configmap", "topoloom-module-0123456789ab"], NAMESPACE, Fate::Accepted),
        ("a module in another namespace", ["create", "configmap", "topoloom-module-ba9876543210"], "default", DENIED),
        ("another name", ["create", "configmap", "kube-root-ca.crt2"], NAMESPACE, DENIED),
        ("a name that only ends so", ["create", "configmap", "a-topoloom-module-1"], NAMESPACE, DENIED),
        ("the configuration", ["delete", "configmap", "topoloom-controller-configmap"], NAMESPACE, DENIED),
    ];
    for (name, words, namespace, fate) in rows {
        let words = in_namespace(words, namespace);
        check(&scene, name, &[&words[..], &[us]].concat(), fate).await;
        // The policy does not apply to other clients.
        check(&scene, name, &words, Fate::Accepted).await;
    }
    let note = in_namespace(["annotate", "configmap", "topoloom-controller-configmap"], NAMESPACE);
    let words = [&note[..], &["note=mine"]].concat();
    check(&scene, "an edit", &[&words[..], &[us]].concat(), DENIED).await;
    check(&scene, "an edit", &words, Fate::Accepted).await;
    // The policy also applies to a name that the API server generates.
    let generated = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "any-", "namespace": NAMESPACE},
    });
    let file = manifest(&scene, &[generated])?;
    check(&scene, "a generated name", &["create", "-f", &file, TRY, us], DENIED).await;
    scene.plane.stop().await
}
