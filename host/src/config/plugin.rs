//! Where an entry's plugin comes from.

use super::endpoint::key_ref;
use super::read::{At, Fields, ReadReport};
use super::registry::{self, OciOrigin};
use crate::endpoints::spec::KeyRef;
use crate::plugin::trust::Trust;
use std::path::PathBuf;
use topoloom_api::rules::is_dns_label;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;

/// Which plugin serves an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRef {
    /// Where its bytes come from.
    pub origin: PluginOrigin,
    /// What the bytes must hash to. A pin wins over everything else that names a digest.
    pub digest: Option<Digest>,
    /// What the bytes have to bring; nothing where the entry does not say.
    pub trust: Option<Trust>,
    /// What the plugin must call itself; nothing where the entry does not say.
    pub expected_name: Option<String>,
}

/// Where the bytes of a plugin come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginOrigin {
    /// The plugin of that name that is installed: in the plugin folder, or part of the binary.
    Installed(String),
    /// The plugin of that name that is part of the binary, even if the plugin folder has one.
    Builtin(String),
    /// A file that the host can read.
    File(PathBuf),
    /// A key in the `binaryData` of a ConfigMap.
    ConfigMap(KeyRef),
    /// An artifact of a registry.
    Oci(Box<OciOrigin>),
}

/// Reads a digest.
pub(super) fn digest(at: &At<'_>) -> Result<Digest, String> {
    let text = at.text()?;
    Digest::parse(&text).ok_or_else(|| format!("must be `sha256:` and 64 hexadecimal digits, not {}", at.describe()))
}

/// Reads the name of a plugin.
pub(super) fn plugin_name(at: &At<'_>) -> Result<String, String> {
    let text = at.text()?;
    let wanted = "a plugin's name: lower-case letters, digits and hyphens, at most 63";
    if is_dns_label(&text) { Ok(text) } else { Err(format!("must be {wanted}, not {}", at.describe())) }
}

/// Reads `discoverer` and `plugin` of an entry with that source.
pub(super) fn read(fields: &mut Fields<'_>, source: Option<&SourceName>, report: &mut ReadReport) -> PluginRef {
    let discoverer_place = fields.place("discoverer");
    let discoverer = fields.read("discoverer", report, plugin_name);
    let named = discoverer.clone().or_else(|| source.map(ToString::to_string));
    let mut plugin = PluginRef {
        origin: PluginOrigin::Installed(named.unwrap_or_default()),
        digest: None,
        trust: None,
        expected_name: discoverer.clone(),
    };
    if let Some(origin) = fields.section("plugin", report, |fields, report| {
        plugin.digest = fields.read("digest", report, digest);
        let words = [("none", Trust::None), ("digest", Trust::Digest), ("signature", Trust::Signature)];
        plugin.trust = fields.read("trust", report, |at| at.one_of(&words));
        read_origin(fields, report)
    }) {
        plugin.origin = origin.unwrap_or(plugin.origin);
    }
    if let PluginOrigin::Installed(name) | PluginOrigin::Builtin(name) = &plugin.origin {
        if let Some(discoverer) = discoverer.filter(|discoverer| discoverer != name) {
            let message = format!("`{discoverer}` and plugin.builtin `{name}` must name the same plugin");
            report.error(discoverer_place, message);
        }
        plugin.expected_name = Some(name.clone());
    }
    plugin
}

fn read_origin(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<PluginOrigin> {
    let place = fields.here();
    let builtin = fields.read("builtin", report, plugin_name).map(PluginOrigin::Builtin);
    let file = fields.read("file", report, At::path).map(PluginOrigin::File);
    let config_map = fields.section("configMap", report, key_ref).flatten().map(PluginOrigin::ConfigMap);
    let oci = fields.section("oci", report, registry::read).flatten().map(|oci| PluginOrigin::Oci(Box::new(oci)));
    let given: Vec<PluginOrigin> = [builtin, file, config_map, oci].into_iter().flatten().collect();
    if given.len() > 1 {
        report.error(place, "at most one of builtin, file, configMap and oci may be given".to_owned());
    }
    given.into_iter().next()
}
