//! What is written at which moment of a life.

use jiff::SignedDuration;

use super::*;
use crate::lending::kubelets::admission::Refusal;
use crate::lending::kubelets::life::Missing;
use crate::lending::kubelets::plan::{Plan, Run};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_785_564_600 + second).unwrap()
}

fn pod(spec: Value, status: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"uid": "u", "generation": 1}, "spec": spec, "status": status})).unwrap()
}

fn plain() -> Pod {
    pod(json!({"containers": [{"name": "c", "image": "i"}]}), Value::Null)
}

fn begun(pod: &Pod, plan: Plan) -> Life {
    let mut life = Life::of(pod, plan, 1);
    life.admit(at(0));
    life.checked(None, at(1));
    life.advance(at(1));
    life
}

fn shown(pod: &Pod, life: &Life, now: Timestamp) -> Value {
    let list = |ips: [&str; 2]| ips.map(str::to_owned).to_vec();
    let addresses = Addresses { host: list(["10.0.0.1", "fd00::1"]), pod: list(["10.1.0.1", "fd01::1"]) };
    status(pod, life, &addresses, now).unwrap()
}

/// `Type=Status(reason)` of each condition.
fn conditions(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let words = status["conditions"].as_array().unwrap().iter().map(|condition| {
        let reason = condition["reason"].as_str().map(|reason| format!("({reason})")).unwrap_or_default();
        format!("{}={}{reason}", text(&condition["type"]), text(&condition["status"]))
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_running_pod_is_ready_and_has_its_addresses() {
    let pod = plain();
    let shown = shown(&pod, &begun(&pod, Plan::default()), at(2));
    assert_eq!(gist(&shown), (Some("Running"), Some("True")));
    assert_eq!(
        conditions(&shown),
        "PodScheduled=True PodReadyToStartContainers=True Initialized=True ContainersReady=True Ready=True"
    );
    assert_eq!(shown["podIP"], "10.1.0.1");
    assert_eq!(shown["podIPs"], json!([{"ip": "10.1.0.1"}, {"ip": "fd01::1"}]));
    assert_eq!(shown["hostIPs"], json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]));
    assert_eq!(shown["startTime"], "2026-08-01T06:10:00Z");
    let container = &shown["containerStatuses"][0];
    assert_eq!(container["state"]["running"]["startedAt"], "2026-08-01T06:10:01Z");
    assert_eq!((&container["ready"], &container["restartCount"]), (&json!(true), &json!(0)));
}

#[test]
fn nothing_changes_while_nothing_happens() {
    let pod = plain();
    let life = begun(&pod, Plan::default());
    assert_eq!(shown(&pod, &life, at(2)), shown(&pod, &life, at(90_000)));
}

#[test]
fn a_pod_on_the_network_of_its_host_has_its_address() {
    let pod = pod(json!({"containers": [{"name": "c"}], "hostNetwork": true}), Value::Null);
    assert_eq!(shown(&pod, &begun(&pod, Plan::default()), at(2))["podIP"], "10.0.0.1");
}

#[test]
fn what_is_missing_is_the_reason_of_the_container_that_needs_it() {
    let pod = pod(json!({"containers": [{"name": "a"}, {"name": "b"}]}), Value::Null);
    let mut life = Life::of(&pod, Plan::default(), 1);
    life.admit(at(0));
    let reasons = |life: &Life| {
        let shown = shown(&pod, life, at(1));
        assert_eq!(gist(&shown), (Some("Pending"), Some("False")));
        assert!(shown.get("podIP").is_none() && shown["hostIP"] == "10.0.0.1");
        [0, 1].map(|index| shown["containerStatuses"][index]["state"]["waiting"]["reason"].as_str().unwrap().to_owned())
    };
    assert_eq!(reasons(&life), ["ContainerCreating", "ContainerCreating"]);
    let missing = |container: Option<&str>| Missing { container: container.map(str::to_owned), message: "no".into() };
    life.checked(Some(missing(Some("b"))), at(0));
    assert_eq!(reasons(&life), ["ContainerCreating", "CreateContainerConfigError"]);
    life.checked(Some(missing(None)), at(0));
    assert_eq!(reasons(&life), ["ContainerCreating", "ContainerCreating"]);
}

#[test]
fn init_containers_end_in_turn_and_sidecars_stay() {
    let sidecar = json!({"name": "s", "restartPolicy": "Always"});
    let spec = json!({"containers": [{"name": "c"}], "initContainers": [{"name": "a"}, sidecar, {"name": "b"}]});
    let pod = pod(spec, Value::Null);
    let mut life = begun(&pod, Plan { init: SignedDuration::from_secs(10), ..Plan::default() });
    let states = |life: &Life, now: i64| {
        let shown = shown(&pod, life, at(now));
        let state = |row: &Value| row["state"].as_object().unwrap().keys().next().unwrap().clone();
        let init = shown["initContainerStatuses"].as_array().unwrap().iter().map(state).collect::<Vec<_>>().join(" ");
        (init, state(&shown["containerStatuses"][0]))
    };
    let is = |init: &str, main: &str| (init.to_owned(), main.to_owned());
    assert_eq!(states(&life, 5), is("running waiting waiting", "waiting"));
    assert_eq!(states(&life, 11), is("terminated running running", "waiting"));
    life.advance(at(21));
    assert_eq!(states(&life, 21), is("terminated running terminated", "running"));
    life.evict("low".into(), at(30));
    assert_eq!(states(&life, 40), is("terminated terminated terminated", "terminated"));
}

#[test]
fn an_end_shows_its_code_and_an_eviction_its_cause() {
    let pod = plain();
    let run = Run::Ends(SignedDuration::from_secs(3), Phase::Succeeded);
    let mut life = begun(&pod, Plan { run, ..Plan::default() });
    life.advance(at(9));
    let status = shown(&pod, &life, at(9));
    assert_eq!(gist(&status), (Some("Succeeded"), Some("False")));
    let end = json!({"exitCode": 0, "reason": "Completed", "startedAt": "2026-08-01T06:10:01Z", "finishedAt": "2026-08-01T06:10:04Z"});
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"], end);
    assert!(conditions(&status).ends_with("ContainersReady=False(PodCompleted) Ready=False(PodCompleted)"));

    let mut life = begun(&pod, Plan::default());
    life.evict("The node was low on resource: memory.".into(), at(4));
    let status = shown(&pod, &life, at(4));
    assert_eq!((&status["reason"], gist(&status).0), (&json!("Evicted"), Some("Failed")));
    assert!(conditions(&status).ends_with("DisruptionTarget=True(TerminationByKubelet)"), "{}", conditions(&status));
}

#[test]
fn a_refused_pod_has_a_reason_and_no_containers() {
    let pod = plain();
    let mut life = Life::of(&pod, Plan::default(), 1);
    life.reject(Refusal { reason: "OutOfcpu".into(), message: "m".into() }, at(0));
    let shown = shown(&pod, &life, at(0));
    assert_eq!((&shown["phase"], &shown["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert!(shown.get("containerStatuses").is_none() && shown.get("conditions").is_none());
}

#[test]
fn restarts_are_counted_and_the_last_run_is_shown() {
    let pod = plain();
    let mut life = begun(&pod, Plan { run: Run::Restarts(SignedDuration::from_secs(5)), ..Plan::default() });
    life.advance(at(7));
    let row = shown(&pod, &life, at(7))["containerStatuses"][0].clone();
    assert_eq!(row["restartCount"], 1);
    assert_eq!(row["lastState"]["terminated"]["exitCode"], 1);
    life.advance(at(12));
    let status = shown(&pod, &life, at(12));
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(gist(&status), (Some("Running"), Some("False")));
}

#[test]
fn readiness_gates_are_other_writers_conditions() {
    let spec = json!({"containers": [{"name": "c"}], "readinessGates": [{"conditionType": "x.io/gate"}]});
    let ready = |conditions: Value| {
        let pod = pod(spec.clone(), json!({"conditions": conditions}));
        conditions_ready(&shown(&pod, &begun(&pod, Plan::default()), at(2)))
    };
    let gate = |status: &str| json!([{"type": "x.io/gate", "status": status}]);
    assert_eq!(ready(json!([])), ["True", "False"]);
    assert_eq!(ready(gate("False")), ["True", "False"]);
    assert_eq!(ready(gate("True")), ["True", "True"]);
}

/// Of the containers, and of the pod.
fn conditions_ready(status: &Value) -> [String; 2] {
    ["ContainersReady", "Ready"].map(|kind| {
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        found["status"].as_str().unwrap().to_owned()
    })
}

#[test]
fn a_pod_that_ended_under_another_kubelet_is_left_as_it_is() {
    let pod = pod(json!({"containers": [{"name": "c"}]}), json!({"phase": "Succeeded"}));
    let life = Life::of(&pod, Plan::default(), 1);
    let addresses = Addresses { host: Vec::new(), pod: Vec::new() };
    assert_eq!(status(&pod, &life, &addresses, at(0)), None);
    let new = plain();
    assert_eq!(status(&new, &Life::of(&new, Plan::default(), 1), &addresses, at(0)), None);
}
