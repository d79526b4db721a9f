//! What is known of a policy, and its last valid spec, which is in force while the present one is invalid.

use super::spec::ResourceLeasingPolicySpec;
use crate::condition::Condition;
use crate::lenient;
use serde::{Deserialize, Serialize};

/// What is known of a policy. Every field may be absent; an absent one was not known when the status was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceLeasingPolicyStatus {
    /// The `metadata.generation` that was looked at.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How it is doing, in one word.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub phase: Option<PolicyPhase>,
    /// Whether it is valid and its windows are open.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub active_time_window: Option<bool>,
    /// Conditions, one per type.
    #[serde(deserialize_with = "lenient::readable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When the phase or `activeTimeWindow` changed last, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_applied_time: Option<String>,
    /// When the windows of what is in force open or close next, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub next_transition: Option<String>,
    /// Since when `nextTransition` has been announced, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub next_transition_since: Option<String>,
    /// The closing since which the windows are closed, where it was announced.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_closing: Option<ClosingStatus>,
    /// The zone in which those windows are read.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The last spec that was valid.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_valid: Option<ResourceLeasingPolicySpec>,
}

/// A closing that was announced before it came (decision S9): what is evicted because of it needs no confirmation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClosingStatus {
    /// When the windows closed, RFC 3339.
    pub at: String,
    /// Since when that had been announced, RFC 3339.
    pub announced_since: String,
}

/// How a policy is doing, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PolicyPhase {
    /// Not looked at.
    Pending,
    /// Valid, and its windows are open.
    Active,
    /// Valid, and its windows are closed.
    Inactive,
    /// Invalid.
    Failed,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl PolicyPhase {
    /// All phases.
    pub const ALL: &'static [Self] = &[Self::Pending, Self::Active, Self::Inactive, Self::Failed, Self::Unknown];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Active => "Active",
            Self::Inactive => "Inactive",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}
