//! Values that people write: in flags, in files, on the admin listener.
//!
//! Owns the one error for all of them. It names the field, the value and what is allowed, so that a typo is corrected
//! without reading the source.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value:?} is not allowed; expected {expected}")]
pub struct BadValue {
    /// What the value was meant for.
    pub field: String,
    /// The value as it came, at most 80 characters of it.
    pub value: String,
    /// What is allowed.
    pub expected: String,
}

impl BadValue {
    pub(crate) fn new(field: impl Into<String>, value: &str, expected: impl Into<String>) -> Self {
        Self { field: field.into(), value: value.chars().take(80).collect(), expected: expected.into() }
    }
}

/// Reads a number and holds it against its range.
pub(crate) fn number(field: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, BadValue> {
    let bad = || BadValue::new(field, text, format!("a whole number from {} to {}", range.start(), range.end()));
    text.trim().parse().ok().filter(|number| range.contains(number)).ok_or_else(bad)
}

/// Longest pause of a fault. A client that waits longer than an hour has no deadline at all.
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads `250ms`, `5s` or `2m`.
pub(crate) fn duration(field: &str, text: &str) -> Result<Duration, BadValue> {
    let bad = || BadValue::new(field, text, "a time from 0ms to 60m, such as 250ms, 5s or 2m");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let amount: u64 = digits.parse().map_err(|_| bad())?;
    let length = match text.strip_prefix(digits) {
        Some("ms") => Some(Duration::from_millis(amount)),
        Some("s") => Some(Duration::from_secs(amount)),
        Some("m") => amount.checked_mul(60).map(Duration::from_secs),
        _ => None,
    };
    length.filter(|length| *length <= LONGEST).ok_or_else(bad)
}

/// Writes what [`duration`] reads.
pub(crate) fn duration_text(length: Duration) -> String {
    match (length.as_millis(), length.subsec_millis()) {
        (_, 0) => format!("{}s", length.as_secs()),
        (milliseconds, _) => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_names_field_value_and_range() {
        let error = number("units", "0", 1..=9).unwrap_err();
        assert_eq!(error.to_string(), "units: \"0\" is not allowed; expected a whole number from 1 to 9");
        assert_eq!(number("units", " 9 ", 1..=9), Ok(9));
    }

    #[test]
    fn a_time_is_read_as_it_is_written() {
        for text in ["250ms", "5s", "3600s"] {
            assert_eq!(duration_text(duration("pause", text).unwrap()), text);
        }
        assert_eq!(duration("pause", "2m"), Ok(Duration::from_secs(120)));
        for text in ["", "5", "s", "-1s", "61m", "5 s", "18446744073709551615m"] {
            assert!(duration("pause", text).is_err(), "{text}");
        }
    }
}
