//! What several documents have in them.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::discovery_source::{DiscoverySourceStatus, NodeCoverage};
use topoloom_core::topology::Spec;

use crate::discovery::oneshot::{OneshotResult, Shot};

/// A plugin: its own name and version, and its digest.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Plugin {
    /// Its own name.
    pub(in crate::cli) name: String,
    /// Its own version.
    pub(in crate::cli) version: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub(in crate::cli) digest: String,
}

impl Plugin {
    /// The plugin that answers in a round.
    pub(in crate::cli) fn of(shot: &Shot) -> Option<Self> {
        let revision = shot.revision.as_ref()?;
        Some(Self {
            name: revision.description.name.clone(),
            version: revision.description.version.clone(),
            digest: revision.plugin.digest().to_string(),
        })
    }

    /// The active plugin of a source, as its status has it.
    pub(in crate::cli) fn serving(status: &DiscoverySourceStatus) -> Option<Self> {
        let plugin = status.plugin.as_ref()?;
        Some(Self { name: plugin.name.clone(), version: plugin.version.clone(), digest: plugin.digest.clone() })
    }
}

/// How much of the cluster has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct PlacedNodes {
    /// Existing Nodes that have a place.
    pub(in crate::cli) covered: i64,
    /// Existing Nodes.
    pub(in crate::cli) total: i64,
}

impl From<NodeCoverage> for PlacedNodes {
    fn from(NodeCoverage { covered, total }: NodeCoverage) -> Self {
        Self { covered, total }
    }
}

/// What one round found now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Round {
    nodes: PlacedNodes,
    /// HyperNodes of its result.
    groups: usize,
    /// What it dropped, corrected or noticed, by kind.
    diagnostics: Vec<RoundDiagnostic>,
}

/// Something that a round dropped, corrected or reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RoundDiagnostic {
    /// A short stable word for the kind.
    code: String,
    /// How often.
    count: usize,
    /// One case.
    example: String,
}

impl Round {
    /// What the round of a source found.
    pub(in crate::cli) fn of(found: &OneshotResult) -> Self {
        let numbers = &found.decision.numbers;
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let diagnostics = numbers.diagnostics.iter().map(|(code, (count, example))| RoundDiagnostic {
            code: code.to_string(),
            count: *count,
            example: example.clone(),
        });
        Self {
            nodes: PlacedNodes { covered: number(numbers.covered), total: number(numbers.total) },
            groups: numbers.groups(),
            diagnostics: diagnostics.collect(),
        }
    }
}

/// What a HyperNode holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Content {
    /// The tier: the lower, the closer.
    tier: u32,
    /// The name of the tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier_name: Option<String>,
    /// Its labels, without that of the source.
    labels: BTreeMap<String, String>,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The HyperNodes that it lists.
    children: Vec<String>,
    /// The Nodes that it names.
    nodes: Vec<String>,
}

impl Content {
    /// What an object holds.
    pub(in crate::cli) fn of(
        spec: &Spec,
        labels: &BTreeMap<Arc<str>, Arc<str>>,
        description: Option<&Arc<str>>,
    ) -> Self {
        Self {
            tier: spec.tier,
            tier_name: spec.tier_name.as_ref().map(ToString::to_string),
            labels: texts(labels),
            description: description.map(ToString::to_string),
            children: spec.children().map(ToString::to_string).collect(),
            nodes: spec.exact_nodes().map(ToString::to_string).collect(),
        }
    }
}

/// Labels as texts.
pub(in crate::cli) fn texts(labels: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
