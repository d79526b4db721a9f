//! Whether the pod that a lock names still holds it: by its state, never by its phase annotation, and by age only where
//! its state does not decide (decision N6).

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::record::{Lock, NamedHolder, Note, PodId, PodKey};
use crate::names::{LockValue, NodeName};
use crate::version::ResourceVersion;

/// How long a pod that disappeared keeps its lock: a kubelet may be in the middle of asking for its devices. That it
/// was being deleted proves nothing, since a client that deletes it by force after that does not wait for its kubelet
/// either.
pub const GRACE: Duration = Duration::from_secs(5);

/// How far two clocks may be apart: as much later than the lock a pod may be created and still be the one that a
/// foreign value names, and as long after its deadline an attempt may still be under way.
pub const SKEW: Duration = Duration::from_secs(5);

/// What matters of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Which pod it is.
    pub key: PodId,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// When it was created.
    pub created: Timestamp,
    /// The node it is bound to.
    pub node: Option<NodeName>,
    /// It succeeded or failed.
    pub finished: bool,
    /// A kubelet has set `status.startTime`, which it does after it has asked for devices.
    pub started: bool,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// The value of a lock that was taken from it.
    pub revoked: Option<LockValue>,
}

impl Pod {
    /// Whether a device plugin of this node may still be asked for its devices.
    #[must_use]
    pub fn waits_on(&self, node: &str) -> bool {
        self.node.as_deref() == Some(node) && !self.finished && !self.started
    }
}

/// What is known of the pod that a lock names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// Nothing that counts: a cache without it proves nothing.
    Unconfirmed,
    /// A live read found none of that identity.
    Gone {
        /// Since when this is known here.
        since: Duration,
    },
    /// It was seen like this. If it has ended, that is final, however old this sighting is.
    Seen(Pod),
}

/// Time, for a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The time of the day, which others write into locks.
    pub wall: Timestamp,
    /// A clock that never goes back, since an origin of this process.
    pub steady: Duration,
}

/// What a judgement rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The node.
    pub node: &'a str,
    /// The pod that the lock names.
    pub holder: &'a Holder,
    /// Whether the API server was asked for that pod, after the lock was seen.
    pub confirmed: bool,
    /// Pods bound to this node that need this key and that no device plugin has certainly answered for.
    pub waiting: &'a [Pod],
    /// Whether the API server was asked for those, after the lock was seen.
    pub listed: bool,
    /// The pod named by the last lock, while the node has no lock and the watch of pods has not shown that pod's
    /// outcome.
    pub left: Option<&'a PodKey>,
    /// Whether the node was seen in a version before which a lock may have come and gone unseen, and the API server was not
    /// asked for the pods of the node since.
    pub missed: bool,
    /// When this process first saw exactly this value.
    pub first_seen: Duration,
    /// Now.
    pub clock: Clock,
    /// When a lock expires.
    pub ttl: Duration,
    /// Whose locks are taken over for their age alone.
    pub takeover: Takeover,
}

/// Whose locks are taken over for their age alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Takeover {
    /// Only those of pods that are not bound: otherwise a device plugin would serve the wrong pod.
    #[default]
    State,
    /// Those of every pod, as the original protocol does.
    Age,
}

/// The state of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockState {
    /// A pod holds it, or an unknown holder may.
    Held(LockHeld),
    /// It is on the node, and no pod holds it.
    Over(OrphanReason),
}

/// The holder of a lock, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockHeld {
    /// The pod; `None` where the lock names none.
    pub holder: Option<PodKey>,
    /// After what time it is judged otherwise if nothing happens; `None` where only others change it.
    pub left: Option<Duration>,
    /// Why it counts as held.
    pub why: Why,
}

/// Why a lock counts as held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// Its pod is being bound.
    Binding,
    /// Its pod is bound here and its device plugin has not answered.
    Allocating,
    /// The same, and for longer than the timeout. It keeps its lock; an operator should look at the device plugin.
    Stuck,
    /// Its pod disappeared a moment ago, and a kubelet may be in the middle of asking for its devices.
    Vanished,
    /// It names no pod, and its time is not over.
    Nameless,
    /// It is not understood, and its time is not over.
    Unparsable,
    /// The lock names no holder, but this pod is bound here and its device plugin has not answered.
    Unrecorded,
    /// Its pod has to be read first.
    Unconfirmed,
    /// It names no pod and has expired, or there is none and one may have come and gone unseen: the pods that are bound here
    /// have to be listed first.
    Unlisted,
}

/// Why no pod holds the lock of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrphanReason {
    /// Its pod is gone.
    Gone,
    /// Its pod has succeeded or failed.
    Finished,
    /// Its pod is bound to another node.
    Elsewhere,
    /// Its pod has started: the device plugin has answered, and did not release.
    Started,
    /// Its pod ends and was never bound.
    Terminating,
    /// It was revoked from its pod, which has not been bound under it.
    Revoked,
    /// Its pod was not bound in time. It may still be, so the lock is taken from the pod first.
    Expired,
    /// Its pod was not bound before the deadline of the attempt that wrote it, and the attempt undid nothing: its
    /// process has died. Its Binding may still be on its way, so the lock is revoked from the pod first.
    Abandoned,
    /// It names no pod, and its time is over.
    Nameless,
    /// It is not understood, and its time is over.
    Unparsable,
    /// It is taken over from its bound pod for its age, because the operator wants that.
    Age,
}

impl OrphanReason {
    /// Whether the pod may still be bound under this lock, so that the lock has to be taken from the pod before it is
    /// replaced (decision N5).
    #[must_use]
    pub fn revokes(self) -> bool {
        matches!(self, Self::Expired | Self::Abandoned)
    }
}

/// The state of a lock, given what is known.
#[must_use]
pub fn judge(lock: &Lock, facts: &Facts<'_>) -> LockState {
    let state = named(lock, facts);
    let waiting = facts.waiting.iter().find(|pod| pod.waits_on(facts.node));
    let for_age = facts.takeover == Takeover::Age && expired(lock, facts).is_none();
    match (&state, waiting) {
        (LockState::Over(_), Some(_)) if for_age => state,
        (LockState::Over(_) | LockState::Held(LockHeld { why: Why::Unlisted, .. }), Some(pod)) => unrecorded(pod),
        _ => state,
    }
}

/// The holder of a node under a key that has no lock.
#[must_use]
pub fn judge_absent(facts: &Facts<'_>) -> Option<LockHeld> {
    let waiting = facts.waiting.iter().find(|pod| pod.waits_on(facts.node))?;
    match unrecorded(waiting) {
        LockState::Held(held) => Some(held),
        LockState::Over(_) => None,
    }
}

fn unrecorded(pod: &Pod) -> LockState {
    LockState::Held(LockHeld { holder: Some(pod.key.named()), left: None, why: Why::Unrecorded })
}

fn named(lock: &Lock, facts: &Facts<'_>) -> LockState {
    let left = expired(lock, facts);
    let state = seen(lock, facts, left);
    match (&lock.named, &state, facts.holder) {
        // A name alone may be that of an earlier pod, which a cache still has.
        (NamedHolder::Pod { pod, note: None, .. }, LockState::Over(_), Holder::Seen(_)) if !facts.confirmed => {
            LockState::Held(LockHeld { holder: Some(pod.clone()), left: None, why: Why::Unconfirmed })
        }
        _ => state,
    }
}

fn seen(lock: &Lock, facts: &Facts<'_>, left: Option<Duration>) -> LockState {
    let nameless = |why, reason| match left {
        Some(left) => LockState::Held(LockHeld { holder: None, left: Some(left), why }),
        // The pod that it was written for may be bound here, and a process that was frozen for a while does not know
        // it.
        None if !facts.listed && facts.takeover == Takeover::State => {
            LockState::Held(LockHeld { holder: None, left: None, why: Why::Unlisted })
        }
        None => LockState::Over(reason),
    };
    let (pod, time, note) = match &lock.named {
        NamedHolder::Unparsable(_) => return nameless(Why::Unparsable, OrphanReason::Unparsable),
        NamedHolder::NoPod { .. } => return nameless(Why::Nameless, OrphanReason::Nameless),
        NamedHolder::Pod { pod, time, note } => (pod, *time, note.as_ref()),
    };
    let held = |left, why| LockState::Held(LockHeld { holder: Some(pod.clone()), left, why });
    match facts.holder {
        Holder::Unconfirmed => held(None, Why::Unconfirmed),
        Holder::Gone { since } => {
            let left = (*since + GRACE).saturating_sub(facts.clock.steady);
            if left.is_zero() { LockState::Over(OrphanReason::Gone) } else { held(Some(left), Why::Vanished) }
        }
        // Another pod was read; what a lock says of one pod is never judged by another.
        Holder::Seen(seen) if !is_owner(pod, time, seen) => held(None, Why::Unconfirmed),
        Holder::Seen(seen) => match seen.node.as_deref() {
            _ if seen.finished => LockState::Over(OrphanReason::Finished),
            Some(node) if node != facts.node => LockState::Over(OrphanReason::Elsewhere),
            Some(_) if seen.started => LockState::Over(OrphanReason::Started),
            Some(_) => match left {
                Some(left) => held(Some(left), Why::Allocating),
                None if facts.takeover == Takeover::Age => LockState::Over(OrphanReason::Age),
                None => held(None, Why::Stuck),
            },
            None if seen.deleting => LockState::Over(OrphanReason::Terminating),
            None if seen.revoked.as_ref() == Some(&lock.value) => LockState::Over(OrphanReason::Revoked),
            None => match (left, note.map(|note| under_way(note, facts))) {
                (None, _) => LockState::Over(OrphanReason::Expired),
                (Some(_), Some(Duration::ZERO)) => LockState::Over(OrphanReason::Abandoned),
                (Some(left), under_way) => held(Some(left.min(under_way.unwrap_or(left))), Why::Binding),
            },
        },
    }
}

/// What a live read of the pod that a value names shows. Since when it is gone is kept from what was known before.
#[must_use]
pub fn confirm(named: &PodKey, value: &str, read: Option<Pod>, before: Option<&Holder>, now: Duration) -> Holder {
    let time = Lock::read(value, None).time().unwrap_or(Timestamp::MAX);
    match (read.filter(|pod| is_owner(named, time, pod)), before) {
        (Some(pod), _) => Holder::Seen(pod),
        (None, Some(gone @ Holder::Gone { .. })) => gone.clone(),
        (None, _) => Holder::Gone { since: now },
    }
}

/// Whether a pod that was read is the one that a value names: by UID where a note has it, otherwise by name, unless it
/// is younger than the value.
#[must_use]
pub fn is_owner(named: &PodKey, time: Timestamp, seen: &Pod) -> bool {
    let young = || seen.created.duration_since(time) > jiff::SignedDuration::try_from(SKEW).unwrap_or_default();
    named.may_be(&seen.key) && (named.uid.is_some() || !young())
}

/// How long it lasts; `None` when it has expired. The greater of two ages counts: that by the clocks of the day, and
/// the time since the value was first seen here (requirements R11, R12).
fn expired(lock: &Lock, facts: &Facts<'_>) -> Option<Duration> {
    let seen = facts.clock.steady.saturating_sub(facts.first_seen);
    let written = lock.time().and_then(|time| Duration::try_from(facts.clock.wall.duration_since(time)).ok());
    let age = written.unwrap_or_default().max(seen);
    (age <= facts.ttl).then(|| facts.ttl - age)
}

/// How long the attempt that wrote a note may still be under way, including its undoing; zero if it has ended, even if
/// its process died (requirement R5). Its deadline is by another clock. If that clock is far behind, the deadline is in
/// the past from the start, so no attempt counts as ended before its value was seen here for a moment.
fn under_way(note: &Note, facts: &Facts<'_>) -> Duration {
    let skew = jiff::SignedDuration::try_from(SKEW).unwrap_or_default();
    let left = note.deadline.duration_since(facts.clock.wall).saturating_add(skew);
    let seen = facts.clock.steady.saturating_sub(facts.first_seen);
    Duration::try_from(left).unwrap_or_default().max(GRACE.saturating_sub(seen))
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binding => "its pod is being bound",
            Self::Allocating => "its pod is bound to this node and waits for the device plugin",
            Self::Stuck => {
                "its pod is bound to this node and has waited for the device plugin longer than the lock timeout"
            }
            Self::Vanished => "its pod disappeared a moment ago, and the kubelet may still request devices for it",
            Self::Nameless => "the lock names no pod and has not expired",
            Self::Unparsable => "the value of the lock cannot be read, and the lock has not expired",
            Self::Unrecorded => {
                "this pod is bound to this node and waits for the device plugin, but the lock does not name this pod"
            }
            Self::Unconfirmed => "topoloom has not read the state of its pod yet",
            Self::Unlisted => "topoloom has not listed the pods of this node yet",
        })
    }
}

impl Why {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Binding,
        Self::Allocating,
        Self::Stuck,
        Self::Vanished,
        Self::Nameless,
        Self::Unparsable,
        Self::Unrecorded,
        Self::Unconfirmed,
        Self::Unlisted,
    ];

    /// The word of metrics, Events and the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Binding => "binding",
            Self::Allocating => "allocating",
            Self::Stuck => "stuck",
            Self::Vanished => "vanished",
            Self::Nameless => "nameless",
            Self::Unparsable => "unparsable",
            Self::Unrecorded => "unrecorded",
            Self::Unconfirmed => "unconfirmed",
            Self::Unlisted => "unlisted",
        }
    }
}

impl fmt::Display for OrphanReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "its pod is gone",
            Self::Finished => "its pod has finished",
            Self::Elsewhere => "its pod is bound to another node",
            Self::Started => "its pod has started, so the device plugin has answered",
            Self::Terminating => "its pod is being deleted and is not bound",
            Self::Revoked => "the lock was revoked, and its pod is not bound",
            Self::Expired => "its pod is not bound, and the lock has expired",
            Self::Abandoned => "its pod is not bound, and the attempt that wrote the lock has passed its deadline",
            Self::Nameless => "the lock names no pod and has expired",
            Self::Unparsable => "the value of the lock cannot be read, and the lock has expired",
            Self::Age => "the lock has expired",
        })
    }
}

impl OrphanReason {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Gone,
        Self::Finished,
        Self::Elsewhere,
        Self::Started,
        Self::Terminating,
        Self::Revoked,
        Self::Expired,
        Self::Abandoned,
        Self::Nameless,
        Self::Unparsable,
        Self::Age,
    ];

    /// Whether a device plugin that has done its work may be about to give the lock back itself.
    #[must_use]
    pub fn may_be_given_back(self) -> bool {
        matches!(self, Self::Finished | Self::Elsewhere | Self::Started)
    }

    /// The word of metrics, Events and the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Finished => "finished",
            Self::Elsewhere => "elsewhere",
            Self::Started => "started",
            Self::Terminating => "terminating",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::Abandoned => "abandoned",
            Self::Nameless => "nameless",
            Self::Unparsable => "unparsable",
            Self::Age => "age",
        }
    }
}
