//! Which plugin is active and which waits: the rollout and its inputs. These are the offer of the place, what the
//! operator and the entry name, and what was active before the host's restart.
//!
//! Invariants: the facts about a candidate (why it was refused, its shadow answer) are about the present candidate; the
//! operator counts before the entry, and the entry before the delivered plugin.

use std::sync::Arc;

use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::{
    Another, Cause, Event, Last, LastFailed, Rollout, RolloutMemory as Remembered, RolloutStep, Stage,
};
use topoloom_core::topology::ResultHash;

use crate::config::EntryConfig;
use crate::delivery::{Offer, Refused};
use crate::discovery::revision::Revision;

/// What serves and what waits. `R` is the handle of what is made of bytes.
pub(super) struct Serving<R = Arc<Revision>> {
    /// The machine.
    pub(super) rollout: Rollout<R>,
    offer: Offer,
    /// What the operator named.
    named: Option<Digest>,
    /// The plugin that was active before the host's restart.
    last: Last,
    /// The plugin that the operator let continue before it waited, since the start of the host.
    go_on: Option<Digest>,
    /// What the candidate answered in the shadow, and whether the operator vouches for that.
    shadow_result: Option<(Digest, ResultHash)>,
    vouched: Option<ResultHash>,
    /// Why the last candidate was refused.
    refused: Option<(Digest, Refused)>,
    /// How the last real call failed that the plugin is to blame for.
    pub(super) last_fault: Option<String>,
}

/// The digests that an entry names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pins {
    /// Under `serve`.
    pub(super) serve: Option<Digest>,
    /// As `plugin.digest`.
    pub(super) pinned: Option<Digest>,
}

impl From<&EntryConfig> for Pins {
    fn from(entry: &EntryConfig) -> Self {
        Self { serve: entry.verbs.serve, pinned: entry.plugin.digest }
    }
}

/// The outcome of the operator's `continue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoOn {
    /// The candidate continues.
    Now,
    /// Nothing serves yet: it counts for what may wait as soon as something does.
    Later,
    /// No such plugin waits.
    Ignored,
}

impl<R: Clone> Serving<R> {
    /// Nothing serves so far.
    pub(super) fn new(
        remembered: Remembered,
        served_last: Option<Digest>,
        named: Option<Digest>,
        go_on: Option<Digest>,
    ) -> Self {
        Self {
            rollout: Rollout::new(remembered),
            offer: Offer::Pending,
            named,
            last: Last::new(served_last),
            go_on,
            shadow_result: None,
            vouched: None,
            refused: None,
            last_fault: None,
        }
    }

    /// What the place offers.
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Why the candidate was refused.
    pub(super) fn refused(&self) -> Option<&(Digest, Refused)> {
        self.refused.as_ref()
    }

    /// The place offers something else. Answers whether a candidate that was refused may do better now.
    pub(super) fn offered(&mut self, offer: Offer) -> Option<Event<R>> {
        let before = std::mem::replace(&mut self.offer, offer);
        // Whether a digest that is pinned can be had depends on what is offered.
        let early =
            |stage: &Stage| matches!(stage, Stage::Refused { step: RolloutStep::Receive | RolloutStep::Trust, .. });
        // The same bytes with other words beside them are another delivery.
        let anew = |digest: Digest| {
            self.offer.module().is_some_and(|module| module.digest == digest) && self.offer.module() != before.module()
        };
        let refused = |stage: &Stage| matches!(stage, Stage::Refused { .. });
        let candidate = self.rollout.candidate()?;
        let again = early(&candidate.stage) || (refused(&candidate.stage) && anew(candidate.digest));
        again.then_some(Event::Again)
    }

    /// The place of the modules has changed.
    pub(super) fn moved(&mut self) {
        self.offer = Offer::Pending;
        self.rollout.ask_for_wish();
    }

    /// The operator names the plugin that should be active, or no longer does.
    pub(super) fn name(&mut self, named: Option<Digest>) {
        self.named = named;
        self.rollout.ask_for_wish();
    }

    /// The plugin that should be active, and by whose request.
    pub(super) fn wanted(&self, pins: Pins) -> Option<(Digest, Cause)> {
        match (self.named.or(pins.serve), pins.pinned, &self.offer) {
            (Some(named), ..) => Some((named, Cause::Operator)),
            (None, Some(pinned), offer) if !matches!(offer, Offer::Pending) => Some((pinned, Cause::Delivery)),
            (None, _, offer) => offer.module().map(|module| (module.digest, Cause::Delivery)),
        }
    }

    /// The event about it for the rollout. Until a plugin is active after a start, it is the last active one, so that a
    /// newer one can be compared with it.
    pub(super) fn wish(&self, pins: Pins) -> Event<R> {
        let wanted = self.wanted(pins);
        let is_known = wanted.is_some() || !matches!(self.offer, Offer::Pending);
        let last = self.last.before(wanted.map(|(digest, _)| digest));
        match (last.filter(|_| is_known && self.rollout.serving().is_none()), wanted) {
            (Some(last), _) => Event::Wanted(last, Cause::Delivery),
            (None, Some((digest, cause))) => Event::Wanted(digest, cause),
            (None, None) => Event::Unwanted,
        }
    }

    /// A module that is delivered and waits, because another one is named.
    pub(super) fn waiting_offer(&self, pins: Pins) -> Option<(Digest, &'static str)> {
        let module = self.offer.module()?;
        let (named, by) = match (self.named, pins.serve, pins.pinned) {
            (Some(named), ..) => (named, "the operator named (annotation topoloom.dev/serve)"),
            (None, Some(named), _) => (named, "the entry names under `serve`"),
            (None, None, Some(pinned)) => (pinned, "the entry pins (plugin.digest)"),
            (None, None, None) => return None,
        };
        (module.digest != named).then_some((module.digest, by))
    }

    /// While no plugin is active, the last active one may be accepted with another entry, or at another time.
    pub(super) fn try_last_again(&mut self) {
        if self.rollout.serving().is_none() {
            self.last.try_again();
        }
    }

    /// A candidate failed before any plugin is active. Returns whether it is the last active one and gives its place to
    /// another.
    pub(super) fn makes_way(&mut self, digest: Digest, refused: &Refused, pins: Pins) -> bool {
        if self.rollout.serving().is_some() || !self.last.is(digest) {
            return false;
        }
        let failed: Vec<Digest> = self.rollout.taken_back().collect();
        let another = match self.wanted(pins) {
            Some((wanted, _)) if !failed.contains(&wanted) => Another::Wanted,
            _ => {
                let before = self.rollout.previous().find(|before| *before != digest && !failed.contains(before));
                Another::Before(before)
            }
        };
        if self.last.failed(refused.failed, another) == LastFailed::TriedAgain {
            return false;
        }
        if refused.step != RolloutStep::Receive {
            // Its bytes are there: a rollback may still bring it back.
            self.rollout.remember(digest);
        }
        true
    }

    /// The candidate is refused.
    pub(super) fn refuse(&mut self, digest: Digest, refused: Refused) {
        self.refused = Some((digest, refused));
    }

    /// Forgets why another candidate than the present one was refused.
    pub(super) fn forget_others(&mut self) {
        let candidate = self.rollout.candidate().map(|candidate| candidate.digest);
        self.refused.take_if(|(digest, _)| Some(*digest) != candidate);
    }

    /// The candidate answered in the shadow.
    pub(super) fn compared(&mut self, digest: Digest, result: ResultHash) {
        self.shadow_result = Some((digest, result));
    }

    /// The operator lets a candidate continue. The losses of its shadow answer were judged, so the guard does not hold
    /// it again.
    pub(super) fn go_on(&mut self, digest: Digest) -> GoOn {
        let Some(candidate) = self.rollout.candidate().filter(|candidate| candidate.digest == digest) else {
            if self.rollout.serving().is_some() {
                return GoOn::Ignored;
            }
            self.go_on = Some(digest);
            return GoOn::Later;
        };
        let result = self.shadow_result.as_ref().filter(|(of, _)| *of == digest);
        if let (Stage::Held(_), Some((_, hash))) = (&candidate.stage, result) {
            self.vouched = Some(hash.clone());
        }
        GoOn::Now
    }

    /// The candidate that waits for the `continue` that the operator has already given.
    pub(super) fn early_go_on(&mut self) -> Option<Digest> {
        let waits = self.rollout.candidate().filter(|_| self.rollout.needs_person())?.digest;
        self.go_on.take_if(|digest| *digest == waits)
    }

    /// The candidate serves. Answers the result that the operator vouched for.
    pub(super) fn swapped(&mut self, digest: Digest) -> Option<ResultHash> {
        self.refused = None;
        self.last.served();
        self.go_on.take_if(|of| *of == digest);
        self.vouched.take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topoloom_api::condition::Reason;
    use topoloom_api::discovery_source::PluginOrigin;
    use topoloom_core::plugin::rollout::{Failed, RolloutOrder};

    use super::*;
    use crate::delivery::Module;

    const S: Duration = Duration::from_secs(1);

    fn module(name: &str) -> Offer {
        Offer::Module(Arc::new(Module::plain(Arc::from(name.as_bytes()), PluginOrigin::File)))
    }

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn serving(last: Option<&str>) -> Serving<Digest> {
        Serving::new(Remembered::default(), last.map(digest), None, None)
    }

    /// Lets a plugin serve.
    fn serves(serving: &mut Serving<Digest>, name: &str) {
        let of = digest(name);
        let _ = serving.rollout.handle(Event::Wanted(of, Cause::Delivery), S);
        let mut order = serving.rollout.handle(Event::Prepared(of, of), S);
        if order == Some(RolloutOrder::Shadow(of)) {
            order = serving.rollout.handle(Event::Shadowed(of, None), S);
        }
        assert_eq!(order, Some(RolloutOrder::Swap(of)));
        serving.swapped(of);
    }

    fn refused(step: RolloutStep, failed: Failed) -> Refused {
        Refused::loading(step, Reason::PluginInvalid, "broken", failed)
    }

    #[test]
    fn the_operator_counts_before_the_entry_and_the_entry_before_what_is_delivered() {
        let mut serving = serving(None);
        let none = Pins::default();
        let pinned = Pins { pinned: Some(digest("pinned")), ..none };
        let named = Pins { serve: Some(digest("entry")), ..pinned };
        assert_eq!((serving.wanted(none), serving.wanted(pinned)), (None, None), "nothing is known of the place");
        let _ = serving.offered(module("delivered"));
        let wants = |serving: &Serving<Digest>, pins, name, cause| {
            assert_eq!(serving.wanted(pins), Some((digest(name), cause)));
            serving.waiting_offer(pins).map(|(waits, _)| waits)
        };
        let waits = Some(digest("delivered"));
        assert_eq!(wants(&serving, none, "delivered", Cause::Delivery), None);
        assert_eq!(wants(&serving, pinned, "pinned", Cause::Delivery), waits);
        assert_eq!(wants(&serving, named, "entry", Cause::Operator), waits);
        serving.name(Some(digest("operator")));
        assert_eq!(wants(&serving, named, "operator", Cause::Operator), waits);
        serving.moved();
        assert_eq!(serving.waiting_offer(named), None, "the place was not looked at yet");
    }

    #[test]
    fn what_served_last_serves_first_once_the_place_was_looked_at() {
        let mut serving = serving(Some("old"));
        assert_eq!(serving.wish(Pins::default()), Event::Unwanted);
        let _ = serving.offered(module("new"));
        assert_eq!(serving.wish(Pins::default()), Event::Wanted(digest("old"), Cause::Delivery));
        serves(&mut serving, "old");
        assert_eq!(serving.wish(Pins::default()), Event::Wanted(digest("new"), Cause::Delivery));
    }

    #[test]
    fn what_served_last_and_is_gone_makes_way_and_is_kept_for_a_rollback_where_its_bytes_are_there() {
        for (step, kept) in [(RolloutStep::Receive, vec![]), (RolloutStep::Configure, vec![digest("old")])] {
            let mut serving = serving(Some("old"));
            let _ = serving.offered(module("new"));
            let pins = Pins::default();
            assert!(!serving.makes_way(digest("new"), &refused(step, Failed::ForGood), pins), "it is another one");
            assert!(!serving.makes_way(digest("old"), &refused(step, Failed::Circumstance), pins), "it may come");
            assert!(serving.makes_way(digest("old"), &refused(step, Failed::ForGood), pins));
            assert_eq!(serving.wish(pins), Event::Wanted(digest("new"), Cause::Delivery));
            assert_eq!(serving.rollout.previous().collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn a_refused_candidate_is_tried_again_when_another_delivery_may_mend_it() {
        let (mut serving, of) = (serving(None), digest("new"));
        let _ = serving.offered(module("new"));
        for (step, again) in [(RolloutStep::Receive, true), (RolloutStep::Trust, true), (RolloutStep::Scan, false)] {
            let _ = serving.rollout.handle(Event::Wanted(of, Cause::Delivery), S);
            let _ = serving.rollout.handle(Event::Failed(of, step, Failed::ForGood), S);
            assert_eq!(serving.offered(module("new")).is_some(), again, "{step}");
            let _ = serving.rollout.handle(Event::Unwanted, S);
        }
        let _ = serving.rollout.handle(Event::Wanted(of, Cause::Delivery), S);
        let _ = serving.rollout.handle(Event::Failed(of, RolloutStep::Scan, Failed::ForGood), S);
        let _ = serving.offered(Offer::Pending);
        assert_eq!(serving.offered(module("new")), Some(Event::Again), "it is delivered anew");
    }

    #[test]
    fn a_place_that_gives_nothing_for_a_while_takes_no_candidate_and_gives_it_no_new_tries() {
        let (mut serving, of, pins) = (serving(None), digest("new"), Pins::default());
        serves(&mut serving, "old");
        // One delivery, however often it is offered.
        let new = module("new");
        let away = Offer::Nothing(Reason::Upstream, "no answer".to_owned());
        let last = Offer::Last(Arc::clone(new.module().unwrap()), Box::new(away.clone()));
        let _ = serving.offered(new.clone());
        let _ = serving.rollout.handle(serving.wish(pins), S);
        let _ = serving.rollout.handle(Event::Failed(of, RolloutStep::Configure, Failed::Fault), S);
        for offer in [last, new] {
            assert_eq!(serving.offered(offer), None);
            assert_eq!(serving.wish(pins), Event::Wanted(of, Cause::Delivery));
            let _ = serving.rollout.handle(serving.wish(pins), S);
            assert_eq!(serving.rollout.candidate().map(|candidate| candidate.strikes), Some(1));
        }
        let _ = serving.offered(away);
        assert_eq!(serving.wish(pins), Event::Unwanted, "another place, which has given none");
    }

    #[test]
    fn an_early_continue_counts_when_the_plugin_waits_and_not_for_another() {
        let (mut serving, new) = (serving(None), digest("new"));
        assert_eq!(serving.go_on(new), GoOn::Later);
        serves(&mut serving, "old");
        assert_eq!(serving.go_on(digest("other")), GoOn::Ignored, "something serves, and it does not wait");
        let _ = serving.rollout.handle(Event::Wanted(new, Cause::Delivery), S);
        assert_eq!(serving.early_go_on(), None, "it does not wait yet");
        let _ = serving.rollout.handle(Event::Failed(new, RolloutStep::Scan, Failed::ForGood), S);
        assert_eq!(serving.early_go_on(), Some(new));
        assert_eq!(serving.early_go_on(), None, "a word counts once");
    }

    #[test]
    fn why_a_candidate_was_refused_goes_with_the_candidate() {
        let (mut serving, new) = (serving(None), digest("new"));
        let _ = serving.rollout.handle(Event::Wanted(new, Cause::Delivery), S);
        serving.refuse(new, refused(RolloutStep::Scan, Failed::ForGood));
        serving.forget_others();
        assert!(serving.refused().is_some());
        let _ = serving.rollout.handle(Event::Wanted(digest("newer"), Cause::Delivery), S);
        serving.forget_others();
        assert!(serving.refused().is_none());
    }
}
