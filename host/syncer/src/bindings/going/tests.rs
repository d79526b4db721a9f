use std::sync::{Arc, Mutex};

use serde_json::json;

use topoloom_sync::keys;
use topoloom_sync::node::LiveLent;

use super::super::staged::{Server, clients};
use super::*;
use crate::view::{Evidence, examples};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/lent/pods";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/lent/leases";

struct World {
    lent: Server,
    physical: Server,
    view: SharedView,
    identity: Identity,
    cluster: ClusterId,
    has_connected: bool,
    is_connected: bool,
    is_detached: bool,
}

impl World {
    /// A binding whose nodes are all listed, of which these are lent.
    fn new(nodes: usize) -> Self {
        let mut view = examples::view(nodes);
        examples::lend(&mut view, nodes);
        let (identity, cluster) = (view.binding.identity.clone(), view.binding.cluster.clone());
        let (lent, physical) = (Server::default(), Server::default());
        let view = Arc::new(Mutex::new(view));
        Self { lent, physical, view, identity, cluster, has_connected: true, is_connected: true, is_detached: false }
    }

    async fn look(&self) -> Going {
        let left = Left {
            clients: &clients(&self.lent, &self.physical),
            identity: &self.identity,
            cluster: &self.cluster,
            namespace: "lent",
            view: &self.view,
            has_connected: self.has_connected,
            is_connected: self.is_connected,
            is_detached: self.is_detached,
        };
        look(&left).await
    }

    async fn take(&self) -> Taken {
        let borrower = Borrower { identity: &self.identity, cluster: &self.cluster };
        take(&clients(&self.lent, &self.physical), "lent", &borrower, Access::Write).await.unwrap()
    }

    fn lease(&self) -> String {
        format!("{LEASES}/{}", Borrower { identity: &self.identity, cluster: &self.cluster }.lease())
    }

    /// The virtual nodes are gone, as the answers to their deletion say.
    fn withdrawn(&self) {
        let mut view = self.view.lock().unwrap();
        for name in ["vnode-east-w1", "vnode-east-w2"] {
            view.lent_node_gone(name);
        }
    }

    /// So are the claims on the physical ones.
    fn freed(&self) {
        let claimed = (1..=2).map(|number| (format!("w{number}").into(), examples::physical(number)));
        self.view.lock().unwrap().physical_nodes(claimed.collect());
    }
}

#[tokio::test]
async fn s10_the_nodes_go_first_then_claims_then_pods_and_the_lease_last() {
    let world = World::new(2);
    world.take().await;
    world.physical.writes();
    assert_eq!(world.look().await, Going::Nodes);
    world.withdrawn();
    world.lent.put(&format!("{NODES}/vnode-east-w1"), json!({"metadata": {"name": "vnode-east-w1"}}));
    assert_eq!(world.look().await, Going::Nodes, "the cache is ahead of the store, or of another one");
    world.lent.remove(&format!("{NODES}/vnode-east-w1"));
    assert_eq!(world.look().await, Going::Claims(2));
    world.freed();
    world.physical.put(&format!("{PODS}/p1"), json!({"metadata": {"name": "p1"}}));
    assert_eq!(world.look().await, Going::Pods(1));
    assert_eq!(world.physical.writes(), [""; 0], "nothing is deleted by looking");
    world.physical.remove(&format!("{PODS}/p1"));
    assert_eq!(world.look().await, Going::Done);
    assert_eq!(world.physical.get(&world.lease()), None);
    assert_eq!(world.look().await, Going::Done, "it may be looked at twice");
}

#[tokio::test]
async fn s6_a_node_that_a_list_by_labels_does_not_show_is_waited_for_until_a_live_read_finds_that_it_is_gone() {
    let world = World::new(1);
    world.take().await;
    world.view.lock().unwrap().lent_nodes([].into());
    assert_eq!(world.look().await, Going::Nodes);
    let read = |live_lent: LiveLent| {
        let (evidence, now) = (Evidence { live_lent, ..Evidence::default() }, examples::now());
        world.view.lock().unwrap().decide(&"w1".into(), &evidence, now);
    };
    let mut stripped = examples::lent(1);
    stripped.metadata.labels.remove(keys::BINDING);
    read(LiveLent::Found(Arc::new(stripped)));
    assert_eq!(world.look().await, Going::Nodes);
    read(LiveLent::Gone);
    assert_eq!(world.look().await, Going::Claims(1));
}

#[tokio::test]
async fn s10_a_claim_that_no_watch_has_shown_yet_holds_the_deletion_up() {
    // A replica has just taken over: the physical nodes are not listed yet.
    let world = World::new(0);
    world.take().await;
    let node = |claim: &str| json!({"metadata": {"name": "w1", "annotations": {"topoloom.dev/leased-by": claim}}});
    let (path, claim) = (format!("{NODES}/w1"), world.identity.claim());
    world.physical.put(&path, node(&claim));
    assert_eq!(world.look().await, Going::Claims(1));
    assert!(world.physical.get(&world.lease()).is_some(), "the Lease goes last");
    world.physical.put(&path, node("another/b-9"));
    assert_eq!(world.look().await, Going::Done);
    assert_eq!(world.physical.get(&world.lease()), None);
    // Where no Lease is left the claims count as well.
    world.physical.put(&path, node(&claim));
    assert_eq!(world.look().await, Going::Claims(1));
}

#[tokio::test]
async fn s10_a_deletion_ends_also_where_a_list_of_all_physical_nodes_is_too_large_for_one_answer() {
    let world = World::new(0);
    world.take().await;
    let node =
        |name: &str, claim: &str| json!({"metadata": {"name": name, "annotations": {"topoloom.dev/leased-by": claim}}});
    for server in [&world.lent, &world.physical] {
        server.has_many_nodes();
    }
    let names: Vec<String> = (0..=500).map(|number| format!("w{number:03}")).collect();
    for name in &names {
        world.physical.put(&format!("{NODES}/{name}"), node(name, "another/b-9"));
    }
    let last = names.last().unwrap();
    world.physical.put(&format!("{NODES}/{last}"), node(last, &world.identity.claim()));
    assert_eq!(world.look().await, Going::Claims(1), "it is in the second page");
    world.physical.put(&format!("{NODES}/{last}"), node(last, "another/b-9"));
    world.physical.lists();
    assert_eq!(world.look().await, Going::Done);
    assert_eq!(world.physical.lists(), 3, "one of pods, and two pages of nodes");
    assert_eq!(world.physical.get(&world.lease()), None);
}

#[tokio::test]
async fn s7_the_lease_of_another_stays() {
    let world = World::new(0);
    let lease = json!({"metadata": {"name": "x", "labels": {"topoloom.dev/virtual-cluster": "other"}}});
    world.physical.put(&world.lease(), lease);
    assert_eq!(world.look().await, Going::Done);
    assert!(world.physical.get(&world.lease()).is_some());
}

#[tokio::test]
async fn s3_what_cannot_be_read_is_not_gone() {
    let mut world = World::new(0);
    world.is_connected = false;
    assert!(matches!(world.look().await, Going::Unknown(why) if why.contains("no connection")));
    world.is_connected = true;
    world.physical.put(&world.lease(), json!({"metadata": {"labels": 5}}));
    assert!(matches!(world.look().await, Going::Unknown(_)));
}

#[tokio::test]
async fn s19_a_right_that_is_missing_to_see_what_is_left_names_verb_resource_and_side() {
    let (lent, physical) = (World::new(0), World::new(0));
    lent.lent.forbid("list", "nodes");
    physical.physical.forbid("list", "pods");
    for (world, side, resource) in [(lent, "the virtual cluster", "nodes"), (physical, "the physical cluster", "pods")]
    {
        let Going::Unknown(why) = world.look().await else { panic!("{resource}") };
        let rule = format!(r#"resources: ["{resource}"], verbs: ["list"]}} in {side}"#);
        assert!(why.starts_with(&format!("{side}: ")) && why.ends_with(&rule), "{why}");
    }
}

#[tokio::test]
async fn s23_a_physical_cluster_that_is_gone_for_good_is_not_waited_for_but_the_nodes_are() {
    let mut world = World::new(1);
    (world.is_connected, world.is_detached) = (false, true);
    assert_eq!(world.look().await, Going::Nodes);
    world.withdrawn();
    assert_eq!(world.look().await, Going::Done);
}

#[tokio::test]
async fn a_binding_that_never_had_a_cluster_leaves_nothing() {
    let mut world = World::new(0);
    (world.is_connected, world.has_connected) = (false, false);
    assert_eq!(world.look().await, Going::Done);
}

#[tokio::test]
async fn s6_s7_nodes_of_an_earlier_cluster_id_and_their_pods_are_left_and_not_waited_for() {
    let world = World::new(0);
    world.take().await;
    let (name, node) = examples::of_est(1, "b-0");
    let metadata = json!({"name": &*name, "labels": node.metadata.labels, "annotations": node.metadata.annotations});
    world.lent.put(&format!("{NODES}/{name}"), json!({"metadata": metadata}));
    world.view.lock().unwrap().lent_node(&name, node);
    let pod = |node: &str| json!({"metadata": {"name": "p", "annotations": {keys::VIRTUAL_NODE_NAME: node}}});
    world.physical.put(&format!("{PODS}/p1"), pod(&name));
    world.physical.put(&format!("{PODS}/p2"), pod("vnode-east-w1"));
    assert_eq!(world.look().await, Going::Pods(1));
    world.physical.remove(&format!("{PODS}/p2"));
    assert_eq!(world.look().await, Going::Done);
    assert!(!world.view.lock().unwrap().lends_nothing(), "their leases are renewed");
}
