//! The mistakes of a configuration, in words for people who write YAML.

use serde::de::{Expected, Unexpected};
use std::fmt;

use crate::{Problem, join, json::read::Fault};

/// One mistake and its place.
#[derive(Debug)]
pub(crate) struct Error(Box<Mistake>);

#[derive(Debug)]
struct Mistake {
    path: String,
    message: String,
    /// The text is not JSON. Its message names the line, and it is a mistake of the whole.
    is_syntax: bool,
}

impl Error {
    fn new(message: String) -> Self {
        Self(Box::new(Mistake { path: String::new(), message, is_syntax: false }))
    }

    /// The same mistake, seen from around the value with this key.
    #[cold]
    pub(super) fn below(mut self, key: &str) -> Self {
        if !self.0.is_syntax {
            let path = &self.0.path;
            let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
            self.0.path = join(&[key, dot, path]);
        }
        self
    }

    /// The same mistake, seen from around the item at this position.
    #[cold]
    pub(super) fn below_item(self, index: usize) -> Self {
        self.below(&join(&["[", &index.to_string(), "]"]))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { path: error.0.path, message: error.0.message }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self(Box::new(Mistake { path: String::new(), message: fault.message(), is_syntax: true }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// What is there instead. Serde's own words are not used: they bring the formatter of fractions.
fn given(unexpected: Unexpected<'_>) -> String {
    let word = match unexpected {
        Unexpected::Bool(true) => "true",
        Unexpected::Bool(false) => "false",
        Unexpected::Unsigned(number) => return join(&["number ", &number.to_string()]),
        Unexpected::Signed(number) => return join(&["number ", &number.to_string()]),
        Unexpected::Str(text) => return join(&["string \"", text, "\""]),
        Unexpected::Char(letter) => return join(&["string \"", letter.encode_utf8(&mut [0; 4]), "\""]),
        Unexpected::Float(_) => "a number with a fraction",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit => "null",
        Unexpected::Option => "an optional value",
        Unexpected::NewtypeStruct | Unexpected::NewtypeVariant => "a value in a type of its own",
        Unexpected::Seq | Unexpected::TupleVariant => "a list",
        Unexpected::Map | Unexpected::StructVariant => "a mapping",
        Unexpected::Enum => "a variant",
        Unexpected::UnitVariant => "a variant without content",
        Unexpected::Other(word) => word,
    };
    word.to_owned()
}

fn mismatch(expected: &dyn Expected, given: &str) -> Error {
    let mut message = String::from("expected ");
    // Into a string, writing does not fail.
    let _ = fmt::write(&mut message, format_args!("{expected}"));
    message.push_str(", got ");
    message.push_str(given);
    Error::new(message)
}

/// A name that is not among the known ones.
fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let mut message = join(&["unknown ", what, " `", name, "`, expected "]);
    for (index, known_name) in known.iter().enumerate() {
        let comma = match index {
            0 => "`",
            _ if index + 1 == known.len() => "` or `",
            _ => "`, `",
        };
        message.push_str(comma);
        message.push_str(known_name);
    }
    message.push_str(if known.is_empty() { "none" } else { "`" });
    Error::new(message)
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    #[cold]
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        mismatch(expected, &given(unexpected))
    }

    #[cold]
    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    #[cold]
    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        mismatch(expected, &join(&["a list of ", &length.to_string()]))
    }

    #[cold]
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("variant", variant, expected)
    }

    #[cold]
    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("field", field, expected)
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self::new(join(&["missing field `", field, "`"]))
    }

    #[cold]
    fn duplicate_field(field: &'static str) -> Self {
        Self::new(join(&["duplicate field `", field, "`"]))
    }
}
