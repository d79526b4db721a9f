//! YAML 1.1 as a tree that knows its lines.
//!
//! Owns: from text to [`Tree`], bounded in depth and size. If one document is wanted, the first is read, and a second
//! one is reported. Repeated keys: the last counts. Keys are texts; `<<` merges. Aliases share what they point to, and
//! a bound on the size of the expanded tree is checked while it grows, so that no document can multiply itself.
//!
//! Why not a ready-made loader: whether `yes` is a boolean or a text depends on its quotes, which loaders into plain
//! values forget, and none of them reports the line of a value.

mod build;
mod json;
mod scalar;
mod tree;

pub(super) use build::{load, load_all};
pub(super) use scalar::Resolved;
pub(super) use tree::{Tree, ValueKind, YamlNode};

/// Deepest nesting. A discovery document has about ten levels.
pub(super) const MAX_DEPTH: usize = 64;

/// Largest expanded tree, in bytes of text plus one per node: twice the largest document, which no document without
/// aliases reaches.
pub(super) const MAX_WEIGHT: usize = 2 * super::MAX_BYTES;
