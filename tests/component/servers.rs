//! The servers of `run` with the real binary: what they answer, which clients they disconnect, and a port that is
//! taken. There is no cluster: the API server of these hosts does not answer, and their own servers must answer
//! nevertheless.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::{Host, Port};

use crate::guests::host;

/// The head of a request may take this long.
const HEADER: Duration = Duration::from_secs(1);
/// A step that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(40);

/// A kubeconfig with the address of an API server that does not listen.
fn nowhere() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    (folder, file)
}

/// How long a server waits for the rest of a head that never comes.
async fn half_a_head(address: &str) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The test does not check what the server sends before it closes the connection, or how it closes it.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_each_server_answers_its_own_pages_and_waits_for_no_slow_client() {
    let (_folder, kubeconfig) = nowhere();
    let flags =
        ["--enable-healthz", "--healthz-address=127.0.0.1:0", "--enable-metrics", "--listen-address=127.0.0.1:0"];
    let host = Host::launch(&kubeconfig, &flags).await.unwrap();
    let slow = [Port::Health, Port::Metrics].map(|port| half_a_head(host.address(port).unwrap()));
    let asked = async {
        let ask = async |port, path| host.ask(port, path).await.unwrap();
        for path in ["/healthz", "/healthz/ping"] {
            assert_eq!(ask(Port::Health, path).await, (200, "ok".to_owned()), "{path}: alive without an API server");
        }
        eventually("/readyz names who does not answer", PATIENCE, async || {
            let (status, text) = ask(Port::Health, "/readyz").await;
            // Before the first request of a watch has ended, the page has less text, and the host is not ready either.
            assert_eq!(status, 503, "{text}");
            if text.contains("did not answer") { Ok(()) } else { Err(text) }
        })
        .await;
        let (status, text) = ask(Port::Metrics, "/metrics").await;
        assert_eq!((status, text.contains("# TYPE topoloom_leader gauge")), (200, true), "{text}");
        let pages = ["/metrics", "/healthz", "/healthz/ping", "/readyz", "/debug/dump", "/debug/log", "/sources", "/"];
        for path in pages {
            let own = [("/metrics", Port::Metrics), ("/healthz", Port::Health), ("/healthz/ping", Port::Health)];
            for port in [Port::Health, Port::Metrics] {
                if own.contains(&(path, port)) || (path, port) == ("/readyz", Port::Health) {
                    continue;
                }
                assert_eq!(ask(port, path).await.0, 404, "{port:?} {path}");
            }
        }
        // The admin server has all of these pages, for clients on the same machine.
        for path in ["/metrics", "/healthz", "/debug/dump", "/sources"] {
            assert_eq!(ask(Port::Admin, path).await.0, 200, "{path}");
        }
    };
    let ((), cut) = tokio::join!(asked, futures::future::join_all(slow));
    for waited in cut {
        let least = HEADER - Duration::from_millis(500);
        assert!(waited >= least, "cut off after {waited:?}: a slow client has {HEADER:?} for its head");
    }
    host.stop().await.unwrap();
}

/// Runs the host until it ends by itself; returns its exit code and its error output.
async fn ends(words: &[&str], kubeconfig: &Path) -> (Option<i32>, String) {
    let mut command = tokio::process::Command::new(host());
    command.arg("run").args(words).arg("--kubeconfig").arg(kubeconfig).env_clear();
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    let output =
        ended.unwrap_or_else(|_| panic!("{words:?}: it runs, and does not report that the port is taken")).unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn b8_a_port_that_is_taken_ends_the_process_with_the_flag_and_the_address() {
    let (_folder, kubeconfig) = nowhere();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (flag, enabled, admin) in [
        ("--healthz-address", "--enable-healthz", "127.0.0.1:0"),
        ("--listen-address", "--enable-metrics", "127.0.0.1:0"),
        ("--admin-address", "--enable-healthz=false", &*address),
    ] {
        let there = format!("{flag}={address}");
        let admin = format!("--admin-address={admin}");
        let mut words = vec![enabled, admin.as_str()];
        if flag != "--admin-address" {
            words.push(&there);
        }
        let (code, said) = ends(&words, &kubeconfig).await;
        let sentence = format!("{flag} {address}: cannot listen there");
        assert!(code == Some(1) && said.contains(&sentence), "{flag}: {code:?}: {said}");
    }
}
