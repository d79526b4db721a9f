//! The clients of a lease over real connections: what its holder sent in time, and what waited inside until its time
//! was over, does not leave. And how the clients of many leases are made.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Mutex, mpsc as threads};
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
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::*;
use super::begins::{options, setup};
use super::served::{SLOW, held_by, replica};
use crate::cluster::client::connect;
use crate::cluster::{Refusal, RefusalReason};
use crate::manager::tests::connection;

/// Asks the voucher by one pipe, and is answered by another.
const PROGRAM: &str = "echo > \"$0.asks\"\ncat \"$0.answer\"\n";

/// Vouches for every request of a client, at the last moment before it goes onto its connection.
struct Voucher {
    folder: TempDir,
    closes: Arc<Mutex<Option<Gate>>>,
    waits: Arc<Mutex<Option<Wait>>>,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// For what a voucher waits before it answers, and who is notified of that.
struct Wait {
    asked: oneshot::Sender<()>,
    goes_on: threads::Receiver<()>,
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
        let waits = Arc::new(Mutex::new(None::<Wait>));
        let (to_close, to_wait, ends) = (Arc::clone(&closes), Arc::clone(&waits), Arc::clone(&has_ended));
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
                let wait = to_wait.lock().unwrap().take();
                if let Some(Wait { asked, goes_on }) = wait {
                    let _ = asked.send(());
                    // Until the sender is dropped.
                    let _ = goes_on.recv();
                }
                std::fs::write(&answer, credential.to_string()).unwrap();
            }
        });
        Self { folder, closes, waits, has_ended, thread: Some(thread) }
    }

    /// The gate closes while the next request waits for its credential.
    fn closes(&self, gate: &Gate) {
        *self.closes.lock().unwrap() = Some(gate.clone());
    }

    /// The next request for a credential is not answered until the sender is dropped; the receiver is notified of it.
    fn waits(&self) -> (oneshot::Receiver<()>, threads::Sender<()>) {
        let ((asked, is_asked), (go_on, goes_on)) = (oneshot::channel(), threads::channel());
        *self.waits.lock().unwrap() = Some(Wait { asked, goes_on });
        (is_asked, go_on)
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

#[tokio::test(flavor = "multi_thread")]
async fn s11_bindings_ask_with_one_client_and_hold_with_one_each() {
    let servers = [Server::begin().await, Server::begin().await];
    let (shared, metrics) = (SharedClient::default(), requests::Metrics::register(&mut Registry::default()));
    let mut all = Vec::new();
    for server in &servers {
        let (connection, runner) = (connection(&server.address).await, replica(SLOW).runner);
        runner.held.open_until(boot_time() + Duration::from_secs(3600));
        all.push(runner.connect_aside(&connection, &metrics, &shared).await.unwrap());
    }
    let writes = || servers.each_ref().map(Server::writes);
    for leases in &all {
        leases.asks.replace("l", &PostParams::default(), &held_by("me")).await.unwrap();
    }
    assert_eq!(writes(), [2, 0], "the client of the first");
    for leases in &all {
        leases.holds.replace("l", &PostParams::default(), &held_by("me")).await.unwrap();
    }
    assert_eq!(writes(), [3, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn s11_a_client_for_a_binding_that_takes_long_delays_no_other_lease() {
    let (server, voucher, options) = (Server::begin().await, Voucher::new(), options());
    let slow = connect(Some(&voucher.kubeconfig(&server.address)), None, None).await.unwrap();
    let quick = connection(&server.address).await;
    let thread = Thread::start().unwrap();
    let begun = |group: Group, connection| {
        let election = thread.elector().election(setup(group, "l", &options, connection));
        election.begin();
        election
    };
    let (asked, go_on) = voucher.waits();
    let binding = begun(Group::Binding("east".into()), &slow);
    asked.await.unwrap();
    let other = begun(LeaseGroup::HyperNode.into(), &quick);
    timeout(Duration::from_secs(60), other.granted()).await.unwrap();
    // One that has no client yet ends at once.
    timeout(Duration::from_secs(60), binding.release()).await.unwrap();
    drop(go_on);
    other.release().await;
    thread.join().await;
}
