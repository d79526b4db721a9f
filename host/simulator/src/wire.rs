//! JSON as bytes, fast: what all bodies are written with.
//!
//! A list of a large fabric is 150 MB and must not be what a benchmark of its reader measures. So keys and constant
//! values are laid out once ([`Template`]) and a record is a few dozen copies; lists are written while they are sent
//! ([`Listing`]), a piece at a time, and are never in memory as a whole.

mod listing;
mod template;
mod text;

pub(crate) use listing::{Damage, Extent, Listing, Part, Rows, Run, Spoil};
pub(crate) use template::{Template, TemplateValue};
pub(crate) use text::{decimal, escaped, hex, quoted, quoted_hex};

pub use template::Layout;
