//! A field that holds one of a few words.
//!
//! Owns the step from the text of such a field to the word of our own, and the sentence about a text that is none. The
//! definition lists the words, so another text comes from a later version; then the caller decides, and never this
//! room, what is safe to assume.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// How many characters of a text an error repeats.
const SHOWN: usize = 80;

/// An enum of which each value is one word. Its default is what an absent field means.
pub trait Words: Copy + Default + 'static {
    /// All of them, the default first.
    const ALL: &'static [Self];

    /// The word on the wire.
    fn as_str(self) -> &'static str;
}

/// Declares such an enum. The first word is the default.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $(#[$first_meta:meta])* $first:ident = $first_text:literal,
        $($(#[$word_meta:meta])* $word:ident = $text:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        $vis enum $name {
            $(#[$first_meta])*
            #[default]
            $first,
            $($(#[$word_meta])* $word,)*
        }

        impl $crate::words::Words for $name {
            const ALL: &'static [Self] = &[Self::$first, $(Self::$word,)*];

            fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_text,
                    $(Self::$word => $text,)*
                }
            }
        }
    };
}
pub(crate) use words;

/// The texts of all words, for a definition.
pub(crate) fn texts<T: Words>() -> Vec<&'static str> {
    T::ALL.iter().map(|word| word.as_str()).collect()
}

/// A field that holds one of a few words, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Word<T> {
    text: Option<String>,
    #[serde(skip)]
    of: PhantomData<T>,
}

impl<T: Words> Word<T> {
    /// The field with this word.
    #[must_use]
    pub fn of(word: T) -> Self {
        Self { text: Some(word.as_str().to_owned()), of: PhantomData }
    }

    /// The word; the default where the field is absent.
    ///
    /// # Errors
    /// The text is none of the words.
    pub fn read(&self) -> Result<T, UnknownWord> {
        let Some(text) = &self.text else { return Ok(T::default()) };
        let known = T::ALL.iter().copied().find(|word| word.as_str() == text);
        known.ok_or_else(|| UnknownWord { text: text.chars().take(SHOWN).collect(), known: texts::<T>() })
    }
}

impl<T> Word<T> {
    pub(crate) fn is_absent(&self) -> bool {
        self.text.is_none()
    }
}

/// A text where one of a few words has to be. Prints as the end of a sentence that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    text: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be ")?;
        for (at, known) in self.known.iter().enumerate() {
            write!(f, "{}{known:?}", if at == 0 { "" } else { " or " })?;
        }
        write!(f, ", got {:?}", self.text)
    }
}

impl std::error::Error for UnknownWord {}

#[cfg(test)]
mod tests {
    use super::*;

    words! {
        /// A choice.
        enum Choice {
            /// The default.
            Off = "off",
            /// The other one.
            Mirror = "mirror",
        }
    }

    fn word(json: &str) -> Word<Choice> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_word_is_read_and_an_absent_one_is_the_default() {
        assert_eq!(word("\"mirror\"").read(), Ok(Choice::Mirror));
        assert_eq!(word("null").read(), Ok(Choice::Off));
        assert_eq!(Word::of(Choice::Mirror), word("\"mirror\""));
        assert_eq!(serde_json::to_string(&Word::of(Choice::Mirror)).unwrap(), "\"mirror\"");
    }

    #[test]
    fn a_word_of_a_later_version_is_never_the_default() {
        let error = word("\"Off\"").read().unwrap_err();
        assert_eq!(error.to_string(), "must be \"off\" or \"mirror\", got \"Off\"");
        let long = word(&format!("\"{}\"", "x".repeat(5000))).read().unwrap_err().to_string();
        assert!(long.len() < 200, "{long}");
    }
}
