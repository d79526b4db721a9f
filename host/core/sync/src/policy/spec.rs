//! The fields of a ResourceLeasingPolicy as they are written (`bottomup-syncer.md` 2.2, decisions S2, S7, S17, S18).
//!
//! Texts stay texts and numbers have any value: the schema judges neither windows nor days nor percents (decision S2), so an
//! object may hold anything here. [`validate`](super::validate) judges.

use crate::selector::RawNodeSelector;

/// The spec of a policy. The default of each field is that of the object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicySpec {
    /// `cluster`: the name of the ClusterBinding that it lends to.
    pub cluster: String,
    /// `virtualCluster`: the virtual cluster of that binding. Without it, whichever virtual cluster has claimed that name.
    pub virtual_cluster: Option<String>,
    /// `priority`: a higher one comes before age.
    pub priority: i32,
    /// `nodeSelector`: absent selects every node.
    pub node_selector: Option<RawNodeSelector>,
    /// `timeZone`: an IANA name; absent is UTC.
    pub time_zone: Option<String>,
    /// `daysApplyTo`: `calendar` or `start`; absent is `calendar`.
    pub days_apply_to: Option<String>,
    /// `timeWindows`: empty is always.
    pub time_windows: Vec<WindowSpec>,
    /// `resourceLimits`, applied in their order; empty is everything that is left.
    pub resource_limits: Vec<LimitSpec>,
    /// `forceReclaim`: whether pods are evicted when the windows close.
    pub force_reclaim: bool,
    /// `gracefulReclaimPeriodSeconds`: how long they have before that; absent is 0.
    pub graceful_reclaim_period_seconds: Option<i64>,
    /// `reclaimVia`: `delete` or `eviction`; absent is `delete`.
    pub reclaim_via: Option<String>,
}

/// For whom a policy is, as a spec says it (decision S7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whom<'a> {
    /// `cluster`.
    pub cluster: &'a str,
    /// `virtualCluster`.
    pub virtual_cluster: Option<&'a str>,
}

impl Whom<'_> {
    /// Whether that is a binding of this name, in this virtual cluster.
    #[must_use]
    pub fn is(self, binding: &str, virtual_cluster: &str) -> bool {
        // An empty text names no virtual cluster. It is a mistake, and could be meant for any.
        let named = self.virtual_cluster.filter(|named| !named.is_empty());
        self.cluster == binding && named.is_none_or(|named| named == virtual_cluster)
    }
}

impl PolicySpec {
    /// For whom it is.
    #[must_use]
    pub fn whom(&self) -> Whom<'_> {
        Whom { cluster: &self.cluster, virtual_cluster: self.virtual_cluster.as_deref() }
    }
}

/// A time window as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowSpec {
    /// `start`: its first minute, `HH:MM`.
    pub start: String,
    /// `end`: its last minute, `HH:MM`.
    pub end: String,
    /// `days`: weekdays; empty is every day.
    pub days: Vec<String>,
}

/// A limit as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitSpec {
    /// `resource`: its name.
    pub resource: String,
    /// `quantity`: the most that is lent.
    pub quantity: Option<String>,
    /// `percent`: the most that is lent, of what is left.
    pub percent: Option<i64>,
}
