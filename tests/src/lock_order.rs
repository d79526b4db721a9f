//! Whether locks were held as they must be, judged by etcd's own order of writes.
//!
//! At every moment at most one pod of a node is under way: bound, and not yet admitted by its kubelet. While a pod gets
//! bound, and when its device plugin reports `success`, the lock of the node names it.
//!
//! Only pods that request NVIDIA's devices are judged, by the lock that all vendors but one share. Nothing is known of
//! objects that existed before the first write: their first change is not judged. A pod that was created on its node
//! was never bound.

mod stored;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::controlplane::{Write, WriteKind};
use crate::hami::is_of;
use stored::{Lock, Pod, owner};

/// The result for a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// The violations, a sentence each.
    pub violations: Vec<String>,
    /// Pods that were bound.
    pub binds: usize,
    /// Pods whose device plugin reported `success`.
    pub successes: usize,
    /// Locks that were set where there was none.
    pub claims: usize,
    /// Locks that were removed and not replaced.
    pub releases: usize,
    /// Locks that were replaced by the lock of another pod, or by an unnamed one.
    pub take_overs: usize,
    /// Locks that were replaced by another one of the same pod.
    pub restamps: usize,
    /// The most pods that were under way at once, on all nodes together.
    pub most_under_way: usize,
}

/// Judges the writes to nodes and pods, in the order in which they were committed. Other writes may be among them.
#[must_use]
pub fn judge(writes: &[Write]) -> Judged {
    let mut judge = Judge::default();
    for write in writes {
        if let Some(node) = write.key.strip_prefix("/registry/minions/") {
            judge.node(write, node);
        } else if let Some(pod) = write.key.strip_prefix("/registry/pods/") {
            judge.pod(write, pod);
        }
    }
    judge.judged
}

#[derive(Default)]
struct Judge {
    nodes: BTreeMap<String, Lock>,
    /// By `namespace/name`.
    pods: BTreeMap<String, Pod>,
    /// The pods that are under way on each node.
    under_way: BTreeMap<String, BTreeSet<String>>,
    judged: Judged,
}

impl Judge {
    fn violation(&mut self, write: &Write, what: &str) {
        self.judged.violations.push(format!("revision {}: {what}", write.revision));
    }

    fn node(&mut self, write: &Write, name: &str) {
        let before = self.nodes.remove(name);
        if write.kind == WriteKind::Delete {
            return;
        }
        let now = Lock::of(&write.value);
        let was_free = Lock::default();
        if let Some(before) = before.as_ref().or(write.created.then_some(&was_free)) {
            let judged = &mut self.judged;
            match (&before.value, &now.value) {
                (None, Some(_)) => judged.claims += 1,
                (Some(_), None) => judged.releases += 1,
                (Some(old), Some(new)) if old != new && owner(old).is_some() && owner(old) == owner(new) => {
                    judged.restamps += 1;
                }
                (Some(old), Some(new)) if old != new => judged.take_overs += 1,
                _ => {}
            }
        }
        self.nodes.insert(name.to_owned(), now);
    }

    fn pod(&mut self, write: &Write, key: &str) {
        let before = self.pods.remove(key);
        if let Some(before) = &before {
            self.rests(key, before);
        }
        if write.kind == WriteKind::Delete {
            return;
        }
        let Some(now) = Pod::of(&write.value) else {
            return self.violation(write, &format!("pod {key} cannot be read: is it not stored as JSON?"));
        };
        if now.needs_lock {
            // Another object with the same name is another pod.
            let before = before.filter(|before| before.uid == now.uid);
            self.changes(write, key, before.as_ref(), &now);
        }
        self.pods.insert(key.to_owned(), now);
    }

    fn changes(&mut self, write: &Write, key: &str, before: Option<&Pod>, now: &Pod) {
        if let (Some(node), true) = (&now.node, before.is_some_and(|before| before.node.is_none())) {
            self.judged.binds += 1;
            if let Some(why) = self.is_locked_for(node, key, now).err() {
                self.violation(write, &format!("pod {key} is bound, and {why}"));
            }
        }
        if now.phase == "success" && before.is_some_and(|before| before.phase != "success") {
            self.judged.successes += 1;
            let node = now.node.as_deref().unwrap_or_default();
            if let Some(why) = self.is_named(node, key).err() {
                self.violation(write, &format!("the device plugin is done with pod {key}, and {why}"));
            }
        }
        let Some(node) = now.is_under_way() else { return };
        let others = self.under_way.entry(node.to_owned()).or_default();
        if !others.is_empty() && before.and_then(Pod::is_under_way).is_none() {
            let names: Vec<_> = others.iter().map(String::as_str).collect();
            let what = format!("pod {key} is under way on node {node}, and so is {}", names.join(", "));
            self.judged.violations.push(format!("revision {}: {what}", write.revision));
        }
        others.insert(key.to_owned());
        let all: usize = self.under_way.values().map(BTreeSet::len).sum();
        self.judged.most_under_way = self.judged.most_under_way.max(all);
    }

    /// A pod is not under way any more, or is added again after this.
    fn rests(&mut self, key: &str, pod: &Pod) {
        if let Some(node) = pod.is_under_way()
            && let Some(others) = self.under_way.get_mut(node)
        {
            others.remove(key);
        }
    }

    /// The lock of a node, if it names a pod.
    fn is_named(&self, node: &str, key: &str) -> Result<&Lock, String> {
        let lock = self.nodes.get(node).ok_or_else(|| format!("nothing is known of node {node:?}"))?;
        let value = lock.value.as_deref().ok_or_else(|| format!("node {node} has no lock"))?;
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        if is_of(value, namespace, name) { Ok(lock) } else { Err(format!("the lock of node {node} is {value}")) }
    }

    /// Checks the same, and that the note beside the lock names the pod too.
    fn is_locked_for(&self, node: &str, key: &str, pod: &Pod) -> Result<(), String> {
        match self.is_named(node, key)?.uid() {
            Some(uid) if uid != pod.uid => {
                Err(format!("the lock of node {node} is for UID {uid} instead of {}", pod.uid))
            }
            _ => Ok(()),
        }
    }
}
