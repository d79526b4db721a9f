//! The state of the world: stored objects, processes, and what happens next.

use super::*;

/// The value and the note of one key of a node.
#[derive(Debug, Clone, Default, PartialEq, Hash)]
pub(super) struct StoredLock {
    pub(super) value: Option<LockValue>,
    pub(super) note: Option<Note>,
}

impl StoredLock {
    pub(super) fn read(&self) -> Option<Lock> {
        self.value.as_ref().map(|value| Lock::read(value, self.note.clone()))
    }
}

/// A node as it is stored.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct StoredNode {
    pub(super) version: u64,
    pub(super) locks: [StoredLock; KEYS],
}

/// A pod as it is stored.
#[derive(Debug, Clone, Hash)]
pub(super) struct StoredPod {
    pub(super) pod: Pod,
    pub(super) phase: &'static str,
}

/// Everything that is stored, at one version.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Store {
    pub(super) version: u64,
    pub(super) nodes: [StoredNode; NODES],
    pub(super) pods: BTreeMap<usize, StoredPod>,
}

/// Who sends a request to the API server.
#[derive(Debug, Clone, Hash)]
#[allow(clippy::large_enum_variant, reason = "there are four of them")]
pub(super) enum Machine {
    Bind { pod: usize, attempt: Attempt },
    Sweep(Sweep),
}

impl Machine {
    /// The keys that it is about, in its order.
    pub(super) fn keys(&self) -> &'static [usize] {
        match self {
            Self::Bind { pod, .. } => needs(*pod),
            Self::Sweep(_) => &[SHARED, 1],
        }
    }
}

/// A request, with all that its sender knew.
#[derive(Debug, Clone, Hash)]
pub(super) struct Sent {
    pub(super) order: AttemptOrder,
    pub(super) node: usize,
    /// The slot of the pod that it is about, and its UID.
    pub(super) pod: (usize, Option<Uid>),
    /// What is written on the node, where it is a claim: the keys, and what comes under each.
    pub(super) locks: Vec<(usize, StoredLock)>,
    /// The first half of a take-over in two writes is done.
    pub(super) half: bool,
    /// What its sender had seen of nodes when it was sent.
    pub(super) after: Moment,
    pub(super) reply: Option<Reply>,
}

impl Sent {
    pub(super) fn writes(&self) -> bool {
        let reads = matches!(
            self.order,
            AttemptOrder::Look { .. }
                | AttemptOrder::AskPod
                | AttemptOrder::AskHolder { .. }
                | AttemptOrder::AskWaiting
        );
        !reads && !matches!(self.order, AttemptOrder::AskUnrecorded { .. })
    }
}

#[derive(Debug, Clone, Hash)]
pub(super) enum Reply {
    Wrote(WriteOutcome),
    Pod(Option<Pod>),
    Node(StoredNode),
    Waiting(Vec<(usize, Pod)>),
}

#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Process {
    pub(super) machine: Option<(usize, Machine)>,
    pub(super) sent: Option<Sent>,
    /// How much of the history its watches have shown.
    pub(super) nodes: usize,
    pub(super) pods: usize,
    /// As of when it lists them.
    pub(super) lists_nodes: Option<usize>,
    pub(super) lists_pods: Option<usize>,
    /// What it knows: the very index that a process has.
    pub(super) sightings: Arc<Sightings>,
    /// What its attempt or sweep has read from the API server.
    pub(super) reads: LiveReads,
}

impl Process {
    pub(super) fn known(&mut self) -> &mut Sightings {
        Arc::make_mut(&mut self.sightings)
    }
}

/// A kubelet and its device plugin.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Kubelet {
    /// The pod that it asks for, the vendor of the plugin, and how far that came.
    pub(super) asks: Option<(usize, Uid, usize, Asked)>,
    /// UIDs that the device plugin of a vendor answered for.
    pub(super) served: BTreeSet<(Uid, usize)>,
}

impl Kubelet {
    /// The vendor whose plugin is to be asked next for a pod.
    pub(super) fn next(&self, slot: usize, uid: &Uid) -> Option<usize> {
        vendors(slot).iter().copied().find(|vendor| !self.served.contains(&(uid.clone(), *vendor)))
    }

    /// Whether a vendor that shares this key has not answered for a pod.
    pub(super) fn has_work(&self, slot: usize, uid: &Uid, key: usize) -> bool {
        let mut sharing = vendors(slot).iter().filter(|vendor| KEY_OF[**vendor] == key);
        sharing.any(|vendor| !self.served.contains(&(uid.clone(), *vendor)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Served,
    Released,
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
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
    /// The API server refuses what a process sent: an admission policy, a rule of access, a quota.
    Refuse(usize),
    /// A watch of Nodes shows more.
    Nodes(usize),
    /// A watch of Pods shows more.
    Pods(usize),
    /// A watch of Nodes broke, and begins to list them all; or that list, which shows them as they were then, is whole.
    RelistNodes(usize),
    /// The same of Pods.
    RelistPods(usize),
    /// Both watches have shown everything.
    Catch(usize),
    /// The caller gives up.
    GiveUp(usize),
    /// A process is killed and restarted.
    Kill(usize),
    /// A kubelet or its device plugin takes the next step.
    Kubelet(usize),
    /// The device plugin fails what it was asked for.
    Fail(usize),
    /// The device plugin gives the lock back that another vendor still needs. Requirement R18 forbids it, and the plugins of
    /// the original protocol do it all the same.
    Early(usize),
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
    /// A foreign client leaves one of these values under a key that was free.
    Litter(usize, usize, usize),
    /// A person removes the lock of a pod that waits for its device plugin, or a scheduler of an earlier generation does,
    /// which goes by age alone.
    Strip(usize, usize),
    /// A lock is revoked from a pod that is being bound, and stays on the node: an operator wants that, a clock is
    /// wrong, or the process that did it does not finish.
    Revoke(usize, usize),
}

impl Deed {
    pub(super) fn is_trouble(&self) -> bool {
        use Deed::{Delete, Force, GiveUp, Lose, Pass, Refuse, Sweep};
        matches!(self, Delete(_) | Force(_) | GiveUp(_) | Lose(_) | Pass(_) | Refuse(_) | Sweep(..))
    }
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) mutation: Mutation,
    pub(super) now: Duration,
    pub(super) history: Vec<Arc<Store>>,
    pub(super) processes: Vec<Process>,
    pub(super) late: Vec<Sent>,
    pub(super) kubelets: [Kubelet; NODES],
    /// UIDs whose lock of a key was taken away by a client that keeps no rule, or that came while such a pod had none.
    pub(super) stripped: BTreeSet<(Uid, usize)>,
    /// UIDs whose lock of a key a vendor released before another vendor had answered.
    pub(super) early: BTreeSet<(Uid, usize)>,
    /// Pods that were force-deleted and that a kubelet may not have noticed.
    pub(super) ghosts: Vec<(usize, usize, Uid, Duration)>,
    pub(super) born: u64,
    pub(super) tokens: u32,
    pub(super) bindings: u32,
    /// When values of claims were first written.
    pub(super) written: BTreeMap<LockValue, Duration>,
    /// What must never be, and was.
    pub(super) broken: Option<String>,
}

pub(super) fn name_of(node: usize) -> NodeName {
    format!("n{node}").into()
}

pub(super) fn base() -> Timestamp {
    Timestamp::new(1_780_000_000, 0).unwrap()
}

impl World {
    pub(super) fn new(mutation: Mutation) -> Self {
        let mut world = Self {
            mutation,
            now: Duration::from_secs(100),
            history: vec![Arc::default()],
            processes: vec![Process::default(); PROCESSES + 1],
            late: Vec::new(),
            kubelets: Default::default(),
            stripped: BTreeSet::new(),
            early: BTreeSet::new(),
            ghosts: Vec::new(),
            born: 0,
            tokens: 0,
            bindings: 0,
            written: BTreeMap::new(),
            broken: None,
        };
        (0..PODS).for_each(|slot| world.make(slot));
        for at in 0..=SWEEPER {
            world.relist_all(at);
        }
        world
    }

    pub(super) fn wall(&self) -> Timestamp {
        base() + self.now
    }

    /// The time of the day, as a process has it.
    pub(super) fn wall_of(&self, at: usize) -> Timestamp {
        self.wall() + SKEWS[at]
    }

    pub(super) fn clock_of(&self, at: usize) -> Clock {
        Clock { wall: self.wall_of(at), steady: self.now }
    }

    pub(super) fn store(&self) -> &Store {
        self.history.last().unwrap()
    }

    /// A write that was accepted: a new state of everything.
    pub(super) fn change(&mut self, write: impl FnOnce(&mut Store, u64)) -> ResourceVersion {
        let mut store = Store::clone(self.store());
        store.version += 1;
        let version = store.version;
        write(&mut store, version);
        self.history.push(Arc::new(store));
        self.judge();
        version.to_string().into()
    }

    pub(super) fn change_pod(&mut self, slot: usize, write: impl FnOnce(&mut StoredPod)) -> ResourceVersion {
        self.change(|store, version| {
            let stored = store.pods.get_mut(&slot).unwrap();
            write(stored);
            stored.pod.version = version.to_string().into();
        })
    }

    pub(super) fn make(&mut self, slot: usize) {
        self.born += 1;
        let key =
            PodId { namespace: "ns".into(), name: format!("p{slot}").into(), uid: format!("u{}", self.born).into() };
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
    pub(super) fn judge(&mut self) {
        for (node, key) in (0..NODES).flat_map(|node| (0..KEYS).map(move |key| (node, key))) {
            let (name, kubelet) = (name_of(node), &self.kubelets[node]);
            let under_way = self.store().pods.iter().filter(|(slot, stored)| {
                let uid = stored.pod.key.uid.clone();
                let excused = !kubelet.has_work(**slot, &uid, key) || self.stripped.contains(&(uid, key));
                needs(**slot).contains(&key) && stored.pod.waits_on(&name) && !excused
            });
            let under_way: Vec<String> = under_way.map(|(_, stored)| stored.pod.key.to_string()).collect();
            if under_way.len() > 1 {
                self.broken.get_or_insert(format!("{under_way:?} are on their way to n{node} at once, key {key}"));
            }
        }
    }

    pub(super) fn deed(&mut self, deed: Deed) {
        match deed {
            Deed::Pass(millis) => self.now += Duration::from_millis(millis),
            Deed::Start(at, slot, node) => self.start(at, slot, node),
            Deed::Sweep(at, node) => {
                if self.processes[at].machine.is_none() {
                    self.processes[at].reads.clear();
                    let sweep = Sweep::new(name_of(node), TTL, Takeover::State, Mode::Repair);
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
            Deed::Refuse(at) => {
                let sent = self.processes[at].sent.as_mut();
                if let Some(sent) = sent.filter(|sent| sent.writes() && sent.reply.is_none()) {
                    sent.reply = Some(Reply::Wrote(WriteOutcome::Refused("an admission policy says no".into())));
                }
            }
            Deed::Late(which) => {
                if !self.late.is_empty() {
                    let mut sent = self.late.remove(which % self.late.len());
                    self.apply(&mut sent);
                }
            }
            Deed::Nodes(at) => self.watch_nodes(at),
            Deed::Pods(at) => self.watch_pods(at),
            Deed::RelistNodes(at) => self.relist_nodes(at),
            Deed::RelistPods(at) => self.relist_pods(at),
            Deed::Catch(at) => self.catch_up(at),
            Deed::GiveUp(at) => {
                if let Some((_, Machine::Bind { attempt, .. })) = &mut self.processes[at].machine {
                    attempt.give_up();
                }
            }
            Deed::Kill(at) => self.kill(at),
            Deed::Kubelet(node) => self.kubelet(node),
            Deed::Fail(node) => {
                if let Some((slot, uid, vendor, Asked::Served)) = self.kubelets[node].asks.clone() {
                    self.kubelets[node].asks = None;
                    self.plugin_releases(node, slot, KEY_OF[vendor]);
                    self.kubelet_says(slot, &uid, |pod| pod.finished = true);
                }
            }
            Deed::Early(node) => self.early(node),
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
            Deed::Revoke(node, key) => self.revoke(node, key),
        }
    }

    /// Everybody does what they should, and nothing fails any more: every pod gets through, and no lock is left.
    pub(super) fn calm(&mut self) {
        while !self.late.is_empty() {
            self.deed(Deed::Late(0));
        }
        let mut idle = 0;
        for round in 0..400 {
            self.now += Duration::from_secs(1);
            (0..=SWEEPER).for_each(|at| self.catch_up(at));
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
            idle = if self.is_through() { idle + 1 } else { 0 };
            // Each node was swept since, and it stays as it is.
            if idle > 2 * NODES {
                break;
            }
        }
        let waiting = |stored: &&StoredPod| !stored.pod.started && !stored.pod.finished;
        if let Some(stored) = self.store().pods.values().find(waiting) {
            self.broken.get_or_insert(format!("{stored:?} never gets through"));
        }
        if let Some(node) = self.store().nodes.iter().find(|node| node.locks.iter().any(|lock| lock.value.is_some())) {
            self.broken.get_or_insert(format!("{node:?} keeps its lock"));
        }
    }

    /// Whether every pod got through and no lock is left, and nothing is under way that could change that.
    fn is_through(&self) -> bool {
        let store = self.store();
        let binds = |process: &Process| matches!(process.machine, Some((_, Machine::Bind { .. })));
        store.pods.values().all(|stored| stored.pod.started || stored.pod.finished)
            && store.nodes.iter().all(|node| node.locks.iter().all(|lock| lock.value.is_none()))
            && !self.processes.iter().any(binds)
            && self.kubelets.iter().all(|kubelet| kubelet.asks.is_none())
            && self.late.is_empty()
            && self.ghosts.is_empty()
    }
}
