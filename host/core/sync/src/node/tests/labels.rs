//! Labels of identity that a person takes off a virtual node, and virtual nodes that lead to no physical one.

use super::*;
use crate::bars::Bars;
use crate::identity::Owner;

/// How a label is wiped.
const WIPED: [Value; 2] = [Value::Null, Value::String(String::new())];
/// The labels that are wiped together, of which at least one is a label by which a watch shows a node.
const WHICH: [&[&str]; 3] =
    [&[keys::VIRTUAL_CLUSTER], &[keys::BINDING], &[keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID]];

/// A node that is lent, with a pod, of which a person has wiped these labels. Its watch has shown it before, and shows it no more.
fn hidden(keys: &[&str], wiped: &Value) -> Scene {
    let mut scene = Scene::lent();
    scene.pod("p");
    for key in keys {
        scene.edit_lent(json!({"metadata": {"labels": {*key: wiped}}}));
    }
    let node = scene.lent.take().unwrap();
    scene.known = Some(node["metadata"]["uid"].as_str().unwrap().into());
    scene.live_lent = found(&node);
    scene
}

/// All ways in which labels by which a watch shows a node can be wiped.
fn all_hidden() -> impl Iterator<Item = Scene> {
    WHICH.into_iter().flat_map(|which| WIPED.map(|wiped| hidden(which, &wiped)))
}

/// That nothing but the lease follows, and which labels are missing.
fn rests(scene: &Scene) -> Vec<&'static str> {
    assert_eq!((scene.ordered(), scene.lease(), scene.acts()), (vec![], Some(Lease::Renew), None), "{}", scene.state());
    scene.look(|_, decision| match decision.state {
        NodeState::Rest(Rest::Stripped(keys)) => keys,
        other => panic!("{other}"),
    })
}

#[test]
fn s6_a_node_whose_watch_shows_it_no_more_is_read_before_anything_follows_from_that() {
    let mut scene = hidden(&[keys::BINDING], &Value::Null);
    let read = std::mem::take(&mut scene.live_lent);
    assert_eq!(scene.ordered(), ["the virtual node is read"]);
    // Whatever happens to its machine or its binding meanwhile.
    scene.binding.existence = Existence::Terminating;
    assert_eq!(scene.ordered(), ["the virtual node is read"]);
    scene.physical = None;
    assert_eq!(scene.ordered(), ["the virtual node is read"]);
    scene.live_lent = read;
    assert_eq!(rests(&scene), [keys::BINDING]);
}

#[test]
fn s6_the_lease_of_a_node_goes_on_when_a_person_takes_its_labels_off_and_nothing_else_follows() {
    for mut scene in all_hidden() {
        let missing = rests(&scene);
        assert!(!missing.is_empty());
        // The machine is deselected, the binding is deleted, the machine is gone or another one.
        scene.binding.selector = pool("cpu");
        assert_eq!(rests(&scene), missing);
        scene.binding.existence = Existence::Terminating;
        assert_eq!((rests(&scene), scene.claim()), (missing.clone(), json!("vc-1/b-1")));
        scene.physical = Some(machine("w1", "u2"));
        assert_eq!(rests(&scene), missing);
        scene.physical = None;
        assert_eq!(rests(&scene), missing);
    }
}

#[test]
fn s6_a_node_without_labels_that_was_not_known_before_is_ours_by_our_finalizer_and_our_claim() {
    for mut scene in all_hidden() {
        scene.known = None;
        let LiveLent::Found(node) = &scene.live_lent else { panic!("it was read") };
        let without = LentNode { finalizers: Vec::new(), ..LentNode::clone(node) };
        rests(&scene);
        scene.live_lent = LiveLent::Found(Arc::new(without));
        scene.binding.selector = pool("cpu");
        assert_eq!(scene.ordered(), ["release the physical node"], "a node that was made by hand");
    }
    let mut scene = hidden(&[keys::BINDING], &Value::Null);
    scene.known = None;
    scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: null}}}));
    assert_eq!(
        (scene.ordered(), scene.lease()),
        (vec!["claim the physical node".into(), "create node vnode-east-w1".into()], None)
    );
}

#[test]
fn s6_what_is_gone_was_made_again_or_names_another_has_no_lease_of_ours() {
    for another in [json!({keys::VIRTUAL_CLUSTER: "vc-2"}), json!({keys::BINDING: "west"})] {
        let mut scene = Scene::lent();
        scene.edit_lent(json!({"metadata": {"labels": another}}));
        let node = scene.lent.take().unwrap();
        scene.known = Some(node["metadata"]["uid"].as_str().unwrap().into());
        scene.live_lent = found(&node);
        assert_eq!(scene.lease(), None, "{another}");
    }
    let mut scene = hidden(&[keys::VIRTUAL_CLUSTER], &Value::Null);
    scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: null}}}));
    rests(&scene);
    scene.known = Some("of one that was there before".into());
    assert_eq!(scene.lease(), None);
    scene.live_lent = LiveLent::Gone;
    assert_eq!(scene.lease(), None);
}

#[test]
fn s6_a_node_that_has_its_labels_again_waits_for_its_watch_and_keeps_its_lease() {
    let mut scene = Scene::lent();
    let node = scene.lent.take().unwrap();
    scene.known = Some(node["metadata"]["uid"].as_str().unwrap().into());
    scene.live_lent = found(&node);
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
    assert!(scene.look(|_, decision| decision.state == NodeState::Rest(Rest::CacheBehind)));
}

#[test]
fn s4_the_lease_of_a_node_without_labels_stops_where_any_other_would() {
    let mut scene = hidden(&[keys::BINDING], &Value::Null);
    scene.reach = Reach::Unreachable { since: scene.now.steady };
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::Unreachable)));
    let mut scene = hidden(&[keys::BINDING], &Value::Null);
    scene.edit_physical(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::KubeletUnknown)));
}

#[test]
fn s6_a_node_without_the_uid_of_its_binding_is_adopted_and_its_lease_goes_on() {
    for wiped in WIPED {
        let mut scene = Scene::lent();
        scene.edit_lent(json!({"metadata": {"labels": {keys::BINDING_UID: wiped}}}));
        assert_eq!(scene.lease(), Some(Lease::Renew), "{wiped}");
        scene.settle();
        assert_eq!(scene.sent, ["patch status of node vnode-east-w1"], "no list is asked for: {wiped}");
        assert_eq!(scene.of_lent("/metadata/labels").get(keys::BINDING_UID), Some(&json!("b-1")));
    }
}

/// A node whose label and annotation name another machine, while its own one goes.
fn astray() -> Scene {
    let mut scene = Scene::lent();
    let named = json!({keys::PHYSICAL_NODE_NAME: "w9"});
    scene.edit_lent(json!({"metadata": {"labels": named, "annotations": named}}));
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)), "{}", scene.state());
    scene.physical = None;
    scene
}

#[test]
fn s6_a_node_that_leads_to_no_machine_has_no_lease_and_is_left_alone_until_a_person_deletes_it() {
    let mut scene = astray();
    assert_eq!((scene.ordered(), scene.lease()), (vec!["the physical node is read".into()], Some(Lease::Renew)));
    scene.live = LiveNode::Found("u1".into());
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)), "the cache is behind");
    scene.live = LiveNode::Gone;
    assert_eq!((scene.ordered(), scene.lease()), (vec![], None));
    scene.pod("p");
    scene.edit_lent(json!({"metadata": {"deletionTimestamp": "2026-08-03T12:00:00Z"}}));
    assert_eq!(scene.ordered(), Vec::<String>::new(), "its pods are there");
    scene.pods.clear();
    scene.bar(&[Bar::Suspect]);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.bar(&[]);
    scene.settle();
    let wanted = [
        "the pods of the virtual node are read",
        "stop the lease of node vnode-east-w1",
        "remove the finalizer of node vnode-east-w1",
    ];
    assert_eq!(scene.sent, wanted);
    assert!(scene.lent.is_none());
}

#[test]
fn s6_a_node_that_leads_to_no_machine_keeps_its_finalizer_while_it_may_be_of_another_binding() {
    let mut scene = astray();
    scene.live = LiveNode::Gone;
    scene.edit_lent(json!({"metadata": {"deletionTimestamp": "2026-08-03T12:00:00Z"}}));
    let lent = read_lent(scene.lent.as_ref().unwrap());
    let (name, bars) = ("vnode-east-copy".into(), Bars::default());
    let orders = |owner: Owner, pods_by| {
        leave_astray(&Astray { name: &name, lent: &lent, owner, pods: &[], pods_by, bars: &bars })
    };
    assert_eq!(orders(Owner::Unknown("b-0".into()), PodsBy::List), [NodeOrder::Ask(Question::Binding("b-0".into()))]);
    assert_eq!(orders(Owner::Foreign(WhyForeign::BindingStands("b-0".into())), PodsBy::List), []);
    for owner in [Owner::Ours, Owner::Adoptable("b-0".into())] {
        assert_eq!(orders(owner.clone(), PodsBy::Watch), [NodeOrder::Ask(Question::PodsOfNode)]);
        assert!(matches!(
            &orders(owner, PodsBy::List)[..],
            [NodeOrder::StopLease(_), NodeOrder::RemoveFinalizer { .. }]
        ));
    }
}
