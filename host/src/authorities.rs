//! Whom we trust to have signed a certificate.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The largest PEM file that is read, in bytes: a bundle of authorities has some hundred KiB.
pub const LARGEST: u64 = 4 << 20;

/// The authorities of this system, if it knows any. What cannot be read of its store is as if it were not there.
#[must_use]
pub fn of_system() -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    (!roots.is_empty()).then_some(roots)
}

/// The authorities in PEM files, each with where it is from.
///
/// # Errors
/// Names the one that holds none, or something else.
pub fn named<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for (from, pem) in files {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|_| format!("{from} is no PEM"))?;
            roots.add(certificate).map_err(|error| format!("{from} has a certificate that is none: {error}"))?;
        }
        if roots.len() == before {
            return Err(format!("{from} holds no PEM certificate"));
        }
    }
    Ok(roots)
}
