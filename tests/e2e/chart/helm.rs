//! Helm itself installs, upgrades and uninstalls the chart.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use topoloom_api::HyperNode;
use topoloom_tests::chart;
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::helm::helm;
use topoloom_tests::volcano_chart::{self, HYPER_NODES};

const SOURCES: &str = "discoverysources.topoloom.dev";
const NAMESPACE: &str = "topoloom-system";
const CONFIG_MAP: &str = "topoloom-controller-configmap";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SOON: Duration = Duration::from_secs(30);
const OWNER: &str = "/metadata/annotations/meta.helm.sh~1release-name";
/// A configuration that an operator writes.
const EDITED: &str = "networkTopologyDiscovery:\n- source: label\n  enabled: false\n";

struct Cluster {
    plane: ControlPlane,
}

impl Cluster {
    async fn new() -> Result<Self> {
        Ok(Self { plane: ControlPlane::start().await? })
    }

    async fn helm(&self, verb: &str, release: &str, more: &[&str]) -> Result<String> {
        self.helm_with(&chart::folder(), verb, release, more).await
    }

    async fn rollback(&self, release: &str, revision: &str) -> Result<String> {
        helm(Some(&self.plane.kubeconfig()), &["rollback", release, revision, "--namespace", NAMESPACE]).await
    }

    async fn helm_with(&self, chart: &Path, verb: &str, release: &str, more: &[&str]) -> Result<String> {
        let (chart, image) = (chart.to_string_lossy(), format!("image.repository={}", chart::IMAGE));
        let mut words = vec![verb, release];
        if verb != "uninstall" {
            words.extend([&*chart, "--set", &image]);
        }
        words.extend(["--namespace", NAMESPACE]);
        words.extend(more);
        helm(Some(&self.plane.kubeconfig()), &words).await
    }

    /// An object of one of these kinds. Tests look at dozens of them, and kubectl would be started for each.
    async fn get(&self, kind: &str, name: &str) -> Result<Value> {
        let place = match kind {
            "clusterrole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            "configmap" => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            "crd" => CRDS.to_owned(),
            "deployment" => format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments"),
            "flowschema" => "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas".to_owned(),
            "hypernode" => "/apis/topology.volcano.sh/v1alpha1/hypernodes".to_owned(),
            "serviceaccount" => format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
            "validatingadmissionpolicy" => {
                "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies".to_owned()
            }
            _ => anyhow::bail!("these tests look at no {kind}"),
        };
        Ok(serde_json::from_str(&self.plane.get(&format!("{place}/{name}")).await?)?)
    }

    /// Whether there is none: any other answer is an error.
    async fn is_gone(&self, kind: &str, name: &str) -> Result<bool> {
        match self.get(kind, name).await {
            Ok(_) => Ok(false),
            Err(error) => match error.downcast_ref::<kube::Error>() {
                Some(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                _ => Err(error),
            },
        }
    }

    async fn uid(&self, kind: &str, name: &str) -> Result<String> {
        let object = self.get(kind, name).await?;
        object["metadata"]["uid"].as_str().map(str::to_owned).context("there is no uid")
    }

    /// The text of the configuration.
    async fn text(&self) -> Result<String> {
        let map = self.get("configmap", CONFIG_MAP).await?;
        map["data"]["volcano-controller.conf"].as_str().map(str::to_owned).context("there is no text")
    }

    /// Writes the configuration, as an operator does with `kubectl patch`.
    async fn edit(&self, text: &str) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.plane.client(), NAMESPACE);
        let patch = Patch::Merge(json!({"data": {"volcano-controller.conf": text}}));
        let parameters = PatchParams { field_manager: Some("kubectl-patch".to_owned()), ..PatchParams::default() };
        maps.patch(CONFIG_MAP, &parameters, &patch).await?;
        Ok(())
    }

    /// Creates a HyperNode; returns its UID.
    async fn hyper_node(&self) -> Result<String> {
        let object = topoloom_tests::scene::by_hand("rack-a", 1, "Node", &["a"]);
        let hyper_nodes: Api<HyperNode> = Api::all(self.plane.client());
        eventually("HyperNodes can be stored", SOON, async || {
            let stored = hyper_nodes.patch("rack-a", &PatchParams::apply("test"), &Patch::Apply(&object)).await;
            stored.map(drop).map_err(|error| error.to_string())
        })
        .await;
        self.uid("hypernode", "rack-a").await
    }

    /// Waits until the definition of HyperNodes is gone, with all of them.
    async fn until_no_definition(&self) {
        eventually("there is no definition of HyperNodes", SOON, async || {
            match self.is_gone("crd", HYPER_NODES).await {
                Ok(true) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_and_an_uninstall_keep_the_hyper_nodes() -> Result<()> {
    let cluster = Cluster::new().await?;
    let said = cluster.helm("install", "topoloom", &["--create-namespace"]).await?;
    for words in ["topoloom preflight", "topoloom status", "topoloom-controller-configmap"] {
        assert!(said.contains(words), "{said}");
    }
    // The chart creates Volcano's definition, which no release owns; ours belongs to the release.
    let theirs = cluster.get("crd", HYPER_NODES).await?;
    assert_eq!(theirs.pointer(OWNER), None, "{theirs}");
    let definition = cluster.uid("crd", HYPER_NODES).await?;
    let ours = cluster.get("crd", SOURCES).await?;
    assert_eq!(ours.pointer(OWNER), Some(&json!("topoloom")));
    let uid = cluster.hyper_node().await?;

    cluster.helm("upgrade", "topoloom", &["--set", "observe=true"]).await?;
    let role = cluster.get("clusterrole", "topoloom.topoloom-system").await?;
    let rules = role["rules"].as_array().context("the role has rules")?;
    let hyper_nodes = rules.iter().find(|rule| rule["resources"] == json!(["hypernodes"])).context("a rule")?;
    assert_eq!(hyper_nodes["verbs"], json!(["list", "watch", "get"]));
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    cluster.rollback("topoloom", "1").await?;
    assert_eq!(cluster.uid("crd", HYPER_NODES).await?, definition);
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);

    cluster.helm("uninstall", "topoloom", &[]).await?;
    assert_eq!(cluster.uid("crd", HYPER_NODES).await?, definition);
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    cluster.uid("crd", SOURCES).await?;
    for (kind, name) in [
        ("clusterrole", "topoloom.topoloom-system"),
        ("deployment", "topoloom"),
        ("serviceaccount", "topoloom"),
        ("validatingadmissionpolicy", "topoloom.topoloom-system.nodes"),
        ("flowschema", "topoloom.topoloom-system"),
    ] {
        assert!(cluster.is_gone(kind, name).await?, "{kind} {name} is left");
    }

    // A release of the same name takes over what the first one left. A release of another name does not change the
    // definitions.
    cluster.helm("install", "topoloom", &[]).await?;
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    cluster.helm("install", "second", &[]).await?;
    assert_eq!(cluster.get("crd", SOURCES).await?.pointer(OWNER), Some(&json!("topoloom")));
    cluster.helm("uninstall", "second", &[]).await?;
    cluster.get("clusterrole", "topoloom.topoloom-system").await?;
    cluster.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_another_installer_brought_is_left_alone() -> Result<()> {
    let cluster = Cluster::new().await?;
    for definition in topoloom_api::crds() {
        if definition["metadata"]["name"] == HYPER_NODES {
            let mut theirs = definition.clone();
            theirs["metadata"]["annotations"] = json!({"brought-by": "another"});
            cluster.plane.apply_crd(theirs).await?;
        }
    }
    let before = cluster.get("crd", HYPER_NODES).await?;
    cluster.helm("install", "topoloom", &["--create-namespace"]).await?;
    cluster.helm("upgrade", "topoloom", &["--set", "replicas=3"]).await?;
    let after = cluster.get("crd", HYPER_NODES).await?;
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    cluster.plane.stop().await
}

/// The definition of HyperNodes is an object of Volcano's chart, and Helm by itself does not take over an object that
/// the release does not own.
#[tokio::test(flavor = "multi_thread")]
async fn volcanos_chart_is_installed_after_ours_and_before_it() -> Result<()> {
    let cluster = Cluster::new().await?;
    let folder = tempfile::tempdir()?;
    let theirs = volcano_chart::write(folder.path())?;
    let volcano = async |more: &[&str]| {
        let (kubeconfig, chart) = (cluster.plane.kubeconfig(), theirs.to_string_lossy());
        let words = ["install", "volcano", &*chart, "--namespace", "volcano-system", "--create-namespace"];
        helm(Some(&kubeconfig), &[&words[..], more].concat()).await
    };
    let gone = async || {
        helm(Some(&cluster.plane.kubeconfig()), &["uninstall", "volcano", "--namespace", "volcano-system"]).await?;
        cluster.until_no_definition().await;
        anyhow::Ok(())
    };
    // Volcano's chart after ours: our notes name the flag.
    let notes = cluster.helm("install", "topoloom", &["--create-namespace"]).await?;
    let uid = cluster.hyper_node().await?;
    let refused = volcano(&[]).await.expect_err("Helm does not own it").to_string();
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
    assert!(notes.contains("--namespace volcano-system --create-namespace --take-ownership\n"), "{notes}");
    volcano(&["--take-ownership"]).await?;
    assert_eq!(cluster.get("crd", HYPER_NODES).await?.pointer(OWNER), Some(&json!("volcano")));
    let version = cluster.get("crd", HYPER_NODES).await?["metadata"]["resourceVersion"].clone();
    let notes = cluster.helm("upgrade", "topoloom", &["--set", "replicas=3"]).await?;
    assert!(!notes.contains("--take-ownership"), "{notes}");
    cluster.helm("uninstall", "topoloom", &[]).await?;
    assert_eq!(cluster.get("crd", HYPER_NODES).await?["metadata"]["resourceVersion"], version);
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    gone().await?;
    // Volcano's chart before ours.
    volcano(&[]).await?;
    cluster.helm("install", "topoloom", &[]).await?;
    assert_eq!(cluster.get("crd", HYPER_NODES).await?.pointer(OWNER), Some(&json!("volcano")));
    gone().await?;
    // Volcano's chart after kubectl applied the definition: kubectl owns the fields.
    let file = chart::folder().join("../../crds").join(format!("{HYPER_NODES}.yaml"));
    cluster.plane.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]).await?;
    let uid = cluster.hyper_node().await?;
    let refused = volcano(&["--take-ownership"]).await.expect_err("the fields are kubectl's").to_string();
    assert!(refused.contains("conflict"), "{refused}");
    // The operator completes the failed install. An uninstall would delete the definition.
    let (kubeconfig, chart) = (cluster.plane.kubeconfig(), theirs.to_string_lossy());
    let words = ["upgrade", "--install", "volcano", &*chart, "--namespace", "volcano-system"];
    helm(Some(&kubeconfig), &[&words[..], &["--take-ownership", "--force-conflicts"]].concat()).await?;
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    cluster.plane.stop().await
}

/// Only for `crds.hyperNode=always`: a tool that renders without a cluster would delete a definition that a hook made,
/// and make it anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_the_release_stays_the_same_over_upgrades_and_an_uninstall() -> Result<()> {
    let cluster = Cluster::new().await?;
    let always = ["--set", "crds.hyperNode=always"];
    cluster.helm("install", "topoloom", &[&always[..], &["--create-namespace"]].concat()).await?;
    let definition = cluster.uid("crd", HYPER_NODES).await?;
    assert_eq!(cluster.get("crd", HYPER_NODES).await?.pointer(OWNER), Some(&json!("topoloom")));
    let uid = cluster.hyper_node().await?;
    for replicas in ["replicas=3", "replicas=2"] {
        cluster.helm("upgrade", "topoloom", &[&always[..], &["--set", replicas]].concat()).await?;
        assert_eq!(cluster.uid("crd", HYPER_NODES).await?, definition, "{replicas}");
    }
    // With `auto` again, the definition no longer belongs to the release. Nothing else changes.
    cluster.helm("upgrade", "topoloom", &[]).await?;
    assert_eq!(cluster.uid("crd", HYPER_NODES).await?, definition);
    cluster.helm("uninstall", "topoloom", &[]).await?;
    assert_eq!(cluster.uid("crd", HYPER_NODES).await?, definition);
    assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
    cluster.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_into_the_configuration_stays_through_everything_that_helm_does() -> Result<()> {
    let cluster = Cluster::new().await?;
    cluster.helm("install", "topoloom", &["--create-namespace"]).await?;
    assert_eq!(cluster.text().await?, "networkTopologyDiscovery: []\n");
    cluster.edit(EDITED).await?;
    let uid = cluster.uid("configmap", CONFIG_MAP).await?;
    let same = async |step: &str| -> Result<()> {
        assert_eq!(cluster.text().await?, EDITED, "{step}");
        assert_eq!(cluster.uid("configmap", CONFIG_MAP).await?, uid, "{step}");
        Ok(())
    };
    cluster.helm("upgrade", "topoloom", &["--set", "observe=true"]).await?;
    same("upgrade").await?;
    cluster.rollback("topoloom", "1").await?;
    same("rollback").await?;
    cluster.helm("uninstall", "topoloom", &[]).await?;
    same("uninstall").await?;
    cluster.helm("install", "topoloom", &[]).await?;
    same("another install").await?;

    // A document in the values does not replace by accident what an operator has written.
    let document = ["--set-json", r#"config.document={"networkTopologyDiscovery": []}"#];
    assert!(cluster.helm("upgrade", "topoloom", &document).await.is_err());
    same("a document that was refused").await?;
    cluster.helm("upgrade", "topoloom", &[&document[..], &["--take-ownership", "--force-conflicts"]].concat()).await?;
    assert_eq!(cluster.text().await?, "networkTopologyDiscovery: []");
    // From here on an edit by hand conflicts with the next upgrade, and an upgrade without the document keeps the
    // stored text.
    cluster.edit(EDITED).await?;
    assert!(cluster.helm("upgrade", "topoloom", &document).await.is_err());
    cluster.helm("upgrade", "topoloom", &[]).await?;
    same("without a document").await?;
    cluster.plane.stop().await
}

/// An operator can upgrade from the first chart to this one.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_from_the_first_chart_keeps_names_and_uids() -> Result<()> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept/chart-0.1.0");
    let cluster = Cluster::new().await?;
    cluster.helm_with(&kept.join("topoloom"), "install", "topoloom", &["--create-namespace"]).await?;
    let uid = cluster.hyper_node().await?;
    let mut before = Vec::new();
    let objects = [
        ("crd", HYPER_NODES),
        ("crd", SOURCES),
        ("deployment", "topoloom"),
        ("serviceaccount", "topoloom"),
        ("configmap", CONFIG_MAP),
    ];
    for (kind, name) in objects {
        before.push(cluster.uid(kind, name).await?);
    }
    let same = async || -> Result<()> {
        assert_eq!(cluster.uid("hypernode", "rack-a").await?, uid);
        for ((kind, name), before) in objects.into_iter().zip(&before) {
            assert_eq!(cluster.uid(kind, name).await?, *before, "{kind} {name} was made anew");
        }
        Ok(())
    };
    cluster.helm("upgrade", "topoloom", &["--reset-then-reuse-values"]).await?;
    same().await?;
    // The rollback to the first chart.
    cluster.rollback("topoloom", "1").await?;
    same().await?;
    // The first chart owned the configuration. This chart takes it over with the operator's edit.
    cluster.edit(EDITED).await?;
    for _ in 0..2 {
        cluster.helm("upgrade", "topoloom", &["--reset-then-reuse-values"]).await?;
        same().await?;
        assert_eq!(cluster.text().await?, EDITED);
    }
    // Lending is switched on: the definitions and a second Deployment come, and the rest stays.
    let lends = ["--reset-then-reuse-values", "--set", "syncer.enabled=true,syncer.secrets={east}"];
    let notes = cluster.helm("upgrade", "topoloom", &lends).await?;
    assert!(notes.contains("It may read these Secrets of topoloom-system: east."), "{notes}");
    same().await?;
    assert_eq!(cluster.text().await?, EDITED);
    let syncer = cluster.get("deployment", "topoloom-syncer").await?;
    assert_eq!(syncer["spec"]["template"]["spec"]["serviceAccountName"], "topoloom-syncer");
    let definitions = ["clusterbindings.topoloom.dev", "resourceleasingpolicies.topoloom.dev"];
    let mut lent = Vec::new();
    for name in definitions {
        assert_eq!(cluster.get("crd", name).await?.pointer(OWNER), Some(&json!("topoloom")), "{name}");
        lent.push(cluster.uid("crd", name).await?);
    }
    // The rollback to the revision before that ends it, and keeps the definitions with every binding.
    cluster.rollback("topoloom", "5").await?;
    same().await?;
    assert!(cluster.is_gone("deployment", "topoloom-syncer").await?);
    for (name, before) in definitions.into_iter().zip(&lent) {
        assert_eq!(cluster.uid("crd", name).await?, *before, "{name} was made anew");
    }
    cluster.plane.stop().await
}
