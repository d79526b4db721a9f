use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use topoloom_sync::node::Now;
use topoloom_sync::ports::{Hindrance, WhyGone, WhyNothing};
use topoloom_sync::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};

use super::super::Evidence;
use super::super::examples::{lend, mark, now, view};
use super::*;

const NODE: &str = "vnode-east-w1";

fn name() -> NodeName {
    NODE.into()
}

/// One lent node, whose host ports are mirrored; everything is listed.
fn mirroring() -> View {
    let mut view = view(1);
    lend(&mut view, 1);
    view.set_host_ports(Mirroring::On);
    for part in [Part::OurPods, Part::OtherPods, Part::LentPods] {
        view.listed(part);
    }
    view.ports.take_due();
    view
}

fn read(pod: Value) -> PodSlice {
    serde_json::from_value(pod).unwrap()
}

/// A pod of the lender on `w1` with this host port.
fn web(port: u16) -> PodSlice {
    read(json!({
        "metadata": {"namespace": "a", "name": "web", "uid": "web", "resourceVersion": "1"},
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "ports": [{"containerPort": port, "hostPort": port}]}]},
        "status": {"phase": "Running"},
    }))
}

/// A placeholder as the API server has it.
fn stored(body: &Value, version: &str) -> PodSlice {
    let mut pod = body.clone();
    pod["metadata"]["uid"] = "h1".into();
    pod["metadata"]["resourceVersion"] = version.into();
    pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
    read(pod)
}

fn decide(view: &View) -> PortOrder {
    view.decide_ports(&name(), &PortEvidence::default(), now().wall).unwrap().order
}

fn created(view: &View) -> Value {
    match decide(view) {
        PortOrder::Create { body, .. } => body,
        other => panic!("{other}"),
    }
}

/// Whether the node has to be looked at.
fn is_due(view: &mut View) -> bool {
    let due = view.ports.take_due();
    assert!(due.is_empty() || due == [name()].into(), "{due:?}");
    !due.is_empty()
}

#[test]
fn section_11_2_nothing_is_decided_before_nodes_and_pods_are_listed() {
    let mut view = view(1);
    lend(&mut view, 1);
    view.set_host_ports(Mirroring::On);
    view.physical_pod(&web(80)).unwrap();
    assert_eq!(view.decide_ports(&name(), &PortEvidence::default(), now().wall), None);
    view.listed(Part::LentPods);
    assert_eq!(decide(&view), PortOrder::Nothing(WhyNothing::Unlisted));
    view.listed(Part::OurPods);
    view.listed(Part::OtherPods);
    assert!(matches!(decide(&view), PortOrder::Create { .. }), "{}", decide(&view));
}

#[test]
fn section_11_2_a_port_that_is_held_or_free_wakes_its_node_and_no_other_event_does() {
    let mut view = mirroring();
    let news = view.ports.news();
    assert!(news.notified().now_or_never().is_some() && news.notified().now_or_never().is_none());
    view.physical_pod(&web(80)).unwrap();
    assert!(is_due(&mut view) && news.notified().now_or_never().is_some());
    view.physical_pod(&web(80)).unwrap();
    assert!(!is_due(&mut view), "it holds what it held");
    let placeholder = stored(&created(&view), "5");
    view.lent_pod(placeholder.clone()).unwrap();
    assert!(is_due(&mut view));
    assert_eq!(decide(&view), PortOrder::Nothing(WhyNothing::Same));
    view.lent_pod(placeholder).unwrap();
    assert!(!is_due(&mut view), "the version is known");
    view.physical_pod_gone(&"web".into());
    assert!(is_due(&mut view));
    assert!(matches!(decide(&view), PortOrder::Delete { why: WhyGone::Stale, .. }), "{}", decide(&view));
    view.lent_pod_gone(&"h1".into());
    assert!(is_due(&mut view));
    assert_eq!(decide(&view), PortOrder::Nothing(WhyNothing::Same));
    // A machine that is not lent has no placeholder.
    let mut elsewhere =
        json!({"metadata": {"namespace": "a", "name": "x", "uid": "x"}, "status": {"phase": "Running"}});
    elsewhere["spec"] =
        json!({"nodeName": "w9", "containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 1}]}]});
    view.physical_pod(&read(elsewhere)).unwrap();
    assert!(!is_due(&mut view));
}

#[test]
fn section_11_2_a_node_that_leaves_or_goes_wakes_its_placeholders_and_a_status_does_not() {
    let mut view = mirroring();
    view.physical_pod(&web(80)).unwrap();
    let placeholder = stored(&created(&view), "5");
    view.lent_pod(placeholder).unwrap();
    is_due(&mut view);
    let mut node = view.lent(NODE).unwrap().clone();
    node.version = "21".into();
    node.conditions.clear();
    view.lent_node(&name(), node);
    assert!(!is_due(&mut view));
    mark(&mut view, 1);
    assert!(is_due(&mut view));
    assert!(matches!(decide(&view), PortOrder::Delete { why: WhyGone::NodeLeaves, .. }), "{}", decide(&view));
    view.lent_node_gone(NODE);
    assert!(is_due(&mut view));
    assert_eq!(decide(&view), PortOrder::AskNode);
    let gone = PortEvidence { node: Presence::Gone, ..PortEvidence::default() };
    let order = view.decide_ports(&name(), &gone, now().wall).unwrap().order;
    assert!(matches!(order, PortOrder::Delete { why: WhyGone::NodeGone, .. }), "{order}");
}

#[test]
fn section_11_2_a_placeholder_that_an_earlier_process_left_goes_where_its_node_is_gone_or_ports_are_off() {
    let body = {
        let mut view = mirroring();
        view.physical_pod(&web(80)).unwrap();
        created(&view)
    };
    let mut view = view(1);
    view.lent_pod(stored(&body, "5")).unwrap();
    view.listed(Part::LentPods);
    assert!(is_due(&mut view), "host ports are off, and it is there");
    assert!(matches!(decide(&view), PortOrder::Delete { why: WhyGone::Off, .. }), "{}", decide(&view));
    // What a list of pods does not show is gone.
    view.lent_pods_listed(&HashSet::new());
    assert!(is_due(&mut view));
    assert_eq!((decide(&view), view.all_ports().len()), (PortOrder::Nothing(WhyNothing::Absent), 0));
    // While host ports are off nothing else is looked at.
    lend(&mut view, 1);
    view.physical_pod(&web(80)).unwrap();
    view.look_at_ports();
    assert!(!is_due(&mut view));
    view.set_host_ports(Mirroring::On);
    assert!(is_due(&mut view));
}

#[test]
fn section_11_2_what_a_read_found_counts_for_the_decision_where_no_watch_has_shown_it() {
    let mut view = mirroring();
    view.physical_pod(&web(80)).unwrap();
    let existing = stored(&created(&view), "5").as_placeholder();
    let evidence = PortEvidence { existing: Some(existing), ..PortEvidence::default() };
    let order = |view: &View| view.decide_ports(&name(), &evidence, now().wall).unwrap().order;
    assert_eq!(order(&view), PortOrder::Nothing(WhyNothing::Same));
    // What the watch shows is later than that.
    let body = created(&view);
    let mut terminates = body.clone();
    terminates["metadata"]["deletionTimestamp"] = "2026-08-03T12:00:00Z".into();
    view.lent_pod(stored(&terminates, "6")).unwrap();
    assert_eq!(order(&view), PortOrder::Nothing(WhyNothing::Terminating));
}

#[test]
fn s25_a_placeholder_of_a_server_that_was_set_back_counts_in_a_lower_version() {
    let mut view = mirroring();
    view.physical_pod(&web(80)).unwrap();
    let body = created(&view);
    view.lent_pod(stored(&body, "50")).unwrap();
    view.lent_pod(stored(&body, "7")).unwrap();
    view.set_host_ports(Mirroring::Off);
    let version = |view: &View| match decide(view) {
        PortOrder::Delete { precondition, .. } => precondition.version().to_string(),
        other => panic!("{other}"),
    };
    assert_eq!(version(&view), "50", "an event that is behind");
    view.forget_answers();
    view.lent_pod(stored(&body, "7")).unwrap();
    assert_eq!(version(&view), "7");
}

#[test]
fn s9_while_the_guard_holds_what_follows_for_a_node_its_placeholders_stay_until_it_is_confirmed() {
    let mut view = view(10);
    lend(&mut view, 10);
    view.set_host_ports(Mirroring::On);
    for part in [Part::OurPods, Part::OtherPods, Part::LentPods] {
        view.listed(part);
    }
    view.physical_pod(&web(80)).unwrap();
    let placeholder = stored(&created(&view), "5");
    view.lent_pod(placeholder).unwrap();
    let requirement = RawRequirement { key: "pool".into(), operator: "In".into(), values: vec!["cpu".into()] };
    let term = RawTerm { match_expressions: vec![requirement], match_fields: vec![] };
    view.binding.selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
    for seconds in [0, 6] {
        let at = Now { steady: now().steady + Duration::from_secs(seconds), ..now() };
        for number in 1..=10 {
            view.decide(&format!("w{number}").into(), &Evidence::default(), at);
        }
    }
    assert!(view.is_held("w1"));
    mark(&mut view, 1);
    assert_eq!(decide(&view), PortOrder::Withheld(Hindrance::Guard));
    view.ports.take_due();
    let hash = view.guard().held().unwrap().hash.clone();
    view.confirm(&hash).unwrap();
    assert!(view.ports.take_due().contains(NODE));
    assert!(matches!(decide(&view), PortOrder::Delete { .. }), "{}", decide(&view));
}
