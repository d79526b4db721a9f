//! Deserializing numbers without ever refusing an object.
//!
//! The schema says `integer`, but what a JSON parser hands over for `3`, `3.0` or `1e30` differs between programs. A
//! number that does not fit is clamped: the rooms above judge it as the absurd value it is, and the watch lives on.
//!
//! In a status, what is no number reads as if it were absent. In a spec it is an error of that spec
//! ([`crate::stored`]): a limit that reads as absent would lend more than was meant.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// An `i64` from any JSON number, clamped; zero from everything that is no number.
pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(clamp(&Value::deserialize(deserializer)?).unwrap_or_default())
}

/// As [`integer`], with nothing from null and from everything that is no number.
pub(crate) fn optional_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Ok(clamp(&Value::deserialize(deserializer)?))
}

/// The value, or its default where it is null.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// As [`optional_integer`], and an error from everything else that is no number.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => clamp(&value).map(Some).ok_or_else(|| Error::custom(format_args!("{} is no number", kind(&value)))),
    }
}

/// A text; also from a number, which people write where Kubernetes wants an amount. An error from everything else.
pub(crate) fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(number.to_string())),
        value => Err(Error::custom(format_args!("{} is no amount", kind(&value)))),
    }
}

/// The value, or its default where it cannot be read.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Those items of a list that can be read.
pub(crate) fn readable<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value::Array(items) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    Ok(items.into_iter().filter_map(|item| T::deserialize(item).ok()).collect())
}

/// What kind of value it is, as the beginning of a sentence.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn clamp(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number
        .as_i64()
        .or_else(|| number.as_u64().map(|_| i64::MAX))
        // A float-to-integer `as` saturates, and turns NaN (which JSON cannot carry) into zero.
        .or_else(|| number.as_f64().map(|float| float as i64))
}
