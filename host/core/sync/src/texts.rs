//! Labels, annotations and values of a status: as they are held for thousands of nodes, and how either form of them is read.
//!
//! Owns [`TextMap`], in which a text that many nodes have is held once, and all entries of a map are one allocation: a map of the
//! standard library takes five times as much for the labels of a node. Owns [`Document`], which is one text until it is read.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::ops::Index;

use serde::{Serialize, Serializer};
use serde_json::Value;
use topoloom_core::any_text_type;

any_text_type! {
    /// A key or a value, which many maps may share.
    Text
}

impl Text {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

/// Labels or annotations, in whatever form.
pub trait Keyed: Debug {
    /// The value under this key.
    fn text(&self, key: &str) -> Option<&str>;

    /// All of them, in the order of the keys.
    fn texts(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_>;
}

impl Keyed for BTreeMap<String, String> {
    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }

    fn texts(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

impl Keyed for TextMap {
    fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(Text::as_str)
    }

    fn texts(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.iter().map(|(key, value)| (&**key, &**value)))
    }
}

/// Labels or annotations of an object that is held for long. A change costs as much as the whole map.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TextMap(Box<[(Text, Text)]>);

impl TextMap {
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(key))
    }

    /// The value under this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.0.get(self.place(key).ok()?).map(|(_, value)| value)
    }

    /// Whether there is a value under this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// All of them, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Sets a value. Returns the one that was there.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<Text>) -> Option<Text> {
        let (key, value) = (key.into(), value.into());
        match self.place(&key) {
            Ok(place) => self.0.get_mut(place).map(|(_, known)| std::mem::replace(known, value)),
            Err(place) => {
                let mut entries = std::mem::take(&mut self.0).into_vec();
                entries.insert(place, (key, value));
                self.0 = entries.into_boxed_slice();
                None
            }
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &str) -> Option<Text> {
        let place = self.place(key).ok()?;
        let mut entries = std::mem::take(&mut self.0).into_vec();
        let (_, value) = entries.remove(place);
        self.0 = entries.into_boxed_slice();
        Some(value)
    }

    /// Passes each text on, to be held in common with others: `share` returns one that is equal.
    pub fn share(&mut self, mut share: impl FnMut(&Text) -> Text) {
        for (key, value) in &mut self.0 {
            (*key, *value) = (share(key), share(value));
        }
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for TextMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(texts: I) -> Self {
        let mut entries: Vec<(Text, Text)> = texts.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        // Of two under one key the last one counts: it is the first of them now.
        entries.reverse();
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        entries.dedup_by(|(later, _), (kept, _)| later == kept);
        Self(entries.into_boxed_slice())
    }
}

impl<K: Into<Text>, V: Into<Text>> Extend<(K, V)> for TextMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, texts: I) {
        let known = std::mem::take(&mut self.0).into_vec();
        *self = known.into_iter().chain(texts.into_iter().map(|(key, value)| (key.into(), value.into()))).collect();
    }
}

impl From<BTreeMap<String, String>> for TextMap {
    fn from(texts: BTreeMap<String, String>) -> Self {
        texts.into_iter().collect()
    }
}

impl<K: Into<Text>, V: Into<Text>, const N: usize> From<[(K, V); N]> for TextMap {
    fn from(texts: [(K, V); N]) -> Self {
        texts.into_iter().collect()
    }
}

impl Index<&str> for TextMap {
    type Output = Text;

    #[expect(clippy::panic, reason = "an index that is not there panics, as in a map of the standard library")]
    fn index(&self, key: &str) -> &Text {
        self.get(key).unwrap_or_else(|| panic!("no text under the key {key:?}"))
    }
}

impl Debug for TextMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for TextMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.texts())
    }
}

/// A value that is held for long and read seldom.
#[derive(Clone)]
pub struct Document(Text);

impl Document {
    /// The value.
    #[must_use]
    pub fn value(&self) -> Value {
        // It was written from a value, and what cannot be read is none.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Passes its text on, to be held in common with others: `share` returns one that is equal.
    pub fn share(&mut self, mut share: impl FnMut(&Text) -> Text) {
        self.0 = share(&self.0);
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl Default for Document {
    fn default() -> Self {
        Value::Null.into()
    }
}

/// The order of the fields does not count.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.value() == other.value()
    }
}

impl Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// A change of a map: a value under a key, or none.
    fn changes() -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
        prop::collection::vec((0..6_u8, prop::option::of(0..3_u8)), 0..20)
    }

    proptest! {
        #[test]
        fn it_is_at_any_time_as_a_map_of_the_standard_library(first in changes(), then in changes()) {
            let pairs = first.iter().map(|(key, value)| (format!("k{key}"), format!("v{value:?}")));
            let mut wanted: BTreeMap<String, String> = pairs.clone().collect();
            let mut map: TextMap = pairs.collect();
            for (key, value) in then {
                let key = format!("k{key}");
                let (was, there) = match value {
                    Some(value) => (map.insert(&*key, format!("v{value}")), wanted.insert(key.clone(), format!("v{value}"))),
                    None => (map.remove(&key), wanted.remove(&key)),
                };
                prop_assert_eq!(was.as_deref(), there.as_deref());
                prop_assert_eq!(map.contains_key(&key), wanted.contains_key(&key));
                prop_assert_eq!(map.get(&key).map(|value| &**value), wanted.get(&key).map(String::as_str));
            }
            prop_assert!(map.texts().eq(wanted.texts()));
            let mut extended = TextMap::default();
            extended.extend(wanted.clone());
            prop_assert_eq!(&extended, &map);
            prop_assert_eq!(serde_json::to_value(&map).unwrap(), serde_json::to_value(&wanted).unwrap());
            prop_assert_eq!(format!("{map:?}"), format!("{wanted:?}"));
        }
    }

    #[test]
    fn a_document_is_the_value_that_it_was_made_of_and_equal_to_that_in_another_order() {
        let value = serde_json::json!([{"type": "InternalIP", "address": "10.0.0.1"}, null, 1.5]);
        assert_eq!(Document::from(value.clone()).value(), value);
        assert_eq!(Document::default().value(), Value::Null);
        let [one, other, third] =
            [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"a":1}"#].map(|text| Document(text.into()));
        assert!(one == other && one != third);
    }

    #[test]
    fn equal_texts_of_two_maps_are_held_once_where_they_are_shared() {
        let mut known: Vec<Text> = Vec::new();
        let mut share = |text: &Text| match known.iter().find(|known| *known == text) {
            Some(known) => known.clone(),
            None => {
                known.push(text.clone());
                text.clone()
            }
        };
        let mut maps = [TextMap::from([("zone", "a"), ("rack", "r1")]), TextMap::from([("zone", "a"), ("rack", "r2")])];
        maps.iter_mut().for_each(|map| map.share(&mut share));
        let held = |map: &TextMap, key: &str| map.get(key).map(|text| Arc::<str>::from(text).as_ptr());
        let [one, other] = &maps;
        assert_eq!(held(one, "zone"), held(other, "zone"));
        assert_ne!(held(one, "rack"), held(other, "rack"));
        assert!(one["rack"] == "r1" && other["rack"] == "r2");
    }
}
