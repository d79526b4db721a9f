//! The certificate of the health server, from three PEM files (`node-lock-and-bind.md` B5 and B10), and how PEM files are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// PEM files of the health server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities.
    pub authorities: PathBuf,
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} {path}: {why}")]
pub struct TlsError {
    flag: &'static str,
    path: String,
    why: String,
}

impl TlsError {
    /// Says what is wrong with a file.
    #[must_use]
    pub fn new(flag: &'static str, path: &Path, why: impl ToString) -> Self {
        Self { flag, path: path.display().to_string(), why: why.to_string() }
    }
}

/// Reads the files and makes the settings of a server of them. The authorities are read, as the original does, and ask no
/// client for a certificate: kubelets have none.
///
/// # Errors
/// Names the flag, the file and what is wrong with it.
pub fn server(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    certificates("ca-cert-file", &files.authorities)?;
    let chain = certificates("tls-cert-file", &files.certificate)?;
    let refused = |why: String| TlsError::new("tls-private-key-file", &files.key, why);
    let key = key_file("tls-private-key-file", &files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| refused(error.to_string()))?;
    Ok(Arc::new(config))
}

/// The key in a file.
///
/// # Errors
/// Names the flag, the file and what is wrong with it.
pub fn key_file(flag: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::new(flag, path, error))
}

/// The certificates in a file: one at least.
///
/// # Errors
/// Names the flag, the file and what is wrong with it.
pub fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| TlsError::new(flag, path, error))?;
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| TlsError::new(flag, path, error))?;
    if all.is_empty() {
        return Err(TlsError::new(flag, path, "there is no certificate in it"));
    }
    Ok(all)
}
