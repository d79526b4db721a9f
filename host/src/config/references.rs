//! Which objects of the cluster entries refer to: what the host has to be allowed to read beside the document itself.

use std::collections::BTreeSet;

use super::{Document, EntryConfig, PluginOrigin};
use crate::endpoints::spec::{CaBundle, Carrier, Credentials, KeyRef, SecretRef};

/// Namespace and name of an object.
type ReferenceName = (String, String);

/// The objects that the enabled entries of a document refer to, each once, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Secrets with credentials or authorities.
    pub secrets: Vec<(String, String)>,
    /// ConfigMaps with documents or authorities.
    pub config_maps: Vec<(String, String)>,
    /// ConfigMaps with plugins.
    pub plugins: Vec<(String, String)>,
    /// Secrets with credentials of registries.
    pub pull_secrets: Vec<(String, String)>,
}

impl References {
    /// Adds a Secret, unless it is there already.
    pub fn add_secret(&mut self, name: ReferenceName) {
        insert(&mut self.secrets, name);
    }

    /// The same with a ConfigMap.
    pub fn add_config_map(&mut self, name: ReferenceName) {
        insert(&mut self.config_maps, name);
    }
}

fn insert(sorted: &mut Vec<ReferenceName>, name: ReferenceName) {
    if let Err(place) = sorted.binary_search(&name) {
        sorted.insert(place, name);
    }
}

impl Document {
    /// What its enabled entries refer to by keys that every entry has; only the plugin knows the content of its own
    /// part of an entry. `namespace` is that of the configuration, the default where none is named.
    #[must_use]
    pub fn references(&self, namespace: &str) -> References {
        let (mut secrets, mut maps) = (BTreeSet::new(), BTreeSet::new());
        let (mut plugins, mut pull_secrets) = (BTreeSet::new(), BTreeSet::new());
        for entry in self.enabled() {
            of_entry(entry, namespace, &mut secrets, &mut maps);
            match &entry.plugin.origin {
                PluginOrigin::ConfigMap(key) => drop(plugins.insert(key_of(key, namespace))),
                PluginOrigin::Oci(oci) => {
                    let secret = oci.pull_secret.as_ref();
                    pull_secrets.extend(secret.map(|it| named(it.namespace.as_ref(), &it.name, namespace)));
                    of_bundle(oci.ca_bundle.as_ref(), namespace, &mut secrets, &mut maps);
                }
                PluginOrigin::Installed(_) | PluginOrigin::Builtin(_) | PluginOrigin::File(_) => {}
            }
        }
        let list = |set: BTreeSet<ReferenceName>| set.into_iter().collect();
        References {
            secrets: list(secrets),
            config_maps: list(maps),
            plugins: list(plugins),
            pull_secrets: list(pull_secrets),
        }
    }
}

fn of_entry(
    entry: &EntryConfig,
    namespace: &str,
    secrets: &mut BTreeSet<ReferenceName>,
    maps: &mut BTreeSet<ReferenceName>,
) {
    let secret = |secret: &SecretRef| named(secret.namespace.as_ref(), &secret.name, namespace);
    if let Some(Credentials::Secret(of_entry)) = &entry.credentials {
        secrets.insert(secret(of_entry));
    }
    for endpoint in entry.permissions.iter().flat_map(|permissions| permissions.endpoints.values()) {
        secrets.extend(endpoint.credentials.as_ref().map(secret));
        if let Some(Carrier::ConfigMap(key)) = &endpoint.carrier {
            maps.insert(key_of(key, namespace));
        }
        of_bundle(endpoint.tls.ca_bundle.as_ref(), namespace, secrets, maps);
    }
}

fn of_bundle(
    bundle: Option<&CaBundle>,
    namespace: &str,
    secrets: &mut BTreeSet<ReferenceName>,
    maps: &mut BTreeSet<ReferenceName>,
) {
    match bundle {
        Some(CaBundle::ConfigMap(key)) => drop(maps.insert(key_of(key, namespace))),
        Some(CaBundle::Secret(key)) => drop(secrets.insert(key_of(key, namespace))),
        Some(CaBundle::Inline(_) | CaBundle::File(_)) | None => {}
    }
}

fn key_of(key: &KeyRef, namespace: &str) -> ReferenceName {
    named(key.namespace.as_ref(), &key.name, namespace)
}

fn named(namespace: Option<&String>, name: &str, usual: &str) -> ReferenceName {
    (namespace.map_or(usual, String::as_str).to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_enabled_entries_name_is_found_once() {
        let document = crate::config::parse(
            "
networkTopologyDiscovery:
- source: a
  enabled: true
  discoverer: ufm
  credentials: {secretRef: {name: ufm}}
- source: b
  enabled: true
  plugin: {configMap: {name: acme, namespace: plugins, key: plugin.wasm}}
  permissions:
    endpoints:
      fabric:
        configMap: {name: cables, key: fabric.json}
      api:
        url: https://fabric.example.com
        credentials: {secretRef: {name: ufm}}
        tls: {caBundle: {secret: {name: ca, namespace: trust, key: ca.crt}}}
- source: c
  enabled: true
  plugin:
    oci:
      ref: oci://registry.example.com/acme/racks:1.0
      pullSecret: acme-pull
      caBundle: {configMap: {name: harbor, namespace: trust, key: ca.crt}}
- source: off
  enabled: false
  credentials: {secretRef: {name: unused}}
  plugin: {oci: {ref: 'oci://registry.example.com/a:1', pullSecret: unused}}
",
        )
        .unwrap();
        assert_eq!(document.errors().next(), None);
        let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        assert_eq!(
            document.references("conf"),
            References {
                secrets: vec![pair("conf", "ufm"), pair("trust", "ca")],
                config_maps: vec![pair("conf", "cables"), pair("trust", "harbor")],
                plugins: vec![pair("plugins", "acme")],
                pull_secrets: vec![pair("conf", "acme-pull")],
            }
        );
    }
}
