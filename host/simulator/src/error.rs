//! What can go wrong while a simulator starts, is changed or ends.

use crate::value::BadValue;
use std::net::SocketAddr;

/// Why a simulator does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {name:?}")]
    Certificate {
        /// Whose certificate.
        name: String,
        /// What the library says.
        source: rcgen::Error,
    },
    /// TLS does not take what was made.
    #[error("cannot set TLS up")]
    Tls {
        /// What the library says.
        source: rustls::Error,
    },
    /// TLS does not take the authority of clients.
    #[error("cannot set the check of client certificates up")]
    Clients {
        /// What the library says.
        source: rustls::server::VerifierBuilderError,
    },
    /// The admin listener changes everything without asking who calls.
    #[error("the admin listener on {address} would be open to the network; choose a loopback address")]
    OpenAdmin {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The simulator has ended.
    #[error("the simulator has been stopped")]
    Stopped,
    /// A value is not allowed.
    #[error(transparent)]
    Value(#[from] BadValue),
}
