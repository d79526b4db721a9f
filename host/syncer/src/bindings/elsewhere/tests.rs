use std::sync::Arc;

use serde_json::{Value, json};
use topoloom_api::ClusterBindingSpec;
use topoloom_api::cluster_binding::ConnectionStatus;

use super::super::staged::{Server, clients};
use super::*;

const OTHER: &str = "other/topoloom-binding-0123";
const NAME: &str = "topoloom-binding-0123";
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/other/leases/topoloom-binding-0123";
const NODES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const S: Duration = Duration::from_secs(1);

pub(super) fn ours(namespace: &str) -> LeaseName {
    LeaseName { namespace: namespace.to_owned(), name: "ours".to_owned() }
}

/// The Lease of a virtual node, as it was renewed in this second.
pub(super) fn renewed(lent: &Server, node: &str, second: u32) {
    let time = format!("2026-11-25T10:00:{second:02}.000000Z");
    let spec = json!({"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": time});
    lent.put(&format!("{NODES}/{node}"), json!({"metadata": {"name": node}, "spec": spec}));
}

/// One that no client can read.
pub(super) fn unreadable(lent: &Server, node: &str) {
    lent.put(&format!("{NODES}/{node}"), json!({"metadata": {"name": node, "labels": 5}}));
}

pub(super) fn readable(lent: &Server, node: &str) {
    lent.remove(&format!("{NODES}/{node}"));
}

/// The right to read the Lease of the other installation is missing.
pub(super) fn forbid(lent: &Server) {
    lent.forbid("get", NAME);
}

/// That Lease.
pub(super) fn put(lent: &Server, spec: Value) {
    lent.put(PATH, json!({"metadata": {"name": NAME}, "spec": spec}));
}

/// The virtual cluster, and what this replica has seen of the other installation.
#[derive(Default)]
struct World {
    lent: Server,
    sight: Sight,
    doubts: Doubts,
}

impl World {
    fn with(spec: Value) -> Self {
        let world = Self::default();
        put(&world.lent, spec);
        world
    }

    async fn look(&mut self, namespace: &str, now: Duration) -> (Presence, String) {
        self.look_at(OTHER, namespace, now).await
    }

    async fn look_at(&mut self, lease: &str, namespace: &str, now: Duration) -> (Presence, String) {
        let (clients, ours) = (clients(&self.lent, &self.lent), ours(namespace));
        let virtual_cluster = Uid::from("vc-1");
        let reads = Reads { clients: &clients, ours: &ours, binding: "east", virtual_cluster: &virtual_cluster };
        look(&reads, lease, &mut self.sight, self.doubts, now).await
    }
}

#[tokio::test]
async fn s11_another_installation_is_there_for_as_long_as_its_lease_changes() {
    let held = || json!({"holderIdentity": "pod-7", "leaseDurationSeconds": 15});
    let mut world = World::with(held());
    let (presence, says) = world.look("topoloom", 100 * S).await;
    assert_eq!(presence, Presence::There(15 * S));
    assert_eq!(says, "another installation serves it, with the Lease other/topoloom-binding-0123");
    put(&world.lent, held());
    assert_eq!(world.look("topoloom", 114 * S).await.0, Presence::There(15 * S), "it was renewed");
    assert_eq!(world.look("topoloom", 128 * S).await.0, Presence::There(S));
    assert_eq!(world.look("topoloom", 129 * S).await.0, Presence::Gone);
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s11_another_installation_is_gone_where_its_lease_is_or_was_given_back() {
    let mut world = World::default();
    assert_eq!(world.look("topoloom", S).await.0, Presence::Gone);
    assert_eq!(world.look_at("a person wrote this", "topoloom", S).await.0, Presence::Gone, "there is no such Lease");
    let mut world = World::with(json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    assert_eq!(world.look("topoloom", S).await.0, Presence::Gone);
    // Without elections no replica holds it: in our own namespace that was this process before it was set up otherwise.
    let mut world = World::with(json!({}));
    assert_eq!(world.look("other", S).await.0, Presence::Gone);
    assert_eq!(world.look("topoloom", S).await.0, Presence::There(180 * S));
}

#[tokio::test]
async fn s11_where_its_lease_may_not_be_read_it_is_there_for_as_long_as_leases_of_nodes_are_renewed() {
    let mut world = World::default();
    forbid(&world.lent);
    renewed(&world.lent, "vnode-east-w1", 1);
    renewed(&world.lent, "vnode-east-w2", 6);
    let (presence, says) = world.look("topoloom", 100 * S).await;
    assert_eq!(presence, Presence::There(5 * S));
    assert!(says.contains(OTHER) && says.contains("cannot be read") && says.ends_with("is taken over"), "{says}");
    renewed(&world.lent, "vnode-east-w1", 11);
    let (presence, says) = world.look("topoloom", 105 * S).await;
    assert_eq!(presence, Presence::There(5 * S));
    assert!(says.ends_with("so it lives"), "{says}");
    for seconds in [110, 115, 120] {
        assert_eq!(world.look("topoloom", seconds * S).await.0, Presence::There(5 * S), "{seconds}");
    }
    let (presence, says) = world.look("topoloom", 125 * S).await;
    assert_eq!(presence, Presence::Gone);
    assert!(says.ends_with("No lease of a virtual node is renewed"), "{says}");
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s11_where_nothing_is_renewed_it_is_taken_over_later_if_that_proves_less() {
    for (left, says_unreachable, whole) in [(0, false, 20), (1, false, 80), (0, true, 320)] {
        let doubts = Doubts { left, says_unreachable };
        let mut world = World { doubts, ..World::default() };
        forbid(&world.lent);
        for seconds in (0..whole).step_by(5) {
            let (presence, says) = world.look("topoloom", (100 + seconds) * S).await;
            assert_eq!(presence, Presence::There(5 * S), "{seconds}");
            assert_eq!(says.ends_with(by_hand()), whole > 20, "{says}");
        }
        assert_eq!(world.look("topoloom", (100 + whole) * S).await.0, Presence::Gone);
    }
}

#[tokio::test]
async fn s11_one_that_is_heard_for_three_leases_is_known_to_stay() {
    let mut world = World::default();
    forbid(&world.lent);
    for seconds in (0..135_u32).step_by(5) {
        renewed(&world.lent, "vnode-east-w1", seconds % 60);
        world.look("topoloom", (100 + seconds) * S).await;
        assert_eq!(world.sight.is_steady, seconds >= 125, "{seconds}");
    }
    world.look("topoloom", 235 * S).await;
    assert!(!world.sight.is_steady, "it was not renewed since");
}

#[test]
fn s5_s11_a_status_says_whether_leases_may_be_stopped_on_purpose() {
    use ConnectionState::{Connecting, Reachable, Suspect, Unknown, Unreachable};
    let says = |state: Option<ConnectionState>| {
        let mut object = ClusterBinding::new("east", ClusterBindingSpec::default());
        object.status.connection = state.map(|state| ConnectionStatus { state, ..ConnectionStatus::default() });
        says_unreachable(&Seen::Present(Arc::new(object)))
    };
    assert_eq!([Some(Connecting), Some(Unreachable), Some(Unknown)].map(says), [true; 3]);
    assert_eq!([Some(Reachable), Some(Suspect), None].map(says), [false; 3]);
    assert!(!says_unreachable(&Seen::Unread) && !says_unreachable(&Seen::Gone));
}

#[tokio::test]
async fn s11_what_cannot_be_read_of_another_installation_is_not_what_is_not_there() {
    let mut world = World::default();
    forbid(&world.lent);
    world.look("topoloom", 100 * S).await;
    world.look("topoloom", 115 * S).await;
    unreadable(&world.lent, "vnode-east-w1");
    let (presence, says) = world.look("topoloom", 120 * S).await;
    assert_eq!(presence, Presence::There(SOON));
    assert!(says.contains(OTHER) && says.contains("cannot be read, either") && says.ends_with(by_hand()), "{says}");
    readable(&world.lent, "vnode-east-w1");
    for seconds in [125, 130, 135, 140] {
        assert_eq!(world.look("topoloom", seconds * S).await.0, Presence::There(5 * S), "the look begins again");
    }
    assert_eq!(world.look("topoloom", 145 * S).await.0, Presence::Gone);
    // A Lease that is there and cannot be understood is as one that may not be read.
    let mut world = World::default();
    world.lent.put(PATH, json!({"metadata": {"labels": 5}}));
    assert_eq!(world.look("topoloom", S).await.0, Presence::There(5 * S));
}

#[test]
fn s11_that_an_installation_is_gone_counts_once_and_for_no_other_one() {
    let mut rivals = Rivals::default();
    assert_eq!(rivals.take_over(Some(OTHER)), None, "it was not looked at");
    rivals.ended(OTHER.to_owned());
    assert_eq!(rivals.take_over(Some("b/x")), None);
    assert_eq!(rivals.take_over(Some(OTHER)), None, "it may have come back meanwhile");
    rivals.ended(OTHER.to_owned());
    assert_eq!(rivals.take_over(None), None, "its name is not there any more");
    rivals.ended(OTHER.to_owned());
    assert_eq!(rivals.take_over(Some(OTHER)).as_deref(), Some(OTHER));
    assert_eq!(rivals.take_over(Some(OTHER)), None);
    assert_eq!(rivals.taken_from().as_deref(), Some(OTHER), "which is remembered");
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
