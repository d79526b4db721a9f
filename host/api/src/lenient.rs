//! Deserializing numbers without ever refusing an object.
//!
//! The schema says `integer`, but what a JSON parser hands over for `3`, `3.0` or `1e30` differs between programs. A
//! number that does not fit is clamped: the rooms above judge it as the absurd value it is, and the watch lives on.

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

fn clamp(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number
        .as_i64()
        .or_else(|| number.as_u64().map(|_| i64::MAX))
        // A float-to-integer `as` saturates, and turns NaN (which JSON cannot carry) into zero.
        .or_else(|| number.as_f64().map(|float| float as i64))
}
