//! Whether lending left alone what is not ours, judged by etcd's own order of writes of one cluster (decisions S1, S6 and S7).
//!
//! *Ours* is what carries the identity of one of the bindings of a story, in that cluster; and a pod that is bound to a virtual node
//! of ours. A pod that carries the identity of a binding outside of the namespace of that binding is not. Of everything else the
//! program may write two keys on a Node (the label of the policy and the claim), and the status of a policy; it never takes a claim of
//! another. Nothing else disappears, or begins to, but what the test itself took away. Of other kinds it writes the status and the
//! finalizer of a binding, Events, and its own leases.
//!
//! Who wrote a field stands in the object: the API server takes the name of a manager from the user agent of the program. A deletion
//! has no manager; so each one has to be the test's. Which of several installations did something is in the audit log alone
//! ([`senders`]).
//!
//! Nothing is known of objects that existed before the first write, until they are written.

pub mod senders;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use topoloom_sync::keys;

use crate::controlplane::{Write, WriteKind};

/// The manager of every field that the program writes.
const PROGRAM: &str = "topoloom";
const NODES: &str = "/registry/minions/";
const PODS: &str = "/registry/pods/";
/// Kinds of objects that lending makes or takes away. Where a key continues, it is that of the object.
const KINDS: [&str; 4] = [NODES, PODS, "/registry/leases/", "/registry/csinodes/"];
/// Leases of another kind: those of replicas, of which the program has its own.
const NOT_LENT: [&str; 2] = ["/registry/leases/kube-system/", "/registry/leases/topoloom-system/"];
/// Kinds of other objects whose status the program writes.
const OWN_KINDS: &str = "/registry/topoloom.dev/";
/// The fields that it writes of these.
const OWN_FIELDS: [&str; 2] = ["status", "metadata.finalizers"];
const EVENTS: &str = "/registry/events/";

/// What may be touched in one cluster.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// Virtual cluster and binding of each identity, as the labels have them.
    pub identities: BTreeSet<(String, String)>,
    /// The namespace of the physical pods of an identity, where it has any in this cluster.
    pub mounts: BTreeMap<(String, String), String>,
    /// The keys of what the test deleted by its own hand.
    pub deleted: BTreeSet<String>,
}

/// The result for a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// The violations, a sentence each.
    pub violations: Vec<String>,
    /// Objects that are not ours and were there.
    pub foreign: usize,
    /// Writes after which the program owned other fields of an object of ours.
    pub ours: usize,
    /// Claims on Nodes that were made.
    pub claims: usize,
}

/// Judges the writes of a cluster, in the order in which they were committed. Other writes may be among them.
#[must_use]
pub fn judge(writes: &[Write], story: &Story) -> Judged {
    let mut judge = Judge { story, objects: BTreeMap::new(), foreign: BTreeSet::new(), judged: Judged::default() };
    let is_of_lending = |key: &str| {
        KINDS.iter().any(|kind| key.starts_with(kind)) && !NOT_LENT.iter().any(|other| key.starts_with(other))
    };
    for write in writes {
        if is_of_lending(&write.key) {
            judge.look(write);
        } else {
            judge.look_at_another(write);
        }
    }
    judge.judged.foreign = judge.foreign.len();
    judge.judged
}

struct Judge<'a> {
    story: &'a Story,
    objects: BTreeMap<String, Value>,
    foreign: BTreeSet<String>,
    judged: Judged,
}

impl Judge<'_> {
    fn look(&mut self, write: &Write) {
        let before = self.objects.remove(&write.key);
        let known = before.as_ref().unwrap_or(&write.value);
        let is_ours = self.is_ours(&write.key, known);
        if write.kind == WriteKind::Delete {
            if !is_ours && before.is_some() && !self.is_by_hand(&write.key) {
                self.violation(write, "was deleted, and the test did not do that");
            }
            return;
        }
        if is_ours {
            let (was, is) = (before.as_ref().map(fields).unwrap_or_default(), fields(&write.value));
            self.judged.ours += usize::from(was != is);
        } else {
            self.foreign.insert(write.key.clone());
            self.changes(write, before.as_ref());
        }
        self.objects.insert(write.key.clone(), write.value.clone());
    }

    /// An object of a kind that lending neither makes nor takes away was written.
    fn look_at_another(&mut self, write: &Write) {
        let is_free = |key: &str| key.starts_with(EVENTS) || NOT_LENT.iter().any(|own| key.starts_with(own));
        if write.kind == WriteKind::Delete || is_free(&write.key) {
            return;
        }
        let is_own = |field: &String| OWN_FIELDS.iter().any(|own| field.starts_with(own));
        for field in fields(&write.value) {
            if !(write.key.starts_with(OWN_KINDS) && is_own(&field)) {
                self.violation(write, &format!("is none of its kinds, and the program wrote {field}"));
            }
        }
    }

    /// An object that is not ours was written.
    fn changes(&mut self, write: &Write, before: Option<&Value>) {
        let begins = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        let begins_to_go = begins(&write.value) && before.is_some_and(|before| !begins(before));
        if begins_to_go && !self.is_by_hand(&write.key) {
            self.violation(write, "is being deleted, and the test did not do that");
        }
        let is_node = write.key.starts_with(NODES);
        for field in fields(&write.value) {
            if !(is_node && is_allowed(&field)) {
                self.violation(write, &format!("is not ours, and the program wrote {field}"));
            }
        }
        if !is_node {
            return;
        }
        let claim = |object: &Value| object["metadata"]["annotations"][keys::LEASED_BY].as_str().map(str::to_owned);
        let (was, is) = (before.and_then(claim), claim(&write.value));
        if was == is {
            return;
        }
        let is_claim_of_ours = |claim: &String| {
            let cluster = claim.split('/').next().unwrap_or_default();
            self.story.identities.iter().any(|(ours, _)| ours == cluster)
        };
        if is.as_ref().is_some_and(is_claim_of_ours) {
            self.judged.claims += 1;
        }
        let cluster = |claim: &String| claim.split('/').next().unwrap_or_default().to_owned();
        let is_taken = match (&was, &is) {
            // A binding takes over from an earlier one of its own cluster, and from no other.
            (Some(was), Some(is)) => cluster(was) != cluster(is),
            (Some(was), None) => !is_claim_of_ours(was),
            (None, _) => false,
        };
        if is_taken {
            self.violation(write, &format!("was claimed by {was:?}, and is by {is:?}"));
        }
    }

    /// Whether it carries an identity of the story, or is a pod of a node that does.
    fn is_ours(&self, key: &str, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
        let identity = (label(keys::VIRTUAL_CLUSTER), label(keys::BINDING));
        let namespace = key.strip_prefix(PODS).and_then(|rest| rest.split('/').next());
        let mount = self.story.mounts.get(&identity).map(String::as_str);
        let is_astray = namespace.is_some() && mount.is_some() && namespace != mount;
        if self.story.identities.contains(&identity) && !is_astray {
            return true;
        }
        if let Some(lease) = key.strip_prefix("/registry/leases/kube-node-lease/") {
            return self.is_node_ours(lease);
        }
        let node = object["spec"]["nodeName"].as_str().filter(|_| key.starts_with(PODS));
        node.is_some_and(|node| self.is_node_ours(node))
    }

    fn is_node_ours(&self, name: &str) -> bool {
        let key = format!("{NODES}{name}");
        // Its lease and its pods are there a moment longer than it is.
        let was_ours = !self.foreign.contains(&key) && name.starts_with("vnode-");
        self.objects.get(&key).map_or(was_ours, |node| self.is_ours(&key, node))
    }

    fn is_by_hand(&self, key: &str) -> bool {
        self.story.deleted.contains(key)
    }

    fn violation(&mut self, write: &Write, what: &str) {
        self.judged.violations.push(format!("revision {}: {} {what}", write.revision, write.key));
    }
}

/// Whether the program may write this field of a Node that is not ours.
fn is_allowed(field: &str) -> bool {
    let label = format!("metadata.labels.{}", keys::POLICY_APPLIED);
    let claim = format!("metadata.annotations.{}", keys::LEASED_BY);
    field == label || field == claim
}

/// The fields that the program owns, as paths; without those that only hold others.
fn fields(object: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    for entry in entries.filter(|entry| entry["manager"].as_str().is_some_and(|name| name.starts_with(PROGRAM))) {
        collect(&entry["fieldsV1"], String::new(), &mut found);
    }
    found
}

fn collect(fields: &Value, path: String, found: &mut BTreeSet<String>) {
    let inner = fields.as_object().into_iter().flatten().filter(|(name, _)| *name != ".");
    let mut is_leaf = true;
    for (name, field) in inner {
        is_leaf = false;
        let name = name.strip_prefix("f:").unwrap_or(name);
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        collect(field, path, found);
    }
    // What only holds others is listed as an empty set of its own fields, too: it was there before.
    let only_holds = path == "metadata.labels" || path == "metadata.annotations";
    if is_leaf && !path.is_empty() && !only_holds {
        found.insert(path);
    }
}

#[cfg(test)]
mod tests;
