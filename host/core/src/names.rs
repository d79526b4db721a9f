//! Names that look alike and must not be exchanged: of a node, of a source, of an object's identity, and of a lock's value.
//!
//! A name is read once, where it comes in; from there on its type says what it names. What the API server hands out (nodes,
//! UIDs, values of locks) is taken as it is. What people write, the name of a source, is checked.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use crate::rules::is_label_value;

/// A text of one kind: it is compared as a text, and shared as one. There is no empty default.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<&$name> for Arc<str> {
            fn from(name: &$name) -> Self {
                Self::clone(&name.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

    };
}

/// A text of one kind that needs no check.
macro_rules! any_text {
    ($(#[$doc:meta])* $name:ident) => {
        text! { $(#[$doc])* $name }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }
    };
}

any_text! {
    /// The name of a node.
    NodeName
}

any_text! {
    /// The UID of an object: another object of the same name has another one.
    Uid
}

any_text! {
    /// The value under the key of a lock, byte for byte. Two attempts never write the same.
    LockValue
}

text! {
    /// The name of a discovery source: the value of a label, not empty. Objects carry it as the name of their owner.
    SourceName
}

/// A text that cannot name a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {}", SourceName::RULE)]
pub struct NoSourceName;

impl SourceName {
    /// What a name has to be, in words.
    pub const RULE: &str =
        "a label value: 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";

    /// Reads the name of a source.
    ///
    /// # Errors
    /// The text breaks the [rule](Self::RULE).
    pub fn parse(text: &str) -> Result<Self, NoSourceName> {
        if !text.is_empty() && is_label_value(text).is_ok() { Ok(Self(text.into())) } else { Err(NoSourceName) }
    }
}

impl FromStr for SourceName {
    type Err = NoSourceName;

    fn from_str(text: &str) -> Result<Self, NoSourceName> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_named_by_a_label_value_that_is_not_empty() {
        let longest = "a".repeat(63);
        for good in ["label", "5", "A_b.c-9", &longest] {
            assert_eq!(SourceName::parse(good).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a-", "a/b", "a b", " a", "\u{e4}", &"a".repeat(64)] {
            assert_eq!(SourceName::parse(bad), Err(NoSourceName), "{bad:?}");
        }
    }
}
