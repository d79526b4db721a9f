//! Labels, annotations and values of a status: as they are held for thousands of nodes, and how either form of them is read.
//!
//! Owns [`TextMap`], in which a text that many nodes have is held once, and so is a list of keys that many nodes have. A map of the
//! standard library takes more than five times as much for the labels of a node. Owns [`Document`], which is one text until it is read.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::ops::Index;
use std::sync::Arc;

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
pub struct TextMap {
    /// In order, each once. Many maps may share them.
    keys: Arc<[Text]>,
    /// One for each key, in the order of the keys.
    values: Box<[Text]>,
}

impl TextMap {
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.keys.binary_search_by(|known| (**known).cmp(key))
    }

    /// The value under this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Text> {
        self.values.get(self.place(key).ok()?)
    }

    /// Whether there is a value under this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// All of them, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Text)> {
        self.keys.iter().zip(self.values.iter())
    }

    /// Sets a value. Returns the one that was there.
    pub fn insert(&mut self, key: impl Into<Text>, value: impl Into<Text>) -> Option<Text> {
        let (key, value) = (key.into(), value.into());
        match self.place(&key) {
            Ok(place) => self.values.get_mut(place).map(|known| std::mem::replace(known, value)),
            Err(place) => {
                self.change(|keys, values| {
                    keys.insert(place, key);
                    values.insert(place, value);
                });
                None
            }
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &str) -> Option<Text> {
        let place = self.place(key).ok()?;
        Some(self.change(|keys, values| {
            keys.remove(place);
            values.remove(place)
        }))
    }

    /// The keys become a list of this map alone.
    fn change<R>(&mut self, change: impl FnOnce(&mut Vec<Text>, &mut Vec<Text>) -> R) -> R {
        let (mut keys, mut values) = (self.keys.to_vec(), std::mem::take(&mut self.values).into_vec());
        let changed = change(&mut keys, &mut values);
        *self = Self { keys: keys.into(), values: values.into_boxed_slice() };
        changed
    }

    /// Passes each text on, to be held in common with others: `share` returns one that is equal.
    pub fn share(&mut self, mut share: impl FnMut(&Text) -> Text) {
        for text in Arc::make_mut(&mut self.keys).iter_mut().chain(self.values.iter_mut()) {
            *text = share(text);
        }
    }

    /// Passes the list of its keys on, to be held in common with other maps: `share` returns one that is equal. Another one is not
    /// taken, since the values belong to the keys. What is [shared](Self::share) later is in a list of this map alone again.
    pub fn share_keys(&mut self, share: impl FnOnce(&Arc<[Text]>) -> Arc<[Text]>) {
        let shared = share(&self.keys);
        if shared == self.keys {
            self.keys = shared;
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
        let (keys, values): (Vec<Text>, Vec<Text>) = entries.into_iter().unzip();
        Self { keys: keys.into(), values: values.into_boxed_slice() }
    }
}

impl<K: Into<Text>, V: Into<Text>> Extend<(K, V)> for TextMap {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, texts: I) {
        let Self { keys, values } = std::mem::take(self);
        let known = keys.iter().cloned().zip(values.into_vec());
        *self = known.chain(texts.into_iter().map(|(key, value)| (key.into(), value.into()))).collect();
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
            let (before, wanted_before) = (map.clone(), wanted.clone());
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
            prop_assert!(before.texts().eq(wanted_before.texts()), "a map that shares its keys does not change with it");
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

    #[test]
    fn equal_keys_of_two_maps_are_one_list_until_one_of_them_changes() {
        let one = TextMap::from([("zone", "a"), ("rack", "r1")]);
        let mut other = TextMap::from([("rack", "r2"), ("zone", "a")]);
        assert!(!Arc::ptr_eq(&one.keys, &other.keys));
        other.share_keys(|_| Arc::clone(&one.keys));
        assert!(Arc::ptr_eq(&one.keys, &other.keys));
        other.insert("rack", "r3");
        assert!(Arc::ptr_eq(&one.keys, &other.keys), "only a value has changed");
        assert_eq!(other, TextMap::from([("rack", "r3"), ("zone", "a")]));
        other.insert("row", "1");
        assert_eq!(other, TextMap::from([("rack", "r3"), ("row", "1"), ("zone", "a")]));
        assert_eq!(one, TextMap::from([("rack", "r1"), ("zone", "a")]));
    }

    #[test]
    fn keys_that_are_not_equal_are_not_taken() {
        let mut map = TextMap::from([("zone", "a"), ("rack", "r1")]);
        map.share_keys(|_| Arc::default());
        assert_eq!(map, TextMap::from([("zone", "a"), ("rack", "r1")]));
    }
}
