//! Placeholder pods for host ports: a port of a machine that a pod of the lender holds must look taken to the virtual scheduler
//! (`bottomup-syncer.md` 11.2, decisions S3 and S6).
//!
//! Owns what a host port is, which placeholders a virtual node has to have, and the next request on the way there. Never touches a
//! pod that is not ours, never lets two placeholders hold one port, and takes no cache as proof that a node is gone.
//!
//! # One placeholder for each pod of the lender
//!
//! kube-scheduler keeps the ports of a node as a set and does not count: when one of two pods that hold a port goes, the port is free
//! for it, although the other pod is there. And the ports of a pod never change. If one placeholder held all ports of a machine, each
//! change would replace it: made before the old one goes, the new one loses the ports that both hold; made after it, the ports are
//! free in between, just when pods that wait for one are tried again. Therefore each port is in one placeholder alone, and ports that
//! one pod of the lender holds come and go together. A new placeholder is made before one that is not needed goes, unless both hold
//! a port: that needs two pods of the lender with one port, of which one is on its way out.
//!
//! # Failure story
//!
//! What is not known leads to no order: which pods hold ports, whether the virtual node is ours, or whose a placeholder is. Where
//! something forbids writes a placeholder stays as it is; that a port looks taken for too long does less harm than a pod that its
//! kubelet refuses. A placeholder that ended holds nothing: it goes and is made again. What an answer that was lost has made has the
//! name that is wanted, so it is found and not made twice. All placeholders go with the virtual node that owns them, also where no
//! syncer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::bars::{Bar, Bars, Doing};
use super::csi::Presence;
use super::deletion::Existence;
use super::identity::{Earlier, Identity, Owner, Ownership, WhyForeign};
use super::keys;
use super::naming::{ClusterId, NameTaken, placeholder_name, same_origin};
use super::phase::Phase;
use super::precondition::Precondition;
use super::texts::Keyed;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;

/// The address of a port that is held on every address of a machine.
pub const EVERYWHERE: &str = "0.0.0.0";
/// How many ports of one machine are held at most: a pod with so many has some hundred KiB, and API servers take one and a half MiB.
/// Machines have a dozen.
pub const MOST: usize = 1_000;
/// The priority of placeholders, the highest that every cluster has: kube-scheduler evicts pods of a lower one to free their ports.
const PRIORITY: &str = "system-node-critical";
/// What a placeholder would run. No kubelet is there, so it is never pulled.
const IMAGE: &str = "registry.k8s.io/pause:3.10";
/// The condition by which other programs know a pod that waits for no scheduler.
const SCHEDULED: &str = "PodScheduled";

/// A protocol that can have host ports, in the order of their words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// SCTP.
    Sctp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sctp, Self::Tcp, Self::Udp];

    /// The word of Kubernetes.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// Reads a word; without one it is TCP. `None`: it is none that Kubernetes knows.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        if word.is_empty() {
            return Some(Self::Tcp);
        }
        Self::ALL.into_iter().find(|protocol| protocol.word() == word)
    }
}

/// A port of a machine that a pod holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    address: Box<str>,
    protocol: Protocol,
    number: u16,
}

impl HostPort {
    /// Reads the fields of a container's port; `None` where it holds no port of the machine. An address that is none counts as every
    /// address: less would say that the port is free.
    #[must_use]
    pub fn read(address: &str, protocol: &str, number: u16) -> Option<Self> {
        let address = if address.parse::<IpAddr>().is_ok() { address } else { EVERYWHERE };
        let protocol = Protocol::read(protocol)?;
        (number > 0).then(|| Self { address: address.into(), protocol, number })
    }
}

/// Whether host ports are held at all (`spec.hostPorts`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mirroring {
    /// They are not.
    #[default]
    Off,
    /// They are.
    On,
}

/// Whether the virtual node stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// It does.
    Lent,
    /// It is being taken away: no new pod comes to it, and its placeholders go as its other pods.
    Leaves,
}

/// The virtual node.
#[derive(Debug, Clone, Copy)]
pub struct HoldingNode<'a> {
    /// Its UID.
    pub uid: &'a Uid,
    /// Its labels.
    pub labels: &'a dyn Keyed,
    /// Whether it stays.
    pub stay: Stay,
}

/// Whether a placeholder says that it is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// It has conditions.
    Yes,
    /// It has none: it was made a moment ago.
    No,
}

/// A pod in the namespace of placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The UID of the Node that owns it.
    pub owner: Option<Uid>,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// Its phase.
    pub phase: Phase,
    /// Whether it says that it is scheduled.
    pub marked: Marked,
    /// The host ports that it holds.
    pub ports: Vec<HostPort>,
}

/// Whether the guard holds what follows for the node (decision S9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarding {
    /// It does not.
    Free,
    /// It does, and nothing else happens to the node.
    Holds,
}

/// What a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// Our cluster id.
    pub cluster: &'a ClusterId,
    /// The virtual node.
    pub name: &'a NodeName,
    /// Whether host ports are held.
    pub mirroring: Mirroring,
    /// The virtual node; `None` where the cache has none. That proves nothing.
    pub node: Option<HoldingNode<'a>>,
    /// What a live read of it said, where the cache has none.
    pub live: Presence,
    /// The physical node; `None` where it is not known.
    pub physical: Option<&'a str>,
    /// For each pod of others on the physical node the ports that it holds; `None` where the pods are not known.
    pub held: Option<&'a [&'a [HostPort]]>,
    /// The placeholders on the virtual node, also those of others, and the pod that has the name of a new one.
    pub placeholders: &'a [&'a Placeholder],
    /// The UIDs of all ClusterBindings by a live list, where one was made for this decision.
    pub bindings: Option<&'a BTreeSet<Uid>>,
    /// What forbids writes now.
    pub bars: &'a Bars,
    /// Whether the guard does.
    pub guard: Guarding,
}

/// What follows for the placeholders of a virtual node.
#[derive(Debug, Clone, PartialEq)]
pub enum PortOrder {
    /// Nothing.
    Nothing(WhyNothing),
    /// Make this pod. Where one of that name exists: read it live, and decide again.
    Create {
        /// Its name.
        name: String,
        /// The pod.
        body: Value,
    },
    /// Write this to `pods/status`, as a JSON merge patch which carries the resourceVersion: the pod waits for no scheduler.
    Mark {
        /// The name of the placeholder.
        name: String,
        /// The patch.
        body: Value,
    },
    /// Delete this placeholder with grace 0: it runs nothing.
    Delete {
        /// Its name.
        name: String,
        /// Why.
        why: WhyGone,
        /// What the request must carry.
        precondition: Precondition,
    },
    /// List the ClusterBindings live, look for this UID, and decide again.
    AskBinding(Uid),
    /// Read the virtual node live, and decide again.
    AskNode,
    /// Something would be written, and this forbids it now.
    Withheld(Hindrance),
}

/// What forbids a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hindrance {
    /// A state of the binding.
    Bar(Bar),
    /// The guard holds what follows for the node.
    Guard,
}

/// Why nothing follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNothing {
    /// The ports that are held are held by placeholders.
    Same,
    /// No port has to be held, and no placeholder is there.
    Absent,
    /// It is not known which ports are held.
    Unlisted,
    /// The virtual node is not ours, or has to be adopted first.
    ForeignNode,
    /// The virtual node is not of this physical one.
    OtherNode(NameTaken),
    /// A pod that is not ours has the name.
    Foreign {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Uid,
        /// Why it is not ours.
        why: WhyForeign,
    },
    /// A placeholder that has to go first is being deleted.
    Terminating,
    /// A cache is behind a live read: it will follow.
    CacheBehind,
    /// A UID or version is not known, so no safe request can be made.
    Unguarded,
}

/// Why a placeholder is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyGone {
    /// It holds a port that no pod of the lender holds, or that another placeholder holds, or it is of another node.
    Stale,
    /// It ended, so it holds nothing.
    Ended,
    /// Host ports are not held any more.
    Off,
    /// The virtual node is being taken away.
    NodeLeaves,
    /// The virtual node is gone.
    NodeGone,
}

impl WhyGone {
    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Ended => "ended",
            Self::Off => "off",
            Self::NodeLeaves => "node-leaves",
            Self::NodeGone => "node-gone",
        }
    }
}

/// The next request for the placeholders of one virtual node, at this time of the day.
#[must_use]
pub fn decide(facts: &Facts<'_>, now: Timestamp) -> PortOrder {
    let wanted = match facts.wanted() {
        Ok(wanted) => wanted,
        Err(why) => return PortOrder::Nothing(why),
    };
    let ours = match facts.ours() {
        Ok(ours) => ours,
        Err(uid) => return PortOrder::AskBinding(uid),
    };
    match wanted {
        Wanted::Nothing(why) => leave(facts, why, &ours),
        Wanted::Held { node, held } => hold(facts, node, &wanted_groups(held).groups, &ours, now),
    }
}

/// How many of these ports are not held because there are too many, at least.
#[must_use]
pub fn left_out(held: &[&[HostPort]]) -> usize {
    wanted_groups(held).left_out
}

/// What has to be there.
enum Wanted<'a> {
    /// No placeholder.
    Nothing(WhyGone),
    /// Placeholders for these ports on the node with this UID.
    Held { node: &'a Uid, held: &'a [&'a [HostPort]] },
}

/// A placeholder that is ours.
struct Mine<'a> {
    placeholder: &'a Placeholder,
    /// An earlier binding of our name made it, which is gone.
    is_of_earlier: bool,
}

impl Mine<'_> {
    /// Whether it is there and of this node, whichever ports it holds.
    fn is_of(&self, node: &Uid) -> bool {
        let Placeholder { owner, existence, phase, ports, .. } = self.placeholder;
        let is_there = *existence == Existence::Alive && !phase.is_final() && !ports.is_empty();
        is_there && !self.is_of_earlier && owner.as_ref() == Some(node)
    }
}

impl<'a> Facts<'a> {
    fn wanted(&self) -> Result<Wanted<'a>, WhyNothing> {
        if self.mirroring == Mirroring::Off {
            return Ok(Wanted::Nothing(WhyGone::Off));
        }
        let Some(node) = self.node else { return Ok(Wanted::Nothing(WhyGone::NodeGone)) };
        if Ownership::of(node.labels, self.identity) != Ownership::Ours {
            return Err(WhyNothing::ForeignNode);
        }
        if node.stay == Stay::Leaves {
            return Ok(Wanted::Nothing(WhyGone::NodeLeaves));
        }
        let (Some(physical), Some(held)) = (self.physical, self.held) else { return Err(WhyNothing::Unlisted) };
        let origin = self.identity.node_labels(self.cluster, physical);
        same_origin(node.labels, &origin).map_err(WhyNothing::OtherNode)?;
        if node.uid.is_empty() {
            return Err(WhyNothing::Unguarded);
        }
        Ok(Wanted::Held { node: node.uid, held })
    }

    /// The placeholders that are ours, by their names.
    ///
    /// # Errors
    /// Whose one of them is has to be asked first.
    fn ours(&self) -> Result<Vec<Mine<'a>>, Uid> {
        let mut ours = Vec::with_capacity(self.placeholders.len());
        for placeholder in self.placeholders.iter().copied() {
            match self.owner(placeholder) {
                Owner::Ours => ours.push(Mine { placeholder, is_of_earlier: false }),
                Owner::Adoptable(_) => ours.push(Mine { placeholder, is_of_earlier: true }),
                Owner::Unknown(uid) => return Err(uid),
                Owner::Foreign(_) => {}
            }
        }
        ours.sort_by(|one, other| one.placeholder.name.cmp(&other.placeholder.name));
        Ok(ours)
    }

    fn owner(&self, placeholder: &Placeholder) -> Owner {
        let ownership = Ownership::of(&placeholder.labels, self.identity);
        let earlier = match (&ownership, self.bindings) {
            (Ownership::OursOfEarlierBinding(uid), Some(bindings)) if bindings.contains(uid) => Earlier::Stands,
            (Ownership::OursOfEarlierBinding(_), Some(_)) => Earlier::Gone,
            (Ownership::OursOfEarlierBinding(_), None)
            | (Ownership::Ours | Ownership::Foreign(_) | Ownership::None, _) => Earlier::Unlisted,
        };
        ownership.resolve(earlier)
    }

    fn hindered(&self, doing: Doing) -> Option<Hindrance> {
        let by_guard = (self.guard == Guarding::Holds).then_some(Hindrance::Guard);
        self.bars.forbid(doing).map(Hindrance::Bar).or(by_guard)
    }

    fn delete(&self, placeholder: &Placeholder, why: WhyGone) -> PortOrder {
        if let Some(why) = self.hindered(Doing::Disrupt) {
            return PortOrder::Withheld(why);
        }
        match Precondition::of(&placeholder.uid, &placeholder.version) {
            Some(precondition) => PortOrder::Delete { name: placeholder.name.clone(), why, precondition },
            None => PortOrder::Nothing(WhyNothing::Unguarded),
        }
    }
}

/// No placeholder may be left.
fn leave(facts: &Facts<'_>, why: WhyGone, ours: &[Mine<'_>]) -> PortOrder {
    let mut placeholders = ours.iter().map(|mine| mine.placeholder);
    let Some(placeholder) = placeholders.find(|placeholder| placeholder.existence == Existence::Alive) else {
        let nothing = if ours.is_empty() { WhyNothing::Absent } else { WhyNothing::Terminating };
        return PortOrder::Nothing(nothing);
    };
    if why == WhyGone::NodeGone && facts.hindered(Doing::Disrupt).is_none() {
        match facts.live {
            Presence::Gone => {}
            Presence::Unasked => return PortOrder::AskNode,
            Presence::Found => return PortOrder::Nothing(WhyNothing::CacheBehind),
        }
    }
    facts.delete(placeholder, why)
}

/// Each of these ports has to be held by one placeholder.
fn hold(facts: &Facts<'_>, node: &Uid, groups: &[Vec<HostPort>], ours: &[Mine<'_>], now: Timestamp) -> PortOrder {
    let wanted: BTreeSet<&HostPort> = groups.iter().flatten().collect();
    let mut held: BTreeSet<&HostPort> = BTreeSet::new();
    let (mut unmarked, mut stale): (Option<&Placeholder>, Vec<&Placeholder>) = (None, Vec::new());
    for mine in ours {
        let placeholder = mine.placeholder;
        let is_needed = |port: &HostPort| wanted.contains(port) && !held.contains(port);
        if mine.is_of(node) && placeholder.ports.iter().all(is_needed) {
            held.extend(&placeholder.ports);
            unmarked = unmarked.or(Some(placeholder).filter(|placeholder| placeholder.marked == Marked::No));
        } else {
            stale.push(placeholder);
        }
    }
    let is_alive = |placeholder: &&&Placeholder| placeholder.existence == Existence::Alive;
    if let Some(ended) = stale.iter().filter(is_alive).find(|placeholder| placeholder.phase.is_final()) {
        return facts.delete(ended, WhyGone::Ended);
    }
    // Whatever goes later takes these with it, also for another placeholder that holds them then.
    let taken_along: BTreeSet<&HostPort> =
        stale.iter().filter(|placeholder| !placeholder.phase.is_final()).flat_map(|it| &it.ports).collect();
    let missing = groups.iter().map(|group| group.iter().filter(|port| !held.contains(*port)).collect::<Vec<_>>());
    let missing: Vec<Vec<&HostPort>> = missing.filter(|group| !group.is_empty()).collect();
    if let Some(group) = missing.iter().find(|group| group.iter().all(|port| !taken_along.contains(*port))) {
        return create(facts, node, group);
    }
    if let Some(placeholder) = stale.iter().find(is_alive) {
        return facts.delete(placeholder, WhyGone::Stale);
    }
    if let Some(placeholder) = unmarked {
        return mark(facts, placeholder, now);
    }
    PortOrder::Nothing(if missing.is_empty() { WhyNothing::Same } else { WhyNothing::Terminating })
}

fn create(facts: &Facts<'_>, node: &Uid, ports: &[&HostPort]) -> PortOrder {
    let of_ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let hashed = format!("{}/{node}/{}", facts.identity.binding_uid(), of_ports.join(","));
    let name = placeholder_name(facts.name, &hashed);
    // One of ours with this name and these ports would hold them.
    if let Some(other) = facts.placeholders.iter().find(|placeholder| placeholder.name == name) {
        return match facts.owner(other) {
            Owner::Foreign(why) => PortOrder::Nothing(WhyNothing::Foreign { name, uid: other.uid.clone(), why }),
            Owner::Unknown(uid) => PortOrder::AskBinding(uid),
            Owner::Ours | Owner::Adoptable(_) if other.existence == Existence::Terminating => {
                PortOrder::Nothing(WhyNothing::Terminating)
            }
            Owner::Ours | Owner::Adoptable(_) => facts.delete(other, WhyGone::Stale),
        };
    }
    if let Some(why) = facts.hindered(Doing::Create) {
        return PortOrder::Withheld(why);
    }
    let body = body(facts, node, &name, ports);
    PortOrder::Create { name, body }
}

/// A pod that kube-scheduler counts on the node, that no controller evicts, and that no kubelet runs.
fn body(facts: &Facts<'_>, node: &Uid, name: &str, ports: &[&HostPort]) -> Value {
    let mut labels = facts.identity.labels();
    labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
    labels.insert(keys::HOST_PORT_PLACEHOLDER.to_owned(), "true".to_owned());
    let port = |(index, port): (usize, &&HostPort)| {
        json!({
            "name": format!("port-{index}"),
            "containerPort": port.number,
            "hostPort": port.number,
            "hostIP": &*port.address,
            "protocol": port.protocol.word(),
        })
    };
    let ports: Vec<Value> = ports.iter().enumerate().map(port).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": keys::HOST_PORT_NAMESPACE,
            "labels": labels,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": &**facts.name, "uid": &**node }],
        },
        "spec": {
            "nodeName": &**facts.name,
            "priorityClassName": PRIORITY,
            "tolerations": [{ "operator": "Exists" }],
            "restartPolicy": "Never",
            // No kubelet is there that would end it: every deletion is done at once.
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "containers": [{ "name": "host-ports", "image": IMAGE, "ports": ports }],
        },
    })
}

/// The status of a pod cannot be created with it.
fn mark(facts: &Facts<'_>, placeholder: &Placeholder, now: Timestamp) -> PortOrder {
    if placeholder.version.is_empty() {
        return PortOrder::Nothing(WhyNothing::Unguarded);
    }
    if let Some(why) = facts.hindered(Doing::Create) {
        return PortOrder::Withheld(why);
    }
    let condition = json!({ "type": SCHEDULED, "status": "True", "lastTransitionTime": format!("{now:.0}") });
    let body = json!({
        "metadata": { "resourceVersion": &*placeholder.version },
        "status": { "conditions": [condition] },
    });
    PortOrder::Mark { name: placeholder.name.clone(), body }
}

/// Ports by the pods that hold them, each once.
struct Groups {
    groups: Vec<Vec<HostPort>>,
    left_out: usize,
}

/// Sorted, so that the same pods give the same groups, in whichever order they came.
fn wanted_groups(held: &[&[HostPort]]) -> Groups {
    let mut sorted = held.to_vec();
    sorted.sort_unstable();
    let mut seen: BTreeSet<&HostPort> = BTreeSet::new();
    let (mut groups, mut left_out) = (Vec::new(), 0_usize);
    for ports in sorted {
        let mut group = Vec::new();
        for port in ports {
            if seen.contains(port) {
                continue;
            }
            if seen.len() == MOST {
                left_out = left_out.saturating_add(1);
                continue;
            }
            seen.insert(port);
            group.push(port.clone());
        }
        if !group.is_empty() {
            groups.push(group);
        }
    }
    Groups { groups, left_out }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.address, self.protocol.word(), self.number)
    }
}

impl fmt::Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bar(bar) => bar.fmt(f),
            Self::Guard => f.write_str("the guard holds what follows for the node"),
        }
    }
}

impl fmt::Display for WhyNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("every port that is held has its placeholder"),
            Self::Absent => f.write_str("no port is held, and there is no placeholder"),
            Self::Unlisted => f.write_str("it is not known which ports are held"),
            Self::ForeignNode => f.write_str("the virtual node is not ours"),
            Self::OtherNode(taken) => write!(f, "the virtual node is not of this physical one: {taken}"),
            Self::Foreign { name, why, .. } => write!(f, "a pod that is not ours has the name {name}: {why}"),
            Self::Terminating => f.write_str("a placeholder is being deleted"),
            Self::CacheBehind => f.write_str("a cache is behind what a live read showed"),
            Self::Unguarded => f.write_str("a UID or resourceVersion is not known"),
        }
    }
}

impl fmt::Display for WhyGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "a port of it is not held, or held by another placeholder",
            Self::Ended => "it ended, so it holds nothing",
            Self::Off => "host ports are not held any more",
            Self::NodeLeaves => "the virtual node is being taken away",
            Self::NodeGone => "the virtual node is gone",
        })
    }
}

impl fmt::Display for PortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(why) => write!(f, "nothing: {why}"),
            Self::Create { name, .. } => write!(f, "create placeholder {name}"),
            Self::Mark { name, .. } => write!(f, "say that placeholder {name} is scheduled"),
            Self::Delete { name, why, .. } => write!(f, "delete placeholder {name}: {why}"),
            Self::AskBinding(uid) => write!(f, "the ClusterBindings are read for the UID {uid}"),
            Self::AskNode => f.write_str("the virtual node is read"),
            Self::Withheld(why) => write!(f, "not written, because {why}"),
        }
    }
}

#[cfg(test)]
mod tests;
