//! What the plugins of this binary would read. The part of an entry that is theirs is known to them alone: which objects of
//! the cluster it names, they have to be asked.
//!
//! Nothing is read for that, and only embedded bytes are run. All others get what the operator writes down, which every
//! reader of the document finds.

use std::sync::Arc;

use crate::cli::executable;
use crate::config::{Document, EntryConfig, PluginOrigin, References};
use crate::delivery::Module;
use crate::discovery::revision::{Host, prepare};
use crate::endpoints::Outside;
use crate::endpoints::vault::{Kind, Name};
use crate::plugin::{Compiler, Runtime, StartError};

/// Asks by the very function that a running host prepares its sources with, and adds what they need. Answers with every
/// entry that its plugin refuses, and why.
///
/// # Errors
/// When no plugin can run here.
pub(super) async fn ask(
    outside: &Outside,
    document: &Document,
    references: &mut References,
) -> Result<Vec<String>, StartError> {
    let entries: Vec<_> = document.enabled().filter_map(|entry| Some((entry, module(entry)?))).collect();
    let mut refused = Vec::new();
    if entries.is_empty() {
        return Ok(refused);
    }
    let runtime = Runtime::start(Compiler::Child { exe: executable() })?;
    for (entry, module) in entries {
        let host = Host::at_desk(&runtime, outside);
        match prepare(host, Arc::new(entry.clone()), Arc::new(module), None).await {
            Ok(revision) => {
                revision.endpoints.objects().cloned().for_each(|Name { kind, namespace, name }| match kind {
                    Kind::Secret => references.add_secret((namespace, name)),
                    Kind::ConfigMap => references.add_config_map((namespace, name)),
                })
            }
            Err(why) => refused.push(format!("source {}: {}", entry.source, why.message)),
        }
    }
    Ok(refused)
}

/// The embedded module that serves an entry, unless others are pinned. A folder of plugins may hold another one of that name;
/// what is asked for then is what the embedded one would read.
fn module(entry: &EntryConfig) -> Option<Module> {
    let name = match &entry.plugin.origin {
        PluginOrigin::Builtin(name) | PluginOrigin::Installed(name) => name,
        PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) => return None,
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
        let refused = ask(&outside(), &document, &mut references).await.unwrap();
        let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
        assert_eq!(
            references,
            References {
                secrets: vec![pair("conf", "token")],
                config_maps: vec![pair("conf", "granted"), pair("conf", "wiring"), pair("net", "cables")],
                plugins: Vec::new(),
            }
        );
        assert!(
            matches!(refused.as_slice(), [why] if why.starts_with("source wrong: config.configMap: ")),
            "{refused:?}"
        );
    }
}
