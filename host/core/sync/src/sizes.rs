//! How large a virtual node is: what the physical node has, less what others use, less what the policy's limits cut off
//! (`bottomup-syncer.md` section 6.5, decisions D6, D8, D12, S14).
//!
//! | room | owns |
//! |---|---|
//! | [`counted`] | which pods of a node count, and how much of each |
//! | [`usage`] | their running sum |
//! | [`pacing`] | when a new size may be written |
//! | [`overcommit`] | what the pods of a virtual node request beyond its new size |
//!
//! Owns: the computation from base, usage and limits to the size, with every step of it, since `lend explain` shows why a
//! node is as small as it is. Placeholders for host ports are pods that run nowhere, but the virtual scheduler counts them: each gets
//! a slot beside those that are lent. It never reads windows (D8): outside of them a node keeps its size and has a taint. It never judges
//! a policy: it takes the limits of a valid one, and a limit on a resource that the node lacks is skipped and reported.
//!
//! Failure story: none. A negative amount, which no API server hands out, counts as none wherever it stands, so that it never
//! makes a node larger. The time is linear in the resources and limits (times a logarithm). So is the explanation: the caller
//! keeps [`Sizes::lent`] of its nodes and computes the rest again where it is shown.

pub mod counted;
pub mod overcommit;
pub mod pacing;
pub mod usage;

use std::collections::BTreeMap;
use std::fmt;

use super::policy::terms::Limit;
use super::quantity::{Percent, Quantity};
use super::resources::{Divisibility, PODS, ResourceList, ResourceName};

/// Which of the two lists of a node the base is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BaseSource {
    /// `status.allocatable`.
    Allocatable,
    /// `status.capacity`, because `status.allocatable` is empty.
    Capacity,
}

/// The size of a virtual node, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Each resource of the base.
    pub resources: BTreeMap<ResourceName, Size>,
    /// Limits on resources that the node lacks, in their order.
    pub skipped: Vec<SkippedLimit>,
}

/// The size of one resource, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// What the physical node has.
    pub base: Quantity,
    /// What counted pods use of it, written like the base.
    pub usage: Quantity,
    /// What is left of the base.
    pub left: Quantity,
    /// Each limit on it, in the order of the policy.
    pub steps: Vec<Step>,
    /// Whether the limits left a part of something that exists in whole numbers only (decision D12).
    pub rounding: Rounding,
    /// Of pods: the slots of placeholders for host ports ([`Sizes::with_placeholders`]).
    pub placeholders: Quantity,
    /// What is lent: `capacity` and `allocatable` of the virtual node.
    pub result: Quantity,
}

/// What one limit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The place of the limit in the policy, from 0.
    pub limit: usize,
    /// What the limits before it left.
    pub before: Quantity,
    /// Its quantity.
    pub quantity: Option<Quantity>,
    /// Its percent, and how much that is of what was there before.
    pub share: Option<(Percent, Quantity)>,
    /// Which of the two cut something off.
    pub bound: Bound,
    /// What it leaves.
    pub after: Quantity,
}

/// Which part of a limit cut something off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// None: there was no more than the limit allows.
    None,
    /// The quantity.
    Quantity,
    /// The percent.
    Percent,
}

/// Whether a result was rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// It was not.
    Exact,
    /// It was rounded down to a whole number.
    Down {
        /// From this amount.
        from: Quantity,
    },
}

/// A limit that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedLimit {
    /// The place of the limit in the policy, from 0.
    pub limit: usize,
    /// The resource that the node lacks.
    pub resource: ResourceName,
}

/// What a node has to lend from.
#[must_use]
pub fn base_of<'a>(allocatable: &'a ResourceList, capacity: &'a ResourceList) -> (&'a ResourceList, BaseSource) {
    if allocatable.is_empty() { (capacity, BaseSource::Capacity) } else { (allocatable, BaseSource::Allocatable) }
}

/// The size of the virtual node.
#[must_use]
pub fn calculate(base: &ResourceList, usage: &ResourceList, limits: &[Limit]) -> Sizes {
    let begin = |(name, base): (&ResourceName, &Quantity)| {
        let usage = usage.get(name).copied().unwrap_or_default().max(Quantity::ZERO);
        (name.clone(), Size::unlimited(*base, usage))
    };
    let mut sizes = Sizes { resources: base.iter().map(begin).collect(), skipped: Vec::new() };
    for (place, limit) in limits.iter().enumerate() {
        match sizes.resources.get_mut(&limit.resource) {
            Some(size) => size.limit(place, limit),
            None => sizes.skipped.push(SkippedLimit { limit: place, resource: limit.resource.clone() }),
        }
    }
    for (name, size) in &mut sizes.resources {
        size.round(name.divisibility());
    }
    sizes
}

/// What the pods of a virtual node request in sum, together with so many placeholders for host ports: their slots are in its size, so
/// they are here, too, where the two are compared.
#[must_use]
pub fn requested_beside(requested: &ResourceList, placeholders: usize) -> ResourceList {
    let mut all = requested.clone();
    if placeholders > 0 {
        let pods = all.entry(PODS.into()).or_default();
        *pods = pods.plus(Quantity::whole(placeholders));
    }
    all
}

impl Sizes {
    /// The same for a virtual node on which so many placeholders for host ports are. The pod of the lender that holds a port is used on
    /// the machine already, so its placeholder would take a second slot from those that are lent. No node shows more than its machine
    /// has.
    #[must_use]
    pub fn with_placeholders(mut self, count: usize) -> Self {
        if let Some(size) = self.resources.get_mut(PODS) {
            let most = size.base.saturating_sub(size.result);
            size.placeholders = Quantity::whole(count).min(most);
            size.result = size.result.plus(size.placeholders);
        }
        self
    }

    /// `capacity` and `allocatable` of the virtual node.
    #[must_use]
    pub fn lent(&self) -> ResourceList {
        self.resources.iter().map(|(name, size)| (name.clone(), size.result)).collect()
    }
}

impl Size {
    fn unlimited(base: Quantity, usage: Quantity) -> Self {
        let left = base.saturating_sub(usage);
        // Nothing has no format of its own, and the base says how this resource is written.
        let left = left.with_format(base.format());
        Self {
            base,
            usage: usage.with_format(base.format()),
            left,
            steps: Vec::new(),
            rounding: Rounding::Exact,
            placeholders: Quantity::ZERO,
            result: left,
        }
    }

    fn limit(&mut self, place: usize, limit: &Limit) {
        let before = self.result;
        let quantity = limit.value.quantity().map(|quantity| quantity.max(Quantity::ZERO));
        let share = limit.value.share().map(|percent| (percent, before.share(percent)));
        let caps =
            [quantity.map(|quantity| (Bound::Quantity, quantity)), share.map(|(_, share)| (Bound::Percent, share))];
        // The first of two equal caps is named.
        let lowest = caps.into_iter().flatten().min_by_key(|(_, cap)| *cap);
        let (bound, after) = lowest.filter(|(_, cap)| *cap < before).unwrap_or((Bound::None, before));
        self.steps.push(Step { limit: place, before, quantity, share, bound, after });
        self.result = after;
    }

    /// Once, after all limits: rounding in between would cut off more than the policy says.
    fn round(&mut self, divisibility: Divisibility) {
        let whole = self.result.floor();
        if divisibility == Divisibility::Whole && whole != self.result {
            self.rounding = Rounding::Down { from: self.result };
            self.result = whole;
        }
    }

    /// The limit that decided: the last one that cut something off.
    #[must_use]
    pub fn bound(&self) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.bound != Bound::None)
    }
}

impl Step {
    /// `limits[0]: at most 20 and 70% of 26500m, which is 18550m; leaves 18550m`, with each amount as `shown` writes it.
    pub fn sentence(&self, shown: impl Fn(Quantity) -> String) -> String {
        let quantity = self.quantity.map(|quantity| format!("at most {}", shown(quantity)));
        let share = self
            .share
            .map(|(percent, share)| format!("{percent} of {}, which is {}", shown(self.before), shown(share)));
        let parts: Vec<String> = quantity.into_iter().chain(share).collect();
        let then = match self.bound {
            Bound::None => "not reached".to_owned(),
            Bound::Quantity | Bound::Percent => format!("leaves {}", shown(self.after)),
        };
        format!("limits[{}]: {}; {then}", self.limit, parts.join(" and "))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence(|amount| amount.to_string()))
    }
}

#[cfg(test)]
pub(super) mod tests;
