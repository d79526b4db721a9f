//! The status of a binding at the API server: what it follows from, and when it is written.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::{BindingPhase, ClusterBindingStatus};
use topoloom_api::condition::Reason;
use topoloom_cluster::Refusal;
use topoloom_cluster::events::{EventText, Urgency};
use topoloom_sync::guard::Guard;

use super::Conductor;
use crate::bindings::news::{News, news};
use crate::bindings::report::{self, Facts, Guarded, Held, Kept, Link, Spec, is_early, is_urgent, report, trouble};
use crate::bindings::requests::Clients;
use crate::bindings::unstored::{Unstored, difference};
use crate::bindings::{Holding, Process};
use crate::convert::binding::{Problems, inherited};
use crate::metrics::WriteKind;
use crate::physical::CredentialState;
use crate::troubles::{Thing, lasts};
use crate::view::{Counts, Strays, VerbOnBinding};

/// The least time between two writes of a status, where more than numbers differ.
const SOON: Duration = Duration::from_secs(1);
/// The same where only numbers differ: they change with every pod.
const LATER: Duration = Duration::from_secs(10);
/// How long a replica that takes over leaves what the one before has written, while it does not know as much.
const EARLY: Duration = Duration::from_secs(30);

impl Conductor {
    fn facts<'a>(
        &'a self,
        state: &'a CredentialState,
        sentence: Option<&'a str>,
        troubles: &'a [Refusal],
        strays: &'a Strays,
    ) -> Facts<'a> {
        let now = self.now().wall;
        let (counts, next_transition, guard) = {
            let mut view = self.view();
            let judged = view.judged(now);
            (view.counts(), view.next_transition(judged), Guarded::of(view.guard()))
        };
        let link = self.parts.link.borrow();
        Facts {
            binding: &self.name,
            now,
            generation: self.object.metadata.generation,
            holder: &self.process.holder,
            lease: &self.served_with,
            spec: match (&self.problems, self.is_valid) {
                (None, _) => Spec::Valid,
                (Some(problems), true) => Spec::Earlier(problems),
                (Some(problems), false) => Spec::Invalid(problems),
            },
            link: Link {
                problem: state.problem.as_ref(),
                sentence,
                reach: link.as_ref().map(|_| self.view().reach),
                end: state.end,
                is_same_cluster: self.is_same_cluster,
            },
            kept: &self.kept,
            conflict: self.conflict.as_ref(),
            held: match (&self.held, self.is_recalling) {
                (None, _) => Held::Nothing,
                (Some(_), true) => Held::Recalling,
                (Some(batch), false) => Held::Batch(batch),
            },
            guard,
            is_paused: self.verbs.is_paused,
            observes: self.observes(),
            is_draining: self.verbs.drain != VerbOnBinding::None,
            is_read_only: self.gate.switch().is_read_only(),
            troubles,
            counts,
            strays,
            next_transition,
            unstored: self.unstored.as_deref(),
            going: self.going.as_ref(),
        }
    }

    /// What is refused, of everything.
    fn troubles(&self) -> Vec<Refusal> {
        let mut troubles = self.parts.troubles.all();
        let unseen = self.parts.link.borrow().as_ref().and_then(|physical| physical.unseen());
        // The watches say the same where it is their right that is missing.
        let is_new = |refusal: &Refusal| !troubles.iter().any(|known| known.cause() == refusal.cause());
        let unseen = unseen.filter(|refusal| lasts(refusal.reason)).filter(is_new);
        troubles.extend(unseen);
        troubles
    }

    /// The status as it is stored; where the API server did not store all of it, as it was written.
    fn known_status(&self) -> &ClusterBindingStatus {
        let stored = &self.object.status;
        self.unstored.as_ref().map_or(stored, |unstored| unstored.known(stored))
    }

    /// The status that has to be stored, where it differs from what is known.
    fn due_status(&self) -> Option<(ClusterBindingStatus, Value)> {
        let state = self.parts.link_state.borrow().clone();
        let (sentence, troubles, strays) = (state.sentence(), self.troubles(), self.view().strays());
        let facts = self.facts(&state, sentence.as_deref(), &troubles, &strays);
        let now = facts.now;
        let known = self.known_status();
        let wanted = report(known, &facts);
        let is_tried_again = self.unstored.as_ref().is_some_and(|unstored| unstored.is_due(Instant::now()));
        if wanted == *known && !is_tried_again {
            return None;
        }
        let wanted = wanted.written(report::second(now));
        // With all that is not stored: there may be room for it by now.
        let patch = difference(&self.object.status, &wanted)?;
        Some((wanted, patch))
    }

    /// Writes the status, not more often than its kind of change deserves; what is wrong is written at once.
    pub(super) async fn write_status(&mut self) {
        // It is the rival's, as far as is known.
        if let Some(rival) = &self.rival {
            (self.tell)(rival.says.as_deref());
            self.report_at = None;
            return;
        }
        let due = self.due_status().map(|(wanted, _)| wanted);
        (self.tell)(trouble(due.as_ref().unwrap_or(self.known_status())));
        let Some(wanted) = due else {
            self.report_at = None;
            return;
        };
        let due = self.status_is_due_at(&wanted);
        if Instant::now() < due {
            self.report_at = Some(due);
            return;
        }
        if self.store_status().await.is_err() {
            // A conflict is resolved by the watch; all else is tried again after a moment.
            self.report_at = Some(Instant::now() + LATER);
        }
    }

    /// When a status that differs is written.
    fn status_is_due_at(&self, wanted: &ClusterBindingStatus) -> Instant {
        let known = self.known_status();
        let due = match (is_urgent(known, wanted), self.written) {
            (true, None) => self.began,
            (true, Some(written)) => written + SOON,
            (false, written) => written.unwrap_or(self.began) + LATER,
        };
        let is_settled = || wanted.phase == Some(BindingPhase::Ready) && self.view().is_settled();
        if is_early(known, wanted) && !is_settled() { due.max(self.began + EARLY) } else { due }
    }

    /// Writes the status now, if it differs.
    pub(super) async fn store_status(&mut self) -> Result<(), Refusal> {
        let Some((wanted, patch)) = self.due_status() else { return Ok(()) };
        self.written = Some(Instant::now());
        self.report_at = None;
        let stored = self.parts.clients.patch_status(&self.name, self.version(), &patch).await;
        self.parts.writes.wrote(WriteKind::BindingStatus, "decided", &stored);
        let stored = self.told(Thing::BindingStatus, stored)?;
        let mut news = news(self.known_status(), &wanted);
        self.has_stored(stored);
        self.taken_from = None;
        news.extend(self.compare_stored(wanted));
        let uid = self.identity.binding_uid();
        notify(&self.process, &self.name, Some(&**uid), &news).await;
        Ok(())
    }

    /// What the answer to a write shows that is not stored of it, where that is news.
    fn compare_stored(&mut self, sent: ClusterBindingStatus) -> Option<News> {
        self.unstored = Unstored::of(sent, &self.object.status, Instant::now()).map(Box::new);
        let note = self.unstored.as_ref()?.sentence();
        self.parts.writes.not_stored(WriteKind::BindingStatus);
        if self.said_unstored.as_ref() == Some(&note) {
            return None;
        }
        tracing::warn!(binding = self.name, note, "an API server does not store all of the status of a binding");
        self.said_unstored = Some(note.clone());
        Some(News { urgency: Urgency::Warning, reason: Reason::WriteNotStored.as_str().to_owned(), note })
    }
}

/// Sends Events about a binding.
pub(in crate::bindings) async fn notify(process: &Process, name: &str, uid: Option<&str>, news: &[News]) {
    for News { urgency, reason, note } in news {
        let text = EventText { reason, action: "Lending", note };
        process.events.binding(name, uid, *urgency, text).await;
    }
}

/// A binding without right names: nothing is done for it but to say so.
pub(in crate::bindings) async fn unusable(
    process: &Process,
    holding: &Holding,
    object: &ClusterBinding,
    problems: &Problems,
) {
    let (kept, strays) = (Kept::of(&object.status), Strays::default());
    let facts = Facts {
        binding: &holding.name,
        now: (process.now)().wall,
        generation: object.metadata.generation,
        holder: &process.holder,
        lease: &holding.lease.to_string(),
        spec: Spec::Unusable(problems),
        link: Link { problem: None, sentence: None, reach: None, end: None, is_same_cluster: false },
        kept: &kept,
        conflict: None,
        // What an earlier process held is not known to be gone.
        held: if object.status.held.is_some() { Held::Recalling } else { Held::Nothing },
        guard: Guarded::of(&Guard::inherit(inherited(&object.status), Duration::ZERO)),
        is_paused: false,
        observes: false,
        is_draining: false,
        is_read_only: false,
        troubles: &[],
        counts: Counts::default(),
        strays: &strays,
        next_transition: None,
        unstored: None,
        going: None,
    };
    tracing::warn!(binding = holding.name, error = %problems, "a ClusterBinding cannot be served");
    let wanted = report(&object.status, &facts);
    (holding.tell)(trouble(&wanted));
    if wanted == object.status {
        return;
    }
    let wanted = wanted.written(report::second(facts.now));
    let Some(patch) = difference(&object.status, &wanted) else { return };
    let clients = Clients::of_virtual(&process.lent, &holding.lent);
    let version = object.metadata.resource_version.as_deref().unwrap_or_default();
    match clients.patch_status(&holding.name, version, &patch).await {
        Ok(_) => {
            let uid = object.metadata.uid.as_deref();
            notify(process, &holding.name, uid, &news(&object.status, &wanted)).await;
        }
        Err(refusal) if lasts(refusal.reason) => {
            tracing::warn!(binding = holding.name, error = %refusal, "the status of a binding may not be written");
        }
        Err(refusal) => {
            tracing::debug!(binding = holding.name, error = %refusal, "the status of a binding could not be written");
        }
    }
}
