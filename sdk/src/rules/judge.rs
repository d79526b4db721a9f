//! Whether an answer is valid: identities, tiers, names and members of each group, what must not repeat among groups, and links that
//! make a forest.
//!
//! The form of an answer is another room's question ([`super::form`]), and was answered before. Numbers that lead nowhere are still
//! looked up and reported here: an answer can also be built by the host itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use super::answer::{Diagnostic, Group, Level, Members, Operator, Packed, Requirement, Selector, Subject, Topology};
use super::bounds::Bound;
use super::broken::{BrokenRule, SELECTOR_KEYS, SelectorProblem, Unacceptable, Violations};
use super::names::{self, Kind, SUBDOMAIN_MAX, Tier, is_label_key, is_label_value, is_object_name};

/// Longest group id in bytes: long enough for a path of label values, short enough for an annotation.
const ID_MAX: usize = 512;
/// What a member costs in a stored object beside its name, in bytes: the JSON around it, rounded up.
const MEMBER_BYTES: usize = 65;
/// A child's name is not known yet; this is longer than generated names usually are.
const CHILD_NAME_BYTES: usize = 64;
/// etcd refuses 1.5 MiB. A fifth is left for managed fields, labels and what other programs add.
const OBJECT_BYTES: usize = 6 * 1024 * 1024 / 5;
/// Longest code of a diagnostic in bytes: codes are metric labels.
const CODE_MAX: usize = 64;

/// What an answer is judged against.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a, N> {
    /// The source: the kind of groups that have none.
    pub source: &'a str,
    /// The names of the rows that the call was given.
    pub nodes: &'a [N],
    /// Label keys that only the host writes.
    pub reserved_labels: &'a [&'a str],
}

/// Judges an answer.
///
/// # Errors
///
/// Every rule that it breaks: the answer as a whole is refused, nothing of it is used.
pub fn judge<N: Deref<Target = str>>(topology: &Topology<'_>, ground: &Ground<'_, N>) -> Result<(), Violations> {
    let mut violations = Violations::default();
    let (groups, nodes) = (topology.groups.len(), ground.nodes.len());
    let max = Bound::Groups.of_nodes(nodes);
    if groups > max {
        // The count alone refuses the answer; checking the groups would cost time for nothing.
        violations.push(None, || BrokenRule::TooManyGroups { is: groups, nodes, max });
        return Err(violations);
    }
    let mut checks = GroupChecks::new(topology, ground);
    for (at, group) in topology.groups.iter().enumerate() {
        checks.check(at, group, &mut violations);
    }
    check_links(topology, &mut violations);
    topology.diagnostics.iter().for_each(|said| check_diagnostic(said, groups, nodes, &mut violations));
    if violations.total() > 0 { Err(violations) } else { Ok(()) }
}

/// Judges an answer, and counts the columns that it would need.
///
/// # Errors
///
/// Every rule that it breaks.
pub fn accept<N: Deref<Target = str>>(topology: &Topology<'_>, ground: &Ground<'_, N>) -> Result<(), Unacceptable> {
    judge(topology, ground).map_err(Unacceptable::Invalid)?;
    let selectors = topology.groups.iter().filter_map(|group| match &group.members {
        Members::Selector(selector) => Some(selector),
        _ => None,
    });
    let keys: BTreeSet<&str> = selectors
        .flat_map(|Selector { labels, requirements }| {
            labels.iter().map(|(key, _)| *key).chain(requirements.iter().map(|requirement| requirement.key))
        })
        .collect();
    if keys.len() > SELECTOR_KEYS { Err(Unacceptable::Selectors { keys: keys.len() }) } else { Ok(()) }
}

/// The checks over all groups of an answer, in the answer's order.
struct GroupChecks<'a, N> {
    ground: &'a Ground<'a, N>,
    levels: &'a [Level<'a>],
    ids: BTreeSet<&'a str>,
    fixed: BTreeSet<&'a str>,
    tier_names: BTreeMap<&'a str, (u32, &'a str)>,
    kinds: BTreeMap<&'a str, Option<names::Error>>,
    /// Per tier and row: the group that named the row last, counted from 1. Legal tiers only: there are few of them.
    seen: BTreeMap<Tier, Vec<u32>>,
}

impl<'a, N: Deref<Target = str>> GroupChecks<'a, N> {
    fn new(topology: &'a Topology<'a>, ground: &'a Ground<'a, N>) -> Self {
        Self {
            ground,
            levels: &topology.levels,
            ids: BTreeSet::new(),
            fixed: BTreeSet::new(),
            tier_names: BTreeMap::new(),
            kinds: BTreeMap::new(),
            seen: BTreeMap::new(),
        }
    }

    fn check(&mut self, at: usize, group: &'a Group<'a>, violations: &mut Violations) {
        let id = Some(group.id);
        let Some(Level { tier, tier_name, kind }) = self.levels.get(group.level as usize).copied() else { return };
        if group.id.is_empty() || group.id.len() > ID_MAX {
            violations.push(None, || BrokenRule::Id { at, is: group.id.len(), max: ID_MAX });
        } else if !self.ids.insert(group.id) {
            violations.push(id, || BrokenRule::IdTwice);
        }
        let legal = Tier::new(tier).map_err(|error| violations.push(id, || BrokenRule::Tier(error))).ok();
        let kind = kind.unwrap_or(self.ground.source);
        if let Some(error) = *self.kinds.entry(kind).or_insert_with(|| Kind::clean(kind).err()) {
            violations.push(id, || BrokenRule::Kind(error));
        }
        self.fixed_name(group, violations);
        self.tier_name(group.id, tier, tier_name, violations);
        self.labels(group, violations);
        self.members(at, group, legal, violations);
    }

    fn fixed_name(&mut self, group: &'a Group<'a>, violations: &mut Violations) {
        let Some(name) = group.fixed_name else { return };
        if let Err(rule) = is_object_name(name) {
            violations.push(Some(group.id), || BrokenRule::FixedName { name: name.to_owned(), rule });
        } else if !self.fixed.insert(name) {
            violations.push(Some(group.id), || BrokenRule::FixedNameTwice(name.to_owned()));
        }
    }

    fn tier_name(&mut self, id: &'a str, tier: u32, name: Option<&'a str>, violations: &mut Violations) {
        // On the wire the empty name means "none".
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        if name.len() > SUBDOMAIN_MAX {
            violations.push(Some(id), || BrokenRule::TierNameLength { is: name.len(), max: SUBDOMAIN_MAX });
            return;
        }
        let (other, first) = *self.tier_names.entry(name).or_insert((tier, id));
        if other != tier {
            let twice = || BrokenRule::TierNameTwice { name: name.to_owned(), tier, other, group: first.to_owned() };
            violations.push(Some(id), twice);
        }
    }

    fn labels(&self, group: &Group<'_>, violations: &mut Violations) {
        let mut known = BTreeSet::new();
        let id = Some(group.id);
        for &(key, value) in &group.labels {
            if let Err(rule) = is_label_key(key) {
                violations.push(id, || BrokenRule::LabelKey { key: key.to_owned(), rule });
            } else if self.ground.reserved_labels.contains(&key) {
                violations.push(id, || BrokenRule::LabelReserved(key.to_owned()));
            }
            if let Err(rule) = is_label_value(value) {
                let said = || BrokenRule::LabelValue { key: key.to_owned(), value: value.to_owned(), rule };
                violations.push(id, said);
            }
            if !known.insert(key) {
                violations.push(id, || BrokenRule::LabelTwice(key.to_owned()));
            }
        }
    }

    fn members(&mut self, at: usize, group: &Group<'_>, tier: Option<Tier>, violations: &mut Violations) {
        let id = Some(group.id);
        let (count, bytes) = match &group.members {
            Members::Rows(rows) => (rows.len(), tier.map_or(0, |tier| self.rows(at, group.id, tier, rows, violations))),
            Members::Packed(packed) => names(group.id, &entries(*packed), violations),
            Members::Names(listed) => names(group.id, listed, violations),
            Members::Groups(children) => (children.len(), children.len().saturating_mul(CHILD_NAME_BYTES)),
            Members::Selector(selector) => {
                check_selector(selector, group.id, violations);
                (1, 0)
            }
        };
        if count == 0 {
            violations.push(id, || BrokenRule::Empty);
        }
        let bytes = bytes.saturating_add(count.saturating_mul(MEMBER_BYTES));
        if bytes > OBJECT_BYTES {
            violations.push(id, || BrokenRule::TooLarge { members: count, bytes, max: OBJECT_BYTES });
        }
    }

    /// The bytes of the names of its nodes.
    fn rows(&mut self, at: usize, id: &str, tier: Tier, rows: &[u32], violations: &mut Violations) -> usize {
        let nodes = self.ground.nodes;
        let seen = self.seen.entry(tier).or_insert_with(|| vec![0; nodes.len()]);
        let stamp = u32::try_from(at.saturating_add(1)).unwrap_or(u32::MAX);
        let mut bytes = 0_usize;
        for &row in rows {
            match (nodes.get(row as usize), seen.get_mut(row as usize)) {
                (Some(_), Some(last)) if *last == stamp => violations.push(Some(id), || BrokenRule::RowTwice(row)),
                (Some(name), Some(last)) => {
                    *last = stamp;
                    bytes = bytes.saturating_add(name.len());
                }
                _ => violations.push(Some(id), || BrokenRule::Row { row, nodes: nodes.len() }),
            }
        }
        bytes
    }
}

/// The entries of names whose form was looked at before.
fn entries(packed: Packed<'_>) -> Vec<&str> {
    packed.entries().map(Iterator::collect).unwrap_or_default()
}

/// How many different names there are, and their bytes. Names that occur twice in one list mean the same.
fn names(id: &str, members: &[&str], violations: &mut Violations) -> (usize, usize) {
    for name in members {
        if let Err(rule) = is_object_name(name) {
            violations.push(Some(id), || BrokenRule::Name { name: (*name).to_owned(), rule });
        }
    }
    let different: BTreeSet<&str> = members.iter().copied().collect();
    (different.len(), different.iter().map(|name| name.len()).sum())
}

fn check_selector(selector: &Selector<'_>, id: &str, violations: &mut Violations) {
    let Selector { labels, requirements } = selector;
    let mut problem = |problem: SelectorProblem| violations.push(Some(id), || BrokenRule::Selector(problem));
    if labels.is_empty() && requirements.is_empty() {
        problem(SelectorProblem::Empty);
    }
    let mut labels = labels.clone();
    labels.sort_unstable();
    for (key, value) in labels {
        check_key(key, &mut problem);
        check_value(key, value, &mut problem);
    }
    for Requirement { key, operator, values } in requirements {
        check_key(key, &mut problem);
        let needs_values = match operator {
            Operator::OfValues => true,
            Operator::OfPresence => false,
            Operator::Unknown(other) => {
                problem(SelectorProblem::Operator((*other).to_owned()));
                continue;
            }
        };
        if values.is_empty() == needs_values {
            problem(SelectorProblem::Values((*key).to_owned()));
        }
        values.iter().for_each(|value| check_value(key, value, &mut problem));
    }
}

fn check_key(key: &str, problem: &mut impl FnMut(SelectorProblem)) {
    if let Err(rule) = is_label_key(key) {
        problem(SelectorProblem::Key { key: key.to_owned(), rule });
    }
}

fn check_value(key: &str, value: &str, problem: &mut impl FnMut(SelectorProblem)) {
    if let Err(rule) = is_label_value(value) {
        problem(SelectorProblem::Value { key: key.to_owned(), value: value.to_owned(), rule });
    }
}

/// References between groups: each leads to an existing group of a lower tier, and no group gets two parents. A child's tier is
/// strictly lower, so there are no cycles and no references to oneself.
fn check_links(topology: &Topology<'_>, violations: &mut Violations) {
    let groups = &topology.groups;
    let tier = |group: &Group<'_>| topology.levels.get(group.level as usize).map_or(0, |level| level.tier);
    let mut parents: Vec<Option<usize>> = vec![None; groups.len()];
    for (at, group) in groups.iter().enumerate() {
        let Members::Groups(children) = group.members else { continue };
        let id = Some(group.id);
        for &position in children {
            let place = position as usize;
            let (Some(child), Some(parent)) = (groups.get(place), parents.get_mut(place)) else {
                violations.push(id, || BrokenRule::Reference { at: position, groups: groups.len() });
                continue;
            };
            let name = || child.id.to_owned();
            let (below, above) = (tier(child), tier(group));
            if below >= above {
                violations.push(id, || BrokenRule::NotBelow { child: name(), tier: below, parent: above });
            }
            match *parent {
                None => *parent = Some(at),
                Some(same) if same == at => violations.push(id, || BrokenRule::ReferenceTwice(name())),
                Some(other) => violations.push(id, || BrokenRule::TwoParents {
                    child: name(),
                    parent: groups.get(other).map_or_else(name, |group| group.id.to_owned()),
                }),
            }
        }
    }
}

fn check_diagnostic(said: &Diagnostic<'_>, groups: usize, nodes: usize, violations: &mut Violations) {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=CODE_MAX).contains(&said.code.len()) || !said.code.bytes().all(legal) {
        violations.push(None, || BrokenRule::Code(said.code.to_owned()));
    }
    match said.subject {
        Subject::Outside => {}
        Subject::Rows(rows) => {
            for &row in rows.iter().filter(|row| **row as usize >= nodes) {
                violations.push(None, || BrokenRule::DiagnosticRow { row, nodes });
            }
        }
        Subject::Group(at) if at as usize >= groups => {
            violations.push(None, || BrokenRule::DiagnosticGroup { at, groups });
        }
        Subject::Group(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground<'a>(nodes: &'a [&'a str]) -> Ground<'a, &'a str> {
        Ground { source: "label", nodes, reserved_labels: &["host/own"] }
    }

    fn answer<'a>(tiers: &[u32], groups: Vec<(&'a str, u32, Members<'a>)>) -> Topology<'a> {
        let groups = groups.into_iter().map(|(id, level, members)| Group {
            id,
            level,
            labels: Vec::new(),
            members,
            fixed_name: None,
        });
        Topology {
            levels: tiers.iter().map(|&tier| Level { tier, tier_name: None, kind: None }).collect(),
            groups: groups.collect(),
            diagnostics: Vec::new(),
        }
    }

    #[test]
    fn every_broken_rule_is_reported_in_the_order_of_the_groups() {
        let said = answer(
            &[1, 99],
            vec![
                ("a", 0, Members::Rows(&[0, 0])),
                ("a", 1, Members::Rows(&[1])),
                ("b", 0, Members::Rows(&[])),
                ("c", 0, Members::Groups(&[0])),
            ],
        );
        let violations = judge(&said, &ground(&["n0", "n1"])).unwrap_err();
        let words: Vec<_> = violations.listed.iter().map(|violation| violation.problem.word()).collect();
        assert_eq!(words, ["row", "id-twice", "tier", "empty", "below"]);
    }

    #[test]
    fn selectors_read_few_labels_together() {
        let keys: Vec<String> = (0..65).map(|at| format!("key-{at}")).collect();
        let selector = |key| Members::Selector(Selector { labels: vec![(key, "v")], requirements: Vec::new() });
        let groups =
            |count| keys.iter().take(count).map(|key| (key.as_str(), 0, selector(key.as_str()))).collect::<Vec<_>>();
        assert_eq!(accept(&answer(&[1], groups(64)), &ground(&[])), Ok(()));
        let refused = accept(&answer(&[1], groups(65)), &ground(&[])).unwrap_err();
        assert_eq!(refused.to_string(), "its selectors read 65 different labels and may read 64");
    }
}
