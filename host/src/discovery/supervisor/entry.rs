//! What the entry and the operator say, and what nodes and objects do meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use topoloom_core::plugin::rollout::{Event, Stage};

use super::{Command, Supervisor, wake};
use crate::config::EntryConfig;
use crate::delivery::Offer;
use crate::delivery::Refused;
use crate::discovery::revision::Revision;
use crate::endpoints::Bell;

/// How often an entry is prepared again whose file may come.
pub(super) const PREPARE_AGAIN: Duration = Duration::from_secs(10);
/// What fails by itself, a compile or a call, is tried less and less often, down to this.
pub(super) const PREPARE_SELDOM: Duration = Duration::from_secs(600);

impl Supervisor {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Entry(entry, order, warnings) => {
                if std::mem::replace(&mut self.order, order) != order && self.forest.is_some() {
                    // Which entry is earlier decides who has a tier name.
                    self.decide_at = Some(Instant::now());
                }
                self.take_verbs(&entry);
                self.report.removal_held = None;
                let changed = entry.hash != self.entry.hash;
                let runs = self.revision.as_ref().is_some_and(|revision| revision.entry.hash == entry.hash);
                self.report.valid(entry.on_removal, warnings, runs);
                let elsewhere = entry.plugin.origin != self.entry.plugin.origin;
                self.entry = entry;
                if elsewhere {
                    self.place = self.shared.supply.delivery.subscribe(&self.entry.plugin);
                    self.offer = Offer::Pending;
                    self.is_late = true;
                }
                if changed {
                    self.edited();
                } else if self.refused.is_some() || self.candidate_refused.is_some() {
                    // Another part of the document was edited: this entry is still the one that was refused.
                    self.say_again();
                }
            }
            Command::Invalid(reason, message) => self.report.invalid(reason, message, self.revision.is_some()),
            Command::RemovalHeld(held) => self.report.removal_held = Some(held),
            Command::Confirm(hash) => self.confirm(hash),
            Command::Run => self.run_now(),
            Command::Pause(paused) => self.paused = paused,
            Command::Continue(digest) => self.go_on(digest),
            Command::Serve(digest) => {
                self.named = digest;
                if let Some(digest) = digest {
                    self.happens(Event::Forgiven(digest));
                }
                self.is_late = true;
            }
            Command::Switched => {
                self.refusals.end_pauses(Instant::now());
                if self.forest.is_some() {
                    self.decide_at = Some(Instant::now());
                }
            }
            Command::Stop(_) | Command::Leave => {}
        }
    }

    /// The verbs of the entry work where the CRD is not installed; a value counts once.
    fn take_verbs(&mut self, entry: &EntryConfig) {
        if entry.verbs.confirm != self.entry.verbs.confirm
            && let Some(hash) = entry.verbs.confirm.clone()
        {
            self.confirm(hash);
        }
        if entry.verbs.run.is_some() && entry.verbs.run != self.entry.verbs.run {
            self.run_now();
        }
        if entry.verbs.continue_with != self.entry.verbs.continue_with
            && let Some(digest) = entry.verbs.continue_with
        {
            self.go_on(digest);
        }
        if entry.verbs.serve != self.entry.verbs.serve {
            self.is_late = true;
            if let Some(digest) = entry.verbs.serve {
                self.happens(Event::Forgiven(digest));
            }
        }
    }

    /// The operator asks: places are looked at, what was refused is tried once more, and a round runs.
    fn run_now(&mut self) {
        self.place.look();
        self.refusals.end_pauses(Instant::now());
        self.try_last_again();
        self.is_late = true;
        if self.prepare_at.is_some() || self.refused.is_some() {
            self.prepare_at = Some(Instant::now());
        }
        self.happens(Event::Edited);
        self.pacing.ask();
    }

    /// The entry is another one. A plugin that wants to serve is made with it from the beginning; what serves follows
    /// as soon as [`Self::is_behind`] says so.
    fn edited(&mut self) {
        self.refused = None;
        self.prepare_at = None;
        self.prepare_pause = PREPARE_AGAIN;
        self.is_late = true;
        if self.is_reconfigured() {
            // It is being prepared with an entry that is no more.
            self.work = JoinSet::new();
            self.worked_on = None;
        }
        self.try_last_again();
        self.happens(Event::Edited);
    }

    /// While nothing serves, what served last may do better with another entry, or at another time.
    fn try_last_again(&mut self) {
        if self.rollout.serving().is_none() {
            self.served_last = self.remembered;
            self.tries_of_last = 0;
        }
    }

    /// Whether what serves should be prepared with the present entry now. While a candidate is on its way, or waits for a
    /// person with an answer that was looked at, the entry is the candidate's: what serves keeps the one it was made with.
    pub(super) fn is_behind(&self) -> bool {
        let stage = self.rollout.candidate().map(|candidate| &candidate.stage);
        let is_free = matches!(stage, None | Some(Stage::Refused { .. }));
        let differs = self.revision.as_ref().is_some_and(|revision| revision.entry.hash != self.entry.hash);
        let may_do_better = self.refused.as_ref().is_none_or(Refused::may_pass);
        is_free && differs && may_do_better && self.prepare_at.is_none() && self.worked_on.is_none()
    }

    /// Prepares what serves once more, with the entry that it refused.
    pub(super) fn prepare_again(&mut self) {
        // One thing at a time: what is worked on may be the very plugin that takes over.
        self.prepare_at = self.worked_on.map(|_| Instant::now() + PREPARE_AGAIN);
        if let Some(serving) = self.rollout.serving().filter(|_| self.worked_on.is_none()) {
            self.start_preparing(serving.digest);
        }
    }

    /// What an entry needs of the Nodes is known, or cannot be known yet: the first list need not wait for it.
    pub(super) fn first_wish_is_known(&mut self) {
        if std::mem::take(&mut self.unprepared) {
            self.shared.prepared.send_modify(|prepared| *prepared += 1);
        }
    }

    /// Says once more why the present entry does not run.
    fn say_again(&mut self) {
        if let Some(refused) = &self.refused {
            self.report.refused_entry(refused);
        }
        self.say_loaded();
    }

    /// A word that names what is held now lets it pass. Before anything was decided it may name what the first round
    /// will find; afterwards a word about another result says nothing, now or later.
    fn confirm(&mut self, hash: String) {
        let held = self.hold.waiting().map(|(held, _)| held);
        match held {
            Some(held) if held == hash => {
                tracing::info!(source = &*self.source, hash, "the operator confirms what is held");
                self.confirmed = Some(hash);
                self.decide_at = Some(Instant::now());
            }
            None if self.forest.is_none() => {
                tracing::info!(source = &*self.source, hash, "the operator confirms a result before the first round");
                self.confirmed = Some(hash);
            }
            held => {
                let held = held.unwrap_or("none");
                tracing::warn!(
                    source = &*self.source,
                    hash,
                    held,
                    "the operator confirms a result that is not held: nothing is done"
                );
            }
        }
    }

    pub(super) fn woken(&mut self) {
        let news = self.wake.take();
        let now = Instant::now();
        if news.columns {
            self.pacing.columns_changed(now);
        }
        if news.names {
            self.pacing.names_changed();
        }
        if news.outside {
            self.pacing.outside_changed();
        }
        for drift in &news.drift {
            self.shared.metrics.drift(&self.source);
            self.report.drift(drift, now);
        }
        if (!news.drift.is_empty() || news.tiers || news.others) && self.forest.is_some() && self.decide_at.is_none() {
            self.decide_at = Some(now);
        }
    }

    pub(super) fn take_revision(&mut self, revision: Revision) {
        let interested = wake::Interested::new(Arc::clone(&self.wake), revision.keys.clone());
        // The new interest exists before the old one goes, so columns that both want stay.
        let interest = self.shared.nodes.register(revision.keys.clone(), Arc::new(interested));
        self.interest = Some(interest);
        let wake = Arc::clone(&self.wake);
        let bell: Bell = Arc::new(move || wake.outside());
        revision.endpoints.follow(&bell);
        self.pacing.restart(revision.rhythm.clone());
        self.state = Arc::from([]);
        self.answered = false;
        self.is_removal_due = false;
        self.report.revision(&revision);
        let (described, digest) = (&revision.description, revision.plugin.digest().short());
        self.shared.metrics.interval(&self.source, revision.rhythm.timer);
        self.shared.metrics.serves(&self.source, &described.name, &described.version, &digest);
        tracing::info!(
            source = &*self.source,
            plugin = revision.description.name,
            version = revision.description.version,
            digest = %revision.plugin.digest(),
            "configured"
        );
        if self.revision.as_ref().is_none_or(|old| !old.plugin.is(&revision.plugin)) {
            self.optimising = JoinSet::new();
        }
        self.refused = None;
        self.revision = Some(revision);
    }
}
