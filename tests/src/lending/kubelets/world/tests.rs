//! Kubelets against objects as an API server sends them, without one.

use serde_json::json;

use super::*;
use crate::lending::kubelets::plan::RUN;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_785_564_600 + second).unwrap()
}

struct Stage {
    world: World,
    version: u64,
}

impl Stage {
    fn new() -> Self {
        let usual = Amounts::from([("cpu".to_owned(), 4000), ("pods".to_owned(), 110_000)]);
        let world = World::new(1, json!({"cpu": "4", "pods": "110"}), usual, Arc::default());
        Self { world, version: 0 }
    }

    fn node(&mut self, name: &str, uid: &str, labels: Value) {
        let node = json!({"metadata": {"name": name, "uid": uid, "labels": labels}});
        self.world.node(&serde_json::from_value(node).unwrap(), at(0));
    }

    fn pod_with(&mut self, uid: &str, node: &str, metadata: Value, status: Value) {
        self.version += 1;
        let resources = json!({"requests": {"cpu": "3"}});
        let mut pod = json!({
            "metadata": {"name": uid, "namespace": "d", "uid": uid, "resourceVersion": self.version.to_string()},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": resources}]},
            "status": status,
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        self.world.pod(serde_json::from_value(pod).unwrap());
    }

    fn pod(&mut self, uid: &str, node: &str) {
        self.pod_with(uid, node, json!({}), json!({"phase": "Pending"}));
    }

    /// On the node `w`, with a host port.
    fn pod_with_port(&mut self, uid: &str) {
        self.version += 1;
        let pod = json!({
            "metadata": {"name": uid, "namespace": "d", "uid": uid, "resourceVersion": self.version.to_string()},
            "spec": {"nodeName": "w", "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]},
            "status": {"phase": "Pending"},
        });
        self.world.pod(serde_json::from_value(pod).unwrap());
    }

    fn deleted(&mut self, uid: &str, node: &str) {
        self.pod_with(uid, node, json!({"deletionTimestamp": "2026-08-01T06:10:30Z"}), json!({"phase": "Running"}));
    }

    /// Everything that is done by this time, as an API server that accepts all lets it happen. Leases and nodes are left
    /// out.
    fn does(&mut self, second: i64) -> Vec<String> {
        let mut words = Vec::new();
        self.world.agenda.wake(at(second));
        while let Some(key) = self.world.agenda.take() {
            if let Some(work) = self.world.look(&key, at(second)) {
                let (word, done) = self.accepts(work);
                words.extend(word);
                self.world.finish(&key, done, at(second));
            }
            self.world.agenda.done(&key);
        }
        words
    }

    fn accepts(&mut self, work: Work) -> (Option<String>, Done) {
        match work {
            Work::Renew(_) | Work::ShowNode(..) => (None, Done::Written),
            Work::ShowPod(pod, status) => {
                self.version += 1;
                let reason = status["reason"].as_str().map(|reason| format!(" {reason}")).unwrap_or_default();
                let word = format!("{} {}{reason}", pod.name, status["phase"].as_str().unwrap_or_default());
                (Some(word), Done::Shown(status, self.version))
            }
            Work::Check(..) => (None, Done::Checked(Default::default())),
            Work::Bury(pod) => (Some(format!("bury {}", pod.name)), Done::Buried),
        }
    }
}

#[test]
fn kubelets_that_write_the_status_alone_renew_no_lease() {
    let written = |beats: Beats| {
        let mut stage = Stage::new();
        stage.world.beats = beats;
        stage.node("w", "U1", json!({}));
        [Key::Lease("w".into()), Key::Node("w".into())].map(|key| stage.world.look(&key, at(0)).is_some())
    };
    assert_eq!(written(Beats::All), [true, true]);
    assert_eq!(written(Beats::Status), [false, true]);
}

#[test]
fn kubelets_that_renew_leases_again_do_it_evenly_spread() {
    let mut stage = Stage::new();
    stage.world.order(Order::Beats(Beats::Status), at(0));
    (0..10).for_each(|number| stage.node(&format!("w{number}"), &format!("U{number}"), json!({})));
    stage.does(0);
    stage.world.order(Order::Beats(Beats::All), at(100));
    let renewed = |stage: &mut Stage, second: i64| {
        stage.world.agenda.wake(at(second));
        std::iter::from_fn(|| stage.world.agenda.take()).filter(|key| matches!(key, Key::Lease(_))).count()
    };
    assert_eq!([99, 100, 104, 109].map(|second| renewed(&mut stage, second)), [0, 1, 4, 5]);
}

#[test]
fn a_pod_is_taken_runs_and_ends() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod_with("a", "w", json!({"annotations": {RUN: "5s,Succeeded"}}), json!({}));
    assert_eq!(stage.does(0), ["a Pending", "a Running"]);
    assert_eq!(stage.does(4), [""; 0]);
    assert_eq!(stage.does(5), ["a Succeeded"]);
    assert_eq!(stage.does(9000), [""; 0]);
}

#[test]
fn a_pod_that_does_not_fit_fails_and_leaves_its_room() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod("a", "w");
    stage.pod("b", "w");
    assert_eq!(stage.does(0), ["a Pending", "b Failed OutOfcpu", "a Running"]);
    stage.world.pod_gone("a");
    stage.pod("c", "w");
    assert_eq!(stage.does(1), ["c Pending", "c Running"]);
}

#[test]
fn a_pod_whose_host_port_is_taken_fails_until_that_pod_has_ended() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod_with_port("a");
    assert_eq!(stage.does(0), ["a Pending", "a Running"]);
    stage.pod_with_port("b");
    assert_eq!(stage.does(1), ["b Failed NodePorts"]);
    stage.world.pod_gone("a");
    stage.pod_with_port("c");
    assert_eq!(stage.does(2), ["c Pending", "c Running"]);
}

#[test]
fn a_deleted_pod_shows_its_end_and_then_goes_even_if_a_finalizer_keeps_it() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod("a", "w");
    stage.does(0);
    stage.deleted("a", "w");
    assert_eq!(stage.does(1), ["a Failed", "bury a"]);
    let ended = json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}]});
    stage.pod_with("a", "w", json!({"deletionTimestamp": "2026-08-01T06:10:30Z", "finalizers": ["x.io/keep"]}), ended);
    assert_eq!(stage.does(2), [""; 0]);
}

#[test]
fn virtual_nodes_and_nodes_that_are_not_there_are_left_alone() {
    let mut stage = Stage::new();
    stage.node("v", "U1", json!({"type": "virtual-kubelet"}));
    stage.pod("a", "v");
    stage.pod("b", "w");
    stage.deleted("c", "v");
    assert_eq!(stage.does(0), [""; 0]);
    stage.node("w", "U2", json!({}));
    assert_eq!(stage.does(1), ["b Pending", "b Running"]);
    stage.world.node_gone("w");
    stage.deleted("b", "w");
    assert_eq!(stage.does(2), [""; 0], "a machine that is gone ends nothing");
    stage.node("w", "U3", json!({"type": "virtual-kubelet"}));
    assert_eq!(stage.does(3), [""; 0]);
}

#[test]
fn a_silent_kubelet_does_nothing_until_it_speaks() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.does(0);
    stage.world.order(Order::Health("w".into(), Health::Silent), at(1));
    stage.pod_with("a", "w", json!({"annotations": {RUN: "5s,Succeeded"}}), json!({}));
    assert_eq!(stage.does(2), [""; 0]);
    assert!(stage.world.look(&Key::Lease("w".into()), at(2)).is_none());
    assert!(stage.world.look(&Key::Node("w".into()), at(2)).is_none());
    stage.world.order(Order::Health("w".into(), Health::NotReady), at(3));
    assert_eq!(stage.does(3), ["a Pending", "a Running"], "a kubelet that is not ready still works");
    assert!(stage.world.look(&Key::Lease("w".into()), at(3)).is_some());
}

#[test]
fn pressure_evicts_the_least_important_pods_first() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    for (uid, priority) in [("a", 0), ("b", -5), ("c", 9)] {
        stage.pod(uid, "w");
        let seat = stage.world.seats.get_mut(uid).unwrap();
        seat.requested.insert("cpu".into(), 0);
        seat.pod.spec.as_mut().unwrap().priority = Some(priority);
        seat.pod.spec.as_mut().unwrap().containers[0].resources = None;
    }
    stage.does(0);
    let pressure = Order::Pressure { node: "w".into(), pressure: Pressure::Memory, evicted: 2 };
    stage.world.order(pressure, at(1));
    assert_eq!(stage.does(1), ["a Failed Evicted", "b Failed Evicted"]);
    stage.pod("d", "w");
    stage.world.seats.get_mut("d").unwrap().pod.spec.as_mut().unwrap().containers[0].resources = None;
    assert_eq!(stage.does(2), ["d Failed Evicted"], "it requests no memory");
    stage.world.order(Order::Relief("w".into()), at(3));
    stage.pod("e", "w");
    assert_eq!(stage.does(3), ["e Pending", "e Running"]);
}

#[test]
fn what_another_writer_changed_is_set_back_and_old_events_count_nothing() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod("a", "w");
    assert_eq!(stage.does(0), ["a Pending", "a Running"]);
    let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    let newest = stage.version;
    stage.version = 1;
    stage.pod_with("a", "w", json!({}), unready.clone());
    assert_eq!(stage.does(1), [""; 0], "it was written before");
    stage.version = newest;
    stage.pod_with("a", "w", json!({}), unready);
    assert_eq!(stage.does(2), ["a Running"]);
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    stage.pod_with("a", "w", json!({}), ready);
    assert_eq!(stage.does(3), [""; 0]);
}

#[test]
fn an_annotation_that_cannot_be_read_fails_the_pod() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod_with("a", "w", json!({"annotations": {RUN: "soon"}}), json!({}));
    assert_eq!(stage.does(0), ["a Failed UnexpectedAdmissionError"]);
    let mistakes = stage.world.mistakes.all();
    assert!(mistakes.len() == 1 && mistakes[0].contains(RUN), "{mistakes:?}");
}

#[test]
fn a_machine_that_was_replaced_takes_over_its_pods_as_they_are_stored() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod("a", "w");
    stage.does(0);
    stage.node("w", "U2", json!({}));
    // The API server has it as Pending: to the new machine it is new.
    assert_eq!(stage.does(1), ["a Pending", "a Running"]);
}

#[test]
fn a_list_without_a_pod_or_a_node_takes_it_away() {
    let mut stage = Stage::new();
    stage.node("w", "U1", json!({}));
    stage.pod("a", "w");
    stage.does(0);
    stage.world.only_pods(&HashSet::new());
    assert!(stage.world.seats.is_empty() && stage.world.bound.is_empty());
    stage.world.only_nodes(&HashSet::new());
    assert!(stage.world.look(&Key::Lease("w".into()), at(1)).is_none());
}
