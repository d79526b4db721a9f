//! JSON for two cases where derived types do not fit: documents of a hundred megabytes, and documents that people write
//! by hand.
//!
//! [`Elements`] returns the elements of one large array one by one, [`Members`] the members of one of them. [`Value`] keeps
//! the order of keys and every value as it was written, so that a reader can be lenient and still report every mistake
//! with its path.

mod elements;
mod members;
pub(crate) mod read;
mod scan;

pub use elements::{Elements, Error};
pub use members::{Malformed, Members, Raw};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

use crate::Problem;
use read::{Fault, Reader, Token};

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
    /// A number, as text: `42`, `1.5`, `1e9`. Zeros at the end of a fraction are not in it: `2.0` is `2`
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
        let mut reader = Reader::new(text);
        let value = Self::read(&mut reader).and_then(|value| reader.end().map(|()| value));
        value.map_err(|fault| vec![Problem { path: String::new(), message: fault.message() }])
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(match reader.token()? {
            Token::Null => Self::Null,
            Token::Bool(value) => Self::Bool(value),
            Token::Number(text) => Self::Number(shortest(text).to_owned()),
            Token::Text(text) => Self::String(text.into_owned()),
            Token::List => {
                let mut items = Vec::new();
                while reader.more(b']', items.is_empty())? {
                    items.push(Self::read(reader)?);
                }
                Self::Array(items)
            }
            Token::Mapping => {
                let mut entries = Vec::new();
                while reader.more(b'}', entries.is_empty())? {
                    entries.push((reader.key()?.into_owned(), Self::read(reader)?));
                }
                Self::Object(entries)
            }
        })
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

/// A number without zeros at the end of its fraction, so that `1.0` is a whole number.
fn shortest(number: &str) -> &str {
    if !number.contains('.') || number.contains(['e', 'E']) {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.')
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
