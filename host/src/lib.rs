//! Placeholder module doc, replaced by the first real change.

pub mod config;
