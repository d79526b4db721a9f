//! The CustomResourceDefinitions as data and as YAML.
//!
//! They are printed by `topoloom crd`; the files under `deploy/crds` are that output, and a test keeps them so.

use serde_json::{Value, json};

/// All definitions, in the order in which they are printed: Volcano's first, then ours, those of lending last.
#[must_use]
pub fn crds() -> Vec<Value> {
    vec![
        crate::hyper_node::definition(),
        crate::discovery_source::definition(),
        crate::cluster_binding::definition(),
        crate::resource_leasing_policy::definition(),
    ]
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

/// A text.
pub(crate) fn text(description: &str) -> Value {
    json!({ "description": description, "type": "string" })
}

/// A time, RFC 3339.
pub(crate) fn time(description: &str) -> Value {
    json!({ "description": description, "type": "string", "format": "date-time" })
}

/// A number of things.
pub(crate) fn count(description: &str) -> Value {
    json!({ "description": description, "type": "integer", "format": "int64", "minimum": 0 })
}

/// Yes or no.
pub(crate) fn switch(description: &str) -> Value {
    json!({ "description": description, "type": "boolean" })
}

/// An object with these fields.
pub(crate) fn object(description: &str, properties: Value) -> Value {
    json!({ "description": description, "type": "object", "properties": properties })
}

/// A list of objects, one per value of `key`.
pub(crate) fn list(description: &str, key: &str, properties: Value) -> Value {
    let items = json!({ "type": "object", "required": [key], "properties": properties });
    keyed(json!({ "description": description, "type": "array", "items": items }), key)
}

/// The same list, with one item per value of `key`.
pub(crate) fn keyed(mut schema: Value, key: &str) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        fields.insert("x-kubernetes-list-map-keys".to_owned(), json!([key]));
    }
    schema
}
