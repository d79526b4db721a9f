//! What a kubeconfig from a Secret says, and whether it may be used (decisions S20 and S21).
//!
//! Owns the judgement of bytes that another party wrote: the lender, or a tenant who may write the Secret. What it lets through
//! is an [`Access`]: an address, the authorities that its server has to be signed by, and a credential. It never reads a file,
//! starts a program, asks a name server or talks to a proxy, and nothing in a kubeconfig can make it do so. It reads no
//! environment either: `HTTPS_PROXY` of the host is not for the clusters of others.
//!
//! # Which addresses
//!
//! The operator of the host names the Secret, and another may write it. So the address in it is judged, and again when a name is
//! resolved (`topoloom_cluster::dial`). Public and private addresses are dialled: a physical cluster is usually in a private
//! network. Never dialled are a cloud's metadata services, which give credentials away, link-local addresses, and addresses of no
//! machine. This machine is dialled only where the operator allowed it ([`Loopback`]): in a pod it is what runs beside the host.
//!
//! # Failure story
//!
//! A kubeconfig that is refused changes nothing: the connection that stands is kept. The error names the field, what it says
//! (never a credential, and no path or URL in which one could hide) and what is allowed. Sizes, depth and the number of values
//! are bounded before they are read, and YAML aliases, with which a small text becomes a large one, are refused.

mod credential;
mod document;
mod error;
mod server;

use std::fmt;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Secret;
use kube::config::AuthInfo;
use sha2::{Digest as _, Sha256};
use topoloom_cluster::dial::Dial;
use topoloom_core::address::{AddressClass, place};

pub use credential::{CredentialEnd, CredentialKind, Ending, SOON};
pub use error::{FieldError, KubeconfigError};

use credential::Credential;
use document::Document;
use server::Server;

/// The key of the Secret that holds it.
pub const KEY: &str = "kubeconfig";

/// The largest kubeconfig that is read, in bytes: no Secret is larger.
pub const LARGEST: usize = 1 << 20;

/// What the operator allows beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// A server that does not prove itself (`spec.allowInsecure` of the binding).
    pub insecure: Insecure,
    /// A server on this machine.
    pub loopback: Loopback,
}

/// Whether a server has to prove itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insecure {
    /// It has to: `https`, with a certificate of a known authority.
    Refused,
    /// `http` and `insecure-skip-tls-verify` are allowed.
    Allowed,
}

/// Whether this machine may be the physical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// It may not.
    Refused,
    /// It may: a tunnel beside the host, or a test.
    Allowed,
}

/// How a physical API server is reached: what a kubeconfig says that was judged. Shows no credential.
#[derive(Clone)]
pub struct Access {
    config: kube::Config,
    dial: Dial,
    kinds: Vec<CredentialKind>,
    end: Option<CredentialEnd>,
    fingerprint: Fingerprint,
    places: Places,
}

/// Where in a kubeconfig its cluster and its user stand, with the names of their entries: for a person who corrects it.
#[derive(Debug, Clone)]
struct Places {
    cluster: Box<str>,
    user: Box<str>,
}

/// A hash of everything that makes two connections differ: address, authorities, credential. Shows eight digits of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// Judges the kubeconfig in a Secret.
///
/// # Errors
/// What is missing or refused.
pub fn of_secret(secret: &Secret, allowed: Allowed) -> Result<Access, KubeconfigError> {
    let data = secret.data.as_ref().and_then(|data| data.get(KEY)).ok_or(KubeconfigError::NoKey)?;
    judge(&data.0, allowed)
}

/// Judges a kubeconfig.
///
/// # Errors
/// What is refused.
pub fn judge(bytes: &[u8], allowed: Allowed) -> Result<Access, KubeconfigError> {
    let document = Document::read(bytes)?;
    let context = document.context()?;
    let cluster = document.entry("clusters", "cluster", &context, "cluster")?;
    let user = document.entry("users", "user", &context, "user")?;
    let dial = Dial::Judged(match allowed.loopback {
        Loopback::Refused => elsewhere,
        Loopback::Allowed => here_too,
    });
    let server = server::judge(&cluster, allowed.insecure, dial)?;
    let credential = credential::judge(&user)?;
    let fingerprint = Fingerprint::of(&server, &credential, dial);
    let config = config(&server, &credential);
    credential::check_pair(&config, &user)?;
    let places = Places { cluster: cluster.path().into(), user: user.path().into() };
    Ok(Access { config, dial, kinds: credential.kinds(), end: credential.end(), fingerprint, places })
}

/// What is dialled for a physical cluster.
fn elsewhere(address: IpAddr) -> Result<(), AddressClass> {
    let class = place(address);
    if class.is_in_a_network() { Ok(()) } else { Err(class) }
}

fn here_too(address: IpAddr) -> Result<(), AddressClass> {
    match elsewhere(address) {
        Err(AddressClass::Loopback) => Ok(()),
        answer => answer,
    }
}

/// Settings of a client. Made here and not by the client's own reader of kubeconfigs, which would read files and the environment.
fn config(server: &Server, credential: &Credential) -> kube::Config {
    let identity = credential.identity.as_ref();
    let auth_info = AuthInfo {
        token: credential.token.clone().map(Into::into),
        client_certificate_data: identity.map(|identity| identity.certificate.clone()),
        client_key_data: identity.map(|identity| identity.key.clone().into()),
        ..AuthInfo::default()
    };
    let mut config = kube::Config::new(server.uri.clone());
    config.root_cert = server.authorities.clone();
    config.accept_invalid_certs = server.proof == server::Proof::None;
    config.tls_server_name = server.name.clone();
    config.auth_info = auth_info;
    config
}

impl Access {
    /// Settings of a client, without anything of ours.
    #[must_use]
    pub fn config(&self) -> &kube::Config {
        &self.config
    }

    /// The URL of the API server.
    #[must_use]
    pub fn server(&self) -> &http::Uri {
        &self.config.cluster_url
    }

    /// Which addresses may be dialled for it.
    #[must_use]
    pub fn dial(&self) -> Dial {
        self.dial
    }

    /// What its credential is; several, where it has several.
    #[must_use]
    pub fn kinds(&self) -> &[CredentialKind] {
        &self.kinds
    }

    /// When its credential ends; the earliest end, where there are several.
    #[must_use]
    pub fn end(&self) -> Option<CredentialEnd> {
        self.end
    }

    /// Where in the kubeconfig the cluster stands, with the name of its entry: `clusters["east"].cluster`.
    #[must_use]
    pub fn place_of_cluster(&self) -> &str {
        &self.places.cluster
    }

    /// Where in the kubeconfig the user stands, with the name of its entry: `users["syncer"].user`.
    #[must_use]
    pub fn place_of_user(&self) -> &str {
        &self.places.user
    }

    /// What it has in common with another one that leads to the same connection.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("server", self.server())
            .field("credential", &self.kinds)
            .field("end", &self.end)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

impl Fingerprint {
    fn of(server: &Server, credential: &Credential, dial: Dial) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: Option<&[u8]>| {
            // Each part with its length, so that no two lists of parts are one text.
            hash.update(part.map_or(u64::MAX, |part| u64::try_from(part.len()).unwrap_or(u64::MAX - 1)).to_be_bytes());
            hash.update(part.unwrap_or_default());
        };
        add(Some(server.uri.to_string().as_bytes()));
        add(server.name.as_deref().map(str::as_bytes));
        add(Some(if server.proof == server::Proof::None { b"insecure".as_slice() } else { b"proven" }));
        // What is allowed is part of the connection: it decides what a name may resolve to.
        add(Some(if dial.check_literal("127.0.0.1").is_ok() { b"loopback".as_slice() } else { b"elsewhere" }));
        add(Some(&server.authorities.as_ref().map_or(0, Vec::len).to_be_bytes()));
        server.authorities.iter().flatten().for_each(|authority| add(Some(authority)));
        add(credential.token.as_deref().map(str::as_bytes));
        add(credential.identity.as_ref().map(|identity| identity.certificate.as_bytes()));
        add(credential.identity.as_ref().map(|identity| identity.key.as_bytes()));
        Self(hash.finalize().into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to tell two apart, too little to check a guess of a credential.
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("…")
    }
}

#[cfg(test)]
pub(crate) mod tests;
