//! A source whose task crashes: how long it waits, that it is restarted, and that no other source is affected. Time is
//! paused except where a test waits for it.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;
use topoloom_api::DiscoverySource;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType};
use topoloom_api::discovery_source::{NodeCoverage, OnRemoval, State};

use super::ends::{CALM, FIRST_ANEW, LAST_ANEW};
use super::*;
use crate::cluster::events::Events;
use crate::cluster::gate::{ReadOnly, Switch};
use crate::cluster::nodes::Nodes;
use crate::config::{self, Mode};
use crate::delivery::Supply;
use crate::discovery::report::Reports;
use crate::discovery::supervisor::TierRegistry;
use crate::endpoints::Outside;
use crate::manager::metrics;
use crate::plugin::trust::TrustOptions;
use crate::plugin::{Compiler, Runtime};
use crate::topology::apply::Writer;
use crate::topology::observe::HyperNodes;

/// Longer than anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(3600);

/// An Event about a source.
struct SentEvent {
    about: String,
    reason: String,
    note: String,
    at: Instant,
}

/// A running set of sources whose plugins do not exist, so that each sends an Event when it begins.
struct Scene {
    loads: UnboundedSender<Load>,
    events: UnboundedReceiver<SentEvent>,
    /// Events about crashes on the way.
    crashes: Vec<SentEvent>,
    registry: Registry,
    /// How many times the task of the source `breaks` still breaks, each time while it sends an Event.
    left: Arc<AtomicU32>,
    /// Whether the API server leaves Events about crashes without an answer.
    silent: Arc<AtomicBool>,
    reports: Arc<Reports>,
    stop: CancellationToken,
    running: JoinSet<()>,
    _rival: watch::Sender<rival::Rival>,
}

impl Scene {
    /// Nothing runs yet, and the first time is over in which a list of Nodes waits for wishes.
    fn new(breaks: u32) -> Self {
        let scene = Self::after(breaks, Vec::new());
        scene.configure(&[]);
        scene
    }

    /// No configuration was read yet, and the host left these objects before its restart.
    fn after(breaks: u32, earlier: Vec<DiscoverySource>) -> Self {
        let (sender, events) = unbounded_channel();
        let (left, silent) = (Arc::new(AtomicU32::new(breaks)), Arc::new(AtomicBool::new(false)));
        let stop = CancellationToken::new();
        let (rivals, rival) = watch::channel(None);
        let mut registry = Registry::default();
        let shared = Arc::new(shared(&server(sender, &left, &silent), &mut registry, rival, &stop));
        let (loads, received) = unbounded_channel();
        let (verbs, received_verbs) = unbounded_channel();
        earlier.into_iter().for_each(|object| verbs.send(VerbEvent::Object(Box::new(object))).unwrap());
        verbs.send(VerbEvent::Complete).unwrap();
        let reports = Arc::clone(&shared.reports);
        reports.register(&mut registry);
        let sources = Sources::new(Arc::clone(&shared), stop.clone());
        let mut running = JoinSet::new();
        running.spawn(sources.run(Standby::new(shared), received, received_verbs));
        let crashes = Vec::new();
        Self { loads, events, crashes, registry, left, silent, reports, stop, running, _rival: rivals }
    }

    /// A document with these sources, each with its plugin.
    fn configure(&self, sources: &[(&str, &str)]) {
        let entry = |(source, plugin): &(&str, &str)| {
            format!("- {{source: {source}, enabled: true, plugin: {{builtin: {plugin}}}}}\n")
        };
        let list = if sources.is_empty() { " []".to_owned() } else { sources.iter().map(entry).collect() };
        let document = config::parse(&format!("networkTopologyDiscovery:\n{list}")).unwrap();
        self.loads.send(Load::Valid(document)).unwrap();
    }

    /// The next Event about this source, and how many there were about others meanwhile.
    async fn next(&mut self, source: &str) -> (SentEvent, usize) {
        let mut others = 0;
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            let event =
                event.unwrap_or_else(|_| panic!("{source} is silent, and others spoke {others} times")).unwrap();
            if event.reason == Reason::Crashed.as_str() {
                self.crashes.push(event);
            } else if event.about == source {
                return (event, others);
            } else {
                others += 1;
            }
        }
    }

    /// All Events of this time, but for crashes.
    async fn told_within(&mut self, time: Duration) -> Vec<String> {
        tokio::time::sleep(time).await;
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let (crashes, events): (Vec<_>, Vec<_>) = events.partition(|event| event.reason == Reason::Crashed.as_str());
        self.crashes.extend(crashes);
        let events = events.into_iter();
        let mut events: Vec<_> = events.map(|event| format!("{}: {}", event.about, event.reason)).collect();
        events.sort();
        events
    }

    /// How often each source crashed, as a scraper sees it.
    fn counted(&self) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut series: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("source_crashes_total")).collect();
        series.sort_unstable();
        series.into_iter().map(str::to_owned).collect()
    }

    /// Every series of this source.
    fn series(&self, source: &str) -> Vec<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let label = format!("source=\"{source}\"");
        text.lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
    }

    async fn end(mut self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.running.join_next()).await.expect("it ends").unwrap().unwrap();
    }
}

/// An API server that stores every Event. The task of the source `breaks` breaks while it sends one, as often as is left; who
/// reports that it broke does not.
fn server(sender: UnboundedSender<SentEvent>, left: &Arc<AtomicU32>, silent: &Arc<AtomicBool>) -> kube::Client {
    let (left, silent) = (Arc::clone(left), Arc::clone(silent));
    let serve = move |request: Request<Body>| {
        let (sender, left, silent) = (sender.clone(), Arc::clone(&left), Arc::clone(&silent));
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let event: Value = serde_json::from_slice(&body).unwrap();
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let about = word(&event["regarding"]["name"]);
            let (reason, note) = (word(&event["reason"]), word(&event["note"]));
            let is_crash = reason == Reason::Crashed.as_str();
            let is_meant = about == "breaks" && !is_crash;
            sender.send(SentEvent { about, reason, note, at: Instant::now() }).unwrap();
            if is_crash && silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            // It is polled by the task of the source, which waits for the answer.
            let fewer = |left: u32| left.checked_sub(1).filter(|_| is_meant);
            assert!(left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_err(), "as the test wants it");
            Ok::<_, Infallible>(Response::new(Body::from(body.to_vec())))
        }
    };
    kube::Client::new(tower::service_fn(serve), "default")
}

fn shared(
    client: &kube::Client,
    registry: &mut Registry,
    rival: watch::Receiver<rival::Rival>,
    stop: &CancellationToken,
) -> SourceContext {
    crate::plugin::builtin::embed(&topoloom_builtins::ALL);
    let counted = metrics::Discovery::register(registry);
    let hyper_nodes = Arc::new(HyperNodes::default());
    SourceContext {
        runtime: Runtime::start(Compiler::Child { exe: "/nowhere".into() }).unwrap(),
        supply: Supply::offline(),
        trust: TrustOptions::default(),
        outside: Outside::offline(),
        nodes: Arc::new(Nodes::default()),
        hyper_nodes: Arc::clone(&hyper_nodes),
        writer: Writer {
            client: client.clone(),
            hyper_nodes,
            concurrency: 1,
            metrics: counted.writes,
            stop: stop.clone(),
        },
        reports: Arc::new(Reports::default()),
        events: Events::new(client.clone()),
        metrics: counted.rounds,
        tiers: TierRegistry::default(),
        mode: Mode::Apply,
        switch: Switch::new(ReadOnly::No),
        rival,
        prepared: watch::Sender::new(0),
        stop: stop.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_whose_task_breaks_begins_anew_after_longer_and_longer_pauses_and_no_other_notices() {
    let mut scene = Scene::new(8);
    scene.configure(&[("calm", "x"), ("breaks", "x")]);
    let (first, mut others) = scene.next("breaks").await;
    let (mut last, mut pauses) = (first.at, Vec::new());
    for _ in 0..8 {
        let (next, more) = scene.next("breaks").await;
        pauses.push((next.at - last).as_secs());
        (last, others) = (next.at, others + more);
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60], "twice as long each time, up to the longest");
    assert_eq!(others, 1, "the other one began once");
    // It does not break any more. Both get what is sent to all from here on.
    assert_eq!(scene.told_within(2 * LAST_ANEW).await, [""; 0]);
    scene.loads.send(Load::NoConfigMap).unwrap();
    assert_eq!(scene.told_within(FIRST_ANEW).await, ["breaks: ConfigMissing", "calm: ConfigMissing"]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_an_event_and_a_number_and_says_nothing_of_what_the_panic_said() {
    let mut scene = Scene::new(2);
    scene.configure(&[("calm", "x"), ("breaks", "x")]);
    for _ in 0..3 {
        scene.next("breaks").await;
    }
    assert_eq!(scene.counted(), [r#"{source="breaks"} 2"#, r#"{source="calm"} 0"#], "from nothing, so that it grows");
    let events: Vec<_> = scene.crashes.iter().map(|event| event.about.as_str()).collect();
    assert_eq!(events, ["breaks", "breaks"]);
    for event in &scene.crashes {
        assert!(event.note.contains("defect of topoloom") && event.note.contains("the log"), "{}", event.note);
        assert!(!event.note.contains("as the test wants it"), "{}", event.note);
    }
    // It is gone, and its number with it.
    scene.configure(&[("calm", "x")]);
    scene.told_within(LAST_ANEW).await;
    assert_eq!(scene.counted(), [r#"{source="calm"} 0"#]);
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_taken_away_while_it_rests_from_a_crash_leaves_no_number() {
    let mut scene = Scene::new(1);
    scene.configure(&[("breaks", "x"), ("calm", "x")]);
    scene.next("breaks").await;
    // It has begun, counts its crash, and says how it is.
    scene.told_within(FIRST_ANEW / 2).await;
    assert!(!scene.series("breaks").is_empty());
    assert_ne!(scene.reports.get(&"breaks".parse().unwrap()).expect("it was said").state, Some(State::Disabled));
    scene.configure(&[("calm", "x")]);
    scene.told_within(LAST_ANEW).await;
    assert_eq!(scene.counted(), [r#"{source="calm"} 0"#]);
    let state = r#"source_state{source="breaks",state="Disabled"} 1"#;
    assert_eq!(scene.series("breaks"), [state], "nothing but that it is off");
    assert!(!scene.series("calm").is_empty());
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_delays_no_beginning_for_long() {
    let mut scene = Scene::new(1);
    scene.silent.store(true, Ordering::SeqCst);
    scene.configure(&[("breaks", "x")]);
    let (broke, _) = scene.next("breaks").await;
    let (anew, _) = scene.next("breaks").await;
    assert_eq!((anew.at - broke.at).as_secs(), 2, "as long as an Event may take, where its pause is shorter");
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_ran_for_long_begins_with_the_first_pause_again() {
    let mut scene = Scene::new(3);
    scene.configure(&[("breaks", "x")]);
    for _ in 0..4 {
        scene.next("breaks").await;
    }
    for (calm, pause) in [(CALM / 2, 8), (CALM + LAST_ANEW, 1)] {
        assert_eq!(scene.told_within(calm).await, [""; 0]);
        scene.left.store(1, Ordering::SeqCst);
        scene.loads.send(Load::NoConfigMap).unwrap();
        let (broke, _) = scene.next("breaks").await;
        let (anew, _) = scene.next("breaks").await;
        assert_eq!((anew.at - broke.at).as_secs(), pause, "after {calm:?} without breaking");
    }
    scene.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_said_about_a_source_while_it_waits_to_begin_anew_counts() {
    let mut scene = Scene::new(1);
    scene.configure(&[("breaks", "x")]);
    let (broke, _) = scene.next("breaks").await;
    // Half of its pause has passed: it is edited, and waits for the rest.
    tokio::time::sleep(FIRST_ANEW / 2).await;
    scene.configure(&[("breaks", "another")]);
    let (anew, _) = scene.next("breaks").await;
    assert_eq!((anew.at - broke.at).as_secs(), FIRST_ANEW.as_secs());
    assert!(anew.note.contains("\"another\""), "{}", anew.note);

    // It breaks once more and is removed while it waits.
    scene.left.store(1, Ordering::SeqCst);
    scene.loads.send(Load::NoConfigMap).unwrap();
    scene.next("breaks").await;
    tokio::time::sleep(FIRST_ANEW / 2).await;
    scene.configure(&[]);
    assert_eq!(scene.told_within(2 * LAST_ANEW).await, [""; 0]);
    // Back again, it waits for nothing.
    let back = Instant::now();
    scene.configure(&[("breaks", "x")]);
    let (begun, _) = scene.next("breaks").await;
    assert_eq!((begun.at - back).as_secs(), 0);
    scene.end().await;
}

/// The status of a source that ran well before the host's restart.
fn ran_well(source: &str) -> DiscoverySource {
    let applied = Condition::new(ConditionType::Applied, ConditionStatus::True, Reason::Ok, "all is written");
    let mut object = DiscoverySource::new(source);
    object.status = DiscoverySourceStatus {
        source: source.into(),
        state: Some(State::Serving),
        groups: Some(3),
        nodes: Some(NodeCoverage { covered: 5, total: 6 }),
        config_hash: Some("of then".into()),
        on_removal: Some(OnRemoval::Delete),
        conditions: vec![applied],
        ..DiscoverySourceStatus::default()
    };
    object
}

/// Its conditions, each in three words.
fn said(status: &DiscoverySourceStatus) -> Vec<String> {
    let words = |said: &Condition| format!("{} {} {}", said.type_, said.status, said.reason);
    status.conditions.iter().map(words).collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_with_a_bad_document_or_entry_a_source_has_failed_and_counts_nothing() {
    let entry = "networkTopologyDiscovery:\n- {source: calm, enabled: true, mode: nonsense}\n";
    for (load, reason) in [
        (Load::NoConfigMap, "ConfigMissing"),
        (Load::NoKey, "ConfigMissing"),
        (Load::Valid(config::parse(entry).unwrap()), "InvalidConfig"),
    ] {
        let scene = Scene::after(0, vec![ran_well("calm")]);
        scene.loads.send(load).unwrap();
        tokio::time::sleep(FIRST_ANEW).await;
        let status = scene.reports.get(&"calm".parse().unwrap()).expect("it is said");
        assert_eq!((status.state, status.groups, status.nodes), (Some(State::Failed), None, None), "{status:#?}");
        assert_eq!(said(&status), [format!("Configured False {reason}"), format!("Ready False {reason}")]);
        // What it needs to continue later stays.
        assert_eq!((status.config_hash.as_deref(), status.on_removal), (Some("of then"), Some(OnRemoval::Delete)));
        scene.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_host_has_stopped_every_source_that_is_not_off_says_that_no_host_runs() {
    let mut off = ran_well("off");
    off.status.state = Some(State::Disabled);
    let mut kept = ran_well("kept");
    kept.status.on_removal = Some(OnRemoval::Keep);
    let scene = Scene::after(0, vec![kept, off]);
    scene.configure(&[("calm", "x")]);
    tokio::time::sleep(FIRST_ANEW).await;
    let reports = Arc::clone(&scene.reports);
    scene.end().await;
    let calm = reports.get(&"calm".parse().unwrap()).expect("it ran");
    assert_eq!(calm.state, Some(State::Stopped));
    assert!(calm.message.starts_with("no host runs") && said(&calm).contains(&"Ready Unknown HostStopped".to_owned()));
    // What is gone from the configuration is off, and stays so.
    let gone = reports.get(&"kept".parse().unwrap()).expect("it is reported");
    assert_eq!((gone.state, said(&gone)), (Some(State::Disabled), vec!["Ready False Disabled".to_owned()]));
    assert!(reports.get(&"off".parse().unwrap()).is_none(), "nothing is said of it");
}
