//! Messages for operators when a request brings no list: the request, the answer, and what to do.

use super::Tally;
use topoloom_sdk::http::{Error, Response};
use topoloom_sdk::json;
use topoloom_sdk::{Credential, Failure, UpstreamFailure};

/// Parts of paths to which UFM redirects requests without a session.
const LOGIN: [&str; 6] = ["login", "signin", "sign-in", "sso", "oauth", "saml"];

/// The request, without its query.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLine<'a> {
    pub(super) endpoint: &'a str,
    pub(super) prefix: &'a str,
    pub(super) path: &'a str,
    pub(super) credential: Credential,
}

impl std::fmt::Display for RequestLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GET {}/{} of the endpoint {:?}", self.prefix, self.path, self.endpoint)
    }
}

impl RequestLine<'_> {
    /// The host got no answer.
    pub(super) fn failed(&self, error: Error) -> Failure {
        match Failure::from(error) {
            Failure::Upstream(failure) => {
                let message = format!("{self}: {}", failure.message);
                Failure::Upstream(UpstreamFailure { message, ..failure })
            }
            other => other,
        }
    }

    /// The answer has a status that is no success.
    pub(super) fn refused(&self, response: &Response) -> Failure {
        let status = response.status();
        match status {
            401 => Failure::Unauthorized(format!("{self}: 401, {}", self.what_was_refused())),
            403 => {
                let whom = self.credential_words();
                Failure::Unauthorized(format!("{self}: 403, {whom} may not read this; give its user a role that may"))
            }
            300..=399 => self.redirected(status, &response.header("location").unwrap_or_default()),
            _ => {
                let seconds = response.header("retry-after").and_then(|value| value.trim().parse::<u64>().ok());
                let retry_after = seconds.map(|seconds| seconds.saturating_mul(1000));
                Failure::Upstream(UpstreamFailure { message: format!("{self}: status {status}"), retry_after })
            }
        }
    }

    fn what_was_refused(&self) -> &'static str {
        match self.credential {
            Credential::None => {
                "the UFM asks for a credential and none is configured; name a Secret under `credentials`"
            }
            Credential::Token | Credential::Bearer => {
                "the token is refused: it may be revoked or expired; mint a new one and put it into the Secret"
            }
            Credential::Basic => "user and password are refused; correct them in the Secret",
            Credential::Mtls => {
                "the client certificate is refused: it may be expired, or its name belongs to no user of the UFM"
            }
        }
    }

    fn credential_words(&self) -> &'static str {
        match self.credential {
            Credential::None => "a request without credential",
            Credential::Token | Credential::Bearer => "the user of the token",
            Credential::Basic => "the user",
            Credential::Mtls => "the user of the client certificate",
        }
    }

    /// The host follows no redirect. The message names only the machine of the target: the rest may contain a session.
    fn redirected(&self, status: u16, location: &str) -> Failure {
        let (host, path) = match location.split_once("//") {
            Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
            None => ("", location),
        };
        let host = host.rsplit('@').next().unwrap_or_default();
        let host: String = host.chars().filter(|letter| !letter.is_control()).take(253).collect();
        let host = host.split(['?', '#']).next().unwrap_or_default();
        let target = if host.is_empty() { "the same machine".to_owned() } else { format!("{host:?}") };
        let path = path.to_ascii_lowercase();
        if LOGIN.iter().any(|word| path.contains(word)) {
            let whom = self.credential_words();
            return Failure::Unauthorized(format!(
                "{self}: {status} to a login page at {target}; {whom} is not accepted"
            ));
        }
        Failure::upstream(format!("{self}: {status} to {target}; redirects are not followed"))
    }

    /// The answer is invalid.
    pub(super) fn broken(&self, what: &str) -> Failure {
        Failure::upstream(format!("{self}: {what}"))
    }

    /// The body is invalid.
    pub(super) fn body(&self, error: &json::Error, kind: Option<&str>) -> Failure {
        match (error, kind) {
            (json::Error::Shape(_), Some(kind)) if !kind.to_ascii_lowercase().contains("json") => {
                let kind: String = kind.chars().filter(|letter| !letter.is_control()).take(100).collect();
                self.broken(&format!("received {kind:?} where JSON is expected: probably a login page or a proxy"))
            }
            _ => self.broken(&error.to_string()),
        }
    }

    /// Too many records are unusable.
    pub(super) fn unusable(&self, tally: &Tally, allowed: u32) -> Failure {
        let Tally { records, unusable, example } = tally;
        let example = example.map(|(number, reason)| format!("; number {number}: {reason}")).unwrap_or_default();
        self.broken(&format!("{unusable} of {records} records are unusable, more than {allowed} %{example}"))
    }
}
