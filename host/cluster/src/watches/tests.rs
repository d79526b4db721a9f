//! A real client and a real watcher before a server that counts what it is asked; time stands still in between.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::Reason;
use crate::pause::LONGEST;

const S: Duration = Duration::from_secs(1);

/// What a request is answered with.
enum Answer {
    /// An empty list of one page.
    List,
    /// The first of two pages.
    Page,
    /// An error.
    Error(u16),
    /// A watch of which nothing is heard.
    Silence,
    /// A watch that ends with an error at once.
    Expired,
}

type Silence = stream::Pending<Result<Frame<Bytes>, Infallible>>;
type Answered = Either<Full<Bytes>, StreamBody<Silence>>;

/// The answer to a query at a time since the beginning.
type Rule = Arc<dyn Fn(&str, Duration) -> Answer + Send + Sync>;

/// An API server that answers by a rule, and when it was asked for lists.
#[derive(Clone)]
struct Server {
    rule: Rule,
    begun: Instant,
    lists: Arc<Mutex<Vec<Duration>>>,
}

impl Server {
    fn new(rule: impl Fn(&str, Duration) -> Answer + Send + Sync + 'static) -> Self {
        Self { rule: Arc::new(rule), begun: Instant::now(), lists: Arc::default() }
    }

    fn watched(&self) -> impl Stream<Item = Result<Event<ConfigMap>, Refusal>> + Send + use<> {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let answer = server.serve(request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        events(Api::<ConfigMap>::all(client), Config::default())
    }

    fn serve(&self, query: &str) -> Response<Answered> {
        let at = self.begun.elapsed();
        if !query.contains("watch=true") {
            self.lists.lock().unwrap().push(at);
        }
        let list = |metadata: Value| (200, json!({"kind": "ConfigMapList", "metadata": metadata, "items": []}));
        let error =
            |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "no"});
        let (code, body) = match (self.rule)(query, at) {
            Answer::List => list(json!({"resourceVersion": "7"})),
            Answer::Page => list(json!({"resourceVersion": "7", "continue": "more"})),
            Answer::Error(code) => (code, error(code)),
            Answer::Silence => {
                return Response::new(Either::Right(StreamBody::new(stream::pending())));
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

fn is_list(query: &str) -> bool {
    !query.contains("watch=true")
}

/// Whatever the API server says, a watch that stays broken asks for few lists: some at once, and then one in half a minute.
#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_broken_asks_nine_times_in_half_a_minute_and_then_twice_a_minute() {
    type Plain = fn(&str, Duration) -> Answer;
    let rules: [(&str, Plain); 4] = [
        ("forbidden", |_, _| Answer::Error(403)),
        ("failing", |_, _| Answer::Error(500)),
        (
            "the second page fails",
            |query, _| if query.contains("continue") { Answer::Error(500) } else { Answer::Page },
        ),
        ("the history is always gone", |query, _| if is_list(query) { Answer::List } else { Answer::Expired }),
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
            Ok(Event::InitDone) => seen.push_back(("listed", at)),
            Ok(_) => {}
            Err(refusal) if at < given => assert_eq!(refusal.reason, Reason::Forbidden),
            Err(refusal) => {
                assert_eq!(refusal.reason, Reason::ServerError);
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
