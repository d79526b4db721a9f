//! What a registry wants to be shown (RFC 9110, 11.6.1, and the token authentication of Docker's registry), and the answer of a
//! token server. Total: what cannot be read wants nothing that we have.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use serde::Deserialize;

use crate::endpoints::credential::Hidden;

/// How long a token is good that does not say it, by the specification.
const USUAL: u64 = 60;
/// No token is used for longer without asking for another one: whose right was taken away has it for so long at most.
const LONGEST: u64 = 3600;

/// One way to prove who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Challenge {
    /// `bearer`, `basic` or another word, in lower case.
    scheme: String,
    parameters: BTreeMap<String, String>,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A token of this server.
    Token {
        /// Its URL.
        realm: String,
        /// The registry, as the token server knows it.
        service: Option<String>,
        /// What the token has to allow.
        scope: Option<String>,
    },
    /// A name and a password.
    Password,
    /// Something else: the names of it.
    Other(String),
}

/// What an answer wants: a token, before a password.
pub(super) fn wanted(headers: &HeaderMap) -> Wanted {
    let texts = headers.get_all(WWW_AUTHENTICATE).into_iter().filter_map(|value| value.to_str().ok());
    let challenges: Vec<Challenge> = texts.flat_map(challenges).collect();
    let of = |scheme: &str| challenges.iter().find(|challenge| challenge.scheme == scheme);
    let given = |challenge: &Challenge, name: &str| challenge.parameters.get(name).filter(|it| !it.is_empty()).cloned();
    if let Some(bearer) = of("bearer")
        && let Some(realm) = given(bearer, "realm")
    {
        return Wanted::Token { realm, service: given(bearer, "service"), scope: given(bearer, "scope") };
    }
    if of("basic").is_some() {
        return Wanted::Password;
    }
    let names: Vec<&str> = challenges.iter().map(|challenge| challenge.scheme.as_str()).collect();
    Wanted::Other(topoloom_core::text::line(&names.join(", "), 100))
}

/// Every challenge in one header: words, each with parameters behind it.
fn challenges(text: &str) -> Vec<Challenge> {
    const BLANK: [char; 3] = [' ', '\t', ','];
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = text.trim_start_matches(BLANK);
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len()));
        let word = word.to_ascii_lowercase();
        rest = match after.strip_prefix('=') {
            None => {
                found.push(Challenge { scheme: word, parameters: BTreeMap::new() });
                after
            }
            Some(value) => {
                let (value, after) = parameter(value);
                if let Some(challenge) = found.last_mut() {
                    challenge.parameters.insert(word, value);
                }
                after
            }
        };
        rest = rest.trim_start_matches(BLANK);
    }
    found
}

/// A value, with or without quotation marks, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, after) = text.split_at(text.find([' ', '\t', ',']).unwrap_or(text.len()));
        return (value.to_owned(), after);
    };
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            '\\' if !is_escaped => is_escaped = true,
            '"' if !is_escaped => return (value, quoted.get(at + 1..).unwrap_or_default()),
            c => {
                value.push(c);
                is_escaped = false;
            }
        }
    }
    (value, "")
}

/// What a token server gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) token: Hidden,
    /// How long it is good.
    pub(super) lasts: Duration,
}

#[derive(Deserialize)]
struct GivenText {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<serde_json::Value>,
}

/// Reads the answer of a token server.
pub(super) fn given(body: &[u8]) -> Option<Given> {
    let read: GivenText = serde_json::from_slice(body).ok()?;
    let token = read.token.or(read.access_token).filter(|token| !token.is_empty())?;
    let lasts = read.expires_in.as_ref().and_then(serde_json::Value::as_u64).unwrap_or(USUAL).min(LONGEST);
    Some(Given { token: Hidden::new(token.into_bytes()), lasts: Duration::from_secs(lasts) })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn asked(values: &[&str]) -> Wanted {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        wanted(&headers)
    }

    #[test]
    fn a_token_comes_before_a_password_however_they_are_written() {
        let token = |service: Option<&str>, scope: Option<&str>| Wanted::Token {
            realm: "https://auth.example/token".to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        };
        let whole = r#"Bearer realm="https://auth.example/token",service="r",scope="repository:a/b:pull,push""#;
        let both = token(Some("r"), Some("repository:a/b:pull,push"));
        assert_eq!(asked(&[whole]), both);
        assert_eq!(asked(&[r#"Basic realm="x, y=z""#, whole]), both);
        assert_eq!(asked(&[&format!("Basic realm=\"x\", {whole}")]), both);
        assert_eq!(asked(&["bearer REALM=https://auth.example/token , service=\"\""]), token(None, None));
        let escaped = asked(&[r#"Bearer realm="https://auth.example/token",service="a\"b\\""#]);
        assert_eq!(escaped, token(Some(r#"a"b\"#), None));
        assert_eq!(asked(&["Basic realm=\"registry\""]), Wanted::Password);
    }

    #[test]
    fn what_cannot_be_read_wants_nothing_that_we_have() {
        for odd in ["", ",", "=", "==", "Bearer", "Bearer realm=", "Bearer realm=\"", "\"", "Negotiate abc==", "a=b"] {
            assert!(matches!(asked(&[odd]), Wanted::Other(_)), "{odd}");
        }
        assert_eq!(asked(&["Negotiate", "NTLM"]), Wanted::Other("negotiate, ntlm".to_owned()));
        assert_eq!(asked(&[]), Wanted::Other(String::new()));
    }

    #[test]
    fn a_token_lasts_as_long_as_it_says_within_bounds() {
        let lasts = |text: &str| given(text.as_bytes()).map(|given| given.lasts.as_secs());
        assert_eq!(lasts(r#"{"token": "t", "expires_in": 300}"#), Some(300));
        assert_eq!(lasts(r#"{"access_token": "t"}"#), Some(60));
        assert_eq!(lasts(r#"{"token": "t", "expires_in": "soon"}"#), Some(60));
        assert_eq!(lasts(r#"{"token": "t", "expires_in": 99999999}"#), Some(3600));
        for odd in ["", "[]", "{}", r#"{"token": ""}"#, r#"{"token": 1}"#, "<html>"] {
            assert_eq!(lasts(odd), None, "{odd}");
        }
    }
}
