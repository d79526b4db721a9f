//! The work on a virtual pod that terminates: where the top-down half does not finish it, this does (decision S10).
//!
//! # Failure story
//!
//! Nothing is read before the time of the top-down half is over, which is counted since the pod was first seen to terminate. Then
//! the virtual pod is read live, its physical pod, and where that may still run its physical node; each write carries the version
//! that was read, and a conflict means that all begins again with the virtual pod. A node whose name does not give the name of the
//! virtual one is not asked for: such an annotation was edited, and the absence of that node would prove nothing. A pod on a node
//! that is none of ours is left until a physical node comes that gives that name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use topoloom_cluster::work::WorkOutcome;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_core::names::Uid;
use topoloom_sync::bars::Bars;
use topoloom_sync::identity::Owner;
use topoloom_sync::keys;
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::pods::finish::{
    EndDecision, EndFacts, EndingPod, NodeEvidence, PATIENCE, PodEvidence, WhyNotFinished, decide,
};
use topoloom_sync::precondition::Precondition;
use topoloom_sync::texts::Keyed;
use tracing::field::Empty;

use super::book::EndSight;
use super::metrics::PodOutcome;
use super::{Ask, PodError, Pods, QUESTIONS};
use crate::metrics::WriteKind;
use crate::pod_state::PodState;
use crate::slices::pod::{PodName, WholePod};
use crate::view::View;

/// What was read live for the end of one pod.
struct Evidence {
    pod: Option<Arc<PodState>>,
    physical: PodEvidence,
    physical_node: NodeEvidence,
}

impl Evidence {
    fn none() -> Self {
        Self { pod: None, physical: PodEvidence::Unasked, physical_node: NodeEvidence::Unasked }
    }
}

/// The physical node of a virtual one: its name, and the UIDs that the virtual one names.
struct PhysicalNode {
    name: String,
    uids: Vec<Uid>,
}

impl Pods {
    /// Looks at a virtual pod that terminates until nothing has to be read for it any more, and does what follows.
    pub(super) async fn finish(&self, name: &PodName) -> Result<WorkOutcome, PodError> {
        let mut evidence = Evidence::none();
        for _ in 0..QUESTIONS {
            let now = (self.now)();
            let Some(sight) = self.inbox.book().ending(name) else { return Ok(WorkOutcome::Done) };
            let decision = self.decide_end(&sight, &evidence, now.steady);
            tracing::debug!(pod = %name, %decision, "a virtual pod that terminates was looked at");
            match decision {
                EndDecision::Wait { left } => return Ok(WorkOutcome::Again(left)),
                // It is made soon, or adopted.
                EndDecision::Nothing(WhyNotFinished::NodeUnknown) if self.view().knows_lent(&sight.node) => {
                    return Ok(WorkOutcome::Again(PATIENCE));
                }
                EndDecision::Withheld(_) => return Ok(WorkOutcome::Done),
                EndDecision::Nothing(
                    WhyNotFinished::NodeUnknown | WhyNotFinished::NotTerminating | WhyNotFinished::Foreign(_),
                ) => {
                    self.inbox.book().leave(name);
                    return Ok(WorkOutcome::Done);
                }
                // Before anything else follows it is read live.
                EndDecision::Nothing(_)
                | EndDecision::AskPhysicalPod(_)
                | EndDecision::AskPhysicalNode
                | EndDecision::WriteFinalPhase { .. }
                | EndDecision::Delete { .. }
                    if evidence.pod.is_none() =>
                {
                    match self.read_ending(name, &sight.uid).await? {
                        Some(pod) => evidence.pod = Some(Arc::new(pod)),
                        None => return Ok(WorkOutcome::Done),
                    }
                }
                EndDecision::Nothing(
                    WhyNotFinished::Lives | WhyNotFinished::Finalizers | WhyNotFinished::Unguarded,
                ) => {
                    self.inbox.book().leave(name);
                    return Ok(WorkOutcome::Done);
                }
                EndDecision::AskPhysicalPod(named) => {
                    let found = self.requests.physical_uid(&named.namespace, &named.name).await;
                    let found = self.told(Ask::ReadPhysical, name, found)?;
                    evidence.physical = found.map_or(PodEvidence::Absent, PodEvidence::Present);
                }
                EndDecision::AskPhysicalNode => {
                    evidence.physical_node = self.read_node(name, evidence.pod.as_deref()).await?;
                }
                EndDecision::WriteFinalPhase { why, patch } => {
                    let sent = self.send_phase(name, &patch).await;
                    match sent.and_then(|stored| self.state(stored)) {
                        Ok(stored) => {
                            self.troubles.over_of(Ask::WritePhase.thing().0, name.text());
                            self.metrics.count(PodOutcome::Ended);
                            tracing::info!(pod = %name, %why, "a final phase was written for a lent pod");
                            let looks = self.inbox.book().answer(&stored);
                            self.inbox.add(looks);
                            evidence.pod = Some(Arc::new(stored));
                        }
                        Err(refusal) if is_stale(&refusal) => evidence = Evidence::none(),
                        Err(refusal) => return self.told(Ask::WritePhase, name, Err(refusal)),
                    }
                }
                EndDecision::Delete { why, precondition } => match self.send_removal(name, &precondition).await {
                    Ok(()) => {
                        self.troubles.over_of(Ask::RemoveTwin.thing().0, name.text());
                        self.metrics.count(PodOutcome::Removed);
                        tracing::info!(pod = %name, %why, "a lent pod was removed");
                        return Ok(WorkOutcome::Done);
                    }
                    Err(refusal) if is_stale(&refusal) => evidence = Evidence::none(),
                    Err(refusal) => return self.told(Ask::RemoveTwin, name, Err(refusal)),
                },
            }
        }
        Err(PodError::Unanswered)
    }

    #[tracing::instrument(level = "debug", name = "end", skip_all, fields(binding = &*self.binding, pod = %name, result = Empty, otel.status_code = Empty))]
    async fn send_phase(&self, name: &PodName, patch: &Value) -> Result<WholePod, Refusal> {
        let (namespace, pod) = name.parts();
        let sent = self.requests.patch_status(namespace, pod, patch).await;
        self.counted.wrote(WriteKind::PodStatus, "lost", &sent);
        sent
    }

    #[tracing::instrument(level = "debug", name = "remove", skip_all, fields(binding = &*self.binding, pod = %name, result = Empty, otel.status_code = Empty))]
    async fn send_removal(&self, name: &PodName, judged: &Precondition) -> Result<(), Refusal> {
        let sent = self.requests.remove_twin(name, judged).await;
        self.counted.wrote(WriteKind::PodRemove, "lost", &sent);
        sent
    }

    fn decide_end(&self, sight: &EndSight, evidence: &Evidence, now: Duration) -> EndDecision {
        let held = || sight.text.as_deref().and_then(PodState::read).map(Arc::new);
        let known = evidence.pod.clone().or_else(held);
        let pod = match &known {
            Some(pod) => pod.ending_pod(),
            // Enough to know that it is not due; otherwise it is read live.
            None => EndingPod {
                uid: sight.uid.clone(),
                version: sight.version.clone(),
                phase: None,
                annotations: BTreeMap::new(),
                deletion: Some(sight.deletion),
                grace: sight.grace,
            },
        };
        let (node, bars): (Owner, Bars) = {
            let view = self.view();
            (owner(&view, &sight.node), view.bars.clone())
        };
        let facts = EndFacts {
            pod: &pod,
            terminating_for: now.saturating_sub(sight.since),
            node: &node,
            physical: &evidence.physical,
            physical_node: evidence.physical_node,
            bearer: sight.bearer.as_ref(),
            seen: sight.seen,
            bars: &bars,
        };
        decide(&facts)
    }

    /// The virtual pod, live; `None` where it is gone, or is another one now.
    async fn read_ending(&self, name: &PodName, uid: &Uid) -> Result<Option<PodState>, PodError> {
        let (namespace, pod) = name.parts();
        let found = self.told(Ask::ReadTwin, name, self.requests.twin(namespace, pod).await)?;
        let Some(found) = found else { return Ok(None) };
        let pod = self.told(Ask::ReadTwin, name, self.state(found))?;
        let looks = self.inbox.book().answer(&pod);
        self.inbox.add(looks);
        Ok(Some(pod).filter(|pod| pod.deletion.is_some() && pod.uid() == *uid))
    }

    /// Whether the physical node of a virtual pod exists.
    async fn read_node(&self, of: &PodName, pod: Option<&PodState>) -> Result<NodeEvidence, PodError> {
        let node = pod.and_then(|pod| physical_node(&self.view(), &pod.node));
        // Without a name there is nothing to ask for, and what was not asked for is not gone.
        let Some(node) = node else { return Ok(NodeEvidence::Present) };
        let found = self.told(Ask::ReadNode, of, self.requests.physical_node(&node.name).await)?;
        Ok(match found {
            None => NodeEvidence::Gone,
            Some(found) if !node.uids.is_empty() && !node.uids.contains(&found) => NodeEvidence::Gone,
            Some(_) => NodeEvidence::Present,
        })
    }
}

/// Whose a virtual node is. One that is not known may be listed soon.
fn owner(view: &View, node: &str) -> Owner {
    match view.lent(node) {
        Some(lent) => Owner::of_node(&lent.metadata.labels, &view.binding.identity, None),
        None => Owner::Unknown("".into()),
    }
}

/// The physical node of a virtual one. Only a name that gives the name of the virtual one counts; of UIDs label and annotation,
/// so that an edit of one of them makes no node gone.
fn physical_node(view: &View, node: &str) -> Option<PhysicalNode> {
    let metadata = &view.lent(node)?.metadata;
    let written = metadata.annotations.text(keys::PHYSICAL_NODE_NAME);
    let name = view.ledger.physical_of(node).map(|name| &**name).or(written)?;
    if virtual_node_name(&view.binding.cluster, name).ok().as_deref() != Some(node) {
        return None;
    }
    let named = [&metadata.annotations, &metadata.labels].map(|map| map.get(keys::PHYSICAL_NODE_UID));
    let uids = named.into_iter().flatten().map(|uid| uid.as_str().into()).collect();
    Some(PhysicalNode { name: name.to_owned(), uids })
}

fn is_stale(refusal: &Refusal) -> bool {
    matches!(refusal.reason, RefusalReason::Conflict | RefusalReason::NotFound)
}
