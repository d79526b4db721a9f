//! The sandbox: plugins are strangers' programs, and here they compute and reach what an operator granted, nothing else.
//!
//! | room | owns |
//! |---|---|
//! | [`plugin`] | the engine, the way from bytes to a plugin, and from a call to its one typed end |
//! | [`endpoints`] | what plugins may ask outside, by name: address, certificate, credential, body, each judged |
//! | [`authorities`] | whom we trust to have signed a certificate |
//! | [`panics`] | how the panic of a task reaches the one who started it |
//!
//! This is the only crate that knows wasmtime. It never decides when a plugin runs, whether its answer is right, or what
//! becomes of a bad one, and it reads no configuration: what an operator says of an endpoint comes typed
//! ([`endpoints::spec`]). Which plugins are embedded it learns from the program ([`plugin::builtin`]).
//!
//! # Failure story
//!
//! What a plugin does wrong ends that one load or call with a typed error, and nothing of another plugin. What an
//! endpoint does wrong ends that one request.

pub mod authorities;
pub mod endpoints;
pub mod panics;
pub mod plugin;
