//! The discovery configuration: one YAML document in a ConfigMap, a superset of Volcano's.
//!
//! Owns: reading that document, saying where and why something in it is wrong, and the typed form that all other
//! rooms work with. Never: the API server, a file, a clock, the environment (values are handed in). Never a guess: a
//! value that is not understood is a [`ConfigProblem`] that names field, value and range.
//!
//! | file | idea |
//! |---|---|
//! | [`location`] | which ConfigMap and key; the four outcomes of looking there |
//! | [`document`] | the list of entries, and the one that counts for each source |
//! | [`entry`] | one entry, every field typed, with its hashes |
//! | [`lock_resources`] | which resources of a pod need the lock of its node |
//! | [`options_file`] | the options file of `run`: flags by name |
//! | [`sort`] | which of both a file holds, for `config check` |
//! | [`declaration`] | `plugin.yaml`, which travels beside a module |
//! | [`plugin`], [`registry`], [`permissions`], `endpoint`, [`tuning`] | the parts of an entry |
//! | [`references`] | what entries refer to in the cluster |
//! | [`duration`], [`size`] | Go durations and Kubernetes quantities |
//! | `yaml` | YAML 1.1 as a tree that knows its lines |
//! | `read` | typed reading of that tree, collecting all problems at once |
//!
//! Failure story. Malformed YAML, or a top level of the wrong shape, is an [`Error`] for the whole document, and
//! nothing is known about any source. A mistake inside one entry disables that entry alone. In both cases the last
//! valid version of the affected part continues; an absent or invalid document never removes a source, and one entry
//! whose name cannot be read makes every absence uncertain ([`Document::names_all_sources`]). An entry that says
//! `enabled: false` is disabled even if something else in it is wrong.
//!
//! No secret passes through here on purpose, but people put things in wrong places: values of credentials, URLs and
//! the free-form `config` never appear in a problem, an error or a `Debug` text.

pub mod declaration;
pub mod document;
pub mod duration;
mod endpoint;
pub mod entry;
mod error;
pub mod location;
pub mod lock_resources;
pub mod options_file;
pub mod permissions;
pub mod plugin;
pub(crate) mod read;
pub mod references;
pub mod registry;
pub mod sort;
#[cfg(test)]
mod tests;
pub mod tuning;
mod yaml;

pub use document::{Document, Entry, EntryState};
pub use entry::{Compat, ContentHash, EntryConfig, Mode, OnFailure, Verbs};
pub use error::{ConfigProblem, Error};
pub use location::{Lack, Load, Location};
pub use permissions::Permissions;
pub use plugin::{PluginOrigin, PluginRef};
pub use references::References;
pub use topoloom_core::size;
pub use tuning::{Limits, Profile, Safety};

/// Largest document, in bytes: the API server stores no larger ConfigMap.
pub const MAX_BYTES: usize = 1 << 20;

/// Reads a whole document.
///
/// Total: any text gives a document or an error, in time and memory bounded by [`MAX_BYTES`].
///
/// # Errors
/// When the text is no YAML or its top level has the wrong shape. Running sources should continue unchanged.
pub fn parse(text: &str) -> Result<Document, Error> {
    document::parse(text)
}

/// Reads a file that holds a document, or the manifest of a ConfigMap with the document under the
/// [usual key](location::KEY). Lines are those of the file.
///
/// # Errors
/// As [`parse`], and when the manifest lacks the key.
pub fn parse_file(text: &str) -> Result<Document, Error> {
    document::parse_file(text)
}
