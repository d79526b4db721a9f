//! The HyperNode definition accepts and refuses exactly what Volcano's does (`hypernode.md` 3.3, column CRD).

mod lending;

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use topoloom_tests::scene::Scene;

fn members(members: Value) -> Value {
    json!({"tier": 1, "members": members})
}

/// A member of type Node with this selector.
fn selecting(selector: Value) -> Value {
    members(json!([{"type": "Node", "selector": selector}]))
}

fn exact(name: &str) -> Value {
    selecting(json!({"exactMatch": {"name": name}}))
}

fn child(selector: Value) -> Value {
    members(json!([{"type": "HyperNode", "selector": selector}]))
}

/// Every row of the matrix: its name, the spec, and for a refusal a part of the API server's message.
fn rows() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let node = json!({"exactMatch": {"name": "n1"}});
    let both = json!({"exactMatch": {"name": "n1"}, "labelMatch": {"matchLabels": {"a": "b"}}});
    vec![
        ("no members", json!({"tier": 1}), None),
        ("an empty list of members", members(json!([])), Some("spec.members")),
        ("a member without a selector", members(json!([{"type": "Node"}])), None),
        ("an empty selector", selecting(json!({})), Some("must be specified")),
        ("two ways to select", selecting(both), Some("Only one of")),
        ("a name with capitals and an underscore", exact("Node_1"), Some("spec.members[0].selector.exactMatch.name")),
        ("an empty name", exact(""), Some("spec.members[0].selector.exactMatch.name")),
        ("a name of 100 characters", exact(&"a".repeat(100)), None),
        ("a name of 253 characters", exact(&"a".repeat(253)), None),
        ("a name of 254 characters", exact(&"a".repeat(254)), Some("exactMatch.name")),
        ("a pattern that does not close", selecting(json!({"regexMatch": {"pattern": "a(b"}})), None),
        ("a pattern that repeats nothing", selecting(json!({"regexMatch": {"pattern": "x**"}})), None),
        ("an empty pattern", selecting(json!({"regexMatch": {"pattern": ""}})), Some("regexMatch.pattern")),
        ("an empty label selector", selecting(json!({"labelMatch": {}})), None),
        ("an unknown type", members(json!([{"type": "Rack", "selector": node}])), Some("Unsupported value")),
        ("a member without a type", members(json!([{"selector": node}])), Some("spec.members[0].type")),
        ("no tier", json!({"members": [{"type": "Node", "selector": node}]}), Some("spec.tier")),
        ("a tier below zero", json!({"tier": -1}), Some("spec.tier")),
        ("tier zero", json!({"tier": 0}), None),
        ("a tier name of 253 characters", json!({"tier": 1, "tierName": "t".repeat(253)}), None),
        ("a tier name of 254 characters", json!({"tier": 1, "tierName": "t".repeat(254)}), Some("spec.tierName")),
        ("children by pattern", child(json!({"regexMatch": {"pattern": "leaf-.*"}})), None),
        ("children by label", child(json!({"labelMatch": {"matchLabels": {"a": "b"}}})), None),
        ("itself as its child", child(json!({"exactMatch": {"name": "subject"}})), None),
        ("a child that does not exist", child(json!({"exactMatch": {"name": "dangling"}})), None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definition_accepts_and_refuses_what_volcanos_does() -> Result<()> {
    let scene = Scene::new().await?;
    let api = scene.hyper_nodes();
    let parameters = PatchParams::apply("another").force();
    for (what, spec, refused) in rows() {
        let object = json!({
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
            "metadata": {"name": "subject"}, "spec": spec,
        });
        let answer = api.patch("subject", &parameters, &Patch::Apply(&object)).await;
        match (answer, refused) {
            (Ok(_), None) => drop(api.delete("subject", &DeleteParams::default()).await?),
            (Err(kube::Error::Api(status)), Some(word)) => {
                assert_eq!(status.code, 422, "{what}: {status:?}");
                assert!(status.message.contains(word), "{what}: {}", status.message);
            }
            (answer, _) => panic!("{what}: {answer:?}"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_contradict_each_other_are_accepted_and_survived() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1"]).await?;
    let put = async |name: &str, tier: u32, kind: &str, members: &[&str]| {
        let members: Vec<_> =
            members.iter().map(|name| json!({"type": kind, "selector": {"exactMatch": {"name": name}}})).collect();
        let object = json!({
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
            "metadata": {"name": name}, "spec": {"tier": tier, "members": members},
        });
        scene.put(object).await
    };
    // A cycle, a leaf with two parents, and two leaves with the same node.
    put("leaf-a", 1, "Node", &["n1"]).await?;
    put("leaf-b", 1, "Node", &["n1"]).await?;
    put("parent-a", 2, "HyperNode", &["leaf-a"]).await?;
    put("parent-b", 2, "HyperNode", &["leaf-a", "leaf-b"]).await?;
    put("cycle-a", 2, "HyperNode", &["cycle-b"]).await?;
    put("cycle-b", 2, "HyperNode", &["cycle-a", "leaf-b"]).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 cycle-a (1): cycle-b",
            "tier 2 cycle-b (1): cycle-a leaf-b",
            "tier 2 parent-a (1): leaf-a",
            "tier 2 parent-b (1): leaf-a leaf-b",
            "tier 1 leaf-a (1): n1",
            "tier 1 leaf-b (1): n1",
        ])
        .await;
    let tree = scene.cli(&["tree"]).await?;
    assert!(tree.contains("in a cycle") && tree.contains("cycle-b") && tree.contains("again, see above"), "{tree}");
    host.stop().await
}
