//! The schema of a configuration: JSON Schema 2020-12, as far as plugins use it.
//!
//! Owns the form of a schema (`form`) and what it says about a configuration (`judge`). Not judged, and named as such:
//! `$dynamicRef`, `unevaluatedItems` and `unevaluatedProperties`, references to other documents, and patterns with
//! look-around or back-references, which no expression of this program has. `format` and `content…` require nothing, as the
//! standard says. What is not judged is taken for right: a schema that needs more is checked by a validator of its own.

mod form;
mod judge;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Keywords of the standard that are not judged.
const NOT_JUDGED: [&str; 3] = ["$dynamicRef", "unevaluatedItems", "unevaluatedProperties"];

/// The largest compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;

/// References that are followed one into the other: a schema that refers to itself ends somewhere.
const DEPTH: usize = 64;

/// A schema of the right form.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schema {
    root: Value,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// Everything that is wrong with its form.
    pub(super) fn parse(text: &str) -> Result<Self, Vec<String>> {
        let root: Value = serde_json::from_str(text).map_err(|error| vec![format!("it is no JSON: {error}")])?;
        let schema = Self { root };
        let mistakes = form::mistakes(&schema);
        if mistakes.is_empty() { Ok(schema) } else { Err(mistakes) }
    }

    /// What of it is not judged here, each once.
    pub(super) fn not_judged(&self) -> Vec<String> {
        let mut found = Vec::new();
        form::each(&self.root, "", &mut |_, rules| {
            found.extend(NOT_JUDGED.iter().filter(|word| rules.contains_key(**word)).map(|word| (*word).to_owned()));
            let reference = rules.get("$ref").and_then(Value::as_str);
            found.extend(reference.filter(|to| !to.starts_with('#')).map(|to| format!("the reference to {to}")));
            let of_keys = rules.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
            let patterns = rules.get("pattern").and_then(Value::as_str).into_iter();
            let patterns = patterns.chain(of_keys.map(|(pattern, _)| pattern.as_str()));
            let unknown = patterns.filter(|text| pattern(text).is_none());
            found.extend(unknown.map(|pattern| format!("the pattern {pattern:?}")));
        });
        found.sort();
        found.dedup();
        found
    }

    /// Everything that is wrong with a configuration, each with its path.
    pub(super) fn mistakes(&self, value: &Value) -> Vec<String> {
        judge::mistakes(self, &self.root, value)
    }

    /// Whether a value fits a part of the schema.
    pub(super) fn accepts(&self, part: &Value, value: &Value) -> bool {
        judge::mistakes(self, part, value).is_empty()
    }

    /// The whole schema.
    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// The rules of a part, behind the references that it consists of.
    pub(super) fn rules<'a>(&'a self, part: &'a Value) -> Option<&'a Map<String, Value>> {
        let mut part = part;
        for _ in 0..DEPTH {
            let rules = part.as_object()?;
            match rules.get("$ref").and_then(Value::as_str).filter(|_| !rules.contains_key("type")) {
                Some(reference) => part = self.target(reference)?,
                None => return Some(rules),
            }
        }
        None
    }

    /// Where a reference within the document leads: a pointer, or an anchor.
    fn target(&self, reference: &str) -> Option<&Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(fragment);
        }
        anchored(&self.root, fragment)
    }
}

/// A pattern, if it can be read here and is not too large.
fn pattern(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).size_limit(PATTERN).build().ok()
}

/// The part of a schema with this anchor.
fn anchored<'a>(part: &'a Value, anchor: &str) -> Option<&'a Value> {
    match part {
        Value::Object(rules) if rules.get("$anchor").and_then(Value::as_str) == Some(anchor) => Some(part),
        Value::Object(rules) => rules.values().find_map(|below| anchored(below, anchor)),
        Value::Array(list) => list.iter().find_map(|below| anchored(below, anchor)),
        _ => None,
    }
}

/// A key below a path, as problems of a configuration write it: `networkTopologyTypes.gpu[2].nodeLabel`.
pub(super) fn key_below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_judged_is_named() {
        let text = r##"{
            "properties": {"a": {"$ref": "https://acme.example/a.json"}, "b": {"pattern": "(?=x)y"}, "c": {"pattern": "^x$"}},
            "patternProperties": {"(?!z)": true}, "unevaluatedProperties": false
        }"##;
        let named = Schema::parse(text).unwrap().not_judged();
        assert_eq!(
            named,
            [
                "the pattern \"(?!z)\"",
                "the pattern \"(?=x)y\"",
                "the reference to https://acme.example/a.json",
                "unevaluatedProperties"
            ]
        );
    }

    #[test]
    fn rules_are_found_behind_references() {
        let text =
            r##"{"$defs": {"a": {"$anchor": "here", "type": "string"}, "b": {"$ref": "#here"}}, "$ref": "#/$defs/b"}"##;
        let schema = Schema::parse(text).unwrap();
        assert_eq!(schema.rules(schema.root()).unwrap()["type"], "string");
        let round = Schema::parse(r##"{"$ref": "#"}"##).unwrap();
        assert_eq!(round.rules(round.root()), None, "it refers to itself and to nothing else");
        assert_eq!(round.mistakes(&Value::Null), [""; 0]);
    }
}
