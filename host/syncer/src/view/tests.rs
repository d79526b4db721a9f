use topoloom_sync::guard::Spent;
use topoloom_sync::policy::in_force::Synced;
use topoloom_sync::policy::object::Policy;
use topoloom_sync::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};

use super::examples::{binding, lend, mark, mornings, now, physical, view};
use super::*;

/// Selects no node that there is.
fn select_none(view: &mut View) {
    let requirement = RawRequirement { key: "pool".into(), operator: "In".into(), values: vec!["cpu".into()] };
    let term = RawTerm { match_expressions: vec![requirement], match_fields: vec![] };
    view.binding.selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
}

fn states(view: &mut View, nodes: usize, now: Now) -> Vec<Vec<String>> {
    let orders = |work: NodeWork| work.orders.iter().map(ToString::to_string).collect();
    (1..=nodes).map(|number| orders(view.decide(&format!("w{number}").into(), &Evidence::default(), now))).collect()
}

fn later(seconds: u64) -> Now {
    let by = Duration::from_secs(seconds);
    Now { wall: now().wall.checked_add(by).unwrap(), steady: now().steady + by }
}

#[test]
fn s9_a_selector_that_takes_all_nodes_away_marks_them_and_deletes_none_until_an_operator_confirms() {
    let mut view = view(10);
    lend(&mut view, 10);
    select_none(&mut view);
    let mut first = states(&mut view, 10, now());
    assert!(first.iter().all(|orders| orders.len() == 1 && orders[0].starts_with("patch node")), "{first:?}");
    mark(&mut view, 10);
    first = states(&mut view, 10, later(1));
    assert!(first.iter().all(Vec::is_empty), "they are gathered: {first:?}");
    let held = states(&mut view, 10, later(6));
    assert!(held.iter().all(Vec::is_empty), "{held:?}");
    let batch = view.guard().held().unwrap().clone();
    assert_eq!(batch.nodes, 10, "{batch}");
    // By time alone nothing is released.
    assert!(states(&mut view, 10, later(86_400)).iter().all(Vec::is_empty));
    let hash = view.guard().held().unwrap().hash.clone();
    view.guard().confirm(&hash).unwrap();
    let confirmed = states(&mut view, 10, later(86_401));
    assert!(confirmed.iter().all(|orders| *orders == ["the pods of the virtual node are read"]), "{confirmed:?}");
    let read = Evidence { pods: Some(Vec::new()), ..Evidence::default() };
    let orders = view.decide(&"w1".into(), &read, later(86_402)).orders;
    assert!(matches!(&orders[..], [NodeOrder::StopLease(_), NodeOrder::Delete { .. }]), "{orders:?}");
}

#[test]
fn nothing_is_kept_of_a_node_that_is_gone_in_both_clusters_and_of_its_pods() {
    let mut view = view(1);
    lend(&mut view, 1);
    let pod = |node: &str| -> crate::slices::pod::PodSlice {
        let pod = serde_json::json!({
            "metadata": {"namespace": "a", "name": "p", "uid": format!("on-{node}"), "resourceVersion": "1"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running"},
        });
        serde_json::from_value(pod).unwrap()
    };
    view.physical_pod(&pod("w1")).unwrap();
    view.lent_pod(pod("vnode-east-w1")).unwrap();
    let kept = |view: &View| {
        let is_lent = view.ledger.physical_of("vnode-east-w1").is_some();
        (view.remembered.len(), is_lent, view.size().pods)
    };
    states(&mut view, 1, now());
    assert_eq!(kept(&view), (1, true, 1));
    view.physical_node_gone("w1");
    view.lent_node_gone("vnode-east-w1");
    states(&mut view, 1, now());
    assert_eq!(kept(&view), (0, true, 1), "its pods are known still");
    assert_eq!(view.lent_pod_gone(&"on-vnode-east-w1".into()).len(), 1);
    view.physical_pod_gone(&"on-w1".into());
    states(&mut view, 1, now());
    assert_eq!(kept(&view), (0, false, 0));
    assert_eq!(view.ledger.usage("w1").count(), 0);
    // A machine of that name comes again.
    view.physical_node(&"w1".into(), examples::physical(1));
    lend(&mut view, 1);
    assert_eq!(kept(&view), (1, true, 0));
}

/// Its windows are closed at noon, and its pods have no grace.
fn morning() -> Policy {
    mornings("morning", None)
}

#[test]
fn s5_s9_what_is_held_for_closed_windows_stays_held_until_policies_are_known_again() {
    let mut view = view(10);
    lend(&mut view, 10);
    view.policy(morning());
    for at in [0, 6] {
        states(&mut view, 10, later(at));
    }
    let held = |view: &mut View, at: u64| {
        states(view, 10, later(at));
        view.review(later(at)).held.map(|batch| (batch.hash, batch.nodes))
    };
    let before = held(&mut view, 7).unwrap();
    assert_eq!(before.1, 10);
    // The cluster was gone, and its policies are listed anew.
    view.policies_lost();
    assert_eq!(held(&mut view, 8).as_ref(), Some(&before));
    view.policies_listed(vec![morning()]);
    assert_eq!(held(&mut view, 9).as_ref(), Some(&before));
    // The policy is gone, and a later list confirms it.
    view.policies_lost();
    view.policies_listed(Vec::new());
    assert_eq!(held(&mut view, 10), Some(before));
    assert_eq!(view.policies_believed(1).len(), 10);
    assert_eq!(held(&mut view, 11), None);
}

#[test]
fn s9_a_patch_of_nodes_whose_closing_is_held_takes_none_of_them_out_of_the_batch() {
    let mut view = view(10);
    lend(&mut view, 10);
    view.policy(morning());
    for at in [0, 6] {
        states(&mut view, 10, later(at));
    }
    for number in 1..=10 {
        let name = PhysicalName::from(format!("w{number}"));
        let work = view.decide(&name, &Evidence::default(), later(7));
        assert!(work.orders.iter().any(|order| matches!(order, NodeOrder::PatchSpec { .. })), "{:?}", work.orders);
        work.orders.iter().for_each(|order| view.carried(&name, &work, order, later(7)));
    }
    assert_eq!(view.review(later(8)).held.map(|batch| batch.nodes), Some(10));
}

#[test]
fn s9_a_taint_to_no_execute_counts_once_it_is_written_and_no_other_patch_of_its_node_does() {
    let mut view = view(1);
    lend(&mut view, 1);
    view.policy(morning());
    states(&mut view, 1, now());
    let carry = |view: &mut View, now: Now| {
        let name = PhysicalName::from("w1");
        let work = view.decide(&name, &Evidence::default(), now);
        work.orders.iter().for_each(|order| view.carried(&name, &work, order, now));
        let patches = work.orders.iter().filter(|order| matches!(order, NodeOrder::PatchSpec { .. }));
        (patches.map(NodeOrder::is_no_execute).collect::<Vec<_>>(), view.guard().spent().nodes)
    };
    // The guard allows it, and a pause does not.
    view.bars = [Bar::Paused].into_iter().collect();
    assert_eq!(carry(&mut view, later(6)), (vec![false], 0));
    view.bars = Bars::default();
    assert_eq!(carry(&mut view, later(7)), (vec![true], 1));
}

#[test]
fn s9_an_edit_that_is_taken_back_leaves_nothing_held() {
    let mut view = view(10);
    lend(&mut view, 10);
    select_none(&mut view);
    mark(&mut view, 10);
    states(&mut view, 10, now());
    states(&mut view, 10, later(6));
    assert!(view.guard().held().is_some());
    view.binding.selector = NodeSelector::default();
    states(&mut view, 10, later(7));
    let (safety, size) = (view.safety, view.size());
    assert_eq!(view.guard().review(&safety, size, later(8).steady), None);
}

#[test]
fn s9_orphans_are_gathered_and_held_together_and_one_that_is_none_any_more_counts_no_more() {
    let mut view = view(10);
    let names: Vec<Arc<str>> = (0..6).map(|number| format!("lent/p{number}").into()).collect();
    let ask = |view: &mut View, name: &Arc<str>, now: Now| {
        view.ask_orphan(name, &Uid::from(&**name), "vnode-east-w1".into(), now)
    };
    for name in &names {
        assert!(matches!(ask(&mut view, name, now()), Leave::Gathering { .. }));
    }
    assert!(names.iter().all(|name| ask(&mut view, name, later(5)) == Leave::Held));
    assert_eq!(view.guard().held().map(|batch| batch.pods), Some(6));
    for name in &names[..3] {
        view.orphan_kept(name);
    }
    let (safety, size) = (view.safety, view.size());
    assert_eq!(view.guard().review(&safety, size, later(6).steady), None);
    assert_eq!(ask(&mut view, &names[5], later(6)), Leave::Given { since: later(6).wall });
    view.orphan_deleted(&names[5], later(6));
    assert_eq!(view.guard().spent().pods, 1);
    view.orphan_deleted("lent/unknown", later(6));
    assert_eq!(view.guard().spent().pods, 1);
}

#[test]
fn s7_machines_whose_claim_was_edited_are_counted_by_themselves_too_lent_or_not() {
    let mut view = view(3);
    lend(&mut view, 1);
    for (number, claim) in [(1, ""), (2, "nonsense"), (3, "vc-2/b-9")] {
        let mut machine = physical(number);
        machine.version = "9".into();
        machine.annotations.insert(keys::LEASED_BY.to_owned(), claim.to_owned());
        view.physical_node(&format!("w{number}").into(), machine);
    }
    assert!(states(&mut view, 3, now()).iter().all(Vec::is_empty));
    let counts = view.counts();
    assert_eq!((counts.lent, counts.unreadable, counts.claimed), (1, 2, 3));
}

#[test]
fn s5_before_the_first_list_nothing_may_be_taken_for_gone() {
    let reach = Reach::Suspect(topoloom_sync::liveness::Doubt::NotListed);
    let view = View::new(binding(), Safety::default(), Spent::default(), reach, now());
    assert_eq!(view.bars.iter().collect::<Vec<_>>(), [Bar::Suspect]);
}

#[test]
fn s15_the_version_that_our_own_write_returned_leads_to_no_second_look() {
    let mut view = view(1);
    lend(&mut view, 1);
    let name = NodeName::from("vnode-east-w1");
    let same = view.lent(&name).unwrap().clone();
    assert!(view.lent_node(&name, same.clone()).is_empty());
    let other = LentNode { version: "21".into(), ..same.clone() };
    assert_eq!(view.lent_node(&name, other), [PhysicalName::from("w1")].into());
    assert!(view.lent_node(&name, same.clone()).is_empty(), "an event that is behind our write");
    assert_eq!(&*view.lent(&name).unwrap().version, "21");
    // A list replaces what is known, also by an older version: the server was set back.
    assert_eq!(view.lent_nodes([(name.clone(), same)].into()), [PhysicalName::from("w1")].into());
    assert_eq!(&*view.lent(&name).unwrap().version, "20");
}

#[test]
fn s11_before_the_first_list_of_physical_nodes_nothing_follows_and_after_it_nodes_that_are_gone_are_asked_for() {
    let mut whole = view(1);
    lend(&mut whole, 1);
    let lent = whole.lent("vnode-east-w1").unwrap().clone();
    let mut view = View::new(binding(), Safety::default(), Spent::default(), Reach::Reachable, now());
    view.policies.set_synced(Synced::Yes);
    view.lent_nodes([("vnode-east-w1".into(), lent)].into());
    let name: PhysicalName = "w1".into();
    let work = view.decide(&name, &Evidence::default(), now());
    assert_eq!((work.orders.len(), work.lease), (0, Some(Lease::Renew)));
    assert_eq!(view.physical_nodes(HashMap::new()), [Arc::clone(&name)].into());
    let work = view.decide(&name, &Evidence::default(), now());
    assert_eq!(work.orders[0].to_string(), "the physical node is read");
}

#[test]
fn s21_of_machines_that_come_and_go_nothing_is_kept() {
    let mut view = view(1);
    lend(&mut view, 1);
    for number in 2..20 {
        let name: PhysicalName = format!("w{number}").into();
        view.physical_node(&name, physical(number));
        assert_ne!(view.decide(&name, &Evidence::default(), now()).orders, []);
        assert_eq!(view.physical_node_gone(&name), [Arc::clone(&name)].into());
        assert_eq!(view.decide(&name, &Evidence::default(), now()).orders, []);
    }
    let known = |view: &View, number: usize| view.ledger.physical_of(&format!("vnode-east-w{number}")).is_some();
    assert_eq!((view.remembered.len(), known(&view, 1), known(&view, 2)), (1, true, false));
    // What the virtual node is about is remembered until that is gone, too.
    view.physical_node_gone("w1");
    view.decide(&"w1".into(), &Evidence::default(), now());
    assert_eq!((view.remembered.len(), known(&view, 1)), (1, true));
    view.lent_node_gone("vnode-east-w1");
    view.decide(&"w1".into(), &Evidence::default(), now());
    assert_eq!((view.remembered.len(), known(&view, 1)), (0, false));
}

#[test]
fn a_node_that_waits_says_when_to_look_again() {
    let mut view = view(1);
    lend(&mut view, 1);
    view.bars = [Bar::Unreachable].into_iter().collect();
    view.reach = Reach::Unreachable { since: now().steady };
    let work = view.decide(&"w1".into(), &Evidence::default(), now());
    assert_eq!(work.again, Some(Duration::from_secs(60)), "{work:?}");
    // What it remembers counts from the first look.
    let work = view.decide(&"w1".into(), &Evidence::default(), later(20));
    assert_eq!(work.again, Some(Duration::from_secs(40)));
}

#[test]
fn s11_a_view_is_settled_once_each_node_was_decided_about_with_both_clusters_listed() {
    let mut view = view(2);
    lend(&mut view, 2);
    states(&mut view, 2, now());
    view.policies_listed(Vec::new());
    [Part::OurPods, Part::OtherPods, Part::LentPods].into_iter().for_each(|part| view.listed(part));
    assert!(!view.is_settled(), "they were decided about before");
    states(&mut view, 1, now());
    assert!(!view.is_settled(), "one node is left");
    states(&mut view, 2, now());
    assert!(view.is_settled());
    view.policies_lost();
    assert!(!view.is_settled());
    states(&mut view, 2, now());
    view.policies_listed(Vec::new());
    assert!(!view.is_settled(), "what was decided meanwhile does not count");
    states(&mut view, 2, now());
    assert!(view.is_settled());
}
