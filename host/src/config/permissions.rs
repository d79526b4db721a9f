//! What an entry grants its plugin. Nothing is granted that is not written down (decision H16).

use super::endpoint;
use super::read::{At, Fields, ReadReport};
use crate::endpoints::spec::Endpoint;
use std::collections::BTreeMap;
use topoloom_api::rules::is_dns_label;
use topoloom_core::plugin::KeyPattern;

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

/// Reads `permissions`.
pub(super) fn read(fields: &mut Fields<'_>, report: &mut ReadReport) -> Permissions {
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

fn read_endpoints(fields: &mut Fields<'_>, report: &mut ReadReport) -> BTreeMap<String, Endpoint> {
    let mut endpoints = BTreeMap::new();
    for name in fields.keys() {
        let place = fields.place(&name);
        let endpoint = fields.section(&name, report, endpoint::read);
        if !is_dns_label(&name) {
            report.error(place, "an endpoint's name has lower-case letters, digits and hyphens, at most 63".to_owned());
        } else if let Some(endpoint) = endpoint {
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
