//! From every source of flags of `run` to typed values: one layering for every flag.
//!
//! Flag over environment over options file over default (decision M3). Owns: where a value came from, and the list of
//! everything that is wrong with any layer, which is printed at once. Never: what a flag means; that is its `Args`,
//! whose value parsers judge each value alone, and whose rules across flags are added by [`super::run`].
//!
//! | file | idea |
//! |---|---|
//! | [`flags`] | the flags of `run`, with the names of their variables |
//! | [`layers`] | texts out of the three layers |
//! | [`given`] | what was given where, and everything that is wrong with it |
//! | [`values`] | value parsers: Go's grammars, ranges, names |
//! | [`reference`] | the page of documentation |
//!
//! A value of a layer that another one overrides is judged too: it is wrong, and waits there for the day when the other
//! goes. An empty variable is none. Of a flag that takes one value and is given twice the last counts, as in Go.

pub(super) mod flags;
pub(super) mod given;
mod layers;
pub(super) mod reference;
pub(super) mod values;

pub(super) use given::Given;
pub(super) use layers::{Outside, Reading, read, read_file};

/// The heading of flags that Volcano's controllers have too.
pub(super) const VOLCANOS: &str = "As Volcano's controllers take them";
/// The heading of flags that are only taken so that a command line of Volcano's works.
pub(super) const WITHOUT_EFFECT: &str = "Taken from command lines of Volcano's, without effect";

#[cfg(test)]
mod tests;
