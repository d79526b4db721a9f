//! What an error of the API server means.

use std::fmt;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Response};
use kube::core::Status;
use topoloom_core::text;

use super::client::chain;
use super::gate::Closed;
use super::side::Side;

/// The text before the missing rule in the sentence of a refusal.
const RULE: &str = ". The missing rule: ";
/// How much of an answer that is no Status a message repeats, in bytes: of a server that is not ready, some twenty checks.
const SHOWN: usize = 1000;

/// One reading of an error of the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub reason: RefusalReason,
    /// The text of the answer, and for [`RefusalReason::Forbidden`] the rule that would allow the request.
    pub message: String,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
}

/// The kinds of refusal: a closed set, used as condition reason and metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalReason {
    /// 409: what we decided on is not what is stored any more. Observe and decide again.
    Conflict,
    /// 409 on a create: the name is taken.
    AlreadyExists,
    /// 404 for an object.
    NotFound,
    /// 404 for the whole resource: its CRD is not installed.
    NoSuchResource,
    /// 403 by RBAC.
    Forbidden,
    /// 401.
    Unauthorized,
    /// 422 or 400: the schema refuses what we sent. Also where the object would be larger than the store takes.
    Invalid,
    /// An admission webhook or policy refused it.
    DeniedByAdmission,
    /// An admission webhook could not be asked: every write fails until it is back.
    WebhookUnreachable,
    /// 429.
    TooManyRequests,
    /// 410: the history we asked for is gone.
    Expired,
    /// 5xx.
    ServerError,
    /// No answer at all.
    Unreachable,
    /// The answer is larger than anything that is held: it was not read to its end.
    TooLarge,
    /// Nothing was sent: another replica holds the lease.
    NotLeader,
    /// Nothing was sent: writes are switched off.
    ReadOnly,
}

impl RefusalReason {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::Conflict,
        Self::AlreadyExists,
        Self::NotFound,
        Self::NoSuchResource,
        Self::Forbidden,
        Self::Unauthorized,
        Self::Invalid,
        Self::DeniedByAdmission,
        Self::WebhookUnreachable,
        Self::TooManyRequests,
        Self::Expired,
        Self::ServerError,
        Self::Unreachable,
        Self::TooLarge,
        Self::NotLeader,
        Self::ReadOnly,
    ];

    /// The word for conditions, events and metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "Conflict",
            Self::AlreadyExists => "AlreadyExists",
            Self::NotFound => "NotFound",
            Self::NoSuchResource => "CrdNotInstalled",
            Self::Forbidden => "Forbidden",
            Self::Unauthorized => "Unauthorized",
            Self::Invalid => "Invalid",
            Self::DeniedByAdmission => "DeniedByAdmission",
            Self::WebhookUnreachable => "WebhookUnreachable",
            Self::TooManyRequests => "TooManyRequests",
            Self::Expired => "Expired",
            Self::ServerError => "ServerError",
            Self::Unreachable => "Unreachable",
            Self::TooLarge => "TooLarge",
            Self::NotLeader => "NotLeader",
            Self::ReadOnly => "ReadOnly",
        }
    }

    /// Whether a write that ended so may have been done all the same: no answer came, or the server failed on the way.
    #[must_use]
    pub fn may_be_done(self) -> bool {
        matches!(self, Self::Unreachable | Self::ServerError)
    }

    /// Whether every other write would meet the same refusal now, so that trying them only makes noise.
    #[must_use]
    pub fn stops_everything(self) -> bool {
        matches!(
            self,
            Self::NoSuchResource
                | Self::Forbidden
                | Self::Unauthorized
                | Self::WebhookUnreachable
                | Self::TooManyRequests
                | Self::Unreachable
                | Self::NotLeader
                | Self::ReadOnly
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        Self::of(&error)
    }
}

impl Refusal {
    /// What is wrong, without the object that it was met on: equal for all that one rule would cure.
    #[must_use]
    pub fn cause(&self) -> (RefusalReason, &str) {
        (self.reason, self.rule().unwrap_or(&self.message))
    }

    /// The RBAC rule that would allow it.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.message.split_once(RULE).map(|(_, rule)| rule).filter(|_| self.reason == RefusalReason::Forbidden)
    }

    /// The same, with the cluster that it is of: in its sentence, and in the rule that would allow the request. Where nothing was
    /// sent, no cluster has refused it.
    #[must_use]
    pub fn on(self, side: Side) -> Self {
        let message = match (self.reason, self.message.split_once(RULE)) {
            (RefusalReason::NotLeader | RefusalReason::ReadOnly, _) => self.message,
            (_, Some((before, rule))) => format!("{side}: {before}{RULE}{rule} in {side}"),
            (_, None) => format!("{side}: {}", self.message),
        };
        Self { message, ..self }
    }

    /// Reads an error of the client.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(
                status.code,
                &status.reason,
                &status.message,
                status.details.as_ref().map_or(0, |details| u64::from(details.retry_after_seconds)),
            ),
            kube::Error::Service(error) => Self::unanswered(&**error),
            other => Self::unanswered(other),
        }
    }

    /// Reads an answer that is no success, for callers that read answers themselves.
    #[must_use]
    pub fn of_answer(answer: &Response<&[u8]>) -> Self {
        let code = answer.status();
        let status = serde_json::from_slice::<Status>(answer.body()).ok().filter(|status| status.code != 0);
        let status = status.unwrap_or_else(|| {
            let said = String::from_utf8_lossy(answer.body().get(..4 * SHOWN).unwrap_or(answer.body()));
            // Of an answer without a word a conflict is one of versions.
            let word = code.canonical_reason().unwrap_or("unknown");
            Status::failure(&text::line(said.trim(), SHOWN), word).with_code(code.as_u16())
        });
        let refusal = Self::of(&kube::Error::Api(status.boxed()));
        Self { retry_after: refusal.retry_after.or_else(|| asked(answer.headers())), ..refusal }
    }

    fn unanswered(error: &(dyn std::error::Error + 'static)) -> Self {
        if let Some(closed) = closed(error) {
            let reason = match closed {
                Closed::NotLeader => RefusalReason::NotLeader,
                Closed::ReadOnly | Closed::Unknown(_) | Closed::Outdated(_) => RefusalReason::ReadOnly,
            };
            return Self { reason, message: closed.to_string(), retry_after: None };
        }
        let message = format!("the API server did not answer: {}", chain(error));
        Self { reason: RefusalReason::Unreachable, message, retry_after: None }
    }

    /// Reads an error that is an event of a watch.
    #[must_use]
    pub fn of_event(status: &Status) -> Self {
        Self::of_status(status.code, &status.reason, &status.message, 0)
    }

    fn of_status(code: u16, word: &str, message: &str, retry_after_seconds: u64) -> Self {
        let webhook = message.contains("failed calling webhook") || message.contains("failed to call webhook");
        let admission = message.contains("admission webhook") || message.contains("ValidatingAdmissionPolicy");
        // The API server answers 500 with the words of etcd.
        let is_too_large = code == 413 || message.contains("etcdserver: request is too large");
        let reason = match code {
            _ if webhook => RefusalReason::WebhookUnreachable,
            _ if admission => RefusalReason::DeniedByAdmission,
            _ if is_too_large => RefusalReason::Invalid,
            401 => RefusalReason::Unauthorized,
            403 => RefusalReason::Forbidden,
            404 if message.contains("could not find the requested resource") || message.contains("page not found") => {
                RefusalReason::NoSuchResource
            }
            404 => RefusalReason::NotFound,
            409 if word == "AlreadyExists" => RefusalReason::AlreadyExists,
            409 => RefusalReason::Conflict,
            410 => RefusalReason::Expired,
            400 | 422 => RefusalReason::Invalid,
            429 => RefusalReason::TooManyRequests,
            _ => RefusalReason::ServerError,
        };
        let message = match reason {
            RefusalReason::Forbidden => match missing_rule(message) {
                Some(rule) => format!("{message}{RULE}{rule}"),
                None => message.to_owned(),
            },
            RefusalReason::WebhookUnreachable => format!(
                "an admission webhook cannot be reached, so the API server refuses every write of this kind: {message}. Bring the webhook back or remove its configuration"
            ),
            RefusalReason::NoSuchResource => {
                format!("{message} (its CRD is not installed: `topoloom crd | kubectl apply --server-side -f -`)")
            }
            _ if message.is_empty() => format!("the API server answered {code} {word}"),
            _ => message.to_owned(),
        };
        let retry_after = (retry_after_seconds > 0).then(|| Duration::from_secs(retry_after_seconds));
        Self { reason, message, retry_after }
    }
}

/// What a request about the object of this name found; nothing only where the API server itself says that there is no such object.
///
/// A router or a proxy before an API server answers 404, too, with a text of its own; that is no proof, and an error here.
/// `kube::Api::get_opt` and its like take both for the same.
///
/// # Errors
/// Every other answer.
pub async fn found<T>(name: &str, request: impl Future<Output = kube::Result<T>>) -> kube::Result<Option<T>> {
    match request.await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if says_absent(&status, name) => Ok(None),
        Err(error) => Err(error),
    }
}

fn says_absent(status: &Status, name: &str) -> bool {
    status.reason == "NotFound" && status.details.as_ref().is_some_and(|details| details.name == name)
}

/// How long the server asked us to wait: API priority and fairness answers with a header, and no Status.
fn asked(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The gate in the chain of causes, also inside an I/O error of a connection.
fn closed(error: &(dyn std::error::Error + 'static)) -> Option<Closed> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let inside = inner.and_then(|inner| inner.downcast_ref::<Closed>());
        if let Some(closed) = error.downcast_ref::<Closed>().or(inside) {
            return Some(closed.clone());
        }
        cause = error.source();
    }
    None
}

/// The RBAC rule that a 403 asks for, from the sentence that every Kubernetes release since 1.8 prints:
/// `… cannot VERB resource "R" in API group "G" (at the cluster scope | in the namespace "N")`.
fn missing_rule(message: &str) -> Option<String> {
    let (_, after) = message.split_once(" cannot ")?;
    let (verb, after) = after.split_once(" resource ")?;
    let resource = quoted(after)?;
    let group = after.split_once("API group ").and_then(|(_, rest)| quoted(rest)).unwrap_or_default();
    let place = match after.split_once("in the namespace ").and_then(|(_, rest)| quoted(rest)) {
        Some(namespace) => format!("Role in namespace {namespace}"),
        None => "ClusterRole".to_owned(),
    };
    Some(format!("{place}: {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}"))
}

fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"').map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: u16, word: &str, message: &str, reason: RefusalReason, part: &str) {
        let refusal = Refusal::of_status(code, word, message, 0);
        assert_eq!(refusal.reason, reason, "{refusal:?}");
        assert!(refusal.message.contains(part), "{refusal:?}");
    }

    #[test]
    fn a_forbidden_answer_names_the_rule_that_would_allow_it() {
        check(
            403,
            "Forbidden",
            "hypernodes.topology.volcano.sh is forbidden: User \"system:serviceaccount:t:t\" cannot list resource \"hypernodes\" in API group \"topology.volcano.sh\" at the cluster scope",
            RefusalReason::Forbidden,
            "ClusterRole: {apiGroups: [\"topology.volcano.sh\"], resources: [\"hypernodes\"], verbs: [\"list\"]}",
        );
        check(
            403,
            "Forbidden",
            "configmaps is forbidden: User \"x\" cannot watch resource \"configmaps\" in API group \"\" in the namespace \"volcano-system\"",
            RefusalReason::Forbidden,
            "Role in namespace volcano-system: {apiGroups: [\"\"], resources: [\"configmaps\"], verbs: [\"watch\"]}",
        );
    }

    #[test]
    fn a_refusal_of_one_of_two_clusters_says_which_one_and_its_rule_does_too() {
        let message = "csinodes.storage.k8s.io is forbidden: User \"x\" cannot list resource \"csinodes\" in API group \"storage.k8s.io\" at the cluster scope";
        let refusal = Refusal::of_status(403, "Forbidden", message, 0);
        let (ours, theirs) = (refusal.clone().on(Side::Virtual), refusal.on(Side::Physical));
        assert_eq!(
            theirs.rule(),
            Some(
                "ClusterRole: {apiGroups: [\"storage.k8s.io\"], resources: [\"csinodes\"], verbs: [\"list\"]} in the physical cluster"
            )
        );
        assert!(theirs.message.starts_with("the physical cluster: csinodes"), "{theirs}");
        assert_ne!(ours.cause(), theirs.cause(), "one rule does not cure both");
        let late = Refusal { retry_after: Some(Duration::from_secs(3)), ..Refusal::of_status(429, "", "", 0) };
        let late = late.on(Side::Physical);
        assert_eq!(late.message, "the physical cluster: the API server answered 429 ");
        assert_eq!((late.reason, late.retry_after), (RefusalReason::TooManyRequests, Some(Duration::from_secs(3))));
        let closed = Refusal { reason: RefusalReason::NotLeader, message: "no".into(), retry_after: None };
        assert_eq!(closed.clone().on(Side::Physical), closed);
    }

    #[test]
    fn a_webhook_that_is_gone_is_its_own_reason_whatever_the_code() {
        check(
            500,
            "InternalError",
            "Internal error occurred: failed calling webhook \"validatehypernodes.volcano.sh\": failed to call webhook: Post \"https://x\": dial tcp: refused",
            RefusalReason::WebhookUnreachable,
            "Bring the webhook back",
        );
        check(
            403,
            "Forbidden",
            "admission webhook \"x\" denied the request: no",
            RefusalReason::DeniedByAdmission,
            "denied",
        );
    }

    #[test]
    fn an_object_that_is_too_large_for_the_store_is_refused_for_what_it_is_and_no_failure_of_the_server() {
        let etcd = "etcdserver: request is too large";
        check(500, "", etcd, RefusalReason::Invalid, etcd);
        let limit = "Request entity too large: limit is 3145728";
        check(413, "RequestEntityTooLarge", limit, RefusalReason::Invalid, limit);
    }

    #[tokio::test]
    async fn only_an_api_server_that_names_the_object_says_that_it_is_absent() {
        async fn ask(status: serde_json::Value) -> Option<Option<()>> {
            let status: Status = serde_json::from_value(status).unwrap();
            found("web-0", async { Err(kube::Error::Api(Box::new(status))) }).await.ok()
        }
        let absent = |reason: &str, details: serde_json::Value| serde_json::json!({"status": "Failure", "code": 404, "reason": reason, "message": "m", "details": details});
        let named = || serde_json::json!({"name": "web-0", "kind": "pods"});
        assert_eq!(ask(absent("NotFound", named())).await, Some(None));
        // What the client makes of a text, such as "default backend - 404".
        assert_eq!(ask(absent("Failed to parse error data", serde_json::Value::Null)).await, None);
        assert_eq!(ask(absent("NotFound", serde_json::json!({"name": "lent", "kind": "namespaces"}))).await, None);
        assert_eq!(ask(absent("NotFound", serde_json::Value::Null)).await, None);
        assert_eq!(ask(absent("", named())).await, None);
        assert_eq!(found("web-0", async { Ok(7) }).await.ok(), Some(Some(7)));
    }

    #[track_caller]
    fn reads(code: u16, header: Option<&str>, body: &str, reason: RefusalReason, wait: Option<u64>) {
        let mut answer = Response::builder().status(code);
        if let Some(header) = header {
            answer = answer.header(RETRY_AFTER, header);
        }
        let refusal = Refusal::of_answer(&answer.body(body.as_bytes()).unwrap());
        assert_eq!((refusal.reason, refusal.retry_after), (reason, wait.map(Duration::from_secs)), "{refusal:?}");
    }

    #[test]
    fn answers_that_are_no_success_are_read_with_and_without_a_status() {
        let status = |code: u16, reason: &str, wait: u32| {
            serde_json::json!({
                "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "so",
                "details": {"retryAfterSeconds": wait},
            })
            .to_string()
        };
        reads(409, None, &status(409, "Conflict", 0), RefusalReason::Conflict, None);
        reads(409, None, &status(409, "AlreadyExists", 0), RefusalReason::AlreadyExists, None);
        reads(404, None, &status(404, "NotFound", 0), RefusalReason::NotFound, None);
        reads(429, Some("1"), "Too many requests, please try again later.", RefusalReason::TooManyRequests, Some(1));
        reads(429, Some("1"), &status(429, "TooManyRequests", 7), RefusalReason::TooManyRequests, Some(7));
        reads(503, Some("soon"), "<html>", RefusalReason::ServerError, None);
        reads(500, None, "", RefusalReason::ServerError, None);
        reads(301, None, "moved", RefusalReason::ServerError, None);
        reads(401, None, "Unauthorized", RefusalReason::Unauthorized, None);
    }

    #[test]
    fn the_two_kinds_of_not_found_and_of_conflict_differ() {
        check(
            404,
            "NotFound",
            "the server could not find the requested resource",
            RefusalReason::NoSuchResource,
            "topoloom crd",
        );
        check(404, "NotFound", "hypernodes.topology.volcano.sh \"x\" not found", RefusalReason::NotFound, "\"x\"");
        check(409, "AlreadyExists", "already exists", RefusalReason::AlreadyExists, "");
        check(409, "Conflict", "modified", RefusalReason::Conflict, "");
        check(429, "TooManyRequests", "", RefusalReason::TooManyRequests, "429");
    }
}
