//! TLS of one endpoint: whom we trust, and what we prove ourselves with.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use super::credential::ClientIdentity;
use crate::authorities::{self, Authorities};
use crate::endpoints::spec::Verification;

/// What a client needs of a bundle and a Secret.
pub(super) struct ServerTrust<'a> {
    /// Whether the certificate of the other side is checked.
    pub(super) verification: Verification,
    /// PEM of the authorities that may have signed it, each with where it is from; none: those of the system.
    pub(super) authorities: Vec<(String, &'a [u8])>,
    /// What we prove ourselves with.
    pub(super) identity: Option<&'a ClientIdentity>,
}

/// The settings of a client.
///
/// # Errors
/// What is wrong with the bundle or the identity. Nothing of their content is repeated.
pub(super) fn settings(trust: &ServerTrust<'_>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?;
    let builder = match trust.verification {
        Verification::Full => {
            let checked = trusted(&trust.authorities)?.verifier(&provider);
            builder.dangerous().with_custom_certificate_verifier(checked)
        }
        Verification::Skipped => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked { provider })),
    };
    let Some(ClientIdentity { certificates, key }) = trust.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = CertificateDer::pem_slice_iter(certificates.reveal()).collect::<Result<Vec<_>, _>>();
    let chain =
        chain.ok().filter(|chain| !chain.is_empty()).ok_or("`tls.crt` of the Secret holds no PEM certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key.reveal())
        .map_err(|_| "`tls.key` of the Secret holds no PEM private key".to_owned())?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|_| "`tls.crt` and `tls.key` of the Secret do not fit together".to_owned())
}

fn trusted(named: &[(String, &[u8])]) -> Result<Authorities, String> {
    if named.is_empty() {
        let none = "this system knows no certificate authorities; give the endpoint's with `caBundle`";
        return authorities::of_system().ok_or_else(|| none.to_owned());
    }
    authorities::named(named.iter().map(|(from, pem)| (from.as_str(), *pem)))
}

/// Takes every certificate. The handshake itself is still checked, so the other side holds the key of what it shows.
#[derive(Debug)]
struct Unchecked {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
