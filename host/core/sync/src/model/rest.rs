//! The end of a history: nothing goes wrong any more, and operators confirm what is held. Then the system comes to rest, and
//! what is lent is what the lender's policy and the selectors say.

use super::actors::{Lender, lent_name};
use super::objects::{annotation, is_ours, ready_of, taints_of};
use super::pods::{copy_key, twin_key};
use super::process::{Process, Restored, Way};
use super::server::{Presence, Revision, Server, Store, is_terminating};
use super::world::{Budgets, Selected};
use super::*;
use crate::identity::mapping::{Mapping, is_mapped};
use crate::policy::validate::validate;
use crate::witness::{self, Verdict};

/// The most rounds until the system is at rest.
const ROUNDS: usize = 45;
/// The first rounds are short, so that one thing follows another; then they are long, so that every wait ends.
const SHORT: usize = 8;
/// After so many rounds every wait of the system is over: ten minutes for growth and for a grace.
const LEAST: usize = 20;
/// For so many rounds nothing is written by then.
const QUIET: usize = 3;

/// What the policies say of the machines of the binding east.
enum Standing {
    /// So many cores at most; `None`: all that is left.
    Limit(Option<u32>),
    /// Nothing that is valid is known.
    Frozen,
}

impl World {
    /// All do what they should, and nothing fails any more.
    pub(super) fn calm(&mut self) {
        (self.afterlife, self.hindered) = (0, None);
        self.relabel();
        self.budgets = Budgets::Open;
        for server in &mut self.servers {
            server.presence = Presence::There;
        }
        for process in &mut self.processes {
            (process.plan, process.way) = (None, Way::Whole);
        }
        for request in std::mem::take(&mut self.late) {
            let _ = self.apply(&request);
        }
        (0..NODES).for_each(|node| self.lender(Lender::Ready(node, "True")));
        let mut quiet = 0;
        for round in 0..ROUNDS {
            let before = (self.writes, self.moves);
            self.round(if round < SHORT { 20 } else { 60 });
            if self.broken.is_some() {
                return;
            }
            quiet = if before == (self.writes, self.moves) { quiet + 1 } else { 0 };
            if round >= LEAST && quiet >= QUIET {
                return self.judge_end();
            }
        }
        self.breaks("rest: something is written again and again".to_owned());
    }

    fn round(&mut self, seconds: u64) {
        self.pass(seconds);
        for slot in 0..SLOTS {
            let steps = (0..4).take_while(|_| self.top_down(slot) || self.collect(slot)).count();
            let ran = (0..BINDINGS).filter(|binding| self.kubelet(&copy_key(*binding, slot))).count();
            self.moves += steps + ran;
        }
        for at in [self.leader, WESTERN] {
            self.catch_up(at);
            self.confirm(at);
            self.report(at);
            (0..NODES).for_each(|node| self.work(at, node));
            for slot in 0..=OTHER {
                self.look_at_copy(at, slot);
                self.finish(at, slot);
            }
        }
    }

    /// Pod garbage collection of the virtual cluster: a pod whose node is gone.
    fn collect(&mut self, slot: usize) -> bool {
        let server = self.server_mut(Side::Virtual);
        let key = twin_key(slot);
        let is_lost = server.store.pods.get(&key).is_some_and(|pod| server.node(&pod.node).is_none());
        if is_lost {
            server.drop_pod(&key);
        }
        is_lost
    }

    /// An operator confirms what a process holds: a restore first, unless more was set back since the operator looked.
    pub(super) fn confirm(&mut self, at: usize) {
        let binding = binding_of(at);
        let is_down = self.is_gone(Side::Physical) || self.is_gone(Side::Virtual);
        if is_down || !self.processes[at].cache.is_listed() {
            return;
        }
        if self.processes[at].restored == Restored::Yes {
            if self.look_at_witness(at) {
                return;
            }
            self.resume(binding);
            self.bereft.retain(|_, of| *of != binding);
            self.uprooted.retain(|_, of| *of != binding);
            return;
        }
        let process = &mut self.processes[at];
        if process.guard.is_recalling() {
            return;
        }
        let Some(hash) = process.guard.held().map(|batch| batch.hash.clone()) else { return };
        let noted = process.ghost.held.keys().map(|act| act.node().clone());
        // What was noted is forgotten when another act is withdrawn, and the batch is held on.
        let held = (0..NODES).map(|node| lent_name(binding, node));
        let held = held.filter(|name| process.guard.holds(&Act::DeleteNode(name.clone())));
        let confirmed: Vec<NodeName> = noted.chain(held).collect();
        process.ghost.confirmed.extend(confirmed);
        process.ghost.is_another_batch();
        if let Err(error) = process.guard.confirm(&hash) {
            self.breaks(format!("held: {error}"));
        }
        self.note_guard(at);
    }

    /// A cluster goes back to a backup in which every binding has an earlier number than the other cluster shows. Numbers that only
    /// differ are not enough: where the other cluster was set back before, they differ in every backup, also in one of a moment ago.
    /// The witness does not see a restore to that one, as it sees none to within the last minute, so this world has none.
    ///
    /// Nor has it one of a store whose earlier restore an operator has not confirmed, to a lower revision: while that one waits no number
    /// is raised, so only the version shows it, and a few writes before the next look are enough to hide it.
    pub(super) fn restore(&mut self, side: Side, revision: Revision) {
        let waits = |process: &Process| process.unconfirmed.names(side.witnessed());
        if revision == Revision::Lower && self.processes.iter().any(waits) {
            return;
        }
        let (kept, copies) = (self.server(Side::Virtual).store.kept, self.server(Side::Physical).store.copies);
        let is_older = |store: &Store| {
            let (kept, copies) = match side {
                Side::Virtual => (store.kept, copies),
                Side::Physical => (kept, store.copies),
            };
            (0..BINDINGS).all(|binding| match witness::judge(kept[binding], copies[binding]) {
                Verdict::SetBack(found) => found.iter().any(|number| number.store == side.witnessed()),
                Verdict::Agree => false,
            })
        };
        let Some(backup) = self.server(side).backup(is_older) else { return };
        let before = self.servers.each_ref().map(|server: &Server| server.store.clone());
        self.server_mut(side).restore(backup, revision);
        self.bereave(&before);
        if side == Side::Virtual {
            self.forget_leases();
            self.processes.iter_mut().for_each(|process| process.ghost.removed.clear());
            self.reopen();
        }
    }

    /// The clock of a closing is what stands on the virtual node, and that is an earlier one now.
    fn reopen(&mut self) {
        let nodes = &self.servers[Side::Virtual as usize].store.nodes;
        let closed = nodes.values().filter(|node| objects::is_closed(node));
        let uids = closed.filter_map(|node| Some((node["metadata"]["uid"].as_str()?.to_owned(), Duration::ZERO)));
        self.closed = uids.collect();
    }

    fn judge_end(&mut self) {
        for node in 0..NODES {
            if let Err(wrong) = self.judge_node(node) {
                return self.breaks(format!("end: {} {wrong}", machine_name(node)));
            }
        }
        for slot in 0..SLOTS {
            if let Err(wrong) = self.judge_slot(slot) {
                return self.breaks(format!("end: the pod of slot {slot} {wrong}"));
            }
        }
    }

    fn judge_node(&self, node: usize) -> Result<(), String> {
        let lent = [EAST, WEST].map(|binding| self.server(Side::Virtual).node(&lent_name(binding, node)));
        let is_taken = |binding: usize| lent[binding].is_some_and(|node| self.binding_of_node(node).is_none());
        let machine = self.server(Side::Physical).node(&machine_name(node));
        let claim = machine.and_then(|machine| annotation(machine, keys::LEASED_BY));
        // A name that another object has is left as it is and reported.
        if is_taken(EAST) || is_taken(WEST) {
            return Ok(());
        }
        let lenders: Vec<usize> = [EAST, WEST].into_iter().filter(|binding| lent[*binding].is_some()).collect();
        if claim == Some(OTHERS) {
            let is_left = lenders.is_empty();
            return if is_left { Ok(()) } else { Err(format!("is another borrower's, and lent by {lenders:?}")) };
        }
        let wanted: Vec<usize> = [EAST, WEST].into_iter().filter(|binding| self.wants(*binding, machine)).collect();
        if wanted.contains(&EAST) && matches!(self.standing(), Standing::Frozen) {
            return Ok(());
        }
        match (&lenders[..], machine) {
            ([], _) if wanted.is_empty() => match claim {
                None => Ok(()),
                Some(claim) => Err(format!("is not lent, and claimed by {claim}")),
            },
            ([binding], Some(machine)) if wanted.contains(binding) => {
                let uid = self.uids[*binding];
                if claim != Some(format!("{US}/{uid}").as_str()) {
                    return Err(format!("is lent by {}, and claimed by {claim:?}", NAMES[*binding]));
                }
                lent[*binding].map_or(Ok(()), |lent| self.judge_lent_node(*binding, lent, machine))
            }
            _ => Err(format!("is lent by {lenders:?}, and wanted by {wanted:?}")),
        }
    }

    fn wants(&self, binding: usize, machine: Option<&Value>) -> bool {
        let pool = machine.and_then(|machine| machine["metadata"]["labels"]["pool"].as_str());
        match binding {
            EAST => pool == Some("gpu") && self.selected == Selected::Gpu,
            _ => matches!(pool, Some("gpu" | "cpu")),
        }
    }

    /// What the policy says, read again in a few lines.
    fn standing(&self) -> Standing {
        let Some(stored) = self.server(Side::Physical).store.policies.get(POLICY) else { return Standing::Limit(None) };
        let valid = [Some(&stored.object.spec), stored.status.last_valid.as_ref()];
        match valid.into_iter().flatten().find(|spec| validate(spec).is_ok()) {
            None => Standing::Frozen,
            Some(spec) => {
                let quantity = spec.resource_limits.first().and_then(|limit| limit.quantity.as_deref());
                Standing::Limit(quantity.map(|quantity| quantity.parse().unwrap()))
            }
        }
    }

    fn judge_lent_node(&self, binding: usize, lent: &Value, machine: &Value) -> Result<(), String> {
        let has = |key: &str| taints_of(lent, key).next().is_some();
        if is_terminating(lent) || has(keys::DELETING_TAINT) || annotation(lent, keys::CORDONED).is_some() {
            return Err("is lent, and its virtual node is on its way out".to_owned());
        }
        if has(keys::UNREACHABLE_TAINT) || ready_of(lent) != "True" {
            return Err(format!("is lent, and its virtual node is not healed: {}", lent["status"]["conditions"]));
        }
        for (key, wanted) in [
            (keys::PHYSICAL_NODE_UID, &machine["metadata"]["uid"]),
            ("rack", &machine["metadata"]["labels"]["rack"]),
            (keys::BINDING_UID, &json!(self.uids[binding])),
        ] {
            let there = &lent["metadata"]["labels"][key];
            if there != wanted {
                return Err(format!("is lent, and the label {key} of its virtual node is {there}"));
            }
        }
        if has(keys::OUT_OF_WINDOWS_TAINT) != self.is_closed(binding) {
            return Err(format!("is lent, and the taints of its virtual node are {}", lent["spec"]["taints"]));
        }
        let wanted = self.size_of(binding, lent, machine);
        let there = lent["status"]["allocatable"]["cpu"].as_str().and_then(|cores| Quantity::parse(cores).ok());
        if there != Quantity::parse(&wanted.to_string()).ok() {
            return Err(format!("is lent with {there:?} cores in place of {wanted}"));
        }
        Ok(())
    }

    /// Whether the windows of the policy are closed, by the clock of the process that leads.
    fn is_closed(&self, binding: usize) -> bool {
        let process = if binding == WEST { WESTERN } else { self.leader };
        let policies = &self.processes[process].cache.policies;
        let terms = policies.get(POLICY).and_then(|policy| policy.terms()).filter(|_| binding == EAST);
        terms.is_some_and(|terms| !terms.schedule.is_open(self.now_of(process).wall).is_open())
    }

    /// How many cores a machine has left for a binding, computed plainly.
    fn size_of(&self, binding: usize, lent: &Value, machine: &Value) -> u32 {
        let (us, name) = (self.identity(binding), &lent["metadata"]["name"]);
        let twins = &self.server(Side::Virtual).store.pods;
        let mut left = 4_u32;
        for copy in self.server(Side::Physical).store.pods.values() {
            if machine["metadata"]["name"] != *copy.node || copy.phase.is_final() {
                continue;
            }
            let named = VirtualPodRef::read(&copy.annotations).ok();
            let twin = named.and_then(|named| {
                let twin = twins.get(&objects::key(&named.namespace, &named.name))?;
                let is_mapped = is_mapped(&copy.side(), &twin.side()) == Mapping::Both;
                (is_mapped && *name == *twin.node && !twin.phase.is_final()).then_some(())
            });
            if !is_ours(&copy.labels, us) || twin.is_none() {
                left = left.saturating_sub(copy.cpu);
            }
        }
        match self.standing() {
            Standing::Limit(Some(most)) if binding == EAST => left.min(most),
            Standing::Limit(_) | Standing::Frozen => left,
        }
    }

    /// A virtual pod has its physical one, and no physical one is left over.
    fn judge_slot(&self, slot: usize) -> Result<(), String> {
        let twin = self.server(Side::Virtual).store.pods.get(&twin_key(slot));
        let copies: Vec<_> = (0..BINDINGS)
            .filter_map(|binding| self.server(Side::Physical).store.pods.get(&copy_key(binding, slot)))
            .collect();
        if let Some(left) = copies.iter().find(|copy| !copy.phase.is_final() && !self.is_twin_there(copy)) {
            return Err(format!("left {} behind", left.key()));
        }
        let Some(twin) = twin else { return Ok(()) };
        if twin.deletion.is_some() {
            return Err("terminates for ever".to_owned());
        }
        let is_copied = copies.iter().any(|copy| self.is_twin_there(copy));
        if !twin.phase.is_final() && !is_copied {
            return Err(format!("is {} on {}, and does not run", twin.phase, twin.node));
        }
        Ok(())
    }
}
