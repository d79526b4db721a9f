//! A part of an object as the text that it was read from.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON without spaces, with its fields in the order of the object that it was read from. A tree of it is many times the size, and
/// is made where something is decided by it.
///
/// Two are equal that are written alike: another order of fields makes two of JSON that means the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// What this says. What cannot be written, which has no known cause, says nothing.
    #[must_use]
    pub fn written(value: &impl Serialize) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Self::default(), Self)
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// What it says. It was read as JSON once; where it cannot be read again, which has no known cause, it says nothing.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }
}

impl Default for Json {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

/// Reads it out of an object in any form: with [`Json`]'s own `Deserialize` that has to be a text.
///
/// # Errors
/// Those of the object's form.
pub fn read<'de, D: Deserializer<'de>>(object: D) -> Result<Json, D::Error> {
    let mut text = Vec::new();
    let written = serde_transcode::Transcoder::new(object).serialize(&mut serde_json::Serializer::new(&mut text));
    let text = written
        .map_err(serde::de::Error::custom)
        .and_then(|()| String::from_utf8(text).map_err(serde::de::Error::custom))?;
    RawValue::from_string(text).map(Json).map_err(serde::de::Error::custom)
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Held {
        status: Json,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Object {
        #[serde(deserialize_with = "super::read")]
        status: Json,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type", content = "object")]
    enum Change {
        Added(Object),
    }

    #[test]
    fn what_is_held_stays_as_it_was_written() {
        let text = r#"{"status":{"b":[1.50,"\u003c"],"a":null}}"#;
        let read: Held = serde_json::from_str(text).unwrap();
        assert_eq!(read.status.text(), r#"{"b":[1.50,"\u003c"],"a":null}"#);
        assert_eq!(read.status.value(), json!({"a": null, "b": [1.5, "<"]}));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(Json::written(&json!({"a": 1})).text(), r#"{"a":1}"#);
    }

    #[test]
    fn what_is_read_of_an_object_is_the_same_whatever_form_the_object_has() {
        let text = r#"{"b": [1, -2, 1.5, true, "\u003c\"\n"], "a": null, "c": {}}"#;
        let written = r#"{"b":[1,-2,1.5,true,"<\"\n"],"a":null,"c":{}}"#;
        let object: Object = serde_json::from_str(&format!("{{\"status\": {text}}}")).unwrap();
        assert_eq!(object.status.text(), written);
        // As kube reads a watch, in either order.
        for order in [r#"{"type": "Added", "object": {"status": _}}"#, r#"{"object": {"status": _}, "type": "Added"}"#]
        {
            let Change::Added(object) = serde_json::from_str(&order.replace('_', text)).unwrap();
            assert_eq!(object.status.text(), written);
        }
        let tree: Value = serde_json::from_str(text).unwrap();
        let object: Object = serde_json::from_value(json!({"status": tree})).unwrap();
        assert_eq!(object.status.value(), tree);
    }

    #[test]
    fn what_is_not_there_says_nothing() {
        let read = |text: &str| serde_json::from_str::<Object>(text).unwrap().status;
        assert_eq!((read("{}"), read(r#"{"status": null}"#)), (Json::default(), Json::default()));
        assert!(read("{}").is_null() && read("{}").value().is_null());
        assert!(serde_json::from_str::<Object>(r#"{"status": {"a"}}"#).is_err());
        assert!(serde_json::from_str::<Held>(r#"{"status": {"a"}}"#).is_err());
    }
}
