//! The rules for the texts that end up in a Kubernetes object: names, label keys, label values, tiers.
//!
//! Owns the rules and the errors that name the broken rule. Never repairs a text, except a [`Kind`]: its cleaning is
//! part of the format of generated names.

use std::fmt;
use std::sync::Arc;

/// Longest object name, label key prefix and tier name.
pub const SUBDOMAIN_MAX: usize = 253;
/// Longest label value, and longest part of a label key after the slash.
pub const LABEL_MAX: usize = 63;
/// The highest tier a result may use. The scheduler scores every integer between the lowest and the highest tier for
/// every Node, so tiers are kept small (`hypernode.md` 14.3).
pub const TIER_MAX: u8 = 16;
/// Room that a kind leaves for the rest of a generated name: `hypernode-`, `-tier16-` and a suffix of up to 32.
const AROUND_KIND: usize = 10 + 8 + 32;

/// Why a text cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The text is empty.
    Empty,
    /// Too many bytes.
    TooLong {
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
    /// Not a DNS-1123 subdomain.
    Subdomain,
    /// A label value, or the name part of a label key, with other characters than allowed.
    Label,
    /// A label key with more than one slash.
    Slashes,
    /// A tier outside 1..=16.
    Tier(u32),
    /// A kind from which no object name can be made.
    Kind {
        /// Length in bytes.
        is: usize,
        /// The limit.
        max: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("must not be empty"),
            Self::TooLong { is, max } => write!(f, "is {is} bytes long, at most {max} are allowed"),
            Self::Subdomain => f.write_str(
                "must consist of lower-case letters, digits, '-' and '.', and each part between dots must begin and end \
                 with a letter or digit",
            ),
            Self::Label => f.write_str(
                "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
            ),
            Self::Slashes => f.write_str("must have at most one '/', between an optional prefix and the name"),
            Self::Tier(tier) => write!(f, "tier {tier} is not between 1 and {TIER_MAX}"),
            Self::Kind { is, max } => {
                write!(f, "is {is} bytes long, a kind may have {max} to leave room for the rest of the object name")
            }
        }
    }
}

impl std::error::Error for Error {}

fn at_most(text: &str, max: usize) -> Result<(), Error> {
    if text.is_empty() {
        Err(Error::Empty)
    } else if text.len() > max {
        Err(Error::TooLong { is: text.len(), max })
    } else {
        Ok(())
    }
}

/// Whether the text can be the name of a HyperNode or a Node: a DNS-1123 subdomain of at most 253 bytes.
///
/// # Errors
///
/// The rule that is broken.
pub fn is_object_name(text: &str) -> Result<(), Error> {
    at_most(text, SUBDOMAIN_MAX)?;
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let part = |part: &[u8]| {
        part.first().is_some_and(|byte| legal(*byte))
            && part.last().is_some_and(|byte| legal(*byte))
            && part.iter().all(|byte| legal(*byte) || *byte == b'-')
    };
    if text.as_bytes().split(|byte| *byte == b'.').all(part) { Ok(()) } else { Err(Error::Subdomain) }
}

/// Whether the text can be a label value. The empty text can.
///
/// # Errors
///
/// The rule that is broken.
pub fn is_label_value(text: &str) -> Result<(), Error> {
    if text.is_empty() { Ok(()) } else { is_qualified(text) }
}

/// Whether the text can be a label key: an optional DNS-1123 subdomain and a slash, then a name.
///
/// # Errors
///
/// The rule that is broken.
pub fn is_label_key(text: &str) -> Result<(), Error> {
    match text.split_once('/') {
        None => is_qualified(text),
        Some((_, name)) if name.contains('/') => Err(Error::Slashes),
        Some((prefix, name)) => is_object_name(prefix).and_then(|()| is_qualified(name)),
    }
}

fn is_qualified(text: &str) -> Result<(), Error> {
    at_most(text, LABEL_MAX)?;
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric));
    if ends && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte)) {
        Ok(())
    } else {
        Err(Error::Label)
    }
}

/// A distance class, 1 (closest) to 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tier(u8);

impl Tier {
    /// The closest class.
    pub const MIN: Self = Self(1);
    /// The widest class.
    pub const MAX: Self = Self(TIER_MAX);

    /// Checks a number.
    ///
    /// # Errors
    ///
    /// When it is not between 1 and 16.
    pub fn new(tier: u32) -> Result<Self, Error> {
        match u8::try_from(tier) {
            Ok(small @ 1..=TIER_MAX) => Ok(Self(small)),
            _ => Err(Error::Tier(tier)),
        }
    }

    /// The nearest legal tier to a stored number, which may be any.
    #[must_use]
    pub fn nearest(tier: u32) -> Self {
        u8::try_from(tier).map_or(Self::MAX, |small| Self(small.clamp(1, TIER_MAX)))
    }

    /// The number, as the spec of a HyperNode has it.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The "type" inside generated names, cleaned so that `hypernode-<kind>-tier<t>-<suffix>` is a legal object name.
///
/// The cleaning is Volcano's (`hypernode.md` 9.3) wherever Volcano's gives a legal name, because the result is also the
/// prefix by which Volcano's objects are recognised. A `.` that has no letter or digit on both sides becomes a `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Kind(Arc<str>);

impl Kind {
    /// Cleans a text.
    ///
    /// # Errors
    ///
    /// When it leaves no room for the rest of an object name.
    pub fn clean(text: &str) -> Result<Self, Error> {
        let max = SUBDOMAIN_MAX - AROUND_KIND;
        if text.len() > max {
            return Err(Error::Kind { is: text.len(), max });
        }
        let mapped: Vec<char> = text
            .chars()
            .map(|c| match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '.' | '-') => c,
                _ => '-',
            })
            .collect();
        let solid = |at: Option<usize>| at.and_then(|at| mapped.get(at)).is_some_and(char::is_ascii_alphanumeric);
        let repaired = mapped.iter().enumerate().map(|(at, c)| {
            let lonely = *c == '.' && !(solid(at.checked_sub(1)) && solid(at.checked_add(1)));
            if lonely { '-' } else { *c }
        });
        Ok(Self(repaired.collect::<String>().into()))
    }

    /// The cleaned text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The beginning of every generated name of that kind and tier, up to the suffix.
    #[must_use]
    pub fn prefix(&self, tier: Tier) -> String {
        format!("hypernode-{}-tier{tier}-", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_names_follow_dns_1123() {
        for good in ["a", "a-b", "a.b-c.d0", "0", &"x".repeat(253)] {
            assert_eq!(is_object_name(good), Ok(()), "{good}");
        }
        for bad in ["A", "a_b", "-a", "a-", "a..b", ".a", "a.", "a.-b", "ä", "a b", "a/b"] {
            assert_eq!(is_object_name(bad), Err(Error::Subdomain), "{bad}");
        }
        assert_eq!(is_object_name(""), Err(Error::Empty));
        assert_eq!(is_object_name(&"x".repeat(254)), Err(Error::TooLong { is: 254, max: 253 }));
    }

    #[test]
    fn label_keys_and_values_follow_their_rules() {
        for good in ["a", "A_b.c-d", "ex.io/rack", "kubernetes.io/hostname", &"x".repeat(63)] {
            assert_eq!(is_label_key(good), Ok(()), "{good}");
        }
        assert_eq!(is_label_key("a/b/c"), Err(Error::Slashes));
        assert_eq!(is_label_key("/b"), Err(Error::Empty));
        assert_eq!(is_label_key("a/"), Err(Error::Empty));
        assert_eq!(is_label_key("Ex.io/rack"), Err(Error::Subdomain));
        assert_eq!(is_label_key("_a"), Err(Error::Label));
        assert_eq!(is_label_value(""), Ok(()));
        assert_eq!(is_label_value("a7"), Ok(()));
        assert_eq!(is_label_value("a/7"), Err(Error::Label));
        assert_eq!(is_label_value(&"x".repeat(64)), Err(Error::TooLong { is: 64, max: 63 }));
    }

    #[test]
    fn tiers_are_1_to_16() {
        for tier in 1..=16 {
            assert_eq!(Tier::new(tier).map(Tier::get), Ok(tier));
        }
        for tier in [0, 17, 256, u32::MAX] {
            assert_eq!(Tier::new(tier), Err(Error::Tier(tier)));
        }
        assert_eq!([0, 3, 17, u32::MAX].map(|tier| Tier::nearest(tier).get()), [1, 3, 16, 16]);
    }

    #[test]
    fn a_cleaned_kind_always_makes_a_legal_name() {
        let cases = [
            ("Rack_Level.X", "rack-level.x"),
            (".x", "-x"),
            ("x.", "x-"),
            ("a..b", "a--b"),
            ("a.-b", "a--b"),
            ("", ""),
            ("Größe", "gr--e"),
            ("Trn2", "trn2"),
        ];
        for (text, want) in cases {
            let kind = Kind::clean(text).unwrap();
            assert_eq!(kind.as_str(), want, "{text}");
            let name = format!("{}bcdfg", kind.prefix(Tier::MAX));
            assert_eq!(is_object_name(&name), Ok(()), "{name}");
        }
        assert!(Kind::clean(&"x".repeat(203)).is_ok());
        assert!(Kind::clean(&"x".repeat(204)).is_err());
    }
}
