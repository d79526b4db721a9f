//! Which bytes are active for a source, which wait, and which were active before (`wasm-plugins.md` 7).
//!
//! A state machine and nothing else: an [`Event`] goes in, an [`RolloutOrder`] comes out, time is an argument. It never
//! touches bytes, only their [`Digest`]. For each plugin that is active, is the candidate, or was active before, it
//! holds the handle `R` that the caller made of it: its revision.
//!
//! ```text
//! wanted ─► preparing ─► ready ─► shadow ─► serving (watched) ─► serving
//!               │                   │ │            │ fault
//!               └──► refused ◄──────┘ └─► held     └─► the one before serves again, this one is refused
//!                      └─► later, or a person
//! ```
//!
//! What always holds, and is proved over random histories in `histories`: at most one revision is active, and never
//! none after the first; a candidate changes the active revision only by replacing it; a rollback ends at bytes that
//! were active before; a refused or quarantined plugin has a time at which it is tried again, or waits for a person;
//! each handle is that of the digest beside it; and at most one plugin is worked on, the candidate or the active one.

mod compare;
#[cfg(test)]
mod histories;
mod last;
mod service;
#[cfg(test)]
mod tests;
mod words;
mod work;

use std::collections::VecDeque;
use std::time::Duration;

pub use compare::{Comparison, Objects, Rails, compare};
pub use last::{Another, Last, LastFailed};
pub use service::{WATCHED_CALLS, WATCHED_FOR};
pub use words::{Call, Cause, Event, Failed, RolloutOrder, RolloutStep};
pub use work::RolloutWork;

use self::service::{Quarantine, Watch};
use super::Digest;

/// Modules before the serving one that stay available (decision P5).
pub const KEPT: usize = 3;
/// Faults in a row that end the patience with a revision, or the attempts to make one of a candidate.
pub const STRIKES: u32 = 5;
/// First pause before a refused candidate is tried again; doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause before a refused candidate is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Digests that were rolled back and are remembered, so that delivering them again does not activate them.
const REMEMBERED: usize = 16;

/// Time since any fixed moment.
pub type Time = Duration;

/// The active plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingPlugin<R> {
    /// Its bytes.
    pub digest: Digest,
    /// Its revision.
    pub revision: R,
    /// Faults in a row.
    pub strikes: u32,
    watch: Option<Watch>,
    quarantine: Option<Quarantine>,
}

/// The candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<R> {
    /// Its bytes.
    pub digest: Digest,
    /// Its revision. While it is prepared once more, the one before.
    pub ready: Option<R>,
    /// How far it is.
    pub stage: Stage,
    /// Failed tries in a row.
    pub strikes: u32,
    /// Why it is wanted.
    pub cause: Cause,
}

/// How far a candidate is.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// A revision is made of its bytes.
    Preparing,
    /// It answers a round whose answer is thrown away.
    Shadow,
    /// Its answer differs too much from that of the active plugin.
    Held(Comparison),
    /// It failed.
    Refused {
        /// At which step.
        step: RolloutStep,
        /// When it is tried again; `None`: a person has to decide.
        until: Option<Time>,
    },
}

/// The state. `R` is what the caller makes of bytes: a handle, cheap to clone.
#[derive(Debug, Clone)]
pub struct Rollout<R> {
    serving: Option<ServingPlugin<R>>,
    candidate: Option<Candidate<R>>,
    work: Option<RolloutWork>,
    /// The revision that served before, whole: a rollback to it takes no time. It belongs to the first of `previous`.
    earlier: Option<(Digest, R)>,
    /// Something else may be wanted than what the machine knows: [`Event::Wanted`] is due.
    is_wish_due: bool,
    /// Newest first; never the serving one.
    previous: VecDeque<Digest>,
    /// The digests that were rolled back.
    taken_back: VecDeque<Digest>,
    /// The plugin that was watched when the host last stopped.
    watched: Option<Digest>,
    rails: Rails,
}

/// What the host knew before its restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutMemory {
    /// What served before the last one, newest first.
    pub previous: Vec<Digest>,
    /// The digests that were rolled back.
    pub taken_back: Vec<Digest>,
    /// The last active plugin, if it was new and still watched.
    pub watched: Option<Digest>,
}

impl<R: Clone> Rollout<R> {
    /// Nothing serves yet, and nothing is known of what is wanted.
    #[must_use]
    pub fn new(memory: RolloutMemory) -> Self {
        let mut rollout = Self {
            serving: None,
            candidate: None,
            work: None,
            earlier: None,
            is_wish_due: true,
            previous: VecDeque::new(),
            taken_back: VecDeque::new(),
            watched: memory.watched,
            rails: Rails::default(),
        };
        for digest in memory.previous {
            if rollout.previous.len() < KEPT && !rollout.previous.contains(&digest) {
                rollout.previous.push_back(digest);
            }
        }
        rollout.taken_back.extend(memory.taken_back.into_iter().take(REMEMBERED));
        rollout
    }

    /// The active plugin.
    #[must_use]
    pub fn serving(&self) -> Option<&ServingPlugin<R>> {
        self.serving.as_ref()
    }

    /// The revision that serves.
    #[must_use]
    pub fn revision(&self) -> Option<&R> {
        self.serving.as_ref().map(|serving| &serving.revision)
    }

    /// The revision that served before, where a rollback to it takes no time.
    #[must_use]
    pub fn earlier(&self) -> Option<&R> {
        self.earlier.as_ref().map(|(_, revision)| revision)
    }

    /// Whether [`Event::Wanted`] or [`Event::Unwanted`] is due, since something else may be wanted than the machine
    /// knows.
    #[must_use]
    pub fn is_wish_due(&self) -> bool {
        self.is_wish_due
    }

    /// Something else may be wanted by now.
    pub fn ask_for_wish(&mut self) {
        self.is_wish_due = true;
    }

    /// Whether the candidate is on its way by a rollback.
    fn is_rolling_back(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.cause == Cause::Rollback)
    }

    /// What wants to.
    #[must_use]
    pub fn candidate(&self) -> Option<&Candidate<R>> {
        self.candidate.as_ref()
    }

    /// What served before, newest first.
    pub fn previous(&self) -> impl Iterator<Item = Digest> + '_ {
        self.previous.iter().copied()
    }

    /// The digests that were rolled back.
    pub fn taken_back(&self) -> impl Iterator<Item = Digest> + '_ {
        self.taken_back.iter().copied()
    }

    /// Enters bytes for a rollback: those that were active before the host's restart and could not be activated first
    /// after it.
    pub fn remember(&mut self, digest: Digest) {
        if self.serving.as_ref().is_none_or(|serving| serving.digest != digest) {
            self.previous.retain(|kept| *kept != digest);
            self.previous.push_front(digest);
            self.previous.truncate(KEPT);
        }
    }

    /// Whether the candidate waits for a person and nothing else.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        let stage = self.candidate.as_ref().map(|candidate| &candidate.stage);
        matches!(stage, Some(Stage::Held(_) | Stage::Refused { until: None, .. }))
    }

    /// When a [`Event::Tick`] has something to do.
    #[must_use]
    pub fn next_tick(&self) -> Option<Time> {
        let retry = match self.candidate.as_ref().map(|candidate| &candidate.stage) {
            Some(Stage::Refused { until, .. }) => *until,
            _ => None,
        };
        let watch = self.serving.as_ref().and_then(|serving| serving.watch).map(|watch| watch.until);
        [retry, watch].into_iter().flatten().min()
    }

    /// Handles an event. An event about other bytes than the present candidate is late and changes nothing.
    pub fn handle(&mut self, event: Event<R>, now: Time) -> Option<RolloutOrder> {
        let was_rolling_back = self.is_rolling_back();
        let order = self.step(event, now);
        match order {
            Some(RolloutOrder::Prepare(digest)) => self.work = Some(RolloutWork::Prepare(digest)),
            // A shadow round begins when the caller is ready for it.
            Some(RolloutOrder::Shadow(_) | RolloutOrder::Swap(_)) => self.work = None,
            Some(RolloutOrder::Renew(_) | RolloutOrder::Renewed(_) | RolloutOrder::Quarantine(_)) | None => {}
        }
        self.abandon_what_is_not_wanted();
        // What was wanted during a rollback was ignored.
        self.is_wish_due |= was_rolling_back && !self.is_rolling_back();
        order
    }

    fn step(&mut self, event: Event<R>, now: Time) -> Option<RolloutOrder> {
        match event {
            Event::Wanted(digest, cause) => self.wanted(digest, cause),
            Event::Unwanted => {
                self.is_wish_due = false;
                // A rollback is the machine's own decision, and continues.
                if !self.is_rolling_back() {
                    self.candidate = None;
                }
                None
            }
            Event::Edited => {
                if self.is_renewing() {
                    // It is being prepared with an entry that is no more.
                    self.work = None;
                }
                self.again()
            }
            Event::Again => self.again(),
            Event::Renew => {
                let digest = self.serving.as_ref().filter(|_| self.may_renew())?.digest;
                self.work = Some(RolloutWork::Renew(digest));
                Some(RolloutOrder::Renew(digest))
            }
            Event::Prepared(digest, revision) => self.prepared(digest, revision, now),
            Event::Failed(digest, step, failed) => self.failed(digest, step, failed, now),
            Event::Shadowed(digest, comparison) => self.shadowed(digest, comparison, now),
            Event::Continue(digest) => self.go_on(digest, now),
            Event::Forgiven(digest) => {
                self.taken_back.retain(|taken| *taken != digest);
                let refused = |candidate: &Candidate<R>| {
                    candidate.digest == digest
                        && matches!(candidate.stage, Stage::Refused { step: RolloutStep::Watch, .. })
                };
                self.candidate.take_if(|candidate| refused(candidate));
                None
            }
            Event::Called(call) => self.called(call, now),
            Event::Tick => self.tick(now),
        }
    }

    fn wanted(&mut self, digest: Digest, cause: Cause) -> Option<RolloutOrder> {
        self.is_wish_due = false;
        let back = self.candidate.as_ref().filter(|candidate| candidate.cause == Cause::Rollback);
        if back.is_some_and(|candidate| candidate.stage == Stage::Preparing) {
            // First the rollback, as long as it may succeed: the wanted bytes are requested again after it.
            return None;
        }
        if self.serving.as_ref().is_some_and(|serving| serving.digest == digest) {
            // A rollback from it was begun for a reason.
            self.candidate.take_if(|candidate| candidate.cause != Cause::Rollback);
            return None;
        }
        if let Some(candidate) = self.candidate.as_mut().filter(|candidate| candidate.digest == digest) {
            let vouched = cause == Cause::Operator && candidate.cause != Cause::Operator;
            if !vouched || self.taken_back.contains(&digest) {
                return None;
            }
        }
        // A lasting request, like a pin, must not activate again what failed: that takes a new request of a person.
        let stage = match self.taken_back.contains(&digest) {
            true => Stage::Refused { step: RolloutStep::Watch, until: None },
            false => Stage::Preparing,
        };
        let order = (stage == Stage::Preparing).then_some(RolloutOrder::Prepare(digest));
        let ready = self.candidate.take().filter(|old| old.digest == digest).and_then(|old| old.ready);
        self.candidate = Some(Candidate { digest, ready, stage, strikes: 0, cause });
        order
    }

    /// What was rolled back stays refused: an edit of something else must not activate it.
    fn again(&mut self) -> Option<RolloutOrder> {
        let candidate = self.candidate.as_mut()?;
        let again = match candidate.stage {
            Stage::Refused { step, .. } => step != RolloutStep::Watch,
            Stage::Preparing | Stage::Shadow | Stage::Held(_) => true,
        };
        again.then(|| {
            candidate.stage = Stage::Preparing;
            candidate.strikes = 0;
            RolloutOrder::Prepare(candidate.digest)
        })
    }

    fn prepared(&mut self, digest: Digest, revision: R, now: Time) -> Option<RolloutOrder> {
        if self.work == Some(RolloutWork::Renew(digest)) {
            self.work = None;
            self.serving.as_mut()?.revision = revision;
            return Some(RolloutOrder::Renewed(digest));
        }
        let first = self.serving.is_none();
        let candidate = self.current(digest, |stage| *stage == Stage::Preparing)?;
        candidate.ready = Some(revision);
        // The first one has nothing to be compared with, and no one to disturb; one that served before has shown what
        // it answers.
        if first || candidate.cause == Cause::Rollback {
            return self.swap(now);
        }
        candidate.stage = Stage::Shadow;
        Some(RolloutOrder::Shadow(digest))
    }

    fn failed(&mut self, digest: Digest, step: RolloutStep, failed: Failed, now: Time) -> Option<RolloutOrder> {
        if self.work == Some(RolloutWork::Renew(digest)) {
            // The active plugin continues with the entry that it has.
            self.work = None;
            return None;
        }
        let candidate = self.current(digest, |stage| matches!(stage, Stage::Preparing | Stage::Shadow))?;
        candidate.ready = None;
        candidate.strikes = candidate.strikes.saturating_add(1);
        let gives_up = match failed {
            Failed::ForGood => true,
            Failed::Fault => candidate.strikes >= STRIKES,
            Failed::Circumstance => candidate.cause == Cause::Rollback && candidate.strikes >= STRIKES,
        };
        let pause = FIRST_PAUSE.saturating_mul(1 << (candidate.strikes - 1).min(9)).min(LONGEST_PAUSE);
        candidate.stage = Stage::Refused { step, until: (!gives_up).then(|| now + pause) };
        if gives_up && candidate.cause == Cause::Rollback {
            self.candidate = None;
            self.previous.retain(|kept| *kept != digest);
            return self.go_back(now);
        }
        None
    }

    fn shadowed(&mut self, digest: Digest, comparison: Option<Comparison>, now: Time) -> Option<RolloutOrder> {
        let rails = self.rails;
        let candidate = self.current(digest, |stage| *stage == Stage::Shadow)?;
        match comparison.filter(|comparison| candidate.cause != Cause::Operator && rails.hold(comparison)) {
            None => self.swap(now),
            Some(comparison) => {
                candidate.stage = Stage::Held(comparison);
                None
            }
        }
    }

    fn go_on(&mut self, digest: Digest, now: Time) -> Option<RolloutOrder> {
        let candidate = self.candidate.as_mut().filter(|candidate| candidate.digest == digest)?;
        if candidate.cause == Cause::Rollback {
            return None;
        }
        candidate.cause = Cause::Operator;
        match candidate.stage {
            Stage::Held(_) => self.swap(now),
            Stage::Refused { .. } => {
                candidate.strikes = 0;
                candidate.stage = Stage::Preparing;
                Some(RolloutOrder::Prepare(digest))
            }
            Stage::Preparing | Stage::Shadow => None,
        }
    }

    /// The candidate replaces the active plugin, which is kept.
    fn swap(&mut self, now: Time) -> Option<RolloutOrder> {
        let candidate = self.candidate.take_if(|candidate| candidate.ready.is_some())?;
        let Candidate { digest, cause, ready: Some(revision), .. } = candidate else { return None };
        let is_first = self.serving.is_none();
        self.earlier = None;
        // What is wanted may be something else again by now.
        self.is_wish_due = true;
        self.previous.retain(|kept| *kept != digest);
        self.taken_back.retain(|taken| *taken != digest);
        if let Some(old) = self.serving.take() {
            if cause == Cause::Rollback {
                self.taken_back.retain(|taken| *taken != old.digest);
                self.taken_back.push_front(old.digest);
                self.taken_back.truncate(REMEMBERED);
                let stage = Stage::Refused { step: RolloutStep::Watch, until: None };
                let strikes = old.strikes;
                let cause = Cause::Delivery;
                self.candidate = Some(Candidate { digest: old.digest, ready: None, stage, strikes, cause });
            } else {
                self.previous.push_front(old.digest);
                self.previous.truncate(KEPT);
                self.earlier = Some((old.digest, old.revision));
            }
        }
        // A plugin is new only if it replaces another: after a restart it was active before, and so was the plugin of a
        // rollback. A watch that a restart interrupted starts again.
        let was_watched = self.watched.take() == Some(digest);
        let is_new = cause != Cause::Rollback && (!is_first || was_watched);
        let watch = is_new.then(|| Watch::begin(now));
        self.serving = Some(ServingPlugin { digest, revision, strikes: 0, watch, quarantine: None });
        Some(RolloutOrder::Swap(digest))
    }

    fn tick(&mut self, now: Time) -> Option<RolloutOrder> {
        if let Some(serving) = &mut self.serving {
            serving.watch = serving.watch.filter(|watch| now < watch.until);
        }
        let candidate = self.candidate.as_mut()?;
        match candidate.stage {
            Stage::Refused { until: Some(until), .. } if until <= now => {
                candidate.stage = Stage::Preparing;
                Some(RolloutOrder::Prepare(candidate.digest))
            }
            _ => None,
        }
    }

    /// The candidate, if it has these bytes and is where the event says.
    fn current(&mut self, digest: Digest, at: impl Fn(&Stage) -> bool) -> Option<&mut Candidate<R>> {
        self.candidate.as_mut().filter(|candidate| candidate.digest == digest && at(&candidate.stage))
    }
}
