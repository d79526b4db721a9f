//! Whom we trust to have signed a certificate.
//!
//! A server proves itself in one of two ways: its certificate was signed by an authority that is trusted, or it is itself, byte for
//! byte, one of the certificates that were given. The second is what a server has that signed its own certificate, as `openssl req
//! -x509` does: such a certificate is marked as that of an authority, and would be refused as the certificate of a server. Name and
//! dates are checked in both cases, and that the server holds the key.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use topoloom_core::certificate::Certificate;

/// The largest PEM file that is read, in bytes: a bundle of authorities has some hundred KiB.
pub const LARGEST: u64 = 4 << 20;

/// Who may have signed the certificate of a server. The default trusts no server.
#[derive(Debug, Clone)]
pub struct Authorities {
    roots: RootCertStore,
    /// The certificates that were given, as they are: a server may show one of them as its own. Those of the system are not here.
    given: Vec<CertificateDer<'static>>,
}

/// The authorities of this system, if it knows any. What cannot be read of its store is as if it were not there.
#[must_use]
pub fn of_system() -> Option<Authorities> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!roots.is_empty()).then(|| Authorities { roots, given: Vec::new() })
}

/// The authorities in PEM files, each with where it is from.
///
/// # Errors
/// Names the one that holds none, or something else.
pub fn named<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<Authorities, String> {
    let mut all = Authorities::default();
    for (from, pem) in files {
        let before = all.given.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| format!("{from} is not PEM"))?;
            let none = |error| format!("{from} has an invalid certificate: {error}");
            all.roots.add(certificate.clone()).map_err(none)?;
            all.given.push(certificate);
        }
        if all.given.len() == before {
            return Err(format!("{from} holds no PEM certificate"));
        }
    }
    Ok(all)
}

impl Default for Authorities {
    fn default() -> Self {
        Self { roots: RootCertStore::empty(), given: Vec::new() }
    }
}

impl Authorities {
    /// What checks the certificate of a server.
    #[must_use]
    pub fn verifier(self, provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Verifier { authorities: self, algorithms: provider.signature_verification_algorithms })
    }
}

#[derive(Debug)]
struct Verifier {
    authorities: Authorities,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(shown)?;
        if self.authorities.given.iter().any(|given| given == shown) {
            check_itself(&parsed, shown, name, now)?;
        } else {
            let roots = &self.authorities.roots;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, chain, now, self.algorithms.all)?;
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The remaining checks of a certificate that was given: exactly this one is trusted, whichever key signed it.
fn check_itself(
    parsed: &ParsedCertificate<'_>,
    shown: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    let bad = Error::InvalidCertificate;
    let read = Certificate::read(shown).ok_or(bad(CertificateError::BadEncoding))?;
    if now.as_secs() < read.not_before {
        return Err(bad(CertificateError::NotValidYet));
    }
    if now.as_secs() > read.not_after {
        return Err(bad(CertificateError::Expired));
    }
    match read.only_name {
        // `openssl req -x509` writes no other name without an option.
        Some(common) if is_name(&common, name) => Ok(()),
        Some(_) => Err(bad(CertificateError::NotValidForName)),
        None => verify_server_name(parsed, name),
    }
}

/// Whether a common name is this name, letter by letter: it has no wildcards.
fn is_name(common: &str, name: &ServerName<'_>) -> bool {
    match name {
        ServerName::DnsName(name) => common.eq_ignore_ascii_case(name.as_ref()),
        ServerName::IpAddress(address) => {
            common.parse::<std::net::IpAddr>().is_ok_and(|common| common == std::net::IpAddr::from(*address))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
