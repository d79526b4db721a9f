//! Whether a policy may be applied (`bottomup-syncer.md` section 10, decisions D5, D6, S2, S8, S18).
//!
//! Owns the rules, and the sentences that name field, value and range. All problems are found, so that a lender corrects a
//! policy once; the first few are kept, so that ten thousand do not fill a status. The same resource in two limits is
//! valid, and so is a quantity of zero: it lends nothing.

use std::fmt;
use std::time::Duration;

use super::spec::{LimitSpec, PolicySpec, WindowSpec};
use super::terms::{Limit, LimitValue, OnClose, PolicyTerms, ReclaimVia};
use crate::given::Given;
use crate::quantity::{Percent, PercentError, Quantity, QuantityError};
use crate::schedule::Schedule;
use crate::selector::{NodeSelector, RequirementError};
use crate::window::{DaysApplyTo, TimeWindow, WindowError};
use crate::zone::{Zone, ZoneError};
use topoloom_core::rules::{self, is_label_key, is_object_name};

/// How many problems of a policy are kept.
pub const KEPT: usize = 10;

/// The longest grace: what the field holds in the object's schema, 68 years.
pub const GRACE_MAX: i64 = i32::MAX as i64;

/// Why a policy cannot be applied. Prints as its first problems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblems {
    /// The first ones; never none.
    pub kept: Vec<PolicyProblem>,
    /// How many more there are.
    pub more: usize,
}

impl std::error::Error for PolicyProblems {}

impl fmt::Display for PolicyProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.kept.iter().enumerate() {
            write!(f, "{}{problem}", if index == 0 { "" } else { "; " })?;
        }
        if self.more == 0 { Ok(()) } else { write!(f, "; and {} more", self.more) }
    }
}

/// One field of a policy that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyProblem {
    /// A field of a time window.
    #[error("spec.timeWindows[{index}].{error}")]
    Window {
        /// Its place.
        index: usize,
        /// What is wrong.
        error: WindowError,
    },
    /// The name of a resource.
    #[error(
        "spec.resourceLimits[{index}].resource must be the name of a resource such as \"cpu\", got {got}, which {rule}"
    )]
    Resource {
        /// The place of the limit.
        index: usize,
        /// The name.
        got: Given,
        /// The rule that it breaks.
        rule: rules::Error,
    },
    /// A limit that limits nothing.
    #[error("spec.resourceLimits[{index}] must have a quantity, a percent or both, got neither")]
    EmptyLimit {
        /// The place of the limit.
        index: usize,
    },
    /// A text that is no quantity.
    #[error("spec.resourceLimits[{index}].quantity {error}")]
    Quantity {
        /// The place of the limit.
        index: usize,
        /// What is wrong with it.
        error: QuantityError,
    },
    /// A quantity below zero.
    #[error("spec.resourceLimits[{index}].quantity must be at least 0, got {got}")]
    Negative {
        /// The place of the limit.
        index: usize,
        /// The quantity.
        got: Quantity,
    },
    /// A share.
    #[error("spec.resourceLimits[{index}].percent {error}")]
    Percent {
        /// The place of the limit.
        index: usize,
        /// What is wrong with it.
        error: PercentError,
    },
    /// A grace.
    #[error("spec.gracefulReclaimPeriodSeconds must be from 0 to {GRACE_MAX}, got {got}")]
    Grace {
        /// The number.
        got: i64,
    },
    /// The time zone.
    #[error("spec.timeZone {0}")]
    Zone(ZoneError),
    /// A part of the selector.
    #[error("spec.nodeSelector.{0}")]
    Selector(RequirementError),
    /// Which days the days of overnight windows name.
    #[error("spec.daysApplyTo must be \"calendar\" or \"start\", got {0}")]
    DaysApplyTo(Given),
    /// How pods are taken away.
    #[error("spec.reclaimVia must be \"delete\" or \"eviction\", got {0}")]
    ReclaimVia(Given),
    /// The name of the binding.
    #[error("spec.cluster must be the name of a ClusterBinding, got {got}, which {rule}")]
    Cluster {
        /// The name.
        got: Given,
        /// The rule that it breaks.
        rule: rules::Error,
    },
    /// The spec cannot be read: the definition of policies is another version, or was edited.
    #[error("{0}")]
    Unreadable(String),
    /// The name of the virtual cluster.
    #[error("spec.virtualCluster must be the identity of a virtual cluster, or absent for any, got an empty text")]
    VirtualCluster,
}

/// Reads a policy.
///
/// # Errors
/// Every problem: of windows in their order, limits, grace, zone, selector, and the rest.
pub fn validate(spec: &PolicySpec) -> Result<PolicyTerms, PolicyProblems> {
    let mut found = Found::default();
    let windows = found.windows(&spec.time_windows);
    let limits = found.limits(&spec.resource_limits);
    let grace = found.grace(spec.graceful_reclaim_period_seconds);
    let zone = found.zone(spec.time_zone.as_deref());
    let selector = found.selector(spec);
    let reading = found.word(spec.days_apply_to.as_deref(), DaysApplyTo::parse, |text| {
        PolicyProblem::DaysApplyTo(Given::instead_of(text, DaysApplyTo::ALL.into_iter().map(DaysApplyTo::word)))
    });
    let via = found.word(spec.reclaim_via.as_deref(), ReclaimVia::parse, |text| {
        PolicyProblem::ReclaimVia(Given::instead_of(text, ReclaimVia::ALL.into_iter().map(ReclaimVia::word)))
    });
    if let Err(rule) = is_object_name(&spec.cluster) {
        found.add(PolicyProblem::Cluster { got: Given::new(&spec.cluster), rule });
    }
    if spec.virtual_cluster.as_deref() == Some("") {
        found.add(PolicyProblem::VirtualCluster);
    }
    let Found { kept, more } = found;
    if !kept.is_empty() {
        return Err(PolicyProblems { kept, more });
    }
    Ok(PolicyTerms {
        cluster: spec.cluster.clone(),
        virtual_cluster: spec.virtual_cluster.clone(),
        priority: spec.priority,
        selector,
        schedule: Schedule::new(windows, zone, reading),
        limits,
        on_close: if spec.force_reclaim { OnClose::Reclaim { grace, via } } else { OnClose::Keep },
    })
}

/// The problems so far. What takes the place of a field with a problem is never used.
#[derive(Default)]
struct Found {
    kept: Vec<PolicyProblem>,
    more: usize,
}

impl Found {
    fn add(&mut self, problem: PolicyProblem) {
        if self.kept.len() < KEPT {
            self.kept.push(problem);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    fn windows(&mut self, specs: &[WindowSpec]) -> Vec<TimeWindow> {
        let mut windows = Vec::with_capacity(specs.len());
        for (index, WindowSpec { start, end, days }) in specs.iter().enumerate() {
            match TimeWindow::parse(start, end, days) {
                Ok(window) => windows.push(window),
                Err(errors) => errors.into_iter().for_each(|error| self.add(PolicyProblem::Window { index, error })),
            }
        }
        windows
    }

    fn limits(&mut self, specs: &[LimitSpec]) -> Vec<Limit> {
        specs.iter().enumerate().filter_map(|(index, spec)| self.limit(index, spec)).collect()
    }

    fn limit(&mut self, index: usize, spec: &LimitSpec) -> Option<Limit> {
        let LimitSpec { resource, quantity, percent } = spec;
        if let Err(rule) = is_label_key(resource) {
            self.add(PolicyProblem::Resource { index, got: Given::new(resource), rule });
        }
        if quantity.is_none() && percent.is_none() {
            self.add(PolicyProblem::EmptyLimit { index });
        }
        let quantity = quantity.as_deref().and_then(|text| self.quantity(index, text));
        let share = percent.and_then(|percent| self.share(index, percent));
        let value = LimitValue::new(quantity, share)?;
        Some(Limit { resource: resource.as_str().into(), value })
    }

    fn quantity(&mut self, index: usize, text: &str) -> Option<Quantity> {
        match Quantity::parse(text) {
            Ok(got) if got < Quantity::ZERO => self.add(PolicyProblem::Negative { index, got }),
            Ok(quantity) => return Some(quantity),
            Err(error) => self.add(PolicyProblem::Quantity { index, error }),
        }
        None
    }

    fn share(&mut self, index: usize, percent: i64) -> Option<Percent> {
        Percent::new(percent).inspect_err(|error| self.add(PolicyProblem::Percent { index, error: *error })).ok()
    }

    fn grace(&mut self, seconds: Option<i64>) -> Duration {
        let got = seconds.unwrap_or_default();
        match u64::try_from(got) {
            Ok(seconds) if got <= GRACE_MAX => Duration::from_secs(seconds),
            _ => {
                self.add(PolicyProblem::Grace { got });
                Duration::ZERO
            }
        }
    }

    fn zone(&mut self, name: Option<&str>) -> Zone {
        name.map_or_else(|| Ok(Zone::utc()), Zone::parse).unwrap_or_else(|error| {
            self.add(PolicyProblem::Zone(error));
            Zone::utc()
        })
    }

    fn selector(&mut self, spec: &PolicySpec) -> NodeSelector {
        let Some(raw) = &spec.node_selector else { return NodeSelector::default() };
        NodeSelector::parse(raw).unwrap_or_else(|error| {
            error.problems.into_iter().for_each(|problem| self.add(PolicyProblem::Selector(problem)));
            self.more = self.more.saturating_add(error.more);
            NodeSelector::default()
        })
    }

    fn word<T: Default>(
        &mut self,
        given: Option<&str>,
        parse: impl Fn(&str) -> Option<T>,
        problem: impl Fn(&str) -> PolicyProblem,
    ) -> T {
        let Some(text) = given else { return T::default() };
        parse(text).unwrap_or_else(|| {
            self.add(problem(text));
            T::default()
        })
    }
}

#[cfg(test)]
mod tests;
