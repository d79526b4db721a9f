//! The controller of CSINodes between two staged API servers.

use serde_json::json;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::keys;

use super::staged::Api;
use super::*;
use crate::slices::csi::CsiNodeSlice;
use crate::view::examples;

const LENT: &str = "vnode-east-w1";
const PATH: &str = "storage.k8s.io/v1/csinodes";

/// A binding with one lent node and one physical CSINode.
struct Scene {
    physical: Api,
    lent: Api,
    view: Arc<Mutex<View>>,
    csi: CsiNodes,
}

fn read(object: &Value) -> CsiNodeSlice {
    serde_json::from_value(object.clone()).unwrap()
}

fn driver(name: &str, node_id: &str, count: Option<i32>) -> Value {
    let mut driver = json!({"name": name, "nodeID": node_id, "topologyKeys": ["zone"]});
    if let Some(count) = count {
        driver["allocatable"] = json!({"count": count});
    }
    driver
}

impl Scene {
    fn new() -> Self {
        let (physical, lent) = (Api::default(), Api::default());
        let mut view = examples::view(1);
        examples::lend(&mut view, 1);
        view.lent_csi_nodes(Default::default());
        lent.state().nodes.insert(LENT.to_owned());
        let view = Arc::new(Mutex::new(view));
        let requests = CsiRequests::new(CsiClients { physical: physical.client(), lent: lent.client() });
        let csi = CsiNodes::new(Arc::clone(&view), requests, Events::new(lent.client()), examples::now);
        let scene = Self { physical, lent, view, csi };
        scene.drivers(vec![driver("ebs", "i-1", Some(25))]);
        scene
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap()
    }

    /// The physical CSINode has these drivers from now on, and no other is there.
    fn drivers(&self, drivers: Vec<Value>) {
        let object = json!({"metadata": {"name": "w1", "uid": "pc-1"}, "spec": {"drivers": drivers}});
        let stored = self.physical.put(object);
        self.view().physical_csi_nodes([("w1".into(), read(&stored).physical().unwrap())].into());
    }

    /// The watch of the virtual cluster shows what is stored.
    fn watch(&self) {
        let stored = self.lent.state().csi_nodes.clone();
        let ours =
            stored.into_iter().filter(|(_, object)| object["metadata"]["labels"][keys::VIRTUAL_CLUSTER] == "vc-1");
        let ours = ours.map(|(name, object)| (NodeName::from(name), read(&object).lent()));
        self.view().lent_csi_nodes(ours.collect());
    }

    /// One piece of work, and the requests to the virtual cluster.
    async fn work(&self) -> Vec<String> {
        assert_eq!(self.csi.work(&"w1".into()).await.unwrap(), WorkOutcome::Done);
        self.lent.take_seen()
    }

    async fn fails(&self) -> String {
        let error = self.csi.work(&"w1".into()).await.unwrap_err();
        self.lent.take_seen();
        error.to_string()
    }

    fn stored(&self) -> Value {
        self.lent.csi_node(LENT).unwrap()
    }
}

fn named(method: &str) -> String {
    format!("{method} {PATH}/{LENT}")
}

#[tokio::test]
async fn section_9_a_csinode_is_made_once_and_follows_its_physical_one() {
    let scene = Scene::new();
    assert_eq!(scene.work().await, [format!("POST {PATH}")]);
    let made = scene.stored();
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "v1");
    assert_eq!(made["spec"]["drivers"], json!([driver("ebs", "i-1", Some(25))]));
    assert_eq!(scene.work().await, [""; 0], "its own answer shows what is stored");
    scene.watch();
    assert_eq!(scene.work().await, [""; 0]);
    scene.drivers(vec![driver("ebs", "i-1", Some(10)), driver("nfs", "w1", None)]);
    assert_eq!(scene.work().await, [named("PATCH")]);
    assert_eq!(scene.stored()["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn s22_another_node_id_is_two_updates_in_one_go_and_never_a_delete() {
    let scene = Scene::new();
    scene.work().await;
    let uid = scene.stored()["metadata"]["uid"].clone();
    scene.drivers(vec![driver("ebs", "i-2", Some(25))]);
    assert_eq!(scene.work().await, [named("PATCH"), named("PATCH")]);
    assert_eq!(
        (&scene.stored()["metadata"]["uid"], &scene.stored()["spec"]["drivers"][0]["nodeID"]),
        (&uid, &json!("i-2"))
    );
}

#[tokio::test]
async fn s22_a_refused_number_of_volumes_is_remembered_and_written_in_two_updates() {
    let scene = Scene::new();
    scene.work().await;
    scene.lent.state().has_fixed_counts = true;
    scene.drivers(vec![driver("ebs", "i-1", Some(10))]);
    assert_eq!(scene.work().await, [named("PATCH"), named("PATCH"), named("PATCH")]);
    scene.drivers(vec![driver("ebs", "i-1", Some(9))]);
    assert_eq!(scene.work().await, [named("PATCH"), named("PATCH")]);
    assert_eq!(scene.stored()["spec"]["drivers"][0]["allocatable"]["count"], 9);
    assert!(scene.lent.state().events.is_empty());
}

#[tokio::test]
async fn s22_another_refusal_does_not_take_a_driver_out() {
    let scene = Scene::new();
    scene.work().await;
    scene.lent.state().invalid = Some("metadata.labels: Invalid value: \"x\"");
    scene.drivers(vec![driver("ebs", "i-1", Some(10))]);
    let error = scene.fails().await;
    assert!(
        error.contains("volumes of driver ebs") && error.contains("the virtual cluster: metadata.labels"),
        "{error}"
    );
    assert_eq!(scene.stored()["spec"]["drivers"][0]["allocatable"]["count"], 25);
    let (reason, note) = scene.lent.state().events[0].clone();
    assert!(reason == "WriteRefused" && note.contains("metadata.labels"), "{reason} {note}");
}

#[tokio::test]
async fn s6_anothers_csinode_is_left_alone_with_one_event_and_no_further_write_until_it_is_gone() {
    let scene = Scene::new();
    let other = scene.lent.put(json!({"metadata": {"name": LENT}, "spec": {"drivers": []}}));
    assert_eq!(scene.work().await, [format!("POST {PATH}"), named("GET")]);
    for _ in 0..3 {
        assert_eq!(scene.work().await, [named("GET")]);
    }
    assert_eq!(scene.stored(), other);
    let events = scene.lent.state().events.clone();
    let [(reason, note)] = &events[..] else { panic!("{events:?}") };
    assert!(reason == "NameTaken" && note.contains("it has no labels of identity"), "{reason} {note}");
    // The first look after it is gone sees that, and the CSINode is made.
    scene.lent.state().csi_nodes.clear();
    assert_eq!(scene.work().await, [named("GET"), format!("POST {PATH}")]);
    assert_eq!(scene.stored()["metadata"]["labels"][keys::VIRTUAL_CLUSTER], "vc-1");
}

#[tokio::test]
async fn s22_a_csinode_that_the_watch_has_not_shown_yet_is_found_by_a_read_and_repaired() {
    let scene = Scene::new();
    scene.work().await;
    scene.view().lent_csi_node_gone(LENT);
    assert_eq!(scene.work().await, [format!("POST {PATH}"), named("GET")]);
    scene.view().lent_csi_node_gone(LENT);
    scene.drivers(vec![driver("nfs", "w1", None)]);
    assert_eq!(scene.work().await, [format!("POST {PATH}"), named("GET"), named("PATCH")]);
    assert!(scene.lent.state().events.is_empty());
}

#[tokio::test]
async fn s6_a_csinode_of_an_earlier_binding_is_adopted_after_a_live_list_shows_that_it_is_gone() {
    for (stands, last) in [(false, named("PATCH")), (true, "GET topoloom.dev/v1alpha1/clusterbindings".to_owned())] {
        let scene = Scene::new();
        scene.work().await;
        let mut object = scene.stored();
        object["metadata"]["labels"][keys::BINDING_UID] = "b-0".into();
        scene.lent.put(object);
        scene.lent.state().bindings =
            if stands { vec!["b-0".to_owned(), "b-1".to_owned()] } else { vec!["b-1".to_owned()] };
        scene.watch();
        assert_eq!(scene.work().await.last(), Some(&last));
        let label = scene.stored()["metadata"]["labels"][keys::BINDING_UID].clone();
        assert_eq!(label, if stands { "b-0" } else { "b-1" });
    }
}

#[tokio::test]
async fn section_9_it_goes_with_its_node_and_with_its_physical_csinode_after_a_live_read() {
    let scene = Scene::new();
    scene.work().await;
    // The cache lost the node, and the node is there.
    scene.view().lent_node_gone(LENT);
    assert_eq!(scene.work().await, [format!("GET v1/nodes/{LENT}")]);
    scene.lent.state().nodes.clear();
    assert_eq!(scene.work().await, [format!("GET v1/nodes/{LENT}"), named("DELETE")]);
    assert_eq!((scene.lent.csi_node(LENT), scene.work().await), (None, Vec::new()));

    let scene = Scene::new();
    scene.work().await;
    scene.physical.take_seen();
    scene.view().physical_csi_node_gone("w1");
    assert_eq!(scene.work().await, [""; 0], "the cache is behind");
    assert_eq!(scene.physical.take_seen(), [format!("GET {PATH}/w1")]);
    scene.physical.state().csi_nodes.clear();
    assert_eq!(scene.work().await, [named("DELETE")]);
}

#[tokio::test]
async fn s22_what_a_finalizer_keeps_is_not_deleted_again_and_what_changed_is_judged_anew() {
    let scene = Scene::new();
    scene.work().await;
    let mut object = scene.stored();
    object["metadata"]["finalizers"] = json!(["a/b"]);
    scene.lent.put(object);
    scene.view().physical_csi_node_gone("w1");
    scene.physical.state().csi_nodes.clear();
    // It was judged in the version before.
    assert!(scene.fails().await.contains("a precondition failed"));
    scene.watch();
    assert_eq!(scene.work().await, [named("DELETE")]);
    assert_eq!(scene.work().await, [""; 0]);
}

#[tokio::test]
async fn s5_nothing_is_sent_while_the_physical_cluster_is_suspect() {
    let scene = Scene::new();
    scene.view().bars = [Bar::Suspect].into_iter().collect();
    assert_eq!(scene.work().await, [""; 0]);
    scene.view().bars = Bars::default();
    scene.work().await;
    scene.view().bars = [Bar::Suspect].into_iter().collect();
    scene.drivers(vec![driver("ebs", "i-2", None)]);
    scene.view().physical_csi_node_gone("w1");
    assert_eq!((scene.work().await, scene.physical.take_seen()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn s19_a_missing_right_is_kept_for_the_conditions_and_a_read_that_fails_deletes_nothing() {
    let scene = Scene::new();
    let troubles = || scene.csi.troubles.all().iter().map(ToString::to_string).collect::<Vec<_>>();
    let says = |side: &str, verb: &str| {
        let (all, rule) = (troubles(), format!("resources: [\"csinodes\"], verbs: [\"{verb}\"]}} in {side}"));
        let [sentence] = &all[..] else { panic!("{all:?}") };
        assert!(sentence.starts_with(&format!("{side}: ")) && sentence.ends_with(&rule), "{sentence}");
    };
    scene.lent.state().forbidden.insert("POST");
    scene.fails().await;
    says("the virtual cluster", "post");
    scene.lent.state().forbidden.clear();
    scene.work().await;
    assert_eq!(troubles(), [""; 0]);

    scene.physical.state().csi_nodes.clear();
    scene.physical.state().forbidden.insert("GET");
    scene.view().physical_csi_node_gone("w1");
    let error = scene.fails().await;
    assert!(error.starts_with("the physical CSINode is read: the physical cluster: "), "{error}");
    says("the physical cluster", "get");
    assert!(scene.lent.csi_node(LENT).is_some());
}
