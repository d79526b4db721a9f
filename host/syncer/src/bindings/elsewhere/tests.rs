use std::sync::Arc;

use serde_json::{Value, json};
use topoloom_api::ClusterBindingSpec;

use super::super::staged::{Server, clients};
use super::*;

const OTHER: &str = "other/topoloom-binding-0123";
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/other/leases/topoloom-binding-0123";
const S: Duration = Duration::from_secs(1);

fn ours(namespace: &str) -> LeaseName {
    LeaseName { namespace: namespace.to_owned(), name: "ours".to_owned() }
}

/// The virtual cluster, and what this replica has seen of the other installation.
#[derive(Default)]
struct World {
    lent: Server,
    vigil: Vigil,
}

impl World {
    fn with(spec: Value) -> Self {
        let world = Self::default();
        world.put(spec);
        world
    }

    fn put(&self, spec: Value) {
        self.lent.put(PATH, json!({"metadata": {"name": "topoloom-binding-0123"}, "spec": spec}));
    }

    async fn look(&mut self, namespace: &str, now: Duration) -> (Presence, String) {
        look(&clients(&self.lent, &self.lent), &ours(namespace), OTHER, &mut self.vigil, now).await
    }
}

#[tokio::test]
async fn s11_another_installation_is_there_for_as_long_as_its_lease_changes() {
    let held = || json!({"holderIdentity": "pod-7", "leaseDurationSeconds": 15});
    let mut world = World::with(held());
    let (presence, says) = world.look("topoloom", 100 * S).await;
    assert_eq!(presence, Presence::There(15 * S));
    assert_eq!(says, "another installation serves it, with the Lease other/topoloom-binding-0123");
    world.put(held());
    assert_eq!(world.look("topoloom", 114 * S).await.0, Presence::There(15 * S), "it was renewed");
    assert_eq!(world.look("topoloom", 128 * S).await.0, Presence::There(S));
    assert_eq!(world.look("topoloom", 129 * S).await.0, Presence::Gone);
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s11_another_installation_is_gone_where_its_lease_is_or_was_given_back() {
    let mut world = World::default();
    assert_eq!(world.look("topoloom", S).await.0, Presence::Gone);
    let mut world = World::with(json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    assert_eq!(world.look("topoloom", S).await.0, Presence::Gone);
    // Without elections no replica holds it: in our own namespace that was this process before it was set up otherwise.
    let mut world = World::with(json!({}));
    assert_eq!(world.look("other", S).await.0, Presence::Gone);
    assert_eq!(world.look("topoloom", S).await.0, Presence::There(180 * S));
}

#[tokio::test]
async fn s11_what_cannot_be_read_of_another_installation_is_not_what_is_not_there() {
    let mut world = World::default();
    world.lent.put(PATH, json!({"metadata": {"labels": 5}}));
    let (presence, says) = world.look("topoloom", S).await;
    assert_eq!(presence, Presence::There(AGAIN));
    assert!(says.contains(OTHER) && says.contains("cannot be read") && says.ends_with(by_hand()), "{says}");
    let clients = clients(&world.lent, &world.lent);
    let (presence, says) = look(&clients, &ours("topoloom"), "a person wrote this", &mut world.vigil, S).await;
    assert_eq!(presence, Presence::There(AGAIN));
    assert!(says.contains("no name of a Lease") && says.ends_with(by_hand()), "{says}");
}

#[test]
fn s11_the_wait_ends_where_the_binding_is_another_one_or_not_the_others_any_more() {
    let binding = |uid: &str, lease: Option<&str>| {
        let mut object = ClusterBinding::new("east", ClusterBindingSpec::default());
        object.metadata.uid = Some(uid.to_owned());
        object.status.lease = lease.map(str::to_owned);
        object
    };
    let waits = |seen: Seen| is_of(&seen, &binding("b1", Some(OTHER)), OTHER);
    let shows = |uid: &str, lease: Option<&str>| waits(Seen::Present(Arc::new(binding(uid, lease))));
    assert!(waits(Seen::Unread) && shows("b1", Some(OTHER)));
    assert!(!waits(Seen::Gone) && !shows("b2", Some(OTHER)) && !shows("b1", None) && !shows("b1", Some("a/b")));
}
