//! The verdict of S14, case by case.

use super::*;
use crate::resources::read_list;

fn list(texts: &[(&str, &str)]) -> ResourceList {
    read_list(texts.iter().copied()).unwrap()
}

fn foreign(requests: &ResourceList, phase: Phase) -> PhysicalPod<'_> {
    PhysicalPod { owner: PodOwner::Foreign, virtual_uid: None, phase, requests }
}

fn ours<'a>(requests: &'a ResourceList, phase: Phase) -> PhysicalPod<'a> {
    PhysicalPod { owner: PodOwner::Ours, virtual_uid: Some("v1"), ..foreign(requests, phase) }
}

#[test]
fn s14_foreign_pods_count_whole_until_they_have_ended() {
    let requests = list(&[("cpu", "1"), ("pods", "1")]);
    let of = |phase| counted(&foreign(&requests, phase), None, &"vnode-a".into());
    for phase in ["Pending", "Running", "Unknown", ""] {
        assert_eq!(of(Phase::read(phase)), Counted::Whole(WholeReason::Foreign), "{phase}");
    }
    for phase in ["Succeeded", "Failed"] {
        assert_eq!(of(Phase::read(phase)), Counted::Not(NotReason::Ended), "{phase}");
    }
}

#[test]
fn s14_a_pod_of_ours_is_left_out_only_while_the_virtual_scheduler_counts_it() {
    let node: NodeName = "vnode-a".into();
    let (uid, other_uid, other_node): (Uid, Uid, NodeName) = ("v1".into(), "v2".into(), "vnode-b".into());
    let requests = list(&[("cpu", "1"), ("pods", "1")]);
    let there = VirtualPod { uid: &uid, phase: Phase::Running, node: Some(&node), requests: &requests };
    let of = |twin: VirtualPod<'_>| counted(&ours(&requests, Phase::Running), Some(&twin), &node);
    assert_eq!(of(there), Counted::Not(NotReason::CountedThere));
    assert_eq!(of(VirtualPod { phase: Phase::Pending, ..there }), Counted::Not(NotReason::CountedThere));
    assert_eq!(of(VirtualPod { uid: &other_uid, ..there }), Counted::Whole(WholeReason::OtherUid));
    for phase in [Phase::Succeeded, Phase::Failed] {
        assert_eq!(of(VirtualPod { phase, ..there }), Counted::Whole(WholeReason::VirtualPodEnded));
    }
    assert_eq!(of(VirtualPod { node: Some(&other_node), ..there }), Counted::Whole(WholeReason::BoundElsewhere));
    assert_eq!(of(VirtualPod { node: None, ..there }), Counted::Whole(WholeReason::BoundElsewhere));

    let alone = |pod: PhysicalPod<'_>, twin| counted(&pod, twin, &node);
    let pod = ours(&requests, Phase::Pending);
    assert_eq!(alone(pod, None), Counted::Whole(WholeReason::NoVirtualPod));
    assert_eq!(
        alone(PhysicalPod { virtual_uid: None, ..pod }, Some(&there)),
        Counted::Whole(WholeReason::NoVirtualPod)
    );
    // A look-alike has the annotation and not our identity.
    let look_alike = PhysicalPod { owner: PodOwner::Foreign, ..pod };
    assert_eq!(alone(look_alike, Some(&there)), Counted::Whole(WholeReason::Foreign));
    let ended = PhysicalPod { phase: Phase::Failed, ..pod };
    assert_eq!(alone(ended, Some(&VirtualPod { uid: &other_uid, ..there })), Counted::Not(NotReason::Ended));
}

#[test]
fn s14_what_a_physical_pod_requests_beyond_its_virtual_one_counts() {
    let (node, uid): (NodeName, Uid) = ("vnode-a".into(), "v1".into());
    let physical = list(&[("cpu", "1200m"), ("memory", "1Gi"), ("example.com/x", "1"), ("pods", "1")]);
    let virtually = list(&[("cpu", "1"), ("memory", "2Gi"), ("example.com/x", "-1"), ("pods", "1")]);
    let twin = VirtualPod { uid: &uid, phase: Phase::Running, node: Some(&node), requests: &virtually };
    let verdict = counted(&ours(&physical, Phase::Running), Some(&twin), &node);
    let over = list(&[("cpu", "200m"), ("example.com/x", "1")]);
    assert_eq!(verdict.summary().to_string(), "counts with what it requests beyond its virtual pod");
    assert_eq!(verdict, Counted::Excess { over });
}

#[test]
fn s14_the_pods_of_a_virtual_node_count_until_they_have_ended() {
    let (node, uid, requests) = (NodeName::from("vnode-a"), Uid::from("v1"), list(&[("cpu", "1")]));
    let of = |phase| counted_there(&VirtualPod { uid: &uid, phase, node: Some(&node), requests: &requests });
    for phase in [Phase::Pending, Phase::Running, Phase::Unknown] {
        assert_eq!(of(phase), Counted::Whole(WholeReason::Virtual));
    }
    for phase in [Phase::Succeeded, Phase::Failed] {
        assert_eq!(of(phase), Counted::Not(NotReason::Ended));
    }
}
