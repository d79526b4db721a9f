//! A discoverer that answers exactly what its configuration says, valid or not: what a host says to an answer is compared
//! with what the SDK says to the same answer natively.
//!
//! ```yaml
//! levels: [{tier: 1, name: rack}]
//! groups:
//! - {id: a7, level: 0, labels: [[rack, a7]], members: {rows: [0, 1]}}
//! - {id: s1, level: 1, members: {groups: [0]}}
//! diagnostics: [{code: no-rack, detail: these have none, about: {rows: [2]}}]
//! state: 3          # bytes
//! unchanged: false
//! ```

use topoloom_sdk::prelude::*;
use topoloom_sdk::{
    Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Members, Outcome, Packed, Topology,
};

struct Parrot;

/// An answer.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Said {
    unchanged: bool,
    state: usize,
    additions_only: bool,
    levels: Vec<SaidLevel>,
    groups: Vec<SaidGroup>,
    diagnostics: Vec<SaidDiagnostic>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidLevel {
    tier: u32,
    name: Option<String>,
    kind: Option<String>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidGroup {
    id: String,
    level: u32,
    #[serde(default)]
    labels: Vec<(String, String)>,
    members: SaidMembers,
    name: Option<String>,
    description: Option<String>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum SaidMembers {
    Rows(Vec<u32>),
    Groups(Vec<u32>),
    Names(Vec<String>),
    /// Offsets that no SDK makes.
    Packed {
        text: String,
        ends: Vec<u32>,
    },
    Selector {
        labels: Vec<(String, String)>,
        requirements: Vec<SaidRequirement>,
    },
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidRequirement {
    key: String,
    operator: SaidOperator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SaidOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SaidDiagnostic {
    code: String,
    detail: String,
    about: Option<SaidSubject>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum SaidSubject {
    Rows(Vec<u32>),
    Group(u32),
    Name(String),
}

impl Said {
    /// The answer in the types of the SDK.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let outcome = if self.unchanged { Outcome::Unchanged } else { Outcome::Topology(self.topology()) };
        Answer { outcome, state: vec![0; self.state] }
    }

    fn topology(&self) -> Topology {
        let levels = self.levels.iter().map(|SaidLevel { tier, name, kind }| Level {
            tier: *tier,
            tier_name: name.clone(),
            kind: kind.clone(),
        });
        let groups = self.groups.iter().map(|SaidGroup { id, level, labels, members, name, description }| Group {
            id: id.clone(),
            level: *level,
            labels: labels.clone(),
            members: members.members(),
            description: description.clone(),
            fixed_name: name.clone(),
        });
        let diagnostics = self.diagnostics.iter().map(|SaidDiagnostic { code, detail, about }| Diagnostic {
            code: code.clone(),
            detail: detail.clone(),
            subject: match about {
                None => Subject::Source,
                Some(SaidSubject::Rows(rows)) => Subject::Rows(rows.clone()),
                Some(SaidSubject::Group(position)) => Subject::Group(*position),
                Some(SaidSubject::Name(name)) => Subject::Name(name.clone()),
            },
        });
        Topology {
            coverage: if self.additions_only { Coverage::AdditionsOnly } else { Coverage::Complete },
            levels: levels.collect(),
            groups: groups.collect(),
            diagnostics: diagnostics.collect(),
        }
    }
}

impl SaidMembers {
    fn members(&self) -> Members {
        match self {
            Self::Rows(rows) => Members::Rows(rows.clone()),
            Self::Groups(positions) => Members::Groups(positions.clone()),
            Self::Names(names) => Members::Names(names.iter().collect()),
            Self::Packed { text, ends } => Members::Names(Packed { text: text.clone(), ends: ends.clone() }),
            Self::Selector { labels, requirements } => Members::Selector(LabelSelector {
                match_labels: labels.clone(),
                match_expressions: requirements.iter().map(SaidRequirement::requirement).collect(),
            }),
        }
    }
}

impl SaidRequirement {
    fn requirement(&self) -> LabelRequirement {
        let operator = match self.operator {
            SaidOperator::In => LabelOperator::In,
            SaidOperator::NotIn => LabelOperator::NotIn,
            SaidOperator::Exists => LabelOperator::Exists,
            SaidOperator::DoesNotExist => LabelOperator::DoesNotExist,
        };
        LabelRequirement { key: self.key.clone(), operator, values: self.values.clone() }
    }
}

impl Discoverer for Parrot {
    type Config = Said;

    fn describe() -> Description {
        Description::new("parrot", "0.1.0").vendor("topoloom").summary("Answers what its configuration says")
    }

    fn configure(_: &Said) -> Result<Requirements, Vec<Problem>> {
        Ok(Requirements::new().trigger(Trigger::on_names()))
    }

    fn discover(config: &Said, _: &Input<'_>) -> Result<Answer, Failure> {
        Ok(config.answer())
    }
}

topoloom_plugin!(Parrot);
