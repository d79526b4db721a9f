use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::deletion::{DeletionTiming, Existence, PodClass};
use crate::merge::{Cordon, Metadata};
use crate::node::{LentNode, LentPod, NodeOrder, Now, RemovalMeans};
use crate::phase::Phase;
use crate::reclaim::PodRef;
use crate::taints::Taint;
use crate::texts::Document;

type Keys = BTreeMap<String, String>;

const US: &str = "vc-1";

fn keys<const N: usize>(of: [(&str, &str); N]) -> Keys {
    of.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn labels(cluster: &str, binding: &str, uid: &str) -> Keys {
    keys([
        (keys::VIRTUAL_CLUSTER, cluster),
        (keys::BINDING, binding),
        (keys::BINDING_UID, uid),
        (keys::MANAGED_BY_LABEL, keys::MANAGED_BY),
    ])
}

fn object(name: &str, labels: Keys, annotations: Keys) -> Object {
    Object {
        namespace: None,
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: "7".into(),
        labels,
        annotations,
    }
}

/// The virtual node of a machine of the cluster `east`.
fn lent(machine: &str, labels: Keys) -> Object {
    object(&format!("vnode-east-{machine}"), labels, keys([(keys::PHYSICAL_NODE_NAME, machine)]))
}

fn machine(name: &str, claim: &str) -> Object {
    object(name, Keys::new(), keys([(keys::LEASED_BY, claim)]))
}

fn pod(name: &str, labels: Keys, node: &str) -> PhysicalPod {
    PhysicalPod {
        namespace: "lent".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}").into(),
        version: "7".into(),
        labels,
        annotations: keys([
            (keys::VIRTUAL_POD_NAMESPACE, "shop"),
            (keys::VIRTUAL_POD_NAME, name),
            (keys::VIRTUAL_POD_UID, "v"),
            (keys::VIRTUAL_NODE_NAME, node),
        ]),
        deleting: false,
    }
}

/// The virtual pod of that name, which names the physical one.
fn twin(name: &str) -> VirtualPod {
    VirtualPod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: "v".into(),
        annotations: keys([(keys::PHYSICAL_POD_NAMESPACE, "lent"), (keys::PHYSICAL_POD_NAME, name)]),
    }
}

/// Two clusters.
#[derive(Default)]
struct World {
    standing: BTreeMap<Uid, Standing>,
    cluster_is_gone: bool,
    lent: Vec<Object>,
    machines: Vec<Object>,
    pods: Vec<PhysicalPod>,
    leases: Vec<Object>,
    twins: Vec<VirtualPod>,
}

impl World {
    /// A binding `east` that was deleted by force, with two nodes and one pod.
    fn orphaned() -> Self {
        let old = || labels(US, "east", "b-0");
        let mut lease = object("topoloom-borrower-1", old(), Keys::new());
        lease.namespace = Some("lent".to_owned());
        Self {
            lent: vec![lent("w1", old()), lent("w2", old())],
            machines: vec![machine("w1", "vc-1/b-0"), machine("w2", "vc-1/b-0"), machine("w3", "vc-2/b-0")],
            pods: vec![pod("web", old(), "vnode-east-w1"), pod("lost", old(), "vnode-east-w1")],
            leases: vec![lease],
            twins: vec![twin("web")],
            ..Self::default()
        }
    }

    /// This binding exists, and has its name as `clusterID`.
    fn stands(mut self, uid: &str, name: &str) -> Self {
        let standing = Standing { name: BindingName::parse(name).unwrap(), cluster: Some(name.to_owned()) };
        self.standing.insert(uid.into(), standing);
        self
    }

    fn decide(&self, asked: &Asked) -> Release {
        let bindings = if self.cluster_is_gone { Bindings::ClusterGone } else { Bindings::Listed(&self.standing) };
        decide(&ReleaseFacts {
            virtual_cluster: US,
            asked,
            bindings,
            lent: &self.lent,
            machines: &self.machines,
            pods: &self.pods,
            leases: &self.leases,
            twins: &self.twins,
        })
    }

    /// What goes and what stays, a line each.
    fn told(&self, asked: &Asked) -> Vec<String> {
        let release = self.decide(asked);
        let goes = release.items.iter().map(|item| {
            let when = match &item.when {
                When::Now => String::new(),
                When::After(node) => format!(" after {node}"),
            };
            format!("{} {}{when}", item.kind.word(), item.name)
        });
        let stays = release.told(asked).map(|kept| format!("{} {} stays: {}", kept.kind.word(), kept.name, kept.why));
        goes.chain(stays).collect()
    }
}

fn east() -> Asked {
    Asked::Binding(BindingName::parse("east").unwrap())
}

fn node(name: &str) -> Asked {
    Asked::Node(name.to_owned())
}

const ALL_OF_EAST: [&str; 7] = [
    "virtual-node vnode-east-w1",
    "virtual-node vnode-east-w2",
    "claim w1 after vnode-east-w1",
    "claim w2 after vnode-east-w2",
    "pod web after vnode-east-w1",
    "pod lost",
    "lease topoloom-borrower-1",
];

#[test]
fn s22_everything_that_a_binding_left_that_was_deleted_by_force_goes_in_order() {
    let world = World::orphaned().stands("b-9", "west");
    assert_eq!(world.told(&east()), ALL_OF_EAST);
    assert_eq!(world.told(&Asked::Everything), ALL_OF_EAST);
    // The virtual cluster is lost: nothing is known of it, and nothing there is waited for.
    let gone = World { cluster_is_gone: true, lent: Vec::new(), twins: Vec::new(), ..World::orphaned() };
    let wanted = ["claim w1", "claim w2", "pod web", "pod lost", "lease topoloom-borrower-1"];
    assert_eq!(
        (gone.told(&east()), gone.told(&Asked::Everything)),
        (wanted.map(str::to_owned).to_vec(), wanted.map(str::to_owned).to_vec())
    );
}

#[test]
fn s6_what_a_binding_has_that_exists_stays_and_so_does_what_is_anothers() {
    let world = World::orphaned().stands("b-0", "east");
    assert_eq!(world.told(&Asked::Everything), [""; 0]);
    let stands = "stays: it belongs to ClusterBinding east, which exists";
    let told = world.told(&east());
    assert!(!told.is_empty() && told.iter().all(|line| line.ends_with(stands)), "{told:#?}");
    // Labels of another virtual cluster, and no labels at all.
    let foreign = World {
        lent: vec![lent("w1", labels("vc-2", "east", "b-0")), lent("w2", Keys::new())],
        machines: vec![machine("w1", "vc-2/b-0")],
        pods: vec![pod("web", labels("vc-2", "east", "b-0"), "vnode-east-w1")],
        leases: vec![object("l", labels("vc-2", "east", "b-0"), Keys::new())],
        ..World::default()
    };
    assert_eq!((foreign.told(&east()), foreign.told(&Asked::Everything)), (Vec::new(), Vec::new()));
}

#[test]
fn s22_a_binding_of_the_same_name_takes_over_everything_but_a_pod_without_a_virtual_one() {
    let world = World::orphaned().stands("b-1", "east");
    let takes = "stays: ClusterBinding east exists, and takes over what an earlier one left";
    assert_eq!(
        world.told(&east()),
        [
            "pod lost".to_owned(),
            format!("virtual-node vnode-east-w1 {takes}"),
            format!("virtual-node vnode-east-w2 {takes}"),
            "claim w1 stays: its virtual node vnode-east-w1 stays".to_owned(),
            "claim w2 stays: its virtual node vnode-east-w2 stays".to_owned(),
            "pod web stays: a virtual pod belongs to it".to_owned(),
            format!("lease topoloom-borrower-1 {takes}"),
        ]
    );
    // A machine that the new one does not lend keeps the claim of the old one for ever.
    let alone = World { lent: vec![lent("w1", labels(US, "east", "b-1"))], ..world };
    let told = alone.told(&east());
    assert!(told.contains(&"claim w2".to_owned()) && !told.contains(&"claim w1".to_owned()), "{told:#?}");
}

#[test]
fn s6_s7_what_was_lent_under_another_cluster_id_is_not_taken_over_and_stays_until_that_binding_is_deleted() {
    let mut world = World::orphaned().stands("b-1", "east");
    let under = |object: &mut Object, id: &str| {
        object.labels.insert(keys::PHYSICAL_CLUSTER_ID.to_owned(), id.to_owned());
    };
    under(&mut world.lent[0], "est");
    under(&mut world.lent[1], "east");
    under(&mut world.leases[0], "est");
    let other = "stays: ClusterBinding east exists and has another clusterID, so it cannot take it over; it can go once that binding is \
                 deleted";
    let told = world.told(&east());
    for line in [
        format!("virtual-node vnode-east-w1 {other}"),
        "virtual-node vnode-east-w2 stays: ClusterBinding east exists, and takes over what an earlier one left"
            .to_owned(),
        "claim w1 stays: its virtual node vnode-east-w1 stays".to_owned(),
        format!("lease topoloom-borrower-1 {other}"),
    ] {
        assert!(told.contains(&line), "{line}: {told:#?}");
    }
    let all = world.told(&Asked::Everything);
    assert!(all.contains(&format!("virtual-node vnode-east-w1 {other}")), "no binding has it: {all:#?}");
    world.standing.values_mut().for_each(|unreadable| unreadable.cluster = None);
    let told = world.told(&east());
    let taken_over =
        "virtual-node vnode-east-w1 stays: ClusterBinding east exists, and takes over what an earlier one left";
    assert!(told.iter().any(|line| line == taken_over), "its clusterID is not known: {told:#?}");
    world.standing.clear();
    assert_eq!(world.told(&east()), ALL_OF_EAST);
}

#[test]
fn s7_the_lease_of_a_borrower_stays_as_long_as_one_of_its_pods_does() {
    // The virtual node of the pod is gone, and its virtual pod is not.
    let world = World { lent: Vec::new(), machines: Vec::new(), ..World::orphaned() };
    let wanted = [
        "pod lost",
        "pod web stays: a virtual pod belongs to it",
        "lease topoloom-borrower-1 stays: pods of its binding stay in its namespace",
    ];
    assert_eq!(world.told(&east()), wanted);
    assert_eq!(world.told(&Asked::Everything), wanted);
    // One that terminates is as good as gone, and pods elsewhere are in the way of no one.
    let mut leaving = World { lent: Vec::new(), machines: Vec::new(), ..World::orphaned() };
    leaving.pods[0].deleting = true;
    assert_eq!(leaving.told(&east()), ["pod lost", "lease topoloom-borrower-1"]);
    let mut elsewhere = world;
    elsewhere.pods[0].namespace = "other".to_owned();
    elsewhere.twins[0].annotations.insert(keys::PHYSICAL_POD_NAMESPACE.to_owned(), "other".to_owned());
    assert!(elsewhere.told(&east()).contains(&"lease topoloom-borrower-1".to_owned()));
}

#[test]
fn s7_a_pod_outside_of_the_namespace_that_was_borrowed_is_anothers_whatever_its_labels_are() {
    // The lender copied the manifest of a lent pod.
    let mut world = World::orphaned();
    let mut copy = pod("copy", labels(US, "east", "b-0"), "vnode-east-w1");
    copy.namespace = "theirs".to_owned();
    world.pods.push(copy);
    let told = world.told(&east());
    let stays = "pod copy stays: it is outside of the namespace that its binding borrowed, so another made it";
    assert!(told.contains(&stays.to_owned()) && !told.contains(&"pod copy".to_owned()), "{told:#?}");
    assert_eq!(world.told(&Asked::Everything), ALL_OF_EAST);
    // Without the Lease nothing shows which namespace that was.
    world.leases.clear();
    let told = world.told(&Asked::Everything);
    let pods: Vec<&String> = told.iter().filter(|line| line.starts_with("pod ")).collect();
    assert!(pods.len() == 3 && pods.iter().all(|line| line.contains(" stays: no Lease shows ")), "{told:#?}");
}

#[test]
fn s22_a_label_that_was_edited_on_a_virtual_node_releases_no_claim_before_that_node_is_gone() {
    let mut world = World::orphaned();
    world.lent[0].labels.insert(keys::PHYSICAL_NODE_UID.to_owned(), "edited".to_owned());
    world.lent[0].annotations.insert(keys::PHYSICAL_NODE_UID.to_owned(), "uid-w1".to_owned());
    assert_eq!(world.told(&east()), ALL_OF_EAST);
}

#[test]
fn s7_one_node_is_released_by_either_of_its_names_and_no_other_with_it() {
    let world = World::orphaned();
    for name in ["w1", "vnode-east-w1"] {
        let wanted =
            ["virtual-node vnode-east-w1", "claim w1 after vnode-east-w1", "pod web after vnode-east-w1", "pod lost"];
        assert_eq!(world.told(&node(name)), wanted, "{name}");
    }
    assert_eq!(world.told(&node("w9")), [""; 0]);
    let other = "claim w3 stays: a binding of another virtual cluster has it, vc-2";
    assert_eq!(world.told(&node("w3")), [other]);
    // A machine of another physical cluster has the same name.
    let mut elsewhere = lent("w1", labels(US, "south", "b-7"));
    elsewhere.labels.insert(keys::PHYSICAL_NODE_UID.to_owned(), "uid-of-another".to_owned());
    let two = World { lent: vec![elsewhere], ..World::orphaned() }.stands("b-7", "south");
    assert!(two.told(&east()).contains(&"claim w1".to_owned()));
}

#[test]
fn s7_a_claim_that_is_none_goes_where_exactly_this_node_is_asked_for() {
    for value in ["", "vc-1", "vc-1/", "a b/c"] {
        let world = World { machines: vec![machine("w1", value)], ..World::default() };
        assert_eq!(world.told(&node("w1")), ["claim w1"], "{value:?}");
        assert_eq!((world.told(&east()), world.told(&Asked::Everything)), (Vec::new(), Vec::new()), "{value:?}");
    }
    let free = World { machines: vec![object("w1", Keys::new(), Keys::new())], ..World::default() };
    assert_eq!(free.told(&node("w1")), [""; 0]);
}

#[test]
fn s6_an_object_without_version_or_uid_is_never_given() {
    let mut world = World::orphaned();
    world.lent[0].version = ResourceVersion::default();
    world.machines[1].uid = String::new();
    let told = world.told(&east());
    for name in ["virtual-node vnode-east-w1", "claim w2"] {
        let line = format!("{name} stays: its UID or resourceVersion is not known");
        assert!(told.contains(&line), "{told:#?}");
    }
    assert!(told.contains(&"claim w1 stays: its virtual node vnode-east-w1 stays".to_owned()), "{told:#?}");
}

#[test]
fn s7_the_patch_of_a_claim_carries_what_was_judged_and_takes_our_two_keys_alone() {
    let release = World::orphaned().decide(&node("w1"));
    let claim = release.items.iter().find(|item| item.kind == Kind::Claim).unwrap();
    let wanted = json!({"metadata": {
        "uid": "uid-w1", "resourceVersion": "7",
        "labels": {"topoloom.dev/policy-applied": null}, "annotations": {"topoloom.dev/leased-by": null},
    }});
    assert_eq!(without_claim(&claim.precondition), wanted);
    let later = Item {
        when: When::Now,
        precondition: Precondition::of(&"uid-w1".into(), &"9".into()).unwrap(),
        ..claim.clone()
    };
    assert!(later.is_same(claim), "a later version of one object");
    let another = Item { precondition: Precondition::of(&"uid-2".into(), &"7".into()).unwrap(), ..claim.clone() };
    assert!(!another.is_same(claim));
}

fn lent_node() -> LentNode {
    let mut labels = labels(US, "east", "b-0");
    labels.insert(keys::PHYSICAL_CLUSTER_ID.to_owned(), "east".to_owned());
    LentNode {
        uid: "n-1".into(),
        version: "7".into(),
        existence: Existence::Alive,
        finalizers: vec![keys::VNODE_FINALIZER.to_owned()],
        metadata: Metadata {
            labels: labels.into(),
            annotations: keys([(keys::PHYSICAL_NODE_NAME, "w1")]).into(),
            ..Metadata::default()
        },
        conditions: Vec::new(),
        allocatable: Arc::default(),
        capacity: Arc::default(),
        addresses: json!([]).into(),
        port: None,
        info: Document::default(),
    }
}

fn lent_pod() -> LentPod {
    LentPod {
        pod: PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid: "p-1".into() },
        version: "3".into(),
        class: PodClass::Ordinary,
        phase: Phase::Running,
        existence: Existence::Alive,
        tolerations: Vec::new(),
        refused: None,
        grace: None,
    }
}

fn at(second: i64) -> Now {
    Now {
        wall: jiff::Timestamp::from_second(1_790_000_000 + second).unwrap(),
        steady: std::time::Duration::from_secs(u64::try_from(second).unwrap()),
    }
}

fn steps(node: &LentNode, pods: &[LentPod], now: i64) -> Vec<NodeOrder> {
    let former = former(US, "vnode-east-w1", node, None, DeletionTiming::default()).unwrap();
    leave(&former, node, pods, at(0).wall, at(now))
}

#[test]
fn s10_s22_an_orphaned_node_is_marked_emptied_by_evictions_and_then_deleted() {
    let mut node = lent_node();
    assert!(matches!(&steps(&node, &[lent_pod()], 0)[..], [NodeOrder::PatchSpec { .. }]), "it takes no more pods");
    node.metadata.taints.push(Taint::deleting());
    node.metadata.annotations.insert(keys::DELETION_TAINT_TIME.to_owned(), "2026-08-01T06:10:00Z".to_owned());
    node.metadata.cordon = Cordon::Cordoned;
    let means = |now| match &steps(&node, &[lent_pod()], now)[..] {
        [NodeOrder::RemovePods(pods)] => pods[0].means,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (means(1), means(300)),
        (RemovalMeans::Eviction, RemovalMeans::Delete),
        "a budget holds it up for so long"
    );
    let leaving = LentPod { existence: Existence::Terminating, ..lent_pod() };
    assert_eq!(steps(&node, &[leaving], 2), [], "it is waited for");
    let deleted = steps(&node, &[], 3);
    let [NodeOrder::StopLease(_), NodeOrder::Delete { name, precondition }] = &deleted[..] else {
        panic!("{deleted:?}")
    };
    assert_eq!((&**name, &**precondition.uid(), &**precondition.version()), ("vnode-east-w1", "n-1", "7"));
    node.existence = Existence::Terminating;
    let freed = steps(&node, &[], 4);
    assert!(matches!(&freed[..], [NodeOrder::StopLease(_), NodeOrder::RemoveFinalizer { .. }]), "{freed:?}");
}

#[test]
fn s6_a_node_that_does_not_show_which_binding_made_it_is_left_alone() {
    let read = |edit: &dyn Fn(&mut LentNode), named: Option<&str>| {
        let mut node = lent_node();
        edit(&mut node);
        let named = named.map(|name| BindingName::parse(name).unwrap());
        former(US, "vnode-east-w1", &node, named.as_ref(), DeletionTiming::default()).map(drop)
    };
    let set = |key: &'static str, value: &'static str| {
        move |node: &mut LentNode| drop(node.metadata.labels.insert(key.to_owned(), value.to_owned()))
    };
    assert_eq!(read(&|_| {}, None), Ok(()));
    assert_eq!(read(&|_| {}, Some("west")), Ok(()), "its label says which one it was");
    let missing = read(&|node| drop(node.metadata.labels.remove(keys::BINDING_UID)), None);
    assert_eq!(missing, Err(NoFormer::Missing(keys::BINDING_UID)));
    let other = read(&set(keys::PHYSICAL_CLUSTER_ID, "west"), None);
    assert_eq!(other, Err(NoFormer::OtherName("vnode-west-w1".to_owned())));
    // A name that is too long for a label is known only to who asked for it.
    let long = "b".repeat(200);
    let hash: &'static str = label_value(&long).leak();
    assert!(matches!(read(&set(keys::BINDING, hash), None), Err(NoFormer::Hashed(_))));
    assert_eq!(read(&set(keys::BINDING, hash), Some(&long)), Ok(()));
}

proptest! {
    #[test]
    fn s1_nothing_goes_that_is_not_of_this_cluster_and_of_a_binding_that_is_gone(
        clusters in proptest::collection::vec(0..3_usize, 4),
        uids in proptest::collection::vec(0..3_usize, 4),
        asked in 0..3_usize,
        gone in proptest::bool::ANY,
    ) {
        let cluster = |at: usize| ["vc-1", "vc-2", ""][clusters[at]];
        let uid = |at: usize| ["b-0", "b-1", ""][uids[at]];
        let of = |at: usize| labels(cluster(at), "east", uid(at));
        let world = World {
            cluster_is_gone: gone,
            lent: vec![lent("w1", of(0))],
            machines: vec![machine("w1", &format!("{}/{}", cluster(1), uid(1)))],
            pods: vec![pod("web", of(2), "vnode-east-w1")],
            leases: vec![Object { namespace: Some("lent".to_owned()), ..object("l", of(3), Keys::new()) }],
            ..World::default()
        }
        .stands("b-1", "east");
        let asked = [Asked::Everything, east(), node("w1")][asked].clone();
        for item in world.decide(&asked).items {
            let at = match item.kind { Kind::LentNode => 0, Kind::Claim => 1, Kind::Pod => 2, Kind::Lease => 3 };
            let is_malformed_claim = item.kind == Kind::Claim && item.binding.is_none();
            prop_assert!(cluster(at) == "vc-1" || is_malformed_claim, "{:?}", item);
            prop_assert!(gone || uid(at) != "b-1" || is_malformed_claim, "{:?}", item);
            prop_assert!(!uid(at).is_empty() || is_malformed_claim, "{:?}", item);
        }
    }
}
