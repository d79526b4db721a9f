//! What a vendor has at the desk, as a library: the verbs of `topoloom plugin` are thin above it.
//!
//! | room | owns |
//! |---|---|
//! | [`kit`] | the conformance kit: what a plugin promises, each promise tried on the component itself |
//!
//! No room knows a cluster or a client of one. A plugin runs in the sandbox of the host, with its limits and nothing else.

pub mod kit;
