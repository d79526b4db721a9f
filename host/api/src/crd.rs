//! The CustomResourceDefinitions as data and as YAML.
//!
//! They are printed by `topoloom crd`; the files under `deploy/crds` are that output, and a test keeps them so.

use serde_json::{Value, json};

/// All definitions, in the order in which they are printed: Volcano's first, then ours.
#[must_use]
pub fn crds() -> Vec<Value> {
    vec![crate::hyper_node::definition(), crate::discovery_source::definition()]
}

/// One definition as a YAML document, without a document marker.
///
/// # Errors
/// Only where the writer cannot express a value; no definition of ours has such a value.
pub fn to_yaml(definition: &Value) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(definition)
}

/// The schema of a standard list of conditions, without a list type: Volcano's definition has none, and a map keyed by
/// `type` would refuse what Volcano's accepts.
pub(crate) fn conditions_schema() -> Value {
    json!({
        "description": "Conditions, one per type.",
        "type": "array",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": { "type": "string", "maxLength": 32768 },
            },
        },
    })
}
