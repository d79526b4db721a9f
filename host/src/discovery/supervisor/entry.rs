//! What the entry and the operator say, and what nodes and objects do meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use topoloom_api::condition::Reason;

use super::{Command, Supervisor, wake};
use crate::config::EntryConfig;
use crate::discovery::revision::{Revision, prepare};

/// How often an entry is prepared again whose file may come.
pub(super) const PREPARE_AGAIN: Duration = Duration::from_secs(10);
/// What fails by itself, a compile or a call, is tried less and less often, down to this.
const PREPARE_SELDOM: Duration = Duration::from_secs(600);

impl Supervisor {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Entry(entry, order, warnings) => {
                if std::mem::replace(&mut self.order, order) != order && self.forest.is_some() {
                    // Which entry is earlier decides who has a tier name.
                    self.decide_at = Some(Instant::now());
                }
                self.take_verbs(&entry);
                let changed = entry.hash != self.entry.hash;
                let runs = self.revision.as_ref().is_some_and(|revision| revision.entry.hash == entry.hash);
                self.report.valid(entry.on_removal, warnings, runs);
                self.entry = entry;
                if changed || self.revision.is_none() {
                    self.refused = None;
                    self.prepare_at = Some(Instant::now());
                    self.prepare_pause = PREPARE_AGAIN;
                } else if let Some(refused) = &self.refused {
                    // Another part of the document was edited: this entry is still the one that was refused.
                    self.report.refused(refused, true);
                }
            }
            Command::Invalid(reason, message) => self.report.invalid(reason, message, self.revision.is_some()),
            Command::Confirm(hash) => self.confirm(hash),
            Command::Run => {
                if self.prepare_at.is_some() || self.refused.is_some() {
                    self.prepare_at = Some(Instant::now());
                }
                self.pacing.ask();
            }
            Command::Pause(paused) => self.paused = paused,
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
            self.pacing.ask();
        }
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
        for drift in &news.drift {
            self.shared.metrics.drift(&self.source);
            self.report.drift(drift, now);
        }
        if (!news.drift.is_empty() || news.tiers || news.others) && self.forest.is_some() && self.decide_at.is_none() {
            self.decide_at = Some(now);
        }
    }

    pub(super) async fn prepare(&mut self) {
        self.prepare_at = None;
        let running = self.revision.as_ref().map(|revision| revision.plugin.clone());
        let shared = Arc::clone(&self.shared);
        let prepared = prepare(&shared.runtime, Arc::clone(&self.entry), running);
        let Some(prepared) = self.unless_told(prepared).await else {
            // What was said in between comes first, and may be another entry.
            self.prepare_at = Some(Instant::now());
            return;
        };
        match prepared {
            Ok(revision) => self.take_revision(revision),
            Err(refused) => {
                tracing::warn!(source = &*self.source, reason = %refused.reason, message = refused.message, "the entry is refused");
                self.prepare_at = refused.again.then(|| Instant::now() + self.prepare_pause);
                if refused.reason != Reason::PluginNotFound {
                    self.prepare_pause = (self.prepare_pause * 2).min(PREPARE_SELDOM);
                }
                self.report.refused(&refused, self.revision.is_some());
                self.refused = Some(refused);
            }
        }
        if std::mem::take(&mut self.unprepared) {
            self.shared.prepared.send_modify(|prepared| *prepared += 1);
        }
    }

    fn take_revision(&mut self, revision: Revision) {
        let interested = wake::Interested::new(Arc::clone(&self.wake), revision.keys.clone());
        // The new interest exists before the old one goes, so columns that both want stay.
        let interest = self.shared.nodes.register(revision.keys.clone(), Arc::new(interested));
        self.interest = Some(interest);
        self.pacing.restart(revision.rhythm.clone());
        self.state = Arc::from([]);
        self.answered = false;
        self.report.revision(&revision);
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
