//! All leases of a binding: which is renewed, which request is next, and what is reported.
//!
//! Owns the entries, their turns and their order. A machine without a clock, a client or a task: times are arguments, and an
//! answer is brought by the caller. At most one request of a lease is under way.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::rules::is_object_name;
use topoloom_core::text;
use topoloom_sync::identity::Identity;
use topoloom_sync::renewal::Wheel;
use topoloom_sync::wall::TakeOver;

use super::entry::{Common, Entry, EntryNews, Memory, Next, Pause, Place, Sent, Step, Wanted, recent};
use super::lease::{self, StoredLease, WhyForeign};
use super::metrics::{BeatCounts, BeatOutcome, BindingMetrics};
use super::options::Options;
use super::queues::Queues;
use super::requests::{self, LeaseAnswer, Order};

/// How often the numbers of all leases are shown.
const SURVEY: Duration = Duration::from_secs(1);
/// A refusal of one kind is reported once in this time, however many leases meet it.
const QUIET: Duration = Duration::from_secs(60);
/// How much of a name that cannot be used a message repeats.
const SHOWN: usize = 80;

/// A virtual node whose lease cannot be renewed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Its name.
    #[error(
        "the name of the virtual node must be a DNS-1123 subdomain of at most 253 bytes, got {:?}",
        text::line(.0, SHOWN)
    )]
    Name(NodeName),
    /// Its UID: a lease without an owner would stay for ever.
    #[error("the UID of the virtual node {0} must not be empty: its lease names it as the owner")]
    Uid(NodeName),
}

/// What a person should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeatNews {
    /// The lease of a virtual node is another's, and is left alone: the node will be Unknown. Reported once for each reason.
    Foreign {
        /// The virtual node.
        node: NodeName,
        /// Why the lease is not ours.
        why: WhyForeign,
    },
    /// A stored time of a renewal is ahead of our clock: one of two clocks is wrong. Reported for the first lease that shows it.
    Skew {
        /// The virtual node.
        node: NodeName,
        /// By how much.
        ahead: SignedDuration,
    },
    /// A request failed. Reported once a minute for each kind of refusal, for the lease that met it first.
    Refused {
        /// The virtual node.
        node: NodeName,
        /// The refusal.
        refusal: Refusal,
        /// How many leases fail now.
        failing: usize,
    },
    /// A right is missing that requests of this kind need, for every lease. Reported once a minute for as long as it is.
    NoRight {
        /// The kind of request.
        sent: Sent,
        /// The refusal.
        refusal: Refusal,
    },
    /// It is there again.
    Right {
        /// The kind of request.
        sent: Sent,
    },
}

/// A request to send.
pub(super) struct Job {
    pub(super) node: NodeName,
    pub(super) sent: Sent,
    pub(super) at: Duration,
    pub(super) order: Order,
}

/// The answer to a request.
pub(super) struct Done {
    pub(super) node: NodeName,
    pub(super) sent: Sent,
    pub(super) at: Duration,
    pub(super) answer: LeaseAnswer,
}

pub(super) struct Book {
    common: Common,
    wheel: Wheel,
    /// In boxes: a table has room for more than it holds.
    leases: HashMap<NodeName, Box<Entry>>,
    queues: Queues,
    metrics: BindingMetrics,
    next_survey: Duration,
    /// What the last survey showed.
    shown: BeatCounts,
    news: Vec<BeatNews>,
    /// When a refusal of this kind was reported last.
    reported: BTreeMap<RefusalReason, Duration>,
    /// The kinds of requests that need a right that is missing, and when that was reported last.
    no_rights: BTreeMap<Sent, Duration>,
    skew: SkewReport,
    /// How often a lease was found renewed by another client.
    by_another: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkewReport {
    Due,
    Made,
}

impl Book {
    pub(super) fn new(us: Identity, options: Options, metrics: BindingMetrics, now: Duration) -> Self {
        Self {
            common: Common { labels: us.labels(), us, options },
            wheel: Wheel::new(options.interval(), now),
            leases: HashMap::new(),
            queues: Queues::default(),
            metrics,
            next_survey: now,
            shown: BeatCounts::default(),
            news: Vec::new(),
            reported: BTreeMap::new(),
            no_rights: BTreeMap::new(),
            skew: SkewReport::Due,
            by_another: 0,
        }
    }

    /// The lease of this virtual node is renewed from now on. Again for the same node is nothing.
    pub(super) fn start(&mut self, node: &NodeName, uid: &Uid, now: Duration) -> Result<(), StartError> {
        self.begin(node, uid, None, now)
    }

    /// As [`Self::start`], for many at once, with what one list of all leases shows.
    pub(super) fn adopt(
        &mut self,
        stored: &[StoredLease],
        nodes: impl IntoIterator<Item = (NodeName, Uid)>,
        (now, wall): (Duration, Timestamp),
    ) -> Vec<StartError> {
        let stored: HashMap<NodeName, &StoredLease> = stored.iter().map(|lease| (lease.node(), lease)).collect();
        let start = |(node, uid): (NodeName, Uid)| {
            let known = stored.get(&node).map(|lease| (*lease, wall));
            self.begin(&node, &uid, known, now).err()
        };
        nodes.into_iter().filter_map(start).collect()
    }

    /// What these leases show of the clock of an earlier process; how long ago its last renewal was, by our clock, is a metric.
    pub(super) fn take_over(
        &self,
        stored: &[StoredLease],
        nodes: &BTreeMap<NodeName, Uid>,
        listed: Timestamp,
    ) -> Option<TakeOver> {
        let take_over = lease::take_over(stored, &self.common.us, nodes, listed)?;
        self.metrics.took_over(take_over.now.duration_since(take_over.earlier));
        Some(take_over)
    }

    fn begin(
        &mut self,
        node: &NodeName,
        uid: &Uid,
        stored: Option<(&StoredLease, Timestamp)>,
        now: Duration,
    ) -> Result<(), StartError> {
        if uid.is_empty() {
            return Err(StartError::Uid(node.clone()));
        }
        // A wheel that stood still has turns to make up for, which are none of a new lease.
        self.turn(now);
        if let Some(entry) = self.leases.get_mut(node) {
            let is_new = &entry.uid != uid;
            if entry.wanted == Wanted::Renewed && !is_new {
                return Ok(());
            }
            if is_new {
                entry.belongs_to(uid.clone());
            }
            if entry.wanted != Wanted::Renewed {
                entry.since = now;
            }
        } else {
            let wrong = || StartError::Name(node.clone());
            is_object_name(node).map_err(|_| wrong())?;
            let address = requests::address(node).map_err(|_| wrong())?;
            let mut entry = Entry::new(uid.clone(), address, now);
            if let Some((stored, wall)) = stored {
                entry.adopt(node, stored, &self.common, now, wall);
            }
            self.leases.insert(node.clone(), Box::new(entry));
        }
        if let Some(entry) = self.leases.get_mut(node) {
            entry.wanted = Wanted::Renewed;
            self.wheel.insert(node);
            let pause = stored.zip(self.wheel.until(node)).and_then(|((stored, wall), turn)| {
                let age = stored.renewed().map(|renewed| wall.duration_since(renewed));
                entry.first_pause(turn, age, &self.common.options)
            });
            match (entry.place, pause) {
                (Place::InFlight(_), _) => {}
                (_, Some(pause)) => {
                    self.queues.pause(node, entry, now.saturating_add(pause), Pause::TakenOver);
                }
                (_, None) => {
                    entry.begin();
                    self.queues.ready(node, entry);
                }
            }
        }
        Ok(())
    }

    /// The lease of this virtual node is not renewed any more: no request for it is sent from now on. Where one is under way,
    /// the receiver shows its end.
    pub(super) fn stop(&mut self, node: &NodeName, memory: Memory) -> Option<oneshot::Receiver<()>> {
        self.wheel.remove(node);
        let entry = self.leases.get_mut(node)?;
        entry.wanted = Wanted::Stopped(memory);
        self.queues.leave(node, entry);
        if let Place::InFlight(_) = entry.place {
            let (ends, end) = oneshot::channel();
            entry.waiters.push(ends);
            return Some(end);
        }
        if memory == Memory::Dropped {
            self.leases.remove(node);
        }
        None
    }

    /// Leases whose turn has come, and those whose pause is over, are ready.
    pub(super) fn turn(&mut self, now: Duration) {
        let recent = recent(self.common.options.interval());
        for node in self.wheel.due(now) {
            let Some(entry) = self.leases.get_mut(&node) else { continue };
            let wants = match entry.place {
                // It was renewed a moment ago, when it was started: its turns begin with the next one.
                Place::Idle => entry.renewed.is_none_or(|renewed| now.saturating_sub(renewed) >= recent),
                // Making and reading have longer pauses, and the server's word counts in any case.
                Place::Paused { why, .. } => why == Pause::Failure && matches!(entry.step, Step::Renew { .. }),
                Place::Ready(_) => false,
                Place::InFlight(_) => {
                    // Whatever its failures were, they are those of an earlier turn.
                    entry.begin();
                    false
                }
            };
            if wants {
                entry.begin();
                self.queues.ready(&node, entry);
            }
        }
        while let Some(node) = self.queues.resumes(now) {
            if let Some(entry) = self.leases.get_mut(&node) {
                entry.resume();
                self.queues.ready(&node, entry);
            }
        }
        if now >= self.next_survey {
            self.next_survey = now.saturating_add(SURVEY);
            self.survey(now);
        }
    }

    /// The next request, if one may be sent now.
    pub(super) fn take(&mut self, (now, wall): (Duration, Timestamp)) -> Option<Job> {
        loop {
            let (node, lane) = self.queues.take(self.common.options)?;
            let Some(entry) = self.leases.get_mut(&node) else {
                self.queues.landed(lane);
                continue;
            };
            entry.place = Place::InFlight(lane);
            let (sent, order) = entry.order(&node, &self.common, wall);
            if let (Some(ahead), SkewReport::Due) = (entry.skew, self.skew) {
                self.skew = SkewReport::Made;
                self.news.push(BeatNews::Skew { node: node.clone(), ahead });
            }
            return Some(Job { node, sent, at: now, order });
        }
    }

    /// A request was answered.
    pub(super) fn done(&mut self, done: Done, now: Duration) {
        let Done { node, sent, at, answer } = done;
        self.judge_right(sent, &answer, now);
        let Some(entry) = self.leases.get_mut(&node) else { return };
        if let Place::InFlight(lane) = entry.place {
            self.queues.landed(lane);
        }
        entry.place = Place::Idle;
        for waiter in entry.waiters.drain(..) {
            // The one that waited may have given up.
            let _ = waiter.send(());
        }
        let next = if std::mem::take(&mut entry.is_outdated) {
            self.metrics.ended(outcome_of(&answer, sent));
            entry.begin();
            Next::Now
        } else {
            let taken = entry.take(&node, (sent, at), answer, &self.common);
            self.by_another += u64::from(std::mem::take(&mut entry.met_another));
            self.metrics.ended(taken.outcome);
            if let Some(news) = taken.news {
                self.report(&node, news, now);
            }
            taken.next
        };
        self.follow(&node, next, (at, now));
    }

    /// Does what follows from the answer to a request that was sent at a time.
    fn follow(&mut self, node: &NodeName, next: Next, (at, now): (Duration, Duration)) {
        let Some(entry) = self.leases.get_mut(node) else { return };
        match (entry.wanted, next) {
            (Wanted::Stopped(Memory::Dropped), _) => {
                self.leases.remove(node);
            }
            (Wanted::Stopped(Memory::Kept), _) | (Wanted::Renewed, Next::Turn) => {}
            (Wanted::Renewed, Next::Now) => self.queues.ready(node, entry),
            (Wanted::Renewed, Next::After(pause, why)) => {
                // Between two attempts: a request that was not answered has waited long enough.
                let from = if why == Pause::Asked { now } else { at };
                self.queues.pause(node, entry, from.saturating_add(pause), why);
            }
        }
    }

    /// What an answer says about the right to send such requests: it is the same for all leases.
    fn judge_right(&mut self, sent: Sent, answer: &LeaseAnswer, now: Duration) {
        match answer {
            LeaseAnswer::Written(_) | LeaseAnswer::Read(_) => {
                if self.no_rights.remove(&sent).is_some() {
                    self.news.push(BeatNews::Right { sent });
                }
            }
            LeaseAnswer::Refused(refusal)
                if matches!(refusal.reason, RefusalReason::Forbidden | RefusalReason::Unauthorized) =>
            {
                let last = self.no_rights.get(&sent);
                if last.is_none_or(|last| now.saturating_sub(*last) >= QUIET) {
                    self.no_rights.insert(sent, now);
                    self.news.push(BeatNews::NoRight { sent, refusal: refusal.clone() });
                }
            }
            LeaseAnswer::Refused(_) => {}
        }
    }

    fn report(&mut self, node: &NodeName, news: EntryNews, now: Duration) {
        match news {
            EntryNews::Foreign(why) => self.news.push(BeatNews::Foreign { node: node.clone(), why }),
            // The holder of the gate knows.
            EntryNews::Refused(refusal) if BeatOutcome::from(refusal.reason) == BeatOutcome::Closed => {}
            EntryNews::Refused(refusal) => {
                let last = self.reported.get(&refusal.reason);
                if last.is_none_or(|last| now.saturating_sub(*last) >= QUIET) {
                    self.reported.insert(refusal.reason, now);
                    self.news.push(BeatNews::Refused { node: node.clone(), refusal, failing: self.failing() });
                }
            }
        }
    }

    fn failing(&self) -> usize {
        self.leases.values().filter(|entry| entry.wanted == Wanted::Renewed && entry.failures > 0).count()
    }

    /// What happened since the last call.
    pub(super) fn news(&mut self) -> Vec<BeatNews> {
        std::mem::take(&mut self.news)
    }

    fn survey(&mut self, now: Duration) {
        let mut counts = BeatCounts::default();
        for entry in self.leases.values().filter(|entry| entry.wanted == Wanted::Renewed) {
            counts.leases += 1;
            counts.failing += usize::from(entry.failures > 0);
            counts.foreign += usize::from(entry.foreign.is_some());
            counts.skew = counts.skew.max(entry.skew.map_or(Duration::ZERO, SignedDuration::unsigned_abs));
            if entry.foreign.is_none() {
                counts.oldest = counts.oldest.max(now.saturating_sub(entry.renewed.unwrap_or(entry.since)));
            }
        }
        if counts.skew.is_zero() {
            self.skew = SkewReport::Due;
        }
        self.metrics.show(&counts);
        self.shown = counts;
    }

    /// When [`Self::turn`] has something to do next, whatever is answered until then.
    pub(super) fn next(&self) -> Option<Duration> {
        if self.wheel.is_empty() && self.shown == BeatCounts::default() {
            // Those that wait are to be renewed, so none does.
            return None;
        }
        [Some(self.wheel.next()).filter(|_| !self.wheel.is_empty()), self.queues.next(), Some(self.next_survey)]
            .into_iter()
            .flatten()
            .min()
    }

    /// When the last request that renewed the lease was sent.
    pub(super) fn renewed(&self, node: &str) -> Option<Duration> {
        self.leases.get(node)?.renewed
    }

    /// How often a lease was found renewed by another client.
    pub(super) fn by_another(&self) -> u64 {
        self.by_another
    }

    /// Whether the lease is to be renewed here, or was since this time.
    pub(super) fn renews_since(&self, node: &str, since: Duration) -> bool {
        self.leases.get(node).is_some_and(|entry| {
            entry.wanted == Wanted::Renewed || entry.renewed.is_some_and(|renewed| renewed >= since)
        })
    }

    /// Whether any lease is to be renewed.
    pub(super) fn renews(&self) -> bool {
        !self.wheel.is_empty()
    }

    /// The leases that are another's.
    pub(super) fn foreign(&self) -> BTreeMap<NodeName, WhyForeign> {
        let wanted = self.leases.iter().filter(|(_, entry)| entry.wanted == Wanted::Renewed);
        wanted.filter_map(|(node, entry)| Some((node.clone(), entry.foreign.clone()?))).collect()
    }

    /// Why this lease is another's, where it is.
    pub(super) fn foreign_of(&self, node: &str) -> Option<WhyForeign> {
        let entry = self.leases.get(node).filter(|entry| entry.wanted == Wanted::Renewed)?;
        entry.foreign.clone()
    }

    /// No answer comes any more.
    pub(super) fn end(&mut self) {
        for entry in self.leases.values_mut() {
            entry.waiters.clear();
        }
    }
}

/// How the answer is counted where nothing follows from it.
fn outcome_of(answer: &LeaseAnswer, sent: Sent) -> BeatOutcome {
    match (answer, sent) {
        (LeaseAnswer::Written(_), Sent::Create) => BeatOutcome::Created,
        (LeaseAnswer::Written(_), Sent::Renew | Sent::Look) => BeatOutcome::Renewed,
        (LeaseAnswer::Read(_), _) => BeatOutcome::Read,
        (LeaseAnswer::Refused(refusal), _) => refusal.reason.into(),
    }
}

#[cfg(test)]
mod tests;
