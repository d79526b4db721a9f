//! From a discoverer's answer to a valid forest, or to everything that is wrong with the answer.
//!
//! Owns the way from an answer that was judged to domains, findings and links. The rules themselves (`hypernode.md` 14.4,
//! `wasm-plugins.md` 2, decisions H2 and H15) are in [`crate::rules`], which the SDK has as well. A guest made the answer, so
//! nothing in it is trusted, and no input costs more than sorting it. Never repairs: the answer is accepted as it is or
//! refused as a whole, because a topology with a hole is a wrong topology. (Names that occur twice in one list are the
//! exception: they mean the same.)

mod make;
mod seen;

use super::forest::{Domain, Forest, Overlaps};
use super::model::{Members, Topology};
use crate::names::{NodeName, SourceName};
pub use crate::rules::broken::{BrokenRule, SelectorProblem, Violation, Violations};
use crate::rules::judge::{Ground, judge};
use make::{Maker, findings};

/// What an answer is checked against.
#[derive(Debug, Clone, Copy)]
pub struct ValidateInput<'a> {
    /// The source: the kind of groups that have none.
    pub source: &'a SourceName,
    /// The names of the rows that the call was given.
    pub nodes: &'a [NodeName],
    /// Label keys that only the host writes.
    pub reserved_labels: &'a [&'a str],
}

/// Checks an answer.
///
/// # Errors
///
/// Every rule that it breaks: the answer as a whole is refused, nothing of it is used.
pub fn validate(topology: &Topology, input: &ValidateInput<'_>) -> Result<Forest, Violations> {
    let ValidateInput { source, nodes, reserved_labels } = *input;
    judge(&seen::topology(topology), &Ground { source, nodes, reserved_labels })?;
    let mut maker = Maker::new(input);
    let domains: Vec<Domain> = topology.groups.iter().enumerate().map(|(at, group)| maker.domain(at, group)).collect();
    let domains = arrange(domains, topology);
    let overlaps = if maker.nodes_may_overlap() { Overlaps::of(&domains) } else { Overlaps::default() };
    Ok(Forest { coverage: topology.coverage, domains, findings: findings(topology, nodes), overlaps })
}

/// Sorts checked domains, which are still in the answer's order, and links them by their new positions.
fn arrange(domains: Vec<Domain>, topology: &Topology) -> Vec<Domain> {
    let mut order: Vec<usize> = (0..domains.len()).collect();
    order.sort_by(|a, b| {
        let key = |at: &usize| domains.get(*at).map(|domain| (domain.tier, &domain.id));
        key(a).cmp(&key(b))
    });
    let mut position = vec![0; domains.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(slot) = position.get_mut(*old) {
            *slot = new;
        }
    }
    let mut sorted: Vec<(usize, Domain)> = position.iter().copied().zip(domains).collect();
    for ((_, domain), group) in sorted.iter_mut().zip(&topology.groups) {
        if let Members::Groups(children) = &group.members {
            domain.children = children.iter().filter_map(|child| position.get(*child as usize).copied()).collect();
            domain.children.sort_unstable();
        }
    }
    sorted.sort_unstable_by_key(|(new, _)| *new);
    sorted.into_iter().map(|(_, domain)| domain).collect()
}

#[cfg(test)]
mod tests;
