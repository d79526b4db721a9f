//! An answer as text: the very text of `Cluster::show` of the SDK, so that a native test and a case read alike.

use topoloom_core::names::NodeName;
use topoloom_core::plugin::{Answered, CallError};
use topoloom_core::topology::{
    Coverage, Group, LabelOperator, LabelRequirement, LabelSelector, Members, Subject, Topology,
};

/// One line per group (`tier 1 name | id | labels | members`), then one per diagnostic, each kind sorted.
#[must_use]
pub fn show(answer: &Answered, nodes: &[NodeName]) -> String {
    match answer {
        Answered::Unchanged => UNCHANGED.to_owned(),
        Answered::Topology(topology) => self::topology(topology, nodes),
    }
}

/// The text of an answer that repeats the last one.
pub(super) const UNCHANGED: &str = "unchanged\n";

/// The same of a topology.
#[must_use]
pub fn topology(topology: &Topology, nodes: &[NodeName]) -> String {
    let mut lines: Vec<String> = topology.groups.iter().map(|group| self::group(group, topology, nodes)).collect();
    lines.sort();
    if topology.coverage == Coverage::AdditionsOnly {
        lines.insert(0, "additions only".to_owned());
    }
    let report = topology
        .diagnostics
        .iter()
        .map(|said| format!("! {} | {} | {}", said.code, subject(&said.subject, topology, nodes), said.detail));
    let mut reports: Vec<String> = report.collect();
    reports.sort();
    lines.append(&mut reports);
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The text of a round that has no answer and says why. `None`: the plugin did not say it; the host ended it.
#[must_use]
pub fn failure(error: &CallError) -> Option<String> {
    match error {
        CallError::Failure(failure) => Some(format!("failure | {failure}\n")),
        CallError::InvalidConfig(problems) => {
            let problems = problems.iter().map(|problem| format!("problem | {problem}\n"));
            Some(problems.collect())
        }
        _ => None,
    }
}

fn group(group: &Group, topology: &Topology, nodes: &[NodeName]) -> String {
    let tier_name = group.tier_name.as_deref().unwrap_or("-");
    let mut labels: Vec<String> = group.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let members = members(&group.members, topology, nodes);
    let name = group.fixed_name.as_ref().map(|name| format!(" | name {name}")).unwrap_or_default();
    let said = group.description.as_ref().map(|said| format!(" | said {said}")).unwrap_or_default();
    format!("tier {} {tier_name} | {} | {} | {members}{name}{said}", group.tier, group.id, labels.join(" "))
}

fn members(members: &Members, topology: &Topology, nodes: &[NodeName]) -> String {
    match members {
        Members::Rows(rows) => self::rows(rows, nodes),
        Members::Groups(groups) => {
            let mut ids: Vec<&str> = groups.iter().map(|&group| id(group, topology)).collect();
            ids.sort_unstable();
            format!("[{}]", ids.join(" "))
        }
        Members::Names(names) => format!("names {}", names.iter().map(|name| &**name).collect::<Vec<_>>().join(" ")),
        Members::Selector(selector) => self::selector(selector),
    }
}

fn rows(rows: &[u32], nodes: &[NodeName]) -> String {
    let mut names: Vec<&str> = rows.iter().map(|&row| nodes.get(row as usize).map_or("?", |name| &**name)).collect();
    names.sort_unstable();
    names.join(" ")
}

fn id(group: u32, topology: &Topology) -> &str {
    topology.groups.get(group as usize).map_or("?", |group| &*group.id)
}

fn subject(subject: &Subject, topology: &Topology, nodes: &[NodeName]) -> String {
    match subject {
        Subject::Source => "source".to_owned(),
        Subject::Rows(rows) => self::rows(rows, nodes),
        Subject::Group(group) => id(*group, topology).to_owned(),
        Subject::Name(name) => name.clone(),
    }
}

/// As the generated types of the interface print it.
fn selector(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().map(|(key, value)| format!("({key:?}, {value:?})"));
    let requirement = |said: &LabelRequirement| {
        let operator = match &said.operator {
            LabelOperator::In => "LabelOperator::In",
            LabelOperator::NotIn => "LabelOperator::NotIn",
            LabelOperator::Exists => "LabelOperator::Exists",
            LabelOperator::DoesNotExist => "LabelOperator::DoesNotExist",
            LabelOperator::Unknown(other) => other,
        };
        format!("LabelRequirement {{ key: {:?}, operator: {operator}, values: {:?} }}", said.key, said.values)
    };
    format!(
        "LabelSelector {{ match-labels: [{}], match-expressions: [{}] }}",
        labels.collect::<Vec<_>>().join(", "),
        selector.match_expressions.iter().map(requirement).collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use topoloom_core::plugin::{Failure, Problem};
    use topoloom_core::topology::Diagnostic;

    use super::*;

    fn group(id: &str, members: Members) -> Group {
        Group {
            id: id.into(),
            kind: None,
            fixed_name: None,
            description: None,
            tier: 1,
            tier_name: Some("rack".into()),
            labels: vec![("z".into(), "1".into()), ("a".into(), "2".into())],
            members,
        }
    }

    fn nodes() -> Vec<NodeName> {
        vec!["m1".into(), "m2".into()]
    }

    #[test]
    fn every_form_of_members_has_its_text_and_lines_are_sorted() {
        let selector = LabelSelector {
            match_labels: [("zone".to_owned(), "east".to_owned())].into(),
            match_expressions: vec![LabelRequirement {
                key: "gpu".into(),
                operator: LabelOperator::In,
                values: vec!["a".into(), "b".into()],
            }],
        };
        let mut top = Group { tier: 2, tier_name: None, ..group("s", Members::Groups(vec![1, 0])) };
        (top.labels, top.fixed_name, top.description) = (Vec::new(), Some("spine".into()), Some("by the door".into()));
        let answer = Topology {
            coverage: Coverage::AdditionsOnly,
            groups: vec![
                group("b", Members::Rows(vec![1, 0, 7])),
                group("a", Members::Names(vec!["x".into(), "m1".into()])),
                top,
                group("c", Members::Selector(selector)),
            ],
            diagnostics: vec![
                Diagnostic { code: "odd".into(), subject: Subject::Rows(vec![1]), detail: "no rack".into() },
                Diagnostic { code: "half".into(), subject: Subject::Group(2), detail: "one port".into() },
            ],
        };
        assert_eq!(
            topology(&answer, &nodes()),
            "additions only\n\
             tier 1 rack | a | a=2 z=1 | names x m1\n\
             tier 1 rack | b | a=2 z=1 | ? m1 m2\n\
             tier 1 rack | c | a=2 z=1 | LabelSelector { match-labels: [(\"zone\", \"east\")], match-expressions: \
             [LabelRequirement { key: \"gpu\", operator: LabelOperator::In, values: [\"a\", \"b\"] }] }\n\
             tier 2 - | s |  | [a b] | name spine | said by the door\n\
             ! half | s | one port\n\
             ! odd | m2 | no rack\n"
        );
        assert_eq!(show(&Answered::Unchanged, &[]), "unchanged\n");
    }

    #[test]
    fn what_the_plugin_reports_has_a_text_and_what_the_host_ended_has_none() {
        let upstream = Failure::Upstream { message: "503".into(), retry_after: None };
        assert_eq!(
            failure(&CallError::Failure(upstream)).unwrap(),
            "failure | the source outside the cluster failed: 503\n"
        );
        let problem = Problem { path: "label".into(), message: "missing".into() };
        assert_eq!(failure(&CallError::InvalidConfig(vec![problem])).unwrap(), "problem | label: missing\n");
        assert_eq!(failure(&CallError::Host("broken".into())), None);
    }
}
