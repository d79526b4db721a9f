//! The renew loop with an API server of one lease: what it requests when the lease cannot be created, and how it
//! releases a lease that is, or may be, its own.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use topoloom_api::names::{CONFIGURATION_ANNOTATION, RELEASED_ANNOTATION};
use topoloom_core::election::SeenBy;
use tower::Layer;

use super::super::runner::{LeaseEvent, Leases, late};
use super::super::*;
use crate::cluster::gate::{Closed, Door};
use crate::cluster::{Refusal, RefusalReason};
use crate::manager::health::Health;

const S: Duration = Duration::from_secs(1);

/// Nothing happens by itself.
pub(super) const SLOW: Timing = Timing {
    duration: Duration::from_secs(3 * 3600),
    renew_deadline: Duration::from_secs(2 * 3600),
    retry_period: Duration::from_secs(3600),
};

/// The next try follows at once, and the lease does not expire.
const BUSY: Timing = Timing { retry_period: Duration::from_millis(20), ..SLOW };

/// What the server does with a request.
enum Fate {
    /// What it is there for.
    Served,
    /// It stores what is written, and sends no answer.
    Muted,
    Refused(StatusCode, &'static str),
    /// There is no answer.
    Never,
}

/// What is stored.
#[derive(Default)]
struct Store(Mutex<Option<Lease>>);

type Decides = Box<dyn Fn(&Store, &Method) -> Fate + Send + Sync>;

/// An API server of one lease. Its lists and watches stay silent.
struct Server {
    fate: Decides,
    store: Store,
    asked: Mutex<Vec<Asked>>,
    news: Notify,
}

/// What a replica asked.
struct Asked {
    method: Method,
    at: Instant,
    /// The identity of the writer.
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Anybody,
    Holder,
}

impl Store {
    fn put(&self, lease: Lease) {
        *self.0.lock().unwrap() = Some(lease);
    }

    /// Another program writes an annotation into the lease.
    fn annotate(&self) {
        let mut stored = self.0.lock().unwrap();
        let mut lease = stored.take().unwrap();
        lease.metadata.annotations.get_or_insert_default().insert("note".into(), "mine".into());
        *stored = Some(next(lease));
    }

    fn serve(&self, method: &Method, body: &[u8]) -> Response<Body> {
        let mut stored = self.0.lock().unwrap();
        let now = stored.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        let written = serde_json::from_slice::<Lease>(body).ok();
        *stored = match (method.as_str(), stored.take(), written) {
            ("GET", Some(lease), _) => Some(lease),
            ("POST", None, Some(written)) => Some(next(written)),
            ("PUT", Some(_), Some(written)) if written.metadata.resource_version == now => Some(next(written)),
            (_, Some(lease), _) => {
                *stored = Some(lease);
                return refusal(StatusCode::CONFLICT, "it is another one");
            }
            (_, None, _) => return refusal(StatusCode::NOT_FOUND, "leases.coordination.k8s.io \"l\" not found"),
        };
        Response::new(Body::from(serde_json::to_vec(&*stored).unwrap()))
    }

    /// Who holds the lease, who released it, and which annotations others wrote.
    fn says(&self) -> (String, Option<String>, Vec<String>) {
        let lease = self.0.lock().unwrap().clone().unwrap();
        let record = lease::record(&lease);
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let ours = [RELEASED_ANNOTATION, CONFIGURATION_ANNOTATION];
        let others = annotations.into_keys().filter(|key| !ours.contains(&key.as_str()));
        (record.holder.to_string(), record.released_by.map(|by| by.to_string()), others.collect())
    }
}

impl Server {
    fn new(fate: impl Fn(&Store, &Method) -> Fate + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { fate: Box::new(fate), store: Store::default(), asked: Mutex::default(), news: Notify::new() })
    }

    /// The lease, as this replica asks for it.
    fn leases(self: &Arc<Self>, runner: &Runner) -> Leases {
        let service = |by| {
            let server = Arc::clone(self);
            tower::service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, std::convert::Infallible>(server.serve(request, by).await) }
            })
        };
        let holds = Door(runner.held.clone()).layer(service(By::Holder));
        let asks = kube::Client::new(service(By::Anybody), "default");
        Leases::new(asks, kube::Client::new(holds, "default"), "n")
    }

    async fn serve(&self, request: Request<Body>, by: By) -> Response<Body> {
        let (head, body) = request.into_parts();
        if head.method == Method::GET && head.uri.path().ends_with("/leases") {
            return std::future::pending().await;
        }
        let body = body.collect().await.unwrap().to_bytes();
        self.asked.lock().unwrap().push(Asked { method: head.method.clone(), at: Instant::now(), by });
        self.news.notify_one();
        match (self.fate)(&self.store, &head.method) {
            Fate::Served => self.store.serve(&head.method, &body),
            Fate::Muted => {
                self.store.serve(&head.method, &body);
                refusal(StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: request timed out")
            }
            Fate::Refused(code, message) => refusal(code, message),
            Fate::Never => std::future::pending().await,
        }
    }

    fn asked(&self) -> String {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|asked| asked.method.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn times(&self, method: &Method) -> Vec<Instant> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.method == *method).map(|asked| asked.at).collect()
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.news.notified().await;
        }
    }
}

fn next(mut lease: Lease) -> Lease {
    let version = lease.metadata.resource_version.map_or(0, |version| version.parse::<u64>().unwrap());
    lease.metadata.resource_version = Some((version + 1).to_string());
    lease
}

fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    let reason = match code {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code.as_u16()});
    Response::builder().status(code).body(Body::from(status.to_string().into_bytes())).unwrap()
}

pub(super) fn held_by(holder: &str) -> Lease {
    let wanted =
        lease::HolderEntry { name: "l", holder, duration: SLOW.duration, transitions: 0, configuration: "n/c" };
    next(lease::claim(None, &wanted, None))
}

/// A replica that has not begun, and what the rest of its process sees of it.
pub(super) struct Replica {
    pub(super) runner: Runner,
    role: watch::Receiver<Role>,
    release: CancellationToken,
    health: Health,
}

pub(super) fn replica(timing: Timing) -> Replica {
    let (sender, role) = watch::channel(Role::Unknown);
    let (health, release) = (Health::default(), CancellationToken::new());
    let runner = Runner {
        group: LeaseGroup::HyperNode.into(),
        name: "l".into(),
        namespace: "n".into(),
        configuration: "n/c".into(),
        timing,
        candidate: LeaseCandidate::new("me".into(), timing),
        role: sender,
        gate: Gate::none(),
        held: Gate::closed(&Switch::new(ReadOnly::No)),
        courtesy: None,
        pulse: Arc::new(Pulse { until: AtomicU64::new(0), grace: S }),
        history: History::default(),
        release: release.clone(),
        stored: None,
        may_be_ours: false,
        check: health.check(LeaseGroup::HyperNode.check()).into(),
        unwatched: None,
        metrics: Metrics::default(),
        restores: Restores::default(),
    };
    Replica { runner, role, release, health }
}

async fn run(runner: Runner, server: &Arc<Server>) {
    let leases = server.leases(&runner);
    runner.run(leases).await;
}

#[tokio::test]
async fn where_the_namespace_of_the_lease_is_missing_that_is_said_and_asked_for_at_leisure() {
    let server = Server::new(|_, method| match *method {
        Method::POST => Fate::Refused(StatusCode::NOT_FOUND, "namespaces \"n\" not found"),
        _ => Fate::Served,
    });
    let Replica { runner, health, .. } = replica(BUSY);
    tokio::select! {
        () = run(runner, &server) => panic!("it ended"),
        () = server.until(|server| server.times(&Method::POST).len() == 4) => {}
    }
    let times = server.times(&Method::POST);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= BUSY.retry_period, "{times:?}");
    }
    let (ready, said) = health.report();
    assert!(!ready);
    assert_eq!(said, "[ ] lease-hypernode starting: namespaces \"n\" not found\n");
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_told_by_the_check() {
    let timing = Timing { renew_deadline: S / 20, ..BUSY };
    let server = Server::new(|_, _| Fate::Never);
    let Replica { runner, health, .. } = replica(timing);
    tokio::select! {
        () = run(runner, &server) => panic!("it ended"),
        () = server.until(|server| server.times(&Method::GET).len() == 2) => {}
    }
    let said = "[ ] lease-hypernode starting: the API server did not answer in time\n";
    assert_eq!(health.report(), (false, said.to_owned()));
}

#[test]
fn that_there_is_no_lease_is_no_proof_that_there_can_be_one() {
    let Replica { mut runner, health, .. } = replica(SLOW);
    runner.watched(LeaseEvent::Lease(Box::new(Ok(Some(held_by("other"))))));
    assert_eq!(health.report().1, "[+] lease-hypernode ok\n");
    runner.check.fail(&late());
    runner.watched(LeaseEvent::Lease(Box::new(Ok(None))));
    assert!(health.report().1.starts_with("[!] lease-hypernode failing: "), "{:?}", health.report());
    runner.watched(LeaseEvent::Lease(Box::new(Ok(Some(held_by("other"))))));
    assert_eq!(health.report().1, "[+] lease-hypernode ok\n");
}

/// It is opened again with every retry period, and the lease is read and renewed in between.
#[test]
fn a_watch_that_is_refused_while_the_lease_can_be_read_is_one_line_per_change() {
    let Replica { mut runner, health, .. } = replica(SLOW);
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let refused =
        |what: &str| Refusal { reason: RefusalReason::Forbidden, message: what.to_owned(), retry_after: None };
    for (what, said) in [("no watch", 1), ("no list", 2), ("no watch", 3)] {
        for _ in 0..30 {
            runner.watched(LeaseEvent::Lease(Box::new(Err(refused(what)))));
            runner.observed(SeenBy::Read, Some(held_by("other")));
        }
        assert_eq!(lines.count("cannot be watched"), said, "{}", lines.text());
    }
    assert_eq!((lines.count(""), health.report().1.as_str()), (3, "[+] lease-hypernode ok\n"));
}

#[tokio::test]
async fn a_lease_with_a_foreign_annotation_is_released_too() {
    let server = Server::new(|_, _| Fate::Served);
    let Replica { runner, mut role, release, .. } = replica(SLOW);
    let stops = async {
        role.wait_for(|role| *role == Role::Leader).await.unwrap();
        server.store.annotate();
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    assert_eq!(server.store.says(), (String::new(), Some("me".into()), vec!["note".into()]));
    assert_eq!(server.asked(), "GET POST PUT GET PUT");
}

#[tokio::test]
async fn a_holder_that_doubts_gives_its_lease_back() {
    let Replica { runner, release, .. } = replica(BUSY);
    // Its renewal meets a version that it does not know, at the moment when it is asked to stop.
    let stop = release.clone();
    let server = Server::new(move |store, method| {
        if *method == Method::PUT && !stop.is_cancelled() {
            store.annotate();
            stop.cancel();
        }
        Fate::Served
    });
    run(runner, &server).await;
    assert_eq!(server.store.says(), (String::new(), Some("me".into()), vec!["note".into()]));
}

#[tokio::test]
async fn an_unconfirmed_claim_is_read_back_and_released() {
    let server = Server::new(|_, method| if *method == Method::POST { Fate::Muted } else { Fate::Served });
    let Replica { runner, release, .. } = replica(SLOW);
    let stops = async {
        server.until(|server| !server.times(&Method::POST).is_empty()).await;
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    assert_eq!(server.asked(), "GET POST GET PUT");
    assert_eq!(server.store.says(), (String::new(), Some("me".into()), Vec::new()));
    // The same when it was found already, and is about to be confirmed.
    let Replica { runner, release, .. } = replica(BUSY);
    let server = Server::new(move |store, method| match *method {
        Method::POST => Fate::Muted,
        _ => {
            if store.0.lock().unwrap().is_some() {
                release.cancel();
            }
            Fate::Served
        }
    });
    run(runner, &server).await;
    assert_eq!(server.asked(), "GET POST GET GET PUT");
    assert_eq!(server.store.says(), (String::new(), Some("me".into()), Vec::new()));
}

#[tokio::test]
async fn a_lease_is_given_back_to_the_api_server_that_answers() {
    // One write is lost, and the next one is stored without an answer.
    let Replica { runner, mut role, release, .. } = replica(BUSY);
    let (stop, tries) = (release.clone(), AtomicU64::new(0));
    let server = Server::new(move |_, method| match *method {
        Method::PUT if stop.is_cancelled() => match tries.fetch_add(1, Ordering::SeqCst) {
            0 => Fate::Refused(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"),
            1 => Fate::Muted,
            _ => Fate::Served,
        },
        _ => Fate::Served,
    });
    let stops = async {
        role.wait_for(|role| *role == Role::Leader).await.unwrap();
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    assert_eq!(server.store.says(), (String::new(), Some("me".into()), Vec::new()));
    let asked = server.asked();
    assert!(asked.ends_with("PUT PUT PUT GET"), "{asked}");
}

#[tokio::test]
async fn what_others_hold_is_not_given_back() {
    // A claim of ours failed, and another one was faster.
    let server = Server::new(|store, method| {
        if *method != Method::POST {
            return Fate::Served;
        }
        store.put(held_by("other"));
        Fate::Refused(StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: request timed out")
    });
    let Replica { runner, release, .. } = replica(SLOW);
    let stops = async {
        server.until(|server| !server.times(&Method::POST).is_empty()).await;
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    assert_eq!((server.store.says().0, server.asked()), ("other".into(), "GET POST GET".into()));
    // A replica that never tried to take it does not read it again.
    let server = Server::new(|_, _| Fate::Served);
    server.store.put(held_by("other"));
    let Replica { runner, mut role, release, .. } = replica(SLOW);
    let stops = async {
        role.wait_for(|role| *role == Role::Follower("other".into())).await.unwrap();
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    assert_eq!((server.store.says().0, server.asked()), ("other".into(), "GET".into()));
}

#[tokio::test]
async fn who_holds_the_lease_asks_for_it_through_the_gate_of_its_time() {
    let Replica { runner, role, release, .. } = replica(BUSY);
    let gate = runner.held.clone();
    let seen = gate.clone();
    let server = Server::new(move |_, method| {
        assert_eq!(seen.check().is_ok(), *method == Method::PUT, "{method}");
        Fate::Served
    });
    let renewed = server.until(|server| server.times(&Method::PUT).len() == 3);
    tokio::join!(run(runner, &server), async {
        renewed.await;
        release.cancel();
    });
    let asked: Vec<_> = server.asked.lock().unwrap().iter().map(|asked| (asked.method.clone(), asked.by)).collect();
    let (others, writes): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(method, _)| *method != Method::PUT);
    assert_eq!(others, [(Method::GET, By::Anybody), (Method::POST, By::Anybody)]);
    assert!(writes.len() > 3 && writes.iter().all(|(_, by)| *by == By::Holder), "{writes:?}");
    assert!(gate.check().is_err(), "what it held is given back");
    drop(role);
}

#[tokio::test]
async fn a_renewal_that_was_held_up_until_its_time_was_over_does_not_leave() {
    let Replica { mut runner, .. } = replica(BUSY);
    let server = Server::new(|_, _| Fate::Served);
    server.store.put(held_by("me"));
    let leases = server.leases(&runner);
    runner.stored = server.store.0.lock().unwrap().clone();
    runner.held.open_until(boot_time());
    let mut silent = futures::stream::pending();
    let lease = lease::renew(runner.stored.as_ref(), &runner.entry(0), "1");
    runner.write(&leases.holds, boot_time(), Some("1".into()), lease, &mut silent).await;
    assert_eq!(server.asked(), "");
}

#[tokio::test]
async fn s27_while_writes_are_switched_off_the_gate_of_heartbeats_is_open_and_closes_with_the_lease() {
    let Replica { mut runner, mut role, release, .. } = replica(SLOW);
    let switch = Switch::new(ReadOnly::Yes);
    runner.group = Group::Binding("east".into());
    runner.gate = Gate::closed(&switch);
    let (gate, held) = (runner.gate.clone(), runner.held.clone());
    let server = Server::new(|_, _| Fate::Served);
    let closed = Err(Closed::NotLeader);
    assert_eq!((gate.check(), held.check()), (closed.clone(), closed.clone()));
    let watched = async {
        role.wait_for(|role| *role == Role::Leader).await.unwrap();
        assert_eq!((gate.check(), held.check()), (Err(Closed::ReadOnly), Ok(())));
        switch.set(ReadOnly::No);
        assert_eq!((gate.check(), held.check()), (Ok(()), Ok(())));
        release.cancel();
    };
    tokio::join!(run(runner, &server), watched);
    assert_eq!((gate.check(), held.check()), (closed.clone(), closed));
}

#[tokio::test]
async fn s11_a_replica_claims_a_free_lease_when_it_no_longer_gives_way_and_not_before() {
    let Replica { mut runner, mut role, release, .. } = replica(SLOW);
    let (courtesy, asked) = watch::channel(3600 * S);
    runner.courtesy = Some(asked);
    let server = Server::new(|_, _| Fate::Served);
    let watched = async {
        role.wait_for(|role| *role == Role::Follower("".into())).await.unwrap();
        assert_eq!(server.asked(), "GET");
        courtesy.send_replace(Duration::ZERO);
        role.wait_for(|role| *role == Role::Leader).await.unwrap();
        assert_eq!(server.asked(), "GET POST");
        release.cancel();
    };
    tokio::join!(run(runner, &server), watched);
}

#[tokio::test]
async fn what_the_log_says_of_a_lease_that_was_not_given_back_names_it() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let Replica { mut runner, mut role, release, .. } = replica(SLOW);
    runner.name = "l-binding-1".into();
    let stop = release.clone();
    let server = Server::new(move |_, method| match *method {
        Method::PUT if stop.is_cancelled() => Fate::Refused(StatusCode::BAD_REQUEST, "no"),
        _ => Fate::Served,
    });
    let stops = async {
        role.wait_for(|role| *role == Role::Leader).await.unwrap();
        release.cancel();
    };
    tokio::join!(run(runner, &server), stops);
    let said = lines.count("the lease could not be released");
    assert_eq!((said, lines.count("lease=l-binding-1")), (1, 1), "{}", lines.text());
}
