//! The sweeper: finds locks that nobody holds, and says so or removes them (requirements R11 and R12, decisions N6 and N9).
//!
//! One node at a time, by what the watches tell of it. It never claims anything, and never robs who may still be served:
//! whatever it removes it removes in exactly the version in which it was judged.
//!
//! # Failure story
//!
//! A node whose sweep fails comes again, with a pause that grows. A conflict is no failure: whatever changed the node is
//! heard of, and the node is looked at again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use topoloom_core::nodelock::go_duration::Go;
use topoloom_core::nodelock::needs::Key;
use topoloom_core::nodelock::sweep::{Finding, Stands, Sweep};
use topoloom_core::nodelock::{Lock, Named, PodKey, Reason, Standing, Takeover, Why};
use topoloom_core::text;

use super::carry::Carrier;
use super::lock::Options;
use super::metrics::{Done, LEAKED, SweepMetrics};
use crate::cluster::Refusal;
use crate::cluster::events::{Events, Told, Urgency};
use crate::work::{Failure, Outcome, Work};

/// How long a device plugin that has answered may take to give a lock back itself.
const LINGER: Duration = Duration::from_secs(1);
/// The longest value of a lock that goes into the log, in bytes: one that names a pod has some 530 at most, and 100 usually.
const VALUE: usize = 600;

/// What the sweeper does about orphaned locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepMode {
    /// Report them.
    Report,
    /// Remove them.
    Repair,
}

/// Sweeps nodes.
pub struct Sweeper {
    /// Reads and writes.
    pub carrier: Carrier,
    /// When locks expire.
    pub terms: Options,
    /// Whether it removes.
    pub mode: SweepMode,
    /// Events on Nodes and Pods.
    pub events: Events,
    /// Counts.
    pub metrics: SweepMetrics,
    /// How nodes were found.
    pub nodes: Mutex<Nodes>,
}

/// How nodes were found, and how many in each way: a sweep of one node costs no look at the others.
#[derive(Debug, Default)]
pub struct Nodes {
    known: HashMap<Arc<str>, Known>,
    /// Locks by their word.
    counts: BTreeMap<&'static str, usize>,
    /// Nodes with a stuck lock, and since when it has been seen.
    stuck: BTreeMap<Arc<str>, Duration>,
}

impl Nodes {
    /// A node is about to be known otherwise: it counts no more.
    fn uncounted(&mut self, node: &str) {
        for stands in self.known.get(node).into_iter().flat_map(|known| &known.stands) {
            if let Some(count) = self.counts.get_mut(word(stands)) {
                *count = count.saturating_sub(1);
            }
        }
        self.stuck.remove(node);
    }

    /// It counts as it is known now.
    fn counted(&mut self, node: &Arc<str>) {
        let Some(known) = self.known.get(node) else { return };
        for stands in &known.stands {
            *self.counts.entry(word(stands)).or_default() += 1;
        }
        let stuck = known.stands.iter().filter(|stands| word(stands) == Why::Stuck.word());
        let seen = stuck.filter_map(|stands| Some(known.values.get(stands.value.as_ref()?)?.seen)).min();
        if let Some(seen) = seen {
            self.stuck.insert(Arc::clone(node), seen);
        }
    }
}

/// What is known of a node since it was looked at first.
#[derive(Debug, Default)]
struct Known {
    stands: Vec<Stands>,
    /// By value: since when it counts as nobody's, and what was said about it.
    values: HashMap<Arc<str>, Value>,
    /// A pod that is there without a lock, of which was told.
    bare: Option<PodKey>,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    seen: Duration,
    leaked: Option<Duration>,
    told: Option<&'static str>,
}

impl Sweeper {
    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is anything to do about a node.
    pub fn concerns(&self, node: &str) -> bool {
        self.carrier.view().concerns(node) || self.lock().known.contains_key(node)
    }

    async fn look(&self, node: &Arc<str>, report: bool) -> Result<Sweep, Refusal> {
        // Who robs for age writes a lock of its own at once: a node without one would belong to the robbed pod again.
        let mut sweep = Sweep::new(Arc::clone(node), self.terms.ttl, Takeover::State, report);
        self.carrier.sweep(node, &mut sweep).await?;
        Ok(sweep)
    }

    async fn sweep(&self, node: &Arc<str>) -> Result<Outcome, Refusal> {
        let mut sweep = self.look(node, true).await?;
        let now = self.carrier.view().now();
        let (told, linger) = self.enter(node, &sweep, now);
        for (stands, word) in told {
            self.tell(node, &stands, word).await;
        }
        if let Some(left) = linger {
            return Ok(Outcome::Again(left));
        }
        if !sweep.findings().is_empty() && self.mode == SweepMode::Repair {
            let said = sweep.stands().to_vec();
            sweep = self.look(node, false).await?;
            if sweep.removed() {
                for finding in sweep.findings() {
                    let pod = said
                        .iter()
                        .find(|stands| stands.value.as_ref() == Some(&finding.value))
                        .and_then(|it| it.pod.as_ref());
                    self.removed(node, finding, pod).await;
                }
            }
            // Whether it was removed or not: what is there now is heard of, and in between a look does no harm.
            return Ok(Outcome::Again(LINGER));
        }
        Ok(again(&sweep))
    }

    /// Enters what was found. Gives what is to be told of it, and how long a device plugin still has to give locks back.
    fn enter(&self, node: &Arc<str>, sweep: &Sweep, now: Duration) -> (Vec<(Stands, &'static str)>, Option<Duration>) {
        let (mut told, mut linger) = (Vec::new(), None);
        let mut nodes = self.lock();
        nodes.uncounted(node);
        if sweep.stands().is_empty() {
            nodes.known.remove(node);
        } else {
            let known = nodes.known.entry(Arc::clone(node)).or_default();
            known.stands = sweep.stands().to_vec();
            known.values.retain(|value, _| sweep.stands().iter().any(|stands| stands.value.as_ref() == Some(value)));
            known.bare = known
                .bare
                .take()
                .filter(|pod| sweep.stands().iter().any(|it| it.value.is_none() && it.pod.as_ref() == Some(pod)));
            for stands in sweep.stands() {
                let word = word(stands);
                let Some(value) = &stands.value else { continue };
                let entry =
                    known.values.entry(Arc::clone(value)).or_insert(Value { seen: now, leaked: None, told: None });
                match &stands.standing {
                    Standing::Held(_) => entry.leaked = None,
                    Standing::Over(reason) => {
                        let since = *entry.leaked.get_or_insert(now);
                        let left = (since + LINGER).saturating_sub(now);
                        if reason.may_be_given_back() && !left.is_zero() {
                            linger = Some(left.max(linger.unwrap_or_default()));
                            continue;
                        }
                    }
                }
                if is_worth_telling(&stands.standing, self.mode) && entry.told != Some(word) {
                    entry.told = Some(word);
                    told.push((stands.clone(), word));
                }
            }
        }
        nodes.counted(node);
        let counts: Vec<_> = nodes.counts.iter().map(|(word, count)| (*word, *count)).collect();
        self.metrics.states(&counts);
        let longest = nodes.stuck.values().min().map_or(Duration::ZERO, |since| now.saturating_sub(*since));
        self.metrics.longest_stuck(longest);
        (told, linger)
    }

    /// Tells the node, and the pod that it is about.
    async fn tell(&self, node: &Arc<str>, stands: &Stands, word: &str) {
        let key = annotation(stands.key);
        let value = stands.value.as_deref().unwrap_or_default();
        let of = stands.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
        let (reason, note) = match &stands.standing {
            Standing::Held(held) if held.why == Why::Stuck => {
                let longer = Go(self.terms.ttl);
                let next = match self.terms.takeover {
                    Takeover::State => "Nobody else gets the node until its device plugin answers, or the pod ends",
                    Takeover::Age => "Whoever needs the node next takes it all the same (--node-lock-takeover=age)",
                };
                let note = format!(
                    "the lock {key}{of} has been held for longer than {longer}: {}. {next}; see `topoloom lock explain {node}`",
                    held.why
                );
                ("NodeLockStuck", note)
            }
            Standing::Held(held) => {
                let left =
                    held.left.map(|left| format!(", for at least {} more", Go(Duration::from_secs(left.as_secs()))));
                let wrong = match Lock::read(value, None).named {
                    Named::Unparsable(wrong) => format!(" ({wrong})"),
                    _ => String::new(),
                };
                let note = format!("the lock {key} counts for nobody: {}{}{wrong}", held.why, left.unwrap_or_default());
                ("NodeLockUnreadable", note)
            }
            Standing::Over(reason) => {
                let note = format!(
                    "the lock {key}{of} is nobody's: {reason}. It is left alone (--nodelock-sweep=report); `topoloom lock release {node}` removes it"
                );
                ("NodeLockLeaked", note)
            }
        };
        if let Standing::Over(reason) = &stands.standing {
            self.metrics.found(*reason, Done::Reported);
        }
        tracing::warn!(node = &**node, key, value = text::line(value, VALUE), state = word, "{note}");
        let told = Told { reason, action: "Locking", note: &note };
        self.events.node(node, self.carrier.view().node_uid(node).as_deref(), Urgency::Warning, told).await;
        if let Some(pod) = stands.pod.as_ref().filter(|pod| reason == "NodeLockStuck" && pod.uid.is_some()) {
            self.events.pod(pod, Urgency::Warning, told).await;
        }
    }

    async fn removed(&self, node: &Arc<str>, finding: &Finding, pod: Option<&PodKey>) {
        let Finding { key, value, reason } = finding;
        let key = annotation(*key);
        self.metrics.found(*reason, Done::Removed);
        let of = pod.map(|pod| format!(" of pod {pod}")).unwrap_or_default();
        let note = format!("the lock {key}{of} was removed, since it was nobody's: {reason}");
        tracing::warn!(node = &**node, key, value = text::line(value, VALUE), reason = reason.word(), "{note}");
        let told = Told { reason: "NodeLockRemoved", action: "Locking", note: &note };
        self.events.node(node, self.carrier.view().node_uid(node).as_deref(), Urgency::Normal, told).await;
        // A pod that is gone hears nothing.
        if let Some(pod) = pod.filter(|pod| pod.uid.is_some() && *reason != Reason::Gone) {
            self.events.pod(pod, Urgency::Normal, told).await;
        }
    }
}

impl Work<Arc<str>> for Sweeper {
    type Error = Refusal;

    async fn work(&self, node: &Arc<str>) -> Result<Outcome, Refusal> {
        self.sweep(node).await
    }

    fn dropped(&self, node: &Arc<str>, failure: &Failure<Refusal>) {
        tracing::warn!(node = &**node, error = %failure, "the locks of a node cannot be judged");
    }

    fn all(&self) -> Vec<Arc<str>> {
        self.carrier.view().locked()
    }
}

/// When something is to be expected that nobody tells of: that a lock expires.
fn again(sweep: &Sweep) -> Outcome {
    let left = sweep.stands().iter().filter_map(|stands| match &stands.standing {
        Standing::Held(held) => held.left,
        Standing::Over(_) => None,
    });
    // A lock expires when it is older than its time, not at it.
    left.min().map_or(Outcome::Done, |left| Outcome::Again(left + Duration::from_millis(1)))
}

fn word(stands: &Stands) -> &'static str {
    match &stands.standing {
        Standing::Held(held) => held.why.word(),
        Standing::Over(_) => LEAKED,
    }
}

fn is_worth_telling(standing: &Standing, mode: SweepMode) -> bool {
    match standing {
        Standing::Held(held) => matches!(held.why, Why::Stuck | Why::Unparsable),
        // What is removed is told when it is.
        Standing::Over(_) => mode == SweepMode::Report,
    }
}

fn annotation(key: usize) -> &'static str {
    Key::ALL.get(key).map_or("", |key| key.annotation())
}

#[cfg(test)]
mod tests {
    use topoloom_core::nodelock::Held;

    use super::*;

    fn stands(value: &str, standing: Standing) -> Stands {
        Stands { key: 0, value: Some(value.into()), pod: None, standing }
    }

    #[test]
    fn what_a_node_counts_goes_with_what_was_known_of_it() {
        let stuck = Standing::Held(Held { holder: None, left: None, why: Why::Stuck });
        let leaked = Standing::Over(Reason::Gone);
        let mut nodes = Nodes::default();
        let mut known = |node: &str, found: &[(&str, &Standing)], seen: u64| {
            let name: Arc<str> = node.into();
            nodes.uncounted(&name);
            let known = nodes.known.entry(Arc::clone(&name)).or_default();
            known.stands = found.iter().map(|(value, standing)| stands(value, (*standing).clone())).collect();
            for (value, _) in found {
                let seen = Value { seen: Duration::from_secs(seen), leaked: None, told: None };
                known.values.insert((*value).into(), seen);
            }
            nodes.counted(&name);
            let count = |word: &str| nodes.counts.get(word).copied().unwrap_or_default();
            (count(LEAKED), count("stuck"), nodes.stuck.values().min().copied())
        };
        let at = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(known("a", &[("1", &stuck)], 7), (0, 1, at(7)));
        assert_eq!(known("b", &[("2", &stuck)], 3), (0, 2, at(3)));
        assert_eq!(known("c", &[("3", &leaked), ("4", &leaked)], 9), (2, 2, at(3)));
        // Looked at again, it counts once.
        assert_eq!(known("c", &[("3", &leaked)], 9), (1, 2, at(3)));
        assert_eq!(known("b", &[("2", &leaked)], 3), (2, 1, at(7)));
        assert_eq!(known("a", &[], 0), (2, 0, None));
        nodes.uncounted("b");
        nodes.uncounted("c");
        assert!(nodes.counts.values().all(|count| *count == 0), "{:?}", nodes.counts);
    }
}
