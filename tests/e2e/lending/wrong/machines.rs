//! Machines, kubelets and virtual nodes that break or are edited, and pods that do not want to go (decisions S4, S10, S12 and S22).

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::lending::kubelets::{Health, NewNode, STOP};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{ELSEWHERE, Lent, now};
use super::super::{condition, phase, until_gone, until_pod};
use super::{bound, effects, has_taint, of_loan, player, pods};

/// A pod that is gone as soon as it is deleted.
const AT_ONCE: &str = "terminationGracePeriodSeconds";
/// Long enough to see that a budget is honoured.
const DEADLINE: &str = "8s";

/// The binding of the pods that do not want to go, when it selects these machines.
fn of_pods(loan: &str) -> Value {
    json!({
        "nodeSelector": of_loan(loan), "mountNamespace": ELSEWHERE, "timing": {"evictionDeadline": DEADLINE},
        "safety": {"maxEvictPercent": 100},
    })
}

async fn prepare() -> Result<Lent> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &[], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    let machines = [("m1", "breaks"), ("m2", "breaks"), ("m3", "breaks"), ("m4", "breaks"), ("q1", "pods")];
    lent.kubelets.register(machines.map(|(name, loan)| NewNode::named(name).label("loan", loan))).await?;
    lent.bind("breaks", json!({"nodeSelector": of_loan("breaks")})).await?;
    lent.bind("pods", of_pods("pods")).await?;
    for node in ["vnode-breaks-m1", "vnode-breaks-m2", "vnode-breaks-m3", "vnode-breaks-m4", "vnode-pods-q1"] {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }
    Ok(lent)
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_s12_s22_what_breaks_or_is_edited_is_replaced_or_repaired_and_what_users_added_is_kept() -> Result<()> {
    let lent = prepare().await?;
    tokio::try_join!(replaced(&lent), silent(&lent), edited(&lent), deleted(&lent))?;
    lent.stop().await
}

/// Merges this into a virtual node, as a user does.
async fn edit(lent: &Lent, node: &str, body: Value) -> Result<()> {
    lent.lent().patch(node, &PatchParams::default(), &Patch::Merge(body)).await?;
    Ok(())
}

/// The lender cordons a machine, or takes its cordon back.
async fn cordon(lent: &Lent, machine: &str, unschedulable: bool) -> Result<()> {
    let body = Patch::Merge(json!({"spec": {"unschedulable": unschedulable}}));
    lent.machines().patch(machine, &PatchParams::default(), &body).await?;
    Ok(())
}

/// S22: another machine has the name of one that is lent.
async fn replaced(lent: &Lent) -> Result<()> {
    let node = "vnode-breaks-m1";
    let before = lent.until(node, "is there", |_| true).await["metadata"]["uid"].clone();
    bound(&lent.virtual_plane, "on-the-old-machine", node, json!({"spec": {AT_ONCE: 0}})).await?;
    lent.machines().delete("m1", &DeleteParams::default()).await?;
    lent.kubelets.register([NewNode::named("m1").label("loan", "breaks")]).await?;
    let machine = lent.machines().get("m1").await?.metadata.uid.context("a machine has a UID")?;
    let is_new = |node: &Value| {
        let is_of_it = node["metadata"]["labels"][keys::PHYSICAL_NODE_UID] == *machine;
        is_of_it && node["metadata"]["uid"] != before && ready(node) == "True"
    };
    lent.until(node, "stands for the new machine", is_new).await;
    until_gone(&pods(&lent.virtual_plane), "on-the-old-machine").await;
    Ok(())
}

/// S4: a kubelet dies, as its own cluster says, and comes back. A user's label, annotation, taint and cordon are there all the time.
async fn silent(lent: &Lent) -> Result<()> {
    let node = "vnode-breaks-m2";
    let there = lent.until(node, "is there", |_| true).await;
    let mut taints = there["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.push(json!({"key": "team", "value": "blue", "effect": "NoSchedule"}));
    let metadata = json!({"labels": {"team": "blue"}, "annotations": {"example.com/note": "ours"}});
    edit(lent, node, json!({"metadata": metadata, "spec": {"taints": taints, "unschedulable": true}})).await?;
    bound(&lent.virtual_plane, "on-the-silent-machine", node, json!({"spec": {AT_ONCE: 0}})).await?;

    lent.kubelets.set("m2", Health::Silent);
    let unknown = json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"});
    let patch = Patch::Strategic(json!({"status": {"conditions": [unknown]}}));
    lent.machines().patch_status("m2", &PatchParams::default(), &patch).await?;
    lent.until(node, "is Unknown", |node| ready(node) == "Unknown").await;
    // What its pods tolerate is node-lifecycle's and taint-eviction's to count.
    until_gone(&pods(&lent.virtual_plane), "on-the-silent-machine").await;
    lent.kubelets.set("m2", Health::Ready);
    let is_well = |node: &Value| ready(node) == "True" && !has_taint(node, "node.kubernetes.io/unreachable");
    let node = lent.until(node, "is well again", is_well).await;
    let metadata = &node["metadata"];
    assert_eq!(
        (&metadata["labels"]["team"], &metadata["annotations"]["example.com/note"]),
        (&json!("blue"), &json!("ours"))
    );
    assert_eq!((effects(&node, "team"), &node["spec"]["unschedulable"]), (vec!["NoSchedule"], &json!(true)));
    assert_eq!(metadata["uid"], there["metadata"]["uid"]);
    Ok(())
}

/// S12, S22: what is ours on a virtual node is repaired, its lease too; and a cordon of its machine is mirrored. What a user adds stays
/// through all of it.
async fn edited(lent: &Lent) -> Result<()> {
    let node = "vnode-breaks-m3";
    let there = lent.until(node, "is there", |_| true).await;
    let machine = there["metadata"]["labels"][keys::PHYSICAL_NODE_UID].clone();
    let leases: Api<Lease> = Api::namespaced(lent.virtual_plane.client(), "kube-node-lease");
    leases.delete(node, &DeleteParams::default()).await?;
    let labels = json!({keys::PHYSICAL_NODE_UID: "another", keys::MANAGED_BY_LABEL: null, "team": "red"});
    let metadata = json!({"labels": labels, "annotations": {"example.com/note": "theirs"}});
    let taints = json!([{"key": "team", "value": "red", "effect": "NoSchedule"}]);
    edit(lent, node, json!({"metadata": metadata, "spec": {"taints": taints, "unschedulable": true}})).await?;
    let is_repaired = |node: &Value| {
        let labels = &node["metadata"]["labels"];
        labels[keys::PHYSICAL_NODE_UID] == machine
            && labels[keys::MANAGED_BY_LABEL] == keys::MANAGED_BY
            && has_taint(node, keys::VNODE_TAINT)
    };
    let has_all_of_users = |node: &Value| {
        let metadata = &node["metadata"];
        assert_eq!((&metadata["labels"]["team"], &metadata["uid"]), (&json!("red"), &there["metadata"]["uid"]));
        assert_eq!(metadata["annotations"]["example.com/note"], "theirs");
        assert_eq!((effects(node, "team"), &node["spec"]["unschedulable"]), (vec!["NoSchedule"], &json!(true)));
    };
    has_all_of_users(&lent.until(node, "is repaired", is_repaired).await);
    let is_cordoned = |node: &Value| has_taint(node, keys::PHYSICAL_UNSCHEDULABLE_TAINT);
    cordon(lent, "m3", true).await?;
    has_all_of_users(&lent.until(node, "is cordoned as its machine is", is_cordoned).await);
    cordon(lent, "m3", false).await?;
    has_all_of_users(&lent.until(node, "is not cordoned any more", |node| !is_cordoned(node)).await);
    eventually("its lease is renewed again", PATIENCE, async || {
        let lease = leases.get(node).await.map_err(|error| error.to_string())?;
        let is_renewed = lease.spec.as_ref().is_some_and(|spec| spec.renew_time.is_some());
        if is_renewed { Ok(()) } else { Err(format!("{lease:?}")) }
    })
    .await;
    lent.until(node, "is ready still", |node| ready(node) == "True").await;
    Ok(())
}

/// S10: a user deletes a virtual node. Its pods leave first, and then there is another one.
async fn deleted(lent: &Lent) -> Result<()> {
    let node = "vnode-breaks-m4";
    let before = lent.until(node, "is there", |_| true).await["metadata"]["uid"].clone();
    bound(&lent.virtual_plane, "on-the-deleted-node", node, json!({"spec": {AT_ONCE: 0}})).await?;
    lent.lent().delete(node, &DeleteParams::default()).await?;
    lent.until(node, "is there again", |node| node["metadata"]["uid"] != before && ready(node) == "True").await;
    until_gone(&pods(&lent.virtual_plane), "on-the-deleted-node").await;
    Ok(())
}

/// A DaemonSet whose pods tolerate everything, and its pod.
async fn daemon(lent: &Lent, node: &str) -> Result<()> {
    let sets: Api<DaemonSet> = Api::default_namespaced(lent.virtual_plane.client());
    let template = json!({
        "metadata": {"labels": {"app": "daemon"}}, "spec": {"containers": [{"name": "c", "image": "none"}]},
    });
    let set = json!({
        "metadata": {"name": "daemon"}, "spec": {"selector": {"matchLabels": {"app": "daemon"}}, "template": template},
    });
    let set = sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "daemon", "uid": set.metadata.uid, "controller": true,
    });
    let metadata = json!({"ownerReferences": [owner], "labels": {"app": "daemon"}});
    let spec = json!({"tolerations": [{"operator": "Exists"}]});
    bound(&lent.virtual_plane, "daemon", node, json!({"metadata": metadata, "spec": spec})).await?;
    Ok(())
}

/// A pod that a budget does not allow to be evicted.
async fn guarded(lent: &Lent, node: &str) -> Result<()> {
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(lent.virtual_plane.client());
    let budget = json!({
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget)?).await?;
    bound(&lent.virtual_plane, "guarded", node, json!({"metadata": {"labels": {"app": "guarded"}}})).await?;
    Ok(())
}

/// A Job whose pod ends well when it is stopped. Its name, once it is there.
async fn job(lent: &Lent, node: &str) -> Result<String> {
    let jobs: Api<Job> = Api::default_namespaced(lent.virtual_plane.client());
    let spec = json!({
        "restartPolicy": "Never", "nodeName": node, "containers": [{"name": "c", "image": "none"}],
    });
    let template = json!({"metadata": {"annotations": {STOP: "200ms,Succeeded"}}, "spec": spec});
    let job = json!({
        "metadata": {"name": "train"},
        // Otherwise a pod that terminates counts as failed at once, however it ends.
        "spec": {"backoffLimit": 0, "podReplacementPolicy": "Failed", "template": template},
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    let name = eventually("the Job has its pod", PATIENCE, async || {
        let of_it = ListParams::default().labels("job-name=train");
        let all = pods(&lent.virtual_plane).list(&of_it).await.map_err(|error| error.to_string())?.items;
        all.into_iter().find_map(|pod| pod.metadata.name).ok_or_else(|| "no pod".to_owned())
    });
    Ok(name.await)
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_no_pod_keeps_its_node_for_ever_a_budget_is_honoured_and_an_end_counts_as_it_was() -> Result<()> {
    let mut lent = prepare().await?;
    let node = "vnode-pods-q1";
    let player = player(&mut lent, "pods", ELSEWHERE).await?;
    let users = pods(&lent.virtual_plane);
    daemon(&lent, node).await?;
    guarded(&lent, node).await?;
    let slow = json!({"metadata": {"annotations": {STOP: "never"}}, "spec": {AT_ONCE: 3}});
    bound(&lent.virtual_plane, "slow", node, slow).await?;
    bound(&lent.virtual_plane, "kept", node, json!({"metadata": {"finalizers": ["example.com/kept"]}})).await?;
    let trains = job(&lent, node).await?;
    for name in ["daemon", "guarded", "slow", "kept", &trains] {
        let runs = |pod: &Pod| phase(pod) == "Running" && condition(pod, "Ready") == "True";
        until_pod(&users, name, "runs", runs).await;
    }
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(lent.virtual_plane.client());
    eventually("the budget is counted", PATIENCE, async || {
        let budget = budgets.get("guarded").await.map_err(|error| error.to_string())?;
        let status = budget.status.unwrap_or_default();
        if status.current_healthy == 1 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;

    lent.binding("pods", of_pods("none")).await?;
    // The others go at once, and this one when its time is over.
    let goes = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    until_pod(&users, "slow", "goes", goes).await;
    until_pod(&users, "kept", "goes", goes).await;
    assert!(!goes(&users.get("guarded").await?), "its budget allows nothing");
    until_gone(&users, "guarded").await;
    eventually("the node is gone", PATIENCE, async || match lent.lent().get_opt(node).await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    until_gone(&users, "slow").await;

    // What ended well has ended well, and what a finalizer keeps is over.
    let jobs: Api<Job> = Api::default_namespaced(lent.virtual_plane.client());
    eventually("the Job has counted its pod", PATIENCE, async || {
        let status = jobs.get("train").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let counted = (status.succeeded, status.failed.unwrap_or_default());
        if counted == (Some(1), 0) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let kept = users.get("kept").await?;
    assert!(["Succeeded", "Failed"].contains(&phase(&kept)), "{kept:?}");
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    users.patch("kept", &PatchParams::default(), &freed).await?;
    until_gone(&users, "kept").await;
    assert_eq!(player.mistakes(), [""; 0]);
    lent.stop().await
}
