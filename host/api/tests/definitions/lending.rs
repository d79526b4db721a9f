//! The two definitions of lending, and the objects that fit them.

use crate::schema::{covers, version, walk};
use serde_json::{Value, json};
use topoloom_api::cluster_binding::{
    BindingPhase, ConnectionState, HostPorts, NoPolicy, OnUnreachable, PolicySource, Side, times,
};
use topoloom_api::resource_leasing_policy::PolicyPhase;
use topoloom_api::{ClusterBinding, ConditionType, Reason, ResourceLeasingPolicy, Word, cluster_binding, crds, names};

fn definition(name: &str) -> Value {
    crds().into_iter().find(|it| it["metadata"]["name"] == name).unwrap()
}

fn schema(name: &str) -> Value {
    version(&definition(name))["schema"]["openAPIV3Schema"].clone()
}

fn selector() -> Value {
    json!({"nodeSelectorTerms": [{
        "matchExpressions": [{"key": "pool", "operator": "In", "values": ["lent"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }]})
}

/// A spec of a binding in which every field has a value.
fn binding_spec() -> Value {
    let keys = || json!({"allow": ["a"], "deny": ["example.com/*"]});
    json!({
        "clusterID": "east",
        "secretRef": {"name": "east-kubeconfig"},
        "mountNamespace": "lent",
        "nodeSelector": selector(),
        "noPolicy": "Withdraw",
        "policySource": "virtual",
        "mode": "observe",
        "onUnreachable": "hold",
        "holdFor": "2h",
        "safety": {"maxEvictPercent": 10, "maxNodesPercent": 100, "announce": "5m"},
        "copy": {"labels": keys(), "annotations": keys(), "podMetadata": ["example.com/rank"]},
        "timing": {"lease": "20s", "suspect": "10s", "unreachable": "30s", "empty": "20s", "recheck": "5s",
                   "orphanDelay": "15s", "evictionDeadline": "1m", "grow": "2m"},
        "hostPorts": "mirror",
        "physicalWrites": "none",
        "allowInsecure": true,
        "allowChained": true,
        "disableNodeDefaultTaint": true,
    })
}

fn condition() -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "Ok", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}])
}

/// A status of a binding in which every field has a value.
fn binding_status() -> Value {
    let (since, extent) = ("2026-01-01T00:00:00Z", json!({"nodes": 3, "pods": 40}));
    json!({
        "observedGeneration": 1,
        "phase": "Ready",
        "message": "m",
        "conditions": condition(),
        "physicalClusterUID": "u1",
        "otherCluster": {"uid": "u2", "hash": "h", "since": since},
        "restored": {"cluster": "Physical", "sentence": "s", "hash": "h", "since": since},
        "held": {"hash": "h", "earlier": ["h1"], "sentence": "s", "since": since, "extent": extent, "size": extent,
                 "spent": extent},
        "spent": {"nodes": 1, "pods": 9, "at": since},
        "granted": [{"act": "RemovePod", "counts": true, "nodes": ["vnode-east-w1"], "pods": 8, "at": since}],
        "confirmed": [{"hash": "h0", "at": since}],
        "connection": {"state": "Suspect", "since": since, "serverVersion": "v1.36.3", "credentialsEnd": since},
        "holder": "topoloom-0",
        "lease": "topoloom-system/topoloom-syncer-binding-0123",
        "nodes": {"selected": 9, "lent": 8, "ready": 7, "outsideWindows": 6, "overcommitted": 5, "leaving": 4, "frozen": 3,
                  "claimedByOthers": 2},
        "pods": {"bound": 3, "running": 2, "orphans": 1},
        "leases": {"renewed": 7, "stopped": 1},
        "nextTransition": since,
        "lastSyncTime": since,
    })
}

/// A spec of a policy in which every field has a value.
fn policy_spec() -> Value {
    json!({
        "cluster": "east",
        "virtualCluster": "u0",
        "priority": 7,
        "nodeSelector": selector(),
        "timeZone": "Europe/Berlin",
        "daysApplyTo": "start",
        "timeWindows": [{"start": "18:00", "end": "08:00", "days": ["Monday"]}],
        "resourceLimits": [{"resource": "cpu", "quantity": "20", "percent": 70}],
        "forceReclaim": true,
        "gracefulReclaimPeriodSeconds": 600,
        "reclaimVia": "eviction",
    })
}

/// A status of a policy in which every field has a value.
fn policy_status() -> Value {
    json!({
        "observedGeneration": 1,
        "phase": "Active",
        "activeTimeWindow": true,
        "conditions": condition(),
        "lastAppliedTime": "2026-01-01T00:00:00Z",
        "nextTransition": "2026-01-01T08:01:00Z",
        "nextTransitionSince": "2026-01-01T00:00:00Z",
        "lastClosing": {"at": "2025-12-31T18:00:00Z", "announcedSince": "2025-12-31T08:01:00Z"},
        "timeZone": "Europe/Berlin",
        "lastValid": policy_spec(),
    })
}

fn object(kind: &str, spec: Value, status: Value) -> Value {
    let mut object =
        json!({"apiVersion": "topoloom.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    if !status.is_null() {
        object["status"] = status;
    }
    object
}

fn binding(spec: Value, status: Value) -> ClusterBinding {
    serde_json::from_value(object("ClusterBinding", spec, status)).unwrap()
}

fn policy(spec: Value, status: Value) -> ResourceLeasingPolicy {
    serde_json::from_value(object("ResourceLeasingPolicy", spec, status)).unwrap()
}

#[test]
fn s2_a_binding_keeps_its_content_and_fits_its_schema() {
    let read = binding(binding_spec(), binding_status());
    assert_eq!(serde_json::to_value(&read).unwrap(), object("ClusterBinding", binding_spec(), binding_status()));
    let schema = schema(names::CLUSTER_BINDING_CRD);
    covers(&schema["properties"]["spec"], &binding_spec(), "spec");
    covers(&schema["properties"]["status"], &binding_status(), "status");
    let bare = object(
        "ClusterBinding",
        json!({"clusterID": "e", "mountNamespace": "m", "secretRef": {"name": "s"}}),
        Value::Null,
    );
    let read: ClusterBinding = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), bare, "what is absent stays absent");
}

#[test]
fn s2_s8_a_policy_keeps_its_content_and_fits_its_schema_and_so_does_its_last_valid_spec() {
    let read = policy(policy_spec(), policy_status());
    assert_eq!(serde_json::to_value(&read).unwrap(), object("ResourceLeasingPolicy", policy_spec(), policy_status()));
    assert_eq!(read.status.last_valid.as_ref(), read.spec.as_ref().ok());
    let schema = schema(names::RESOURCE_LEASING_POLICY_CRD);
    covers(&schema["properties"]["spec"], &policy_spec(), "spec");
    covers(&schema["properties"]["status"], &policy_status(), "status");
    let bare = object("ResourceLeasingPolicy", json!({"cluster": "east"}), Value::Null);
    let read: ResourceLeasingPolicy = serde_json::from_value(bare.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), bare, "what is absent stays absent");
}

#[test]
fn printer_columns_of_lending_answer_the_first_question() {
    for (name, short, columns, object) in [
        (
            names::CLUSTER_BINDING_CRD,
            "cb",
            vec!["ClusterID", "Phase", "Connection", "Nodes", "Pods", "Held", "Age", "Message"],
            object("ClusterBinding", binding_spec(), binding_status()),
        ),
        (
            names::RESOURCE_LEASING_POLICY_CRD,
            "rlp",
            vec!["Cluster", "Phase", "Active", "NextTransition", "Zone", "Age"],
            object("ResourceLeasingPolicy", policy_spec(), policy_status()),
        ),
    ] {
        let definition = definition(name);
        assert_eq!(definition["spec"]["scope"], "Cluster");
        assert_eq!(definition["spec"]["names"]["shortNames"], json!([short]));
        assert_eq!(definition["metadata"]["annotations"], json!({"helm.sh/resource-policy": "keep"}));
        assert_eq!(version(&definition)["subresources"], json!({"status": {}}));
        assert_eq!(version(&definition)["schema"]["openAPIV3Schema"]["required"], json!(["spec"]));
        let found = version(&definition)["additionalPrinterColumns"].as_array().unwrap();
        let titles: Vec<&str> = found.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(titles, columns);
        for column in found.iter().filter(|column| column["name"] != "Age") {
            let path = column["jsonPath"].as_str().unwrap().replace('.', "/");
            let value = object.pointer(&path).unwrap_or_else(|| panic!("{name} has no {path}"));
            let fits = match column["type"].as_str().unwrap() {
                "integer" => value.is_i64(),
                "boolean" => value.is_boolean(),
                _ => value.is_string(),
            };
            assert!(fits, "{name}: {path} is {value}");
        }
    }
}

#[test]
fn s2_what_never_changes_is_required_or_the_rule_is_evaded_by_removing_the_field() {
    let schema = schema(names::CLUSTER_BINDING_CRD);
    let spec = &schema["properties"]["spec"];
    let mut constant = Vec::new();
    for (field, judged) in spec["properties"].as_object().unwrap() {
        let rules = judged["x-kubernetes-validations"].as_array();
        if rules.into_iter().flatten().any(|rule| rule["rule"].as_str().unwrap().contains("oldSelf")) {
            assert!(spec["required"].as_array().unwrap().contains(&json!(field)), "{field}");
            constant.push(field.as_str());
        }
    }
    assert_eq!(constant, ["clusterID", "mountNamespace"]);
}

#[test]
fn s2_everything_in_a_spec_has_a_size() {
    for name in [names::CLUSTER_BINDING_CRD, names::RESOURCE_LEASING_POLICY_CRD] {
        let schema = schema(name);
        walk(&schema["properties"]["spec"], "spec", &mut |schema, path| {
            let bound = match schema["type"].as_str() {
                Some("array") => schema["maxItems"].is_u64(),
                Some("string") => schema["maxLength"].is_u64() || schema["enum"].is_array(),
                Some("object") => schema["properties"].is_object(),
                Some("integer" | "boolean") => true,
                _ => schema["maxLength"].is_u64() && schema["x-kubernetes-int-or-string"] == true,
            };
            assert!(bound, "{name}: {path} has no bound");
        });
    }
}

#[test]
fn s8_the_last_valid_spec_is_not_judged_again() {
    let schema = schema(names::RESOURCE_LEASING_POLICY_CRD);
    let judges =
        ["enum", "minimum", "maximum", "minLength", "maxLength", "maxItems", "required", "x-kubernetes-validations"];
    let mut count = 0;
    walk(&schema["properties"]["status"]["properties"]["lastValid"], "lastValid", &mut |schema, path| {
        count += 1;
        for judge in judges {
            assert!(schema.get(judge).is_none(), "{path} has {judge}");
        }
    });
    assert!(count > 20, "{count}");
}

#[test]
fn a_binding_of_another_version_is_read() {
    let read = binding(
        json!({"clusterID": "east", "noPolicy": "LeaseHalf", "onUnreachable": null, "later": {"a": 1}, "timing": {"later": "1s"}}),
        json!({"phase": "Levitating", "connection": {"state": "Bent", "since": 7}, "held": "no", "restored": {"cluster": "Third"},
               "physicalClusterUID": "u1", "spent": {"nodes": 2.0, "pods": "x"}, "conditions": [{"type": 1}, {"type": "Held"}],
               "confirmed": [{"hash": "h"}, 5], "nextTransition": 5,
               "granted": [{"act": "Later", "nodes": ["n", 1], "pods": "x"}, 5]}),
    );
    let spec = read.spec.unwrap();
    assert_eq!(
        spec.no_policy.read().unwrap_err().to_string(),
        "must be \"LeaseAll\" or \"Withdraw\", got \"LeaseHalf\""
    );
    assert_eq!(spec.on_unreachable.read(), Ok(OnUnreachable::Unknown));
    let status = read.status;
    assert_eq!((status.phase, status.held), (Some(BindingPhase::Unknown), None));
    assert_eq!(status.connection.unwrap().state, ConnectionState::Unknown);
    assert_eq!(status.restored.unwrap().cluster, Side::Unknown);
    // What must outlive a process is read although its neighbours are not.
    assert_eq!(status.physical_cluster_uid.as_deref(), Some("u1"));
    assert_eq!(status.spent.unwrap().nodes, 2);
    assert_eq!((status.conditions.len(), status.confirmed.len()), (1, 1));
    assert_eq!((status.granted.len(), status.granted[0].nodes.len(), status.granted[0].pods), (1, 1, 0));
}

#[test]
fn s8_one_object_that_cannot_be_read_does_not_stop_a_list_and_never_reads_as_lend_everything() {
    let list = json!([
        {"metadata": {"name": "a"}, "spec": {"cluster": "east", "timeWindows": "never"}},
        {"metadata": {"name": "b"}, "spec": {"cluster": "east", "resourceLimits": [{"resource": "cpu", "percent": "50"}]}},
        {"metadata": {"name": "c"}},
        {"metadata": {"name": "d"}, "spec": {"cluster": "east", "priority": 1e30}, "status": {"lastValid": {"timeWindows": 1}}},
        {"metadata": {"name": "e"}, "spec": {"cluster": "east", "resourceLimits": [{"resource": "cpu", "quantity": 20}]}, "status": 5},
    ]);
    let read: Vec<ResourceLeasingPolicy> = serde_json::from_value(list).unwrap();
    let why = |at: usize| read[at].spec.as_ref().unwrap_err().to_string();
    assert!(why(0).starts_with("spec.timeWindows cannot be read: "), "{}", why(0));
    assert!(why(1).starts_with("spec.resourceLimits cannot be read: "), "{}", why(1));
    assert_eq!(why(2), "spec cannot be read: it is missing");
    assert_eq!(read[3].spec.as_ref().unwrap().priority, Some(i64::MAX));
    assert_eq!(read[3].status.last_valid, None, "a last valid spec that cannot be read is none");
    assert_eq!(read[4].spec.as_ref().unwrap().resource_limits[0].quantity.as_deref(), Some("20"));
    let bindings = json!([{"metadata": {"name": "a"}, "spec": {"safety": {"maxEvictPercent": "20"}}}, {"spec": null}]);
    let read: Vec<ClusterBinding> = serde_json::from_value(bindings).unwrap();
    let why = read[0].spec.as_ref().unwrap_err();
    assert_eq!((why.field(), read[1].spec.as_ref().unwrap_err().field()), ("spec.safety".into(), "spec".into()));
}

#[test]
fn words_and_times_of_a_binding_are_read() {
    let spec = binding(binding_spec(), Value::Null).spec.unwrap();
    assert_eq!(spec.no_policy.read(), Ok(NoPolicy::Withdraw));
    assert_eq!(spec.policy_source, Word::of(PolicySource::Virtual));
    assert_eq!(spec.host_ports.read(), Ok(HostPorts::Mirror));
    let times = spec.times().unwrap();
    let seconds = [times.lease, times.suspect, times.unreachable, times.empty, times.recheck, times.orphan_delay];
    assert_eq!(seconds.map(|time| time.as_secs()), [20, 10, 30, 20, 5, 15]);
    let seconds = [times.eviction_deadline, times.grow, times.hold_for, times.announce];
    assert_eq!(seconds.map(|time| time.as_secs()), [60, 120, 7200, 300]);
    let bare = binding(json!({}), Value::Null).spec.unwrap();
    assert_eq!(bare.times().unwrap().lease, times::LEASE.default);
    let mut wrong = bare;
    wrong.hold_for = Some("forever".to_owned());
    wrong.timing.lease = Some("3s".to_owned());
    let errors: Vec<String> = wrong.times().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.timing.lease must be a time such as 40s, 10m or 1h30m, from 4s to 5m, got \"3s\"",
            "spec.holdFor must be a time such as 40s, 10m or 1h30m, from 1s to 168h, got \"forever\"",
        ]
    );
}

#[test]
fn every_word_of_lending_on_the_wire_is_the_word_in_the_code() {
    for phase in BindingPhase::ALL {
        assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
    }
    for phase in PolicyPhase::ALL {
        assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
    }
    for state in ConnectionState::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
    }
    let conditions =
        |words: &str| words.split(' ').all(|word| ConditionType::ALL.iter().any(|type_| type_.as_str() == word));
    assert!(conditions("Ready Connected Held Conflict PhysicalClusterChanged Restored Paused"));
    assert!(conditions("Valid Active Shadowed Overcommitted"));
    let reasons = |words: &str| words.split(' ').all(|word| Reason::ALL.iter().any(|reason| reason.as_str() == word));
    assert!(reasons(
        "ValidationPassed ValidationError ActiveTimeWindow InactiveTimeWindow InForce SelectsNoNode Shadowed"
    ));
    assert!(reasons("Fits LentLessThanRequested PhysicalClusterUnreachable"));
}

#[test]
fn a_new_binding_and_its_verbs() {
    let mut made = ClusterBinding::new("east", cluster_binding::ClusterBindingSpec::default());
    assert_eq!(
        (made.kind.as_str(), made.metadata.name.as_deref(), made.confirmed()),
        ("ClusterBinding", Some("east"), None)
    );
    made.metadata.annotations = Some([(names::CONFIRM_ANNOTATION.to_owned(), "h".to_owned())].into());
    assert_eq!((made.confirmed(), made.annotation(names::PAUSE_ANNOTATION)), (Some("h"), None));
}
