//! Whether any installation serves a binding, by the leases of its virtual nodes: the evidence that every installation may read,
//! also of one whose own Lease it may not read.
//!
//! Owns how long a look lasts, what it shows, and what an installation that serves a binding does about the name of another one in
//! its status. Never compares a time with a clock: a Lease was renewed where its time is another one than at the last look, and how
//! long none was is counted by our own clock, which cannot be set.
//!
//! # How long
//!
//! A lease of a node lasts 40 s and is renewed every 10 s, so one that is served is seen to be renewed within 10 s. A look lasts half
//! of a lease, 20 s, and is made of one read every 5 s: it is longer than the 18 s in which the replicas of the other installation
//! may be without a holder. The oldest lease is 10 s older than the one that was renewed last, and that was up to 5 s before the read
//! that has shown it. So after 35 s at most it is known that no installation renews, and the leases last for 40 s.
//!
//! # Failure story
//!
//! A read that failed shows nothing, and the look begins again: the other installation may not have reached the API server, either.
//! Where there is nothing to be renewed, because the binding has no nodes or its physical cluster does not answer, an installation
//! that lives is as silent as one that is gone. Where the status says that the physical cluster does not answer a look is therefore
//! sixteen times as long. One that lives and is taken over all the same answers: it writes its name again, and the other one leaves the
//! binding to it. Each look of one that has left a binding is four times as long as the one before, up to an hour, until another one was
//! heard for three leases: so two that cannot see each other come to rest.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use topoloom_core::names::NodeName;

use super::Presence;

/// How long the lease of a node lasts that no Lease says.
const USUAL: Duration = Duration::from_secs(40);
/// The shortest that counts, whatever a Lease says, and the longest: those of `spec.timing.lease`.
const SHORTEST: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(3600);
/// Reads that are further apart than this, or than one look, are not of one look: the machine may have slept, and all others with it.
const APART: Duration = Duration::from_secs(15);
/// One that was heard for so many leases is no take-over that ends again.
const STEADY: u32 = 3;

/// What one read shows of the leases of the virtual nodes of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beats {
    /// When each was renewed last, as its Lease says. Those that never were are left out.
    pub renewed: BTreeMap<NodeName, Timestamp>,
    /// The longest time that one of them lasts.
    pub lasts: Option<Duration>,
}

/// Why an installation that lives may be silent, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Doubts {
    /// How often this one has left the binding to another, since it heard one for long.
    pub left: u32,
    /// Whether the status says that the physical cluster does not answer: then leases are stopped on purpose.
    pub says_unreachable: bool,
}

/// What the reads so far show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// A lease was renewed since the last read: an installation serves the binding. Read again after this time.
    Renewed(Duration),
    /// The same, and for so long that it will continue: one that takes a binding over renews its leases first, and may stop then.
    Steady(Duration),
    /// None was, so far. Read again after this time.
    Quiet(Duration),
    /// None was for a whole look.
    Silent,
}

/// What one replica has seen of leases that it does not renew. Times are those of a clock that cannot be set.
#[derive(Debug, Clone, Default)]
pub struct Silence {
    look: Option<Look>,
}

#[derive(Debug, Clone)]
struct Look {
    renewed: BTreeMap<NodeName, Timestamp>,
    /// Since when none of them was renewed.
    since: Duration,
    /// The last read.
    last: Duration,
    /// When the first renewal was heard that none was missing after.
    heard: Option<Duration>,
}

impl Silence {
    /// The leases could not be read.
    pub fn unread(&mut self) {
        self.look = None;
    }

    /// Takes what was read now.
    pub fn heard(&mut self, beats: Beats, doubts: Doubts, now: Duration) -> Heard {
        let Beats { renewed, lasts } = beats;
        let lasts = lasts.unwrap_or(USUAL).clamp(SHORTEST, LONGEST);
        let (pause, whole) = (lasts / 8, whole(lasts, doubts));
        let (mut since, mut is_renewed, mut heard) = (now, false, None);
        if let Some(before) = self.look.take() {
            let is_apart = now.saturating_sub(before.last) > APART.max(lasts / 2);
            let is_new = renewed.keys().any(|node| !before.renewed.contains_key(node));
            is_renewed =
                renewed.iter().any(|(node, time)| before.renewed.get(node).is_some_and(|before| before != time));
            // One that is new was made by another, or is not renewed by us any more.
            if !(is_renewed || is_new || is_apart) {
                since = before.since;
            }
            heard = before.heard.or(is_renewed.then_some(now));
        }
        let silent = now.saturating_sub(since);
        heard = heard.filter(|_| silent < lasts / 2);
        let is_steady = heard.is_some_and(|heard| now.saturating_sub(heard) >= lasts * STEADY);
        self.look = Some(Look { renewed, since, last: now, heard });
        let left = whole.saturating_sub(silent);
        if is_renewed {
            if is_steady { Heard::Steady(pause) } else { Heard::Renewed(pause) }
        } else if left.is_zero() {
            Heard::Silent
        } else {
            Heard::Quiet(pause.min(left))
        }
    }
}

/// How long a look lasts.
fn whole(lasts: Duration, doubts: Doubts) -> Duration {
    let Doubts { left, says_unreachable } = doubts;
    let (half, power) = (lasts / 2, left.saturating_add(if says_unreachable { 2 } else { 0 }));
    half.saturating_mul(4_u32.saturating_pow(power)).min(LONGEST.max(half))
}

/// Whose name stands in the status of a binding that we serve, where its Lease cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// Nothing is known of it: a person may have written that name.
    Stranger,
    /// The one that we took the binding over from because it was silent. Only one that lives writes its name again.
    TakenFrom,
    /// One over whose name we have written ours, and it has written its own again. Each knows that the other lives.
    Insists,
}

/// What an installation that serves a binding knows of a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Who it is.
    pub rival: Rival,
    /// Its Lease, as the status has it.
    pub theirs: &'a str,
    /// Our own.
    pub ours: &'a str,
    /// Whether one of the leases that we renew was renewed by another since then.
    pub is_contested: bool,
    /// Whether we renew any.
    pub renews: bool,
    /// What the leases show that we do not renew.
    pub heard: Heard,
}

/// What an installation that serves a binding does about the name of a rival in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It continues to serve the binding, and writes its own name again.
    Stay,
    /// It leaves the binding to the rival.
    Leave(Why),
    /// It is not known yet. For this time it continues, and changes nothing but leases.
    Wait(Duration),
}

/// Why a binding is left to a rival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its own Lease can be read, and is held.
    Holds,
    /// It renews leases of the virtual nodes.
    Renews,
    /// It has answered, and there is nothing that we renew.
    Answers,
}

/// Decides about a rival whose own Lease can be read: one look at it shows this.
#[must_use]
pub fn claim_by_lease(presence: Presence) -> Claim {
    match presence {
        Presence::Gone => Claim::Stay,
        Presence::There(_) => Claim::Leave(Why::Holds),
    }
}

/// Decides about one whose Lease cannot be read. The one whose name is in the status has written it last: where both renew leases, it
/// stays.
#[must_use]
pub fn claim(facts: &Facts<'_>) -> Claim {
    let Facts { rival, theirs, ours, is_contested, renews, heard } = *facts;
    let pause = match heard {
        Heard::Renewed(_) | Heard::Steady(_) => return Claim::Leave(Why::Renews),
        Heard::Quiet(pause) => Some(pause),
        Heard::Silent => None,
    };
    if is_contested {
        return Claim::Leave(Why::Renews);
    }
    let gives_way = match rival {
        Rival::Stranger => false,
        Rival::TakenFrom => true,
        // Both would write for ever otherwise, and both know both names.
        Rival::Insists => ours > theirs,
    };
    if gives_way && !renews {
        return Claim::Leave(Why::Answers);
    }
    pause.map_or(Claim::Stay, Claim::Wait)
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "its Lease is held",
            Self::Renews => "it renews the leases of virtual nodes",
            Self::Answers => "it has written its name again, and there is no lease to be renewed",
        })
    }
}

#[cfg(test)]
mod tests;
