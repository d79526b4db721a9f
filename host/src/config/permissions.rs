//! What an entry grants its plugin. Nothing is granted that is not written down (decision H16).

use super::endpoint::{self, Endpoint};
use super::read::{At, Fields, Report};
use std::collections::BTreeMap;
use std::fmt;
use topoloom_api::rules::{is_dns_label, is_dns_subdomain, is_label_key};

/// The explicit grants of an entry. Only bytes that are embedded in the binary may do without.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Node labels that the plugin may read.
    pub node_labels: Vec<KeyPattern>,
    /// Node annotations that the plugin may read.
    pub node_annotations: Vec<KeyPattern>,
    /// Whether the plugin may see names of Nodes.
    pub node_names: NodeNames,
    /// Endpoints that the plugin may call, by the name it uses for them.
    pub endpoints: BTreeMap<String, Endpoint>,
}

/// Whether a plugin may see names of Nodes, or only numbers of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeNames {
    /// Only numbers of rows.
    #[default]
    Hidden,
    /// Names too.
    Visible,
}

/// A label or annotation key, or all keys of one domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyPattern {
    /// This key alone.
    Exact(String),
    /// Every key that begins so; ends with a slash, and is written with a `*` behind it.
    Prefix(String),
}

impl KeyPattern {
    /// Reads a key, or a domain followed by `/*`. A `*` anywhere else would look as if it meant something.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_suffix("/*") {
            Some(domain) => is_dns_subdomain(domain).then(|| Self::Prefix(format!("{domain}/"))),
            None => is_label_key(text).then(|| Self::Exact(text.to_owned())),
        }
    }

    /// Whether `key` is granted.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        match self {
            Self::Exact(granted) => granted == key,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(key) => f.write_str(key),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// Reads `permissions`.
pub(super) fn read(fields: &mut Fields<'_>, report: &mut Report) -> Permissions {
    Permissions {
        node_labels: fields.list("nodeLabels", report, key_pattern),
        node_annotations: fields.list("nodeAnnotations", report, key_pattern),
        node_names: match fields.read("nodeNames", report, At::boolean) {
            Some(true) => NodeNames::Visible,
            Some(false) | None => NodeNames::Hidden,
        },
        endpoints: fields.section("endpoints", report, read_endpoints).unwrap_or_default(),
    }
}

fn read_endpoints(fields: &mut Fields<'_>, report: &mut Report) -> BTreeMap<String, Endpoint> {
    let mut endpoints = BTreeMap::new();
    for name in fields.keys() {
        let place = fields.place(&name);
        let endpoint = fields.section(&name, report, endpoint::read);
        if !is_dns_label(&name) {
            report.error(place, "an endpoint's name has lower-case letters, digits and hyphens, at most 63".to_owned());
        } else if let Some(Some(endpoint)) = endpoint {
            endpoints.insert(name, endpoint);
        }
    }
    endpoints
}

fn key_pattern(at: &At<'_>) -> Result<KeyPattern, String> {
    let text = at.text()?;
    KeyPattern::parse(&text)
        .ok_or_else(|| format!("must be a label key, or a domain followed by `/*`, not {}", at.describe()))
}
