//! Whether a caller may reach a node: a SubjectAccessReview of the virtual cluster for `nodes/proxy`, as a kubelet asks.
//!
//! Owns the question and how long its answer counts. Never guesses: an answer that did not come is no permission.
//!
//! Reading a log is `get`, and everything else is `create`, whatever the method of the request. A kubelet goes by the method: there a
//! command that is run by GET, as WebSocket has it, needs no more than the right to read. API servers are not affected: their ClusterRole
//! `system:kubelet-api-admin` has every verb.
//!
//! | answer | counts for | at a kubelet |
//! |---|---|---|
//! | allowed | 1 min | 5 min |
//! | refused | 10 s | 30 s |
//! | none | not at all | not at all |
//!
//! At most 1 024 answers are kept; one more replaces the one that ends first. An answer that does not count any more still says which
//! crowd its caller waits in. Equal questions at the same time are asked once.
//!
//! # Failure story
//!
//! An API server that does not answer within 10 s, or refuses the question, makes every caller fail whose answer is not kept. A right
//! that is taken away counts for up to a minute for new streams, and not for those that are open: a kubelet does not end them either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;
use topoloom_cluster::{Refusal, RefusalReason, Side};

use super::caller::Caller;
use super::path::StreamVerb;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a permission counts.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a refusal counts.
const REFUSED: Duration = Duration::from_secs(10);
/// How many answers are kept.
const MOST: usize = 1024;

/// What an API server says about a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Allowed,
    /// It may not.
    Refused,
}

/// What is asked about a caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    caller: Caller,
    verb: &'static str,
    /// Nothing for every node.
    node: Option<String>,
}

type Review = BoxFuture<'static, Result<Verdict, Refusal>>;

/// Asks the API server of the virtual cluster.
pub(super) struct Access {
    reviews: Api<SubjectAccessReview>,
    answers: Arc<Mutex<Answers>>,
    /// What is being asked. It lives as long as one caller waits for it.
    asked: Mutex<BTreeMap<Question, WeakShared<Review>>>,
}

impl Access {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { reviews: Api::all(client), answers: Arc::default(), asked: Mutex::default() }
    }

    /// What was said last about this caller and every node, if it was asked and is still known. It may not count any more.
    pub(super) fn last(&self, caller: &Caller, what: StreamVerb) -> Option<Verdict> {
        let question = Question { caller: caller.clone(), verb: verb(what), node: None };
        lock(&self.answers).last(&question)
    }

    /// Whether the caller may do this on this node, or on every one.
    ///
    /// # Errors
    /// The API server did not say.
    pub(super) async fn may(&self, caller: &Caller, what: StreamVerb, node: Option<&str>) -> Result<Verdict, Refusal> {
        let question = Question { caller: caller.clone(), verb: verb(what), node: node.map(str::to_owned) };
        if let Some(verdict) = lock(&self.answers).kept(&question, Instant::now()) {
            return Ok(verdict);
        }
        self.review(question).await
    }

    /// The answer to a question, which is asked if it is not being asked already.
    fn review(&self, question: Question) -> Shared<Review> {
        let mut asked = lock(&self.asked);
        if let Some(review) = asked.get(&question).and_then(WeakShared::upgrade) {
            return review;
        }
        // Those that have their answer, or whose callers have all left.
        asked.retain(|_, review| review.upgrade().is_some());
        let (reviews, answers, about) = (self.reviews.clone(), Arc::clone(&self.answers), question.clone());
        let review = async move {
            let verdict = ask(&reviews, &about).await.map_err(|refusal| refusal.on(Side::Virtual))?;
            lock(&answers).keep(about, verdict, Instant::now());
            Ok::<_, Refusal>(verdict)
        };
        let review = review.boxed().shared();
        if let Some(asking) = review.downgrade() {
            asked.insert(question, asking);
        }
        review
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ask(reviews: &Api<SubjectAccessReview>, question: &Question) -> Result<Verdict, Refusal> {
    let review = SubjectAccessReview { spec: question.spec(), ..SubjectAccessReview::default() };
    let parameters = PostParams::default();
    let answer = tokio::time::timeout(PATIENCE, reviews.create(&parameters, &review)).await;
    let unsaid = |message: String| Refusal { reason: RefusalReason::Unreachable, message, retry_after: None };
    let answer = match answer {
        Ok(answer) => answer.map_err(|error| Refusal::of(&error))?,
        Err(_) => {
            let message = format!("a SubjectAccessReview was not answered within {} s", PATIENCE.as_secs());
            return Err(unsaid(message));
        }
    };
    let status = answer.status.ok_or_else(|| unsaid("a SubjectAccessReview came back without a status".to_owned()))?;
    let is_allowed = status.allowed && status.denied != Some(true);
    Ok(if is_allowed { Verdict::Allowed } else { Verdict::Refused })
}

/// The verb of the right that is needed.
pub(super) fn verb(what: StreamVerb) -> &'static str {
    match what {
        StreamVerb::Logs => "get",
        StreamVerb::Exec | StreamVerb::Attach | StreamVerb::PortForward => "create",
    }
}

impl Question {
    fn spec(&self) -> SubjectAccessReviewSpec {
        SubjectAccessReviewSpec {
            user: Some(self.caller.user.clone()),
            groups: Some(self.caller.groups.clone()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(self.verb.to_owned()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: Some("proxy".to_owned()),
                name: self.node.clone(),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        }
    }
}

/// Answers, also some that do not count any more.
#[derive(Debug, Default)]
struct Answers {
    kept: BTreeMap<Question, (Verdict, Instant)>,
}

impl Answers {
    fn last(&self, question: &Question) -> Option<Verdict> {
        self.kept.get(question).map(|(verdict, _)| *verdict)
    }

    /// The answer, if it still counts.
    fn kept(&self, question: &Question, now: Instant) -> Option<Verdict> {
        self.kept.get(question).filter(|(_, until)| now < *until).map(|(verdict, _)| *verdict)
    }

    fn keep(&mut self, question: Question, verdict: Verdict, now: Instant) {
        if self.kept.len() >= MOST {
            self.kept.retain(|_, (_, until)| now < *until);
        }
        if self.kept.len() >= MOST {
            let first = self.kept.iter().min_by_key(|(_, (_, until))| *until).map(|(question, _)| question.clone());
            first.and_then(|first| self.kept.remove(&first));
        }
        let time = match verdict {
            Verdict::Allowed => ALLOWED,
            Verdict::Refused => REFUSED,
        };
        self.kept.insert(question, (verdict, now + time));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn caller(user: &str) -> Caller {
        Caller { user: user.to_owned(), groups: vec!["system:authenticated".to_owned()] }
    }

    fn question(user: &str, node: Option<&str>) -> Question {
        Question { caller: caller(user), verb: "create", node: node.map(str::to_owned) }
    }

    /// An API server that gives this answer, and how often it was asked.
    fn server(answer: impl Fn(&Value) -> (u16, Value) + Clone + Send + 'static) -> (Access, Arc<AtomicUsize>) {
        let asked = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&asked);
        let serve = move |request: Request<Body>| {
            let (answer, count) = (answer.clone(), Arc::clone(&count));
            async move {
                count.fetch_add(1, Ordering::Relaxed);
                assert_eq!(request.uri().path(), "/apis/authorization.k8s.io/v1/subjectaccessreviews");
                let sent = request.into_body().collect().await.unwrap().to_bytes();
                let (code, body) = answer(&serde_json::from_slice(&sent).unwrap());
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        };
        (Access::new(kube::Client::new(tower::service_fn(serve), "default")), asked)
    }

    fn review(status: Value) -> (u16, Value) {
        (
            201,
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": {}, "status": status}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn s26_the_question_is_that_of_a_kubelet() {
        let (access, _) = server(|sent| {
            assert_eq!(
                sent["spec"],
                json!({
                    "user": "a", "groups": ["system:authenticated"],
                    "resourceAttributes": {
                        "verb": "create", "version": "v1", "resource": "nodes", "subresource": "proxy", "name": "vnode-east-w1",
                    },
                })
            );
            review(json!({"allowed": true}))
        });
        for what in [StreamVerb::Exec, StreamVerb::Attach, StreamVerb::PortForward] {
            let verdict = access.may(&caller("a"), what, Some("vnode-east-w1")).await;
            assert_eq!(verdict, Ok(Verdict::Allowed));
        }
        let (access, _) = server(|sent| {
            assert_eq!(sent["spec"]["resourceAttributes"]["verb"], "get");
            review(json!({"allowed": true}))
        });
        assert_eq!(access.may(&caller("a"), StreamVerb::Logs, None).await, Ok(Verdict::Allowed));
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_permission_counts_for_a_minute_and_a_refusal_for_ten_seconds() {
        let (access, asked) = server(|sent| review(json!({"allowed": sent["spec"]["user"] == "good"})));
        let counted = async |user: &str| {
            let verdict = access.may(&caller(user), StreamVerb::Logs, Some("n")).await.unwrap();
            (verdict, asked.swap(0, Ordering::Relaxed))
        };
        assert_eq!(counted("good").await, (Verdict::Allowed, 1));
        assert_eq!(counted("bad").await, (Verdict::Refused, 1));
        advance(10 * S).await;
        assert_eq!(counted("good").await, (Verdict::Allowed, 0));
        assert_eq!(counted("bad").await, (Verdict::Refused, 1));
        advance(50 * S).await;
        assert_eq!(counted("good").await, (Verdict::Allowed, 1));
        // Another node, and another verb, are other questions.
        access.may(&caller("good"), StreamVerb::Logs, Some("m")).await.unwrap();
        access.may(&caller("good"), StreamVerb::Exec, Some("n")).await.unwrap();
        access.may(&caller("good"), StreamVerb::Logs, None).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_equal_questions_are_asked_once_and_a_caller_that_leaves_takes_the_answer_from_no_other() {
        let (access, asked) = server(|_| review(json!({"allowed": true})));
        let (a, b) = (caller("a"), caller("b"));
        let equal = (0..5).map(|_| access.may(&a, StreamVerb::Logs, None));
        let others = (0..5).map(|_| access.may(&a, StreamVerb::Exec, None));
        for verdict in futures::future::join_all(equal.chain(others)).await {
            assert_eq!(verdict, Ok(Verdict::Allowed));
        }
        assert_eq!(asked.swap(0, Ordering::Relaxed), 2, "two questions");
        let mut first = Box::pin(access.may(&b, StreamVerb::Logs, None));
        let mut second = Box::pin(access.may(&b, StreamVerb::Logs, None));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(second.await, Ok(Verdict::Allowed));
        assert_eq!(asked.swap(0, Ordering::Relaxed), 1);
        // What nothing waits for is not remembered.
        drop(access.review(question("c", None)));
        assert_eq!(access.may(&a, StreamVerb::Logs, Some("n")).await, Ok(Verdict::Allowed));
        assert_eq!(lock(&access.asked).keys().filter(|question| question.caller.user == "c").count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_what_was_said_last_is_known_after_it_has_ceased_to_count() {
        let (access, _) = server(|sent| review(json!({"allowed": sent["spec"]["user"] == "good"})));
        assert_eq!(access.last(&caller("good"), StreamVerb::Logs), None);
        for (user, verdict) in [("good", Verdict::Allowed), ("bad", Verdict::Refused)] {
            access.may(&caller(user), StreamVerb::Logs, None).await.unwrap();
            advance(ALLOWED + S).await;
            assert_eq!(access.last(&caller(user), StreamVerb::Logs), Some(verdict));
            assert_eq!(access.last(&caller(user), StreamVerb::Exec), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s26_what_an_api_server_does_not_say_is_no_permission_and_is_asked_again() {
        let status = |message: &str, code: u16| {
            (code, json!({"kind": "Status", "status": "Failure", "message": message, "code": code}))
        };
        for (code, part) in [(500, "boom"), (403, "boom"), (429, "boom")] {
            let (access, asked) = server(move |_| status("boom", code));
            for _ in 0..2 {
                let refusal = access.may(&caller("a"), StreamVerb::Logs, None).await.unwrap_err();
                assert!(
                    refusal.message.contains(part) && refusal.message.starts_with("the virtual cluster"),
                    "{refusal}"
                );
            }
            assert_eq!(asked.load(Ordering::Relaxed), 2);
        }
        let (access, _) = server(|_| review(json!({"allowed": true, "denied": true})));
        assert_eq!(access.may(&caller("a"), StreamVerb::Logs, None).await, Ok(Verdict::Refused));
        let (access, _) = server(|_| review(Value::Null));
        assert!(access.may(&caller("a"), StreamVerb::Logs, None).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_question_has_ten_seconds() {
        let serve = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
        let access = Access::new(kube::Client::new(tower::service_fn(serve), "default"));
        let began = Instant::now();
        let refusal = access.may(&caller("a"), StreamVerb::Logs, None).await.unwrap_err();
        assert_eq!((refusal.reason, began.elapsed().as_secs()), (RefusalReason::Unreachable, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn s26_the_answers_that_are_kept_are_bounded_and_the_first_to_end_goes_first() {
        let mut answers = Answers::default();
        let now = Instant::now();
        answers.keep(question("refused", None), Verdict::Refused, now);
        for number in 1..MOST {
            answers.keep(question(&number.to_string(), None), Verdict::Allowed, now);
        }
        assert_eq!(answers.kept(&question("refused", None), now), Some(Verdict::Refused));
        answers.keep(question("more", None), Verdict::Allowed, now + S);
        assert_eq!(answers.kept.len(), MOST);
        assert_eq!(answers.kept(&question("refused", None), now), None);
        assert_eq!(answers.kept(&question("7", None), now), Some(Verdict::Allowed));
        answers.keep(question("late", None), Verdict::Allowed, now + ALLOWED);
        assert_eq!(answers.kept.len(), 2, "those that have ended go together");
    }
}
