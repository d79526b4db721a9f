use serde_json::{Value, json};
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::{BindingName, ClusterId};

use super::super::staged::{Server, clients};
use super::*;

const BINDINGS: &str = "/apis/topoloom.dev/v1alpha1/clusterbindings";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/lent/leases";

fn identity(uid: &str) -> Identity {
    Identity::new("vc".into(), BindingName::parse("east").unwrap(), uid.into()).unwrap()
}

/// The two clusters, the identity and the id of a binding.
struct World {
    lent: Server,
    physical: Server,
    identity: Identity,
    cluster: ClusterId,
}

impl World {
    fn new() -> Self {
        let world = Self {
            lent: Server::default(),
            physical: Server::default(),
            identity: identity("b1"),
            cluster: ClusterId::parse("east").unwrap(),
        };
        world.binding("east", "b1");
        world
    }

    fn binding(&self, name: &str, uid: &str) {
        self.lent.put(&format!("{BINDINGS}/{name}"), json!({"metadata": {"name": name, "uid": uid}, "spec": {}}));
    }

    fn borrower(&self) -> Borrower<'_> {
        Borrower { identity: &self.identity, cluster: &self.cluster }
    }

    fn path(&self) -> String {
        format!("{LEASES}/{}", self.borrower().lease())
    }

    async fn take(&self, access: Access) -> Result<Taken, Refusal> {
        take(&clients(&self.lent, &self.physical), "lent", &self.borrower(), access).await
    }

    /// A Lease that a binding with these values would have made.
    fn lease(&self, identity: &Identity, cluster: &str) -> Value {
        let cluster = ClusterId::parse(cluster).unwrap();
        let labels = Borrower { identity, cluster: &cluster }.labels();
        let annotations = json!({"topoloom.dev/witness-copy": "b0/c1/7"});
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.borrower().lease(), "labels": labels, "annotations": annotations},
        })
    }
}

#[tokio::test]
async fn s7_a_lease_is_made_once_and_is_ours_from_then_on() {
    let world = World::new();
    assert_eq!(world.take(Access::Look).await, Ok(Taken::Free));
    assert_eq!(world.physical.writes(), [""; 0], "a binding that observes makes none");
    let Ok(Taken::Ours(made)) = world.take(Access::Write).await else { panic!() };
    assert_eq!(world.physical.get(&world.path()).unwrap()["spec"]["holderIdentity"], "vc/b1");
    assert_eq!(world.take(Access::Write).await, Ok(Taken::Ours(made)));
    assert_eq!(world.physical.writes().len(), 1);
}

#[tokio::test]
async fn s7_the_lease_of_another_is_left_alone() {
    for (identity, cluster, part) in [
        (
            Identity::new("other".into(), BindingName::parse("east").unwrap(), "b9".into()).unwrap(),
            "east",
            "virtual-cluster",
        ),
        (identity("b1"), "west", "clusterID"),
    ] {
        let world = World::new();
        world.physical.put(&world.path(), world.lease(&identity, cluster));
        let Ok(Taken::Another(why)) = world.take(Access::Write).await else { panic!("{part}") };
        assert!(why.to_string().contains(part), "{why}");
        assert_eq!(world.physical.writes(), [""; 0]);
    }
}

#[tokio::test]
async fn s6_the_lease_of_an_earlier_binding_is_adopted_when_that_binding_is_gone() {
    let world = World::new();
    world.physical.put(&world.path(), world.lease(&identity("b0"), "east"));
    world.binding("elsewhere", "b0");
    let Ok(Taken::Another(why)) = world.take(Access::Write).await else { panic!() };
    let why = why.to_string();
    assert!(why.contains("b0") && why.contains("exists"), "{why}");
    world.lent.remove(&format!("{BINDINGS}/elsewhere"));
    assert!(matches!(world.take(Access::Write).await, Ok(Taken::Ours(_))));
    let adopted = world.physical.get(&world.path()).unwrap();
    assert_eq!(adopted["metadata"]["labels"]["topoloom.dev/binding-uid"], "b1");
    assert_eq!(adopted["metadata"]["annotations"].get("topoloom.dev/witness-copy"), None, "it is another's");
}

#[tokio::test]
async fn s19_a_missing_right_names_the_cluster_that_was_asked_and_not_the_one_of_the_lease() {
    let world = World::new();
    world.physical.put(&world.path(), world.lease(&identity("b0"), "east"));
    world.lent.forbid("list", "clusterbindings");
    let refusal = world.take(Access::Write).await.unwrap_err();
    assert!(refusal.message.starts_with("the virtual cluster: "), "{refusal}");
    assert!(refusal.rule().is_some_and(|rule| rule.ends_with(" in the virtual cluster")), "{refusal}");
    assert_eq!(world.physical.writes(), [""; 0]);
}

#[tokio::test]
async fn a_lease_that_cannot_be_read_is_not_one_that_is_not_there() {
    let world = World::new();
    world.physical.put(&world.path(), json!({"metadata": {"labels": 5}}));
    assert!(world.take(Access::Write).await.is_err());
    assert_eq!(world.physical.writes(), [""; 0]);
}
