//! The nodes of the cluster, watched as metadata only.
//!
//! Owns the one watch on Nodes and the column store behind it. Whoever reads columns registers an [`Interest`]; the
//! store then holds exactly the keys that somebody asked for, and a node change wakes exactly those whom it concerns.
//! Never starts a round itself and never keeps a whole Node.
//!
//! # Failure story
//!
//! A broken watch is opened again with back-off, readers keep the last contents meanwhile. A relist (start, 410, a key
//! that is new) replaces the contents in one step and wakes as if its differences had come as events. A view is only
//! handed out when every key in it was seen on every node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::PartialObjectMeta;
use tokio::sync::{Notify, watch};
use topoloom_core::snapshot::{Change, ColumnKey, NodeMeta, Store, View};

use super::check::Check;
use super::watches::{self, Config, Event};

/// Nodes per page of a list: 500 nodes are about half a megabyte of metadata, so a relist of any cluster stays small.
const PAGE: u32 = 500;

/// Hears of every change of nodes, after the store has it.
pub trait Listener: Send + Sync {
    /// What changed. Runs on the watch task: must not block.
    fn nodes_changed(&self, change: &Change);
}

/// The nodes and everybody who reads them.
pub struct Nodes {
    inner: Mutex<Inner>,
    relist: Notify,
    commits: watch::Sender<u64>,
    begun: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    store: Store,
    listeners: Vec<Arc<dyn Listener>>,
    interests: BTreeMap<u64, Registered>,
    next: u64,
}

struct Registered {
    keys: Vec<ColumnKey>,
    wake: Arc<dyn Listener>,
}

/// Keeps columns in the store for as long as it lives.
pub struct Interest {
    nodes: Arc<Nodes>,
    id: u64,
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut inner = self.nodes.lock();
        let Some(gone) = inner.interests.remove(&self.id) else { return };
        let wanted: BTreeSet<&ColumnKey> = inner.interests.values().flat_map(|interest| &interest.keys).collect();
        let unwanted: Vec<ColumnKey> = gone.keys.into_iter().filter(|key| !wanted.contains(key)).collect();
        inner.store.forget(&unwanted);
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            relist: Notify::new(),
            commits: watch::Sender::new(0),
            begun: watch::Sender::new(false),
        }
    }
}

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held ends the process by way of its task; what is read until then is still sound.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of every change from now on.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.lock().listeners.push(listener);
    }

    /// Asks for columns. `wake` hears of changes under `keys`, and of names that appear or go.
    #[must_use]
    pub fn register(self: &Arc<Self>, keys: Vec<ColumnKey>, wake: Arc<dyn Listener>) -> Interest {
        let mut inner = self.lock();
        let missing = inner.store.want(keys.iter().cloned());
        let id = inner.next;
        inner.next += 1;
        inner.interests.insert(id, Registered { keys, wake });
        drop(inner);
        if !missing.is_empty() {
            self.relist.notify_one();
        }
        Interest { nodes: Arc::clone(self), id }
    }

    /// Keeps columns without hearing of their changes.
    #[must_use]
    pub fn keep(self: &Arc<Self>, keys: Vec<ColumnKey>) -> Interest {
        struct Deaf;
        impl Listener for Deaf {
            fn nodes_changed(&self, _: &Change) {}
        }
        self.register(keys, Arc::new(Deaf))
    }

    /// The nodes now, with complete columns for these keys; waits for the first list and for the list after a new key.
    pub async fn view(&self, keys: &[ColumnKey]) -> View {
        let mut commits = self.commits.subscribe();
        loop {
            if let Some(view) = self.view_now(keys) {
                return view;
            }
            // The sender lives as long as we do, so this only ends with a commit.
            if commits.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The nodes now, unless the first list or a list after a new key is still on its way.
    #[must_use]
    pub fn view_now(&self, keys: &[ColumnKey]) -> Option<View> {
        let inner = self.lock();
        if !inner.store.is_synced() {
            return None;
        }
        let view = inner.store.view(keys);
        view.missing().is_empty().then_some(view)
    }

    /// Lets the first list begin: by now the first readers have registered, so that one list serves them all.
    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Watches until the task is dropped.
    pub async fn run(self: Arc<Self>, client: kube::Client, check: Check) {
        // The sender lives as long as we do.
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
        let api = kube::Api::<PartialObjectMeta<Node>>::all(client);
        loop {
            let mut events = std::pin::pin!(watches::events(api.clone(), Config::default().page_size(PAGE)));
            loop {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = self.relist.notified() => break,
                };
                match event {
                    Some(Ok(event)) => self.event(event, &check),
                    Some(Err(refusal)) => check.fail(&refusal),
                    None => break,
                }
            }
        }
    }

    fn event(&self, event: Event<PartialObjectMeta<Node>>, check: &Check) {
        let mut inner = self.lock();
        let (change, committed) = match event {
            Event::Apply(node) => (inner.store.apply(meta(&node)), false),
            Event::Delete(node) => (inner.store.remove(node.metadata.name.as_deref().unwrap_or_default()), false),
            Event::Init => {
                inner.store.begin_relist();
                return;
            }
            Event::InitApply(node) => {
                inner.store.relist(meta(&node));
                return;
            }
            Event::InitDone => (inner.store.commit_relist(), true),
        };
        if committed && !inner.store.pending().is_empty() {
            self.relist.notify_one();
        }
        self.publish(inner, &change);
        check.pass();
        if committed {
            self.commits.send_modify(|count| *count += 1);
        }
    }

    /// Tells everybody whom the change concerns, outside the lock.
    fn publish(&self, inner: MutexGuard<'_, Inner>, change: &Change) {
        if change.is_empty() {
            return;
        }
        let mut hear = inner.listeners.clone();
        for interest in inner.interests.values() {
            if change.names_changed() || change.concerns(&interest.keys) {
                hear.push(Arc::clone(&interest.wake));
            }
        }
        drop(inner);
        for listener in hear {
            listener.nodes_changed(change);
        }
    }
}

/// Name, labels and annotations of a watched node, without a copy.
fn meta(node: &PartialObjectMeta<Node>) -> NodeMeta<'_, Pairs<'_>, Pairs<'_>> {
    NodeMeta {
        name: node.metadata.name.as_deref().unwrap_or_default(),
        labels: pairs(node.metadata.labels.as_ref()),
        annotations: pairs(node.metadata.annotations.as_ref()),
    }
}

type Pairs<'a> = Box<dyn Iterator<Item = (&'a str, &'a str)> + 'a>;

fn pairs(map: Option<&BTreeMap<String, String>>) -> Pairs<'_> {
    Box::new(map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())))
}
