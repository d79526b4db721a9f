//! The schema of a NodeSelector of core/v1, as bindings and policies have it.
//!
//! Owns its size, and nothing else: what a selector says is judged by the syncer (decision S2), so that a policy with a
//! mistake exists and says so. The size is what keeps an object with its last valid spec far below what etcd takes.
//! Lists have bounds of their own, because the cost of a rule over them is estimated by these, and one rule bounds all
//! values together.

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
    json!({
        "description": description,
        "type": "object",
        "properties": { "nodeSelectorTerms": {
            "description": "Terms, of which one has to hold.",
            "type": "array",
            "maxItems": TERMS,
            "x-kubernetes-list-type": "atomic",
            "items": {
                "description": "Requirements that all have to hold. A term without any holds for no node.",
                "type": "object",
                "properties": {
                    "matchExpressions": requirements("Requirements on labels.", EXPRESSIONS),
                    "matchFields": requirements("Requirements on metadata.name, with the operators In and NotIn.", FIELDS),
                },
            },
        } },
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [{
            "rule": rule,
            "message": format!("nodeSelector must have at most {VALUES} values in all of its requirements together"),
        }],
    })
}

fn requirements(description: &str, most: usize) -> Value {
    json!({
        "description": description,
        "type": "array",
        "maxItems": most,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "key": { "description": "The label or the field.", "type": "string", "maxLength": KEY_LENGTH },
                "operator": {
                    "description": "In, NotIn, Exists, DoesNotExist, Gt or Lt.",
                    "type": "string",
                    "maxLength": OPERATOR_LENGTH,
                },
                "values": {
                    "description": "What it is compared with.",
                    "type": "array",
                    "maxItems": VALUES,
                    "items": { "type": "string", "maxLength": VALUE_LENGTH },
                    "x-kubernetes-list-type": "atomic",
                },
            },
        },
    })
}
