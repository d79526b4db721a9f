//! Answers that are late, endless, broken, compressed, or too many.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use topoloom::endpoints::error::Wait;
use topoloom::endpoints::{Denial, Error, Outside};

use super::wire::{Wire, ok};
use super::{denied, get, plan, session, text};

async fn body_of(bytes: Vec<u8>) -> Result<String, Error> {
    let server = Wire::at("127.0.0.2", move |_| bytes.clone()).await;
    text(session(plan(&[&server.url()]), &Outside::offline()).send(&get("/")).await?).await
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_body_is_whole_or_an_error() {
    assert_eq!(body_of(ok("", b"whole")).await.unwrap(), "whole");
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\nhalf".to_vec();
    assert!(matches!(body_of(cut).await, Err(Error::Protocol(message)) if message.contains("after 4 bytes")));
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n4\r\nhalf\r\n".to_vec();
    assert!(matches!(body_of(chunked).await, Err(Error::Protocol(_))));
    let no_http = b"SSH-2.0-OpenSSH_9.6\r\nconnection: close\r\n".to_vec();
    assert!(
        matches!(body_of(no_http).await, Err(Error::Protocol(message)) if message.contains("does not answer in HTTP"))
    );
}

#[tokio::test]
async fn a_body_with_an_encoding_that_was_not_requested_is_unpacked_and_counted() {
    assert_eq!(body_of(ok("content-encoding: gzip\r\n", &packed(b"unpacked"))).await.unwrap(), "unpacked");
    let bomb = packed(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    let error = body_of(ok("content-encoding: gzip\r\n", &bomb)).await.unwrap_err();
    assert!(matches!(&error, Error::TooLarge(message) if message.contains("maxBody")), "{error:?}");
    let half = packed(&[b'x'; 10_000]);
    let error = body_of(ok("content-encoding: gzip\r\n", &half[..half.len() / 2])).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(_)), "{error:?}");
    let error = body_of(ok("content-encoding: gzip\r\n", b"no gzip at all")).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(_)), "{error:?}");
    let error = body_of(ok("content-encoding: br\r\n", b"x")).await.unwrap_err();
    assert!(matches!(&error, Error::Protocol(message) if message.contains("was not requested")), "{error:?}");
}

#[tokio::test]
async fn an_endless_body_ends_at_its_bound() {
    let endless = [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".as_slice(), &vec![b'x'; 4 << 20]].concat();
    assert!(matches!(body_of(endless).await, Err(Error::TooLarge(_))));
}

#[tokio::test]
async fn a_server_that_never_answers_is_left() {
    let silent = Wire::at("127.0.0.2", |_| Vec::new()).await;
    let stalls = Wire::at("127.0.0.2", |_| b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_vec()).await;
    for (server, words) in [(&silent, "the first byte of the answer"), (&stalls, "the answer up to its last byte")] {
        let mut plan = plan(&[&server.url()]);
        plan.timeouts.connect = Duration::from_millis(100);
        plan.timeouts.first_byte = Duration::from_millis(200);
        plan.timeouts.total = Duration::from_millis(600);
        let mut session = session(plan, &Outside::offline());
        let error = match session.send(&get("/")).await {
            Ok(reply) => text(reply).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(&error, Error::Timeout { .. }), "{error:?}");
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_only_announces_answers_is_left() {
    // The server sends its hints without a pause, and with one.
    for pause in [Duration::ZERO, Duration::from_millis(20)] {
        let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let hint = b"HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n";
            let hints = hint.repeat(if pause.is_zero() { 1000 } else { 1 });
            // Until the client closes the connection.
            while stream.write_all(&hints).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        });
        let mut plan = plan(&[&url]);
        plan.timeouts.connect = Duration::from_millis(100);
        plan.timeouts.first_byte = Duration::from_millis(200);
        plan.timeouts.total = Duration::from_secs(600);
        let mut session = session(plan, &Outside::offline());
        let asked = get("/");
        let answer = tokio::time::timeout(Duration::from_secs(20), session.send(&asked)).await.expect("the call ends");
        let error = answer.err().unwrap();
        assert_eq!(error, Error::Timeout { what: Wait::FirstByte, limit: Duration::from_millis(200) });
        // The client closes the connection, and does not read from it for ever.
        let left = tokio::time::timeout(Duration::from_secs(20), server.join_next()).await;
        left.expect("the connection is closed").unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_plugin_holds_eight_answers_at_one_time() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let outside = Outside::offline();
    let mut session = session(plan(&[&server.url()]), &outside);
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(session.send(&get("/")).await.unwrap());
    }
    let before = outside.metrics.denials(&super::source(), Denial::Connections);
    denied(&session.send(&get("/")).await.err().unwrap(), Denial::Connections, &outside, before);
    held.pop();
    assert!(session.send(&get("/")).await.is_ok());
}
