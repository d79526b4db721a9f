//! What a verdict needs, read from the API server.

use std::sync::Arc;

use anyhow::Context;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{ListParams, PartialObjectMeta};
use prometheus_client::metrics::histogram::Histogram;
use topoloom_core::nodelock::needs::LockKey;
use topoloom_core::nodelock::sweep::{FoundLock, Mode, Sweep};
use topoloom_core::nodelock::{Lock, LockHeld, LockState, NodeName, Pod, PodKey, Sightings, Why};

use super::TermsArgs;
use crate::cluster::{Refusal, instance};
use crate::nodelock::carry::Carrier;
use crate::nodelock::lock::Options;
use crate::nodelock::number;
use crate::nodelock::pods::Slice;
use crate::nodelock::requests::Requests;
use crate::nodelock::view::View;

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Nodes that are judged at once.
const AT_ONCE: usize = 16;

/// What was read, and the client that reads more.
pub(super) struct Look {
    pub(super) carrier: Carrier,
    pub(super) terms: Options,
}

/// A node with its verdicts.
pub(super) struct Judged {
    pub(super) node: NodeName,
    pub(super) stands: Vec<FoundLock>,
}

impl Judged {
    /// Why, in a sentence.
    pub(super) fn why(stands: &FoundLock) -> String {
        match &stands.state {
            LockState::Held(LockHeld { why, .. }) => why.to_string(),
            LockState::Over(reason) => reason.to_string(),
        }
    }

    /// The annotation that holds it.
    pub(super) fn key(stands: &FoundLock) -> LockKey {
        LockKey::ALL.get(stands.key).copied().unwrap_or(LockKey::Shared)
    }
}

impl Look {
    /// Reads everything that is about locks.
    pub(super) async fn everywhere(args: &TermsArgs) -> anyhow::Result<Self> {
        let (client, look) = Self::nothing(args).await?;
        let nodes = all(Api::<PartialObjectMeta<core_v1::Node>>::all(client.clone()), "").await.context("nodes")?;
        let pods =
            all(Api::<Slice>::all(client), "status.phase!=Succeeded,status.phase!=Failed").await.context("pods")?;
        look.carrier.view().fill(&nodes, &pods);
        look.carrier.view().has_stood();
        Ok(look)
    }

    /// Reads what is about one node.
    pub(super) async fn at(args: &TermsArgs, node: &NodeName) -> anyhow::Result<Self> {
        let (client, look) = Self::nothing(args).await?;
        let api = Api::<PartialObjectMeta<core_v1::Node>>::all(client.clone());
        let found = api.get_opt(node).await.map_err(|error| Refusal::of(&error)).context("nodes")?;
        let found = found.with_context(|| format!("there is no node {node:?}"))?;
        let pods = all(Api::<Slice>::all(client), &format!("spec.nodeName={node}")).await.context("pods")?;
        look.carrier.view().fill(&[found], &pods);
        look.carrier.view().has_stood();
        Ok(look)
    }

    async fn nothing(args: &TermsArgs) -> anyhow::Result<(kube::Client, Self)> {
        let terms = args.options()?;
        let client = args.cluster.connect().await?;
        let view = Arc::new(View::new(args.backends()?.into(), Histogram::new([])));
        let requests = Requests::new(client.clone(), Arc::clone(view.backends()));
        let carrier = Carrier::new(view, requests, instance().into(), number());
        Ok((client, Self { carrier, terms }))
    }

    /// The verdicts on one node.
    pub(super) async fn judge(&self, node: NodeName) -> Result<Judged, Refusal> {
        let mut sweep = Sweep::new(node.clone(), self.terms.ttl, self.terms.takeover, Mode::Report);
        self.carrier.sweep(&node, &mut sweep).await?;
        Ok(Judged { node, stands: sweep.stands().to_vec() })
    }

    /// The verdicts on all nodes that have a lock, or where a pod waits for its device plugin, in order. One that
    /// cannot be read hides no other.
    pub(super) async fn judge_all(&self) -> Vec<(NodeName, Result<Judged, Refusal>)> {
        let nodes = self.carrier.view().known(Sightings::concerned);
        let verdicts = stream::iter(nodes).map(async |node| (node.clone(), self.judge(node).await));
        verdicts.buffered(AT_ONCE).collect().await
    }

    /// The pod that may be given the devices of another one, or another one its, once this lock is gone.
    pub(super) async fn endangered(&self, node: &NodeName, stands: &FoundLock) -> Result<Option<PodKey>, Refusal> {
        let LockState::Held(held) = &stands.state else { return Ok(None) };
        match held.why {
            Why::Vanished => Ok(None),
            // Its writer did not name a pod.
            Why::Nameless | Why::Unparsable | Why::Unlisted => {
                let key = Judged::key(stands);
                let bound = self.carrier.requests().bound(node).await?.into_iter();
                let mut waiting = bound.filter(|seen| seen.keys.contains(&key) && seen.pod.waits_on(node));
                Ok(waiting.next().map(|seen| seen.pod.key.named()))
            }
            Why::Binding | Why::Allocating | Why::Stuck | Why::Unrecorded | Why::Unconfirmed => {
                Ok(held.holder.clone().or_else(|| stands.pod.clone()))
            }
        }
    }

    /// The lock of a key as it was read.
    pub(super) fn lock(&self, node: &NodeName, key: LockKey) -> Option<Lock> {
        self.carrier.view().known(|known| known.lock_of(node, key).cloned())
    }

    /// The pod that a lock is about, as it is now.
    pub(super) async fn pod(&self, stands: &FoundLock) -> Result<Option<Pod>, Refusal> {
        match &stands.pod {
            Some(key) => Ok(self.carrier.requests().pod(key).await?.map(|seen| seen.pod)),
            None => Ok(None),
        }
    }
}

async fn all<K>(api: Api<K>, fields: &str) -> anyhow::Result<Vec<K>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut items = Vec::new();
    let mut params = ListParams::default().limit(PAGE).fields(fields);
    loop {
        let page = api.list(&params).await.map_err(|error| Refusal::of(&error))?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}
