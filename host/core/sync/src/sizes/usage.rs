//! What the pods of a node use in sum (decision S14).
//!
//! Owns: a sum that follows every event of a pod without a look at the other pods of the node. The pod is found among them by binary
//! search, and a new one moves those that stand behind it: a node has a few hundred pods, of 40 bytes each.
//! It never decides what counts: that is [`counted`](super::counted). The same sum serves for the pods of a virtual node.
//!
//! Failure story: the sum never drifts, because each pod is removed with exactly what it was added with, in whole numbers that
//! cannot overflow. An event that comes twice, late, or for an unknown pod changes nothing that it should not.

use std::collections::BTreeMap;

use super::counted::{Counted, CountedAs};
use crate::quantity::{Format, Quantity};
use crate::resources::{ResourceList, ResourceName};
use crate::sorted::SortedMap;
use topoloom_core::names::Uid;

/// One pod's part of a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodUse {
    counted: CountedAs,
    /// What is more than zero, in billionths: small, since there is one of these for every pod of a cluster.
    amounts: Box<[(ResourceName, i128)]>,
}

/// Whether an event changed a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum UsageChange {
    /// The sum is another one.
    Changed,
    /// The sum is as it was: nothing has to be computed anew.
    Same,
}

/// The pods of one node and what they use in sum.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeUsage {
    pods: SortedMap<Uid, PodUse>,
    /// In the order of the names: a node has few resources, and a map would be four times as large.
    sums: Vec<(ResourceName, Sum)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Sum {
    /// A quantity has less than 2^94 billionths: 2^33 pods are needed to reach the end of 128 bits.
    nanos: i128,
    /// How many pods use it. Without any the resource goes.
    pods: usize,
}

impl PodUse {
    /// The part of a pod that counts so and requests that much in total.
    #[must_use]
    pub fn new(counted: &Counted, requests: &ResourceList) -> Self {
        let positive = |list: &ResourceList| {
            let positive = list.iter().filter(|(_, amount)| amount.nanos() > 0);
            positive.map(|(name, amount)| (name.clone(), amount.nanos())).collect()
        };
        match counted {
            Counted::Whole(why) => Self { counted: CountedAs::Whole(*why), amounts: positive(requests) },
            Counted::Excess { over } => Self { counted: CountedAs::Excess, amounts: positive(over) },
            Counted::Not(why) => Self { counted: CountedAs::Not(*why), amounts: Box::default() },
        }
    }

    /// How the pod counts.
    #[must_use]
    pub fn counted(&self) -> CountedAs {
        self.counted
    }

    /// How much of each resource counts.
    pub fn amounts(&self) -> impl Iterator<Item = (&ResourceName, Quantity)> {
        self.amounts.iter().map(|(name, nanos)| (name, Quantity::from_nanos(*nanos, Format::DecimalSi)))
    }
}

impl NodeUsage {
    /// The pod counts so from now on, whatever was known of it.
    pub fn set(&mut self, uid: &Uid, mut part: PodUse) -> UsageChange {
        if let Some(known) = self.pods.renew(uid)
            && known.amounts == part.amounts
        {
            known.counted = part.counted;
            return UsageChange::Same;
        }
        let before = self.subtract(uid);
        if part.amounts.is_empty() {
            self.pods.insert(uid.clone(), part);
            return before;
        }
        for (name, nanos) in &mut part.amounts {
            match self.sums.binary_search_by(|(known, _)| known.cmp(name)) {
                Ok(place) => {
                    let Some((known, sum)) = self.sums.get_mut(place) else { continue };
                    // All pods of the node share one text of the name.
                    *name = known.clone();
                    sum.nanos = sum.nanos.saturating_add(*nanos);
                    sum.pods = sum.pods.saturating_add(1);
                }
                Err(place) => {
                    self.sums.reserve_exact(1);
                    self.sums.insert(place, (name.clone(), Sum { nanos: *nanos, pods: 1 }));
                }
            }
        }
        self.pods.insert(uid.clone(), part);
        UsageChange::Changed
    }

    /// The pod is gone.
    pub fn remove(&mut self, uid: &Uid) -> UsageChange {
        let change = self.subtract(uid);
        self.pods.remove(uid);
        change
    }

    /// Whether no pod is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// What all pods use in sum, at most the limit of a quantity, in the decimal format.
    #[must_use]
    pub fn total(&self) -> ResourceList {
        self.sums().map(|(name, sum)| (name.clone(), sum)).collect()
    }

    /// The same of all pods but these.
    #[must_use]
    pub fn total_without(&self, left_out: &[Uid]) -> ResourceList {
        let mut less: BTreeMap<&ResourceName, i128> = BTreeMap::new();
        for (name, nanos) in left_out.iter().filter_map(|uid| self.pods.get(uid)).flat_map(|part| &part.amounts) {
            let less = less.entry(name).or_default();
            *less = less.saturating_add(*nanos);
        }
        let rest = self.sums.iter().filter_map(|(name, sum)| {
            let nanos = sum.nanos.saturating_sub(less.get(name).copied().unwrap_or_default());
            (nanos > 0).then(|| (name.clone(), Quantity::from_nanos(nanos, Format::DecimalSi)))
        });
        rest.collect()
    }

    /// What all pods use in sum, one resource after the other.
    pub fn sums(&self) -> impl Iterator<Item = (&ResourceName, Quantity)> {
        self.sums.iter().map(|(name, sum)| (name, Quantity::from_nanos(sum.nanos, Format::DecimalSi)))
    }

    /// Each pod and its part.
    pub fn pods(&self) -> impl Iterator<Item = (&Uid, &PodUse)> {
        self.pods.iter()
    }

    /// Takes the pod's part out of the sums.
    fn subtract(&mut self, uid: &Uid) -> UsageChange {
        let Some(part) = self.pods.get(uid).filter(|part| !part.amounts.is_empty()) else { return UsageChange::Same };
        for (name, nanos) in &part.amounts {
            let Ok(place) = self.sums.binary_search_by(|(known, _)| known.cmp(name)) else { continue };
            let Some((_, sum)) = self.sums.get_mut(place) else { continue };
            sum.nanos = sum.nanos.saturating_sub(*nanos);
            sum.pods = sum.pods.saturating_sub(1);
            if sum.pods == 0 {
                self.sums.remove(place);
            }
        }
        UsageChange::Changed
    }
}

#[cfg(test)]
mod tests;
