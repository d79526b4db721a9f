//! From a result to the cluster: decide, guard, write, and what becomes of what could not be written.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use topoloom_api::discovery_source::{DiscoverySourceStatus, LostNodes};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Forest;
use topoloom_core::topology::guard::{self, Bucket, Confirmation, Loss, Losses, Seen, Standing, Verdict};
use tracing::Span;
use tracing::field::Empty;

use super::Supervisor;
use crate::config::tuning::EmptyResult;
use crate::discovery::decide::{Decision, Inputs, Memory, decide_again};
use crate::discovery::report::{Decided, fate};
use crate::topology::apply::Outcome;

/// How long a plan waits that another program would undo.
const FIGHT_PAUSE: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Decides about the last result and writes, until the cluster is as decided or something stands in the way.
    #[tracing::instrument(level = "debug", name = "reconcile", skip_all, fields(source = &*self.source))]
    pub(super) async fn decide_again(&mut self) {
        self.decide_at = None;
        self.look_at = None;
        loop {
            let (Some(revision), Some(forest), Some(view)) = (&self.revision, self.forest.clone(), self.view.clone())
            else {
                return;
            };
            // Until it is decided anything may turn out to be in the way, so nothing that changes from here on is missed.
            self.wake.obstructed(true);
            let observed = self.shared.hyper_nodes.observed();
            let elsewhere = self.shared.tiers.before(&self.source, self.order, &observed);
            let safety = safety(&revision.entry.safety, revision.rhythm.remote);
            let config_hash = self.forest_config.clone();
            self.losses.pass(Timestamp::now(), &safety);
            let inputs = Inputs {
                source: &self.source,
                observed: &observed,
                view: &view,
                keys: &revision.keys,
                baseline: self.baseline.as_ref(),
                losses: &self.losses,
                config: match &self.config_applied {
                    Some(applied) if *applied != config_hash => guard::Config::Edited,
                    _ => guard::Config::Same,
                },
                safety: &safety,
                tier_names_elsewhere: &elsewhere,
            };
            let decision = decided(&forest, &inputs, &mut self.decided);
            let passed = self.guard(&decision, &safety);
            let named = &decision.named;
            self.wake.obstructed(
                !(decision.plan.blocked.is_empty()
                    && named.name_conflicts.is_empty()
                    && named.tier_name_conflicts.is_empty()),
            );
            self.report.decided(&decision);
            self.report.coverage(&decision.loss, &safety);
            self.shared.metrics.nodes(&self.source, decision.numbers.total);
            self.shared.metrics.name_conflicts(&self.source, decision.named.name_conflicts.len());
            let rival = self.shared.rival.borrow().clone();
            let (fight, look_again) = self.report.second_writer(rival, Instant::now());
            self.look_at = look_again;
            self.shared.metrics.second_writer(&self.source, fight);
            let Some(passed) = passed else {
                if let Verdict::Held(held) = &decision.verdict {
                    self.remember(&decision, format!("held: {}", held.sentence));
                }
                return;
            };
            let observing = self.observes();
            if observing || self.is_paused() {
                let why = if observing { "not written: it is only observed" } else { "not written: it is paused" };
                self.remember(&decision, why);
                self.report.observing(&decision, observing);
                return;
            }
            self.shared.tiers.publish(&self.source, decision.named.tier_names());
            if fight && !decision.plan.is_empty() {
                self.remember(&decision, "not written: there is a second writer");
                self.report.fighting();
                self.decide_at = Some(Instant::now() + FIGHT_PAUSE);
                return;
            }
            self.account(passed, &decision.loss, &safety).await;
            if let Some(until) = self.refusals.all_pause(Instant::now()).filter(|_| !decision.plan.is_empty()) {
                self.remember(&decision, "not written yet: the last writes were refused");
                self.report.write_failed(&self.refusals, decision.plan.steps.len());
                self.decide_at = Some(until);
                return;
            }
            if !decision.plan.is_empty() {
                tracing::info!(
                    source = &*self.source,
                    writes = decision.plan.steps.len(),
                    hash = %decision.hash,
                    "writing a topology"
                );
            }
            let outcome = self.shared.writer.execute(&self.source, &decision.plan, &mut self.refusals).await;
            self.remember(&decision, fate(&outcome));
            if self.written(&decision, &outcome, view, config_hash) {
                return;
            }
        }
    }

    fn remember(&self, decision: &Decision, fate: impl Into<String>) {
        self.shared.reports.decided(&self.source, Decided::now(decision, fate));
    }

    /// Takes in what a result costs that is about to be written. That is said before it is done: who leads after a crash
    /// has to count it, too.
    async fn account(&mut self, passed: Passed, loss: &Loss, safety: &guard::Safety) {
        match passed {
            Passed::ByItself => self.losses.take_in(loss, Timestamp::now()),
            Passed::Confirmed => self.losses.forget(),
        }
        // What is remarked about coverage ends when this is forgotten.
        let forgotten = self.losses.until(safety.hold_for).map(from_now);
        self.look_at = [self.look_at, forgotten].into_iter().flatten().min();
        if self.report.lost(&self.losses.buckets(safety)) {
            self.publish().await;
        }
    }

    /// Whether and how the guard lets a decision pass; keeps what is waited for.
    fn guard(&mut self, decision: &Decision, safety: &guard::Safety) -> Option<Passed> {
        // Each word of the operator counts for one decision, and each answer for one agreeing round.
        let seen = std::mem::replace(&mut self.seen, Seen::Again);
        let is_about = |hash: &mut String| seen == Seen::Round || hash == decision.hash.as_str();
        let operator = self.confirmed.take_if(is_about);
        let Verdict::Held(held) = &decision.verdict else {
            self.hold.clear();
            self.losses.held(false);
            self.pacing.at(None);
            self.report.not_held();
            return Some(Passed::ByItself);
        };
        let now = Timestamp::now();
        match self.hold.agree(decision.hash.as_str(), held.rule, now, seen, operator.as_deref(), safety) {
            Standing::Confirmed(by) => {
                self.report.confirmed(by);
                let by = if by == Confirmation::Operator { "operator" } else { "time" };
                tracing::info!(source = &*self.source, hash = %decision.hash, by, "a held result is confirmed");
                Some(Passed::Confirmed)
            }
            Standing::Held { since, agreeing, needed, next_due } => {
                self.losses.held(true);
                self.pacing.at(next_due.map(from_now));
                self.report.held(decision, held, since, agreeing, needed, next_due);
                tracing::warn!(source = &*self.source, hash = %decision.hash, why = held.sentence, "a result is held");
                None
            }
        }
    }

    /// Takes in what became of a plan. Answers whether the loop ends.
    fn written(&mut self, decision: &Decision, outcome: &Outcome, view: View, config_hash: String) -> bool {
        if outcome.complete() {
            self.baseline = Some(view);
            self.config_applied = Some(config_hash.clone());
            self.hold.clear();
            self.report.applied(decision, config_hash);
            self.shared.metrics.in_force(&self.source, decision.numbers.covered, decision.numbers.groups());
            return true;
        }
        if outcome.is_cut_short {
            self.report.cut_short(outcome);
            return true;
        }
        if self.refusals.are_settled() {
            // What some policy forbids to one object must not turn the guard off for all the others.
            self.baseline = Some(view);
            self.report.settled(&config_hash);
            self.config_applied = Some(config_hash);
        }
        let now = Instant::now();
        let due = self.refusals.due(now);
        if due.is_some_and(|due| due <= now) {
            return false;
        }
        self.decide_at = due;
        self.report.write_failed(&self.refusals, outcome.refused.len() + outcome.left_out);
        true
    }
}

/// How a result passed the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    ByItself,
    Confirmed,
}

/// A time of the wall clock, by ours.
fn from_now(time: Timestamp) -> Instant {
    Instant::now() + time.duration_since(Timestamp::now()).try_into().unwrap_or(Duration::ZERO)
}

/// What the result means for the objects there are.
#[tracing::instrument(level = "debug", name = "decide", skip_all, fields(steps = Empty, verdict = Empty))]
fn decided(forest: &Arc<Forest>, inputs: &Inputs<'_>, memory: &mut Memory) -> Decision {
    let decision = decide_again(forest, inputs, memory);
    let verdict = if decision.verdict == Verdict::Pass { "pass" } else { "held" };
    Span::current().record("steps", decision.plan.steps.len()).record("verdict", verdict);
    decision
}

/// What results took lately that an earlier life of the host wrote. What it held when it ended had kept all of it from
/// being forgotten.
#[must_use]
pub fn losses(status: &DiscoverySourceStatus, now: Timestamp) -> Losses {
    let bucket = |kept: &LostNodes| {
        // What cannot be read was never written by us; it counts, and from now.
        Bucket { at: kept.at.parse().unwrap_or(now), nodes: u64::try_from(kept.nodes).unwrap_or_default() }
    };
    Losses::remembered(status.lost_nodes.iter().map(bucket), status.held.as_ref().map(|_| now))
}

/// The guard's limits of an entry; a source that calls endpoints is held for longer.
#[must_use]
pub fn safety(given: &crate::config::Safety, remote: bool) -> guard::Safety {
    let hold_for = if remote { guard::Safety::HOLD_FOR_REMOTE } else { guard::Safety::HOLD_FOR };
    guard::Safety {
        max_delete_percent: given.max_delete_percent,
        max_lose_percent: given.max_lose_percent,
        confirmations: given.confirmations,
        hold_for: given.hold_for.unwrap_or(hold_for),
        allow_empty: given.empty == EmptyResult::ConfirmByTime,
    }
}
