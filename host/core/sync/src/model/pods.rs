//! What a process does about pods: it mirrors the physical ones, deletes those that are orphans, finishes virtual ones that
//! terminate for ever, and writes the status of the policy.

use super::carry::{Answer, What};
use super::desk::Desk;
use super::objects::Pod;
use super::process::LivePod;
use super::*;
use crate::guard::Verdict;
use crate::identity::Owner;
use crate::naming::physical_pod_name;
use crate::pods::finish::{self, EndDecision, EndFacts, NodeEvidence, PodEvidence};
use crate::pods::{Orphan, PodDecision, Question, Trusted};
use crate::policy::shadow::Shadowing;
use crate::policy::status::decide_status;
use crate::precondition::Precondition;
use crate::projection::{self, project};

/// How often a decision may ask before it is left.
const QUESTIONS: usize = 4;
/// Where virtual pods are.
const TEAM: &str = "team";

/// The name of the virtual pod of a slot.
pub(super) fn twin_name(slot: usize) -> String {
    format!("p{slot}")
}

/// How the virtual pod of a slot is found.
pub(super) fn twin_key(slot: usize) -> String {
    objects::key(TEAM, &twin_name(slot))
}

/// Where the physical pods of a binding are.
pub(super) fn mount(binding: usize) -> String {
    format!("lent-{}", NAMES[binding])
}

/// How the physical pod of a slot is found, for a binding.
pub(super) fn copy_key(binding: usize, slot: usize) -> String {
    if slot == OTHER {
        return objects::key("lent-other", "other-0");
    }
    objects::key(&mount(binding), &physical_pod_name(TEAM, &twin_name(slot)).unwrap())
}

impl World {
    /// A process looks at a physical pod.
    pub(super) fn look_at_copy(&mut self, at: usize, slot: usize) {
        let key = copy_key(binding_of(at), slot);
        let mut live: Option<LivePod> = None;
        for _ in 0..QUESTIONS {
            let (bars, now, mutation) = (self.bars(at), self.steady, self.mutation);
            if !self.acts(at) || !self.processes[at].cache.is_listed() {
                return;
            }
            let decision = self.processes[at].judge_copy(&key, live.as_ref(), (now, &bars, mutation));
            self.heed(at);
            let Some(copy) = self.processes[at].cache.copies.get(&key).cloned() else { return };
            match decision {
                PodDecision::AskVirtualPod { question, .. } => {
                    let Some(found) = self.read_twin(at, &question, &copy) else { return };
                    live = Some((found, now));
                    continue;
                }
                PodDecision::Delete { why, precondition } => self.remove_orphan(at, &copy, &why, precondition),
                PodDecision::AskBinding(uid) => {
                    if self.is_gone(Side::Virtual) || self.bindings().contains(&uid) {
                        return;
                    }
                    self.processes[at].gone.insert(uid);
                    continue;
                }
                PodDecision::Synchronise(trusted) => {
                    if let Trusted::Mapping(_) = trusted {
                        self.processes[at].adopted.insert(copy.uid.clone());
                    }
                    self.keep(at, &copy.uid);
                    self.mirror(at, &copy, live.and_then(|(twin, _)| twin));
                }
                PodDecision::Nothing(_) | PodDecision::Leave(_) => self.keep(at, &copy.uid),
                PodDecision::Retry | PodDecision::LookAgain { .. } | PodDecision::Withheld { .. } => {}
            }
            return;
        }
    }

    /// Reads a virtual pod, if its server answers.
    fn read_twin(&self, at: usize, question: &Question, copy: &Pod) -> Option<Option<Arc<Pod>>> {
        let pods = if self.mutation == Mutation::CacheIsProof {
            &self.processes[at].cache.pods
        } else if self.is_gone(Side::Virtual) {
            return None;
        } else {
            &self.server(Side::Virtual).store.pods
        };
        Some(match question {
            Question::Named { namespace, name } => pods.get(&objects::key(namespace, name)).cloned(),
            Question::NamingIt => {
                let names = |pod: &&Arc<Pod>| {
                    PhysicalPodRef::read(&pod.annotations).is_ok_and(|named| named.names(&copy.side()))
                };
                pods.values().find(names).cloned()
            }
        })
    }

    /// It is no orphan any more.
    fn keep(&mut self, at: usize, copy: &Uid) {
        let mutation = self.mutation;
        let process = &mut self.processes[at];
        if let Some(act) = process.orphans.remove(copy) {
            Desk { guard: &mut process.guard, ghost: &mut process.ghost, mutation }.withdraw(&act);
        }
    }

    fn remove_orphan(&mut self, at: usize, copy: &Pod, why: &Orphan, precondition: Precondition) {
        if !self.compare(at) {
            return;
        }
        let (now, mutation) = (self.steady, self.mutation);
        let process = &mut self.processes[at];
        let (act, size) = (process.act_of(copy), process.size());
        process.orphans.insert(copy.uid.clone(), act.clone());
        let mut desk = Desk { guard: &mut process.guard, ghost: &mut process.ghost, mutation };
        let verdict = desk.verdict(&act, Cause::Orphan, size, now);
        self.heed(at);
        self.note_guard(at);
        if verdict != Verdict::Go {
            return;
        }
        self.judge_orphan(at, copy, why);
        if self.send(at, What::Orphan { key: copy.key(), precondition }) == Answer::Done {
            self.processes[at].guard.happened(&act, now);
            let stored = self.server(Side::Physical).store.pods.get(&copy.key()).cloned();
            if let Some(stored) = stored {
                self.processes[at].cache.copies.insert(stored.key(), stored);
            }
        }
    }

    /// The status of a physical pod goes up.
    fn mirror(&mut self, at: usize, copy: &Pod, live: Option<Arc<Pod>>) {
        let named = VirtualPodRef::read(&copy.annotations).ok();
        let cached = named.and_then(|named| self.processes[at].cache.named(&named).cloned());
        let Some(twin) = live.or(cached) else { return };
        let (physical, spec) = (json!({"phase": copy.phase.word()}), json!({"containers": []}));
        let (status, version, copied) = (json!({"phase": twin.phase.word()}), twin.resource_version(), BTreeSet::new());
        let facts = projection::Facts {
            physical: projection::Physical {
                uid: &copy.uid,
                status: &physical,
                labels: &copy.labels,
                annotations: &copy.annotations,
            },
            twin: projection::Twin {
                spec: &spec,
                status: &status,
                labels: &twin.labels,
                annotations: &twin.annotations,
                version: &version,
            },
            copied: &copied,
        };
        let projection = project(&facts, self.now_of(at).wall);
        let Some(body) = projection.patch().cloned() else { return };
        self.write_pod(at, &twin.key(), body);
    }

    fn write_pod(&mut self, at: usize, key: &str, body: Value) {
        if self.send(at, What::PodStatus { key: key.to_owned(), body }) == Answer::Done {
            let store = &self.servers[Side::Virtual as usize].store;
            self.processes[at].cache.pod(key, store);
        }
    }

    /// A process looks whether a virtual pod terminates for ever.
    pub(super) fn finish(&mut self, at: usize, slot: usize) {
        let key = twin_key(slot);
        let (mut physical, mut machine) = (PodEvidence::Unasked, NodeEvidence::Unasked);
        for _ in 0..QUESTIONS {
            let (bars, now) = (self.bars(at), self.now_of(at).steady);
            if !self.acts(at) || !self.processes[at].cache.is_listed() {
                return;
            }
            let Some(pod) = self.processes[at].cache.pods.get(&key).cloned() else { return };
            let terminating_for = self.processes[at].terminating_for(&pod, now);
            let Some(owner) = self.owner_of(at, &pod.node) else { return };
            let ending = pod.ending();
            let facts = EndFacts {
                pod: &ending,
                terminating_for,
                node: &owner,
                physical: &physical,
                physical_node: machine,
                // The physical pod of a slot has one name here.
                bearer: None,
                seen: None,
                bars: &bars,
            };
            match finish::decide(&facts) {
                EndDecision::AskPhysicalPod(named) => {
                    let Some(evidence) = self.read_copy(at, &named) else { return };
                    physical = evidence;
                }
                EndDecision::AskPhysicalNode => {
                    let Some(evidence) = self.read_machine(at, &pod.node) else { return };
                    machine = evidence;
                }
                EndDecision::WriteFinalPhase { patch, .. } if self.compare(at) => {
                    self.judge_finishing(&pod);
                    return self.write_pod(at, &key, patch);
                }
                EndDecision::Delete { precondition, .. } if self.compare(at) => {
                    self.judge_finishing(&pod);
                    if self.send(at, What::Finish { key: key.clone(), precondition }) == Answer::Done {
                        self.processes[at].cache.pods.remove(&key);
                    }
                    return;
                }
                EndDecision::WriteFinalPhase { .. }
                | EndDecision::Delete { .. }
                | EndDecision::Nothing(_)
                | EndDecision::Wait { .. }
                | EndDecision::Withheld(_) => return,
            }
        }
    }

    /// Whose a virtual node of the cache is.
    fn owner_of(&self, at: usize, lent: &str) -> Option<Owner> {
        let process = &self.processes[at];
        let labels = &process.cache.lent.get(lent)?.metadata.labels;
        Some(Ownership::of(labels, &process.setting.identity).resolve(Earlier::Unlisted))
    }

    fn read_copy(&self, at: usize, named: &PhysicalPodRef) -> Option<PodEvidence> {
        let pods = if self.mutation == Mutation::CacheIsProof {
            &self.processes[at].cache.copies
        } else if self.is_gone(Side::Physical) {
            return None;
        } else {
            &self.server(Side::Physical).store.pods
        };
        let found = pods.get(&objects::key(&named.namespace, &named.name));
        Some(found.map_or(PodEvidence::Absent, |pod| PodEvidence::Present(pod.uid.clone())))
    }

    fn read_machine(&self, at: usize, lent: &str) -> Option<NodeEvidence> {
        let annotations = &self.processes[at].cache.lent.get(lent)?.metadata.annotations;
        let uid = annotations.get(keys::PHYSICAL_NODE_UID)?;
        if self.is_gone(Side::Physical) {
            return None;
        }
        let mut machines = self.server(Side::Physical).store.nodes.values();
        let is_there = machines.any(|node| node["metadata"]["uid"] == **uid);
        Some(if is_there { NodeEvidence::Present } else { NodeEvidence::Gone })
    }

    /// The process that serves the binding of a policy writes its status.
    pub(super) fn report(&mut self, at: usize) {
        let now = self.now_of(at).wall;
        if at != self.leader || !self.processes[at].cache.is_listed() || self.forbids(at, Doing::Announce) {
            return;
        }
        let Some(stored) = self.processes[at].cache.stored_policies.get(POLICY).cloned() else { return };
        let policy = self.processes[at].cache.policies.get(POLICY);
        let status = policy.and_then(|policy| decide_status(&stored.status, policy, &Shadowing::Unknown, now));
        let Some(status) = status else { return };
        let what = What::Status { name: POLICY.to_owned(), version: stored.version, status: Box::new(status) };
        if self.send(at, what) == Answer::Done {
            self.read(at, Kind::Policies, world::By::Watch);
        }
    }
}
