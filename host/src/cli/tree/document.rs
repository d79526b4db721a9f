//! The trees for programs.

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::condition::Condition;
use topoloom_core::status::StatusIndex;
use topoloom_core::topology::Object;

use crate::cli::output::Document;
use crate::cli::output::parts::{Content, Round};
use crate::discovery::oneshot::{EntryName, Shot};

/// The topology that is in force, by source, with what a round now would say.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Trees {
    pub(super) sources: Vec<Tree>,
}

impl Document for Trees {
    const KIND: &'static str = "Tree";
}

/// What one source has made.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tree {
    /// The source; absent for HyperNodes that were made by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    /// What it is doing, in the word of its DiscoverySource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<&'static str>,
    pub(super) hyper_nodes: Vec<Stored>,
    /// Conditions that need attention.
    pub(super) complaints: Vec<Complaint>,
    /// What a round found now; absent where there was none, or where it has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<Round>,
    /// Writes that a round would make now.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<usize>,
    /// Why a round has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A HyperNode that is stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    name: String,
    content: Content,
    /// Existing Nodes below it, counted now.
    #[serde(skip_serializing_if = "Option::is_none")]
    node_count: Option<u64>,
    /// The count in its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    stored_node_count: Option<i64>,
}

impl Stored {
    /// An object with what its status counts and what is counted now.
    pub(super) fn of(object: &Object, stored: Option<i64>, index: &StatusIndex) -> Self {
        Self {
            name: object.name.to_string(),
            content: Content::of(&object.spec, &object.labels, object.description.as_ref()),
            node_count: index.get(&object.name).map(|count| count.nodes),
            stored_node_count: stored,
        }
    }
}

/// A condition that needs attention.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Complaint {
    /// The type of the condition.
    r#type: String,
    reason: String,
    message: String,
}

impl From<&Condition> for Complaint {
    fn from(condition: &Condition) -> Self {
        Self { r#type: condition.type_.clone(), reason: condition.reason.clone(), message: condition.message.clone() }
    }
}

impl Tree {
    /// What one source has made, without what is only known of some.
    pub(super) fn new(source: Option<&EntryName>, hyper_nodes: Vec<Stored>) -> Self {
        let source = source.map(ToString::to_string);
        Self { source, state: None, hyper_nodes, complaints: Vec::new(), round: None, drift: None, error: None }
    }

    /// What a round says about it now.
    pub(super) fn now(&mut self, shot: &Shot) {
        match &shot.result {
            Ok(found) => {
                self.round = Some(Round::of(found));
                self.drift = Some(found.decision.plan.steps.len());
            }
            Err(why) => self.error = Some(why.to_string()),
        }
    }
}
