//! What the last round placed, and on what grounds.

/// What the last round placed: the group of every host, its links as last seen, and when it last had a live one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {}

impl Memory {
    /// Whether nothing was placed before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }
}
