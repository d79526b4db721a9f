//! The schema of a NodeSelector of core/v1, as bindings and policies have it.
//!
//! Owns its size, and nothing else: what a selector says is judged by the syncer (decision S2), so that a policy with a
//! mistake exists and says so. The size is what keeps an object with its last valid spec far below what etcd takes.
//! Lists have bounds of their own, because the cost of a rule over them is estimated by these, and one rule bounds all
//! values together.

use crate::crd::{atomic, bounded, object, validated, with};
use serde_json::{Value, json};

/// The most terms of a selector.
const TERMS: usize = 10;
/// The most requirements on labels in a term.
const EXPRESSIONS: usize = 10;
/// The most requirements on the name of a node in a term; there are two operators.
const FIELDS: usize = 2;
/// The most values in all requirements of a selector together.
pub(crate) const VALUES: usize = 256;
/// The longest value: the name of a node.
pub(crate) const VALUE_LENGTH: usize = 253;
/// The longest key: a prefix, a slash and a name.
const KEY_LENGTH: usize = 317;
/// Longer than every operator.
const OPERATOR_LENGTH: usize = 32;

/// The schema of a selector.
pub(crate) fn schema(description: &str) -> Value {
    let count = |list: &str| format!("(has(t.{list}) ? t.{list}.map(r, has(r.values) ? size(r.values) : 0).sum() : 0)");
    let of_term = format!("{} + {}", count("matchExpressions"), count("matchFields"));
    let rule = format!("!has(self.nodeSelectorTerms) || self.nodeSelectorTerms.map(t, {of_term}).sum() <= {VALUES}");
    let term = object(
        "Requirements that all have to hold. A term without any holds for no node.",
        json!({
            "matchExpressions": requirements("Requirements on labels.", EXPRESSIONS),
            "matchFields": requirements("Requirements on metadata.name, with the operators In and NotIn.", FIELDS),
        }),
    );
    let terms = atomic("Terms, of which one has to hold.", TERMS, term);
    let schema =
        with(object(description, json!({ "nodeSelectorTerms": terms })), "x-kubernetes-map-type", json!("atomic"));
    let message = format!("nodeSelector must have at most {VALUES} values in all of its requirements together");
    validated(schema, &rule, &message)
}

fn requirements(description: &str, most: usize) -> Value {
    let value = json!({ "type": "string", "maxLength": VALUE_LENGTH });
    let requirement = json!({
        "type": "object",
        "properties": {
            "key": bounded("The label or the field.", KEY_LENGTH),
            "operator": bounded("In, NotIn, Exists, DoesNotExist, Gt or Lt.", OPERATOR_LENGTH),
            "values": atomic("What it is compared with.", VALUES, value),
        },
    });
    atomic(description, most, requirement)
}
