//! Which of the clients that an authority signed may use the extender: those with one of these names.
//!
//! An authority signs for many. That of a cluster signs every kubelet and every administrator, and none of them may bind pods
//! because of it. So the name counts, as the API server reads it: the common name is the user, organisations are its groups.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use topoloom_core::seldom::Seldom;
use topoloom_core::text;

use crate::metrics::{BindMetrics, RefusedClient};

/// Longest name of a stranger in a line of the log.
const SHOWN: usize = 120;

/// The clients that the extender serves, and what it logs about all others.
pub struct Clients {
    names: Arc<[Box<str>]>,
    metrics: BindMetrics,
    line: Seldom,
}

impl Clients {
    /// Those with one of these names.
    #[must_use]
    pub fn new(names: Arc<[Box<str>]>, metrics: BindMetrics) -> Arc<Self> {
        Arc::new(Self { names, metrics, line: Seldom::default() })
    }

    /// A verifier that asks for the name after this one has found the certificate to be good.
    #[must_use]
    pub fn verifier(self: &Arc<Self>, certificates: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
        Arc::new(NamedClients { certificates, clients: Arc::clone(self) })
    }

    fn refused(&self, why: RefusedClient, subject: &CertificateSubject, more: &str) {
        self.metrics.refused(why);
        if let Some(times) = self.line.due(Instant::now()) {
            let client = text::line(&subject.to_string(), SHOWN);
            tracing::warn!(
                client, times, reason = why.word(), names = ?self.names,
                "a client of the extender was refused: {more}"
            );
        }
    }
}

struct NamedClients {
    certificates: Arc<dyn ClientCertVerifier>,
    clients: Arc<Clients>,
}

impl fmt::Debug for NamedClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedClients").field(&self.clients.names).finish()
    }
}

impl ClientCertVerifier for NamedClients {
    fn offer_client_auth(&self) -> bool {
        self.certificates.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.certificates.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.certificates.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let subject = CertificateSubject::of(end_entity);
        let verified = self.certificates.verify_client_cert(end_entity, intermediates, now).inspect_err(|error| {
            self.clients.refused(RefusedClient::Certificate, &subject, &error.to_string());
        })?;
        if subject.has_one_of(&self.clients.names) {
            return Ok(verified);
        }
        self.clients.refused(
            RefusedClient::Name,
            &subject,
            "neither its name nor its organisation is in --extender-client-names",
        );
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.certificates.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.certificates.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.certificates.supported_verify_schemes()
    }
}

/// The names in the subject of a certificate that count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CertificateSubject {
    common: Vec<String>,
    organisations: Vec<String>,
}

impl CertificateSubject {
    /// Of a certificate. One that cannot be read has no names.
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut store = RootCertStore::empty();
        // An anchor is nothing but the parts of a certificate; no client is trusted because of this one.
        let _ = store.add(certificate.clone().into_owned());
        store.roots.first().and_then(|anchor| Self::read(&anchor.subject)).unwrap_or_default()
    }

    /// Of the inside of a name in DER: sets of pairs of a kind and a text.
    fn read(mut name: &[u8]) -> Option<Self> {
        const COMMON: &[u8] = &[0x55, 0x04, 0x03];
        const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];
        let mut subject = Self::default();
        while !name.is_empty() {
            let mut set = take(&mut name, SET)?;
            while !set.is_empty() {
                let mut pair = take(&mut set, SEQUENCE)?;
                let kind = take(&mut pair, OBJECT)?;
                let (tag, value) = element(&mut pair)?;
                // Others than these are of another alphabet, and names of Kubernetes are not written in them.
                let text = [UTF8, PRINTABLE, IA5].contains(&tag).then(|| std::str::from_utf8(value).ok()).flatten();
                match text {
                    Some(text) if kind == COMMON => subject.common.push(text.to_owned()),
                    Some(text) if kind == ORGANISATION => subject.organisations.push(text.to_owned()),
                    _ => {}
                }
            }
        }
        Some(subject)
    }

    fn has_one_of(&self, names: &[Box<str>]) -> bool {
        // With several common names it is not clear whose certificate it is.
        let user = self.common.first().filter(|_| self.common.len() == 1);
        user.into_iter().chain(&self.organisations).any(|name| names.iter().any(|wanted| **wanted == **name))
    }
}

impl fmt::Display for CertificateSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.common.is_empty() && self.organisations.is_empty() {
            return f.write_str("a certificate without a name");
        }
        let of = |kind: &'static str| move |name: &String| format!("{kind}={name}");
        let all: Vec<String> = self.common.iter().map(of("CN")).chain(self.organisations.iter().map(of("O"))).collect();
        f.write_str(&all.join(","))
    }
}

const OBJECT: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const IA5: u8 = 0x16;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// The next element, if it has this tag.
fn take<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    element(bytes).filter(|(found, _)| *found == tag).map(|(_, value)| value)
}

/// The next element: its tag and its value.
fn element<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long & 0x7f).filter(|(digits, _)| digits.len() <= 4)?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some((*tag, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(tag: u8, value: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(value.len()).unwrap()], value].concat()
    }

    fn part(kind: u8, tag: u8, text: &str) -> Vec<u8> {
        let pair = [tagged(OBJECT, &[0x55, 0x04, kind]), tagged(tag, text.as_bytes())].concat();
        tagged(SET, &tagged(SEQUENCE, &pair))
    }

    fn admits(name: &[u8]) -> bool {
        let names: [Box<str>; 1] = ["system:kube-scheduler".into()];
        CertificateSubject::read(name).unwrap_or_default().has_one_of(&names)
    }

    #[test]
    fn the_common_name_or_an_organisation_is_one_of_the_names_and_nothing_else_is() {
        let common = |text: &str| part(3, UTF8, text);
        let organisation = |text: &str| part(10, PRINTABLE, text);
        let wanted = "system:kube-scheduler";
        assert!(admits(&common(wanted)) && admits(&organisation(wanted)));
        assert!(admits(&[organisation("system:masters"), common(wanted)].concat()));
        assert!(!admits(&[organisation("system:nodes"), common("system:node:gpu-1")].concat()));
        for other in ["System:kube-scheduler", "system:kube-scheduler ", "system:kube-scheduler2", ""] {
            assert!(!admits(&common(other)), "{other:?}");
        }
        assert!(!admits(&part(11, UTF8, wanted)), "an organisational unit");
        assert!(!admits(&part(3, 0x1e, wanted)), "another alphabet");
        assert!(!admits(&[common("me"), common(wanted)].concat()), "two common names");
        assert!(!admits(&[]));
        let said =
            CertificateSubject::read(&[organisation("system:nodes"), common("system:node:gpu-1")].concat()).unwrap();
        assert_eq!(said.to_string(), "CN=system:node:gpu-1,O=system:nodes");
    }

    #[test]
    fn a_client_that_is_refused_is_counted_by_its_reason() {
        let mut registry = prometheus_client::registry::Registry::default();
        let clients = Clients::new(Arc::default(), BindMetrics::register(&mut registry));
        for why in RefusedClient::ALL {
            clients.refused(why, &CertificateSubject::default(), "no");
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for why in RefusedClient::ALL {
            let line = format!("extender_refused_clients_total{{reason=\"{}\"}} 1", why.word());
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn a_length_has_up_to_four_bytes() {
        for long in 1..=5_u8 {
            let zeros = vec![0; usize::from(long) - 1];
            let bytes = [&[UTF8, 0x80 | long], &*zeros, &[2], b"abc"].concat();
            let mut rest = &*bytes;
            let found = element(&mut rest);
            match long {
                1..=4 => assert_eq!((found, rest), (Some((UTF8, &b"ab"[..])), &b"c"[..]), "{long}"),
                _ => assert_eq!(found, None, "{long}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_stands_in_a_certificate_is_read_or_has_no_name(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = CertificateSubject::read(&bytes);
            assert_eq!(CertificateSubject::of(&CertificateDer::from(bytes)), CertificateSubject::default());
        }
    }
}
