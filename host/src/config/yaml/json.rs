//! From the tree to JSON, the form in which a plugin gets its configuration.

use super::scalar::{Resolved, Scalar};
use super::tree::{YamlContent, YamlNode};
use crate::config::read::Place;
use serde_json::{Map, Number, Value};

impl YamlNode {
    /// The value as JSON.
    ///
    /// Integers stay integers, and a fraction that is whole becomes one: `1.0` and `1` are the same number there.
    ///
    /// # Errors
    /// The place of a number that is not finite, below `path`.
    pub(in crate::config) fn to_json(&self, path: &str) -> Result<Value, Place> {
        match &self.content {
            YamlContent::Scalar(scalar) => {
                scalar_to_json(scalar).ok_or_else(|| Place { path: path.to_owned(), line: self.line })
            }
            YamlContent::List(items) => {
                let items = items.iter().enumerate().map(|(index, item)| item.to_json(&format!("{path}[{index}]")));
                items.collect::<Result<_, _>>().map(Value::Array)
            }
            YamlContent::Map(fields) => {
                let fields = fields.iter().map(|field| {
                    let value = field.value.to_json(&format!("{path}.{}", field.key))?;
                    Ok((field.key.clone(), value))
                });
                fields.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
        }
    }

    /// As [`Self::to_json`] with null for what JSON cannot carry: good for a hash, not for a plugin.
    pub(in crate::config) fn to_json_lossy(&self) -> Value {
        match &self.content {
            YamlContent::Scalar(scalar) => scalar_to_json(scalar).unwrap_or_default(),
            YamlContent::List(items) => items.iter().map(|item| item.to_json_lossy()).collect(),
            YamlContent::Map(fields) => {
                fields.iter().map(|field| (field.key.clone(), field.value.to_json_lossy())).collect()
            }
        }
    }
}

fn scalar_to_json(scalar: &Scalar) -> Option<Value> {
    Some(match scalar.resolve() {
        Resolved::Null => Value::Null,
        Resolved::Bool(value) => Value::Bool(value),
        Resolved::Integer(value) => Value::from(value),
        Resolved::Unsigned(value) => Value::from(value),
        Resolved::Float(value) => Value::Number(float_to_json(value)?),
        Resolved::Text => Value::String(scalar.text.clone()),
    })
}

fn float_to_json(value: f64) -> Option<Number> {
    /// Above 2⁵³ a float does not hold every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { Some(Number::from(value as i64)) } else { Number::from_f64(value) }
}
