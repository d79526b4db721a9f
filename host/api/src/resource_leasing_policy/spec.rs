//! What a lender wants of a policy. Texts stay texts, and numbers have any value: the syncer judges.

use crate::lenient;
use k8s_openapi::api::core::v1::NodeSelector;
use serde::{Deserialize, Serialize};

/// What is lent, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceLeasingPolicySpec {
    /// The name of the ClusterBinding that it lends to.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The virtual cluster of that binding. Without it, whichever has claimed that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_cluster: Option<String>,
    /// A higher one comes before age; absent is 0.
    #[serde(deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Which nodes; absent, or without terms: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// The IANA name of the zone in which windows are read; absent is UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Which days the days of an overnight window name: `calendar`, or `start`; absent is `calendar`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_apply_to: Option<String>,
    /// When; empty is always.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub time_windows: Vec<TimeWindowSpec>,
    /// How much, in the order in which limits are applied; empty is everything that is left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_limits: Vec<ResourceLimitSpec>,
    /// Whether pods are evicted when the windows close.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force_reclaim: bool,
    /// How long they have before that; absent is 0.
    #[serde(deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub graceful_reclaim_period_seconds: Option<i64>,
    /// How they are evicted: `delete`, or `eviction`; absent is `delete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_via: Option<String>,
}

/// A time window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeWindowSpec {
    /// Its first minute, `HH:MM`.
    pub start: String,
    /// Its last minute, `HH:MM`.
    pub end: String,
    /// Weekdays; empty is every day.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
}

/// The most that is lent of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimitSpec {
    /// The resource.
    pub resource: String,
    /// So much. People write whole amounts as numbers, too.
    #[serde(deserialize_with = "lenient::amount", skip_serializing_if = "Option::is_none")]
    pub quantity: Option<String>,
    /// So many percent of what is left.
    #[serde(deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
}
