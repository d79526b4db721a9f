//! What a schema says about a value: everything that is wrong, each with its path.
//!
//! A part of a schema that cannot be judged makes no mistake, wherever it stands: what may fit and what may not are one answer.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::{DEPTH, NOT_JUDGED, Schema, key_below, pattern};

/// Parts of a schema that are looked at for one value; what a schema that refers to itself twice has beyond them is not judged.
const STEPS: usize = 100_000;

/// A pattern costs as much as so many parts.
const PATTERN: usize = 20;

/// Mistakes that are listed; one wrong list could have thousands.
const LISTED: usize = 20;

/// Elements of a list that are compared with each other.
const COMPARED: usize = 1_000;

/// The longest value that a mistake repeats, in bytes.
const SHOWN: usize = 80;

/// Everything that is wrong with a value.
pub(super) fn mistakes(schema: &Schema, part: &Value, value: &Value) -> Vec<String> {
    let steps = Cell::new(STEPS);
    let mut judge = Judge { schema, found: Vec::new(), is_open: false, depth: 0, steps: &steps };
    judge.part(part, value, "");
    judge.found
}

struct Judge<'a> {
    schema: &'a Schema,
    found: Vec<String>,
    /// Whether something of the schema could not be judged.
    is_open: bool,
    depth: usize,
    /// Parts that may still be looked at, of all judges together.
    steps: &'a Cell<usize>,
}

/// Whether a number is within a bound.
type Holds = fn(f64, f64) -> bool;

impl Judge<'_> {
    fn wrong(&mut self, at: &str, what: String) {
        if self.found.len() < LISTED {
            self.found.push(if at.is_empty() { what } else { format!("{at} {what}") });
        }
    }

    /// Whether a value fits; `None`: that cannot be judged.
    fn fits(&self, part: &Value, value: &Value) -> Option<bool> {
        let Self { schema, depth, steps, .. } = *self;
        let mut judge = Judge { schema, found: Vec::new(), is_open: false, depth, steps };
        judge.part(part, value, "");
        match (judge.found.is_empty(), judge.is_open) {
            (false, _) => Some(false),
            (true, true) => None,
            (true, false) => Some(true),
        }
    }

    /// The parts that a value fits, and those of which that cannot be judged.
    fn count_fitting(&self, parts: &[Value], value: &Value) -> (usize, usize) {
        let fits: Vec<Option<bool>> = parts.iter().map(|part| self.fits(part, value)).collect();
        let count = |wanted: Option<bool>| fits.iter().filter(|fit| **fit == wanted).count();
        (count(Some(true)), count(None))
    }

    /// Whether a pattern is found in a text; `None`: it cannot be read.
    fn matches(&self, text: &str, within: &str) -> Option<bool> {
        if !self.pays(PATTERN) {
            return None;
        }
        pattern(text).map(|pattern| pattern.is_match(within))
    }

    /// Whether there is room for so many steps more.
    fn pays(&self, steps: usize) -> bool {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or_default());
        left.is_some()
    }

    fn part(&mut self, part: &Value, value: &Value, at: &str) {
        let rules = match part {
            Value::Object(rules) => rules,
            Value::Bool(false) => return self.wrong(at, "is not allowed".to_owned()),
            _ => return,
        };
        if self.depth >= DEPTH || !self.pays(1) {
            self.is_open = true;
            return;
        }
        self.depth += 1;
        self.is_open |= NOT_JUDGED.iter().any(|word| rules.contains_key(*word));
        let schema = self.schema;
        if let Some(to) = rules.get("$ref").and_then(Value::as_str) {
            match schema.target(to) {
                Some(target) => self.part(target, value, at),
                None => self.is_open = true,
            }
        }
        self.of_any_type(rules, value, at);
        self.combined(rules, value, at);
        match value {
            Value::Number(_) => self.number(rules, value, at),
            Value::String(text) => self.text(rules, text, at),
            Value::Array(list) => self.list(rules, list, at),
            Value::Object(fields) => self.object(rules, (value, fields), at),
            Value::Null | Value::Bool(_) => {}
        }
        self.depth -= 1;
    }

    fn of_any_type(&mut self, rules: &Map<String, Value>, value: &Value, at: &str) {
        if let Some(types) = rules.get("type") {
            let is = |name: &Value| name.as_str().is_some_and(|name| has_type(value, name));
            if !types.as_array().map_or_else(|| is(types), |types| types.iter().any(is)) {
                self.wrong(at, format!("is {} and must be of the type {types}", shown(value)));
            }
        }
        if let Some(only) = rules.get("const").filter(|only| !same(only, value)) {
            self.wrong(at, format!("is {} and must be {}", shown(value), shown(only)));
        }
        if let Some(Value::Array(words)) = rules.get("enum")
            && !words.iter().any(|word| same(word, value))
        {
            let words: Vec<String> = words.iter().map(shown).collect();
            self.wrong(at, format!("is {} and must be one of {}", shown(value), words.join(", ")));
        }
    }

    fn combined(&mut self, rules: &Map<String, Value>, value: &Value, at: &str) {
        let list = |keyword: &str| rules.get(keyword).and_then(Value::as_array);
        for part in list("allOf").into_iter().flatten() {
            self.part(part, value, at);
        }
        if let Some(parts) = list("anyOf") {
            match self.count_fitting(parts, value) {
                (0, 0) => self.wrong(at, format!("fits none of the {} forms of `anyOf`", parts.len())),
                (0, _) => self.is_open = true,
                _ => {}
            }
        }
        if let Some(parts) = list("oneOf") {
            match self.count_fitting(parts, value) {
                (1, 0) => {}
                (0 | 1, open) if open > 0 => self.is_open = true,
                (fits, _) => self.wrong(at, format!("fits {fits} of the {} forms of `oneOf`", parts.len())),
            }
        }
        match rules.get("not").map(|part| self.fits(part, value)) {
            Some(Some(true)) => self.wrong(at, "fits what `not` forbids".to_owned()),
            Some(None) => self.is_open = true,
            Some(Some(false)) | None => {}
        }
        if let Some(condition) = rules.get("if") {
            let branch = match self.fits(condition, value) {
                Some(true) => rules.get("then"),
                Some(false) => rules.get("else"),
                None => {
                    self.is_open = true;
                    None
                }
            };
            if let Some(part) = branch {
                self.part(part, value, at);
            }
        }
    }

    fn number(&mut self, rules: &Map<String, Value>, value: &Value, at: &str) {
        let Some(number) = value.as_f64() else { return };
        let bound = |keyword: &str| rules.get(keyword).and_then(Value::as_f64);
        let bounds: [(&str, Holds); 5] = [
            ("minimum", |number, bound| number >= bound),
            ("exclusiveMinimum", |number, bound| number > bound),
            ("maximum", |number, bound| number <= bound),
            ("exclusiveMaximum", |number, bound| number < bound),
            ("multipleOf", |number, bound| (number / bound - (number / bound).round()).abs() < 1e-9),
        ];
        for (keyword, holds) in bounds {
            if let Some(bound) = bound(keyword).filter(|bound| !holds(number, *bound)) {
                self.wrong(at, format!("is {value}, and `{keyword}` is {bound}"));
            }
        }
    }

    fn text(&mut self, rules: &Map<String, Value>, text: &str, at: &str) {
        self.count(rules, "minLength", "maxLength", text.chars().count(), "characters", at);
        let Some(pattern) = rules.get("pattern").and_then(Value::as_str) else { return };
        match self.matches(pattern, text) {
            Some(true) => {}
            Some(false) => self.wrong(at, format!("is {} and does not match {pattern:?}", shown(&text.into()))),
            None => self.is_open = true,
        }
    }

    fn list(&mut self, rules: &Map<String, Value>, list: &[Value], at: &str) {
        self.count(rules, "minItems", "maxItems", list.len(), "elements", at);
        let first = rules.get("prefixItems").and_then(Value::as_array);
        let before = first.map_or(0, Vec::len);
        for (index, (part, value)) in first.into_iter().flatten().zip(list).enumerate() {
            self.part(part, value, &format!("{at}[{index}]"));
        }
        if let Some(part) = rules.get("items") {
            for (index, value) in list.iter().enumerate().skip(before) {
                self.part(part, value, &format!("{at}[{index}]"));
            }
        }
        if let Some(part) = rules.get("contains") {
            let fits: Vec<Option<bool>> = list.iter().map(|value| self.fits(part, value)).collect();
            let found = fits.iter().filter(|fit| **fit == Some(true)).count() as u64;
            let bound = |keyword: &str| rules.get(keyword).and_then(Value::as_u64);
            let (least, most) = (bound("minContains").unwrap_or(1), bound("maxContains").unwrap_or(u64::MAX));
            if fits.contains(&None) {
                self.is_open = true;
            } else if !(least..=most).contains(&found) {
                self.wrong(at, format!("has {found} elements of the form of `contains`"));
            }
        }
        if rules.get("uniqueItems") == Some(&Value::Bool(true)) {
            let list: Vec<&Value> = list.iter().take(COMPARED).collect();
            let twice = list.iter().enumerate().find(|(at, value)| {
                let mut before = list.iter().take(*at);
                before.any(|other| same(other, value))
            });
            if let Some((_, value)) = twice {
                self.wrong(at, format!("has {} twice", shown(value)));
            }
        }
    }

    fn object(&mut self, rules: &Map<String, Value>, (whole, fields): (&Value, &Map<String, Value>), at: &str) {
        self.count(rules, "minProperties", "maxProperties", fields.len(), "keys", at);
        let words = |list: Option<&Value>| -> Vec<String> {
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut required = words(rules.get("required"));
        let dependent = rules.get("dependentRequired").and_then(Value::as_object).into_iter().flatten();
        for (_, list) in dependent.filter(|(key, _)| fields.contains_key(*key)) {
            required.extend(words(Some(list)));
        }
        for key in required.iter().filter(|key| !fields.contains_key(*key)) {
            self.wrong(&key_below(at, key), "is missing".to_owned());
        }
        let dependent = rules.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten();
        for (_, part) in dependent.filter(|(key, _)| fields.contains_key(*key)) {
            self.part(part, whole, at);
        }
        if let Some(part) = rules.get("propertyNames") {
            for key in fields.keys() {
                match self.fits(part, &Value::String(key.clone())) {
                    Some(true) => {}
                    Some(false) => {
                        self.wrong(&key_below(at, key), "has a name that `propertyNames` does not allow".to_owned());
                    }
                    None => self.is_open = true,
                }
            }
        }
        let named = rules.get("properties").and_then(Value::as_object);
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        for (key, value) in fields {
            let at = key_below(at, key);
            let of_name = named.and_then(|named| named.get(key));
            let mut parts: Vec<&Value> = of_name.into_iter().collect();
            let mut is_known = true;
            for (pattern, part) in patterns.into_iter().flatten() {
                match self.matches(pattern, key) {
                    Some(true) => parts.push(part),
                    Some(false) => {}
                    None => is_known = false,
                }
            }
            self.is_open |= !is_known;
            for part in &parts {
                self.part(part, value, &at);
            }
            match rules.get("additionalProperties").filter(|_| parts.is_empty() && is_known) {
                Some(Value::Bool(false)) => self.wrong(&at, "is no key of the schema".to_owned()),
                Some(part) => self.part(part, value, &at),
                None => {}
            }
        }
    }

    fn count(&mut self, rules: &Map<String, Value>, least: &str, most: &str, count: usize, what: &str, at: &str) {
        let bound = |keyword: &str| rules.get(keyword).and_then(Value::as_u64);
        let count = count as u64;
        if let Some(least) = bound(least).filter(|least| count < *least) {
            self.wrong(at, format!("has {count} {what} and needs {least}"));
        }
        if let Some(most) = bound(most).filter(|most| count > *most) {
            self.wrong(at, format!("has {count} {what} and may have {most}"));
        }
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Whether two values are the same: numbers by what they are, not by how they are written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn shown(value: &Value) -> String {
    topoloom_core::text::line(&value.to_string(), SHOWN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, value: Value, wanted: &[&str]) {
        let schema = Schema::parse(&schema.to_string()).unwrap();
        assert_eq!(schema.mistakes(&value), wanted, "{value}");
    }

    #[test]
    fn types_and_values() {
        check(json!({"type": "object"}), json!({}), &[]);
        check(json!({"type": "object"}), json!([]), &["is [] and must be of the type \"object\""]);
        check(json!({"type": ["integer", "null"]}), json!(1.0), &[]);
        check(json!({"type": "integer"}), json!(1.5), &["is 1.5 and must be of the type \"integer\""]);
        check(json!({"enum": ["a", 1]}), json!(1.0), &[]);
        check(json!({"enum": ["a", 1]}), json!("b"), &["is \"b\" and must be one of \"a\", 1"]);
        check(json!({"const": {"a": [1]}}), json!({"a": [1.0]}), &[]);
        check(json!(false), json!(1), &["is not allowed"]);
        check(json!({"minimum": 0, "exclusiveMaximum": 1}), json!(1), &["is 1, and `exclusiveMaximum` is 1"]);
        check(json!({"multipleOf": 0.1}), json!(0.3), &[]);
    }

    #[test]
    fn texts_and_lists() {
        check(json!({"maxLength": 2}), json!("äöü"), &["has 3 characters and may have 2"]);
        check(json!({"pattern": "^[a-z]+$"}), json!("a1"), &["is \"a1\" and does not match \"^[a-z]+$\""]);
        let pair = json!({"prefixItems": [{"type": "string"}], "items": {"type": "number"}, "uniqueItems": true});
        check(pair.clone(), json!(["a", 1, 2]), &[]);
        check(
            pair,
            json!([1, "b", "b"]),
            &[
                "[0] is 1 and must be of the type \"string\"",
                "[1] is \"b\" and must be of the type \"number\"",
                "[2] is \"b\" and must be of the type \"number\"",
                "has \"b\" twice",
            ],
        );
        check(
            json!({"contains": {"const": 1}, "maxContains": 1}),
            json!([1, 1]),
            &["has 2 elements of the form of `contains`"],
        );
    }

    #[test]
    fn what_cannot_be_judged_is_no_mistake_wherever_it_stands() {
        let away = json!({"$ref": "https://acme.example/a.json"});
        let unreadable = json!({"pattern": "(?=x)y"});
        for part in [away, unreadable, json!({"unevaluatedProperties": false, "unevaluatedItems": false})] {
            for schema in [
                part.clone(),
                json!({"not": part}),
                json!({"oneOf": [part, {"type": "string"}]}),
                json!({"oneOf": [part, {"type": "null"}]}),
                json!({"anyOf": [part, {"type": "null"}]}),
                json!({"not": {"anyOf": [part, {"type": "null"}]}}),
                json!({"if": part, "then": false, "else": false}),
                json!({"not": {"not": part}}),
            ] {
                check(schema, json!("z"), &[]);
            }
            check(json!({"contains": part, "maxContains": 0}), json!(["z"]), &[]);
            check(json!({"not": {"contains": part}}), json!(["z"]), &[]);
            check(json!({"propertyNames": {"not": part}}), json!({"z": 1}), &[]);
            // What is certain is said nevertheless.
            let certain = json!({"oneOf": [part, {"type": "string"}, {"maxLength": 1}]});
            check(certain, json!("z"), &["fits 2 of the 3 forms of `oneOf`"]);
            check(
                json!({"allOf": [part, {"type": "null"}]}),
                json!("z"),
                &["is \"z\" and must be of the type \"null\""],
            );
        }
        let named = json!({"patternProperties": {"(?=x)y": {"type": "null"}}, "additionalProperties": false});
        check(named.clone(), json!({"z": 1}), &[]);
        check(json!({"not": named}), json!({"z": 1}), &[]);
    }

    #[test]
    fn a_schema_that_refers_to_itself_again_and_again_ends() {
        let twice = json!([{"$ref": "#"}, {"$ref": "#"}]);
        for word in ["allOf", "anyOf", "oneOf"] {
            check(json!({word: twice}), json!({"a": 1}), &[]);
            check(json!({"not": {word: twice}}), json!({"a": 1}), &[]);
        }
        check(
            json!({"allOf": twice, "type": "null"}),
            json!(true),
            &["is true and must be of the type \"null\""; LISTED],
        );
    }

    #[test]
    fn objects_and_what_is_combined() {
        let schema = json!({
            "$defs": {"level": {"type": "object", "required": ["nodeLabel"]}},
            "required": ["types"],
            "properties": {"types": {"additionalProperties": {"type": "array", "items": {"$ref": "#/$defs/level"}}}},
            "patternProperties": {"^x-": true},
            "additionalProperties": false,
        });
        check(schema.clone(), json!({"types": {"gpu": [{"nodeLabel": "a"}]}, "x-own": 1}), &[]);
        check(
            schema.clone(),
            json!({"types": {"gpu": [{}, 7]}, "typse": 1}),
            &[
                "types.gpu[0].nodeLabel is missing",
                "types.gpu[1] is 7 and must be of the type \"object\"",
                "typse is no key of the schema",
            ],
        );
        check(schema, json!({}), &["types is missing"]);
        let either = json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["a", "b"]}});
        check(either.clone(), json!({"a": 1}), &[]);
        check(either.clone(), json!({}), &["fits none of the 2 forms of `anyOf`"]);
        check(either, json!({"a": 1, "b": 2}), &["fits what `not` forbids"]);
        let choice = json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 0}});
        check(choice.clone(), json!({"a": 1}), &["b is missing"]);
        check(choice, json!({"c": 1}), &["has 1 keys and may have 0"]);
        check(json!({"oneOf": [true, {"type": "null"}]}), json!(null), &["fits 2 of the 2 forms of `oneOf`"]);
        check(json!({"dependentRequired": {"a": ["b"]}}), json!({"a": 1}), &["b is missing"]);
        check(
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            &["ab has a name that `propertyNames` does not allow"],
        );
    }
}
