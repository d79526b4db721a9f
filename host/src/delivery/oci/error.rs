//! Why a registry gives no plugin, in words for the operator who has to do something about it.
//!
//! An error says what was asked, without the query, what came, and with which credentials: by the name of the Secret or of the
//! file, never by their content. Of what a registry writes, only the code of its error is shown, which is a word of a
//! specification.

use std::fmt;
use std::time::Duration;

use topoloom_api::condition::Reason;
use topoloom_core::plugin::Limit;
use topoloom_core::text;

use crate::delivery::Offer;

/// The longest address of a request in an error, in bytes.
const ASKED: usize = 500;

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The registry does not answer, or not now.
    Away,
    /// It does not accept the credentials, or wants some.
    Refused,
    /// It has no such artifact.
    Missing,
    /// Credentials or authorities cannot be read.
    Credentials,
    /// This host may not pull from there.
    NotAllowed,
    /// The bytes are not those that the manifest names.
    Mismatch,
    /// The artifact is no plugin.
    Invalid,
    /// It is larger than any entry may allow.
    Beyond(Limit),
}

/// Why there is no plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciError {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// When the registry wants to be asked again, if it says so.
    pub after: Option<Duration>,
    /// A layer was on its way: asking again costs as much once more.
    is_costly: bool,
    asked: Option<String>,
    came: String,
    with: Option<String>,
}

impl OciError {
    /// Before anything was asked, or about what came.
    pub(super) fn new(trouble: Trouble, came: impl Into<String>) -> Self {
        Self { trouble, after: None, is_costly: false, asked: None, came: came.into(), with: None }
    }

    /// The answer to this request.
    pub(super) fn asked(self, method: &http::Method, uri: &http::Uri) -> Self {
        Self { asked: Some(asked(method, uri)), ..self }
    }

    /// The same with another sentence about what came.
    pub(super) fn came(self, came: impl Into<String>) -> Self {
        Self { came: came.into(), ..self }
    }

    /// The same as another kind of trouble.
    pub(super) fn of(self, trouble: Trouble) -> Self {
        Self { trouble, ..self }
    }

    /// With these credentials.
    pub(super) fn with(self, with: Option<String>) -> Self {
        Self { with, ..self }
    }

    /// To be asked again after that.
    pub(super) fn after(self, after: Option<Duration>) -> Self {
        Self { after, ..self }
    }

    /// The same about a layer that was on its way.
    pub(super) fn costly(self) -> Self {
        Self { is_costly: true, ..self }
    }

    /// Whether a layer was on its way.
    pub(super) const fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// Whether a look without any change may do better.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self.trouble, Trouble::Away)
    }

    /// The word for conditions.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self.trouble {
            Trouble::Away => Reason::Upstream,
            Trouble::Refused => Reason::Unauthorized,
            Trouble::Missing => Reason::PluginNotFound,
            Trouble::Credentials => Reason::CredentialsMissing,
            Trouble::NotAllowed => Reason::PermissionDenied,
            Trouble::Mismatch => Reason::DigestMismatch,
            Trouble::Invalid | Trouble::Beyond(_) => Reason::PluginInvalid,
        }
    }

    /// What the place has to offer instead of a module. `place` names it in sentences.
    #[must_use]
    pub fn offer(&self, place: &str) -> Offer {
        let message = format!("{place}: {self}");
        match self.trouble {
            Trouble::Beyond(limit) => Offer::Beyond(limit, message),
            _ => Offer::Nothing(self.reason(), message),
        }
    }
}

impl fmt::Display for OciError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.asked.iter().try_for_each(|asked| write!(f, "{asked}: "))?;
        f.write_str(&self.came)?;
        self.with.iter().try_for_each(|with| write!(f, ", {with}"))
    }
}

impl std::error::Error for OciError {}

/// A request in words. A query may be a signature, and is left out.
pub(super) fn asked(method: &http::Method, uri: &http::Uri) -> String {
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let whole = format!("{method} {}://{authority}{}", uri.scheme_str().unwrap_or("https"), uri.path());
    text::line(&whole, ASKED)
}

/// The code of a registry's error, if it is one of the words that registries use.
pub(super) fn code(body: &[u8]) -> Option<String> {
    let read: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = read.pointer("/errors/0/code")?.as_str()?;
    let is_word = (1..=40).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_word.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_asked_without_the_query_what_came_and_with_what() {
        let uri: http::Uri = "https://r.example/v2/a/blobs/x?sig=canary".parse().unwrap();
        let error = OciError::new(Trouble::Refused, "403 Forbidden")
            .asked(&http::Method::GET, &uri)
            .with(Some("with the credentials of the Secret conf/pull".to_owned()));
        assert_eq!(
            error.to_string(),
            "GET https://r.example/v2/a/blobs/x: 403 Forbidden, with the credentials of the Secret conf/pull"
        );
        let offer = error.offer("plugin.oci oci://r.example/a:1");
        let (reason, message) = offer.trouble().unwrap();
        assert_eq!(reason, Reason::Unauthorized);
        assert!(message.starts_with("plugin.oci oci://r.example/a:1: GET https://"), "{message}");
    }

    #[test]
    fn of_what_a_registry_writes_only_a_code_is_shown() {
        let body = |code: &str| format!(r#"{{"errors": [{{"code": "{code}", "message": "canary"}}]}}"#);
        assert_eq!(code(body("MANIFEST_UNKNOWN").as_bytes()).as_deref(), Some("MANIFEST_UNKNOWN"));
        for odd in ["", "Log in at http://canary", "lower", &"A".repeat(41)] {
            assert_eq!(code(body(odd).as_bytes()), None, "{odd}");
        }
        for odd in ["", "[]", "{}", "<html>", r#"{"errors": []}"#, r#"{"errors": [{"code": 1}]}"#] {
            assert_eq!(code(odd.as_bytes()), None, "{odd}");
        }
    }
}
