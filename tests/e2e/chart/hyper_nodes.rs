//! The policy that decides as Volcano's admission does: the decision matrix of that admission, row by row.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::scene::Scene;

use super::policies::{Fate, check, enforced, installed, patch, post};

const HYPER_NODES: &str = "/apis/topology.volcano.sh/v1alpha1/hypernodes";

fn hyper_node(spec: &Value) -> Value {
    json!({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "row"}, "spec": spec})
}

/// Sends a HyperNode to the API server, which does not store it.
async fn create(scene: &Scene, name: &str, spec: &Value, fate: Fate) {
    check(scene, name, post(HYPER_NODES, hyper_node(spec)).dry(), fate).await;
}

fn node(selector: Value) -> Value {
    json!({"tier": 1, "members": [{"type": "Node", "selector": selector}]})
}

fn exact(name: &str) -> Value {
    node(json!({"exactMatch": {"name": name}}))
}

fn regex(pattern: &str) -> Value {
    node(json!({"regexMatch": {"pattern": pattern}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn hyper_nodes_are_judged_as_volcano_judges_them() -> Result<()> {
    let (scene, _) = installed(json!({"admission": {"hyperNodes": {"enabled": true}}})).await?;
    let bare = json!({"tier": 1});
    let members = Fate::Denied("at least one member");
    enforced(&scene, post(HYPER_NODES, hyper_node(&bare)).dry(), members).await;

    let one = Fate::Denied("exactly one of");
    let qualified = Fate::Denied("a qualified name of at most 63 characters");
    let child = |selector: Value| json!({"tier": 2, "members": [{"type": "HyperNode", "selector": selector}]});
    let rows = [
        ("no members", bare, members),
        ("members: []", json!({"tier": 1, "members": []}), Fate::Malformed),
        ("member without selector", json!({"tier": 1, "members": [{"type": "Node"}]}), one),
        ("selector: {}", node(json!({})), Fate::Malformed),
        ("exactMatch + labelMatch", node(json!({"exactMatch": {"name": "a"}, "labelMatch": {}})), Fate::Malformed),
        ("exactMatch name Node_1", exact("Node_1"), Fate::Malformed),
        ("exactMatch name empty", exact(""), Fate::Malformed),
        ("exactMatch name of 100 legal characters", exact(&"a".repeat(100)), qualified),
        ("exactMatch name of 63 legal characters", exact(&"a".repeat(63)), Fate::Accepted),
        ("exactMatch name of 64 legal characters", exact(&"a".repeat(64)), qualified),
        ("regex a(b", regex("a(b"), Fate::Denied("does not have as many ( as )")),
        ("regex a[b", regex("a[b"), Fate::Denied("does not have as many [ as ]")),
        ("regex a{2", regex("a{2"), Fate::Denied("does not have as many { as }")),
        // The policy counts brackets only in a pattern that has an opening one.
        ("regex a)b", regex("a)b"), Fate::Accepted),
        ("regex x**", regex("x**"), Fate::Accepted),
        ("regex that is valid", regex("^n[0-9]{2}-(a|b)$"), Fate::Accepted),
        ("labelMatch: {}", node(json!({"labelMatch": {}})), Fate::Accepted),
        (
            "type Rack",
            json!({"tier": 1, "members": [{"type": "Rack", "selector": {"labelMatch": {}}}]}),
            Fate::Malformed,
        ),
        ("tier absent", json!({"members": node(json!({"labelMatch": {}}))["members"]}), Fate::Malformed),
        ("tier -1", json!({"tier": -1, "members": node(json!({"labelMatch": {}}))["members"]}), Fate::Malformed),
        ("HyperNode-type member with regexMatch", child(json!({"regexMatch": {"pattern": "a.*"}})), Fate::Accepted),
        ("HyperNode-type member with labelMatch", child(json!({"labelMatch": {}})), Fate::Accepted),
        ("self reference", child(json!({"exactMatch": {"name": "row"}})), Fate::Accepted),
        ("dangling child", child(json!({"exactMatch": {"name": "absent"}})), Fate::Accepted),
        (
            "overlap",
            json!({"tier": 1, "members": [
                {"type": "Node", "selector": {"exactMatch": {"name": "a"}}},
                {"type": "Node", "selector": {"exactMatch": {"name": "a"}}},
            ]}),
            Fate::Accepted,
        ),
        (
            "one good and one bad member",
            json!({"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"}}}, {"type": "Node"}]}),
            one,
        ),
    ];
    for (name, spec, fate) in &rows {
        create(&scene, name, spec, *fate).await;
    }

    // The policy checks an update as it checks a creation. It does not check the status.
    scene.put(hyper_node(&exact("a"))).await?;
    let edit = json!({"spec": {"members": regex("a(b")["members"]}});
    let row = format!("{HYPER_NODES}/row");
    check(&scene, "an update", patch(&row, edit), Fate::Denied("does not have as many ( as )")).await;
    let status = json!({"status": {"nodeCount": 1}});
    check(&scene, "a status", patch(row + "/status", status), Fate::Accepted).await;

    // The policy accepts two objects that are members of each other, and an object with two parents.
    let parent = |name: &str, of: &str| {
        let mut object = hyper_node(&child(json!({"exactMatch": {"name": of}})));
        object["metadata"]["name"] = json!(name);
        object
    };
    for object in [parent("left", "right"), parent("right", "left"), parent("third", "left")] {
        scene.put(object).await?;
    }
    scene.plane.stop().await
}
