//! What is different between two answers, group by group. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use topoloom_core::text;
use topoloom_core::topology::{Domain, Forest};

/// Names that one line lists; a person who moves a rack sees which one it is by a few.
const LISTED: usize = 8;
/// Bytes of an id, a name or a label on a line: all of them come from a plugin or a service.
const WORD: usize = 100;

/// One line for each group that is new, gone or different, by tier and id; none where both are the same.
#[must_use]
pub fn moved(before: &Forest, after: &Forest) -> Vec<String> {
    let (old, new) = (by_id(before), by_id(after));
    let ids: BTreeSet<_> = old.keys().chain(new.keys()).copied().collect();
    let mut lines: Vec<(u32, String)> = Vec::new();
    for id in ids {
        let shown = text::line(id, WORD);
        match (old.get(id), new.get(id)) {
            (None, Some(group)) => {
                lines.push((group.tier(), format!("+ tier {} {shown}: {}", group.tier(), group.members())));
            }
            (Some(group), None) => {
                lines.push((group.tier(), format!("- tier {} {shown}: {}", group.tier(), group.members())));
            }
            (Some(old), Some(new)) => {
                let changes = old.changes(new);
                if !changes.is_empty() {
                    lines.push((new.tier(), format!("~ tier {} {shown}: {}", new.tier(), changes.join("; "))));
                }
            }
            (None, None) => {}
        }
    }
    // Stable: within a tier they are sorted already.
    lines.sort_by_key(|(tier, _)| *tier);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// A group with the ids of those in it.
struct Whole<'a> {
    domain: &'a Domain,
    children: BTreeSet<&'a str>,
}

fn by_id(forest: &Forest) -> BTreeMap<&str, Whole<'_>> {
    let domains = forest.domains();
    let mut groups = BTreeMap::new();
    for domain in domains {
        let children = domain.children.iter().filter_map(|at| domains.get(*at)).map(|child| &*child.id).collect();
        groups.insert(&*domain.id, Whole { domain, children });
    }
    groups
}

impl<'a> Whole<'a> {
    fn tier(&self) -> u32 {
        self.domain.tier.get()
    }

    fn nodes(&self) -> BTreeSet<&'a str> {
        self.domain.nodes.iter().map(|name| &**name).collect()
    }

    /// What is in it, in words.
    fn members(&self) -> String {
        let mut parts = Vec::new();
        let nodes = self.nodes();
        if !nodes.is_empty() {
            parts.push(listed(&nodes));
        }
        if !self.children.is_empty() {
            parts.push(format!("groups {}", listed(&self.children)));
        }
        if !self.domain.selectors.is_empty() {
            parts.push("nodes by their labels".to_owned());
        }
        parts.join("; ")
    }

    fn changes(&self, new: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.domain.tier != new.domain.tier {
            changes.push(format!("tier {} before", self.domain.tier.get()));
        }
        changes.extend(came_and_went("", &self.nodes(), &new.nodes()));
        changes.extend(came_and_went("group ", &self.children, &new.children));
        if self.domain.selectors != new.domain.selectors {
            changes.push("another selector".to_owned());
        }
        let labels = |domain: &'a Domain| domain.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (before, after): (BTreeSet<String>, BTreeSet<String>) = (labels(self.domain), labels(new.domain));
        changes.extend(came_and_went("label ", &texts(&before), &texts(&after)));
        changes.extend(other("tier name", self.domain.tier_name.as_ref(), new.domain.tier_name.as_ref()));
        changes.extend(other("description", self.domain.description.as_ref(), new.domain.description.as_ref()));
        changes.extend(other("fixed name", self.domain.fixed_name.as_ref(), new.domain.fixed_name.as_ref()));
        changes
    }
}

fn texts(owned: &BTreeSet<String>) -> BTreeSet<&str> {
    owned.iter().map(String::as_str).collect()
}

/// What is in one of two sets only.
fn came_and_went(what: &str, before: &BTreeSet<&str>, after: &BTreeSet<&str>) -> Option<String> {
    let came: BTreeSet<&str> = after.difference(before).copied().collect();
    let went: BTreeSet<&str> = before.difference(after).copied().collect();
    let part =
        |sign: &str, names: &BTreeSet<&str>| (!names.is_empty()).then(|| format!("{sign} {what}{}", listed(names)));
    let parts: Vec<String> = part("+", &came).into_iter().chain(part("-", &went)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn other(what: &str, before: Option<&Arc<str>>, after: Option<&Arc<str>>) -> Option<String> {
    let shown =
        |said: Option<&Arc<str>>| said.map_or("none".to_owned(), |said| format!("{:?}", text::line(said, WORD)));
    (before != after).then(|| format!("{what} {}, {} before", shown(after), shown(before)))
}

/// The first few of them, and how many more there are.
fn listed(names: &BTreeSet<&str>) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| text::line(name, WORD)).collect();
    let more = names.len().saturating_sub(LISTED);
    let tail = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{tail}", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use topoloom_core::names::NodeName;
    use topoloom_core::topology::{Coverage, Group, Members, Topology, ValidateInput, validate};

    use super::*;

    fn group(id: &str, tier: u32, members: Members) -> Group {
        Group {
            id: id.into(),
            kind: None,
            fixed_name: None,
            description: None,
            tier,
            tier_name: None,
            labels: vec![("rack".into(), id.into())],
            members,
        }
    }

    fn forest(groups: Vec<Group>) -> Forest {
        let nodes: Vec<NodeName> = (0..20).map(|row| format!("m{row:02}").into()).collect();
        let topology = Topology { coverage: Coverage::Complete, groups, diagnostics: Vec::new() };
        let source = "desk".parse().unwrap();
        validate(&topology, &ValidateInput { source: &source, nodes: &nodes, reserved_labels: &[] }).unwrap()
    }

    fn rows(rows: std::ops::Range<u32>) -> Members {
        Members::Rows(rows.collect())
    }

    #[test]
    fn the_same_answer_in_another_order_moves_nothing() {
        let (a, b) = (group("a", 1, rows(0..2)), group("b", 1, rows(2..4)));
        assert_eq!(moved(&forest(vec![a.clone(), b.clone()]), &forest(vec![b, a])), [""; 0]);
    }

    #[test]
    fn each_group_that_is_new_gone_or_different_has_a_line() {
        let before = forest(vec![
            group("a", 1, rows(0..2)),
            group("b", 1, rows(2..4)),
            group("s", 2, Members::Groups(vec![0, 1])),
        ]);
        let mut changed = group("a", 1, rows(1..4));
        changed.labels = vec![("rack".into(), "A".into())];
        changed.description = Some("by the door".into());
        let after = forest(vec![changed, group("c", 1, rows(4..14)), group("s", 2, Members::Groups(vec![0, 1]))]);
        assert_eq!(
            moved(&before, &after),
            [
                "~ tier 1 a: + m02 m03, - m00; + label rack=A, - label rack=a; description \"by the door\", none before",
                "- tier 1 b: m02 m03",
                "+ tier 1 c: m04 m05 m06 m07 m08 m09 m10 m11 and 2 more",
                "~ tier 2 s: + group c, - group b",
            ]
        );
    }
}
