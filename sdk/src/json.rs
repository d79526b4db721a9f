//! JSON for two cases where derived types do not fit: documents of a hundred megabytes, and documents that people write
//! by hand.
//!
//! [`Elements`] returns the elements of one large array one by one, [`Members`] the members of one of them. [`Value`] keeps
//! the order of keys and every value as it was written, so that a reader can be lenient and still report every mistake
//! with its path.

mod elements;
mod members;
mod scan;

pub use elements::{Elements, Error};
pub use members::{Malformed, Members, Raw};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

use crate::Problem;

/// Any JSON value, keys in the order of the document.
///
/// ```
/// use topoloom_sdk::json::Value;
///
/// let value = Value::parse(r#"{"b": 1, "a": [true, null]}"#).unwrap();
/// let Value::Object(entries) = value else { panic!("no mapping") };
/// assert_eq!(entries[0], ("b".to_owned(), Value::Number("1".to_owned())));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as text: `42`, `1.5`
    Number(String),
    /// A string
    String(String),
    /// An array
    Array(Vec<Value>),
    /// An object; a key that occurs twice is in it twice
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a text. Faster than [`crate::FromJson`], since the problem of a text that is not JSON needs no path.
    ///
    /// ```
    /// use topoloom_sdk::json::Value;
    ///
    /// assert_eq!(Value::parse("[]"), Ok(Value::Array(Vec::new())));
    /// assert_eq!(Value::parse("[").unwrap_err()[0].path, "");
    /// ```
    ///
    /// # Errors
    ///
    /// The problem of a text that is not JSON, with line and column.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        serde_json::from_str(text).map_err(|error| vec![Problem::new("", error.to_string())])
    }

    /// The kind of value, in words for messages.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::json::Value::Null.kind(), "null");
    /// assert_eq!(topoloom_sdk::json::Value::Number("7".to_owned()).kind(), "a number");
    /// ```
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "a list",
            Self::Object(_) => "a mapping",
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_order_and_doubles() {
        let value: Value = serde_json::from_str(r#"{"b": 1, "a": [true, null, "x"], "b": 2.5}"#).unwrap();
        let Value::Object(entries) = value else { panic!("not an object") };
        let keys: Vec<_> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a", "b"]);
        assert_eq!(entries[2].1, Value::Number("2.5".into()));
    }
}
