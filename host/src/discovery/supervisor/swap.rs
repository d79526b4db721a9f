//! From delivered bytes to the active revision: carries out the orders of `core::plugin::rollout`.
//!
//! A candidate is prepared and tried in a task of its own, while the active revision continues; it becomes active
//! between two rounds, so no call ever changes its plugin, and there is no moment without one.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;
use topoloom_api::condition::{ConditionType, Reason};
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::{Call, Candidate, Cause, Event, Failed, RolloutOrder, RolloutStep, Stage};

use super::loaded::Loaded;
use super::serving::Pins;
use super::shadow::Shadow;
use super::{Supervisor, wake};
use crate::cluster::events::Urgency;
use crate::delivery::Refused;
use crate::discovery::revision::{Revision, prepare};
use crate::endpoints::Bell;

/// What a task of this room brings back.
pub(super) enum Done {
    /// A revision, or why there is none.
    Prepared(Digest, Box<Result<Revision, Refused>>),
    /// The answer to a shadow round, or why there is none.
    Shadowed(Digest, Box<Result<Shadow, Refused>>),
}

impl Supervisor {
    /// The digests that the entry names.
    pub(super) fn pins(&self) -> Pins {
        Pins::from(&*self.entry.config)
    }

    /// What is offered or wanted may be something else.
    pub(super) fn delivered(&mut self) {
        if let Some(event) = self.serving.offered(self.place.offer()) {
            self.handle(event);
        }
        self.update_wish();
    }

    /// Sends the rollout the bytes that should be active now.
    fn update_wish(&mut self) {
        let wish = self.serving.wish(self.pins());
        let is_none = matches!(wish, Event::Unwanted);
        self.handle(wish);
        if let Some((reason, message)) = self.serving.offer().trouble()
            && is_none
            && self.serving.rollout.serving().is_none()
        {
            tracing::warn!(source = &*self.source, reason = %reason, message, "there is no plugin");
            self.first_wish_is_known();
        }
        self.go_on_early();
    }

    /// Passes an event to the rollout, and carries out its order.
    pub(super) fn handle(&mut self, event: Event<Arc<Revision>>) {
        let before = self.serving.rollout.revision().cloned();
        match self.serving.rollout.handle(event, self.clock.now()) {
            Some(RolloutOrder::Prepare(digest) | RolloutOrder::Renew(digest)) => self.start_preparing(digest),
            Some(RolloutOrder::Swap(digest)) => self.swapped(digest, before.as_deref()),
            Some(RolloutOrder::Renewed(_)) => self.serve(before.as_deref()),
            Some(RolloutOrder::Quarantine(_)) => self.quarantine(),
            // It begins with a turn of its own.
            Some(RolloutOrder::Shadow(_)) | None => {}
        }
        if self.serving.rollout.work().is_none() {
            // Work that is no longer wanted is cut off.
            self.work = JoinSet::new();
        }
        self.serving.forget_others();
        self.report_plugins();
    }

    /// Makes a revision in a task of its own; what was worked on before is cut off.
    fn start_preparing(&mut self, digest: Digest) {
        let (shared, entry) = (Arc::clone(&self.shared), Arc::clone(&self.entry.config));
        let offer = self.serving.offer().clone();
        let has_digest = |revision: &&Arc<Revision>| revision.plugin.digest() == digest;
        let serving = self.serving.rollout.revision().filter(has_digest);
        let earlier = self.serving.rollout.earlier().filter(has_digest);
        let running = serving.map(|revision| revision.plugin.clone());
        let delivered = offer.module().filter(|module| module.digest == digest).cloned();
        let known = delivered.or_else(|| serving.or(earlier).map(|revision| Arc::clone(&revision.module)));
        tracing::debug!(source = &*self.source, %digest, "a plugin is prepared");
        self.work = JoinSet::new();
        self.work.spawn(async move {
            let module = match known {
                Some(module) => Ok(module),
                None => shared.supply.pinned(digest, &offer).await,
            };
            let result = match module {
                Ok(module) => {
                    let objects = shared.objects(&entry).await;
                    prepare(shared.host(&objects), entry, module, running).await
                }
                Err(refused) => Err(refused),
            };
            Done::Prepared(digest, Box::new(result))
        });
    }

    /// Handles the result of a task; `None`: it crashed.
    pub(super) fn done(&mut self, done: Option<Done>) {
        match (done, self.serving.rollout.work()) {
            (Some(Done::Prepared(digest, result)), _) => self.prepared(digest, *result),
            (Some(Done::Shadowed(digest, result)), _) => self.shadowed(digest, *result),
            (None, Some(work)) => {
                let message = "the host failed while it prepared the plugin";
                let refused = Refused::loading(RolloutStep::Compile, Reason::PluginInvalid, message, Failed::Fault);
                self.prepared(work.digest(), Err(refused));
            }
            (None, None) => {}
        }
    }

    fn prepared(&mut self, digest: Digest, result: Result<Revision, Refused>) {
        match result {
            Ok(revision) => self.handle(Event::Prepared(digest, Arc::new(revision))),
            Err(refused) if self.serving.rollout.is_renewing() => self.entry_refused(digest, refused),
            Err(refused) => self.candidate_failed(digest, refused),
        }
        self.first_wish_is_known();
    }

    /// The entry was edited and the active plugin refuses it: the plugin continues with the entry in force.
    fn entry_refused(&mut self, digest: Digest, refused: Refused) {
        tracing::warn!(source = &*self.source, reason = %refused.reason, message = refused.message, "the entry is refused");
        if refused.condition == ConditionType::Configured {
            self.report.refused_entry(&refused);
        }
        let event = Event::Failed(digest, refused.step, refused.failed);
        self.entry.refuse(refused, Instant::now());
        self.handle(event);
    }

    /// The candidate failed. If no plugin is active yet, the delivered one replaces the last active one.
    pub(super) fn candidate_failed(&mut self, digest: Digest, refused: Refused) {
        if self.serving.makes_way(digest, &refused, self.pins()) {
            tracing::info!(source = &*self.source, %digest, why = refused.message,
                "the last active plugin cannot be activated again");
            self.handle(Event::Unwanted);
            return self.update_wish();
        }
        tracing::warn!(
            source = &*self.source,
            %digest,
            step = refused.step.as_str(),
            reason = %refused.reason,
            message = refused.message,
            "a plugin is refused"
        );
        self.shared.metrics.refused(&self.source, refused.step);
        self.report.refusal(digest, &refused, Timestamp::now());
        let event = Event::Failed(digest, refused.step, refused.failed);
        self.serving.refuse(digest, refused);
        self.handle(event);
        self.go_on_early();
    }

    /// The operator may have let the candidate continue before it waited.
    pub(super) fn go_on_early(&mut self) {
        if let Some(digest) = self.serving.early_go_on() {
            self.go_on(digest);
        }
    }

    /// The candidate is active. The revision before it is kept whole, so that a rollback takes no time.
    fn swapped(&mut self, digest: Digest, old: Option<&Revision>) {
        let vouched = self.serving.swapped(digest);
        let taken_back = self.serving.rollout.taken_back().next();
        let is_rollback = old.is_some_and(|old| taken_back == Some(old.plugin.digest()));
        self.shared.metrics.swapped(&self.source, if is_rollback { Cause::Rollback } else { Cause::Delivery });
        if let (Some(old), Some(new)) = (old, self.serving.rollout.revision()) {
            let (urgency, reason, words) = match is_rollback {
                true => (Urgency::Warning, Reason::RolledBack, "is active again in place of"),
                false => (Urgency::Normal, Reason::Swapped, "is now active in place of"),
            };
            let note = format!("plugin {} {words} {}", named(new), named(old));
            tracing::info!(source = &*self.source, note, "the active plugin has changed");
            self.report.add_event(urgency, reason, note);
            old.endpoints.unfollow();
        }
        self.serve(old);
        self.store();
        if let Some(result) = vouched {
            self.guarded.vouch(result.to_string());
        }
    }

    /// Another revision is active: rounds, columns and endpoints are its own from here on.
    fn serve(&mut self, old: Option<&Revision>) {
        let Some(revision) = self.serving.rollout.revision().cloned() else { return };
        let interested = wake::Interested::new(Arc::clone(&self.wake), revision.keys.clone());
        // The new interest exists before the old one is dropped, so columns of both stay.
        let interest = self.shared.nodes.register(revision.keys.clone(), Arc::new(interested));
        self.columns.required = Some(interest);
        let wake = Arc::clone(&self.wake);
        let bell: Bell = Arc::new(move || wake.outside());
        revision.endpoints.follow(&bell);
        self.pacing.restart(revision.rhythm.clone());
        self.in_force.restart();
        self.report.revision(&revision);
        let (described, digest) = (&revision.description, revision.plugin.digest().short());
        self.shared.metrics.interval(&self.source, revision.rhythm.timer);
        self.shared.metrics.serves(&self.source, &described.name, &described.version, &digest);
        tracing::info!(
            source = &*self.source,
            plugin = described.name,
            version = described.version,
            digest = %revision.plugin.digest(),
            "configured"
        );
        if old.is_none_or(|old| !old.plugin.is(&revision.plugin)) {
            self.optimising = JoinSet::new();
        }
        self.entry.accepted();
    }

    /// A real call of what serves has ended.
    pub(super) fn called(&mut self, call: Call, why: Option<&str>) {
        if let (Call::Fault, Some(why)) = (call, why) {
            self.serving.last_fault = Some(why.to_owned());
        }
        self.handle(Event::Called(call));
    }

    /// The plugin is at the end of its tries.
    fn quarantine(&mut self) {
        let Some(until) = self.serving.rollout.quarantined_until() else { return };
        self.pacing.rest(until);
        let entry = self.serving.rollout.revision().map_or(&self.entry.config, |revision| &revision.entry);
        let owned = self.shared.hyper_nodes.observed().of(&self.source).count();
        self.in_force.quarantined(entry.on_failure, owned);
        let fault = self.serving.last_fault.as_deref();
        tracing::warn!(source = &*self.source, fault, "the plugin is in quarantine");
    }

    /// What the condition `Loaded` says follows from the state machine, and from nothing else.
    pub(super) fn report_plugins(&mut self) {
        let rollout = &self.serving.rollout;
        let ready = rollout.candidate().and_then(|candidate| candidate.ready.as_ref());
        let loaded = Loaded {
            source: &self.source,
            rollout,
            serving: rollout.revision().map(|revision| named(revision)),
            refused: self.serving.refused(),
            ready: ready.map(|ready| (ready.description.name.clone(), ready.description.version.clone())),
            offer: self.serving.offer(),
            waits: self.serving.waiting_offer(self.pins()),
            fault: self.serving.last_fault.as_deref(),
            reconfiguring: self.entry.refused(),
            is_behind: rollout.revision().is_some_and(|revision| !self.entry.is(&revision.entry)),
        };
        self.report.set_plugins(&loaded);
        self.shared.metrics.rollout(&self.source, rollout);
    }
}

/// A revision in a sentence.
pub(super) fn named(revision: &Revision) -> String {
    let description = &revision.description;
    format!("{} {} ({})", description.name, description.version, revision.plugin.digest().short())
}

/// What a candidate is doing, for the status.
pub(super) fn stage_word<R>(candidate: &Candidate<R>) -> &'static str {
    match &candidate.stage {
        Stage::Preparing => "Preparing",
        Stage::Shadow => "Shadow",
        Stage::Held(_) => "Held",
        Stage::Refused { .. } => "Refused",
    }
}
