use std::time::Duration;

use super::*;

/// What `openssl req -x509 -newkey ec … -subj "/O=Example/CN=ufm.example.org" -days 36500` made on 2026-11-24.
const OPENSSL: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBsDCCAVWgAwIBAgIUT7ifLz7TC0dPohGHlNBJC3o4IB8wCgYIKoZIzj0EAwIw\n\
LDEQMA4GA1UECgwHRXhhbXBsZTEYMBYGA1UEAwwPdWZtLmV4YW1wbGUub3JnMCAX\n\
DTI2MTEyNDA4Mzk1NVoYDzIxMjYxMDMxMDgzOTU1WjAsMRAwDgYDVQQKDAdFeGFt\n\
cGxlMRgwFgYDVQQDDA91Zm0uZXhhbXBsZS5vcmcwWTATBgcqhkjOPQIBBggqhkjO\n\
PQMBBwNCAAQChp1Zh5l/VeLbfrm3k6Gj6QCAG6+woiOm5zP3WAhyTFrzGu/oWsjG\n\
hKnI17O/7Duu24dYLja/fawi7rGTQbzLo1MwUTAdBgNVHQ4EFgQUoNb9diTcCeGi\n\
XJW7trXlMExzO7QwHwYDVR0jBBgwFoAUoNb9diTcCeGiXJW7trXlMExzO7QwDwYD\n\
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAwnwb0cofUxloTHnpHlDu\n\
rSfwdoqI+qSBkbA9EmoJKVwCIQCmz3TGHkNw3QDKsCHRHw8tn/Pd2PKkQsUvFhKM\n\
39yqZQ==\n\
-----END CERTIFICATE-----\n\
";

/// When that was, and when it ends, in seconds since 1970.
const BEGIN: u64 = 1795509595;
const END: u64 = 4949109595;

pub(super) fn openssl() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(OPENSSL.as_bytes()).unwrap()
}

fn check(given: &str, shown: &CertificateDer<'_>, name: &str, now: u64) -> Result<(), Error> {
    let authorities =
        if given.is_empty() { Authorities::default() } else { named([("it", given.as_bytes())]).unwrap() };
    let verifier = authorities.verifier(&rustls::crypto::ring::default_provider());
    let name = ServerName::try_from(name).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
}

#[test]
fn the_certificate_that_openssl_makes_is_believed_where_it_is_given() {
    for (name, now) in [("ufm.example.org", BEGIN), ("UFM.example.org", END), ("ufm.example.org", BEGIN + 1000)] {
        check(OPENSSL, &openssl(), name, now).unwrap();
    }
}

#[test]
fn a_given_certificate_is_still_held_to_its_name_and_its_dates() {
    let refused = |name, now| match check(OPENSSL, &openssl(), name, now) {
        Err(Error::InvalidCertificate(why)) => why,
        other => panic!("{other:?}"),
    };
    for name in ["example.org", "xufm.example.org", "ufm.example.org.evil.example", "127.0.0.1", "::1"] {
        assert_eq!(refused(name, BEGIN), CertificateError::NotValidForName, "{name}");
    }
    assert_eq!(refused("ufm.example.org", BEGIN - 1), CertificateError::NotValidYet);
    assert_eq!(refused("ufm.example.org", END + 1), CertificateError::Expired);
}

#[test]
fn only_the_very_bytes_that_were_given_are_believed() {
    assert!(check("", &openssl(), "ufm.example.org", BEGIN).is_err());
    let whole = openssl();
    for at in 0..whole.len() {
        let mut other = whole.to_vec();
        other[at] ^= 1;
        assert!(check(OPENSSL, &other.into(), "ufm.example.org", BEGIN).is_err(), "{at}");
    }
}

#[test]
fn whatever_is_cut_off_is_no_certificate_and_no_panic() {
    let whole = openssl();
    assert!(Certificate::read(&whole).is_some());
    for end in 0..whole.len() {
        assert_eq!(Certificate::read(&whole[..end]), None, "{end}");
    }
}
