//! What a process has read of both clusters. Each kind of object is as of its own moment.

use super::objects::{Pod, StoredPolicy, labels_of};
use super::server::Store;
use super::*;
use crate::node::scene::{read_lent, read_physical};
use crate::node::{LentNode, PhysicalNode};
use crate::policy::in_force::{Policies, Synced};
use crate::policy::object::Policy;
use crate::policy::validate::validate;

#[derive(Debug, Clone)]
pub(super) struct Cache {
    /// In which history of its server each kind was listed; `None`: it was not.
    epochs: BTreeMap<Kind, u64>,
    pub(super) machines: BTreeMap<String, Arc<PhysicalNode>>,
    /// Virtual nodes of the binding, and what was read live where another one has the name.
    pub(super) lent: BTreeMap<String, Arc<LentNode>>,
    /// Pods of the physical cluster.
    pub(super) copies: BTreeMap<String, Arc<Pod>>,
    /// Pods of the virtual cluster.
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) stored_policies: BTreeMap<String, Arc<StoredPolicy>>,
    pub(super) policies: Policies,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            epochs: BTreeMap::new(),
            machines: BTreeMap::new(),
            lent: BTreeMap::new(),
            copies: BTreeMap::new(),
            pods: BTreeMap::new(),
            stored_policies: BTreeMap::new(),
            policies: Policies::new(US),
        }
    }

    /// Nothing counts as listed any more.
    pub(super) fn forget(&mut self) {
        self.epochs.clear();
    }

    pub(super) fn epoch(&self, kind: Kind) -> Option<u64> {
        self.epochs.get(&kind).copied()
    }

    pub(super) fn is_listed(&self) -> bool {
        self.epochs.len() == Kind::ALL.len()
    }

    /// The virtual pod that a physical one names, if there is one of that name.
    pub(super) fn named(&self, named: &VirtualPodRef) -> Option<&Arc<Pod>> {
        self.pods.get(&objects::key(&named.namespace, &named.name))
    }

    /// A kind is as it is stored now.
    pub(super) fn take(&mut self, kind: Kind, store: &Store, epoch: u64, watch: &Watch<'_>) {
        self.epochs.insert(kind, epoch);
        match kind {
            Kind::Machines => {
                let names: Vec<String> = store.nodes.keys().cloned().collect();
                self.machines.retain(|name, _| store.nodes.contains_key(name));
                names.iter().for_each(|name| self.machine(name, store));
            }
            Kind::Lent => {
                let ours = |(_, node): &(&String, &Arc<Value>)| watch.shows(node);
                let names: Vec<String> = store.nodes.iter().filter(ours).map(|(name, _)| name.clone()).collect();
                self.lent.retain(|name, _| names.contains(name));
                names.iter().for_each(|name| self.lent_node(name, store));
            }
            Kind::Copies => self.copies.clone_from(&store.pods),
            Kind::Pods => self.pods.clone_from(&store.pods),
            Kind::Policies => self.stored_policies.clone_from(&store.policies),
        }
    }

    /// A physical node is as it is stored now.
    pub(super) fn machine(&mut self, name: &str, store: &Store) {
        let Some(node) = store.nodes.get(name) else { return drop(self.machines.remove(name)) };
        let is_known = |known: &Arc<PhysicalNode>| node["metadata"]["resourceVersion"] == *known.version;
        if !self.machines.get(name).is_some_and(is_known) {
            self.machines.insert(name.to_owned(), Arc::new(read_physical(node)));
        }
    }

    /// A virtual node is as it is stored now.
    pub(super) fn lent_node(&mut self, name: &str, store: &Store) {
        let Some(node) = store.nodes.get(name) else { return drop(self.lent.remove(name)) };
        let is_known = |known: &Arc<LentNode>| node["metadata"]["resourceVersion"] == *known.version;
        if !self.lent.get(name).is_some_and(is_known) {
            self.lent.insert(name.to_owned(), Arc::new(read_lent(node)));
        }
    }

    /// A pod of the virtual cluster is as it is stored now.
    pub(super) fn pod(&mut self, key: &str, store: &Store) {
        match store.pods.get(key) {
            Some(pod) => self.pods.insert(key.to_owned(), Arc::clone(pod)),
            None => self.pods.remove(key),
        };
    }

    /// The policies are judged anew. `valid` is what a process remembers that does not read the status of a policy.
    pub(super) fn judge_policies(&mut self, mutation: Mutation, valid: &mut BTreeMap<String, PolicySpec>) {
        self.policies = Policies::new(US);
        self.policies.set_synced(Synced::Yes);
        for stored in self.stored_policies.values() {
            let mut object = stored.object.clone();
            object.last_valid.clone_from(&stored.status.last_valid);
            if mutation == Mutation::LastValidForgotten {
                if validate(&object.spec).is_ok() {
                    valid.insert(object.name.clone(), object.spec.clone());
                }
                object.last_valid = valid.get(&object.name).cloned();
            }
            let _ = self.policies.insert(Policy::new(object));
        }
    }
}

/// Which virtual nodes the watch of a binding shows.
pub(super) struct Watch<'a> {
    pub(super) us: &'a Identity,
    pub(super) mutation: Mutation,
}

impl Watch<'_> {
    fn shows(&self, node: &Value) -> bool {
        let labels = labels_of(node);
        let is_managed = labels.get(keys::MANAGED_BY_LABEL).is_some_and(|by| by == keys::MANAGED_BY);
        names_binding(&labels, self.us) || (self.mutation == Mutation::LabelAlone && is_managed)
    }
}
