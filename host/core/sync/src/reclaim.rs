//! What happens to the pods of a virtual node outside of the time windows of its policy (`bottomup-syncer.md` 6.8,
//! decisions D3 and S17).
//!
//! A node outside of its windows gets a taint: NoSchedule first, and NoExecute once the grace of a policy with
//! `forceReclaim` is over. Then the pods are deleted, too, since no promise may depend on whether the virtual cluster runs
//! taint-eviction. This room owns that clock, and which pods go when. It never decides whether a window is open, and it
//! evicts nothing itself: the guard (decision S9) may hold what it asks for, and the next look asks again.
//!
//! # The clock
//!
//! Everything that the clock needs stands on the virtual node, so that a restart or another leader continues it:
//!
//! | where | what |
//! |---|---|
//! | `timeAdded` of the taint | when the clock started. It stays when the effect becomes NoExecute |
//! | annotation [`keys::RECLAIM_STARTED`] | the same, for a taint that another client takes off, or without its time |
//! | annotation [`keys::RECLAIM_GRACE`] | the longest grace that was in force since then, in seconds |
//! | annotation [`keys::RECLAIM_SINCE`] | when the effect became NoExecute; tolerationSeconds are granted from there |
//! | annotation [`keys::RECLAIM_MARKED`] | the time by which the windows were judged closed, where `timeAdded` is another one |
//!
//! * The grace that counts is the longer one of the policy in force and of [`keys::RECLAIM_GRACE`]. So an edit, another policy or
//!   none can lengthen a running grace and never shorten it. It is a length and not an instant, so that it survives a
//!   correction of the start.
//! * A `timeAdded` in the future is set to now, once, and reported.
//! * The caller knows how far the wall clock was stepped since it first saw this `timeAdded`, and how far it is from the clock of
//!   the process that wrote it ([`TakeOver`](crate::wall::TakeOver)). A step of [`STEP`] or more moves the stored times along.
//! * Which closing it is stays known by [`keys::RECLAIM_MARKED`]: a time that was moved names none.
//! * If the windows opened and closed again while no syncer looked, the clock starts at that closing.
//! * When the window opens, taint and annotations go, and the next closing has a fresh clock.
//! * A pod that is being deleted is left to its grace, which the tenant chose, but not for longer than an hour: its machine is the
//!   lender's.
//! * A taint that another client takes off, or its time, comes back with the time that it had: the annotation has it, and so has the
//!   process ([`ClosingMemory`]), for a client that takes off the annotations, too. The process forgets it when the windows open.
//!
//! Failure story: an annotation that cannot be read is reported. Without a readable [`keys::RECLAIM_GRACE`] the grace of the
//! policy counts; without a readable [`keys::RECLAIM_SINCE`] tolerationSeconds start again at now. A taint without a time of which
//! nothing else says when its clock started counts as one whose grace is over, as 6.8 wants it, and goes on to do so while the guard
//! holds it: no syncer of this kind writes one.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::deletion::is_slow;
use super::keys;
use super::merge::Stamp;
use super::phase::Phase;
use super::policy::terms::{OnClose, ReclaimVia};
use super::taints::{Effect, Taint, Tolerated, Toleration, tolerates};
use super::texts::Keyed;
use super::wall::STEP;
use topoloom_core::names::Uid;

mod clock;
#[cfg(test)]
mod histories;
mod memory;
mod reason;
#[cfg(test)]
mod tests;

use clock::{Clock, Found};
pub use memory::{Closing, ClosingMemory};
pub use reason::{Reason, Stay};

/// The value of the taint.
const OUT: &str = "true";

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// Inside of the windows of the policy in force. Without a policy every node is inside.
    Inside,
    /// Outside of them.
    Outside(OnClose),
}

/// Which pod it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod of the virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Which one it is.
    pub pod: PodRef,
    /// What it tolerates, at least as far as that decides about the taint that [evicts](evicting).
    pub tolerations: Vec<Toleration>,
    /// A DaemonSet owns it.
    pub of_daemon_set: bool,
    /// It has a deletionTimestamp.
    pub terminating: bool,
    /// How long it has to end from the request to delete it on, where it has one.
    pub grace: Option<Duration>,
    /// Its phase.
    pub phase: Phase,
}

/// What a decision follows from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Where the node is.
    pub window: Window,
    /// The taints of the virtual node.
    pub taints: &'a [Taint],
    /// Its annotations.
    pub annotations: &'a dyn Keyed,
    /// When the windows of the policy in force closed last. `None` if that is not known, or if the annotation
    /// [`keys::POLICIES_APPLIED`] names another policy: the clock runs while the node is outside, whichever policy is in
    /// force.
    pub closed: Option<Timestamp>,
    /// By which time windows are judged: now, or later where they were judged by that before.
    pub judged: Timestamp,
    /// How far the wall clock was set forward (or back, if negative) since this process first saw the window taint with
    /// the `timeAdded` that it has now; of one that an earlier process wrote, also how far its clock was from ours.
    pub stepped: SignedDuration,
    /// What this process remembers of the present closing, by its clock as it is now.
    pub remembered: Option<Closing>,
    /// The pods that are bound to it.
    pub pods: &'a [Pod],
}

/// What the taint of closed windows must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WindowTaint {
    /// Not there.
    None,
    /// No new pods.
    NoSchedule {
        /// When the clock started.
        since: Timestamp,
    },
    /// No pods.
    NoExecute {
        /// When the clock started.
        since: Timestamp,
    },
}

impl WindowTaint {
    /// The taint, for the list of what is wanted.
    #[must_use]
    pub fn taint(self) -> Option<Taint> {
        let (effect, since) = match self {
            Self::None => return None,
            Self::NoSchedule { since } => (Effect::NoSchedule, since),
            Self::NoExecute { since } => (Effect::NoExecute, since),
        };
        Some(Taint { time_added: Some(since), ..Taint::new(keys::OUT_OF_WINDOWS_TAINT, OUT, effect) })
    }
}

/// A pod that is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePod {
    /// Which one.
    pub pod: PodRef,
    /// Not before this time.
    pub due: Timestamp,
}

/// Which pods go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Evict {
    /// None.
    #[default]
    Nothing,
    /// These, by the Eviction API.
    Evict(Vec<PodRef>),
    /// These, each by DELETE when it is due.
    Delete(Vec<DuePod>),
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaim {
    /// What the taint must be.
    pub taint: WindowTaint,
    /// Which time it gets: for [`Wanted`](super::merge::Wanted).
    pub stamp: Stamp,
    /// Since when its effect is NoExecute: the wanted value of [`keys::RECLAIM_SINCE`].
    pub since: Option<Timestamp>,
    /// The longest grace in force since the window closed: the wanted value of [`keys::RECLAIM_GRACE`].
    pub promised: Option<Duration>,
    /// Which closing it is, where the time of the taint does not say so: the wanted value of [`keys::RECLAIM_MARKED`].
    pub marked: Option<Timestamp>,
    /// The closing, where it had begun before this look: for [`ClosingMemory`].
    pub known: Option<Closing>,
    /// Which pods go.
    pub evict: Evict,
    /// Pods that are being deleted, each with more time than a machine is kept from its lender for: they get
    /// [`LONGEST_GRACE`](super::deletion::LONGEST_GRACE) when they are due. They were deleted before, so that the guard is not asked.
    pub shorten: Vec<DuePod>,
    /// Which pods stay although pods go.
    pub stay: Vec<(PodRef, Stay)>,
    /// When the answer changes by itself.
    pub next: Option<Timestamp>,
    /// Why.
    pub reasons: Vec<Reason>,
}

impl Reclaim {
    /// The annotations that the virtual node has to have for it.
    #[must_use]
    pub fn annotations(&self) -> Vec<(&'static str, String)> {
        let started = self.closing().map(|closing| (keys::RECLAIM_STARTED, closing.start.to_string()));
        let since = self.since.map(|since| (keys::RECLAIM_SINCE, since.to_string()));
        let promised = self.promised.map(|promised| (keys::RECLAIM_GRACE, promised.as_secs().to_string()));
        let marked = self.marked.map(|marked| (keys::RECLAIM_MARKED, marked.to_string()));
        started.into_iter().chain(since).chain(promised).chain(marked).collect()
    }

    /// The closing as it stands on the node when this is written.
    #[must_use]
    pub fn closing(&self) -> Option<Closing> {
        let (WindowTaint::NoSchedule { since: start } | WindowTaint::NoExecute { since: start }) = self.taint else {
            return None;
        };
        let marked = self.marked.unwrap_or(start);
        Some(Closing { start, marked, promised: self.promised, since: self.since })
    }

    /// The same while the guard holds it (decision S9): the clock runs, no pod goes, and the node does not become one that
    /// evicts. One that does already stays so.
    #[must_use]
    pub fn held(mut self) -> Self {
        if let WindowTaint::NoExecute { since } = self.taint
            && !self.reasons.contains(&Reason::Executing)
        {
            self.taint = WindowTaint::NoSchedule { since };
            self.since = None;
        }
        Self { evict: Evict::Nothing, shorten: Vec::new(), stay: Vec::new(), next: None, ..self }
    }

    fn of(taint: WindowTaint, clock: Clock) -> Self {
        let Clock { start, marked, promised, .. } = clock;
        Self {
            taint,
            stamp: clock.stamp,
            since: None,
            promised,
            marked: Some(marked).filter(|marked| taint != WindowTaint::None && *marked != start),
            known: clock.has_run.then_some(Closing { start, marked, promised, since: None }),
            evict: Evict::Nothing,
            shorten: Vec::new(),
            stay: Vec::new(),
            next: None,
            reasons: clock.reasons,
        }
    }
}

/// When the taint was added.
fn added(taints: &[Taint]) -> Option<Timestamp> {
    let closed = taints.iter().filter(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
    closed.filter_map(|taint| taint.time_added).min()
}

fn time(annotations: &dyn Keyed, key: &str) -> Option<Timestamp> {
    annotations.text(key).and_then(|text| text.parse().ok())
}

/// When the clock of the present closing started, as it stands on the node.
#[must_use]
pub fn started(taints: &[Taint], annotations: &dyn Keyed) -> Option<Timestamp> {
    added(taints).or_else(|| time(annotations, keys::RECLAIM_STARTED))
}

/// By which time the windows were judged closed when the node got its taint; `None`: that is not known. `remembered` is what the
/// process remembers, which counts where the taint has no time.
#[must_use]
pub fn marked(taints: &[Taint], annotations: &dyn Keyed, remembered: Option<Closing>) -> Option<Timestamp> {
    if let Some(closing) = remembered.filter(|_| added(taints).is_none()) {
        return Some(closing.marked);
    }
    let started = started(taints, annotations)?;
    Some(time(annotations, keys::RECLAIM_MARKED).unwrap_or(started))
}

/// What has to be done with the pods of a node now.
#[must_use]
pub fn decide(facts: &Facts<'_>, now: Timestamp) -> Reclaim {
    let on_close = match facts.window {
        Window::Inside => {
            let clock = Clock { reasons: vec![Reason::Inside], ..Clock::fresh(facts, now) };
            return Reclaim::of(WindowTaint::None, clock);
        }
        Window::Outside(on_close) => on_close,
    };
    let mut clock = Clock::read(facts, now);
    let (grace, via) = match on_close {
        OnClose::Keep => {
            clock.reasons.push(Reason::NotForced);
            return Reclaim::of(WindowTaint::NoSchedule { since: clock.start }, clock);
        }
        OnClose::Reclaim { grace, via } => (grace, via),
    };
    let promised = clock.promised.unwrap_or_default();
    if promised > grace {
        clock.reasons.push(Reason::Promised { policy: grace, promised });
    }
    let grace = grace.max(promised);
    clock.promised = Some(grace).filter(|grace| !grace.is_zero());
    if clock.found == Found::NoScheduleWithoutTime {
        // The guard may hold what follows, and the next look finds a time then.
        clock.start = before(clock.start, grace);
    }
    let since = clock.start;
    let end = after(since, grace);
    let is_over = end.is_some_and(|end| end <= now);
    if clock.found == Found::NoExecute {
        clock.reasons.push(Reason::Executing);
    } else if grace.is_zero() {
        clock.reasons.push(Reason::NoGrace);
    } else if clock.found == Found::NoScheduleWithoutTime {
        clock.reasons.push(Reason::NoTime);
    } else if let (true, Some(end)) = (is_over, end) {
        clock.reasons.push(Reason::GraceOver(end));
    } else {
        return wait(facts, clock, end, half(since, grace), via, now);
    }
    execute(facts, clock, now)
}

/// The grace runs.
fn wait(
    facts: &Facts<'_>,
    mut clock: Clock,
    end: Option<Timestamp>,
    half: Option<Timestamp>,
    via: ReclaimVia,
    now: Timestamp,
) -> Reclaim {
    clock.reasons.push(Reason::Grace(end.unwrap_or(Timestamp::MAX)));
    let mut reclaim = Reclaim::of(WindowTaint::NoSchedule { since: clock.start }, clock);
    reclaim.next = end;
    match (via, half) {
        (ReclaimVia::Eviction, Some(half)) if half <= now => {
            reclaim.reasons.push(Reason::SecondHalf);
            let Sorted { going, stay, .. } = sort(facts.pods);
            let (now, later): (Vec<_>, Vec<_>) = going.into_iter().partition(|(_, tolerated)| tolerated.goes_at_once());
            reclaim.stay = stay;
            reclaim.stay.extend(later.into_iter().map(|(pod, _)| (pod.clone(), Stay::ToleratesLater)));
            if !now.is_empty() {
                reclaim.evict = Evict::Evict(now.into_iter().map(|(pod, _)| pod.clone()).collect());
            }
        }
        (ReclaimVia::Eviction, Some(half)) => reclaim.next = Some(half),
        _ => {}
    }
    reclaim
}

/// The grace is over.
fn execute(facts: &Facts<'_>, mut clock: Clock, now: Timestamp) -> Reclaim {
    let (since, evicted) = match clock.found {
        Found::NoExecute => {
            let since = clock.since(facts, now);
            (since, Some(since))
        }
        // Another client took the taint off. What pods tolerated was granted before.
        _ => {
            let evicted = clock.evicted_before(now);
            (evicted.unwrap_or(now), evicted)
        }
    };
    let mut reclaim = Reclaim::of(WindowTaint::NoExecute { since: clock.start }, clock);
    reclaim.since = Some(since);
    reclaim.known = reclaim.known.map(|known| Closing { since: evicted, ..known });
    let Sorted { going, slow, stay } = sort(facts.pods);
    reclaim.stay = stay;
    let due = |tolerated| after(since, if let Tolerated::For(time) = tolerated { time } else { Duration::ZERO });
    let mut due_pods = Vec::new();
    for (pod, tolerated) in going {
        match due(tolerated) {
            Some(due) => due_pods.push(DuePod { pod: pod.clone(), due }),
            // Later than any time that there is.
            None => reclaim.stay.push((pod.clone(), Stay::Tolerates)),
        }
    }
    let slow = slow.into_iter().filter_map(|(pod, tolerated)| Some(DuePod { pod: pod.clone(), due: due(tolerated)? }));
    reclaim.shorten = slow.collect();
    reclaim.next = due_pods.iter().chain(&reclaim.shorten).map(|pod| pod.due).filter(|due| *due > now).min();
    if !due_pods.is_empty() {
        reclaim.evict = Evict::Delete(due_pods);
    }
    reclaim
}

/// The pods of a node whose pods go.
#[derive(Default)]
struct Sorted<'a> {
    /// Those that go, with how long each tolerates the taint.
    going: Vec<(&'a PodRef, Tolerated)>,
    /// Those that are being deleted and have more time than they may take, with the same. They are among those that stay, too.
    slow: Vec<(&'a PodRef, Tolerated)>,
    /// Those that stay.
    stay: Vec<(PodRef, Stay)>,
}

/// The taint that evicts the pods of a node whose windows are closed. Of what a pod tolerates nothing else is ever asked.
#[must_use]
pub fn evicting() -> Taint {
    Taint::new(keys::OUT_OF_WINDOWS_TAINT, OUT, Effect::NoExecute)
}

fn sort(pods: &[Pod]) -> Sorted<'_> {
    let taint = evicting();
    let mut sorted = Sorted::default();
    for Pod { pod, tolerations, of_daemon_set, terminating, grace, phase } in pods {
        let tolerated = tolerates(tolerations, &taint);
        if *terminating && is_slow(*grace) && !phase.is_final() && tolerated != Tolerated::Forever {
            sorted.slow.push((pod, tolerated));
        }
        let stay = match tolerated {
            _ if *terminating => Stay::Terminating,
            _ if phase.is_final() => Stay::Finished,
            _ if *of_daemon_set => Stay::DaemonSet,
            Tolerated::Forever => Stay::Tolerates,
            tolerated => {
                sorted.going.push((pod, tolerated));
                continue;
            }
        };
        sorted.stay.push((pod.clone(), stay));
    }
    sorted
}

/// The time itself or the next whole second: the API server stores no more, and a grace must not become shorter.
fn whole_seconds(time: Timestamp) -> Timestamp {
    let second = Timestamp::from_second(time.as_second()).unwrap_or(time);
    if second < time { after(second, Duration::from_secs(1)).unwrap_or(time) } else { second }
}

/// This much later, if there is such a time.
fn after(time: Timestamp, by: Duration) -> Option<Timestamp> {
    time.checked_add(by).ok()
}

/// This much earlier, if there is such a time. An API server takes none before the year 1.
fn before(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_sub(by).unwrap_or(time).max(Timestamp::UNIX_EPOCH)
}

/// When half of a grace is over.
fn half(start: Timestamp, grace: Duration) -> Option<Timestamp> {
    after(start, grace / 2)
}

fn moved(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}
