//! Beginning and end of a simulator.

use crate::client::{Site, ufm};
use crate::raw::{read_until, request};
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use topoloom_simulator::{Error, Fault};

const SMALL: &str = "units=1,pods=1,spines=0,cores=0";

#[tokio::test]
async fn a_dropped_simulator_breaks_every_connection() {
    let simulator = ufm(SMALL).plain().fault(Fault::StallAfterHeaders).start().await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..50 {
        let mut stream = request(&simulator, "/ufmRestV3/resources/ports").await;
        read_until(&mut stream, "\r\n\r\n").await;
        streams.push(stream);
    }
    assert_eq!((simulator.counters().open, simulator.counters().answering), (50, 50));
    drop(simulator);
    for mut stream in streams {
        // Closed or reset: both are an end.
        assert!(matches!(stream.read(&mut [0; 16]).await, Ok(0) | Err(_)));
    }
}

#[tokio::test]
async fn a_stopped_simulator_leaves_its_port_free() {
    let site = Site::start(ufm(SMALL)).await;
    let (address, faults) = (site.simulator.address(), site.simulator.faults());
    let idle = TcpStream::connect(address).await.unwrap();
    site.simulator.until(|counters| counters.open == 1).await;
    site.simulator.stop().await;
    TcpListener::bind(address).await.unwrap();
    assert!(matches!(faults.set(Fault::Refused).await, Err(Error::Stopped)));
    drop(idle);
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = taken.local_addr().unwrap();
    let error = ufm(SMALL).listen(address).start().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
}

#[tokio::test]
async fn requests_are_remembered_and_counted() {
    let site = Site::start(ufm(SMALL)).await;
    let length = site.get("resources/ports?active=true").send().await.unwrap().bytes().await.unwrap().len();
    site.simulator.until(|counters| counters.requests == 1 && counters.answering == 0).await;
    let seen = site.simulator.requests();
    assert_eq!(
        (seen[0].query.as_deref(), seen[0].bytes, seen[0].status),
        (Some("active=true"), length as u64, Some(200))
    );
    site.simulator.forget_requests();
    assert!(site.simulator.requests().is_empty());
    assert_eq!(site.simulator.counters().requests, 1);
}

#[tokio::test]
async fn an_answer_on_its_way_keeps_the_fabric_it_began_with() {
    let site = Site::start(ufm("units=8,hosts-per-unit=16,rails=8")).await;
    let whole = site.list("resources/ports").await.len();
    let answer = site.get("resources/ports").send().await.unwrap();
    site.simulator.fabric().edit(|fabric| fabric.remove_switch("spine-p0-0")).unwrap();
    let list: Vec<serde_json::Value> = answer.json().await.unwrap();
    assert_eq!(list.len(), whole);
    assert!(site.list("resources/ports").await.len() < whole);
}
