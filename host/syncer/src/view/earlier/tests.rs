use topoloom_sync::guard::Safety;
use topoloom_sync::keys;
use topoloom_sync::liveness::{Doubt, OnUnreachable, Reach};
use topoloom_sync::node::{Binding, LiveLent, LiveNode, PhysicalNode};
use topoloom_sync::taints::{Effect, Taint};
use topoloom_sync::truth::Truth;

use super::super::examples::{binding, lend, now, of_est, physical, view};
use super::*;

const EST: &str = "vnode-est-w1";

/// A live list of the bindings: ours, and these.
fn listed(others: &[&str]) -> Evidence {
    let bindings = others.iter().chain(&["b-1"]).map(|uid| Uid::from(*uid)).collect();
    Evidence { bindings: Some(bindings), ..Evidence::default() }
}

fn named(names: &[&str]) -> Touched {
    names.iter().map(|name| PhysicalName::from(*name)).collect()
}

fn looked(view: &mut View, evidence: &Evidence) -> (Vec<String>, Option<Lease>) {
    let work = view.decide(&EST.into(), evidence, now());
    (work.orders.iter().map(ToString::to_string).collect(), work.lease)
}

fn lease(view: &mut View) -> Option<Lease> {
    let (orders, lease) = looked(view, &Evidence::default());
    assert_eq!(orders, [""; 0]);
    lease
}

/// What is ordered about a machine.
fn orders(view: &mut View, machine: &str) -> Vec<NodeOrder> {
    view.decide(&machine.into(), &Evidence::default(), now()).orders
}

/// A view of these machines, the first of which has a virtual node of an earlier `clusterID`, whose binding is gone.
fn stage(machines: usize) -> View {
    let mut view = view(machines);
    let (name, node) = of_est(1, "b-0");
    view.lent_node(&name, node);
    assert_eq!(looked(&mut view, &listed(&[])), (vec![], Some(Lease::Renew)));
    view
}

/// The machine in this version, of whose kubelet nothing is known.
fn silent(version: &str) -> PhysicalNode {
    let mut machine = PhysicalNode { version: version.into(), ..physical(1) };
    machine.conditions[0].status = Truth::Unknown;
    machine
}

#[test]
fn s4_s6_the_lease_of_a_node_of_an_earlier_cluster_id_is_renewed_where_its_machine_lives() {
    let mut view = view(2);
    let (name, node) = of_est(1, "b-0");
    assert_eq!(view.lent_node(&name, node), named(&[EST, "w1", "w2"]), "no further machine is lent by now");
    let asks = "it is looked up whether a ClusterBinding with the UID b-0 exists".to_owned();
    assert_eq!(looked(&mut view, &Evidence::default()), (vec![asks.clone()], None));
    assert_eq!(looked(&mut view, &listed(&[])), (vec![], Some(Lease::Renew)));
    assert_eq!(lease(&mut view), Some(Lease::Renew), "no later binding has that UID");
    assert_eq!(view.physical_node(&"w1".into(), silent("8")), named(&[EST, "w1"]));
    assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::KubeletUnknown)));
    view.physical_node(&"w1".into(), PhysicalNode { version: "9".into(), ..physical(1) });
    assert_eq!(lease(&mut view), Some(Lease::Renew));
    // A binding that was gone may exist after a restore.
    view.forget_answers();
    assert!(view.review(now()).touched.contains(EST));
    assert_eq!(looked(&mut view, &Evidence::default()), (vec![asks], None));
}

#[test]
fn s5_the_lease_of_a_node_of_an_earlier_cluster_id_follows_the_reach_of_the_cluster() {
    let mut view = stage(1);
    let gone = Reach::Unreachable { since: now().steady };
    let touched = view.set_bars([Bar::Unreachable].into_iter().collect(), gone);
    assert_eq!(touched, named(&[EST, "w1"]));
    assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::Unreachable)));
    // It answers again: its kubelet may have died meanwhile.
    view.set_bars([Bar::Suspect].into_iter().collect(), Reach::Suspect(Doubt::NotListed));
    assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::Unlisted)));
    let touched = view.physical_nodes([("w1".into(), physical(1))].into());
    assert!(touched.contains(EST));
    assert_eq!(lease(&mut view), Some(Lease::Renew));
    // Or it is waited for.
    let hold = Duration::from_secs(3_600);
    view.binding.on_unreachable = OnUnreachable::Hold(hold);
    view.set_bars([Bar::Unreachable].into_iter().collect(), gone);
    let work = view.decide(&EST.into(), &Evidence::default(), now());
    assert_eq!((work.lease, work.again), (Some(Lease::Renew), Some(hold)));
}

/// What a live read of its machine has shown.
fn read(live: LiveNode) -> Evidence {
    Evidence { live, ..Evidence::default() }
}

/// Its machine is read before its lease stops; this is what becomes of it then.
fn lease_after(view: &mut View, live: LiveNode) -> Option<Lease> {
    let work = view.decide(&EST.into(), &Evidence::default(), now());
    assert_eq!((&work.orders[..], work.reads.as_deref()), (&[NodeOrder::Ask(Question::PhysicalNode)][..], Some("w1")));
    let (orders, lease) = looked(view, &read(live));
    assert_eq!(orders, [""; 0]);
    lease
}

const GONE: Option<Lease> = Some(Lease::Stop(NotAlive::MachineGone));

#[test]
fn s4_s22_the_lease_of_a_node_of_an_earlier_cluster_id_stops_when_its_machine_is_gone_or_is_another_one() {
    let mut view = stage(1);
    assert_eq!(view.physical_node_gone("w1"), named(&[EST, "w1"]));
    assert_eq!(lease_after(&mut view, LiveNode::Found("u1".into())), Some(Lease::Renew), "the cache is behind");
    assert_eq!(lease_after(&mut view, LiveNode::Gone), GONE);
    // What is cached may be old: then nothing is read, and nothing changes.
    view.set_bars([Bar::Suspect].into_iter().collect(), Reach::Suspect(Doubt::Silent));
    assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::Unlisted)));
    view.set_bars(Bars::default(), Reach::Reachable);
    assert_eq!(lease_after(&mut view, LiveNode::Gone), GONE);
    // It is there again, and then another one under its name.
    view.physical_node(&"w1".into(), physical(1));
    assert_eq!(lease(&mut view), Some(Lease::Renew));
    view.set_bars([Bar::Suspect].into_iter().collect(), Reach::Suspect(Doubt::Silent));
    view.physical_node(&"w1".into(), PhysicalNode { uid: "u9".into(), ..silent("8") });
    assert_eq!(lease(&mut view), Some(Lease::Renew));
    view.set_bars([Bar::Restored].into_iter().collect(), Reach::Reachable);
    assert_eq!(lease(&mut view), Some(Lease::Renew), "the store may be of before it was made");
    view.set_bars(Bars::default(), Reach::Reachable);
    assert_eq!(lease_after(&mut view, LiveNode::Found("u8".into())), Some(Lease::Renew), "the cache is behind");
    assert_eq!(lease_after(&mut view, LiveNode::Found("u9".into())), GONE);
    // Both names of the UID were edited: the claim shows that it is the machine.
    let mut claimed = PhysicalNode { uid: "u9".into(), version: "9".into(), ..physical(1) };
    claimed.annotations.insert(keys::LEASED_BY.to_owned(), "vc-1/b-0".to_owned());
    view.physical_node(&"w1".into(), claimed);
    assert_eq!(lease(&mut view), Some(Lease::Renew));
}

/// A view without machines, as after a restart, with the virtual node of an earlier `clusterID` whose binding is gone.
fn restarted() -> View {
    let mut view = view(0);
    let (name, node) = of_est(1, "b-0");
    view.lent_node(&name, node);
    assert_eq!(looked(&mut view, &listed(&[])), (vec![], Some(Lease::Renew)));
    view
}

#[test]
fn s4_s22_of_a_machine_that_may_be_in_another_cluster_the_virtual_node_itself_says_whether_it_lives() {
    let mut view = restarted();
    assert_eq!(lease(&mut view), Some(Lease::Renew));
    let (name, node) = of_est(1, "b-0");
    let mut unknown = LentNode { version: "30".into(), ..node };
    unknown.conditions.iter_mut().for_each(|condition| condition.status = Truth::Unknown);
    view.lent_node(&name, unknown);
    assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::KubeletUnknown)));
}

#[test]
fn s4_s22_after_a_restart_a_machine_is_missed_where_another_one_of_its_binding_or_the_lease_of_that_is() {
    let mut view = restarted();
    let (other, node) = of_est(2, "b-7");
    view.physical_node(&"w2".into(), physical(2));
    view.lent_node(&other, node);
    assert_eq!(lease(&mut view), Some(Lease::Renew), "that one may have borrowed from another cluster");
    let (other, node) = of_est(2, "b-0");
    view.lent_node(&other, LentNode { version: "30".into(), ..node });
    assert_eq!(lease_after(&mut view, LiveNode::Gone), GONE);

    let mut view = restarted();
    view.leads_to(&"pc-1".into());
    for (cluster, id) in [("pc-2", "est"), ("pc-1", "west")] {
        view.was_lent_from(&cluster.into(), id);
        assert_eq!(lease(&mut view), Some(Lease::Renew), "{cluster} {id}");
    }
    assert_eq!(view.was_lent_from(&"pc-1".into(), "est"), named(&[EST]));
    assert_eq!(view.was_lent_from(&"pc-1".into(), "est"), Touched::new());
    assert_eq!(lease_after(&mut view, LiveNode::Gone), GONE);
}

#[test]
fn s4_s6_in_another_cluster_no_machine_of_an_earlier_cluster_id_is_missed_and_in_the_same_one_it_still_is() {
    for (next, is_same) in [("pc-1", true), ("pc-2", false)] {
        let mut view = stage(1);
        view.leads_to(&"pc-1".into());
        view.leads_to(&next.into());
        // What was cached before is not seen again.
        view.physical_node(&"w1".into(), PhysicalNode { version: "9".into(), ..physical(1) });
        assert_eq!(lease(&mut view), Some(Lease::Renew));
        assert!(view.physical_nodes([("w7".into(), physical(7))].into()).contains(EST));
        if is_same {
            assert_eq!(lease_after(&mut view, LiveNode::Gone), GONE);
        } else {
            assert_eq!(lease(&mut view), Some(Lease::Renew));
        }
    }
}

#[test]
fn s7_no_machine_is_lent_anew_while_a_node_of_an_earlier_cluster_id_is_there_and_what_is_lent_goes_on() {
    let mut view = view(2);
    lend(&mut view, 1);
    let (name, node) = of_est(2, "b-0");
    view.lent_node(&name, node);
    let work = view.decide(&"w2".into(), &Evidence::default(), now());
    assert_eq!((work.orders.len(), work.lease), (0, None));
    assert!(work.state.ends_with(&Bar::Conflict.to_string()), "{}", work.state);
    let mut tainted = PhysicalNode { version: "9".into(), ..view.physical("w1").unwrap().clone() };
    tainted.taints.push(Taint::new("team", "blue", Effect::NoSchedule));
    view.physical_node(&"w1".into(), tainted);
    assert_ne!(orders(&mut view, "w1"), []);
    // Its watch shows it no more: it may be there still.
    assert_eq!(view.lent_node_left(&name), named(&[&*name]));
    assert_eq!((orders(&mut view, "w2"), view.strays().earlier.len()), (vec![], 1));
    let gone = Evidence { live_lent: LiveLent::Gone, ..Evidence::default() };
    view.decide(&(&name).into(), &gone, now());
    assert!(view.review(now()).touched.contains("w2"));
    assert!(matches!(&orders(&mut view, "w2")[..], [NodeOrder::PatchPhysical { .. }, NodeOrder::Create { .. }]));
    assert_eq!(view.strays().earlier.len(), 0);
}

#[test]
fn s6_a_node_of_a_binding_that_exists_has_no_lease_of_ours_and_holds_up_nothing() {
    let mut view = view(1);
    let (name, node) = of_est(1, "b-9");
    view.lent_node(&name, node);
    assert_eq!(orders(&mut view, "w1"), [], "until that is known");
    assert_eq!(looked(&mut view, &listed(&["b-9"])), (vec![], None));
    assert!(view.review(now()).touched.contains("w1"));
    assert_eq!(orders(&mut view, "w1").len(), 2);
    assert_eq!((view.strays().earlier.len(), view.strays().astray.len()), (0, 1));
    // It is gone by now.
    assert_eq!(looked(&mut view, &listed(&[])), (vec![], Some(Lease::Renew)));
    assert_eq!((view.strays().earlier.len(), view.strays().astray.len()), (1, 0));
}

#[test]
fn s6_nodes_of_an_earlier_cluster_id_are_named_and_stay_when_the_binding_goes() {
    let mut view = view(1);
    let (name, mut node) = of_est(1, "b-0");
    node.metadata.labels.remove(keys::BINDING_UID);
    view.lent_node(&name, node);
    assert_eq!(lease(&mut view), Some(Lease::Renew), "without a UID there is no binding to look for");
    let strays = view.strays();
    assert_eq!((strays.earlier, &*strays.binding), ([(name, ClusterId::parse("est").unwrap())].into(), "east"));
    assert_eq!((strays.stripped.len(), strays.astray.len(), view.counts().unclear), (0, 0, 1));
    assert!(view.leaves_nothing() && !view.lends_nothing());
    // A binding that is being deleted lends nothing, and gives back what it claims.
    let deleted = Binding { existence: Existence::Terminating, ..binding() };
    assert_eq!(view.set_terms(deleted, Safety::default()), named(&[EST, "w1"]));
    assert_eq!(view.bars_of(true), Bars::default());
    assert_eq!(lease(&mut view), Some(Lease::Renew));
}

#[test]
fn s10_a_node_of_an_earlier_cluster_id_that_a_person_has_deleted_goes_when_no_pod_is_left() {
    let mut view = stage(1);
    let (name, node) = of_est(1, "b-0");
    view.lent_node(&name, LentNode { version: "30".into(), existence: Existence::Terminating, ..node });
    let asked = looked(&mut view, &listed(&[]));
    assert_eq!(asked.0, ["the pods of the virtual node are read"]);
    let no_pods = Evidence { pods: Some(Vec::new()), ..listed(&[]) };
    let work = view.decide(&EST.into(), &no_pods, now());
    assert!(matches!(&work.orders[..], [NodeOrder::StopLease(_), NodeOrder::RemoveFinalizer { .. }]), "{work:?}");
    assert_eq!(work.lease, None);
}
