use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use topoloom_core::names::Uid;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::deletion::Leave;
use topoloom_sync::guard::{HeldBefore, Inherited, Safety, Spent};
use topoloom_sync::liveness::Reach;
use topoloom_sync::selector::NodeSelector;

use super::super::examples::{binding, lend, mark, now, physical, view};
use super::super::{Evidence, NodeWork};
use super::*;
use crate::convert::binding::{held, inherited};

fn later(seconds: u64) -> Now {
    let by = Duration::from_secs(seconds);
    Now { wall: now().wall.checked_add(by).unwrap(), steady: now().steady + by }
}

/// Decides about all nodes.
fn decide(view: &mut View, at: Now) -> Vec<NodeWork> {
    view.all().iter().map(|name| view.decide(name, &Evidence::default(), at)).collect()
}

/// A view in which ten nodes are lent and none is selected any more.
fn unselected() -> View {
    let mut view = view(10);
    lend(&mut view, 10);
    view.binding.selector =
        selector(&json!({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["cpu"]}]}));
    view
}

fn selector(term: &Value) -> NodeSelector {
    let written = serde_json::from_value(json!({"nodeSelectorTerms": [term]})).unwrap();
    NodeSelector::parse(&crate::convert::selector::read(&written)).unwrap()
}

/// A selector without the first two of the ten nodes.
fn of_eight() -> NodeSelector {
    let names: Vec<String> = (3..=10).map(|number| format!("w{number}")).collect();
    selector(&json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}))
}

/// The same in a process that takes over, before anything is listed.
fn restarted(before: &View, earlier: Inherited) -> View {
    View::new(before.binding.clone(), Safety::default(), earlier, Reach::Reachable, later(1_000))
}

fn list(next: &mut View, before: &View) {
    let lent = (1..=10).map(|number| format!("vnode-east-w{number}"));
    let lent: HashMap<_, _> = lent.map(|name| (name.as_str().into(), before.lent(&name).unwrap().clone())).collect();
    next.lent_nodes(lent);
    next.physical_nodes((1..=10).map(|number| (format!("w{number}").into(), physical(number))).collect());
    next.policies_listed(Vec::new());
    [Part::OurPods, Part::OtherPods, Part::LentPods].into_iter().for_each(|part| next.listed(part));
}

#[test]
fn s9_a_held_batch_outlives_the_process_that_holds_it_and_is_released_by_its_hash_alone() {
    let mut first = unselected();
    decide(&mut first, now());
    decide(&mut first, later(6));
    let batch = first.review(later(6)).held.unwrap();
    let status = topoloom_api::ClusterBindingStatus {
        held: Some(held(&batch, &[], "2026-08-03T12:00:06Z".to_owned())),
        ..topoloom_api::ClusterBindingStatus::default()
    };
    let mut next = restarted(&first, inherited(&status));
    // Hours pass before anything is listed.
    let reviewed = next.review(later(20_000));
    assert_eq!((reviewed.held.map(|held| held.hash), reviewed.is_recalling), (Some(batch.hash.clone()), true));
    list(&mut next, &first);
    assert_eq!(next.review(later(20_001)).touched.len(), 10, "everything is known, and every node is looked at");
    for seconds in [20_002, 20_010, 20_080] {
        assert!(decide(&mut next, later(seconds)).iter().all(|work| work.orders.len() <= 1), "marked at most");
        assert!(next.review(later(seconds)).is_recalling);
    }
    let reviewed = next.review(later(20_100));
    assert_eq!((reviewed.held.map(|held| held.hash), reviewed.is_recalling), (Some(batch.hash.clone()), false));
    assert!(next.confirm("other").is_err());
    assert_eq!(next.confirm(&batch.hash).unwrap().len(), 10);
    assert_eq!(next.review(later(20_101)).held, None);
}

#[test]
fn s9_what_was_held_goes_after_a_restart_when_its_cause_is_gone_and_every_node_is_looked_at() {
    let mut first = unselected();
    decide(&mut first, now());
    let earlier = HeldBefore { hash: "h".into(), nodes: 10, pods: 0, size: first.size(), spent: Spent::default() };
    let mut next = restarted(&first, Inherited { held: Some(earlier), ..Inherited::default() });
    next.binding.selector = binding().selector;
    list(&mut next, &first);
    next.review(later(1_001));
    decide(&mut next, later(1_002));
    assert!(next.review(later(1_050)).is_recalling, "orphans take two looks");
    let reviewed = next.review(later(1_100));
    assert_eq!((reviewed.held, reviewed.is_recalling, reviewed.touched.len()), (None, false, 10));
}

/// Two of ten nodes go, which is within the limits and has not happened yet; then another process takes over.
fn in_the_middle() -> (View, Inherited) {
    let mut first = unselected();
    first.binding.selector = of_eight();
    mark(&mut first, 2);
    decide(&mut first, now());
    decide(&mut first, later(6));
    assert_eq!(first.review(later(6)).held, None);
    let left = first.guard().left();
    assert_eq!(left.spent, Spent { nodes: 2, pods: 0 });
    (first, left)
}

#[test]
fn s9_what_was_allowed_goes_on_in_the_process_that_takes_over_and_counts_with_what_is_new() {
    let (first, left) = in_the_middle();
    let mut next = restarted(&first, left);
    next.agreed(Duration::MAX);
    list(&mut next, &first);
    for name in ["w1", "w2"] {
        let work = next.decide(&name.into(), &Evidence::default(), later(1_001));
        let orders: Vec<String> = work.orders.iter().map(ToString::to_string).collect();
        assert_eq!(orders, ["the pods of the virtual node are read"], "{name}");
    }
    decide(&mut next, later(1_002));
    assert_eq!(next.guard().committed(), Spent { nodes: 2, pods: 0 });
    // A third one is one too many.
    next.binding.selector = unselected().binding.selector;
    decide(&mut next, later(1_003));
    decide(&mut next, later(1_010));
    let held = next.review(later(1_010)).held.unwrap();
    assert_eq!((held.nodes, held.size.nodes), (10, 10), "{held}");
    assert!(!next.is_held("w1") && next.is_held("w3"));
}

#[test]
fn s9_what_was_allowed_and_is_not_wanted_when_another_process_looks_first_is_judged_when_it_is_wanted_again() {
    let (first, left) = in_the_middle();
    let mut next = restarted(&first, left);
    next.binding.selector = binding().selector;
    // Nothing follows from what is not listed yet.
    decide(&mut next, later(1_001));
    assert!(next.guard().is_incomplete());
    list(&mut next, &first);
    decide(&mut next, later(1_002));
    assert!(!next.guard().is_incomplete());
    next.binding.selector = unselected().binding.selector;
    decide(&mut next, later(1_003));
    decide(&mut next, later(1_010));
    assert!(next.is_held("w1"));
    // A node that is in neither cluster any more is decided about by none.
    let (first, left) = in_the_middle();
    let mut next = restarted(&first, left);
    list(&mut next, &first);
    for name in ["w1", "w2"] {
        next.physical_node_gone(name);
        next.lent_node_gone(&format!("vnode-east-{name}"));
    }
    next.review(later(1_001));
    decide(&mut next, later(1_002));
    assert!(next.guard().is_incomplete());
    next.review(later(1_100));
    assert!(!next.guard().is_incomplete());
}

/// Asks for so many orphans on one node.
fn ask_orphans(view: &mut View, orphans: usize, at: Now) -> Vec<Leave> {
    let names = (0..orphans).map(|number| Arc::<str>::from(format!("lent/p{number}")));
    names.map(|name| view.ask_orphan(&name, &Uid::from(&*name), "vnode-east-w1".into(), at)).collect()
}

#[test]
fn s6_s9_an_orphan_that_was_allowed_or_confirmed_goes_after_its_two_looks_in_the_process_that_takes_over() {
    // Fewer than five are never held.
    for (orphans, is_confirmed) in [(4, false), (6, true)] {
        let mut first = view(10);
        lend(&mut first, 10);
        ask_orphans(&mut first, orphans, now());
        ask_orphans(&mut first, orphans, later(6));
        let held = first.review(later(6)).held;
        assert_eq!(held.is_some(), is_confirmed);
        if let Some(batch) = held {
            first.confirm(&batch.hash).unwrap();
        }
        let left = first.guard().left();
        let mut next = restarted(&first, left.clone());
        next.agreed(Duration::MAX);
        list(&mut next, &first);
        // The first look asks for nothing.
        decide(&mut next, later(1_001));
        let leaves = ask_orphans(&mut next, orphans, later(1_031));
        assert!(leaves.iter().all(|leave| matches!(leave, Leave::Given { .. })), "{leaves:?}");
        assert_eq!((next.guard().committed(), next.guard().held()), (left.spent, None));
    }
}

#[test]
fn s9_s25_what_was_confirmed_before_a_restore_is_held_again_once_the_restore_is_confirmed() {
    // The status has the restore, or is one of yesterday, and the restore is found later.
    for is_known in [true, false] {
        let mut first = unselected();
        decide(&mut first, now());
        decide(&mut first, later(6));
        let batch = first.review(later(6)).held.unwrap();
        first.confirm(&batch.hash).unwrap();
        let left = first.guard().left();
        let mut next = restarted(&first, left);
        let restored = || -> Bars { [Bar::Restored].into_iter().collect() };
        if is_known {
            next.set_bars(restored(), Reach::Reachable);
        }
        list(&mut next, &first);
        decide(&mut next, later(1_001));
        if !is_known {
            assert!(!next.is_held("w1"));
            next.set_bars(restored(), Reach::Reachable);
        }
        decide(&mut next, later(1_002));
        next.set_bars(Bars::default(), Reach::Reachable);
        next.agreed(Duration::MAX);
        decide(&mut next, later(1_010));
        decide(&mut next, later(1_020));
        let held = next.review(later(1_020)).held.unwrap();
        assert_eq!((next.is_held("w1"), held.nodes), (true, 10), "{is_known}");
    }
}

#[test]
fn s9_what_is_not_known_any_more_has_to_be_decided_again() {
    let first = unselected();
    let earlier = HeldBefore { hash: "h".into(), ..HeldBefore::default() };
    let mut next = restarted(&first, Inherited { held: Some(earlier), ..Inherited::default() });
    list(&mut next, &first);
    next.review(later(1_001));
    decide(&mut next, later(1_002));
    next.policies_lost();
    assert!(next.review(later(2_000)).is_recalling);
    next.policies_listed(Vec::new());
    assert_eq!(next.review(later(2_001)).touched.len(), 10);
    assert!(next.review(later(2_200)).is_recalling, "no node was decided about since");
}

#[test]
fn s5_an_empty_list_after_a_full_cache_leaves_the_view_as_it_was_until_it_is_believed() {
    let mut view = view(2);
    lend(&mut view, 2);
    assert!(view.physical_nodes(HashMap::new()).is_empty());
    assert!(view.doubts_empty() && view.physical("w1").is_some());
    // Nodes are there again.
    view.physical_nodes([("w1".into(), physical(1)), ("w2".into(), physical(2))].into());
    assert!(!view.doubts_empty());
    view.physical_nodes(HashMap::new());
    assert_eq!(view.believe_empty().len(), 2);
    assert!(!view.doubts_empty() && view.physical("w1").is_none());
    let work = view.decide(&"w1".into(), &Evidence::default(), now());
    assert_eq!(work.orders[0].to_string(), "the physical node is read", "the cache alone proves nothing");
}

#[test]
fn s9_an_act_that_waits_for_a_live_read_is_not_withdrawn_meanwhile() {
    let mut view = view(10);
    lend(&mut view, 10);
    view.physical_nodes([("w10".into(), physical(10))].into());
    let gone = Evidence { live: topoloom_sync::node::LiveNode::Gone, ..Evidence::default() };
    let decide = |view: &mut View, evidence: &Evidence, at: Now| {
        for number in 1..=9 {
            view.decide(&format!("w{number}").into(), evidence, at);
        }
    };
    decide(&mut view, &gone, now());
    decide(&mut view, &gone, later(6));
    let hash = view.review(later(6)).held.map(|held| held.hash);
    assert!(hash.is_some());
    // Each look begins with the question.
    decide(&mut view, &Evidence::default(), later(7));
    assert_eq!(view.review(later(7)).held.map(|held| held.hash), hash);
}
