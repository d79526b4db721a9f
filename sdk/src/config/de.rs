//! Serde over [`Reader`]: small, and with the path of each mistake.
//!
//! An error collects its path on the way out, so a text without mistakes pays nothing for it. Words for numbers are made
//! without the formatter of fractions, which alone would be a quarter of a small plugin.

/// The methods of a deserializer for whole numbers of up to 64 bits, all of which its `integer` reads: a visitor knows its range.
macro_rules! whole_numbers {
    ($($method:ident)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.integer(visitor)
        }
    )+};
    () => {
        whole_numbers! {
            deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        }
    };
}

mod error;
mod keys;
mod nested;

use serde::de::{DeserializeOwned, Deserializer, Error as _, Expected, Unexpected, Visitor};
use std::borrow::Cow;

pub(super) use error::Error;
use nested::{Entries, Items, Variant};

use crate::join;
use crate::json::read::{Reader, Token};

/// Reads a whole text.
pub(super) fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let mut reader = Reader::new(text);
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// A whole number of 64 bits.
enum Whole {
    Unsigned(u64),
    /// Below zero.
    Signed(i64),
}

impl Whole {
    /// `None` for a fraction, an exponent, `-0`, and everything that is too large.
    fn of(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-');
        let amount = digits.unwrap_or(text).bytes().try_fold(0_u64, |amount, byte| {
            let digit = char::from(byte).to_digit(10)?;
            amount.checked_mul(10)?.checked_add(u64::from(digit))
        })?;
        match digits {
            None => Some(Self::Unsigned(amount)),
            Some(_) => 0_i64.checked_sub_unsigned(amount).filter(|&number| number != 0).map(Self::Signed),
        }
    }
}

/// A mistake in place of a value.
#[cold]
fn instead(token: &Token<'_>, expected: &dyn Expected) -> Error {
    let number;
    let unexpected = match token {
        Token::Null => Unexpected::Unit,
        Token::Bool(value) => Unexpected::Bool(*value),
        Token::Number(text) => {
            number = join(&["number ", text]);
            Unexpected::Other(&number)
        }
        Token::Text(text) => Unexpected::Str(text),
        Token::List => Unexpected::Seq,
        Token::Mapping => Unexpected::Map,
    };
    Error::invalid_type(unexpected, expected)
}

/// Gives a string to a visitor.
fn visit_text<'de, V: Visitor<'de>>(text: Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_string(text),
    }
}

/// Gives a whole number to a visitor.
fn visit_whole<'de, V: Visitor<'de>>(number: Whole, visitor: V) -> Result<V::Value, Error> {
    match number {
        Whole::Unsigned(number) => visitor.visit_u64(number),
        Whole::Signed(number) => visitor.visit_i64(number),
    }
}

/// A fraction. One that is too large would be read as infinite.
fn fraction(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

impl<'de> Reader<'de> {
    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match &token {
            Token::Number(text) if let Some(number) = Whole::of(text) => visit_whole(number, visitor),
            _ => Err(instead(&token, &visitor)),
        }
    }

    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Text(text) => visit_text(text, visitor),
            token => Err(instead(&token, &visitor)),
        }
    }

    /// Reads the items of a list whose bracket is read.
    fn items<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let mut items = Items::of(self);
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    /// Reads the entries of a mapping whose brace is read.
    fn entries<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let mut entries = Entries::of(self);
        let value = visitor.visit_map(&mut entries)?;
        entries.end()?;
        Ok(value)
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match token {
            Token::Null => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Number(text) => match (Whole::of(text), fraction(text)) {
                (Some(number), _) => visit_whole(number, visitor),
                (None, Some(number)) => visitor.visit_f64(number),
                (None, None) => Err(instead(&token, &visitor)),
            },
            Token::Text(text) => visit_text(text, visitor),
            Token::List => self.items(visitor),
            Token::Mapping => self.entries(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Bool(value) => visitor.visit_bool(value),
            token => Err(instead(&token, &visitor)),
        }
    }

    whole_numbers! {}

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match &token {
            Token::Number(text) if let Ok(number) = text.parse() => visitor.visit_i128(number),
            _ => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match &token {
            Token::Number(text) if let Ok(number) = text.parse() => visitor.visit_u128(number),
            _ => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match &token {
            Token::Number(text) if let Some(number) = text.parse().ok().filter(|number: &f32| number.is_finite()) => {
                visitor.visit_f32(number)
            }
            _ => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let token = self.token()?;
        match &token {
            Token::Number(text) if let Some(number) = fraction(text) => visitor.visit_f64(number),
            _ => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_bytes(text.as_bytes()),
            Token::Text(Cow::Owned(text)) => visitor.visit_byte_buf(text.into_bytes()),
            Token::List => self.items(visitor),
            token => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'n') {
            return visitor.visit_some(self);
        }
        self.token()?;
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Null => visitor.visit_unit(),
            token => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::List => self.items(visitor),
            token => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Mapping => self.entries(visitor),
            token => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Text(name) => visitor.visit_enum(Variant { name, content: None }),
            Token::Mapping => {
                if !self.more(b'}', true)? {
                    return Err(Error::invalid_value(Unexpected::Other("an empty mapping"), &visitor));
                }
                let name = self.key()?;
                let value = visitor.visit_enum(Variant { name, content: Some(self) })?;
                if self.more(b'}', false)? {
                    return Err(Error::custom("expected one variant, got a mapping of several"));
                }
                Ok(value)
            }
            token => Err(instead(&token, &visitor)),
        }
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.skip()?;
        visitor.visit_unit()
    }
}

#[cfg(test)]
mod tests;
