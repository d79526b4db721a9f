use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::Layer;

use super::*;
use crate::cluster::gate::{Door, Gate, ReadOnly};
use crate::cluster::{Judge, Refusal};
use crate::work::Metrics;

const S: Duration = Duration::from_secs(1);
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// How the API server answers.
enum Answer {
    Stored,
    Refused(u16, &'static str, Value),
    Never,
}

/// A request as it arrived.
struct Asked {
    object: String,
    at: Duration,
    body: Value,
}

/// An API server of which only the answers to patches exist.
struct Server<F> {
    answer: F,
    begun: Instant,
    requests: Mutex<Vec<Asked>>,
    news: Notify,
}

impl<F: Fn(&str, Duration) -> Answer + Send + Sync + 'static> Server<F> {
    /// The answer depends on the name of the object (`NAME` or `NAME/status`) and the time.
    fn new(answer: F) -> Arc<Self> {
        Arc::new(Self { answer, begun: Instant::now(), requests: Mutex::default(), news: Notify::new() })
    }

    fn client(self: &Arc<Self>) -> kube::Client {
        let server = Arc::clone(self);
        let serve = move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                Ok::<_, std::convert::Infallible>(server.serve(head.uri.path(), body).await)
            }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    async fn serve(&self, path: &str, body: Value) -> Response<Body> {
        let object = path.strip_prefix("/apis/topoloom.dev/v1alpha1/discoverysources/").unwrap_or(path);
        let at = self.begun.elapsed();
        self.requests.lock().unwrap().push(Asked { object: object.to_owned(), at, body });
        self.news.notify_one();
        let (code, body) = match (self.answer)(object, at) {
            Answer::Stored => {
                let mut stored = DiscoverySource::new("x");
                stored.metadata.uid = Some("1".into());
                stored.metadata.generation = Some(1);
                (StatusCode::OK, serde_json::to_value(stored).unwrap())
            }
            Answer::Refused(code, message, details) => {
                let code = StatusCode::from_u16(code).unwrap();
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": "Test", "code": code.as_u16(), "details": details});
                (code, status)
            }
            Answer::Never => std::future::pending().await,
        };
        Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
    }

    fn times(&self, object: &str) -> Vec<Duration> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|asked| asked.object == object).map(|asked| asked.at).collect()
    }

    fn bodies(&self, object: &str) -> Vec<Value> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|asked| asked.object == object).map(|asked| asked.body.clone()).collect()
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.news.notified().await;
        }
    }
}

/// Something to say about a source.
fn status(source: &str, message: &str) -> DiscoverySourceStatus {
    DiscoverySourceStatus { source: source.into(), message: message.into(), ..DiscoverySourceStatus::default() }
}

fn succeeded(source: &str, at: &str) -> DiscoverySourceStatus {
    DiscoverySourceStatus { last_success: Some(at.into()), ..status(source, "") }
}

/// The last report of the writer about itself.
#[derive(Clone, Default)]
struct Stands(Arc<Mutex<String>>);

impl Stands {
    fn check() -> (Check, Self) {
        let stands = Self::default();
        (Check::new(stands.clone()), stands)
    }

    fn word(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Judge for Stands {
    fn pass(&self) {
        *self.0.lock().unwrap() = "passes".into();
    }

    fn fail(&self, refusal: &Refusal) {
        *self.0.lock().unwrap() = format!("fails: {refusal}");
    }

    fn absent(&self, why: &str) {
        *self.0.lock().unwrap() = format!("absent: {why}");
    }
}

/// Writes until the condition holds; returns the state of the check then.
async fn write<F: Fn(&str, Duration) -> Answer + Send + Sync + 'static>(
    reports: &Arc<Reports>,
    server: &Arc<Server<F>>,
    until: impl Future<Output = ()>,
) -> String {
    write_with(Options::default(), reports, server, until).await
}

async fn write_with<F: Fn(&str, Duration) -> Answer + Send + Sync + 'static>(
    options: Options,
    reports: &Arc<Reports>,
    server: &Arc<Server<F>>,
    until: impl Future<Output = ()>,
) -> String {
    let (check, stands) = Stands::check();
    let writing = Arc::clone(reports).write(server.client(), check, options, Events::new(server.client()));
    tokio::select! {
        () = writing => panic!("the writer ended"),
        () = until => {}
    }
    stands.word()
}

fn invalid() -> Answer {
    Answer::Refused(422, "status.x: too long", Value::Null)
}

#[tokio::test(start_paused = true)]
async fn r8_a_refused_source_holds_up_no_other_and_rests_until_the_resync() {
    let server = Server::new(|object, _| if object == "a" { invalid() } else { Answer::Stored });
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    reports.publish(status("b", "1"));
    let said = write(&reports, &server, async {
        tokio::time::sleep(20 * S).await;
        reports.publish(status("b", "2"));
        server.until(|server| server.times("a").len() == 17).await;
    })
    .await;
    assert_eq!(server.times("b"), [Duration::ZERO], "made once");
    assert_eq!(server.times("b/status"), [Duration::ZERO, 20 * S]);
    let tries = server.times("a");
    assert_eq!((tries[1], tries[15], tries[16]), (S / 200, Duration::from_millis(163_835), 300 * S));
    // When it is dropped, one Event reports it.
    assert_eq!(server.times(EVENTS), [tries[15]]);
    assert!(said.contains("too long"), "one source that works does not hide one that does not: {said}");
}

#[tokio::test(start_paused = true)]
async fn r8_a_drop_is_a_warning_about_the_source_and_counted() {
    let server = Server::new(|object, _| if object == "a" { invalid() } else { Answer::Stored });
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    let mut registry = Registry::with_prefix("topoloom");
    let options = Options { metrics: Metrics::register(&mut registry), ..Options::default() };
    let shown = |metric: &str| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let start = format!("topoloom_workqueue_{metric}{{queue=\"reports\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map(|number| number.parse::<f64>().unwrap())
    };
    write_with(options, &reports, &server, async {
        // The first resync is at 300 s and adds the dropped keys again.
        for (at, dropped, resting) in [(100 * S, 0.0, 0.0), (200 * S, 1.0, 1.0), (301 * S, 1.0, 0.0)] {
            tokio::time::sleep(at - server.begun.elapsed()).await;
            assert_eq!((shown("dropped_total"), shown("resting")), (Some(dropped), Some(resting)), "{at:?}");
        }
    })
    .await;
    let sent = server.bodies(EVENTS);
    let [event] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!(Reason::WriteFailed.as_str())));
    let regarding = json!({"apiVersion": "topoloom.dev/v1alpha1", "kind": "DiscoverySource", "name": object_name("a")});
    assert_eq!(event["regarding"], regarding);
    let note = event["note"].as_str().unwrap();
    assert!(note.starts_with("the status of source a cannot be written and is left for now: "), "{note}");
    assert!(note.contains("too long"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn r8_a_source_that_rests_is_written_with_its_next_news() {
    let server = Server::new(|object, at| if object == "a" && at < 200 * S { invalid() } else { Answer::Stored });
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    let said = write(&reports, &server, async {
        tokio::time::sleep(200 * S).await;
        reports.publish(status("a", "2"));
        server.until(|server| !server.times("a/status").is_empty()).await;
        tokio::time::sleep(S).await;
    })
    .await;
    assert_eq!(server.times("a/status"), [200 * S]);
    assert_eq!(said, "passes");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_up_no_other() {
    let server = Server::new(|object, _| if object == "a" { Answer::Never } else { Answer::Stored });
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    reports.publish(status("b", "1"));
    write(&reports, &server, server.until(|server| !server.times("b/status").is_empty())).await;
    assert_eq!(server.times("a").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_absent_crd_is_looked_for_by_one_source_for_all_and_nothing_is_dropped() {
    let absent = |_: &str, at| match at < 3600 * S {
        true => Answer::Refused(404, "the server could not find the requested resource", Value::Null),
        false => Answer::Stored,
    };
    let server = Server::new(absent);
    let reports = Arc::new(Reports::default());
    let sources = ["a", "b", "c"];
    for source in sources {
        reports.publish(status(source, "1"));
    }
    let written =
        |server: &Server<_>| sources.iter().all(|source| !server.times(&format!("{source}/status")).is_empty());
    let said = write(&reports, &server, async {
        tokio::time::sleep(1801 * S).await;
        reports.publish(status("a", "2"));
        server.until(written).await;
        tokio::time::sleep(S).await;
    })
    .await;
    for source in sources {
        assert_eq!(server.times(&format!("{source}/status")), [3600 * S], "{source}");
    }
    let asked: usize = sources.iter().map(|source| server.times(source).len()).sum();
    // Three at first, one in 15 s for an hour, three that make their objects.
    assert!((240..=250).contains(&asked), "{asked} requests");
    assert_eq!(reports.queue.counts().drops, 0);
    assert_eq!(said, "passes");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_is_given_it() {
    let details = json!({"retryAfterSeconds": 7});
    let server = Server::new(move |_, at| match at < 100 * S {
        true => Answer::Refused(429, "too many", details.clone()),
        false => Answer::Stored,
    });
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    write(&reports, &server, server.until(|server| !server.times("a/status").is_empty())).await;
    assert_eq!(server.times("a"), (0..16).map(|i| i * 7 * S).collect::<Vec<_>>());
    assert_eq!(reports.queue.counts().retries, 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_nothing_but_a_recent_success_differs() {
    let server = Server::new(|_, _| Answer::Stored);
    let reports = Arc::new(Reports::default());
    let wait = async |writes| server.until(|server| server.times("a/status").len() == writes).await;
    write(&reports, &server, async {
        reports.publish(succeeded("a", "2026-01-01T00:00:00Z"));
        wait(1).await;
        // The watch says the same.
        let mut object = DiscoverySource::new("a");
        object.metadata.uid = Some("1".into());
        object.status = succeeded("a", "2026-01-01T00:00:00Z");
        tokio::time::sleep(S).await;
        reports.observed(&object);
        reports.publish(succeeded("a", "2026-01-01T00:09:59Z"));
        tokio::time::sleep(600 * S).await;
        assert_eq!(server.times("a/status").len(), 1);
        reports.publish(succeeded("a", "2026-01-01T00:10:00Z"));
        wait(2).await;
        // The object was taken away: it is made again, with its status.
        tokio::time::sleep(S).await;
        reports.vanished(&object_name("a"));
        wait(3).await;
    })
    .await;
    assert_eq!(server.times("a").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_the_end_what_waits_is_written_and_the_writer_ends() {
    let server = Server::new(|_, _| Answer::Stored);
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    reports.close();
    reports.publish(status("b", "1"));
    let check = Stands::check().0;
    Arc::clone(&reports).write(server.client(), check, Options::default(), Events::new(server.client())).await;
    assert_eq!((server.times("a/status").len(), server.times("b/status").len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_last_word_that_meets_another_write_is_written_all_the_same() {
    for (conflicts, written) in [(1, true), (3, true), (4, false)] {
        let left = AtomicUsize::new(conflicts);
        let server = Server::new(move |object, _| {
            let met = |left: usize| left.checked_sub(1);
            match object == "a/status" && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, met).is_ok() {
                true => Answer::Refused(409, "the object has been modified", Value::Null),
                false => Answer::Stored,
            }
        });
        let reports = Arc::new(Reports::default());
        reports.publish(status("a", "1"));
        reports.close();
        let check = Stands::check().0;
        Arc::clone(&reports).write(server.client(), check, Options::default(), Events::new(server.client())).await;
        assert_eq!(server.times("a/status").len(), if written { conflicts + 1 } else { conflicts });
        assert_eq!(reports.due().is_empty(), written, "after {conflicts} conflicts");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_writes_to_be_allowed_is_neither_failed_nor_dropped() {
    let server = Server::new(|_, _| Answer::Stored);
    let gate = Gate::none();
    gate.switch().set(ReadOnly::Yes);
    let api = server.client();
    let send = tower::service_fn(move |request: Request<Body>| {
        let api = api.clone();
        async move { api.send(request).await.map_err(tower::BoxError::from) }
    });
    let client = kube::Client::new(Door(gate.clone()).layer(send), "default");
    let reports = Arc::new(Reports::default());
    reports.publish(status("a", "1"));
    let (check, stands) = Stands::check();
    check.pass();
    let events = Events::new(server.client());
    tokio::select! {
        () = Arc::clone(&reports).write(client, check, Options::default(), events) => panic!("the writer ended"),
        () = async {
            tokio::time::sleep(3601 * S).await;
            assert_eq!((reports.queue.counts().drops, reports.queue.counts().retries), (0, 0));
            assert_eq!(stands.word(), "passes");
            gate.switch().set(ReadOnly::No);
            server.until(|server| !server.times("a/status").is_empty()).await;
        } => {}
    }
    let [at] = server.times("a/status")[..] else { panic!("written more than once") };
    assert!(at <= 3606 * S, "{at:?}");
    assert!(server.times(EVENTS).is_empty(), "nothing was reported as given up");
}

#[tokio::test(start_paused = true)]
async fn every_condition_says_of_which_generation_of_its_object_it_speaks() {
    let server = Server::new(|_, _| Answer::Stored);
    let reports = Arc::new(Reports::default());
    reports.publish_idle(DiscoverySourceStatus { state: Some(State::Waiting), ..status("a", "1") });
    let generations = |server: &Server<_>| -> Vec<Value> {
        let written = server.bodies("a/status");
        let words = |body: &Value| {
            let said = &body["status"];
            json!([
                said["observedGeneration"],
                said["conditions"][0]["type"],
                said["conditions"][0]["observedGeneration"]
            ])
        };
        written.iter().map(words).collect()
    };
    write(&reports, &server, async {
        server.until(|server| !server.times("a/status").is_empty()).await;
        assert_eq!(generations(&server), [json!([1, "Ready", 1])], "the one that the object was made with");
        tokio::time::sleep(S).await;
        // Another client created it again, or changed it.
        let mut object = DiscoverySource::new("a");
        (object.metadata.uid, object.metadata.generation) = (Some("1".into()), Some(7));
        object.status = reports.get(&"a".parse().unwrap()).expect("it was said").observed(Some(1));
        reports.observed(&object);
        server.until(|server| server.times("a/status").len() == 2).await;
        assert_eq!(generations(&server)[1], json!([7, "Ready", 7]));
    })
    .await;
}
