//! The CustomResourceDefinition of HyperNode, written by hand.
//!
//! Derived schemas cannot say some of this (a list that may be absent but not empty, a selector that may be absent
//! although its rules forbid an empty one, list and map types), and here the letter counts: a HyperNode that Volcano's
//! definition accepts or refuses must be accepted or refused by this one. Descriptions are ours; nothing judges them.

use crate::crd::{Definition, conditions_schema, object_of};
use crate::names::VOLCANO_TOPOLOGY_GROUP;
use serde_json::{Value, json};

/// The pattern of `exactMatch.name`: a lower-case DNS subdomain.
const NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// No two of the three ways to select.
const AT_MOST_ONE: &str = "!(has(self.exactMatch) && has(self.regexMatch)) \
    && !(has(self.exactMatch) && has(self.labelMatch)) && !(has(self.regexMatch) && has(self.labelMatch))";

/// The definition as the API server takes it. An uninstalled chart must not take the wiring of the cluster with it.
#[must_use]
pub fn definition() -> Value {
    Definition {
        name: "hypernodes.topology.volcano.sh",
        group: VOLCANO_TOPOLOGY_GROUP,
        version: super::VERSION,
        kind: super::KIND,
        plural: super::PLURAL,
        singular: "hypernode",
        short_name: "hn",
        columns: json!([
            { "name": "Tier", "type": "string", "jsonPath": ".spec.tier" },
            { "name": "TierName", "type": "string", "jsonPath": ".spec.tierName" },
            { "name": "NodeCount", "type": "integer", "jsonPath": ".status.nodeCount" },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ]),
        schema: object_of(
            "A group of Nodes, or of HyperNodes of a lower tier, that are close to each other in the network.",
            json!({ "spec": spec(), "status": status() }),
        ),
    }
    .object()
}

fn spec() -> Value {
    json!({
        "description": "What the group is.",
        "type": "object",
        "required": ["tier"],
        "properties": {
            "tier": {
                "description": "Distance: members of a lower tier are closer to each other.",
                "type": "integer",
                "minimum": 0,
            },
            "tierName": {
                "description": "What users call the tier.",
                "type": "string",
                "maxLength": 253,
            },
            "members": {
                "description": "What belongs to the group.",
                "type": "array",
                "minItems": 1,
                "items": member(),
            },
        },
    })
}

fn member() -> Value {
    json!({
        "description": "Some Nodes, or some HyperNodes.",
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {
                "description": "What is selected.",
                "type": "string",
                "enum": ["Node", "HyperNode"],
            },
            "selector": selector(),
        },
    })
}

fn selector() -> Value {
    json!({
        "description": "Which ones; exactly one of the three ways.",
        "type": "object",
        "properties": {
            "exactMatch": {
                "description": "The one with this name.",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": { "type": "string", "minLength": 1, "maxLength": 253, "pattern": NAME_PATTERN },
                },
            },
            "regexMatch": {
                "description": "Those whose name matches.",
                "type": "object",
                "required": ["pattern"],
                "properties": { "pattern": { "type": "string", "minLength": 1 } },
            },
            "labelMatch": label_selector(),
        },
        "x-kubernetes-validations": [
            {
                "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
                "message": "Either ExactMatch or RegexMatch or LabelMatch must be specified",
            },
            {
                // Pairs, not a count: the API server estimates the cost for the longest list that fits a request.
                "rule": AT_MOST_ONE,
                "message": "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
            },
        ],
    })
}

fn label_selector() -> Value {
    json!({
        "description": "Those whose labels match; an empty selector selects nothing.",
        "type": "object",
        "properties": {
            "matchLabels": { "type": "object", "additionalProperties": { "type": "string" } },
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string" },
                        // Volcano's definition does not limit the operator, so neither does this one.
                        "operator": { "type": "string" },
                        "values": {
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
                "x-kubernetes-list-type": "atomic",
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn status() -> Value {
    json!({
        "description": "The status of the group.",
        "type": "object",
        "properties": {
            "conditions": conditions_schema(),
            "nodeCount": {
                "description": "How many Nodes there are below.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
        },
    })
}
