//! A spec as it is stored, which may be one that cannot be read.
//!
//! Owns the difference between a spec that was read and one that was not. A list of objects must not fail because of
//! one of them, so reading never fails. But a spec must not read as its defaults either: a policy whose windows cannot
//! be read would lend at all times. So the object is there, and its spec is an error that names the field.
//!
//! What goes wrong: the API server checks what is stored against the definition that it has, so this happens only where
//! the definition is another version, or was edited by hand.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;

/// How many characters of a reason are kept: it may repeat what is stored.
const WHY_MAX: usize = 200;

/// A spec, or why it cannot be read.
pub type Stored<T> = Result<T, Unreadable>;

/// A spec that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    field: Option<String>,
    why: String,
    stored: Value,
}

impl Unreadable {
    /// The spec of an object that has none.
    #[must_use]
    pub fn missing() -> Self {
        Self { field: None, why: "it is missing".to_owned(), stored: Value::Null }
    }

    /// The field that cannot be read, as `spec.timeWindows`; `spec` where it is not one field.
    #[must_use]
    pub fn field(&self) -> String {
        self.field.as_ref().map_or_else(|| "spec".to_owned(), |field| format!("spec.{field}"))
    }

    /// One field of it, read alone: what can be known of a spec that cannot be read as a whole.
    #[must_use]
    pub fn part<T: DeserializeOwned>(&self, field: &str) -> Part<T> {
        let Value::Object(fields) = &self.stored else { return Part::Unreadable };
        match fields.get(field) {
            None | Some(Value::Null) => Part::Absent,
            Some(value) => T::deserialize(without_nulls(value)).map_or(Part::Unreadable, Part::Read),
        }
    }

    fn new<T: DeserializeOwned>(whole: &serde_json::Error, stored: &Value) -> Self {
        // Every field of a spec may be absent, so that each can be read alone.
        let fields = stored.as_object().into_iter().flatten();
        let alone = |(key, value): (&String, &Value)| {
            let one = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
            T::deserialize(one).err().map(|error| (key.clone(), error))
        };
        let (field, why) = match fields.filter_map(alone).next() {
            Some((key, error)) => (Some(key), error.to_string()),
            None => (None, whole.to_string()),
        };
        let why = why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_MAX).collect();
        Self { field, why, stored: stored.clone() }
    }
}

/// One field of a spec that cannot be read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<T> {
    /// It is not there.
    Absent,
    /// It is this.
    Read(T),
    /// It cannot be read.
    Unreadable,
}

impl<T: Default> Part<T> {
    /// The field; its default where it is absent or cannot be read.
    #[must_use]
    pub fn or_default(self) -> T {
        match self {
            Self::Read(value) => value,
            Self::Absent | Self::Unreadable => T::default(),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.field(), self.why)
    }
}

impl std::error::Error for Unreadable {}

/// Reads a spec all of whose fields may be absent. A field that is null is absent.
pub(crate) fn read<'de, D, T>(deserializer: D) -> Result<Stored<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let stored = Value::deserialize(deserializer)?;
    let read = T::deserialize(&stored).or_else(|_| T::deserialize(without_nulls(&stored)));
    Ok(read.map_err(|error| Unreadable::new::<T>(&error, &without_nulls(&stored))))
}

/// Writes a spec, and one that cannot be read as it was stored.
pub(crate) fn write<S, T>(spec: &Stored<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    T: Serialize,
{
    match spec {
        Ok(spec) => spec.serialize(serializer),
        Err(unreadable) => unreadable.stored.serialize(serializer),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let given = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(given.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, Deserialize, Serialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Spec {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        windows: Vec<String>,
        #[serde(deserialize_with = "crate::lenient::number", skip_serializing_if = "Option::is_none")]
        percent: Option<i64>,
        #[serde(deserialize_with = "crate::lenient::amount", skip_serializing_if = "Option::is_none")]
        amount: Option<String>,
    }

    #[derive(Debug, Deserialize, Serialize)]
    struct Object {
        #[serde(deserialize_with = "read", serialize_with = "write")]
        spec: Stored<Spec>,
    }

    fn object(spec: Value) -> Object {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    #[test]
    fn a_spec_that_cannot_be_read_names_the_field_and_never_reads_as_its_defaults() {
        for (spec, sentence) in [
            (
                json!({"percent": 1, "windows": "always"}),
                "spec.windows cannot be read: invalid type: string \"always\"",
            ),
            (json!({"windows": [1]}), "spec.windows cannot be read: invalid type: integer `1`, expected a string"),
            (json!({"percent": "50"}), "spec.percent cannot be read: a text is no number"),
            (json!({"amount": true}), "spec.amount cannot be read: a boolean is no amount"),
            (json!("x"), "spec cannot be read: invalid type: string \"x\""),
        ] {
            let object = object(spec.clone());
            let why = object.spec.as_ref().unwrap_err().to_string();
            assert!(why.starts_with(sentence), "{spec}: {why}");
            assert_eq!(
                serde_json::to_value(&object).unwrap(),
                json!({ "spec": spec }),
                "it is written as it was stored"
            );
        }
        let long = object(json!({"windows": "\n".repeat(5000)})).spec.unwrap_err().to_string();
        assert!(long.len() < 300 && !long.contains('\n'), "{long}");
    }

    #[test]
    fn the_fields_that_can_be_read_are_known_of_a_spec_that_cannot_be() {
        let why = object(json!({"percent": 1, "windows": "always", "amount": null})).spec.unwrap_err();
        assert_eq!(why.part::<u8>("percent"), Part::Read(1));
        assert_eq!(why.part::<Vec<String>>("windows"), Part::Unreadable);
        assert_eq!((why.part::<String>("amount"), why.part::<u8>("percent").or_default()), (Part::Absent, 1));
        assert_eq!(Unreadable::missing().part::<u8>("percent"), Part::Unreadable, "there is no such spec");
    }

    #[test]
    fn null_is_absent_and_numbers_of_any_form_are_read() {
        let read = |spec| object(spec).spec.unwrap();
        assert_eq!(read(json!({"windows": null, "percent": null, "amount": null})), Spec::default());
        assert_eq!(read(json!({"percent": 3.0})).percent, Some(3));
        assert_eq!(read(json!({"percent": 1e30})).percent, Some(i64::MAX));
        assert_eq!(read(json!({"amount": 20, "later": {}})).amount.as_deref(), Some("20"));
    }
}
