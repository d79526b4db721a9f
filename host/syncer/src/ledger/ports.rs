//! Which host ports pods of others hold on each physical node (`bottomup-syncer.md` 11.2).
//!
//! Only pods that hold one have a row here: all others cost nothing (decision S21). A pod of ours holds none, whether its virtual pod
//! is known or not: the virtual scheduler counts the ports of that one, and forgets them where a placeholder with the same ports goes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use topoloom_core::names::Uid;
use topoloom_sync::ports::HostPort;

use super::{PhysicalName, Touched};

/// The ports of the physical nodes.
#[derive(Debug, Default)]
pub(super) struct HeldPorts {
    held: HashMap<PhysicalName, BTreeMap<Uid, Box<[HostPort]>>>,
    /// The nodes on which a port is held, or free, since this was asked for.
    news: Touched,
}

impl HeldPorts {
    /// A pod of this node holds these ports.
    pub(super) fn set(&mut self, node: &PhysicalName, uid: &Uid, ports: Vec<HostPort>) {
        if ports.is_empty() {
            self.remove(node, uid);
            return;
        }
        let ports = ports.into_boxed_slice();
        let pods = self.held.entry(Arc::clone(node)).or_default();
        if pods.get(uid) != Some(&ports) {
            pods.insert(uid.clone(), ports);
            self.news.insert(Arc::clone(node));
        }
    }

    /// A pod of this node holds none.
    pub(super) fn remove(&mut self, node: &PhysicalName, uid: &Uid) {
        let Some(pods) = self.held.get_mut(node) else { return };
        if pods.remove(uid).is_some() {
            self.news.insert(Arc::clone(node));
        }
        if pods.is_empty() {
            self.held.remove(node);
        }
    }

    /// The ports that are held on a node, pod by pod.
    pub(super) fn of(&self, node: &str) -> Vec<&[HostPort]> {
        self.held.get(node).into_iter().flat_map(BTreeMap::values).map(|ports| &**ports).collect()
    }

    /// The nodes on which something changed since the last call.
    pub(super) fn take_news(&mut self) -> Touched {
        std::mem::take(&mut self.news)
    }
}
