//! All machines and their pods as the kubelets know them, and what each of them has to do next.
//!
//! Owns what was observed and decides; [`work`](super::work) makes the requests. A pod whose node is not there, is virtual
//! or is silent is left alone: it waits here until its kubelet speaks.
//!
//! What goes wrong: an event of the watch may be older than what a kubelet wrote last. It counts only if its version is not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use super::admission::{HostPort, Refusal, Room, host_ports};
use super::amounts::{Amounts, add, requested};
use super::life::{Life, Missing};
use super::machine::{Machine, Standing, address, heartbeat, is_virtual, renewal};
use super::needs::{Need, missing, needs};
use super::plan::Plan;
use super::status::{Addresses, gist, status};
use super::work::{Done, Work};
use super::{Beats, Health, Order, Pressure};
use crate::device_plugin::PodName;
use crate::lending::agenda::Agenda;
use crate::lending::{Mistakes, PAUSE, node_of, uid_of, version_of};

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Key {
    /// The lease of a node.
    Lease(Arc<str>),
    /// Its status.
    Node(Arc<str>),
    /// A pod, by its UID.
    Pod(Arc<str>),
}

struct Seat {
    pod: Box<Pod>,
    name: PodName,
    node: Arc<str>,
    life: Life,
    needs: Vec<Need>,
    requested: Amounts,
    ports: Vec<HostPort>,
    number: u32,
    /// What was written last.
    shown: Option<Value>,
    /// The version after that, or of the last event.
    version: u64,
    /// Whether it was deleted for good; a finalizer may keep it.
    buried: bool,
    broken: Option<String>,
}

pub(super) struct World {
    faster: i32,
    usual: Value,
    usual_amounts: Amounts,
    mistakes: Arc<Mistakes>,
    /// The port of the server of logs, if there is one.
    pub(super) streams: Option<u16>,
    pub(super) beats: Beats,
    machines: BTreeMap<Arc<str>, Machine>,
    standings: BTreeMap<Arc<str>, Standing>,
    seats: HashMap<Arc<str>, Seat>,
    /// The pods of each node, in the order of their arrival.
    bound: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    pub(super) agenda: Agenda<Key>,
    next_machine: u32,
    next_pod: u32,
}

impl World {
    pub(super) fn new(faster: i32, usual: Value, usual_amounts: Amounts, mistakes: Arc<Mistakes>) -> Self {
        Self {
            faster,
            usual,
            usual_amounts,
            mistakes,
            streams: None,
            beats: Beats::default(),
            machines: BTreeMap::new(),
            standings: BTreeMap::new(),
            seats: HashMap::new(),
            bound: BTreeMap::new(),
            agenda: Agenda::default(),
            next_machine: 1,
            next_pod: 1,
        }
    }

    /// A Node is so now.
    pub(super) fn node(&mut self, node: &Node, now: Timestamp) {
        let name: Arc<str> = node.metadata.name.as_deref().unwrap_or_default().into();
        if is_virtual(node) {
            self.node_gone(&name);
            return;
        }
        let uid = node.metadata.uid.as_deref().unwrap_or_default();
        if let Some(machine) = self.machines.get_mut(&name).filter(|machine| machine.uid == uid) {
            machine.see(node);
            let standing = self.standings.entry(Arc::clone(&name)).or_default();
            if machine.differs(standing) {
                self.agenda.now(Key::Node(name));
            }
            return;
        }
        let mut machine = Machine::new(node, self.next_machine, &self.usual_amounts, now);
        if let Some(port) = self.streams {
            machine.serves_streams(port);
        }
        self.next_machine += 1;
        if self.machines.insert(Arc::clone(&name), machine).is_some() {
            // Another machine of this name: it knows what the API server knows, and nothing else.
            for uid in self.bound.get(&name).into_iter().flatten() {
                if let Some(seat) = self.seats.get_mut(uid) {
                    (seat.life, seat.shown) = (Life::of(&seat.pod, seat.life.plan, self.faster), None);
                }
            }
        }
        self.speaks(&name);
    }

    /// A Node is gone, and its machine with it.
    pub(super) fn node_gone(&mut self, name: &str) {
        self.machines.remove(name);
    }

    /// A list of all Nodes is complete.
    pub(super) fn only_nodes(&mut self, listed: &HashSet<String>) {
        self.machines.retain(|name, _| listed.contains(&**name));
    }

    /// A pod is so now.
    pub(super) fn pod(&mut self, pod: Pod) {
        let Some(node) = node_of(&pod) else { return };
        let (node, uid): (Arc<str>, Arc<str>) = (node.into(), uid_of(&pod).into());
        let version = version_of(&pod);
        match self.seats.get_mut(&uid) {
            Some(seat) if version < seat.version => return,
            Some(seat) => seat.see(pod),
            None => {
                let plan = Plan::read(pod.metadata.annotations.as_ref());
                let broken = plan.as_ref().err().cloned();
                let life = Life::of(&pod, plan.unwrap_or_default(), self.faster);
                let spec = pod.spec.clone().unwrap_or_default();
                let seat = Seat {
                    name: PodName::of(&pod),
                    node: Arc::clone(&node),
                    life,
                    needs: needs(&spec),
                    requested: requested(&spec),
                    ports: host_ports(&spec),
                    number: self.next_pod,
                    shown: None,
                    version,
                    buried: false,
                    broken,
                    pod: Box::new(slim(pod)),
                };
                self.next_pod += 1;
                self.bound.entry(node).or_default().push(Arc::clone(&uid));
                self.seats.insert(Arc::clone(&uid), seat);
            }
        }
        self.agenda.now(Key::Pod(uid));
    }

    /// A pod is gone: what ran of it ends, and no one sees it.
    pub(super) fn pod_gone(&mut self, uid: &str) {
        if let Some(seat) = self.seats.remove(uid)
            && let Some(list) = self.bound.get_mut(&seat.node)
        {
            list.retain(|other| &**other != uid);
            if list.is_empty() {
                self.bound.remove(&seat.node);
            }
        }
    }

    /// A list of all pods is complete.
    pub(super) fn only_pods(&mut self, listed: &HashSet<String>) {
        let gone: Vec<_> = self.seats.keys().filter(|uid| !listed.contains(&***uid)).cloned().collect();
        gone.iter().for_each(|uid| self.pod_gone(uid));
    }

    /// The test orders something.
    pub(super) fn order(&mut self, order: Order, now: Timestamp) {
        let node = match &order {
            Order::Health(node, _) | Order::Pressure { node, .. } | Order::Relief(node) => Arc::clone(node),
            Order::Beats(beats) => return self.beat(*beats, now),
        };
        let standing = self.standings.entry(Arc::clone(&node)).or_default();
        standing.since = Some(now);
        match order {
            Order::Health(_, health) => standing.health = health,
            Order::Relief(_) => standing.pressures.clear(),
            Order::Pressure { pressure, evicted, .. } => {
                standing.pressures.insert(pressure);
                self.evict(&node, pressure, evicted, now);
            }
            Order::Beats(_) => {}
        }
        self.speaks(&node);
    }

    fn beat(&mut self, beats: Beats, now: Timestamp) {
        if std::mem::replace(&mut self.beats, beats) == beats || beats == Beats::Status {
            return;
        }
        let (renewal, count) = (renewal(self.faster), self.machines.len());
        for (turn, node) in self.machines.keys().enumerate() {
            self.agenda.at(Key::Lease(Arc::clone(node)), now + renewal.mul_f64(turn as f64 / count as f64));
        }
    }

    /// The least important pods go first; of equals, those that request the most memory.
    fn evict(&mut self, node: &str, pressure: Pressure, evicted: usize, now: Timestamp) {
        let bound = self.bound.get(node).into_iter().flatten();
        let mut running: Vec<_> = bound
            .filter_map(|uid| Some((uid, self.seats.get(uid)?)))
            .filter(|(_, seat)| seat.life.holds_room())
            .map(|(uid, seat)| {
                let priority = seat.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
                let memory = seat.requested.get("memory").copied().unwrap_or_default();
                (priority, Reverse(memory), Arc::clone(uid))
            })
            .collect();
        running.sort();
        for (_, _, uid) in running.into_iter().take(evicted) {
            if let Some(seat) = self.seats.get_mut(&uid) {
                seat.life.evict(pressure.message().to_owned(), now);
            }
        }
    }

    /// Everything of a node is to be looked at.
    fn speaks(&mut self, node: &Arc<str>) {
        self.agenda.now(Key::Lease(Arc::clone(node)));
        self.agenda.now(Key::Node(Arc::clone(node)));
        for uid in self.bound.get(node).into_iter().flatten() {
            self.agenda.now(Key::Pod(Arc::clone(uid)));
        }
    }

    /// The machine of a node, if its kubelet is there and speaks.
    fn machine(&self, node: &str) -> Option<(&Machine, Standing)> {
        let standing = self.standings.get(node).cloned().unwrap_or_default();
        let machine = self.machines.get(node).filter(|_| standing.health != Health::Silent)?;
        Some((machine, standing))
    }

    /// What has to be done about this now.
    pub(super) fn look(&mut self, key: &Key, now: Timestamp) -> Option<Work> {
        match key {
            Key::Lease(_) if self.beats == Beats::Status => None,
            Key::Lease(node) => {
                let (machine, _) = self.machine(node)?;
                Some(Work::Renew(Box::new(machine.lease(self.faster, now))))
            }
            Key::Node(node) => {
                let (machine, standing) = self.machine(node)?;
                Some(Work::ShowNode(node.to_string(), machine.status(&standing, &self.usual, now)))
            }
            Key::Pod(uid) => self.look_at_pod(uid, now),
        }
    }

    fn look_at_pod(&mut self, uid: &Arc<str>, now: Timestamp) -> Option<Work> {
        let seat = self.seats.get(uid)?;
        let (machine, _) = self.machine(&seat.node)?;
        let host = machine.addresses.clone();
        let deadline = seat.pod.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        let verdict = (seat.life.is_new() && deadline.is_none()).then(|| self.admit(seat));
        let seat = self.seats.get_mut(uid)?;
        match verdict {
            Some(Ok(())) => seat.life.admit(now),
            Some(Err(refusal)) => seat.life.reject(refusal, now),
            None => {}
        }
        seat.life.advance(now);
        if let Some(deadline) = deadline {
            seat.life.delete(deadline, now);
            seat.life.advance(now);
        }
        if let Some(due) = seat.life.due(now) {
            self.agenda.at(Key::Pod(Arc::clone(uid)), due);
        }
        let addresses = Addresses { host, pod: address(128, seat.number) };
        let status = status(&seat.pod, &seat.life, &addresses, now);
        if status.is_some() && status != seat.shown {
            return status.map(|status| Work::ShowPod(seat.name.clone(), Box::new(status)));
        }
        if seat.life.wants_check(now) {
            return Some(Work::Check(Arc::clone(&seat.name.namespace), seat.needs.clone()));
        }
        let is_over = seat.life.ended().is_some() && deadline.is_some() && !seat.buried;
        is_over.then(|| Work::Bury(seat.name.clone()))
    }

    fn admit(&self, new: &Seat) -> Result<(), Refusal> {
        if let Some(broken) = &new.broken {
            self.mistakes.add(format!("{}: {broken}", new.name));
            return Err(Refusal { reason: "UnexpectedAdmissionError".to_owned(), message: broken.clone() });
        }
        let Some((machine, standing)) = self.machine(&new.node) else { return Ok(()) };
        let (mut used, mut ports) = (Amounts::new(), Vec::new());
        let bound = self.bound.get(&new.node).into_iter().flatten();
        for seat in bound.filter_map(|uid| self.seats.get(uid)).filter(|seat| seat.life.holds_room()) {
            add(&mut used, &seat.requested);
            ports.extend(seat.ports.iter().cloned());
        }
        let (allocatable, taints, pressures) = (&machine.allocatable, &machine.taints, &standing.pressures);
        let room = Room { allocatable, used: &used, ports: &ports, taints, pressures };
        new.pod.spec.as_ref().map_or(Ok(()), |spec| room.admit(spec))
    }

    /// What came of it.
    pub(super) fn finish(&mut self, key: &Key, done: Done, now: Timestamp) {
        let pause = SignedDuration::try_from(PAUSE).unwrap_or_default();
        let again = match (key, done) {
            (_, Done::Again) => Some(pause),
            (Key::Lease(node), done) => {
                self.record(key, &done);
                let part = self.machines.get_mut(node).map_or(1.0, Machine::part);
                Some(renewal(self.faster).mul_f64(part))
            }
            (Key::Node(node), done) => {
                self.record(key, &done);
                let part = self.machines.get_mut(node).map_or(1.0, Machine::status_part);
                Some(heartbeat(self.faster).mul_f64(part))
            }
            (Key::Pod(uid), done) => {
                self.record(key, &done);
                if let Some(seat) = self.seats.get_mut(uid) {
                    seat.done(done, now);
                    self.agenda.now(key.clone());
                }
                None
            }
        };
        if let Some(again) = again {
            self.agenda.at(key.clone(), now + again);
        }
    }

    fn record(&self, key: &Key, done: &Done) {
        if let Done::Refused(_, why) | Done::Unreadable(why) = done {
            let what = match key {
                Key::Pod(uid) => self.seats.get(uid).map_or_else(|| uid.to_string(), |seat| seat.name.to_string()),
                Key::Lease(node) => format!("the lease of {node}"),
                Key::Node(node) => format!("the status of {node}"),
            };
            self.mistakes.add(format!("{what}: {why}"));
        }
    }
}

impl Seat {
    fn see(&mut self, pod: Pod) {
        self.version = version_of(&pod);
        *self.pod = slim(pod);
        // Node-lifecycle writes `Ready=False` on the pods of a node that is silent. Only the kubelet sets it back.
        let stored = serde_json::to_value(&self.pod.status).unwrap_or_default();
        if self.shown.as_ref().is_some_and(|shown| shown.get("conditions").is_some() && gist(shown) != gist(&stored)) {
            self.shown = None;
        }
    }

    fn done(&mut self, done: Done, now: Timestamp) {
        match done {
            Done::Shown(status, version) => {
                self.shown = Some(*status);
                self.version = self.version.max(version);
            }
            // The same would be refused again.
            Done::Refused(Some(status), _) => self.shown = Some(*status),
            Done::Refused(None, _) | Done::Buried => self.buried = true,
            Done::Checked(found) => self.life.checked(missing(&self.needs, &found), now),
            Done::Unreadable(message) => self.life.checked(Some(Missing { container: None, message }), now),
            Done::Again | Done::Written => {}
        }
    }
}

/// A pod without what no kubelet needs.
fn slim(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    pod
}

#[cfg(test)]
mod tests;
