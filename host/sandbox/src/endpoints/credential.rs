//! What a Secret holds, and what of it a request carries. Nothing in here can be printed: `Debug` shows kinds and names
//! of keys, and errors name keys, never values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use http::HeaderValue;
use topoloom_core::plugin::CredentialKind;
use zeroize::Zeroizing;

/// The keys that count, by Kubernetes' own types of Secrets where these have them.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITY: &str = "ca.crt";

/// The longest value that is looked for in answers has at least so many bytes: shorter ones occur by chance.
const RECOGNISABLE: usize = 12;

/// Bytes that are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Zeroizing<Vec<u8>>);

impl Hidden {
    /// Hides them.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for what sends them.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// The content of a Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Material(BTreeMap<String, Hidden>);

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Material {
    /// The keys of a Secret that mean something here.
    pub const KEYS: [&str; 6] = [USERNAME, PASSWORD, TOKEN, CERTIFICATE, KEY, AUTHORITY];

    /// Of the keys of a Secret or of files with those names. Keys that mean nothing here are not kept.
    pub fn new(data: impl IntoIterator<Item = (String, Hidden)>) -> Self {
        Self(data.into_iter().filter(|(key, _)| Self::KEYS.contains(&key.as_str())).collect())
    }

    /// A bare token, as some configurations carry it.
    #[must_use]
    pub fn token(token: String) -> Self {
        Self([(TOKEN.to_owned(), Hidden::new(token.into_bytes()))].into())
    }

    /// Certificates that sign the endpoint's, if the Secret brings them.
    #[must_use]
    pub fn authority(&self) -> Option<&[u8]> {
        self.given(AUTHORITY).map(Hidden::reveal)
    }

    /// A value that is there and not empty. The line break that editors and `echo` leave at the end of one is no part
    /// of it.
    fn given(&self, key: &str) -> Option<&Hidden> {
        self.0.get(key).filter(|value| !trimmed(value.reveal()).is_empty())
    }

    /// Whether it serves a kind of credential.
    fn serves(&self, kind: CredentialKind) -> bool {
        let has = |keys: &[&str]| keys.iter().all(|key| self.given(key).is_some());
        match kind {
            CredentialKind::None => true,
            CredentialKind::Basic => has(&[USERNAME, PASSWORD]),
            CredentialKind::Token | CredentialKind::Bearer => has(&[TOKEN]),
            CredentialKind::Mtls => has(&[CERTIFICATE, KEY]),
        }
    }

    /// The first of these kinds that it serves.
    ///
    /// # Errors
    /// Which keys are missing.
    pub fn credential(&self, kinds: &[CredentialKind]) -> Result<Credential, String> {
        let Some(kind) = kinds.iter().copied().find(|kind| self.serves(*kind)) else {
            let wanted = kinds.iter().map(|kind| keys(*kind)).collect::<Vec<_>>().join(", or ");
            return Err(format!("it needs the {wanted}"));
        };
        let value = |key| self.given(key).map(|value| trimmed(value.reveal())).unwrap_or_default();
        let headed = |scheme: &str, content: &[u8]| {
            let text = Zeroizing::new([scheme.as_bytes(), b" ", content].concat());
            let header = HeaderValue::from_bytes(&text);
            header.map(Sent::header).map_err(|_| "a value has a line break or a control character in it".to_owned())
        };
        let sent = match kind {
            CredentialKind::None => Sent::default(),
            CredentialKind::Basic => {
                if value(USERNAME).contains(&b':') {
                    return Err("its username has a colon, which Basic authentication cannot carry".to_owned());
                }
                let pair = Zeroizing::new([value(USERNAME), b":", value(PASSWORD)].concat());
                let sent = Zeroizing::new(STANDARD.encode(&*pair));
                headed("Basic", sent.as_bytes())?.recognised_by([value(PASSWORD), &pair])
            }
            CredentialKind::Token => headed("Basic", value(TOKEN))?.recognised_by([value(TOKEN)]),
            CredentialKind::Bearer => headed("Bearer", value(TOKEN))?.recognised_by([value(TOKEN)]),
            CredentialKind::Mtls => {
                let identity = ClientIdentity {
                    certificates: Hidden::new(value(CERTIFICATE).to_vec()),
                    key: Hidden::new(value(KEY).to_vec()),
                };
                Sent { identity: Some(identity), ..Sent::default() }
            }
        };
        Ok(Credential { kind, sent: Arc::new(sent) })
    }
}

/// The text between the quotes of JSON.
fn json_form(value: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(value);
    let quoted = serde_json::Value::from(text.as_ref()).to_string().into_bytes();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_vec()
}

/// The text in a URL.
fn url_form(value: &[u8]) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encode = |byte: &u8| if is_plain(*byte) { vec![*byte] } else { format!("%{byte:02X}").into_bytes() };
    value.iter().flat_map(encode).collect()
}

/// The text in base64, up to where what follows it or fills it up would show.
fn base64_form(value: &[u8], alphabet: &GeneralPurpose) -> Vec<u8> {
    let whole = value.len() - value.len() % 3;
    alphabet.encode(value.get(..whole).unwrap_or_default()).into_bytes()
}

/// In words, for a person who writes a Secret.
fn keys(kind: CredentialKind) -> &'static str {
    match kind {
        CredentialKind::None => "nothing",
        CredentialKind::Basic => "keys `username` and `password`",
        CredentialKind::Token | CredentialKind::Bearer => "key `token`",
        CredentialKind::Mtls => "keys `tls.crt` and `tls.key`",
    }
}

fn trimmed(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
    value.get(..end).unwrap_or_default()
}

/// A client certificate with its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate and those that lead to its authority.
    pub certificates: Hidden,
    /// Its private key.
    pub key: Hidden,
}

/// What requests carry.
#[derive(Debug, Clone)]
pub struct Credential {
    /// Which kind it is: all that a plugin may know.
    pub kind: CredentialKind,
    sent: Arc<Sent>,
}

#[derive(Default)]
struct Sent {
    header: Option<HeaderValue>,
    identity: Option<ClientIdentity>,
    marks: Vec<Hidden>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Sent {
    fn header(mut header: HeaderValue) -> Self {
        header.set_sensitive(true);
        Self { header: Some(header), ..Self::default() }
    }

    fn recognised_by<'a>(mut self, marks: impl IntoIterator<Item = &'a [u8]>) -> Self {
        for mark in marks.into_iter().filter(|mark| mark.len() >= RECOGNISABLE) {
            self.marks.push(Hidden::new(mark.to_vec()));
            // As JSON, URLs and base64 would carry it, where that differs.
            for form in [json_form(mark), url_form(mark), base64_form(mark, &STANDARD), base64_form(mark, &URL_SAFE)] {
                if self.marks.iter().all(|known| known.reveal() != form) {
                    self.marks.push(Hidden::new(form));
                }
            }
        }
        self
    }
}

impl Credential {
    /// None at all.
    #[must_use]
    pub fn none() -> Self {
        Self { kind: CredentialKind::None, sent: Arc::default() }
    }

    /// The value of `Authorization`, if the kind has one.
    #[must_use]
    pub fn authorization(&self) -> Option<HeaderValue> {
        self.sent.header.clone()
    }

    /// What the connection proves itself with.
    #[must_use]
    pub fn identity(&self) -> Option<&ClientIdentity> {
        self.sent.identity.as_ref()
    }

    /// What must never be in an answer: a server that repeats it would pass it to the plugin.
    #[must_use]
    pub fn marks(&self) -> &[Hidden] {
        &self.sent.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CredentialKind::{Basic, Bearer, Mtls, None, Token};

    fn material(data: &[(&str, &str)]) -> Material {
        Material::new(data.iter().map(|(key, value)| ((*key).to_owned(), Hidden::new(value.as_bytes().to_vec()))))
    }

    fn header(data: &[(&str, &str)], kinds: &[CredentialKind]) -> String {
        let credential = material(data).credential(kinds).unwrap();
        credential.authorization().map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    #[test]
    fn each_kind_has_its_form() {
        let pair = [("username", "admin"), ("password", "s3cret\n")];
        assert_eq!(header(&pair, &[Basic]), "Basic YWRtaW46czNjcmV0");
        assert_eq!(header(&[("token", "abc\r\n")], &[Token]), "Basic abc", "the literal word and the bare token");
        assert_eq!(header(&[("token", "abc")], &[Bearer]), "Bearer abc");
        assert_eq!(header(&[("tls.crt", "c"), ("tls.key", "k")], &[Mtls]), "");
        assert_eq!(header(&[], &[None]), "");
    }

    #[test]
    fn the_first_kind_that_fits_is_taken() {
        let all = [("username", "u"), ("password", "p"), ("token", "t"), ("tls.crt", "c"), ("tls.key", "k")];
        let kind = |data: &[(&str, &str)]| material(data).credential(&[Token, Mtls, Basic]).map(|found| found.kind);
        assert_eq!(kind(&all), Ok(Token));
        assert_eq!(kind(&all[..2]), Ok(Basic));
        assert_eq!(kind(&all[3..]), Ok(Mtls));
        assert_eq!(
            kind(&[("username", "u"), ("password", "\n")]),
            Err("it needs the key `token`, or keys `tls.crt` and `tls.key`, or keys `username` and `password`"
                .to_owned())
        );
    }

    #[test]
    fn values_that_no_header_can_carry_are_refused_without_being_shown() {
        let broken = material(&[("token", "canary\r\nHost: evil")]).credential(&[Token]).unwrap_err();
        assert!(!broken.contains("canary"), "{broken}");
        let colon = material(&[("username", "canary:x"), ("password", "p")]).credential(&[Basic]).unwrap_err();
        assert!(!colon.contains("canary"), "{colon}");
    }

    #[test]
    fn nothing_in_here_can_be_printed() {
        let material = material(&[("username", "canary-u"), ("password", "canary-password"), ("other", "canary")]);
        let credential = material.credential(&[Basic]).unwrap();
        let shown = format!("{material:?} {credential:?} {:?} {:?}", credential.authorization(), credential.marks());
        assert!(!shown.contains("canary") && !shown.contains("Y2FuYXJ5"), "{shown}");
        assert_eq!(format!("{material:?}"), "{\"password\", \"username\"}");
    }
}
