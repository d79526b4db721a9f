//! Whole objects, as an informer keeps them.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often it is checked whether all lists are whole.
const CHECK: Duration = Duration::from_millis(100);

/// All objects of a kind, by namespace and name.
pub(super) struct Cache<K>(Mutex<HashMap<String, Arc<K>>>);

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// What a watch has shown.
pub(super) enum Change<K> {
    Is(Arc<K>),
    Gone(Arc<K>),
}

impl<K> Change<K> {
    pub(super) fn object(&self) -> &Arc<K> {
        match self {
            Self::Is(object) | Self::Gone(object) => object,
        }
    }
}

impl<K: kube::Resource> Cache<K> {
    /// Takes a change in; returns what was there before.
    pub(super) fn take(&self, change: Change<K>) -> Option<Arc<K>> {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Is(object) => objects.insert(key(&object), object),
            Change::Gone(object) => objects.remove(&key(&object)),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Arc<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

/// Pods, and those of each node: both clusters have that index (section 12).
#[derive(Default)]
pub(super) struct BoundPods {
    pods: Cache<Pod>,
    bound: Mutex<HashMap<String, HashMap<String, Arc<Pod>>>>,
}

impl BoundPods {
    /// Takes a change in; returns what was there before.
    pub(super) fn take(&self, change: Change<Pod>) -> Option<Arc<Pod>> {
        let key = key(change.object());
        let now = match &change {
            Change::Is(pod) => Some(Arc::clone(pod)),
            Change::Gone(_) => None,
        };
        let before = self.pods.take(change);
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = before.as_deref().and_then(node_of)
            && let Some(pods) = bound.get_mut(&node)
        {
            pods.remove(&key);
        }
        if let Some(pod) = now
            && let Some(node) = node_of(&pod)
        {
            bound.entry(node).or_default().insert(key, pod);
        }
        before
    }

    /// The pods of a node.
    pub(super) fn on(&self, node: &str) -> Vec<Arc<Pod>> {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.get(node).into_iter().flat_map(HashMap::values).cloned().collect()
    }
}

/// The node that a pod is bound to.
pub(super) fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())
}

/// The key of an object.
pub(super) fn key<K: kube::Resource>(object: &Arc<K>) -> String {
    let name = object.name_any();
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    }
}

/// Which watches have listed everything.
#[derive(Default)]
pub(super) struct Lists(Mutex<Vec<watch::Receiver<bool>>>);

impl Lists {
    /// One more watch, which says here that its list is whole.
    pub(super) fn member(&self) -> watch::Sender<bool> {
        let (sender, receiver) = watch::channel(false);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(receiver);
        sender
    }

    /// Waits until all are.
    pub(super) async fn until_whole(&self) {
        let is_whole = || self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().all(|list| *list.borrow());
        while !is_whole() {
            sleep(CHECK).await;
        }
    }
}

/// Watches for ever, and passes each change on. An object that a later list does not show is gone.
pub(super) async fn keep<K>(
    api: Api<K>,
    config: Config,
    whole: watch::Sender<bool>,
    mut changed: impl FnMut(Change<K>) + Send,
) where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let mut events = pin!(watcher(api, config).default_backoff());
    let (mut known, mut listed) = (HashMap::<String, Arc<K>>::new(), HashSet::new());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                let object = Arc::new(object);
                listed.insert(key(&object));
                known.insert(key(&object), Arc::clone(&object));
                changed(Change::Is(object));
            }
            Ok(Event::InitDone) => {
                let gone: Vec<String> = known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for object in gone.iter().filter_map(|key| known.remove(key)) {
                    changed(Change::Gone(object));
                }
                _ = whole.send_replace(true);
            }
            Ok(Event::Apply(object)) => {
                let object = Arc::new(object);
                known.insert(key(&object), Arc::clone(&object));
                changed(Change::Is(object));
            }
            Ok(Event::Delete(object)) => {
                let object = Arc::new(object);
                known.remove(&key(&object));
                changed(Change::Gone(object));
            }
            Err(error) => eprintln!("bench: the naive mode: {error}"),
        }
    }
}
