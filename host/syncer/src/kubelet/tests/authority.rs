//! An authority of certificates, and the files that a server reads.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tempfile::TempDir;

/// An authority. Its certificates are valid from 2020 to the end of 2098.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) der: CertificateDer<'static>,
    pem: String,
}

/// A certificate with its key.
pub(crate) struct Issued {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// `id-at-commonName` by its number.
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];

fn params(names: &[&str], groups: &[&str], addresses: &[&str]) -> CertificateParams {
    let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
    let mut params = CertificateParams::new(addresses).unwrap();
    params.distinguished_name = DistinguishedName::new();
    // rcgen keeps one of each kind, and knows no kind by its number.
    for (kind, name) in [DnType::CommonName, DnType::CustomDnType(COMMON_NAME.to_vec())].into_iter().zip(names) {
        params.distinguished_name.push(kind, *name);
    }
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2099, 1, 1));
    params
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = params(&["an authority"], &[], &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Self { issuer: Issuer::new(params, key), der, pem }
    }

    /// Its certificate, PEM.
    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    fn issue(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Issued {
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Issued { der, certificate: pem, key: key.serialize_pem() }
    }

    /// The certificate of a client with these common names, two at most, and this organization, if any.
    pub(crate) fn client(&self, names: &[&str], groups: &[&str]) -> Issued {
        self.issue(params(names, groups, &[]), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The certificate of a client with this common name and, behind it, one in the alphabet T61.
    pub(crate) fn client_with_teletex(&self, name: &str, other: &str) -> Issued {
        let mut params = params(&[name], &[], &[]);
        let other = DnValue::TeletexString(other.try_into().unwrap());
        params.distinguished_name.push(DnType::CustomDnType(COMMON_NAME.to_vec()), other);
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The certificate of a server on this machine.
    pub(crate) fn server(&self) -> Issued {
        self.issue(params(&["a server"], &[], &["127.0.0.1"]), ExtendedKeyUsagePurpose::ServerAuth)
    }
}

/// Checks clients of an authority.
pub(crate) fn verifier(authority: &Authority) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
}

/// The files of a server, in a folder of their own.
pub(crate) struct Files {
    folder: TempDir,
    pub(crate) authorities: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Files {
    /// Those of a server of this authority that trusts its clients.
    pub(crate) fn of(authority: &Authority) -> Self {
        let (folder, server) = (tempfile::tempdir().unwrap(), authority.server());
        let [authorities, certificate, key] = ["ca.crt", "tls.crt", "tls.key"].map(|name| folder.path().join(name));
        let files = Self { folder, authorities, certificate, key };
        files.write("ca.crt", &authority.pem());
        files.write("tls.crt", &server.certificate);
        files.write("tls.key", &server.key);
        files
    }

    /// One more file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}
