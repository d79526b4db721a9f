//! The collector of deploy/examples/roce-collector: what its manifests let it do, and what they refuse.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_tests::controlplane::{client_from, eventually};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::rig::document;
use super::rig::{ANNOTATION, annotate, heard, plain, until};

const NAMESPACE: &str = "topoloom-roce";
const ACCOUNT: &str = "topoloom-roce-collector";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/roce-collector").join(name)
}

/// A cluster with the example applied, the policy first, as its documentation says.
struct Collectors {
    scene: Scene,
}

impl Collectors {
    async fn new(nodes: &[&str]) -> Result<Self> {
        let scene = Scene::new().await?;
        scene.nodes(nodes).await?;
        for file in ["policy.yaml", "collector.yaml"] {
            scene.plane.kubectl(&["apply", "-f", &example(file).to_string_lossy()]).await?;
        }
        let collectors = Self { scene };
        collectors.until_in_force().await?;
        Ok(collectors)
    }

    /// The API server enforces a policy a moment after it is stored. The test finds out with a token that is bound to
    /// no pod: until then its write is accepted, and changes nothing.
    async fn until_in_force(&self) -> Result<()> {
        let unbound = self.unbound().await?;
        eventually("the policy is in force", PATIENCE, async || {
            match patch(&unbound, "n1", &json!({"metadata": {"annotations": {ANNOTATION: null}}})).await {
                Ok(()) => Err("an unbound token may write".to_owned()),
                Err(why) if why.contains("bound to none") => Ok(()),
                Err(why) => Err(why),
            }
        })
        .await;
        Ok(())
    }

    async fn unbound(&self) -> Result<Client> {
        client_from(&self.scene.plane.kubeconfig_for(NAMESPACE, ACCOUNT).await?).await
    }

    /// Creates a pod of the collector on a node. There is no kubelet, so the pod never runs. A token for it is the one
    /// that its container would have.
    async fn pod(&self, node: &str) -> Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.scene.plane.client(), NAMESPACE);
        let pod = json!({
            "metadata": {"name": format!("collector-{node}")},
            "spec": {
                "nodeName": node, "serviceAccountName": ACCOUNT,
                "containers": [{"name": "collector", "image": "example/collector"}],
            },
        });
        Ok(pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
    }

    async fn on(&self, node: &str) -> Result<Client> {
        client_from(&self.scene.plane.kubeconfig_for_pod(&self.pod(node).await?).await?).await
    }

    async fn node(&self, name: &str) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.scene.plane.client());
        Ok(nodes.get(name).await?)
    }
}

async fn patch(client: &Client, node: &str, patch: &Value) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let answer = nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// Patches that the policy allows or refuses: the Node, the patch, and a part of the refusal, if there is one.
fn patches() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let annotation = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let entry = heard("n1", &[("rdma0", 1)]);
    let mut beside = annotation(ANNOTATION, json!(entry));
    beside["metadata"]["labels"] = json!({"ex.io/rack": "elsewhere"});
    let owner =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "00000000-0000-0000-0000-000000000001"}]);
    let (annotations, fields) =
        ("may change only the annotation topoloom.dev/fabric-links", "labels, finalizers or owners");
    let spec = "spec or status";
    vec![
        ("n1", annotation(ANNOTATION, json!(entry)), None),
        ("n1", annotation(ANNOTATION, json!("x".repeat(16_384))), None),
        ("n1", annotation(ANNOTATION, json!("x".repeat(16_385))), Some("at most 16384")),
        ("n1", annotation(ANNOTATION, Value::Null), None),
        ("n2", annotation(ANNOTATION, json!(entry)), Some("its token is bound to n1")),
        ("n1", annotation("ex.io/new", json!("x")), Some(annotations)),
        ("n1", annotation("ex.io/kept", json!("other")), Some(annotations)),
        ("n1", annotation("ex.io/kept", Value::Null), Some(annotations)),
        ("n1", annotation("topoloom.dev/fabric-links-2", json!("x")), Some(annotations)),
        ("n1", beside, Some(fields)),
        ("n1", json!({"metadata": {"labels": {"ex.io/rack": "b"}}}), Some(fields)),
        ("n1", json!({"metadata": {"labels": {"ex.io/rack": null}}}), Some(fields)),
        ("n1", json!({"metadata": {"labels": {"ex.io/new": "x"}}}), Some(fields)),
        ("n1", json!({"metadata": {"finalizers": ["ex.io/hold"]}}), Some(fields)),
        ("n1", json!({"metadata": {"ownerReferences": owner}}), Some(fields)),
        ("n1", json!({"spec": {"taints": [{"key": "ex.io/x", "effect": "NoExecute"}]}}), Some(spec)),
        ("n1", json!({"spec": {"unschedulable": true}}), Some(spec)),
        ("n1", json!({"spec": {"providerID": "ex://1"}}), Some(spec)),
        ("n1", json!({"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}}), Some(spec)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_may_write_one_annotation_of_its_own_node() -> Result<()> {
    let collectors = Collectors::new(&["n1 ex.io/rack=a", "n2 ex.io/rack=a"]).await?;
    for node in ["n1", "n2"] {
        collectors.scene.plane.kubectl(&["annotate", "node", node, "ex.io/kept=x"]).await?;
    }
    let client = collectors.on("n1").await?;
    let check = async |unless: &str| -> Result<()> {
        for (node, body, refusal) in patches() {
            let before = collectors.node(node).await?;
            let answer = patch(&client, node, &body).await;
            match (&answer, refusal) {
                (Ok(()), None) => {}
                (Err(why), Some(words)) => {
                    assert!(why.contains(words) && why.contains("403"), "{unless}{body}: {why}");
                    assert_eq!(collectors.node(node).await?, before, "{unless}{body}");
                }
                _ => panic!("{unless}{node} {body}: {answer:?}"),
            }
        }
        Ok(())
    };
    check("").await?;
    // A token that is bound to no pod may do nothing at all.
    let unbound = collectors.unbound().await?;
    for (node, body, _) in patches() {
        let why = patch(&unbound, node, &body).await.unwrap_err();
        assert!(why.contains("its token is bound to none"), "{node} {body}: {why}");
    }

    // The policy refuses the same even if RBAC gives the account every right.
    let binding = [
        "create",
        "clusterrolebinding",
        "all",
        "--clusterrole=cluster-admin",
        "--serviceaccount=topoloom-roce:topoloom-roce-collector",
    ];
    collectors.scene.plane.kubectl(&binding).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    eventually("the account may do everything", PATIENCE, async || {
        nodes.get("n1").await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    check("as an administrator, ").await?;
    let words = "only change Nodes, not create or delete them, and none of their subresources";
    let new: Node = serde_json::from_value(json!({"metadata": {"name": "n3"}}))?;
    let applied = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}});
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    for (what, answer) in [
        ("create", nodes.create(&PostParams::default(), &new).await.map(drop)),
        ("apply", nodes.patch("n3", &PatchParams::apply("x"), &Patch::Apply(&applied)).await.map(drop)),
        ("delete", nodes.delete("n1", &DeleteParams::default()).await.map(drop)),
        ("status", nodes.patch_status("n1", &PatchParams::default(), &Patch::Merge(&status)).await.map(drop)),
        ("proxy", client.request_text(http::Request::get("/api/v1/nodes/n1/proxy/").body(Vec::new())?).await.map(drop)),
    ] {
        let why = answer.unwrap_err().to_string();
        assert!(why.contains(words), "{what}: {why}");
    }
    assert_eq!(nodes.list(&Default::default()).await?.items.len(), 2);
    // The policy does not apply to other clients.
    collectors.scene.plane.relabel("n1", "ex.io/rack", "b").await?;
    collectors.scene.plane.stop().await
}

/// Stands in for lldpcli: prints the file that the test wrote for the node.
const LLDPCLI: &str = r#"#!/bin/sh
cat "$HEARD"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_collector_hears_becomes_a_place() -> Result<()> {
    let collectors = Collectors::new(&["n1", "n2", "n3"]).await?;
    let Collectors { scene } = &collectors;
    let folder = scene.plane.folder().join("machines");
    std::fs::create_dir_all(folder.join("bin"))?;
    let lldpcli = folder.join("bin/lldpcli");
    std::fs::write(&lldpcli, LLDPCLI)?;
    std::fs::set_permissions(&lldpcli, std::fs::Permissions::from_mode(0o755))?;
    for (node, switches) in [("n1", [1, 2]), ("n2", [1, 2]), ("n3", [11, 12])] {
        let heard: Value = serde_json::from_str(&heard(node, &[("rdma0", switches[0]), ("rdma1", switches[1])]))?;
        let token = scene.plane.token_for(NAMESPACE, ACCOUNT, Some(&collectors.pod(node).await?)).await?;
        let machine = folder.join(node);
        std::fs::create_dir_all(machine.join("account"))?;
        std::fs::create_dir_all(machine.join("net"))?;
        std::fs::write(machine.join("heard"), serde_json::to_vec_pretty(&heard["lldpcli"])?)?;
        std::fs::write(machine.join("account/token"), token)?;
        std::fs::copy(scene.plane.certificate(), machine.join("account/ca.crt"))?;
        collect(&folder, node, node, &scene.plane.server_url()).await?;
    }
    scene.configure(&document(&[plain("")])).await?;
    let host = scene.host().await?;
    until(scene, &["tier 1 (1): n3", "tier 1 (2): n1 n2"]).await;
    // The API server refuses a collector that has the name of another node, and the collector reports it.
    let why = collect(&folder, "n3", "n1", &scene.plane.server_url()).await.unwrap_err().to_string();
    assert!(why.contains("status 403") && why.contains("its token is bound to n3"), "{why}");
    annotate(scene, "n2", None).await?;
    collect(&folder, "n2", "n2", &scene.plane.server_url()).await?;
    until(scene, &["tier 1 (1): n3", "tier 1 (2): n1 n2"]).await;
    host.stop().await?;
    collectors.scene.plane.stop().await
}

/// Runs the script once on a machine, with the name of this node.
async fn collect(folder: &Path, machine: &str, node: &str, server: &str) -> Result<()> {
    let path = std::env::var("PATH").context("there is a PATH")?;
    let machine = folder.join(machine);
    let state = tempfile::tempdir_in(&machine)?;
    let address = server.trim_start_matches("https://");
    let (host, port) = address.rsplit_once(':').context("the apiserver has a port")?;
    let output = tokio::process::Command::new("sh")
        .arg(example("collect.sh"))
        .arg("once")
        .env_clear()
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("HEARD", machine.join("heard"))
        .env("NODE_NAME", node)
        .env("STATE_DIR", state.path())
        .env("NET_DIR", machine.join("net"))
        .env("ACCOUNT_DIR", machine.join("account"))
        .env("KUBERNETES_SERVICE_HOST", host)
        .env("KUBERNETES_SERVICE_PORT", port)
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "{said}");
    Ok(())
}
