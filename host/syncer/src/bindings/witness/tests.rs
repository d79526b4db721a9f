use topoloom_cluster::RefusalReason;
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::{BindingName, ClusterId};
use topoloom_sync::witness::Store;

use super::super::staged::{Server, clients};
use super::*;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/topoloom/leases/east";

struct World {
    lent: Server,
    physical: Server,
    identity: Identity,
    cluster: ClusterId,
    lease: LeaseName,
    pair: Pair,
}

impl World {
    fn new() -> Self {
        let lent = Server::default();
        lent.put(LEASE, serde_json::json!({"metadata": {"name": "east"}, "spec": {"holderIdentity": "replica"}}));
        Self {
            lent,
            physical: Server::default(),
            identity: Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap(),
            cluster: ClusterId::parse("east").unwrap(),
            lease: LeaseName { namespace: "topoloom".to_owned(), name: "east".to_owned() },
            pair: Pair { binding: "b1".into(), physical: "c1".into() },
        }
    }

    async fn make(&self, why: Why) -> Result<Found, Refusal> {
        let borrower = Borrower { identity: &self.identity, cluster: &self.cluster };
        let places = Places { lease: &self.lease, namespace: "lent", borrower, pair: &self.pair };
        make(&clients(&self.lent, &self.physical), &places, why).await
    }

    fn kept(&self) -> String {
        let lease = self.lent.get(LEASE).unwrap();
        lease["metadata"]["annotations"][keys::WITNESS].as_str().unwrap_or_default().to_owned()
    }
}

fn stores(found: &Result<Found, Refusal>) -> Vec<Store> {
    match found {
        Ok(Found::SetBack(found)) => found.iter().map(|found| found.store).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn s25_each_round_raises_copies_and_confirms() {
    let world = World::new();
    for (round, kept) in [(1, "b1/c1/1/1"), (2, "b1/c1/2/2")] {
        assert_eq!(world.make(Why::Time).await, Ok(Found::Agree), "{round}");
        assert_eq!(world.kept(), kept);
        assert_eq!(world.lent.writes().len(), 2);
    }
    assert_eq!(world.lent.get(LEASE).unwrap()["spec"]["holderIdentity"], "replica", "the rest of the lease stays");
}

#[tokio::test]
async fn s25_either_store_that_is_set_back_is_found_also_where_no_syncer_ran_and_nothing_is_written_until_it_is_confirmed()
 {
    for store in [Store::Virtual, Store::Physical] {
        let world = World::new();
        world.make(Why::Time).await.unwrap();
        let (lent, physical) = (world.lent.save(), world.physical.save());
        for _ in 0..3 {
            world.make(Why::Time).await.unwrap();
        }
        match store {
            Store::Virtual => world.lent.restore(lent),
            Store::Physical => world.physical.restore(physical),
        }
        world.lent.writes();
        assert_eq!(stores(&world.make(Why::Time).await), [store]);
        assert_eq!(stores(&world.make(Why::Time).await), [store], "until it is confirmed");
        assert_eq!(world.lent.writes(), [""; 0]);
        // The process that carries the confirmation out ends in the middle, and the next one finds nothing to confirm again.
        world.lent.dies_after(Some(1));
        assert!(world.make(Why::Confirmed).await.is_err());
        world.lent.dies_after(None);
        assert_eq!(world.make(Why::Time).await, Ok(Found::Agree));
    }
}

#[tokio::test]
async fn s25_a_round_before_a_disruption_finds_the_same_and_writes_nothing() {
    let world = World::new();
    assert_eq!(world.make(Why::Asked).await, Ok(Found::NoLease), "there is no copy yet, which proves nothing");
    world.make(Why::Time).await.unwrap();
    let physical = world.physical.save();
    world.make(Why::Time).await.unwrap();
    world.lent.writes();
    world.physical.writes();
    assert_eq!(world.make(Why::Asked).await, Ok(Found::Agree));
    world.physical.restore(physical);
    assert_eq!(stores(&world.make(Why::Asked).await), [Store::Physical]);
    assert_eq!((world.lent.writes(), world.physical.writes()), (vec![], vec![]));
}

#[tokio::test]
async fn s25_a_round_that_fails_anywhere_leaves_numbers_that_agree() {
    for writes in 0..4 {
        let world = World::new();
        world.make(Why::Time).await.unwrap();
        world.lent.dies_after(Some(writes));
        world.physical.dies_after(Some(writes));
        let ended = world.make(Why::Time).await;
        assert_eq!(ended.is_err(), writes < 2, "{writes}");
        world.lent.dies_after(None);
        world.physical.dies_after(None);
        assert_eq!(world.make(Why::Time).await, Ok(Found::Agree));
    }
}

#[tokio::test]
async fn s25_the_numbers_of_another_binding_or_cluster_show_nothing() {
    let mut world = World::new();
    for _ in 0..3 {
        world.make(Why::Time).await.unwrap();
    }
    // Another physical cluster was confirmed: it has no copy.
    world.pair.physical = "c2".into();
    world.physical.restore(Default::default());
    assert_eq!(world.make(Why::Time).await, Ok(Found::Agree));
    assert_eq!(world.kept(), "b1/c2/1/1");
}

#[tokio::test]
async fn s25_a_lease_that_is_not_there_keeps_no_counter_and_makes_no_copy() {
    let world = World::new();
    world.lent.remove(LEASE);
    assert_eq!(world.make(Why::Time).await, Ok(Found::NoLease));
    assert_eq!(world.physical.writes(), [""; 0]);
}

#[tokio::test]
async fn s25_a_renewal_of_the_lease_holds_no_number_up_and_one_that_came_in_between_is_not_written_over() {
    let world = World::new();
    world.make(Why::Time).await.unwrap();
    let clients = clients(&world.lent, &world.physical);
    let seen = clients.lease(&world.lease).await.unwrap().unwrap();
    let another = |path: &str, value: &str| {
        let mut lease = world.lent.get(LEASE).unwrap();
        *lease.pointer_mut(path).unwrap() = value.into();
        world.lent.put(LEASE, lease);
    };
    another("/metadata/resourceVersion", "renewed");
    let stored = clients.write_witness(&world.lease, &seen, "b1/c1/2/1").await.unwrap();
    assert_eq!((world.kept().as_str(), stored.holder.as_str()), ("b1/c1/2/1", "replica"));
    // Another replica has taken the binding over, and raises the counter.
    let number = format!("/metadata/annotations/{}", keys::WITNESS.replace('/', "~1"));
    for (path, before, value) in
        [(number.as_str(), "b1/c1/2/1", "b1/c1/9/9"), ("/spec/holderIdentity", "replica", "another")]
    {
        another(path, value);
        let refused = clients.write_witness(&world.lease, &stored, "b1/c1/2/2").await.unwrap_err();
        assert_eq!(refused.reason, RefusalReason::Conflict);
        assert_ne!(world.kept(), "b1/c1/2/2", "{value}");
        another(path, before);
    }
}
