//! The status writer: `status.nodeCount` and conditions of every HyperNode (decision H5).
//!
//! Wakes when Nodes or HyperNodes changed, settles the index, and writes exactly the statuses that differ from what is
//! stored, each by one server-side apply that carries the object's uid: a status never lands on a namesake.
//!
//! # Failure story
//!
//! A refused write stays due and is tried again with back-off; a refusal that would meet every write (RBAC, no answer)
//! ends the pass at once. An object that is gone is no failure.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::HyperNode;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason as ConditionReason, set_condition};
use topoloom_api::hyper_node::{API_VERSION, KIND};
use topoloom_api::names::FIELD_MANAGER;
use topoloom_core::names::Uid;
use topoloom_core::snapshot::ColumnKey;
use topoloom_core::status::NodeCount;
use topoloom_core::version::ResourceVersion;

use super::observe::{HyperNodes, Stored};
use super::rewrites::Rewrites;
use crate::cluster::Check;
use crate::cluster::gate::Gate;
use crate::cluster::nodes::{Interest, Nodes};
use crate::cluster::{Refusal, RefusalReason};
use crate::topology::metrics::WriteMetrics;
use crate::topology::rival::Rival;

/// Whose counts we keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every HyperNode's, hand-made ones included.
    All,
    /// Only those of a source.
    Own,
}

/// Writes counts until dropped.
pub struct StatusWriter {
    /// The HyperNodes and their index.
    pub hyper_nodes: Arc<HyperNodes>,
    /// The Nodes.
    pub nodes: Arc<Nodes>,
    /// The client.
    pub client: kube::Client,
    /// Whether anything may be written now.
    pub gate: Gate,
    /// Volcano's own HyperNode controller, while it leads: it counts, too.
    pub rival: tokio::sync::watch::Receiver<Rival>,
    /// Whose counts.
    pub scope: Scope,
    /// Writes under way at most.
    pub concurrency: usize,
    /// Counts the writes.
    pub metrics: WriteMetrics,
    /// Says whether the last pass worked.
    pub check: Check,
    /// Ends it; what is under way is finished.
    pub stop: CancellationToken,
}

/// First pause after a refusal; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// An API server that answers again is noticed within this time.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The condition that is ours.
const OURS: &str = ConditionType::MissingMembers.as_str();

/// One status that differs from what is stored.
struct Due {
    name: Arc<str>,
    uid: Uid,
    node_count: i64,
    conditions: Option<Vec<Condition>>,
    /// The version that must still be stored.
    version: ResourceVersion,
    count: NodeCount,
}

impl StatusWriter {
    /// Runs until stopped.
    pub async fn run(self) {
        let stop = self.stop.clone();
        // Only its pauses are cut short: a write that is under way is waited for.
        self.passes(&stop).await;
    }

    /// One pass after the other; nothing when it was stopped.
    async fn passes(mut self, stop: &CancellationToken) -> Option<Infallible> {
        let mut keys: Vec<ColumnKey> = Vec::new();
        let mut interest: Option<Interest> = None;
        let mut pause = FIRST_PAUSE;
        let mut rewrites = Rewrites::default();
        stop.run_until_cancelled(self.hyper_nodes.synced()).await?;
        loop {
            let used: Vec<ColumnKey> = self.hyper_nodes.selector_keys();
            if used != keys {
                // The index itself gets every change; the columns are only kept for it.
                interest = (!used.is_empty()).then(|| self.nodes.keep(used.clone()));
                keys = used;
            }
            stop.run_until_cancelled(self.gate.writable()).await?;
            // The sender lives as long as the process.
            drop(stop.run_until_cancelled(self.rival.wait_for(Option::is_none)).await?);
            let (due, later) = stop.run_until_cancelled(self.settle(&keys, &rewrites)).await?;
            match self.write(due, &mut rewrites).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    let news = self.hyper_nodes.counts_due.notified();
                    match later {
                        // Its end is no news; then everything is looked at again.
                        Some(later) => {
                            drop(stop.run_until_cancelled(tokio::time::timeout_at(later, news)).await?);
                        }
                        None => stop.run_until_cancelled(news).await?,
                    }
                }
                Err(refusal) => {
                    self.check.fail(&refusal);
                    let pause_now = refusal.retry_after.unwrap_or(pause);
                    stop.run_until_cancelled(tokio::time::sleep(pause_now)).await?;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            // Held until here, so that the columns stay while they are read.
            let _ = &interest;
        }
    }

    /// What differs now, and when to look again at what waits.
    async fn settle(&self, keys: &[ColumnKey], rewrites: &Rewrites) -> (Vec<Due>, Option<Instant>) {
        loop {
            self.nodes.view(keys).await;
            if let Some(settled) = self.settle_now(keys, rewrites) {
                return settled;
            }
        }
    }

    /// The same, unless a list of Nodes with a new column is on its way.
    fn settle_now(&self, keys: &[ColumnKey], rewrites: &Rewrites) -> Option<(Vec<Due>, Option<Instant>)> {
        let mut inner = self.hyper_nodes.lock();
        // Taken under the lock: it is as new as the last change of the index.
        let view = self.nodes.view_now(keys)?;
        let settled = inner.index.settle(&view);
        let mut names: BTreeSet<Arc<str>> = settled.into_iter().map(|settled| settled.name).collect();
        names.extend(std::mem::take(&mut inner.status_due));
        let now = jiff::Timestamp::now().to_string();
        let in_motion = inner.in_motion();
        let (moving, names): (BTreeSet<_>, BTreeSet<_>) = names.into_iter().partition(|name| in_motion.contains(name));
        // The end of the plan notifies again.
        inner.status_due.extend(moving);
        let own = self.scope == Scope::Own;
        let due = names.into_iter().filter_map(|name| {
            let stored = inner.objects.get(&name).filter(|stored| inner.is_counted(&stored.object, own))?;
            differs(stored, inner.index.get(&name)?, &now)
        });
        let clock = Instant::now();
        let (mut now, mut waits) = (Vec::new(), BTreeMap::new());
        for due in due {
            match rewrites.not_before(&due.name, &due.count, clock) {
                None => now.push(due),
                Some(until) => drop(waits.insert(due.name, until)),
            }
        }
        let later = waits.values().min().copied();
        inner.status_due.extend(waits.into_keys());
        Some((now, later))
    }

    async fn write(&self, due: Vec<Due>, rewrites: &mut Rewrites) -> Result<(), Refusal> {
        if due.is_empty() {
            return Ok(());
        }
        rewrites.forget(Instant::now());
        let api: Api<HyperNode> = Api::all(self.client.clone());
        let mut failed: Option<Refusal> = None;
        let mut rest = due.into_iter();
        let mut running = futures::stream::FuturesUnordered::new();
        loop {
            let stop =
                self.stop.is_cancelled() || failed.as_ref().is_some_and(|refusal| refusal.reason.stops_everything());
            while !stop && running.len() < self.concurrency {
                let Some(due) = rest.next() else { break };
                running.push(self.write_one(&api, due));
            }
            match running.next().await {
                Some(Ok((name, count))) => rewrites.wrote(&name, &count, Instant::now()),
                Some(Err((name, refusal))) => {
                    self.hyper_nodes.lock().status_due.insert(name);
                    failed = Some(refusal);
                }
                None => break,
            }
        }
        let mut inner = self.hyper_nodes.lock();
        inner.status_due.extend(rest.map(|due| due.name));
        drop(inner);
        match failed {
            Some(refusal) => Err(refusal),
            None => {
                self.check.pass();
                Ok(())
            }
        }
    }

    async fn write_one(&self, api: &Api<HyperNode>, due: Due) -> Result<(Arc<str>, NodeCount), (Arc<str>, Refusal)> {
        let mut status = json!({"nodeCount": due.node_count});
        if let (Some(status), Some(conditions)) = (status.as_object_mut(), &due.conditions) {
            status.insert("conditions".into(), json!(conditions));
        }
        let metadata = json!({"name": &*due.name, "uid": &*due.uid, "resourceVersion": &*due.version});
        let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status});
        let result =
            api.patch_status(&due.name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&body)).await;
        match result {
            Ok(object) => {
                self.metrics.status(None);
                self.hyper_nodes.written(&object);
                Ok((due.name, due.count))
            }
            Err(error) => {
                let refusal = Refusal::of(&error);
                self.metrics.status(Some(refusal.reason));
                match refusal.reason {
                    // The watch brings the present object, and with it a new count.
                    RefusalReason::NotFound | RefusalReason::Conflict => Ok((due.name, due.count)),
                    _ => Err((due.name, refusal)),
                }
            }
        }
    }
}

/// The status that has to be written, if it differs from the stored one.
fn differs(stored: &Stored, count: &NodeCount, now: &str) -> Option<Due> {
    let version = &stored.object.resource_version;
    let node_count = i64::try_from(count.nodes).unwrap_or(i64::MAX);
    let mut conditions = stored.conditions.clone();
    let changed = conditions_for(&mut conditions, count, now);
    if stored.node_count == Some(node_count) && !changed {
        return None;
    }
    Some(Due {
        name: Arc::clone(&stored.object.name),
        uid: stored.object.uid.clone(),
        node_count,
        // So that a leader that is late undoes nothing of the next one (decision M4); and the list is one value to the
        // API server: others' conditions travel along.
        version: version.clone(),
        // An empty list is left out.
        conditions: (!conditions.is_empty()).then_some(conditions),
        count: count.clone(),
    })
}

/// Sets or removes our condition; says whether anything changed.
fn conditions_for(conditions: &mut Vec<Condition>, count: &NodeCount, now: &str) -> bool {
    if count.missing.count == 0 {
        let before = conditions.len();
        conditions.retain(|condition| condition.type_ != OURS);
        return conditions.len() != before;
    }
    let shown = count.missing.first.iter().map(|name| &**name).collect::<Vec<_>>().join(", ");
    let more = count.missing.count.saturating_sub(count.missing.first.len() as u64);
    let tail = if more == 0 { String::new() } else { format!(" and {more} more") };
    let message =
        format!("{} of its Node members do not exist and are not counted: {shown}{tail}", count.missing.count);
    let condition =
        Condition::new(ConditionType::MissingMembers, ConditionStatus::True, ConditionReason::MemberNotFound, message);
    set_condition(conditions, condition, now)
}
