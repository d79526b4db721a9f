//! `topoloom lend plan`, `explain` and `report` with the real binary: what is planned for a file is what happens when it is applied, write
//! for write, and what is explained is what is there.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::controlplane::{Write, WriteKind, eventually};
use topoloom_tests::scene::PATIENCE;
use topoloom_tests::schema;

use super::lent::{Lent, SYSTEM, binding, now, policy};
use super::verbs::{Said, topoloom};

/// Writes of nodes, each in a word, by the name of the node.
type Writes = BTreeMap<String, Vec<&'static str>>;

/// One verb of lending.
async fn lend(lent: &Lent, arguments: &[&str]) -> Result<Said> {
    let kubeconfig = lent.virtual_plane.kubeconfig();
    let common = ["--namespace", SYSTEM, "--syncer-allow-loopback"];
    topoloom(Some(kubeconfig.as_path()), &[&["lend"][..], arguments, &common].concat()).await
}

/// The plan for these objects, and the exit code.
async fn plan(lent: &Lent, objects: &[Value]) -> Result<(Option<i32>, Value)> {
    let said = lend(lent, &["plan", "-f", &file(lent, objects)?, "-o", "json"]).await?;
    let document = schema::checked(&said.out).with_context(|| said.err)?;
    Ok((said.code, document["bindings"][0].clone()))
}

/// A file with these objects, one document each.
fn file(lent: &Lent, objects: &[Value]) -> Result<String> {
    let path = lent.virtual_plane.folder().join("plan.yaml");
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    std::fs::write(&path, text)?;
    path.to_str().map(str::to_owned).context("the folder has another name than a text")
}

/// What a plan would write of nodes.
fn planned(plan: &Value) -> Writes {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Writes::new();
    for node in list(&plan["nodes"]) {
        for write in list(&node["steps"]).iter().flat_map(|step| list(&step["writes"])) {
            let (name, word) = match text(&write["kind"]).as_str() {
                "claim" | "label" | "release" => (&node["node"], "claim"),
                "create" => (&node["virtualNode"], "create"),
                "status" | "taints" => (&node["virtualNode"], "patch"),
                "delete" => (&node["virtualNode"], "mark"),
                "finalizer" => (&node["virtualNode"], "gone"),
                other => panic!("a plan without pods has no write of the kind {other:?}: {write}"),
            };
            found.entry(text(name)).or_default().push(word);
        }
    }
    found
}

/// What was written of nodes after these revisions of the two clusters: everything of virtual nodes, and claims of physical ones.
async fn happened(lent: &Lent, since: [u64; 2]) -> Result<Writes> {
    let mut found = Writes::new();
    let (mut going, mut claims) = (BTreeSet::new(), BTreeMap::new());
    for write in lent.virtual_plane.writes_in_order("/registry/minions/").await? {
        let name = name(&write);
        let is_going = !write.value["metadata"]["deletionTimestamp"].is_null();
        let word = match write.kind {
            WriteKind::Delete => {
                going.remove(&name);
                "gone"
            }
            WriteKind::Put if write.created => "create",
            WriteKind::Put if is_going && going.insert(name.clone()) => "mark",
            WriteKind::Put => "patch",
        };
        if write.revision > since[0] {
            found.entry(name).or_default().push(word);
        }
    }
    for write in lent.physical_plane.writes_in_order("/registry/minions/").await? {
        let metadata = &write.value["metadata"];
        let claim =
            (metadata["annotations"][keys::LEASED_BY].clone(), metadata["labels"][keys::POLICY_APPLIED].clone());
        let before = claims.insert(name(&write), claim.clone()).unwrap_or_default();
        if write.revision > since[1] && before != claim {
            found.entry(name(&write)).or_default().push("claim");
        }
    }
    Ok(found)
}

fn name(write: &Write) -> String {
    write.key.rsplit('/').next().unwrap_or_default().to_owned()
}

/// How many nodes have each fate.
fn counts(plan: &Value) -> Vec<(String, u64)> {
    let counts = plan["counts"].as_array().into_iter().flatten();
    counts
        .map(|count| (count["fate"].as_str().unwrap_or_default().to_owned(), count["nodes"].as_u64().unwrap_or(0)))
        .collect()
}

/// All nodes, and this share of their processors.
fn share(percent: u8, fields: Value) -> Value {
    merged(json!({"cluster": "east", "resourceLimits": [{"resource": "cpu", "percent": percent}]}), fields)
}

/// The fields of both.
fn merged(mut all: Value, more: Value) -> Value {
    all.as_object_mut().into_iter().for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
    all
}

/// Machines with, or without, this pool.
fn pool(operator: &str, pool: &str) -> Value {
    json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": operator, "values": [pool]}]}]}})
}

/// Objects as an operator applies them: bindings in the one cluster, policies in the other.
async fn apply(lent: &Lent, objects: &[Value]) -> Result<()> {
    let (bindings, policies): (Vec<Value>, Vec<Value>) =
        objects.iter().cloned().partition(|object| object["kind"] == "ClusterBinding");
    lent.physical_plane.apply(&policies).await?;
    lent.virtual_plane.apply(&bindings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_what_is_planned_for_a_file_is_what_happens_when_it_is_applied_write_for_write() -> Result<()> {
    let mut lent = Lent::new(&["w1", "w2", "w3"], now).await?;
    for (machine, of_pool) in [("w1", "a"), ("w2", "b"), ("w3", "c")] {
        let label = Patch::Merge(json!({"metadata": {"labels": {"pool": of_pool}}}));
        lent.machines().patch(machine, &PatchParams::default(), &label).await?;
    }
    lent.secret("east", &std::fs::read_to_string(lent.physical_plane.kubeconfig())?).await?;

    let observes = [binding("east", &json!({"mode": "observe"})), policy("half", share(50, json!({})))];
    let (_, plan_of_observed) = plan(&lent, &observes).await?;
    let created = vec![("Created".to_owned(), 3)];
    assert_eq!((counts(&plan_of_observed), &plan_of_observed["waitsFor"][0]["bar"]), (created, &json!("observing")));

    let situations = [
        // Nothing is stored yet.
        vec![binding("east", &json!({})), policy("half", share(50, json!({})))],
        vec![policy("half", share(25, json!({})))],
        vec![policy("first", share(10, merged(pool("In", "a"), json!({"priority": 10}))))],
        vec![binding("east", &pool("NotIn", "c"))],
        vec![binding("east", &json!({})), policy("first", share(20, json!({"priority": 10})))],
    ];
    let fates = [
        vec![("Created", 3)],
        vec![("Resized", 3)],
        vec![("Resized", 1), ("Unchanged", 2)],
        vec![("TakenAway", 1), ("Unchanged", 2)],
        vec![("Resized", 2), ("Created", 1)],
    ];
    for (index, (objects, fates)) in situations.iter().zip(fates).enumerate() {
        let (code, plan) = plan(&lent, objects).await?;
        assert_eq!((code, &plan["stored"]), (Some(0), &json!(index > 0)), "{plan}");
        let fates: Vec<(String, u64)> = fates.into_iter().map(|(fate, nodes)| (fate.to_owned(), nodes)).collect();
        assert_eq!(counts(&plan), fates, "{index}: {plan}");
        let (planned, since) =
            (planned(&plan), [lent.virtual_plane.revision().await?, lent.physical_plane.revision().await?]);
        apply(&lent, objects).await?;
        if index == 0 {
            lent.serve("east").await?;
        }
        eventually(&format!("situation {index} becomes what was planned"), PATIENCE, async || {
            let happened = happened(&lent, since).await.map_err(|error| error.to_string())?;
            if happened == planned { Ok(()) } else { Err(format!("planned {planned:?}, and {happened:?} happened")) }
        })
        .await;
    }

    // At rest nothing is planned, and a text says so.
    let said = lend(&lent, &["plan"]).await?.done()?;
    assert!(
        said.contains("binding east: 3 nodes with 0 running pods\n")
            && said.contains(": 3 unchanged; nothing is written"),
        "{said}"
    );

    held_and_wrong(&lent).await?;
    explained(&lent).await?;
    lent.stop().await
}

/// What the guard would hold has an exit code of its own, and a file with mistakes has no plan.
async fn held_and_wrong(lent: &Lent) -> Result<()> {
    let mut none = pool("In", "z");
    none["safety"] = json!({"maxNodesPercent": 20});
    let objects = [binding("east", &none)];
    let (code, plan) = plan(lent, &objects).await?;
    let held = &plan["times"][0]["held"];
    // The node that went in a situation before counts still.
    assert_eq!((code, &held["nodes"]), (Some(2), &held["ofNodes"]), "{plan}");
    assert!(held["nodes"].as_u64() >= Some(3), "{plan}");
    // The mark, and the label of the policy that goes with it.
    let more = planned(&plan).into_values().flatten().filter(|word| !["patch", "claim"].contains(word)).count();
    assert_eq!(more, 0, "{plan}");
    let said = lend(lent, &["plan", "-f", &file(lent, &objects)?]).await?;
    assert_eq!(said.code, Some(2), "{}", said.err);
    let sentence = " nodes and 0 of 0 running pods would be taken away";
    assert!(
        said.out.contains("HELD by the guard: ")
            && said.out.contains(sentence)
            && said.out.contains("3 taken away (3 held)"),
        "{}",
        said.out
    );

    let wrong = [
        binding("east", &json!({"mode": "watch", "mountNamespace": "another"})),
        policy("half", share(170, json!({}))),
    ];
    let said = lend(lent, &["plan", "-f", &file(lent, &wrong)?]).await?.refused()?;
    for words in [
        "ClusterBinding east: spec.mode ",
        "ClusterBinding east: spec.mountNamespace never changes: it is ",
        "ResourceLeasingPolicy half: spec.resourceLimits[0].percent ",
        "no plan: 3 things in the file must be corrected",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    Ok(())
}

/// What is said of a node, of a pod, and of all of it.
async fn explained(lent: &Lent) -> Result<()> {
    for name in ["w1", "vnode-east-w1"] {
        let said = lend(lent, &["explain", name]).await?.done()?;
        for words in [
            "node w1, virtual node vnode-east-w1, binding east\n  state     lent\n  policy    policy first\n  shadows   half\n",
            "  lease     it is renewed; ",
            "  SIZE, FROM status.allocatable\n",
            "limits[0]: 20% of ",
            "vnode:NoSchedule",
        ] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
    }
    let document = schema::checked(&lend(lent, &["explain", "w1", "-o", "json"]).await?.done()?)?;
    assert_eq!((&document["nodes"][0]["lent"], &document["remarks"]), (&json!(true), &json!([])), "{document}");
    let unknown = lend(lent, &["explain", "w9"]).await?.refused()?;
    assert!(unknown.contains("nothing called w9 was found"), "{unknown}");

    let pods: Api<Pod> = Api::namespaced(lent.virtual_plane.client(), "default");
    let spec = json!({"nodeName": "vnode-east-w1", "containers": [{"name": "c", "image": "none"}]});
    pods.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec}))?)
        .await?;
    for name in ["default/web", "web"] {
        let said = lend(lent, &["explain", name]).await?.done()?;
        assert!(said.contains("pod default/web, binding east\n  virtual   default/web (UID "), "{said}");
        assert!(said.contains("row 1: there is no physical pod, and the virtual pod names none"), "{said}");
    }

    // With the kubeconfig of an operator of the lender, without the Secret.
    let physical = lent.physical_plane.kubeconfig();
    let physical = physical.to_str().context("a path is a text")?;
    let report = ["report", "--physical-kubeconfig", physical];
    let said = lend(lent, &report).await?.done()?;
    for words in ["binding east: 3 nodes with ", "  oldest lease: vnode-east-w", "  LENT\n", "    all     3      cpu "]
    {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    let document = schema::checked(&lend(lent, &[&report[..], &["-o", "json"]].concat()).await?.done()?)?;
    let east = &document["bindings"][0];
    assert_eq!((&east["total"]["nodes"], &east["policies"][0]["policy"]), (&json!(3), &json!("first")), "{document}");
    assert_eq!((&document["orphans"], &document["remarks"]), (&json!([]), &json!([])), "{document}");
    Ok(())
}
