//! From an answer to the cluster: observe, decide, act, report.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use topoloom_api::discovery_source::{DiscoverySourceStatus, LostNodes};
use topoloom_core::plugin::pacing::Reach;
use topoloom_core::topology::guard::{self, Bucket, Confirmation, GuardVerdict, Loss, Losses};
use topoloom_core::topology::{Observed, TierNames};
use tracing::Span;
use tracing::field::Empty;

use super::Supervisor;
use super::guarded::Passage;
use super::in_force::AcceptedAnswer;
use crate::config::tuning::EmptyResult;
use crate::discovery::decide::{Decision, Inputs, decide_again};
use crate::discovery::metrics::Others;
use crate::discovery::report::{Decided, fate};
use crate::discovery::revision::Revision;
use crate::topology::apply::ApplyOutcome;

/// How long a plan waits that another program would undo.
const FIGHT_PAUSE: Duration = Duration::from_secs(30);

/// What a decision rests on.
struct Basis {
    answer: AcceptedAnswer,
    revision: Arc<Revision>,
    observed: Arc<Observed>,
    /// Tier names of earlier entries.
    elsewhere: TierNames,
    safety: guard::Safety,
}

/// Why a plan is not written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// The guard holds it.
    Held,
    /// The host or the entry only observes.
    Observed,
    /// The operator paused the source.
    Paused,
    /// Another program would undo it.
    Fight,
    /// The last writes were refused, and the next is tried at that time.
    Refused(Instant),
}

/// What follows on an attempt to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing, for now.
    Done,
    /// The objects changed meanwhile: it is decided again.
    Again,
}

impl Supervisor {
    /// Decides about the last answer and writes, until the cluster is as decided or there is an obstacle.
    #[tracing::instrument(level = "debug", name = "reconcile", skip_all, fields(source = &*self.source))]
    pub(super) async fn decide_again(&mut self) {
        self.writing.begins();
        while let Some(basis) = self.observe() {
            let decision = self.decide(&basis);
            let passage =
                self.guarded.judge(decision.hash.as_str(), &decision.verdict, Timestamp::now(), &basis.safety);
            let others = self.report_decision(&decision, passage, &basis.safety);
            if let Err(obstacle) = self.clear_the_way(&decision, passage, others, &basis.safety).await {
                return self.put_off(&decision, obstacle);
            }
            let outcome = self.write(&decision).await;
            if self.take_in(&decision, &outcome, basis.answer) == Next::Done {
                return;
            }
        }
    }

    /// Observe: the last answer, the objects, and the tier names of others.
    fn observe(&mut self) -> Option<Basis> {
        let revision = self.serving.rollout.revision().cloned()?;
        let answer = self.in_force.answer().cloned()?;
        // Until it is decided anything may turn out to be in the way, so nothing that changes from here on is missed.
        self.wake.obstructed(true);
        let observed = self.shared.hyper_nodes.observed();
        let elsewhere = self.shared.tiers.before(&self.source, self.entry.order, &observed);
        let safety = safety(&revision.entry.safety, revision.rhythm.reach);
        Some(Basis { answer, revision, observed, elsewhere, safety })
    }

    /// Decide: what the answer means for the objects there are.
    #[tracing::instrument(level = "debug", name = "decide", skip_all, fields(steps = Empty, verdict = Empty))]
    fn decide(&mut self, basis: &Basis) -> Decision {
        let config = self.in_force.config();
        let baseline = self.in_force.baseline().cloned();
        let inputs = Inputs {
            source: &self.source,
            observed: &basis.observed,
            view: &basis.answer.view,
            keys: &basis.revision.keys,
            baseline: baseline.as_ref(),
            losses: self.guarded.losses(Timestamp::now(), &basis.safety),
            config,
            safety: &basis.safety,
            tier_names_elsewhere: &basis.elsewhere,
        };
        let decision = decide_again(&basis.answer.forest, &inputs, &mut self.in_force.decided);
        let verdict = if decision.verdict == GuardVerdict::Pass { "pass" } else { "held" };
        Span::current().record("steps", decision.plan.steps.len()).record("verdict", verdict);
        decision
    }

    /// Report: what was decided, whether the guard holds it, and whether another program writes.
    fn report_decision(&mut self, decision: &Decision, passage: Passage, safety: &guard::Safety) -> Others {
        self.report_passage(decision, passage);
        let (plan, named) = (&decision.plan, &decision.named);
        let is_clear =
            plan.blocked.is_empty() && named.name_conflicts.is_empty() && named.tier_name_conflicts.is_empty();
        self.wake.obstructed(!is_clear);
        self.report.decided(decision);
        self.report.coverage(&decision.loss, safety);
        self.shared.metrics.nodes(&self.source, decision.numbers.total);
        self.shared.metrics.name_conflicts(&self.source, named.name_conflicts.len());
        let rival = self.shared.rival.borrow().clone();
        let (is_fight, look_again) = self.report.second_writer(rival, Instant::now());
        self.writing.look(look_again);
        let others = if is_fight { Others::Fighting } else { Others::Quiet };
        self.shared.metrics.second_writer(&self.source, others);
        others
    }

    /// Reports what the guard decided, and when the next round is due for that.
    fn report_passage(&mut self, decision: &Decision, passage: Passage) {
        match (passage, &decision.verdict) {
            (Passage::Held { since, agreeing, needed, next }, GuardVerdict::Held(held)) => {
                self.pacing.at(next.map(|next| self.clock.time(from_now(next))));
                self.report.held(decision, held, since, agreeing, needed, next);
                tracing::warn!(source = &*self.source, hash = %decision.hash, why = held.sentence, "a result is held");
            }
            (Passage::Confirmed(by), _) => {
                self.report.confirmed(by);
                let by = if by == Confirmation::Operator { "operator" } else { "time" };
                tracing::info!(source = &*self.source, hash = %decision.hash, by, "a held result is confirmed");
            }
            (Passage::ByItself | Passage::Held { .. }, _) => {
                self.pacing.at(None);
                self.report.not_held();
            }
        }
    }

    /// Whether the plan may be written now. What it costs is accounted for before it is written.
    async fn clear_the_way(
        &mut self,
        decision: &Decision,
        passage: Passage,
        others: Others,
        safety: &guard::Safety,
    ) -> Result<(), Obstacle> {
        let confirmed = match passage {
            Passage::Held { .. } => return Err(Obstacle::Held),
            Passage::ByItself => None,
            Passage::Confirmed(by) => Some(by),
        };
        if self.observes() {
            return Err(Obstacle::Observed);
        }
        if self.entry.is_paused() {
            return Err(Obstacle::Paused);
        }
        self.shared.tiers.publish(&self.source, decision.named.tier_names());
        let writes = !decision.plan.is_empty();
        if writes && others == Others::Fighting {
            return Err(Obstacle::Fight);
        }
        self.account(confirmed, &decision.loss, safety).await;
        match self.writing.refusals.all_pause(Instant::now()) {
            Some(until) if writes => Err(Obstacle::Refused(until)),
            _ => Ok(()),
        }
    }

    /// Enters the losses of a result that is about to be written. They are stored before the write: the next leader
    /// after a crash has to count them, too.
    async fn account(&mut self, confirmed: Option<Confirmation>, loss: &Loss, safety: &guard::Safety) {
        // What is remarked about coverage ends when this is forgotten.
        let forgotten = self.guarded.account(confirmed, loss, Timestamp::now(), safety);
        self.writing.look(forgotten.map(from_now));
        if self.report.lost(&self.guarded.buckets(safety)) {
            self.publish().await;
        }
    }

    /// Report: a plan is not written now, why, and when it is looked at again.
    fn put_off(&mut self, decision: &Decision, obstacle: Obstacle) {
        let why = match (obstacle, &decision.verdict) {
            (Obstacle::Held, GuardVerdict::Held(held)) => format!("held: {}", held.sentence),
            (Obstacle::Held, GuardVerdict::Pass) => "held".to_owned(),
            (Obstacle::Observed, _) => "not written: it is only observed".to_owned(),
            (Obstacle::Paused, _) => "not written: it is paused".to_owned(),
            (Obstacle::Fight, _) => "not written: there is a second writer".to_owned(),
            (Obstacle::Refused(_), _) => "not written yet: the last writes were refused".to_owned(),
        };
        self.remember(decision, why);
        match obstacle {
            Obstacle::Held => {}
            Obstacle::Observed => self.report.observing(decision),
            Obstacle::Paused => self.report.paused(decision),
            Obstacle::Fight => {
                self.report.fighting();
                self.writing.pause(Some(Instant::now() + FIGHT_PAUSE));
            }
            Obstacle::Refused(until) => {
                self.report.write_failed(&self.writing.refusals, decision.plan.steps.len());
                self.writing.pause(Some(until));
            }
        }
    }

    /// Act: write the plan.
    async fn write(&mut self, decision: &Decision) -> ApplyOutcome {
        if !decision.plan.is_empty() {
            let writes = decision.plan.steps.len();
            tracing::info!(source = &*self.source, writes, hash = %decision.hash, "writing a topology");
        }
        self.shared.writer.execute(&self.source, &decision.plan, &mut self.writing.refusals).await
    }

    /// Report: the outcome of a plan, and what follows.
    fn take_in(&mut self, decision: &Decision, outcome: &ApplyOutcome, answer: AcceptedAnswer) -> Next {
        self.remember(decision, fate(outcome));
        if outcome.complete() {
            self.report.applied(decision, answer.config_hash.clone());
            self.in_force.applied(answer);
            self.guarded.written();
            self.shared.metrics.in_force(&self.source, decision.numbers.covered, decision.numbers.groups());
            return Next::Done;
        }
        if outcome.is_cut_short {
            self.report.cut_short(outcome);
            return Next::Done;
        }
        if self.writing.refusals.are_settled() {
            // What some policy forbids to one object must not turn the guard off for all the others.
            self.report.settled(&answer.config_hash);
            self.in_force.applied(answer);
        }
        let now = Instant::now();
        let due = self.writing.refusals.due(now);
        if due.is_some_and(|due| due <= now) {
            return Next::Again;
        }
        self.writing.pause(due);
        self.report.write_failed(&self.writing.refusals, outcome.refused.len() + outcome.left_out);
        Next::Done
    }

    fn remember(&self, decision: &Decision, fate: impl Into<String>) {
        self.shared.reports.decided(&self.source, Decided::now(decision, fate));
    }
}

/// A time of the wall clock, by ours.
fn from_now(time: Timestamp) -> Instant {
    Instant::now() + time.duration_since(Timestamp::now()).try_into().unwrap_or(Duration::ZERO)
}

/// The recent losses of results that the host wrote before its restart. A result that was held at the restart has kept
/// them all from being forgotten.
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
pub fn safety(given: &crate::config::Safety, reach: Reach) -> guard::Safety {
    let hold_for = match reach {
        Reach::Cluster => guard::Safety::HOLD_FOR,
        Reach::Endpoints => guard::Safety::HOLD_FOR_REMOTE,
    };
    guard::Safety {
        max_delete_percent: given.max_delete_percent,
        max_lose_percent: given.max_lose_percent,
        confirmations: given.confirmations,
        hold_for: given.hold_for.unwrap_or(hold_for),
        allow_empty: given.empty == EmptyResult::ConfirmByTime,
    }
}
