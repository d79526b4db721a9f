//! The shadow round: the candidate and the active plugin answer about the same nodes, and nothing is written.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use topoloom_api::condition::Reason;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::rollout::{Event, Failed, Objects, RolloutStep, compare};
use topoloom_core::plugin::{Answered, CallError, Digest, Granted};
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::{Forest, Object};

use super::swap::Done;
use super::{SourceContext, Supervisor};
use crate::delivery::Refused;
use crate::discovery::decide::accept;
use crate::discovery::revision::{Revision, call_failed, call_reason};
use crate::discovery::shown;
use crate::endpoints::Endpoints;
use crate::plugin::{Plugin, RoundInput};

/// How long a shadow round waits for the lists that it needs.
const LISTS: Duration = Duration::from_secs(60);

/// Two answers about one snapshot.
pub(super) struct Shadow {
    /// The candidate's.
    candidate: Arc<Forest>,
    /// That of what serves, if it had one.
    serving: Option<Arc<Forest>>,
    /// The nodes of both answers, with the columns that selectors read.
    view: View,
}

impl Supervisor {
    /// Lets the candidate answer beside what serves; its answer is compared and thrown away.
    pub(super) fn start_shadow(&mut self) {
        let Some((ready, serving)) = self.serving.rollout.begin_shadow() else { return };
        let digest = ready.plugin.digest();
        let asked = ShadowRound {
            source: self.source.clone(),
            candidate: Questioned::of(&ready, Arc::from([])),
            serving: Questioned::of(&serving, self.in_force.state()),
            last: self.in_force.unchanged().cloned(),
            has_guessed: self.report.has_guessed(),
        };
        let shared = Arc::clone(&self.shared);
        tracing::debug!(source = &*self.source, %digest, "a candidate plugin is compared with the active one");
        self.work = JoinSet::new();
        self.work.spawn(async move { Done::Shadowed(digest, Box::new(asked.shadow(&shared).await)) });
    }

    pub(super) fn shadowed(&mut self, digest: Digest, result: Result<Shadow, Refused>) {
        let shadow = match result {
            Ok(shadow) => shadow,
            Err(refused) => return self.candidate_failed(digest, refused),
        };
        let observed = self.shared.hyper_nodes.observed();
        let tiers = self.shared.tiers.before(&self.source, self.entry.order, &observed);
        let wanted = |forest: &Arc<Forest>| observed.wanted(forest, &self.source, &tiers);
        let candidate = wanted(&shadow.candidate);
        let last = self.in_force.answer().map(|answer| &answer.forest);
        let serving = shadow.serving.as_ref().or(last).map(wanted);
        let hash = candidate.forest.hash();
        let candidate: Objects<'_> =
            candidate.named.objects.iter().map(|(name, object)| (name, &object.spec)).collect();
        let stored: Objects<'_> = match &serving {
            Some(serving) => serving.named.objects.iter().map(|(name, object)| (name, &object.spec)).collect(),
            // It never answered since the start of the host; its earlier answer is in the cluster.
            None => observed.of(&self.source).map(|object| (&object.name, &object.spec)).collect(),
        };
        let comparison = compare(&stored, &candidate, &shadow.view);
        self.serving.compared(digest, hash);
        self.report.compared(digest, &comparison);
        tracing::info!(source = &*self.source, %digest, comparison = %comparison, "a candidate plugin answered");
        self.handle(Event::Shadowed(digest, Some(comparison)));
        self.go_on_early();
    }
}

/// One plugin in a shadow round.
struct Questioned {
    plugin: Plugin,
    config: Arc<str>,
    granted: Arc<Granted>,
    endpoints: Arc<Endpoints>,
    keys: Vec<ColumnKey>,
    state: Arc<[u8]>,
}

impl Questioned {
    fn of(revision: &Revision, state: Arc<[u8]>) -> Self {
        Self {
            plugin: revision.plugin.clone(),
            config: Arc::clone(&revision.config),
            granted: Arc::clone(&revision.granted),
            endpoints: Arc::clone(&revision.endpoints),
            keys: revision.keys.clone(),
            state,
        }
    }

    async fn answer(&self, asked: &ShadowRound, view: &View, own: &[Arc<Object>]) -> Result<Answered, CallError> {
        let round = RoundInput {
            config: Arc::clone(&self.config),
            granted: Arc::clone(&self.granted),
            endpoints: Arc::clone(&self.endpoints),
            nodes: view.under(&self.keys),
            applied: shown::objects(own.iter(), &self.granted, asked.has_guessed),
            time: Timestamp::now(),
            state: Arc::clone(&self.state),
        };
        self.plugin.discover(&asked.source, round).await.end.map(|answer| answer.outcome)
    }
}

/// A shadow round before it begins.
struct ShadowRound {
    source: SourceName,
    candidate: Questioned,
    serving: Questioned,
    /// What the serving one last answered, if it may call that unchanged.
    last: Option<Arc<Forest>>,
    /// Whether the source has answered with Nodes by name without the grant.
    has_guessed: bool,
}

impl ShadowRound {
    /// Both answer about the same nodes.
    #[tracing::instrument(level = "debug", skip_all, fields(source = &*self.source))]
    async fn shadow(self, shared: &SourceContext) -> Result<Shadow, Refused> {
        let mut keys = shared.hyper_nodes.selector_keys();
        keys.extend(self.candidate.keys.iter().chain(&self.serving.keys).cloned());
        let _kept = shared.nodes.keep(keys.clone());
        let lists = async {
            shared.hyper_nodes.synced().await;
            shared.nodes.view(&keys).await
        };
        let view = tokio::time::timeout(LISTS, lists).await.map_err(|_| {
            let message = "Nodes or HyperNodes could not be listed so far (the log and /readyz say why)";
            Refused::loading(RolloutStep::Shadow, Reason::Pending, message, Failed::Circumstance)
        })?;
        let own: Vec<Arc<Object>> = shared.hyper_nodes.observed().of(&self.source).cloned().collect();
        let refused = |reason, message: String, failed| Refused::loading(RolloutStep::Shadow, reason, message, failed);
        let invalid = |message| refused(Reason::InvalidResult, message, Failed::Fault);
        let candidate = match self.candidate.answer(&self, &view, &own).await {
            Ok(Answered::Topology(topology)) => {
                accept(&topology, &self.source, &view).map_err(|error| invalid(error.to_string()))?
            }
            Ok(Answered::Unchanged) => {
                return Err(invalid("the plugin answered `unchanged` in its first round".to_owned()));
            }
            Err(error) => return Err(refused(call_reason(&error), error.to_string(), call_failed(&error))),
        };
        let serving = match self.serving.answer(&self, &view, &own).await {
            Ok(Answered::Topology(topology)) => accept(&topology, &self.source, &view).ok().map(Arc::new),
            Ok(Answered::Unchanged) => self.last,
            // It may be the very reason for the swap.
            Err(_) => None,
        };
        let mut wider = keys.clone();
        wider.extend(candidate.selector_keys());
        wider.extend(serving.iter().flat_map(|forest| forest.selector_keys()));
        wider.sort_unstable();
        wider.dedup();
        let view = match wider.iter().all(|key| view.column(key).is_some()) {
            true => view,
            false => {
                let _kept = shared.nodes.keep(wider.clone());
                shared.nodes.view(&wider).await
            }
        };
        Ok(Shadow { candidate: Arc::new(candidate), serving, view })
    }
}
