use topoloom_sync::bars::Bar;
use topoloom_sync::liveness::{Lease, NotAlive, Reach};
use topoloom_sync::node::LiveNode;

use super::super::clock::tests::{night, stamped, store};
use super::super::examples::{self, lend, now, view};
use super::*;

const LENT: &str = "vnode-east-w1";

fn later(by: Duration) -> Now {
    Now { wall: now().wall.checked_add(by).unwrap(), steady: now().steady + by }
}

fn looked(view: &mut View, name: &str, evidence: &Evidence, now: Now) -> (Vec<String>, Option<Lease>) {
    let work = view.decide(&name.into(), evidence, now);
    (work.orders.iter().map(ToString::to_string).collect(), work.lease)
}

fn read(live_lent: LiveLent) -> Evidence {
    Evidence { live_lent, ..Evidence::default() }
}

fn found(node: &LentNode) -> Evidence {
    read(LiveLent::Found(Arc::new(node.clone())))
}

/// A view of one node that is lent and that its watch shows no more, and the node, of which a person has taken this label off.
fn wiped(key: &str) -> (View, LentNode) {
    let mut view = view(1);
    lend(&mut view, 1);
    let mut node = view.lent(LENT).unwrap().clone();
    node.version = "30".into();
    node.metadata.labels.remove(key);
    assert_eq!(view.lent_node_left(LENT), [PhysicalName::from("w1")].into());
    (view, node)
}

fn asks() -> (Vec<String>, Option<Lease>) {
    (vec!["the virtual node is read".to_owned()], None)
}

fn rests() -> (Vec<String>, Option<Lease>) {
    (Vec::new(), Some(Lease::Renew))
}

#[test]
fn s6_a_node_without_labels_keeps_its_lease_and_is_named_until_its_labels_are_there_again() {
    for key in [keys::VIRTUAL_CLUSTER, keys::BINDING] {
        let (mut view, node) = wiped(key);
        assert!(!view.lends_nothing() && view.knows_lent(LENT));
        assert_eq!(view.uid_of_lent(LENT), Some("v1".into()));
        assert_eq!(
            (view.strays(), view.counts().unclear),
            (Strays { labels: view.strays().labels, binding: "east".to_owned(), ..Strays::default() }, 0)
        );
        assert_eq!(looked(&mut view, "w1", &Evidence::default(), now()), asks());
        assert_eq!(looked(&mut view, "w1", &found(&node), now()), rests());
        let strays = view.strays();
        assert_eq!(strays.stripped, BTreeMap::from([(NodeName::from(LENT), vec![key])]));
        assert_eq!(strays.labels, "topoloom.dev/virtual-cluster=vc-1 topoloom.dev/binding=east");
        let counts = view.counts();
        assert_eq!((counts.lent, counts.unclear, counts.renewed, counts.stopped), (0, 1, 1, 0));
        // What was read is good for a while, and then it is read again: no watch shows what becomes of it.
        let work = view.decide(&"w1".into(), &Evidence::default(), later(GOOD / 2));
        assert_eq!((work.orders.len(), work.lease, work.again), (0, Some(Lease::Renew), Some(GOOD / 2)));
        assert_eq!(looked(&mut view, "w1", &Evidence::default(), later(GOOD)), asks());
        assert!(view.all().contains("w1"), "a sweep looks at it, too");
        // A person has written it again.
        let whole = LentNode { version: "31".into(), ..examples::lent(1) };
        assert_eq!(view.lent_node(&LENT.into(), whole), [PhysicalName::from("w1")].into());
        assert_eq!(looked(&mut view, "w1", &Evidence::default(), later(GOOD)), rests());
        assert_eq!((view.strays().stripped, view.counts().unclear, view.size().nodes), (BTreeMap::new(), 0, 1));
    }
}

#[test]
fn s6_a_list_without_a_node_says_no_more_than_a_watch_that_shows_it_no_more() {
    let mut view = view(2);
    lend(&mut view, 2);
    let whole = view.lent("vnode-east-w2").unwrap().clone();
    let touched = view.lent_nodes([("vnode-east-w2".into(), whole)].into());
    assert_eq!(touched, [PhysicalName::from("w1")].into());
    assert_eq!(looked(&mut view, "w1", &Evidence::default(), now()), asks());
    // It was deleted in truth.
    let work = view.decide(&"w1".into(), &read(LiveLent::Gone), now());
    assert!(matches!(&work.orders[..], [NodeOrder::Create { .. }]), "{work:?}");
    assert_eq!((work.lease, view.uid_of_lent(LENT)), (None, None));
}

#[test]
fn s6_what_was_made_again_or_names_another_is_not_ours() {
    let another = |edit: &dyn Fn(&mut LentNode)| {
        let (mut view, mut node) = wiped(keys::BINDING);
        view.physical_node(
            &"w1".into(),
            topoloom_sync::node::PhysicalNode { version: "9".into(), ..examples::physical(1) },
        );
        edit(&mut node);
        let (_, lease) = looked(&mut view, "w1", &found(&node), now());
        (lease, view.uid_of_lent(LENT))
    };
    assert_eq!(another(&|_| ()), (Some(Lease::Renew), Some("v1".into())), "without any claim it is known by its UID");
    assert_eq!(another(&|node| node.uid = "v2".into()), (None, None));
    let west = |node: &mut LentNode| drop(node.metadata.labels.insert(keys::BINDING.to_owned(), "west".to_owned()));
    assert_eq!(another(&west), (None, None));
}

#[test]
fn s6_s11_a_node_that_only_its_lease_shows_is_read_before_anything_follows_from_its_absence() {
    let stripped = |key: &str| {
        let mut node = examples::lent(1);
        node.metadata.labels.remove(key);
        node
    };
    let view = || {
        let mut view = view(1);
        assert_eq!(view.left_behind([(LENT.into(), "v1".into())]), [PhysicalName::from("w1")].into());
        view
    };
    let mut of_a_machine = view();
    assert_eq!(looked(&mut of_a_machine, "w1", &Evidence::default(), now()), asks());
    assert_eq!(looked(&mut of_a_machine, "w1", &found(&stripped(keys::BINDING)), now()), rests());
    // Its machine is not known: it is looked at under its own name, and what was read leads to the machine.
    let mut alone = view();
    alone.physical_node_gone("w1");
    alone.ledger.forget("w1");
    assert_eq!((alone.alone(), alone.all()), ([PhysicalName::from(LENT)].into(), Touched::new()));
    assert_eq!(looked(&mut alone, LENT, &Evidence::default(), now()), asks());
    assert_eq!(looked(&mut alone, LENT, &found(&stripped(keys::VIRTUAL_CLUSTER)), now()), rests());
    assert_eq!((alone.alone(), alone.all()), (Touched::new(), [PhysicalName::from("w1")].into()));
    assert_eq!(alone.review(now()).touched, [PhysicalName::from("w1")].into());
    assert_eq!(alone.strays().stripped.len(), 1);
    // No machine says how long such a node lives: the cluster does.
    let mut cut_off = view();
    cut_off.physical_node_gone("w1");
    cut_off.ledger.forget("w1");
    cut_off.reach = Reach::Unreachable { since: now().steady };
    let lease = looked(&mut cut_off, LENT, &found(&stripped(keys::VIRTUAL_CLUSTER)), now()).1;
    assert_eq!(lease, Some(Lease::Stop(NotAlive::Unreachable)));
    // It is gone.
    let mut gone = view();
    gone.physical_node_gone("w1");
    gone.ledger.forget("w1");
    assert_eq!(looked(&mut gone, LENT, &read(LiveLent::Gone), now()), (vec![], None));
    assert!(gone.lends_nothing());
}

#[test]
fn s17_an_earlier_closing_counts_for_no_new_one_where_a_node_had_no_labels_between_the_two() {
    let mut view = view(1);
    lend(&mut view, 1);
    let open = view.lent(LENT).unwrap().clone();
    let _ = view.policies.insert(night());
    let closed = stamped(&mut view, now()).unwrap();
    store(&mut view, &closed, "30");
    assert_eq!(stamped(&mut view, now()), None, "it is at rest");
    view.lent_node_left(LENT);
    let mut wiped = LentNode { version: "31".into(), ..open.clone() };
    wiped.metadata.labels.remove(keys::BINDING);
    looked(&mut view, "w1", &found(&wiped), now());
    // A person writes the labels again a day later, when the windows have been open and are closed again.
    let day = later(Duration::from_secs(86_400));
    view.lent_node(&LENT.into(), LentNode { version: "32".into(), ..open });
    assert_eq!(stamped(&mut view, day), Some(day.wall.to_string()));
}

/// A copy of a virtual node, made by a person, under this name.
fn copy(view: &mut View, name: &str) -> LentNode {
    let copy = LentNode { uid: "copy".into(), version: "40".into(), ..examples::lent(1) };
    assert_eq!(view.lent_node(&name.into(), copy.clone()), [PhysicalName::from(name)].into());
    copy
}

#[test]
fn s6_a_copy_of_a_virtual_node_leads_to_no_machine_and_goes_when_a_person_has_deleted_it() {
    let mut view = view(1);
    lend(&mut view, 1);
    let name = "vnode-east-copy";
    let mut copy = copy(&mut view, name);
    assert_eq!(looked(&mut view, name, &Evidence::default(), now()), (vec![], None), "it gets no lease");
    assert_eq!(looked(&mut view, "w1", &Evidence::default(), now()), rests(), "its original is as it was");
    assert_eq!((view.strays().astray, view.counts().unclear), (BTreeSet::from([NodeName::from(name)]), 1));
    assert!(view.alone().contains(name) && !view.all().contains(name));
    (copy.version, copy.existence) = ("41".into(), Existence::Terminating);
    view.lent_node(&name.into(), copy);
    view.bars = [Bar::Suspect].into_iter().collect();
    assert_eq!(looked(&mut view, name, &Evidence::default(), now()).0, [""; 0]);
    view.bars = [].into_iter().collect();
    let work = view.decide(&name.into(), &Evidence::default(), now());
    assert_eq!(work.orders, [NodeOrder::Ask(Question::PodsOfNode)]);
    assert_eq!((work.again, work.lent), (Some(view.binding.deletion.recheck), Some(NodeName::from(name))));
    let no_pods = Evidence { pods: Some(Vec::new()), ..Evidence::default() };
    let orders = view.decide(&name.into(), &no_pods, now()).orders;
    assert!(matches!(&orders[..], [NodeOrder::StopLease(_), NodeOrder::RemoveFinalizer { .. }]), "{orders:?}");
    view.lent_node_gone(name);
    assert_eq!((view.strays().astray.len(), view.size().nodes), (0, 1));
}

#[test]
fn s11_before_the_machines_are_listed_no_node_is_known_to_lead_nowhere() {
    let reach = Reach::Reachable;
    let spent = topoloom_sync::guard::Spent::default();
    let mut view = View::new(examples::binding(), topoloom_sync::guard::Safety::default(), spent, reach, now());
    view.lent_nodes(std::collections::HashMap::new());
    copy(&mut view, "vnode-east-copy");
    assert_eq!(view.strays().astray, BTreeSet::new());
    let work = view.decide(&"vnode-east-copy".into(), &Evidence::default(), now());
    assert_eq!((work.lent, work.orders.len()), (None, 0), "its lease is left as it is");
    // Of a cluster that is gone for good no machine will be listed.
    view.verb = VerbOnBinding::Detach;
    assert_eq!(view.strays().astray.len(), 1);
    view.verb = VerbOnBinding::None;
    let touched = view.physical_nodes([("w1".into(), examples::physical(1))].into());
    assert!(touched.contains("vnode-east-copy"));
    assert_eq!(view.strays().astray.len(), 1);
}

#[test]
fn s22_a_node_is_found_by_its_label_where_its_annotation_was_edited_and_is_astray_where_both_were() {
    for (both, machine) in [(false, Some("w1")), (true, None)] {
        let mut whole = view(1);
        lend(&mut whole, 1);
        let mut node = whole.lent(LENT).unwrap().clone();
        node.metadata.annotations.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w9".to_owned());
        if both {
            node.metadata.labels.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w9".to_owned());
        }
        // A process has taken over, and the machine is gone.
        let mut view = view(0);
        let touched = view.lent_node(&LENT.into(), node);
        assert_eq!(touched, [PhysicalName::from(machine.unwrap_or(LENT))].into());
        assert_eq!(view.machine_of(LENT).as_deref(), machine);
        let orders = looked(&mut view, machine.unwrap_or(LENT), &Evidence::default(), now());
        match machine {
            Some(_) => assert_eq!(orders.0, ["the physical node is read"]),
            None => assert_eq!(orders, (vec![], None)),
        }
        assert_eq!(view.strays().astray.len(), usize::from(both));
    }
}

#[test]
fn s22_a_node_whose_machine_goes_after_both_of_its_names_were_edited_is_named_and_has_no_lease() {
    let mut view = view(1);
    lend(&mut view, 1);
    let mut node = view.lent(LENT).unwrap().clone();
    node.version = "30".into();
    node.metadata.annotations.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w9".to_owned());
    node.metadata.labels.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w9".to_owned());
    view.lent_node(&LENT.into(), node);
    assert_eq!(looked(&mut view, "w1", &Evidence::default(), now()), rests());
    assert_eq!(view.physical_node_gone("w1"), [PhysicalName::from("w1")].into());
    assert_eq!(looked(&mut view, "w1", &Evidence::default(), now()).0, ["the physical node is read"]);
    let gone = Evidence { live: LiveNode::Gone, ..Evidence::default() };
    assert_eq!(looked(&mut view, "w1", &gone, now()), (vec![], None));
    assert_eq!(view.strays().astray, BTreeSet::from([NodeName::from(LENT)]));
}
