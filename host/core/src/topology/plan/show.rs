//! A plan as an operator reads it.
