//! The resourceVersion of an object or of a list, and its one order.
//!
//! Owns what Kubernetes promises about them since 1.35: decimal numbers without leading zeros, of any length, that grow with
//! every write of a resource. Any other text is a version too: it is equal to itself, and not ordered with anything else.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A resourceVersion. The empty one is of an object without a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Arc<str>);

impl ResourceVersion {
    /// Whether this is known to come before `other`. Of two that cannot be compared, neither is older.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Less)
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        compare(self, other)
    }
}

impl Deref for ResourceVersion {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for ResourceVersion {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<Option<&str>> for ResourceVersion {
    fn from(text: Option<&str>) -> Self {
        text.unwrap_or_default().into()
    }
}

/// The order of two resourceVersions: [`ResourceVersion`] has it, and here it is for texts.
#[must_use]
pub fn compare(left: &str, right: &str) -> Option<Ordering> {
    if left == right {
        return Some(Ordering::Equal);
    }
    if !is_number(left) || !is_number(right) {
        return None;
    }
    // Without leading zeros the longer number is the greater one.
    Some(left.len().cmp(&right.len()).then_with(|| left.cmp(right)))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers_of_any_length_and_nothing_else_is() {
        use Ordering::{Equal, Greater, Less};
        let long = "9".repeat(60);
        let longer = format!("1{}", "0".repeat(60));
        let table: [(&str, &str, Option<Ordering>); 12] = [
            ("9", "10", Some(Less)),
            ("10", "9", Some(Greater)),
            ("7", "7", Some(Equal)),
            ("0", "1", Some(Less)),
            (&long, &longer, Some(Less)),
            (&longer, &long, Some(Greater)),
            ("abc", "abc", Some(Equal)),
            ("", "", Some(Equal)),
            ("", "7", None),
            ("07", "7", None),
            ("+7", "8", None),
            ("abc", "abd", None),
        ];
        for (left, right, order) in table {
            assert_eq!(compare(left, right), order, "{left} and {right}");
            let (left, right) = (ResourceVersion::from(left), ResourceVersion::from(right));
            assert_eq!(left.partial_cmp(&right), order, "{left} and {right}");
            assert_eq!(left.is_older_than(&right), order == Some(Less), "{left} and {right}");
            assert_eq!(left == right, order == Some(Equal), "{left} and {right}");
        }
    }
}
