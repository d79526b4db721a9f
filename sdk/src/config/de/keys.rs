//! Keys of mappings: strings in JSON, but a type may read whole numbers, truth values and variants out of them.

use serde::Deserializer;
use serde::de::Visitor;
use serde::forward_to_deserialize_any;
use std::borrow::Cow;

use super::nested::Variant;
use super::{Error, Whole, instead, visit_whole};
use crate::json::read::Token;

/// A key.
pub(super) struct Key<'a, 'de>(pub(super) &'a Cow<'de, str>);

impl Key<'_, '_> {
    /// The number, where the key is written as JSON writes numbers.
    fn whole(&self) -> Option<Whole> {
        let digits = self.0.strip_prefix('-').unwrap_or(self.0);
        let is_number = digits == "0" || !digits.is_empty() && !digits.starts_with('0');
        if is_number { Whole::of(self.0) } else { None }
    }

    fn integer<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        match self.whole() {
            Some(number) => visit_whole(number, visitor),
            None => Err(instead(&Token::Text(Cow::Borrowed(self.0)), &visitor)),
        }
    }
}

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_str(text),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.as_ref() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            text => Err(instead(&Token::Text(Cow::Borrowed(text)), &visitor)),
        }
    }

    whole_numbers! {}

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(Variant { name: self.0.clone(), content: None })
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
