//! What was found out about a plugin, for programs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::plugin::Profile;
use topoloom_workshop::build::Need;

use crate::cli::output::Document;

/// What a plugin file is, what it asks for, and whether the host would take it. What is not known is absent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Inspected {
    pub(super) file: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub(super) digest: String,
    /// Bytes of the component.
    pub(super) size: usize,
    /// Bytes of the file, if it is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packed_size: Option<usize>,
    /// Whether a ConfigMap has room for it.
    pub(super) config_map: ConfigMapRoom,
    /// The limits that it needs beyond those that every plugin has; absent if those are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needs: Option<NeededLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary: Option<String>,
    /// The JSON Schema of its configuration, as the plugin has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config_schema: Option<String>,
    /// Whether these bytes are part of this binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) embedded: Option<bool>,
    /// The interface that it is written against, with its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interface: Option<String>,
    /// Interfaces that it imports, each with the functions that it uses.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    pub(super) exports: Vec<String>,
    /// The resources with which an instance starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start: Option<Start>,
    /// The tools that made it, by their own names.
    pub(super) producers: Vec<Producer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requires: Option<Requires>,
    /// The lines that grant what it requests, to be copied into its entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<SignatureFile>,
    /// Why a host would refuse it; the exit code is 1 if there is a reason.
    pub(super) refused: Vec<RefusedFor>,
}

impl Document for Inspected {
    const KIND: &'static str = "PluginInspection";
}

/// The room that a ConfigMap has for a component.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigMapRoom {
    /// Bytes of the component, packed with zstd.
    pub(super) packed: usize,
    /// Bytes that a ConfigMap has for it.
    pub(super) room: usize,
    /// Whether they are enough.
    pub(super) fits: bool,
}

/// Limits that a component needs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NeededLimits {
    /// What `limits` of its entry has to say.
    pub(super) entry: String,
    /// Every limit of the profile `standard` that it does not keep.
    pub(super) exceeded: Vec<ExceededLimit>,
}

/// A limit that a component does not keep.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExceededLimit {
    /// The word of the limit.
    pub(super) limit: String,
    /// What the component has.
    pub(super) found: String,
    /// What the profile `standard` allows.
    pub(super) standard: String,
    /// What the profile `large` allows.
    pub(super) large: String,
}

impl NeededLimits {
    /// For programs.
    pub(super) fn of(need: &Need) -> Self {
        let exceeded = need.rows.iter().map(|row| ExceededLimit {
            limit: row.limit.word().to_owned(),
            found: row.found.to_string(),
            standard: row.limit.default(Profile::Standard).to_string(),
            large: row.limit.default(Profile::Large).to_string(),
        });
        Self { entry: need.limits.to_string(), exceeded: exceeded.collect() }
    }
}

/// The resources with which an instance starts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Start {
    /// Bytes of its largest memory.
    pub(super) memory: u64,
    pub(super) memories: u32,
    pub(super) tables: u32,
    /// Elements of its largest table.
    pub(super) table_elements: u64,
    pub(super) core_instances: u64,
}

/// A tool that made it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Producer {
    pub(super) field: String,
    pub(super) name: String,
    pub(super) version: String,
}

/// What it requests. Lists are absent if no configuration was given: they depend on it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Requires {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_labels: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_annotations: Option<Vec<String>>,
    /// Whether it reads names of Nodes.
    pub(super) node_names: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) endpoints: Option<Vec<AskedEndpoint>>,
    /// When a round starts, each in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) triggers: Option<Vec<String>>,
}

/// An endpoint that it requests.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AskedEndpoint {
    pub(super) name: String,
    pub(super) purpose: String,
    pub(super) methods: Vec<String>,
    /// The paths; empty means all of them.
    pub(super) paths: Vec<String>,
    /// Where it is, in words.
    pub(super) location: String,
}

/// The signature beside it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignatureFile {
    pub(super) file: String,
    /// The name and version that are signed; absent if the file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    /// The key that made it, by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    /// Whether one of the given keys made it.
    pub(super) verified: bool,
    /// Why a host that requires a signature would refuse this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
}

/// Why a host would refuse it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RefusedFor {
    /// A short stable word.
    pub(super) reason: String,
    pub(super) message: String,
}
