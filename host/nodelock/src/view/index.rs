//! The watches of nodes and pods on their way into the sightings.

use std::time::Duration;

use topoloom_cluster::node_watch::NodeMeta;
use topoloom_cluster::watched::{Earlier, Index};
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::nodelock::sightings::{Effect, NodeRead, PodSighting};
use topoloom_core::nodelock::{NodeName, Sightings};
use topoloom_core::version::ResourceVersion;

use crate::pods::{self, Slice};
use crate::wire;

/// A list of nodes that is not whole yet, and what it does to what is known.
pub(super) type NodeList = (Earlier, Vec<(NodeName, NodeRead)>);

/// The same of pods.
pub(super) type PodList = (Earlier, Vec<PodSighting>);

/// What a watch has brought.
pub(super) struct SightingChange {
    pub(super) effect: Effect,
    /// Two versions of an object that cannot be of one history.
    pub(super) went_back: Option<(ResourceVersion, ResourceVersion)>,
}

impl From<Effect> for SightingChange {
    fn from(effect: Effect) -> Self {
        Self { effect, went_back: None }
    }
}

/// The nodes of the sightings, at a moment.
pub(super) struct SightedNodes<'a> {
    pub(super) sightings: &'a mut Sightings,
    pub(super) now: Duration,
}

impl Index<&NodeMeta> for SightedNodes<'_> {
    type List = NodeList;
    type Change = SightingChange;

    fn begin(&mut self, earlier: Earlier) -> NodeList {
        (earlier, Vec::new())
    }

    fn list(&mut self, (_, all): &mut NodeList, node: &NodeMeta) {
        all.push(read_of(node));
    }

    fn reset(&mut self, (earlier, all): NodeList, version: &ResourceVersion) -> SightingChange {
        if earlier == Earlier::Void {
            self.sightings.forget_nodes();
        }
        let went_back = all.iter().find_map(|(name, read)| {
            let known = self.sightings.known_as(name, read.uid.as_ref()?)?;
            contradicted(known, &read.version, version)
        });
        SightingChange { effect: self.sightings.relisted_nodes(all, self.now), went_back }
    }

    fn apply(&mut self, node: &NodeMeta) -> SightingChange {
        let (name, read) = read_of(node);
        self.sightings.node(&name, read, self.now).into()
    }

    fn delete(&mut self, node: &NodeMeta) -> SightingChange {
        self.sightings.node_gone(node.metadata.name.as_deref().unwrap_or_default()).into()
    }
}

/// The pods of the sightings.
pub(super) struct Pods<'a> {
    pub(super) sightings: &'a mut Sightings,
    pub(super) backends: &'a [Backend],
}

impl Pods<'_> {
    fn keep(&self, slice: &Slice) -> Option<PodSighting> {
        pods::of(slice, self.backends)
    }
}

impl Index<Slice> for Pods<'_> {
    type List = PodList;
    type Change = SightingChange;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        self.sightings.lists_pods();
        (earlier, Vec::new())
    }

    // Of the many pods of a cluster only those that need a lock are kept.
    fn list(&mut self, (_, all): &mut PodList, pod: Slice) {
        all.extend(self.keep(&pod).filter(|seen| !seen.keys.is_empty()));
    }

    fn reset(&mut self, (earlier, all): PodList, version: &ResourceVersion) -> SightingChange {
        let went_back = all.iter().filter(|_| earlier == Earlier::Valid).find_map(|listed| {
            let known = &self.sightings.pod_of(&listed.pod.key)?.pod.version;
            contradicted(known, &listed.pod.version, version)
        });
        if earlier == Earlier::Void {
            self.sightings.forget_pods();
        }
        SightingChange { effect: self.sightings.relisted_pods(all, version), went_back }
    }

    fn apply(&mut self, pod: Slice) -> SightingChange {
        self.keep(&pod).map(|seen| self.sightings.pod(seen)).unwrap_or_default().into()
    }

    fn delete(&mut self, pod: Slice) -> SightingChange {
        self.keep(&pod).map(|seen| self.sightings.pod_gone(&seen.pod.key)).unwrap_or_default().into()
    }
}

/// Two versions of one object that cannot be of one history: a list that is newer than the known one shows an older one.
fn contradicted(
    known: &ResourceVersion,
    listed: &ResourceVersion,
    list: &ResourceVersion,
) -> Option<(ResourceVersion, ResourceVersion)> {
    (listed.is_older_than(known) && !list.is_older_than(known)).then(|| (known.clone(), listed.clone()))
}

/// What the lock reads of a node.
pub(super) fn read_of(node: &NodeMeta) -> (NodeName, NodeRead) {
    let meta = &node.metadata;
    let read = NodeRead {
        version: meta.resource_version.as_deref().into(),
        uid: meta.uid.as_deref().map(Into::into),
        kind: meta.labels.as_ref().map(wire::kind).unwrap_or_default(),
        locks: meta.annotations.as_ref().map(wire::locks).unwrap_or_default(),
    };
    (meta.name.as_deref().unwrap_or_default().into(), read)
}
