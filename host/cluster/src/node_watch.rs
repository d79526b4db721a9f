//! The one watch of Nodes, as metadata only: everything that reads nodes follows it.
//!
//! Owns the list and the watch, and keeps nothing of a node. Columns and locks are kept by those that follow. Several
//! controllers may run it: one watches for all, and the next continues when that one ends.
//!
//! # Failure story
//!
//! A broken watch is opened again with back-off. A follower sees the events of a list in order, with its begin and its end, so
//! that it replaces what it knows in one step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::PartialObjectMeta;
use tokio::sync::{Notify, watch};

use super::watched::Event;
use super::watches::{self, Config};
use super::{Refusal, Restores};

/// Nodes per page of a list: 500 nodes are about half a megabyte of metadata, so a relist of any cluster stays small.
const PAGE: u32 = 500;

/// How long the first list waits for what will be read of it.
const FIRST_WISHES: Duration = Duration::from_secs(10);

/// A node without its spec and status.
pub type NodeMeta = PartialObjectMeta<Node>;

/// Keeps something of nodes.
pub trait Follow: Send + Sync {
    /// What happened to nodes. Runs on the watch task: must not block.
    fn node_event(&self, event: &Event<NodeMeta>);
}

/// Takes in whether the watch works: after each answer of the API server, and after each failure.
pub type ReportHealth = Box<dyn Fn(Result<(), &Refusal>) + Send + Sync>;

type Follower = (Arc<dyn Follow>, Arc<ReportHealth>);

/// The watch, and all that follow it.
pub struct NodeWatch {
    restores: Restores,
    followers: Mutex<Vec<Follower>>,
    relist: Notify,
    begun: watch::Sender<bool>,
    /// Only the task that holds this watches; it does so for all.
    watching: tokio::sync::Mutex<()>,
}

impl NodeWatch {
    /// In a process that knows of these restores.
    #[must_use]
    pub fn new(restores: &Restores) -> Self {
        Self {
            restores: restores.clone(),
            followers: Mutex::default(),
            relist: Notify::new(),
            begun: watch::Sender::new(true),
            watching: tokio::sync::Mutex::default(),
        }
    }

    /// Follows from the first list on. To be called before [`run`](Self::run).
    pub fn follow(&self, follower: Arc<dyn Follow>, report: ReportHealth) {
        self.followers().push((follower, Arc::new(report)));
    }

    /// Holds the first list back until [`begin`](Self::begin), for a moment at most.
    pub fn wait(&self) {
        self.begun.send_replace(false);
    }

    /// Lets the first list begin: by now the first readers have registered, so that one list serves them all.
    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Lists again, since more is kept of each node from now on.
    pub fn relist(&self) {
        self.relist.notify_one();
    }

    /// Watches until it is dropped.
    pub async fn run(&self, client: kube::Client) {
        let _one = self.watching.lock().await;
        let mut begun = self.begun.subscribe();
        // The sender lives as long as we do, and without a word the list begins all the same.
        let _ = tokio::time::timeout(FIRST_WISHES, begun.wait_for(|begun| *begun)).await;
        // The first list has everything that was requested so far.
        let _ = self.relist.notified().now_or_never();
        let api = kube::Api::<NodeMeta>::all(client);
        let anew = || Box::pin(watches::events(api.clone(), Config::of(&self.restores).page_size(PAGE)));
        let mut events = anew();
        loop {
            tokio::select! {
                Some(event) = events.next() => self.notify(&event),
                // The new watch exists before the old one is dropped, so that writes that wait for its list still wait.
                () = self.relist.notified() => events = anew(),
            }
        }
    }

    fn notify(&self, event: &Result<Event<NodeMeta>, Refusal>) {
        let followers = self.followers().clone();
        for (follower, report) in &followers {
            match event {
                Ok(event) => {
                    follower.node_event(event);
                    if event.is_answer() {
                        report(Ok(()));
                    }
                }
                Err(refusal) => report(Err(refusal)),
            }
        }
    }

    fn followers(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
