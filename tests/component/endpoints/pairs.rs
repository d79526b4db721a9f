//! Several servers of one high-availability pair: the host uses the first that answers, and never two in one call.

use topoloom::endpoints::{Error, Outside};

use super::wire::{Wire, ok};
use super::{get, plan, session, text};

/// The URL of a port that was opened and closed again: no server listens there.
async fn closed_port() -> String {
    let gone = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    format!("http://{}", gone.local_addr().unwrap())
}

#[tokio::test]
async fn the_first_that_answers_is_used() {
    let (first, second) = (Wire::saying("127.0.0.2", "first").await, Wire::saying("127.0.0.2", "second").await);
    let outside = Outside::offline();
    let body = async |urls: &[&str]| text(session(plan(urls), &outside).send(&get("/")).await.unwrap()).await.unwrap();
    assert_eq!(body(&[&first.url(), &second.url()]).await, "first");
    assert_eq!(body(&[&closed_port().await, &second.url()]).await, "second");
    assert_eq!(second.heads().len(), 1);
}

#[tokio::test]
async fn a_member_that_is_not_serving_is_passed_over() {
    let passive =
        Wire::at("127.0.0.2", |_| b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let active = Wire::saying("127.0.0.2", "active").await;
    let outside = Outside::offline();
    let reply = session(plan(&[&passive.url(), &active.url()]), &outside).send(&get("/")).await.unwrap();
    assert_eq!(text(reply).await.unwrap(), "active");
    // If no member serves, the host returns the answer of the last one.
    let reply = session(plan(&[&closed_port().await, &passive.url()]), &outside).send(&get("/")).await.unwrap();
    assert_eq!(reply.status(), 503);
}

#[tokio::test]
async fn two_members_are_never_mixed_in_one_call() {
    let first = Wire::at("127.0.0.2", |head| match head.starts_with("GET /two") {
        true => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n".to_vec(),
        false => ok("", b"one"),
    })
    .await;
    let second = Wire::saying("127.0.0.2", "another fabric").await;
    let mut session = session(plan(&[&first.url(), &second.url()]), &Outside::offline());
    assert_eq!(text(session.send(&get("/one")).await.unwrap()).await.unwrap(), "one");
    assert_eq!(session.send(&get("/two")).await.unwrap().status(), 503);
    assert_eq!(second.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn when_no_server_answers_all_are_named() {
    let (one, two) = (closed_port().await, closed_port().await);
    let error = session(plan(&[&one, &two]), &Outside::offline()).send(&get("/")).await.err().unwrap();
    let Error::Connect(message) = &error else { panic!("{error:?}") };
    for url in [one, two] {
        assert!(message.contains(url.trim_start_matches("http://")), "{message}");
    }
}
