//! When everything is known again after a take-over, so that a batch that an earlier process held can be judged (decision S9).
//!
//! Owns the count of nodes that were decided about since then. Until all were, [`Guard`](topoloom_sync::guard::Guard) holds what
//! an earlier process held, and what that one allowed goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use topoloom_sync::bars::Doing;
use topoloom_sync::guard::{HeldBatch, NotHeld};
use topoloom_sync::node::Now;
use topoloom_sync::policy::in_force::Synced;

use super::View;
use crate::ledger::{PhysicalName, Touched};

/// How long everything has to be known before it counts as decided, beside the time between two looks at an orphan: looks begin
/// when the pods are listed, and all of them take their time.
const SETTLES: Duration = Duration::from_secs(60);

/// What is listed of a binding beside its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The physical pods of this virtual cluster.
    OurPods,
    /// All other physical pods that use room.
    OtherPods,
    /// The virtual pods.
    LentPods,
}

/// What is known since the take-over.
#[derive(Debug, Default)]
pub(super) struct Recall {
    listed: BTreeSet<Part>,
    /// Since when everything is known.
    known: Option<Duration>,
    /// The nodes that were decided about since then.
    decided: BTreeSet<PhysicalName>,
}

impl Recall {
    /// A node was decided about.
    pub(super) fn decided(&mut self, name: &PhysicalName) {
        if self.known.is_some() && !self.decided.contains(name) {
            self.decided.insert(PhysicalName::clone(name));
        }
    }

    /// A node is in neither cluster any more.
    pub(super) fn forget(&mut self, name: &str) {
        self.decided.remove(name);
    }

    /// Whether this list was whole once.
    pub(super) fn has(&self, part: Part) -> bool {
        self.listed.contains(&part)
    }

    /// What was decided before does not count.
    pub(super) fn begin_again(&mut self) {
        self.known = None;
        self.decided.clear();
    }
}

/// What a review of the guard found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reviewed {
    /// What is held.
    pub held: Option<HeldBatch>,
    /// Whether what is held is known from an earlier process, and its acts are not complete yet.
    pub is_recalling: bool,
    /// The nodes that have to be looked at: something that was held may go now, everything is known for the first time, or another
    /// controller has found what changes their size.
    pub touched: Touched,
}

impl View {
    /// A list of pods is whole.
    pub fn listed(&mut self, part: Part) {
        self.recall.listed.insert(part);
        self.look_at_ports();
        self.tell();
    }

    /// Whether nothing that a disruption follows from is missing, and none is forbidden.
    fn knows_everything(&self) -> bool {
        self.is_all_listed() && self.bars.allow(Doing::Disrupt)
    }

    /// Whether nothing that a disruption follows from is missing.
    pub(super) fn is_all_listed(&self) -> bool {
        let pods = [Part::OurPods, Part::OtherPods, Part::LentPods];
        self.is_listed
            && self.is_lent_listed
            && !self.is_empty_in_doubt
            && pods.iter().all(|part| self.recall.listed.contains(part))
            && self.policies.synced() == Synced::Yes
            && !self.policies.is_in_doubt()
    }

    /// Judges again what is held. The caller asks a moment after each change, and every few seconds.
    pub fn review(&mut self, now: Now) -> Reviewed {
        let before = self.guard.held().map(|batch| batch.hash.clone());
        let mut touched = std::mem::take(&mut self.pending);
        let size = self.size();
        if self.guard.is_incomplete() && self.settled(now, &mut touched) {
            self.guard.recalled(&self.safety, size, now.steady);
        }
        // Until everything was decided about this judges nothing.
        self.guard.review(&self.safety, size, now.steady);
        let held = self.guard.held().cloned();
        if before.is_some() && held.as_ref().map(|batch| &batch.hash) != before.as_ref() {
            touched.extend(self.all());
            self.look_at_ports();
        }
        Reviewed { held, is_recalling: self.guard.is_recalling(), touched }
    }

    /// Whether every node was decided about since everything is known, and that long enough ago.
    fn settled(&mut self, now: Now, touched: &mut Touched) -> bool {
        if !self.knows_everything() {
            self.recall.begin_again();
            return false;
        }
        let Some(since) = self.recall.known else {
            self.recall.known = Some(now.steady);
            touched.extend(self.all());
            return false;
        };
        let all = self.all();
        let settles = self.orphan_delay.saturating_add(SETTLES);
        let is_late_enough = now.steady.saturating_sub(since) >= settles;
        is_late_enough && all.iter().all(|name| self.recall.decided.contains(name))
    }

    /// The operator confirms the batch with that hash. Returns the nodes that have to be looked at.
    ///
    /// # Errors
    /// No such batch was shown by this process.
    pub fn confirm(&mut self, hash: &str) -> Result<Touched, NotHeld> {
        self.guard.confirm(hash)?;
        self.look_at_ports();
        Ok(self.all())
    }
}

#[cfg(test)]
mod tests;
