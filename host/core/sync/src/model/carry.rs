//! What a process does about a node: it decides, reads what it was asked to read, and carries out one order after the other.
//! And what the API servers make of each request.

use super::judge::counts;
use super::objects::Pod;
use super::process::{Decided, Evidence, Plan, Process, Way};
use super::server::{Changed, GuardGhost, Refused};
use super::world::Budgets;
use super::*;
use crate::deletion::RefusedEviction;
use crate::guard::ActKind;
use crate::liveness::Lease;
use crate::node::scene::read_lent;
use crate::node::{LiveLent, LiveNode, NodeOrder, PodRemoval, Question, RemovalMeans};
use crate::precondition::Precondition;

/// How often a decision may ask before it is left.
const QUESTIONS: usize = 4;
/// How often a node is looked at again because something was written.
const AGAIN: usize = 8;
/// With which grace a virtual pod is deleted.
const GRACE: i64 = 30;

/// A request, with all that its sender knew.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) from: usize,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    /// An order about a node. `before` is the version of the virtual node that its sender knows.
    Node { machine: String, order: NodeOrder, before: ResourceVersion, decided: Duration },
    /// A virtual pod is removed.
    Remove(PodRemoval),
    /// A physical pod is deleted as an orphan.
    Orphan { key: String, precondition: Precondition },
    /// The status of a virtual pod is patched.
    PodStatus { key: String, body: Value },
    /// A virtual pod is deleted with grace 0.
    Finish { key: String, precondition: Precondition },
    /// The status of a policy.
    Status { name: String, version: u64, status: Box<PolicyStatus> },
}

/// What a process learns of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Refused(Refused),
    None,
}

impl Request {
    pub(super) fn side(&self) -> Side {
        match &self.what {
            What::Node { order: NodeOrder::PatchPhysical { .. } | NodeOrder::ReleasePhysical { .. }, .. }
            | What::Orphan { .. }
            | What::Status { .. } => Side::Physical,
            What::Node { .. } | What::Remove(_) | What::PodStatus { .. } | What::Finish { .. } => Side::Virtual,
        }
    }
}

impl World {
    /// What a process may not write. The witness is compared where it was not since the last list.
    pub(super) fn bars(&mut self, at: usize) -> Bars {
        if self.processes[at].compared == process::Compared::No {
            self.compare(at);
        }
        let process = &self.processes[at];
        let mut bars: BTreeSet<Bar> = Bar::of(process.contact.reach(self.steady)).into_iter().collect();
        if process.restored == process::Restored::Yes || process.compared == process::Compared::No {
            bars.insert(Bar::Restored);
        }
        if self.is_gone(Side::Virtual) {
            bars.insert(Bar::VirtualUnreachable);
        }
        bars.extend(self.hindrance(at));
        bars.into_iter().collect()
    }

    /// A process decides about a node, and does what follows until nothing does.
    pub(super) fn work(&mut self, at: usize, node: usize) {
        for _ in 0..AGAIN {
            if self.processes[at].plan.is_none() && !self.look(at, node) {
                return;
            }
            while self.processes[at].plan.is_some() {
                if !self.carry(at) || self.broken.is_some() {
                    return;
                }
            }
        }
    }

    /// A process decides about a node. Returns whether there is something to carry out.
    pub(super) fn look(&mut self, at: usize, node: usize) -> bool {
        let machine = machine_name(node);
        let mut evidence = Evidence::default();
        for _ in 0..QUESTIONS {
            let (bars, now, mutation) = (self.bars(at), self.now_of(at), self.mutation);
            self.processes[at].review(&bars, now.steady);
            if !self.acts(at) || !self.processes[at].cache.is_listed() || self.processes[at].plan.is_some() {
                return false;
            }
            let decided = self.processes[at].decide(&machine, &evidence, (now, &bars, mutation));
            self.heed(at);
            self.note_guard(at);
            let question = match &decided.orders[..] {
                [NodeOrder::Ask(question)] => Some(question.clone()),
                _ => None,
            };
            let Some(question) = question else { return self.plan(at, machine, decided) };
            if !self.answer(at, &machine, &question, &mut evidence) {
                return false;
            }
        }
        self.breaks(format!("rest: {machine} is asked about again and again (process {at})"));
        false
    }

    /// Reads what a decision asked for, if its server answers.
    fn answer(&self, at: usize, machine: &str, question: &Question, evidence: &mut Evidence) -> bool {
        match question {
            Question::PhysicalNode if self.mutation == Mutation::CacheIsProof => {
                let cached = self.processes[at].cache.machines.get(machine);
                evidence.live = cached.map_or(LiveNode::Gone, |node| LiveNode::Found(node.uid.clone()));
            }
            Question::PhysicalNode if self.is_gone(Side::Physical) => return false,
            Question::PhysicalNode => {
                let uid = self.server(Side::Physical).node(machine).and_then(|node| node["metadata"]["uid"].as_str());
                evidence.live = uid.map_or(LiveNode::Gone, |uid| LiveNode::Found(uid.into()));
            }
            // The cache has none: it was asked for because of that.
            Question::LentNode if self.mutation == Mutation::CacheIsProof => evidence.lent = LiveLent::Gone,
            Question::PodsOfNode if self.mutation == Mutation::CacheIsProof => {
                let process = &self.processes[at];
                evidence.pods = Some(process.pods_of(&process.lent_name(machine)).0);
            }
            Question::Binding(_) | Question::LentNode | Question::PodsOfNode if self.is_gone(Side::Virtual) => {
                return false;
            }
            Question::LentNode => {
                let node = self.server(Side::Virtual).node(&self.processes[at].lent_name(machine));
                evidence.lent = node.map_or(LiveLent::Gone, |node| LiveLent::Found(Arc::new(read_lent(node))));
            }
            Question::PodsOfNode => {
                let (process, store) = (&self.processes[at], &self.server(Side::Virtual).store);
                evidence.pods = Some(process.stored_pods(&process.lent_name(machine), store));
            }
            Question::Binding(_) => evidence.bindings = Some(self.bindings()),
        }
        true
    }

    /// A live list of the bindings.
    pub(super) fn bindings(&self) -> BTreeSet<Uid> {
        let gone = (self.mutation == Mutation::NotAdopted).then_some(UIDS);
        self.uids.into_iter().chain(gone.into_iter().flatten()).map(Uid::from).collect()
    }

    /// The status of the binding says what its guard has committed, and holds.
    pub(super) fn note_guard(&mut self, at: usize) {
        if !self.leads(at) || self.is_gone(Side::Virtual) {
            return;
        }
        let Process { guard, ghost, .. } = &self.processes[at];
        let inherited = guard.left();
        let allowed = inherited.grants.iter().filter(|acts| acts.kind == ActKind::DeleteNode);
        let allowed: BTreeSet<&NodeName> = allowed.flat_map(|acts| &acts.nodes).collect();
        // One that goes already may wait for a pod that is held.
        let held = ghost.held.keys().map(Act::node).filter(|node| !allowed.contains(node));
        let nodes = match &inherited.held {
            None => BTreeSet::new(),
            Some(_) if guard.is_recalling() => ghost.before.clone(),
            Some(_) => held.cloned().collect(),
        };
        let confirmed = ghost.confirmed.iter().filter(|node| allowed.contains(node)).cloned().collect();
        let taken = ghost.taken.clone();
        let (binding, store) = (binding_of(at), &mut self.server_mut(Side::Virtual).store);
        store.ghosts[binding] = GuardGhost { held: nodes, confirmed, taken };
        store.inherited[binding] = inherited;
    }

    /// Takes over what was decided.
    fn plan(&mut self, at: usize, machine: String, decided: Decided) -> bool {
        let Decided { orders, lease, grows, cause } = decided;
        let lent = self.processes[at].lent_name(&machine);
        let process = &self.processes[at];
        let cached = process.cache.lent.get(&*lent).map(|node| node.uid.clone());
        let uid = cached.or_else(|| process.left.get(&*lent).cloned());
        match (lease, uid) {
            (Some(Lease::Renew), Some(uid)) => drop(self.processes[at].leases.insert(lent.to_string(), uid)),
            (Some(Lease::Stop(why)), _) => {
                self.judge_stop(at, why);
                self.processes[at].leases.remove(&*lent);
            }
            (Some(Lease::Renew), None) => {}
            (None, _) => {
                self.judge_unrenewed(at, &lent, &orders);
                self.processes[at].leases.remove(&*lent);
            }
        }
        let disrupts = orders.iter().any(|order| matches!(order, NodeOrder::RemovePods(_) | NodeOrder::Delete { .. }));
        if orders.is_empty() || (disrupts && !self.compare(at)) {
            return false;
        }
        let mut orders: VecDeque<NodeOrder> = orders.into();
        let claims = matches!(orders.front(), Some(NodeOrder::PatchPhysical { .. }));
        let creates = matches!(orders.get(1), Some(NodeOrder::Create { .. }));
        if self.mutation == Mutation::ClaimAfter && claims && creates {
            orders.swap(0, 1);
        }
        let epochs = self.epochs();
        self.processes[at].plan = Some(Plan { machine, lent, orders, cause, grows, epochs, decided: self.steady });
        true
    }

    /// A process carries out its next order. Returns whether it goes on.
    pub(super) fn carry(&mut self, at: usize) -> bool {
        let Some(mut plan) = self.processes[at].plan.take() else { return false };
        let Some(order) = plan.orders.pop_front() else { return false };
        if !self.acts(at) {
            return false;
        }
        self.judge_sending(at, &plan, &order);
        let is_done = match &order {
            NodeOrder::StopLease(lent) => {
                self.processes[at].leases.remove(&**lent);
                true
            }
            NodeOrder::Ask(_) => true,
            NodeOrder::RemovePods(removals) => self.remove_pods(at, removals),
            NodeOrder::PatchPhysical { .. }
            | NodeOrder::Create { .. }
            | NodeOrder::PatchStatus { .. }
            | NodeOrder::PatchSpec { .. }
            | NodeOrder::Delete { .. }
            | NodeOrder::RemoveFinalizer { .. }
            | NodeOrder::ReleasePhysical { .. } => self.send_order(at, &plan, &order),
        };
        if is_done {
            self.answered(at, &plan, &order);
        }
        let goes_on = is_done || order.may_fail();
        if goes_on && !plan.orders.is_empty() {
            self.processes[at].plan = Some(plan);
        }
        goes_on
    }

    /// What a process that ends had begun: its next request may still be applied.
    pub(super) fn leave_behind(&mut self, at: usize, plan: &Plan) {
        match plan.orders.front() {
            Some(NodeOrder::RemovePods(removals)) => {
                for removal in removals.clone() {
                    self.delay(Request { from: at, what: What::Remove(removal) });
                }
            }
            Some(NodeOrder::Ask(_) | NodeOrder::StopLease(_)) | None => {}
            Some(order) => {
                let what = self.order(at, plan, order);
                self.delay(Request { from: at, what });
            }
        }
    }

    fn order(&self, at: usize, plan: &Plan, order: &NodeOrder) -> What {
        let before = self.processes[at].cache.lent.get(&*plan.lent).map(|node| node.version.clone());
        What::Node {
            machine: plan.machine.clone(),
            order: order.clone(),
            before: before.unwrap_or_default(),
            decided: plan.decided,
        }
    }

    fn send_order(&mut self, at: usize, plan: &Plan, order: &NodeOrder) -> bool {
        let what = self.order(at, plan, order);
        let answer = self.send(at, what);
        if let (NodeOrder::Create { name, .. }, Answer::Refused(Refused::Exists)) = (order, answer) {
            // Whatever has the name: it is read, and decided about anew.
            self.see_lent(at, name);
        }
        answer == Answer::Done
    }

    fn remove_pods(&mut self, at: usize, removals: &[PodRemoval]) -> bool {
        let mut is_done = true;
        for removal in removals {
            let uid = &removal.pod.uid;
            match self.send(at, What::Remove(removal.clone())) {
                // One that is gone is removed.
                Answer::Done | Answer::Refused(Refused::NotFound) => {
                    self.processes[at].removed.insert(uid.clone());
                    self.processes[at].ghost.removed.insert(uid.clone());
                }
                Answer::Refused(Refused::TooMany) => {
                    let wall = self.now_of(at).wall;
                    let refused = self.processes[at].refused.entry(uid.clone());
                    let refused = refused.or_insert(RefusedEviction { at: wall, times: 0 });
                    *refused = RefusedEviction { at: wall, times: refused.times + 1 };
                }
                Answer::Refused(Refused::Conflict | Refused::Exists) | Answer::None => is_done = false,
            }
        }
        is_done
    }

    /// A process sends a request, and learns what came of it.
    pub(super) fn send(&mut self, at: usize, what: What) -> Answer {
        let request = Request { from: at, what };
        self.judge_hindered(at, &request.what);
        let way = std::mem::replace(&mut self.processes[at].way, Way::Whole);
        if way == Way::Late {
            self.delay(request);
            return Answer::None;
        }
        if self.is_gone(request.side()) {
            return Answer::None;
        }
        match (self.apply(&request), way) {
            (_, Way::Lost) => Answer::None,
            (Ok(()), Way::Whole | Way::Late) => Answer::Done,
            (Err(refused), Way::Whole | Way::Late) => Answer::Refused(refused),
        }
    }

    /// An order was carried out, and the answer shows what is stored.
    fn answered(&mut self, at: usize, plan: &Plan, order: &NodeOrder) {
        match order {
            NodeOrder::PatchPhysical { .. } | NodeOrder::ReleasePhysical { .. } => {
                let store = &self.servers[Side::Physical as usize].store;
                self.processes[at].cache.machine(&plan.machine, store);
            }
            NodeOrder::Create { name, .. } => {
                self.see_lent(at, name);
                let made = self.processes[at].cache.lent.get(&**name).map(|node| node.uid.clone());
                if let Some(uid) = made {
                    self.renew(at, name, &uid);
                    self.processes[at].leases.insert(name.to_string(), uid);
                }
            }
            NodeOrder::PatchStatus { name, .. }
            | NodeOrder::PatchSpec { name, .. }
            | NodeOrder::RemoveFinalizer { name, .. } => self.see_lent(at, name),
            NodeOrder::Ask(_) | NodeOrder::RemovePods(_) | NodeOrder::StopLease(_) | NodeOrder::Delete { .. } => {}
        }
        let now = self.steady;
        // What is free or confirmed does not count against what comes next (S9).
        if let NodeOrder::Delete { name, .. } = order
            && plan.cause.is_some_and(counts)
            && !self.processes[at].ghost.confirmed.contains(name)
        {
            self.processes[at].ghost.taken.entry(name.clone()).or_insert(now);
        }
        self.processes[at].carried(plan, order, now);
        self.note_guard(at);
    }

    fn see_lent(&mut self, at: usize, name: &str) {
        let store = &self.servers[Side::Virtual as usize].store;
        self.processes[at].cache.lent_node(name, store);
    }

    /// What the server makes of a request.
    pub(super) fn apply(&mut self, request: &Request) -> Result<(), Refused> {
        match &request.what {
            What::Node { machine, order, before, decided } => {
                self.apply_order(request.from, machine, order, (before, *decided))
            }
            What::Remove(removal) => self.apply_removal(request.from, removal),
            What::Orphan { key, precondition } => self.apply_orphan(request.from, key, precondition),
            What::PodStatus { key, body } => self.apply_pod_status(request.from, key, body),
            What::Finish { key, precondition } => self.apply_finish(request.from, key, precondition),
            What::Status { name, version, status } => self.apply_status(name, *version, status),
        }
    }

    fn apply_order(
        &mut self,
        from: usize,
        machine: &str,
        order: &NodeOrder,
        (before, decided): (&ResourceVersion, Duration),
    ) -> Result<(), Refused> {
        match order {
            NodeOrder::PatchPhysical { body, .. } | NodeOrder::ReleasePhysical { body } => {
                let judged = self.judged(body, None);
                let changed = self.server_mut(Side::Physical).patch_node(machine, body, judged.as_deref())?;
                self.judge_machine(from, order, &changed);
                self.wrote(&changed);
            }
            NodeOrder::Create { name, body } => {
                let uid = self.uid("n");
                self.server_mut(Side::Virtual).create_node(name, &uid, body)?;
                self.note_closing(&uid, body, decided);
                self.writes += 1;
            }
            NodeOrder::PatchStatus { name, body, .. } | NodeOrder::RemoveFinalizer { name, body } => {
                self.patch_lent(from, name, body, (None, decided))?;
            }
            NodeOrder::PatchSpec { name, body, .. } => self.patch_lent(from, name, body, (Some(before), decided))?,
            NodeOrder::Delete { name, precondition } => {
                let judged = self.checked(precondition);
                let wall = self.wall();
                let node = self.server(Side::Virtual).node(name).cloned();
                let server = self.server_mut(Side::Virtual);
                server.delete_node(name, precondition.uid(), judged.as_deref(), wall)?;
                if let Some(node) = node {
                    self.judge_owner(from, "deletes", &node);
                }
                self.writes += 1;
            }
            NodeOrder::Ask(_) | NodeOrder::RemovePods(_) | NodeOrder::StopLease(_) => {}
        }
        Ok(())
    }

    fn patch_lent(
        &mut self,
        from: usize,
        name: &str,
        body: &Value,
        (before, decided): (Option<&ResourceVersion>, Duration),
    ) -> Result<(), Refused> {
        let judged = self.judged(body, before);
        let changed = self.server_mut(Side::Virtual).patch_node(name, body, judged.as_deref())?;
        self.judge_lent(from, name, body, &changed);
        self.note_closing(changed.after["metadata"]["uid"].as_str().unwrap_or_default(), &changed.after, decided);
        self.wrote(&changed);
        Ok(())
    }

    fn wrote(&mut self, changed: &Changed) {
        if changed.is_none() {
            self.breaks(format!("needless: a request changes nothing: {}", changed.before));
        } else {
            self.writes += 1;
        }
    }

    /// The version that a patch was computed from.
    fn judged(&mut self, body: &Value, before: Option<&ResourceVersion>) -> Option<String> {
        if self.mutation == Mutation::NoVersion {
            return None;
        }
        let in_body = body["metadata"]["resourceVersion"].as_str();
        let judged = in_body.or(before.map(|before| &**before)).filter(|judged| !judged.is_empty());
        if judged.is_none() {
            self.breaks(format!("version: a patch carries none: {body}"));
        }
        judged.map(str::to_owned)
    }

    fn checked(&self, precondition: &Precondition) -> Option<String> {
        (self.mutation != Mutation::NoVersion).then(|| precondition.version().to_string())
    }

    fn is_other(&self, pod: &Pod, precondition: &Precondition) -> bool {
        let is_changed = self.checked(precondition).is_some_and(|judged| *judged != *pod.resource_version());
        pod.uid != *precondition.uid() || is_changed
    }

    fn apply_removal(&mut self, from: usize, removal: &PodRemoval) -> Result<(), Refused> {
        let PodRemoval { pod, precondition, means } = removal;
        let key = objects::key(&pod.namespace, &pod.name);
        let stored = self.server(Side::Virtual).store.pods.get(&key).cloned().ok_or(Refused::NotFound)?;
        // An eviction is about the pod, whatever was written on it meanwhile.
        let is_other = match means {
            RemovalMeans::Eviction => stored.uid != *precondition.uid(),
            RemovalMeans::Delete | RemovalMeans::Shorten => self.is_other(&stored, precondition),
        };
        if is_other {
            return Err(Refused::Conflict);
        }
        if *means == RemovalMeans::Eviction && self.budgets == Budgets::Closed && stored.deletion.is_none() {
            return Err(Refused::TooMany);
        }
        self.judge_pod(from, "removes", &stored);
        if stored.deletion.is_none() {
            self.terminate(Side::Virtual, &key);
        }
        self.writes += 1;
        Ok(())
    }

    /// A pod is deleted with its own grace: the API server writes when that ends.
    pub(super) fn terminate(&mut self, side: Side, key: &str) {
        let end = self.wall() + SignedDuration::from_secs(GRACE);
        self.server_mut(side).edit_pod(key, |pod| {
            if pod.deletion.is_none() {
                (pod.deletion, pod.grace) = (Some(end), Some(GRACE));
            }
        });
    }

    fn apply_orphan(&mut self, from: usize, key: &str, precondition: &Precondition) -> Result<(), Refused> {
        let stored = self.server(Side::Physical).store.pods.get(key).cloned().ok_or(Refused::NotFound)?;
        if self.is_other(&stored, precondition) {
            return Err(Refused::Conflict);
        }
        self.judge_copy(from, &stored);
        self.terminate(Side::Physical, key);
        self.writes += 1;
        Ok(())
    }

    fn apply_pod_status(&mut self, from: usize, key: &str, body: &Value) -> Result<(), Refused> {
        let stored = self.server(Side::Virtual).store.pods.get(key).cloned().ok_or(Refused::NotFound)?;
        if self.judged(body, None).is_some_and(|judged| judged != *stored.resource_version()) {
            return Err(Refused::Conflict);
        }
        let phase = body["status"]["phase"].as_str().and_then(Phase::parse).unwrap_or(stored.phase);
        self.judge_pod(from, "patches", &stored);
        self.judge_phase(&stored, phase);
        self.server_mut(Side::Virtual).edit_pod(key, |pod| pod.phase = phase);
        self.writes += 1;
        Ok(())
    }

    fn apply_finish(&mut self, from: usize, key: &str, precondition: &Precondition) -> Result<(), Refused> {
        let stored = self.server(Side::Virtual).store.pods.get(key).cloned().ok_or(Refused::NotFound)?;
        if self.is_other(&stored, precondition) {
            return Err(Refused::Conflict);
        }
        self.judge_pod(from, "finishes", &stored);
        if !stored.phase.is_final() {
            self.breaks(format!("final phase: pod {key} is deleted with grace 0 while it is {}", stored.phase));
        }
        self.server_mut(Side::Virtual).drop_pod(key);
        self.writes += 1;
        Ok(())
    }

    fn apply_status(&mut self, name: &str, version: u64, status: &PolicyStatus) -> Result<(), Refused> {
        let stored = self.server(Side::Physical).store.policies.get(name).cloned().ok_or(Refused::NotFound)?;
        if stored.version != version {
            return Err(Refused::Conflict);
        }
        let policy = objects::StoredPolicy { status: status.clone(), ..objects::StoredPolicy::clone(&stored) };
        self.server_mut(Side::Physical).put_policy(policy);
        self.writes += 1;
        Ok(())
    }
}
