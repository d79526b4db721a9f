//! The writes that one API server gets per second, in lanes: what is urgent does not wait behind what is much.
//!
//! Owns a budget per server that its lanes share. While a write of an earlier lane waits, none of a later lane goes. Reads wait
//! for nothing here. When the server answers 429, every lane pauses for as long as it asks; the 429 of an eviction is that of a
//! disruption budget, and says nothing about the server. Never tries a write again: its caller sees the 429 and decides anew.
//!
//! # Failure story
//!
//! A lane that is always full starves those behind it; so the early lanes are for writes that are few by their nature. A caller
//! that gives up its write gives up its place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use tokio::sync::Notify;
use tokio::time::Instant;
use topoloom_core::queue::Bucket;
use tower::{Layer, Service};

/// How many lanes a budget has at most.
pub const LANES: usize = 4;
/// How long a server that answers 429 without a time is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How the path of an eviction ends.
const EVICTION: &str = "/eviction";
/// At most, whatever it asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The budget of one server. Clones share it.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

/// A budget that lasts as long as others use it.
#[derive(Debug, Clone, Default)]
pub struct WeakBudget(Weak<Shared>);

impl WeakBudget {
    /// The budget, if it is still used.
    #[must_use]
    pub fn upgrade(&self) -> Option<Budget> {
        self.0.upgrade().map(Budget)
    }
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    state: Mutex<State>,
    /// One at a time of each lane looks at the state.
    lines: [tokio::sync::Mutex<()>; LANES],
    changed: Notify,
}

#[derive(Debug)]
struct State {
    bucket: Bucket,
    /// That of the last lane, where it has one of its own.
    last: Option<Bucket>,
    /// Until then the server wants no write.
    paused: Duration,
    waiting: [usize; LANES],
}

/// Whether a write may go.
enum Turn {
    Now,
    At(Duration),
    /// An earlier lane is waiting.
    Behind,
}

impl Budget {
    /// So many writes per second, and as many at once after a pause as come in a quarter of a second. Not zero: one is the least.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self::with_burst(per_second, per_second / 4)
    }

    /// So many writes per second, and so many at once after a pause. Neither is zero: one is the least.
    #[must_use]
    pub fn with_burst(per_second: u32, burst: u32) -> Self {
        Self::of(bucket(per_second, burst), None)
    }

    /// As many writes as come, until the server says that it has enough. Those of earlier lanes go first then.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::of(Bucket::new(Duration::ZERO, 1), None)
    }

    /// The same, but for the last lane: it has so many writes per second, and as many at once after a pause as come in a quarter of a
    /// second.
    #[must_use]
    pub fn limited_at_last(per_second: u32) -> Self {
        Self::of(Bucket::new(Duration::ZERO, 1), Some(bucket(per_second, per_second / 4)))
    }

    fn of(bucket: Bucket, last: Option<Bucket>) -> Self {
        let state = State { bucket, last, paused: Duration::ZERO, waiting: [0; LANES] };
        Self(Arc::new(Shared {
            began: Instant::now(),
            state: Mutex::new(state),
            lines: Default::default(),
            changed: Notify::new(),
        }))
    }

    /// The same, without keeping it.
    #[must_use]
    pub fn downgrade(&self) -> WeakBudget {
        WeakBudget(Arc::downgrade(&self.0))
    }

    /// A lane of it, counted from 0, the first one. Beyond the last it is the last.
    #[must_use]
    pub fn lane(&self, number: usize) -> Lane {
        Lane(Some((self.clone(), Picks::One(number))))
    }

    /// All lanes of it: each write goes in the one that this says, by its method and path.
    #[must_use]
    pub fn lanes(&self, pick: fn(&Method, &str) -> usize) -> Lane {
        Lane(Some((self.clone(), Picks::Each(pick))))
    }

    /// Waits for the turn of a write.
    async fn turn(&self, lane: usize) {
        let _waits = Waits::new(&self.0, lane);
        let line = match self.0.lines.get(lane) {
            Some(line) => Some(line.lock().await),
            None => None,
        };
        loop {
            // Before the look, so that no change is missed.
            let changed = self.0.changed.notified();
            let turn = self.0.take(lane);
            match turn {
                Turn::Now => break,
                Turn::At(at) => tokio::time::sleep_until(self.0.began + at).await,
                Turn::Behind => changed.await,
            }
        }
        drop(line);
    }

    /// The server wants no write for this time.
    fn pause(&self, asked: Option<Duration>) {
        let until = self.0.began.elapsed() + asked.unwrap_or(PAUSE).clamp(PAUSE, LONGEST_PAUSE);
        let mut state = self.0.state();
        state.paused = state.paused.max(until);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, lane: usize) -> Turn {
        let mut state = self.state();
        // Read under the lock: to a bucket it must not go back, or a write would wait where nothing is limited.
        let now = self.began.elapsed();
        if state.waiting.iter().take(lane).any(|waiting| *waiting > 0) {
            return Turn::Behind;
        }
        if now < state.paused {
            return Turn::At(state.paused);
        }
        let State { bucket, last, .. } = &mut *state;
        let bucket = if lane + 1 == LANES { last.as_mut().unwrap_or(bucket) } else { bucket };
        let mut after = *bucket;
        let wait = after.reserve(now);
        if !wait.is_zero() {
            return Turn::At(now + wait);
        }
        *bucket = after;
        Turn::Now
    }
}

/// A write that waits, until it goes or is given up.
struct Waits<'a> {
    shared: &'a Shared,
    lane: usize,
}

impl<'a> Waits<'a> {
    fn new(shared: &'a Shared, lane: usize) -> Self {
        if let Some(waiting) = shared.state().waiting.get_mut(lane) {
            *waiting += 1;
        }
        Self { shared, lane }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.shared.state().waiting.get_mut(self.lane) {
            *waiting = waiting.saturating_sub(1);
        }
        self.shared.changed.notify_waiters();
    }
}

/// One lane of a budget, or all of them. The default has no budget: nothing waits in it.
#[derive(Debug, Clone, Default)]
pub struct Lane(Option<(Budget, Picks)>);

/// In which lane a write goes.
#[derive(Debug, Clone, Copy)]
enum Picks {
    /// In this one.
    One(usize),
    /// In the one that this says.
    Each(fn(&Method, &str) -> usize),
}

impl Picks {
    fn lane(self, method: &Method, path: &str) -> usize {
        let lane = match self {
            Self::One(lane) => lane,
            Self::Each(pick) => pick(method, path),
        };
        lane.min(LANES - 1)
    }
}

fn bucket(per_second: u32, burst: u32) -> Bucket {
    Bucket::new(Duration::from_secs(1) / per_second.max(1), burst.max(1))
}

impl<S> Layer<S> for Lane {
    type Service = InLane<S>;

    fn layer(&self, inner: S) -> InLane<S> {
        InLane { lane: self.clone(), inner }
    }
}

/// A client whose writes go in a lane.
#[derive(Debug, Clone)]
pub struct InLane<S> {
    lane: Lane,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for InLane<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    A: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let fresh = self.inner.clone();
        // The one that was made ready, and another in its place.
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let Some((budget, picks)) = self.lane.0.clone().filter(|_| is_write(request.method())) else {
            return Box::pin(inner.call(request));
        };
        let path = request.uri().path();
        // A pod may have that name.
        let is_eviction = *request.method() == Method::POST && path.ends_with(EVICTION);
        let lane = picks.lane(request.method(), path);
        Box::pin(async move {
            budget.turn(lane).await;
            let answer = inner.call(request).await?;
            if answer.status() == StatusCode::TOO_MANY_REQUESTS && !is_eviction {
                budget.pause(retry_after(&answer));
            }
            Ok(answer)
        })
    }
}

fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn retry_after<B>(answer: &Response<B>) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::{join_all, poll_immediate};
    use http::HeaderValue;
    use tower::ServiceExt;

    use super::*;

    type Went = Arc<Mutex<Vec<(String, u64)>>>;

    /// A server that notes what came and when, in hundredths of a second, and answers 429 to the first few writes.
    struct Server {
        budget: Budget,
        went: Went,
        refused: Arc<AtomicUsize>,
        asks: Option<HeaderValue>,
    }

    impl Server {
        fn new(per_second: u32) -> Self {
            let (went, refused) = (Went::default(), Arc::default());
            Self { budget: Budget::new(per_second), went, refused, asks: None }
        }

        fn send(&self, lane: usize, method: &str, name: &str) -> BoxFuture<'static, StatusCode> {
            self.send_in(&self.budget.lane(lane), method, name)
        }

        fn send_in(&self, lane: &Lane, method: &str, name: &str) -> BoxFuture<'static, StatusCode> {
            let (went, began) = (Arc::clone(&self.went), self.budget.0.began);
            let (refused, asks) = (Arc::clone(&self.refused), self.asks.clone());
            let serve = move |request: Request<()>| {
                // A timer may fire a millisecond late.
                let at = u64::try_from(began.elapsed().as_millis() + 5).unwrap() / 10;
                went.lock().unwrap().push((request.uri().path().trim_start_matches('/').to_owned(), at));
                let refuses = refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
                let mut answer = Response::new(());
                if refuses {
                    *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                    answer.headers_mut().extend(asks.clone().map(|asks| (RETRY_AFTER, asks)));
                }
                async move { Ok::<_, Infallible>(answer) }
            };
            let request = Request::builder().method(method).uri(format!("/{name}")).body(()).unwrap();
            let client = lane.layer(tower::service_fn(serve));
            async move { client.oneshot(request).await.unwrap().status() }.boxed()
        }

        fn went(&self) -> Vec<(String, u64)> {
            std::mem::take(&mut self.went.lock().unwrap())
        }
    }

    fn row(name: &str, at: u64) -> (String, u64) {
        (name.to_owned(), at)
    }

    #[tokio::test(start_paused = true)]
    async fn writes_beyond_the_budget_wait_in_order_and_reads_wait_for_nothing() {
        let server = Server::new(10);
        let all = ["a", "b", "c", "d"].map(|name| server.send(1, "PATCH", name));
        join_all(all.into_iter().chain([server.send(1, "GET", "read")])).await;
        let wanted = [row("a", 0), row("b", 0), row("read", 0), row("c", 10), row("d", 20)];
        assert_eq!(server.went(), wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_what_goes_at_once_and_without_a_limit_nothing_waits_but_for_the_server() {
        let server = Server { budget: Budget::with_burst(10, 3), ..Server::new(10) };
        join_all(["a", "b", "c", "d"].map(|name| server.send(1, "PATCH", name))).await;
        assert_eq!(server.went(), [row("a", 0), row("b", 0), row("c", 0), row("d", 10)]);
        let server = Server { budget: Budget::unlimited(), ..Server::new(10) };
        server.refused.store(1, Ordering::SeqCst);
        assert_eq!(server.send(1, "PATCH", "refused").await, StatusCode::TOO_MANY_REQUESTS);
        join_all((0..500).map(|_| server.send(1, "PATCH", "many"))).await;
        let went = server.went();
        assert_eq!(went.iter().filter(|(name, at)| name == "many" && *at == 100).count(), 500, "{went:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_lane_goes_first_however_many_wait_in_a_later_one() {
        let server = Server::new(10);
        let many = (0..6).map(|number| server.send(1, "DELETE", &format!("pod{number}"))).collect::<Vec<_>>();
        let mut many = Box::pin(join_all(many));
        assert!(poll_immediate(&mut many).await.is_none());
        let claims = join_all(["claim0", "claim1"].map(|name| server.send(0, "PATCH", name)));
        futures::future::join(many, claims).await;
        let names: Vec<String> = server.went().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["pod0", "pod1", "claim0", "claim1", "pod2", "pod3", "pod4", "pod5"]);
    }

    #[tokio::test(start_paused = true)]
    async fn s21_each_write_goes_in_its_own_lane_and_the_last_one_alone_has_a_rate_of_its_own() {
        let server = Server { budget: Budget::limited_at_last(10), ..Server::new(1) };
        let lanes = server.budget.lanes(|method, path| match path {
            "/first" if *method == Method::PATCH => 0,
            "/second" => 1,
            _ => 99,
        });
        let send = |method: &str, name: &str| server.send_in(&lanes, method, name);
        // Two at once, and ten per second from then on; nothing else waits.
        let many = (0..4).map(|_| send("PATCH", "other")).chain((0..50).map(|_| send("PATCH", "first")));
        join_all(many).await;
        let went = server.went();
        assert_eq!(went.iter().filter(|(name, at)| name == "first" && *at == 0).count(), 50);
        let others: Vec<u64> = went.iter().filter(|(name, _)| name == "other").map(|(_, at)| *at).collect();
        assert_eq!(others, [0, 0, 10, 20]);
        // The server has enough: what is urgent is first afterwards, whatever came first.
        server.refused.store(1, Ordering::SeqCst);
        send("PATCH", "second").await;
        let (second, first) = (send("PATCH", "second"), send("PATCH", "first"));
        futures::future::join(second, first).await;
        let names: Vec<String> = server.went().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["second", "first", "second"]);
    }

    #[tokio::test(start_paused = true)]
    async fn s10_a_disruption_budget_that_allows_nothing_is_no_server_that_has_enough() {
        let server = Server::new(10);
        server.refused.store(1, Ordering::SeqCst);
        assert_eq!(server.send(3, "POST", "pods/p/eviction").await, StatusCode::TOO_MANY_REQUESTS);
        server.send(0, "PATCH", "node").await;
        assert_eq!(server.went(), [row("pods/p/eviction", 0), row("node", 0)]);
        // One that deletes a pod of that name is another.
        let server = Server::new(10);
        server.refused.store(1, Ordering::SeqCst);
        assert_eq!(server.send(3, "DELETE", "pods/eviction").await, StatusCode::TOO_MANY_REQUESTS);
        server.send(0, "PATCH", "node").await;
        assert_eq!(server.went(), [row("pods/eviction", 0), row("node", 100)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_given_up_gives_up_its_place() {
        let server = Server::new(10);
        join_all(["a", "b"].map(|name| server.send(0, "PATCH", name))).await;
        let mut given_up = server.send(0, "PATCH", "never");
        assert!(poll_immediate(&mut given_up).await.is_none());
        let later = server.send(1, "PATCH", "later");
        drop(given_up);
        later.await;
        assert_eq!(server.went(), [row("a", 0), row("b", 0), row("later", 10)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_429_is_left_alone_for_as_long_as_it_asks() {
        for (asks, pause) in
            [(Some("3"), 300), (None, 100), (Some("0"), 100), (Some("86400"), 3000), (Some("soon"), 100)]
        {
            let server = Server { asks: asks.map(HeaderValue::from_static), ..Server::new(10) };
            server.refused.store(1, Ordering::SeqCst);
            assert_eq!(server.send(1, "PATCH", "a").await, StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(server.send(0, "PATCH", "b").await, StatusCode::OK, "what was refused is not tried again here");
            assert_eq!(server.went(), [row("a", 0), row("b", pause)], "{asks:?}");
        }
    }
}
