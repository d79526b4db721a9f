//! What is known of one lease, and what an answer of the API server means for it.
//!
//! Owns the steps of a lease: it is made, read or renewed, and after each answer it is clear which of them comes next and when.
//! Never knows of other leases, of a clock or of a client.
//!
//! # Failure story
//!
//! A request whose answer did not come may have been carried out. So nothing is concluded from it: the next request names the
//! version that was known before, is refused where that is not the version any more, and one read shows what is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::oneshot;

use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::Identity;
use topoloom_sync::renewal::renew_time;

use super::lease::{Content, Standing, StoredLease, Template, WhyForeign, WrittenLease};
use super::metrics::BeatOutcome;
use super::options::{ATTEMPTS, Options};
use super::requests::{LeaseAnswer, Order};

/// Requests that follow one another without a pause: the answers to five renewals that met another writer, each read again.
const AT_ONCE: u32 = 8;
/// A lease that was renewed less than this part of an interval ago has no turn. More than the half: what a take-over has renewed at
/// [half of its turn](Entry::first_pause) waits for the turn after that, 16 s later at most.
pub(super) fn recent(interval: Duration) -> Duration {
    interval * 3 / 5
}

/// A stored time that is further ahead of our clock than this is no delay and no rounding: a clock is wrong.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// What all leases of a binding have in common.
pub(super) struct Common {
    pub(super) us: Identity,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) options: Options,
}

impl Common {
    fn content<'a>(&'a self, node: &'a NodeName, uid: &'a Uid) -> Content<'a> {
        Content { node, uid, labels: &self.labels, seconds: self.options.seconds() }
    }
}

/// Whether a lease that is not renewed any more is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// The node is there, and its lease may be renewed again later: with the version that is known.
    Kept,
    /// The node is gone, or is about to be. All that is known of its lease is forgotten, so another one of its name reads it.
    Dropped,
}

/// Whether a lease is to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Renewed,
    Stopped(Memory),
}

/// Which request comes next for a lease.
pub(super) enum Step {
    /// As far as we know there is none.
    Create,
    /// What is stored is not known.
    Look,
    /// This version is stored.
    Renew { template: Template, version: ResourceVersion },
}

/// Which request was sent for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    /// One that makes it.
    Create,
    /// One that reads it.
    Look,
    /// One that renews it.
    Renew,
}

/// Which of the two queues a lease waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Its last request succeeded, or there was none.
    First,
    /// Its last request failed.
    Retry,
}

/// Where a lease is between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Until its turn.
    Idle,
    /// It is the next one, or behind others.
    Ready(Lane),
    /// It waits after a failure.
    Paused { until: Duration, why: Pause },
    /// A request is under way.
    InFlight(Lane),
}

/// Why a lease waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// Its last request failed; its next turn ends the pause of a renewal.
    Failure,
    /// The API server asked for it.
    Asked,
    /// An earlier process has renewed it a moment ago.
    TakenOver,
}

/// When the next request of a lease goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// With its next turn.
    Turn,
    /// Now.
    Now,
    /// After a pause.
    After(Duration, Pause),
}

/// How an answer was taken.
pub(super) struct Taken {
    pub(super) next: Next,
    pub(super) outcome: BeatOutcome,
    /// News for a person.
    pub(super) news: Option<EntryNews>,
}

/// What a person should know of.
pub(super) enum EntryNews {
    Foreign(WhyForeign),
    Refused(Refusal),
}

/// One lease.
pub(super) struct Entry {
    /// Of the virtual node.
    pub(super) uid: Uid,
    pub(super) address: Uri,
    pub(super) wanted: Wanted,
    pub(super) step: Step,
    pub(super) place: Place,
    /// The latest time of a renewal that was read or sent. A time that was sent may be stored although no answer came, and
    /// node-lifecycle may have seen it although a restored etcd has not.
    pub(super) latest: Option<Timestamp>,
    /// The time of the renewal that is stored, as the last answer showed it.
    stored: Option<Timestamp>,
    /// Whether a write was sent since that may have been carried out.
    is_uncertain: bool,
    /// It was found renewed by another client. The one that looks takes that.
    pub(super) met_another: bool,
    /// When the last request that renewed it was sent.
    pub(super) renewed: Option<Duration>,
    /// Since when it is to be renewed.
    pub(super) since: Duration,
    /// Failed requests since the last one that succeeded.
    pub(super) failures: u32,
    /// Failed renewals since its turn.
    attempts: u32,
    /// Failures to read or make it.
    makes: u32,
    /// Requests since its turn, or the last pause, that followed at once.
    at_once: u32,
    /// It belongs to another node now, which the request under way does not know.
    pub(super) is_outdated: bool,
    /// Waits for the request under way.
    pub(super) waiters: Vec<oneshot::Sender<()>>,
    pub(super) skew: Option<SignedDuration>,
    pub(super) foreign: Option<WhyForeign>,
}

impl Entry {
    pub(super) fn new(uid: Uid, address: Uri, now: Duration) -> Self {
        Self {
            uid,
            address,
            wanted: Wanted::Renewed,
            step: Step::Create,
            place: Place::Idle,
            latest: None,
            stored: None,
            is_uncertain: false,
            met_another: false,
            renewed: None,
            since: now,
            failures: 0,
            attempts: 0,
            makes: 0,
            at_once: 0,
            is_outdated: false,
            waiters: Vec::new(),
            skew: None,
            foreign: None,
        }
    }

    /// Its node is another one now. What is stored names the old one, or is gone with it: one read shows that.
    pub(super) fn belongs_to(&mut self, uid: Uid) {
        if matches!(self.step, Step::Renew { .. }) {
            self.step = Step::Look;
        }
        self.is_outdated = matches!(self.place, Place::InFlight(_));
        // The answer to that request is not taken.
        self.is_uncertain |= self.is_outdated;
        self.foreign = None;
        self.uid = uid;
    }

    /// What a list of all leases shows of it.
    pub(super) fn adopt(
        &mut self,
        node: &NodeName,
        stored: &StoredLease,
        common: &Common,
        at: Duration,
        wall: Timestamp,
    ) {
        let age = stored.renewed().map(|renewed| wall.duration_since(renewed));
        self.latest = self.latest.max(stored.renewed());
        self.stored = stored.renewed();
        // A time of the future is as good as now: our clock is behind, or another was ahead.
        self.renewed = age.map(|age| at.saturating_sub(Duration::try_from(age).unwrap_or_default()));
        self.step = match stored.standing(node, &self.uid, &common.us) {
            Standing::Ours => over(stored, common),
            Standing::Foreign(_) => Step::Look,
        };
    }

    /// After which pause a lease of this age that is taken over is renewed first, where an earlier process has renewed it a moment ago.
    /// All are renewed in the order of their turns within half of an interval, so early that the turns themselves find them [recent], and
    /// that the lists of a take-over hold up none for long: the renewals of a take-over are even. A time of the future says nothing of the age:
    /// one of two clocks is wrong.
    pub(super) fn first_pause(
        &self,
        turn: Duration,
        age: Option<SignedDuration>,
        options: &Options,
    ) -> Option<Duration> {
        let age = age.and_then(|age| Duration::try_from(age).ok())?;
        let is_fresh = matches!(self.step, Step::Renew { .. }) && age < options.interval() * 2;
        is_fresh.then(|| turn / 2)
    }

    /// Its turn has come, or it is started.
    pub(super) fn begin(&mut self) {
        self.attempts = 0;
        self.at_once = 0;
    }

    /// Its pause is over.
    pub(super) fn resume(&mut self) {
        self.at_once = 0;
    }

    pub(super) fn lane(&self) -> Lane {
        if self.failures == 0 { Lane::First } else { Lane::Retry }
    }

    /// The next request.
    pub(super) fn order(&mut self, node: &NodeName, common: &Common, wall: Timestamp) -> (Sent, Order) {
        if let Step::Look = self.step {
            return (Sent::Look, Order::Look { address: self.address.clone() });
        }
        let renewal = renew_time(wall, self.latest);
        self.latest = Some(renewal.time);
        self.skew = renewal.skew.filter(|skew| *skew > SKEW);
        let clock = renewal.skew.map(|_| wall);
        let content = common.content(node, &self.uid);
        match &self.step {
            Step::Renew { template, version } => {
                let body = template.fill(&content, Some(version), renewal.time, clock);
                (Sent::Renew, Order::Renew { address: self.address.clone(), body })
            }
            Step::Create | Step::Look => {
                let template = Template::new("".into());
                (Sent::Create, Order::Create { body: template.fill(&content, None, renewal.time, clock) })
            }
        }
    }

    /// Takes the answer to a request that was sent at a time.
    pub(super) fn take(
        &mut self,
        node: &NodeName,
        (sent, at): (Sent, Duration),
        answer: LeaseAnswer,
        common: &Common,
    ) -> Taken {
        match answer {
            LeaseAnswer::Written(written) => self.written((sent, at), &written),
            LeaseAnswer::Read(stored) => self.read(node, &stored, common),
            LeaseAnswer::Refused(refusal) => self.refused(sent, refusal, common.options),
        }
    }

    fn written(&mut self, (sent, at): (Sent, Duration), answer: &WrittenLease) -> Taken {
        self.latest = self.latest.max(answer.renewed);
        (self.stored, self.is_uncertain) = (answer.renewed, false);
        self.renewed = Some(at);
        (self.failures, self.attempts, self.makes, self.at_once) = (0, 0, 0, 0);
        self.foreign = None;
        let outcome = match &mut self.step {
            Step::Renew { version, .. } if sent == Sent::Renew => {
                *version = answer.version.clone();
                BeatOutcome::Renewed
            }
            _ => {
                let template = Template::new(answer.uid.clone());
                self.step = Step::Renew { template, version: answer.version.clone() };
                BeatOutcome::Created
            }
        };
        Taken { next: Next::Turn, outcome, news: None }
    }

    fn read(&mut self, node: &NodeName, stored: &StoredLease, common: &Common) -> Taken {
        self.latest = self.latest.max(stored.renewed());
        let (before, is_known) = (std::mem::replace(&mut self.stored, stored.renewed()), !self.is_uncertain);
        self.is_uncertain = false;
        match stored.standing(node, &self.uid, &common.us) {
            Standing::Ours => {
                self.met_another |= is_known && before.is_some() && before != self.stored;
                self.step = over(stored, common);
                self.foreign = None;
                self.at_once(BeatOutcome::Read)
            }
            Standing::Foreign(why) => {
                self.step = Step::Look;
                (self.failures, self.makes) = (0, 0);
                let news = (self.foreign.as_ref() != Some(&why)).then(|| EntryNews::Foreign(why.clone()));
                self.foreign = Some(why);
                Taken { next: Next::Turn, outcome: BeatOutcome::Foreign, news }
            }
        }
    }

    fn refused(&mut self, sent: Sent, refusal: Refusal, options: Options) -> Taken {
        use RefusalReason::{AlreadyExists, Conflict, NotFound};
        let outcome = BeatOutcome::from(refusal.reason);
        let step = match (sent, refusal.reason) {
            (Sent::Renew, Conflict) | (Sent::Create, AlreadyExists | Conflict) => Step::Look,
            (Sent::Renew | Sent::Look, NotFound) => {
                self.stored = None;
                Step::Create
            }
            _ => {
                self.is_uncertain |= sent != Sent::Look;
                return self.failed(sent, refusal, options);
            }
        };
        self.step = step;
        if self.at_once < AT_ONCE { self.at_once(outcome) } else { self.failed(Sent::Look, refusal, options) }
    }

    fn at_once(&mut self, outcome: BeatOutcome) -> Taken {
        self.at_once += 1;
        Taken { next: Next::Now, outcome, news: None }
    }

    fn failed(&mut self, sent: Sent, refusal: Refusal, options: Options) -> Taken {
        let outcome = BeatOutcome::from(refusal.reason);
        self.failures = self.failures.saturating_add(1);
        // As long as one interval at most: what a server asks for must not let a lease expire.
        let asked = refusal.retry_after.map(|asked| asked.min(options.interval()));
        let own = match sent {
            // Nothing opens the gate before the binding's lease is ours again.
            _ if outcome == BeatOutcome::Closed => None,
            Sent::Renew => {
                self.attempts = self.attempts.saturating_add(1);
                (self.attempts < ATTEMPTS).then(|| options.renew_pause(self.attempts))
            }
            Sent::Create | Sent::Look => {
                self.makes = self.makes.saturating_add(1);
                Some(options.make_pause(self.makes))
            }
        };
        let next = match (own, asked) {
            (own, Some(asked)) if own.is_none_or(|own| own < asked) => Next::After(asked, Pause::Asked),
            (Some(own), _) => Next::After(own, Pause::Failure),
            (None, _) => Next::Turn,
        };
        Taken { next, outcome, news: Some(EntryNews::Refused(refusal)) }
    }
}

/// What is stored is renewed.
fn over(stored: &StoredLease, common: &Common) -> Step {
    Step::Renew { template: Template::replacing(&common.labels, stored), version: stored.version() }
}
