//! A plan, executed.
//!
//! Every step waits for exactly the steps it names, as many as allowed run at once, and what depends on a failed step
//! is left out, so that the cluster holds a valid forest at every moment, also after a failure (decision H7). Each
//! write carries the version that it was decided on: *create* is an apply with resourceVersion 1, *update* a forced
//! apply with uid and resourceVersion, *delete* has both as precondition. The answers of the API server are entered at
//! once, so that no plan is made for a past state.
//!
//! # Failure story
//!
//! A conflict means that another program wrote in between: the object is read again, and the caller decides again. A
//! refusal that every write would meet (RBAC, an unreachable webhook, 429, no answer) ends the execution after the
//! writes that are under way; the caller reports it and tries again later. Nothing is repeated blindly, and what was
//! refused pauses ([`refusals`](super::refusals)). When the process is asked to stop, no further step begins: every
//! prefix of a plan is a forest, and the next leader does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::HyperNode;
use topoloom_api::names::FIELD_MANAGER;
use topoloom_core::names::{SourceName, Uid};
use topoloom_core::topology::plan::{Action, Base, Plan, PlanStep, StepId, Write};
use topoloom_core::version::ResourceVersion;
use tracing::Span;
use tracing::field::Empty;

use super::convert::{self, Precondition, WantedObject, apply_body};
use super::observe::HyperNodes;
use super::refusals::{RefusalNews, Refusals, RefusedWrite, WriteVerb};
use crate::cluster::{Refusal, RefusalReason};
use crate::topology::metrics::WriteMetrics;

/// What writes a source's objects.
#[derive(Clone)]
pub struct Writer {
    /// The client.
    pub client: kube::Client,
    /// Where the answers are entered.
    pub hyper_nodes: Arc<HyperNodes>,
    /// Writes under way at most.
    pub concurrency: usize,
    /// Counts the writes.
    pub metrics: WriteMetrics,
    /// The process stops: what is under way is finished, and nothing else begins.
    pub stop: CancellationToken,
}

/// The outcome of a plan.
#[derive(Debug, Default)]
pub struct ApplyOutcome {
    /// Steps that were written.
    pub written: usize,
    /// Those of them that deleted an object.
    pub deleted: usize,
    /// The objects that they are about.
    pub wrote: BTreeSet<Arc<str>>,
    /// Steps that were refused.
    pub refused: Vec<RefusedWrite>,
    /// Steps that were left out, since they or what they depend on was refused, or were due after the end.
    pub left_out: usize,
    /// The process stops, and the rest is left to the next leader.
    pub is_cut_short: bool,
}

impl ApplyOutcome {
    /// Whether the cluster is as the plan wanted it.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.refused.is_empty() && self.left_out == 0
    }
}

/// The version of an object after a step of this plan.
type Version = (Uid, ResourceVersion);

impl Writer {
    /// Executes a plan, but for the objects that pause.
    #[tracing::instrument(level = "debug", name = "write", skip_all, fields(source = &**source, steps = plan.steps.len(), written = Empty, refused = Empty))]
    pub async fn execute(&self, source: &SourceName, plan: &Plan, refusals: &mut Refusals) -> ApplyOutcome {
        let pausing = refusals.pausing(Instant::now());
        let api: Api<HyperNode> = Api::all(self.client.clone());
        let mut waits: Vec<usize> = plan.steps.iter().map(|step| step.after.len()).collect();
        let mut followers: Vec<Vec<usize>> = vec![Vec::new(); plan.steps.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            for dependency in &step.after {
                if let Some(followers) = followers.get_mut(dependency.step.0) {
                    followers.push(index);
                }
            }
        }
        let mut ready: BTreeSet<usize> =
            waits.iter().enumerate().filter(|(_, waits)| **waits == 0).map(|(index, _)| index).collect();
        self.hyper_nodes.plan_begins(plan.steps.iter().map(|step| &step.name));
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, step) in plan.steps.iter().enumerate() {
            last.insert(&step.name, index);
        }
        let mut versions: BTreeMap<StepId, Version> = BTreeMap::new();
        let mut outcome = ApplyOutcome::default();
        let mut running = FuturesUnordered::new();
        let mut ended = false;
        loop {
            while !ended && !self.stop.is_cancelled() && running.len() < self.concurrency {
                let Some(index) = ready.pop_first() else { break };
                // What depends on a step that pauses never becomes ready.
                let Some(step) = plan.steps.get(index).filter(|step| !pausing.contains(&step.name)) else { continue };
                let base = base(step, &versions);
                running.push(self.step(&api, source, index, step, base));
            }
            let Some((index, result)) = running.next().await else { break };
            let Some(step) = plan.steps.get(index) else { continue };
            if last.get(&*step.name) == Some(&index) {
                self.hyper_nodes.plan_wrote(&step.name);
            }
            match result {
                Ok(version) => {
                    outcome.written += 1;
                    outcome.deleted += usize::from(matches!(step.action, Action::Delete { .. }));
                    outcome.wrote.insert(Arc::clone(&step.name));
                    if let Some(version) = version {
                        versions.insert(StepId(index), version);
                    }
                    for &follower in followers.get(index).into_iter().flatten() {
                        if let Some(waits) = waits.get_mut(follower) {
                            *waits = waits.saturating_sub(1);
                            if *waits == 0 {
                                ready.insert(follower);
                            }
                        }
                    }
                }
                Err(refusal) => {
                    ended |= refusal.reason.stops_everything();
                    let (object, verb) = (Arc::clone(&step.name), WriteVerb::from(&step.action));
                    outcome.refused.push(RefusedWrite { object, verb, refusal });
                }
            }
        }
        outcome.left_out = plan.steps.len() - outcome.written - outcome.refused.len();
        outcome.is_cut_short = outcome.left_out > 0 && self.stop.is_cancelled();
        Span::current().record("written", outcome.written).record("refused", outcome.refused.len());
        self.look_again(&api, &outcome).await;
        self.hyper_nodes.plan_ends(plan.steps.iter().map(|step| &step.name));
        for news in refusals.learn(plan, &outcome, Instant::now()) {
            log_news(source, &news);
        }
        outcome
    }

    /// Reads again what was not as we thought, so that the next decision sees it.
    async fn look_again(&self, api: &Api<HyperNode>, outcome: &ApplyOutcome) {
        for RefusedWrite { object: name, refusal, .. } in &outcome.refused {
            if !matches!(
                refusal.reason,
                RefusalReason::Conflict | RefusalReason::AlreadyExists | RefusalReason::NotFound
            ) {
                continue;
            }
            match api.get_opt(name).await {
                Ok(Some(object)) => self.hyper_nodes.written(&object),
                Ok(None) => {
                    if let Some(stored) = self.hyper_nodes.get(name) {
                        self.hyper_nodes.gone(name, &stored.object.uid);
                    }
                }
                Err(error) => {
                    tracing::debug!(hyper_node = &**name, error = %Refusal::of(&error), "could not be read again")
                }
            }
        }
    }

    #[tracing::instrument(level = "debug", skip_all, fields(hyper_node = &*step.name, verb = Empty, result = Empty, otel.status_code = Empty))]
    async fn step(
        &self,
        api: &Api<HyperNode>,
        source: &SourceName,
        index: usize,
        step: &PlanStep,
        base: Option<Version>,
    ) -> (usize, Result<Option<Version>, Refusal>) {
        let verb = WriteVerb::from(&step.action).as_str();
        let result = match &step.action {
            Action::Create { write, .. } => self.create(api, source, &step.name, write).await.map(Some),
            Action::Update { write, .. } => match base {
                Some(base) => self.update(api, source, &step.name, write, base).await.map(Some),
                None => Err(no_base(&step.name)),
            },
            Action::Delete { .. } => match base {
                Some(base) => self.delete(api, &step.name, base).await.map(|()| None),
                None => Err(no_base(&step.name)),
            },
        };
        let refused = result.as_ref().err().map(|refusal: &Refusal| refusal.reason);
        self.metrics.object(verb, refused);
        Span::current().record("verb", verb).record("result", refused.map_or("ok", RefusalReason::as_str));
        if refused.is_some() {
            Span::current().record("otel.status_code", "ERROR");
        }
        match &result {
            Ok(_) => tracing::debug!(source = &**source, hyper_node = &*step.name, verb, "written"),
            Err(refusal) => {
                tracing::debug!(source = &**source, hyper_node = &*step.name, verb, error = %refusal, "refused")
            }
        }
        (index, result)
    }

    async fn create(
        &self,
        api: &Api<HyperNode>,
        source: &SourceName,
        name: &str,
        write: &Write,
    ) -> Result<Version, Refusal> {
        // A resourceVersion that no object can have: the API server creates, or answers 409 when the name is taken.
        let body = body(source, name, write, &Precondition { uid: None, version: "1".into() });
        self.apply(api, name, &body).await
    }

    async fn update(
        &self,
        api: &Api<HyperNode>,
        source: &SourceName,
        name: &str,
        write: &Write,
        (uid, mut version): Version,
    ) -> Result<Version, Refusal> {
        if !write.remove_labels.is_empty() {
            // Another manager owns these: an apply that leaves them out would not remove them.
            let labels: serde_json::Map<String, Value> =
                write.remove_labels.iter().map(|key| (key.to_string(), Value::Null)).collect();
            let body = json!({"metadata": {"resourceVersion": &*version, "labels": labels}});
            let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
            let object =
                api.patch(name, &parameters, &Patch::Merge(&body)).await.map_err(|error| Refusal::of(&error))?;
            self.hyper_nodes.written(&object);
            version = object.metadata.resource_version.as_deref().into();
        }
        let object = self.apply(api, name, &body(source, name, write, &Precondition { uid: Some(uid), version })).await;
        match object {
            // A field that another manager set and that must go (`tierName`) survives an apply that leaves it out.
            Ok((uid, version)) if write.spec.tier_name.is_none() => {
                let stale = self.hyper_nodes.get(name).is_some_and(|stored| stored.object.spec.tier_name.is_some());
                if !stale {
                    return Ok((uid, version));
                }
                let body = json!({"metadata": {"resourceVersion": &*version}, "spec": {"tierName": null}});
                let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
                let object =
                    api.patch(name, &parameters, &Patch::Merge(&body)).await.map_err(|error| Refusal::of(&error))?;
                self.hyper_nodes.written(&object);
                Ok(version_of(&object))
            }
            other => other,
        }
    }

    async fn apply(&self, api: &Api<HyperNode>, name: &str, body: &Value) -> Result<Version, Refusal> {
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let object = api.patch(name, &parameters, &Patch::Apply(body)).await.map_err(|error| Refusal::of(&error))?;
        self.hyper_nodes.written(&object);
        Ok(version_of(&object))
    }

    async fn delete(&self, api: &Api<HyperNode>, name: &str, (uid, version): Version) -> Result<(), Refusal> {
        let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: Some(version.to_string()) };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match api.delete(name, &parameters).await {
            Ok(answer) => match answer.left().filter(|object| object.metadata.deletion_timestamp.is_some()) {
                // It still exists, and still lists its members: no step that waits for its end may continue.
                Some(object) => {
                    self.hyper_nodes.written(&object);
                    let finalizers = object.metadata.finalizers.unwrap_or_default().join(", ");
                    let message = format!("it is being deleted and stays until its finalizers are gone: {finalizers}");
                    Err(Refusal { reason: RefusalReason::Conflict, message, retry_after: None })
                }
                None => {
                    self.hyper_nodes.gone(name, &uid);
                    Ok(())
                }
            },
            Err(error) => {
                let refusal = Refusal::of(&error);
                if refusal.reason == RefusalReason::NotFound {
                    self.hyper_nodes.gone(name, &uid);
                    return Ok(());
                }
                Err(refusal)
            }
        }
    }
}

fn log_news(source: &SourceName, news: &RefusalNews) {
    match news {
        RefusalNews::Refused(refused) => tracing::warn!(
            source = &**source,
            verb = refused.verb.as_str(),
            hyper_node = &*refused.object,
            reason = refused.refusal.reason.as_str(),
            missing_rule = refused.refusal.rule(),
            error = %refused,
            "writes of HyperNodes are refused"
        ),
        RefusalNews::Over => tracing::info!(source = &**source, "writes of HyperNodes are not refused any more"),
    }
}

fn base(step: &PlanStep, versions: &BTreeMap<StepId, Version>) -> Option<Version> {
    let base = match &step.action {
        Action::Create { .. } => return None,
        Action::Update { base, .. } | Action::Delete { base, .. } => base,
    };
    match base {
        Base::Observed { uid, resource_version } => Some((uid.clone(), resource_version.clone())),
        Base::Step(step) => versions.get(step).cloned(),
    }
}

fn no_base(name: &str) -> Refusal {
    let message = format!("HyperNode {name}: the step before this one left no version to build on");
    Refusal { reason: RefusalReason::Conflict, message, retry_after: None }
}

fn version_of(object: &HyperNode) -> Version {
    let metadata = &object.metadata;
    (convert::uid(metadata), metadata.resource_version.as_deref().into())
}

fn body(source: &SourceName, name: &str, write: &Write, of: &Precondition) -> Value {
    let wanted = WantedObject {
        name,
        source,
        group_id: write.group_id.as_deref(),
        split_from: write.split_from.as_deref(),
        description: write.description.as_deref(),
        labels: &write.labels,
        spec: &write.spec,
    };
    apply_body(wanted, Some(of))
}
