//! A device plugin on one node, as HAMi's are (`node-lock-and-bind.md` A19): the kubelet requests a number of devices,
//! and the plugin finds out by itself for which pod.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::answers::{insist, is_an_answer};
use super::release::release;
use super::{Fate, Outcome, PodName};
use crate::hami::{BIND_PHASE, BIND_TIME, CHOSEN_NODE, Vendor, WorkList, annotation, owner};

pub(super) struct DevicePlugin {
    pub(super) vendor: Vendor,
    pub(super) node: Arc<str>,
    pub(super) client: kube::Client,
    pub(super) answers_after: Duration,
}

/// The outcome of an Allocate.
pub(super) struct Answer {
    /// The pod that it was taken for.
    pub(super) found: Option<PodName>,
    pub(super) result: Result<Outcome, Failure>,
}

/// Why no devices are given.
#[derive(Debug)]
pub(super) enum Failure {
    /// The lock of the node leads to no pod; nothing was changed.
    NoPod(String),
    /// The API server did not answer; nothing was changed.
    Away(String),
    /// The pod cannot be served: it has the phase `failed`, and its lock was released.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NoPod(why) | Self::Away(why) | Self::Refused(why)) = self;
        f.write_str(why)
    }
}

impl From<kube::Error> for Failure {
    /// For an error while the plugin looks for the pod.
    fn from(error: kube::Error) -> Self {
        if is_an_answer(&error) { Self::NoPod(error.to_string()) } else { Self::Away(error.to_string()) }
    }
}

impl DevicePlugin {
    pub(super) async fn allocate(&self, count: u64, fate: Fate) -> Answer {
        self.works().await;
        let pod = match self.find().await {
            Ok(pod) => pod,
            Err(failure) => return Answer { found: None, result: Err(failure) },
        };
        let found = PodName::of(&pod);
        self.works().await;
        let result = match self.serve(&pod, &found, count, fate).await {
            Ok(()) => Ok(self.complete(&found, fate).await),
            Err(error) => {
                self.fail(&found).await;
                Err(Failure::Refused(format!("{error:#}")))
            }
        };
        Answer { found: Some(found), result }
    }

    /// Waits for half the time of a call.
    async fn works(&self) {
        if !self.answers_after.is_zero() {
            sleep(self.answers_after / 2).await;
        }
    }

    /// Step 1: the pod that the lock names, without a further check; or else the first pod that is being bound to this
    /// node.
    async fn find(&self) -> Result<Pod, Failure> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = insist(|| nodes.get(&self.node)).await?;
        let lock = annotation(&node.metadata, self.vendor.lock());
        let owner = lock.map(owner).transpose().map_err(|error| Failure::NoPod(format!("{error:#}")))?;
        if let Some((namespace, name)) = owner.flatten() {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            return Ok(insist(|| pods.get(name)).await?);
        }
        let pods: Api<Pod> = Api::all(self.client.clone());
        let here = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let list = insist(|| pods.list(&here)).await?;
        let found = list.items.into_iter().find(|pod| is_on_its_way(pod, &self.node));
        found.ok_or_else(|| Failure::NoPod(format!("no binding pod found on node {}", self.node)))
    }

    /// Steps 2 and 3: the devices of the next container, and what is left.
    async fn serve(&self, pod: &Pod, name: &PodName, count: u64, fate: Fate) -> anyhow::Result<()> {
        anyhow::ensure!(fate != Fate::Fails, "the devices of {name} are out of order");
        let key = self.vendor.work_list();
        let text = annotation(&pod.metadata, key).with_context(|| format!("{name} has no annotation {key}"))?;
        let mut list: WorkList = text.parse()?;
        list.take(count)?;
        Ok(self.annotate(name, &json!({key: list.to_string()})).await?)
    }

    /// Step 4: a pod that has everything is marked as such, and its lock is released.
    async fn complete(&self, name: &PodName, fate: Fate) -> Outcome {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &name.namespace);
        // The reference does not report that either.
        let Ok(pod) = insist(|| pods.get(&name.name)).await else { return Outcome::KeptLock };
        if self.shares(fate).any(|vendor| annotation(&pod.metadata, vendor.work_list()).is_some_and(WorkList::is_left))
        {
            return Outcome::Partly;
        }
        self.ends_as(name, "success").await;
        if fate == Fate::KeepsLock {
            return Outcome::KeptLock;
        }
        match release(&self.client, &self.node, self.vendor, name).await {
            Ok(()) => Outcome::Completed,
            Err(_) => Outcome::KeptLock,
        }
    }

    /// The vendors whose open work keeps the lock: all that share it (R18). The reference checks only its own.
    fn shares(&self, fate: Fate) -> impl Iterator<Item = Vendor> {
        let own = self.vendor;
        let shares = move |vendor: &Vendor| match fate {
            Fate::ReleasesEarly => *vendor == own,
            _ => vendor.lock() == own.lock(),
        };
        Vendor::ALL.into_iter().filter(shares)
    }

    /// Step 5: a pod that failed is marked as such, and its lock is released.
    async fn fail(&self, name: &PodName) {
        self.ends_as(name, "failed").await;
        // The tests that watch the node see whether it worked.
        _ = release(&self.client, &self.node, self.vendor, name).await;
    }

    /// Writes the phase; the lock is released whether or not this succeeds.
    async fn ends_as(&self, name: &PodName, phase: &str) {
        _ = self.annotate(name, &json!({BIND_PHASE: phase})).await;
    }

    /// Annotates, as the reference does, the pod that has the name by now, with any UID.
    async fn annotate(&self, name: &PodName, annotations: &Value) -> Result<(), kube::Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &name.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let params = PatchParams::default();
        insist(|| pods.patch(&name.name, &params, &patch)).await.map(drop)
    }
}

/// Whether a plugin takes a pod of its node for the requested one, if no lock names it.
fn is_on_its_way(pod: &Pod, node: &str) -> bool {
    let says = |key| annotation(&pod.metadata, key);
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Pending")
        && says(BIND_TIME).is_some()
        && matches!(says(BIND_PHASE), Some("allocating" | "success"))
        && says(CHOSEN_NODE) == Some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_a_lock_is_found_by_what_was_written_on_it() {
        let pod = |phase: &str, annotations: Value| -> Pod {
            let pod = json!({"metadata": {"annotations": annotations}, "status": {"phase": phase}});
            serde_json::from_value(pod).unwrap()
        };
        let all = |phase: &str, node: &str| json!({BIND_TIME: "1785564600", BIND_PHASE: phase, CHOSEN_NODE: node});
        assert!(is_on_its_way(&pod("Pending", all("allocating", "n")), "n"));
        assert!(is_on_its_way(&pod("Pending", all("success", "n")), "n"));
        assert!(!is_on_its_way(&pod("Pending", all("failed", "n")), "n"));
        assert!(!is_on_its_way(&pod("Pending", all("allocating", "other")), "n"));
        assert!(!is_on_its_way(&pod("Running", all("allocating", "n")), "n"));
        assert!(!is_on_its_way(&pod("Pending", json!({BIND_PHASE: "allocating", CHOSEN_NODE: "n"})), "n"));
    }
}
