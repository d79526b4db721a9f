//! Who asks: the holder of a client certificate.
//!
//! Owns the reading of a certificate as API servers read it: the common name is the user, organizations are its groups. The
//! certificate is checked again for each request, against the authorities of that moment: a connection lives for hours, and its
//! certificate may have ended, or its authority may have been replaced.
//!
//! What goes wrong: a certificate has no name, or two. Its caller is answered as one without a certificate, and is never an anonymous
//! user.

use std::fmt;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use topoloom_core::certificate::Subject;

/// The group of every user that has proved who it is.
const AUTHENTICATED: &str = "system:authenticated";

/// A caller that has proved who it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    /// The user.
    pub(super) user: String,
    /// Its groups, in their order.
    pub(super) groups: Vec<String>,
}

/// Why it is not known who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoCaller {
    /// The client has shown no certificate.
    NoCertificate,
    /// No authority that is trusted now has signed it, or it is not valid now.
    Untrusted(String),
    /// It names no user, or more than one.
    Nameless,
}

impl Caller {
    /// The holder of the first of these certificates; the others lead to its authority.
    ///
    /// # Errors
    /// Why it is not known who that is.
    pub(super) fn of(
        certificates: &[CertificateDer<'static>],
        trust: &dyn ClientCertVerifier,
        now: UnixTime,
    ) -> Result<Self, NoCaller> {
        let (own, others) = certificates.split_first().ok_or(NoCaller::NoCertificate)?;
        trust.verify_client_cert(own, others, now).map_err(|error| NoCaller::Untrusted(error.to_string()))?;
        let subject = Subject::read(own).ok_or(NoCaller::Nameless)?;
        let Ok([user]) = <[String; 1]>::try_from(subject.common_names) else { return Err(NoCaller::Nameless) };
        if user.is_empty() {
            return Err(NoCaller::Nameless);
        }
        let mut groups = subject.organizations;
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Ok(Self { user, groups })
    }
}

impl fmt::Display for NoCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate => f.write_str("a client certificate is needed, and none was shown"),
            Self::Untrusted(why) => write!(f, "the client certificate is not trusted: {why}"),
            Self::Nameless => f.write_str("the client certificate names no user: its subject needs one common name"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kubelet::tests::authority::{Authority, verifier};

    /// The year 2030.
    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(1_893_456_000))
    }

    #[test]
    fn s26_a_certificate_is_a_user_with_its_groups() {
        let authority = Authority::new();
        let trust = verifier(&authority);
        let of = |names: &[&str], groups: &[&str]| Caller::of(&[authority.client(names, groups).der], &*trust, now());
        let known = of(&["system:node:w1"], &["system:nodes"]).unwrap();
        assert_eq!(
            (known.user.as_str(), known.groups.join(",")),
            ("system:node:w1", "system:nodes,system:authenticated".into())
        );
        let known = of(&["a"], &["system:authenticated"]).unwrap();
        assert_eq!(known.groups, ["system:authenticated"]);
        assert_eq!(of(&[], &["system:masters"]), Err(NoCaller::Nameless));
        assert_eq!(of(&[""], &["system:masters"]), Err(NoCaller::Nameless));
        assert_eq!(of(&["a", "b"], &["system:masters"]), Err(NoCaller::Nameless), "two names");
        let other = authority.client_with_teletex("a", "b");
        assert_eq!(Caller::of(&[other.der], &*trust, now()), Err(NoCaller::Nameless), "an API server would read b");
    }

    #[test]
    fn s26_a_certificate_for_servers_is_no_caller() {
        let authority = Authority::new();
        let answer = Caller::of(&[authority.server().der], &*verifier(&authority), now());
        assert!(matches!(answer, Err(NoCaller::Untrusted(_))), "{answer:?}");
    }

    #[test]
    fn s26_a_certificate_is_checked_at_the_time_of_the_request_against_the_authorities_of_that_time() {
        let (authority, other) = (Authority::new(), Authority::new());
        let own = [authority.client(&["a"], &[]).der];
        assert!(Caller::of(&own, &*verifier(&authority), now()).is_ok());
        assert_eq!(Caller::of(&[], &*verifier(&authority), now()), Err(NoCaller::NoCertificate));
        let untrusted = |answer: Result<Caller, NoCaller>| matches!(answer, Err(NoCaller::Untrusted(_)));
        assert!(untrusted(Caller::of(&own, &*verifier(&other), now())));
        // It ends with the year 2098.
        let later = UnixTime::since_unix_epoch(Duration::from_secs(4_102_444_800));
        assert!(untrusted(Caller::of(&own, &*verifier(&authority), later)));
    }
}
