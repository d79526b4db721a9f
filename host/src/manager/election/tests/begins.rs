//! The thread of elections: an election that begins sends requests, one that does not leaves its lease to others, and one
//! that comes later ends alone.

use futures::FutureExt;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::super::*;
use super::served::SLOW;
use crate::manager::health::Health;
use crate::manager::tests::connection;

/// An API server that never answers, and a connection to it.
async fn silent() -> (TcpListener, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = connection(&format!("http://{}", listener.local_addr().unwrap())).await;
    (listener, connection)
}

pub(super) fn options() -> LeaseOptions {
    LeaseOptions {
        namespace: "n".into(),
        name: "l".into(),
        duration: SLOW.duration,
        renew_deadline: SLOW.renew_deadline,
        retry_period: SLOW.retry_period,
    }
}

pub(super) fn setup<'a>(group: Group, name: &str, options: &'a LeaseOptions, connection: &'a Connection) -> Setup<'a> {
    Setup {
        restores: Restores::default(),
        name: name.to_owned(),
        courtesy: None,
        options,
        identity: "me".into(),
        connection,
        asks: match group {
            Group::Controllers(_) => None,
            Group::Binding(_) => Some(SharedClient::default()),
        },
        metrics: Metrics::default(),
        requests: requests::Metrics::register(&mut Registry::default()),
        check: Health::default().optional(group.check()).into(),
        group,
        switch: Switch::new(ReadOnly::No),
        configuration: "n/c".into(),
    }
}

#[tokio::test]
async fn r3_an_election_that_never_begins_asks_nothing_and_is_released_at_once() {
    let ((begins, to_begins), (stays, to_stays)) = (silent().await, silent().await);
    let (options, thread) = (options(), Thread::start().unwrap());
    let elections = [(LeaseGroup::HyperNode, &to_begins), (LeaseGroup::NodeLock, &to_stays)].map(|(group, server)| {
        let setup = setup(group.into(), &group.lease(&options.name), &options, server);
        thread.elector().election(setup)
    });
    elections[0].begin();
    // The other one had as long.
    drop(begins.accept().await.unwrap());
    for election in &elections {
        election.release().await;
    }
    thread.join().await;
    assert!(stays.accept().now_or_never().is_none());
    assert_eq!(elections[1].role(), Role::Unknown);
    assert_eq!(elections[1].history().len(), 0);
}

#[tokio::test]
async fn s11_elections_come_and_go_while_the_thread_runs_and_each_ends_alone() {
    let (options, thread) = (options(), Thread::start().unwrap());
    let elector = thread.elector().clone();
    let ((stays, to_stays), (goes, to_goes), (comes, to_comes)) = (silent().await, silent().await, silent().await);
    let begun = |name: &str, server| {
        let election = elector.election(setup(Group::Binding(name.into()), name, &options, server));
        election.begin();
        election
    };
    let (first, second) = (begun("stays", &to_stays), begun("goes", &to_goes));
    drop((stays.accept().await.unwrap(), goes.accept().await.unwrap()));
    second.release().await;
    assert_eq!(second.held().check(), Err(crate::cluster::gate::Closed::NotLeader));
    // One that comes after the end of another.
    let third = begun("comes", &to_comes);
    drop(comes.accept().await.unwrap());
    for election in [&first, &third] {
        election.release().await;
    }
    thread.join().await;
    // The thread is gone: nothing renews what is begun now.
    let late = begun("late", &to_comes);
    assert_eq!(late.lost().await, Lost::Expired);
    late.release().await;
}

#[tokio::test]
async fn s11_leases_of_bindings_are_renewed_three_times_within_the_deadline_and_not_more_often() {
    let thread = Thread::start().unwrap();
    let (_silent, connection) = silent().await;
    for (asked, period) in
        [(SLOW.renew_deadline / 100, SLOW.renew_deadline / 3), (SLOW.retry_period, SLOW.retry_period)]
    {
        let elected = Elected {
            elector: thread.elector().clone(),
            options: LeaseOptions { retry_period: asked, ..options() },
            connection: connection.clone(),
            metrics: Metrics::default(),
            requests: requests::Metrics::register(&mut Registry::default()),
            restores: Restores::default(),
            configuration: "n/c".into(),
        };
        let elections = GroupElections::on("me".into(), &Switch::new(ReadOnly::No), elected);
        let leases = elections.leases().unwrap();
        assert_eq!(*leases, LeaseOptions { retry_period: period, ..options() });
    }
    thread.join().await;
}
