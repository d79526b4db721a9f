//! The sweeper: finds orphaned locks, and reports or removes them (requirements R11 and R12, decisions N6 and N9).
//!
//! One node at a time, by what the watches show of it. It never claims anything, and never takes the lock of a pod that may
//! still be served: what it removes, it removes in exactly the version in which that was judged.
//!
//! # Failure story
//!
//! A node whose sweep fails is swept again, after a pause that grows. A conflict is no failure: the watch shows what
//! changed the node, and the node is looked at again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use topoloom_core::nodelock::go_duration::Go;
use topoloom_core::nodelock::needs::LockKey;
use topoloom_core::nodelock::sweep::{FoundLock, Mode, Sweep, SweepFinding};
use topoloom_core::nodelock::watchlist::{LINGER, SweepVerdict, Watchlist};
use topoloom_core::nodelock::{
    Lock, LockState, NamedHolder, NodeName, OrphanReason, PodKey, Sightings, Takeover, Uid, Why,
};
use topoloom_core::text;

use super::carry::Carrier;
use super::metrics::{Done, SweepMetrics};
use super::options::Options;
use topoloom_cluster::Refusal;
use topoloom_cluster::events::{EventText, Events, Urgency};
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome};

/// The longest value of a lock that goes into the log, in bytes: one that names a pod has some 530 at most, and 100 usually.
const VALUE: usize = 600;

/// What the sweeper does about orphaned locks.
pub use topoloom_core::nodelock::sweep::Mode as SweepMode;

/// Sweeps nodes.
pub struct Sweeper {
    /// Reads and writes.
    pub carrier: Carrier,
    /// When locks expire.
    pub terms: Options,
    /// Whether it removes.
    pub mode: Mode,
    /// Events on Nodes and Pods.
    pub events: Events,
    /// Counts.
    pub metrics: SweepMetrics,
    /// How nodes were found.
    pub nodes: Mutex<Watchlist>,
}

impl Sweeper {
    fn lock(&self) -> MutexGuard<'_, Watchlist> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node_uid(&self, node: &str) -> Option<Uid> {
        self.carrier.view().known(|known| known.node_uid(node))
    }

    /// Whether there is anything to do about a node.
    pub fn concerns(&self, node: &str) -> bool {
        self.carrier.view().known(|known| known.concerns(node)) || self.lock().knows(node)
    }

    async fn look(&self, node: &NodeName, mode: Mode) -> Result<Sweep, Refusal> {
        // Take-over by age must replace the lock in one write; deleting it would hand the node back to the old pod. So the
        // sweeper never uses `age`.
        let mut sweep = Sweep::new(node.clone(), self.terms.ttl, Takeover::State, mode);
        self.carrier.sweep(node, &mut sweep).await?;
        Ok(sweep)
    }

    async fn sweep(&self, node: &NodeName) -> Result<WorkOutcome, Refusal> {
        let mut sweep = self.look(node, Mode::Report).await?;
        let now = self.carrier.view().now();
        let SweepVerdict { report, linger } = self.enter(node, &sweep, now);
        for stands in report {
            self.report(node, &stands).await;
        }
        if let Some(left) = linger {
            return Ok(WorkOutcome::Again(left));
        }
        if !sweep.findings().is_empty() && self.mode == Mode::Repair {
            let found = sweep.stands().to_vec();
            sweep = self.look(node, Mode::Repair).await?;
            if sweep.removed() {
                for finding in sweep.findings() {
                    let pod = found
                        .iter()
                        .find(|stands| stands.value.as_ref() == Some(&finding.value))
                        .and_then(|it| it.pod.as_ref());
                    self.removed(node, finding, pod).await;
                }
            }
            // Removed or not, the watch shows the present lock, and a look before that does no harm.
            return Ok(WorkOutcome::Again(LINGER));
        }
        Ok(again(&sweep))
    }

    /// Enters what was found, and counts it.
    fn enter(&self, node: &NodeName, sweep: &Sweep, now: Duration) -> SweepVerdict {
        let mut nodes = self.lock();
        let verdict = nodes.enter(node, sweep.stands(), self.mode, now);
        let counts: Vec<_> = nodes.counts().collect();
        self.metrics.states(&counts);
        self.metrics.longest_stuck(nodes.longest_stuck(now));
        verdict
    }

    /// An Event on the node, and on the pod that it is about.
    async fn report(&self, node: &NodeName, stands: &FoundLock) {
        let key = annotation(stands.key);
        let value = stands.value.as_deref().unwrap_or_default();
        let of = stands.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
        let (reason, note) = match &stands.state {
            LockState::Held(held) if held.why == Why::Stuck => {
                let longer = Go(self.terms.ttl);
                let next = match self.terms.takeover {
                    Takeover::State => "No other pod gets the node until its device plugin answers, or the pod ends",
                    Takeover::Age => {
                        "The next pod that needs the node takes over the lock anyway (--node-lock-takeover=age)"
                    }
                };
                let note = format!(
                    "the lock {key}{of} has been held for longer than {longer}: {}. {next}; see `topoloom lock explain {node}`",
                    held.why
                );
                ("NodeLockStuck", note)
            }
            LockState::Held(held) => {
                let left =
                    held.left.map(|left| format!(", for at least {} more", Go(Duration::from_secs(left.as_secs()))));
                let wrong = match Lock::read(value, None).named {
                    NamedHolder::Unparsable(wrong) => format!(" ({wrong})"),
                    _ => String::new(),
                };
                let note =
                    format!("the lock {key} has no known holder: {}{}{wrong}", held.why, left.unwrap_or_default());
                ("NodeLockUnreadable", note)
            }
            LockState::Over(reason) => {
                let note = format!(
                    "the lock {key}{of} is orphaned: {reason}. The sweeper does not remove it \
                        (--nodelock-sweep=report); `topoloom lock release {node}` removes it"
                );
                ("NodeLockLeaked", note)
            }
        };
        if let LockState::Over(reason) = &stands.state {
            self.metrics.found(*reason, Done::Reported);
        }
        tracing::warn!(node = &**node, key, value = text::line(value, VALUE), state = stands.word(), "{note}");
        let text = EventText { reason, action: "Locking", note: &note };
        self.events.node(node, self.node_uid(node).as_deref(), Urgency::Warning, text).await;
        if let Some(pod) = stands.pod.as_ref().filter(|_| reason == "NodeLockStuck").and_then(PodKey::id) {
            self.events.pod(&pod, Urgency::Warning, text).await;
        }
    }

    async fn removed(&self, node: &NodeName, finding: &SweepFinding, pod: Option<&PodKey>) {
        let SweepFinding { key, value, reason } = finding;
        let key = annotation(*key);
        self.metrics.found(*reason, Done::Removed);
        let of = pod.map(|pod| format!(" of pod {pod}")).unwrap_or_default();
        let note = format!("the lock {key}{of} was removed, since it was orphaned: {reason}");
        tracing::warn!(node = &**node, key, value = text::line(value, VALUE), reason = reason.word(), "{note}");
        let text = EventText { reason: "NodeLockRemoved", action: "Locking", note: &note };
        self.events.node(node, self.node_uid(node).as_deref(), Urgency::Normal, text).await;
        // There is no pod for an Event where it is gone.
        if let Some(pod) = pod.filter(|_| *reason != OrphanReason::Gone).and_then(PodKey::id) {
            self.events.pod(&pod, Urgency::Normal, text).await;
        }
    }
}

impl Work<NodeName> for Sweeper {
    type Error = Refusal;

    async fn work(&self, node: &NodeName) -> Result<WorkOutcome, Refusal> {
        self.sweep(node).await
    }

    fn dropped(&self, node: &NodeName, failure: &WorkFailure<Refusal>) {
        tracing::warn!(node = &**node, error = %failure, "the sweeper could not read what it needs to know about the locks of a node");
    }

    fn all(&self) -> Vec<NodeName> {
        self.carrier.view().known(Sightings::locked)
    }
}

/// When the next sweep is due although no watch shows anything: when a lock expires.
fn again(sweep: &Sweep) -> WorkOutcome {
    let left = sweep.stands().iter().filter_map(|stands| match &stands.state {
        LockState::Held(held) => held.left,
        LockState::Over(_) => None,
    });
    // A lock expires when it is older than its time, not at it.
    left.min().map_or(WorkOutcome::Done, |left| WorkOutcome::Again(left + Duration::from_millis(1)))
}

fn annotation(key: usize) -> &'static str {
    LockKey::ALL.get(key).map_or("", |key| key.annotation())
}
