//! Leader election over one Lease: what a replica does next, given what it saw and when.
//!
//! Owns the rules of `node-lock-and-bind.md` B9 as decisions M2 and M4 tighten them. Never talks to anybody: readings and
//! answers come in, orders come out, and time is an argument, measured by a clock that goes on while the machine sleeps
//! and that nobody sets. What is written into the Lease as time of the day is for people; nothing here reads it.
//!
//! ```text
//!            ┌────────── Outside ──────────┐  claim confirmed   ┌─ Leading ─┐  no renewal within the deadline,
//!  start ──► │ unread, absent, free, held  │ ─────────────────► │  renews   │ ─── somebody else's word in the lease ──► Lost
//!            └─────────────────────────────┘                    └───────────┘
//! ```
//!
//! # What is promised
//!
//! * A holder is confirmed until the moment *its request left* plus the renew deadline. Everybody else waits a whole lease
//!   duration from the moment *they saw* its last change, which was later, and the duration is longer than the deadline.
//!   So two replicas are never confirmed at once, whatever is delayed, lost or answered twice, as long as nobody else
//!   writes the Lease.
//! * If somebody else writes it: a holder stops at the first word that is not its own, and whoever saw a holder still waits
//!   for its time to pass, unless that holder itself gave the Lease back.
//! * A replica that lost does not come back: its process ends, and with it everything that was decided under the Lease.

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
    /// How long others wait after the last change that they saw.
    pub duration: Duration,
    /// How long a holder counts as one after its last confirmed renewal was sent.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
}

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its resourceVersion.
    pub version: ResourceVersion,
    /// Who holds it; empty: nobody.
    pub holder: Arc<str>,
    /// Who gave it back, where it was given back.
    pub released_by: Option<Arc<str>>,
    /// How long its holder asks others to wait.
    pub duration: Duration,
    /// How often it changed hands.
    pub transitions: u32,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The Lease.
    Present(Record),
    /// There is none; with the version of its deletion, where a watch told it.
    Absent(Option<ResourceVersion>),
}

/// How something was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// By a read that began after everything that was answered before: it is the present.
    Read,
    /// By a watch, which may be behind.
    Watch,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Nothing before this time, unless something is seen.
    Wait(Duration),
    /// Read the Lease.
    Read,
    /// Write ourselves into it: create it without a base, replace that version otherwise.
    Claim {
        /// The version to replace.
        base: Option<ResourceVersion>,
        /// How often it will have changed hands.
        transitions: u32,
    },
    /// Renew this version.
    Renew(ResourceVersion),
    /// It is over.
    Stop(Lost),
}

/// Why the Lease is not ours any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// No renewal was confirmed within the deadline.
    Expired,
    /// Somebody else is written there; empty: nobody.
    Taken(Arc<str>),
    /// It was deleted.
    Deleted,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Expired => f.write_str("no renewal was confirmed within the renew deadline"),
            Self::Taken(by) if by.is_empty() => f.write_str("somebody cleared its holder"),
            Self::Taken(by) => write!(f, "it says that {by} holds it"),
            Self::Deleted => f.write_str("it was deleted"),
        }
    }
}

/// How a claim or a renewal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The API server confirmed it, with this version.
    Confirmed(ResourceVersion),
    /// The Lease is not what it was: read it again.
    Conflict,
    /// No answer, or a refusal that says nothing about the Lease. It may have been written.
    Unknown,
}

/// How a replica stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The Lease was not read yet.
    Unread,
    /// Another holds it, or held it until a moment ago.
    Following(Arc<str>),
    /// Nobody holds it that we know of.
    Free,
    /// We hold it until that time, unless it is renewed.
    Leading(Duration),
    /// We held it.
    Lost(Lost),
}

/// One replica.
#[derive(Debug)]
pub struct Candidate {
    me: Arc<str>,
    timing: Timing,
    state: State,
}

#[derive(Debug)]
enum State {
    Outside {
        known: Known,
        /// After a failure: nothing is tried before.
        not_before: Duration,
        /// The watch is broken: a read is due then.
        read_at: Option<Duration>,
    },
    Leading {
        version: ResourceVersion,
        /// When the last confirmed renewal was sent.
        confirmed: Duration,
        /// When the next one is due.
        due: Duration,
        /// What the watch says is doubtful.
        doubts: bool,
    },
    Lost(Lost),
}

#[derive(Debug)]
enum Known {
    Unread,
    Absent {
        held: Option<Held>,
    },
    Free(Record),
    Held {
        record: Record,
        held: Held,
        /// What is stored may be something else by now.
        doubts: bool,
    },
    /// A claim of ours that was never confirmed.
    Mine(Record),
}

/// Whose time has to pass.
#[derive(Debug, Clone)]
struct Held {
    holder: Arc<str>,
    since: Duration,
    duration: Duration,
}

impl Candidate {
    /// A replica that has not seen the Lease. `me` must be unlike any other replica's name, also of earlier processes.
    #[must_use]
    pub fn new(me: Arc<str>, timing: Timing) -> Self {
        Self { me, timing, state: State::Outside { known: Known::Unread, not_before: Duration::ZERO, read_at: None } }
    }

    /// Our name.
    #[must_use]
    pub fn me(&self) -> &Arc<str> {
        &self.me
    }

    /// What to do at this time.
    pub fn next(&mut self, now: Duration) -> Order {
        match &self.state {
            State::Lost(lost) => Order::Stop(lost.clone()),
            State::Leading { version, confirmed, due, doubts } => {
                let end = *confirmed + self.timing.renew_deadline;
                if now >= end {
                    return self.lose(Lost::Expired);
                }
                match () {
                    () if *due > now => Order::Wait(end.min(*due)),
                    () if *doubts => Order::Read,
                    () => Order::Renew(version.clone()),
                }
            }
            State::Outside { not_before, .. } if *not_before > now => Order::Wait(*not_before),
            State::Outside { read_at: Some(at), .. } if *at <= now => Order::Read,
            State::Outside { known, read_at, .. } => match known {
                Known::Unread => Order::Read,
                Known::Absent { held } => match held.as_ref().map(|held| held.ends()).filter(|ends| *ends > now) {
                    Some(ends) => Order::Wait(read_at.unwrap_or(ends).min(ends)),
                    None => Order::Claim { base: None, transitions: 0 },
                },
                Known::Free(record) => claim(record, 1),
                Known::Held { held, doubts: true, .. } if held.ends() <= now => Order::Read,
                Known::Held { record, held, .. } if held.ends() <= now => claim(record, 1),
                Known::Held { held, .. } => Order::Wait(read_at.unwrap_or(held.ends()).min(held.ends())),
                Known::Mine(record) => claim(record, 0),
            },
        }
    }

    /// Until when an attempt that begins now may take.
    #[must_use]
    pub fn patience(&self, now: Duration) -> Duration {
        // Long enough for a slow answer, short enough that a connection that died costs one attempt and not the Lease.
        let attempt = self.timing.retry_period.max(self.timing.renew_deadline / 3);
        match &self.state {
            State::Leading { confirmed, .. } => (*confirmed + self.timing.renew_deadline).min(now + attempt),
            _ => now + attempt,
        }
    }

    /// Something was seen.
    pub fn observed(&mut self, now: Duration, seen: Seen, observation: Observation) {
        match &mut self.state {
            State::Lost(_) => {}
            State::Leading { version, due, doubts, .. } => {
                let (other, theirs) = match &observation {
                    Observation::Present(record) if record.holder == self.me => {
                        if seen == Seen::Read {
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
                    (Seen::Read, _) | (Seen::Watch, Some(std::cmp::Ordering::Greater)) => {
                        self.lose(other);
                    }
                    // From before our claim.
                    (Seen::Watch, Some(_)) => {}
                    (Seen::Watch, None) => {
                        *doubts = true;
                        *due = now;
                    }
                }
            }
            State::Outside { known, read_at, .. } => {
                *read_at = None;
                if seen == Seen::Watch && known.is_newer_than(&observation) {
                    return;
                }
                let old = std::mem::replace(known, Known::Unread);
                *known = old.then(now, &self.me, self.timing.duration, observation);
            }
        }
    }

    /// The watch does not work: whoever does not lead reads after the usual pause.
    pub fn unwatched(&mut self, now: Duration) {
        let again = now + self.timing.retry_period;
        if let State::Outside { read_at, .. } = &mut self.state {
            *read_at = Some(read_at.unwrap_or(again).min(again));
        }
    }

    /// A read failed: it is tried again after the usual pause.
    pub fn unread(&mut self, now: Duration) {
        let again = now + self.timing.retry_period;
        match &mut self.state {
            State::Outside { not_before, .. } => *not_before = again,
            State::Leading { due, .. } => *due = again,
            State::Lost(_) => {}
        }
    }

    /// A claim or a renewal that was sent then was answered now.
    pub fn answered(&mut self, sent: Duration, now: Duration, base: Option<&ResourceVersion>, answer: Answer) {
        let retry = self.timing.retry_period;
        match (&mut self.state, answer) {
            (State::Lost(_), _) => {}
            (State::Leading { version, confirmed, due, doubts }, answer) => match answer {
                Answer::Confirmed(new) => {
                    *version = new;
                    *confirmed = sent;
                    *due = sent + retry;
                    *doubts = false;
                }
                Answer::Conflict => {
                    *doubts = true;
                    *due = now;
                }
                Answer::Unknown => *due = now.max(sent + retry),
            },
            (State::Outside { known, not_before, .. }, Answer::Confirmed(version)) => {
                *not_before = now;
                if now < sent + self.timing.renew_deadline {
                    self.state = State::Leading { version, confirmed: sent, due: sent + retry, doubts: false };
                } else {
                    // It is ours, and nobody can say since when others count: one renewal makes it good.
                    let holder = Arc::clone(&self.me);
                    let duration = self.timing.duration;
                    *known = Known::Mine(Record { version, holder, released_by: None, duration, transitions: 0 });
                }
            }
            (State::Outside { known, not_before, .. }, Answer::Conflict) => {
                // Unless the watch has told meanwhile what is there now.
                if known.version() == base {
                    let old = std::mem::replace(known, Known::Unread);
                    *known = old.forgotten();
                }
                // A lease that was not there and cannot be made may well be absent at the next look, too: without a pause
                // that would go round as fast as the API server answers.
                *not_before = if base.is_some() { now } else { now + retry };
            }
            (State::Outside { known, not_before, .. }, Answer::Unknown) => {
                // It may be ours without our knowing it: what is there now decides.
                let old = std::mem::replace(known, Known::Unread);
                *known = old.forgotten();
                *not_before = now + retry;
            }
        }
    }

    /// How we stand. A holder whose time has passed counts as one that lost.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match &self.state {
            State::Lost(lost) => Standing::Lost(lost.clone()),
            State::Leading { confirmed, .. } => Standing::Leading(*confirmed + self.timing.renew_deadline),
            State::Outside { known, .. } => match known {
                Known::Unread => Standing::Unread,
                Known::Held { held, .. } | Known::Absent { held: Some(held) } => {
                    Standing::Following(Arc::clone(&held.holder))
                }
                Known::Absent { held: None } | Known::Free(_) | Known::Mine(_) => Standing::Free,
            },
        }
    }

    /// The version that a holder gives back.
    #[must_use]
    pub fn release(&self) -> Option<ResourceVersion> {
        match &self.state {
            State::Leading { version, .. } => Some(version.clone()),
            _ => None,
        }
    }

    fn lose(&mut self, lost: Lost) -> Order {
        self.state = State::Lost(lost.clone());
        Order::Stop(lost)
    }
}

impl Held {
    fn ends(&self) -> Duration {
        self.since + self.duration
    }
}

impl Known {
    fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Free(record) | Self::Held { record, .. } | Self::Mine(record) => Some(&record.version),
            Self::Unread | Self::Absent { .. } => None,
        }
    }

    /// Whether a watch tells something that is older than this.
    fn is_newer_than(&self, observation: &Observation) -> bool {
        let theirs = match observation {
            Observation::Present(record) => Some(&record.version),
            Observation::Absent(version) => version.as_ref(),
        };
        let order = theirs.zip(self.version()).and_then(|(theirs, ours)| theirs.partial_cmp(ours));
        order == Some(std::cmp::Ordering::Less)
    }

    /// Whose time has to pass.
    fn held(self) -> Option<Held> {
        match self {
            Self::Held { held, .. } => Some(held),
            Self::Absent { held } => held,
            Self::Unread | Self::Free(_) | Self::Mine(_) => None,
        }
    }

    /// It has to be read again; the time of a holder goes on.
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
                let held = Held { holder, since: now, duration: record.duration.max(ours) };
                Self::Held { record, held, doubts: false }
            }
        }
    }
}

fn claim(record: &Record, hands: u32) -> Order {
    let transitions = record.transitions.saturating_add(hands);
    Order::Claim { base: Some(record.version.clone()), transitions }
}
