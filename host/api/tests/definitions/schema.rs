//! What tests ask of a schema.

use serde_json::Value;

/// The part of a definition that judges objects.
pub(crate) fn version(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]
}

/// Every field of the value is in the schema and the other way round, so that neither is pruned nor forgotten.
pub(crate) fn covers(schema: &Value, value: &Value, path: &str) {
    match value {
        Value::Object(fields) => {
            let properties =
                schema["properties"].as_object().unwrap_or_else(|| panic!("{path} is no object of the schema"));
            let mut known: Vec<&String> = properties.keys().collect();
            let mut given: Vec<&String> = fields.keys().collect();
            known.sort();
            given.sort();
            assert_eq!(known, given, "{path}");
            fields.iter().for_each(|(key, value)| covers(&properties[key], value, &format!("{path}.{key}")));
        }
        Value::Array(items) => items.iter().for_each(|item| covers(&schema["items"], item, path)),
        Value::String(_) if schema["x-kubernetes-int-or-string"] == true => {}
        Value::String(_) => assert_eq!(schema["type"], "string", "{path}"),
        Value::Number(_) => assert_eq!(schema["type"], "integer", "{path}"),
        Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{path}"),
        Value::Null => panic!("{path} has a value that the schema knows no type for"),
    }
}

/// Calls `look` with every schema in a schema, with its path, the parent's first.
pub(crate) fn walk(schema: &Value, path: &str, look: &mut impl FnMut(&Value, &str)) {
    look(schema, path);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(field, &format!("{path}.{name}"), look);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), look);
    }
}
