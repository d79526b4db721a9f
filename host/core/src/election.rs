//! Leader election over one Lease: what a replica does next, given what it saw and when.
//!
//! Owns the rules of `node-lock-and-bind.md` B9 as decisions M2 and M4 tighten them. Has no client and no clock:
//! readings and answers come in, orders come out, and time is an argument. The caller measures it with a clock that
//! continues while the machine sleeps and that cannot be set. The times of day in the Lease are for people; nothing
//! here reads them.
//!
//! ```text
//!            ┌────────── Outside ──────────┐  claim confirmed   ┌─ Leading ─┐  no renewal within the deadline,
//!  start ──► │ unread, absent, free, held  │ ─────────────────► │  renews   │ ─── another name in the Lease ──► Lost
//!            └─────────────────────────────┘                    └───────────┘
//! ```
//!
//! # What is promised
//!
//! * A holder is confirmed until the moment *its request left* plus the renew deadline. Every other replica waits a
//!   whole lease duration from the moment *it saw* the last change. That moment is later, and the duration is longer
//!   than the deadline. So two replicas are never confirmed at once, whatever is delayed, lost or answered twice, as
//!   long as no other program writes the Lease.
//! * If another program writes it: a holder stops when it reads another name. A replica that saw a holder still waits
//!   for that holder's time to pass, unless the holder itself released the Lease.
//! * A replica that lost the Lease ends everything that was decided under the Lease: its process, or the one group that the
//!   Lease is about. A candidate that lost stays lost; where only a group ended, a new one under the same name stands later.
//! * A replica that gives way to another ([`LeaseCandidate::give_way`]) only claims later than it could. So who goes first
//!   may be decided on whatever each replica believes, and nothing of the above depends on it.

use std::sync::Arc;
use std::time::Duration;

use crate::version::ResourceVersion;

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;

/// The durations of an election. `duration > renew_deadline > 1.2 × retry_period > 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long other replicas wait after the last change that they saw.
    pub duration: Duration,
    /// For how long a holder is confirmed after it sent its last confirmed renewal.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
}

/// The content of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its resourceVersion.
    pub version: ResourceVersion,
    /// Its holder; empty: none.
    pub holder: Arc<str>,
    /// The replica that released it, if one did.
    pub released_by: Option<Arc<str>>,
    /// How long its holder asks other replicas to wait.
    pub duration: Duration,
    /// How often its holder changed.
    pub transitions: u32,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The Lease.
    Present(Record),
    /// There is none; with the version of its deletion, if a watch reported it.
    Absent(Option<ResourceVersion>),
}

/// How something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenBy {
    /// By a read that began after everything that was answered before: it is up to date.
    Read,
    /// By a watch, which may be behind.
    Watch,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOrder {
    /// Nothing before this time, unless something is seen.
    Wait(Duration),
    /// Read the Lease.
    Read,
    /// Write our name into it: create it where there is no base, replace that version otherwise.
    Claim {
        /// The version to replace.
        base: Option<ResourceVersion>,
        /// How often it will have changed hands.
        transitions: u32,
    },
    /// Renew this version.
    Renew(ResourceVersion),
    /// The Lease is lost.
    Stop(Lost),
}

/// Why the Lease is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal was confirmed within the deadline.
    Expired,
    /// It has another holder; empty: none.
    Taken(Arc<str>),
    /// It was deleted.
    Deleted,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expired => f.write_str("no renewal was confirmed within the renew deadline"),
            Self::Taken(by) if by.is_empty() => f.write_str("another client removed its holder"),
            Self::Taken(by) => write!(f, "its holder is now {by}"),
            Self::Deleted => f.write_str("another client deleted it"),
        }
    }
}

/// How a claim or a renewal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// The API server confirmed it, with this version.
    Confirmed(ResourceVersion),
    /// The Lease is not the version that was read: read it again.
    Conflict,
    /// No answer, or a refusal for another reason. The request may have been applied.
    Unknown,
}

/// The position of a replica in the election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElectionPosition {
    /// The Lease was not read yet.
    Unread,
    /// Another replica holds it, or held it until a moment ago.
    Following(Arc<str>),
    /// As far as we know it has no holder.
    Free,
    /// We hold it until that time, unless it is renewed.
    Leading(Duration),
    /// We held it.
    Lost(Lost),
}

/// One replica.
#[derive(Debug)]
pub struct LeaseCandidate {
    me: Arc<str>,
    timing: Timing,
    /// How much later than it could this replica claims a Lease: another one goes first.
    courtesy: Duration,
    /// Since when it could claim.
    claimable: Option<Duration>,
    state: ElectionState,
}

#[derive(Debug)]
enum ElectionState {
    Outside {
        known: KnownLease,
        /// After a failure: nothing is tried before this time.
        not_before: Duration,
        /// The watch does not work: a read is due at this time.
        read_at: Option<Duration>,
        restore: RestoreRead,
    },
    Leading {
        version: ResourceVersion,
        /// When the last confirmed renewal was sent.
        confirmed: Duration,
        /// When the next one is due.
        due: Duration,
        /// The watch reported something that only a read can confirm.
        doubts: bool,
    },
    Lost(Lost),
}

/// The read that a replica owes since the API server went back. Until its answer, events of the watch may be from either history,
/// so none of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestoreRead {
    /// It was answered, or the API server never went back.
    Answered,
    /// It is due. The answer of one that was sent earlier may be from the history that the API server has left.
    Due,
    /// It was ordered since.
    Ordered,
}

#[derive(Debug)]
enum KnownLease {
    Unread,
    Absent {
        held: Option<LeaseHolder>,
    },
    Free(Record),
    Held {
        record: Record,
        held: LeaseHolder,
        /// What is stored may be something else by now.
        doubts: bool,
    },
    /// A claim of ours that was never confirmed.
    Mine(Record),
}

/// The holder whose time has to pass first.
#[derive(Debug, Clone)]
struct LeaseHolder {
    holder: Arc<str>,
    since: Duration,
    duration: Duration,
}

impl LeaseCandidate {
    /// A replica that has not seen the Lease. `me` must differ from the name of every other replica and earlier
    /// process. A process whose candidate has lost the Lease may stand again under its name, once all that was decided
    /// under the Lease has ended.
    #[must_use]
    pub fn new(me: Arc<str>, timing: Timing) -> Self {
        Self {
            me,
            timing,
            courtesy: Duration::ZERO,
            claimable: None,
            state: ElectionState::Outside {
                known: KnownLease::Unread,
                not_before: Duration::ZERO,
                read_at: None,
                restore: RestoreRead::Answered,
            },
        }
    }

    /// Our name.
    #[must_use]
    pub fn me(&self) -> &Arc<str> {
        &self.me
    }

    /// From now on a Lease of another holder, or of none, is claimed this much later than it could be: another replica
    /// goes first. A claim of this replica that was never confirmed waits for no other.
    pub fn give_way(&mut self, courtesy: Duration) {
        self.courtesy = courtesy;
    }

    /// What to do at this time.
    pub fn next(&mut self, now: Duration) -> LeaseOrder {
        let order = self.due(now);
        if let (LeaseOrder::Read, ElectionState::Outside { restore: restore @ RestoreRead::Due, .. }) =
            (&order, &mut self.state)
        {
            *restore = RestoreRead::Ordered;
        }
        if matches!(order, LeaseOrder::Claim { .. }) && !self.has_claimed() {
            let goes = *self.claimable.get_or_insert(now) + self.courtesy;
            return if goes > now { LeaseOrder::Wait(goes) } else { order };
        }
        // What is read may be as before.
        if !matches!(order, LeaseOrder::Claim { .. } | LeaseOrder::Read) {
            self.claimable = None;
        }
        order
    }

    /// Whether the Lease has our name, by a claim that was never confirmed.
    fn has_claimed(&self) -> bool {
        matches!(self.state, ElectionState::Outside { known: KnownLease::Mine(_), .. })
    }

    /// The same for a replica that gives way to no other.
    fn due(&mut self, now: Duration) -> LeaseOrder {
        match &self.state {
            ElectionState::Lost(lost) => LeaseOrder::Stop(lost.clone()),
            ElectionState::Leading { version, confirmed, due, doubts } => {
                let end = *confirmed + self.timing.renew_deadline;
                if now >= end {
                    return self.lose(Lost::Expired);
                }
                match () {
                    () if *due > now => LeaseOrder::Wait(end.min(*due)),
                    () if *doubts => LeaseOrder::Read,
                    () => LeaseOrder::Renew(version.clone()),
                }
            }
            ElectionState::Outside { not_before, .. } if *not_before > now => LeaseOrder::Wait(*not_before),
            ElectionState::Outside { read_at: Some(at), .. } if *at <= now => LeaseOrder::Read,
            ElectionState::Outside { known, read_at, .. } => match known {
                KnownLease::Unread => LeaseOrder::Read,
                KnownLease::Absent { held } => match held.as_ref().map(|held| held.ends()).filter(|ends| *ends > now) {
                    Some(ends) => LeaseOrder::Wait(read_at.unwrap_or(ends).min(ends)),
                    None => LeaseOrder::Claim { base: None, transitions: 0 },
                },
                KnownLease::Free(record) => claim(record, 1),
                KnownLease::Held { held, doubts: true, .. } if held.ends() <= now => LeaseOrder::Read,
                KnownLease::Held { record, held, .. } if held.ends() <= now => claim(record, 1),
                KnownLease::Held { held, .. } => LeaseOrder::Wait(read_at.unwrap_or(held.ends()).min(held.ends())),
                KnownLease::Mine(record) => claim(record, 0),
            },
        }
    }

    /// How long an attempt that begins now may take.
    #[must_use]
    pub fn patience(&self, now: Duration) -> Duration {
        // Long enough for a slow answer, short enough that a connection that died costs one attempt and not the Lease.
        let attempt = self.timing.retry_period.max(self.timing.renew_deadline / 3);
        match &self.state {
            ElectionState::Leading { confirmed, .. } => (*confirmed + self.timing.renew_deadline).min(now + attempt),
            _ => now + attempt,
        }
    }

    /// A read or the watch returned something.
    pub fn observed(&mut self, now: Duration, seen: SeenBy, observation: Observation) {
        match &mut self.state {
            ElectionState::Lost(_) => {}
            ElectionState::Leading { version, due, doubts, .. } => {
                let (other, theirs) = match &observation {
                    Observation::Present(record) if record.holder == self.me => {
                        if seen == SeenBy::Read {
                            version.clone_from(&record.version);
                            *doubts = false;
                            *due = now;
                        }
                        return;
                    }
                    Observation::Present(record) => (Lost::Taken(Arc::clone(&record.holder)), Some(&record.version)),
                    Observation::Absent(version) => (Lost::Deleted, version.as_ref()),
                };
                let order = theirs.and_then(|theirs| theirs.partial_cmp(version));
                match (seen, order) {
                    (SeenBy::Read, _) | (SeenBy::Watch, Some(std::cmp::Ordering::Greater)) => {
                        self.lose(other);
                    }
                    // It is older than our claim.
                    (SeenBy::Watch, Some(_)) => {}
                    (SeenBy::Watch, None) => {
                        *doubts = true;
                        *due = now;
                    }
                }
            }
            ElectionState::Outside { known, read_at, restore, .. } => {
                match (seen, *restore) {
                    (SeenBy::Watch, RestoreRead::Answered) => {}
                    (SeenBy::Read, RestoreRead::Answered | RestoreRead::Ordered) => *restore = RestoreRead::Answered,
                    (SeenBy::Watch, _) | (SeenBy::Read, RestoreRead::Due) => return,
                }
                *read_at = None;
                if seen == SeenBy::Watch && known.is_newer_than(&observation) {
                    return;
                }
                let old = std::mem::replace(known, KnownLease::Unread);
                *known = old.then(now, &self.me, self.timing.duration, observation);
            }
        }
    }

    /// The watch does not work: a replica that does not lead reads the Lease after the usual pause.
    pub fn unwatched(&mut self, now: Duration) {
        let again = now + self.timing.retry_period;
        if let ElectionState::Outside { read_at, .. } = &mut self.state {
            *read_at = Some(read_at.unwrap_or(again).min(again));
        }
    }

    /// The API server went back to an earlier state, so no version that was seen is reliable: the Lease is read. The
    /// time of a holder continues, and so does ours.
    pub fn restored(&mut self, now: Duration) {
        match &mut self.state {
            ElectionState::Leading { doubts, due, .. } => {
                *doubts = true;
                *due = now;
            }
            ElectionState::Outside { known, read_at, restore, .. } => {
                let old = std::mem::replace(known, KnownLease::Unread);
                *known = old.forgotten();
                *read_at = Some(now);
                *restore = RestoreRead::Due;
            }
            ElectionState::Lost(_) => {}
        }
    }

    /// A read failed: it is tried again after the usual pause.
    pub fn unread(&mut self, now: Duration) {
        let again = now + self.timing.retry_period;
        match &mut self.state {
            ElectionState::Outside { not_before, .. } => *not_before = again,
            ElectionState::Leading { due, .. } => *due = again,
            ElectionState::Lost(_) => {}
        }
    }

    /// A claim or a renewal that was sent then was answered now.
    pub fn answered(&mut self, sent: Duration, now: Duration, base: Option<&ResourceVersion>, answer: LeaseOutcome) {
        let retry = self.timing.retry_period;
        match (&mut self.state, answer) {
            (ElectionState::Lost(_), _) => {}
            (ElectionState::Leading { version, confirmed, due, doubts }, answer) => match answer {
                LeaseOutcome::Confirmed(new) => {
                    *version = new;
                    *confirmed = sent;
                    *due = sent + retry;
                    *doubts = false;
                }
                LeaseOutcome::Conflict => {
                    *doubts = true;
                    *due = now;
                }
                LeaseOutcome::Unknown => *due = now.max(sent + retry),
            },
            (ElectionState::Outside { known, not_before, .. }, LeaseOutcome::Confirmed(version)) => {
                *not_before = now;
                if now < sent + self.timing.renew_deadline {
                    self.state = ElectionState::Leading { version, confirmed: sent, due: sent + retry, doubts: false };
                } else {
                    // We hold it, but it is unknown since when other replicas count their wait: one renewal settles
                    // that.
                    let holder = Arc::clone(&self.me);
                    let duration = self.timing.duration;
                    *known = KnownLease::Mine(Record { version, holder, released_by: None, duration, transitions: 0 });
                }
            }
            (ElectionState::Outside { known, not_before, .. }, LeaseOutcome::Conflict) => {
                // Unless the watch has reported the present state meanwhile.
                if known.version() == base {
                    let old = std::mem::replace(known, KnownLease::Unread);
                    *known = old.forgotten();
                }
                // A lease that was absent and cannot be created may be absent at the next look too. Without a pause
                // that would repeat as fast as the API server answers.
                *not_before = if base.is_some() { now } else { now + retry };
            }
            (ElectionState::Outside { known, not_before, .. }, LeaseOutcome::Unknown) => {
                // We may hold it without knowing: the next read decides.
                let old = std::mem::replace(known, KnownLease::Unread);
                *known = old.forgotten();
                *not_before = now + retry;
            }
        }
    }

    /// Our position. A holder whose time has passed counts as one that lost.
    #[must_use]
    pub fn position(&self) -> ElectionPosition {
        match &self.state {
            ElectionState::Lost(lost) => ElectionPosition::Lost(lost.clone()),
            ElectionState::Leading { confirmed, .. } => {
                ElectionPosition::Leading(*confirmed + self.timing.renew_deadline)
            }
            ElectionState::Outside { known, .. } => match known {
                KnownLease::Unread => ElectionPosition::Unread,
                KnownLease::Held { held, .. } | KnownLease::Absent { held: Some(held) } => {
                    ElectionPosition::Following(Arc::clone(&held.holder))
                }
                KnownLease::Absent { held: None } | KnownLease::Free(_) | KnownLease::Mine(_) => ElectionPosition::Free,
            },
        }
    }

    /// The version that a holder may release.
    #[must_use]
    pub fn release(&self) -> Option<ResourceVersion> {
        match &self.state {
            ElectionState::Leading { version, .. } => Some(version.clone()),
            _ => None,
        }
    }

    fn lose(&mut self, lost: Lost) -> LeaseOrder {
        self.state = ElectionState::Lost(lost.clone());
        LeaseOrder::Stop(lost)
    }
}

impl LeaseHolder {
    fn ends(&self) -> Duration {
        self.since + self.duration
    }
}

impl KnownLease {
    fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Free(record) | Self::Held { record, .. } | Self::Mine(record) => Some(&record.version),
            Self::Unread | Self::Absent { .. } => None,
        }
    }

    /// Whether an observation by the watch is older than what is known.
    fn is_newer_than(&self, observation: &Observation) -> bool {
        let theirs = match observation {
            Observation::Present(record) => Some(&record.version),
            Observation::Absent(version) => version.as_ref(),
        };
        let order = theirs.zip(self.version()).and_then(|(theirs, ours)| theirs.partial_cmp(ours));
        order == Some(std::cmp::Ordering::Less)
    }

    /// The holder whose time has to pass first.
    fn held(self) -> Option<LeaseHolder> {
        match self {
            Self::Held { held, .. } => Some(held),
            Self::Absent { held } => held,
            Self::Unread | Self::Free(_) | Self::Mine(_) => None,
        }
    }

    /// It has to be read again; the time of a holder continues.
    fn forgotten(self) -> Self {
        match self {
            Self::Held { record, held, .. } => Self::Held { record, held, doubts: true },
            Self::Absent { held: Some(held) } => {
                let (version, holder) = ("".into(), Arc::clone(&held.holder));
                let record = Record { version, holder, released_by: None, duration: held.duration, transitions: 0 };
                Self::Held { record, held, doubts: true }
            }
            Self::Unread | Self::Absent { .. } | Self::Free(_) | Self::Mine(_) => Self::Unread,
        }
    }

    fn then(self, now: Duration, me: &Arc<str>, ours: Duration, observation: Observation) -> Self {
        let is_same = match &observation {
            Observation::Present(record) => self.version() == Some(&record.version),
            Observation::Absent(_) => matches!(self, Self::Absent { .. }),
        };
        if is_same {
            return match self {
                Self::Held { record, held, .. } => Self::Held { record, held, doubts: false },
                same => same,
            };
        }
        match observation {
            Observation::Absent(_) => Self::Absent { held: self.held() },
            Observation::Present(record) if record.holder == *me => Self::Mine(record),
            Observation::Present(record) if record.holder.is_empty() => match self.held() {
                Some(held) if record.released_by.as_ref() != Some(&held.holder) => {
                    Self::Held { record, held, doubts: false }
                }
                _ => Self::Free(record),
            },
            Observation::Present(record) => {
                let holder = Arc::clone(&record.holder);
                let held = LeaseHolder { holder, since: now, duration: record.duration.max(ours) };
                Self::Held { record, held, doubts: false }
            }
        }
    }
}

fn claim(record: &Record, hands: u32) -> LeaseOrder {
    let transitions = record.transitions.saturating_add(hands);
    LeaseOrder::Claim { base: Some(record.version.clone()), transitions }
}
