//! Rules of the chart and rows of the host's tables of rights, as single rights that can be compared.

use std::collections::BTreeSet;

use serde_json::Value;
use topoloom::manager::rights::{Right, RightScope};

use super::Rule;

/// One right: namespace, group, resource, verb, name. The namespace of a right in the whole cluster is empty, and so is the name where
/// it is for every object.
pub type Single = (String, String, String, String, String);

/// What rules allow.
#[must_use]
pub fn allowed<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> BTreeSet<Single> {
    let mut all = BTreeSet::new();
    for Rule { namespace, rule, .. } in rules {
        let mut names = words(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    for name in &names {
                        all.insert((namespace.clone(), group.clone(), resource.clone(), verb.clone(), name.clone()));
                    }
                }
            }
        }
    }
    all
}

/// What a table asks for.
#[must_use]
pub fn asked(rights: Vec<Right>) -> BTreeSet<Single> {
    let singles = |right: Right| {
        let resource = right.resource;
        right.questions().into_iter().map(move |question| {
            let place = match question.place {
                RightScope::Cluster => String::new(),
                RightScope::Namespace(namespace) => namespace,
            };
            let name = question.name.unwrap_or_default();
            (place, question.group.to_owned(), resource.to_owned(), question.verb.to_owned(), name)
        })
    };
    rights.into_iter().flat_map(singles).collect()
}

/// Fails where one of the two has what the other has not.
///
/// # Panics
/// With the difference. `what` names the rendering.
pub fn assert_equal(what: &str, chart: &BTreeSet<Single>, table: &BTreeSet<Single>) {
    assert!(!chart.is_empty(), "{what}: no rule is rendered");
    let missing: Vec<_> = table.difference(chart).collect();
    let spare: Vec<_> = chart.difference(table).collect();
    assert!(
        missing.is_empty() && spare.is_empty(),
        "{what}: not in the chart: {missing:#?}; not in the table: {spare:#?}"
    );
}

/// The texts of a list.
#[must_use]
pub fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}
