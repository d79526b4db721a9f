//! Checks the output of `-o json` against the schemas that users find under `docs/operators/schemas`.
//!
//! The schemas are open: a later version adds fields. Here a field that the schema does not name is a mistake, and so
//! is a keyword of a schema that this code does not judge: otherwise a part of the schema would not be checked.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value};

/// Keywords that describe and require nothing.
const WORDS: [&str; 6] = ["$schema", "$defs", "title", "description", "format", "default"];
/// Keywords that are judged.
const JUDGED: [&str; 11] = [
    "$ref",
    "type",
    "const",
    "enum",
    "anyOf",
    "oneOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minimum",
];

/// Parses a printed document and checks it against its schema.
///
/// # Errors
/// When it is no document of a kind that has a schema, or breaks the schema; with the place.
pub fn checked(text: &str) -> Result<Value> {
    let document: Value = serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))?;
    let kind = document["kind"].as_str().with_context(|| format!("no kind: {text}"))?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operators/schemas").join(format!("{kind}.json"));
    let schema = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let root = serde_json::from_str(&schema).with_context(|| path.display().to_string())?;
    Schema { root: &root }.check(&root, &document, "").with_context(|| format!("{kind}: {text}"))?;
    Ok(document)
}

struct Schema<'a> {
    root: &'a Value,
}

impl Schema<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<()> {
        let Some(rules) = schema.as_object() else {
            ensure!(schema == &Value::Bool(true), "{at}: nothing may be here, and {value} is");
            return Ok(());
        };
        let unknown = rules.keys().find(|key| !WORDS.contains(&key.as_str()) && !JUDGED.contains(&key.as_str()));
        ensure!(unknown.is_none(), "{at}: the schema has {unknown:?}, which is not judged");
        if let Some(Value::String(place)) = rules.get("$ref") {
            let pointer = place.strip_prefix('#').with_context(|| place.clone())?;
            self.check(self.root.pointer(pointer).with_context(|| place.clone())?, value, at)?;
        }
        if let Some(types) = rules.get("type") {
            let is = |name: &Value| name.as_str().is_some_and(|name| has_type(value, name));
            let fits = types.as_array().map_or_else(|| is(types), |types| types.iter().any(is));
            ensure!(fits, "{at}: {value} is not of the type {types}");
        }
        if let Some(only) = rules.get("const") {
            ensure!(only == value, "{at}: {value} is not {only}");
        }
        if let Some(Value::Array(words)) = rules.get("enum") {
            ensure!(words.contains(value), "{at}: {value} is none of {words:?}");
        }
        if let Some(least) = rules.get("minimum").and_then(Value::as_f64) {
            ensure!(value.as_f64().is_none_or(|number| number >= least), "{at}: {value} is less than {least}");
        }
        for (word, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(Value::Array(options)) = rules.get(word) else { continue };
            let fits = options.iter().filter(|option| self.check(option, value, at).is_ok()).count();
            ensure!((1..=most).contains(&fits), "{at}: {value} fits {fits} of {word} {options:?}");
        }
        if let (Some(items), Value::Array(values)) = (rules.get("items"), value) {
            for (index, value) in values.iter().enumerate() {
                self.check(items, value, &format!("{at}/{index}"))?;
            }
        }
        match value {
            Value::Object(fields) => self.fields(rules, fields, at),
            _ => Ok(()),
        }
    }

    fn fields(&self, rules: &Map<String, Value>, fields: &Map<String, Value>, at: &str) -> Result<()> {
        let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
        for field in required.filter_map(Value::as_str) {
            ensure!(fields.contains_key(field), "{at}: {field} is missing");
        }
        let known = rules.get("properties").and_then(Value::as_object);
        let others = rules.get("additionalProperties");
        // A schema that only refers to another one does not list fields.
        if known.is_none() && others.is_none() {
            return Ok(());
        }
        for (field, value) in fields {
            let at = format!("{at}/{field}");
            match (known.and_then(|known| known.get(field)), others) {
                (Some(schema), _) | (None, Some(schema)) => self.check(schema, value, &at)?,
                (None, None) => bail!("{at}: the schema does not name it"),
            }
        }
        Ok(())
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(value: Value) -> Option<String> {
        let root = json!({
            "type": "object", "required": ["kind"],
            "properties": {
                "kind": {"type": "string", "const": "Thing"},
                "size": {"type": ["integer", "null"], "minimum": 0},
                "part": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "$defs": {"Part": {"type": "array", "items": {"oneOf": [{"const": "a"}, {"enum": ["b", "c"]}]}}},
        });
        Schema { root: &root }.check(&root, &value, "").err().map(|error| error.to_string())
    }

    #[test]
    fn what_breaks_a_schema_is_found_with_its_place() {
        for good in [
            json!({"kind": "Thing"}),
            json!({"kind": "Thing", "size": null, "part": null, "labels": {}}),
            json!({"kind": "Thing", "size": 3, "part": ["a", "b"], "labels": {"a": "b"}}),
        ] {
            assert_eq!(fault(good), None);
        }
        for (bad, words) in [
            (json!([]), ": [] is not of the type"),
            (json!({}), ": kind is missing"),
            (json!({"kind": "Other"}), "/kind: \"Other\" is not \"Thing\""),
            (json!({"kind": "Thing", "size": -1}), "/size: -1 is less than 0"),
            (json!({"kind": "Thing", "size": 1.5}), "/size: 1.5 is not of the type"),
            (json!({"kind": "Thing", "part": ["d"]}), "/part: [\"d\"] fits 0 of anyOf"),
            (json!({"kind": "Thing", "labels": {"a": 1}}), "/labels/a: 1 is not of the type"),
            (json!({"kind": "Thing", "more": 1}), "/more: the schema does not name it"),
        ] {
            let found = fault(bad).unwrap_or_default();
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn the_page_names_every_document_and_no_schema_is_left_of_one_that_is_gone() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operators");
        let page = std::fs::read_to_string(folder.join("json.md")).unwrap();
        let mut kinds: Vec<_> = topoloom::cli::schemas().into_iter().map(|(kind, _)| format!("{kind}.json")).collect();
        kinds.sort();
        for kind in &kinds {
            assert_eq!(page.matches(&format!("(schemas/{kind})")).count(), 1, "{kind}");
        }
        let stored = std::fs::read_dir(folder.join("schemas")).unwrap();
        let mut stored: Vec<_> = stored.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        stored.sort();
        assert_eq!(stored, kinds);
    }

    #[test]
    fn every_schema_is_judged_whole() {
        for (kind, schema) in topoloom::cli::schemas() {
            fn keywords(schema: &Value, found: &mut Vec<String>) {
                let Some(rules) = schema.as_object() else { return };
                for (key, below) in rules {
                    found.push(key.clone());
                    match (key.as_str(), below) {
                        ("properties" | "$defs", Value::Object(named)) => {
                            named.values().for_each(|schema| keywords(schema, found));
                        }
                        ("anyOf" | "oneOf", Value::Array(options)) => {
                            options.iter().for_each(|schema| keywords(schema, found));
                        }
                        ("items" | "additionalProperties", schema) => keywords(schema, found),
                        _ => {}
                    }
                }
            }
            let mut found = Vec::new();
            keywords(&schema, &mut found);
            found.retain(|key| !WORDS.contains(&key.as_str()) && !JUDGED.contains(&key.as_str()));
            assert_eq!(found, [""; 0], "{kind}");
        }
    }
}
