//! The value of a lock annotation, in every form that was ever written (`node-lock-and-bind.md` A2).
//!
//! ```text
//! value     = owned / ownerless
//! owned     = timestamp "," namespace "," pod-name        ; exactly two commas
//! ownerless = timestamp                                   ; no comma, or both names empty
//! timestamp = RFC 3339 with zone; fractions of a second are allowed
//! ```
//!
//! What is written here has nine digits of a second's fraction, always: they are the token of the attempt, so that two
//! values of one pod are never equal. Readers in Go take them.

use std::fmt;

use jiff::Timestamp;

use crate::rules::{LABEL_MAX, is_object_name};

/// How much of a value is repeated in a message.
const SHOWN: usize = 80;

/// A value that was understood.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ParsedValue {
    /// When the writer says that it was written, by its own clock.
    pub time: Timestamp,
    /// The namespace of the pod; empty in a value without a pod.
    pub namespace: Box<str>,
    /// The pod; empty in a value without a pod.
    pub name: Box<str>,
}

/// Why a value is not understood. Such a value still locks the node: it counts as one without a pod, and its age as the
/// time since it was first seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Hash)]
pub enum ValueError {
    /// A comma too few or too many.
    #[error("expected 3 parts (time, namespace, pod) or 1 (time), and found {found} in {}", Shown(value))]
    Parts {
        /// How many.
        found: usize,
        /// The value.
        value: Box<str>,
    },
    /// The first part is no time.
    #[error("{} is not an RFC 3339 time with a zone, such as 2026-08-01T06:10:00Z", Shown(.0))]
    Time(Box<str>),
    /// No pod can have such a name, or no namespace.
    #[error("{} cannot name a pod: the namespace must be a DNS label and the name a DNS subdomain", Shown(.0))]
    Owner(Box<str>),
}

/// The beginning of a text that may be long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(SHOWN).map(|(end, _)| end);
        match end.and_then(|end| self.0.get(..end)) {
            Some(beginning) => write!(f, "{beginning:?}… ({} bytes)", self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

impl ParsedValue {
    /// A value of this pod. The nanoseconds of the time are the token of the attempt.
    #[must_use]
    pub fn of(time: Timestamp, namespace: &str, name: &str) -> Self {
        Self { time, namespace: namespace.into(), name: name.into() }
    }

    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let mut parts = text.splitn(4, ',');
        let (time, namespace, name) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(time), None, ..) => (time, "", ""),
            (Some(time), Some(namespace), Some(name), None) => (time, namespace, name),
            _ => return Err(ValueError::Parts { found: text.split(',').count(), value: text.into() }),
        };
        let time = rfc3339(time).ok_or_else(|| ValueError::Time(time.into()))?;
        let value = Self { time, namespace: namespace.into(), name: name.into() };
        // It would go into the path of a request, too.
        match value.owner() {
            Some((namespace, name)) if !could_be(namespace, name) => Err(ValueError::Owner(text.into())),
            _ => Ok(value),
        }
    }

    /// Namespace and name of the pod that it names; a value with only one of them names none.
    #[must_use]
    pub fn owner(&self) -> Option<(&str, &str)> {
        let named = !self.namespace.is_empty() && !self.name.is_empty();
        named.then_some((&self.namespace, &self.name))
    }
}

impl fmt::Display for ParsedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9},{},{}", self.time, self.namespace, self.name)
    }
}

/// Whether there could be such a pod.
#[must_use]
pub(super) fn could_be(namespace: &str, name: &str) -> bool {
    let is_label = is_object_name(namespace).is_ok() && namespace.len() <= LABEL_MAX && !namespace.contains('.');
    is_label && is_object_name(name).is_ok()
}

/// The bare time, for a key whose readers know no pod.
#[must_use]
pub fn bare(time: Timestamp) -> String {
    format!("{time:.9}")
}

/// A time as Go's `time.RFC3339` reads it: a capital `T` and `Z`, a zone, no leap second. Digits behind the ninth of a
/// fraction do not count.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let like = |at: usize, pattern: &[u8]| {
        let found = bytes.get(at..at + pattern.len())?;
        let fits = |(byte, wanted): (&u8, &u8)| if *wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
        found.iter().zip(pattern).all(fits).then_some(())
    };
    like(0, b"0000-00-00T00:00:00")?;
    if bytes.get(17) == Some(&b'6') {
        return None;
    }
    let mut zone = 19;
    let mut digits = 0..0;
    if bytes.get(zone) == Some(&b'.') {
        let count = bytes.get(zone + 1..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits = zone + 1..zone + 1 + count.min(9);
        zone += 1 + count;
        if count == 0 {
            return None;
        }
    }
    match bytes.get(zone..)? {
        b"Z" => {}
        [_, _, _, _, _, _] => like(zone, b"+00:00").or_else(|| like(zone, b"-00:00"))?,
        _ => return None,
    }
    let (seconds, fraction, zone) = (text.get(..19)?, text.get(digits)?, text.get(zone..)?);
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{seconds}{dot}{fraction}{zone}").parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// The table and the examples of A2.
    #[test]
    fn a2_every_form_that_was_ever_written() {
        let owned = ParsedValue::parse("2024-01-15T10:30:00Z,default,my-gpu-pod").unwrap();
        assert_eq!(owned, ParsedValue::of(time("2024-01-15T10:30:00Z"), "default", "my-gpu-pod"));
        assert_eq!(owned.owner(), Some(("default", "my-gpu-pod")));
        let ownerless = ["2026-07-03T15:35:10+08:00", "2026-07-03T07:35:10Z,,", "2026-07-03T07:35:10Z,ns,"];
        for text in ownerless {
            let value = ParsedValue::parse(text).unwrap();
            assert_eq!((value.time, value.owner()), (time("2026-07-03T07:35:10Z"), None), "{text}");
        }
        let fraction = ParsedValue::parse("2026-01-02T03:04:05.678901234Z,ns,name").unwrap();
        assert_eq!(fraction.time, time("2026-01-02T03:04:05.678901234Z"));
        let longer = ParsedValue::parse("2026-01-02T03:04:05.678901234999-00:00,ns,name").unwrap();
        assert_eq!(longer, fraction);
    }

    #[test]
    fn a2_what_is_not_understood_says_why() {
        let why = |text: &str| ParsedValue::parse(text).unwrap_err().to_string();
        assert_eq!(
            why("2024-01-15T10:30:00Z,default"),
            "expected 3 parts (time, namespace, pod) or 1 (time), and found 2 in \"2024-01-15T10:30:00Z,default\""
        );
        assert!(why("2024-01-15T10:30:00Z,a,b,c,d").contains("found 5"));
        for text in ["lock", "", "T,a,b", " 2024-01-15T10:30:00Z"] {
            assert!(why(text).contains("is not an RFC 3339 time"), "{text}");
        }
        let refused = [
            "2024-01-15T10:30:00",        // no zone
            "2024-01-15 10:30:00Z",       // a blank
            "2024-01-15t10:30:00Z",       // small letters
            "2024-01-15T10:30:00z",       //
            "2024-01-15T10:30:60Z",       // a leap second
            "2024-13-15T10:30:00Z",       // no such month
            "2024-02-30T10:30:00Z",       // no such day
            "2024-01-15T24:30:00Z",       // no such hour
            "2024-01-15T10:30:00.Z",      // a dot without digits
            "2024-01-15T10:30:00+0800",   // a zone without colon
            "2024-01-15T10:30:00+08:00Z", // two zones
            "+2024-01-15T10:30:00Z",      // a sign
            "2024-01-15T10:30:00Z\u{0}",  // a byte behind it
            "２０２４-01-15T10:30:00Z",   // digits of another script
        ];
        for text in refused {
            assert!(ParsedValue::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a2_a_value_that_no_pod_can_have_written_is_not_understood() {
        let named = |namespace: &str, name: &str| format!("2024-01-15T10:30:00Z,{namespace},{name}");
        let long = "a".repeat(70_000);
        for (namespace, name) in [
            ("default", "my pod"),
            ("default", "a/log"),
            ("default", ".."),
            ("a.b", "p"),
            ("default", &long),
            (&long, "p"),
        ] {
            let why = ParsedValue::parse(&named(namespace, name)).unwrap_err().to_string();
            assert!(why.contains(" cannot name a pod: ") && why.len() < 300, "{why}");
        }
        assert!(ParsedValue::parse(&named(&"a".repeat(63), &"b.c".repeat(84))).is_ok());
    }

    #[test]
    fn a_huge_value_is_shown_with_its_beginning_only() {
        for text in ["é".repeat(100_000), ",".repeat(200_000), format!("2024-01-15T10:30:00.{}Z", "9".repeat(99_999))]
        {
            if let Err(error) = ParsedValue::parse(&text) {
                assert!(error.to_string().len() < 400, "{}", error.to_string().len());
            }
        }
    }

    #[test]
    fn what_is_written_has_the_token_in_nine_digits() {
        let value = ParsedValue::of(time("2026-08-01T06:10:00.000000700Z"), "default", "p1");
        assert_eq!(value.to_string(), "2026-08-01T06:10:00.000000700Z,default,p1");
        assert_eq!(
            ParsedValue::of(time("2026-08-01T06:10:00Z"), "a", "b").to_string(),
            "2026-08-01T06:10:00.000000000Z,a,b"
        );
        assert_eq!(bare(time("2026-08-01T06:10:00.5Z")), "2026-08-01T06:10:00.500000000Z");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            second in 0_i64..=253_402_300_799, token in 0_i32..1_000_000_000, namespace in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
            name in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]{1,31}){0,5}",
        ) {
            let value = ParsedValue::of(Timestamp::new(second, token).unwrap(), &namespace, &name);
            prop_assert_eq!(ParsedValue::parse(&value.to_string()), Ok(value.clone()));
            let alone = ParsedValue::parse(&bare(value.time)).unwrap();
            prop_assert_eq!((alone.time, alone.owner()), (value.time, None));
        }

        #[test]
        fn no_text_is_too_odd_to_read(text in "\\PC{0,60}|[0-9TZ:.,+-]{0,60}") {
            let _ = ParsedValue::parse(&text);
        }
    }
}
