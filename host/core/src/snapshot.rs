//! The nodes of the cluster as dictionary-coded columns.
//!
//! Owns the host's one copy of node names, labels and annotations. It holds only the keys that a consumer asked for, is
//! updated per event, and can be read at any moment as an immutable [`View`]. Columns have the form in which a
//! discoverer reads them (one text of distinct values, one code per row), so a call costs a copy and no conversion.
//!
//! Never calls the API server and never decides what a change means: [`Change`] lists exactly what differs, by value,
//! and the consumer that asked for a key compares.
//!
//! # Failure story
//!
//! A relist ([`Store::begin_relist`]) repairs lost events. Readers keep the old contents until it is committed, and the
//! difference is reported as if it had come as events. A relist that ends half-way is dropped by the next one. A new
//! key has no column until a relist has read it on every node: a [`View`] lists it under [`View::missing`] and never
//! shows a half-filled column, since that would look like lost nodes.

mod change;
mod column;
#[cfg(test)]
mod histories;
pub(crate) mod index;
mod labels;
mod names;
mod packed;
mod store;
mod table;
mod view;

use std::fmt;
use std::sync::Arc;

pub use change::Change;
pub use column::Column;
pub use labels::LabelKeys;
pub use packed::Packed;
pub use store::Store;
pub use view::View;

/// What a column holds: the values of one label or annotation key over all nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKey {
    /// A label key.
    Label(Arc<str>),
    /// An annotation key.
    Annotation(Arc<str>),
}

impl ColumnKey {
    /// The column of a label key.
    #[must_use]
    pub fn label(key: &str) -> Self {
        Self::Label(key.into())
    }

    /// The column of an annotation key.
    #[must_use]
    pub fn annotation(key: &str) -> Self {
        Self::Annotation(key.into())
    }

    /// The key itself.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Label(key) | Self::Annotation(key) => key,
        }
    }
}

impl fmt::Display for ColumnKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
        }
    }
}

/// What the store reads of one node. Keys that no consumer asked for are skipped without a copy.
#[derive(Debug, Clone, Copy)]
pub struct NodeMeta<'a, L, A> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.labels`, as pairs of key and value.
    pub labels: L,
    /// `metadata.annotations`, as pairs of key and value.
    pub annotations: A,
}
