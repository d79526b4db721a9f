//! The status of a DiscoverySource: the only content of the object.

use crate::condition::Condition;
use crate::lenient;
use serde::{Deserialize, Serialize};

/// What a source is doing. Every field may be absent; an absent one was not known when the status was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoverySourceStatus {
    /// The `metadata.generation` of the object that this was written over. The object has no spec, so it says only that
    /// the status is not older than the object; what the entry asks for is what the condition `Ready` is about.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The source as the configuration names it; the object's own name may be another text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What it is doing, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The reason for the state, in one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The active plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginStatus>,
    /// The candidate plugin, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<CandidateStatus>,
    /// Plugins that were active before, newest first: what a rollback can return to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<KeptPlugin>,
    /// Digests of plugins that failed while they were active; the host does not activate them again unless an operator
    /// asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<String>,
    /// Consecutive faults of the active plugin.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub strikes: Option<i64>,
    /// The last plugin that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_refusal: Option<RefusalStatus>,
    /// The last comparison of a candidate with the active plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_comparison: Option<ComparisonStatus>,
    /// How much of the cluster the applied result covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCoverage>,
    /// How many HyperNodes the applied result has.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub groups: Option<i64>,
    /// The number of HyperNodes in each tier, lowest tier first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups_by_tier: Vec<TierGroups>,
    /// How many Nodes are in two groups of one tier.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub overlaps: Option<i64>,
    /// When a round last succeeded, RFC 3339. Refreshed with another change, or when it is older than 10 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<String>,
    /// Hash of the applied result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_hash: Option<String>,
    /// Hash of the configuration that the applied result came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
    /// Whether the plugin has answered with Nodes by name while it may not see names of Nodes: its own objects are
    /// shown to it without Nodes then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_by_name: Option<bool>,
    /// The result that waits, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Nodes that written results left without a place since the last `holdFor`, by time, oldest first: the guard
    /// counts them together with those that the next result would take, also after a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_nodes: Vec<LostNodes>,
    /// What happens to the HyperNodes when the source goes; remembered here, since the entry is gone then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_removal: Option<OnRemoval>,
    /// What the last round dropped or corrected, counted per code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// Tier names that were left out because another source uses them for another tier.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tier_conflicts: Vec<TierConflict>,
    /// Conditions, one per type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What a source is doing, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum State {
    /// Nothing ran yet: something it needs is missing or still loading.
    Waiting,
    /// Rounds run and their results are applied.
    Serving,
    /// As `Serving`, but a result waits for confirmation.
    Held,
    /// The last good topology stays, since newer rounds fail.
    Stale,
    /// Nothing good is there to keep, and rounds fail.
    Failed,
    /// The operator paused it.
    Paused,
    /// The entry is off or gone; its HyperNodes stay.
    Disabled,
    /// Rounds run and nothing is written.
    Observing,
    /// No host runs: the last one stopped. Its HyperNodes stay.
    Stopped,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl State {
    /// All states that are ever written.
    pub const ALL: &'static [Self] = &[
        Self::Waiting,
        Self::Serving,
        Self::Held,
        Self::Stale,
        Self::Failed,
        Self::Paused,
        Self::Disabled,
        Self::Observing,
        Self::Stopped,
        Self::Unknown,
    ];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "Waiting",
            Self::Serving => "Serving",
            Self::Held => "Held",
            Self::Stale => "Stale",
            Self::Failed => "Failed",
            Self::Paused => "Paused",
            Self::Disabled => "Disabled",
            Self::Observing => "Observing",
            Self::Stopped => "Stopped",
            Self::Unknown => "Unknown",
        }
    }
}

/// Which bytes serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginStatus {
    /// The plugin's own name.
    pub name: String,
    /// The plugin's own version.
    pub version: String,
    /// The vendor that the plugin names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// `sha256:` and 64 hexadecimal digits: the identity of the bytes.
    pub digest: String,
    /// Where the bytes came from.
    pub origin: PluginOrigin,
    /// Whether this plugin is on probation: it replaced another one a short time ago, and its first fault makes topoloom roll
    /// back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
}

/// The candidate plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CandidateStatus {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Its own name, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The stage: `Preparing`, `Shadow`, `Held` or `Refused`.
    pub stage: String,
    /// The step that holds or refuses it; the condition `Loaded` says why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Failed tries in a row.
    #[serde(deserialize_with = "lenient::integer")]
    pub strikes: i64,
    /// How much its answer differs from that of the active plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<ComparisonStatus>,
}

/// A plugin that was active before and is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptPlugin {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Its own name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its own version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// Why a plugin was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefusalStatus {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The step at which the host refused it.
    pub step: String,
    /// The word.
    pub reason: String,
    /// The sentence, shortened.
    pub message: String,
    /// When, RFC 3339.
    pub time: String,
}

/// Two answers about the same Nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComparisonStatus {
    /// Nodes that the active plugin places.
    #[serde(deserialize_with = "lenient::integer")]
    pub placed: i64,
    /// Of these, those that the candidate places too.
    #[serde(deserialize_with = "lenient::integer")]
    pub kept: i64,
    /// Of these, those that it places in another group.
    #[serde(deserialize_with = "lenient::integer")]
    pub moved: i64,
    /// Nodes that only the candidate places.
    #[serde(deserialize_with = "lenient::integer")]
    pub gained: i64,
    /// The same in words, with the groups by tier that differ.
    pub sentence: String,
}

/// Where the bytes of a plugin came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PluginOrigin {
    /// Part of the binary.
    Builtin,
    /// A file of the plugin folder, or one the entry names.
    File,
    /// A key of a ConfigMap.
    ConfigMap,
    /// A registry of OCI artifacts.
    Registry,
    /// The modules that the host stores for a rollback.
    Kept,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl DiscoverySourceStatus {
    /// The same, said of that generation of the object.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self.conditions.iter_mut().for_each(|condition| condition.observed_generation = generation);
        self
    }
}

/// How much of the cluster a result covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeCoverage {
    /// Existing Nodes that have a place in it.
    #[serde(deserialize_with = "lenient::integer")]
    pub covered: i64,
    /// Existing Nodes.
    #[serde(deserialize_with = "lenient::integer")]
    pub total: i64,
}

/// How many HyperNodes one tier has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TierGroups {
    /// The tier, from 1.
    #[serde(deserialize_with = "lenient::integer")]
    pub tier: i64,
    /// HyperNodes of the source in it.
    #[serde(deserialize_with = "lenient::integer")]
    pub groups: i64,
}

/// A result that is not written until it is confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Held {
    /// Which rule holds it.
    pub rule: HeldRule,
    /// What writing the result would change, with numbers.
    pub sentence: String,
    /// The result; what an operator confirms.
    pub hash: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// How many agreeing rounds there were so far, this one included.
    #[serde(deserialize_with = "lenient::integer")]
    pub confirmations: i64,
    /// When the next round runs, RFC 3339; absent where time alone never confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_round: Option<String>,
}

/// Nodes that lost their place at about one time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LostNodes {
    /// When the last of them did, RFC 3339.
    pub at: String,
    /// How many.
    #[serde(deserialize_with = "lenient::integer")]
    pub nodes: i64,
}

/// Which rule of the guard holds a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HeldRule {
    /// `maxDeletePercent`: too many HyperNodes would go.
    Deletions,
    /// `maxLosePercent`: too many Nodes would lose their place.
    LostNodes,
    /// Nothing is left at all.
    Empty,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// What happens to the HyperNodes of a source that is disabled or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnRemoval {
    /// They are deleted, in a safe order.
    Delete,
    /// They stay. Also what a word of a later version reads as: the choice that destroys nothing.
    #[default]
    #[serde(other)]
    Keep,
}

/// How often something was dropped or corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Diagnostic {
    /// The code that the plugin uses for it.
    pub code: String,
    /// How often it occurred in the last round.
    #[serde(deserialize_with = "lenient::integer")]
    pub count: i64,
    /// One case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub example: String,
}

/// A tier name that could not be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TierConflict {
    /// The name.
    pub tier_name: String,
    /// The tier of this source that is left without the name.
    #[serde(deserialize_with = "lenient::integer")]
    pub tier: i64,
    /// The source that uses the name.
    pub taken_by: String,
    /// The tier that has the name in that source.
    #[serde(deserialize_with = "lenient::integer")]
    pub their_tier: i64,
}
