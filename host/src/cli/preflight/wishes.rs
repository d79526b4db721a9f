//! What the plugins of this binary would read. The part of an entry that is theirs is known to them alone: which objects of
//! the cluster it names, they have to be asked.
//!
//! Nothing is read for that, and only embedded bytes are run. All others get what the operator writes down, which every
//! reader of the document finds.

use std::collections::BTreeMap;
use std::sync::Arc;

use topoloom_core::names::SourceName;

use crate::cli::executable;
use crate::config::{Document, EntryConfig, PluginOrigin, References};
use crate::delivery::Module;
use crate::discovery::compat;
use crate::discovery::revision::{Host, prepare};
use crate::endpoints::Outside;
use crate::endpoints::vault::{ObjectKind, VaultObject};
use crate::plugin::{Compiler, Runtime, StartError};
use crate::topology::writers::Made;

/// What plugins say of entries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WishVerdicts {
    /// Entries that are refused, and why.
    pub(super) refused: Vec<String>,
    /// Parts that are left out of entries that run otherwise, and why.
    pub(super) left_out: Vec<String>,
}

/// Asks by the very function that a running host prepares its sources with, over the objects that the sources have, and adds what
/// they need.
///
/// # Errors
/// When no plugin can run here.
pub(super) async fn ask(
    outside: &Outside,
    document: &Document,
    objects: &BTreeMap<SourceName, Vec<Made>>,
    references: &mut References,
) -> Result<WishVerdicts, StartError> {
    let entries: Vec<_> = document.enabled().filter_map(|entry| Some((entry, Arc::new(module(entry)?)))).collect();
    let mut verdicts = WishVerdicts::default();
    if entries.is_empty() {
        return Ok(verdicts);
    }
    let runtime = Runtime::start(Compiler::AtDesk { exe: executable() })?;
    let message = |entry: &EntryConfig, why: String| format!("source {}: {why}", entry.source);
    for (entry, module) in entries {
        let objects = objects.get(&entry.source).map(Vec::as_slice).unwrap_or_default();
        let host = Host::at_desk(&runtime, outside).with(objects);
        match prepare(host, Arc::new(entry.clone()), Arc::clone(&module), None).await {
            Ok(revision) => {
                // What it takes with a part left out it refuses where that is not allowed.
                if let Some(strict) = compat::strict(entry)
                    && let Err(why) = prepare(host, Arc::new(strict), module, Some(revision.plugin.clone())).await
                {
                    verdicts.left_out.push(message(entry, why.message));
                }
                revision.endpoints.objects().cloned().for_each(|VaultObject { kind, namespace, name }| match kind {
                    ObjectKind::Secret => references.add_secret((namespace, name)),
                    ObjectKind::ConfigMap => references.add_config_map((namespace, name)),
                })
            }
            Err(why) => verdicts.refused.push(message(entry, why.message)),
        }
    }
    Ok(verdicts)
}

/// The embedded module of an entry, unless the entry pins another. A folder of plugins may hold another one of that
/// name; the check is then about what the embedded one would read.
fn module(entry: &EntryConfig) -> Option<Module> {
    let name = match &entry.plugin.origin {
        PluginOrigin::Builtin(name) | PluginOrigin::Installed(name) => name,
        PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) | PluginOrigin::Oci(_) => return None,
    };
    Module::builtin(name).filter(|module| entry.plugin.digest.is_none_or(|pinned| pinned == module.digest))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kube::client::Body;

    use super::*;

    /// A cluster of which nothing may be read.
    fn outside() -> Outside {
        crate::plugin::builtin::embed(&topoloom_builtins::ALL);
        let serve = |request: http::Request<Body>| async move {
            assert_eq!(request.uri(), "nothing");
            Ok::<_, Infallible>(http::Response::new(Body::empty()))
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        Outside::cluster(&client, "conf", &http::Uri::from_static("http://127.0.0.1:9"))
    }

    #[tokio::test]
    async fn what_a_builtin_plugin_reads_is_found_in_its_own_part_of_the_entry() {
        let document = crate::config::parse(
            "
networkTopologyDiscovery:
- source: label
  enabled: true
  config: {networkTopologyTypes: {gpu: [{nodeLabel: ex.io/rack}]}}
- source: roce
  enabled: true
  config: {configMap: wiring}
- source: elsewhere
  enabled: true
  discoverer: roce
  config: {ConfigMap: {namespace: net, name: cables}}
- source: service
  enabled: true
  plugin: {builtin: roce}
  credentials: {secretRef: {name: token}}
  config: {carriers: [http], endpoint: 'https://fabric.example.com', configMap: unused}
- source: granted
  enabled: true
  discoverer: roce
  permissions: {endpoints: {document: {configMap: {name: granted, key: fabric.json}}}}
  config: {configMap: replaced}
- source: wrong
  enabled: true
  discoverer: roce
  config: {configMap: 'NO NAME'}
- source: off
  enabled: false
  discoverer: roce
  config: {configMap: unused}
",
        )
        .unwrap();
        assert_eq!(document.errors().next(), None);
        let mut references = document.references("conf");
        let WishVerdicts { refused, left_out } =
            ask(&outside(), &document, &BTreeMap::new(), &mut references).await.unwrap();
        assert_eq!(left_out, [""; 0]);
        let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        assert_eq!(
            references,
            References {
                secrets: vec![pair("conf", "token")],
                config_maps: vec![pair("conf", "granted"), pair("conf", "wiring"), pair("net", "cables")],
                plugins: Vec::new(),
                pull_secrets: Vec::new(),
            }
        );
        assert!(
            matches!(refused.as_slice(), [why] if why.starts_with("source wrong: config.configMap: ")),
            "{refused:?}"
        );
    }

    #[tokio::test]
    async fn a_bad_type_of_a_source_that_volcano_served_is_left_out_and_of_others_it_refuses_the_entry() {
        let document = crate::config::parse(
            "
networkTopologyDiscovery:
- source: asked
  discoverer: label
  enabled: true
  compat: volcano
  config: &types {networkTopologyTypes: {good: [{nodeLabel: rack}, {nodeLabel: host}], bad: [{nodeLabel: a}, {nodeLabel: a}]}}
- source: served
  discoverer: label
  enabled: true
  config: *types
- source: ours
  discoverer: label
  enabled: true
  config: *types
",
        )
        .unwrap();
        assert_eq!(document.errors().next(), None);
        let made = |by_others| vec![Made { name: "hypernode-good-tier1-abcde".into(), by_others }];
        let objects = [("served".parse().unwrap(), made(true)), ("ours".parse().unwrap(), made(false))].into();
        let verdicts = ask(&outside(), &document, &objects, &mut References::default()).await.unwrap();
        let why = "config.networkTopologyTypes.bad[1]: the label \"a\" is in this list already";
        let wanted = |sources: &[&str]| -> Vec<String> {
            sources.iter().map(|source| format!("source {source}: {why}")).collect()
        };
        assert_eq!(verdicts, WishVerdicts { refused: wanted(&["ours"]), left_out: wanted(&["asked", "served"]) });
    }
}
