//! An API server: objects with UIDs and versions, preconditions, backups, and restores of one of them.
//!
//! Versions of two histories are never equal: an API server that was set back may give a number a second time, and a write
//! that was computed from the first one would be taken. Real revisions grow by thousands between a backup and a restore, so
//! that this is left out here.

use super::objects::{Pod, StoredPolicy};
use super::*;
use crate::node::scene::apply;
use crate::witness::{self, Kept};

/// How far two revisions are apart. The number of the history is what is left over.
const STRIDE: u64 = 64;
/// By how many writes a restore raises the revision, where it does.
const RAISE: u64 = 1_000;
/// How many backups are kept.
const KEPT: usize = 4;

/// Which of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Physical,
    Virtual,
}

impl Side {
    /// The store of this cluster, as the witness has it.
    pub(super) fn witnessed(self) -> witness::Store {
        match self {
            Self::Physical => witness::Store::Physical,
            Self::Virtual => witness::Store::Virtual,
        }
    }
}

/// What a restore makes of the revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// It is that of the backup. Watches from later ones show nothing.
    Lower,
    /// It is raised (etcd's `--bump-revision`). Watches from earlier ones end with 410.
    Raised,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Its UID or version is another one.
    Conflict,
    NotFound,
    Exists,
    /// A disruption budget.
    TooMany,
}

/// Everything that is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) nodes: BTreeMap<String, Arc<Value>>,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) policies: BTreeMap<String, Arc<StoredPolicy>>,
    /// When the lease of each node was renewed last.
    pub(super) leases: BTreeMap<String, Timestamp>,
    /// What the lease of each binding keeps of its witness, in the virtual cluster.
    pub(super) kept: [Option<Kept>; BINDINGS],
    /// The copy of it in the Lease of the borrower, in the physical cluster.
    pub(super) copies: [Option<u64>; BINDINGS],
    /// What the status of each binding says of its guard.
    pub(super) inherited: [Inherited; BINDINGS],
    /// In no object: what is known beside that.
    pub(super) ghosts: [GuardGhost; BINDINGS],
}

/// What no status says, and is needed to judge the process that takes over.
#[derive(Debug, Clone, Default)]
pub(super) struct GuardGhost {
    /// The virtual nodes of the batch that is held.
    pub(super) held: BTreeSet<NodeName>,
    /// Nodes that an operator confirmed, and that go still.
    pub(super) confirmed: BTreeSet<NodeName>,
    /// Nodes that were deleted for a cause that counts, and when.
    pub(super) taken: BTreeMap<NodeName, Duration>,
}

#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) store: Store,
    pub(super) revision: u64,
    /// How often it was restored.
    pub(super) epoch: u64,
    /// How it was restored last.
    pub(super) restored: Revision,
    backups: Vec<(u64, Store)>,
    pub(super) presence: Presence,
}

/// Whether an API server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Gone,
}

/// What a write did to a node. Both are one where it changed nothing.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) before: Arc<Value>,
    pub(super) after: Arc<Value>,
}

impl Changed {
    pub(super) fn is_none(&self) -> bool {
        Arc::ptr_eq(&self.before, &self.after)
    }
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            store: Store::default(),
            revision: 100 * STRIDE,
            epoch: 0,
            restored: Revision::Lower,
            backups: Vec::new(),
            presence: Presence::There,
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        self.presence == Presence::Gone
    }

    /// The revision of the next write.
    fn next(&mut self) -> u64 {
        self.revision += STRIDE;
        self.revision
    }

    pub(super) fn node(&self, name: &str) -> Option<&Value> {
        self.store.nodes.get(name).map(Arc::as_ref)
    }

    pub(super) fn create_node(&mut self, name: &str, uid: &str, body: &Value) -> Result<(), Refused> {
        if self.store.nodes.contains_key(name) {
            return Err(Refused::Exists);
        }
        let mut node = body.clone();
        node["metadata"]["uid"] = uid.into();
        node["metadata"]["resourceVersion"] = self.next().to_string().into();
        self.store.nodes.insert(name.to_owned(), Arc::new(node));
        Ok(())
    }

    /// A JSON merge patch of a node. A `judged` version that is not the present one is refused; what changes nothing makes no
    /// new version.
    pub(super) fn patch_node(&mut self, name: &str, body: &Value, judged: Option<&str>) -> Result<Changed, Refused> {
        let before = self.store.nodes.get(name).cloned().ok_or(Refused::NotFound)?;
        let version = before["metadata"]["resourceVersion"].clone();
        if judged.is_some_and(|judged| version != judged) {
            return Err(Refused::Conflict);
        }
        let mut after = Value::clone(&before);
        apply(&mut after, body);
        after["metadata"]["resourceVersion"] = version;
        if after == *before {
            return Ok(Changed { after: Arc::clone(&before), before });
        }
        after["metadata"]["resourceVersion"] = self.next().to_string().into();
        let after = Arc::new(after);
        if is_terminating(&after) && !has_finalizers(&after) {
            self.forget_node(name);
        } else {
            self.store.nodes.insert(name.to_owned(), Arc::clone(&after));
        }
        Ok(Changed { before, after })
    }

    /// A change by a client whose precondition always holds.
    pub(super) fn edit_node(&mut self, name: &str, patch: &Value) {
        let _ = self.patch_node(name, patch, None);
    }

    /// Deletes a node of this UID. Its finalizers keep it.
    pub(super) fn delete_node(
        &mut self,
        name: &str,
        uid: &str,
        judged: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let node = self.store.nodes.get(name).cloned().ok_or(Refused::NotFound)?;
        let metadata = &node["metadata"];
        if metadata["uid"] != uid || judged.is_some_and(|judged| metadata["resourceVersion"] != judged) {
            return Err(Refused::Conflict);
        }
        if !has_finalizers(&node) {
            self.next();
            self.forget_node(name);
        } else if !is_terminating(&node) {
            self.edit_node(name, &json!({"metadata": {"deletionTimestamp": now.to_string()}}));
        }
        Ok(())
    }

    /// Its lease goes with it: the node owns it.
    fn forget_node(&mut self, name: &str) {
        self.store.nodes.remove(name);
        self.store.leases.remove(name);
    }

    pub(super) fn put_pod(&mut self, mut pod: Pod) {
        pod.version = self.next();
        self.store.pods.insert(pod.key(), Arc::new(pod));
    }

    pub(super) fn edit_pod(&mut self, key: &str, edit: impl FnOnce(&mut Pod)) {
        let Some(stored) = self.store.pods.get(key) else { return };
        let mut pod = Pod::clone(stored);
        edit(&mut pod);
        self.put_pod(pod);
    }

    pub(super) fn drop_pod(&mut self, key: &str) {
        if self.store.pods.remove(key).is_some() {
            self.next();
        }
    }

    pub(super) fn put_policy(&mut self, mut policy: StoredPolicy) {
        policy.version = self.next();
        self.store.policies.insert(policy.object.name.clone(), Arc::new(policy));
    }

    pub(super) fn drop_policy(&mut self, name: &str) {
        if self.store.policies.remove(name).is_some() {
            self.next();
        }
    }

    pub(super) fn back_up(&mut self) {
        self.backups.push((self.revision, self.store.clone()));
        if self.backups.len() > KEPT {
            self.backups.remove(0);
        }
    }

    /// The latest backup that is like this.
    pub(super) fn backup(&self, is_wanted: impl Fn(&Store) -> bool) -> Option<usize> {
        self.backups.iter().rposition(|(_, store)| is_wanted(store))
    }

    /// Goes back to a backup.
    pub(super) fn restore(&mut self, backup: usize, revision: Revision) {
        self.backups.truncate(backup + 1);
        let (then, store) = self.backups[backup].clone();
        self.epoch += 1;
        let from = match revision {
            Revision::Lower => then / STRIDE,
            Revision::Raised => self.revision / STRIDE + RAISE,
        };
        self.revision = from * STRIDE + self.epoch;
        self.restored = revision;
        self.store = store;
    }
}

pub(super) fn is_terminating(node: &Value) -> bool {
    node["metadata"]["deletionTimestamp"].is_string()
}

fn has_finalizers(node: &Value) -> bool {
    node["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}
