//! The syncer of the chart on a real API server: with its token it lends virtual nodes, and everything else is refused, by its
//! rules or by its admission policies, even if RBAC allows everything.
//!
//! No process of the host runs here: each request is one that a syncer sends, or one that it must not send.

use anyhow::Result;
use kube::Client;
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::chart::{self, SYNCER, SYNCER_USER, values};
use topoloom_tests::controlplane::{client_from, eventually};
use topoloom_tests::scene::{NAMESPACE, PATIENCE, Scene};

use super::policies::{Call, allow_everything, delete, get, patch, post, put};

/// The virtual node of the test.
const NODE: &str = "vnode-east-w1";

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The API server does it.
    Done,
    /// No rule allows it.
    NoRule,
    /// A policy refuses it, with these words.
    Denied(&'static str),
}

fn node(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

fn placeholder(name: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{name}", keys::HOST_PORT_NAMESPACE)
}

fn csi_node(name: &str) -> String {
    format!("/apis/storage.k8s.io/v1/csinodes/{name}")
}

fn lease(namespace: &str, name: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
}

fn secret(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

fn binding(rest: &str) -> String {
    format!("/apis/topoloom.dev/v1alpha1/clusterbindings/{rest}")
}

fn is(fate: Fate, answer: &Result<Value, kube::Error>) -> bool {
    const POLICY: &str = "ValidatingAdmissionPolicy";
    match (fate, answer) {
        (Fate::Done, Ok(_)) => true,
        (Fate::NoRule, Err(kube::Error::Api(status))) => status.code == 403 && !status.message.contains(POLICY),
        (Fate::Denied(words), Err(kube::Error::Api(status))) => {
            status.message.contains(POLICY) && status.message.contains(words)
        }
        _ => false,
    }
}

/// Sends a request and compares its result; returns what the API server has answered.
async fn check(client: &Client, name: &str, call: Call, fate: Fate) -> Result<Value> {
    let answer = call.send(client).await;
    anyhow::ensure!(is(fate, &answer), "{name}: wanted {fate:?}, and {} {} gave {answer:?}", call.verb, call.path);
    Ok(answer.unwrap_or_default())
}

/// Waits until a request has this result: the API server enforces rules and policies a moment after it has stored them.
async fn enforced(client: &Client, call: Call, fate: Fate) {
    eventually(&format!("{} {} is {fate:?}", call.verb, call.path), PATIENCE, async || {
        let answer = call.send(client).await;
        if is(fate, &answer) { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
}

fn labels() -> Value {
    json!({keys::VIRTUAL_CLUSTER: "night", keys::BINDING: "east", keys::BINDING_UID: "binding-1"})
}

fn new_node(name: &str, labels: Value) -> Value {
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "finalizers": [keys::VNODE_FINALIZER]},
        "status": {"conditions": [ready]},
    })
}

fn new_pod(name: &str, node: Option<&str>) -> Value {
    let mut spec = json!({"containers": [{"name": "main", "image": "example/main"}]});
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// A pod that holds a host port of a node, with these labels beside the one of a placeholder.
fn new_placeholder(name: &str, node: &str, mut labels: Value) -> Value {
    labels[keys::HOST_PORT_PLACEHOLDER] = json!("true");
    let mut pod = new_pod(name, Some(node));
    pod["metadata"]["labels"] = labels;
    pod["spec"]["automountServiceAccountToken"] = json!(false);
    pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    pod
}

fn new_lease(name: &str) -> Value {
    let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40});
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec})
}

fn new_csi_node(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name, "labels": labels},
        "spec": {"drivers": []},
    })
}

fn new_secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

/// What is there before the syncer: machines with their pods and leases, and what looks like a virtual node and is none of ours.
async fn world(scene: &Scene) -> Result<()> {
    let spec = json!({"clusterID": "east", "secretRef": {"name": "east"}, "mountNamespace": "lent"});
    let east = json!({
        "apiVersion": "topoloom.dev/v1alpha1", "kind": "ClusterBinding", "metadata": {"name": "east"}, "spec": spec,
    });
    let calls = [
        post(node(""), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}})),
        // Another client gave our labels to a machine, and our kind of name to another.
        post(node(""), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2", "labels": labels()}})),
        post(node(""), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "vnode-by-hand"}})),
        post(pod(""), new_pod("real", Some("w1"))),
        post(pod(""), new_pod("waiting", None)),
        post(pod(""), new_pod("lent", Some(NODE))),
        post(pod(""), new_pod("lent-too", Some(NODE))),
        post(csi_node(""), new_csi_node("w1", json!({}))),
        post(lease("kube-node-lease", ""), new_lease("w1")),
        post(lease(NAMESPACE, ""), new_lease("topoloom-hypernode")),
        post(secret(""), new_secret("east")),
        post(secret(""), new_secret("other")),
        post(binding(""), east),
    ];
    for call in calls {
        check(&scene.plane.client(), "an administrator", call, Fate::Done).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s27_the_syncer_of_the_chart_writes_virtual_nodes_and_what_is_on_them_and_nothing_else() -> Result<()> {
    let scene = Scene::new().await?;
    chart::install(&scene, values::lends_with(json!({"hostPorts": true}))).await?;
    world(&scene).await?;
    let ours = client_from(&scene.plane.kubeconfig_for(NAMESPACE, SYNCER).await?).await?;
    let try_only = |path: String| format!("{path}?dryRun=All");
    let label = json!({"metadata": {"labels": {"note": "mine"}}});
    for path in [node("w1"), csi_node("w1"), lease(NAMESPACE, "topoloom-hypernode")] {
        enforced(&ours, patch(try_only(path), label.clone()), Fate::Denied("may write only")).await;
    }
    enforced(&ours, delete(try_only(pod("real"))), Fate::Denied("may write only")).await;

    what_it_does(&ours).await?;
    nodes_of_others(&ours).await?;
    pods_and_leases_of_others(&ours).await?;
    what_no_rule_allows(&ours).await?;

    // The same if a role allows everything.
    allow_everything(&scene, SYNCER_USER).await?;
    enforced(&ours, get(secret("other")), Fate::Done).await;
    what_policies_refuse_of_an_administrator(&ours).await?;
    nodes_of_others(&ours).await?;
    pods_and_leases_of_others(&ours).await?;
    its_node_goes(&ours).await?;
    scene.plane.stop().await
}

/// One request of each kind that a syncer sends.
async fn what_it_does(ours: &Client) -> Result<()> {
    let done = async |name: &str, call: Call| check(ours, name, call, Fate::Done).await;
    done("the identity of the cluster", get("/api/v1/namespaces/kube-system")).await?;
    done("its kubeconfig", get(secret("east"))).await?;
    done("the bindings", get(binding(""))).await?;
    done("a virtual node is made", post(node(""), new_node(NODE, labels()))).await?;
    let size = json!({
        "metadata": {"labels": {"rack": "a"}, "annotations": {keys::LEASE_SUMMARY: "cpu 4"}},
        "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
    });
    let stored = done("its size", patch(node(NODE) + "/status", size)).await?;
    assert_eq!(stored["metadata"]["labels"]["rack"], "a", "{stored}");
    let taints = json!({"spec": {"taints": [{"key": keys::VNODE_TAINT, "effect": "NoSchedule"}]}});
    done("its taints", patch(node(NODE), taints)).await?;
    // A binding that was applied again adopts the node.
    let adopted = json!({"metadata": {"labels": {keys::BINDING_UID: "binding-2"}}});
    done("its binding has another UID", patch(node(NODE) + "/status", adopted)).await?;

    let mut heartbeat = done("its lease", post(lease("kube-node-lease", ""), new_lease(NODE))).await?;
    heartbeat["spec"]["renewTime"] = json!("2026-01-01T00:00:00.000000Z");
    done("a heartbeat", put(lease("kube-node-lease", NODE), heartbeat)).await?;
    done("its CSINode", post(csi_node(""), new_csi_node(NODE, labels()))).await?;
    let rack = json!({"metadata": {"labels": {"rack": "a"}}});
    done("its CSINode changes", patch(csi_node(NODE), rack)).await?;
    done("its CSINode goes", delete(csi_node(NODE))).await?;

    let name = format!("{SYNCER}-binding-0123");
    let mut held = done("a lease of a binding", post(lease(NAMESPACE, ""), new_lease(&name))).await?;
    held["spec"]["holderIdentity"] = json!("pod-1");
    done("it is renewed", put(lease(NAMESPACE, &name), held)).await?;
    let witness = json!({"metadata": {"annotations": {keys::WITNESS: "1/1"}}});
    done("its witness", patch(lease(NAMESPACE, &name), witness)).await?;
    let record = json!({"metadata": {"annotations": {keys::BINDING_RECORD: "{}"}}});
    done("what is kept of the binding", patch(lease(NAMESPACE, &name), record)).await?;
    done("it goes", delete(lease(NAMESPACE, &name))).await?;

    done("how a pod is doing", patch(pod("lent") + "/status", json!({"status": {"phase": "Running"}}))).await?;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "lent"}});
    done("a pod is evicted", post(pod("lent") + "/eviction", eviction)).await?;
    done("a pod is deleted", delete(pod("lent-too") + "?gracePeriodSeconds=0")).await?;
    done("a host port is held", post(placeholder(""), new_placeholder("holds", NODE, labels()))).await?;
    let scheduled = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}});
    done("that waits for no scheduler", patch(placeholder("holds") + "/status", scheduled)).await?;
    done("the port is free", delete(placeholder("holds") + "?gracePeriodSeconds=0")).await?;
    let finalizer = json!({"metadata": {"finalizers": [keys::BINDING_FINALIZER]}});
    done("the finalizer of a binding", patch(binding("east"), finalizer)).await?;
    done("the status of a binding", patch(binding("east/status"), json!({"status": {"phase": "Ready"}}))).await?;
    done("the finalizer goes", patch(binding("east"), json!({"metadata": {"finalizers": null}}))).await.map(drop)
}

async fn nodes_of_others(ours: &Client) -> Result<()> {
    let (name, none) = (Fate::Denied("This one has another name"), Fate::Denied("This one does not have them"));
    let (lost, changed) =
        (Fate::Denied("This write leaves one of them out"), Fate::Denied("This write changes one of them"));
    let cordon = json!({"spec": {"unschedulable": true}});
    let status = json!({"status": {"allocatable": {"cpu": "1"}}});
    let claimed = json!({"metadata": {"labels": labels()}});
    let relabelled = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let rows = [
        ("a machine is cordoned", patch(node("w1"), cordon.clone()), name),
        ("a machine gets a status", patch(node("w1") + "/status", status.clone()), name),
        ("a machine is deleted", delete(node("w1")), name),
        ("a machine gets our labels", patch(node("w1"), claimed.clone()), name),
        ("a machine gets our labels with its status", patch(node("w1") + "/status", claimed.clone()), name),
        ("a machine that has our labels is cordoned", patch(node("w2"), cordon.clone()), name),
        ("a machine that has our labels is deleted", delete(node("w2")), name),
        ("a node with a name like ours is cordoned", patch(node("vnode-by-hand"), cordon), none),
        ("a node with a name like ours gets a status", patch(node("vnode-by-hand") + "/status", status), none),
        ("a node with a name like ours gets our labels", patch(node("vnode-by-hand"), claimed.clone()), none),
        ("a node with a name like ours is deleted", delete(node("vnode-by-hand")), none),
        ("a node with another name is made", post(node(""), new_node("w3", labels())), name),
        ("a node without our labels is made", post(node(""), new_node("vnode-east-w3", json!({}))), lost),
        ("our node loses a label", patch(node(NODE), relabelled(keys::BINDING, json!(null))), lost),
        ("our node goes to another binding", patch(node(NODE), relabelled(keys::BINDING, json!("west"))), changed),
        (
            "our node goes to another cluster",
            patch(node(NODE) + "/status", relabelled(keys::VIRTUAL_CLUSTER, json!("day"))),
            changed,
        ),
        ("the CSINode of a machine changes", patch(csi_node("w1"), claimed), name),
        ("the CSINode of a machine is deleted", delete(csi_node("w1")), name),
        ("a CSINode with another name is made", post(csi_node(""), new_csi_node("w3", labels())), name),
        ("a CSINode without our labels is made", post(csi_node(""), new_csi_node(NODE, json!({}))), lost),
    ];
    for (row, call, fate) in rows {
        check(ours, row, call, fate).await?;
    }
    Ok(())
}

async fn pods_and_leases_of_others(ours: &Client) -> Result<()> {
    let elsewhere = Fate::Denied("This one is not on a virtual node");
    let failed = json!({"status": {"phase": "Failed"}});
    let theirs = Fate::Denied("may write only its own leases and those of virtual nodes");
    let seen = check(ours, "a heartbeat of a machine is read", get(lease("kube-node-lease", "w1")), Fate::Done).await?;
    let taken = json!({"spec": {"holderIdentity": "another"}});
    let labelled = Fate::Denied("A placeholder has to have the labels");
    let mut mounts = new_placeholder("new", NODE, labels());
    mounts["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
    let rows = [
        ("a pod is made among placeholders", post(placeholder(""), new_pod("new", Some(NODE))), labelled),
        (
            "a placeholder without our labels is made",
            post(placeholder(""), new_placeholder("new", NODE, json!({}))),
            labelled,
        ),
        (
            "a placeholder on a machine is made",
            post(placeholder(""), new_placeholder("new", "w1", labels())),
            Fate::Denied("A placeholder has to be on a virtual node"),
        ),
        ("a placeholder with a Secret is made", post(placeholder(""), mounts), Fate::Denied("has no volume")),
        ("the status of a pod on a machine", patch(pod("real") + "/status", failed.clone()), elsewhere),
        ("a pod on a machine is deleted", delete(pod("real")), elsewhere),
        ("the status of a pod on no node", patch(pod("waiting") + "/status", failed), elsewhere),
        ("a pod on no node is deleted", delete(pod("waiting") + "?gracePeriodSeconds=0"), elsewhere),
        ("a heartbeat of a machine", put(lease("kube-node-lease", "w1"), seen), theirs),
        ("a heartbeat of a new machine", post(lease("kube-node-lease", ""), new_lease("w2")), theirs),
        ("the lease of the other Deployment", patch(lease(NAMESPACE, "topoloom-hypernode"), taken), theirs),
        ("it is deleted", delete(lease(NAMESPACE, "topoloom-hypernode")), theirs),
        ("a lease with the name of another", post(lease(NAMESPACE, ""), new_lease("topoloom-syncers")), theirs),
    ];
    for (row, call, fate) in rows {
        check(ours, row, call, fate).await?;
    }
    Ok(())
}

async fn what_no_rule_allows(ours: &Client) -> Result<()> {
    let token = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/topoloom/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let review = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let rows = [
        ("another Secret", get(secret("other"))),
        ("all Secrets", get(secret(""))),
        ("a Secret is written", patch(secret("east"), json!({"data": {"kubeconfig": "e30="}}))),
        ("all ConfigMaps", get(maps)),
        ("a token of the other ServiceAccount", post(token, request)),
        ("all nodes are deleted", delete(node(""))),
        ("a pod is made", post(pod(""), new_pod("new", Some(NODE)))),
        ("a placeholder elsewhere", post(pod(""), new_placeholder("new", NODE, labels()))),
        ("a pod changes", patch(pod("lent"), json!({"metadata": {"labels": {"app": "b"}}}))),
        ("all pods are deleted", delete(pod(""))),
        ("a lease of a node is deleted", delete(lease("kube-node-lease", "w1"))),
        ("a lease in another namespace", post(lease("default", ""), new_lease(NODE))),
        ("a binding is made", post(binding(""), json!({}))),
        ("a binding is deleted", delete(binding("east"))),
        // Without logs it has no callers to review.
        ("a review of a caller", post(review, json!({}))),
        ("a role", get("/apis/rbac.authorization.k8s.io/v1/clusterroles")),
    ];
    for (row, call) in rows {
        check(ours, row, call, Fate::NoRule).await?;
    }
    Ok(())
}

async fn what_policies_refuse_of_an_administrator(ours: &Client) -> Result<()> {
    let rest = Fate::Denied("It must not create, bind, change or connect");
    let bound = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "waiting"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
    });
    let theirs = Fate::Denied("may write only its own leases and those of virtual nodes");
    let rows = [
        ("a pod is made", post(pod(""), new_pod("new", Some(NODE))), rest),
        ("a placeholder elsewhere", post(pod(""), new_placeholder("new", NODE, labels())), rest),
        ("a pod changes", patch(pod("lent"), json!({"metadata": {"labels": {"app": "b"}}})), rest),
        ("a pod is bound", post(pod("waiting") + "/binding", bound.clone()), rest),
        ("a pod is bound by the older resource", post("/api/v1/namespaces/default/bindings", bound), rest),
        ("a command in a pod", post(pod("lent") + "/exec?command=true", json!({})), rest),
        (
            "the kubelet of a node",
            get(node(NODE) + "/proxy/pods"),
            Fate::Denied("It must not connect, or write another subresource than the status"),
        ),
        ("a lease of a node is deleted", delete(lease("kube-node-lease", "w1")), theirs),
        ("a lease in another namespace", post(lease("default", ""), new_lease(NODE)), theirs),
    ];
    for (row, call, fate) in rows {
        check(ours, row, call, fate).await?;
    }
    Ok(())
}

/// The last steps of a virtual node: its deletion, and then its finalizer.
async fn its_node_goes(ours: &Client) -> Result<()> {
    check(ours, "our node is deleted", delete(node(NODE)), Fate::Done).await?;
    let free = json!({"metadata": {"finalizers": null}});
    check(ours, "its finalizer goes", patch(node(NODE), free), Fate::Done).await?;
    let left = get(node(NODE)).send(ours).await;
    let is_gone = matches!(&left, Err(kube::Error::Api(status)) if status.code == 404);
    anyhow::ensure!(is_gone, "{left:?}");
    Ok(())
}
