//! Scenarios of plans.
