//! One round: the plugin is asked, and its answer is a forest or an error.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use topoloom_api::condition::Reason;
use topoloom_core::plugin::Answered;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::rollout::{Call, Failed};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Forest;
use topoloom_core::topology::guard::Seen;
use tracing::Span;
use tracing::field::Empty;

use super::Supervisor;
use crate::discovery::decide::accept;
use crate::discovery::revision::{call_failed, call_reason};
use crate::discovery::shown;
use crate::plugin::Round;

/// How long a round waits for the first lists; the mailbox is read in between.
const LIST_PATIENCE: Duration = Duration::from_secs(10);

/// What a look at the Nodes makes of what was said about them until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
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

impl Supervisor {
    /// The Nodes under the keys of the revision, and under those that selectors of stored objects and of the given
    /// result read: the guard has to see whom these place.
    async fn look(&mut self, forest: Option<&Forest>, news: News) -> Option<View> {
        let mut keys = self.revision.as_ref()?.keys.clone();
        let lists = async {
            self.shared.hyper_nodes.synced().await;
            let mut selected = self.shared.hyper_nodes.selector_keys();
            selected.extend(forest.iter().flat_map(|forest| forest.selector_keys()));
            selected.sort_unstable();
            selected.dedup();
            if selected != self.selected {
                self.kept = Some(self.shared.nodes.keep(selected.clone()));
                self.selected.clone_from(&selected);
            }
            keys.append(&mut selected);
            loop {
                self.shared.nodes.view(&keys).await;
                if news == News::Known {
                    // Before the look and not after it: what happens in between is then one round too many, not one
                    // too few.
                    self.wake.take_nodes();
                }
                if let Some(view) = self.shared.nodes.view_now(&keys) {
                    return view;
                }
            }
        };
        let view = tokio::time::timeout(LIST_PATIENCE, lists).await.ok();
        if view.is_none() {
            let until = self.pacing.failed(Instant::now(), None);
            let message = "Nodes or HyperNodes could not be listed so far (the log and /readyz say why)";
            self.report.round_failed(Reason::Pending, message, Some(until));
        }
        view
    }

    /// One round: ask the plugin, then decide and write.
    #[tracing::instrument(level = "debug", skip_all, fields(source = &*self.source, outcome = Empty, otel.status_code = Empty))]
    pub(super) async fn round(&mut self) {
        let started = Instant::now();
        let last = self.forest.clone();
        let Some(mut view) = self.look(last.as_deref(), News::Known).await else {
            return ended(Reason::Pending.as_str());
        };
        let Some(revision) = &self.revision else { return };
        self.pacing.started(started);
        let observed = self.shared.hyper_nodes.observed();
        let own = shown::objects(observed.of(&self.source), &revision.granted, self.report.has_guessed());
        let time = Timestamp::now();
        let (plugin, source) = (revision.plugin.clone(), Arc::clone(&self.source));
        let call = plugin.discover(
            &source,
            Round {
                config: Arc::clone(&revision.config),
                granted: Arc::clone(&revision.granted),
                nodes: view.under(&revision.keys),
                applied: own,
                endpoints: Arc::clone(&revision.endpoints),
                time,
                state: Arc::clone(&self.state),
            },
        );
        let Some(call) = self.unless_told(call).await else {
            // It was not seen by anybody, so the next one is due when rounds go on.
            self.pacing.ask();
            Span::current().record("outcome", "abandoned");
            return;
        };
        let Some(revision) = &self.revision else { return };
        if let Ok(answer) = &call.end
            && shown::guesses(&answer.outcome, &revision.granted)
        {
            self.report.guessed();
        }
        let outcome = match call.end {
            Err(error) => {
                let until = self.pacing.failed_for(Instant::now(), error.retry());
                let said = error.to_string();
                self.report.round_failed(call_reason(&error), &said, until);
                let call = match call_failed(&error) {
                    Failed::Fault => Call::Fault,
                    // It accepted the configuration and says otherwise in its first rounds: the one before it did not.
                    Failed::ForGood if self.rollout.is_watched() => Call::Fault,
                    Failed::ForGood | Failed::Circumstance => Call::Circumstance,
                };
                self.called(call, Some(&said));
                error.reason()
            }
            Ok(answer) => match self.accept(answer.outcome, &view) {
                Err(message) => {
                    let until = self.pacing.failed(Instant::now(), None);
                    self.report.round_failed(Reason::InvalidResult, &message, Some(until));
                    self.called(Call::Fault, Some(&message));
                    "InvalidTopology"
                }
                Ok(forest) => {
                    let config_hash = revision.entry.config_hash.to_string();
                    if forest.selector_keys().iter().any(|key| view.column(key).is_none()) {
                        match self.look(Some(&forest), News::Kept).await {
                            Some(wider) => view = wider,
                            None => return ended(Reason::Pending.as_str()),
                        }
                    }
                    self.state = answer.state.into();
                    self.forest = Some(forest);
                    self.forest_config = config_hash;
                    self.answered = true;
                    self.seen = Seen::Round;
                    self.view = Some(view);
                    self.pacing.succeeded();
                    self.report.discovered(time);
                    self.shared.metrics.succeeded(&self.source, time);
                    self.optimise();
                    self.is_removal_due = false;
                    self.called(Call::Answered, None);
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

    /// A plugin of others has proved that it works, so it is worth the second, longer compile (decision P2).
    fn optimise(&mut self) {
        let Some(revision) = &self.revision else { return };
        // What was begun stays in the set until the next revision: once is enough.
        if revision.plugin.origin() == Origin::Embedded || !self.optimising.is_empty() {
            return;
        }
        let (plugin, source) = (revision.plugin.clone(), Arc::clone(&self.source));
        self.optimising.spawn(async move {
            match plugin.optimise().await {
                Ok(()) => tracing::info!(source = &*source, "the plugin is compiled with optimisation"),
                Err(error) => tracing::warn!(source = &*source, %error, "the plugin goes on without optimisation"),
            }
        });
    }

    fn accept(&self, answered: Answered, view: &View) -> Result<Arc<Forest>, String> {
        match answered {
            Answered::Topology(topology) => accept(&topology, &self.source, view).map(Arc::new),
            Answered::Unchanged => self.forest.clone().filter(|_| self.answered).ok_or_else(|| {
                "the plugin answered `unchanged` in its first round, where there is nothing to be unchanged".to_owned()
            }),
        }
    }
}
