//! Mistakes of people: in policies, in rights, in a definition that is deleted, and in a selector or a job that takes most nodes away
//! (decisions D5, S8, S9 and S19).

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_api::names::CONFIRM_ANNOTATION;
use topoloom_sync::guard::GATHER;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, client_from, eventually};
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::csi::{limited, role, rule, rules};
use super::super::group::ready;
use super::super::lent::{ELSEWHERE, Lent, condition, namespace, now, says};
use super::{bound, effects, has_taint, is_terminating, of_loan, pass, pods, states};

/// As long as an act is gathered, and longer.
const LONG: Duration = GATHER.saturating_add(Duration::from_secs(2));
/// A machine has 32 processors, and half of them is lent.
const HALF: &str = "16";
/// A pod that is gone as soon as it is deleted.
const AT_ONCE: &str = "terminationGracePeriodSeconds";
const MISTAKES: [&str; 4] = ["typo", "zone", "words", "noon"];

/// A policy that evicts as soon as it is closed, for one machine.
fn half(loan: &str) -> Value {
    json!({
        "cluster": loan, "forceReclaim": true, "nodeSelector": of_case(loan),
        "resourceLimits": [{"resource": "cpu", "percent": 50}],
    })
}

/// The machine with this label.
fn of_case(case: &str) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "case", "operator": "In", "values": [case]}]}]})
}

/// The same for a machine of the binding `people`.
fn half_of_people(case: &str) -> Value {
    let mut policy = half(case);
    policy["cluster"] = "people".into();
    policy
}

async fn prepare() -> Result<Lent> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &[], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    lent.physical_plane.apply(&["third", "fourth"].map(namespace)).await?;
    let people = MISTAKES.into_iter().chain(["never"]).map(|name| (name, "people"));
    let jobs = ["m1", "m2", "m3", "m4", "m5"].into_iter().map(|name| (name, "job"));
    let edits = ["d1", "d2", "d3", "d4", "d5"].into_iter().map(|name| (name, "edit"));
    let all = people.chain(jobs).chain(edits).chain([("rights", "rights")]);
    let machine = |(name, loan): (&str, &str)| {
        let machine = NewNode::named(name).label("loan", loan).label("case", name);
        if ["d1", "d2"].contains(&name) { machine.label("stays", "yes") } else { machine }
    };
    lent.kubelets.register(all.map(machine)).await?;

    for name in MISTAKES {
        lent.policy(name, half_of_people(name)).await?;
    }
    let mut never = half_of_people("never");
    never["resourceLimits"][0]["percent"] = 0.into();
    lent.policy("never", never).await?;
    lent.policy("rights", half("rights")).await?;
    // An API server removes the policies of a definition that is deleted five seconds and more before it says that there is none.
    let timing = json!({"grow": "10m", "empty": "30s"});
    lent.bind("people", json!({"nodeSelector": of_loan("people"), "timing": timing})).await?;
    let safety = json!({"maxNodesPercent": 20});
    let fields = json!({"nodeSelector": of_loan("job"), "mountNamespace": ELSEWHERE, "safety": safety});
    lent.bind("job", fields).await?;
    let fields = json!({"nodeSelector": of_loan("edit"), "mountNamespace": "third", "safety": safety});
    lent.bind("edit", fields).await?;

    // With an account that may do what it has to, for now.
    let kubeconfig = limited(&lent.physical_plane).await?;
    let mut all = rules();
    all.push(rule("storage.k8s.io", "csinodes", &["get", "list", "watch"]));
    lent.physical_plane.apply(&[role(&all)]).await?;
    lent.secret("rights", &read_to_string(kubeconfig)?).await?;
    let fields = json!({"nodeSelector": of_loan("rights"), "mountNamespace": "fourth", "timing": {"grow": "10m"}});
    lent.binding("rights", fields).await?;
    lent.serve("rights").await?;
    Ok(lent)
}

fn is_half(node: &Value) -> bool {
    node["status"]["allocatable"]["cpu"] == HALF
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_s9_a_mistake_enlarges_nothing_and_evicts_no_pod_and_what_takes_most_nodes_away_waits() -> Result<()> {
    let lent = prepare().await?;
    let nodes = MISTAKES.map(|name| format!("vnode-people-{name}"));
    for (name, node) in MISTAKES.iter().zip(&nodes) {
        lent.until(node, "is half", |node| ready(node) == "True" && is_half(node)).await;
        bound(&lent.virtual_plane, name, node, json!({})).await?;
    }
    lent.until("vnode-rights-rights", "is half", |node| ready(node) == "True" && is_half(node)).await;
    bound(&lent.virtual_plane, "rights", "vnode-rights-rights", json!({})).await?;
    let revision = lent.virtual_plane.revision().await?;
    tokio::try_join!(mistakes(&lent), no_right(&lent), a_job(&lent), an_edit(&lent))?;
    assert!(lent.lent().get_opt("vnode-people-never").await?.is_none());

    // Nothing is left of what said how much is lent.
    let definitions: Api<CustomResourceDefinition> = Api::all(lent.physical_plane.client());
    definitions.delete("resourceleasingpolicies.topoloom.dev", &DeleteParams::default()).await?;
    let is_missing = |binding: &Value| says(binding, "Ready", "False", "DefinitionMissing");
    lent.until_binding("people", "has no policies", is_missing).await;
    assert!(lent.lent().get_opt("vnode-people-never").await?.is_none(), "it was never lent");
    for node in nodes.iter().map(String::as_str).chain(["vnode-rights-rights"]) {
        for state in states(&lent.virtual_plane, &format!("/registry/minions/{node}"), revision).await? {
            let is_open = !has_taint(&state, keys::OUT_OF_WINDOWS_TAINT) && !has_taint(&state, keys::DELETING_TAINT);
            assert!(is_half(&state) && is_open && !is_terminating(&state), "{state}");
        }
    }
    for name in MISTAKES.into_iter().chain(["rights"]) {
        let pod = pods(&lent.virtual_plane).get(name).await?;
        assert!(pod.metadata.deletion_timestamp.is_none(), "{pod:?}");
    }
    lent.stop().await
}

/// D5, S8: three edits with a mistake, each of which says where it is; a policy that is deleted at noon; and one that was never valid.
async fn mistakes(lent: &Lent) -> Result<()> {
    let edits = [
        ("typo", "timeWindows", json!([{"start": "25:00", "end": "12:00"}]), "spec.timeWindows[0].start", "25:00"),
        ("zone", "timeZone", json!("Europe/Berlln"), "spec.timeZone", "Europe/Berlln"),
        (
            "words",
            "nodeSelector",
            json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "case", "operator": "Inn", "values": ["words"]}]}]}),
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator",
            "Inn",
        ),
    ];
    for (name, field, wrong, ..) in &edits {
        lent.until_policy(name, "is in force", |policy| policy["status"]["lastValid"].is_object()).await;
        let mut policy = half_of_people(name);
        policy[*field] = wrong.clone();
        lent.policy(name, policy).await?;
    }
    lent.policies().delete("noon", &DeleteParams::default()).await?;
    for (name, _, _, place, value) in &edits {
        let is_wrong = |policy: &Value| condition(policy, "Valid")[0] == "False";
        let policy = lent.until_policy(name, "is invalid", is_wrong).await;
        let [_, _, message] = condition(&policy, "Valid");
        assert!(message.contains(place) && message.contains(value), "{message}");
        assert_eq!(policy["status"]["phase"], "Failed");
        assert_eq!(policy["status"]["lastValid"]["resourceLimits"], half_of_people(name)["resourceLimits"]);
    }
    lent.until_policy("never", "is invalid", |policy| policy["status"]["phase"] == "Failed").await;
    pass(Instant::now(), LONG).await;
    Ok(())
}

/// S19: a right is taken away. What was known stays in force, and the condition names verb, resource and side.
async fn no_right(lent: &Lent) -> Result<()> {
    lent.until_policy("rights", "is in force", |policy| policy["status"]["lastValid"].is_object()).await;
    let mut left = rules();
    left.retain(|rule| rule["apiGroups"][0] != "topoloom.dev");
    left.push(rule("storage.k8s.io", "csinodes", &["get", "list", "watch"]));
    lent.physical_plane.apply(&[role(&left)]).await?;
    let account = lent.physical_plane.kubeconfig_for("default", "syncer").await?;
    let policies: Api<ResourceLeasingPolicy> = Api::all(client_from(&account).await?);
    eventually("the right is gone", PATIENCE, async || match policies.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        other => Err(format!("{:?}", other.map(|list| list.items.len()))),
    })
    .await;
    let mut wrong = half("rights");
    wrong["resourceLimits"][0]["percent"] = 101.into();
    lent.policy("rights", wrong).await?;
    let is_forbidden = |binding: &Value| says(binding, "Ready", "False", "Forbidden");
    let binding = lent.until_binding("rights", "says what it may not", is_forbidden).await;
    let [_, _, message] = condition(&binding, "Ready");
    for words in ["resourceleasingpolicies", "in the physical cluster"] {
        assert!(message.contains(words), "{message}");
    }
    lent.until("vnode-rights-rights", "is half", |node| ready(node) == "True" && is_half(node)).await;
    Ok(())
}

/// What is held of a binding: the hash, where it is so many nodes.
fn held(binding: &Value) -> Option<&str> {
    let held = &binding["status"]["held"];
    let is_held = says(binding, "Held", "True", "TooManyNodesRemoved") && held["extent"]["nodes"] == 3;
    held["hash"].as_str().filter(|_| is_held)
}

/// The nodes of a batch that is held take no pods, and lose none.
async fn waits(lent: &Lent, nodes: &[&str], pod: &str) -> Result<()> {
    for node in nodes {
        let is_marked = |node: &Value| {
            effects(node, keys::DELETING_TAINT) == ["NoSchedule"] && node["spec"]["unschedulable"] == true
        };
        lent.until(node, "takes no pods", |node| is_marked(node) && !is_terminating(node)).await;
    }
    pass(Instant::now(), Duration::from_secs(3)).await;
    assert!(pods(&lent.virtual_plane).get(pod).await?.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// S9: a job takes the label off three of five machines, one by one; then it is taken back.
async fn a_job(lent: &Lent) -> Result<()> {
    for number in 1..=5 {
        lent.until(&format!("vnode-job-m{number}"), "is ready", |node| ready(node) == "True").await;
    }
    bound(&lent.virtual_plane, "of-the-job", "vnode-job-m2", json!({})).await?;
    for machine in ["m1", "m2", "m3"] {
        lent.physical_plane.relabel(machine, "loan", None::<&str>).await?;
    }
    lent.until_binding("job", "is held", |binding| held(binding).is_some()).await;
    let nodes = ["vnode-job-m1", "vnode-job-m2", "vnode-job-m3"];
    waits(lent, &nodes, "of-the-job").await?;
    for machine in ["m1", "m2", "m3"] {
        lent.physical_plane.relabel(machine, "loan", "job").await?;
    }
    lent.until_binding("job", "holds nothing", |binding| says(binding, "Held", "False", "Ok")).await;
    for node in nodes {
        let is_as_before =
            |node: &Value| !has_taint(node, keys::DELETING_TAINT) && node["spec"]["unschedulable"] != true;
        lent.until(node, "takes pods", is_as_before).await;
    }
    assert!(pods(&lent.virtual_plane).get("of-the-job").await?.metadata.deletion_timestamp.is_none());
    Ok(())
}

/// S9: an edit of the selector leaves out three of five machines, and is confirmed.
async fn an_edit(lent: &Lent) -> Result<()> {
    for number in 1..=5 {
        lent.until(&format!("vnode-edit-d{number}"), "is ready", |node| ready(node) == "True").await;
    }
    bound(&lent.virtual_plane, "of-the-edit", "vnode-edit-d3", json!({"spec": {AT_ONCE: 0}})).await?;
    let mut selector = of_loan("edit");
    let stays = json!({"key": "stays", "operator": "Exists"});
    let requirements = selector["nodeSelectorTerms"][0]["matchExpressions"].as_array_mut();
    requirements.context("it has requirements")?.push(stays);
    let safety = json!({"maxNodesPercent": 20});
    lent.binding("edit", json!({"nodeSelector": selector, "mountNamespace": "third", "safety": safety})).await?;
    let binding = lent.until_binding("edit", "is held", |binding| held(binding).is_some()).await;
    let nodes = ["vnode-edit-d3", "vnode-edit-d4", "vnode-edit-d5"];
    waits(lent, &nodes, "of-the-edit").await?;
    lent.annotate("edit", CONFIRM_ANNOTATION, held(&binding)).await?;
    eventually("they are gone, and the pod with them", PATIENCE, async || {
        let mut left = Vec::new();
        for node in nodes {
            left.extend(lent.lent().get_opt(node).await.map_err(|error| error.to_string())?);
        }
        let pod = pods(&lent.virtual_plane).get_opt("of-the-edit").await.map_err(|error| error.to_string())?;
        if left.is_empty() && pod.is_none() { Ok(()) } else { Err(format!("{left:?} {pod:?}")) }
    })
    .await;
    for node in ["vnode-edit-d1", "vnode-edit-d2"] {
        lent.until(node, "stays", |node| !has_taint(node, keys::DELETING_TAINT)).await;
    }
    Ok(())
}
