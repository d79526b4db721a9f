//! The host: discoverers in, HyperNodes out.

pub mod plugin;
