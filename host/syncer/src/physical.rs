//! Connections to physical API servers (decisions S5, S6, S20, S21 and S25).
//!
//! | room | owns |
//! |---|---|
//! | [`connection`] | the clients of one server by one credential: reads, and writes in lanes behind the gate of a binding |
//! | [`contact`] | one question to a server: whether it answers, and which cluster it is |
//! | [`signs`] | whether a server is reachable, by its signs of life |
//! | [`probe`] | the two questions that are asked again and again |
//! | [`registry`] | who shares a connection, and its end |
//! | [`credentials`] | the Secret of a binding, and which connection is used because of it |
//! | [`forward`] | clients that always lead to the connection in use |
//!
//! Never decides what is written there. Never reads another Secret than the one of the binding.
//!
//! # Failure story
//!
//! Every connection has tasks of its own and no lock that is held while something is awaited, so one broken cluster slows no
//! other. A credential that is bad, or leads to another cluster, replaces nothing: the connection that stands is kept, and the
//! state of the credential says what is wrong. A server that is silent is suspect and then unreachable, and what follows from that
//! is decided by `topoloom_sync`. The tasks of a connection end with its last user.

pub mod connection;
pub mod contact;
pub mod credentials;
pub mod forward;
pub mod probe;
pub mod registry;
pub mod signs;

pub use connection::{Connection, Dialer, Opens, WriteRate, Writers};
pub use contact::ContactError;
pub use credentials::{CredentialState, Expected, Follow, Problem, Terms};
pub use forward::Forward;
pub use registry::{Physical, Registry};
pub use signs::{Clock, Signs};

#[cfg(test)]
mod tests;
