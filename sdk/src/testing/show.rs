//! An answer as text: sorted lines, so that a test compares two pages and a failing one shows both.

use crate::{Answer, Coverage, Group, LabelSelector, Members, Outcome, Packed, Subject, Topology};

/// One line per group (`tier 1 name | id | labels | members`), then one per diagnostic.
pub(super) fn answer(answer: &Answer, names: &Packed) -> String {
    let topology = match &answer.outcome {
        Outcome::Unchanged => return "unchanged\n".to_owned(),
        Outcome::Topology(topology) => topology,
    };
    let mut lines: Vec<String> = topology.groups.iter().map(|group| self::group(group, topology, names)).collect();
    lines.sort();
    if topology.coverage == Coverage::AdditionsOnly {
        lines.insert(0, "additions only".to_owned());
    }
    let mut reports: Vec<String> = topology
        .diagnostics
        .iter()
        .map(|report| format!("! {} | {} | {}", report.code, subject(&report.subject, topology, names), report.detail))
        .collect();
    reports.sort();
    lines.append(&mut reports);
    lines.into_iter().map(|line| line + "\n").collect()
}

fn group(group: &Group, topology: &Topology, names: &Packed) -> String {
    let level = topology.levels.get(group.level as usize);
    let tier = level.map_or(0, |level| level.tier);
    let tier_name = level.and_then(|level| level.tier_name.as_deref()).unwrap_or("-");
    let mut labels: Vec<String> = group.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let members = members(&group.members, topology, names);
    let name = group.fixed_name.as_ref().map(|name| format!(" | name {name}")).unwrap_or_default();
    let said = group.description.as_ref().map(|said| format!(" | said {said}")).unwrap_or_default();
    format!("tier {tier} {tier_name} | {} | {} | {members}{name}{said}", group.id, labels.join(" "))
}

fn members(members: &Members, topology: &Topology, names: &Packed) -> String {
    match members {
        Members::Rows(rows) => self::rows(rows, names),
        Members::Groups(groups) => {
            let mut ids: Vec<&str> = groups.iter().map(|&group| id(group, topology)).collect();
            ids.sort_unstable();
            format!("[{}]", ids.join(" "))
        }
        Members::Names(names) => format!("names {}", names.iter().collect::<Vec<_>>().join(" ")),
        Members::Selector(selector) => self::selector(selector),
    }
}

/// The order of its labels says nothing, and a host does not keep it.
fn selector(selector: &LabelSelector) -> String {
    let mut selector = selector.clone();
    selector.match_labels.sort_unstable();
    format!("{selector:?}")
}

fn rows(rows: &[u32], names: &Packed) -> String {
    let mut names: Vec<&str> = rows.iter().map(|&row| names.get(row as usize).unwrap_or("?")).collect();
    names.sort_unstable();
    names.join(" ")
}

fn id(group: u32, topology: &Topology) -> &str {
    topology.groups.get(group as usize).map_or("?", |group| group.id.as_str())
}

fn subject(subject: &Subject, topology: &Topology, names: &Packed) -> String {
    match subject {
        Subject::Source => "source".to_owned(),
        Subject::Rows(rows) => self::rows(rows, names),
        Subject::Group(group) => id(*group, topology).to_owned(),
        Subject::Name(name) => name.clone(),
    }
}
