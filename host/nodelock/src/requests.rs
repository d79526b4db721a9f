//! The requests of the node lock, each with a deadline, and what their answers prove.
//!
//! Only an answer that proves it counts as *not applied*, and everything else as unknown, since a write that answered
//! 504 may still be applied (decision N5).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::Value;
use topoloom_core::nodelock::attempt::WriteOutcome;
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::nodelock::sightings::PodSighting;
use topoloom_core::nodelock::{NodeName, PodId, PodKey};
use topoloom_core::version::ResourceVersion;

use super::pods::{self, Slice};
use super::wire;
use topoloom_cluster::{Refusal, RefusalReason};

/// How long one request may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The shortest deadline: a request that is cut off earlier is not worth sending.
const LEAST: Duration = Duration::from_secs(1);

/// Requests to the API server. Its reads are live: a cache never replaces them.
#[derive(Clone)]
pub struct Requests {
    client: kube::Client,
    backends: Arc<[Backend]>,
    patience: Duration,
}

impl Requests {
    /// Requests by this client, which must neither wait in a bucket nor try again by itself.
    #[must_use]
    pub fn new(client: kube::Client, backends: Arc<[Backend]>) -> Self {
        Self { client, backends, patience: PATIENCE }
    }

    /// A copy whose requests time out after `left`.
    #[must_use]
    pub fn within(&self, left: Duration) -> Self {
        Self { patience: left.clamp(LEAST, PATIENCE), ..self.clone() }
    }

    /// A node as it is now.
    ///
    /// # Errors
    /// The answer of the API server, or that there was none.
    pub async fn node(&self, name: &str) -> Result<Option<PartialObjectMeta<core_v1::Node>>, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.client.clone());
        self.answered(api.get_metadata_opt(name)).await
    }

    /// The pod of this name as it is now, whatever its UID is.
    ///
    /// # Errors
    /// The answer of the API server, or that there was none.
    pub async fn pod(&self, key: &PodKey) -> Result<Option<PodSighting>, Refusal> {
        let api: Api<Slice> = Api::namespaced(self.client.clone(), &key.namespace);
        let slice = self.answered(api.get_opt(&key.name)).await?;
        Ok(slice.and_then(|slice| pods::of(&slice, &self.backends)))
    }

    /// The pods that are bound to a node and have not ended, as they are now.
    ///
    /// # Errors
    /// The answer of the API server, or that there was none.
    pub async fn bound(&self, node: &NodeName) -> Result<Vec<PodSighting>, Refusal> {
        let api: Api<Slice> = Api::all(self.client.clone());
        let of_node = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
        let list = self.answered(api.list(&ListParams::default().fields(&of_node))).await?;
        Ok(list.items.iter().filter_map(|slice| pods::of(slice, &self.backends)).collect())
    }

    /// Changes a node; also gives what it is then.
    pub async fn patch_node(
        &self,
        name: &str,
        patch: &Value,
    ) -> (WriteOutcome, Option<PartialObjectMeta<core_v1::Node>>) {
        match self.write_node(name, patch).await {
            Ok(meta) => (WriteOutcome::Done(meta.metadata.resource_version.as_deref().into()), Some(meta)),
            Err(refusal) => (proves(refusal), None),
        }
    }

    /// The same, with the refusal of the API server.
    pub(super) async fn write_node(
        &self,
        name: &str,
        patch: &Value,
    ) -> Result<PartialObjectMeta<core_v1::Node>, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.client.clone());
        self.answered(api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))).await
    }

    /// The annotations of a pod, if it is that one by its UID.
    pub(super) async fn annotations(&self, key: &PodId) -> Result<Option<wire::Annotations>, Refusal> {
        let api: Api<core_v1::Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let meta = self.answered(api.get_metadata_opt(&key.name)).await?.map(|meta| meta.metadata);
        let same = meta.filter(|meta| meta.uid.as_deref() == Some(&*key.uid));
        Ok(same.map(|meta| meta.annotations.unwrap_or_default()))
    }

    /// Marks a pod; also gives what it is then.
    pub async fn patch_pod(&self, key: &PodId, patch: &Value) -> (WriteOutcome, Option<PodSighting>) {
        let api: Api<Slice> = Api::namespaced(self.client.clone(), &key.namespace);
        match self.answered(api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))).await {
            Ok(slice) => {
                let seen = pods::of(&slice, &self.backends);
                (WriteOutcome::Done(seen.as_ref().map(|seen| seen.pod.version.clone()).unwrap_or_default()), seen)
            }
            // A merge patch with another pod's UID changes what cannot be changed: 422, and not 409.
            Err(refusal) if refusal.reason == RefusalReason::Invalid => (WriteOutcome::Conflict, None),
            Err(refusal) => (proves(refusal), None),
        }
    }

    /// Binds a pod, if it is that one in that version.
    pub async fn bind(&self, pod: &PodId, version: &ResourceVersion, node: &NodeName) -> WriteOutcome {
        let binding = wire::binding(pod, version, node, jiff::Timestamp::now());
        let api: Api<core_v1::Pod> = Api::namespaced(self.client.clone(), &pod.namespace);
        let parameters = PostParams::default();
        let request = api.create_subresource::<_, Status>("binding", &pod.name, &parameters, &binding);
        match self.answered(request).await {
            Ok(_) => WriteOutcome::Done(ResourceVersion::default()),
            Err(refusal) => proves(refusal),
        }
    }

    async fn answered<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, Refusal> {
        match tokio::time::timeout(self.patience, request).await {
            Ok(answer) => answer.map_err(|error| Refusal::of(&error)),
            Err(_) => Err(Refusal {
                reason: RefusalReason::Unreachable,
                message: format!("the API server did not answer within {:?}", self.patience),
                retry_after: None,
            }),
        }
    }
}

/// What a refusal proves about a write.
pub(super) fn proves(refusal: Refusal) -> WriteOutcome {
    let why: Arc<str> = refusal.message.into();
    match refusal.reason {
        RefusalReason::Conflict | RefusalReason::AlreadyExists => WriteOutcome::Conflict,
        RefusalReason::NotFound => WriteOutcome::Absent,
        // Answered before anything was stored.
        RefusalReason::Forbidden
        | RefusalReason::Unauthorized
        | RefusalReason::Invalid
        | RefusalReason::DeniedByAdmission
        | RefusalReason::WebhookUnreachable
        | RefusalReason::NoSuchResource
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => WriteOutcome::Refused(why),
        // Also 429: it is not known whether the API server answered it, or something in between.
        RefusalReason::TooManyRequests
        | RefusalReason::Expired
        | RefusalReason::ServerError
        | RefusalReason::TooLarge
        | RefusalReason::Unreachable => WriteOutcome::Unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_only_an_answer_that_says_so_proves_that_nothing_was_applied() {
        let proved = |reason| proves(Refusal { reason, message: "so".into(), retry_after: None });
        for reason in RefusalReason::ALL {
            let unsure = matches!(
                reason,
                RefusalReason::TooManyRequests
                    | RefusalReason::Expired
                    | RefusalReason::ServerError
                    | RefusalReason::TooLarge
                    | RefusalReason::Unreachable
            );
            assert_eq!(matches!(proved(reason), WriteOutcome::Unknown(_)), unsure, "{reason:?}");
        }
        assert_eq!(
            (proved(RefusalReason::Conflict), proved(RefusalReason::NotFound)),
            (WriteOutcome::Conflict, WriteOutcome::Absent)
        );
    }
}
