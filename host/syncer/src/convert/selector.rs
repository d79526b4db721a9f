//! The NodeSelector of core/v1, as bindings and policies have it.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use topoloom_sync::selector::{RawNodeSelector, RawRequirement, RawTerm};

/// A selector as it stands in an object.
#[must_use]
pub fn read(written: &NodeSelector) -> RawNodeSelector {
    let terms = written.node_selector_terms.iter().map(|term| RawTerm {
        match_expressions: requirements(term.match_expressions.as_deref()),
        match_fields: requirements(term.match_fields.as_deref()),
    });
    RawNodeSelector { terms: terms.collect() }
}

/// The same as an object has it.
#[must_use]
pub fn write(selector: &RawNodeSelector) -> NodeSelector {
    let terms = selector.terms.iter().map(|term| NodeSelectorTerm {
        match_expressions: written(&term.match_expressions),
        match_fields: written(&term.match_fields),
    });
    NodeSelector { node_selector_terms: terms.collect() }
}

/// In place of a selector that cannot be read: one that cannot be understood, and so counts as one that could select any node.
#[must_use]
pub fn unreadable() -> RawNodeSelector {
    let nothing = RawRequirement { key: String::new(), operator: String::new(), values: Vec::new() };
    RawNodeSelector { terms: vec![RawTerm { match_expressions: vec![nothing], match_fields: Vec::new() }] }
}

fn requirements(written: Option<&[NodeSelectorRequirement]>) -> Vec<RawRequirement> {
    let read = |requirement: &NodeSelectorRequirement| RawRequirement {
        key: requirement.key.clone(),
        operator: requirement.operator.clone(),
        values: requirement.values.clone().unwrap_or_default(),
    };
    written.unwrap_or_default().iter().map(read).collect()
}

fn written(requirements: &[RawRequirement]) -> Option<Vec<NodeSelectorRequirement>> {
    let write = |requirement: &RawRequirement| NodeSelectorRequirement {
        key: requirement.key.clone(),
        operator: requirement.operator.clone(),
        values: (!requirement.values.is_empty()).then(|| requirement.values.clone()),
    };
    (!requirements.is_empty()).then(|| requirements.iter().map(write).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use topoloom_sync::selector::NodeSelector as Parsed;

    use super::*;

    pub(crate) fn selectors() -> impl Strategy<Value = RawNodeSelector> {
        let requirement = ("[a-z/]{0,6}", "(In|NotIn|Exists|Inn)", prop::collection::vec("[a-z]{0,3}", 0..3))
            .prop_map(|(key, operator, values)| RawRequirement { key, operator, values });
        let requirements = prop::collection::vec(requirement, 0..3);
        let term = (requirements.clone(), requirements)
            .prop_map(|(match_expressions, match_fields)| RawTerm { match_expressions, match_fields });
        prop::collection::vec(term, 0..3).prop_map(|terms| RawNodeSelector { terms })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was(selector in selectors()) {
            let stored = serde_json::to_value(write(&selector)).unwrap();
            prop_assert_eq!(read(&serde_json::from_value(stored).unwrap()), selector);
        }
    }

    #[test]
    fn a_selector_is_read_with_absent_lists_as_empty_ones() {
        let stored = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, {}]});
        let selector = read(&serde_json::from_value(stored).unwrap());
        assert_eq!(selector.terms.len(), 2);
        assert_eq!(selector.terms[0].match_expressions[0].operator, "Exists");
        assert_eq!(selector.terms[1], RawTerm::default());
        assert_eq!(read(&serde_json::from_value(json!({})).unwrap()), RawNodeSelector::default());
    }

    #[test]
    fn s8_a_selector_that_cannot_be_read_is_malformed() {
        assert!(Parsed::parse(&unreadable()).is_err());
    }
}
