//! From the objects of the API to the types of the rooms that decide, and from what those decide to the status.
//!
//! | room | owns |
//! |---|---|
//! | [`binding`] | what a ClusterBinding says, with every mistake in it, and what of the guard its status keeps |
//! | [`policy`] | what a ResourceLeasingPolicy says, and its status in both directions |
//! | [`selector`] | the NodeSelector of both |
//! | [`difference`] | the merge patch between two states of one object |
//!
//! Functions of objects without a client or a clock. Never decides what follows from a mistake.
//!
//! # Failure story
//!
//! What cannot be read is never the default of its field: a policy that cannot be read exists and is invalid, and a binding with a
//! mistake in it says which field, which value and what is allowed there. A time or a word of a status that cannot be read counts
//! as absent, and is written again.

pub mod binding;
pub mod difference;
pub mod policy;
pub mod selector;

use jiff::Timestamp;

/// A time of a status, as RFC 3339 has it.
fn time(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(|text| text.parse().ok())
}

/// The same, as it is written.
fn written(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}
