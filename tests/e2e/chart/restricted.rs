//! A real API server accepts what the chart renders, in a namespace that enforces the restricted Pod Security Standard.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::chart::plain::{self, Manifest};
use topoloom_tests::chart::{self, Rendering, values};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{NAMESPACE, Scene};

/// How many cases run at a time: each mostly waits for Helm and the API server.
const AT_ONCE: usize = 4;

/// A pod of each Deployment.
fn pods(objects: &[Value]) -> Vec<Value> {
    let pod = |deployment: &Value| {
        let template = &deployment["spec"]["template"];
        let mut metadata = template["metadata"].clone();
        metadata["name"] = json!("topoloom-pod");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    };
    objects.iter().filter(|object| object["kind"] == "Deployment").map(pod).collect()
}

/// What the API server would make of a pod; it stores nothing.
async fn create(scene: &Scene, pod: &Value, namespace: &str) -> Result<DynamicObject> {
    let pods: Api<DynamicObject> =
        Api::namespaced_with(scene.plane.client(), namespace, &ApiResource::erase::<Pod>(&()));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    Ok(pods.create(&dry, &serde_json::from_value(pod.clone())?).await?)
}

/// Makes a namespace enforce the restricted Pod Security Standard.
async fn restrict(scene: &Scene, namespace: &str) -> Result<()> {
    let label = "pod-security.kubernetes.io/enforce=restricted";
    scene.plane.kubectl(&["label", "namespace", namespace, label]).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_takes_everything_and_the_pod_is_restricted() -> Result<()> {
    let scene = Scene::new().await?;
    restrict(&scene, NAMESPACE).await?;
    // A dry run makes no namespace, and the rules of the syncer in that one need it.
    scene.plane.kubectl(&["create", "namespace", keys::HOST_PORT_NAMESPACE]).await?;
    let priorities =
        async || scene.plane.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical").await;
    eventually("the built-in priorities are there", Duration::from_secs(30), async || {
        priorities().await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let cases = values::each().into_iter().map(|case| (case.name, case.values));
    let is_taken = async |(name, values): (&str, Value)| -> Result<()> {
        let objects = Rendering::new(values).objects().await?;
        scene.plane.apply_dry(&objects).await.context(name.to_owned())?;
        for pod in pods(&objects) {
            create(&scene, &pod, NAMESPACE).await.context(name.to_owned())?;
        }
        Ok(())
    };
    // The API server stores nothing, so the cases do not affect each other.
    let cases = stream::iter(cases.chain([("everything", values::all())]));
    cases.map(is_taken).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    // In this namespace the API server does refuse pods.
    let of_both = pods(&Rendering::new(values::lends()).objects().await?);
    assert_eq!(of_both.len(), 2);
    for (pointer, value) in [
        ("/spec/containers/0/securityContext/allowPrivilegeEscalation", json!(true)),
        ("/spec/containers/0/securityContext/capabilities/drop", json!([])),
        ("/spec/securityContext/seccompProfile/type", json!("Unconfined")),
        ("/spec/securityContext/runAsUser", json!(0)),
    ] {
        let mut pod = of_both[0].clone();
        *pod.pointer_mut(pointer).unwrap() = value;
        let said = format!("{:?}", create(&scene, &pod, NAMESPACE).await);
        assert!(said.contains("violates PodSecurity"), "{pointer}: {said}");
    }
    for pod in of_both {
        assert_eq!(pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    }
    scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_manifests_are_applied_as_they_are_and_taken_away_by_their_labels() -> Result<()> {
    let scene = Scene::new().await?;
    for which in Manifest::ALL {
        is_applied_and_taken_away(&scene, which).await.with_context(|| format!("{which:?}"))?;
    }
    scene.plane.stop().await
}

async fn is_applied_and_taken_away(scene: &Scene, which: Manifest) -> Result<()> {
    let file = which.file();
    let words = ["apply", "--server-side", "--force-conflicts", "-f", &file.to_string_lossy()];
    scene.plane.kubectl(&words).await?;
    let labels =
        scene.plane.kubectl(&["get", "namespace", plain::NAMESPACE, "-o", "jsonpath={.metadata.labels}"]).await?;
    assert!(labels.contains("restricted"), "{labels}");
    // An operator can apply it a second time, and its ServiceAccount can get a token.
    scene.plane.kubectl(&words).await?;
    scene.plane.kubeconfig_for(plain::NAMESPACE, which.name()).await?;
    let objects = chart::parse(&std::fs::read_to_string(&file)?)?;
    let [pod]: [Value; 1] = pods(&objects).try_into().map_err(|pods| anyhow!("one pod, and not {pods:?}"))?;
    create(scene, &pod, plain::NAMESPACE).await?;
    // The removal that the documentation describes: definitions, the namespace and the configuration in it stay.
    let (namespace, map) = (plain::NAMESPACE, plain::CONFIG_MAP);
    if which == Manifest::Host {
        scene.plane.kubectl(&["create", "configmap", map, "-n", namespace]).await?;
    }
    let label = format!("app.kubernetes.io/name={}", which.name());
    scene.plane.kubectl(&["delete", "-f", &file.to_string_lossy(), "-l", &label]).await?;
    let stays = ["Namespace", "CustomResourceDefinition"];
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        let is_there = scene.plane.has(object).await?;
        assert_eq!(is_there, stays.contains(&kind), "{kind} {}", object["metadata"]["name"]);
    }
    scene.plane.kubectl(&["get", "configmap", map, "-n", namespace]).await.map(drop)
}
