//! What a source says while it runs and when it stops.

use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySourceStatus, OnRemoval};
use topoloom_core::names::SourceName;

use super::state::StatusReport;
use super::{Left, Removal, Supervisor, remove};
use crate::discovery::ready::Runs;
use crate::topology::observe::Upkeep;

impl Supervisor {
    /// Publishes the status as it is now, and the Events on the way to it.
    pub(super) async fn publish(&mut self) {
        let observes = self.observes();
        let upkeep = if observes { Upkeep::Observed } else { Upkeep::Written };
        self.shared.hyper_nodes.set_upkeep(&self.source, upkeep);
        let revision = self.serving.rollout.revision();
        let is_asked_for = revision.is_some_and(|revision| self.entry.is(&revision.entry));
        let runs = match is_asked_for && self.in_force.is_of_present_revision() {
            true => Runs::AsAsked,
            false => Runs::Otherwise,
        };
        let mut status = self.report.status(self.entry.is_paused(), observes, runs);
        self.shared.metrics.held(&self.source, status.held.as_ref());
        if observes || self.entry.config.verbs.pause {
            // What is remembered of a source that must not write: nothing of it is deleted when its entry goes.
            status.on_removal = Some(OnRemoval::Keep);
        }
        self.send_events(&status).await;
        self.shared.reports.publish(status);
    }

    /// The source is off or gone: its HyperNodes stay, unless the entry says otherwise.
    pub(super) async fn stop(mut self, on_removal: OnRemoval) -> Left {
        let deletes = on_removal == OnRemoval::Delete && !self.observes() && !self.entry.is_paused();
        self.report.removal_held = None;
        self.shared.hyper_nodes.disown(&self.source);
        self.shared.tiers.forget(&self.source);
        let mut left = Left::AsWanted;
        if deletes && self.has_rival() {
            left = Left::Behind;
            self.report.removed(&Removal { deleted: 0, left: Some("Volcano's own controller leads".to_owned()) });
        } else if deletes {
            if self.shared.stop.run_until_cancelled(self.shared.hyper_nodes.synced()).await.is_none() {
                return Left::Behind;
            }
            let removal = remove(&self.shared.writer, &self.source).await;
            left = if removal.left.is_some() { Left::Behind } else { left };
            self.report.removed(&removal);
        } else {
            self.report.disabled();
        }
        self.publish_last().await;
        self.shared.metrics.forget(&self.source);
        self.shared.runtime.metrics().forget_source(&self.source);
        tracing::info!(source = &*self.source, "stopped");
        left
    }

    /// The entry says that nothing should stay of a plugin that fails for good (`onFailure: remove`).
    pub(super) async fn remove_for_good(&mut self) {
        self.shared.hyper_nodes.synced().await;
        // HyperNodes that are left are deleted with the next failure.
        let removal = remove(&self.shared.writer, &self.source).await;
        self.report.removed_on_failure(&removal);
        self.in_force.removed();
        self.guarded.removed();
    }

    /// The last word of a source that owns nothing any more.
    async fn publish_last(&mut self) {
        let status = self.report.status(false, false, Runs::Otherwise);
        self.send_events(&status).await;
        self.shared.reports.publish(status);
    }

    /// Sends the Events on the way to this status.
    async fn send_events(&mut self, status: &DiscoverySourceStatus) {
        let uid = self.shared.reports.uid(&self.source);
        for (urgency, reason, note) in self.report.news(status) {
            self.shared.events.source(&self.source, uid.as_deref(), urgency, reason, &note).await;
        }
    }
}

/// The status of a source whose entry was never valid since the start of the host.
#[must_use]
pub fn describe_invalid(
    source: &SourceName,
    known: DiscoverySourceStatus,
    reason: Reason,
    message: String,
) -> DiscoverySourceStatus {
    let mut report = StatusReport::remembering(source, known.on_removal.unwrap_or_default(), known);
    report.invalid(reason, message, false);
    report.status(false, false, Runs::Otherwise)
}
