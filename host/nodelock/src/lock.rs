//! The node lock, for a program that binds pods: the extender of this process, or a scheduler in Rust.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use topoloom_core::nodelock::attempt::{Attempt, AttemptOutcome, BindFailure, Bound, Request, What};
use topoloom_core::nodelock::needs::{LockKey, NodeKind};
use topoloom_core::nodelock::sightings::{Blocks, PodSighting};
use topoloom_core::nodelock::{NodeName, OrphanReason, PodId, Uid};
use topoloom_core::text;

use super::carry::{Carrier, Flight, Landed, stamp, value_of};
use super::crowd::{BindSeat, Crowd, CrowdBounds};
pub use super::options::Options;
use super::queue::{Id, Queues, Turns};
use topoloom_cluster::gate::{Closed, ReadOnly, Switch};

/// The variable in which the original protocol has the time after which a lock expires (A3).
pub const EXPIRE_VARIABLE: &str = "HAMI_NODELOCK_EXPIRE";
/// How long a Bind has at most: half of the longest time after which locks may expire (decision N3).
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// What that time is by default.
pub const EXPIRE_DEFAULT: Duration = Duration::from_secs(300);

/// The outcome of a Bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindReport {
    /// Whether the pod is bound to the node.
    pub result: Result<Bound, BindFailure>,
    /// The keys that it needed.
    pub keys: Vec<LockKey>,
    /// What the node is, as far as that was looked at: on a virtual one, none of the keys is locked (decision S27).
    pub node: NodeKind,
    /// A lock of this attempt may be left on the node.
    pub kept: bool,
    /// How long the lock was waited for, others of this process included.
    pub waited: Duration,
    /// Why locks of others were taken.
    pub took: Vec<OrphanReason>,
}

impl BindReport {
    /// It is a defect. Everything that the attempt held is dropped; the sweeper handles what it wrote.
    fn broke() -> Self {
        Self {
            result: Err(BindFailure::Broke),
            keys: Vec::new(),
            node: NodeKind::Machine,
            kept: true,
            waited: Duration::ZERO,
            took: Vec::new(),
        }
    }
}

/// Observes one Bind, also one whose caller is gone. Both methods are called exactly once, in this order.
pub trait Observer: Send + 'static {
    /// The Bind has ended, and its caller does not have the report yet.
    fn ended(&mut self, report: &BindReport);

    /// The caller has the report, or is gone. What takes time belongs here.
    fn answered(self, report: &BindReport);
}

/// Observes nothing.
impl Observer for () {
    fn ended(&mut self, _: &BindReport) {}

    fn answered(self, _: &BindReport) {}
}

/// The node lock of a process.
pub struct NodeLock {
    carrier: Carrier,
    options: Options,
    queues: Queues<NodeName>,
    /// Pods that are being bound, by UID: one at a time, so that a scheduler that asks twice is answered twice the same.
    flights: Queues<Uid>,
    crowd: Arc<Crowd>,
    switch: Switch,
    closing: CancellationToken,
    tasks: TaskTracker,
}

/// How long a Bind has, and whether its caller still waits.
struct Patience<'a> {
    /// By the steady clock.
    until: Duration,
    gone: &'a CancellationToken,
}

impl NodeLock {
    /// One for this process, without a limit on Binds.
    #[must_use]
    pub fn new(carrier: Carrier, options: Options) -> Arc<Self> {
        Self::bounded(carrier, options, CrowdBounds::NONE, Switch::new(ReadOnly::No))
    }

    /// One for this process, for so many Binds at a time. They wait until it is known whether this switch is on.
    #[must_use]
    pub fn bounded(carrier: Carrier, options: Options, bounds: CrowdBounds, switch: Switch) -> Arc<Self> {
        let (queues, flights, crowd) = (Queues::default(), Queues::default(), Crowd::new(bounds));
        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        Arc::new(Self { carrier, options, queues, flights, crowd, switch, closing, tasks })
    }

    /// Binds a pod to a node, within this time (12 h at most). The pod is identified by its UID.
    ///
    /// Dropping this before it ends gives up: the attempt still ends by itself, and removes what it wrote.
    /// [`NodeLock::finish`] waits for that.
    pub async fn bind(self: &Arc<Self>, pod: PodId, node: NodeName, within: Duration) -> BindReport {
        self.bind_observed(pod, node, within, ()).await
    }

    /// Like [`NodeLock::bind`], and `observer` is notified of the end, also if the caller is gone.
    pub async fn bind_observed(
        self: &Arc<Self>,
        pod: PodId,
        node: NodeName,
        within: Duration,
        mut observer: impl Observer,
    ) -> BindReport {
        let gone = CancellationToken::new();
        let _dropped = gone.clone().drop_guard();
        let lock = Arc::clone(self);
        let (send, receive) = oneshot::channel();
        self.tasks.spawn(async move {
            let flight = lock.fly(pod.clone(), node.clone(), within, gone);
            // What is seen after a panic is what other attempts share too, and each locks it for a change that is whole.
            let report = AssertUnwindSafe(flight).catch_unwind().await.unwrap_or_else(|panic| {
                tracing::error!(%pod, node = &*node, panic = text::of_panic(&*panic), "a Bind crashed");
                BindReport::broke()
            });
            observer.ended(&report);
            // The caller may be gone.
            let _ = send.send(report.clone());
            // The caller goes first.
            tokio::task::yield_now().await;
            observer.answered(&report);
        });
        receive.await.unwrap_or_else(|_| BindReport::broke())
    }

    /// How many attempts are under way, those included whose callers gave up.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.tasks.len()
    }

    /// How many of those wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.crowd.waiting()
    }

    /// All waiting ends, for a lock or for a turn: an attempt that would have to wait is answered that this process stops. What is under way is
    /// brought to its end.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until no attempt is under way. New ones may still be begun.
    pub async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn fly(&self, pod: PodId, node: NodeName, within: Duration, gone: CancellationToken) -> BindReport {
        let view = self.carrier.view();
        let (begun, wall, within) = (view.now(), Timestamp::now(), within.min(LONGEST));
        let (until, deadline) = (begun + within, wall + within);
        let mut report = BindReport {
            result: Err(BindFailure::TooLate),
            keys: Vec::new(),
            node: NodeKind::Machine,
            kept: false,
            waited: Duration::ZERO,
            took: Vec::new(),
        };
        let patience = Patience { until, gone: &gone };
        let mut place = match self.crowd.enter(&node) {
            Ok(place) => place,
            Err(full) => return BindReport { result: Err(BindFailure::Crowded { node, full, held: None }), ..report },
        };
        if let Err(failure) = self.switched(&patience, &mut place, &node).await {
            return BindReport { result: Err(failure), ..report };
        }
        let of_pod = self.flights.turn(&pod.uid, &[LockKey::Shared]);
        let _flight = match self.queued(&patience, &mut place, &node, &[], of_pod).await {
            Ok(turn) => turn,
            Err(failure) => return BindReport { result: Err(failure), ..report },
        };
        let found = match self.in_time(&patience, self.find(&pod)).await {
            Ok(found) => found,
            Err(failure) => Err(failure),
        };
        let PodSighting { pod: found, keys } = match found {
            Ok(found) => found,
            Err(failure) => return BindReport { result: Err(failure), ..report },
        };
        report.keys.clone_from(&keys);
        let before = view.now();
        let turn = self.queued(&patience, &mut place, &node, &keys, self.queues.turn(&node, &keys)).await;
        report.waited = view.now().saturating_sub(before);
        let _turn = match turn {
            Ok(turn) => turn,
            Err(failure) => return BindReport { result: Err(failure), ..report },
        };

        let token = self.carrier.token();
        let time = stamp(wall, token);
        let keys: Vec<_> = keys.into_iter().map(|key| (key, value_of(key, time, &pod))).collect();
        let request = Request {
            pod: pod.clone(),
            node: node.clone(),
            values: keys.iter().map(|(_, value)| value.clone()).collect(),
            deadline: until,
            ttl: self.options.ttl,
            takeover: self.options.takeover,
            retry: self.options.retry,
        };
        let (attempt, at) = (Attempt::new(request, Some(found)), node.clone());
        let flight = Flight { attempt, pod, node, keys, token, until, deadline, place, closing: self.closing.clone() };
        let Landed { outcome: AttemptOutcome { result, kept }, attempt, waited } =
            self.carrier.carry(flight, &gone).await;
        let waited = report.waited + waited;
        let result = result.map_err(|failure| failure.after(waited, within, &at));
        BindReport { result, node: attempt.node(), kept, waited, took: attempt.took().to_vec(), ..report }
    }

    /// The pod, if its UID is the requested one.
    async fn find(&self, pod: &PodId) -> Result<PodSighting, BindFailure> {
        let retry = self.options.retry;
        let mut failed = 0;
        loop {
            match self.carrier.find(pod).await {
                Ok(Some(seen)) if seen.pod.key == *pod => return Ok(seen),
                Ok(Some(other)) => return Err(BindFailure::PodReplaced(other.pod.key.uid)),
                Ok(None) => return Err(BindFailure::PodGone),
                Err(refusal) => {
                    failed += 1;
                    match retry.pause(failed, 0.0) {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(BindFailure::Unanswered(What::Read, failed, refusal.message.into())),
                    }
                }
            }
        }
    }

    /// Waits until it is known whether writes are switched off, which the first moments of a process do not know, and while
    /// the caches are read again.
    async fn switched(
        &self,
        patience: &Patience<'_>,
        place: &mut BindSeat,
        node: &NodeName,
    ) -> Result<(), BindFailure> {
        let Err(Closed::Unknown(_) | Closed::Outdated(_)) = self.switch.check() else { return Ok(()) };
        if let Err(full) = place.wait() {
            return Err(BindFailure::Crowded { node: node.clone(), full, held: None });
        }
        match (self.in_time(patience, self.switch.known()).await, self.switch.check()) {
            (Err(BindFailure::TooLate), Err(closed)) => {
                Err(BindFailure::Refused(What::Claim, closed.to_string().into()))
            }
            (ended, _) => ended,
        }
    }

    /// A turn in a queue. An attempt that does not have it at once needs a seat to wait in.
    async fn queued<'q, K: Id + 'q>(
        &self,
        patience: &Patience<'_>,
        place: &mut BindSeat,
        node: &NodeName,
        keys: &[LockKey],
        turn: impl Future<Output = Turns<'q, K>>,
    ) -> Result<Turns<'q, K>, BindFailure> {
        let mut turn = std::pin::pin!(turn);
        if let Poll::Ready(turn) = futures::poll!(&mut turn) {
            return Ok(turn);
        }
        let view = self.carrier.view();
        let held = || view.blocked(node, keys, &self.options, Blocks::Held);
        if let Err(full) = place.wait() {
            return Err(BindFailure::Crowded { node: node.clone(), full, held: held() });
        }
        match self.in_time(patience, turn).await {
            // A turn after the deadline counts as none.
            Ok(turn) if view.now() < patience.until => Ok(turn),
            Ok(_) | Err(BindFailure::TooLate) => Err(BindFailure::Behind { node: node.clone(), held: held() }),
            Err(BindFailure::GaveUp(_)) => Err(BindFailure::GaveUp(held())),
            Err(failure) => Err(failure),
        }
    }

    /// The result of this, unless the caller gives up or the time ends first, or this process stops.
    async fn in_time<T>(&self, patience: &Patience<'_>, what: impl Future<Output = T>) -> Result<T, BindFailure> {
        tokio::select! {
            biased;
            done = what => Ok(done),
            () = patience.gone.cancelled() => Err(BindFailure::GaveUp(None)),
            () = self.closing.cancelled() => Err(BindFailure::Stopping),
            () = tokio::time::sleep_until(self.carrier.view().at(patience.until)) => Err(BindFailure::TooLate),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kube::client::Body;
    use prometheus_client::metrics::histogram::Histogram;
    use topoloom_core::nodelock::needs::Backend;

    use topoloom_core::nodelock::{Retry, Takeover};

    use super::*;
    use crate::requests::Requests;
    use crate::view::View;

    type Answered = Result<http::Response<Body>, std::io::Error>;

    /// A lock whose API server never answers.
    fn lock() -> Arc<NodeLock> {
        lock_that(std::future::pending)
    }

    /// A lock for whose requests this is done.
    fn lock_that<F: Future<Output = Answered> + Send + 'static>(
        does: impl Fn() -> F + Send + Sync + Clone + 'static,
    ) -> Arc<NodeLock> {
        lock_behind(does, CrowdBounds::NONE, Switch::new(ReadOnly::No))
    }

    /// The same within bounds and behind a switch.
    fn lock_behind<F: Future<Output = Answered> + Send + 'static>(
        does: impl Fn() -> F + Send + Sync + Clone + 'static,
        bounds: CrowdBounds,
        switch: Switch,
    ) -> Arc<NodeLock> {
        let service = tower::service_fn(move |_: http::Request<Body>| does());
        let backends: Arc<[Backend]> = Backend::known().into();
        let view = Arc::new(View::new(Arc::clone(&backends), Histogram::new([])));
        let requests = Requests::new(kube::Client::new(service, "default"), backends);
        let options = Options { ttl: EXPIRE_DEFAULT, takeover: Takeover::State, retry: Retry::CLASSIC };
        NodeLock::bounded(Carrier::new(view, requests, "one".into(), 1), options, bounds, switch)
    }

    fn pod() -> PodId {
        PodId { namespace: "default".into(), name: "p".into(), uid: "u".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bind_waits_until_it_is_known_whether_writes_are_switched_off_and_says_why_it_is_not() {
        let switch = Switch::unknown("the ConfigMap a/b was not read yet");
        let lock = lock_behind(std::future::pending, CrowdBounds::NONE, switch.clone());
        let within = Duration::from_secs(28);
        let mut waits = std::pin::pin!(lock.bind(pod(), "n".into(), within));
        let early = tokio::time::timeout(within / 2, &mut waits).await;
        assert!(early.is_err() && lock.waiting() == 1, "{early:?}");
        switch.still_unknown("the ConfigMap a/b cannot be read: it is forbidden");
        let Err(failure) = waits.await.result else { panic!("nothing is known") };
        let message = failure.to_string();
        assert!(
            message.starts_with("writing the lock onto the node was refused: ") && message.ends_with("it is forbidden"),
            "{message}"
        );
        // Once it is known, the Bind continues.
        let mut waits = std::pin::pin!(lock.bind(pod(), "n".into(), within));
        assert!(tokio::time::timeout(within / 2, &mut waits).await.is_err());
        switch.set(ReadOnly::No);
        assert_eq!(waits.await.result, Err(BindFailure::TooLate), "the API server never answers");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_bind_is_answered_when_the_process_stops_and_one_that_works_goes_on() {
        let lock = lock();
        let within = Duration::from_secs(28);
        let mut works = std::pin::pin!(lock.bind(pod(), "n".into(), within));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut works).await.is_err());
        // The same pod once more: it waits for the first one.
        let mut waits = std::pin::pin!(lock.bind(pod(), "n".into(), within));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut waits).await.is_err());
        let began = tokio::time::Instant::now();
        lock.close();
        assert_eq!(waits.await.result, Err(BindFailure::Stopping));
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bind_that_may_not_wait_is_answered_at_once_and_one_that_need_not_is_let_in() {
        let lock =
            lock_behind(std::future::pending, CrowdBounds { waiting: 0, under_way: 2 }, Switch::new(ReadOnly::No));
        let within = Duration::from_secs(28);
        let mut works = std::pin::pin!(lock.bind(pod(), "n".into(), within));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut works).await.is_err());
        let answer = lock.bind(pod(), "n".into(), within).now_or_never();
        let answer = match answer {
            Some(report) => report,
            None => tokio::time::timeout(Duration::from_millis(1), lock.bind(pod(), "n".into(), within)).await.unwrap(),
        };
        let full = topoloom_core::nodelock::attempt::Full::Waiting(0);
        assert_eq!(answer.result, Err(BindFailure::Crowded { node: "n".into(), full, held: None }));
        let mut other = pod();
        other.uid = "u2".into();
        let mut more = std::pin::pin!(lock.bind(other, "n".into(), within));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut more).await.is_err(), "it need not wait");
    }

    /// Which of its methods were called, and in which order.
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<Vec<&'static str>>>);

    impl Calls {
        fn all(&self) -> Vec<&'static str> {
            self.0.lock().unwrap().clone()
        }
    }

    impl Observer for Calls {
        fn ended(&mut self, _: &BindReport) {
            self.0.lock().unwrap().push("ended");
        }

        fn answered(self, _: &BindReport) {
            self.0.lock().unwrap().push("answered");
        }
    }

    /// Breaks when the Bind ends.
    struct Breaks;

    impl Observer for Breaks {
        fn ended(&mut self, _: &BindReport) {
            panic!("a defect")
        }

        fn answered(self, _: &BindReport) {}
    }

    #[tokio::test]
    async fn the_caller_has_the_report_before_the_observer_goes_on_which_it_does_also_if_the_caller_is_gone() {
        let (lock, calls) = (lock(), Calls::default());
        let report = lock.bind_observed(pod(), "n".into(), Duration::ZERO, calls.clone()).await;
        assert_eq!(report.result, Err(BindFailure::TooLate));
        assert_eq!(calls.all(), ["ended"]);
        let left = lock.bind_observed(pod(), "n".into(), EXPIRE_DEFAULT, calls.clone()).now_or_never();
        assert_eq!((left, lock.under_way()), (None, 2));
        lock.finish().await;
        let mut all = calls.all();
        all.sort_unstable();
        assert_eq!(all, ["answered", "answered", "ended", "ended"]);
    }

    #[tokio::test]
    async fn an_attempt_that_breaks_is_observed_as_any_other_and_its_panic_is_for_the_log_only() {
        let (lock, calls) = (lock_that(async || -> Answered { panic!("a secret") }), Calls::default());
        // Twice: the turn of the pod is let go.
        for _ in 0..2 {
            let report = lock.bind_observed(pod(), "n".into(), EXPIRE_DEFAULT, calls.clone()).await;
            assert_eq!(report, BindReport::broke());
            assert!(report.kept && !format!("{report:?}").contains("secret"));
        }
        lock.finish().await;
        assert_eq!(calls.all(), ["ended", "answered", "ended", "answered"]);
    }

    #[tokio::test]
    async fn the_caller_is_answered_also_where_the_observer_breaks() {
        assert_eq!(lock().bind_observed(pod(), "n".into(), Duration::ZERO, Breaks).await, BindReport::broke());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bind_without_an_end_gets_one_and_is_tried_as_any_other() {
        let report = lock().bind(pod(), "n".into(), Duration::MAX).await;
        assert!(matches!(report.result, Err(BindFailure::Unanswered(What::Read, ..))), "{report:?}");
    }
}
