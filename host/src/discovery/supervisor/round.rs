//! One round: the plugin is called, and its answer is a forest or an error.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::time::Instant;
use topoloom_api::condition::Reason;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::rollout::{Call, Failed};
use topoloom_core::plugin::{Answer as PluginAnswer, Answered, CallError};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Forest;
use tracing::Span;
use tracing::field::Empty;

use super::Supervisor;
use super::clock::chance;
use super::in_force::AcceptedAnswer;
use crate::discovery::decide::{Unacceptable, accept};
use crate::discovery::revision::{Revision, call_failed, call_reason};
use crate::discovery::shown;
use crate::plugin::RoundInput;

/// How long a round waits for the first lists; the mailbox is read in between.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

/// What a look at the Nodes does to earlier notes about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeChanges {
    /// A round sees it.
    Known,
    /// A round that is under way has not seen it: the next one will.
    Kept,
}

/// What the span of the round says of its end.
fn ended(outcome: &'static str) {
    Span::current().record("outcome", outcome);
    if outcome != "ok" {
        Span::current().record("otel.status_code", "ERROR");
    }
}

/// Why an answer is not accepted.
#[derive(Debug, Error)]
enum Unaccepted {
    #[error(transparent)]
    Topology(#[from] Unacceptable),
    #[error("the plugin answered `unchanged` in its first round, which has no earlier answer")]
    NothingBefore,
}

impl Supervisor {
    /// The Nodes under the keys of the revision, and under those that selectors of stored objects and of the given
    /// result read: the guard has to see which Nodes these place.
    async fn look(&mut self, forest: Option<&Forest>, news: NodeChanges) -> Option<View> {
        let mut keys = self.serving.rollout.revision()?.keys.clone();
        let lists = async {
            self.shared.hyper_nodes.synced().await;
            let mut selected = self.shared.hyper_nodes.selector_keys();
            selected.extend(forest.iter().flat_map(|forest| forest.selector_keys()));
            selected.sort_unstable();
            selected.dedup();
            if selected != self.columns.selected {
                self.columns.kept = Some(self.shared.nodes.keep(selected.clone()));
                self.columns.selected.clone_from(&selected);
            }
            keys.append(&mut selected);
            loop {
                self.shared.nodes.view(&keys).await;
                if news == NodeChanges::Known {
                    // Before the look and not after it: a change in between then causes one round too many, not one too
                    // few.
                    self.wake.take_nodes();
                }
                if let Some(view) = self.shared.nodes.view_now(&keys) {
                    return view;
                }
            }
        };
        let view = tokio::time::timeout(LIST_PATIENCE, lists).await.ok();
        if view.is_none() {
            let until = self.pacing.failed(self.clock.now(), None, chance());
            let message = "Nodes or HyperNodes could not be listed so far (the log and /readyz say why)";
            self.report.round_failed(Reason::Pending, message, Some(until));
        }
        view
    }

    /// One round: ask the plugin, then decide and write.
    #[tracing::instrument(level = "debug", skip_all, fields(source = &*self.source, outcome = Empty, otel.status_code = Empty))]
    pub(super) async fn round(&mut self) {
        let started = Instant::now();
        let last = self.in_force.answer().map(|answer| Arc::clone(&answer.forest));
        let Some(view) = self.look(last.as_deref(), NodeChanges::Known).await else {
            return ended(Reason::Pending.as_str());
        };
        let Some(revision) = self.serving.rollout.revision().cloned() else { return };
        self.pacing.started(self.clock.time(started));
        let time = Timestamp::now();
        let Some(end) = self.ask(&revision, &view, time).await else {
            // Its answer was dropped, so the next round is due when rounds continue.
            self.pacing.ask();
            Span::current().record("outcome", "abandoned");
            return;
        };
        let outcome = match end {
            Err(error) => self.call_ended_badly(&error),
            Ok(answer) => match self.accept(answer.outcome, &view) {
                Err(unaccepted) => self.refuse_answer(&unaccepted),
                Ok(forest) => {
                    let Some(view) = self.widened(&forest, view).await else {
                        return ended(Reason::Pending.as_str());
                    };
                    let config_hash = revision.entry.config_hash.to_string();
                    self.take_answer(AcceptedAnswer { forest, view, config_hash }, answer.state.into(), time);
                    self.decide_again().await;
                    "ok"
                }
            },
        };
        let took = started.elapsed();
        self.shared.metrics.round(&self.source, outcome, took.as_secs_f64());
        ended(outcome);
        tracing::debug!(source = &*self.source, outcome, ?took, "round");
    }

    /// Calls the plugin. `None` if a command ended the round.
    async fn ask(
        &mut self,
        revision: &Arc<Revision>,
        view: &View,
        time: Timestamp,
    ) -> Option<Result<PluginAnswer, CallError>> {
        let observed = self.shared.hyper_nodes.observed();
        let own = shown::objects(observed.of(&self.source), &revision.granted, self.report.has_guessed());
        let (plugin, source) = (revision.plugin.clone(), self.source.clone());
        let round = RoundInput {
            config: Arc::clone(&revision.config),
            granted: Arc::clone(&revision.granted),
            nodes: view.under(&revision.keys),
            applied: own,
            endpoints: Arc::clone(&revision.endpoints),
            time,
            state: self.in_force.state(),
        };
        let call = self.unless_commanded(plugin.discover(&source, round)).await?;
        if let Ok(answer) = &call.end
            && shown::guesses(&answer.outcome, &revision.granted)
        {
            self.report.guessed();
        }
        Some(call.end)
    }

    /// The plugin did not answer. The word for the metric.
    fn call_ended_badly(&mut self, error: &CallError) -> &'static str {
        let until = self.pacing.failed_for(self.clock.now(), error.retry(), chance());
        let message = error.to_string();
        self.report.round_failed(call_reason(error), &message, until);
        let call = match call_failed(error) {
            Failed::Fault => Call::Fault,
            // It accepted the configuration and says otherwise in its first rounds: the one before it did not.
            Failed::ForGood if self.serving.rollout.is_watched() => Call::Fault,
            Failed::ForGood | Failed::Circumstance => Call::Circumstance,
        };
        self.called(call, Some(&message));
        error.reason()
    }

    /// The plugin answered, and its answer is not accepted. The word for the metric.
    fn refuse_answer(&mut self, unaccepted: &Unaccepted) -> &'static str {
        let (until, message) = (self.pacing.failed(self.clock.now(), None, chance()), unaccepted.to_string());
        self.report.round_failed(Reason::InvalidResult, &message, Some(until));
        self.called(Call::Fault, Some(&message));
        "InvalidTopology"
    }

    /// The view with the columns that the selectors of an answer read, too.
    async fn widened(&mut self, forest: &Forest, view: View) -> Option<View> {
        if forest.selector_keys().iter().all(|key| view.column(key).is_some()) {
            return Some(view);
        }
        self.look(Some(forest), NodeChanges::Kept).await
    }

    /// An answer is accepted.
    fn take_answer(&mut self, answer: AcceptedAnswer, state: Arc<[u8]>, time: Timestamp) {
        self.in_force.answered(answer, state);
        self.guarded.answered();
        self.pacing.succeeded();
        self.report.discovered(time);
        self.shared.metrics.succeeded(&self.source, time);
        self.optimise();
        self.called(Call::Answered, None);
    }

    /// A plugin of others has proved that it works, so it is worth the second, longer compile (decision P2).
    fn optimise(&mut self) {
        let Some(revision) = self.serving.rollout.revision() else { return };
        // What was begun stays in the set until the next revision: once is enough.
        if revision.plugin.origin() == Origin::Embedded || !self.optimising.is_empty() {
            return;
        }
        let (plugin, source) = (revision.plugin.clone(), self.source.clone());
        self.optimising.spawn(async move {
            match plugin.optimise().await {
                Ok(()) => tracing::info!(source = &*source, "the plugin is compiled with optimisation"),
                Err(error) => tracing::warn!(source = &*source, %error, "the plugin continues without optimisation"),
            }
        });
    }

    fn accept(&self, answered: Answered, view: &View) -> Result<Arc<Forest>, Unaccepted> {
        match answered {
            Answered::Topology(topology) => Ok(Arc::new(accept(&topology, &self.source, view)?)),
            Answered::Unchanged => self.in_force.unchanged().cloned().ok_or(Unaccepted::NothingBefore),
        }
    }
}
