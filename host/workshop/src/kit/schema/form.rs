//! The form of a schema: what each keyword may hold.

use serde_json::{Map, Value};

use super::Schema;

/// The dialect that the interface asks for.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Names of types.
const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

/// What a keyword holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A schema.
    Schema,
    /// A list of schemas, at least one.
    Schemas,
    /// Schemas by name.
    Named,
    /// A name of a type, or a list of them.
    Types,
    /// A text.
    Text,
    /// A number.
    Number,
    /// A number above zero.
    AboveZero,
    /// A whole number of at least zero.
    Count,
    /// Yes or no.
    Flag,
    /// A list of anything.
    List,
    /// A list of texts, each once.
    Words,
    /// Lists of texts by name.
    WordsByName,
}

fn form(keyword: &str) -> Option<Form> {
    Some(match keyword {
        "additionalProperties"
        | "contains"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Form::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Form::Schemas,
        "$defs" | "definitions" | "dependentSchemas" | "patternProperties" | "properties" => Form::Named,
        "type" => Form::Types,
        "$schema" | "$id" | "$ref" | "$dynamicRef" | "$anchor" | "$dynamicAnchor" | "$comment" | "title"
        | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => Form::Text,
        "maximum" | "exclusiveMaximum" | "minimum" | "exclusiveMinimum" => Form::Number,
        "multipleOf" => Form::AboveZero,
        "maxLength" | "minLength" | "maxItems" | "minItems" | "maxContains" | "minContains" | "maxProperties"
        | "minProperties" => Form::Count,
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => Form::Flag,
        "enum" | "examples" => Form::List,
        "required" => Form::Words,
        "dependentRequired" => Form::WordsByName,
        _ => return None,
    })
}

impl Form {
    /// What is wrong with a value in its place; schemas inside of it are looked at elsewhere.
    fn wrong(self, value: &Value) -> Option<&'static str> {
        let is_schema = |value: &Value| value.is_object() || value.is_boolean();
        let is_type = |value: &Value| value.as_str().is_some_and(|word| TYPES.contains(&word));
        let is_words = |value: &Value| {
            let list = value.as_array();
            list.is_some_and(|list| list.iter().all(Value::is_string) && each_once(list))
        };
        let (fits, wanted) = match self {
            Self::Schema => (is_schema(value), "must be a schema: an object, true or false"),
            Self::Schemas => {
                let list = value.as_array();
                let fits = list.is_some_and(|list| !list.is_empty() && list.iter().all(is_schema));
                (fits, "must be a list of schemas, at least one")
            }
            Self::Named => {
                let fits = value.as_object().is_some_and(|named| named.values().all(is_schema));
                (fits, "must be an object of schemas")
            }
            Self::Types => {
                let list = value.as_array();
                let several = list.is_some_and(|list| !list.is_empty() && list.iter().all(is_type) && each_once(list));
                let wanted = "must be null, boolean, object, array, number, integer, string, or a list of them";
                (is_type(value) || several, wanted)
            }
            Self::Text => (value.is_string(), "must be a text"),
            Self::Number => (value.is_number(), "must be a number"),
            Self::AboveZero => (value.as_f64().is_some_and(|number| number > 0.0), "must be a number above zero"),
            Self::Count => (value.as_u64().is_some(), "must be a whole number of at least zero"),
            Self::Flag => (value.is_boolean(), "must be true or false"),
            Self::List => (value.is_array(), "must be a list"),
            Self::Words => (is_words(value), "must be a list of texts, each once"),
            Self::WordsByName => {
                let fits = value.as_object().is_some_and(|named| named.values().all(is_words));
                (fits, "must be an object of lists of texts")
            }
        };
        (!fits).then_some(wanted)
    }
}

fn each_once(list: &[Value]) -> bool {
    list.iter().enumerate().all(|(at, value)| list.iter().take(at).all(|other| other != value))
}

/// Everything that is wrong with the form of a schema.
pub(super) fn mistakes(schema: &Schema) -> Vec<String> {
    if !schema.root.is_object() && !schema.root.is_boolean() {
        return vec!["it is neither an object nor true or false".to_owned()];
    }
    let mut found = Vec::new();
    each(&schema.root, "#", &mut |at, rules| {
        for (keyword, value) in rules {
            let wrong = form(keyword).and_then(|form| form.wrong(value));
            let wrong = match (keyword.as_str(), value) {
                ("items", Value::Array(_)) => {
                    Some("must be one schema; a list of schemas is `prefixItems` since 2020-12")
                }
                _ => wrong,
            };
            found.extend(wrong.map(|wanted| format!("{at}/{keyword} {wanted}")));
        }
        let reference = rules.get("$ref").and_then(Value::as_str).filter(|to| to.starts_with('#'));
        if let Some(lost) = reference.filter(|to| schema.target(to).is_none()) {
            found.push(format!("{at}/$ref leads nowhere: {lost}"));
        }
    });
    let dialect = schema.root.get("$schema").and_then(Value::as_str).map(|name| name.trim_end_matches('#'));
    if let Some(other) = dialect.filter(|name| *name != DIALECT) {
        found.push(format!("#/$schema is {other}, and the interface asks for {DIALECT}"));
    }
    found
}

/// Looks at a schema and all schemas in it, each with its place.
pub(super) fn each<'a>(schema: &'a Value, at: &str, look: &mut dyn FnMut(&str, &'a Map<String, Value>)) {
    let Some(rules) = schema.as_object() else { return };
    look(at, rules);
    for (keyword, value) in rules {
        match (form(keyword), value) {
            (Some(Form::Schema), below) => each(below, &format!("{at}/{keyword}"), look),
            (Some(Form::Schemas), Value::Array(list)) => {
                for (index, below) in list.iter().enumerate() {
                    each(below, &format!("{at}/{keyword}/{index}"), look);
                }
            }
            (Some(Form::Named), Value::Object(named)) => {
                for (name, below) in named {
                    each(below, &format!("{at}/{keyword}/{name}"), look);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: &[&str]) {
        let found = Schema::parse(text).map(|_| Vec::new()).unwrap_or_else(|mistakes| mistakes);
        assert_eq!(found, wanted, "{text}");
    }

    #[test]
    fn a_schema_of_the_right_form_is_read() {
        for text in [
            "true",
            "{}",
            r#"{"type": "object"}"#,
            r#"{"$schema": "https://json-schema.org/draft/2020-12/schema#", "x-own": {"type": 7}}"#,
            r##"{"type": ["string", "null"], "$defs": {"a": {"enum": [1, null]}}, "anyOf": [{"$ref": "#/$defs/a"}, true]}"##,
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn every_mistake_has_its_place() {
        check("[]", &["it is neither an object nor true or false"]);
        check(
            r#"{"type": "strnig"}"#,
            &["#/type must be null, boolean, object, array, number, integer, string, or a list of them"],
        );
        check(
            r#"{"properties": {"a": {"maxLength": -1, "required": ["b", "b"]}}}"#,
            &[
                "#/properties/a/maxLength must be a whole number of at least zero",
                "#/properties/a/required must be a list of texts, each once",
            ],
        );
        check(r#"{"items": [{}]}"#, &["#/items must be one schema; a list of schemas is `prefixItems` since 2020-12"]);
        check(r##"{"not": {"$ref": "#/$defs/b"}}"##, &["#/not/$ref leads nowhere: #/$defs/b"]);
        check(
            r#"{"$schema": "http://json-schema.org/draft-07/schema#"}"#,
            &["#/$schema is http://json-schema.org/draft-07/schema, and the interface asks for \
             https://json-schema.org/draft/2020-12/schema"],
        );
        check(
            r#"{"anyOf": [], "multipleOf": 0}"#,
            &["#/anyOf must be a list of schemas, at least one", "#/multipleOf must be a number above zero"],
        );
    }
}
