//! Both sides of all pods as a player knows them, and what it has to do next for each.
//!
//! Owns what was observed, and which step comes when; the steps themselves are decided in [`steps`](super::steps).
//!
//! What goes wrong: an event of a watch is older than the answer to a request. An answer that is newer stays, and a pod that
//! was deleted does not come back.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::sync::Notify;
use topoloom_sync::identity::Ownership;
use topoloom_sync::identity::mapping::{PhysicalPodRef, VirtualPodRef};
use topoloom_sync::keys;

use super::Made;
use super::copied::Copier;
use super::faults::{Faults, Verdict};
use super::steps::{Mirrored, Next, Physical, Step, Target, delete, is_of, next};
use super::work::{self, Done, Work};
use crate::device_plugin::PodName;
use crate::lending::agenda::Agenda;
use crate::lending::kubelets::Phase;
use crate::lending::{Mistakes, PAUSE, node_of, phase_of, uid_of, version_of};

/// The reason of a virtual pod whose physical one vanished.
pub const LOST: &str = "PhysicalPodLost";

struct Lent {
    physical: String,
    target: Target,
}

struct Seat {
    pod: Box<Pod>,
    /// The name that its physical pod has.
    physical: String,
    /// A step that is made later, and when.
    late: Option<(Step, Timestamp)>,
    presence: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    /// It was removed, and a finalizer may keep it.
    Removed,
    /// It is gone: by force, or because it was over when it was deleted. Its physical pod has to go, too.
    Gone,
}

/// What the handle shares with the run.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) mistakes: Mistakes,
    /// Something was made, or is a mistake.
    pub(super) news: Notify,
    faults: Mutex<Faults>,
    made: Mutex<Vec<Made>>,
}

impl Shared {
    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn made(&self) -> MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, made: Made) {
        self.made().push(made);
        self.news.notify_one();
    }

    fn mistake(&self, what: String) {
        self.mistakes.add(what);
        self.news.notify_one();
    }
}

pub(super) struct World {
    copier: Copier,
    patience: SignedDuration,
    shared: Arc<Shared>,
    /// Virtual nodes of ours, also those that are gone.
    nodes: BTreeMap<String, Lent>,
    virtuals: HashMap<Arc<str>, Seat>,
    /// The virtual pods whose physical pod has this name: more than one for a moment, after one was made again.
    bearers: HashMap<String, BTreeSet<Arc<str>>>,
    physicals: HashMap<String, Box<Pod>>,
    /// UIDs of physical pods that are gone.
    gone: HashSet<String>,
    /// Final phases of physical pods that are gone, and since when, by the UID of the virtual pod.
    last: HashMap<String, (Phase, Timestamp)>,
    /// Whether the first list of physical pods is complete.
    synced: bool,
    pub(super) agenda: Agenda<Arc<str>>,
}

impl World {
    pub(super) fn new(copier: Copier, patience: Duration, shared: Arc<Shared>) -> Self {
        Self {
            copier,
            patience: SignedDuration::try_from(patience).unwrap_or_default(),
            shared,
            nodes: BTreeMap::new(),
            virtuals: HashMap::new(),
            bearers: HashMap::new(),
            physicals: HashMap::new(),
            gone: HashSet::new(),
            last: HashMap::new(),
            synced: false,
            agenda: Agenda::default(),
        }
    }

    /// A Node of the virtual cluster is so now.
    pub(super) fn node(&mut self, node: &Node) {
        let metadata = &node.metadata;
        let labels = metadata.labels.clone().unwrap_or_default();
        if !matches!(
            Ownership::of(&labels, &self.copier.identity),
            Ownership::Ours | Ownership::OursOfEarlierBinding(_)
        ) {
            return;
        }
        // A label may hold a hash in place of a long name; the annotation holds the name.
        let annotation = metadata.annotations.as_ref().and_then(|all| all.get(keys::PHYSICAL_NODE_NAME));
        let Some(physical) = annotation.or_else(|| labels.get(keys::PHYSICAL_NODE_NAME)) else { return };
        let lent = Lent { physical: physical.clone(), target: Target::There };
        let name = metadata.name.clone().unwrap_or_default();
        let before = self.nodes.insert(name.clone(), lent);
        if before.is_none_or(|before| before.target == Target::Gone) {
            self.look_at_node(&name);
        }
    }

    /// A Node is gone.
    pub(super) fn node_gone(&mut self, name: &str) {
        if let Some(lent) = self.nodes.get_mut(name) {
            lent.target = Target::Gone;
        }
    }

    /// A list of Nodes is complete.
    pub(super) fn only_nodes(&mut self, listed: &HashSet<String>) {
        for (_, lent) in self.nodes.iter_mut().filter(|(name, _)| !listed.contains(*name)) {
            lent.target = Target::Gone;
        }
    }

    fn look_at_node(&mut self, node: &str) {
        for (uid, _) in self.virtuals.iter().filter(|(_, seat)| node_of(&seat.pod) == Some(node)) {
            self.agenda.now(Arc::clone(uid));
        }
    }

    /// Everything is to be looked at, after the test has changed the faults.
    pub(super) fn look_at_all(&mut self) {
        if self.shared.faults().take_forgot() {
            self.last.clear();
            let gone = self.virtuals.iter().filter(|(_, seat)| seat.presence == Presence::Gone);
            let gone: Vec<_> = gone.map(|(uid, _)| Arc::clone(uid)).collect();
            gone.iter().for_each(|uid| self.forget(uid));
        }
        for (uid, seat) in &mut self.virtuals {
            seat.late = None;
            self.agenda.now(Arc::clone(uid));
        }
    }

    /// A virtual pod is so now.
    pub(super) fn virtual_pod(&mut self, pod: Pod) {
        let uid: Arc<str> = uid_of(&pod).into();
        match self.virtuals.get_mut(&uid) {
            Some(seat) if version_of(&pod) < version_of(&seat.pod) => return,
            Some(seat) => *seat.pod = pod,
            None => {
                let Ok(physical) = self.copier.name(&pod) else { return };
                self.bearers.entry(physical.clone()).or_default().insert(Arc::clone(&uid));
                let seat = Seat { pod: Box::new(pod), physical, late: None, presence: Presence::There };
                self.virtuals.insert(Arc::clone(&uid), seat);
            }
        }
        self.agenda.now(uid);
    }

    /// A virtual pod is gone.
    pub(super) fn virtual_gone(&mut self, uid: &str) {
        if let Some((uid, _)) = self.virtuals.get_key_value(uid) {
            let uid = Arc::clone(uid);
            self.agenda.now(Arc::clone(&uid));
            if let Some(seat) = self.virtuals.get_mut(&uid) {
                seat.presence = Presence::Gone;
            }
        }
    }

    /// Nothing is left of a virtual pod, on both sides.
    fn forget(&mut self, uid: &str) {
        self.last.remove(uid);
        if let Some(seat) = self.virtuals.remove(uid)
            && let Some(bearers) = self.bearers.get_mut(&seat.physical)
        {
            bearers.remove(uid);
            if bearers.is_empty() {
                self.bearers.remove(&seat.physical);
            }
        }
    }

    /// A list of virtual pods is complete.
    pub(super) fn only_virtuals(&mut self, listed: &HashSet<String>) {
        let gone: Vec<_> = self.virtuals.keys().filter(|uid| !listed.contains(&***uid)).cloned().collect();
        gone.iter().for_each(|uid| self.virtual_gone(uid));
    }

    /// A physical pod is so now.
    pub(super) fn physical_pod(&mut self, pod: Pod) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let is_older = |known: &Pod| uid_of(known) == uid_of(&pod) && version_of(&pod) < version_of(known);
        if self.gone.contains(uid_of(&pod)) || self.physicals.get(&name).is_some_and(|known| is_older(known)) {
            return;
        }
        self.look_at_bearers(&name);
        self.physicals.insert(name, Box::new(pod));
    }

    /// A physical pod is gone; this was its last state.
    pub(super) fn physical_gone(&mut self, pod: &Pod, now: Timestamp) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        self.gone.insert(uid_of(pod).to_owned());
        if self.physicals.get(&name).is_some_and(|known| uid_of(known) == uid_of(pod)) {
            self.physicals.remove(&name);
        }
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        if let (Ok(named), Some(phase)) = (VirtualPodRef::read(&annotations), Phase::read(phase_of(pod))) {
            self.last.insert(named.uid.to_string(), (phase, now));
        }
        self.look_at_bearers(&name);
    }

    /// A list of physical pods is complete.
    pub(super) fn only_physicals(&mut self, listed: &HashSet<String>, now: Timestamp) {
        let gone: Vec<_> = self.physicals.values().filter(|pod| !listed.contains(uid_of(pod))).cloned().collect();
        gone.iter().for_each(|pod| self.physical_gone(pod, now));
        if !std::mem::replace(&mut self.synced, true) {
            self.look_at_all();
        }
    }

    fn look_at_bearers(&mut self, name: &str) {
        for uid in self.bearers.get(name).into_iter().flatten() {
            self.agenda.now(Arc::clone(uid));
        }
    }

    /// The step that is made now for this virtual pod.
    pub(super) fn look(&mut self, uid: &Arc<str>, now: Timestamp) -> Option<(Step, Work)> {
        if !self.synced {
            return None;
        }
        let seat = self.virtuals.get(uid)?;
        let physical = self.physical(uid, seat, now);
        let decided = match seat.presence {
            Presence::There => {
                let target = self.nodes.get(node_of(&seat.pod)?)?.target;
                next(&seat.pod, (&self.copier.namespace, &seat.physical), target, physical)
            }
            Presence::Removed => Next::Nothing,
            Presence::Gone if matches!(physical, Physical::Ours(_)) => delete(physical),
            Presence::Gone => {
                self.forget(uid);
                return None;
            }
        };
        let step = match decided {
            Next::Nothing => return None,
            Next::Await => {
                let (_, since) = self.last.get(&**uid)?;
                self.agenda.at(Arc::clone(uid), *since + self.patience);
                return None;
            }
            Next::Make(step) => step,
        };
        let name = PodName::of(&seat.pod);
        let verdict = self.shared.faults().judge((&name.namespace, &name.name), step);
        match verdict {
            Verdict::Never => return None,
            Verdict::Made => {}
            Verdict::Later(time) => {
                let when = match seat.late {
                    Some((late, when)) if late == step => when,
                    _ => now + SignedDuration::try_from(time).unwrap_or_default(),
                };
                if when > now {
                    self.agenda.at(Arc::clone(uid), when);
                    self.virtuals.get_mut(uid)?.late = Some((step, when));
                    return None;
                }
            }
        }
        let work = self.work(step, uid, now)?;
        Some((step, work))
    }

    fn physical(&self, uid: &str, seat: &Seat, now: Timestamp) -> Physical<'_> {
        match self.physicals.get(&seat.physical) {
            Some(pod) if is_of(pod, uid) => Physical::Ours(pod),
            Some(_) => Physical::Other,
            None => Physical::Absent(self.last.get(uid).map(|(phase, since)| {
                let waited = now >= *since + self.patience;
                (*phase, if waited { Mirrored::Waited } else { Mirrored::NotYet })
            })),
        }
    }

    fn work(&self, step: Step, uid: &str, now: Timestamp) -> Option<Work> {
        let seat = self.virtuals.get(uid)?;
        let (pod, namespace) = (PodName::of(&seat.pod), self.copier.namespace.clone());
        let place = |uid| work::Physical { namespace: namespace.clone(), name: seat.physical.clone(), uid };
        let physical = || self.physicals.get(&seat.physical);
        let finish = |pod, uid, status| {
            let version = seat.pod.metadata.resource_version.clone()?;
            Some(Work::Finish { pod, version, physical: place(uid), status })
        };
        Some(match step {
            Step::WriteNames => {
                let names = json!({keys::PHYSICAL_POD_NAMESPACE: namespace, keys::PHYSICAL_POD_NAME: seat.physical});
                Work::Annotate(pod, names)
            }
            Step::Create => {
                let lent = self.nodes.get(node_of(&seat.pod)?)?;
                match self.copier.copy(&seat.pod, &lent.physical) {
                    Ok(copy) => Work::Create(Box::new(copy)),
                    Err(error) => {
                        self.shared.mistake(format!("{pod}: {error}"));
                        return None;
                    }
                }
            }
            Step::WriteUid => Work::Annotate(pod, json!({keys::PHYSICAL_POD_UID: uid_of(physical()?)})),
            Step::DeletePhysical => {
                let grace = seat.pod.metadata.deletion_grace_period_seconds;
                // The grace of a pod that is gone was none.
                let grace = grace.filter(|_| seat.presence == Presence::There);
                Work::DeletePhysical(PodName::of(physical()?), grace.and_then(|grace| u32::try_from(grace).ok()))
            }
            Step::Lose => {
                let annotations = seat.pod.metadata.annotations.clone().unwrap_or_default();
                let named = PhysicalPodRef::read(&annotations).ok()?.uid.map(|uid| uid.to_string());
                finish(pod, named, self.end_of(uid, now))?
            }
            Step::WriteFinal => finish(pod, None, self.end_of(uid, now))?,
            Step::Remove => Work::Remove { pod, physical: place(None) },
        })
    }

    /// The end of a physical pod that is gone: the one that was seen, or that it is lost.
    fn end_of(&self, uid: &str, now: Timestamp) -> Value {
        self.last.get(uid).map_or_else(|| lost(now), |(phase, _)| ended(*phase, now))
    }

    /// What came of it.
    pub(super) fn finish(&mut self, uid: &Arc<str>, step: Step, done: Done, now: Timestamp) {
        match done {
            Done::Virtual(pod) => {
                self.makes(uid, step);
                self.virtual_pod(*pod);
            }
            Done::Physical(pod) => {
                self.makes(uid, step);
                match pod {
                    Some(pod) => self.physical_pod(*pod),
                    None => {
                        let name = self.virtuals.get(uid).map(|seat| seat.physical.clone());
                        name.and_then(|name| self.physicals.remove(&name));
                    }
                }
            }
            Done::Removed => {
                self.makes(uid, step);
                if let Some(seat) = self.virtuals.get_mut(uid) {
                    seat.presence = Presence::Removed;
                }
            }
            Done::Found(pod) => self.physical_pod(*pod),
            Done::Again => {
                let pause = SignedDuration::try_from(PAUSE).unwrap_or_default();
                return self.agenda.at(Arc::clone(uid), now + pause);
            }
            Done::Refused(why) => {
                let name = self.virtuals.get(uid).map(|seat| PodName::of(&seat.pod).to_string());
                self.shared.mistake(format!("{step:?} for {}: {why}", name.unwrap_or_default()));
                return;
            }
        }
        self.agenda.now(Arc::clone(uid));
    }

    fn makes(&mut self, uid: &str, step: Step) {
        if let Some(seat) = self.virtuals.get_mut(uid) {
            seat.late = None;
            self.shared.make(Made { pod: PodName::of(&seat.pod), step });
        }
    }
}

fn lost(now: Timestamp) -> Value {
    let mut status = ended(Phase::Failed, now);
    status["reason"] = json!(LOST);
    status["message"] = json!("The physical pod of this pod is gone.");
    status
}

fn ended(phase: Phase, now: Timestamp) -> Value {
    let reason = match phase {
        Phase::Succeeded => "PodCompleted",
        Phase::Failed => "PodFailed",
    };
    let unready =
        |kind: &str| json!({"type": kind, "status": "False", "reason": reason, "lastTransitionTime": Time(now)});
    json!({"phase": phase.word(), "conditions": [unready("ContainersReady"), unready("Ready")]})
}

#[cfg(test)]
mod tests;
