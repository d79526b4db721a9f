//! Pods: in which phase each is, and since when.

use std::borrow::Cow;
use std::collections::HashMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::Event;
use serde::Deserialize;
use tokio::time::Instant;

/// As much of a pod as is looked at: reading the whole of it takes more processor time than the host has for it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ShownPod {
    metadata: ObjectMeta,
    #[serde(default)]
    status: ShownStatus,
}

/// As much of its status.
#[derive(Debug, Clone, Default, Deserialize)]
struct ShownStatus {
    #[serde(default)]
    phase: String,
}

impl Resource for ShownPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The pods of one namespace that a watch has shown, as far as their names begin with a prefix.
pub(crate) struct Pods {
    prefix: &'static str,
    pods: HashMap<String, PodSeen>,
}

/// One pod.
pub(crate) struct PodSeen {
    pub(crate) phase: String,
    /// When this phase was seen first.
    pub(crate) since: Instant,
    /// Whether it has the annotation that the watch looks for.
    pub(crate) is_marked: bool,
}

impl Pods {
    pub(crate) fn of(prefix: &'static str) -> Self {
        Self { prefix, pods: HashMap::new() }
    }

    /// Notes one event; a pod with this annotation is marked.
    pub(crate) fn see(&mut self, event: &Event<ShownPod>, mark: &str) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => self.shows(pod, mark),
            Event::Delete(pod) => drop(pod.metadata.name.as_ref().and_then(|name| self.pods.remove(name))),
            Event::Init | Event::InitDone => {}
        }
    }

    fn shows(&mut self, pod: &ShownPod, mark: &str) {
        let Some(name) = pod.metadata.name.clone().filter(|name| name.starts_with(self.prefix)) else { return };
        let now = Instant::now();
        let phase = pod.status.phase.as_str();
        let is_marked = pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(mark));
        let new = || PodSeen { phase: phase.to_owned(), since: now, is_marked };
        let seen = self.pods.entry(name).or_insert_with(new);
        if seen.phase != phase {
            (seen.phase, seen.since) = (phase.to_owned(), now);
        }
        seen.is_marked = is_marked;
    }

    pub(crate) fn get(&self, name: &str) -> Option<&PodSeen> {
        self.pods.get(name)
    }

    /// How many are in this phase.
    pub(crate) fn in_phase(&self, phase: &str) -> usize {
        self.pods.values().filter(|pod| pod.phase == phase).count()
    }

    /// Since when the last of them is in its phase.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.pods.values().map(|pod| pod.since).max()
    }

    /// How many are marked.
    pub(crate) fn marked(&self) -> usize {
        self.pods.values().filter(|pod| pod.is_marked).count()
    }
}
