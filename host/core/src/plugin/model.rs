//! What a discoverer states, in types of the host: one model for every version of the interface.
//!
//! The bindings of each interface version convert into these types, so no other part of the host knows which version a
//! plugin uses. Nothing here is checked beyond its form.

use std::time::Duration;

use crate::topology::Topology;

/// A discoverer's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Lower-case letters, digits and hyphens, at most 63 bytes.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// Its vendor.
    pub vendor: String,
    /// One line, at most 200 bytes.
    pub summary: String,
    /// JSON Schema 2020-12 of the entry's `config`.
    pub config_schema: String,
}

/// One mistake in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where, for instance `networkTopologyTypes.gpu[2].nodeLabel`; empty: the whole.
    pub path: String,
    /// What is wrong: the configured value and the allowed ones.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.path, self.message) }
    }
}

/// What a configuration needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Label keys that become columns.
    pub node_labels: Vec<String>,
    /// Annotation keys that become columns.
    pub node_annotations: Vec<String>,
    /// Services and documents outside the node list.
    pub endpoints: Vec<Endpoint>,
    /// What starts a round beside a changed configuration.
    pub triggers: Vec<Trigger>,
}

/// An endpoint that a discoverer wants to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The name that requests use.
    pub name: String,
    /// One sentence for the operator who has to grant it.
    pub purpose: String,
    /// Its address, as far as the configuration has it.
    pub location: Location,
    /// The methods that requests use.
    pub methods: Vec<Method>,
    /// Path prefixes below the base URL; empty: all.
    pub paths: Vec<String>,
    /// How its certificate is checked.
    pub tls: Tls,
    /// Credentials that the discoverer can work with; empty: none.
    pub credentials: Vec<CredentialKind>,
}

/// Where an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// The operator grants the address.
    Granted,
    /// Base URLs of one high-availability pair: the first that answers is used.
    Urls(Vec<String>),
    /// A key of a ConfigMap.
    ConfigMap(ConfigMapKey),
}

/// A key of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigMapKey {
    /// `None`: the namespace of the host.
    pub namespace: Option<String>,
    /// The ConfigMap.
    pub name: String,
    /// The key in it.
    pub key: String,
}

/// How the certificate of an endpoint is checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// PEM certificates in place of the system's.
    pub ca_bundle: Option<String>,
    /// The name on the certificate when it is not that of the URL.
    pub server_name: Option<String>,
    /// No check at all: a condition shows it and a metric counts it.
    pub insecure_skip_verify: bool,
}

/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// The method as it stands in a request line and in `permissions`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which kind of credential the host adds to requests. Its content never enters a discoverer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialKind {
    /// None.
    None,
    /// User and password.
    Basic,
    /// A token in a header of the service's own.
    Token,
    /// `Authorization: Bearer`.
    Bearer,
    /// A client certificate.
    Mtls,
}

impl CredentialKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::None, Self::Basic, Self::Token, Self::Bearer, Self::Mtls];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "basic",
            Self::Token => "token",
            Self::Bearer => "bearer",
            Self::Mtls => "mtls",
        }
    }

    /// The kind of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What starts a round, each with the least time between the starts of two such rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trigger {
    /// A value in a required column changed.
    Columns(Duration),
    /// A node appeared or was deleted.
    Names(Duration),
    /// The entry's `interval` has passed.
    Timer(Duration),
}

/// The answer of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The topology, or that it is unchanged.
    pub outcome: Answered,
    /// The state that the discoverer gets back in the next round of the same revision and configuration.
    pub state: Vec<u8>,
}

/// The body of an [`Answer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// Exactly the last answer.
    Unchanged,
    /// A complete answer, decoded and not yet validated.
    Topology(Topology),
}

/// Why a discoverer has no answer, as it reports it. The active topology stays active.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The configuration cannot work: it has to be edited first.
    #[error("the configuration cannot work: {0}")]
    Config(String),
    /// The host refused something: a grant is missing.
    #[error("a grant is missing: {0}")]
    Denied(String),
    /// The credential of an endpoint is missing or incomplete. The host reports this, whatever the plugin reports.
    #[error("a credential is missing: {0}")]
    Credentials(String),
    /// The service refused our credential.
    #[error("the credential was refused: {0}")]
    Unauthorized(String),
    /// The service is unreachable, too slow, or answers wrongly.
    #[error("the source outside the cluster failed: {message}")]
    Upstream {
        /// What happened.
        message: String,
        /// How long the service asked us to wait, before the host limits it.
        retry_after: Option<Duration>,
    },
    /// A fault of the discoverer itself.
    #[error("the plugin reports a fault of its own: {0}")]
    Internal(String),
}
