//! What the entry and the operator say, and what nodes and objects do meanwhile.

use std::sync::Arc;

use tokio::time::Instant;
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::Event;

use super::guarded::{Rounds, Word};
use super::serving::GoOn;
use super::{Command, Supervisor};
use crate::config::EntryConfig;

impl Supervisor {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Entry(entry, order, warnings) => self.take_entry(entry, order, warnings),
            Command::Invalid(reason, message) => {
                self.report.invalid(reason, message, self.serving.rollout.serving().is_some());
            }
            Command::RemovalHeld(held) => self.report.removal_held = Some(held),
            Command::Confirm(hash) => self.confirm(&hash),
            Command::Run => self.run_now(),
            Command::Pause(pause) => self.entry.pause(pause),
            Command::Continue(digest) => self.go_on(digest),
            Command::Serve(digest) => {
                self.serving.name(digest);
                if let Some(digest) = digest {
                    self.handle(Event::Forgiven(digest));
                }
            }
            Command::Switched => {
                let now = Instant::now();
                self.writing.end_pauses(now);
                if self.in_force.answer().is_some() {
                    self.writing.decide(now);
                }
            }
            // The loop ends with these.
            Command::Stop(_) | Command::Leave => {}
        }
    }

    fn take_entry(&mut self, entry: Arc<EntryConfig>, order: usize, warnings: Vec<String>) {
        self.take_verbs(&entry);
        self.report.removal_held = None;
        let runs = self.serving.rollout.revision().is_some_and(|revision| revision.entry.hash == entry.hash);
        self.report.valid(entry.on_removal, warnings, runs);
        let changes = self.entry.take(entry, order);
        if changes.is_reordered && self.in_force.answer().is_some() {
            // The earlier entry gets a tier name.
            self.writing.decide(Instant::now());
        }
        if changes.is_moved {
            self.place = self.shared.supply.delivery.subscribe(&self.entry.config.plugin);
            self.serving.moved();
        }
        if changes.is_edited {
            // A candidate is prepared with it again; the active plugin follows as soon as it may.
            self.serving.rollout.ask_for_wish();
            self.serving.try_last_again();
            self.handle(Event::Edited);
        } else if self.entry.refused().is_some() || self.serving.refused().is_some() {
            // Another part of the document was edited: this entry is still the refused one.
            self.say_again();
        }
    }

    /// The verbs of the entry work where the CRD is not installed; a value counts once.
    fn take_verbs(&mut self, entry: &EntryConfig) {
        let (old, new) = (self.entry.config.verbs.clone(), &entry.verbs);
        if let Some(hash) = new.confirm.as_ref().filter(|_| new.confirm != old.confirm) {
            self.confirm(hash);
        }
        if new.run.is_some() && new.run != old.run {
            self.run_now();
        }
        if let Some(digest) = new.continue_with.filter(|_| new.continue_with != old.continue_with) {
            self.go_on(digest);
        }
        if new.serve != old.serve {
            self.serving.rollout.ask_for_wish();
            if let Some(digest) = new.serve {
                self.handle(Event::Forgiven(digest));
            }
        }
    }

    /// The operator asks: places are looked at, what was refused is tried once more, and a round runs.
    fn run_now(&mut self) {
        let now = Instant::now();
        self.place.look();
        self.writing.end_pauses(now);
        self.serving.try_last_again();
        self.serving.rollout.ask_for_wish();
        self.entry.hurry(now);
        self.handle(Event::Again);
        self.pacing.ask();
    }

    /// Whether what serves should be prepared with the present entry now. While a candidate is on its way, or waits for a
    /// person with an answer that was compared, the entry is the candidate's: what serves keeps the one it was made with.
    pub(super) fn is_behind(&self) -> bool {
        let differs = self.serving.rollout.revision().is_some_and(|revision| !self.entry.is(&revision.entry));
        differs && self.serving.rollout.may_renew() && self.entry.may_be_prepared()
    }

    /// Prepares what serves once more, with the entry that it refused.
    pub(super) fn prepare_again(&mut self) {
        // One thing at a time: what is worked on may be the very plugin that takes over.
        if !self.serving.rollout.may_renew() {
            return self.entry.put_off(Instant::now());
        }
        self.entry.begins();
        self.handle(Event::Renew);
    }

    /// What an entry needs of the Nodes is known, or cannot be known yet: the first list need not wait for it.
    pub(super) fn first_wish_is_known(&mut self) {
        if self.entry.is_first_end() {
            self.shared.prepared.send_modify(|prepared| *prepared += 1);
        }
    }

    /// Says once more why the present entry does not run.
    fn say_again(&mut self) {
        if let Some(refused) = self.entry.refused() {
            self.report.refused_entry(refused);
        }
        self.report_plugins();
    }

    /// The operator confirms the held result with that hash.
    fn confirm(&mut self, hash: &str) {
        let rounds = if self.in_force.answer().is_some() { Rounds::Some } else { Rounds::NoneYet };
        match self.guarded.confirm(hash, rounds) {
            Word::Confirms => {
                tracing::info!(source = &*self.source, hash, "the operator confirms the held result");
                self.writing.decide(Instant::now());
            }
            Word::Kept => {
                tracing::info!(source = &*self.source, hash, "the operator confirms a result before the first round");
            }
            Word::Ignored(held) => {
                let held = held.as_deref().unwrap_or("none");
                tracing::warn!(source = &*self.source, hash, held, "confirmation ignored: that result is not held");
            }
        }
    }

    /// The operator lets a candidate continue.
    pub(super) fn go_on(&mut self, digest: Digest) {
        match self.serving.go_on(digest) {
            GoOn::Now => {
                tracing::info!(source = &*self.source, %digest, "a person accepted the waiting candidate plugin");
                self.handle(Event::Continue(digest));
            }
            GoOn::Later => {}
            GoOn::Ignored => {
                tracing::warn!(source = &*self.source, %digest, "`plugin continue` ignored: no such plugin is waiting");
            }
        }
    }

    /// Something happened to the nodes, the objects, the tier names or the endpoints of the source.
    pub(super) fn woken(&mut self) {
        let news = self.wake.take();
        let now = Instant::now();
        if news.columns {
            self.pacing.columns_changed(self.clock.time(now));
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
        if (!news.drift.is_empty() || news.tiers || news.others) && self.in_force.answer().is_some() {
            self.writing.decide_unless_pausing(now);
        }
    }
}
