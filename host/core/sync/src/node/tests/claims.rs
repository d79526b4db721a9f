//! Claims on physical nodes: those of others, and ours when it is released.

use std::collections::BTreeSet;

use topoloom_core::version::ResourceVersion;

use super::super::objects;
use super::*;

#[test]
fn s7_a_claim_is_not_released_while_a_virtual_node_of_ours_may_be_there() {
    let mut scene = Scene::lent();
    // The answer to its creation was lost, and no watch has shown it.
    let mut made = scene.lent.take().unwrap();
    scene.binding.selector = pool("cpu");
    assert_eq!(scene.ordered(), ["the virtual node is read"]);
    scene.live_lent = found(&made);
    assert_eq!(scene.ordered(), Vec::<String>::new(), "its watch will show it");
    made["metadata"]["labels"][keys::BINDING_UID] = json!("b-0");
    scene.live_lent = found(&made);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    made["metadata"]["labels"][keys::BINDING] = json!("west");
    scene.live_lent = found(&made);
    assert_eq!(scene.ordered(), ["release the physical node"], "a node of another is none of ours");
    scene.live_lent = LiveLent::Unasked;
    scene.bar(&[Bar::VirtualUnreachable]);
    assert_eq!(scene.ordered(), Vec::<String>::new(), "what may not be released is not read for");
    scene.bar(&[]);
    scene.settle();
    assert_eq!(scene.claim(), Value::Null);
}

#[test]
fn s7_the_claim_on_a_machine_whose_name_is_taken_stays_while_it_is_selected_and_then_goes() {
    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"labels": {keys::BINDING: "west"}}}));
    for _ in 0..3 {
        scene.step();
    }
    assert_eq!((scene.sent.len(), scene.claim()), (0, json!("vc-1/b-1")), "{:?}", scene.sent);
    // No watch of ours shows the object of another.
    let another = scene.lent.take().unwrap();
    scene.binding.selector = pool("cpu");
    scene.live_lent = found(&another);
    scene.settle();
    assert_eq!(
        (scene.sent.as_slice(), scene.claim()),
        (["release the physical node".to_owned()].as_slice(), Value::Null)
    );
}

#[test]
fn s7_an_order_about_a_machine_says_whether_its_claim_moves_or_the_label_of_its_policy_alone() {
    let version = ResourceVersion::from("7");
    let release = |also_claim| NodeOrder::ReleasePhysical { body: objects::release(&version, also_claim) };
    let patch = |claim: Option<&str>| NodeOrder::PatchPhysical {
        version: version.clone(),
        body: objects::claim(&version, claim.map(str::to_owned), Some(Some("night".to_owned()))),
    };
    for (order, moves, wanted) in [
        (release(true), true, "release the physical node"),
        (release(false), false, "remove the label of a policy from the physical node, and leave its claim as it is"),
        (patch(Some("vc-1/b-1")), true, "claim the physical node"),
        (patch(None), false, "label the physical node with the policy night"),
    ] {
        let is_claim = order.physical_change() == Some(PhysicalChange::Claim);
        assert_eq!((is_claim, order.to_string().as_str()), (moves, wanted));
    }
}

#[test]
fn s6_s7_the_claim_of_an_earlier_binding_is_taken_over_before_its_node_goes_and_released_after_it() {
    // The second node was adopted while claims could not be written.
    for label in ["b-0", "b-1"] {
        let mut scene = Scene::lent();
        scene.edit_lent(json!({"metadata": {"labels": {keys::BINDING_UID: label}}}));
        scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-1/b-0"}}}));
        scene.binding.selector = pool("cpu");
        assert_eq!(scene.ordered(), ["it is looked up whether a ClusterBinding with the UID b-0 exists"], "{label}");
        scene.settle();
        assert!(scene.lent.is_none(), "{label}: {:?}", scene.sent);
        assert_eq!(scene.claim(), Value::Null, "{label}");
        let at = |order: &str| scene.sent.iter().position(|sent| sent.starts_with(order)).unwrap();
        assert!(at("claim the physical node") < at("delete node") && at("delete node") < at("release"), "{label}");
    }
}

#[test]
fn s7_a_virtual_node_whose_machine_another_claims_goes_under_the_guard_and_releases_nothing() {
    let stand: BTreeSet<Uid> = ["b-1".into(), "b-2".into()].into();
    for (claim, bindings) in [("vc-2/b-9", None), ("vc-1/b-2", Some(stand))] {
        let mut scene = Scene::lent();
        scene.pod("p");
        scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: claim}}}));
        scene.bindings = bindings;
        assert_eq!(scene.acts().map(|(cause, acts)| (cause, acts.len())), Some((Cause::Claimed, 2)), "{claim}");
        scene.leave = Leave::Held;
        scene.settle();
        assert_eq!(scene.sent, ["patch node vnode-east-w1"], "{claim}: it is marked");
        // The claim goes again: an ordinary node.
        let mut back = Scene::lent();
        back.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-2/b-9"}}}));
        back.leave = Leave::Held;
        back.settle();
        back.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-1/b-1"}}}));
        back.settle();
        assert_eq!((back.taints().len(), back.of_lent("/spec/unschedulable")), (1, json!(false)));
        scene.leave = Leave::Given { since: scene.now.wall };
        scene.settle();
        assert!(scene.lent.is_none() && scene.sent.contains(&"remove pod team/p by eviction".to_owned()));
        assert_eq!(scene.claim(), claim, "what is another's stays");
        assert!(scene.look(|_, decision| matches!(decision.state, NodeState::Rest(Rest::Claimed(_)))));
    }
}

#[test]
fn s7_a_lent_node_whose_claim_was_edited_is_made_smaller_closed_and_emptied_and_never_larger() {
    for claim in ["", "nonsense"] {
        let edit = |claim: Value| json!({"metadata": {"annotations": {keys::LEASED_BY: claim}}});
        let mut scene = Scene::lent();
        scene.edit_physical(edit(claim.into()));
        assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)), "{claim:?}");
        scene.usage = amounts(&[("cpu", "1")]);
        scene.settle();
        assert_eq!(scene.of_lent("/status/allocatable/cpu"), "3", "{claim:?}");
        scene.usage = amounts(&[]);
        scene.pass(60 * SECOND);
        assert_eq!(scene.ordered(), Vec::<String>::new(), "{claim:?}");
        let growth = scene.details().growth.to_string();
        assert!(growth.contains("leased-by") && growth.contains("the lender"), "{growth}");
        // A policy comes that is closed at noon.
        scene.policy(|policy| {
            policy.spec.time_windows = vec![window("06:00", "08:00", &[])];
            policy.spec.force_reclaim = true;
            policy.spec.graceful_reclaim_period_seconds = Some(600);
        });
        scene.pod("p");
        scene.settle();
        assert_eq!(scene.taints()[1..], ["topoloom.dev/out-of-time-windows=true:NoSchedule"], "{claim:?}");
        scene.pass(600 * SECOND);
        scene.settle();
        assert!(scene.pods.is_empty(), "{claim:?}");
        assert!(scene.sent.iter().all(|sent| !sent.contains("physical node")), "{claim:?}: {:?}", scene.sent);
        assert_eq!((scene.claim(), scene.of_lent("/status/allocatable/cpu")), (json!(claim), json!("3")));
        // The lender removes it.
        scene.edit_physical(edit(Value::Null));
        scene.settle();
        assert_eq!((scene.claim(), scene.of_lent("/status/allocatable/cpu")), (json!("vc-1/b-1"), json!("4")));
    }
    // Where nothing is claimed, the annotation says nothing.
    let mut scene = Scene::lent();
    scene.binding.claims = NodeClaims::None;
    scene.usage = amounts(&[("cpu", "1")]);
    scene.settle();
    scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "nonsense"}}}));
    scene.usage = amounts(&[]);
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "4");
}

#[test]
fn s25_the_claim_of_another_counts_for_nothing_while_it_may_be_of_another_history() {
    for bar in Bar::ALL {
        let mut scene = Scene::lent();
        scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-2/b-9"}}}));
        scene.bar(&[bar]);
        let is_left = scene.look(|_, decision| matches!(decision.state, NodeState::Leaving(_)));
        assert_eq!(is_left, !matches!(bar, Bar::Restored | Bar::ClusterChanged), "{bar}");
        assert_eq!(scene.lease(), Some(Lease::Renew), "{bar}");
    }
    // A typing error is no one's claim.
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "nonsense"}}}));
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
}
