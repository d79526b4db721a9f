use serde_json::json;
use topoloom_core::names::Uid;
use topoloom_sync::served::silence::Why;

use super::super::super::staged::{Server, clients};
use super::super::tests::{forbid, ours, put, readable, renewed, unreadable};
use super::*;

const OTHER: &str = "other/topoloom-binding-0123";
const S: Duration = Duration::from_secs(1);

/// A process that serves the binding, and renews the lease of this node.
struct Own {
    node: Option<&'static str>,
    by_another: u64,
}

impl OwnLeases for Own {
    fn by_another(&self) -> u64 {
        self.by_another
    }

    fn renews_since(&self, node: &str, _: Duration) -> bool {
        self.node == Some(node)
    }

    fn renews(&self) -> bool {
        self.node.is_some()
    }
}

/// A rival whose name was written 100 s after the machine had started, and the process that looks at it.
struct World {
    lent: Server,
    own: Own,
    rivalry: Rivalry,
}

impl World {
    fn new(rival: Rival, node: Option<&'static str>) -> Self {
        let own = Own { node, by_another: 7 };
        let rivalry = Rivalry::new(OTHER, rival, &own, 100 * S);
        Self { lent: Server::default(), own, rivalry }
    }

    /// One whose Lease may not be read.
    fn unread(rival: Rival, node: Option<&'static str>) -> Self {
        let world = Self::new(rival, node);
        forbid(&world.lent);
        world
    }

    async fn look(&mut self, now: Duration) -> Claim {
        let (clients, ours, virtual_cluster) = (clients(&self.lent, &self.lent), ours("topoloom"), Uid::from("vc-1"));
        let reads = Reads { clients: &clients, ours: &ours, binding: "east", virtual_cluster: &virtual_cluster };
        self.rivalry.look(&reads, &self.own, now).await
    }
}

#[tokio::test]
async fn s11_a_name_that_a_person_wrote_ends_nothing_while_only_we_renew() {
    let mut world = World::unread(Rival::Stranger, Some("vnode-east-w1"));
    // This one has stopped, and ours is renewed all the time.
    renewed(&world.lent, "vnode-east-w2", 0);
    for (seconds, again) in [(100, 5), (105, 5), (110, 5), (115, 5), (119, 1)] {
        renewed(&world.lent, "vnode-east-w1", seconds - 100);
        assert_eq!(world.look(seconds * S).await, Claim::Wait(again * S), "{seconds}");
    }
    let says = world.rivalry.says.clone().unwrap();
    assert!(says.contains(OTHER) && says.contains("cannot be read"), "{says}");
    assert_eq!(world.look(120 * S).await, Claim::Stay);
    assert_eq!(world.lent.writes(), [""; 0]);
}

#[tokio::test]
async fn s11_one_that_renews_leases_has_the_binding_whether_these_are_ours_or_not() {
    let mut world = World::unread(Rival::Stranger, Some("vnode-east-w1"));
    renewed(&world.lent, "vnode-east-w1", 0);
    assert_eq!(world.look(100 * S).await, Claim::Wait(5 * S));
    world.own.by_another = 8;
    assert_eq!(world.look(105 * S).await, Claim::Leave(Why::Renews));
    // Our own connection to the physical cluster is broken, and that of the other one works.
    let mut world = World::unread(Rival::Stranger, None);
    renewed(&world.lent, "vnode-east-w1", 0);
    assert_eq!(world.look(100 * S).await, Claim::Wait(5 * S));
    renewed(&world.lent, "vnode-east-w1", 3);
    assert_eq!(world.look(105 * S).await, Claim::Leave(Why::Renews));
}

#[tokio::test]
async fn s11_one_that_was_taken_over_and_answers_has_the_binding_where_there_is_nothing_to_be_renewed() {
    assert_eq!(World::unread(Rival::TakenFrom, None).look(100 * S).await, Claim::Leave(Why::Answers));
    assert_eq!(World::unread(Rival::TakenFrom, Some("vnode-east-w1")).look(100 * S).await, Claim::Wait(5 * S));
    // It is of two that insist the one whose name comes first: ours is topoloom/ours.
    assert_eq!(World::unread(Rival::Insists, None).look(100 * S).await, Claim::Leave(Why::Answers));
}

#[tokio::test]
async fn s11_where_its_lease_can_be_read_that_decides_at_once() {
    let mut world = World::new(Rival::Stranger, Some("vnode-east-w1"));
    assert_eq!(world.look(100 * S).await, Claim::Stay, "there is none");
    put(&world.lent, json!({"holderIdentity": "", "leaseDurationSeconds": 1}));
    assert_eq!(world.look(100 * S).await, Claim::Stay, "it was given back");
    put(&world.lent, json!({"holderIdentity": "pod-7", "leaseDurationSeconds": 15}));
    assert_eq!(world.look(100 * S).await, Claim::Leave(Why::Holds));
}

#[tokio::test]
async fn s3_while_leases_of_nodes_cannot_be_read_nothing_follows_from_silence() {
    let mut world = World::unread(Rival::Stranger, Some("vnode-east-w1"));
    assert_eq!(world.look(100 * S).await, Claim::Wait(5 * S));
    unreadable(&world.lent, "vnode-east-w2");
    assert_eq!(world.look(115 * S).await, Claim::Wait(5 * S));
    readable(&world.lent, "vnode-east-w2");
    assert_eq!(world.look(120 * S).await, Claim::Wait(5 * S), "the look begins again");
    assert_eq!(world.look(130 * S).await, Claim::Wait(5 * S));
    assert_eq!(world.look(140 * S).await, Claim::Stay);
    // What our own renewals meet is known all the same.
    let mut world = World::unread(Rival::Stranger, Some("vnode-east-w1"));
    unreadable(&world.lent, "vnode-east-w2");
    world.own.by_another = 8;
    assert_eq!(world.look(100 * S).await, Claim::Leave(Why::Renews));
}
