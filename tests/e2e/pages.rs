//! The pages README, install and node lock, as a reader follows them: the test takes each block of commands from the
//! page and runs it unchanged, in a checkout, with the real Helm and kubectl on a real API server.
//!
//! There is no kubelet on this machine. [`pods`] stands in for it: for each pod of the chart it starts the real binary
//! as the pod's container, and `kubectl exec` runs beside it with the container's variables and rights.

mod desk;
mod node_lock;
mod pods;

use anyhow::{Context, Result};
use serde_json::json;
use topoloom_tests::chart::{self, Container};
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::guest;
use topoloom_tests::helm::helm;
use topoloom_tests::host::Host;
use topoloom_tests::pages::{blocks, page};
use topoloom_tests::scene::PATIENCE;
use topoloom_tests::volcano_chart::Repository;

use desk::PageReader;
use pods::Pods;

const README: &str = "README.md";
const INSTALL: &str = "docs/operators/install.md";
const NAMESPACE: &str = "topoloom-system";

/// Creates the nodes of README's example, and one with shared accelerators.
async fn nodes(plane: &ControlPlane) -> Result<()> {
    let nodes = [
        ("m1", vec![("ex.io/spine", "s1"), ("ex.io/rack", "a7")]),
        ("m2", vec![("ex.io/spine", "s1"), ("ex.io/rack", "a7")]),
        ("m4", vec![("ex.io/spine", "s1"), ("ex.io/rack", "b1")]),
        ("m8", vec![("ex.io/spine", "s1")]),
        ("m9", vec![("ex.io/rack", "c3")]),
        ("gpu-1", vec![]),
    ];
    plane.create_nodes(nodes).await
}

/// Waits until a command prints these words; returns what it printed.
async fn until_says(desk: &PageReader, command: &str, words: &str) -> String {
    eventually(&format!("{command} says {words:?}"), PATIENCE, async || match desk.shell(command).await {
        Ok(said) if said.contains(words) => Ok(said),
        Ok(said) => Err(said),
        Err(error) => Err(format!("{error:#}")),
    })
    .await
}

/// A tree with the digest of the plugin left out.
fn without_digest(tree: &str) -> String {
    let (before, rest) = tree.split_once("(sha256:").unwrap_or((tree, ")"));
    let after = rest.split_once(')').map_or("", |(_, after)| after);
    format!("{before}(sha256:…){after}").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_does_what_it_says() -> Result<()> {
    let mut plane = ControlPlane::start().await?;
    nodes(&plane).await?;
    let mut desk = PageReader::new(&plane, README).await?;
    let text = page(README)?;

    // Without a cluster.
    let found = desk.next("topoloom discover --config topology.yaml --nodes nodes.yaml").await?;
    let shown = blocks(&text, "").into_iter().find(|block| block.contains("hypernode-trn2")).context("the tree")?;
    assert_eq!(without_digest(&found), without_digest(&shown));
    let mine = desk.next("kubectl get nodes -o json | topoloom discover").await?;
    assert!(mine.contains("4 of 6 nodes have a place in 4 groups"), "{mine}");

    // In a cluster: first from the reader's machine, without a write.
    desk.next("kubectl create namespace").await?;
    let observing = desk.start("topoloom run --observe").await?;
    until_says(&desk, "kubectl get discoverysources label -o jsonpath='{.status.state}'", "Observing").await;
    assert_eq!(desk.shell("kubectl get hypernodes -o name").await?, "");
    observing.interrupt().await?;

    // Then installed in the cluster.
    desk.next("helm install topoloom").await?;
    let pods = Pods::start(&mut plane, &desk).await?;
    until_says(&desk, "topoloom tree", "4 of 6 nodes have a place").await;
    let shown = desk.next("kubectl get hn").await?;
    let tree = "missing-label (1): m8: type \"Trn2\"";
    for name in ["hypernode-trn2-tier2-djq8c", "hypernode-trn2-tier1-54zxt", "m8", "Serving", tree] {
        assert!(shown.contains(name), "{name}: {shown}");
    }

    // A simulated fabric manager on the reader's machine.
    let ufm = desk.start("topoloom fabric simulate").await?;
    ufm.until_says("Ctrl-C ends it").await;
    let reported = desk.next("topoloom fabric report").await?;
    assert!(reported.contains("gpu-00009"), "the report has the wrong cable: {reported}");
    ufm.interrupt().await?;

    // A plugin of a vendor.
    desk.file("acme.wasm", &guest::version("good", "1.0.0")?)?;
    let shown = desk.next("topoloom plugin push acme.wasm").await?;
    assert!(shown.contains("topoloom-system/acme"), "{shown}");

    let shown = desk.next("topoloom lock list").await?;
    assert!(shown.contains("gpu-1"), "{shown}");
    desk.end(2)?;
    pods.stop().await?;
    plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_the_install_and_the_node_lock_do_what_they_say() -> Result<()> {
    let mut plane = ControlPlane::start().await?;
    nodes(&plane).await?;
    let mut desk = PageReader::new(&plane, INSTALL).await?;
    let text = page(INSTALL)?;
    let document = blocks(&page(README)?, "sh").into_iter().find_map(|block| {
        let (_, rest) = block.split_once("cat > topology.yaml <<'END'\n")?;
        Some(rest.split_once("END\n")?.0.to_owned())
    });
    desk.file("topology.yaml", document.context("README has a configuration")?.as_bytes())?;

    desk.next("helm install topoloom").await?;
    let pods = Pods::start(&mut plane, &desk).await?;
    let asked = desk.next("rollout status").await?;
    assert!(asked.contains("successfully rolled out"), "{asked}");
    assert!(asked.contains("leads hyperNode-controller") || asked.contains("leads hypernode"), "{asked}");
    // The reader's editor writes README's example.
    desk.next("edit configmap").await?;
    until_says(&desk, "topoloom tree", "4 of 6 nodes have a place").await;
    desk.next("kubectl get crd hypernodes.topology.volcano.sh ||").await?;
    // Volcano's chart after ours, from the repository that the reader has added before.
    let uids = "kubectl get hypernodes -o jsonpath='{.items[*].metadata.uid}'";
    let before = desk.shell(uids).await?;
    let repository = Repository::serve().await?;
    desk.shell(&format!("helm repo add volcano-sh {}", repository.url)).await?;
    desk.next("helm install volcano volcano-sh/volcano").await?;
    assert_eq!(desk.shell(uids).await?, before);

    // The chart accepts the values that the page shows.
    let values = blocks(&text, "yaml");
    assert!(values.len() >= 3, "{values:?}");
    let (folder, image) = (chart::folder(), format!("image.repository={}", chart::IMAGE));
    for block in values {
        let file = desk.file("values.yaml", block.as_bytes())?;
        let (folder, file) = (folder.to_string_lossy(), file.to_string_lossy());
        helm(None, &["template", "topoloom", &*folder, "--set", &image, "--values", &*file]).await.context(block)?;
    }

    // The extender, as the page of the node lock describes it.
    node_lock::follow(&plane, &mut desk).await?;

    // Without Helm, as on a cluster that never had it.
    pods.stop().await?;
    desk.open(INSTALL)?;
    desk.skip_until("sed ")?;
    desk.shell("helm uninstall topoloom -n topoloom-system").await?;
    desk.shell("kubectl -n topoloom-system delete configmap topoloom-controller-configmap").await?;
    desk.shell("kubectl delete crd discoverysources.topoloom.dev").await?;
    // As the page warns, this deletes the definition of HyperNodes.
    desk.shell("helm uninstall volcano -n volcano-system").await?;
    desk.shell("kubectl wait --for=delete --timeout=30s crd/hypernodes.topology.volcano.sh").await?;
    desk.next("sed ").await?;
    desk.next("create configmap topoloom-controller-configmap").await?;
    desk.next("deploy/topoloom-syncer.yaml").await?;
    desk.end(0)?;
    let deployment: serde_json::Value =
        serde_json::from_str(&desk.shell("kubectl -n topoloom-system get deployment topoloom -o json").await?)?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], json!("registry.example.com/topoloom:0.1.0"));
    let container = Container::of(std::slice::from_ref(&deployment))?;
    let kubeconfig = plane.kubeconfig_for(NAMESPACE, chart::NAME).await?;
    let flags = container.flags_below(&plane.folder().join("plain"))?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let env: Vec<(&str, &str)> = container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with("plain", &kubeconfig, &flags, &env).await?;
    until_says(&desk, "topoloom tree", "4 of 6 nodes have a place").await;
    host.stop().await?;
    plane.stop().await
}
