//! One watch for all bindings of this process that follow the same objects by the same connection (decisions S11 and S21).
//!
//! | room | owns |
//! |---|---|
//! | `store` | what a watch has shown, and what each follower has not seen of it yet: a plain value |
//! | `watch` | the task of a watch, which starts with its first follower and ends with its last |
//! | `kinds` | what is kept of the objects of each kind |
//! | `room` | how much of another party's objects is held |
//! | here | which watches there are, and what each selects |
//!
//! Never knows a binding: a follower takes what is its own, by its selector, its labels, or its namespace
//! ([`feeds`](crate::feeds)). Never decides anything. What is kept of an object is held once, however many follow it.
//!
//! ```text
//!   API server ─── one list, one watch ──► Store ──► binding ──► its view
//!                                            │  └───► binding ──► its view
//!                                            └──────► pods of one node, when a binding needs them
//! ```
//!
//! # Failure story
//!
//! A follower that is slow holds up no other, and loses nothing but states between: see the room `store`. A refusal is shown to all
//! followers. What a watch knows is as old as its connection: whether that is silent, its owner knows. Of a cluster that is larger than
//! anything that is held nothing is known: see the room `room`.

mod kinds;
mod room;
mod store;
mod watch;

use std::sync::Arc;

use topoloom_cluster::Restores;
use topoloom_cluster::watches::{Config, Heard};
use topoloom_core::names::Uid;
use topoloom_sync::keys;
use topoloom_sync::liveness::Epoch;

use crate::slices::pod::KnownPod;

pub use self::kinds::{
    LentCsiNodes, LentNodes, LentPods, MachineCsiNodes, Machines, OtherPods, OurPods, Policies, UnreadablePod,
    makes_unknown,
};
pub use self::room::Most;
pub use self::store::{ListMark, Reading, Shown, Step};
pub use self::watch::{Kind, Running, SharedWatch, Stock, Subscription};

/// Pods that use no room, which need not be watched unless they are ours.
pub(crate) const USES_ROOM: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// Nodes of one page of a list: of real clusters they have 10 to 20 KiB each, and five lists are read at the same time. What a page
/// takes while it is read is several times what is kept of it.
const NODES: u32 = 100;
/// Pods of one page: they have 4 to 8 KiB each.
const PODS: u32 = 250;

/// Pods that are bound to a node.
const BOUND: &str = "spec.nodeName!=";

/// Whether a connection lives.
pub struct Life {
    /// Is notified of its signs of life.
    pub heard: Heard,
    /// In which epoch it is.
    pub epochs: tokio::sync::watch::Receiver<Epoch>,
}

/// What is watched of a physical cluster by one credential.
#[derive(Debug)]
pub struct PhysicalWatches {
    /// Its nodes.
    pub nodes: SharedWatch<Machines>,
    /// Its pods with the label of this virtual cluster, in every phase.
    pub our_pods: SharedWatch<OurPods>,
    /// All other pods that use room.
    pub other_pods: SharedWatch<OtherPods>,
    /// Its CSINodes.
    pub csi_nodes: SharedWatch<MachineCsiNodes>,
    /// The policies of its lender.
    pub policies: SharedWatch<Policies>,
}

impl PhysicalWatches {
    /// None runs yet.
    #[must_use]
    pub fn new(client: &kube::Client, restores: &Restores, life: Life, virtual_cluster: &Uid) -> Self {
        let Life { heard, epochs } = life;
        let (all, epochs) = (Config::of(restores).heard(&heard), Some(epochs));
        let ours = all.clone().labels(&format!("{}={}", keys::VIRTUAL_CLUSTER, &**virtual_cluster));
        let others = all.clone().labels(&format!("{}!={}", keys::VIRTUAL_CLUSTER, &**virtual_cluster));
        Self {
            nodes: SharedWatch::new(client, restores, all.clone().page_size(NODES), epochs.clone(), Most::NODES),
            our_pods: SharedWatch::new(client, restores, ours.page_size(PODS), epochs.clone(), Most::PODS),
            other_pods: {
                let others = others.fields(USES_ROOM).page_size(PODS);
                SharedWatch::new(client, restores, others, epochs.clone(), Most::PODS)
            },
            csi_nodes: SharedWatch::new(client, restores, all.clone(), epochs.clone(), Most::NODES),
            policies: SharedWatch::new(client, restores, all, epochs, Most::POLICIES),
        }
    }

    /// What every binding of the cluster needs is listed from now on, while the virtual cluster is: a take-over takes as long as the
    /// slower of the two. Not the pods of ours: their texts are held for a moment only, until a binding takes them. Must be called in
    /// a runtime.
    #[must_use]
    pub fn read_ahead(&self) -> ReadAhead {
        ReadAhead { _nodes: self.nodes.run(), _other_pods: self.other_pods.run(), _csi_nodes: self.csi_nodes.run() }
    }
}

/// What is read of a physical cluster before anything follows it, for as long as this is kept.
pub struct ReadAhead {
    _nodes: Arc<Running<topoloom_sync::node::PhysicalNode>>,
    _other_pods: Arc<Running<KnownPod>>,
    _csi_nodes: Arc<Running<topoloom_sync::csi::PhysicalCsiNode>>,
}

/// What is watched of the virtual cluster. Clones are the same.
#[derive(Debug, Clone)]
pub struct LentWatches(Arc<LentKinds>);

/// The kinds of the virtual cluster.
#[derive(Debug)]
pub struct LentKinds {
    /// The virtual nodes of all bindings, whichever process serves them.
    pub nodes: SharedWatch<LentNodes>,
    /// Their pods.
    pub pods: SharedWatch<LentPods>,
    /// Their CSINodes.
    pub csi_nodes: SharedWatch<LentCsiNodes>,
    /// The policies, where those of a binding are there.
    pub policies: SharedWatch<Policies>,
}

/// What a replica knows of the virtual cluster before it serves a binding, for as long as this is kept.
pub struct Warm {
    _nodes: Arc<Running<topoloom_sync::node::LentNode>>,
    _pods: Arc<Running<KnownPod>>,
    _csi_nodes: Arc<Running<topoloom_sync::csi::VirtualCsiNode>>,
}

impl LentWatches {
    /// None runs yet.
    #[must_use]
    pub fn new(client: &kube::Client, restores: &Restores, virtual_cluster: &Uid) -> Self {
        let all = Config::of(restores);
        let of_bindings = all.clone().labels(&format!("{}={}", keys::VIRTUAL_CLUSTER, &**virtual_cluster));
        Self(Arc::new(LentKinds {
            nodes: SharedWatch::new(client, restores, of_bindings.clone().page_size(NODES), None, Most::ALL),
            pods: SharedWatch::new(client, restores, all.clone().fields(BOUND).page_size(PODS), None, Most::ALL),
            csi_nodes: SharedWatch::new(client, restores, of_bindings, None, Most::ALL),
            policies: SharedWatch::new(client, restores, all, None, Most::ALL),
        }))
    }

    /// What each binding needs is watched from now on, whether or not this replica serves one: a take-over waits for no list
    /// (decision S11). Must be called in a runtime.
    #[must_use]
    pub fn keep_warm(&self) -> Warm {
        Warm { _nodes: self.nodes.run(), _pods: self.pods.run(), _csi_nodes: self.csi_nodes.run() }
    }
}

impl std::ops::Deref for LentWatches {
    type Target = LentKinds;

    fn deref(&self) -> &LentKinds {
        &self.0
    }
}

impl std::fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadAhead")
    }
}

impl std::fmt::Debug for Warm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Warm")
    }
}

impl std::fmt::Debug for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Life").field(&*self.epochs.borrow()).finish()
    }
}

#[cfg(test)]
mod staged;
#[cfg(test)]
mod tests;
