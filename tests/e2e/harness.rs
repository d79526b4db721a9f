//! The test control plane itself: what every other end-to-end test relies on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use topoloom_tests::controlplane::{ControlPlane, Wanted, WriteKind, client_from, eventually};
use topoloom_tests::scene::Scene;

const SOON: Duration = Duration::from_secs(20);

/// Whether a process with this id exists, a zombie counting as ended.
fn runs(id: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

async fn nothing_left(ids: &[u32], folder: &Path) {
    eventually("the servers are gone", SOON, async || {
        let left: Vec<_> = ids.iter().filter(|id| runs(**id)).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} still run")) }
    })
    .await;
    assert!(!folder.exists(), "{} is still there", folder.display());
}

fn left_behind(plane: &ControlPlane) -> (Vec<u32>, PathBuf) {
    (plane.process_ids(), plane.folder().to_owned())
}

#[tokio::test]
async fn a_control_plane_from_start_to_stop() -> Result<()> {
    let mut plane = ControlPlane::builder().audit(true).start().await?;
    let nodes: Api<Node> = Api::all(plane.client());

    // Requests are counted.
    let before = plane.requests().await?;
    plane.create_nodes((0..40).map(|i| (format!("node-{i}"), [("rack", format!("r{}", i / 8))]))).await?;
    plane.relabel("node-1", "rack", "moved").await?;
    plane.relabel("node-1", "rack", None).await?;
    eventually("42 writes to nodes are counted", SOON, async || {
        let more = plane.requests().await.map_err(|error| format!("{error:#}"))?.since(&before);
        let (writes, created) = (more.writes("nodes", ""), more.count(|it| it.resource == "nodes" && it.code == 201));
        if (writes, created) == (42, 40) { Ok(()) } else { Err(format!("{writes} writes, {created} created")) }
    })
    .await;
    assert!(plane.audit_log()?.iter().any(|event| event["objectRef"]["name"] == "node-1" && event["verb"] == "patch"));

    // The history of etcd has every write, in order.
    let writes = plane.writes_in_order("/registry/minions/").await?;
    assert_eq!(writes.len(), 42);
    assert!(writes.is_sorted_by_key(|write| write.revision));
    assert_eq!(writes.iter().filter(|write| write.created).count(), 40);
    let moved: Vec<_> = writes.iter().filter(|write| write.key == "/registry/minions/node-1").collect();
    assert_eq!(moved.iter().map(|write| write.kind).collect::<Vec<_>>(), [WriteKind::Put; 3]);
    assert_eq!(moved[1].value["metadata"]["labels"]["rack"], "moved");
    assert!(moved[2].value["metadata"]["labels"].get("rack").is_none());

    // An API server that was stopped has its data again, and a client reaches it again.
    let old = nodes.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    plane.stop_apiserver().await?;
    assert!(nodes.list(&ListParams::default()).await.is_err());
    plane.start_apiserver().await?;
    assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), 40);

    // A watch from before a compaction ends with 410.
    plane.relabel("node-2", "rack", "moved").await?;
    plane.stop_apiserver().await?;
    let compacted = plane.compact().await?;
    assert!(compacted > old.parse()?);
    plane.start_apiserver().await?;
    let code = eventually("the old watch is answered", SOON, async || {
        let watch = nodes.watch(&WatchParams::default(), &old).await;
        let first = match watch {
            Ok(events) => Box::pin(events).next().await.ok_or("it ended without an event")?,
            Err(error) => Err(error),
        };
        match first {
            Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status)) => Ok(status.code),
            other => Err(format!("{other:?}")),
        }
    });
    assert_eq!(code.await, 410);
    assert!(plane.writes_in_order("/registry/").await.is_err(), "a history with a hole is not given out");
    plane.relabel("node-3", "rack", "moved").await?;
    assert_eq!(plane.writes_since("/registry/minions/", compacted + 1).await?.len(), 1);

    let (ids, folder) = left_behind(&plane);
    assert!(ids.len() == 2 && ids.iter().all(|id| runs(*id)));
    plane.stop().await?;
    nothing_left(&ids, &folder).await;
    Ok(())
}

#[tokio::test]
async fn resources_rights_and_kubectl() -> Result<()> {
    let plane = ControlPlane::start().await?;
    plane.apply_crd(thing_definition()).await?;
    let got = plane.kubectl(&["get", "things.test.topoloom.dev", "-o", "name"]).await?;
    assert_eq!(got, "");
    let refused = plane.kubectl(&["get", "nothings"]).await.expect_err("there is no such resource");
    assert!(format!("{refused:#}").contains("nothings"), "{refused:#}");
    assert!(plane.kubectl(&["version"]).await?.contains("Server Version: v1."));

    // A ServiceAccount may do only what a rule allows.
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), "default");
    let metadata = ObjectMeta { name: Some("reader".into()), ..ObjectMeta::default() };
    accounts.create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() }).await?;
    let reader = client_from(&plane.kubeconfig_for("default", "reader").await?).await?;
    let nodes: Api<Node> = Api::all(reader);
    match nodes.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403),
        other => panic!("{other:?}"),
    }
    plane.kubectl(&["create", "clusterrole", "reader", "--verb=list", "--resource=nodes"]).await?;
    let binding = ["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader"];
    plane.kubectl(&binding).await?;
    eventually("the rule is in force", SOON, async || {
        nodes.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    plane.stop().await
}

#[tokio::test]
async fn a_test_has_two_at_once_and_dropping_them_leaves_nothing() -> Result<()> {
    let planes = ControlPlane::several([ControlPlane::builder(), ControlPlane::builder()]).await?;
    planes[0].create_nodes([("node-0", [("rack", "r1")])]).await?;
    let mut identities = Vec::new();
    for (plane, wanted) in planes.iter().zip([1, 0]) {
        let nodes: Api<Node> = Api::all(plane.client());
        assert_eq!(nodes.list(&ListParams::default()).await?.items.len(), wanted);
        let namespaces: Api<Namespace> = Api::all(plane.client());
        identities.push(namespaces.get("kube-system").await?.metadata.uid);
    }
    assert_ne!(identities[0], identities[1], "each is a cluster of its own");
    let left: Vec<_> = planes.iter().map(left_behind).collect();
    drop(planes);
    for (ids, folder) in left {
        nothing_left(&ids, &folder).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_test_stopped_is_empty_for_the_next_one_and_what_it_dropped_is_gone() -> Result<()> {
    // The second time, this test or another one has used both before.
    for _ in 0..2 {
        for plane in Scene::planes([Wanted::Shared, Wanted::Shared]).await? {
            let nodes: Api<Node> = Api::all(plane.client());
            let left = nodes.list(&ListParams::default()).await?.items;
            assert!(left.is_empty(), "{left:?}");
            plane.create_nodes([("left", [("rack", "r1")])]).await?;
            plane.stop().await?;
        }
    }
    // As with a test that returns an error.
    let [plane] = Scene::planes([Wanted::Shared]).await?;
    let folder = plane.folder().to_owned();
    drop(plane);
    assert!(!folder.exists(), "{} is still there", folder.display());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_servers_were_started_again_serves_the_next_test_which_sees_its_own_requests_only() -> Result<()> {
    // Between the two steps another test may get the control plane, and may end it: then once more.
    for _ in 0..5 {
        let [mut plane] = Scene::planes([Wanted::Audited]).await?;
        plane.create_nodes([("left", [("rack", "r1")])]).await?;
        plane.stop_apiserver().await?;
        plane.compact().await?;
        plane.start_apiserver().await?;
        let of_left = |event: &serde_json::Value| event["objectRef"]["name"] == "left";
        assert!(plane.audit_log()?.iter().any(of_left));
        let folder = plane.folder().to_owned();
        plane.stop().await?;
        let [next] = Scene::planes([Wanted::Audited]).await?;
        assert!(!next.audit_log()?.iter().any(of_left));
        let nodes: Api<Node> = Api::all(next.client());
        assert!(nodes.list(&ListParams::default()).await?.items.is_empty());
        let is_the_same = next.folder() == folder;
        next.stop().await?;
        if is_the_same {
            return Ok(());
        }
    }
    panic!("it is never used again")
}

fn thing_definition() -> serde_json::Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.topoloom.dev"},
        "spec": {
            "group": "test.topoloom.dev",
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}
