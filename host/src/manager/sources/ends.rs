//! How a source ends: as it was asked to, with something left behind, or by a crash, after which it is started again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::Instant;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{OnRemoval, State};
use topoloom_core::names::SourceName;

use super::{LEFTOVERS_AGAIN, Sources, Stopping};
use crate::cluster::events::Urgency;
use crate::discovery::supervisor::Left;

/// How long a source waits that broke: twice as long each time in a row, up to the last one.
pub(super) const FIRST_ANEW: Duration = Duration::from_secs(1);
/// The longest of these pauses.
pub(super) const LAST_ANEW: Duration = Duration::from_secs(60);
/// A source that ran that long without breaking begins with the first pause.
pub(super) const CALM: Duration = Duration::from_secs(600);
/// The text of its Event. It leaves out the message of the panic, which may hold anything and is in the log.
const BROKE: &str = "a task of this source crashed, which is a defect of topoloom and not of the configuration or the plugin; the host restarts the source, its HyperNodes stay, and the log of the leader shows the place";

impl Sources {
    /// Takes in how the task of a source ended: it begins anew, or it is off.
    pub(super) fn ended(&mut self, source: &SourceName, left: Left) {
        let Some(running) = self.running.remove(source) else { return };
        let stopping = running.stopping.unwrap_or_default();
        if let Some((entry, order, warnings)) = stopping.next {
            return self.start(entry, order, warnings);
        }
        self.crashes.remove(source);
        self.forget(source);
        if stopping.is_broken && left == Left::AsWanted && !stopping.delete {
            self.publish_off(source);
        }
        let known = self.known.entry(source.clone()).or_default();
        known.status.source = source.to_string();
        known.status.state = Some(State::Disabled);
        if left == Left::Behind || stopping.delete {
            known.status.state = None;
            known.status.on_removal = Some(OnRemoval::Delete);
            let soon = if stopping.delete { Duration::ZERO } else { LEFTOVERS_AGAIN };
            self.leftovers_at = Some(Instant::now() + soon);
        }
    }

    /// A source ended for good. One that ended well has done all this itself; one that broke has not.
    fn forget(&self, source: &SourceName) {
        let shared = &self.shared;
        shared.metrics.forget(source);
        shared.runtime.metrics().forget_source(source);
        shared.hyper_nodes.disown(source);
        shared.tiers.forget(source);
    }

    /// The last report of a source that crashed and was removed from the configuration before its restart: without it
    /// the source would still be reported, and counted, as running.
    fn publish_off(&self, source: &SourceName) {
        let Some(mut status) = self.shared.reports.get(source) else { return };
        status.held = None;
        status.conditions.clear();
        status.state = Some(State::Disabled);
        status.message = "disabled or removed from the configuration after a crash; its HyperNodes stay".to_owned();
        self.shared.reports.publish_idle(status);
    }

    /// A task crashed. Its source waits a while and is restarted; until then it counts as stopping, so that changes of
    /// its entry meanwhile count when it starts. A deletion that crashed is tried again.
    pub(super) fn crashed(&mut self, error: &JoinError) {
        let Some(source) = self.names.remove(&error.id()) else { return };
        let Some(running) = self.running.get_mut(&source) else { return };
        self.shared.metrics.crashed(&source);
        let (Some(entry), None) = (&running.entry, &running.stopping) else {
            tracing::error!(source = &*source, %error, "the task of a stopping source crashed");
            // Where it only deleted, that is tried again.
            let left = if running.entry.is_none() { Left::Behind } else { Left::AsWanted };
            if let Some(stopping) = &mut running.stopping {
                stopping.is_broken = true;
            }
            return self.ended(&source, left);
        };
        let next = Some((Arc::clone(entry), running.order, Vec::new()));
        running.stopping = Some(Stopping { next, delete: false, is_broken: true });
        let pause = self.pause_after_crash(&source);
        tracing::error!(source = &*source, %error, ?pause, "a task of a source crashed; the host starts it again");
        self.wait_to_restart(source, pause);
    }

    /// Counts one more crash; answers how long the source waits.
    fn pause_after_crash(&mut self, source: &SourceName) -> Duration {
        let (crashes, last) = self.crashes.get(source).copied().unwrap_or((0, Instant::now()));
        let crashes = if last.elapsed() > CALM { 0 } else { crashes };
        self.crashes.insert(source.clone(), (crashes.saturating_add(1), Instant::now()));
        FIRST_ANEW.saturating_mul(1_u32.checked_shl(crashes).unwrap_or(u32::MAX)).min(LAST_ANEW)
    }

    /// Sends the Event of a crash and waits, in a task whose end starts the source again.
    fn wait_to_restart(&mut self, source: SourceName, pause: Duration) {
        let (shared, stop, about) = (Arc::clone(&self.shared), self.stop.clone(), source.clone());
        self.spawn(source, async move {
            let until = Instant::now() + pause;
            let report = async {
                let uid = shared.reports.uid(&about);
                shared.events.source(&about, uid.as_deref(), Urgency::Warning, Reason::Crashed, BROKE).await;
                tokio::time::sleep_until(until).await;
            };
            // When the process stops, neither the Event nor the pause is waited for.
            let _ = stop.run_until_cancelled(report).await;
            Left::AsWanted
        });
    }
}
