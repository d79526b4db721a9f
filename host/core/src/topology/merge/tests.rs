//! Scenarios of merging.
