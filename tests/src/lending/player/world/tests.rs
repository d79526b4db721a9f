//! A player against objects as two API servers send them, without them.

use topoloom_sync::identity::Identity;
use topoloom_sync::naming::BindingName;

use super::*;
use crate::lending::player::{Fault, Scope};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_785_564_600 + second).unwrap()
}

/// A player, and two API servers that hold one pod each.
struct Stage {
    world: World,
    virtual_pod: Value,
    physical: Option<Value>,
    version: u64,
    made: u64,
}

impl Stage {
    fn new() -> Self {
        let identity = Identity::new("cluster".into(), BindingName::parse("east").unwrap(), "binding".into()).unwrap();
        let copier = Copier { identity, namespace: "borrowed".to_owned() };
        let world = World::new(copier, Duration::from_secs(2), Arc::default());
        let virtual_pod = json!({
            "metadata": {"namespace": "shop", "name": "web-0", "uid": "v", "annotations": {}},
            "spec": {"nodeName": "vnode-east-w1", "containers": [{"name": "c"}]}, "status": {"phase": "Pending"},
        });
        let mut stage = Self { world, virtual_pod, physical: None, version: 0, made: 0 };
        stage.node("east");
        stage.world.only_physicals(&HashSet::new(), at(0));
        stage
    }

    fn node(&mut self, binding: &str) {
        let labels = json!({
            keys::VIRTUAL_CLUSTER: "cluster", keys::BINDING: binding, keys::BINDING_UID: "binding",
            keys::PHYSICAL_NODE_NAME: "hashed",
        });
        let annotations = json!({keys::PHYSICAL_NODE_NAME: "w1"});
        let node = json!({"metadata": {"name": "vnode-east-w1", "labels": labels, "annotations": annotations}});
        self.world.node(&serde_json::from_value(node).unwrap());
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Sends the virtual pod with these changes.
    fn sees(&mut self, path: &str, value: Value) {
        let version = self.next_version();
        if let Some((parent, key)) = path.rsplit_once('/') {
            self.virtual_pod.pointer_mut(parent).unwrap()[key] = value;
        }
        self.virtual_pod["metadata"]["resourceVersion"] = json!(version);
        self.world.virtual_pod(serde_json::from_value(self.virtual_pod.clone()).unwrap());
    }

    fn terminates(&mut self) {
        self.virtual_pod["metadata"]["deletionGracePeriodSeconds"] = json!(7);
        self.sees("/metadata/deletionTimestamp", json!("2026-08-01T06:10:00Z"));
    }

    fn physical_ends(&mut self, phase: &str, second: i64) {
        let mut pod = self.physical.take().unwrap();
        pod["status"] = json!({"phase": phase});
        self.world.physical_gone(&serde_json::from_value(pod).unwrap(), at(second));
    }

    /// Everything that is done by this time, as two API servers that accept all let it happen.
    fn does(&mut self, second: i64) -> Vec<String> {
        let mut words = Vec::new();
        self.world.agenda.wake(at(second));
        while let Some(uid) = self.world.agenda.take() {
            if let Some((step, work)) = self.world.look(&uid, at(second)) {
                let (word, done) = self.accepts(work);
                words.push(format!("{step:?} {word}").trim().to_owned());
                self.world.finish(&uid, step, done, at(second));
            }
            self.world.agenda.done(&uid);
        }
        words
    }

    fn accepts(&mut self, work: Work) -> (String, Done) {
        let version = self.next_version();
        let pod = |value: &Value| Box::new(serde_json::from_value::<Pod>(value.clone()).unwrap());
        match work {
            Work::Annotate(_, annotations) => {
                self.virtual_pod["metadata"]["resourceVersion"] = json!(version);
                for (key, value) in annotations.as_object().unwrap() {
                    self.virtual_pod["metadata"]["annotations"][key] = value.clone();
                }
                (String::new(), Done::Virtual(pod(&self.virtual_pod)))
            }
            Work::Create(copy) => {
                if let Some(other) = &self.physical {
                    return (String::new(), Done::Found(pod(other)));
                }
                let mut made = serde_json::to_value(&copy).unwrap();
                self.made += 1;
                let uid = format!("p{}", self.made);
                let node = made["spec"]["nodeName"].as_str().unwrap().to_owned();
                (made["metadata"]["uid"], made["metadata"]["resourceVersion"]) = (json!(uid), json!(version));
                (node, Done::Physical(Some(pod(self.physical.insert(made)))))
            }
            Work::DeletePhysical(name, grace) => {
                let physical = self.physical.as_mut().unwrap();
                physical["metadata"]["resourceVersion"] = json!(version);
                physical["metadata"]["deletionTimestamp"] = json!("2026-08-01T06:10:07Z");
                physical["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                let done = Done::Physical(Some(pod(physical)));
                (format!("{} {grace:?}", name.uid), done)
            }
            Work::Finish { version: judged, .. } if self.virtual_pod["metadata"]["resourceVersion"] != *judged => {
                ("conflict".to_owned(), Done::Again)
            }
            Work::Finish { status, .. } => {
                self.virtual_pod["metadata"]["resourceVersion"] = json!(version);
                self.virtual_pod["status"] = status.clone();
                let reason = status["reason"].as_str().unwrap_or_default();
                let word = format!("{} {reason}", status["phase"].as_str().unwrap());
                (word, Done::Virtual(pod(&self.virtual_pod)))
            }
            Work::Remove { .. } => (String::new(), Done::Removed),
        }
    }

    /// A pod that is copied and runs.
    fn copied() -> Self {
        let mut stage = Self::new();
        stage.sees("", Value::Null);
        assert_eq!(stage.does(0), ["WriteNames", "Create w1", "WriteUid"]);
        stage
    }
}

#[test]
fn a_bound_pod_is_copied_in_three_steps_and_once() {
    let mut stage = Stage::copied();
    stage.sees("/status/phase", json!("Running"));
    assert_eq!(stage.does(1), [""; 0]);
    let annotations = &stage.virtual_pod["metadata"]["annotations"];
    assert_eq!(annotations[keys::PHYSICAL_POD_NAMESPACE], "borrowed");
    assert_eq!(annotations[keys::PHYSICAL_POD_NAME], "web-0-d8e9078212837472931ac9807f48a030");
    assert_eq!(annotations[keys::PHYSICAL_POD_UID], "p1");
    let steps: Vec<_> = stage.world.shared.made().iter().map(|made| made.step).collect();
    assert_eq!(steps, [Step::WriteNames, Step::Create, Step::WriteUid]);
}

#[test]
fn pods_of_other_nodes_and_other_bindings_are_left_alone() {
    let mut stage = Stage::new();
    stage.sees("/spec/nodeName", json!("real"));
    assert_eq!(stage.does(0), [""; 0]);
    let mut stage = Stage::new();
    stage.world.nodes.clear();
    stage.node("west");
    stage.sees("", Value::Null);
    assert_eq!(stage.does(0), [""; 0]);
    stage.node("east");
    assert_eq!(stage.does(0), ["WriteNames", "Create w1", "WriteUid"], "the node came after the pod");
}

#[test]
fn nothing_is_done_before_all_physical_pods_are_known() {
    let mut stage = Stage::new();
    stage.world.synced = false;
    stage.sees("", Value::Null);
    assert_eq!(stage.does(0), [""; 0]);
    stage.world.only_physicals(&HashSet::new(), at(0));
    assert_eq!(stage.does(0), ["WriteNames", "Create w1", "WriteUid"]);
}

#[test]
fn s10_a_terminating_pod_ends_with_the_phase_that_was_copied() {
    let mut stage = Stage::copied();
    stage.terminates();
    assert_eq!(stage.does(1), ["DeletePhysical p1 Some(7)"]);
    stage.physical_ends("Succeeded", 2);
    assert_eq!(stage.does(2), [""; 0], "the bottom-up half copies the phase");
    stage.sees("/status/phase", json!("Succeeded"));
    assert_eq!(stage.does(3), ["Remove"]);
    stage.sees("", Value::Null);
    assert_eq!(stage.does(9), [""; 0], "a finalizer keeps it");
}

#[test]
fn s10_a_physical_pod_has_no_more_time_than_its_virtual_one_also_where_that_gets_less() {
    let mut stage = Stage::copied();
    stage.terminates();
    assert_eq!(stage.does(1), ["DeletePhysical p1 Some(7)"]);
    stage.sees("/metadata/deletionGracePeriodSeconds", json!(3));
    assert_eq!(stage.does(2), ["DeletePhysical p1 Some(3)"]);
    stage.sees("/status/phase", json!("Running"));
    assert_eq!(stage.does(3), [""; 0], "once");
}

#[test]
fn s10_without_a_bottom_up_half_it_writes_the_phase_itself() {
    let mut stage = Stage::copied();
    stage.terminates();
    stage.does(1);
    stage.physical_ends("Succeeded", 2);
    assert_eq!(stage.does(3), [""; 0]);
    assert_eq!(stage.does(4), ["WriteFinal Succeeded", "Remove"]);

    let mut stage = Stage::copied();
    stage.terminates();
    stage.does(1);
    stage.physical_ends("Running", 2);
    assert_eq!(stage.does(2), ["WriteFinal Failed PhysicalPodLost", "Remove"], "it was deleted by force");
}

#[test]
fn s10_an_end_that_the_bottom_up_half_wrote_a_moment_before_is_not_overwritten() {
    let mut stage = Stage::copied();
    stage.terminates();
    stage.does(1);
    stage.physical_ends("Running", 2);
    // Its event has not arrived.
    let version = stage.next_version();
    stage.virtual_pod["metadata"]["resourceVersion"] = json!(version);
    stage.virtual_pod["status"]["phase"] = json!("Succeeded");
    assert_eq!(stage.does(2), ["WriteFinal conflict"]);
    stage.sees("", Value::Null);
    assert_eq!(stage.does(3), ["Remove"]);
    assert_eq!(stage.virtual_pod["status"]["phase"], "Succeeded");
}

#[test]
fn a_physical_pod_that_ended_and_vanished_ends_its_virtual_pod_as_it_was_seen_to_end() {
    let mut stage = Stage::copied();
    stage.sees("/status/phase", json!("Running"));
    stage.physical_ends("Succeeded", 1);
    assert_eq!(stage.does(1), [""; 0], "the bottom-up half copies the phase");
    assert_eq!(stage.does(3), ["Lose Succeeded"]);
}

#[test]
fn a_physical_pod_that_vanished_fails_its_virtual_pod() {
    let mut stage = Stage::copied();
    stage.sees("/status/phase", json!("Running"));
    stage.physical_ends("Running", 1);
    assert_eq!(stage.does(1), ["Lose Failed PhysicalPodLost"]);
    assert_eq!(stage.does(9), [""; 0]);
}

#[test]
fn an_absence_that_the_server_does_not_confirm_changes_nothing() {
    let mut stage = Stage::copied();
    stage.sees("/status/phase", json!("Running"));
    let pod: Pod = serde_json::from_value(stage.physical.clone().unwrap()).unwrap();
    stage.world.physicals.clear();
    stage.world.look_at_all();
    let uid = stage.world.agenda.take().unwrap();
    let (step, _) = stage.world.look(&uid, at(1)).unwrap();
    assert_eq!(step, Step::Lose);
    stage.world.finish(&uid, step, Done::Found(Box::new(pod)), at(1));
    stage.world.agenda.done(&uid);
    assert_eq!(stage.does(1), [""; 0]);
    assert_eq!(stage.world.shared.made().len(), 3);
}

#[test]
fn an_old_answer_does_not_bring_a_deleted_pod_back() {
    let mut stage = Stage::copied();
    let pod: Pod = serde_json::from_value(stage.physical.clone().unwrap()).unwrap();
    stage.sees("/status/phase", json!("Running"));
    stage.physical_ends("Running", 1);
    stage.world.physical_pod(pod);
    assert!(stage.world.physicals.is_empty());
}

#[test]
fn a_player_that_died_between_two_steps_takes_the_pod_that_is_there() {
    let mut stage = Stage::new();
    stage.world.shared.faults().add(Scope::All, Fault::Dies { before: Step::WriteUid });
    stage.sees("", Value::Null);
    assert_eq!(stage.does(0), ["WriteNames", "Create w1"]);
    stage.sees("", Value::Null);
    assert_eq!(stage.does(60), [""; 0]);
    // A new process begins with the objects alone.
    stage.world.physicals.clear();
    stage.world.shared.faults().heal(&Scope::All);
    stage.world.look_at_all();
    assert_eq!(stage.does(61), ["Create", "WriteUid"], "the second Create found the pod of the first");
}

#[test]
fn a_player_that_died_has_forgotten_how_a_pod_ended() {
    let mut stage = Stage::copied();
    stage.terminates();
    stage.does(1);
    stage.world.shared.faults().add(Scope::pod("shop", "web-0"), Fault::Dies { before: Step::WriteFinal });
    stage.physical_ends("Succeeded", 2);
    assert_eq!(stage.does(9), [""; 0]);
    stage.world.shared.faults().heal(&Scope::pod("shop", "web-0"));
    stage.world.look_at_all();
    assert_eq!(stage.does(10), ["WriteFinal Failed PhysicalPodLost", "Remove"]);
}

#[test]
fn a_late_player_makes_each_step_later() {
    let mut stage = Stage::new();
    stage.world.shared.faults().add(Scope::All, Fault::Late(Duration::from_secs(5)));
    stage.sees("", Value::Null);
    assert_eq!(stage.does(0), [""; 0]);
    stage.sees("", Value::Null);
    assert_eq!(stage.does(4), [""; 0]);
    assert_eq!(stage.does(5), ["WriteNames"]);
    assert_eq!(stage.does(9), [""; 0]);
    assert_eq!(stage.does(10), ["Create w1"]);
    stage.world.shared.faults().heal(&Scope::All);
    stage.world.look_at_all();
    assert_eq!(stage.does(10), ["WriteUid"]);
}

#[test]
fn a_step_that_is_refused_is_a_mistake_and_not_repeated() {
    let mut stage = Stage::new();
    stage.sees("", Value::Null);
    let uid = stage.world.agenda.take().unwrap();
    let (step, _) = stage.world.look(&uid, at(0)).unwrap();
    stage.world.finish(&uid, step, Done::Refused("no".to_owned()), at(0));
    stage.world.agenda.done(&uid);
    assert_eq!(stage.does(60), [""; 0]);
    let mistakes = stage.world.shared.mistakes.all();
    assert!(mistakes.len() == 1 && mistakes[0].contains("shop/web-0"), "{mistakes:?}");
    stage.sees("", Value::Null);
    assert_eq!(stage.does(61), ["WriteNames", "Create w1", "WriteUid"]);
}

#[test]
fn a_pod_that_was_made_again_waits_until_the_old_physical_one_is_gone() {
    let mut stage = Stage::copied();
    stage.world.virtual_gone("v");
    stage.virtual_pod["metadata"]["uid"] = json!("v2");
    stage.virtual_pod["metadata"]["annotations"] = json!({});
    stage.sees("", Value::Null);
    assert_eq!(stage.does(1), ["DeletePhysical p1 None", "WriteNames"]);
    stage.physical_ends("Running", 2);
    assert_eq!(stage.does(2), ["Create w1", "WriteUid"]);
    assert_eq!(stage.world.virtuals.len(), 1);
}

#[test]
fn a_player_that_was_dead_when_a_pod_went_leaves_its_physical_pod_as_an_orphan() {
    let mut stage = Stage::copied();
    stage.world.shared.faults().add(Scope::All, Fault::Dies { before: Step::DeletePhysical });
    stage.world.virtual_gone("v");
    assert_eq!(stage.does(1), [""; 0]);
    stage.world.shared.faults().heal(&Scope::All);
    stage.world.look_at_all();
    assert_eq!(stage.does(2), [""; 0]);
    assert!(stage.world.virtuals.is_empty() && stage.world.bearers.is_empty());
    assert_eq!(stage.world.physicals.len(), 1);
}
