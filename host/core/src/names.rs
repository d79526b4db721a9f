//! Names that look alike and must not be exchanged: of a node, of a source, of an object's identity, and of a lock's value.
//!
//! A name is read once, where it comes in; from there on its type says what it names. What the API server hands out (nodes,
//! UIDs, values of locks) is taken as it is. What people write, the name of a source, is checked. Names of other rooms and
//! crates are made by the same two macros, `text_type` and `any_text_type`.

use std::str::FromStr;

use crate::rules::is_label_value;

/// Makes a type for texts of one kind: compared as a text, and shared as one. It has no empty default, and no constructor:
/// the module that makes the type adds one, which may check.
#[macro_export]
macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(::std::sync::Arc<str>);

        impl ::std::ops::Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl ::std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl ::std::convert::From<$name> for ::std::sync::Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl ::std::convert::From<&$name> for ::std::sync::Arc<str> {
            fn from(name: &$name) -> Self {
                Self::clone(&name.0)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

/// Makes a type for texts of one kind that need no check.
#[macro_export]
macro_rules! any_text_type {
    ($(#[$doc:meta])* $name:ident) => {
        $crate::text_type! { $(#[$doc])* $name }

        impl ::std::convert::From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl ::std::convert::From<::std::string::String> for $name {
            fn from(text: ::std::string::String) -> Self {
                Self(text.into())
            }
        }

        impl ::std::convert::From<::std::sync::Arc<str>> for $name {
            fn from(text: ::std::sync::Arc<str>) -> Self {
                Self(text)
            }
        }
    };
}

any_text_type! {
    /// The name of a node.
    NodeName
}

any_text_type! {
    /// The UID of an object: another object of the same name has another one.
    Uid
}

any_text_type! {
    /// The value under the key of a lock, byte for byte. Two attempts never write the same.
    LockValue
}

text_type! {
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
