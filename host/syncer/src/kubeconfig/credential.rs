//! The user of a kubeconfig: a token, a client certificate with its key, or both, and when they end.
//!
//! The end is read and not judged: an API server may use another clock, and a token that is no JWT does not say its end.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube::client::ConfigExt as _;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use topoloom_cluster::client::chain;

use super::document::Section;
use super::error::{KubeconfigError, shown, shown_path};
use super::server::{certificates, packed};

const ALLOWED: &str = "allowed are token, or client-certificate-data with client-key-data";
const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";
const TOKEN: &str = "token";

/// What the fields that are refused would do, and how much of their value an error shows.
const REFUSED: [(&str, &str, Show); 11] = [
    ("exec", "no program is run for a credential", Show::Inner("command")),
    ("auth-provider", "no plugin is run for a credential", Show::Inner("name")),
    ("client-certificate", "no file of this host is read", Show::Path),
    ("client-key", "no file of this host is read", Show::Path),
    ("tokenFile", "no file of this host is read", Show::Path),
    ("username", "Kubernetes has no basic authentication any more", Show::Text),
    ("password", "Kubernetes has no basic authentication any more", Show::Nothing),
    ("as", "no other user is impersonated", Show::Text),
    ("as-uid", "no other user is impersonated", Show::Text),
    ("as-groups", "no other user is impersonated", Show::Nothing),
    ("as-user-extra", "no other user is impersonated", Show::Nothing),
];

/// How much of a refused value is shown.
enum Show {
    Text,
    Path,
    /// The text of this field inside of it.
    Inner(&'static str),
    Nothing,
}

/// From so long before its end a credential is said to end soon.
pub const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialKind {
    /// A certificate of the client, with its key.
    ClientCertificate,
    /// A bearer token.
    Token,
}

impl CredentialKind {
    /// The field of a kubeconfig that has it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::ClientCertificate => CERTIFICATE,
            Self::Token => TOKEN,
        }
    }
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientCertificate => "client certificate",
            Self::Token => "token",
        })
    }
}

/// When a credential ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CredentialEnd {
    /// What ends.
    pub kind: CredentialKind,
    /// When.
    pub at: Timestamp,
}

/// How far the end of a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Further than [`SOON`].
    Later,
    /// Within [`SOON`].
    Soon {
        /// How long it is still valid.
        left: SignedDuration,
    },
    /// It has ended.
    Past,
}

impl CredentialEnd {
    /// How far it is.
    #[must_use]
    pub fn ending(&self, now: Timestamp) -> Ending {
        match self.at.duration_since(now) {
            left if left <= SignedDuration::ZERO => Ending::Past,
            left if left <= SOON => Ending::Soon { left },
            _ => Ending::Later,
        }
    }
}

impl fmt::Display for CredentialEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of the kubeconfig ends at {}", self.kind, self.at)
    }
}

/// What a kubeconfig says about its user.
pub(super) struct Credential {
    pub(super) token: Option<String>,
    pub(super) identity: Option<Identity>,
}

/// A client certificate and its key, both PEM in base64.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
    /// The end of the first certificate to end; nothing where that is "never".
    end: Option<Timestamp>,
}

pub(super) fn judge(user: &Section<'_>) -> Result<Credential, KubeconfigError> {
    for (field, problem, show) in &REFUSED {
        let Some(value) = user.value(field) else { continue };
        let value = match show {
            Show::Text => value.as_str().map(shown),
            Show::Path => value.as_str().and_then(shown_path),
            Show::Inner(inner) => value.get(inner).and_then(Value::as_str).map(shown),
            Show::Nothing => None,
        };
        return Err(user.wrong(field, value, (*problem).to_owned(), ALLOWED));
    }
    let mut known = vec![TOKEN, CERTIFICATE, KEY, "extensions"];
    known.extend(REFUSED.iter().map(|(field, ..)| *field));
    user.only(&known, ALLOWED)?;
    let (token, identity) = (token(user)?, identity(user)?);
    if token.is_none() && identity.is_none() {
        return Err(user.wrong(TOKEN, None, "it is missing, and there is no other credential".to_owned(), ALLOWED));
    }
    Ok(Credential { token, identity })
}

fn token(user: &Section<'_>) -> Result<Option<String>, KubeconfigError> {
    let Some(token) = user.text(TOKEN)? else { return Ok(None) };
    if token.contains(char::is_whitespace) || HeaderValue::from_str(token).is_err() || !token.is_ascii() {
        let problem = "it has a character that cannot be in a token, perhaps the end of a line".to_owned();
        return Err(user.wrong(TOKEN, None, problem, "allowed are visible ASCII characters without spaces"));
    }
    Ok(Some(token.to_owned()))
}

fn identity(user: &Section<'_>) -> Result<Option<Identity>, KubeconfigError> {
    const ALLOWED_CERTIFICATE: &str = "allowed is a certificate in PEM, in base64, with those that signed it behind it";
    const ALLOWED_KEY: &str = "allowed is a private key in PEM (PKCS#8, PKCS#1 or SEC1), in base64";
    let (certificate, key) = match (user.text(CERTIFICATE)?, user.text(KEY)?) {
        (Some(certificate), Some(key)) => (packed(certificate), packed(key)),
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(user.wrong(KEY, None, "it is missing".to_owned(), ALLOWED)),
        (None, Some(_)) => return Err(user.wrong(CERTIFICATE, None, "it is missing".to_owned(), ALLOWED)),
    };
    let pem = |text: &str, field, allowed| {
        STANDARD.decode(text).map_err(|_| user.wrong(field, None, "it is no base64".to_owned(), allowed))
    };
    let wrong = |problem: &str| user.wrong(CERTIFICATE, None, problem.to_owned(), ALLOWED_CERTIFICATE);
    let found = certificates(&pem(&certificate, CERTIFICATE, ALLOWED_CERTIFICATE)?)
        .ok_or_else(|| wrong("it holds something that is no certificate in PEM"))?;
    let end = found.iter().map(|(_, read)| read.not_after).min().ok_or_else(|| wrong("it holds no certificate"))?;
    let mut text = pem(&key, KEY, ALLOWED_KEY)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| user.wrong(KEY, None, "it holds no private key in PEM".to_owned(), ALLOWED_KEY))?;
    let key = if text.ends_with(b"\n") {
        key
    } else {
        // The client writes the certificate right behind the key: the end of one and the begin of the other would be one line.
        text.push(b'\n');
        STANDARD.encode(&text)
    };
    // The last second of 9999 means "never", and is no timestamp.
    let end = i64::try_from(end).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    Ok(Some(Identity { certificate, key, end }))
}

/// Whether the TLS library would use the certificate with the key.
pub(super) fn check_pair(config: &kube::Config, user: &Section<'_>) -> Result<(), KubeconfigError> {
    if config.auth_info.client_certificate_data.is_none() {
        return Ok(());
    }
    let mut config = config.clone();
    // Otherwise the authorities of this machine would be read, only to be thrown away.
    config.root_cert = Some(Vec::new());
    config.rustls_client_config().map(drop).map_err(|error| {
        // The library's sentences name kinds of errors, and no key.
        let problem = format!("it cannot be used with the certificate: {}", shown(&chain(&error)));
        user.wrong(KEY, None, problem, "allowed is the key that belongs to client-certificate-data")
    })
}

impl Credential {
    pub(super) fn kinds(&self) -> Vec<CredentialKind> {
        let certificate = self.identity.as_ref().map(|_| CredentialKind::ClientCertificate);
        certificate.into_iter().chain(self.token.as_ref().map(|_| CredentialKind::Token)).collect()
    }

    pub(super) fn end(&self) -> Option<CredentialEnd> {
        let certificate = self.identity.as_ref().and_then(|identity| identity.end);
        let certificate = certificate.map(|at| CredentialEnd { kind: CredentialKind::ClientCertificate, at });
        let token = self.token.as_deref().and_then(end_of_token);
        let token = token.map(|at| CredentialEnd { kind: CredentialKind::Token, at });
        certificate.into_iter().chain(token).min_by_key(|end| end.at)
    }
}

/// The claim `exp` of a JWT (RFC 7519, 4.1.4); nothing where the token is no JWT or has none. Nothing is verified: only the server
/// can.
fn end_of_token(token: &str) -> Option<Timestamp> {
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let exp = claims.get("exp")?;
    let seconds = exp.as_i64().or_else(|| {
        let seconds = exp.as_f64().filter(|seconds| seconds.abs() < 1e15)?;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "bounded by the line above, and a part of a second is no matter"
        )]
        Some(seconds as i64)
    })?;
    Timestamp::from_second(seconds).ok()
}
