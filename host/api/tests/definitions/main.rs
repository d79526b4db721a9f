//! The definitions: what they say, that the checked-in files are they, and that typed objects fit them.

#![allow(clippy::panic, clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic of a test is its report")]

mod lending;
mod schema;

use schema::{covers, version};
use serde_json::{Value, json};
use std::path::PathBuf;
use topoloom_api::discovery_source::State;
use topoloom_api::{DiscoverySource, HyperNode, crd, crds};

/// Set this variable to write the files instead of comparing them.
const WRITE: &str = "TOPOLOOM_WRITE_CRDS";

#[test]
fn the_files_under_deploy_are_the_definitions() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    for definition in crds() {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let path = folder.join(format!("{name}.yaml"));
        let wanted = crd::to_yaml(&definition).unwrap();
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == wanted, "{} is out of date; run: {WRITE}=1 cargo test -p topoloom-api", path.display());
    }
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, crds().len(), "a file in {} belongs to no definition", folder.display());
}

#[test]
fn the_yaml_says_the_same_to_readers_of_yaml_1_1() {
    for definition in crds() {
        let yaml = crd::to_yaml(&definition).unwrap();
        // Words that some readers take for booleans must not be alone.
        for line in yaml.lines() {
            let value = line.rsplit([' ']).next().unwrap_or_default();
            assert!(!["yes", "no", "on", "off", "y", "n", "True", "False"].contains(&value), "{line}");
        }
    }
}

fn hyper_node() -> Value {
    crds().swap_remove(0)
}

#[test]
fn hyper_nodes_definition_is_volcanos() {
    let definition = hyper_node();
    assert_eq!(definition["metadata"]["name"], "hypernodes.topology.volcano.sh");
    assert_eq!(definition["metadata"]["annotations"], json!({"helm.sh/resource-policy": "keep"}));
    assert_eq!(
        definition["spec"]["names"],
        json!({"kind": "HyperNode", "listKind": "HyperNodeList", "plural": "hypernodes", "singular": "hypernode", "shortNames": ["hn"]})
    );
    assert_eq!(
        (&definition["spec"]["scope"], &definition["spec"]["group"]),
        (&json!("Cluster"), &json!("topology.volcano.sh"))
    );
    let version = version(&definition);
    assert_eq!(
        (&version["name"], &version["served"], &version["storage"]),
        (&json!("v1alpha1"), &json!(true), &json!(true))
    );
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns: Vec<String> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            format!(
                "{} {} {}",
                column["name"].as_str().unwrap(),
                column["type"].as_str().unwrap(),
                column["jsonPath"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        columns,
        [
            "Tier string .spec.tier",
            "TierName string .spec.tierName",
            "NodeCount integer .status.nodeCount",
            "Age date .metadata.creationTimestamp",
        ]
    );
    let schema = &version["schema"]["openAPIV3Schema"];
    assert_eq!(schema["required"], Value::Null, "an object without spec is legal");
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["required"], json!(["tier"]));
    assert_eq!(spec["properties"]["tier"]["minimum"], 0);
    assert_eq!(spec["properties"]["tierName"]["maxLength"], 253);
    let members = &spec["properties"]["members"];
    assert_eq!((&members["minItems"], &members["maxItems"]), (&json!(1), &Value::Null));
    assert_eq!(members["items"]["required"], json!(["type"]), "a member without selector is legal");
    assert_eq!(members["items"]["properties"]["type"]["enum"], json!(["Node", "HyperNode"]));
    let selector = &members["items"]["properties"]["selector"];
    let messages: Vec<&Value> =
        selector["x-kubernetes-validations"].as_array().unwrap().iter().map(|rule| &rule["message"]).collect();
    assert_eq!(
        messages,
        [
            "Either ExactMatch or RegexMatch or LabelMatch must be specified",
            "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        ]
    );
    let name = &selector["properties"]["exactMatch"]["properties"]["name"];
    assert_eq!((&name["minLength"], &name["maxLength"]), (&json!(1), &json!(253)));
    assert_eq!(selector["properties"]["regexMatch"]["properties"]["pattern"]["minLength"], 1);
    let labels = &selector["properties"]["labelMatch"];
    assert_eq!(labels["x-kubernetes-map-type"], "atomic");
    let expression = &labels["properties"]["matchExpressions"]["items"];
    assert_eq!(expression["required"], json!(["key", "operator"]));
    assert_eq!(expression["properties"]["operator"], json!({"type": "string"}));
    let status = &schema["properties"]["status"]["properties"];
    assert_eq!(status["nodeCount"]["minimum"], 0);
    let condition = &status["conditions"]["items"];
    assert_eq!(condition["required"], json!(["lastTransitionTime", "message", "reason", "status", "type"]));
}

#[test]
fn reading_a_hyper_node_survives_everything_legal() {
    for (object, tier, members) in [
        (json!({"metadata": {"name": "a"}}), 0, 0),
        (json!({"metadata": {"name": "a"}, "spec": null, "status": null}), 0, 0),
        (json!({"metadata": {"name": "a"}, "spec": {"tier": 0}}), 0, 0),
        (json!({"metadata": {"name": "a"}, "spec": {"tier": 3.0, "members": null}}), 3, 0),
        (json!({"metadata": {"name": "a"}, "spec": {"tier": 1e30, "members": [{"type": "Node"}]}}), i64::MAX, 1),
        (
            json!({"metadata": {"name": "a"}, "spec": {"tier": 1, "members": [{"type": "HyperNode", "selector": {"labelMatch": {}}}]}}),
            1,
            1,
        ),
        (
            json!({"metadata": {"name": "a"}, "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"labelMatch":
                {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}, {"key": "k", "operator": "Exists"}]}}}]}}),
            1,
            1,
        ),
        (
            json!({"metadata": {"name": "a"}, "spec": {"tier": 2, "unknown": 1}, "status": {"nodeCount": 7, "conditions": [{"type": "T",
                "status": "Unknown", "reason": "R", "message": "", "lastTransitionTime": "2020-01-01T00:00:00"}]}}),
            2,
            0,
        ),
    ] {
        let read: HyperNode =
            serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{object}: {error}"));
        assert_eq!((read.spec.tier, read.spec.members.len()), (tier, members), "{object}");
    }
}

#[test]
fn a_hyper_node_keeps_its_content_through_a_round_trip() {
    let object = json!({
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": "rack", "labels": {"volcano.sh/network-topology-source": "label"}, "annotations": {"topoloom.dev/group-id": "r7"}},
        "spec": {"tier": 1, "tierName": "rack", "members": [
            {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
            {"type": "Node", "selector": {"regexMatch": {"pattern": "n.*"}}},
            {"type": "HyperNode", "selector": {"labelMatch": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Near"}]}}},
        ]},
        "status": {"nodeCount": 2, "conditions": [
            {"type": "T", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z", "observedGeneration": 3},
        ]},
    });
    let read: HyperNode = serde_json::from_value(object.clone()).unwrap();
    assert_eq!((read.source(), read.group_id()), (Some("label"), Some("r7")));
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
}

/// A status in which every field has a value.
fn full_status() -> Value {
    json!({
        "observedGeneration": 1,
        "source": "ufm",
        "state": "Held",
        "message": "would delete 7 of 9 HyperNodes",
        "plugin": {"name": "ufm", "version": "0.1.0", "vendor": "topoloom", "digest": "sha256:00", "origin": "Builtin", "watched": true},
        "candidate": {"digest": "sha256:01", "name": "ufm", "version": "0.2.0", "stage": "Held", "step": "Compare",
                      "strikes": 1, "comparison": comparison()},
        "previous": [{"digest": "sha256:02", "name": "ufm", "version": "0.0.9"}],
        "takenBack": ["sha256:03"],
        "strikes": 2,
        "lastRefusal": {"digest": "sha256:03", "step": "Shadow", "reason": "Trap", "message": "m",
                        "time": "2026-01-01T00:00:00Z"},
        "lastComparison": comparison(),
        "nodes": {"covered": 5, "total": 7},
        "groups": 3,
        "groupsByTier": [{"tier": 1, "groups": 2}, {"tier": 2, "groups": 1}],
        "overlaps": 1,
        "lastSuccess": "2026-01-01T00:00:00Z",
        "resultHash": "ab",
        "configHash": "cd",
        "held": {"rule": "Deletions", "sentence": "s", "hash": "h", "since": "2026-01-01T00:00:00Z", "confirmations": 1,
                 "nextRound": "2026-01-01T01:00:00Z"},
        "nodesByName": true,
        "lostNodes": [{"at": "2026-01-01T00:00:00Z", "nodes": 12}],
        "onRemoval": "delete",
        "diagnostics": [{"code": "unknown-node", "count": 4, "example": "n9"}],
        "tierConflicts": [{"tierName": "rack", "tier": 2, "takenBy": "label", "theirTier": 1}],
        "conditions": [{"type": "Held", "status": "True", "reason": "TooManyDeletions", "message": "m",
                        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
    })
}

fn comparison() -> Value {
    json!({"placed": 7, "kept": 6, "moved": 1, "gained": 2, "sentence": "s"})
}

#[test]
fn a_status_keeps_its_content_and_fits_its_schema() {
    let object = json!({"apiVersion": "topoloom.dev/v1alpha1", "kind": "DiscoverySource", "metadata": {"name": "ufm"}, "status": full_status()});
    let read: DiscoverySource = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), object);
    let definition = crds().swap_remove(1);
    let schema = &version(&definition)["schema"]["openAPIV3Schema"]["properties"]["status"];
    covers(schema, &full_status(), "status");
}

#[test]
fn a_status_of_another_version_is_read() {
    let read: DiscoverySource = serde_json::from_value(json!({
        "metadata": {"name": "a"},
        "status": {"state": "Levitating", "onRemoval": "archive", "plugin": {"origin": "Registry"}, "held": {"rule": "New"}, "later": [1]},
    }))
    .unwrap();
    assert_eq!(read.status.state, Some(State::Unknown));
    assert_eq!(read.status.on_removal, Some(topoloom_api::discovery_source::OnRemoval::Keep));
    let empty: DiscoverySource = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    assert_eq!(empty.status, Default::default());
}

#[test]
fn printer_columns_of_our_own_answer_the_first_question() {
    let definition = crds().swap_remove(1);
    let columns = version(&definition)["additionalPrinterColumns"].as_array().unwrap().clone();
    let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Source", "Ready", "Plugin", "Version", "State", "Nodes", "Groups", "LastSuccess", "Message"]);
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["dsrc"]));
    // Every column shows a field that exists.
    let object = json!({"status": full_status()});
    for column in &columns {
        let path = column["jsonPath"].as_str().unwrap();
        // The one of a condition looks for its type.
        let path = path.split_once('[').map_or(path, |(list, _)| list).replace('.', "/");
        assert!(object.pointer(&path).is_some(), "{path}");
    }
}

#[test]
fn every_word_on_the_wire_is_the_word_in_the_code() {
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    let pattern = |word: &str| {
        word.chars().all(|c| c.is_ascii_alphanumeric()) && word.starts_with(|c: char| c.is_ascii_uppercase())
    };
    assert!(topoloom_api::Reason::ALL.iter().all(|reason| pattern(reason.as_str())));
    assert!(topoloom_api::ConditionType::ALL.iter().all(|type_| pattern(type_.as_str())));
}
