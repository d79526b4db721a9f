//! What the API server refuses of one source's writes: which object pauses for how long, and what is logged about it.
//!
//! A refusal that every write would meet (RBAC, a webhook that is gone, 429) pauses the source; one that is about an
//! object pauses that object and what depends on it, so that the others are written meanwhile. Pauses grow, and restart
//! when something was written; the refusal of one object by a schema or a policy does not depend on other writes, so
//! its pause continues to grow.
//!
//! Time is an argument, and nothing is sent or logged here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use topoloom_core::text;
use topoloom_core::topology::plan::{Action, Plan};

use super::apply::ApplyOutcome;
use crate::cluster::pause::Pauses;
use crate::cluster::{Refusal, RefusalReason};

/// Conflicts in a row of one object that are decided again at once, before its pauses begin.
const QUICK_CONFLICTS: u32 = 5;
/// Different refusals of one source that the log names at the same time.
const NAMED: usize = 16;
/// How many bytes of the API server's text a log line holds.
const SAID: usize = 1024;

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteVerb {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It goes.
    Delete,
}

impl WriteVerb {
    /// The word for the log and the metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl From<&Action> for WriteVerb {
    fn from(action: &Action) -> Self {
        match action {
            Action::Create { .. } => Self::Create,
            Action::Update { .. } => Self::Update,
            Action::Delete { .. } => Self::Delete,
        }
    }
}

/// A write that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWrite {
    /// The HyperNode.
    pub object: Arc<str>,
    /// What was to be done to it.
    pub verb: WriteVerb,
    /// Why it was not.
    pub refusal: Refusal,
}

impl RefusedWrite {
    /// What is wrong: equal for all writes that the same change would cure. The same policy names another object each
    /// time, and a server that is away fails in many words.
    fn cause(&self) -> Cause {
        let (reason, cause) = self.refusal.cause();
        let cause = match reason {
            RefusalReason::Forbidden if self.refusal.rule().is_some() => cause.to_owned(),
            RefusalReason::Forbidden | RefusalReason::Invalid | RefusalReason::DeniedByAdmission => {
                cause.replace(&*self.object, "…")
            }
            _ => String::new(),
        };
        (self.verb, reason, cause)
    }

    /// Whether the object alone is the reason, so that others may be written.
    fn is_about_the_object(&self) -> bool {
        matches!(self.refusal.reason, RefusalReason::Invalid | RefusalReason::DeniedByAdmission)
    }

    fn is_conflict(&self) -> bool {
        matches!(self.refusal.reason, RefusalReason::Conflict | RefusalReason::AlreadyExists)
    }
}

type Cause = (WriteVerb, RefusalReason, String);

/// A line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalNews {
    /// Something else is refused than before.
    Refused(RefusedWrite),
    /// Nothing is refused any more.
    Over,
}

impl fmt::Display for RefusedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::line(&self.refusal.message, SAID))
    }
}

struct Pausing {
    refused: RefusedWrite,
    pauses: Pauses,
    conflicts: u32,
    until: Instant,
    /// Another client wrote in between, and it is decided again at once.
    is_quick: bool,
}

impl Pausing {
    fn new(refused: RefusedWrite, now: Instant) -> Self {
        Self { refused, pauses: Pauses::default(), conflicts: 0, until: now, is_quick: false }
    }

    fn refused_again(&mut self, refused: RefusedWrite, now: Instant) {
        let asked = refused.refusal.retry_after;
        self.refused = refused;
        self.is_quick = self.refused.is_conflict() && self.conflicts < QUICK_CONFLICTS;
        self.until = if self.is_quick {
            self.conflicts += 1;
            now
        } else {
            now + self.pauses.failed(now, asked)
        };
    }

    /// Whether it is logged: a conflict that is decided again at once is not, and neither is a write that the gate
    /// refused, since the log already has the loss of the lease or the switch of writes.
    fn is_reported(&self) -> bool {
        !self.is_quick && !matches!(self.refused.refusal.reason, RefusalReason::NotLeader | RefusalReason::ReadOnly)
    }
}

/// What is refused of one source's writes.
#[derive(Default)]
pub struct Refusals {
    /// What every write would meet.
    all: Option<Pausing>,
    objects: BTreeMap<Arc<str>, Pausing>,
    reported: BTreeSet<Cause>,
}

impl Refusals {
    /// Until when no write of the source is tried.
    #[must_use]
    pub fn all_pause(&self, now: Instant) -> Option<Instant> {
        self.all.as_ref().map(|all| all.until).filter(|until| *until > now)
    }

    /// The objects that are not written now.
    #[must_use]
    pub fn pausing(&self, now: Instant) -> BTreeSet<Arc<str>> {
        let pausing = self.objects.iter().filter(|(_, object)| object.until > now);
        pausing.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// When the next of what is refused is tried again; not before now.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let of_objects = self.objects.values().map(|object| object.until).min();
        let due = self.all.as_ref().map(|all| all.until).or(of_objects)?;
        Some(due.max(now))
    }

    /// The refusal to name: one that every write would meet, otherwise that of the first object.
    #[must_use]
    pub fn first(&self) -> Option<&RefusedWrite> {
        self.all.iter().chain(self.objects.values()).map(|pausing| &pausing.refused).next()
    }

    /// How many writes are refused for what they are about.
    #[must_use]
    pub fn count(&self) -> usize {
        self.objects.len() + usize::from(self.all.is_some())
    }

    /// Every reason.
    pub fn reasons(&self) -> impl Iterator<Item = RefusalReason> {
        self.all.iter().chain(self.objects.values()).map(|pausing| pausing.refused.refusal.reason)
    }

    /// Whether everything that is refused is so for what it is: trying again changes nothing.
    #[must_use]
    pub fn are_settled(&self) -> bool {
        self.all.is_none() && self.objects.values().all(|object| object.refused.is_about_the_object())
    }

    /// Nothing waits any longer: a person asks, or the obstacle is gone.
    pub fn end_pauses(&mut self, now: Instant) {
        self.all.iter_mut().chain(self.objects.values_mut()).for_each(|pausing| pausing.until = now);
    }

    /// Enters the outcome of a plan, and returns what has to be logged.
    pub fn learn(&mut self, plan: &Plan, outcome: &ApplyOutcome, now: Instant) -> Vec<RefusalNews> {
        if outcome.written > 0 {
            self.progressed(now);
        }
        let wanted: BTreeSet<&str> = plan.steps.iter().map(|step| &*step.name).collect();
        self.objects.retain(|name, _| wanted.contains(&**name) && !outcome.wrote.contains(name));
        if outcome.complete() {
            self.all = None;
        }
        let (all, own): (Vec<_>, Vec<_>) =
            outcome.refused.iter().partition(|refused| refused.refusal.reason.stops_everything());
        // Several were under way: together they are one try.
        if let Some(refused) = all.into_iter().min_by(|a, b| a.object.cmp(&b.object)) {
            let all = self.all.get_or_insert_with(|| Pausing::new(refused.clone(), now));
            all.refused_again(refused.clone(), now);
        } else if !outcome.refused.is_empty() || outcome.written > 0 {
            // The API server judges single writes again.
            self.all = None;
        }
        for refused in own {
            let object = self.objects.entry(Arc::clone(&refused.object));
            object.or_insert_with(|| Pausing::new(refused.clone(), now)).refused_again(refused.clone(), now);
        }
        self.news()
    }

    /// Something was written, so what refused it before may let the rest pass, too.
    fn progressed(&mut self, now: Instant) {
        self.all = None;
        for object in self.objects.values_mut().filter(|object| !object.refused.is_about_the_object()) {
            object.pauses = Pauses::default();
            object.until = now;
        }
    }

    fn news(&mut self) -> Vec<RefusalNews> {
        let mut causes = BTreeMap::new();
        for pausing in self.all.iter().chain(self.objects.values()).filter(|pausing| pausing.is_reported()) {
            if causes.len() < NAMED {
                causes.entry(pausing.refused.cause()).or_insert(&pausing.refused);
            }
        }
        let mut news: Vec<RefusalNews> = causes
            .iter()
            .filter(|(cause, _)| !self.reported.contains(cause))
            .map(|(_, refused)| RefusalNews::Refused((*refused).clone()))
            .collect();
        if causes.is_empty() && !self.reported.is_empty() && self.count() == 0 {
            news.push(RefusalNews::Over);
        }
        self.reported = if self.count() == 0 { BTreeSet::new() } else { causes.into_keys().collect() };
        news
    }
}

#[cfg(test)]
mod tests;
