//! Comparing JSON as an API server would: what is left out, null and empty is the same there.

use serde_json::{Map, Value};

/// How deep a comparison goes: as deep as the parser does. What is deeper counts as different.
const DEPTH: usize = 128;

/// The entries of a list in an object; none where the field is no list.
pub(super) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether two values mean the same.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    is_same(left, right, DEPTH)
}

/// Whether two objects mean the same apart from one field.
pub(super) fn same_but(left: &Value, right: &Value, field: &str) -> bool {
    let (Value::Object(left), Value::Object(right)) = (left, right) else { return same(left, right) };
    is_same_object(left, right, DEPTH, Some(field))
}

fn is_same(left: &Value, right: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => is_same_object(left, right, depth, None),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right, depth))
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        _ => left == right,
    }
}

fn is_same_object(left: &Map<String, Value>, right: &Map<String, Value>, depth: usize, but: Option<&str>) -> bool {
    let counts = |key: &str| but != Some(key);
    let one_way = |one: &Map<String, Value>, other: &Map<String, Value>| {
        one.iter().filter(|(key, _)| counts(key)).all(|(key, value)| {
            let absent = other.get(key).is_none_or(|other| is_nothing(key, other));
            if is_nothing(key, value) {
                absent
            } else {
                other.get(key).is_some_and(|other| is_same(value, other, depth))
            }
        })
    };
    let absent_there =
        |(key, value): (&String, &Value)| !counts(key) || left.contains_key(key) || is_nothing(key, value);
    one_way(left, right) && right.iter().all(absent_there)
}

/// Whether leaving it out would mean the same. Which of its states a container is in shows in which member is there, even
/// where that is empty.
fn is_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty() && !matches!(key, "running" | "terminated" | "waiting"),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_null_or_empty_is_the_same() {
        let table = [
            (json!({}), json!({"a": null}), true),
            (json!({"a": {}}), json!({"a": null}), true),
            (json!({"a": []}), json!({}), true),
            (json!({"a": {}}), json!({"a": []}), true),
            (json!({"a": ""}), json!({}), false),
            (json!({"a": 0}), json!({}), false),
            (json!({"a": false}), json!({"a": null}), false),
            (json!({"running": {}}), json!({}), false),
            (json!({"running": null}), json!({}), true),
            (json!({"state": {"running": {}}}), json!({"state": {"waiting": {}}}), false),
            (json!([1, 2]), json!([2, 1]), false),
            (json!([{"a": null}]), json!([{}]), true),
            (json!([{}]), json!([]), false),
            (json!({"a": 1}), json!({"a": "1"}), false),
            (json!({"a": {"b": [1]}}), json!({"a": {"b": [1], "c": null}}), true),
        ];
        for (left, right, wanted) in table {
            assert_eq!(same(&left, &right), wanted, "{left} and {right}");
            assert_eq!(same(&right, &left), wanted, "{right} and {left}");
            assert!(same(&left, &left) && same(&right, &right));
        }
    }

    #[test]
    fn one_field_can_be_left_out_at_the_top() {
        let (left, right) = (json!({"a": 1, "b": 1}), json!({"a": 1, "b": 2}));
        assert!(same_but(&left, &right, "b") && same_but(&right, &left, "b") && !same_but(&left, &right, "a"));
        assert!(same_but(&json!({"a": 1}), &right, "b") && same_but(&right, &json!({"a": 1}), "b"));
        assert!(!same_but(&json!({"a": {"b": 1}}), &json!({"a": {"b": 2}}), "b"));
    }

    #[test]
    fn a_value_as_deep_as_the_parser_takes_is_compared() {
        let deep = |end: &str| -> Value {
            serde_json::from_str(&format!("{}{end}{}", "[".repeat(120), "]".repeat(120))).unwrap()
        };
        assert!(same(&deep("1"), &deep("1")) && !same(&deep("1"), &deep("2")));
        let deeper: Value = (0..10_000).fold(Value::Null, |value, _| Value::Array(vec![value]));
        assert!(!same(&deeper, &deeper));
        // Dropping it level by level, or the test would overflow the stack that it is about.
        let mut left = deeper;
        while let Value::Array(mut entries) = left {
            left = entries.pop().unwrap_or_default();
        }
    }
}
