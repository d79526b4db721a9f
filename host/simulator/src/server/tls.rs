//! Certificates, made at start and forgotten with the process.

use crate::Error;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An authority of our own. Clones are the same authority, so two members of a pair can share one.
#[derive(Clone)]
pub struct Authority(Arc<Inner>);

struct Inner {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
    /// Whether it is also what a server shows.
    serves: Serves,
    clients: Mutex<Vec<(CertificateDer<'static>, String)>>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// A client certificate with its key. Printing it shows no key.
#[derive(Clone)]
pub struct ClientCertificate {
    /// Certificate, PEM.
    pub certificate: String,
    /// Key, PEM.
    pub key: String,
}

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// What a server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    /// A certificate that the authority issued.
    Issued,
    /// The certificate of the authority itself.
    Itself,
}

/// What a certificate that signed itself says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marked {
    /// It is that of an authority: `CA:TRUE`, as `openssl req -x509` makes it by default.
    Authority,
    /// It is that of a server: no basic constraints.
    Server,
}

/// From when to when a certificate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Now and for decades.
    Current,
    /// It ended in 2021.
    Expired,
}

impl Authority {
    /// Makes an authority.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn generate() -> Result<Self, Error> {
        let name = "topoloom simulator";
        let made = || {
            let mut params = params(name, &[], Validity::Current)?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            Self::of(params, Serves::Issued)
        };
        made().map_err(|source| Error::Certificate { name: name.into(), source })
    }

    /// Makes a certificate that signed itself: servers show this one, and a client trusts it by having it.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an address.
    pub fn self_signed(names: &[String], validity: Validity, marked: Marked) -> Result<Self, Error> {
        let name = names.first().cloned().unwrap_or_default();
        let made = || {
            let mut params = params(&name, names, validity)?;
            if marked == Marked::Authority {
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }
            Self::of(params, Serves::Itself)
        };
        made().map_err(|source| Error::Certificate { name: name.clone(), source })
    }

    fn of(params: CertificateParams, serves: Serves) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self(Arc::new(Inner { issuer: Issuer::new(params, key), pem, der, serves, clients: Mutex::default() })))
    }

    /// The certificate of the authority, PEM: what a client trusts.
    pub fn pem(&self) -> &str {
        &self.0.pem
    }

    /// Issues a client certificate for this name. UFM maps such a name to a user.
    ///
    /// # Errors
    /// The name is not a DNS name.
    pub fn client(&self, name: &str, validity: Validity) -> Result<ClientCertificate, Error> {
        let issued = self.issue(name, &[name.to_owned()], validity, ExtendedKeyUsagePurpose::ClientAuth);
        let (certificate, key) = issued.map_err(|source| Error::Certificate { name: name.into(), source })?;
        let known = (certificate.der().clone(), name.to_owned());
        self.0.clients.lock().unwrap_or_else(PoisonError::into_inner).push(known);
        Ok(ClientCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Issues a certificate with any subject for clients of servers that are no simulator.
    ///
    /// # Errors
    /// A name cannot be written.
    pub fn client_of(&self, name: &str, organisation: &str) -> Result<ClientCertificate, Error> {
        let issue = || {
            let mut params = params(name, &[], Validity::Current)?;
            params.distinguished_name.push(DnType::OrganizationName, organisation);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &self.0.issuer)?;
            Ok(ClientCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
        };
        issue().map_err(|source| Error::Certificate { name: name.into(), source })
    }

    /// Issues a certificate for a server of these names, for servers that are no simulator.
    ///
    /// # Errors
    /// A name is neither a DNS name nor an address.
    pub fn serving(&self, names: &[&str]) -> Result<ClientCertificate, Error> {
        let name = names.first().copied().unwrap_or_default();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let issued = self.issue(name, &names, Validity::Current, ExtendedKeyUsagePurpose::ServerAuth);
        let (certificate, key) = issued.map_err(|source| Error::Certificate { name: name.into(), source })?;
        Ok(ClientCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// The name that a client certificate was issued for.
    fn name_of(&self, certificate: &CertificateDer<'_>) -> Option<String> {
        let clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.iter().find(|(known, _)| known == certificate).map(|(_, name)| name.clone())
    }

    fn issue(
        &self,
        name: &str,
        names: &[String],
        validity: Validity,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
        let mut params = params(name, names, validity)?;
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0.issuer)?;
        Ok((certificate, key))
    }

    /// What a server with this identity speaks; it asks clients for a certificate and takes them without one.
    fn server(&self, trust: &Self, names: &[String], validity: Validity) -> Result<Arc<ServerConfig>, Error> {
        let name = names.first().cloned().unwrap_or_default();
        let issued = self.issue(&name, names, validity, ExtendedKeyUsagePurpose::ServerAuth);
        let (certificate, key) = issued.map_err(|source| Error::Certificate { name, source })?;
        Self::speaking(vec![certificate.der().clone(), self.0.der.clone()], &key, trust)
    }

    /// What a server speaks whose certificate is as it should be.
    fn right(&self, names: &[String]) -> Result<Arc<ServerConfig>, Error> {
        match self.0.serves {
            Serves::Issued => self.server(self, names, Validity::Current),
            Serves::Itself => Self::speaking(vec![self.0.der.clone()], self.0.issuer.key(), self),
        }
    }

    fn speaking(chain: Vec<CertificateDer<'static>>, key: &KeyPair, trust: &Self) -> Result<Arc<ServerConfig>, Error> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(provider());
        let mut roots = RootCertStore::empty();
        roots.add(trust.0.der.clone()).map_err(|source| Error::Tls { source })?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let clients = clients.allow_unauthenticated().build().map_err(|source| Error::Clients { source })?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_client_cert_verifier(clients).with_single_cert(chain, key));
        let mut config = config.map_err(|source| Error::Tls { source })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn params(name: &str, names: &[String], validity: Validity) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = match validity {
        Validity::Current => (date_time_ymd(2020, 1, 1), date_time_ymd(2099, 1, 1)),
        Validity::Expired => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
    };
    Ok(params)
}

/// Every identity that a server can show.
pub(crate) struct Identities {
    authority: Authority,
    pub(crate) right: Arc<ServerConfig>,
    pub(crate) expired: Arc<ServerConfig>,
    pub(crate) untrusted: Arc<ServerConfig>,
    pub(crate) wrong_name: Arc<ServerConfig>,
}

impl Identities {
    pub(crate) fn new(authority: Authority, names: &[String]) -> Result<Self, Error> {
        Ok(Self {
            right: authority.right(names)?,
            expired: authority.server(&authority, names, Validity::Expired)?,
            untrusted: Authority::generate()?.server(&authority, names, Validity::Current)?,
            wrong_name: authority.server(&authority, &["elsewhere.invalid".to_owned()], Validity::Current)?,
            authority,
        })
    }

    pub(crate) fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The name that the client's certificate was issued for.
    pub(crate) fn client(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<String> {
        self.authority.name_of(chain?.first()?)
    }
}
