//! What a binding left that does not exist any more, and what of it an operator may remove (`lend release`; decisions S6, S7,
//! S22 and S23).
//!
//! Owns the verdict on each object of the two clusters: it goes, or it stays and why ([`decide`]). Owns the steps by which an
//! orphaned virtual node is taken away too, which are those of [`deletion`](crate::deletion) ([`leave`]). Never decides that
//! a binding is gone: the caller lists the ClusterBindings live, or an operator says that their whole cluster is gone. Never
//! gives an object whose UID or resourceVersion is not known: no request could be made that meets no other. Never gives a physical
//! pod outside of the namespace that the Lease of its binding took.
//!
//! # Failure story
//!
//! A binding may be applied again while a person reads the list. So the caller decides again before it removes anything, with
//! new lists, and removes only what was on the first list too. What a binding of the same name takes over is left to it.

mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};
use topoloom_core::names::Uid;
use topoloom_core::text::line;
use topoloom_core::version::ResourceVersion;

pub use self::node::{Former, NoFormer, former, leave};
use crate::identity::claim_parts;
use crate::identity::mapping::VirtualPodRef;
use crate::keys;
use crate::naming::{BindingName, label_value};
use crate::pods::{PhysicalPod, VirtualPod, is_named_by, orphan_of};
use crate::precondition::Precondition;

/// How much of a foreign value a message repeats.
const SHOWN: usize = 80;

/// An object, as far as its owner shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Object {
    /// Its namespace, where it is in one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// What an operator wants to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Everything of the virtual cluster that belongs to no binding.
    Everything,
    /// What earlier bindings of this name left.
    Binding(BindingName),
    /// What is left of the node of this name, a virtual or a physical one.
    Node(String),
}

/// A ClusterBinding that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: BindingName,
    /// Its `spec.clusterID`; `None`: its spec cannot be read.
    pub cluster: Option<String>,
}

/// Which ClusterBindings of the virtual cluster exist.
#[derive(Debug, Clone, Copy)]
pub enum Bindings<'a> {
    /// These, by a live list.
    Listed(&'a BTreeMap<Uid, Standing>),
    /// None: an operator says that the virtual cluster is gone for good.
    ClusterGone,
}

/// What a verdict follows from. All of it was read live.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseFacts<'a> {
    /// The identity of the virtual cluster.
    pub virtual_cluster: &'a str,
    /// What is to be released.
    pub asked: &'a Asked,
    /// The bindings that exist.
    pub bindings: Bindings<'a>,
    /// Nodes of the virtual cluster with a label of identity.
    pub lent: &'a [Object],
    /// Nodes of the physical cluster.
    pub machines: &'a [Object],
    /// Pods of the physical cluster with labels of this virtual cluster.
    pub pods: &'a [PhysicalPod],
    /// Leases of the physical cluster with labels of this virtual cluster.
    pub leases: &'a [Object],
    /// Pods of the virtual cluster.
    pub twins: &'a [VirtualPod],
}

/// What kind of thing it is, in the order in which they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A virtual node.
    LentNode,
    /// The claim on a physical node, with the label of its policy.
    Claim,
    /// A physical pod.
    Pod,
    /// The Lease by which a borrower took its namespace.
    Lease,
}

/// Something that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// The namespace of the object, where it is in one.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The binding that left it; `None` for a claim that names none.
    pub binding: Option<Uid>,
    /// What the request must carry.
    pub precondition: Precondition,
    /// When it can go.
    pub when: When,
}

/// When something can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// When this virtual node is gone: until then the machine, or the pod, may be in use.
    After(String),
}

/// Something that stays although it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub kind: Kind,
    /// The namespace of the object, where it is in one.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// Why it stays.
    pub why: WhyKept,
}

/// Why something stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyKept {
    /// The binding that it belongs to exists.
    Stands(BindingName),
    /// A binding of the same name exists, and takes it over.
    TakenOver(BindingName),
    /// A binding of the same name exists, and cannot take it over: it has another `clusterID`.
    OtherId(BindingName),
    /// It belongs to this other virtual cluster.
    OtherCluster(String),
    /// A virtual pod belongs to it.
    InUse,
    /// It is outside of the namespace that its binding borrowed.
    Elsewhere,
    /// No Lease is left that shows which namespace its binding borrowed.
    NoLease,
    /// This virtual node of the machine stays.
    StillLent(String),
    /// Pods of its binding stay in its namespace, and it keeps other borrowers out of that.
    PodsStay,
    /// Its UID or resourceVersion is not known.
    Unguarded,
}

/// What goes and what stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Release {
    /// What goes, in this order.
    pub items: Vec<Item>,
    /// What was looked at and stays.
    pub kept: Vec<Kept>,
}

/// Whose an object is, by its labels.
enum Verdict {
    /// A binding that is gone, of this UID.
    Former(Uid),
    /// It stays.
    Kept(WhyKept),
    /// It is of another virtual cluster, or of none.
    NotOurs,
}

/// What goes and what stays.
#[must_use]
pub fn decide(facts: &ReleaseFacts<'_>) -> Release {
    let mut release = Release::default();
    facts.lent_nodes(&mut release);
    facts.claims(&mut release);
    facts.physical_pods(&mut release);
    facts.borrower_leases(&mut release);
    release
}

/// The patch that takes a claim, and the label of the policy, off a physical node that is as it was judged.
#[must_use]
pub fn without_claim(precondition: &Precondition) -> Value {
    json!({"metadata": {
        "uid": &**precondition.uid(),
        "resourceVersion": &**precondition.version(),
        "labels": {keys::POLICY_APPLIED: null},
        "annotations": {keys::LEASED_BY: null},
    }})
}

/// The physical node that a virtual one names.
#[must_use]
pub fn physical_name(lent: &Object) -> Option<&str> {
    let name = lent.annotations.get(keys::PHYSICAL_NODE_NAME).or_else(|| lent.labels.get(keys::PHYSICAL_NODE_NAME));
    name.map(String::as_str)
}

impl ReleaseFacts<'_> {
    fn verdict(&self, labels: &BTreeMap<String, String>) -> Verdict {
        let label = |key: &str| labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let (Some(cluster), Some(binding), Some(uid)) =
            (label(keys::VIRTUAL_CLUSTER), label(keys::BINDING), label(keys::BINDING_UID))
        else {
            return Verdict::NotOurs;
        };
        if cluster != self.virtual_cluster {
            return Verdict::NotOurs;
        }
        let standing = match self.bindings {
            Bindings::ClusterGone => return Verdict::Former(uid.into()),
            Bindings::Listed(standing) => standing,
        };
        if let Some(known) = standing.get(uid) {
            return Verdict::Kept(WhyKept::Stands(known.name.clone()));
        }
        match standing.values().find(|known| label_value(&known.name) == binding) {
            Some(known) if takes_over(labels, known.cluster.as_deref()) => {
                Verdict::Kept(WhyKept::TakenOver(known.name.clone()))
            }
            Some(known) => Verdict::Kept(WhyKept::OtherId(known.name.clone())),
            None => Verdict::Former(uid.into()),
        }
    }

    /// Whether the labels are those of the binding that was asked for. Every binding was, where everything was.
    fn is_of_asked_binding(&self, labels: &BTreeMap<String, String>) -> bool {
        match self.asked {
            Asked::Everything => true,
            Asked::Binding(name) => labels.get(keys::BINDING).is_some_and(|binding| *binding == label_value(name)),
            Asked::Node(_) => false,
        }
    }

    fn lent_nodes(&self, release: &mut Release) {
        for node in self.lent {
            let is_asked = match self.asked {
                Asked::Everything | Asked::Binding(_) => self.is_of_asked_binding(&node.labels),
                Asked::Node(name) => node.name == *name || physical_name(node) == Some(name.as_str()),
            };
            if !is_asked {
                continue;
            }
            match self.verdict(&node.labels) {
                Verdict::Former(uid) => release.give(Kind::LentNode, node, Some(uid), When::Now),
                Verdict::Kept(why) => release.keep(Kind::LentNode, node, why),
                Verdict::NotOurs => {}
            }
        }
    }

    /// The UIDs of the bindings that were asked for and are gone, as far as what they left says them.
    fn former_uids(&self) -> BTreeSet<&str> {
        let of_objects = self.lent.iter().chain(self.leases).map(|object| &object.labels);
        let all = of_objects.chain(self.pods.iter().map(|pod| &pod.labels));
        let asked = all.filter(|labels| self.is_of_asked_binding(labels));
        let is_gone = |labels: &&BTreeMap<String, String>| match self.verdict(labels) {
            Verdict::Former(_) | Verdict::Kept(WhyKept::TakenOver(_) | WhyKept::OtherId(_)) => true,
            Verdict::Kept(_) | Verdict::NotOurs => false,
        };
        asked.filter(is_gone).filter_map(|labels| labels.get(keys::BINDING_UID).map(String::as_str)).collect()
    }

    fn claims(&self, release: &mut Release) {
        let former = self.former_uids();
        for machine in self.machines {
            let Some(value) = machine.annotations.get(keys::LEASED_BY) else { continue };
            let is_named = match self.asked {
                Asked::Everything | Asked::Binding(_) => false,
                Asked::Node(name) => {
                    machine.name == *name || self.lent.iter().any(|node| node.name == *name && is_for(node, machine))
                }
            };
            let Some((cluster, uid)) = claim_parts(value) else {
                // A typing error is the claim of no one. It goes where exactly this node was asked for.
                if is_named {
                    release.give(Kind::Claim, machine, None, When::Now);
                }
                continue;
            };
            if cluster != self.virtual_cluster {
                if is_named {
                    release.keep(Kind::Claim, machine, WhyKept::OtherCluster(cluster.to_owned()));
                }
                continue;
            }
            let is_asked = match self.asked {
                Asked::Everything => true,
                Asked::Binding(_) => former.contains(uid),
                Asked::Node(_) => is_named,
            };
            if is_asked {
                self.claim(release, machine, uid);
            }
        }
    }

    fn claim(&self, release: &mut Release, machine: &Object, uid: &str) {
        if let Bindings::Listed(standing) = self.bindings
            && let Some(known) = standing.get(uid)
        {
            return release.keep(Kind::Claim, machine, WhyKept::Stands(known.name.clone()));
        }
        let lent = self.lent.iter().find(|node| is_for(node, machine));
        let when = match lent {
            None => When::Now,
            Some(node) if goes(release, &node.name) => When::After(node.name.clone()),
            Some(node) => return release.keep(Kind::Claim, machine, WhyKept::StillLent(node.name.clone())),
        };
        release.give(Kind::Claim, machine, Some(uid.into()), when);
    }

    fn physical_pods(&self, release: &mut Release) {
        let by_name: BTreeMap<(&str, &str), &VirtualPod> =
            self.twins.iter().map(|twin| ((twin.namespace.as_str(), twin.name.as_str()), twin)).collect();
        for pod in self.pods.iter().filter(|pod| !pod.deleting && is_managed(&pod.labels)) {
            let on = pod.annotations.get(keys::VIRTUAL_NODE_NAME);
            let is_asked = match self.asked {
                Asked::Everything | Asked::Binding(_) => self.is_of_asked_binding(&pod.labels),
                Asked::Node(name) => {
                    let is_its = |node: &Object| on == Some(&node.name) && physical_name(node) == Some(name.as_str());
                    on == Some(name) || self.lent.iter().any(is_its)
                }
            };
            if !is_asked {
                continue;
            }
            let object = as_object(pod);
            let uid = match self.verdict(&pod.labels) {
                Verdict::Former(uid) => uid,
                // What the new binding of that name does not take over is a pod without a virtual one.
                Verdict::Kept(WhyKept::TakenOver(_) | WhyKept::OtherId(_)) => {
                    pod.labels.get(keys::BINDING_UID).map(String::as_str).unwrap_or_default().into()
                }
                Verdict::Kept(why) => {
                    release.keep(Kind::Pod, &object, why);
                    continue;
                }
                Verdict::NotOurs => continue,
            };
            if let Some(why) = self.not_borrowed(pod) {
                release.keep(Kind::Pod, &object, why);
                continue;
            }
            let twin = match VirtualPodRef::read(&pod.annotations) {
                Ok(named) => by_name.get(&(named.namespace.as_str(), named.name.as_str())).copied(),
                Err(_) => self.twins.iter().find(|twin| is_named_by(pod, twin)),
            };
            if orphan_of(pod, twin).is_some() {
                release.give(Kind::Pod, &object, Some(uid), When::Now);
                continue;
            }
            match on.filter(|on| goes(release, on)) {
                Some(node) => release.give(Kind::Pod, &object, Some(uid), When::After(node.clone())),
                None => release.keep(Kind::Pod, &object, WhyKept::InUse),
            }
        }
    }

    /// Why a pod is not in a namespace that its binding took by a Lease: a lender may have copied a manifest with all of its labels, and
    /// no syncer touches such a pod either. The Lease goes last, so it is there as long as a pod of the binding is.
    fn not_borrowed(&self, pod: &PhysicalPod) -> Option<WhyKept> {
        let is_of_its_binding = |lease: &&Object| {
            let is_same = |key: &str| lease.labels.get(key) == pod.labels.get(key);
            is_managed(&lease.labels) && is_same(keys::VIRTUAL_CLUSTER) && is_same(keys::BINDING)
        };
        let namespaces: BTreeSet<&str> =
            self.leases.iter().filter(is_of_its_binding).filter_map(|lease| lease.namespace.as_deref()).collect();
        match (namespaces.is_empty(), namespaces.contains(pod.namespace.as_str())) {
            (true, _) => Some(WhyKept::NoLease),
            (false, false) => Some(WhyKept::Elsewhere),
            (false, true) => None,
        }
    }

    fn borrower_leases(&self, release: &mut Release) {
        for lease in self.leases.iter().filter(|lease| is_managed(&lease.labels)) {
            if !self.is_of_asked_binding(&lease.labels) {
                continue;
            }
            match self.verdict(&lease.labels) {
                Verdict::Former(uid) if self.pods_stay(release, lease, &uid) => {
                    release.keep(Kind::Lease, lease, WhyKept::PodsStay);
                }
                Verdict::Former(uid) => release.give(Kind::Lease, lease, Some(uid), When::Now),
                Verdict::Kept(why) => release.keep(Kind::Lease, lease, why),
                Verdict::NotOurs => {}
            }
        }
    }

    /// Whether pods of a binding that is gone stay in the namespace of its Lease. Those that terminate already do not.
    fn pods_stay(&self, release: &Release, lease: &Object, uid: &Uid) -> bool {
        let is_its = |pod: &&PhysicalPod| {
            let label = |key: &str| pod.labels.get(key).map(String::as_str);
            !pod.deleting
                && is_managed(&pod.labels)
                && lease.namespace.as_deref() == Some(pod.namespace.as_str())
                && label(keys::VIRTUAL_CLUSTER) == Some(self.virtual_cluster)
                && label(keys::BINDING) == lease.labels.get(keys::BINDING).map(String::as_str)
                && label(keys::BINDING_UID) == Some(&**uid)
        };
        let leaves = |pod: &PhysicalPod| {
            release.items.iter().any(|item| item.kind == Kind::Pod && *item.precondition.uid() == pod.uid)
        };
        self.pods.iter().filter(is_its).any(|pod| !leaves(pod))
    }
}

/// Whether a binding with this `clusterID` takes over an object with these labels that an earlier one of its name left. Names that were
/// given under another `clusterID` are not its own. Pods say none: it is no part of their names. A binding whose `clusterID` cannot be read
/// may be the one.
#[must_use]
pub fn takes_over(labels: &BTreeMap<String, String>, cluster: Option<&str>) -> bool {
    let said = labels.get(keys::PHYSICAL_CLUSTER_ID);
    said.zip(cluster).is_none_or(|(said, cluster)| said == cluster)
}

fn is_managed(labels: &BTreeMap<String, String>) -> bool {
    labels.get(keys::MANAGED_BY_LABEL).is_some_and(|by| by == keys::MANAGED_BY)
}

/// Whether a virtual node is for this machine. Machines of two physical clusters may have one name, and a label that a person edited
/// is repaired, and not obeyed (decision S22).
fn is_for(lent: &Object, machine: &Object) -> bool {
    let said: Vec<&String> =
        [&lent.labels, &lent.annotations].into_iter().filter_map(|map| map.get(keys::PHYSICAL_NODE_UID)).collect();
    let is_its = |uid: &&String| **uid == label_value(&machine.uid) || **uid == machine.uid;
    physical_name(lent) == Some(machine.name.as_str()) && (said.is_empty() || said.iter().any(is_its))
}

/// Whether the virtual node of this name is among what goes.
fn goes(release: &Release, lent: &str) -> bool {
    release.items.iter().any(|item| item.kind == Kind::LentNode && item.name == lent)
}

fn as_object(pod: &PhysicalPod) -> Object {
    Object {
        namespace: Some(pod.namespace.clone()),
        name: pod.name.clone(),
        uid: pod.uid.to_string(),
        version: pod.version.clone(),
        labels: pod.labels.clone(),
        annotations: BTreeMap::new(),
    }
}

impl Release {
    /// What stays of that which was asked for. Where everything was asked for, what belongs to a binding was not.
    pub fn told(&self, asked: &Asked) -> impl Iterator<Item = &Kept> {
        let is_everything = *asked == Asked::Everything;
        self.kept.iter().filter(move |kept| !(is_everything && kept.why.is_owned()))
    }

    fn keep(&mut self, kind: Kind, object: &Object, why: WhyKept) {
        let (namespace, name) = (object.namespace.clone(), object.name.clone());
        self.kept.push(Kept { kind, namespace, name, why });
    }

    fn give(&mut self, kind: Kind, object: &Object, binding: Option<Uid>, when: When) {
        match Precondition::of(&object.uid.as_str().into(), &object.version) {
            None => self.keep(kind, object, WhyKept::Unguarded),
            Some(precondition) => {
                let (namespace, name) = (object.namespace.clone(), object.name.clone());
                self.items.push(Item { kind, namespace, name, binding, precondition, when });
            }
        }
    }
}

impl WhyKept {
    /// Whether it belongs to a binding that exists, or may, or to no binding at all.
    fn is_owned(&self) -> bool {
        match self {
            Self::Stands(_) | Self::TakenOver(_) | Self::OtherCluster(_) | Self::Elsewhere => true,
            Self::OtherId(_) | Self::InUse | Self::NoLease | Self::StillLent(_) | Self::PodsStay | Self::Unguarded => {
                false
            }
        }
    }
}

impl Kind {
    /// The word of the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::LentNode => "virtual-node",
            Self::Claim => "claim",
            Self::Pod => "pod",
            Self::Lease => "lease",
        }
    }
}

impl Item {
    /// Whether both are about the same object.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |item: &Self| (item.kind, item.namespace.clone(), item.name.clone(), item.precondition.uid().clone());
        key(self) == key(other)
    }
}

impl fmt::Display for WhyKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands(name) => write!(f, "it belongs to ClusterBinding {name}, which exists"),
            Self::TakenOver(name) => write!(f, "ClusterBinding {name} exists, and takes over what an earlier one left"),
            Self::OtherId(name) => write!(
                f,
                "ClusterBinding {name} exists and has another clusterID, so it cannot take it over; it can go once that binding is deleted"
            ),
            Self::OtherCluster(cluster) => {
                write!(f, "a binding of another virtual cluster has it, {}", line(cluster, SHOWN))
            }
            Self::InUse => f.write_str("a virtual pod belongs to it"),
            Self::Elsewhere => {
                f.write_str("it is outside of the namespace that its binding borrowed, so another made it")
            }
            Self::NoLease => f.write_str(
                "no Lease shows which namespace its binding borrowed, so another may have made it; kubectl delete pod removes it",
            ),
            Self::StillLent(node) => write!(f, "its virtual node {node} stays"),
            Self::PodsStay => f.write_str("pods of its binding stay in its namespace"),
            Self::Unguarded => f.write_str("its UID or resourceVersion is not known"),
        }
    }
}
