//! Annotations of other clients at the limit of the API server: only annotations of ours wait for room among them.

use super::*;
use crate::copied::ANNOTATIONS_MAX;
use crate::merge::INFORMATION;

const FILLER: &str = "user.io/filler";
const CLOSED: &str = "topoloom.dev/out-of-time-windows=true:NoSchedule";
const EXECUTES: &str = "topoloom.dev/out-of-time-windows=true:NoExecute";

/// A user fills all the room that the annotations of the virtual node have.
fn fill(scene: &mut Scene) {
    let annotations = scene.of_lent("/metadata/annotations");
    let others = annotations.as_object().unwrap().iter().filter(|(key, _)| *key != FILLER);
    let bytes: usize = others.map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum();
    let filler = "x".repeat(ANNOTATIONS_MAX - bytes - FILLER.len());
    scene.edit_lent(json!({"metadata": {"annotations": {FILLER: filler}}}));
}

/// The same again and again, until nothing of ours is left that could make room.
fn filled(mut scene: Scene) -> Scene {
    for _ in 0..3 {
        fill(&mut scene);
        scene.settle();
    }
    fill(&mut scene);
    assert_eq!(scene.ordered(), Vec::<String>::new(), "it is at rest");
    scene.sent.clear();
    scene
}

#[test]
fn s17_a_window_closes_and_its_pods_go_although_no_annotation_has_room() {
    for (grace, seconds) in [(Some(0), 0_u32), (Some(600), 600)] {
        let mut scene = Scene::new();
        scene.policy(|policy| {
            policy.spec.time_windows = vec![window("06:00", "08:00", &[])];
            policy.spec.force_reclaim = true;
            policy.spec.graceful_reclaim_period_seconds = grace;
        });
        scene.now.wall = at("2026-08-03T07:00:00Z");
        scene.settle();
        scene.pod("p");
        let mut scene = filled(scene);
        scene.now.wall = at("2026-08-03T08:01:00Z");
        if seconds > 0 {
            scene.settle();
            assert_eq!((scene.taints()[1].as_str(), scene.pods.len()), (CLOSED, 1));
            scene.pass(seconds * SECOND);
        }
        scene.step();
        assert_eq!(scene.sent.last().unwrap(), "remove pod team/p by deletion");
        scene.settle();
        assert_eq!(scene.taints()[1..], [EXECUTES]);
        assert_eq!(scene.annotation(keys::RECLAIM_STARTED), None);
        scene.now.wall = at("2026-08-04T06:00:00Z");
        scene.settle();
        assert_eq!(scene.taints().len(), 1, "it opens, too");
    }
}

#[test]
fn s10_a_node_is_marked_emptied_and_taken_away_although_no_annotation_has_room() {
    let mut scene = Scene::lent();
    scene.pod("p");
    let mut scene = filled(scene);
    scene.binding.selector = pool("cpu");
    scene.leave = Leave::Held;
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"], "once");
    assert!(scene.taints().contains(&"topoloom.dev/vnode-deleting=true:NoSchedule".to_owned()));
    assert_eq!((scene.of_lent("/spec/unschedulable"), scene.annotation(keys::CORDONED)), (json!(true), None));
    scene.leave = Leave::Given { since: scene.now.wall };
    scene.settle();
    assert!(scene.lent.is_none() && scene.pods.is_empty(), "{:?}", scene.sent);
}

#[test]
fn s10_a_cordon_that_could_not_be_noted_stays_for_a_person_where_the_cause_goes() {
    let mut scene = filled(Scene::lent());
    mark_and_keep(&mut scene);
    assert_eq!(scene.of_lent("/spec/unschedulable"), json!(true));
}

#[test]
fn s10_what_only_informs_makes_room_for_the_mark_of_a_node() {
    let mut scene = Scene::lent();
    fill(&mut scene);
    scene.binding.selector = pool("cpu");
    scene.leave = Leave::Held;
    scene.settle();
    assert_eq!(scene.annotation(keys::CORDONED).as_deref(), Some("true"));
    assert!(scene.annotation(keys::DELETION_TAINT_TIME).is_some());
    assert_eq!(INFORMATION.map(|key| scene.annotation(key)), [None, None, None]);
}

#[test]
fn s14_a_node_becomes_smaller_although_no_annotation_has_room() {
    let full = |mut scene: Scene| {
        fill(&mut scene);
        scene
    };
    for mut scene in [filled(Scene::lent()), full(Scene::lent())] {
        scene.usage = amounts(&[("cpu", "1500m")]);
        scene.settle();
        assert_eq!(scene.of_lent("/status/allocatable/cpu"), json!("2500m"));
    }
}

#[test]
fn s12_s13_that_other_clients_leave_no_room_is_a_remark_with_what_to_type_until_there_is_room_again() {
    let mut scene = Scene::lent();
    fill(&mut scene);
    let remark = scene.details().remark().unwrap();
    assert!(remark.starts_with("annotations of other clients have 26"), "{remark}");
    for part in ["on node vnode-east-w1", "at most 262144", "`kubectl annotate node vnode-east-w1 user.io/filler-`"] {
        assert!(remark.contains(part), "{remark}");
    }
    scene.settle();
    assert_eq!(INFORMATION.map(|key| scene.annotation(key)), [None, None, None]);
    assert_eq!(scene.annotation("vendor.io/serial"), None);
    scene.edit_lent(json!({"metadata": {"annotations": {FILLER: null}}}));
    scene.settle();
    assert_eq!(scene.details().remark(), None);
    assert!(scene.annotation(keys::LEASE_SUMMARY).is_some());
    assert_eq!(scene.annotation("vendor.io/serial").as_deref(), Some("4711"));
}
