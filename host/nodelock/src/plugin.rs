//! The device plugin's side of the lock, for one that is written in Rust (`node-lock-and-bind.md` A19): which pod a
//! kubelet's request is for, and the release of the lock once that pod has all its devices.
//!
//! A plugin asks [`Requests::whom`] when its kubelet asks it, serves that pod and no other, and calls
//! [`Requests::give_back`] when it has answered, whether it succeeded or failed. What it writes into the pod's work
//! list and phase is its own affair.
//!
//! It differs from the original in what it refuses: a pod that is not bound here, has started, or is another one of the
//! same name is not served; and the lock that several vendors share stays while one of them has work left (requirement
//! R18).

use topoloom_api::names::DEVICES_TO_ALLOCATE_SUFFIX;
use topoloom_core::nodelock::attempt::WriteOutcome;
use topoloom_core::nodelock::needs::LockKey;
use topoloom_core::nodelock::{LockValue, NamedHolder, NodeName, PodId, PodKey, Retry, ValueError};

use super::requests::{Requests, proves};
use super::wire::{self, Annotations, Change};
use topoloom_cluster::Refusal;

/// What the work list of Cambricon's plugin is called, the only one that counts for its key.
const CAMBRICON: &str = "hami.io/cambricon-mlu-devices-to-allocate";

/// The pod whose devices a kubelet requests, and the lock that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The node.
    pub node: NodeName,
    /// The key of the lock.
    pub key: LockKey,
    /// The pod to serve.
    pub pod: PodId,
    /// The lock's whole value; `None` if there was no lock and only one pod was on its way.
    pub value: Option<LockValue>,
}

/// Why no pod can be served. Nothing was changed; a kubelet that gets an error fails the pod, or asks again.
#[derive(Debug, thiserror::Error)]
pub enum NotServed {
    /// There is no such node.
    #[error("there is no node {0:?}")]
    NoNode(NodeName),
    /// Another program wrote something else into the annotation.
    #[error("the lock {key} of node {node} cannot be read: {why}", key = .key.annotation())]
    Unreadable {
        /// The node.
        node: NodeName,
        /// The key.
        key: LockKey,
        /// What is wrong with it.
        why: ValueError,
    },
    /// The pod that the lock names is not on its way to this node.
    #[error("the lock {key} of node {node} names pod {pod}, which {why}", key = .key.annotation())]
    NotThat {
        /// The node.
        node: NodeName,
        /// The key.
        key: LockKey,
        /// The pod.
        pod: PodKey,
        /// What it is instead.
        why: NotOnItsWay,
    },
    /// No lock says which, and there is not exactly one.
    #[error("no lock {key} of node {node} names a pod, and {found} pods wait there for devices: exactly one is \
        expected", key = .key.annotation())]
    NotOne {
        /// The node.
        node: NodeName,
        /// The key.
        key: LockKey,
        /// How many wait.
        found: usize,
    },
    /// The API server did not answer.
    #[error(transparent)]
    Api(#[from] Refusal),
}

/// Why a pod is not on its way to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotOnItsWay {
    /// No pod of that name, or another one.
    #[error("is gone")]
    Gone,
    /// It is not bound there.
    #[error("is not bound there")]
    NotHere,
    /// Its kubelet has its devices already, or it has ended.
    #[error("has started or ended already")]
    Over,
}

/// The outcome of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GivenBack {
    /// It is gone.
    Removed,
    /// It was gone, or is another one by now, which was left alone.
    NotOurs,
    /// It stays: this annotation of the pod shows that devices have still to be assigned. The plugin that assigns the
    /// last of them releases it.
    WorkLeft(String),
}

impl Requests {
    /// The pod for which a kubelet asks for devices of this key now. Two reads: the node, and the pod that its lock
    /// names; where no lock names one, the pods of the node.
    ///
    /// # Errors
    /// When it is not certain which pod it is. A plugin that answers all the same may give the devices of another pod.
    pub async fn whom(&self, node: &str, key: LockKey) -> Result<Ticket, NotServed> {
        let node: NodeName = node.into();
        let meta = self.node(&node).await?.ok_or_else(|| NotServed::NoNode(node.clone()))?;
        let lock = wire::lock(&meta.metadata.annotations.unwrap_or_default(), key);
        let value = lock.as_ref().map(|lock| lock.value.clone());
        match lock.map(|lock| lock.named) {
            Some(NamedHolder::Unparsable(why)) => Err(NotServed::Unreadable { node, key, why }),
            Some(NamedHolder::Pod { pod, .. }) => {
                let seen = self.pod(&pod).await?.filter(|seen| pod.may_be(&seen.pod.key)).map(|seen| seen.pod);
                let why = match &seen {
                    None => NotOnItsWay::Gone,
                    Some(seen) if seen.node.as_deref() != Some(&*node) => NotOnItsWay::NotHere,
                    Some(seen) if !seen.waits_on(&node) => NotOnItsWay::Over,
                    Some(seen) => return Ok(Ticket { node, key, pod: seen.key.clone(), value }),
                };
                Err(NotServed::NotThat { node, key, pod, why })
            }
            Some(NamedHolder::NoPod { .. }) | None => {
                let bound = self.bound(&node).await?.into_iter();
                let mut waiting = bound.filter(|seen| seen.keys.contains(&key) && seen.pod.waits_on(&node));
                match (waiting.next(), waiting.count()) {
                    (Some(one), 0) => Ok(Ticket { node, key, pod: one.pod.key, value }),
                    (first, others) => {
                        Err(NotServed::NotOne { node, key, found: usize::from(first.is_some()) + others })
                    }
                }
            }
        }
    }

    /// Releases the lock, if it still is that one, byte for byte, and no vendor that shares it has work left for the
    /// pod.
    ///
    /// The caller must have written its work list before. A lock that could not be released does no harm: once the pod
    /// has started, no pod holds it, and the sweeper removes it.
    ///
    /// # Errors
    /// When the API server refuses, or the node changed at every try.
    pub async fn give_back(&self, ticket: &Ticket, retry: Retry) -> Result<GivenBack, Refusal> {
        let Some(value) = &ticket.value else { return Ok(GivenBack::NotOurs) };
        // A pod that is gone has no work.
        let pod = self.annotations(&ticket.pod).await?.unwrap_or_default();
        if let Some(left) = left(&pod, ticket.key) {
            return Ok(GivenBack::WorkLeft(left));
        }
        let mut failed = 0;
        loop {
            let Some(meta) = self.node(&ticket.node).await? else { return Ok(GivenBack::NotOurs) };
            let annotations = meta.metadata.annotations.unwrap_or_default();
            if wire::lock(&annotations, ticket.key).is_none_or(|lock| lock.value != *value) {
                return Ok(GivenBack::NotOurs);
            }
            let version = meta.metadata.resource_version.as_deref().into();
            let patch = wire::node_patch(&version, &wire::locks(&annotations), &[(ticket.key, Change::Release)]);
            let refusal = match self.write_node(&ticket.node, &patch).await {
                Ok(_) => return Ok(GivenBack::Removed),
                Err(refusal) => refusal,
            };
            match proves(refusal.clone()) {
                WriteOutcome::Absent => return Ok(GivenBack::NotOurs),
                WriteOutcome::Refused(_) => return Err(refusal),
                _ => failed += 1,
            }
            match retry.pause(failed, super::random()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(refusal),
            }
        }
    }
}

/// The work list that still has devices, of those whose plugins give this key back. In a list without any, there is
/// nothing but the ends of its containers.
fn left(annotations: &Annotations, key: LockKey) -> Option<String> {
    let counts = |name: &str| match key {
        LockKey::Cambricon => name == CAMBRICON,
        LockKey::Shared => name.ends_with(DEVICES_TO_ALLOCATE_SUFFIX) && name != CAMBRICON,
    };
    let has_work = |list: &str| list.chars().any(|letter| !matches!(letter, ';' | ':') && !letter.is_whitespace());
    let mut lists = annotations.iter().filter(|(name, list)| counts(name) && has_work(list));
    lists.next().map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r18_the_shared_lock_stays_while_any_vendor_has_work_left() {
        let one = "GPU-0,NVIDIA,1000,10:;";
        let lists = |nvidia: &str, amd: &str, mlu: &str| -> Annotations {
            [("hami.io/vgpu-devices-to-allocate", nvidia), ("hami.io/amd-devices-to-allocate", amd), (CAMBRICON, mlu)]
                .map(|(name, list)| (name.to_owned(), list.to_owned()))
                .into()
        };
        let which = |annotations: &Annotations, key| left(annotations, key);
        assert_eq!(which(&lists(";;", ";", ""), LockKey::Shared), None);
        assert_eq!(which(&lists(";", one, one), LockKey::Shared).as_deref(), Some("hami.io/amd-devices-to-allocate"));
        assert_eq!(which(&lists(one, ";", ";"), LockKey::Shared).as_deref(), Some("hami.io/vgpu-devices-to-allocate"));
        assert_eq!(which(&lists(";", ";", one), LockKey::Shared), None, "its own key is not shared");
        assert_eq!(which(&lists(one, one, ";"), LockKey::Cambricon), None);
        assert_eq!(which(&lists(";", ";", one), LockKey::Cambricon).as_deref(), Some(CAMBRICON));
        assert_eq!(which(&Annotations::new(), LockKey::Shared), None);
    }
}
