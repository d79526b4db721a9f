use proptest::prelude::*;
use serde_json::json;

use super::*;

type Keys = BTreeMap<String, String>;

fn now() -> Timestamp {
    "2026-08-01T06:10:00.5Z".parse().unwrap()
}

/// A JSON merge patch, as RFC 7396 has it.
fn apply(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            apply(members.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// A virtual pod that takes patches.
struct Pod {
    spec: Value,
    status: Value,
    labels: Keys,
    annotations: Keys,
    version: ResourceVersion,
    now: Timestamp,
    /// Of the physical pod.
    uid: Uid,
}

impl Pod {
    fn new(spec: Value, status: Value) -> Self {
        let (labels, annotations) = (Keys::new(), Keys::new());
        Self { spec, status, labels, annotations, version: "41".into(), now: now(), uid: "".into() }
    }

    fn project(&self, physical: &Value) -> Projection {
        let none = Keys::new();
        self.project_all(physical, &none, &none, &[])
    }

    fn project_all(&self, physical: &Value, labels: &Keys, annotations: &Keys, copied: &[&str]) -> Projection {
        let facts = Facts {
            physical: Physical { uid: &self.uid, status: physical, labels, annotations },
            twin: Twin {
                spec: &self.spec,
                status: &self.status,
                labels: &self.labels,
                annotations: &self.annotations,
                version: &self.version,
            },
            copied: &copied.iter().map(|key| (*key).to_owned()).collect(),
        };
        project(&facts, self.now)
    }

    /// What the pod says after the patch, which leads to rest.
    fn take(&mut self, physical: &Value) -> Vec<String> {
        let projection = self.project(physical);
        let Projection::Write(patch) = &projection else { return Vec::new() };
        assert_eq!(patch.body()["metadata"]["resourceVersion"], "41");
        apply(&mut self.status, &patch.body()["status"]);
        let again = self.project(physical);
        assert_eq!(again.patch(), None, "after {projection}: {again}");
        patch.changes().iter().map(ToString::to_string).collect()
    }
}

fn spec() -> Value {
    json!({
        "restartPolicy": "Never",
        "containers": [{"name": "a"}, {"name": "b"}],
        "initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always"}],
        "ephemeralContainers": [{"name": "e"}],
        "readinessGates": [{"conditionType": "example.com/gate"}],
    })
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": "2026-08-01T06:00:00Z"})
}

fn running(name: &str) -> Value {
    json!({"name": name, "ready": true, "state": {"running": {"startedAt": "2026-08-01T06:00:00Z"}}, "lastState": {}})
}

fn ended(name: &str, code: i64) -> Value {
    json!({"name": name, "ready": false, "state": {"terminated": {"exitCode": code}}, "lastState": {}})
}

#[test]
fn s16_the_whole_status_of_a_started_pod_goes_up_in_one_patch() {
    let physical = json!({
        "phase": "Running", "startTime": "2026-08-01T06:00:00Z", "hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}, {"ip": "fd00::7"}],
        "conditions": [condition("PodScheduled", "True"), condition("Ready", "True")],
        "containerStatuses": [running("a"), running("b")],
        "observedGeneration": 5, "qosClass": "Guaranteed", "nominatedNodeName": "n", "resize": "Proposed",
        "resourceClaimStatuses": [{"name": "c"}],
    });
    let mut pod = Pod::new(spec(), json!({"phase": "Pending", "qosClass": "BestEffort", "observedGeneration": 1}));
    let projection = pod.project(&physical);
    assert_eq!(
        projection.to_string(),
        "written: phase Pending → Running, startTime, hostIP, podIP, containerStatuses (a, b), conditions (Ready)"
    );
    let patch = projection.patch().unwrap();
    let metadata = json!({
        "resourceVersion": "41", "annotations": {"topoloom.dev/last-sync-time": "2026-08-01T06:10:00Z"},
    });
    assert_eq!(patch["metadata"], metadata);
    let written: Vec<_> = patch["status"].as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = ["conditions", "containerStatuses", "hostIP", "hostIPs", "phase", "podIP", "podIPs", "startTime"];
    assert_eq!(written, wanted);
    pod.take(&physical);
    assert_eq!(pod.status["conditions"], json!([condition("Ready", "True")]));
    assert_eq!((&pod.status["qosClass"], &pod.status["observedGeneration"]), (&json!("BestEffort"), &json!(1)));
}

#[test]
fn s16_a_field_that_is_gone_is_an_explicit_null_and_nothing_is_written_where_nothing_differs() {
    let mut pod = Pod::new(
        spec(),
        json!({
            "phase": "Running", "reason": "Odd", "message": "m", "podIP": "10.1.0.7", "podIPs": [{"ip": "10.1.0.7"}],
            "containerStatuses": [running("a")],
        }),
    );
    let physical = json!({"phase": "Running", "message": ""});
    let patch = pod.project(&physical).patch().cloned().unwrap();
    assert_eq!(
        patch["status"],
        json!({"reason": null, "message": null, "podIP": null, "podIPs": null, "containerStatuses": null})
    );
    assert_eq!(pod.take(&physical).len(), 4);
    assert_eq!(pod.status, json!({"phase": "Running"}));
    assert_eq!(pod.project(&physical), Projection::Same);
}

#[test]
fn s16_addresses_go_up_in_pairs_or_not_at_all() {
    let before = json!({"hostIP": "10.0.0.9", "hostIPs": [{"ip": "10.0.0.9"}]});
    let project = |physical: Value| Pod::new(spec(), before.clone()).project(&physical).patch().cloned();
    let status = |physical: Value| project(physical).unwrap()["status"].clone();
    // A physical cluster that knows no list.
    let made = json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]});
    assert_eq!(status(json!({"hostIP": "10.0.0.1"})), made);
    // Only the list differs: both are written.
    let two = json!({"hostIP": "10.0.0.9", "hostIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]});
    assert_eq!(status(two.clone()), two);
    assert_eq!(status(json!({})), json!({"hostIP": null, "hostIPs": null}));
    for odd in [
        json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}),
        json!({"hostIPs": [{"ip": "10.0.0.1"}]}),
        json!({"hostIP": "10.0.0.1", "hostIPs": ["10.0.0.1"]}),
        json!({"hostIP": 7}),
    ] {
        assert_eq!(project(odd.clone()), None, "{odd}");
    }
}

#[test]
fn s16_what_the_virtual_side_owns_of_the_conditions_stays() {
    let own = [
        condition("PodScheduled", "True"),
        condition("DisruptionTarget", "True"),
        condition("example.com/gate", "True"),
        condition("example.com/user", "False"),
    ];
    let mut conditions = own.to_vec();
    conditions.insert(1, condition("Ready", "False"));
    conditions.push(condition("PodResizePending", "True"));
    let mut pod = Pod::new(spec(), json!({"conditions": conditions}));
    let physical = json!({"conditions": [
        condition("example.com/new", "True"), condition("Ready", "True"), condition("PodScheduled", "False"),
        condition("DisruptionTarget", "False"), condition("example.com/gate", "False"), condition("Ready", "Unknown"),
    ]});
    let changes = pod.take(&physical);
    assert_eq!(changes, ["conditions (Ready, PodResizePending, example.com/new)"]);
    let mut wanted = own.to_vec();
    wanted.insert(1, condition("Ready", "True"));
    wanted.push(condition("example.com/new", "True"));
    assert_eq!(pod.status["conditions"], Value::Array(wanted));
}

#[test]
fn s16_the_generation_in_a_condition_stays_the_virtual_sides() {
    let with = |status: &str, generation: i64| {
        let mut condition = condition("Ready", status);
        condition["observedGeneration"] = generation.into();
        json!({"conditions": [condition]})
    };
    let mut pod = Pod::new(spec(), with("True", 1));
    assert_eq!(pod.project(&with("True", 7)), Projection::Same);
    assert_eq!(pod.take(&with("False", 7)), ["conditions (Ready)"]);
    assert_eq!(pod.status["conditions"], json!([condition("Ready", "False")]));
}

#[test]
fn s16_only_containers_of_the_virtual_spec_have_a_status() {
    let mut pod = Pod::new(spec(), json!({"containerStatuses": [running("gone"), running("a")]}));
    let physical = json!({
        "containerStatuses": [running("sidecar-of-the-lender"), running("a"), ended("a", 1), running("i")],
        "initContainerStatuses": [ended("i", 0)],
        "ephemeralContainerStatuses": [running("e"), {"noName": 1}, 7],
    });
    let changes = pod.take(&physical);
    assert_eq!(changes, ["containerStatuses (gone)", "initContainerStatuses (i)", "ephemeralContainerStatuses (e)"]);
    assert_eq!(pod.status["containerStatuses"], json!([running("a")]));
    assert_eq!(pod.status["ephemeralContainerStatuses"], json!([running("e")]));
}

#[test]
fn s3_s16_a_pod_that_lacks_what_the_top_down_half_copies_shows_why_its_container_waits() {
    let waiting = json!({
        "name": "a", "ready": false, "lastState": {},
        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "configmap \"settings\" not found"}},
    });
    let mut pod = Pod::new(spec(), json!({"phase": "Pending"}));
    assert_eq!(pod.take(&json!({"phase": "Pending", "containerStatuses": [waiting]})), ["containerStatuses (a)"]);
    assert_eq!(pod.status["containerStatuses"], json!([waiting]));
    // It was copied, and the container runs.
    pod.take(&json!({"phase": "Running", "containerStatuses": [running("a")]}));
    assert_eq!(pod.status["containerStatuses"], json!([running("a")]));
}

#[test]
fn s16_fields_of_a_newer_kubelet_go_up_as_they_are() {
    let mut newer = running("a");
    newer["someDay"] = json!({"deep": [{"er": 1}]});
    let mut pod = Pod::new(spec(), json!({}));
    pod.take(&json!({"containerStatuses": [newer.clone()]}));
    assert_eq!(pod.status["containerStatuses"], json!([newer]));
}

#[test]
fn s16_a_container_that_ended_and_never_restarts_keeps_its_end() {
    let mut pod = Pod::new(
        spec(),
        json!({
            "phase": "Running", "containerStatuses": [ended("a", 1), ended("b", 0)],
            "initContainerStatuses": [ended("i", 0), ended("side", 1)], "ephemeralContainerStatuses": [ended("e", 0)],
        }),
    );
    let physical = json!({
        "phase": "Running", "containerStatuses": [running("a")],
        "initContainerStatuses": [running("i"), running("side")], "ephemeralContainerStatuses": [running("e")],
    });
    // The sidecar restarts whatever the pod's policy is.
    assert_eq!(pod.take(&physical), ["initContainerStatuses (side)"]);
    assert_eq!(pod.status["containerStatuses"], json!([ended("a", 1), ended("b", 0)]));
    assert_eq!(pod.status["initContainerStatuses"], json!([ended("i", 0), running("side")]));
    // Another end is an end.
    assert_eq!(pod.take(&json!({"phase": "Running", "containerStatuses": [ended("a", 9), ended("b", 0)]})).len(), 2);
    assert_eq!(pod.status["containerStatuses"], json!([ended("a", 9), ended("b", 0)]));
    for (policy, code, restarts) in [("Always", 0, true), ("OnFailure", 1, true), ("OnFailure", 0, false)] {
        let spec = json!({"restartPolicy": policy, "containers": [{"name": "a"}]});
        let mut pod = Pod::new(spec, json!({"containerStatuses": [ended("a", code)]}));
        assert_eq!(!pod.take(&json!({"containerStatuses": [running("a")]})).is_empty(), restarts, "{policy} {code}");
    }
}

#[test]
fn s16_a_final_phase_is_final() {
    for (stays, physical) in [
        ("Failed", "Running"),
        ("Failed", "Succeeded"),
        ("Succeeded", "Running"),
        ("Succeeded", "Failed"),
        ("Failed", "Pending"),
        ("Failed", "Odd"),
    ] {
        let pod = Pod::new(spec(), json!({"phase": stays, "reason": "PhysicalPodLost"}));
        let physical = json!({"phase": physical, "conditions": [condition("Ready", "True")], "podIP": "10.0.0.1"});
        assert!(matches!(pod.project(&physical), Projection::Final { .. }), "{stays} {physical}");
    }
    let pod = Pod::new(spec(), json!({"phase": "Failed"}));
    let lost = pod.project(&json!({"podIP": "10.0.0.1"}));
    assert_eq!(lost.to_string(), "the virtual pod is Failed, which is final, and the physical one has no phase");
    // What is known of the same end goes up.
    let known = pod.project(&json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}));
    assert_eq!(known.to_string(), "written: message, reason");
}

#[test]
fn s16_a_phase_that_kubernetes_does_not_have_is_not_copied() {
    let pod = Pod::new(spec(), json!({"phase": "Running"}));
    for odd in [json!({"phase": "Terminating"}), json!({"phase": 7}), json!({}), json!({"phase": ""})] {
        assert_eq!(pod.project(&odd), Projection::Same, "{odd}");
    }
    let pod = Pod::new(spec(), json!({}));
    assert_eq!(pod.project(&json!({"phase": "Pending"})).to_string(), "written: phase Pending");
}

#[test]
fn s16_what_is_no_status_is_never_written_and_harms_nothing() {
    let own = json!({"phase": "Running", "conditions": [condition("example.com/user", "True")]});
    let pod = Pod::new(Value::Null, own);
    for odd in [
        Value::Null,
        json!(7),
        json!([]),
        json!("x"),
        json!({"conditions": {}, "containerStatuses": "x"}),
        json!({"reason": [], "message": {}, "startTime": 1, "podIP": {}, "podIPs": 7, "conditions": [1, {"type": 7}]}),
    ] {
        assert_eq!(pod.project(&odd).patch(), None, "{odd}");
    }
    let deep: Value = serde_json::from_str(&format!("{}{}", "[".repeat(120), "]".repeat(120))).unwrap();
    let mut pod = Pod::new(spec(), json!({}));
    pod.take(&json!({"containerStatuses": [{"name": "a", "odd": deep}]}));
    let nothing = Pod::new(Value::Null, Value::Null);
    assert_eq!(nothing.project(&json!({"phase": "Running"})).to_string(), "written: phase Running");
}

#[test]
fn s16_a_pod_of_ten_thousand_containers_is_projected_in_one_pass() {
    let names: Vec<String> = (0..10_000).map(|number| format!("c{number}")).collect();
    let spec = json!({"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()});
    let statuses = json!(names.iter().map(|name| running(name)).collect::<Vec<_>>());
    let conditions = json!(names.iter().map(|name| condition(name, "True")).collect::<Vec<_>>());
    let mut pod = Pod::new(spec, json!({}));
    let physical = json!({"containerStatuses": statuses, "conditions": conditions});
    assert_eq!(pod.take(&physical).len(), 2);
    assert_eq!(pod.project(&physical), Projection::Same);
}

#[test]
fn d13_metadata_flows_up_by_the_list_alone_and_our_keys_never_do() {
    let keys =
        |of: &[(&str, &str)]| -> Keys { of.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect() };
    let mut pod = Pod::new(spec(), json!({"phase": "Running"}));
    pod.labels = keys(&[("team", "a"), ("mine", "1")]);
    let labels = keys(&[("team", "b"), ("other", "1"), (keys::MANAGED_BY_LABEL, "topoloom")]);
    let annotations = keys(&[("hami.io/vgpu", "0"), ("other", "2")]);
    let project = |copied: &[&str]| pod.project_all(&json!({"phase": "Running"}), &labels, &annotations, copied);
    assert_eq!(project(&[]), Projection::Same);
    let copied = project(&["team", "mine", "hami.io/vgpu", keys::MANAGED_BY_LABEL, "nowhere"]);
    assert_eq!(copied.to_string(), "written: annotation hami.io/vgpu, label team");
    let patch = copied.patch().unwrap();
    // A label that only the virtual pod has stays.
    assert_eq!(patch["metadata"]["labels"], json!({"team": "b"}));
    assert_eq!((patch.get("status"), &patch["metadata"]["annotations"]["hami.io/vgpu"]), (None, &json!("0")));
}

#[test]
fn d14_a_uid_that_the_virtual_pod_does_not_name_goes_with_another_change_and_never_alone() {
    let (running, ready) = (json!({"phase": "Running"}), json!({"phase": "Running", "reason": "x"}));
    let mut pod = Pod::new(spec(), running.clone());
    pod.uid = "p-uid".into();
    assert_eq!(pod.project(&running), Projection::Same);
    let filled = |pod: &Pod| {
        let patch = pod.project(&ready).patch().cloned().unwrap();
        patch["metadata"]["annotations"].get(keys::PHYSICAL_POD_UID).cloned()
    };
    assert_eq!(filled(&pod), Some(json!("p-uid")));
    pod.annotations.insert(keys::PHYSICAL_POD_UID.to_owned(), String::new());
    assert_eq!(filled(&pod), Some(json!("p-uid")));
    for named in ["p-uid", "another"] {
        pod.annotations.insert(keys::PHYSICAL_POD_UID.to_owned(), named.to_owned());
        assert_eq!(filled(&pod), None, "{named}");
    }
}

#[test]
fn a_pod_without_a_version_is_not_written() {
    let mut pod = Pod::new(spec(), json!({}));
    pod.version = "".into();
    assert_eq!(pod.project(&json!({"phase": "Running"})), Projection::Unguarded);
    assert_eq!(pod.project(&json!({})), Projection::Same);
}

fn patch(reason: &str, version: &str) -> StatusPatch {
    let mut pod = Pod::new(spec(), json!({"phase": "Running"}));
    pod.version = version.into();
    pod.now = Timestamp::from_second(version.parse().unwrap()).unwrap();
    match pod.project(&json!({"phase": "Running", "reason": reason})) {
        Projection::Write(patch) => patch,
        other => panic!("{other}"),
    }
}

#[test]
fn s16_a_refused_write_is_reported_once_per_physical_version_and_not_repeated() {
    let mut refusals = Refusals::new(10);
    let (pod, one, two): (_, ResourceVersion, ResourceVersion) = ("v-uid".into(), "1".into(), "2".into());
    let patch = patch("x", "41");
    assert_eq!(refusals.may_send(&pod, &one, &patch), Sending::Send);
    assert_eq!((refusals.refused(&pod, &one), refusals.refused(&pod, &one)), (Report::First, Report::Known));
    assert_eq!(refusals.may_send(&pod, &one, &patch), Sending::Refused);
    assert_eq!(refusals.may_send(&"other".into(), &one, &patch), Sending::Send);
    assert_eq!(refusals.may_send(&pod, &two, &patch), Sending::Send);
    assert_eq!(refusals.refused(&pod, &two), Report::First);
    refusals.stored(&pod, None);
    assert_eq!((refusals.may_send(&pod, &two, &patch), refusals.is_empty()), (Sending::Send, true));
}

#[test]
fn s16_what_an_older_server_does_not_store_is_not_written_for_ever() {
    let mut refusals = Refusals::new(10);
    let (pod, version): (_, ResourceVersion) = ("v-uid".into(), "1".into());
    // The answer still differs in the same: with another version of the pod, and another time.
    refusals.stored(&pod, Some(&patch("x", "42")));
    assert_eq!(refusals.may_send(&pod, &version, &patch("x", "43")), Sending::NotStored);
    assert_eq!(refusals.may_send(&pod, &"2".into(), &patch("x", "43")), Sending::NotStored);
    assert_eq!(refusals.may_send(&pod, &version, &patch("y", "43")), Sending::Send);
    refusals.forget(&pod);
    assert_eq!(refusals.may_send(&pod, &version, &patch("x", "43")), Sending::Send);
}

#[test]
fn refusals_are_bounded_and_the_latest_are_remembered() {
    let mut refusals = Refusals::new(100);
    let (patch, version): (_, ResourceVersion) = (patch("x", "41"), "1".into());
    for number in 0..10_000 {
        assert_eq!(refusals.refused(&number.to_string().into(), &version), Report::First);
        assert!(refusals.len() <= 100);
    }
    assert_eq!(refusals.may_send(&"9999".into(), &version, &patch), Sending::Refused);
    assert_eq!(refusals.may_send(&"9950".into(), &version, &patch), Sending::Refused);
    assert_eq!(refusals.may_send(&"0".into(), &version, &patch), Sending::Send);
}

fn states() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"waiting": {"reason": "ImagePullBackOff"}})),
        Just(json!({"running": {}})),
        Just(json!({"terminated": {"exitCode": 0}})),
        Just(json!({"terminated": {"exitCode": 1}, "running": null})),
    ]
}

fn containers() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "i", "side", "e", "foreign"]);
    let status = (names, states()).prop_map(|(name, state)| json!({"name": name, "state": state}));
    prop::collection::vec(status, 0..4).prop_map(Value::Array)
}

fn conditions() -> impl Strategy<Value = Value> {
    let kinds = [
        "Ready",
        "PodScheduled",
        "DisruptionTarget",
        "example.com/gate",
        "example.com/lender",
        "Initialized",
        "PodResizePending",
    ];
    let (kind, status) = (prop::sample::select(kinds.to_vec()), prop::sample::select(vec!["True", "False"]));
    let condition = (kind, status, prop::option::of(1..3_i64)).prop_map(|(kind, status, generation)| {
        let mut condition = condition(kind, status);
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.into();
        }
        condition
    });
    prop::collection::vec(condition, 0..6).prop_map(Value::Array)
}

fn addresses() -> impl Strategy<Value = (Option<&'static str>, Value)> {
    let list = prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!([{"ip": "10.0.0.1"}])),
        Just(json!([{"ip": "10.0.0.2"}, {"ip": "fd00::2"}])),
    ];
    (prop::option::of(prop::sample::select(vec!["10.0.0.1", "10.0.0.2"])), list)
}

fn statuses() -> impl Strategy<Value = Value> {
    let phases = prop::sample::select(vec!["Pending", "Running", "Running", "Succeeded", "Failed", "Odd"]);
    let phase = prop::option::weighted(0.9, phases);
    let lists = (containers(), containers(), containers());
    (phase, prop::option::of(prop::sample::select(vec!["Evicted", ""])), lists, conditions(), addresses(), addresses())
        .prop_map(|(phase, reason, (main, init, ephemeral), conditions, host, pod)| {
            json!({
                "phase": phase, "reason": reason, "containerStatuses": main, "initContainerStatuses": init,
                "ephemeralContainerStatuses": ephemeral, "conditions": conditions, "hostIP": host.0, "hostIPs": host.1,
                "podIP": pod.0, "podIPs": pod.1, "qosClass": "Burstable", "observedGeneration": 9,
            })
        })
}

fn state_of<'a>(status: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let found = status.get(list)?.as_array()?.iter().find(|entry| entry["name"] == name)?;
    found.get("state")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Over any sequence of physical statuses: each write comes to rest, what the virtual side owns survives, and what is
    /// final stays.
    #[test]
    fn s16_any_history_comes_to_rest_and_never_undoes_an_end(history in prop::collection::vec(statuses(), 1..8)) {
        let own = [condition("PodScheduled", "True"), condition("example.com/gate", "True"), condition("example.com/user", "True")];
        let mut pod = Pod::new(spec(), json!({"phase": "Pending", "conditions": own, "qosClass": "BestEffort"}));
        for physical in &history {
            let before = pod.status.clone();
            pod.take(physical);
            prop_assert!(pod.project(physical).patch().is_none());
            let conditions = pod.status["conditions"].as_array().unwrap();
            prop_assert!(own.iter().all(|own| conditions.contains(own)));
            prop_assert!(!conditions.iter().any(|it| it["type"] == "DisruptionTarget" || it.get("observedGeneration").is_some()));
            prop_assert_eq!(&pod.status["qosClass"], "BestEffort");
            prop_assert!(pod.status.get("observedGeneration").is_none());
            for phase in ["Succeeded", "Failed"] {
                prop_assert!(before["phase"] != phase || pod.status["phase"] == phase);
            }
            for pair in [("hostIP", "hostIPs"), ("podIP", "podIPs")] {
                let first = pod.status.get(pair.1).and_then(|list| list.get(0)).map(|entry| &entry["ip"]);
                prop_assert_eq!(first, pod.status.get(pair.0));
            }
            for (list, name) in [("containerStatuses", "a"), ("containerStatuses", "b"), ("initContainerStatuses", "i"), ("ephemeralContainerStatuses", "e")] {
                let had_ended = state_of(&before, list, name).is_some_and(|state| state["terminated"].is_object());
                let has_ended = state_of(&pod.status, list, name).is_some_and(|state| state["terminated"].is_object());
                prop_assert!(!had_ended || has_ended, "{} {}", list, name);
                prop_assert!(state_of(&pod.status, list, "foreign").is_none());
            }
        }
    }

    /// Whatever a virtual pod says before, one write leads to rest.
    #[test]
    fn s16_one_write_is_enough_from_any_status(before in statuses(), physical in statuses()) {
        let mut pod = Pod::new(spec(), before);
        pod.take(&physical);
        prop_assert!(pod.project(&physical).patch().is_none());
    }
}
