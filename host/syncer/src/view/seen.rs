//! A binding in numbers, for metrics: read when a scraper asks, so that no event costs more because of it and no sum can drift.
//!
//! Never has a number of a single pod or node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use jiff::Timestamp;
use topoloom_sync::bars::Bars;
use topoloom_sync::liveness::Reach;
use topoloom_sync::phase::Phase;
use topoloom_sync::quantity::Quantity;
use topoloom_sync::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ResourceName};
use topoloom_sync::sizes::base_of;

use super::{Counts, View};

/// The resources that every machine has.
const USUAL: [&str; 4] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];
/// So many resources have numbers: the names of devices are the lender's to choose.
const RESOURCES: usize = 32;

/// How much of one resource the virtual nodes of a binding have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// What their machines have.
    pub base: Quantity,
    /// What counted pods of others use of that.
    pub used: Quantity,
    /// What the virtual nodes offer.
    pub lent: Quantity,
    /// What the pods on the virtual nodes request.
    pub requested: Quantity,
}

/// A binding in numbers.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its nodes and pods.
    pub counts: Counts,
    /// The virtual pods on its nodes by phase, each of [`Phase::ALL`].
    pub phases: [usize; Phase::ALL.len()],
    /// What its virtual nodes have, by resource.
    pub amounts: BTreeMap<ResourceName, Amounts>,
    /// What may not be written.
    pub bars: Bars,
    /// How the connection to the physical cluster is doing.
    pub reach: Reach,
    /// The nodes and pods of the batch that is held.
    pub held: Option<(usize, usize)>,
    /// For how long a boundary of windows has been due that is not followed.
    pub overdue: Duration,
}

impl View {
    /// The binding in numbers.
    #[must_use]
    pub fn seen(&self, now: Timestamp) -> Seen {
        let mut phases = [0; Phase::ALL.len()];
        for phase in self.ledger.bound() {
            if let Some(count) = phases.get_mut(phase as usize) {
                *count += 1;
            }
        }
        Seen {
            counts: self.counts(),
            phases,
            amounts: self.amounts(),
            bars: self.bars.clone(),
            reach: self.reach,
            held: self.guard.held().map(|batch| (batch.nodes, batch.pods)),
            overdue: self.overdue(now),
        }
    }

    fn amounts(&self) -> BTreeMap<ResourceName, Amounts> {
        let mut sums = BTreeMap::new();
        for (name, lent) in &self.lent {
            let machine = self.physical_of(name, lent);
            if let Some(machine) = machine.as_deref().and_then(|machine| self.physical.get(machine)) {
                let (base, _) = base_of(&machine.allocatable, &machine.capacity);
                add(&mut sums, base.iter().map(|(name, amount)| (name, *amount)), |sum| &mut sum.base);
            }
            if let Some(machine) = machine.as_deref() {
                add(&mut sums, self.ledger.uses(machine), |sum| &mut sum.used);
            }
            add(&mut sums, lent.allocatable.iter().map(|(name, amount)| (name, *amount)), |sum| &mut sum.lent);
            add(&mut sums, self.ledger.requests(name), |sum| &mut sum.requested);
        }
        sums
    }
}

/// Adds the amounts of one node to one of the sums of each resource.
fn add<'a>(
    sums: &mut BTreeMap<ResourceName, Amounts>,
    amounts: impl Iterator<Item = (&'a ResourceName, Quantity)>,
    part: fn(&mut Amounts) -> &mut Quantity,
) {
    for (name, amount) in amounts {
        let has_room = sums.len() < RESOURCES || USUAL.contains(&&**name);
        let sum = match sums.entry(name.clone()) {
            Entry::Occupied(sum) => sum.into_mut(),
            Entry::Vacant(_) if !has_room => continue,
            Entry::Vacant(place) => place.insert(Amounts::default()),
        };
        let sum = part(sum);
        *sum = sum.plus(amount);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use topoloom_core::names::Uid;
    use topoloom_sync::bars::Bar;
    use topoloom_sync::node::Now;
    use topoloom_sync::resources::read_list;

    use super::super::examples::{lend, now, view};
    use super::*;
    use crate::slices::pod::PodSlice;

    fn text(view: &View, resource: &str) -> Option<[String; 4]> {
        let seen = view.seen(now().wall);
        let Amounts { base, used, lent, requested } = *seen.amounts.get(resource)?;
        Some([base, used, lent, requested].map(|amount| amount.to_string()))
    }

    #[test]
    fn sums_are_those_of_lent_nodes_and_what_is_gone_is_in_none() {
        let mut view = view(3);
        assert_eq!(text(&view, CPU), None, "nothing is lent yet");
        lend(&mut view, 3);
        let pod = |kind: &str, uid: &str, node: &str| {
            json!({
                "metadata": {"namespace": kind, "name": uid, "uid": uid, "resourceVersion": "1"},
                "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
                "status": {"phase": "Running"},
            })
        };
        let slice = |pod: Value| -> PodSlice { serde_json::from_value(pod).unwrap() };
        let _ = view.ledger.physical_pod(&slice(pod("other", "p1", "w1"))).unwrap();
        let _ = view.ledger.virtual_pod(slice(pod("shop", "v1", "vnode-east-w2"))).unwrap();
        let _ = view.ledger.virtual_pod(slice(pod("shop", "v2", "vnode-east-w2"))).unwrap();
        assert_eq!(text(&view, CPU), Some(["12", "500m", "12", "1"].map(str::to_owned)));
        let seen = view.seen(now().wall);
        assert_eq!((seen.phases, seen.counts.bound), ([0, 2, 0, 0, 0], 2));
        view.lent_node_gone("vnode-east-w2");
        assert_eq!(text(&view, CPU), Some(["8", "500m", "8", "0"].map(str::to_owned)));
    }

    #[test]
    fn names_that_a_lender_chooses_have_no_more_than_so_many_sums() {
        let mut view = view(1);
        lend(&mut view, 1);
        let names: Vec<String> = (0..100).map(|number| format!("a.example.com/{number:03}")).collect();
        let amounts = names.iter().map(|name| (name.as_str(), "1")).chain([(CPU, "4"), (MEMORY, "8Gi")]);
        let mut node = view.lent("vnode-east-w1").unwrap().clone();
        (node.version, node.allocatable) = ("30".into(), Arc::new(read_list(amounts).unwrap().into()));
        view.lent_node(&"vnode-east-w1".into(), node);
        let amounts = view.seen(now().wall).amounts;
        assert!(amounts.len() <= RESOURCES + USUAL.len(), "{}", amounts.len());
        assert!(amounts.contains_key(CPU) && amounts.contains_key(MEMORY));
    }

    #[test]
    fn what_is_held_and_barred_is_seen() {
        let mut view = view(10);
        lend(&mut view, 10);
        assert_eq!(view.seen(now().wall).held, None);
        view.bars = [Bar::Paused].into_iter().collect();
        let orphans: Vec<Arc<str>> = (0..6).map(|number| format!("lent/p{number}").into()).collect();
        for seconds in [0, 5] {
            let later = Now { steady: now().steady + Duration::from_secs(seconds), ..now() };
            for orphan in &orphans {
                view.ask_orphan(orphan, &Uid::from(&**orphan), "vnode-east-w1".into(), later);
            }
        }
        let seen = view.seen(now().wall);
        assert_eq!((seen.bars.iter().collect::<Vec<_>>(), seen.counts.lent), (vec![Bar::Paused], 10));
        assert_eq!(seen.held.map(|(_, pods)| pods), Some(6));
    }

    #[test]
    fn each_phase_has_its_place() {
        for phase in Phase::ALL {
            assert_eq!(Phase::ALL.get(phase as usize), Some(&phase));
        }
    }
}
