//! Real clients and real tasks with scripted physical API servers, one per host name; time is paused.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::channel::mpsc;
use http::{Request, Response};
use k8s_openapi::api::core::v1::Secret;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use topoloom_cluster::client::ConnectError;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::Uid;
use topoloom_sync::liveness::{ContactTiming, Doubt, Reach};

use super::*;
use crate::kubeconfig::tests::{access, secret, secret_with_certificate};
use crate::kubeconfig::{Access, Allowed, Insecure, Loopback};

const S: Duration = Duration::from_secs(1);
const STRICT: Allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Refused };

/// How a server answers one of its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Well,
    Code(u16),
    /// This code with a text that is no Status.
    Text(u16, &'static str),
    Silence,
}

/// One API server.
#[derive(Debug, Clone)]
struct Server {
    uid: &'static str,
    revision: u64,
    readyz: Answer,
    version: Answer,
    rest: Answer,
}

const WELL: Server =
    Server { uid: "uid-a", revision: 100, readyz: Answer::Well, version: Answer::Well, rest: Answer::Well };

/// All of them, by host, and what was asked of each.
#[derive(Clone)]
struct World {
    servers: Arc<Mutex<BTreeMap<String, Server>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn of<const N: usize>(servers: [(&str, Server); N]) -> Self {
        let servers = servers.map(|(host, server)| (host.to_owned(), server)).into();
        Self { servers: Arc::new(Mutex::new(servers)), asked: Arc::default() }
    }

    fn change(&self, host: &str, change: impl FnOnce(&mut Server)) {
        change(self.servers.lock().unwrap().get_mut(host).unwrap());
    }

    fn client(&self, host: &str) -> kube::Client {
        let (world, host) = (self.clone(), host.to_owned());
        let serve = move |request: Request<Body>| {
            let (world, host) = (world.clone(), host.clone());
            async move { Ok::<_, Infallible>(world.serve(&host, request.uri()).await) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    async fn serve(&self, host: &str, uri: &http::Uri) -> Response<Body> {
        self.asked.lock().unwrap().push(format!("{host}{}", uri.path()));
        let server = self.servers.lock().unwrap().get(host).cloned().unwrap();
        let (answer, body) = match uri.path() {
            "/readyz" => (server.readyz, "ok".to_owned()),
            "/version" => (server.version, json!({"major": "1", "gitVersion": "v1.36.3"}).to_string()),
            "/api/v1/namespaces/kube-system" => (server.rest, named(&json!({"uid": server.uid})).to_string()),
            "/api/v1/nodes" => (server.rest, listed(server.revision).to_string()),
            other => panic!("{other}"),
        };
        let (code, body) = match answer {
            Answer::Well => (200, body),
            Answer::Code(403) => (
                403,
                refused(
                    "nodes is forbidden: User \"lent\" cannot get resource \"namespaces\" in API group \"\" at the cluster scope",
                    403,
                )
                .to_string(),
            ),
            Answer::Code(code) => (code, refused("no", code).to_string()),
            Answer::Text(code, text) => (code, text.to_owned()),
            Answer::Silence => std::future::pending().await,
        };
        Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap()
    }

    /// How often this was asked, and forgets it.
    fn count(&self, what: &str) -> usize {
        std::mem::take(&mut *self.asked.lock().unwrap()).iter().filter(|asked| asked.contains(what)).count()
    }
}

fn named(metadata: &Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
}

fn listed(revision: u64) -> Value {
    let metadata = json!({"resourceVersion": revision.to_string()});
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": metadata, "items": []})
}

fn refused(message: &str, code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": message, "reason": "no", "code": code})
}

impl Opens for World {
    fn open(&self, access: &Access) -> Result<Connection, ConnectError> {
        let client = self.client(access.server().host().unwrap());
        let writes = client.clone();
        let writers = move |_: &_| Ok(Writers { nodes: writes.clone(), others: writes.clone() });
        Ok(Connection::of(access, client, writers))
    }
}

/// A clock that stands still with the time of the test.
fn clock() -> Clock {
    let began = Instant::now();
    Clock::new(move || 1000 * S + began.elapsed())
}

fn registry(world: &World) -> Arc<Registry> {
    Arc::new(Registry::new(world.clone(), clock()))
}

fn connect(world: &World, registry: &Registry, host: &str, token: &str, cluster: &str) -> Arc<Physical> {
    let connection = world.open(&access(&format!("https://{host}:6443"), token)).unwrap();
    registry.share(&cluster.into(), connection, ContactTiming::default())
}

/// Lets the tasks do what they do at this moment.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

// What counts as an answer.

#[tokio::test(start_paused = true)]
async fn a_server_counts_as_reachable_if_it_answers_and_lets_us_in() {
    let rows = [
        (Answer::Well, Answer::Silence, None),
        (Answer::Code(429), Answer::Silence, None),
        (Answer::Code(403), Answer::Well, None),
        (Answer::Code(401), Answer::Well, None),
        (Answer::Code(404), Answer::Code(429), None),
        (Answer::Code(401), Answer::Code(401), Some(RefusalReason::Unauthorized)),
        (Answer::Code(403), Answer::Code(403), Some(RefusalReason::Forbidden)),
        (Answer::Code(500), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Code(503), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Silence, Answer::Well, Some(RefusalReason::Unreachable)),
        (Answer::Code(403), Answer::Silence, Some(RefusalReason::Unreachable)),
        (Answer::Code(404), Answer::Code(404), Some(RefusalReason::NotFound)),
        (Answer::Code(403), Answer::Text(404, "404 page not found"), Some(RefusalReason::NotFound)),
        (Answer::Text(200, "ok\n"), Answer::Silence, None),
        // What a proxy says in place of the server.
        (Answer::Code(302), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Text(302, "ok"), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Text(200, "<html>"), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Text(200, ""), Answer::Well, Some(RefusalReason::ServerError)),
        (Answer::Code(401), Answer::Code(302), Some(RefusalReason::ServerError)),
        (Answer::Code(401), Answer::Text(200, "<html>"), Some(RefusalReason::ServerError)),
        (Answer::Code(401), Answer::Text(200, "{}"), Some(RefusalReason::ServerError)),
    ];
    for (readyz, version, reason) in rows {
        let world = World::of([("a", Server { readyz, version, ..WELL })]);
        let (began, found) = (Instant::now(), contact::probe(&world.client("a")).await);
        assert_eq!(found.clone().err().map(|refusal| refusal.reason), reason, "{readyz:?} {version:?}");
        if let Err(refusal) = found {
            assert!(refusal.message.starts_with("the physical cluster: "), "{refusal}");
        }
        if [readyz, version].contains(&Answer::Silence) && reason.is_some() {
            assert_eq!(began.elapsed().as_secs(), 4);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_answers_in_place_of_a_server_is_repeated_with_its_code_and_its_first_words() {
    let said = async |readyz: Answer| {
        let world = World::of([("a", Server { readyz, ..WELL })]);
        contact::probe(&world.client("a")).await.unwrap_err().message
    };
    let page =
        said(Answer::Text(200, "<html>\n<body>We are back at noon, and this is all that there is to say</body>")).await;
    let wanted =
        "the physical cluster: /readyz was answered with 200 OK and \"<html>\\n<body>We are back at noon, and ";
    assert!(page.starts_with(wanted) && !page.contains("to say"), "{page}");
    let login = said(Answer::Text(302, " ")).await;
    assert!(login.contains("with 302 Found and no text; an API server answers with 200 OK and \"ok\""), "{login}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_cluster_is_known_by_the_uid_of_kube_system_and_a_missing_right_is_named() {
    let identity = async |server: Server| contact::identity(&World::of([("a", server)]).client("a")).await;
    assert_eq!(identity(WELL).await, Ok("uid-a".into()));
    for uid in ["", "no/uid"] {
        assert!(identity(Server { uid, ..WELL }).await.unwrap_err().message.contains("has no UID"), "{uid:?}");
    }
    let forbidden = identity(Server { rest: Answer::Code(403), ..WELL }).await.unwrap_err();
    let rule =
        "ClusterRole: {apiGroups: [\"\"], resources: [\"namespaces\"], verbs: [\"get\"]} in the physical cluster";
    assert_eq!(forbidden.rule(), Some(rule));
    let silent = identity(Server { rest: Answer::Silence, ..WELL }).await.unwrap_err();
    assert_eq!(silent.reason, RefusalReason::Unreachable);
}

// Signs of life.

/// Everything is listed now.
fn all_listed(signs: &Signs) {
    let epoch = *signs.epochs().borrow();
    signs.listed(epoch);
}

#[tokio::test(start_paused = true)]
async fn s5_a_gap_that_ended_before_it_was_published_begins_an_epoch_and_needs_new_lists() {
    let slept = Arc::new(Mutex::new(Duration::ZERO));
    let sleeps = Arc::clone(&slept);
    let clock = Clock::new(move || 1000 * S + *sleeps.lock().unwrap());
    // No task keeps them: nothing publishes what time alone changes.
    let signs = Signs::new(ContactTiming::default(), &clock);
    all_listed(&signs);
    let (mut changes, mut epochs) = (signs.changes(), signs.epochs());
    let before = *epochs.borrow_and_update();
    assert_eq!(*changes.borrow_and_update(), Reach::Reachable);
    *slept.lock().unwrap() = 60 * S;
    signs.answered();
    assert_eq!(*changes.borrow_and_update(), Reach::Suspect(Doubt::NotListed), "it was never seen as unreachable");
    assert!(epochs.has_changed().unwrap());
    // The end of a list that was under way.
    signs.listed(before);
    assert_eq!(signs.reach(), Reach::Suspect(Doubt::NotListed));
    all_listed(&signs);
    assert_eq!(signs.reach(), Reach::Reachable);
}

#[tokio::test(start_paused = true)]
async fn s5_silence_is_published_although_nothing_happens() {
    let signs = Signs::new(ContactTiming::default(), &clock());
    let mut changes = signs.changes();
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let kept = signs.clone();
    tasks.spawn(async move { kept.keep().await });
    all_listed(&signs);
    assert_eq!(*changes.borrow_and_update(), Reach::Reachable);
    let mut next = async || {
        changes.changed().await.unwrap();
        // A timer may fire a millisecond late.
        (*changes.borrow_and_update(), began.elapsed().as_millis() / 10)
    };
    assert_eq!(next().await, (Reach::Suspect(Doubt::Silent), 1500));
    let gone = Reach::Unreachable { since: 1040 * S };
    assert_eq!(next().await, (gone, 4000));
    tokio::time::sleep(60 * S).await;
    signs.answered();
    assert_eq!(next().await.0, Reach::Suspect(Doubt::NotListed));
    all_listed(&signs);
    assert_eq!(next().await.0, Reach::Reachable);
    assert_eq!(signs.reach(), Reach::Reachable);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nothing_measures_any_more_is_published_as_unreachable() {
    let signs = Signs::new(ContactTiming::default(), &clock());
    all_listed(&signs);
    let mut tasks = JoinSet::new();
    let kept = signs.clone();
    tasks.spawn(async move { kept.keep().await });
    settle().await;
    assert_eq!(*signs.changes().borrow(), Reach::Reachable);
    tasks.shutdown().await;
    assert!(matches!(*signs.changes().borrow(), Reach::Unreachable { .. }));
}

#[tokio::test(start_paused = true)]
async fn s5_a_machine_that_slept_finds_its_connection_unreachable_although_no_timer_ran() {
    let slept = Arc::new(Mutex::new(Duration::ZERO));
    let (began, sleeps) = (Instant::now(), Arc::clone(&slept));
    let clock = Clock::new(move || 1000 * S + began.elapsed() + *sleeps.lock().unwrap());
    let signs = Signs::new(ContactTiming::default(), &clock);
    let mut tasks = JoinSet::new();
    let kept = signs.clone();
    tasks.spawn(async move { kept.keep().await });
    all_listed(&signs);
    settle().await;
    *slept.lock().unwrap() = 3600 * S;
    assert_eq!(signs.reach(), Reach::Unreachable { since: 1040 * S });
    let mut changes = signs.changes();
    let unreachable = changes.wait_for(|reach| matches!(reach, Reach::Unreachable { .. }));
    timeout(6 * S, unreachable).await.unwrap().unwrap();
}

// Probes and looks.

#[tokio::test(start_paused = true)]
async fn s5_a_server_that_falls_silent_is_suspect_then_unreachable_and_back_when_all_was_listed() {
    let world = World::of([("a", WELL)]);
    let physical = connect(&world, &registry(&world), "a", "t", "uid-a");
    all_listed(physical.signs());
    tokio::time::sleep(600 * S).await;
    assert_eq!(physical.signs().reach(), Reach::Reachable);
    assert_eq!(*physical.trouble().borrow(), None);
    assert!((120..=121).contains(&world.count("/readyz")));
    world.change("a", |server| (server.readyz, server.rest) = (Answer::Silence, Answer::Silence));
    let (mut changes, began) = (physical.signs().changes(), Instant::now());
    changes.wait_for(|reach| *reach == Reach::Suspect(Doubt::Silent)).await.unwrap();
    // The last answer was up to five seconds old.
    assert!((10..=15).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    changes.wait_for(|reach| matches!(reach, Reach::Unreachable { .. })).await.unwrap();
    assert!((35..=40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(physical.trouble().borrow().as_ref().unwrap().reason, RefusalReason::Unreachable);
    world.change("a", |server| *server = WELL);
    timeout(10 * S, changes.wait_for(|reach| *reach == Reach::Suspect(Doubt::NotListed))).await.unwrap().unwrap();
    all_listed(physical.signs());
    assert_eq!(physical.signs().reach(), Reach::Reachable);
}

#[tokio::test(start_paused = true)]
async fn s25_a_version_below_one_that_was_seen_is_found_within_half_a_minute_once() {
    let world = World::of([("a", WELL)]);
    let registry = registry(&world);
    let first = connect(&world, &registry, "a", "t", "uid-a");
    settle().await;
    // Another credential of the same cluster: one history.
    let second = connect(&world, &registry, "a", "other", "uid-a");
    let restores = first.restores().changes();
    world.change("a", |server| server.revision = 300);
    tokio::time::sleep(61 * S).await;
    assert_eq!(*restores.borrow(), 0, "a store that goes on was not set back");
    world.change("a", |server| server.revision = 250);
    tokio::time::sleep(31 * S).await;
    assert_eq!((*restores.borrow(), *second.restores().changes().borrow()), (1, 1));
    tokio::time::sleep(300 * S).await;
    assert_eq!(*restores.borrow(), 1, "one step back is one");
    drop(first);
    world.change("a", |server| server.revision = 240);
    // A third one begins with what the second one knows.
    let third = connect(&world, &registry, "a", "third", "uid-a");
    settle().await;
    assert_eq!(*third.restores().changes().borrow(), 2);
}

#[tokio::test(start_paused = true)]
async fn s6_another_cluster_behind_the_same_address_is_seen() {
    let world = World::of([("a", WELL)]);
    let physical = connect(&world, &registry(&world), "a", "t", "uid-a");
    let mut identity = physical.identity();
    assert_eq!(*identity.borrow_and_update(), "uid-a".into());
    world.change("a", |server| server.uid = "uid-b");
    timeout(31 * S, identity.changed()).await.unwrap().unwrap();
    assert_eq!((&*identity.borrow(), physical.cluster()), (&Uid::from("uid-b"), &Uid::from("uid-a")));
}

#[tokio::test(start_paused = true)]
async fn s19_a_look_that_may_not_see_names_the_missing_right_until_it_sees_again() {
    let world = World::of([("a", WELL)]);
    let physical = connect(&world, &registry(&world), "a", "t", "uid-a");
    tokio::time::sleep(31 * S).await;
    assert_eq!(physical.unseen(), None);
    world.change("a", |server| server.rest = Answer::Code(403));
    tokio::time::sleep(31 * S).await;
    let unseen = physical.unseen().unwrap();
    assert_eq!(unseen.reason, RefusalReason::Forbidden);
    let rule = r#"resources: ["namespaces"], verbs: ["get"]} in the physical cluster"#;
    assert!(unseen.message.starts_with("the physical cluster: ") && unseen.message.ends_with(rule), "{unseen}");
    world.change("a", |server| server.rest = Answer::Well);
    tokio::time::sleep(31 * S).await;
    assert_eq!(physical.unseen(), None);
}

// Sharing.

#[tokio::test(start_paused = true)]
async fn s21_bindings_of_one_cluster_and_one_credential_share_a_connection_that_ends_with_the_last() {
    let world = World::of([("a", WELL), ("b", Server { uid: "uid-b", ..WELL })]);
    let registry = registry(&world);
    let one = connect(&world, &registry, "a", "t", "uid-a");
    let same = connect(&world, &registry, "a", "t", "uid-a");
    assert!(Arc::ptr_eq(&one, &same));
    let others = [connect(&world, &registry, "a", "other", "uid-a"), connect(&world, &registry, "b", "t", "uid-b")];
    assert_eq!(registry.count(), 3);
    let quick = ContactTiming { suspect: 3 * S, ..ContactTiming::default() };
    let connection = world.open(&access("https://a:6443", "t")).unwrap();
    let timed = registry.share(&"uid-a".into(), connection, quick);
    assert!(!Arc::ptr_eq(&one, &timed), "a binding with other timings measures by itself");
    drop((others, timed));
    settle().await;
    assert_eq!(registry.count(), 1);
    drop(one);
    world.count("");
    tokio::time::sleep(60 * S).await;
    assert!(world.count("a/") > 0, "another binding still uses it");
    drop(same);
    settle().await;
    world.count("");
    tokio::time::sleep(600 * S).await;
    assert_eq!((registry.count(), world.count("")), (0, 0));
}

// Credentials.

/// One binding that is followed, and the hands that change what it sees.
struct Scene {
    world: World,
    registry: Arc<Registry>,
    secrets: mpsc::UnboundedSender<Result<Option<Secret>, Refusal>>,
    terms: watch::Sender<Terms>,
    works: Arc<Notify>,
    state: watch::Receiver<CredentialState>,
    tasks: JoinSet<()>,
}

fn terms(expected: Expected) -> Terms {
    Terms { allowed: STRICT, expected, timing: ContactTiming::default() }
}

impl Scene {
    fn new(world: World, expected: Expected) -> Self {
        let registry = registry(&world);
        Self::beside(world, &registry, expected)
    }

    fn beside(world: World, registry: &Arc<Registry>, expected: Expected) -> Self {
        let (secrets, stream) = mpsc::unbounded();
        let (terms, works) = (watch::Sender::new(terms(expected)), Arc::new(Notify::new()));
        let follow = Follow::new(registry, terms.subscribe());
        let (state, working) = (follow.state(), Arc::clone(&works));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { follow.follow(stream, &working).await });
        Self { world, registry: Arc::clone(registry), secrets, terms, works, state, tasks }
    }

    fn sees(&self, host: &str, token: &str) {
        self.sees_secret(&secret(&format!("https://{host}:6443"), token));
    }

    fn sees_secret(&self, data: &Value) {
        let secret = serde_json::from_value(json!({"data": data})).unwrap();
        self.secrets.unbounded_send(Ok(Some(secret))).unwrap();
    }

    fn expect(&self, uid: &str) {
        self.terms.send_modify(|terms| terms.expected = Expected::Cluster(uid.into()));
    }

    /// Waits until the state is as wanted.
    async fn until(&mut self, what: &str, wanted: impl Fn(&CredentialState) -> bool) -> CredentialState {
        let found = timeout(120 * S, self.state.wait_for(|state| wanted(state))).await;
        let found = found.map(|state| state.unwrap().clone());
        found.unwrap_or_else(|_| panic!("{what}: {:?}", self.state.borrow()))
    }

    /// Waits until another connection is in use.
    async fn replaced(&mut self, first: &Arc<Physical>) -> CredentialState {
        self.until("replaced", |state| !Arc::ptr_eq(state.in_use.as_ref().unwrap(), first)).await
    }

    async fn connected(&mut self) -> Arc<Physical> {
        let state = self.until("connected", |state| state.in_use.is_some() && state.problem.is_none()).await;
        state.in_use.unwrap()
    }

    async fn problem(&mut self) -> Problem {
        self.until("a problem", |state| state.problem.is_some()).await.problem.unwrap()
    }
}

fn changed(known: &str, found: &str) -> Problem {
    Problem::ClusterChanged { known: known.into(), found: found.into() }
}

#[tokio::test(start_paused = true)]
async fn s20_a_new_credential_replaces_the_old_one_after_a_probe_and_the_same_uid() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    scene.sees("a", "one");
    let first = scene.connected().await;
    assert_eq!(first.cluster(), &"uid-a".into());
    scene.expect("uid-a");
    // The same kubeconfig again, in a Secret with another label.
    scene.world.count("");
    scene.sees("a", "one");
    settle().await;
    assert_eq!(scene.world.count("kube-system"), 0, "nothing is new");
    assert!(Arc::ptr_eq(&first, &scene.connected().await));
    scene.sees("a", "two");
    let state = scene.replaced(&first).await;
    assert_eq!(state.problem, None);
    drop((first, state));
    settle().await;
    assert_eq!(scene.registry.count(), 1, "the first one has ended");
}

#[tokio::test(start_paused = true)]
async fn s20_a_bad_kubeconfig_keeps_the_connection_and_says_what_is_wrong() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    scene.sees("a", "one");
    let first = scene.connected().await;
    scene.secrets.unbounded_send(Ok(Some(Secret::default()))).unwrap();
    scene.problem().await;
    let state = scene.state.borrow().clone();
    assert!(Arc::ptr_eq(&first, state.in_use.as_ref().unwrap()));
    let sentence = "the Secret has no key \"kubeconfig\"; the connection that was made before is kept";
    assert_eq!(state.sentence().as_deref(), Some(sentence));
    // What the operator does not allow is refused, and used when it is allowed.
    scene.sees("127.0.0.1", "one");
    let refused =
        scene.until("refused", |state| matches!(&state.sentence(), Some(it) if it.contains("loopback"))).await;
    assert!(refused.sentence().unwrap().contains("clusters[\"east\"].cluster.server is \"https://127.0.0.1:6443\""));
    scene.world.servers.lock().unwrap().insert("127.0.0.1".into(), WELL);
    scene.terms.send_modify(|terms| terms.allowed.loopback = Loopback::Allowed);
    assert_eq!(scene.replaced(&first).await.problem, None);
}

#[tokio::test(start_paused = true)]
async fn s20_a_secret_that_is_deleted_or_missing_is_said_so_and_a_connection_is_kept() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    scene.secrets.unbounded_send(Ok(None)).unwrap();
    assert_eq!(scene.problem().await, Problem::Missing);
    assert_eq!(scene.state.borrow().sentence().as_deref(), Some("the Secret does not exist"));
    scene.sees("a", "one");
    let first = scene.connected().await;
    for _ in 0..2 {
        scene.secrets.unbounded_send(Ok(None)).unwrap();
        assert_eq!(scene.problem().await, Problem::Deleted);
        settle().await;
    }
    assert!(Arc::ptr_eq(&first, scene.state.borrow().in_use.as_ref().unwrap()));
    tokio::time::sleep(600 * S).await;
    assert_eq!(*first.trouble().borrow(), None, "it still works");
    scene.sees("a", "one");
    assert!(Arc::ptr_eq(&first, &scene.connected().await));
}

#[tokio::test(start_paused = true)]
async fn s6_a_kubeconfig_of_another_cluster_waits_until_its_uid_is_confirmed() {
    let world = World::of([("a", WELL), ("b", Server { uid: "uid-b", ..WELL })]);
    let mut scene = Scene::new(world, Expected::First);
    scene.sees("a", "one");
    let first = scene.connected().await;
    scene.sees("b", "one");
    assert_eq!(scene.problem().await, changed("uid-a", "uid-b"));
    assert!(scene.state.borrow().sentence().unwrap().contains("topoloom lend confirm"));
    assert!(Arc::ptr_eq(&first, scene.state.borrow().in_use.as_ref().unwrap()));
    scene.expect("uid-a");
    settle().await;
    assert_eq!(scene.problem().await, changed("uid-a", "uid-b"), "the status of the binding confirms nothing");
    scene.expect("uid-b");
    assert_eq!(scene.connected().await.cluster(), &"uid-b".into());
}

#[tokio::test(start_paused = true)]
async fn s6_after_a_restart_the_uid_in_the_status_counts() {
    let world = World::of([("b", Server { uid: "uid-b", ..WELL })]);
    let mut scene = Scene::new(world, Expected::Cluster("uid-a".into()));
    scene.sees("b", "one");
    assert_eq!(scene.problem().await, changed("uid-a", "uid-b"));
    assert!(scene.state.borrow().in_use.is_none());
    // The right cluster is there again, and no operator has to act.
    scene.world.change("b", |server| server.uid = "uid-a");
    assert_eq!(scene.connected().await.cluster(), &"uid-a".into());
}

#[tokio::test(start_paused = true)]
async fn s6_a_cluster_that_changes_behind_its_credential_is_a_problem_until_it_is_confirmed_or_back() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    scene.sees("a", "one");
    let first = scene.connected().await;
    scene.world.change("a", |server| server.uid = "uid-b");
    assert_eq!(scene.problem().await, changed("uid-a", "uid-b"));
    scene.world.change("a", |server| server.uid = "uid-a");
    assert!(Arc::ptr_eq(&first, &scene.connected().await));
    scene.world.change("a", |server| server.uid = "uid-b");
    scene.problem().await;
    scene.expect("uid-b");
    let second = scene.connected().await;
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(second.cluster(), &"uid-b".into());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_tried_again_with_growing_pauses_until_it_does() {
    let silent = Server { readyz: Answer::Code(500), ..WELL };
    let mut scene = Scene::new(World::of([("a", silent)]), Expected::First);
    scene.sees("a", "one");
    let problem = scene.problem().await;
    assert!(problem.to_string().starts_with("the API server is not ready: the physical cluster: "), "{problem}");
    tokio::time::sleep(600 * S).await;
    let tried = scene.world.count("/readyz");
    assert!((25..=45).contains(&tried), "{tried}");
    scene.world.change("a", |server| *server = WELL);
    scene.connected().await;
}

#[tokio::test(start_paused = true)]
async fn s20_a_credential_that_a_server_does_not_accept_is_named_with_its_end_and_not_shown() {
    // A token that ended a second after 1970 began.
    let token = "e30.eyJleHAiOjF9.c2ln";
    let refuses = Server { readyz: Answer::Code(401), version: Answer::Code(401), ..WELL };
    let mut scene = Scene::new(World::of([("a", refuses)]), Expected::First);
    scene.sees("a", token);
    let sentence = scene.problem().await.to_string();
    let wanted = "kubeconfig: users[\"syncer\"].user.token: the API server does not accept it (the token of the kubeconfig ends \
                  at 1970-01-01T00:00:01Z); allowed is a credential of that cluster that has not ended; the API server is not \
                  ready: ";
    assert!(sentence.starts_with(wanted) && !sentence.contains(token), "{sentence}");
    // It may be accepted later, and is tried again.
    scene.world.change("a", |server| *server = WELL);
    scene.connected().await;
}

#[tokio::test(start_paused = true)]
async fn s20_a_client_certificate_that_has_ended_is_named_with_its_end_and_not_shown() {
    let refuses = Server { readyz: Answer::Code(401), version: Answer::Code(401), ..WELL };
    let mut scene = Scene::new(World::of([("a", refuses)]), Expected::First);
    let data = secret_with_certificate("https://a:6443", 2021);
    scene.sees_secret(&data);
    let sentence = scene.problem().await.to_string();
    let wanted = "kubeconfig: users[\"syncer\"].user.client-certificate-data: the API server does not accept it (the client \
                  certificate of the kubeconfig ends at 2021-01-01T00:00:00Z); allowed is a credential of that cluster that has \
                  not ended; ";
    assert!(sentence.starts_with(wanted) && !sentence.contains("BEGIN"), "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn s20_a_url_with_no_api_server_is_named_and_no_definition_or_namespace_is_missed() {
    // A wrong path at an API server, and a wrong host.
    for nowhere in [Answer::Text(404, "404 page not found"), Answer::Code(404)] {
        let elsewhere = Server { readyz: nowhere, version: nowhere, rest: nowhere, ..WELL };
        let mut scene = Scene::new(World::of([("a", elsewhere)]), Expected::First);
        scene.sees("a", "one");
        let sentence = scene.problem().await.to_string();
        let wanted = "kubeconfig: clusters[\"east\"].cluster.server: there is no API server at this URL; allowed is the URL of an API \
                      server, with its path; the API server is not ready: the physical cluster: /version was answered with 404 Not \
                      Found";
        assert_eq!(sentence, wanted);
        // It may be on its way.
        scene.world.change("a", |server| *server = WELL);
        scene.connected().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_changes_ends_the_attempt_with_what_it_said_before() {
    let silent = Server { readyz: Answer::Silence, ..WELL };
    let mut scene = Scene::new(World::of([("silent", silent), ("a", WELL)]), Expected::First);
    scene.sees("silent", "one");
    settle().await;
    let began = Instant::now();
    scene.sees("a", "one");
    scene.connected().await;
    assert!(began.elapsed() < S);
    scene.world.count("");
    tokio::time::sleep(120 * S).await;
    assert_eq!(scene.world.count("silent"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_broken_cluster_slows_no_other() {
    let silent = Server { readyz: Answer::Silence, version: Answer::Silence, rest: Answer::Silence, ..WELL };
    let world = World::of([("silent", silent), ("b", Server { uid: "uid-b", ..WELL })]);
    let mut broken = Scene::new(world.clone(), Expected::First);
    broken.sees("silent", "one");
    settle().await;
    let registry = Arc::clone(&broken.registry);
    let mut well = Scene::beside(world.clone(), &registry, Expected::First);
    let began = Instant::now();
    well.sees("b", "one");
    let physical = well.connected().await;
    assert!(began.elapsed() < S);
    all_listed(physical.signs());
    tokio::time::sleep(600 * S).await;
    assert_eq!(physical.signs().reach(), Reach::Reachable);
    assert!(broken.state.borrow().in_use.is_none());
    assert!(matches!(broken.problem().await, Problem::Contact(_)));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_secret_that_fails_is_a_problem_until_it_works() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    let refusal = Refusal { reason: RefusalReason::Forbidden, message: "no".into(), retry_after: None };
    scene.secrets.unbounded_send(Err(refusal.clone())).unwrap();
    assert!(matches!(scene.problem().await, Problem::Unwatched(_)));
    assert_eq!(
        scene.state.borrow().sentence().as_deref(),
        Some("the Secret cannot be watched: the virtual cluster: no")
    );
    scene.sees("a", "one");
    scene.connected().await;
    scene.secrets.unbounded_send(Err(refusal)).unwrap();
    scene.problem().await;
    // The watch goes on from where it was: the Secret is the same, so no state follows.
    scene.works.notify_one();
    scene.connected().await;
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_gone_is_followed_no_more_and_its_connection_ends() {
    let mut scene = Scene::new(World::of([("a", WELL)]), Expected::First);
    scene.sees("a", "one");
    drop(scene.connected().await);
    let Scene { world, registry, terms, mut tasks, state, .. } = scene;
    drop(terms);
    timeout(S, tasks.join_next()).await.unwrap().unwrap().unwrap();
    drop(state);
    settle().await;
    world.count("");
    tokio::time::sleep(60 * S).await;
    assert_eq!((registry.count(), world.count("")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_secret_is_listed_and_watched_by_its_name_alone() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let queries = Arc::clone(&asked);
    let serve = move |request: Request<Body>| {
        queries.lock().unwrap().push(request.uri().to_string());
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "east", "namespace": "lend", "resourceVersion": "5"},
            "data": secret("https://a:6443", "one"),
        });
        let list =
            json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "7"}, "items": [object]});
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    };
    let api = kube::Api::namespaced(kube::Client::new(tower::service_fn(serve), "default"), "lend");
    let world = World::of([("a", WELL)]);
    let terms = watch::Sender::new(terms(Expected::First));
    let follow = Follow::new(&registry(&world), terms.subscribe());
    let mut state = follow.state();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { follow.run(api, "east", &topoloom_cluster::Restores::default()).await });
    timeout(10 * S, state.wait_for(|state| state.in_use.is_some())).await.unwrap().unwrap();
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().any(|uri| uri.contains("watch=true")), "{asked:?}");
    for uri in asked {
        assert!(uri.starts_with("/api/v1/namespaces/lend/secrets?") && uri.contains("metadata.name%3Deast"), "{uri}");
    }
}
