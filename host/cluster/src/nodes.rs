//! The nodes of the cluster as columns of labels and annotations.
//!
//! Owns the column store behind the watch of Nodes. A reader of columns registers an [`Interest`]; the store then holds
//! exactly the keys that are registered, and a node change wakes exactly the readers that it concerns. Never starts a
//! round itself and never keeps a whole Node.
//!
//! # Failure story
//!
//! While the watch is broken, readers keep the last contents. A relist (start, 410, a key that is new) replaces the
//! contents in one step and wakes as if its differences had come as events. A view is only handed out when every key in
//! it was seen on every node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use topoloom_core::snapshot::{self, Change, ColumnKey, Store, View};
use topoloom_core::version::ResourceVersion;

use super::node_watch::{Follow, NodeMeta, NodeWatch};
use super::restores::{Earlier, Restores};
use super::watched::{Event, Index, Watched};

/// Notified of every change of nodes, after the store has it.
pub trait Listener: Send + Sync {
    /// What changed. Runs on the watch task: must not block.
    fn nodes_changed(&self, change: &Change);
}

/// The nodes and all their readers.
pub struct Nodes {
    inner: Mutex<Inner>,
    watch: Arc<NodeWatch>,
    commits: watch::Sender<u64>,
}

#[derive(Default)]
struct Inner {
    store: Store,
    watched: Watched<()>,
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
        Self::of(Arc::new(NodeWatch::new(&Restores::default())))
    }
}

impl Nodes {
    /// What this watch shows, once it [follows](NodeWatch::follow).
    #[must_use]
    pub fn of(watch: Arc<NodeWatch>) -> Self {
        Self { inner: Mutex::default(), watch, commits: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held ends the process by way of its task; what is read until then is still valid.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is notified of every change from now on.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.lock().listeners.push(listener);
    }

    /// Asks for columns. `wake` is called for changes under `keys`, and of names that appear or go.
    #[must_use]
    pub fn register(self: &Arc<Self>, keys: Vec<ColumnKey>, wake: Arc<dyn Listener>) -> Interest {
        let mut inner = self.lock();
        let missing = inner.store.require(keys.iter().cloned());
        let id = inner.next;
        inner.next += 1;
        inner.interests.insert(id, Registered { keys, wake });
        drop(inner);
        if !missing.is_empty() {
            self.watch.relist();
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
        self.watch.begin();
    }

    /// Notifies every reader that the change concerns, outside the lock.
    fn publish(&self, inner: MutexGuard<'_, Inner>, change: &Change) {
        if change.is_empty() {
            return;
        }
        let mut notified = inner.listeners.clone();
        for interest in inner.interests.values() {
            if change.names_changed() || change.concerns(&interest.keys) {
                notified.push(Arc::clone(&interest.wake));
            }
        }
        drop(inner);
        for listener in notified {
            listener.nodes_changed(change);
        }
    }
}

impl Follow for Nodes {
    fn node_event(&self, event: &Event<NodeMeta>) {
        let mut inner = self.lock();
        let Inner { store, watched, .. } = &mut *inner;
        let Some(step) = watched.take(store, event.by_ref()) else { return };
        let is_list = matches!(step, NodesChange::List(_));
        if is_list && !inner.store.pending().is_empty() {
            self.watch.relist();
        }
        let (NodesChange::List(change) | NodesChange::One(change)) = step;
        self.publish(inner, &change);
        if is_list {
            self.commits.send_modify(|count| *count += 1);
        }
    }
}

/// What changed, and by what.
pub enum NodesChange {
    /// By a list.
    List(Change),
    /// By one node.
    One(Change),
}

impl Index<&NodeMeta> for Store {
    type List = ();
    type Change = NodesChange;

    // No versions are kept: the list replaces everything.
    fn begin(&mut self, _: Earlier) {
        self.begin_relist();
    }

    fn list(&mut self, (): &mut (), node: &NodeMeta) {
        self.relist(meta(node));
    }

    fn reset(&mut self, (): (), _: &ResourceVersion) -> NodesChange {
        NodesChange::List(self.commit_relist())
    }

    fn apply(&mut self, node: &NodeMeta) -> NodesChange {
        NodesChange::One(Self::apply(self, meta(node)))
    }

    fn delete(&mut self, node: &NodeMeta) -> NodesChange {
        NodesChange::One(self.remove(node.metadata.name.as_deref().unwrap_or_default()))
    }
}

/// Name, labels and annotations of a watched node, without a copy.
fn meta(node: &NodeMeta) -> snapshot::NodeMeta<'_, LabelPairs<'_>, LabelPairs<'_>> {
    snapshot::NodeMeta {
        name: node.metadata.name.as_deref().unwrap_or_default(),
        labels: pairs(node.metadata.labels.as_ref()),
        annotations: pairs(node.metadata.annotations.as_ref()),
    }
}

type LabelPairs<'a> = Box<dyn Iterator<Item = (&'a str, &'a str)> + 'a>;

fn pairs(map: Option<&BTreeMap<String, String>>) -> LabelPairs<'_> {
    Box::new(map.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())))
}
