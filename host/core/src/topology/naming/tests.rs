//! Scenarios of names.
