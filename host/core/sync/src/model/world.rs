//! The two clusters and all who act on them: the state, time, and what can happen next.

use super::actors::{Borrower, Edit, Lender, Pool, lent_name};
use super::carry::Request;
use super::objects::{labels_of, ready_of, with_ready};
use super::process::{Compared, Ghost, Process, Restored, Way, identity, setting};
use super::server::{GuardGhost, Presence, Revision, Server};
use super::*;
use crate::liveness::{Doubt, Reach};
use crate::node::Now;
use crate::policy::examples;
use crate::renewal::renew_time;
use crate::selector::{RawNodeSelector, RawTerm};
use crate::witness::{self, Kept, Sign, Step, Unconfirmed, Verdict};

/// How often everything that is periodic has its turn.
const BEAT: u64 = 10;
/// After so long without a renewal that it counts, node-lifecycle sets a node to Unknown.
const NODE_GRACE: Duration = Duration::from_secs(40);
/// How often the witness is raised.
const RAISE: Duration = Duration::from_secs(60);
/// How often a version is compared.
const PROBE: Duration = Duration::from_secs(30);
/// For how many of its own deeds a process goes on that does not know that another one leads.
const AFTERLIFE: usize = 4;
/// How many requests are under way for long; a further one never arrives.
const LATE: usize = 6;

/// What happens next. The first number of a deed of a process is the process.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed {
    /// Seconds pass.
    Pass(u64),
    /// All clocks are set by so many seconds.
    Step(i64),
    /// The clock of the process that does not lead is wrong by so many seconds.
    Skew(i64),
    /// A process decides about a node, and does what follows until nothing does.
    Do(usize, usize),
    /// It decides only.
    Look(usize, usize),
    /// It carries out one order.
    Carry(usize),
    /// The answer to its next request will be lost.
    Lose(usize),
    /// Its next request will be applied late.
    Delay(usize),
    /// A request that is late is applied.
    Late(usize),
    /// A process looks at the physical pod of a slot.
    Pod(usize, usize),
    /// A process looks whether it has to finish the virtual pod of a slot.
    End(usize, usize),
    /// A process writes the status of the policy.
    Status(usize),
    /// The watch of a kind shows everything.
    Watch(usize, Kind),
    /// All watches do, and what is not listed is.
    Catch(usize),
    /// A process is killed, and started again.
    Kill(usize),
    /// The other process takes over. The first does not know it at once.
    TakeOver,
    /// The lender does something.
    Lender(Lender),
    /// The virtual cluster does something: its users, its scheduler, its top-down half, the kubelets that run its pods.
    Borrower(Borrower),
    /// An API server does not answer, or does again.
    Gone(Side),
    /// Disruption budgets allow nothing, or everything.
    Budget,
    /// A cluster goes back to its last backup that the witness can tell from now.
    Restore(Side, Revision),
    /// An operator confirms what a process holds.
    Confirm(usize),
    /// The selector of the binding selects no machine, or its pool again.
    Select,
    /// The binding east is deleted by force, and applied again.
    Reapply,
}

/// Whether disruption budgets allow evictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budgets {
    Open,
    Closed,
}

/// What the binding east selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selected {
    Gpu,
    Nothing,
}

/// How a process reads a kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Watch,
    List,
}

/// What node-lifecycle remembers of a node.
#[derive(Debug, Clone)]
struct Sighting {
    uid: Value,
    renewed: Option<Timestamp>,
    counted: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) mutation: Mutation,
    /// Time that cannot be set.
    pub(super) steady: Duration,
    /// How far the clock of each process is ahead.
    pub(super) ahead: [SignedDuration; PROCESSES],
    pub(super) servers: [Server; 2],
    pub(super) processes: Vec<Process>,
    /// The process that serves the binding east.
    pub(super) leader: usize,
    /// What the other one still does before it notices.
    pub(super) afterlife: usize,
    pub(super) late: Vec<Request>,
    lifecycle: BTreeMap<String, Sighting>,
    next_raise: Duration,
    born: u64,
    pub(super) budgets: Budgets,
    pub(super) selected: Selected,
    /// The UIDs of the bindings that there are.
    pub(super) uids: [&'static str; BINDINGS],
    /// What an operator holds back: all processes where it is [`Bar::ReadOnly`], and the binding east otherwise.
    pub(super) hindered: Option<Bar>,
    /// Physical pods that lost their virtual one by a restore, with their binding, until an operator confirms it.
    pub(super) bereft: BTreeMap<Uid, usize>,
    /// UIDs of virtual nodes whose machine a restore took away or changed, likewise.
    pub(super) uprooted: BTreeMap<String, usize>,
    /// When the taint of closed windows was first seen on a virtual node, by its UID.
    pub(super) closed: BTreeMap<String, Duration>,
    /// How many requests of processes changed something.
    pub(super) writes: usize,
    /// How many times another client changed something while it is calm.
    pub(super) moves: usize,
    /// What must never be, and was.
    pub(super) broken: Option<String>,
}

/// So that every history begins at noon.
fn base() -> Timestamp {
    "2026-08-03T11:43:20Z".parse().unwrap()
}

/// Selects these pools.
fn pools(pools: &[&str]) -> NodeSelector {
    let term = RawTerm { match_expressions: vec![examples::requirement("pool", "In", pools)], match_fields: vec![] };
    NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap()
}

impl World {
    /// Two machines are lent by the one binding, with one pod that runs; the third is in no pool.
    pub(super) fn new(mutation: Mutation) -> Self {
        let steady = Duration::from_secs(1_000);
        let selectors = [pools(&["gpu"]), pools(&["gpu"]), pools(&["gpu", "cpu"])];
        let process = |(at, selector)| Process::new(setting(binding_of(at), selector), Inherited::default(), steady);
        let mut world = Self {
            mutation,
            steady,
            ahead: [SignedDuration::ZERO; PROCESSES],
            servers: [Server::new(), Server::new()],
            processes: selectors.into_iter().enumerate().map(process).collect(),
            leader: 0,
            afterlife: 0,
            late: Vec::new(),
            lifecycle: BTreeMap::new(),
            next_raise: steady,
            born: 0,
            budgets: Budgets::Open,
            selected: Selected::Gpu,
            uids: UIDS,
            hindered: None,
            bereft: BTreeMap::new(),
            uprooted: BTreeMap::new(),
            closed: BTreeMap::new(),
            writes: 0,
            moves: 0,
            broken: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        (0..NODES).for_each(|node| self.lender(Lender::Make(node)));
        self.lender(Lender::Relabel(NODES - 1, Pool::None));
        self.make_other();
        self.lender(Lender::Edit(Edit::Small));
        self.deed(Deed::Catch(0));
        self.deed(Deed::Status(0));
        for at in [0, WESTERN] {
            self.deed(Deed::Catch(at));
            (0..NODES).for_each(|node| self.deed(Deed::Do(at, node)));
        }
        self.borrower(Borrower::Schedule(0));
        (0..3).for_each(|_| self.borrower(Borrower::TopDown(0)));
        self.borrower(Borrower::Kubelet(0));
        for at in [0, WESTERN] {
            self.deed(Deed::Catch(at));
        }
        self.deed(Deed::Pod(0, 0));
        self.deed(Deed::Do(0, 0));
        self.deed(Deed::Pass(BEAT));
    }

    pub(super) fn server(&self, side: Side) -> &Server {
        &self.servers[side as usize]
    }

    pub(super) fn server_mut(&mut self, side: Side) -> &mut Server {
        &mut self.servers[side as usize]
    }

    pub(super) fn is_gone(&self, side: Side) -> bool {
        self.server(side).is_gone()
    }

    pub(super) fn epochs(&self) -> [u64; 2] {
        [self.servers[0].epoch, self.servers[1].epoch]
    }

    pub(super) fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// What a process has noted of itself.
    pub(super) fn heed(&mut self, at: usize) {
        if let Some(broken) = self.processes[at].ghost.broken.take() {
            self.breaks(format!("{broken} (process {at})"));
        }
    }

    /// A UID that no object had.
    pub(super) fn uid(&mut self, kind: &str) -> String {
        self.born += 1;
        format!("{kind}-{}", self.born)
    }

    /// The time of the day.
    pub(super) fn wall(&self) -> Timestamp {
        base() + self.steady
    }

    /// The time that a process has.
    pub(super) fn now_of(&self, at: usize) -> Now {
        Now { wall: self.wall() + self.ahead[at], steady: self.steady }
    }

    /// Whether a process serves its binding.
    pub(super) fn leads(&self, at: usize) -> bool {
        at == self.leader || at == WESTERN
    }

    /// Whether a process still does something.
    pub(super) fn acts(&self, at: usize) -> bool {
        self.leads(at) || self.afterlife > 0
    }

    /// Whether any clock is wrong. Then windows mean nothing.
    pub(super) fn is_skewed(&self) -> bool {
        self.ahead[0] != self.ahead[1]
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        let mut left = seconds;
        while left > 0 {
            let step = left.min(BEAT);
            left -= step;
            self.steady += Duration::from_secs(step);
            self.beat();
        }
    }

    /// What happens all the time: signs of life, renewals, a review of what is held, the witness, and node-lifecycle.
    fn beat(&mut self) {
        for at in 0..PROCESSES {
            let (now, is_gone) = (self.steady, self.is_gone(Side::Physical));
            let process = &mut self.processes[at];
            if !is_gone {
                process.contact.answered(now);
            }
            if matches!(process.contact.reach(now), Reach::Unreachable { .. }) {
                process.relisted.clear();
            }
            if self.leads(at) {
                self.probe(at);
                self.renew_all(at);
                self.processes[at].judge_again(now);
                self.note_guard(at);
            }
        }
        if self.steady >= self.next_raise {
            self.next_raise = self.steady + RAISE;
            [self.leader, WESTERN].into_iter().for_each(|at| self.raise(at));
            self.servers.iter_mut().for_each(Server::back_up);
        }
        self.node_lifecycle();
    }

    /// One version of each server is compared: a lower one than before is a restore.
    fn probe(&mut self, at: usize) {
        if self.steady < self.processes[at].next_probe {
            return;
        }
        self.processes[at].next_probe = self.steady + PROBE;
        for side in [Side::Physical, Side::Virtual] {
            let (revision, is_gone) = (self.server(side).revision, self.is_gone(side));
            let process = &mut self.processes[at];
            if !is_gone && revision < process.highest[side as usize] {
                process.highest[side as usize] = revision;
                process.unconfirmed.sees(&Sign::Version(side.witnessed()));
                process.set_back();
            }
        }
    }

    /// The witness is compared. Whether that could be done, and nothing was set back.
    pub(super) fn compare(&mut self, at: usize) -> bool {
        let is_down = self.is_gone(Side::Physical) || self.is_gone(Side::Virtual);
        if is_down && self.mutation != Mutation::VersionAlone {
            return false;
        }
        self.look_at_witness(at);
        self.processes[at].restored == Restored::No
    }

    /// The same where both clusters answer. Whether it shows what no operator can have read about.
    pub(super) fn look_at_witness(&mut self, at: usize) -> bool {
        let (kept, copy) = self.numbers(binding_of(at));
        let process = &mut self.processes[at];
        process.compared = Compared::Yes;
        let Verdict::SetBack(found) = witness::judge(kept, copy) else { return false };
        if self.mutation == Mutation::VersionAlone || process.unconfirmed.sees(&Sign::Numbers(found)).is_none() {
            return false;
        }
        process.set_back();
        true
    }

    /// An operator has confirmed what the processes of a binding know to be set back.
    pub(super) fn resume(&mut self, binding: usize) {
        let (kept, copy) = self.numbers(binding);
        witness::resume(kept, copy).into_iter().for_each(|step| self.write_witness(binding, step));
        for at in (0..PROCESSES).filter(|at| binding_of(*at) == binding) {
            (self.processes[at].restored, self.processes[at].unconfirmed) = (Restored::No, Unconfirmed::default());
        }
    }

    /// The witness is raised, copied and confirmed. Never where it was not compared.
    fn raise(&mut self, at: usize) {
        let is_down = self.is_gone(Side::Physical) || self.is_gone(Side::Virtual);
        if is_down || self.forbids(at, Doing::Announce) || !self.compare(at) {
            return;
        }
        let (kept, copy) = self.numbers(binding_of(at));
        witness::round(kept, copy).into_iter().for_each(|step| self.write_witness(binding_of(at), step));
    }

    /// What the witness of a binding has in both clusters.
    pub(super) fn numbers(&self, binding: usize) -> (Option<Kept>, Option<u64>) {
        let [kept, copies] = [Side::Virtual, Side::Physical].map(|side| &self.server(side).store);
        (kept.kept[binding], copies.copies[binding])
    }

    pub(super) fn write_witness(&mut self, binding: usize, step: Step) {
        match step {
            Step::Keep(kept) | Step::Confirm(kept) => {
                self.server_mut(Side::Virtual).store.kept[binding] = Some(kept);
            }
            Step::Copy(copy) => self.server_mut(Side::Physical).store.copies[binding] = Some(copy),
        }
    }

    /// What an operator holds back of a process.
    pub(super) fn hindrance(&self, at: usize) -> Option<Bar> {
        self.hindered.filter(|bar| *bar == Bar::ReadOnly || binding_of(at) == EAST)
    }

    /// Whether an operator holds this back.
    pub(super) fn forbids(&self, at: usize, doing: Doing) -> bool {
        self.hindrance(at).is_some_and(|bar| bar.forbids(doing))
    }

    /// The leases of all its virtual nodes are renewed.
    fn renew_all(&mut self, at: usize) {
        let leases: Vec<(String, Uid)> =
            self.processes[at].leases.iter().map(|(lent, uid)| (lent.clone(), uid.clone())).collect();
        for (lent, uid) in leases {
            self.renew(at, &lent, &uid);
        }
    }

    pub(super) fn renew(&mut self, at: usize, lent: &str, uid: &Uid) {
        let now = self.now_of(at).wall;
        let (is_gone, mutation) = (self.is_gone(Side::Virtual), self.mutation);
        let server = self.server_mut(Side::Virtual);
        if is_gone || server.node(lent).is_none_or(|node| node["metadata"]["uid"] != **uid) {
            return;
        }
        let stored = server.store.leases.get(lent).copied();
        let time = if mutation == Mutation::RenewNow { now } else { renew_time(now, stored).time };
        server.store.leases.insert(lent.to_owned(), time);
        if let Some(stored) = stored.filter(|stored| time <= *stored) {
            self.breaks(format!(
                "renewal: the lease of {lent} is renewed with {time}, which node-lifecycle does not count after {stored}"
            ));
        }
    }

    /// node-lifecycle sets a node to Unknown whose renewals do not count any more.
    fn node_lifecycle(&mut self) {
        if self.is_gone(Side::Virtual) {
            return;
        }
        let now = self.steady;
        let nodes = self.server(Side::Virtual).store.nodes.clone();
        self.lifecycle.retain(|name, _| nodes.contains_key(name));
        for (name, node) in nodes {
            let renewed = self.server(Side::Virtual).store.leases.get(&name).copied();
            let uid = node["metadata"]["uid"].clone();
            let new = || Sighting { uid: uid.clone(), renewed, counted: now };
            let seen = self.lifecycle.entry(name.clone()).or_insert_with(new);
            if seen.uid != uid {
                *seen = new();
            }
            if renewed > seen.renewed {
                (seen.renewed, seen.counted) = (renewed, now);
            }
            let is_late = now.saturating_sub(seen.counted) > NODE_GRACE;
            let finalizers = node["metadata"]["finalizers"].as_array();
            let is_syncers = finalizers.into_iter().flatten().any(|finalizer| finalizer == keys::VNODE_FINALIZER);
            if is_late && is_syncers && ready_of(&node) != "Unknown" {
                let patch = with_ready(&node, "Unknown", "NodeStatusUnknown");
                self.server_mut(Side::Virtual).edit_node(&name, &patch);
                self.moves += 1;
            }
        }
    }

    /// A watch shows all of a kind, or a list does.
    pub(super) fn read(&mut self, at: usize, kind: Kind, by: By) {
        let server = self.server(kind.side());
        if server.is_gone() {
            return;
        }
        let (epoch, restored) = (server.epoch, server.restored);
        let by = match (self.processes[at].cache.epoch(kind), by) {
            (_, By::List) => By::List,
            (Some(known), By::Watch) if known == epoch => By::Watch,
            // 410: it lists again.
            (Some(_), By::Watch) if restored == Revision::Raised => By::List,
            // It is answered, and shows nothing. Or there is none.
            (Some(_) | None, By::Watch) => return,
        };
        if by == By::List {
            self.processes[at].compared = Compared::No;
            self.processes[at].looks.clear();
        }
        self.take(at, kind);
        if by == By::List {
            self.listed(at, kind);
        }
    }

    fn take(&mut self, at: usize, kind: Kind) {
        let (servers, mutation) = (&self.servers, self.mutation);
        let server = &servers[kind.side() as usize];
        let process = &mut self.processes[at];
        let us = process.setting.identity.clone();
        let before = if kind == Kind::Lent { process.cache.lent.clone() } else { BTreeMap::new() };
        process.cache.take(kind, &server.store, server.epoch, &cache::Watch { us: &us, mutation });
        process.left.retain(|name, _| !process.cache.lent.contains_key(name));
        if mutation != Mutation::LeftIsGone {
            let left = before.into_iter().filter(|(name, _)| !process.cache.lent.contains_key(name));
            process.left.extend(left.map(|(name, node)| (name, node.uid.clone())));
        }
        let highest = &mut process.highest[kind.side() as usize];
        *highest = server.revision.max(*highest);
        if kind == Kind::Policies {
            process.cache.judge_policies(mutation, &mut process.valid);
        }
    }

    /// A list of a kind was read to its end.
    fn listed(&mut self, at: usize, kind: Kind) {
        let now = self.steady;
        let process = &mut self.processes[at];
        match kind {
            Kind::Machines | Kind::Copies => {
                process.relisted.insert(kind);
                if process.relisted.len() == 2 {
                    // It is asked for and answered in the same moment.
                    process.contact.answered(now);
                    process.contact.listed(process.contact.epoch(), now);
                }
            }
            Kind::Pods => process.removed.clear(),
            Kind::Lent | Kind::Policies => {}
        }
    }

    /// All that a process watches is shown, and what is not listed is.
    pub(super) fn catch_up(&mut self, at: usize) {
        let doubts = self.processes[at].contact.reach(self.steady) == Reach::Suspect(Doubt::NotListed);
        for kind in Kind::ALL {
            let is_unlisted = self.processes[at].cache.epoch(kind).is_none();
            let again = doubts && matches!(kind, Kind::Machines | Kind::Copies);
            self.read(at, kind, if is_unlisted || again { By::List } else { By::Watch });
        }
    }

    /// A process begins: its caches are empty, and it knows what the status of its binding says.
    fn restart(&mut self, at: usize) {
        let binding = binding_of(at);
        let store = &self.server(Side::Virtual).store;
        let (mut inherited, ghost) = (store.inherited[binding].clone(), store.ghosts[binding].clone());
        if self.mutation == Mutation::HeldForgotten {
            inherited.held = None;
        }
        if let Some(plan) = self.processes[at].plan.take() {
            self.leave_behind(at, &plan);
        }
        let setting = self.processes[at].setting.clone();
        self.processes[at] = Process::new(setting, inherited, self.steady);
        let GuardGhost { held, confirmed, taken } = ghost;
        self.processes[at].ghost = Ghost { before: held, confirmed, taken, ..Ghost::default() };
    }

    /// The binding east has another UID, and a status and a witness of its own. Its processes begin anew.
    fn reapply(&mut self) {
        self.uids[EAST] = APPLIED_AGAIN;
        let lent = &mut self.server_mut(Side::Virtual).store;
        (lent.kept[EAST], lent.inherited[EAST], lent.ghosts[EAST]) =
            (None, Inherited::default(), GuardGhost::default());
        self.server_mut(Side::Physical).store.copies[EAST] = None;
        self.afterlife = 0;
        for at in 0..WESTERN {
            self.processes[at].setting.identity = identity(EAST, APPLIED_AGAIN);
            self.restart(at);
        }
        self.adopt_leases(self.leader);
    }

    /// The first thing after a take-over: the leases of all nodes that are there are renewed. A Lease keeps the labels of its binding,
    /// whatever became of those of its node.
    fn adopt_leases(&mut self, at: usize) {
        if self.is_gone(Side::Virtual) {
            return;
        }
        let us = self.processes[at].setting.identity.clone();
        let store = &self.server(Side::Virtual).store;
        let (nodes, leases) = (store.nodes.clone(), store.leases.clone());
        let ours: BTreeSet<NodeName> = (0..NODES).map(|node| lent_name(binding_of(at), node)).collect();
        for (name, node) in nodes {
            let is_named = names_binding(&labels_of(&node), &us);
            let has_lease = ours.contains(&*name) && leases.contains_key(&name);
            if !is_named && !has_lease {
                continue;
            }
            let uid: Uid = node["metadata"]["uid"].as_str().unwrap_or_default().into();
            self.renew(at, &name, &uid);
            if !is_named && self.mutation != Mutation::LeftIsGone {
                self.processes[at].left.insert(name.clone(), uid.clone());
            }
            self.processes[at].leases.insert(name, uid);
        }
    }

    /// A request that is applied later, if it is not forgotten.
    pub(super) fn delay(&mut self, request: Request) {
        if self.late.len() < LATE {
            self.late.push(request);
        }
    }

    /// All clocks are set. Each process that serves a binding notices, and looks at all its nodes anew.
    fn step(&mut self, seconds: i64) {
        let by = SignedDuration::from_secs(seconds);
        let is_quiet = |at: &usize| {
            let process = &self.processes[*at];
            let is_reachable = process.contact.reach(self.steady) == Reach::Reachable;
            let is_sound = process.restored == Restored::No && process.compared == Compared::Yes;
            process.plan.is_none() && is_reachable && is_sound && process.cache.is_listed()
        };
        let is_down = self.is_gone(Side::Physical) || self.is_gone(Side::Virtual);
        if is_down || self.is_skewed() || ![self.leader, WESTERN].iter().all(is_quiet) {
            return;
        }
        for at in 0..PROCESSES {
            self.ahead[at] += by;
            self.processes[at].step(by);
        }
        for at in [self.leader, WESTERN] {
            self.processes[at].way = Way::Whole;
            self.catch_up(at);
            (0..NODES).for_each(|node| self.work(at, node));
        }
    }

    fn select(&mut self) {
        let (selected, selector) = match self.selected {
            Selected::Gpu => (Selected::Nothing, pools(&["nothing"])),
            Selected::Nothing => (Selected::Gpu, pools(&["gpu"])),
        };
        self.selected = selected;
        for at in 0..WESTERN {
            self.processes[at].setting.selector = selector.clone();
        }
    }

    pub(super) fn deed(&mut self, deed: Deed) {
        match deed {
            Deed::Pass(seconds) => self.pass(seconds),
            Deed::Step(seconds) => self.step(seconds),
            Deed::Skew(seconds) => self.skew(seconds),
            Deed::Do(at, node) => self.work(at, node),
            Deed::Look(at, node) => {
                self.look(at, node);
            }
            Deed::Carry(at) => {
                self.carry(at);
            }
            Deed::Lose(at) => self.processes[at].way = Way::Lost,
            Deed::Delay(at) => self.processes[at].way = Way::Late,
            Deed::Late(which) => self.arrive(which),
            Deed::Pod(at, slot) => self.look_at_copy(at, slot),
            Deed::End(at, slot) => self.finish(at, slot),
            Deed::Status(at) => self.report(at),
            Deed::Watch(at, kind) => self.read(at, kind, By::Watch),
            Deed::Catch(at) => self.catch_up(at),
            Deed::Kill(at) => {
                self.restart(at);
                if self.leads(at) {
                    self.adopt_leases(at);
                }
            }
            Deed::TakeOver => {
                self.leader = 1 - self.leader;
                self.afterlife = AFTERLIFE;
                self.restart(self.leader);
                self.adopt_leases(self.leader);
            }
            Deed::Gone(side) => {
                let server = self.server_mut(side);
                server.presence = if server.is_gone() { Presence::There } else { Presence::Gone };
            }
            Deed::Budget => {
                self.budgets = if self.budgets == Budgets::Open { Budgets::Closed } else { Budgets::Open };
            }
            Deed::Restore(side, revision) => self.restore(side, revision),
            Deed::Confirm(at) => self.confirm(at),
            Deed::Select => self.select(),
            Deed::Reapply => self.reapply(),
            Deed::Lender(does) => self.lender(does),
            Deed::Borrower(does) => self.borrower(does),
        }
        let zombie = 1 - self.leader;
        let of_zombie =
            matches!(deed, Deed::Do(at, _) | Deed::Look(at, _) | Deed::Carry(at) | Deed::Pod(at, _) if at == zombie);
        if of_zombie && self.afterlife > 0 {
            self.afterlife -= 1;
            if self.afterlife == 0 {
                self.restart(zombie);
            }
        }
    }

    /// node-lifecycle is started again with the store that it reads.
    pub(super) fn forget_leases(&mut self) {
        self.lifecycle.clear();
    }

    /// Only where no window is in force: what a window means to a wrong clock is not what is asked here.
    fn skew(&mut self, seconds: i64) {
        let policy = self.server(Side::Physical).store.policies.get(POLICY);
        let has_windows = policy.is_some_and(|policy| {
            let last = policy.status.last_valid.as_ref();
            !policy.object.spec.time_windows.is_empty() || last.is_some_and(|last| !last.time_windows.is_empty())
        });
        if !has_windows && !self.is_skewed() {
            self.ahead[1 - self.leader] += SignedDuration::from_secs(seconds);
        }
    }

    fn arrive(&mut self, which: usize) {
        if self.late.is_empty() {
            return;
        }
        let request = self.late.remove(which % self.late.len());
        if !self.is_gone(request.side()) {
            let _ = self.apply(&request);
        }
    }
}
