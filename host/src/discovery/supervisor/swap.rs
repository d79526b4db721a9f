//! From delivered bytes to the revision that serves: what `core::plugin::rollout` orders, done.
//!
//! A candidate is prepared and tried in a task of its own, while the revision that serves goes on; it takes over between
//! two rounds, so no call ever changes its plugin, and there is no moment without one.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;
use topoloom_api::condition::{ConditionType, Reason};
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::{self, Call, Candidate, Cause, Event, Failed, Order, Rollout, Stage, Step};
use topoloom_core::topology::ResultHash;

use super::Supervisor;
use super::shadow::Shadow;
use crate::cluster::events::Urgency;
use crate::delivery::Refused;
use crate::delivery::{Module, Offer};
use crate::discovery::revision::{Revision, prepare};

/// Pauses between attempts to store a module.
const KEEP_AGAIN: Duration = Duration::from_secs(2);
/// See [`KEEP_AGAIN`].
const KEEP_SELDOM: Duration = Duration::from_secs(300);
/// Attempts to get what served last at a start, before what is delivered serves without a comparison.
const TRIES_OF_LAST: u32 = 4;
/// What a task of this room brings back.
pub(super) enum Done {
    /// A revision, or why there is none.
    Prepared(Digest, Box<Result<Revision, Refused>>),
    /// The answer to a shadow round, or why there is none.
    Shadowed(Digest, Box<Result<Shadow, Refused>>),
}

impl Supervisor {
    /// The time of the state machine.
    pub(super) fn time(&self) -> rollout::Time {
        self.began.elapsed()
    }

    /// The place that modules come from has something else to offer.
    pub(super) fn delivered(&mut self) {
        let before = std::mem::replace(&mut self.offer, self.place.offer());
        self.is_late = false;
        // Whether a digest that is pinned can be had depends on what is offered.
        let early = |stage: &Stage| matches!(stage, Stage::Refused { step: Step::Receive | Step::Trust, .. });
        // The same bytes with other words beside them are another delivery.
        let anew = |digest: Digest| {
            matches!(&self.offer, Offer::Module(module) if module.digest == digest) && self.offer != before
        };
        let refused = |stage: &Stage| matches!(stage, Stage::Refused { .. });
        let again = self
            .rollout
            .candidate()
            .is_some_and(|candidate| early(&candidate.stage) || (refused(&candidate.stage) && anew(candidate.digest)));
        if again {
            self.happens(Event::Edited);
        }
        self.want();
    }

    /// Says which bytes should serve now: what the operator named, what the entry pins, what is delivered; and before
    /// anything serves in this life of the host, what served last, so that a newer one has something to be compared with.
    pub(super) fn want(&mut self) {
        let wanted = self.wanted();
        if self.rollout.serving().is_none()
            && (wanted.is_some() || !matches!(self.offer, Offer::Pending))
            && let Some(last) = self.served_last.filter(|last| wanted.is_none_or(|(wanted, _)| wanted != *last))
        {
            return self.happens(Event::Wanted(last, Cause::Delivery));
        }
        match wanted {
            Some((digest, cause)) => self.happens(Event::Wanted(digest, cause)),
            None => {
                self.happens(Event::Unwanted);
                if let Some((reason, message)) = self.offer.trouble()
                    && self.rollout.serving().is_none()
                {
                    tracing::warn!(source = &*self.source, reason = %reason, message, "there is no plugin");
                    self.first_wish_is_known();
                }
            }
        }
        self.go_on_as_told();
        self.say_loaded();
    }

    fn wanted(&self) -> Option<(Digest, Cause)> {
        let named = self.named.or(self.entry.verbs.serve);
        match (named, self.entry.plugin.digest, &self.offer) {
            (Some(named), ..) => Some((named, Cause::Operator)),
            (None, Some(pinned), offer) if !matches!(offer, Offer::Pending) => Some((pinned, Cause::Delivery)),
            (None, _, Offer::Module(module)) => Some((module.digest, Cause::Delivery)),
            _ => None,
        }
    }

    /// Tells the state machine, and does what it says.
    pub(super) fn happens(&mut self, event: Event) {
        let back = |rollout: &Rollout| rollout.candidate().is_some_and(|candidate| candidate.cause == Cause::Rollback);
        let was_back = back(&self.rollout);
        let mut order = self.rollout.handle(event, self.time());
        while let Some(now) = order.take() {
            order = self.follow(now);
        }
        // What came during a way back was not heard.
        self.is_late |= was_back && !back(&self.rollout);
        self.leave_what_nobody_wants();
        self.say_loaded();
    }

    /// Ends work on bytes that neither serve nor want to any more.
    fn leave_what_nobody_wants(&mut self) {
        let candidate = self.rollout.candidate().map(|candidate| candidate.digest);
        let serving = self.rollout.serving().map(|serving| serving.digest);
        if self.worked_on.is_some_and(|digest| Some(digest) != candidate && Some(digest) != serving) {
            self.work = JoinSet::new();
            self.worked_on = None;
        }
        self.ready.take_if(|ready| Some(ready.plugin.digest()) != candidate);
        self.candidate_refused.take_if(|(digest, _)| Some(*digest) != candidate);
    }

    fn follow(&mut self, order: Order) -> Option<Order> {
        match order {
            Order::Prepare(digest) => {
                self.is_shadow_due = false;
                let back = self.rollout.candidate().is_some_and(|candidate| candidate.cause == Cause::Rollback);
                // With the entry that it served with: whether it takes the present one is tried when it serves.
                if let Some(earlier) = self.earlier.take_if(|earlier| back && earlier.plugin.digest() == digest) {
                    // It is as it was when it served: nothing has to be prepared, and nothing can fail.
                    self.ready = Some(earlier);
                    return self.rollout.handle(Event::Prepared(digest), self.time());
                }
                self.start_preparing(digest);
                None
            }
            Order::Shadow(_) => {
                self.is_shadow_due = true;
                None
            }
            Order::Swap(digest) => {
                self.swap(digest);
                None
            }
            Order::Quarantine(_) => {
                self.quarantine();
                None
            }
        }
    }

    /// Makes a revision in a task of its own; whatever was worked on before is left.
    pub(super) fn start_preparing(&mut self, digest: Digest) {
        let (shared, entry, offer) = (Arc::clone(&self.shared), Arc::clone(&self.entry), self.offer.clone());
        let serving = self.revision.as_ref().filter(|revision| revision.plugin.digest() == digest);
        let running = serving.map(|revision| revision.plugin.clone());
        let earlier = self.earlier.as_ref().filter(|revision| revision.plugin.digest() == digest);
        let known = match &offer {
            Offer::Module(module) if module.digest == digest => Some(Arc::clone(module)),
            _ => serving.or(earlier).map(|revision| Arc::clone(&revision.module)),
        };
        tracing::debug!(source = &*self.source, %digest, "a plugin is prepared");
        self.work = JoinSet::new();
        self.worked_on = Some(digest);
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

    /// Takes in what a task brings; `None`: it broke.
    pub(super) fn done(&mut self, done: Option<Done>) {
        let worked_on = self.worked_on.take();
        match (done, worked_on) {
            (Some(Done::Prepared(digest, result)), _) => self.prepared(digest, *result),
            (Some(Done::Shadowed(digest, result)), _) => self.shadowed(digest, *result),
            (None, Some(digest)) => {
                let message = "the host failed while it prepared the plugin";
                let refused = Refused::loading(Step::Compile, Reason::PluginInvalid, message, Failed::Fault);
                self.prepared(digest, Err(refused));
            }
            (None, None) => {}
        }
    }

    fn prepared(&mut self, digest: Digest, result: Result<Revision, Refused>) {
        let serves = self.rollout.serving().is_some_and(|serving| serving.digest == digest);
        match result {
            Ok(revision) if serves => {
                self.refused = None;
                self.take_revision(revision);
                self.say_loaded();
            }
            Ok(revision) => {
                self.ready = Some(revision);
                self.happens(Event::Prepared(digest));
            }
            Err(refused) if serves => self.reconfigured_in_vain(refused),
            Err(refused) => self.candidate_failed(digest, refused),
        }
        self.first_wish_is_known();
    }

    /// The candidate failed. Before anything serves, what served last makes way for what is delivered.
    pub(super) fn candidate_failed(&mut self, digest: Digest, refused: Refused) {
        if self.rollout.serving().is_none() && self.served_last == Some(digest) && self.last_is_lost(&refused) {
            tracing::info!(source = &*self.source, %digest, why = refused.message, "what served last cannot serve again");
            self.happens(Event::Unwanted);
            return self.want();
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
        let event = Event::Failed(digest, refused.step, refused.failed);
        self.report.refusal(digest, &refused, Timestamp::now());
        self.candidate_refused = Some((digest, refused));
        self.ready = None;
        self.happens(event);
        self.go_on_as_told();
    }

    /// What served last failed to serve first. Whether something else is tried now: there is something that did not fail
    /// in service, and waiting brings nothing or has brought nothing for long.
    fn last_is_lost(&mut self, refused: &Refused) -> bool {
        self.tries_of_last += 1;
        let failed: Vec<Digest> = self.rollout.taken_back().collect();
        let another = self.wanted().is_some_and(|(wanted, _)| !failed.contains(&wanted));
        let is_gone = refused.failed == Failed::ForGood;
        if !(is_gone || (self.tries_of_last >= TRIES_OF_LAST && another)) {
            return false;
        }
        let lost = self.served_last.take();
        if refused.step != Step::Receive {
            // Its bytes are there: it may still be a way back.
            if let Some(lost) = lost {
                self.rollout.remember(lost);
            }
        }
        if !another {
            let before = self.rollout.previous().find(|before| Some(*before) != lost && !failed.contains(before));
            self.served_last = before;
            self.tries_of_last = 0;
        }
        true
    }

    /// The operator may have let the candidate go on before it waited.
    pub(super) fn go_on_as_told(&mut self) {
        if let Some(digest) = self.go_on.filter(|_| self.rollout.needs_person())
            && self.rollout.candidate().is_some_and(|candidate| candidate.digest == digest)
        {
            self.go_on = None;
            self.go_on(digest);
        }
    }

    /// The operator lets a candidate go on. What its answer in the shadow would take away was looked at, so the guard
    /// does not ask again.
    pub(super) fn go_on(&mut self, digest: Digest) {
        let held = self.rollout.candidate().filter(|candidate| candidate.digest == digest);
        let Some(candidate) = held else {
            if self.rollout.serving().is_none() {
                // It may be what waits as soon as what served last serves again.
                self.go_on = Some(digest);
                return;
            }
            tracing::warn!(source = &*self.source, %digest, "the operator lets a plugin go on that does not wait: nothing is done");
            return;
        };
        tracing::info!(source = &*self.source, %digest, "the operator lets a plugin go on");
        if let (Stage::Held(_), Some((_, hash))) =
            (&candidate.stage, self.shadow_result.as_ref().filter(|(of, _)| *of == digest))
        {
            self.vouched = Some(hash.clone());
        }
        self.happens(Event::Continue(digest));
    }

    /// The candidate takes over. The revision before it is kept whole, so that the way back takes no time.
    fn swap(&mut self, digest: Digest) {
        let Some(new) = self.ready.take_if(|ready| ready.plugin.digest() == digest) else { return };
        let old = self.revision.take();
        let back =
            self.rollout.taken_back().next().filter(|bad| old.as_ref().is_some_and(|old| old.plugin.digest() == *bad));
        self.refused = None;
        self.candidate_refused = None;
        self.served_last = None;
        self.go_on.take_if(|told| *told == digest);
        self.shared.metrics.swapped(&self.source, back.is_some());
        if let Some(old) = &old {
            let (urgency, reason, words) = match back {
                Some(_) => (Urgency::Warning, Reason::RolledBack, "serves again in place of"),
                None => (Urgency::Normal, Reason::Swapped, "serves from now on in place of"),
            };
            let note = format!("plugin {} {words} {}", named(&new), named(old));
            tracing::info!(source = &*self.source, note, "swap");
            self.report.tell(urgency, reason, note);
        }
        if let Some(old) = &old {
            old.endpoints.unfollow();
        }
        self.earlier = old.filter(|_| back.is_none());
        self.take_revision(new);
        self.keep();
        self.confirmed = self.vouched.take().map(|hash: ResultHash| hash.to_string()).or(self.confirmed.take());
        // What is wanted may be something else again by now.
        self.is_late = true;
    }

    /// Stores what serves, so that it is there after a restart, on whichever node.
    fn keep(&mut self) {
        let Some(revision) = &self.revision else { return };
        let (shared, source, module) =
            (Arc::clone(&self.shared), Arc::clone(&self.source), Arc::clone(&revision.module));
        let earlier = self.earlier.as_ref().map(|earlier| Arc::clone(&earlier.module));
        let waiting = self.rollout.candidate().map(|candidate| candidate.digest);
        let wanted = self.wanted().map(|(wanted, _)| wanted);
        let digests: Vec<Digest> =
            [module.digest].into_iter().chain(self.rollout.previous()).chain(waiting).chain(wanted).collect();
        // Only the latest wish counts.
        self.keeping = JoinSet::new();
        self.keeping.spawn(async move {
            let mut pause = KEEP_AGAIN;
            let keep =
                async |module: &Module| shared.supply.modules.keep(&source, module, digests.iter().copied()).await;
            // What served until now may have had no time to be stored.
            if let Some(earlier) = earlier {
                let _ = keep(&earlier).await;
            }
            while let Err(error) = keep(&module).await {
                tracing::warn!(
                    source = &*source,
                    digest = %module.digest,
                    error,
                    again_in = ?pause,
                    "the plugin cannot be kept: after a restart there is no way back to it"
                );
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(KEEP_SELDOM);
            }
        });
    }

    /// A real call of what serves has ended.
    pub(super) fn called(&mut self, call: Call, why: Option<&str>) {
        if let (Call::Fault, Some(why)) = (call, why) {
            self.last_fault = Some(why.to_owned());
        }
        self.happens(Event::Called(call));
    }

    /// What the condition `Loaded` says follows from the state machine, and from nothing else.
    pub(super) fn say_loaded(&mut self) {
        let serving = self.revision.as_ref().map(named);
        let refused = self.candidate_refused.as_ref();
        let (waits, fault) = (self.waiting_offer(), self.last_fault.as_deref());
        let ready =
            self.ready.as_ref().map(|ready| (ready.description.name.clone(), ready.description.version.clone()));
        let say = super::loaded::Loaded {
            source: &self.source,
            rollout: &self.rollout,
            serving,
            refused,
            ready,
            offer: &self.offer,
            waits,
            fault,
            reconfiguring: self.refused.as_ref(),
            is_behind: self.revision.as_ref().is_some_and(|revision| revision.entry.hash != self.entry.hash),
        };
        self.report.loaded(&say);
        self.shared.metrics.rollout(&self.source, &self.rollout);
    }

    /// A module that is delivered and waits, because another one is pinned.
    fn waiting_offer(&self) -> Option<(Digest, &'static str)> {
        let Offer::Module(module) = &self.offer else { return None };
        let (pinned, by) = match (self.named, self.entry.verbs.serve, self.entry.plugin.digest) {
            (Some(named), ..) => (named, "the operator named (annotation topoloom.dev/serve)"),
            (None, Some(named), _) => (named, "the entry names under `serve`"),
            (None, None, Some(pinned)) => (pinned, "the entry pins (plugin.digest)"),
            (None, None, None) => return None,
        };
        (module.digest != pinned).then_some((module.digest, by))
    }

    /// The entry was edited and the plugin that serves refuses it: it goes on as it was.
    fn reconfigured_in_vain(&mut self, refused: Refused) {
        tracing::warn!(source = &*self.source, reason = %refused.reason, message = refused.message, "the entry is refused");
        self.prepare_at = refused.may_pass().then(|| Instant::now() + self.prepare_pause);
        self.prepare_pause = (self.prepare_pause * 2).min(super::entry::PREPARE_SELDOM);
        if refused.condition == ConditionType::Configured {
            self.report.refused_entry(&refused);
        }
        self.refused = Some(refused);
        self.say_loaded();
    }
}

/// A revision in a sentence.
pub(super) fn named(revision: &Revision) -> String {
    let description = &revision.description;
    format!("{} {} ({})", description.name, description.version, revision.plugin.digest().short())
}

/// What a candidate is doing, for the status.
pub(super) fn stage_word(candidate: &Candidate) -> &'static str {
    match &candidate.stage {
        Stage::Preparing => "Preparing",
        Stage::Shadow => "Shadow",
        Stage::Held(_) => "Held",
        Stage::Refused { .. } => "Refused",
    }
}
