use proptest::prelude::*;

use super::*;
use crate::naming::{BindingName, virtual_node_name};

fn us() -> Identity {
    Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-2".into()).unwrap()
}

fn now() -> Timestamp {
    "2026-08-01T06:10:00Z".parse().unwrap()
}

fn driver(name: &str, node_id: &str, count: Option<i32>) -> Driver {
    Driver { name: name.to_owned(), node_id: node_id.to_owned(), topology_keys: vec!["zone".to_owned()], count }
}

fn keys<const N: usize>(of: [(&str, &str); N]) -> Keys {
    of.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// A virtual CSINode as the API server would have it.
fn stored(object: &Value) -> VirtualCsiNode {
    let metadata = &object["metadata"];
    let texts = |field: &str| -> Keys {
        let members = metadata[field].as_object().into_iter().flatten();
        members.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
    };
    let driver = |entry: &Value| Driver {
        name: entry["name"].as_str().unwrap().to_owned(),
        node_id: entry["nodeID"].as_str().unwrap().to_owned(),
        topology_keys: entry["topologyKeys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap().to_owned())
            .collect(),
        count: entry.get("allocatable").map(|it| i32::try_from(it["count"].as_i64().unwrap()).unwrap()),
    };
    VirtualCsiNode {
        uid: "c-uid".into(),
        version: "3".into(),
        deleting: false,
        labels: texts("labels"),
        annotations: texts("annotations"),
        owners: metadata["ownerReferences"].as_array().unwrap().clone(),
        drivers: object["spec"]["drivers"].as_array().unwrap().iter().map(driver).collect(),
    }
}

struct Scene {
    identity: Identity,
    cluster: ClusterId,
    name: NodeName,
    physical: Option<PhysicalCsiNode>,
    node: Option<OwningNode>,
    live: Live,
    existing: Option<VirtualCsiNode>,
    earlier: Earlier,
    counts: CountEdits,
    bars: Bars,
}

impl Scene {
    fn new() -> Self {
        let cluster = ClusterId::parse("east").unwrap();
        let name = virtual_node_name(&cluster, "w1").unwrap();
        Self {
            node: Some(OwningNode { uid: "n-uid".into(), labels: us().node_labels(&cluster, "w1").into() }),
            identity: us(),
            physical: Some(PhysicalCsiNode {
                uid: "pc-uid".into(),
                deleting: false,
                labels: keys([("from", "lender")]),
                annotations: keys([("storage.alpha.kubernetes.io/migrated-plugins", "a,b")]),
                drivers: vec![driver("ebs", "i-1", Some(25)), driver("nfs", "w1", None)],
            }),
            cluster,
            name,
            live: Live { physical: Presence::Gone, node: Presence::Gone },
            existing: None,
            earlier: Earlier::Unlisted,
            counts: CountEdits::InPlace,
            bars: Bars::default(),
        }
    }

    /// With the CSINode in place.
    fn settled() -> Self {
        let mut scene = Self::new();
        let CsiOrder::Create(object) = scene.decide() else { panic!("{}", scene.decide()) };
        scene.existing = Some(stored(&object));
        scene
    }

    fn decide(&self) -> CsiOrder {
        let facts = Facts {
            identity: &self.identity,
            cluster: &self.cluster,
            physical_name: "w1",
            name: &self.name,
            physical: self.physical.as_ref(),
            node: self.node.as_ref(),
            live: self.live,
            existing: self.existing.as_ref(),
            earlier: self.earlier,
            counts: self.counts,
            bars: &self.bars,
        };
        decide(&facts, now())
    }

    fn physical(&mut self) -> &mut PhysicalCsiNode {
        self.physical.as_mut().unwrap()
    }

    fn existing(&mut self) -> &mut VirtualCsiNode {
        self.existing.as_mut().unwrap()
    }

    /// Takes a patch as an API server would: an entry of a driver that stays never changes but in its count.
    fn take(&mut self, body: &Value) {
        let existing = self.existing.as_mut().unwrap();
        assert_eq!(body["metadata"]["resourceVersion"], &*existing.version);
        let texts = |into: &mut Keys, field: &str| {
            for (key, value) in body["metadata"][field].as_object().into_iter().flatten() {
                match value.as_str() {
                    Some(value) => drop(into.insert(key.clone(), value.to_owned())),
                    None => drop(into.remove(key).expect("null for a key that is not there")),
                }
            }
        };
        texts(&mut existing.labels, "labels");
        texts(&mut existing.annotations, "annotations");
        if let Some(owners) = body["metadata"].get("ownerReferences") {
            existing.owners = owners.as_array().unwrap().clone();
        }
        if body.get("spec").is_some() {
            let mut object = json!({"metadata": {"ownerReferences": []}, "spec": body["spec"]});
            object["metadata"]["labels"] = json!({});
            for new in stored(&object).drivers {
                if let Some(old) = existing.drivers.iter().find(|old| old.name == new.name) {
                    assert_eq!((&old.node_id, &old.topology_keys), (&new.node_id, &new.topology_keys), "422");
                    assert!(old.count == new.count || self.counts == CountEdits::InPlace, "422");
                }
            }
            existing.drivers = stored(&object).drivers;
        }
    }

    /// Each order until there is none, and how they read.
    fn settle(&mut self) -> Vec<String> {
        let mut orders = Vec::new();
        while let CsiOrder::Patch { body, step, .. } = self.decide() {
            orders.push(format!("{step:?}: {}", self.decide()));
            self.take(&body);
            assert!(orders.len() <= 2, "{orders:?}");
        }
        assert_eq!(self.decide(), CsiOrder::Nothing(WhyNothing::Same));
        orders
    }
}

#[test]
fn section_9_a_csinode_is_made_with_its_drivers_its_origin_and_its_owner() {
    let scene = Scene::new();
    let CsiOrder::Create(object) = scene.decide() else { panic!("{}", scene.decide()) };
    let metadata = &object["metadata"];
    assert_eq!((&object["kind"], &metadata["name"]), (&json!("CSINode"), &json!("vnode-east-w1")));
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "vnode-east-w1", "uid": "n-uid"}]);
    assert_eq!(metadata["ownerReferences"], owner);
    assert_eq!(metadata["labels"].as_object().unwrap().len(), 8);
    assert_eq!(
        (&metadata["labels"]["from"], &metadata["labels"][keys::MANAGED_BY_LABEL]),
        (&json!("lender"), &json!("topoloom"))
    );
    assert_eq!(metadata["annotations"][keys::PHYSICAL_CSI_NODE_UID], "pc-uid");
    assert_eq!(metadata["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"], "a,b");
    assert_eq!(metadata["annotations"][keys::LAST_SYNC_TIME], "2026-08-01T06:10:00Z");
    let drivers = json!([
        {"name": "ebs", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 25}},
        {"name": "nfs", "nodeID": "w1", "topologyKeys": ["zone"]},
    ]);
    assert_eq!(object["spec"]["drivers"], drivers);
    assert_eq!(Scene::settled().decide(), CsiOrder::Nothing(WhyNothing::Same));
}

#[test]
fn s22_a_driver_with_another_node_id_or_topology_is_two_writes_and_never_a_delete() {
    for edit in [
        |driver: &mut Driver| "i-2".clone_into(&mut driver.node_id),
        |driver: &mut Driver| driver.topology_keys.push("rack".to_owned()),
    ] {
        let mut scene = Scene::settled();
        edit(&mut scene.physical().drivers[0]);
        scene.physical().drivers.push(driver("new", "n", None));
        let CsiOrder::Patch { body, step: Step::First, .. } = scene.decide() else { panic!("{}", scene.decide()) };
        let left: Vec<_> = body["spec"]["drivers"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
        assert_eq!(left, ["new", "nfs"]);
        let orders = scene.settle();
        let wanted = [
            "First: written: driver ebs removed, to be added again, driver new added",
            "Only: written: driver ebs added",
        ];
        assert_eq!(orders, wanted);
        assert_eq!(scene.existing().drivers.len(), 3);
    }
}

#[test]
fn s22_the_number_of_volumes_changes_in_place_where_the_server_takes_it() {
    let mut scene = Scene::settled();
    scene.physical().drivers[0].count = Some(10);
    scene.physical().drivers[1].count = Some(7);
    assert_eq!(scene.settle(), ["Only: written: volumes of driver ebs, volumes of driver nfs"]);
    scene.counts = CountEdits::Refused;
    scene.physical().drivers[0].count = None;
    let wanted = ["First: written: driver ebs removed, to be added again", "Only: written: driver ebs added"];
    assert_eq!(scene.settle(), wanted);
}

#[test]
fn section_9_drivers_and_copied_keys_come_and_go_and_those_of_users_stay() {
    let mut scene = Scene::settled();
    scene.existing().labels.extend(keys([("team", "a"), ("from", "edited")]));
    scene.existing().annotations.insert("note".to_owned(), "mine".to_owned());
    scene.existing().labels.remove(keys::BINDING_UID).unwrap();
    // Without a UID it names no binding that could be looked for.
    assert!(matches!(scene.decide(), CsiOrder::Nothing(WhyNothing::Foreign(WhyForeign::Label(_)))));
    scene.existing().labels.insert(keys::BINDING_UID.to_owned(), "binding-2".to_owned());
    assert_eq!(scene.settle(), ["Only: written: label from"]);
    scene.physical().labels = keys([("topoloom.dev/leased-by", "x")]);
    scene.physical().annotations.clear();
    scene.physical().drivers.remove(0);
    let CsiOrder::Patch { body, .. } = scene.decide() else { panic!() };
    assert_eq!(body["metadata"]["labels"], json!({"from": null}));
    scene.settle();
    let existing = scene.existing();
    assert_eq!(existing.labels.get("team").map(String::as_str), Some("a"));
    assert_eq!(existing.annotations.get("note").map(String::as_str), Some("mine"));
    assert!(!existing.annotations.contains_key(keys::EXPECTED_METADATA) && existing.drivers.len() == 1);
    assert!(!existing.labels.contains_key("topoloom.dev/leased-by"));
}

#[test]
fn section_9_a_broken_record_removes_nothing() {
    for record in ["", "{", "7", "[]", r#"{"labels": 7}"#, r#"{"labels": [7, "topoloom.dev/binding"]}"#] {
        let mut scene = Scene::settled();
        scene.existing().annotations.insert(keys::EXPECTED_METADATA.to_owned(), record.to_owned());
        scene.physical().labels.clear();
        scene.settle();
        assert!(scene.existing().labels.contains_key("from"), "{record}");
        assert_eq!(scene.existing().labels.get(keys::BINDING).map(String::as_str), Some("east"), "{record}");
    }
}

#[test]
fn s22_the_owner_is_the_virtual_node_of_today_and_other_owners_stay() {
    let mut scene = Scene::settled();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x-uid"});
    scene.existing().owners.push(other.clone());
    assert_eq!(scene.settle(), [""; 0]);
    scene.node.as_mut().unwrap().uid = "n-2".into();
    assert_eq!(scene.settle(), ["Only: written: owner"]);
    let owners = scene.existing().owners.clone();
    assert_eq!((owners.len(), &owners[0], &owners[1]["uid"]), (2, &other, &json!("n-2")));
    scene.existing().owners = vec![json!(7), Value::Null];
    scene.settle();
}

#[test]
fn section_9_what_has_no_original_or_no_node_is_deleted_when_it_is_ours() {
    let mut scene = Scene::settled();
    scene.physical().deleting = true;
    let precondition = Precondition::of(&"c-uid".into(), &"3".into()).unwrap();
    let gone = |why| CsiOrder::Delete { why, precondition: precondition.clone() };
    assert_eq!(scene.decide(), gone(WhyGone::PhysicalGone));
    scene.physical = None;
    assert_eq!(scene.decide(), gone(WhyGone::PhysicalGone));
    scene.physical = Scene::new().physical;
    scene.node = None;
    assert_eq!(scene.decide(), gone(WhyGone::NodeGone));
    scene.existing().deleting = true;
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Terminating));
    scene.existing().deleting = false;
    scene.existing().uid = "".into();
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Unguarded));
    // One of another physical node, whose name gives the same virtual one.
    scene.existing().labels.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w-1".to_owned());
    assert!(matches!(scene.decide(), CsiOrder::Nothing(WhyNothing::Taken(_))));
    scene.existing = None;
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Absent));
}

#[test]
fn section_9_what_a_cache_lacks_is_read_live_before_a_csinode_is_deleted_for_it() {
    let mut scene = Scene::settled();
    (scene.physical, scene.live) = (None, Live::default());
    assert_eq!(scene.decide(), CsiOrder::AskPhysical);
    // What is read of the one says nothing of the other.
    scene.live.node = Presence::Gone;
    assert_eq!(scene.decide(), CsiOrder::AskPhysical);
    scene.live.physical = Presence::Found;
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::CacheBehind));
    scene.live.physical = Presence::Gone;
    assert!(matches!(scene.decide(), CsiOrder::Delete { why: WhyGone::PhysicalGone, .. }));

    (scene.physical, scene.node, scene.live) = (Scene::new().physical, None, Live::default());
    assert_eq!(scene.decide(), CsiOrder::AskNode);
    scene.live.node = Presence::Found;
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::CacheBehind));
    scene.live.node = Presence::Gone;
    assert!(matches!(scene.decide(), CsiOrder::Delete { why: WhyGone::NodeGone, .. }));
    // One that is being deleted is seen, and needs no read.
    scene.live = Live::default();
    scene.physical().deleting = true;
    assert!(matches!(scene.decide(), CsiOrder::Delete { why: WhyGone::PhysicalGone, .. }));
    // Nothing is read for what could not be done.
    scene.bars = Bars::from_iter([Bar::Suspect]);
    scene.physical = None;
    assert_eq!(scene.decide(), CsiOrder::Withheld(Bar::Suspect));
}

#[test]
fn s1_a_csinode_or_a_node_that_is_not_ours_is_left_alone() {
    let mut scene = Scene::settled();
    scene.physical().drivers.clear();
    scene.existing().labels.insert(keys::VIRTUAL_CLUSTER.to_owned(), "cluster-9".to_owned());
    assert!(matches!(scene.decide(), CsiOrder::Nothing(WhyNothing::Foreign(_))));
    scene.physical = None;
    assert!(matches!(scene.decide(), CsiOrder::Nothing(WhyNothing::Foreign(_))));
    scene.existing().labels.clear();
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Foreign(WhyForeign::Unlabelled)));

    let mut scene = Scene::new();
    scene.node.as_mut().unwrap().labels.insert(keys::PHYSICAL_CLUSTER_ID.to_owned(), "west".to_owned());
    let CsiOrder::Nothing(WhyNothing::ForeignNode(taken)) = scene.decide() else { panic!("{}", scene.decide()) };
    assert_eq!(taken.key, keys::PHYSICAL_CLUSTER_ID);
    let mut scene = Scene::new();
    scene.node.as_mut().unwrap().uid = "".into();
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Unguarded));
}

#[test]
fn s6_a_csinode_of_an_earlier_binding_is_adopted_when_that_binding_is_gone() {
    let mut scene = Scene::settled();
    scene.existing().labels.insert(keys::BINDING_UID.to_owned(), "b-1".to_owned());
    assert_eq!(scene.decide(), CsiOrder::AskBinding("b-1".into()));
    scene.earlier = Earlier::Stands;
    assert!(matches!(scene.decide(), CsiOrder::Nothing(WhyNothing::Foreign(WhyForeign::BindingStands(_)))));
    scene.earlier = Earlier::Gone;
    assert_eq!(scene.settle(), ["Only: written: label topoloom.dev/binding-uid"]);
}

#[test]
fn s22_nothing_is_written_while_the_physical_cluster_is_suspect() {
    let mut fresh = Scene::new();
    let mut changed = Scene::settled();
    changed.physical().drivers.clear();
    let mut gone = Scene::settled();
    gone.physical = None;
    for bar in Bar::ALL {
        for scene in [&mut fresh, &mut changed, &mut gone] {
            scene.bars = Bars::from_iter([bar]);
        }
        assert_eq!((fresh.decide(), gone.decide()), (CsiOrder::Withheld(bar), CsiOrder::Withheld(bar)));
        // A pause does not end mirroring.
        let paused = bar == Bar::Paused;
        assert_eq!(changed.decide() == CsiOrder::Withheld(bar), !paused, "{bar:?}");
        assert_eq!(matches!(changed.decide(), CsiOrder::Patch { .. }), paused, "{bar:?}");
    }
}

#[test]
fn section_9_the_time_is_written_with_another_change_only() {
    let mut scene = Scene::settled();
    scene.existing().annotations.insert(keys::LAST_SYNC_TIME.to_owned(), "long ago".to_owned());
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Same));
    scene.existing().annotations.remove(keys::LAST_SYNC_TIME);
    assert_eq!(scene.decide(), CsiOrder::Nothing(WhyNothing::Same));
}

fn some_drivers() -> impl Strategy<Value = Vec<Driver>> {
    let pick = |of: &[&'static str]| prop::sample::select(of.to_vec()).prop_map(str::to_owned);
    let topology_keys = prop::collection::vec(pick(&["x", "y"]), 0..2);
    let some = (pick(&["a", "b", "c"]), pick(&["1", "2"]), topology_keys, prop::option::of(1..3_i32))
        .prop_map(|(name, node_id, topology_keys, count)| Driver { name, node_id, topology_keys, count });
    prop::collection::vec(some, 0..4)
}

fn some_keys() -> impl Strategy<Value = Keys> {
    let pick = |of: &[&'static str]| prop::sample::select(of.to_vec()).prop_map(str::to_owned);
    prop::collection::btree_map(pick(&["k1", "k2", "team", "topoloom.dev/binding"]), pick(&["v1", "v2"]), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Over any history of the physical CSINode and of users' edits, at most two writes lead to rest, each of them legal, and
    /// what users added stays.
    #[test]
    fn s22_any_history_comes_to_rest_by_legal_writes(
        history in prop::collection::vec((some_drivers(), some_keys(), some_keys(), any::<bool>()), 1..6),
    ) {
        let mut scene = Scene::settled();
        scene.existing().labels.insert("users".to_owned(), "own".to_owned());
        for (drivers, labels, annotations, in_place) in history {
            let unique: BTreeMap<_, _> = drivers.into_iter().map(|driver| (driver.name.clone(), driver)).collect();
            let drivers: Vec<_> = unique.into_values().collect();
            scene.counts = if in_place { CountEdits::InPlace } else { CountEdits::Refused };
            let physical = scene.physical();
            (physical.drivers, physical.labels, physical.annotations) = (drivers.clone(), labels.clone(), annotations);
            scene.settle();
            let existing = scene.existing();
            prop_assert_eq!(&existing.drivers, &drivers);
            prop_assert_eq!(existing.labels.get("users").map(String::as_str), Some("own"));
            for key in ["k1", "k2", "team"] {
                prop_assert_eq!(existing.labels.get(key), labels.get(key));
            }
            prop_assert_eq!(existing.labels.get(keys::BINDING).map(String::as_str), Some("east"));
        }
    }
}
