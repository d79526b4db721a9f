//! The plans for programs.

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::topology::guard::GuardVerdict;
use topoloom_core::topology::plan::{Action, Because, Dependency, PlanStep, Write, WritePart};

use crate::cli::output::Document;
use crate::cli::output::parts::{Content, Plugin, Round};
use crate::discovery::oneshot::Shot;

/// What a round of each source would write now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Plans {
    /// The enabled entries of the configuration.
    sources: Vec<SourcePlan>,
}

impl Document for Plans {
    const KIND: &'static str = "Plan";
}

/// What a round of one source would write.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SourcePlan {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<Plugin>,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Why nothing of it would be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<Round>,
    /// The writes, in an order in which they can be made one by one.
    writes: Vec<PlannedWrite>,
    /// Changes that cannot be written, each in a sentence.
    blocked: Vec<String>,
}

/// A held result: it waits for a person or for rounds that confirm it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Held {
    /// The hash of the result, for `topoloom confirm --result`.
    result: String,
    sentence: String,
}

/// One write.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PlannedWrite {
    /// Its number, from 1.
    number: usize,
    action: Verb,
    /// The HyperNode.
    name: String,
    /// The write in one line, as the text has it.
    line: String,
    /// What the HyperNode holds afterwards; absent for what is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Content>,
    /// A later write completes it: a cyclic change takes two.
    partly: bool,
    /// The writes that have to succeed before.
    after: Vec<After>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Create,
    Update,
    Delete,
}

/// A write that has to succeed before another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct After {
    /// Its number.
    number: usize,
    because: Reason,
}

/// Why one write comes after another.
#[derive(Debug, Serialize, JsonSchema)]
enum Reason {
    /// Both write the same HyperNode.
    SameObject,
    /// The first takes a child from its old parent.
    Releases,
    /// The first creates a child.
    Creates,
    /// The first is the last that lists what is deleted.
    Unlists,
    /// Otherwise a parent would for a moment not be above its child.
    Tier,
}

impl Plans {
    /// What the rounds would write.
    pub(super) fn of(shots: &[Shot]) -> Self {
        Self { sources: shots.iter().map(SourcePlan::of).collect() }
    }
}

impl SourcePlan {
    fn of(shot: &Shot) -> Self {
        let found = shot.result.as_ref().ok();
        let held = found.and_then(|found| match &found.decision.verdict {
            GuardVerdict::Held(held) => {
                Some(Held { result: found.decision.hash.to_string(), sentence: held.sentence.clone() })
            }
            _ => None,
        });
        let plan = found.map(|found| &found.decision.plan);
        let steps = plan.map(|plan| plan.steps.as_slice()).unwrap_or_default();
        Self {
            source: shot.entry.to_string(),
            plugin: Plugin::of(shot),
            error: shot.result.as_ref().err().map(ToString::to_string),
            held,
            round: found.map(Round::of),
            writes: steps.iter().enumerate().map(|(at, step)| PlannedWrite::of(at + 1, step)).collect(),
            blocked: plan.iter().flat_map(|plan| &plan.blocked).map(ToString::to_string).collect(),
        }
    }
}

impl PlannedWrite {
    fn of(number: usize, step: &PlanStep) -> Self {
        let content = |write: &Write| Some(Content::of(&write.spec, &write.labels, write.description.as_ref()));
        let (action, content, part) = match &step.action {
            Action::Create { write, part } => (Verb::Create, content(write), *part),
            Action::Update { write, changes, .. } => (Verb::Update, content(write), changes.part),
            Action::Delete { part, .. } => (Verb::Delete, None, *part),
        };
        let after = step.after.iter().map(|Dependency { step, because }| After {
            number: step.0 + 1,
            because: match because {
                Because::SameObject => Reason::SameObject,
                Because::Releases(_) => Reason::Releases,
                Because::Creates(_) => Reason::Creates,
                Because::Unlists(_) => Reason::Unlists,
                Because::Tier { .. } => Reason::Tier,
            },
        });
        Self {
            number,
            action,
            name: step.name.to_string(),
            line: step.to_string(),
            content,
            partly: part == WritePart::First,
            after: after.collect(),
        }
    }
}
