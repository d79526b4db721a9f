//! The checks of each single group, and of what must not repeat among groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ValidateInput;
use super::problem::{BrokenRule, SelectorProblem, Violations};
use crate::names::NodeName;
use crate::rules::{self, Kind, SUBDOMAIN_MAX, Tier, is_label_key, is_label_value, is_object_name};
use crate::topology::forest::{Domain, DomainOrigin};
use crate::topology::model::{Group, LabelOperator, LabelSelector, Members, Selector};

/// Longest group id in bytes: long enough for a path of label values, short enough for an annotation.
const ID_MAX: usize = 512;
/// What a member costs in a stored object beside its name, in bytes: the JSON around it, rounded up.
const MEMBER_BYTES: usize = 65;
/// A child's name is not known yet; this is longer than generated names usually are.
const CHILD_NAME_BYTES: usize = 64;
/// etcd refuses 1.5 MiB. A fifth is left for managed fields, labels and what other programs add.
const OBJECT_BYTES: usize = 6 * 1024 * 1024 / 5;

/// The checks over all groups of an answer, in the answer's order.
pub(super) struct GroupChecks<'a> {
    input: &'a ValidateInput<'a>,
    ids: BTreeMap<&'a str, usize>,
    fixed: BTreeMap<&'a str, usize>,
    tier_names: BTreeMap<&'a str, (u32, &'a Arc<str>)>,
    kinds: BTreeMap<&'a str, Result<Kind, rules::Error>>,
    /// Per tier and row: the group that named the row last, counted from 1. Legal tiers only: there are few of them.
    seen: BTreeMap<Tier, Vec<u32>>,
    overlap: bool,
}

impl<'a> GroupChecks<'a> {
    pub(super) fn new(input: &'a ValidateInput<'a>) -> Self {
        Self {
            input,
            ids: BTreeMap::new(),
            fixed: BTreeMap::new(),
            tier_names: BTreeMap::new(),
            kinds: BTreeMap::new(),
            seen: BTreeMap::new(),
            overlap: false,
        }
    }

    /// Whether a Node may be in two groups of one tier. Never false when one is.
    pub(super) fn nodes_may_overlap(&self) -> bool {
        self.overlap
    }

    /// The domain that a group becomes, without children, or `None` when a part of it cannot be made.
    pub(super) fn check(&mut self, at: usize, group: &'a Group, violations: &mut Violations) -> Option<Domain> {
        let id = Some(&group.id);
        if group.id.is_empty() || group.id.len() > ID_MAX {
            violations.push(None, BrokenRule::Id { at, is: group.id.len(), max: ID_MAX });
        } else if self.ids.insert(&group.id, at).is_some() {
            violations.push(id, BrokenRule::IdTwice);
        }
        let tier = Tier::new(group.tier).map_err(|error| violations.push(id, BrokenRule::Tier(error))).ok();
        let text: &str = group.kind.as_deref().unwrap_or(self.input.source);
        let kind = self.kinds.entry(text).or_insert_with(|| Kind::clean(text)).clone();
        let kind = kind.map_err(|error| violations.push(id, BrokenRule::Kind(error))).ok();
        self.fixed_name(at, group, violations);
        let tier_name = self.tier_name(group, violations);
        let labels = self.labels(group, violations);
        let (nodes, selectors) = self.members(at, group, tier, violations);
        Some(Domain {
            id: Arc::clone(&group.id),
            kind: kind?,
            fixed_name: group.fixed_name.clone(),
            description: group.description.clone(),
            tier: tier?,
            tier_name,
            labels,
            nodes,
            children: Vec::new(),
            selectors,
            origin: DomainOrigin::Answer,
        })
    }

    fn fixed_name(&mut self, at: usize, group: &'a Group, violations: &mut Violations) {
        let Some(name) = &group.fixed_name else { return };
        if let Err(rule) = is_object_name(name) {
            violations.push(Some(&group.id), BrokenRule::FixedName { name: Arc::clone(name), rule });
        } else if self.fixed.insert(name, at).is_some() {
            violations.push(Some(&group.id), BrokenRule::FixedNameTwice(Arc::clone(name)));
        }
    }

    fn tier_name(&mut self, group: &'a Group, violations: &mut Violations) -> Option<Arc<str>> {
        // On the wire the empty name means "none".
        let name = group.tier_name.as_ref().filter(|name| !name.is_empty())?;
        if name.len() > SUBDOMAIN_MAX {
            violations.push(Some(&group.id), BrokenRule::TierNameLength { is: name.len(), max: SUBDOMAIN_MAX });
            return None;
        }
        let (other, first) = *self.tier_names.entry(name).or_insert((group.tier, &group.id));
        if other != group.tier {
            let (name, first) = (Arc::clone(name), Arc::clone(first));
            violations.push(Some(&group.id), BrokenRule::TierNameTwice { name, tier: group.tier, other, group: first });
        }
        Some(Arc::clone(name))
    }

    fn labels(&self, group: &Group, violations: &mut Violations) -> BTreeMap<Arc<str>, Arc<str>> {
        let mut labels = BTreeMap::new();
        let id = Some(&group.id);
        for (key, value) in &group.labels {
            if let Err(rule) = is_label_key(key) {
                violations.push(id, BrokenRule::LabelKey { key: Arc::clone(key), rule });
            } else if self.input.reserved_labels.contains(&&**key) {
                violations.push(id, BrokenRule::LabelReserved(Arc::clone(key)));
            }
            if let Err(rule) = is_label_value(value) {
                let (key, value) = (Arc::clone(key), Arc::clone(value));
                violations.push(id, BrokenRule::LabelValue { key, value, rule });
            }
            if labels.insert(Arc::clone(key), Arc::clone(value)).is_some() {
                violations.push(id, BrokenRule::LabelTwice(Arc::clone(key)));
            }
        }
        labels
    }

    fn members(
        &mut self,
        at: usize,
        group: &Group,
        tier: Option<Tier>,
        violations: &mut Violations,
    ) -> (Vec<NodeName>, Vec<Selector>) {
        let id = Some(&group.id);
        let (count, bytes, result) = match &group.members {
            Members::Rows(rows) => {
                let mut nodes = tier.map(|tier| self.rows(at, group, tier, rows, violations)).unwrap_or_default();
                sort_distinct(&mut nodes);
                (rows.len(), nodes.iter().map(|name| name.len()).sum(), (nodes, Vec::new()))
            }
            Members::Names(names) => {
                let mut nodes = self.names(group, names, violations);
                sort_distinct(&mut nodes);
                (nodes.len(), nodes.iter().map(|name| name.len()).sum(), (nodes, Vec::new()))
            }
            Members::Groups(children) => {
                (children.len(), children.len().saturating_mul(CHILD_NAME_BYTES), (Vec::new(), Vec::new()))
            }
            Members::Selector(selector) => {
                check_selector(selector, &group.id, violations);
                (1, 0, (Vec::new(), vec![Selector::Labels(selector.clone())]))
            }
        };
        if count == 0 {
            violations.push(id, BrokenRule::Empty);
        }
        let bytes = bytes.saturating_add(count.saturating_mul(MEMBER_BYTES));
        if bytes > OBJECT_BYTES {
            violations.push(id, BrokenRule::TooLarge { members: count, bytes, max: OBJECT_BYTES });
        }
        result
    }

    fn rows(
        &mut self,
        at: usize,
        group: &Group,
        tier: Tier,
        rows: &[u32],
        violations: &mut Violations,
    ) -> Vec<NodeName> {
        let id = Some(&group.id);
        let nodes = self.input.nodes;
        let seen = self.seen.entry(tier).or_insert_with(|| vec![0; nodes.len()]);
        let stamp = u32::try_from(at.saturating_add(1)).unwrap_or(u32::MAX);
        let mut names = Vec::with_capacity(rows.len().min(nodes.len()));
        for row in rows {
            match (nodes.get(*row as usize), seen.get_mut(*row as usize)) {
                (Some(_), Some(last)) if *last == stamp => violations.push(id, BrokenRule::RowTwice(*row)),
                (Some(name), Some(last)) => {
                    self.overlap |= *last != 0;
                    *last = stamp;
                    names.push(name.clone());
                }
                _ => violations.push(id, BrokenRule::Row { row: *row, nodes: nodes.len() }),
            }
        }
        names
    }

    fn names(&mut self, group: &Group, members: &[NodeName], violations: &mut Violations) -> Vec<NodeName> {
        // A name and a row can be the same Node; only comparing the names shows it.
        self.overlap = true;
        for name in members {
            if let Err(rule) = is_object_name(name) {
                violations.push(Some(&group.id), BrokenRule::Name { name: name.clone(), rule });
            }
        }
        members.to_vec()
    }
}

fn sort_distinct(nodes: &mut Vec<NodeName>) {
    nodes.sort_unstable();
    nodes.dedup();
}

fn check_selector(selector: &LabelSelector, id: &Arc<str>, violations: &mut Violations) {
    let mut problem = |problem: SelectorProblem| violations.push(Some(id), BrokenRule::Selector(problem));
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        problem(SelectorProblem::Empty);
    }
    let key_is_legal = |key: &String, problem: &mut dyn FnMut(SelectorProblem)| {
        if let Err(rule) = is_label_key(key) {
            problem(SelectorProblem::Key { key: key.clone(), rule });
        }
    };
    let value_is_legal = |key: &String, value: &String, problem: &mut dyn FnMut(SelectorProblem)| {
        if let Err(rule) = is_label_value(value) {
            problem(SelectorProblem::Value { key: key.clone(), value: value.clone(), rule });
        }
    };
    for (key, value) in &selector.match_labels {
        key_is_legal(key, &mut problem);
        value_is_legal(key, value, &mut problem);
    }
    for requirement in &selector.match_expressions {
        key_is_legal(&requirement.key, &mut problem);
        let needs_values = match &requirement.operator {
            LabelOperator::In | LabelOperator::NotIn => true,
            LabelOperator::Exists | LabelOperator::DoesNotExist => false,
            LabelOperator::Unknown(other) => {
                problem(SelectorProblem::Operator(other.clone()));
                continue;
            }
        };
        if requirement.values.is_empty() == needs_values {
            problem(SelectorProblem::Values(requirement.key.clone()));
        }
        for value in &requirement.values {
            value_is_legal(&requirement.key, value, &mut problem);
        }
    }
}
