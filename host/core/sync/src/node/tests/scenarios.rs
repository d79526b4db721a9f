//! Scenarios of section 15, step by step: 15.2, 15.3 and 15.6 to 15.8. The first one is a test of the room above, 15.4 is in `merge`,
//! and 15.5 in `reclaim`.

use super::*;
use crate::liveness::Doubt;
use crate::phase::Phase;
use crate::sizes::counted::{PhysicalPod, PodOwner, counted};
use crate::sizes::usage::{NodeUsage, PodUse, UsageChange};

fn cpu(scene: &Scene) -> Value {
    scene.of_lent("/status/allocatable/cpu")
}

/// A pod of the lender with one core.
fn foreign(phase: Phase) -> PodUse {
    let requests = amounts(&[("cpu", "1"), ("pods", "1")]);
    let pod = PhysicalPod { owner: PodOwner::Foreign, virtual_uid: None, phase, requests: &requests };
    PodUse::new(&counted(&pod, None, &"vnode-east-w1".into()), &requests)
}

#[test]
fn scenario_15_2_a_pod_of_the_lender_makes_the_node_smaller_before_the_percent_and_its_end_makes_it_larger() {
    let mut scene = Scene::new();
    scene.policy(|policy| {
        policy.spec.resource_limits = vec![LimitSpec { resource: "cpu".into(), quantity: None, percent: Some(50) }];
    });
    scene.settle();
    assert_eq!(cpu(&scene), "2");
    scene.sent.clear();
    let (mut usage, uid): (_, Uid) = (NodeUsage::default(), "f".into());
    // It is bound, and half of three cores is left.
    assert_eq!(usage.set(&uid, foreign(Phase::Pending)), UsageChange::Changed);
    scene.usage = usage.total();
    scene.settle();
    assert_eq!((cpu(&scene), scene.sent.len()), (json!("1500m"), 1));
    assert_eq!(usage.set(&uid, foreign(Phase::Running)), UsageChange::Same);
    assert_eq!(usage.set(&uid, foreign(Phase::Succeeded)), UsageChange::Changed);
    scene.usage = usage.total();
    scene.settle();
    assert_eq!((cpu(&scene), scene.sent.len()), (json!("2"), 2));
}

#[test]
fn scenario_15_3_a_machine_that_is_made_again_is_emptied_looked_at_every_10_s_and_lent_as_a_new_node() {
    let mut scene = Scene::lent();
    let old = scene.of_lent("/metadata/uid");
    scene.pod("p");
    scene.physical = Some(machine("w1", "u2"));
    scene.step();
    scene.step();
    assert_eq!(scene.sent, ["the physical node is read", "patch node vnode-east-w1"]);
    assert!(scene.taints().contains(&"topoloom.dev/vnode-deleting=true:NoSchedule".to_owned()));
    assert_eq!(scene.of_lent("/spec/unschedulable"), true);
    assert_eq!(scene.ordered(), ["remove pod team/p by deletion"]);
    // It takes its time.
    scene.pods[0].existence = Existence::Terminating;
    for _ in 0..3 {
        assert_eq!(scene.ordered(), Vec::<String>::new());
        assert_eq!(scene.next(), Some(scene.now.wall.checked_add(10 * SECOND).unwrap()));
        scene.pass(10 * SECOND);
    }
    assert_eq!(scene.of_lent("/metadata/uid"), old);
    scene.pods.clear();
    scene.settle();
    let place = |order: &str| scene.sent.iter().position(|sent| sent.starts_with(order)).unwrap();
    let order = ["stop the lease", "delete node", "remove the finalizer", "claim the physical node", "create node"];
    let places = order.map(place);
    assert!(places.is_sorted(), "{:?}", scene.sent);
    assert_ne!(scene.of_lent("/metadata/uid"), old);
    assert_eq!(scene.of_lent("/metadata/labels").get(keys::PHYSICAL_NODE_UID), Some(&json!("u2")));
}

#[test]
fn scenario_15_6_a_policy_that_is_deleted_gives_way_to_the_next_in_age_and_the_last_one_to_what_the_binding_says() {
    let cores = |number: &str| vec![LimitSpec { resource: "cpu".into(), quantity: Some(number.into()), percent: None }];
    let mut scene = Scene::new();
    scene.policy(|policy| policy.spec.resource_limits = cores("1"));
    for (name, created, limit) in [("a-young", "2026-03-01T00:00:00Z", "3"), ("day", "2026-02-01T00:00:00Z", "2")] {
        scene.policy(|policy| {
            policy.name = name.to_owned();
            policy.uid = name.into();
            policy.created = Some(at(created));
            policy.spec.resource_limits = cores(limit);
        });
    }
    let shows = |scene: &Scene| {
        let label = scene.physical.as_ref().unwrap()["metadata"]["labels"][keys::POLICY_APPLIED].clone();
        (cpu(scene), scene.annotation(keys::POLICIES_APPLIED).unwrap(), label)
    };
    scene.settle();
    assert_eq!(shows(&scene), (json!("1"), "night".to_owned(), json!("night")));
    // The next one is in force at once, also where it lends more.
    for (deleted, next, limit) in [("night", "day", "2"), ("day", "a-young", "3")] {
        scene.policies.remove(deleted);
        scene.memory.grown = None;
        scene.settle();
        assert_eq!(shows(&scene), (json!(limit), next.to_owned(), json!(next)), "{deleted}");
    }
    // No policy is left (D1), and what grows because of that waits (S8).
    scene.policies.remove("a-young");
    scene.memory.alone_since = Some(scene.now.steady);
    scene.settle();
    assert_eq!(cpu(&scene), "3");
    scene.pass(600 * SECOND);
    scene.settle();
    assert_eq!(shows(&scene), (json!("4"), String::new(), Value::Null));
    scene.binding.no_policy = NoPolicy::Withdraw;
    scene.settle();
    assert_eq!((scene.lent.is_none(), scene.claim()), (true, Value::Null));
}

#[test]
fn scenario_15_7_while_the_physical_api_server_is_gone_leases_stop_and_no_pod_goes_and_afterwards_all_is_right() {
    let mut scene = Scene::lent();
    scene.pod("p");
    scene.usage = amounts(&[("cpu", "1")]);
    scene.settle();
    // It would grow, but the server has been silent for 15 s.
    scene.usage = amounts(&[]);
    scene.bar(&[Bar::Suspect]);
    scene.reach = Reach::Suspect(Doubt::Silent);
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
    // For 40 s.
    scene.bar(&[Bar::Unreachable]);
    scene.reach = Reach::Unreachable { since: scene.now.steady };
    scene.settle();
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::Unreachable)));
    scene.memory.unrenewed_since = Some(scene.now.steady);
    scene.pass(60 * SECOND);
    scene.settle();
    let ready = |scene: &Scene| scene.of_lent("/status/conditions/0/status");
    assert_eq!(ready(&scene), "Unknown");
    // For two hours: what goes is node-lifecycle's, by the pods' own tolerations, and nothing is ours.
    scene.pass(7_200 * SECOND);
    assert_eq!((scene.ordered(), scene.acts(), scene.pods.len()), (vec![], None, 1));
    // It answers again, and its nodes and pods are listed.
    scene.bar(&[Bar::Suspect]);
    scene.reach = Reach::Suspect(Doubt::NotListed);
    scene.memory.unrenewed_since = None;
    assert_eq!(scene.lease(), Some(Lease::Renew));
    scene.settle();
    let is_tainted = |scene: &Scene| scene.taints().iter().any(|taint| taint.contains("unreachable"));
    assert_eq!((ready(&scene), cpu(&scene), is_tainted(&scene)), (json!("True"), json!("3"), true));
    scene.bar(&[]);
    scene.reach = Reach::Reachable;
    scene.settle();
    assert_eq!((ready(&scene), cpu(&scene), is_tainted(&scene)), (json!("True"), json!("4"), false));
    assert_eq!((scene.lease(), scene.pods.len()), (Some(Lease::Renew), 1));
}

#[test]
fn scenario_15_8_a_restart_renews_before_anything_is_listed_and_writes_nothing_for_nodes_that_did_not_change() {
    let mut scene = Scene::new();
    scene.policy(|policy| policy.spec.time_windows = vec![window("20:00", "21:00", &[])]);
    scene.settle();
    scene.pod("p");
    assert_eq!(scene.taints().len(), 2, "its windows are closed");
    // Another process remembers nothing, and knows its binding and its virtual nodes alone.
    scene.memory = Memory::default();
    scene.pass(30 * SECOND);
    scene.is_listed = false;
    scene.policies.set_synced(Synced::No);
    scene.bar(&[Bar::Suspect]);
    scene.reach = Reach::Suspect(Doubt::NotListed);
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
    // Its lists come one by one.
    scene.is_listed = true;
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
    scene.policies.set_synced(Synced::Yes);
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
    scene.bar(&[]);
    scene.reach = Reach::Reachable;
    assert_eq!((scene.ordered(), scene.acts(), scene.lease()), (vec![], None, Some(Lease::Renew)));
}
