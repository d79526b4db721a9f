//! An answer as the rules see it.

use crate::rules::answer;
use crate::topology::model::{
    Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Members, Subject, Topology,
};

pub(super) fn topology(topology: &Topology) -> answer::Topology<'_> {
    // The host's groups have the texts of their levels, and these are shared: each is its own level here.
    answer::Topology {
        levels: topology.groups.iter().map(level).collect(),
        groups: topology.groups.iter().zip(0..).map(|(group, position)| self::group(group, position)).collect(),
        diagnostics: topology.diagnostics.iter().map(diagnostic).collect(),
    }
}

fn level(group: &Group) -> answer::Level<'_> {
    answer::Level { tier: group.tier, tier_name: group.tier_name.as_deref(), kind: group.kind.as_deref() }
}

fn group(group: &Group, position: u32) -> answer::Group<'_> {
    answer::Group {
        id: &group.id,
        level: position,
        labels: group.labels.iter().map(|(key, value)| (&**key, &**value)).collect(),
        members: members(&group.members),
        fixed_name: group.fixed_name.as_deref(),
    }
}

fn members(members: &Members) -> answer::Members<'_> {
    match members {
        Members::Rows(rows) => answer::Members::Rows(rows),
        Members::Groups(positions) => answer::Members::Groups(positions),
        Members::Names(names) => answer::Members::Names(names.iter().map(|name| &**name).collect()),
        Members::Selector(selector) => answer::Members::Selector(self::selector(selector)),
    }
}

fn selector(selector: &LabelSelector) -> answer::Selector<'_> {
    let LabelSelector { match_labels, match_expressions } = selector;
    answer::Selector {
        labels: match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        requirements: match_expressions.iter().map(requirement).collect(),
    }
}

fn requirement(said: &LabelRequirement) -> answer::Requirement<'_> {
    let operator = match &said.operator {
        LabelOperator::In | LabelOperator::NotIn => answer::Operator::OfValues,
        LabelOperator::Exists | LabelOperator::DoesNotExist => answer::Operator::OfPresence,
        LabelOperator::Unknown(other) => answer::Operator::Unknown(other),
    };
    answer::Requirement { key: &said.key, operator, values: &said.values }
}

fn diagnostic(said: &Diagnostic) -> answer::Diagnostic<'_> {
    let subject = match &said.subject {
        Subject::Source | Subject::Name(_) => answer::Subject::Outside,
        Subject::Rows(rows) => answer::Subject::Rows(rows),
        Subject::Group(position) => answer::Subject::Group(*position),
    };
    answer::Diagnostic { code: &said.code, subject }
}
