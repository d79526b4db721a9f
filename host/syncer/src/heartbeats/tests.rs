//! The heartbeats against a staged API server, in time that passes only while all tasks wait.

mod failures;
mod spread;
mod takeover;

use std::sync::atomic::{AtomicI64, Ordering};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_sync::naming::BindingName;
use tower::Layer;

use topoloom_cluster::RefusalReason;
use topoloom_cluster::gate::{Door, boot_time};

use super::staged::{Api, Fault, Seen, USUAL};
use super::*;

const S: Duration = Duration::from_secs(1);

/// Heartbeats that run.
struct Scene {
    api: Api,
    hearts: Heartbeats,
    tasks: JoinSet<()>,
    stop: CancellationToken,
    news: Arc<Mutex<Vec<BeatNews>>>,
    /// By how many seconds our time of day is off.
    off: Arc<AtomicI64>,
    registry: Registry,
    begun: Instant,
}

fn us() -> Identity {
    Identity::new("cluster".into(), BindingName::parse("east").unwrap(), "binding-uid".into()).unwrap()
}

fn begin() -> Timestamp {
    "2026-11-25T10:00:00Z".parse().unwrap()
}

impl Scene {
    fn new() -> Self {
        Self::with(&Api::new(), |api| api.client())
    }

    /// Another replica at the same server.
    fn with(api: &Api, client: impl FnOnce(&Api) -> kube::Client) -> Self {
        let begun = Instant::now();
        let off = Arc::new(AtomicI64::new(0));
        let ours = Arc::clone(&off);
        let clock = Clock::new(
            move || 1_000_000 * S + begun.elapsed(),
            move || {
                let off = SignedDuration::from_secs(ours.load(Ordering::SeqCst));
                begin() + SignedDuration::try_from(begun.elapsed()).unwrap() + off
            },
        );
        let news = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&news);
        let notify: Notify = Box::new(move |news| reported.lock().unwrap().push(news));
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let (hearts, renewer) = Heartbeats::new(client(api), us(), Options::default(), &metrics, clock, notify);
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(renewer.run(stop.clone()));
        Self { api: api.clone(), hearts, tasks, stop, news, off, registry, begun }
    }

    fn start(&self, node: &str, uid: &str) {
        self.hearts.start(&node.into(), &uid.into()).unwrap();
    }

    async fn stop(&self, node: &str, memory: Memory) {
        self.hearts.stop(&node.into(), memory).await;
    }

    /// This replica ends, and leaves the leases.
    async fn end(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    fn news(&self) -> Vec<BeatNews> {
        std::mem::take(&mut self.news.lock().unwrap())
    }

    #[track_caller]
    fn no_news(&self) {
        let news = self.news();
        assert!(news.is_empty(), "{news:?}");
    }

    /// The value of one series.
    fn metric(&self, series: &str) -> f64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// Waits, in the time of the test, until this holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < 300 * S, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Time passes.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The requests in short: `PUT n 200`.
fn short(seen: &[Seen]) -> Vec<String> {
    let code = |seen: &Seen| seen.code.map_or("-".to_owned(), |code| code.to_string());
    seen.iter().map(|seen| format!("{} {} {}", seen.method, seen.node, code(seen))).collect()
}

fn seconds(seen: &[Seen]) -> Vec<u64> {
    seen.iter().map(|seen| seen.at.as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_made_at_once_and_again_for_the_same_node_is_nothing() {
    let scene = Scene::new();
    scene.start("vnode-east-w1", "uid-1");
    scene.start("vnode-east-w1", "uid-1");
    until("it is made", || scene.api.leases() == 1).await;
    scene.start("vnode-east-w1", "uid-1");
    pass(Duration::from_millis(20)).await;
    assert_eq!(short(&scene.api.seen())[..1], ["POST vnode-east-w1 201"]);
    assert!(scene.api.seen().iter().skip(1).all(|seen| seen.method == Method::PUT && seen.code == Some(200)));
    let lease = scene.api.lease("vnode-east-w1").unwrap();
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(lease["metadata"]["labels"]["topoloom.dev/binding-uid"], "binding-uid");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert!(scene.hearts.renewed("vnode-east-w1").is_some_and(|at| at >= 1_000_000 * S));
    assert_eq!(scene.hearts.renewed("another"), None);
    scene.no_news();
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_usable_name_or_uid_gets_no_lease() {
    let scene = Scene::new();
    for name in ["", "A", "a/b", "../nodes", "a b", &"a".repeat(254)] {
        let error = scene.hearts.start(&name.into(), &"uid".into()).unwrap_err();
        assert!(error.to_string().contains("must be a DNS-1123 subdomain"), "{error}");
    }
    let error = scene.hearts.start(&"n".into(), &"".into()).unwrap_err();
    assert_eq!(error, StartError::Uid("n".into()));
    let errors = scene.hearts.adopt(&[], [("A".into(), "uid".into()), ("n".into(), "uid".into())]);
    assert_eq!(errors, [StartError::Name("A".into())]);
    until("the good one is made", || scene.api.leases() == 1).await;
    assert_eq!(scene.api.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_lease_is_left_as_it_is_and_goes_on_with_the_version_that_is_known() {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    pass(11 * S).await;
    scene.stop("n", Memory::Kept).await;
    scene.stop("n", Memory::Kept).await;
    scene.stop("never-started", Memory::Kept).await;
    let stored = scene.api.lease("n");
    scene.api.take_seen();
    pass(60 * S).await;
    assert_eq!((short(&scene.api.take_seen()), scene.api.lease("n")), (vec![], stored));
    assert_eq!(scene.metric("virtual_node_leases{"), 0.0);
    scene.start("n", "uid");
    pass(S / 100).await;
    assert_eq!(short(&scene.api.take_seen()), ["PUT n 200"]);
    scene.stop("n", Memory::Dropped).await;
    assert_eq!(scene.hearts.renewed("n"), None);
    scene.start("n", "uid");
    pass(S / 10).await;
    assert_eq!(short(&scene.api.take_seen())[..3], ["POST n 409", "GET n 200", "PUT n 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_request_under_way_and_no_longer_than_five_seconds() {
    for (fault, least, most) in [(Fault::Slow(3 * S), 2 * S, 3 * S), (Fault::Hangs, 3 * S, 5 * S)] {
        let scene = Scene::new();
        scene.api.script(move |_, _, _| fault);
        scene.start("n", "uid");
        pass(S / 2).await;
        let begun = Instant::now();
        scene.stop("n", Memory::Dropped).await;
        assert!((least..=most).contains(&begun.elapsed()), "{fault:?}: {:?}", begun.elapsed());
        scene.api.take_seen();
        pass(60 * S).await;
        assert_eq!(short(&scene.api.take_seen()), Vec::<String>::new(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_started_while_its_stop_waits_is_renewed() {
    for memory in [Memory::Kept, Memory::Dropped] {
        let scene = Scene::new();
        scene.api.script(|_, _, at| if at < S { Fault::Slow(2 * S) } else { USUAL });
        scene.start("n", "uid");
        pass(S / 10).await;
        tokio::join!(scene.stop("n", memory), async { scene.start("n", "uid") });
        assert!((S..3 * S).contains(&scene.begun.elapsed()), "the stop waited, and ended");
        scene.api.take_seen();
        pass(60 * S).await;
        let seen = scene.api.take_seen();
        assert!((5..=7).contains(&seen.len()) && seen.iter().all(|seen| seen.code == Some(200)), "{:?}", short(&seen));
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_client_changes_costs_one_read_and_stays() {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    pass(S / 5).await;
    let mut lease = scene.api.lease("n").unwrap();
    lease["metadata"]["labels"]["team"] = json!("a");
    scene.api.put("n", lease["metadata"]["labels"].clone(), Some(("n", "uid")), lease["spec"].clone());
    scene.api.take_seen();
    pass(25 * S).await;
    let seen = scene.api.take_seen();
    assert_eq!(short(&seen)[..4], ["PUT n 409", "GET n 200", "PUT n 200", "PUT n 200"]);
    assert!(seen[2].at - seen[0].at < S / 10, "at once: {:?}", seconds(&seen));
    assert_eq!(scene.api.lease("n").unwrap()["metadata"]["labels"]["team"], "a");
    // That is no failure.
    scene.no_news();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_is_made_at_once_with_its_owner() {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    pass(S / 5).await;
    scene.api.delete("n");
    scene.api.take_seen();
    until("it is made again", || scene.api.leases() == 1).await;
    let seen = scene.api.take_seen();
    assert_eq!(short(&seen), ["PUT n 409", "GET n 404", "POST n 201"]);
    assert!(seen[2].at - seen[0].at < S / 10);
}

#[tokio::test(start_paused = true)]
async fn s27_heartbeats_pass_the_switch_of_writes_and_not_the_gate_of_the_lease() {
    let (gate, writes) = (Heartbeats::gate(), Switch::new(ReadOnly::Yes));
    assert!(Gate::open(&writes).check().is_err(), "all other writes are off");
    let door = gate.clone();
    let scene = Scene::with(&Api::new(), |api| kube::Client::new(Door(door).layer(api.service()), "default"));
    scene.start("n", "uid");
    pass(30 * S).await;
    assert_eq!(short(&scene.api.seen()), Vec::<String>::new());
    assert!(scene.metric("virtual_node_lease_renewals_total{binding=\"east\",outcome=\"closed\"}") >= 3.0);
    // That is for the holder of the gate to report.
    scene.no_news();
    // The boot-time clock of this machine, which the gate measures with.
    gate.open_until(boot_time() + 3600 * S);
    until("it is renewed", || scene.api.leases() == 1).await;
    gate.close();
    scene.api.take_seen();
    pass(30 * S).await;
    assert_eq!(short(&scene.api.seen()), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_stopped_lets_requests_end_and_leaves_the_leases() {
    let mut scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    scene.api.script(|_, _, _| Fault::Slow(2 * S));
    scene.api.take_seen();
    until("a request is under way", || !scene.api.seen().is_empty()).await;
    scene.stop.cancel();
    assert!(scene.tasks.join_next().await.unwrap().is_ok());
    assert_eq!(short(&scene.api.take_seen()), ["PUT n 200"]);
    // Nothing waits for a task that is gone.
    let begun = Instant::now();
    scene.start("m", "uid");
    scene.stop("n", Memory::Dropped).await;
    scene.stop("m", Memory::Dropped).await;
    assert_eq!((begun.elapsed(), scene.api.leases()), (Duration::ZERO, 1));
    assert!(scene.begun.elapsed() < 20 * S);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_when_the_task_is_cut_off() {
    let mut scene = Scene::new();
    scene.api.script(|_, _, _| Fault::Hangs);
    scene.start("n", "uid");
    pass(S / 10).await;
    let hearts = scene.hearts.clone();
    let begun = Instant::now();
    let cut = async {
        pass(S).await;
        scene.tasks.shutdown().await;
    };
    tokio::join!(async { hearts.stop(&"n".into(), Memory::Kept).await }, cut);
    assert!(begun.elapsed() < 2 * S, "{:?}", begun.elapsed());
}
