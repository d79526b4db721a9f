//! The sandbox: plugins are strangers' programs, and here they compute and reach what an operator granted, nothing else.
//!
//! | room | owns |
//! |---|---|
//! | [`plugin`] | the engine, the way from bytes to a plugin, and from a call to its one typed end |
//! | [`endpoints`] | what plugins may ask outside, by name: address, certificate, credential, body, each judged |
//! | [`authorities`] | whom we trust to have signed a certificate |
//! | [`panics`] | how the panic of a task reaches the one who started it |
//!
//! This is the only crate that knows wasmtime. It never decides when a plugin runs, whether its answer is valid, or
//! what follows from an invalid one, and it reads no configuration: the operator's settings of an endpoint are an
//! argument ([`endpoints::spec`]). The program passes the embedded plugins ([`plugin::builtin`]).
//!
//! # Failure story
//!
//! What a plugin does wrong ends that one load or call with a typed error, and nothing of another plugin. What an
//! endpoint does wrong ends that one request.

pub mod authorities;
pub mod endpoints;
pub mod panics;
pub mod plugin;
