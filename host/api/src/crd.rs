//! The CustomResourceDefinitions as data and as YAML.
//!
//! They are printed by `topoloom crd`; the files under `deploy/crds` are that output, and a test keeps them so.

use serde_json::{Value, json};

/// The command that creates all definitions, and renews those of an earlier version.
pub const APPLY: &str = "topoloom crd | kubectl apply --server-side -f -";

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

/// A definition of a kind that is of the whole cluster, has one version and a status of its own, and stays when the chart is
/// uninstalled: its objects would go with it.
pub(crate) struct Definition<'a> {
    /// The name of the definition.
    pub(crate) name: &'a str,
    /// The group of the kind.
    pub(crate) group: &'a str,
    /// The version.
    pub(crate) version: &'a str,
    /// The kind.
    pub(crate) kind: &'a str,
    /// The name of several, in paths.
    pub(crate) plural: &'a str,
    /// The name of one, for kubectl.
    pub(crate) singular: &'a str,
    /// A shorter name, for kubectl.
    pub(crate) short_name: &'a str,
    /// What `kubectl get` prints.
    pub(crate) columns: Value,
    /// The schema of an object.
    pub(crate) schema: Value,
}

impl Definition<'_> {
    /// As the API server takes it.
    pub(crate) fn object(self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": self.name, "annotations": { "helm.sh/resource-policy": "keep" } },
            "spec": {
                "group": self.group,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.singular,
                    "shortNames": [self.short_name],
                },
                "scope": "Cluster",
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "subresources": { "status": {} },
                    "additionalPrinterColumns": self.columns,
                    "schema": { "openAPIV3Schema": self.schema },
                }],
            },
        })
    }
}

/// The schema of an object with these parts beside what every object has.
pub(crate) fn object_of(description: &str, parts: Value) -> Value {
    let mut properties = json!({
        "apiVersion": { "type": "string" },
        "kind": { "type": "string" },
        "metadata": { "type": "object" },
    });
    if let (Some(properties), Value::Object(parts)) = (properties.as_object_mut(), parts) {
        properties.extend(parts);
    }
    object(description, properties)
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
pub(crate) fn keyed(schema: Value, key: &str) -> Value {
    with(with(schema, "x-kubernetes-list-type", json!("map")), "x-kubernetes-list-map-keys", json!([key]))
}

/// A list that is written as a whole, of at most so many of these items.
pub(crate) fn atomic(description: &str, most: usize, items: Value) -> Value {
    json!({
        "description": description,
        "type": "array",
        "maxItems": most,
        "items": items,
        "x-kubernetes-list-type": "atomic",
    })
}

/// A text of at most this length.
pub(crate) fn bounded(description: &str, length: usize) -> Value {
    json!({ "description": description, "type": "string", "maxLength": length })
}

/// The status of a kind of ours.
pub(crate) fn status(properties: Value) -> Value {
    object("The status; only topoloom writes it.", properties)
}

/// The same schema with one rule about the value.
pub(crate) fn validated(schema: Value, rule: &str, message: &str) -> Value {
    with(schema, "x-kubernetes-validations", json!([{ "rule": rule, "message": message }]))
}

/// The same schema with one more word.
pub(crate) fn with(mut schema: Value, key: &str, value: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
    schema
}
