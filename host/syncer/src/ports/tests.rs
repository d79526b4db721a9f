//! The controller of placeholders at a staged API server.

use serde_json::json;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::keys;
use topoloom_sync::ports::Mirroring;

use super::staged::Api;
use super::*;
use crate::slices::pod::PodSlice;
use crate::view::{Part, examples};

const NODE: &str = "vnode-east-w1";

/// A binding with one lent node, whose host ports are mirrored.
struct Scene {
    api: Api,
    view: Arc<Mutex<View>>,
    placeholders: Placeholders,
    troubles: Troubles,
    counted: Counted,
}

fn read(pod: &Value) -> PodSlice {
    serde_json::from_value(pod.clone()).unwrap()
}

impl Scene {
    fn new() -> Self {
        let api = Api::default();
        api.state().nodes.insert(NODE.to_owned());
        let mut view = examples::view(1);
        examples::lend(&mut view, 1);
        view.set_host_ports(Mirroring::On);
        for part in [Part::OurPods, Part::OtherPods, Part::LentPods] {
            view.listed(part);
        }
        let (view, troubles, counted) = (Arc::new(Mutex::new(view)), Troubles::default(), Counted::default());
        let requests = PortRequests::new(api.client());
        let events = Events::new(api.client());
        let placeholders = Placeholders::new(Arc::clone(&view), requests, events, troubles.clone(), examples::now);
        Self { api, view, placeholders: placeholders.counting(counted.clone()), troubles, counted }
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap()
    }

    /// A pod of the lender holds these ports from now on.
    fn comes(&self, name: &str, ports: &[u16]) {
        let ports: Vec<Value> = ports.iter().map(|port| json!({"containerPort": port, "hostPort": port})).collect();
        let pod = json!({
            "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"nodeName": "w1", "containers": [{"name": "c", "ports": ports}]},
            "status": {"phase": "Running"},
        });
        self.view().physical_pod(&read(&pod)).unwrap();
    }

    fn goes(&self, name: &str) {
        self.view().physical_pod_gone(&name.into());
    }

    /// The watch shows what is stored.
    fn watch(&self) {
        let stored: Vec<PodSlice> = self.api.state().pods.values().map(read).collect();
        let mut view = self.view();
        view.lent_pods_listed(&stored.iter().map(|pod| pod.pod().uid).collect());
        for pod in stored {
            view.lent_pod(pod).unwrap();
        }
    }

    /// One piece of work, and the requests of it.
    async fn work(&self) -> Vec<String> {
        assert_eq!(self.placeholders.work(&NODE.into()).await.unwrap(), WorkOutcome::Done);
        self.api.take_seen()
    }

    async fn fails(&self) -> String {
        let error = self.placeholders.work(&NODE.into()).await.unwrap_err();
        self.api.take_seen();
        error.to_string()
    }

    /// The ports of each placeholder that is stored.
    fn held(&self) -> Vec<Vec<u64>> {
        let ports = |pod: &Value| -> Vec<u64> {
            let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
            ports.iter().map(|port| port["hostPort"].as_u64().unwrap()).collect()
        };
        let mut held: Vec<Vec<u64>> = self.api.state().pods.values().map(ports).collect();
        held.sort();
        held
    }

    /// The only pod that is stored.
    fn stored(&self) -> Value {
        let state = self.api.state();
        assert_eq!(state.pods.len(), 1);
        state.pods.values().next().unwrap().clone()
    }
}

#[tokio::test]
async fn section_11_2_placeholders_follow_the_pods_of_the_lender_with_two_writes_each_and_one_at_their_end() {
    let scene = Scene::new();
    scene.comes("exporter", &[9100]);
    scene.comes("web", &[80, 443]);
    let made = ["POST pod", "POST pod", "PATCH status", "PATCH status"];
    assert_eq!(scene.work().await, made);
    assert_eq!(scene.held(), [vec![80, 443], vec![9100]]);
    assert_eq!(scene.work().await, [""; 0], "its own answers show what is stored");
    scene.watch();
    assert_eq!(scene.work().await, [""; 0]);
    scene.goes("web");
    scene.comes("proxy", &[8443]);
    assert_eq!(scene.work().await, ["POST pod", "DELETE pod", "PATCH status"]);
    assert_eq!(scene.held(), [vec![8443], vec![9100]]);
    scene.view().set_host_ports(Mirroring::Off);
    assert_eq!(scene.work().await, ["DELETE pod", "DELETE pod"]);
    let counted =
        ["wrote host-port create 3", "wrote host-port mark 3", "wrote host-port off 2", "wrote host-port stale 1"];
    assert_eq!(scene.counted.lines(), counted);
}

#[tokio::test]
async fn section_11_2_what_an_answer_that_was_lost_has_made_is_found_by_its_name_and_not_made_twice() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.api.state().loses = Some("POST");
    assert!(scene.fails().await.starts_with("create placeholder vnode-east-w1-"));
    assert_eq!(scene.work().await, ["POST pod", "GET pod", "PATCH status"]);
    assert_eq!(scene.held(), [vec![80]]);
    assert_eq!(scene.work().await, [""; 0]);
    // A deletion whose answer was lost.
    scene.goes("web");
    scene.api.state().loses = Some("DELETE");
    scene.fails().await;
    assert_eq!(scene.work().await, ["DELETE pod"], "it is gone");
    assert_eq!(scene.work().await, [""; 0]);
}

#[tokio::test]
async fn section_11_2_a_placeholder_of_a_node_that_is_gone_goes_after_a_live_read() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.work().await;
    scene.view().lent_node_gone(NODE);
    assert_eq!(scene.work().await, ["GET node"], "the cache is behind");
    scene.api.state().nodes.clear();
    assert_eq!(scene.work().await, ["GET node", "DELETE pod"]);
    assert_eq!(scene.work().await, [""; 0]);
}

#[tokio::test]
async fn section_11_2_what_a_finalizer_keeps_is_not_deleted_again_and_what_changed_is_judged_anew() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.work().await;
    let mut pod = scene.stored();
    pod["metadata"]["finalizers"] = json!(["a/b"]);
    scene.api.state().put(pod);
    scene.goes("web");
    // It was judged in the version before.
    assert!(scene.fails().await.contains("a precondition failed"));
    scene.watch();
    assert_eq!(scene.work().await, ["DELETE pod"]);
    assert_eq!(scene.work().await, [""; 0]);
    // Until it is gone its port is not given to another.
    scene.comes("web", &[80]);
    assert_eq!(scene.work().await, [""; 0]);
    scene.api.state().pods.clear();
    scene.watch();
    assert_eq!(scene.work().await, ["POST pod", "PATCH status"]);
}

#[tokio::test]
async fn s6_anothers_pod_with_the_name_of_a_placeholder_is_left_alone_with_one_event() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.work().await;
    let mut other = scene.stored();
    other["metadata"]["labels"][keys::VIRTUAL_CLUSTER] = "another".into();
    let other = scene.api.state().put(other);
    scene.watch();
    assert_eq!(scene.work().await, [""; 0]);
    // The same where no watch has shown it.
    let uid = other["metadata"]["uid"].as_str().unwrap().into();
    scene.view().placeholder_gone(&uid);
    for _ in 0..3 {
        assert_eq!(scene.work().await, ["POST pod", "GET pod"]);
    }
    assert_eq!(scene.stored(), other);
    let events = scene.api.state().events.clone();
    let [(reason, note)] = &events[..] else { panic!("{events:?}") };
    assert!(reason == "NameTaken" && note.contains("its label topoloom.dev/virtual-cluster is \"another\""), "{note}");
}

#[tokio::test]
async fn s6_a_placeholder_of_an_earlier_binding_is_replaced_once_a_live_list_shows_that_it_is_gone() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.work().await;
    let mut pod = scene.stored();
    pod["metadata"]["labels"][keys::BINDING_UID] = "b-0".into();
    pod["metadata"]["name"] = "of-earlier".into();
    scene.api.state().pods.clear();
    scene.api.state().put(pod);
    scene.api.state().bindings = vec!["b-1".to_owned()];
    scene.watch();
    assert_eq!(scene.work().await, ["GET bindings", "DELETE pod", "POST pod", "PATCH status"]);
    assert_eq!(scene.stored()["metadata"]["labels"][keys::BINDING_UID], "b-1");
}

#[tokio::test]
async fn s5_s23_s27_nothing_is_sent_while_a_state_of_the_binding_forbids_it() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    for bar in Bar::ALL {
        scene.view().bars = [bar].into_iter().collect();
        assert_eq!(scene.work().await, [""; 0], "{bar}");
    }
    scene.view().bars = Bars::default();
    scene.work().await;
    scene.goes("web");
    scene.view().bars = [Bar::Suspect].into_iter().collect();
    assert_eq!(scene.work().await, [""; 0]);
    assert_eq!(scene.held(), [vec![80]]);
}

#[tokio::test]
async fn section_11_2_a_placeholder_that_is_gone_before_it_is_marked_is_made_again_and_is_no_trouble() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.api.state().forbidden.insert("PATCH");
    scene.fails().await;
    scene.api.state().forbidden.clear();
    scene.troubles.over(Thing::HostPorts);
    scene.api.state().pods.clear();
    assert!(scene.fails().await.starts_with("say that placeholder "));
    assert_eq!(scene.troubles.all(), []);
    scene.watch();
    assert_eq!(scene.work().await, ["POST pod", "PATCH status"]);
}

#[tokio::test]
async fn s19_a_right_to_read_that_is_missing_is_a_trouble_of_the_binding_until_the_read_succeeds() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.work().await;
    scene.view().lent_node_gone(NODE);
    scene.api.state().forbidden.insert("GET");
    scene.fails().await;
    assert_eq!(scene.troubles.all().len(), 1);
    scene.api.state().forbidden.clear();
    assert_eq!(scene.work().await, ["GET node"], "the cache is behind");
    assert_eq!(scene.troubles.all(), []);
}

#[tokio::test]
async fn s19_a_missing_right_is_a_trouble_of_the_binding_until_a_write_succeeds() {
    let scene = Scene::new();
    scene.comes("web", &[80]);
    scene.api.state().forbidden.insert("POST");
    scene.fails().await;
    let sentences: Vec<String> = scene.troubles.all().iter().map(ToString::to_string).collect();
    let [sentence] = &sentences[..] else { panic!("{sentences:?}") };
    let rule = "resources: [\"pods\"], verbs: [\"create\"]} in the virtual cluster";
    assert!(sentence.starts_with("the virtual cluster: ") && sentence.ends_with(rule), "{sentence}");
    scene.api.state().forbidden.clear();
    scene.work().await;
    assert_eq!(scene.troubles.all(), []);
}
