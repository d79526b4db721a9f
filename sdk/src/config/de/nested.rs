//! Lists, mappings and variants: where the path of a mistake grows.

use serde::de::{DeserializeSeed, EnumAccess, Error as _, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

use super::{Error, keys::Key};
use crate::join;
use crate::json::read::Reader;

/// The items of a list.
pub(super) struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    count: usize,
    is_open: bool,
}

impl<'a, 'de> Items<'a, 'de> {
    pub(super) fn of(reader: &'a mut Reader<'de>) -> Self {
        Self { reader, count: 0, is_open: true }
    }

    fn more(&mut self) -> Result<bool, Error> {
        self.is_open = self.is_open && self.reader.more(b']', self.count == 0)?;
        Ok(self.is_open)
    }

    /// Checks that the type read all of them.
    pub(super) fn end(mut self) -> Result<(), Error> {
        if self.more()? {
            return Err(Error::custom(join(&["expected a list of ", &self.count.to_string(), ", got a longer one"])));
        }
        Ok(())
    }
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        if !self.more()? {
            return Ok(None);
        }
        let index = self.count;
        self.count += 1;
        seed.deserialize(&mut *self.reader).map(Some).map_err(|error| error.below_item(index))
    }
}

/// The entries of a mapping.
pub(super) struct Entries<'a, 'de> {
    reader: &'a mut Reader<'de>,
    key: Cow<'de, str>,
    is_first: bool,
    is_open: bool,
}

impl<'a, 'de> Entries<'a, 'de> {
    pub(super) fn of(reader: &'a mut Reader<'de>) -> Self {
        Self { reader, key: Cow::Borrowed(""), is_first: true, is_open: true }
    }

    fn more(&mut self) -> Result<bool, Error> {
        self.is_open = self.is_open && self.reader.more(b'}', self.is_first)?;
        self.is_first = false;
        Ok(self.is_open)
    }

    /// Checks that the type read all of them.
    pub(super) fn end(mut self) -> Result<(), Error> {
        if self.more()? { Err(Error::custom("expected fewer keys")) } else { Ok(()) }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !self.more()? {
            return Ok(None);
        }
        self.key = self.reader.key()?;
        seed.deserialize(Key(&self.key)).map(Some).map_err(|error| error.below(&self.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader).map_err(|error| error.below(&self.key))
    }
}

/// A variant of an enum: its name, and its content where it is a mapping from the name to the content.
pub(super) struct Variant<'a, 'de> {
    pub(super) name: Cow<'de, str>,
    pub(super) content: Option<&'a mut Reader<'de>>,
}

impl<'a, 'de> Variant<'a, 'de> {
    fn content<T>(
        self,
        expected: &str,
        read: impl FnOnce(&'a mut Reader<'de>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.content {
            Some(reader) => read(reader).map_err(|error| error.below(&self.name)),
            None => Err(Error::invalid_type(Unexpected::UnitVariant, &expected)),
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(Key(&self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if self.content.is_none() { Ok(()) } else { self.content("null", <()>::deserialize) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.content("a variant with a value", |reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.content("a variant with a list", |reader| reader.deserialize_seq(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.content("a variant with a mapping", |reader| reader.deserialize_map(visitor))
    }
}
