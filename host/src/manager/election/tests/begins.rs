//! The thread of elections: an election that begins sends requests, and one that does not leaves its lease to others.

use futures::FutureExt;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::super::*;
use super::served::SLOW;
use crate::manager::health::Health;
use crate::manager::tests::connection;

#[tokio::test]
async fn r3_an_election_that_never_begins_asks_nothing_and_is_released_at_once() {
    let (begins, stays) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let server = async |listener: &TcpListener| connection(&format!("http://{}", listener.local_addr().unwrap())).await;
    let (to_begins, to_stays) = (server(&begins).await, server(&stays).await);
    let options = LeaseOptions {
        namespace: "n".into(),
        name: "l".into(),
        duration: SLOW.duration,
        renew_deadline: SLOW.renew_deadline,
        retry_period: SLOW.retry_period,
    };
    let health = Health::default();
    let setup = |(group, connection)| Setup {
        restores: crate::cluster::Restores::default(),
        group,
        options: &options,
        identity: "me".into(),
        connection,
        metrics: Metrics::default(),
        requests: requests::Metrics::register(&mut Registry::default()),
        check: health.check(LeaseGroup::check(group)).into(),
        switch: Switch::new(ReadOnly::No),
        configuration: "n/c".into(),
    };
    let setups = [(LeaseGroup::HyperNode, &to_begins), (LeaseGroup::NodeLock, &to_stays)].map(setup);
    let (elections, thread) = start(setups.into()).unwrap();
    elections[0].begin();
    // The other one had as long.
    drop(begins.accept().await.unwrap());
    for election in &elections {
        election.release().await;
    }
    thread.unwrap().join().await;
    assert!(stays.accept().now_or_never().is_none());
    assert_eq!(elections[1].role(), Role::Unknown);
    assert_eq!(elections[1].history().len(), 0);
}
