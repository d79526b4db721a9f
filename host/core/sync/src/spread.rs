//! Which replica serves which binding, so that several replicas share the work (decision S11).
//!
//! Owns the members, as one replica sees them: which announce themselves, and which of them count as live. Owns the order in
//! which members try to get a free binding, and the hand-over of a binding to a member that ranks higher. Never decides who
//! *holds* a binding: that is for its lease alone (`topoloom_core::election`). So two replicas that see different members only
//! try a moment too early or too late, and never serve a binding together.
//!
//! What a replica does for many bindings at one moment, it spreads over a time, by [`stagger`].
//!
//! Members rank by rendezvous hashing: each member has a weight for each binding, and the highest goes first. A member that
//! joins or leaves moves the bindings that it ranks first for, and no other.
//!
//! # Failure story
//!
//! A member that died still counts for as long as its announcement lasts, counted from when this replica saw it last, by this
//! replica's own clock. Meanwhile the other members give way to it, and that costs one second per binding, since they try all
//! the same. A member that announces itself and does not take what is handed to it costs the same second: then the replica
//! that handed the binding over takes it back, and keeps it for ten minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest, Sha256};
use topoloom_core::any_text_type;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// How much later the other members try to get a free binding than the first: longer than a claim takes, and short beside the
/// duration of a lease.
pub const COURTESY: Duration = Duration::from_secs(1);
/// For how long a binding stays where it is after it was taken: its caches were filled for it.
pub const KEPT: Duration = Duration::from_secs(600);
/// How much time is between two hand-overs by one replica: each is a take-over, with lists of both clusters.
pub const BETWEEN: Duration = Duration::from_secs(60);
/// From so many bindings on, their steps are spread over the whole time.
const CROWD: u32 = 10;
/// For how long a member has to be live before a binding is handed over to it: one that crashes at its start gets none.
pub const SETTLES: Duration = Duration::from_secs(60);
/// The longest time that an announcement lasts, whatever it says.
const LONGEST: Duration = Duration::from_secs(3600);
/// So long after its end an announcement is left by a process that died, and may be removed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// More members than replicas that anyone runs; others are not looked at.
const MOST: usize = 200;

any_text_type! {
    /// A replica, by its name in leases.
    MemberName
}

/// What a member announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Which one it is.
    pub member: MemberName,
    /// The version of the announcement: another one is a sign of life.
    pub version: ResourceVersion,
    /// How long it lasts.
    pub lasts: Duration,
}

/// The members, as one replica sees them.
#[derive(Debug, Clone)]
pub struct Members {
    me: MemberName,
    others: BTreeMap<MemberName, Seen>,
}

#[derive(Debug, Clone)]
struct Seen {
    version: ResourceVersion,
    lasts: Duration,
    /// When the announcement was seen to change last.
    seen: Duration,
    /// Since when it has been live without a gap.
    live_since: Duration,
}

impl Seen {
    fn ends(&self) -> Duration {
        self.seen + self.lasts
    }
}

impl Members {
    /// This replica, and no other yet.
    #[must_use]
    pub fn new(me: MemberName) -> Self {
        Self { me, others: BTreeMap::new() }
    }

    /// This replica.
    #[must_use]
    pub fn me(&self) -> &MemberName {
        &self.me
    }

    /// An announcement was seen.
    pub fn saw(&mut self, now: Duration, announcement: Announcement) {
        let Announcement { member, version, lasts } = announcement;
        if member == self.me || member.is_empty() {
            return;
        }
        let (lasts, is_full) = (lasts.min(LONGEST), self.others.len() >= MOST);
        match self.others.get_mut(&*member) {
            // The same once more is no sign of life, and an older one is late.
            Some(known) if known.version == version || version.is_older_than(&known.version) => {}
            Some(known) => {
                let live_since = if now < known.ends() { known.live_since } else { now };
                *known = Seen { version, lasts, seen: now, live_since };
            }
            None if is_full => {}
            None => drop(self.others.insert(member, Seen { version, lasts, seen: now, live_since: now })),
        }
    }

    /// A member has withdrawn its announcement: it ends.
    pub fn left(&mut self, member: &str) {
        self.others.remove(member);
    }

    /// All announcements that there are. In a history that was `restored` an older version is a sign of life, too.
    pub fn relisted(&mut self, now: Duration, all: impl IntoIterator<Item = Announcement>, history: History) {
        let mut known = std::mem::take(&mut self.others);
        for announcement in all {
            if let Some((member, seen)) = known.remove_entry(&*announcement.member)
                && (history == History::Same || seen.version == announcement.version)
            {
                self.others.insert(member, seen);
            }
            self.saw(now, announcement);
        }
    }

    /// The members that count as live, this replica among them.
    #[must_use]
    pub fn live(&self, now: Duration) -> BTreeSet<MemberName> {
        let others = self.others.iter().filter(|(_, seen)| now < seen.ends()).map(|(member, _)| member.clone());
        others.chain([self.me.clone()]).collect()
    }

    /// When the next announcement ends, unless it changes.
    #[must_use]
    pub fn next_end(&self, now: Duration) -> Option<Duration> {
        self.others.values().map(Seen::ends).filter(|ends| *ends > now).min()
    }

    /// The members whose processes died long ago: their announcements may be removed.
    #[must_use]
    pub fn abandoned(&self, now: Duration) -> Vec<MemberName> {
        let others = self.others.iter().filter(|(_, seen)| now >= seen.ends() + ABANDONED);
        others.map(|(member, _)| member.clone()).collect()
    }

    /// How much later than it could this replica claims a binding.
    #[must_use]
    pub fn courtesy(&self, now: Duration, binding: &Uid) -> Duration {
        let live = self.live(now);
        if first(binding, &live).is_none_or(|first| *first == self.me) { Duration::ZERO } else { COURTESY }
    }

    /// When a live member has been live for long enough.
    fn settles(&self, member: &str) -> Option<Duration> {
        self.others.get(member).map(|seen| seen.live_since + SETTLES)
    }
}

/// Whether versions of announcements may be compared with those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// They may.
    Same,
    /// The API server went back to an earlier state.
    Restored,
}

/// The member that a binding goes to first.
#[must_use]
pub fn first<'a>(binding: &Uid, members: impl IntoIterator<Item = &'a MemberName>) -> Option<&'a MemberName> {
    members.into_iter().max_by_key(|member| (weight(binding, member), (*member).clone()))
}

/// By how much a step for this binding is moved within a time, so that those of many bindings come one after the other. It is
/// always the same for one binding.
#[must_use]
pub fn stagger(binding: &Uid, within: Duration) -> Duration {
    let share = u32::try_from(weight(binding, "") >> 112).unwrap_or(0);
    within / (1 << 16) * share
}

/// The same for a binding that so many others come before: the first goes at once, and the time that a few share is short.
#[must_use]
pub fn stagger_among(binding: &Uid, before: u32, within: Duration) -> Duration {
    stagger(binding, within / CROWD * before.min(CROWD))
}

/// How high a member ranks for a binding. Replicas of two versions share a cluster while one replaces the other, so this never
/// changes.
fn weight(binding: &str, member: &str) -> u128 {
    let hash = Sha256::digest(format!("{binding}\0{member}").as_bytes());
    hash.iter().take(16).fold(0, |weight, byte| (weight << 8) | u128::from(*byte))
}

/// A binding that this replica holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBinding {
    /// Which one.
    pub binding: Uid,
    /// Since when.
    pub since: Duration,
}

/// What to do about the bindings that this replica holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandOver {
    /// Give this one back: another member ranks higher, and takes it.
    Release(Uid),
    /// Look again at this time, or when a member or a binding comes or goes.
    At(Duration),
    /// Nothing until a member or a binding comes or goes.
    Nothing,
}

/// The hand-overs of one replica.
#[derive(Debug, Clone, Default)]
pub struct HandOvers {
    last: Option<Duration>,
}

impl HandOvers {
    /// What to do now.
    #[must_use]
    pub fn next(&self, now: Duration, members: &Members, held: &[HeldBinding]) -> HandOver {
        let live = members.live(now);
        let pause = self.last.map_or(Duration::ZERO, |last| last + BETWEEN);
        let due = held.iter().filter_map(|held| {
            let other = first(&held.binding, &live).filter(|first| *first != members.me())?;
            let settles = members.settles(other)?;
            Some(((held.since + KEPT).max(settles).max(pause), held))
        });
        // The one that has been held for longest goes first.
        match due.min_by_key(|(due, held)| ((*due).max(now), held.since, held.binding.clone())) {
            Some((due, held)) if due <= now => HandOver::Release(held.binding.clone()),
            Some((due, _)) => HandOver::At(due),
            None => HandOver::Nothing,
        }
    }

    /// A binding was given back.
    pub fn done(&mut self, now: Duration) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests;
