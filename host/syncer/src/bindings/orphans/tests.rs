use serde_json::{Value, json};
use topoloom_sync::naming::binding_lease;

use super::super::staged::{Server, clients};
use super::*;
use crate::convert::binding::read;
use crate::convert::binding::tests::{around, binding};

const NODE: &str = "/api/v1/nodes/vnode-east-w1";

/// A virtual cluster with the Lease of a binding.
struct World {
    lent: Server,
    lease: LeaseName,
}

impl World {
    fn new() -> Self {
        let name = binding_lease("topoloom", &BindingName::parse("east").unwrap()).unwrap();
        let world = Self { lent: Server::default(), lease: LeaseName { namespace: "topoloom".to_owned(), name } };
        let lease = json!({"metadata": {"name": world.lease.name}, "spec": {"holderIdentity": "replica"}});
        world.lent.put(&world.path(), lease);
        world
    }

    fn path(&self) -> String {
        let LeaseName { namespace, name } = &self.lease;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }

    /// One with a node of the binding, and this record.
    async fn with(text: &str) -> Self {
        let world = Self::new();
        world.lent.put(NODE, json!({"metadata": {"name": "vnode-east-w1"}}));
        world.keep(text).await.unwrap();
        world.lent.writes();
        world
    }

    async fn keep(&self, text: &str) -> Result<Kept, Refusal> {
        keep(&clients(&self.lent, &self.lent), &self.lease, text).await
    }

    async fn look(&self) -> Result<Option<ClusterBinding>, Refusal> {
        look(&clients(&self.lent, &self.lent), &"vc".into(), "east", &self.lease).await
    }

    fn kept(&self) -> Value {
        self.lent.get(&self.path()).unwrap()["metadata"]["annotations"][keys::BINDING_RECORD].clone()
    }
}

fn identity() -> Identity {
    Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap()
}

fn text(fields: Value) -> Option<String> {
    record(&binding(fields).spec.unwrap(), &identity(), "c1")
}

fn usual() -> Value {
    json!({
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]},
        "copy": {"podMetadata": ["example.com/rank"]}, "timing": {"lease": "20s", "orphanDelay": "6s"},
        "onUnreachable": "hold", "holdFor": "2h", "physicalWrites": "none",
    })
}

#[tokio::test]
async fn s22_a_record_is_written_once_and_again_when_the_binding_says_something_else() {
    let world = World::new();
    let (first, second) = (text(usual()).unwrap(), text(json!({})).unwrap());
    for (text, writes) in [(&first, 1), (&first, 0), (&second, 1), (&second, 0)] {
        assert_eq!(world.keep(text).await, Ok(Kept::Yes));
        assert_eq!((world.kept().as_str(), world.lent.writes().len()), (Some(text.as_str()), writes));
    }
    assert_eq!(
        world.lent.get(&world.path()).unwrap()["spec"]["holderIdentity"],
        "replica",
        "the rest of the lease stays"
    );
    world.lent.remove(&world.path());
    assert_eq!(world.keep(&first).await, Ok(Kept::NoLease));
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s22_orphaned_nodes_are_served_as_their_binding_was() {
    let world = World::with(&text(usual()).unwrap()).await;
    let object = world.look().await.unwrap().unwrap();
    assert_eq!(read(&object, &around()), read(&binding(usual()), &around()));
    assert_eq!((object.metadata.name.as_deref(), object.metadata.uid.as_deref()), (Some("east"), Some("b1")));
    assert_eq!(object.status.physical_cluster_uid.as_deref(), Some("c1"));
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s22_where_nothing_is_left_the_record_goes_and_is_looked_for_no_more() {
    let world = World::with(&text(usual()).unwrap()).await;
    world.lent.remove(NODE);
    for writes in [1, 0] {
        assert_eq!(world.look().await, Ok(None));
        assert_eq!((world.kept(), world.lent.writes().len()), (Value::Null, writes));
    }
}

#[tokio::test]
async fn s22_what_cannot_be_read_is_not_what_is_not_there() {
    let kept = text(usual()).unwrap();
    let world = World::with(&kept).await;
    world.lent.forbid("list", "nodes");
    assert!(world.look().await.is_err());
    assert_eq!((world.kept(), world.lent.writes()), (kept.as_str().into(), Vec::new()));
    let world = World::with(&kept).await;
    world.lent.put(&world.path(), json!({"metadata": {"labels": 5}}));
    assert!(world.look().await.is_err());
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s22_nodes_without_a_record_of_their_binding_are_left_alone() {
    let good = Record::read(&text(usual()).unwrap()).unwrap();
    for (text, what) in [
        ("{}".to_owned(), "no record"),
        (Record { virtual_cluster: "other".into(), ..good.clone() }.text(), "another virtual cluster"),
        (Record { spec: json!({"secretRef": 7}), ..good.clone() }.text(), "a spec that cannot be read"),
    ] {
        let world = World::with(&text).await;
        assert_eq!(world.look().await, Ok(None), "{what}");
        assert_eq!((world.kept(), world.lent.writes()), (text.as_str().into(), Vec::new()), "{what}");
    }
}

#[test]
fn s22_what_is_too_long_is_kept_without_what_writes_depend_on_and_nothing_but_leases_is_written_then() {
    let long: Vec<String> = (0..2000).map(|number| format!("example.com/a-long-key-{number}")).collect();
    let mut fields = usual();
    fields["copy"]["labels"] = json!({"allow": long});
    let kept = text(fields).unwrap();
    assert!(kept.len() <= RECORD_MAX, "{}", kept.len());
    let terms = read(&object(&Record::read(&kept).unwrap()).unwrap(), &around()).unwrap().terms;
    let usual = read(&binding(usual()), &around()).unwrap().terms;
    assert_eq!((terms.mode, terms.pod_metadata.len()), (Mode::Observe, 0));
    assert_eq!((terms.heartbeats, terms.contact, terms.secret), (usual.heartbeats, usual.contact, usual.secret));
    // What no server would store, since times are short.
    assert_eq!(text(json!({"timing": {"lease": "9".repeat(RECORD_MAX)}})), None);
}

#[tokio::test]
async fn s22_bindings_with_a_record_are_found_by_their_leases() {
    let world = World::new();
    let found = async || Records::read(&world.lent.client(), "topoloom").await;
    assert!(found().await.is_empty());
    world.keep(&text(usual()).unwrap()).await.unwrap();
    let east = (BindingName::parse("east").unwrap(), Uid::from("b1"));
    assert_eq!(found().await.bindings("topoloom", &"vc".into()), [east]);
    assert_eq!(found().await.bindings("other", &"vc".into()), []);
    assert_eq!(found().await.bindings("topoloom", &"other".into()), []);
    assert!(Records::read(&world.lent.client(), "elsewhere").await.is_empty());
}
