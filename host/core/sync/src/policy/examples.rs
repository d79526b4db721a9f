//! Policies for tests.

use super::announced::Announced;
use super::object::PolicyObject;
use super::spec::{LimitSpec, PolicySpec, WindowSpec};
use crate::selector::{RawNodeSelector, RawRequirement, RawTerm};

/// A valid policy that lends every node to the binding `east`, always.
pub(crate) fn policy(name: &str) -> PolicyObject {
    PolicyObject {
        name: name.to_owned(),
        uid: name.into(),
        generation: 1,
        created: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        deleting: false,
        spec: PolicySpec { cluster: "east".to_owned(), ..PolicySpec::default() },
        unreadable: None,
        last_valid: None,
        announced: Announced::default(),
    }
}

/// A policy that is invalid for a percent.
pub(crate) fn broken(name: &str) -> PolicyObject {
    let mut object = policy(name);
    object.spec = invalid(object.spec);
    object
}

pub(crate) fn invalid(spec: PolicySpec) -> PolicySpec {
    let limit = LimitSpec { resource: "cpu".to_owned(), quantity: None, percent: Some(101) };
    PolicySpec { resource_limits: vec![limit], ..spec }
}

/// On the nodes of a pool alone.
pub(crate) fn on_pool(pool: &str, spec: PolicySpec) -> PolicySpec {
    with_requirement(requirement("pool", "In", &[pool]), spec)
}

/// With a selector that cannot be understood.
pub(crate) fn malformed(spec: PolicySpec) -> PolicySpec {
    with_requirement(requirement("pool", "Inn", &["red"]), spec)
}

pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> RawRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    RawRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

fn with_requirement(requirement: RawRequirement, spec: PolicySpec) -> PolicySpec {
    let term = RawTerm { match_expressions: vec![requirement], match_fields: vec![] };
    PolicySpec { node_selector: Some(RawNodeSelector { terms: vec![term] }), ..spec }
}

pub(crate) fn window(start: &str, end: &str, days: &[&str]) -> WindowSpec {
    let days = days.iter().map(|day| (*day).to_owned()).collect();
    WindowSpec { start: start.to_owned(), end: end.to_owned(), days }
}
