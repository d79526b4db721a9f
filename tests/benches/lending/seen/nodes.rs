//! Nodes: since when each exists, how large it is, whether it is ready, and whether it has the taint of closed windows.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::Event;
use tokio::time::Instant;
use topoloom_sync::keys::OUT_OF_WINDOWS_TAINT;

/// All nodes that a watch has shown.
#[derive(Default)]
pub(crate) struct Nodes {
    nodes: HashMap<String, NodeSeen>,
    /// How often a node that was ready was not ready any more.
    pub(crate) fell: u32,
}

/// One node.
pub(crate) struct NodeSeen {
    /// When it was seen first.
    pub(crate) born: Instant,
    /// Its allocatable processor time in thousandths of a core, and since when.
    pub(crate) cpu: i64,
    pub(crate) cpu_at: Instant,
    pub(crate) is_ready: bool,
    /// Since when it has the taint of closed windows.
    pub(crate) outside: Option<Instant>,
    /// How often it was seen to be written since [`Nodes::begin`].
    pub(crate) writes: u32,
}

impl Nodes {
    pub(crate) fn see(&mut self, event: Event<Node>) {
        match event {
            Event::Apply(node) | Event::InitApply(node) => self.shows(&node),
            Event::Delete(node) => drop(self.nodes.remove(name(&node))),
            Event::Init | Event::InitDone => {}
        }
    }

    fn shows(&mut self, node: &Node) {
        let now = Instant::now();
        let status = node.status.as_ref();
        let amount = status.and_then(|status| status.allocatable.as_ref()?.get("cpu"));
        let cpu = amount.map_or(0, |amount| milli(&amount.0));
        let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let is_ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref()).into_iter().flatten();
        let is_outside = taints.any(|taint| taint.key == OUT_OF_WINDOWS_TAINT);
        let new = || NodeSeen { born: now, cpu, cpu_at: now, is_ready, outside: None, writes: 0 };
        let seen = self.nodes.entry(name(node).to_owned()).or_insert_with(new);
        if seen.cpu != cpu {
            (seen.cpu, seen.cpu_at) = (cpu, now);
        }
        if seen.is_ready && !is_ready {
            self.fell += 1;
        }
        seen.is_ready = is_ready;
        seen.outside = is_outside.then(|| seen.outside.unwrap_or(now));
        seen.writes += 1;
    }

    /// Counts from now on.
    pub(crate) fn begin(&mut self) {
        self.fell = 0;
        for node in self.nodes.values_mut() {
            node.writes = 0;
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&NodeSeen> {
        self.nodes.get(name)
    }

    /// Those whose names begin so.
    pub(crate) fn named<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a NodeSeen> {
        self.nodes.iter().filter(move |(name, _)| name.starts_with(prefix)).map(|(_, node)| node)
    }

    /// How many of them are ready.
    pub(crate) fn ready(&self, prefix: &str) -> usize {
        self.named(prefix).filter(|node| node.is_ready).count()
    }

    /// How many of them have the taint of closed windows.
    pub(crate) fn outside(&self, prefix: &str) -> usize {
        self.named(prefix).filter(|node| node.outside.is_some()).count()
    }
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// An amount of processor time in thousandths of a core.
pub(crate) fn milli(amount: &str) -> i64 {
    match amount.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap_or(0),
        None => amount.parse::<i64>().unwrap_or(0) * 1000,
    }
}
