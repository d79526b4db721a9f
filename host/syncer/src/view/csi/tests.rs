use futures::FutureExt;
use topoloom_sync::copied::{CopyRules, KeyRules, Map};
use topoloom_sync::guard::{Safety, Spent};
use topoloom_sync::keys;
use topoloom_sync::liveness::Reach;
use topoloom_sync::policy::in_force::Synced;

use super::super::Evidence;
use super::super::examples::{lend, now, view};
use super::*;

fn w1() -> PhysicalName {
    "w1".into()
}

fn driver(keys: &[&str]) -> Driver {
    let topology_keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Driver { name: "ebs".to_owned(), node_id: "i-1".to_owned(), topology_keys, count: None }
}

fn physical(keys: &[&str]) -> PhysicalCsiNode {
    PhysicalCsiNode {
        uid: "pc-1".into(),
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        drivers: vec![driver(keys)],
    }
}

fn lent(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> VirtualCsiNode {
    let map = |of: &[(&str, &str)]| of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    VirtualCsiNode {
        uid: "c-1".into(),
        version: "5".into(),
        deleting: false,
        labels: map(labels),
        annotations: map(annotations),
        owners: Vec::new(),
        drivers: vec![driver(&["pool"])],
    }
}

fn order(view: &View) -> Option<String> {
    Some(view.decide_csi_node(&w1(), &CsiEvidence::default(), now().wall)?.order.to_string())
}

#[test]
fn s19_nothing_follows_before_every_list_is_whole_nor_while_one_is_made_anew() {
    let mut view = view(1);
    lend(&mut view, 1);
    assert_eq!(order(&view), None);
    view.physical_csi_nodes([(w1(), physical(&[]))].into());
    assert_eq!(order(&view), None);
    view.lent_csi_nodes(HashMap::new());
    assert_eq!(order(&view).as_deref(), Some("created"));
    // A list that is under way, or refused, takes nothing away and leads to nothing.
    view.csi.begins();
    assert_eq!(order(&view), None);
    assert!(view.csi.physical("w1").is_some());
    view.physical_csi_nodes(HashMap::new());
    assert_eq!(order(&view).as_deref(), Some("nothing: there is none, and nothing to copy"));

    // The virtual nodes are the third.
    let binding = view.binding.clone();
    let mut view = View::new(binding, Safety::default(), Spent::default(), Reach::Reachable, now());
    view.physical_csi_nodes([(w1(), physical(&[]))].into());
    view.lent_csi_nodes(HashMap::new());
    assert_eq!(order(&view), None);
    view.lent_nodes(HashMap::new());
    assert!(order(&view).is_some());
}

/// Denies every label that is not copied always.
fn deny_all(view: &mut View) {
    let labels = KeyRules::parse(Map::Labels, &[], &["*".to_owned()]).unwrap();
    view.binding.copy = CopyRules { labels, ..CopyRules::default() };
}

#[test]
fn s13_topology_keys_follow_the_physical_csinode_and_touch_its_node_when_they_change() {
    let mut view = view(1);
    deny_all(&mut view);
    assert_eq!(view.physical_csi_nodes([(w1(), physical(&["pool"]))].into()), [w1()].into());
    let work = view.decide(&w1(), &Evidence::default(), now());
    let created = work.orders.iter().find_map(|order| match order {
        topoloom_sync::node::NodeOrder::Create { body, .. } => Some(body["metadata"]["labels"].clone()),
        _ => None,
    });
    assert_eq!(created.unwrap()["pool"], "gpu");
    assert_eq!(view.physical_csi_node(&w1(), physical(&["pool"])), Touched::new());
    let mut other = physical(&["pool"]);
    other.drivers.push(Driver { name: "nfs".to_owned(), ..driver(&["pool"]) });
    assert_eq!(view.physical_csi_node(&w1(), other), Touched::new(), "the same keys by another driver");
    assert_eq!(view.physical_csi_node(&w1(), physical(&["pool", "rack"])), [w1()].into());
    assert_eq!(view.physical_csi_nodes([(w1(), physical(&["rack"]))].into()), [w1()].into());
    assert_eq!(view.physical_csi_nodes([(w1(), physical(&["rack"]))].into()), Touched::new());
    assert_eq!(view.physical_csi_node_gone("w1"), [w1()].into());
    assert_eq!(view.physical_csi_node_gone("w1"), Touched::new());
}

#[test]
fn s13_after_a_restart_no_label_is_taken_off_a_node_before_its_csinode_is_known() {
    let mut before = view(1);
    deny_all(&mut before);
    before.physical_csi_nodes([(w1(), physical(&["pool"]))].into());
    lend(&mut before, 1);
    let node = before.lent("vnode-east-w1").unwrap().clone();
    assert_eq!(node.metadata.labels["pool"], "gpu");

    let restarted = || {
        let mut view = View::new(before.binding.clone(), Safety::default(), Spent::default(), Reach::Reachable, now());
        view.policies.set_synced(Synced::Yes);
        view.physical_nodes([(w1(), before.physical("w1").unwrap().clone())].into());
        view.lent_nodes([("vnode-east-w1".into(), node.clone())].into());
        view
    };
    let orders = |view: &mut View| view.decide(&w1(), &Evidence::default(), now()).orders.len();
    let mut view = restarted();
    assert_eq!(orders(&mut view), 0, "no CSINode is known");
    let touched = view.lent_csi_nodes([("vnode-east-w1".into(), lent(&[], &[]))].into());
    assert_eq!((orders(&mut view), touched), (0, [w1()].into()));
    view.physical_csi_nodes([(w1(), physical(&["pool"]))].into());
    assert_eq!(orders(&mut view), 0);
    // What is known to be no key of a topology goes.
    view.physical_csi_node(&w1(), physical(&[]));
    assert_eq!(orders(&mut view), 1);
    // Where the right to read physical CSINodes was never there, no virtual one says that a label is needed.
    let mut view = restarted();
    view.lent_csi_nodes(HashMap::new());
    assert_eq!(orders(&mut view), 1);
}

#[test]
fn section_9_a_virtual_node_that_comes_goes_or_is_another_wakes_its_csinode_and_a_status_does_not() {
    let mut view = view(1);
    let news = view.csi.news();
    lend(&mut view, 1);
    assert_eq!((view.csi.take_due(), view.csi.take_due()), ([w1()].into(), Touched::new()));
    assert!(news.notified().now_or_never().is_some() && news.notified().now_or_never().is_none());
    let name = NodeName::from("vnode-east-w1");
    let mut node = view.lent(&name).unwrap().clone();
    let mut due = |view: &mut View, version: &str, edit: &dyn Fn(&mut LentNode)| {
        edit(&mut node);
        node.version = version.into();
        view.lent_node(&name, node.clone());
        view.csi.take_due()
    };
    assert_eq!(due(&mut view, "21", &|node| node.conditions.clear()), Touched::new());
    assert!(news.notified().now_or_never().is_none());
    assert_eq!(due(&mut view, "22", &|node| node.uid = "v-2".into()), [w1()].into());
    let edit = |node: &mut LentNode| drop(node.metadata.labels.remove(keys::PHYSICAL_CLUSTER_ID));
    assert_eq!(due(&mut view, "23", &edit), [w1()].into());
    view.lent_node_gone("vnode-east-w1");
    assert_eq!(view.csi.take_due(), [w1()].into());
}

#[test]
fn section_9_every_list_and_a_change_of_what_may_be_written_wakes_every_csinode() {
    let mut view = view(1);
    view.physical_csi_nodes([(w1(), physical(&[])), ("w2".into(), physical(&[]))].into());
    assert_eq!(view.csi.take_due(), [w1(), "w2".into()].into());
    let gone = lent(&[], &[(keys::PHYSICAL_NODE_NAME, "w3")]);
    view.lent_csi_nodes([("vnode-east-w3".into(), gone)].into());
    assert_eq!(view.csi.take_due(), [w1(), "w2".into(), "w3".into()].into());
    view.look_at_csi_nodes();
    assert_eq!(view.csi.take_due().len(), 3);
    // A leftover of a machine that is gone is looked at when it goes itself.
    view.lent_csi_nodes(HashMap::new());
    assert!(view.csi.take_due().contains("w3"));
}

#[test]
fn a_leftover_is_known_by_the_machine_whose_virtual_node_has_its_name_whatever_was_written_on_it() {
    let mut view = view(0);
    let key = keys::PHYSICAL_NODE_NAME;
    let rows: [(VirtualCsiNode, &[&str]); 4] = [
        (lent(&[], &[(key, "w9")]), &["w9"]),
        (lent(&[(key, "w9")], &[(key, "w1")]), &["w9"]),
        (lent(&[(key, "w2")], &[(key, "w1")]), &[]),
        (lent(&[(key, "no/name")], &[]), &[]),
    ];
    for (node, wanted) in rows {
        view.lent_csi_nodes([("vnode-east-w9".into(), node)].into());
        assert_eq!(view.all_csi_nodes(), wanted.iter().map(|name| PhysicalName::from(*name)).collect::<Touched>());
    }
}

#[test]
fn s22_the_version_that_our_own_write_returned_leads_to_no_second_look() {
    let mut view = view(1);
    lend(&mut view, 1);
    let name = NodeName::from("vnode-east-w1");
    let node = || lent(&[], &[(keys::PHYSICAL_NODE_NAME, "w1")]);
    view.lent_csi_node(&name, node());
    assert_eq!(view.csi.take_due(), [w1()].into());
    view.lent_csi_node(&name, node());
    view.lent_csi_node(&name, VirtualCsiNode { version: "4".into(), ..node() });
    assert_eq!(view.csi.take_due(), Touched::new());
    assert_eq!(&*view.csi.lent(&name).unwrap().version, "5");
}
