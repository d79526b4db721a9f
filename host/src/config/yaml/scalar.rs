//! What a scalar means in YAML 1.1.

use super::tree::ValueKind;
use saphyr_parser::{ScalarStyle, Tag};

/// A scalar as it is written.
#[derive(Debug)]
pub(super) struct Scalar {
    /// The text without quotes and with escapes undone.
    pub(super) text: String,
    reading: ScalarReading,
    literal: bool,
}

/// How the text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScalarReading {
    /// Plain: the text decides.
    Plain,
    /// Quoted, a block, or tagged as a text.
    Text,
}

/// What a scalar means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::config) enum Resolved {
    Null,
    Bool(bool),
    Integer(i64),
    /// Only above the range of `Integer`.
    Unsigned(u64),
    Float(f64),
    Text,
}

impl Scalar {
    pub(super) fn new(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Self {
        let tag = tag.filter(|tag| tag.is_yaml_core_schema() || tag.handle == "!!").map(|tag| tag.suffix.as_str());
        let reading = match tag {
            Some("str" | "binary" | "timestamp") => ScalarReading::Text,
            Some("null" | "bool" | "int" | "float") => ScalarReading::Plain,
            _ if style == ScalarStyle::Plain => ScalarReading::Plain,
            _ => ScalarReading::Text,
        };
        Self { text: text.to_owned(), reading, literal: style == ScalarStyle::Literal }
    }

    pub(super) fn resolve(&self) -> Resolved {
        match self.reading {
            ScalarReading::Plain => resolve(&self.text),
            ScalarReading::Text => Resolved::Text,
        }
    }

    pub(super) fn kind(&self) -> ValueKind {
        match self.resolve() {
            Resolved::Null => ValueKind::Null,
            Resolved::Bool(_) => ValueKind::Bool,
            Resolved::Integer(_) | Resolved::Unsigned(_) | Resolved::Float(_) => ValueKind::Number,
            Resolved::Text => ValueKind::Text,
        }
    }

    pub(super) fn is_literal(&self) -> bool {
        self.literal
    }

    /// Whether this is the key that merges other mappings.
    pub(super) fn is_merge(&self) -> bool {
        self.reading == ScalarReading::Plain && self.text == "<<"
    }

    /// The scalar as a key of a JSON object; nothing for null, which cannot be one.
    pub(super) fn key(&self) -> Option<String> {
        match self.resolve() {
            Resolved::Null => None,
            Resolved::Bool(value) => Some(value.to_string()),
            Resolved::Integer(value) => Some(value.to_string()),
            Resolved::Unsigned(value) => Some(value.to_string()),
            Resolved::Float(value) => Some(value.to_string()),
            Resolved::Text => Some(self.text.clone()),
        }
    }
}

fn resolve(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => Resolved::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => Resolved::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Resolved::Float(f64::NEG_INFINITY),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => number(text),
        _ => Resolved::Text,
    }
}

/// Integers in four bases and decimal fractions; underscores may be anywhere except at the front. Base 60 is not known.
fn number(text: &str) -> Resolved {
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits)).unwrap_or(Resolved::Text)
}

fn integer(text: &str) -> Option<Resolved> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.as_bytes() {
        [b'0', b'x', ..] => (lower.get(2..)?, 16),
        [b'0', b'o', ..] => (lower.get(2..)?, 8),
        [b'0', b'b', ..] => (lower.get(2..)?, 2),
        [b'0', _, ..] => (lower.get(1..)?, 8),
        _ => (lower.as_str(), 10),
    };
    // The parser of the standard library would take a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, base).ok()?);
    let value = if negative { -value } else { value };
    i64::try_from(value).map(Resolved::Integer).or_else(|_| u64::try_from(value).map(Resolved::Unsigned)).ok()
}

fn float(text: &str) -> Option<Resolved> {
    // Only digits, one point and an exponent: the standard library also takes words such as `inf`.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    let value: f64 = text.parse().ok().filter(|_| plain)?;
    value.is_finite().then_some(Resolved::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wanted: Resolved) {
        assert_eq!(resolve(text), wanted, "{text:?}");
    }

    #[test]
    fn booleans_have_their_many_spellings() {
        for text in ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"] {
            check(text, Resolved::Bool(true));
        }
        for text in ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"] {
            check(text, Resolved::Bool(false));
        }
        for text in ["yEs", "tRUE", "oN", "t", "f"] {
            check(text, Resolved::Text);
        }
    }

    #[test]
    fn integers_have_four_bases() {
        for (text, value) in [
            ("0", 0),
            ("42", 42),
            ("-7", -7),
            ("+7", 7),
            ("1_000", 1000),
            ("0x1F", 31),
            ("-0x1f", -31),
            ("010", 8),
            ("0o10", 8),
            ("0b101", 5),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            check(text, Resolved::Integer(value));
        }
        check("18446744073709551615", Resolved::Unsigned(u64::MAX));
    }

    #[test]
    fn fractions_are_floats_and_the_rest_is_text() {
        for (text, value) in [("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-1.5E-1", -0.15), ("08", 8.0)]
        {
            check(text, Resolved::Float(value));
        }
        for text in
            ["1.2.3", "10:20", "1e400", "-", ".", "+", "--1", "0x", "0xzz", "1m", "2001-01-01", "_1", "infinity", "-+1"]
        {
            check(text, Resolved::Text);
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            check(text, Resolved::Null);
        }
    }
}
