//! A small world that the machines of this room live in: an API server with versions, claimants in several processes with
//! caches that are behind, a kubelet and a device plugin on each node, a sweeper, crashes, answers that are lost, and
//! writes that are applied long after their sender gave up. Histories are drawn at random and, to a small depth, all of
//! them are tried. At no moment may two pods be on their way through one node's device plugin, and a plugin that is asked
//! never serves another pod than the one that the kubelet means.
//!
//! What would break that is tried, too: each [`Mutation`] is a world in which one rule is not kept, and a history must be
//! found that shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::attempt::{Answer, Attempt, Bound, Node, Order, Outcome, Request, Sight};
use super::holder::{Clock, Holder, Pod, Takeover, confirm, is_owner};
use super::record::{Lock, Named, Note, PodKey};
use super::retry::Retry;
use super::sweep::Sweep;
use super::value::{Value, bare};

const TTL: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_secs(20);
const NODES: usize = 2;
const PODS: usize = 4;
/// The shared key, whose values name a pod, and one of a vendor whose values do not.
const KEYS: usize = 2;
const SHARED: usize = 0;
const PROCESSES: usize = 3;

/// A rule that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mutation {
    None,
    /// A take-over removes first and writes then.
    ReleaseThenClaim,
    /// Whoever has the name is the owner.
    UidIgnored,
    /// A node is written whatever its version is.
    NodeVersionDropped,
    /// A pod is bound whatever its version is.
    BindingWithoutVersion,
    /// The lock is given back before the pod is marked.
    ReleaseBeforeFence,
    /// A lock is given back that ends with the pod's name.
    ReleaseBySuffix,
    /// `bind-phase` says whether a device plugin has answered.
    PhaseAsEvidence,
    /// A pod that a cache does not have is gone.
    AbsentFromCache,
}

const MUTATIONS: [Mutation; 8] = [
    Mutation::ReleaseThenClaim,
    Mutation::UidIgnored,
    Mutation::NodeVersionDropped,
    Mutation::BindingWithoutVersion,
    Mutation::ReleaseBeforeFence,
    Mutation::ReleaseBySuffix,
    Mutation::PhaseAsEvidence,
    Mutation::AbsentFromCache,
];

/// The keys that a pod needs.
fn needs(slot: usize) -> &'static [usize] {
    match slot {
        0 | 1 => &[SHARED],
        2 => &[SHARED, 1],
        _ => &[1],
    }
}

/// What stands under one key of a node.
#[derive(Debug, Clone, Default, PartialEq)]
struct StoredLock {
    value: Option<Arc<str>>,
    note: Option<Note>,
}

impl StoredLock {
    fn read(&self) -> Option<Lock> {
        self.value.as_ref().map(|value| Lock::read(value, self.note.clone()))
    }
}

/// A node as it is stored.
#[derive(Debug, Clone, Default)]
struct StoredNode {
    version: u64,
    locks: [StoredLock; KEYS],
}

/// A pod as it is stored.
#[derive(Debug, Clone)]
struct StoredPod {
    pod: Pod,
    phase: &'static str,
}

/// Everything that is stored, at one version.
#[derive(Debug, Clone, Default)]
struct Store {
    version: u64,
    nodes: [StoredNode; NODES],
    pods: BTreeMap<usize, StoredPod>,
}

/// Who asks the API server.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there are four of them")]
enum Machine {
    Bind { pod: usize, attempt: Attempt },
    Sweep(Sweep),
}

impl Machine {
    /// The keys that it is about, in its order.
    fn keys(&self) -> &'static [usize] {
        match self {
            Self::Bind { pod, .. } => needs(*pod),
            Self::Sweep(_) => &[SHARED, 1],
        }
    }
}

/// A request, with all that its sender knew.
#[derive(Debug, Clone)]
struct Sent {
    order: Order,
    node: usize,
    /// The slot of the pod that it is about, and its UID.
    pod: (usize, Arc<str>),
    /// What is written on the node, where it is a claim: the keys, and what comes under each.
    locks: Vec<(usize, StoredLock)>,
    /// The value that a pod is marked with.
    value: Arc<str>,
    /// The first half of a take-over in two writes is done.
    half: bool,
    reply: Option<Reply>,
}

impl Sent {
    fn writes(&self) -> bool {
        !matches!(self.order, Order::Look { .. } | Order::AskPod | Order::AskHolder { .. } | Order::AskWaiting)
    }
}

#[derive(Debug, Clone)]
enum Reply {
    Wrote(Answer),
    Pod(Option<Pod>),
    Node(StoredNode),
    Waiting(Vec<(usize, Pod)>),
}

#[derive(Debug, Clone, Default)]
struct Process {
    machine: Option<(usize, Machine)>,
    sent: Option<Sent>,
    /// How much of the history its watches have told.
    nodes: usize,
    pods: usize,
    first_seen: BTreeMap<(usize, usize), (Arc<str>, Duration)>,
    /// What live reads told of the pods that these values name.
    known: BTreeMap<Arc<str>, Holder>,
    /// Pods that a live read found bound to a node, by their slots.
    listed: Option<(usize, Vec<(usize, Pod)>)>,
}

impl Process {
    /// That a pod was found counts no longer.
    fn forget(&mut self) {
        self.known.retain(|_, holder| matches!(holder, Holder::Gone { .. }));
        self.listed = None;
    }
}

/// A kubelet and its device plugin.
#[derive(Debug, Clone, Default)]
struct Kubelet {
    /// The pod that it asks for, the key of the plugin, and how far that came.
    asks: Option<(usize, Arc<str>, usize, Asked)>,
    /// UIDs that the device plugin of a key answered for.
    served: BTreeSet<(Arc<str>, usize)>,
}

impl Kubelet {
    /// The key whose plugin is to be asked next for a pod.
    fn next(&self, slot: usize, uid: &Arc<str>) -> Option<usize> {
        needs(slot).iter().copied().find(|key| !self.served.contains(&(Arc::clone(uid), *key)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Served,
    Released,
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// Milliseconds pass.
    Pass(u64),
    /// The scheduler asks a process to bind the pod of a slot to a node.
    Start(usize, usize, usize),
    /// A sweep of a node begins.
    Sweep(usize, usize),
    /// A process does what its machine says.
    Act(usize),
    /// The same, until it has sent something or waits.
    Send(usize),
    /// The API server does what a process sent.
    Serve(usize),
    /// The answer arrives.
    Answer(usize),
    /// What was sent arrives twice: once more at any later time.
    Twice(usize),
    /// The answer never arrives; what was sent may be applied later.
    Lose(usize),
    /// One that was lost is applied.
    Late(usize),
    /// A watch of Nodes tells more.
    Nodes(usize),
    /// A watch of Pods tells more.
    Pods(usize),
    /// Both watches have told everything.
    Catch(usize),
    /// The caller gives up.
    GiveUp(usize),
    /// A process is killed and started anew.
    Kill(usize),
    /// A kubelet or its device plugin takes the next step.
    Kubelet(usize),
    /// The device plugin fails what it was asked for.
    Fail(usize),
    /// The device plugin is killed before it gives the lock back.
    Crash(usize),
    /// A pod is deleted; one that is not bound is gone at once.
    Delete(usize),
    /// A pod is deleted without waiting for its kubelet, unless that is in the middle of its work.
    Force(usize),
    /// A pod is made.
    Make(usize),
    /// A scheduler of an earlier generation locks a node for a pod and binds it, without a note and in no time.
    Foreign(usize, usize),
    /// Somebody leaves one of these values under a key that was free.
    Litter(usize, usize, usize),
    /// Somebody removes the lock of a pod that waits for its device plugin, or a scheduler of an earlier generation does,
    /// which goes by age alone.
    Strip(usize, usize),
}

/// Kinds of values that are found lying about.
const LITTER: usize = 6;

impl Deed {
    fn is_trouble(&self) -> bool {
        use Deed::{Delete, Force, GiveUp, Lose, Pass, Sweep};
        matches!(self, Delete(_) | Force(_) | GiveUp(_) | Lose(_) | Pass(_) | Sweep(..))
    }
}

/// The process that sweeps.
const SWEEPER: usize = PROCESSES;

#[derive(Debug, Clone)]
struct World {
    mutation: Mutation,
    now: Duration,
    history: Vec<Arc<Store>>,
    processes: Vec<Process>,
    late: Vec<Sent>,
    kubelets: [Kubelet; NODES],
    /// UIDs whose lock of a key was taken away by somebody who keeps no rule.
    stripped: BTreeSet<(Arc<str>, usize)>,
    /// Pods that were force-deleted and that a kubelet may not have noticed.
    ghosts: Vec<(usize, usize, Arc<str>, Duration)>,
    born: u64,
    tokens: u32,
    bindings: u32,
    /// What must never be, and was.
    broken: Option<String>,
}

fn name_of(node: usize) -> Arc<str> {
    format!("n{node}").into()
}

fn base() -> Timestamp {
    Timestamp::new(1_780_000_000, 0).unwrap()
}

impl World {
    fn new(mutation: Mutation) -> Self {
        let mut world = Self {
            mutation,
            now: Duration::from_secs(100),
            history: vec![Arc::default()],
            processes: vec![Process::default(); PROCESSES + 1],
            late: Vec::new(),
            kubelets: Default::default(),
            stripped: BTreeSet::new(),
            ghosts: Vec::new(),
            born: 0,
            tokens: 0,
            bindings: 0,
            broken: None,
        };
        (0..PODS).for_each(|slot| world.make(slot));
        let latest = world.history.len() - 1;
        world.processes.iter_mut().for_each(|process| (process.nodes, process.pods) = (latest, latest));
        world
    }

    fn wall(&self) -> Timestamp {
        base() + self.now
    }

    fn clock(&self) -> Clock {
        Clock { wall: self.wall(), steady: self.now }
    }

    fn store(&self) -> &Store {
        self.history.last().unwrap()
    }

    /// A write that was accepted: a new state of everything.
    fn change(&mut self, write: impl FnOnce(&mut Store, u64)) -> Arc<str> {
        let mut store = Store::clone(self.store());
        store.version += 1;
        let version = store.version;
        write(&mut store, version);
        self.history.push(Arc::new(store));
        self.judge();
        version.to_string().into()
    }

    fn change_pod(&mut self, slot: usize, write: impl FnOnce(&mut StoredPod)) -> Arc<str> {
        self.change(|store, version| {
            let stored = store.pods.get_mut(&slot).unwrap();
            write(stored);
            stored.pod.version = version.to_string().into();
        })
    }

    fn make(&mut self, slot: usize) {
        self.born += 1;
        let key = PodKey {
            namespace: "ns".into(),
            name: format!("p{slot}").into(),
            uid: Some(format!("u{}", self.born).into()),
        };
        let created = self.wall();
        self.change(|store, version| {
            let pod = Pod {
                key,
                version: version.to_string().into(),
                created,
                node: None,
                finished: false,
                started: false,
                deleting: false,
                revoked: None,
            };
            store.pods.insert(slot, StoredPod { pod, phase: "" });
        });
    }

    /// What must be true at every moment.
    fn judge(&mut self) {
        for (node, key) in (0..NODES).flat_map(|node| (0..KEYS).map(move |key| (node, key))) {
            let (name, kubelet) = (name_of(node), &self.kubelets[node]);
            let under_way = self.store().pods.iter().filter(|(slot, stored)| {
                let uid = Arc::clone(stored.pod.key.uid.as_ref().unwrap());
                let excused = kubelet.served.contains(&(Arc::clone(&uid), key)) || self.stripped.contains(&(uid, key));
                needs(**slot).contains(&key) && stored.pod.waits_on(&name) && !excused
            });
            let under_way: Vec<String> = under_way.map(|(_, stored)| stored.pod.key.to_string()).collect();
            if under_way.len() > 1 {
                self.broken.get_or_insert(format!("{under_way:?} are on their way to n{node} at once, key {key}"));
            }
        }
    }

    /// A node with these keys, as a process sees it.
    fn sight(&mut self, at: usize, node: usize, keys: &[usize], stored: &StoredNode) -> Node {
        let keys = keys.iter().map(|key| self.sight_of(at, node, *key, &stored.locks[*key])).collect();
        Node { version: stored.version.to_string().into(), keys }
    }

    fn sight_of(&mut self, at: usize, node: usize, key: usize, stored: &StoredLock) -> Sight {
        let now = self.now;
        let mutation = self.mutation;
        let process = &mut self.processes[at];
        let view = &self.history[process.pods];
        let mut note = stored.note.clone();
        if let (Mutation::UidIgnored, Some(note)) = (mutation, &mut note) {
            // Whoever has the name has the UID.
            let named = stored.value.as_ref().and_then(|value| Lock::read(value, Some(note.clone())).pod().cloned());
            let same = |stored: &&StoredPod| named.as_ref().is_some_and(|named| named.name == stored.pod.key.name);
            if let Some(uid) = view.pods.values().find(same).and_then(|stored| stored.pod.key.uid.clone()) {
                note.uid = uid;
            }
        }
        let lock = stored.value.as_ref().map(|value| Lock::read(value, note));
        let mut waiting = Vec::new();
        for (_, stored) in view.pods.iter().filter(|(slot, _)| needs(**slot).contains(&key)) {
            if stored.pod.waits_on(&name_of(node)) {
                waiting.push(stored.pod.clone());
            }
        }
        let found = process.listed.as_ref().filter(|(of, _)| *of == node).map(|(_, found)| found);
        let listed = found.is_some();
        for (slot, pod) in found.into_iter().flatten() {
            if needs(*slot).contains(&key) && pod.waits_on(&name_of(node)) {
                waiting.push(pod.clone());
            }
        }
        let mut holder = Holder::Unconfirmed;
        let (mut first_seen, mut confirmed) = (now, false);
        if let Some(lock) = &lock {
            let seen = process.first_seen.entry((node, key)).or_insert_with(|| (Arc::clone(&lock.value), now));
            if seen.0 != lock.value {
                *seen = (Arc::clone(&lock.value), now);
            }
            first_seen = seen.1;
            if let Named::Pod { pod, time, note } = &lock.named {
                let mut cached = view.pods.values().find(|stored| stored.pod.key.name == pod.name).cloned();
                if let (Mutation::PhaseAsEvidence, Some(stored)) = (mutation, &mut cached) {
                    stored.pod.finished |= matches!(stored.phase, "success" | "failed");
                }
                let cached = cached.map(|stored| stored.pod).filter(|seen| is_owner(pod, *time, note.is_some(), seen));
                confirmed = matches!(process.known.get(&lock.value), Some(Holder::Seen(_)));
                let number = |pod: &Pod| pod.version.parse::<u64>().unwrap();
                holder = match (cached, process.known.get(&lock.value)) {
                    (_, Some(gone @ Holder::Gone { .. })) => gone.clone(),
                    (Some(cached), Some(Holder::Seen(live)))
                        if live.key != cached.key || number(live) > number(&cached) =>
                    {
                        Holder::Seen(live.clone())
                    }
                    (Some(cached), _) => Holder::Seen(cached),
                    (None, _) if mutation == Mutation::AbsentFromCache => Holder::Gone { since: Duration::ZERO },
                    (None, Some(known)) => known.clone(),
                    (None, None) => Holder::Unconfirmed,
                };
            }
        }
        Sight { lock, holder, confirmed, waiting, listed, first_seen }
    }

    fn start(&mut self, at: usize, slot: usize, node: usize) {
        let process = &self.processes[at];
        let Some(stored) = self.history[process.pods].pods.get(&slot) else { return };
        if process.machine.is_some() || stored.pod.node.is_some() || stored.pod.finished {
            return;
        }
        let cached = stored.pod.clone();
        self.tokens += 1;
        let time = self.wall() + jiff::SignedDuration::from_nanos(i64::from(self.tokens));
        let value = |key: &usize| match *key {
            SHARED => Value::of(time, &cached.key.namespace, &cached.key.name).to_string().into(),
            _ => bare(time).into(),
        };
        let request = Request {
            pod: cached.key.clone(),
            node: name_of(node),
            values: needs(slot).iter().map(value).collect(),
            deadline: self.now + DEADLINE,
            ttl: TTL,
            takeover: Takeover::State,
            retry: Retry::CLASSIC,
        };
        let attempt = Attempt::new(request, Some(cached));
        self.processes[at].forget();
        self.processes[at].machine = Some((node, Machine::Bind { pod: slot, attempt }));
    }

    fn act(&mut self, at: usize) {
        if self.processes[at].sent.is_some() {
            return;
        }
        let Some((node, mut machine)) = self.processes[at].machine.take() else { return };
        let clock = self.clock();
        let order = match &mut machine {
            Machine::Bind { attempt, .. } => Some(attempt.next(self.now, 0.5)),
            Machine::Sweep(sweep) => sweep.next(),
        };
        let mut sent = None;
        match (order, &mut machine) {
            (None | Some(Order::End(_)), machine) => return self.ended(at, node, machine),
            (Some(Order::Look { live: false }), machine) => {
                let stored = self.history[self.processes[at].nodes].nodes[node].clone();
                let seen = self.sight(at, node, machine.keys(), &stored);
                match machine {
                    Machine::Bind { pod, attempt } => {
                        let pod = self.history[self.processes[at].pods].pods.get(pod).map(|stored| stored.pod.clone());
                        attempt.looked(clock, Some(seen), pod);
                    }
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(Order::Wait { .. }), Machine::Bind { attempt, .. }) => {
                self.processes[at].forget();
                attempt.woken();
            }
            (Some(Order::Wait { .. } | Order::Pause(_)), _) => {}
            (Some(order), machine) => sent = Some(self.request(at, node, order, machine)),
        }
        self.processes[at].machine = Some((node, machine));
        self.processes[at].sent = sent;
    }

    fn request(&self, at: usize, node: usize, order: Order, machine: &Machine) -> Sent {
        let slot_of = |key: &PodKey| (key.name[1..].parse().unwrap_or(usize::MAX), key.uid.clone().unwrap_or_default());
        let (pod, value, locks) = match machine {
            Machine::Bind { pod: slot, attempt } => {
                let (key, values) = attempt.identity();
                let uid = key.uid.clone().unwrap();
                let lock = |value: &Arc<str>| StoredLock {
                    value: Some(Arc::clone(value)),
                    note: Some(Note {
                        value: Arc::clone(value),
                        uid: Arc::clone(&uid),
                        pod: Some((Arc::clone(&key.namespace), Arc::clone(&key.name))),
                        attempt: "a".into(),
                        instance: at.to_string().into(),
                        deadline: self.wall(),
                    }),
                };
                let locks = machine.keys().iter().copied().zip(values.iter().map(lock)).collect();
                ((*slot, Arc::clone(&uid)), Arc::clone(&values[0]), locks)
            }
            Machine::Sweep(_) => ((usize::MAX, "".into()), "".into(), Vec::new()),
        };
        let (pod, value) = match &order {
            Order::Revoke { pod, value } => (slot_of(&pod.key), Arc::clone(value)),
            Order::AskHolder { pod, value } => (slot_of(pod), Arc::clone(value)),
            _ => (pod, value),
        };
        // Of a release: the keys that go.
        let locks = match &order {
            Order::Release { keys, .. } => keys.iter().map(|at| (machine.keys()[*at], StoredLock::default())).collect(),
            Order::Restore { key, pod, .. } => {
                vec![(machine.keys()[*key], self.restored(at, machine.keys()[*key], pod))]
            }
            _ => locks,
        };
        Sent { order, node, pod, locks, value, half: false, reply: None }
    }

    /// The lock of a pod that had lost it.
    fn restored(&self, at: usize, key: usize, pod: &PodKey) -> StoredLock {
        let value: Arc<str> = match key {
            SHARED => Value::of(self.wall(), &pod.namespace, &pod.name).to_string().into(),
            _ => bare(self.wall()).into(),
        };
        let note = Note {
            value: Arc::clone(&value),
            uid: pod.uid.clone().unwrap_or_default(),
            pod: Some((Arc::clone(&pod.namespace), Arc::clone(&pod.name))),
            attempt: "r".into(),
            instance: at.to_string().into(),
            deadline: self.wall(),
        };
        StoredLock { value: Some(value), note: Some(note) }
    }

    fn ended(&mut self, at: usize, node: usize, machine: &mut Machine) {
        let Machine::Bind { pod, attempt } = machine else { return };
        let Order::End(Outcome { result, .. }) = attempt.next(self.now, 0.5) else { return };
        let uid = attempt.identity().0.uid.clone();
        if let Ok(Bound::Now | Bound::Before) = result {
            let stored = self
                .history
                .iter()
                .rev()
                .filter_map(|store| store.pods.get(pod))
                .find(|stored| stored.pod.key.uid == uid);
            if stored.is_none_or(|stored| stored.pod.node != Some(name_of(node))) {
                self.broken.get_or_insert(format!("process {at} says that {uid:?} is bound to n{node}: {stored:?}"));
            }
        }
    }

    /// What the API server does with a request.
    fn apply(&mut self, sent: &mut Sent) -> Option<Reply> {
        let (node, (slot, uid)) = (sent.node, sent.pod.clone());
        let stored = self.store().nodes[node].clone();
        let pod = self.store().pods.get(&slot).cloned();
        let same_node =
            |version: &str| self.mutation == Mutation::NodeVersionDropped || version == stored.version.to_string();
        let write = |locks: Vec<(usize, StoredLock)>| {
            move |store: &mut Store, version: u64| {
                store.nodes[node].version = version;
                locks.into_iter().for_each(|(key, lock)| store.nodes[node].locks[key] = lock);
            }
        };
        let locks = sent.locks.clone();
        let stands = locks.iter().any(|(key, _)| stored.locks[*key].value.is_some());
        let conflict = Some(Reply::Wrote(Answer::Conflict));
        let done = |version| Some(Reply::Wrote(Answer::Done(version)));
        let free = |version: &str| match &pod {
            None => Err(Answer::Absent),
            Some(stored) if stored.pod.key.uid.as_ref() != Some(&uid) && self.mutation != Mutation::UidIgnored => {
                Err(Answer::Conflict)
            }
            Some(stored) if stored.pod.node.is_some() || *stored.pod.version != *version => Err(Answer::Conflict),
            Some(stored) => Ok(stored.pod.clone()),
        };
        match sent.order.clone() {
            Order::Look { .. } => Some(Reply::Node(stored)),
            Order::AskPod | Order::AskHolder { .. } => Some(Reply::Pod(pod.map(|stored| stored.pod))),
            Order::AskWaiting => {
                let here = self.store().pods.iter().filter(|(_, stored)| stored.pod.waits_on(&name_of(node)));
                Some(Reply::Waiting(here.map(|(slot, stored)| (*slot, stored.pod.clone())).collect()))
            }
            Order::Claim { .. } if self.mutation == Mutation::ReleaseThenClaim && !sent.half && stands => {
                sent.half = true;
                self.change(write(locks.into_iter().map(|(key, _)| (key, StoredLock::default())).collect()));
                None
            }
            Order::Claim { .. } if sent.half && stands => conflict,
            Order::Claim { .. } if sent.half => done(self.change(write(locks))),
            Order::Claim { version } | Order::Release { version, .. } | Order::Restore { version, .. }
                if same_node(&version) =>
            {
                done(self.change(write(locks)))
            }
            Order::Claim { .. } | Order::Release { .. } | Order::Restore { .. } => conflict,
            Order::Revoke { pod: seen, value } => match free(&seen.version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => done(self.change_pod(slot, |stored| stored.pod.revoked = Some(value))),
            },
            Order::Fence { version } => match free(&version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => {
                    let value = Arc::clone(&sent.value);
                    done(self.change_pod(slot, |stored| {
                        stored.pod.revoked = Some(value);
                        stored.phase = "failed";
                    }))
                }
            },
            Order::Bind { version } => {
                let version: Arc<str> = match (&pod, self.mutation) {
                    (Some(stored), Mutation::BindingWithoutVersion) => Arc::clone(&stored.pod.version),
                    _ => version,
                };
                match free(&version) {
                    Ok(pod) if pod.deleting => conflict,
                    Err(answer) => Some(Reply::Wrote(answer)),
                    Ok(_) => {
                        self.bindings += 1;
                        done(self.change_pod(slot, |stored| {
                            stored.pod.node = Some(name_of(node));
                            stored.phase = "allocating";
                        }))
                    }
                }
            }
            Order::Wait { .. } | Order::Pause(_) | Order::End(_) => None,
        }
    }

    fn serve(&mut self, at: usize) {
        let Some(mut sent) = self.processes[at].sent.take() else { return };
        if sent.reply.is_none() {
            if self.mutation == Mutation::ReleaseBeforeFence && matches!(sent.order, Order::Fence { .. }) {
                self.late.push(sent.clone());
                sent.reply = Some(Reply::Wrote(Answer::Done("0".into())));
            } else {
                sent.reply = self.apply(&mut sent);
            }
        }
        self.processes[at].sent = Some(sent);
    }

    fn answer(&mut self, at: usize) {
        let Some(Sent { reply: Some(reply), order, node, .. }) = self.processes[at].sent.clone() else { return };
        self.processes[at].sent = None;
        self.told(at, node, &order, Some(reply));
    }

    fn lose(&mut self, at: usize) {
        let Some(sent) = self.processes[at].sent.take() else { return };
        let (node, order) = (sent.node, sent.order.clone());
        if sent.reply.is_none() && sent.writes() {
            self.late.push(sent);
        }
        self.told(at, node, &order, None);
    }

    fn told(&mut self, at: usize, node: usize, order: &Order, reply: Option<Reply>) {
        let clock = self.clock();
        let Some((of, mut machine)) = self.processes[at].machine.take() else { return };
        match (reply, &mut machine) {
            (None, Machine::Bind { attempt, .. }) => match order {
                Order::Look { .. } | Order::AskPod | Order::AskHolder { .. } | Order::AskWaiting => {
                    attempt.unread("no answer".into())
                }
                _ => attempt.answered(Answer::Unknown("no answer".into())),
            },
            (None, Machine::Sweep(sweep)) => sweep.answered(&Answer::Unknown("no answer".into())),
            (Some(Reply::Wrote(answer)), Machine::Bind { attempt, .. }) => attempt.answered(answer),
            (Some(Reply::Wrote(answer)), Machine::Sweep(sweep)) => sweep.answered(&answer),
            (Some(Reply::Node(stored)), machine) => {
                let mut seen = self.sight(at, node, machine.keys(), &stored);
                if let (Machine::Bind { attempt, .. }, Mutation::ReleaseBySuffix) = (&*machine, self.mutation) {
                    let (key, values) = attempt.identity();
                    for lock in seen.keys.iter_mut().filter_map(|sight| sight.lock.as_mut()) {
                        if lock.value.ends_with(&format!(",{},{}", key.namespace, key.name)) {
                            lock.value = Arc::clone(&values[0]);
                        }
                    }
                }
                match machine {
                    Machine::Bind { attempt, .. } => attempt.looked(clock, Some(seen), None),
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(Reply::Waiting(found)), machine) => {
                self.processes[at].listed = Some((node, found));
                match machine {
                    Machine::Bind { attempt, .. } => attempt.holder_asked(),
                    Machine::Sweep(sweep) => sweep.holder_asked(),
                }
            }
            (Some(Reply::Pod(pod)), machine) => match (order, machine) {
                (Order::AskHolder { pod: named, value }, machine) => {
                    self.confirm(at, named, value, pod);
                    match machine {
                        Machine::Bind { attempt, .. } => attempt.holder_asked(),
                        Machine::Sweep(sweep) => sweep.holder_asked(),
                    }
                }
                (_, Machine::Bind { attempt, .. }) => attempt.asked(pod),
                (_, Machine::Sweep(_)) => {}
            },
        }
        self.processes[at].machine = Some((of, machine));
    }

    fn confirm(&mut self, at: usize, named: &PodKey, value: &Arc<str>, pod: Option<Pod>) {
        let (now, mutation) = (self.now, self.mutation);
        let pod = pod.map(|mut pod| {
            if mutation == Mutation::UidIgnored {
                pod.key.uid = named.uid.clone().or(pod.key.uid);
            }
            pod
        });
        let process = &mut self.processes[at];
        let known = confirm(named, value, pod, process.known.get(value), now);
        process.known.insert(Arc::clone(value), known);
    }

    fn watch_pods(&mut self, at: usize) {
        let latest = self.history.len() - 1;
        let process = &mut self.processes[at];
        process.pods = latest.min(process.pods + 1);
    }

    /// One step of a kubelet or its device plugin, which follows A19.
    fn kubelet(&mut self, node: usize) {
        let name = name_of(node);
        let now = self.now;
        self.ghosts.retain(|(_, _, _, until)| *until > now);
        match self.kubelets[node].asks.clone() {
            None => {
                let ghost = self.ghosts.iter().position(|(_, of, ..)| *of == node);
                if let Some(ghost) = ghost {
                    let (slot, _, uid, _) = self.ghosts.remove(ghost);
                    self.ask(node, slot, uid, true);
                    return;
                }
                let kubelet = &self.kubelets[node];
                let due = self.store().pods.iter().find_map(|(slot, stored)| {
                    let uid = stored.pod.key.uid.as_ref().unwrap();
                    (stored.pod.waits_on(&name) && kubelet.next(*slot, uid).is_some()).then(|| (*slot, Arc::clone(uid)))
                });
                if let Some((slot, uid)) = due {
                    self.ask(node, slot, uid, false);
                }
            }
            Some((slot, uid, key, Asked::Served)) => {
                self.plugin_releases(node, slot, key);
                self.kubelets[node].asks = Some((slot, uid, key, Asked::Released));
            }
            Some((slot, uid, _, Asked::Released)) => {
                self.kubelets[node].asks = None;
                if self.kubelets[node].next(slot, &uid).is_some() {
                    self.ask(node, slot, uid, false);
                } else {
                    self.kubelet_says(slot, &uid, |pod| pod.started = true);
                }
            }
        }
        // A kubelet ends what it has started, or has not begun, when that is deleted.
        let ends = self.store().pods.iter().find(|(_, stored)| {
            let busy =
                self.kubelets[node].asks.as_ref().is_some_and(|(_, uid, ..)| Some(uid) == stored.pod.key.uid.as_ref());
            stored.pod.deleting && stored.pod.node.as_deref() == Some(&*name) && !busy
        });
        if let Some(slot) = ends.map(|(slot, _)| *slot) {
            self.change(|store, _| {
                store.pods.remove(&slot);
            });
        }
    }

    /// A kubelet asks the next device plugin of a pod, and does not say for which pod. One finds it by the name in the lock;
    /// where that has none, it takes the first pod that is bound here and waits. `ghost`: the pod was deleted by force, and
    /// the kubelet does not know it yet.
    fn ask(&mut self, node: usize, slot: usize, uid: Arc<str>, ghost: bool) {
        let Some(key) = self.kubelets[node].next(slot, &uid) else { return };
        let (name, pods) = (name_of(node), &self.store().pods);
        let lock = &self.store().nodes[node].locks[key];
        let named = lock.value.as_ref().filter(|_| key == SHARED).and_then(|value| Value::parse(value).ok());
        let found = match named.as_ref().and_then(Value::owner) {
            Some((_, named)) => pods.values().find(|stored| *stored.pod.key.name == *named),
            None => {
                let waits = |(slot, stored): &(&usize, &StoredPod)| {
                    needs(**slot).contains(&key) && stored.pod.waits_on(&name) && stored.phase == "allocating"
                };
                pods.iter().find(waits).map(|(_, stored)| stored)
            }
        };
        // Whoever lost its lock, and whoever came while it had none.
        let robbed = |stored: &StoredPod| {
            self.stripped.contains(&(stored.pod.key.uid.clone().unwrap(), key)) && stored.pod.waits_on(&name)
        };
        let stripped = self.stripped.contains(&(Arc::clone(&uid), key)) || pods.values().any(robbed);
        let me = PodKey { namespace: "ns".into(), name: format!("p{slot}").into(), uid: Some(Arc::clone(&uid)) };
        let has_lock = match lock.read().map(|lock| lock.named) {
            Some(Named::Pod { pod, .. }) => pod.may_be(&me),
            // Of an earlier generation, and of the vendor whose values have no name.
            Some(Named::Nobody { .. }) => key != SHARED,
            Some(Named::Unparsable(_)) | None => false,
        };
        match found.map(|stored| &stored.pod.key) {
            // Whoever takes a lock away by hand is told which pod that may harm.
            _ if stripped && found.is_none_or(|found| found.pod.key.uid.as_ref() != Some(&uid)) => {
                self.kubelet_says(slot, &uid, |pod| pod.finished = true);
            }
            Some(pod) if pod.uid.as_ref() != Some(&uid) => {
                self.broken.get_or_insert(format!("the plugin of n{node} serves {pod} for p{slot} {uid}"));
            }
            // A pod that is gone is not served: the call fails.
            None if ghost => {}
            None => {
                self.broken
                    .get_or_insert(format!("the plugin of n{node} is asked for p{slot} {uid}, and finds nobody"));
            }
            Some(_) if !has_lock && !stripped => {
                self.broken.get_or_insert(format!("p{slot} {uid} is served on n{node} without its lock, key {key}"));
            }
            Some(_) => {
                self.kubelets[node].served.insert((Arc::clone(&uid), key));
                self.kubelets[node].asks = Some((slot, Arc::clone(&uid), key, Asked::Served));
                if self.kubelets[node].next(slot, &uid).is_none() {
                    self.change_pod(slot, |stored| stored.phase = "success");
                }
            }
        }
    }

    /// A device plugin knows its pod by the name only, or not even that.
    fn plugin_releases(&mut self, node: usize, slot: usize, key: usize) {
        let suffix = if key == SHARED { format!(",ns,p{slot}") } else { String::new() };
        if self.store().nodes[node].locks[key].value.as_ref().is_some_and(|value| value.ends_with(&suffix)) {
            self.change(|store, version| {
                store.nodes[node].version = version;
                store.nodes[node].locks[key].value = None;
            });
        }
    }

    fn kubelet_says(&mut self, slot: usize, uid: &Arc<str>, say: impl FnOnce(&mut Pod)) {
        if self.store().pods.get(&slot).is_some_and(|stored| stored.pod.key.uid.as_ref() == Some(uid)) {
            self.change_pod(slot, |stored| say(&mut stored.pod));
        }
    }

    fn delete(&mut self, slot: usize, force: bool) {
        let Some(stored) = self.store().pods.get(&slot).cloned() else { return };
        let uid = stored.pod.key.uid.clone().unwrap();
        let busy =
            self.kubelets.iter().any(|kubelet| kubelet.asks.as_ref().is_some_and(|(_, asked, ..)| *asked == uid));
        match (&stored.pod.node, force) {
            (Some(_), true) if busy => {}
            (Some(node), true) => {
                let node: usize = node[1..].parse().unwrap();
                let under_way = stored.pod.waits_on(&name_of(node)) && self.kubelets[node].next(slot, &uid).is_some();
                if under_way {
                    // A lock that names nobody does not say who is gone, and a grace needs to know.
                    let locks = &self.store().nodes[node].locks;
                    let nameless = needs(slot).iter().filter(|key| **key != SHARED && locks[**key].note.is_none());
                    let nameless: Vec<_> = nameless.map(|key| (Arc::clone(&uid), *key)).collect();
                    self.stripped.extend(nameless);
                    self.ghosts.push((slot, node, uid, self.now + Duration::from_secs(4)));
                }
                self.change(|store, _| {
                    store.pods.remove(&slot);
                });
            }
            (Some(_), false) if !stored.pod.deleting => {
                self.change_pod(slot, |stored| stored.pod.deleting = true);
            }
            (Some(_), false) => {}
            (None, _) => {
                self.change(|store, _| {
                    store.pods.remove(&slot);
                });
            }
        }
    }

    /// Whether somebody who knows only the key would take it.
    fn is_free(&self, node: usize, key: usize) -> bool {
        self.store().nodes[node].locks[key].value.is_none()
    }

    fn foreign(&mut self, slot: usize, node: usize) {
        let Some(stored) = self.store().pods.get(&slot).cloned() else { return };
        // It looks at the key only, and so would bind beside a pod whose lock somebody took away: until that is restored,
        // nobody can promise anything.
        let name = name_of(node);
        let waits = |key: usize| {
            self.store().pods.iter().any(|(slot, stored)| needs(*slot).contains(&key) && stored.pod.waits_on(&name))
        };
        let free = needs(slot).iter().all(|key| self.is_free(node, *key) && !waits(*key));
        if !free || stored.pod.node.is_some() || stored.pod.deleting || stored.pod.finished {
            return;
        }
        // Whole seconds, as they are written there.
        let time = Timestamp::new(self.wall().as_second(), 0).unwrap();
        self.change(|store, version| {
            store.nodes[node].version = version;
            for key in needs(slot) {
                let value = match *key {
                    SHARED => Value::of(time, "ns", &stored.pod.key.name).to_string(),
                    _ => bare(time),
                };
                store.nodes[node].locks[*key] = StoredLock { value: Some(value.into()), note: None };
            }
            let pod = store.pods.get_mut(&slot).unwrap();
            pod.phase = "allocating";
            pod.pod.node = Some(name_of(node));
            pod.pod.version = version.to_string().into();
        });
    }

    fn litter(&mut self, node: usize, key: usize, kind: usize) {
        let name = name_of(node);
        let waits = |(slot, stored): (&usize, &StoredPod)| needs(*slot).contains(&key) && stored.pod.waits_on(&name);
        if !self.is_free(node, key) || self.store().pods.iter().any(waits) {
            return;
        }
        let (now, later) = (self.wall(), self.wall() + Duration::from_secs(86_400));
        let value = match kind {
            0 => "lock".to_owned(),
            1 => String::new(),
            2 => bare(now),
            3 => bare(later),
            4 => format!("{now},,"),
            _ => Value::of(now, "ns", "nobody").to_string(),
        };
        self.change(|store, version| {
            store.nodes[node].version = version;
            store.nodes[node].locks[key] = StoredLock { value: Some(value.into()), note: None };
        });
    }

    fn strip(&mut self, node: usize, key: usize) {
        let name = name_of(node);
        let waits = |(slot, stored): (&usize, &StoredPod)| {
            let uid = stored.pod.key.uid.clone().unwrap();
            (needs(*slot).contains(&key) && stored.pod.waits_on(&name)).then_some(uid)
        };
        let Some(uid) = self.store().pods.iter().find_map(waits) else { return };
        if !self.is_free(node, key) && self.kubelets[node].asks.is_none() {
            self.stripped.insert((uid, key));
            self.change(|store, version| {
                store.nodes[node].version = version;
                store.nodes[node].locks[key] = StoredLock::default();
            });
        }
    }

    fn kill(&mut self, at: usize) {
        let latest = self.history.len() - 1;
        let process = std::mem::take(&mut self.processes[at]);
        self.late.extend(process.sent.filter(|sent| sent.reply.is_none()));
        self.processes[at] = Process { nodes: latest, pods: latest, ..Process::default() };
    }

    fn deed(&mut self, deed: Deed) {
        match deed {
            Deed::Pass(millis) => self.now += Duration::from_millis(millis),
            Deed::Start(at, slot, node) => self.start(at, slot, node),
            Deed::Sweep(at, node) => {
                if self.processes[at].machine.is_none() {
                    self.processes[at].forget();
                    let sweep = Sweep::new(name_of(node), TTL, Takeover::State, false);
                    self.processes[at].machine = Some((node, Machine::Sweep(sweep)));
                }
            }
            Deed::Act(at) => self.act(at),
            Deed::Send(at) => {
                for _ in 0..3 {
                    self.act(at);
                }
            }
            Deed::Serve(at) => self.serve(at),
            Deed::Answer(at) => self.answer(at),
            Deed::Twice(at) => {
                if let Some(sent) =
                    self.processes[at].sent.as_ref().filter(|sent| sent.writes() && sent.reply.is_none())
                {
                    self.late.push(sent.clone());
                }
            }
            Deed::Lose(at) => self.lose(at),
            Deed::Late(which) => {
                if !self.late.is_empty() {
                    let mut sent = self.late.remove(which % self.late.len());
                    self.apply(&mut sent);
                }
            }
            Deed::Nodes(at) => {
                let latest = self.history.len() - 1;
                let process = &mut self.processes[at];
                process.nodes = latest.min(process.nodes + 1);
            }
            Deed::Pods(at) => self.watch_pods(at),
            Deed::Catch(at) => {
                let latest = self.history.len() - 1;
                (self.processes[at].nodes, self.processes[at].pods) = (latest, latest);
            }
            Deed::GiveUp(at) => {
                if let Some((_, Machine::Bind { attempt, .. })) = &mut self.processes[at].machine {
                    attempt.give_up();
                }
            }
            Deed::Kill(at) => self.kill(at),
            Deed::Kubelet(node) => self.kubelet(node),
            Deed::Fail(node) => {
                if let Some((slot, uid, key, Asked::Served)) = self.kubelets[node].asks.clone() {
                    self.kubelets[node].asks = None;
                    self.plugin_releases(node, slot, key);
                    self.kubelet_says(slot, &uid, |pod| pod.finished = true);
                }
            }
            Deed::Crash(node) => {
                if let Some((slot, uid, ..)) = self.kubelets[node].asks.take() {
                    self.kubelet_says(slot, &uid, |pod| pod.finished = true);
                }
            }
            Deed::Delete(slot) => self.delete(slot, false),
            Deed::Force(slot) => self.delete(slot, true),
            // Not while a kubelet asks for a pod of that name which was deleted by force: its device plugin knows names only,
            // and nothing is promised.
            Deed::Make(slot) => {
                let now = self.now;
                let ghost = self.ghosts.iter().any(|(of, _, _, until)| *of == slot && *until > now);
                if !ghost && !self.store().pods.contains_key(&slot) {
                    self.make(slot);
                }
            }
            Deed::Foreign(slot, node) => self.foreign(slot, node),
            Deed::Litter(node, key, kind) => self.litter(node, key, kind),
            Deed::Strip(node, key) => self.strip(node, key),
        }
    }

    /// Everybody does what they should, and nothing fails any more: every pod gets through, and no lock is left.
    fn calm(&mut self) {
        while !self.late.is_empty() {
            self.deed(Deed::Late(0));
        }
        for round in 0..400 {
            self.now += Duration::from_secs(1);
            let latest = self.history.len() - 1;
            for at in 0..=SWEEPER {
                while self.processes[at].pods < latest {
                    self.watch_pods(at);
                }
                self.processes[at].nodes = latest;
            }
            let unbound: Vec<usize> = self
                .store()
                .pods
                .iter()
                .filter(|(_, stored)| stored.pod.node.is_none() && !stored.pod.finished)
                .map(|(slot, _)| *slot)
                .collect();
            for slot in unbound {
                self.start(slot % PROCESSES, slot, slot % NODES);
            }
            self.deed(Deed::Sweep(SWEEPER, round % NODES));
            for at in 0..=SWEEPER {
                for _ in 0..6 {
                    self.act(at);
                    self.serve(at);
                    self.answer(at);
                }
            }
            (0..NODES).for_each(|node| self.kubelet(node));
        }
        let waiting = |stored: &&StoredPod| !stored.pod.started && !stored.pod.finished;
        if let Some(stored) = self.store().pods.values().find(waiting) {
            self.broken.get_or_insert(format!("{stored:?} never gets through"));
        }
        if let Some(node) = self.store().nodes.iter().find(|node| node.locks.iter().any(|lock| lock.value.is_some())) {
            self.broken.get_or_insert(format!("{node:?} keeps its lock"));
        }
    }
}

/// Numbers that a seed gives (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap()
    }
}

/// How often a deed is drawn: what helps everybody on is common, what goes wrong is rare. Each history has a mix of its own,
/// in which much never happens and some happens all the time: what needs three rare things in a row is found by the
/// history that has little else.
struct Mix {
    kinds: [usize; KINDS],
    speeds: [usize; PROCESSES + 1],
}

const KINDS: usize = 20;

impl Mix {
    fn draw(dice: &mut Dice) -> Self {
        const USUAL: [usize; KINDS] = [6, 16, 4, 40, 40, 40, 8, 8, 20, 20, 3, 2, 16, 3, 2, 3, 4, 4, 1, 1];
        const TIMES: [usize; 6] = [0, 1, 4, 4, 4, 16];
        let kinds = USUAL.map(|usual| usual * TIMES[dice.below(TIMES.len())]);
        Self { kinds, speeds: Self::speeds(dice) }
    }

    /// Processes stall for a while, and go on.
    fn speeds(dice: &mut Dice) -> [usize; PROCESSES + 1] {
        const SPEEDS: [usize; 5] = [0, 0, 1, 4, 8];
        std::array::from_fn(|_| SPEEDS[dice.below(SPEEDS.len())])
    }
}

impl World {
    /// Every deed that would do something now, with how often it is drawn.
    fn possible(&self, mix: &Mix, dice: &mut Dice) -> Vec<(usize, Deed)> {
        let latest = self.history.len() - 1;
        let mut all = Vec::new();
        let pass = if dice.below(4) == 0 { 3_000 + dice.below(70_000) } else { 1 + dice.below(3_000) };
        all.push((mix.kinds[0], Deed::Pass(pass as u64)));
        for at in 0..=SWEEPER {
            let process = &self.processes[at];
            let mut add = |kind: usize, deed| all.push((mix.kinds[kind] * mix.speeds[at], deed));
            match (&process.machine, &process.sent) {
                (None, _) if at == SWEEPER => (0..NODES).for_each(|node| add(2, Deed::Sweep(at, node))),
                (None, _) => {
                    for (slot, stored) in &self.history[process.pods].pods {
                        if stored.pod.node.is_none() && !stored.pod.finished {
                            (0..NODES).for_each(|node| add(1, Deed::Start(at, *slot, node)));
                        }
                    }
                }
                (Some(_), None) => add(3, Deed::Act(at)),
                (Some(_), Some(Sent { reply: None, .. })) => {
                    add(4, Deed::Serve(at));
                    add(6, Deed::Lose(at));
                    add(6, Deed::Twice(at));
                }
                (Some(_), Some(_)) => {
                    add(5, Deed::Answer(at));
                    add(6, Deed::Lose(at));
                }
            }
            if process.nodes < latest {
                add(8, Deed::Nodes(at));
            }
            if process.pods < latest {
                add(9, Deed::Pods(at));
            }
            if process.machine.is_some() {
                add(10, Deed::GiveUp(at));
                add(11, Deed::Kill(at));
            }
        }
        if !self.late.is_empty() {
            all.push((4 * mix.kinds[7], Deed::Late(dice.below(self.late.len()))));
        }
        for node in 0..NODES {
            all.push((4 * mix.kinds[12], Deed::Kubelet(node)));
            if self.kubelets[node].asks.is_some() {
                all.push((4 * mix.kinds[13], Deed::Fail(node)));
                all.push((4 * mix.kinds[14], Deed::Crash(node)));
            }
        }
        for key in 0..KEYS {
            let node = dice.below(NODES);
            if self.is_free(node, key) {
                all.push((mix.kinds[18], Deed::Litter(node, key, dice.below(LITTER))));
            } else {
                all.push((mix.kinds[19], Deed::Strip(node, key)));
            }
        }
        for slot in 0..PODS {
            if self.store().pods.contains_key(&slot) {
                all.push((mix.kinds[15], Deed::Delete(slot)));
                all.push((mix.kinds[16], Deed::Force(slot)));
                (0..NODES).for_each(|node| all.push((mix.kinds[17], Deed::Foreign(slot, node))));
            } else {
                all.push((4 * mix.kinds[16].max(4), Deed::Make(slot)));
            }
        }
        all
    }
}

/// A history of that many deeds at most, and what it broke.
fn live(mutation: Mutation, seed: u64, length: usize, calm: bool) -> (Vec<Deed>, Option<String>) {
    let mut dice = Dice(seed);
    let mut mix = Mix::draw(&mut dice);
    let mut world = World::new(mutation);
    let mut deeds = Vec::new();
    while deeds.len() < length && world.broken.is_none() {
        if dice.below(40) == 0 {
            mix.speeds = Mix::speeds(&mut dice);
        }
        let possible = world.possible(&mix, &mut dice);
        let sum: usize = possible.iter().map(|(weight, _)| weight).sum();
        if sum == 0 {
            mix = Mix::draw(&mut dice);
            continue;
        }
        let mut drawn = dice.below(sum);
        let deed = possible.into_iter().find(|(weight, _)| {
            let here = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            here
        });
        let deed = deed.unwrap().1;
        deeds.push(deed);
        world.deed(deed);
    }
    if calm && world.broken.is_none() {
        world.calm();
    }
    (deeds, world.broken)
}

/// The same history without what it does not need to break something.
fn shortest(mutation: Mutation, mut deeds: Vec<Deed>, calm: bool) -> Vec<Deed> {
    let mut size = deeds.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < deeds.len() {
            let mut fewer = deeds.clone();
            fewer.drain(at..(at + size).min(deeds.len()));
            if play(mutation, &fewer, calm).is_some() { deeds = fewer } else { at += size }
        }
        size /= 2;
    }
    deeds
}

/// Plays a history, and says what was broken.
fn play(mutation: Mutation, deeds: &[Deed], calm: bool) -> Option<String> {
    let mut world = World::new(mutation);
    for deed in deeds {
        world.deed(*deed);
        if world.broken.is_some() {
            return world.broken;
        }
    }
    if calm {
        world.calm();
    }
    world.broken
}

/// How long whoever has time lets it look; the seeds begin with 0, always.
#[allow(clippy::disallowed_methods, reason = "not what is tested, but how much of it")]
fn effort(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|effort| effort.parse().ok()).unwrap_or(usual)
}

#[test]
fn one_pod_at_a_time_is_on_its_way_to_a_node_and_all_get_through() {
    let many = effort("TOPOLOOM_HISTORIES", 2_000);
    for seed in 0..many {
        let (deeds, broken) = live(Mutation::None, seed, 400, true);
        assert!(broken.is_none(), "seed {seed}: {broken:?}\n{:?}", shortest(Mutation::None, deeds, true));
    }
}

/// The seed of a history that shows each of them, so that nobody has to look for long. Where a change of the protocol makes
/// another history of a seed, another is looked for.
const WITNESSES: [(Mutation, u64); 8] = [
    (Mutation::ReleaseThenClaim, 3),
    (Mutation::UidIgnored, 3665),
    (Mutation::NodeVersionDropped, 15),
    (Mutation::BindingWithoutVersion, 139),
    (Mutation::ReleaseBeforeFence, 190),
    (Mutation::ReleaseBySuffix, 814),
    (Mutation::PhaseAsEvidence, 186),
    (Mutation::AbsentFromCache, 41),
];

/// A world in which a rule is not kept is found out.
#[test]
fn each_rule_is_needed() {
    let many = effort("TOPOLOOM_HISTORIES", 8_000);
    let mut never = Vec::new();
    for mutation in MUTATIONS {
        let witness = WITNESSES.iter().find(|(of, _)| *of == mutation).map(|(_, seed)| *seed);
        let found = witness.into_iter().chain(0..many).find_map(|seed| {
            let (deeds, broken) = live(mutation, seed, 400, false);
            broken.map(|broken| (seed, broken, shortest(mutation, deeds, false)))
        });
        match found {
            Some((seed, broken, deeds)) => println!("{mutation:?}: seed {seed}: {broken}\n{deeds:?}"),
            None => never.push(mutation),
        }
    }
    assert!(never.is_empty(), "{never:?} break nothing");
}

/// What can happen in a small world: two processes that bind two pods to one node, the sweeper, a kubelet, and each kind of
/// trouble at most once.
fn moves(world: &World, path: &[Deed]) -> Vec<Deed> {
    let once = |deed: fn(&Deed) -> bool| !path.iter().any(deed);
    let latest = world.history.len() - 1;
    let mut all = Vec::new();
    for at in [0, 1, SWEEPER] {
        let process = &world.processes[at];
        match (&process.machine, &process.sent) {
            (None, _) if at == SWEEPER => {
                all.extend(once(|deed| matches!(deed, Deed::Sweep(..))).then_some(Deed::Sweep(at, 0)))
            }
            (None, _) => {}
            (Some(_), None) => all.push(Deed::Send(at)),
            (Some(_), Some(sent)) => {
                all.push(if sent.reply.is_some() { Deed::Answer(at) } else { Deed::Serve(at) });
                all.extend(once(|deed| matches!(deed, Deed::Lose(_))).then_some(Deed::Lose(at)));
            }
        }
        if process.machine.is_some() && (process.nodes < latest || process.pods < latest) {
            all.push(Deed::Catch(at));
        }
    }
    if once(|deed| matches!(deed, Deed::GiveUp(_))) && world.processes[0].machine.is_some() {
        all.push(Deed::GiveUp(0));
    }
    if once(|deed| matches!(deed, Deed::Force(_) | Deed::Delete(_))) {
        all.extend([Deed::Force(0), Deed::Delete(0)]);
    }
    if once(|deed| matches!(deed, Deed::Pass(_))) {
        all.push(Deed::Pass(61_000));
    }
    if !world.late.is_empty() {
        all.push(Deed::Late(0));
    }
    let waits = world.store().pods.values().any(|stored| stored.pod.waits_on(&name_of(0)));
    if waits || world.kubelets[0].asks.is_some() || !world.ghosts.is_empty() {
        all.push(Deed::Kubelet(0));
    }
    all
}

/// Two worlds with the same print, in which the same trouble is still to come, go on alike.
fn print_of(world: &World, path: &[Deed]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let oldest = world.processes.iter().map(|process| process.nodes.min(process.pods)).min().unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    let World { now, processes, late, kubelets, ghosts, .. } = world;
    let mut trouble: Vec<_> = path.iter().filter(|deed| deed.is_trouble()).map(std::mem::discriminant).collect();
    trouble.sort_by_key(|kind| format!("{kind:?}"));
    format!("{trouble:?} {now:?} {:?} {processes:?} {late:?} {kubelets:?} {ghosts:?}", &world.history[oldest..])
        .hash(&mut hasher);
    hasher.finish()
}

/// Every order of everything, to a depth in which both pods can be bound and served.
fn explore(mutation: Mutation, depth: usize) -> (usize, Option<(String, Vec<Deed>)>) {
    let mut world = World::new(mutation);
    world.start(0, 0, 0);
    world.start(1, 1, 0);
    let (mut layer, mut seen) = (vec![(world, Vec::new())], std::collections::HashSet::new());
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, path) in layer {
            for deed in moves(&world, &path) {
                let mut world = world.clone();
                let mut path = path.clone();
                path.push(deed);
                world.deed(deed);
                if let Some(broken) = world.broken {
                    return (seen.len(), Some((broken, path)));
                }
                if seen.insert(print_of(&world, &path)) {
                    next.push((world, path));
                }
            }
        }
        layer = next;
    }
    (seen.len(), None)
}

#[test]
fn no_order_of_two_binds_a_sweep_and_one_trouble_of_each_kind_breaks_it() {
    let depth = usize::try_from(effort("TOPOLOOM_DEPTH", 8)).unwrap();
    let (states, broken) = explore(Mutation::None, depth);
    println!("{states} states to a depth of {depth}");
    assert_eq!(broken.map(|(broken, path)| format!("{broken}: {path:?}")), None);
}
