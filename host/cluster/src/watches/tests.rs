//! A real client and a real watcher with a server that counts its requests; time is paused in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::RefusalReason;
use crate::gate::{Gate, ReadOnly, Switch};
use crate::pause::LONGEST;

const S: Duration = Duration::from_secs(1);
/// More requests than any watch here has a reason for. After them the server is silent: a watch without pauses fails its test, and
/// does not hang it.
const MOST: usize = 1000;

/// What a request is answered with.
enum Answer {
    /// An empty list of one page.
    List,
    /// The same as of this version.
    At(u64),
    /// A watch that ends without a word.
    Ends,
    /// The same after this time.
    EndsAfter(Duration),
    /// The first of two pages.
    Page,
    /// An error.
    Error(u16),
    /// A silent watch.
    Silence,
    /// A watch that ends with an error at once.
    Expired,
    /// A watch that ends after a second, behind a bookmark.
    Bookmark,
}

type Silence = stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>;
type Answered = Either<Full<Bytes>, StreamBody<Silence>>;

/// The answer to a query at a time since the beginning.
type Rule = Arc<dyn Fn(&str, Duration) -> Answer + Send + Sync>;

/// An API server that answers by a rule, and when it was asked for lists.
#[derive(Clone)]
struct Server {
    rule: Rule,
    begun: Instant,
    lists: Arc<Mutex<Vec<Duration>>>,
    /// The versions that watches were asked from.
    watches: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(rule: impl Fn(&str, Duration) -> Answer + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule), begun: Instant::now(), lists: Arc::default(), watches: Arc::default() }
    }

    fn watched(&self) -> impl Stream<Item = Result<Event<ConfigMap>, Refusal>> + Send + use<> {
        self.watched_by(&Restores::default())
    }

    fn watched_by(&self, restores: &Restores) -> impl Stream<Item = Result<Event<ConfigMap>, Refusal>> + Send + use<> {
        self.watched_with(Config::of(restores))
    }

    fn watched_with(&self, config: Config) -> impl Stream<Item = Result<Event<ConfigMap>, Refusal>> + Send + use<> {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let answer = server.serve(request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        events(Api::<ConfigMap>::all(client), config)
    }

    fn serve(&self, query: &str) -> Response<Answered> {
        let at = self.begun.elapsed();
        if !query.contains("watch=true") {
            self.lists.lock().unwrap().push(at);
        } else if let Some((_, rest)) = query.split_once("resourceVersion=") {
            let version = rest.split('&').next().unwrap_or_default();
            self.watches.lock().unwrap().push(version.to_owned());
        }
        let list = |metadata: Value| (200, json!({"kind": "ConfigMapList", "metadata": metadata, "items": []}));
        let error =
            |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "no"});
        let asked = self.lists.lock().unwrap().len() + self.watches.lock().unwrap().len();
        let answer = if asked > MOST { Answer::Silence } else { (self.rule)(query, at) };
        let (code, body) = match answer {
            Answer::List => list(json!({"resourceVersion": "7"})),
            Answer::At(version) => list(json!({"resourceVersion": version.to_string()})),
            Answer::Ends => return Response::new(Either::Left(Full::default())),
            Answer::Page => list(json!({"resourceVersion": "7", "continue": "more"})),
            Answer::Error(code) => (code, error(code)),
            Answer::Silence => {
                return Response::new(Either::Right(StreamBody::new(stream::pending().boxed())));
            }
            Answer::EndsAfter(time) => {
                let ends = stream::once(tokio::time::sleep(time)).filter_map(|()| std::future::ready(None));
                return Response::new(Either::Right(StreamBody::new(ends.boxed())));
            }
            Answer::Bookmark => {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"resourceVersion": "8"}});
                let line = format!("{}\n", json!({"type": "BOOKMARK", "object": object}));
                let ends = stream::once(tokio::time::sleep(S)).filter_map(|()| std::future::ready(None));
                let body = stream::iter([Ok(Frame::data(Bytes::from(line)))]).chain(ends);
                return Response::new(Either::Right(StreamBody::new(body.boxed())));
            }
            Answer::Expired => (200, json!({"type": "ERROR", "object": error(410)})),
        };
        Response::builder().status(code).body(Either::Left(format!("{body}\n").into())).unwrap()
    }

    /// How often a list was asked for in this time since the beginning.
    async fn lists_within(&self, time: Duration) -> usize {
        let mut events = std::pin::pin!(self.watched());
        let _ = tokio::time::timeout(time, async { while events.next().await.is_some() {} }).await;
        self.lists.lock().unwrap().len()
    }
}

/// What counts how often it is called, and the count.
fn counter() -> (Heard, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let heard = Heard::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (heard, move || count.load(Ordering::SeqCst))
}

fn is_list(query: &str) -> bool {
    !query.contains("watch=true")
}

/// Whatever the API server answers, a watch that stays broken requests few lists: some at once, and then one in half a
/// minute.
#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_broken_asks_nine_times_in_half_a_minute_and_then_twice_a_minute() {
    type Plain = fn(&str, Duration) -> Answer;
    let rules: [(&str, Plain); 5] = [
        ("forbidden", |_, _| Answer::Error(403)),
        ("failing", |_, _| Answer::Error(500)),
        (
            "the second page fails",
            |query, _| if query.contains("continue") { Answer::Error(500) } else { Answer::Page },
        ),
        ("the history is always gone", |query, _| if is_list(query) { Answer::List } else { Answer::Expired }),
        // Each watch after a look, which is a list of one object.
        ("every watch ends at once", |query, _| if is_list(query) { Answer::List } else { Answer::Ends }),
    ];
    for (what, rule) in rules {
        let pages = if what.contains("page") { 2 } else { 1 };
        let half_a_minute = Server::new(rule).lists_within(30 * S).await;
        assert!((7 * pages..=9 * pages).contains(&half_a_minute), "{what}: {half_a_minute}");
        let an_hour = Server::new(rule).lists_within(3600 * S).await;
        assert!((120 * pages..=170 * pages).contains(&an_hour), "{what}: {an_hour}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_is_noticed_within_half_a_minute_and_the_next_failure_is_the_first_one() {
    let given = 1000 * S;
    let server = Server::new(move |query, at| match at {
        at if at < given => Answer::Error(403),
        at if at < given + 60 * S => {
            if is_list(query) {
                Answer::List
            } else {
                Answer::Silence
            }
        }
        _ => Answer::Error(500),
    });
    let mut events = std::pin::pin!(server.watched());
    let mut seen = VecDeque::new();
    while let Some(event) = events.next().await {
        let at = server.begun.elapsed();
        match event {
            Ok(event) if event.is_answer() => seen.push_back(("listed", at)),
            Ok(_) => {}
            Err(refusal) if at < given => assert_eq!(refusal.reason, RefusalReason::Forbidden),
            Err(refusal) => {
                assert_eq!(refusal.reason, RefusalReason::ServerError);
                seen.push_back(("failed", at));
            }
        }
        if seen.len() == 4 {
            break;
        }
    }
    let (what, when): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    assert_eq!(what, ["listed", "failed", "failed", "failed"]);
    assert!(when[0] <= given + LONGEST, "{when:?}");
    assert!(when[3] - when[1] < S, "it begins with short pauses: {when:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_cannot_wait_keeps_its_pause() {
    let server = Server::new(|_, _| Answer::Error(500));
    let mut waits = Always(2 * S);
    waits.succeeded(server.begun);
    assert_eq!([waits.failed(server.begun, None), waits.failed(server.begun, Some(60 * S))], [2 * S, 2 * S]);
}

#[tokio::test(start_paused = true)]
async fn every_answer_of_the_api_server_is_heard_and_a_failure_is_not() {
    let count = async |rule: fn(&str, Duration) -> Answer| {
        let server = Server::new(rule);
        let (heard_all, heard) = counter();
        let config = Config::of(&Restores::default()).heard(&heard_all);
        let mut events = std::pin::pin!(server.watched_with(config));
        let _ = tokio::time::timeout(60 * S, async { while events.next().await.is_some() {} }).await;
        heard()
    };
    // The list, and a look each 20 to 25 seconds.
    let silent = count(|query, _| if is_list(query) { Answer::List } else { Answer::Silence }).await;
    assert_eq!(silent, 3);
    // The list alone: its looks fail.
    let failing = count(|query, at| match query {
        _ if !is_list(query) => Answer::Silence,
        _ if at < S => Answer::List,
        _ => Answer::Error(500),
    });
    assert_eq!(failing.await, 1);
    assert_eq!(count(|_, _| Answer::Error(500)).await, 0);
    // A list, then watches with one bookmark each, as often as they end.
    let bookmarks = count(|query, _| if is_list(query) { Answer::List } else { Answer::Bookmark }).await;
    assert!(bookmarks > 50, "{bookmarks}");
}

/// The first event of each list, and its time.
async fn begins(server: &Server, restores: &Restores, until: Duration) -> Vec<(Earlier, Duration)> {
    let mut events = std::pin::pin!(server.watched_by(restores));
    let mut begun = Vec::new();
    let listen = async {
        while let Some(event) = events.next().await {
            if let Ok(Event::Init(earlier)) = event {
                begun.push((earlier, server.begun.elapsed()));
            }
        }
    };
    let _ = tokio::time::timeout(until, listen).await;
    begun
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_is_found_while_the_watch_stands_and_every_watch_lists_anew() {
    let restored = 100 * S;
    let stands = |back: bool| {
        Server::new(move |query, at| match () {
            () if !is_list(query) => Answer::Silence,
            () if back && at >= restored => Answer::At(5),
            () => Answer::At(9),
        })
    };
    let switch = Switch::new(ReadOnly::No);
    let gate = Gate::open(&switch);
    let restores = Restores::holding(&switch);
    // The second one's server shows nothing of it.
    let (first, second) = (stands(true), stands(false));
    let both = async { tokio::join!(begins(&first, &restores, 200 * S), begins(&second, &restores, 200 * S)) };
    let (of_first, of_second) = both.await;
    for begun in [of_first, of_second] {
        let (earlier, at): (Vec<_>, Vec<_>) = begun.into_iter().unzip();
        assert_eq!(earlier, [Earlier::Valid, Earlier::Void]);
        assert!((restored..=restored + LOOK.mul_f64(1.0 + SPREAD)).contains(&at[1]), "{at:?}");
    }
    assert_eq!(first.watches.lock().unwrap().last().map(String::as_str), Some("5"));
    assert_eq!(gate.check(), Ok(()), "all of them have listed since");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_not_opened_again_from_a_version_that_the_server_has_not_reached() {
    let opened = AtomicUsize::new(0);
    let back = Arc::new(AtomicBool::new(false));
    let went = Arc::clone(&back);
    let server = Server::new(move |query, _| {
        use Ordering::SeqCst;
        match () {
            () if is_list(query) => Answer::At(if back.load(SeqCst) { 5 } else { 9 }),
            () if opened.fetch_add(1, SeqCst) == 0 => {
                back.store(true, SeqCst);
                Answer::Ends
            }
            () => Answer::Silence,
        }
    });
    let begun = begins(&server, &Restores::default(), 10 * S).await;
    assert!(went.load(Ordering::SeqCst));
    assert_eq!(begun.iter().map(|(earlier, _)| *earlier).collect::<Vec<_>>(), [Earlier::Valid, Earlier::Void]);
    assert_eq!(*server.watches.lock().unwrap(), ["9", "5"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_time_without_an_api_server_everything_is_listed_anew() {
    // It has caught up with what was known, so no version says that it went back.
    let server = Server::new(|query, at| match (is_list(query), at) {
        (_, at) if (S..10 * S).contains(&at) => Answer::Error(503),
        (true, _) => Answer::At(9),
        (false, at) if at < S => Answer::EndsAfter(S),
        (false, _) => Answer::Silence,
    });
    let begun = begins(&server, &Restores::default(), 60 * S).await;
    assert!(begun.len() > 1, "{begun:?}");
    assert!(begun.iter().all(|(earlier, _)| *earlier == Earlier::Valid), "{begun:?}");
    assert_eq!(server.watches.lock().unwrap().last().map(String::as_str), Some("9"));
}

#[tokio::test(start_paused = true)]
async fn at_rest_a_watch_looks_three_times_a_minute_at_most_and_never_lists_again() {
    let server = Server::new(|query, at| if is_list(query) { Answer::At(9 + at.as_secs()) } else { Answer::Silence });
    let begun = begins(&server, &Restores::default(), 3600 * S).await;
    assert_eq!(begun, [(Earlier::Valid, Duration::ZERO)]);
    let lists = server.lists.lock().unwrap().len();
    assert!((130..=200).contains(&lists), "{lists}");
    let watches = server.watches.lock().unwrap().len();
    assert!((12..=13).contains(&watches), "that looks are answered does not keep a silent watch: {watches}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_opened_again_without_a_whole_list() {
    let opened = AtomicUsize::new(0);
    let server = Server::new(move |query, _| match () {
        () if is_list(query) => Answer::At(9),
        () if opened.fetch_add(1, Ordering::SeqCst) < 3 => Answer::Error(403),
        () => Answer::Silence,
    });
    assert_eq!(begins(&server, &Restores::default(), 10 * S).await.len(), 1);
    assert_eq!(server.watches.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_refused_is_passed_on_once_it_is_opened_although_nothing_happens() {
    let server = Server::new(move |query, at| match () {
        () if is_list(query) => Answer::At(9),
        () if at < 20 * S => Answer::Error(403),
        () => Answer::Silence,
    });
    let (opens, opened) = counter();
    let config = Config::of(&Restores::default()).opened(&opens);
    let mut events = std::pin::pin!(server.watched_with(config));
    let mut until = async |time| {
        let _ = tokio::time::timeout(time, async { while events.next().await.is_some() {} }).await;
    };
    until(19 * S).await;
    assert_eq!(opened(), 0, "that lists are answered does not open a watch");
    until(60 * S).await;
    assert_eq!(opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_opened_again_after_a_look() {
    let opened = AtomicUsize::new(0);
    let server = Server::new(move |query, _| match () {
        () if is_list(query) => Answer::At(9),
        () if opened.fetch_add(1, Ordering::SeqCst) < 3 => Answer::Ends,
        () => Answer::Silence,
    });
    assert_eq!(begins(&server, &Restores::default(), 10 * S).await.len(), 1);
    assert_eq!((server.watches.lock().unwrap().len(), server.lists.lock().unwrap().len()), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_open_for_a_second_is_opened_again_at_once() {
    let server = Server::new(|query, _| if is_list(query) { Answer::At(9) } else { Answer::EndsAfter(S) });
    assert_eq!(begins(&server, &Restores::default(), 60 * S).await.len(), 1);
    let watches = server.watches.lock().unwrap().len();
    assert!((50..=61).contains(&watches), "{watches}");
}

#[tokio::test(start_paused = true)]
async fn one_watch_that_ended_at_once_is_forgotten_when_the_next_one_lasted() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    // Every other watch ends at once.
    let server = Server::new(move |query, _| match () {
        () if is_list(query) => Answer::At(9),
        () if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Answer::Ends,
        () => Answer::EndsAfter(S),
    });
    assert_eq!(begins(&server, &Restores::default(), 60 * S).await.len(), 1);
    // Each pair takes a second and the first pause.
    let opened = opened.load(Ordering::SeqCst);
    assert!(opened >= 80, "{opened}");
}
