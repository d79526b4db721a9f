//! The clients of a lease over real connections: what its holder sent in time, and what waited inside until its time
//! was over, does not leave.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::JoinHandle;

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::api::PostParams;
use kube::client::Body;
use prometheus_client::registry::Registry;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::*;
use super::served::{SLOW, held_by, replica};
use crate::cluster::client::connect;
use crate::cluster::{Refusal, RefusalReason};

/// Asks the voucher by one pipe, and is answered by another.
const PROGRAM: &str = "echo > \"$0.asks\"\ncat \"$0.answer\"\n";

/// Vouches for every request of a client, at the last moment before it goes onto its connection.
struct Voucher {
    folder: TempDir,
    closes: Arc<Mutex<Option<Gate>>>,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Voucher {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("program"), PROGRAM).unwrap();
        let [asks, answer] = ["program.asks", "program.answer"].map(|pipe| folder.path().join(pipe));
        for pipe in [&asks, &answer] {
            mknodat(CWD, pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        }
        let (closes, has_ended) = (Arc::new(Mutex::new(None::<Gate>)), Arc::new(AtomicBool::new(false)));
        let (to_close, ends) = (Arc::clone(&closes), Arc::clone(&has_ended));
        // It expires at once: every request reads it again.
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"},
        });
        let thread = std::thread::spawn(move || {
            loop {
                std::fs::read(&asks).unwrap();
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                if let Some(gate) = to_close.lock().unwrap().take() {
                    gate.close();
                }
                std::fs::write(&answer, credential.to_string()).unwrap();
            }
        });
        Self { folder, closes, has_ended, thread: Some(thread) }
    }

    /// The gate closes while the next request waits for its credential.
    fn closes(&self, gate: &Gate) {
        *self.closes.lock().unwrap() = Some(gate.clone());
    }

    fn kubeconfig(&self, server: &str) -> PathBuf {
        let file = self.folder.path().join("kubeconfig");
        let program = self.folder.path().join("program");
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "sh", "args": [program],
        });
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {"exec": exec}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        std::fs::write(&file, text.to_string()).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }
}

impl Drop for Voucher {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        let _ = std::fs::write(self.folder.path().join("program.asks"), "");
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// An API server that takes every write of a lease, and counts them.
struct Server {
    address: String,
    writes: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Server {
    async fn begin() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                let answers = service_fn(move |request: Request<Incoming>| {
                    if *request.method() == Method::PUT {
                        counted.fetch_add(1, Ordering::SeqCst);
                    }
                    let lease = serde_json::to_vec(&held_by("me")).unwrap();
                    std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::from(lease))))
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answers).await;
                });
            }
        });
        Self { address, writes, _task: task }
    }

    fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_waited_inside_until_the_lease_was_over_does_not_leave() {
    let (server, voucher) = (Server::begin().await, Voucher::new());
    let connection = connect(Some(&voucher.kubeconfig(&server.address)), None, None).await.unwrap();
    let runner = replica(SLOW).runner;
    let leases = runner.connect(&connection, &requests::Metrics::register(&mut Registry::default())).unwrap();
    let renew = async || {
        let renewed = leases.holds.replace("l", &PostParams::default(), &held_by("me")).await;
        renewed.map(|_| ()).map_err(|error| Refusal::of(&error).reason)
    };
    let in_time = boot_time() + Duration::from_secs(3600);

    // It is to go onto a connection that is not there yet.
    runner.held.open_until(in_time);
    voucher.closes(&runner.held);
    assert_eq!((renew().await, server.writes()), (Err(RefusalReason::NotLeader), 0));
    // In time it leaves.
    runner.held.open_until(in_time);
    assert_eq!((renew().await, server.writes()), (Ok(()), 1));
    // It is to go onto the connection that is open by now.
    voucher.closes(&runner.held);
    assert_eq!((renew().await, server.writes()), (Err(RefusalReason::NotLeader), 1));
    // What anybody may ask goes all the same.
    leases.asks.get("l").await.unwrap();
    leases.asks.replace("l", &PostParams::default(), &held_by("me")).await.unwrap();
    assert_eq!(server.writes(), 2);
}
