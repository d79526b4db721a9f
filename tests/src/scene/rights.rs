//! The rights of the host in a scene: the ServiceAccount and the rules that the chart renders, and nothing more.
//!
//! An operator names the Secrets and ConfigMaps of a document in the values of the chart; here they are read from the
//! document. Only objects that set rights are applied; the tests of the chart apply all objects. A scene that must not
//! wait for Helm takes the rules of the plain manifest, which are the chart's, and a Role for what a document names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{NAMESPACE, Rights, Scene};
use crate::chart::{self, Rendering, plain};

/// Kinds that set rights, in an order in which they can be applied.
const KINDS: [&str; 7] = [
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Renderings by values: Helm takes a moment, and most scenes want the same.
static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::const_new(BTreeMap::new());

/// Where the rules come from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Rules {
    /// Helm renders them.
    #[default]
    Chart,
    /// `deploy/topoloom.yaml` has them.
    Manifest,
}

/// What a document needs beside the rules that every host has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    secrets: BTreeSet<(String, String)>,
    config_maps: BTreeSet<(String, String)>,
    plugins: BTreeSet<(String, String)>,
    pull_secrets: BTreeSet<(String, String)>,
    /// Whether the extender and the sweeper run.
    locks: bool,
}

impl Access {
    /// Adds what a document names; one that cannot be read names nothing.
    pub(super) fn add(&mut self, document: &str) {
        if let Ok(document) = serde_saphyr::from_str::<Value>(document) {
            self.walk(&document, "");
        }
    }

    fn walk(&mut self, value: &Value, parent: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, parent)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    let found = match (key.as_str(), parent) {
                        ("secretRef", _) => Some(&mut self.secrets),
                        ("pullSecret", _) => Some(&mut self.pull_secrets),
                        ("configMap", "plugin") => Some(&mut self.plugins),
                        ("configMap", _) => Some(&mut self.config_maps),
                        _ => None,
                    };
                    if let (Some(found), Some(reference)) = (found, reference(value)) {
                        found.insert(reference);
                    }
                    self.walk(value, key);
                }
            }
            _ => {}
        }
    }

    /// The objects of the plain manifest in the namespace of scenes, and a Role and its binding in each namespace that a
    /// document names.
    fn with_the_manifest(&self) -> Result<Vec<Value>> {
        ensure!(!self.locks, "the plain manifest has no rules for the node lock");
        let mut objects = plain::objects_for(NAMESPACE, super::CONFIG_MAP)?;
        let mut rules: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (resource, named) in [
            ("secrets", &self.secrets),
            ("configmaps", &self.config_maps),
            ("configmaps", &self.plugins),
            ("secrets", &self.pull_secrets),
        ] {
            for (namespace, name) in named {
                let rule = json!({
                    "apiGroups": [""], "resources": [resource], "resourceNames": [name], "verbs": ["get", "list", "watch"],
                });
                rules.entry(namespace).or_default().push(rule);
            }
        }
        for (namespace, rules) in rules {
            let metadata = json!({"name": "topoloom.named", "namespace": namespace});
            let version = "rbac.authorization.k8s.io/v1";
            objects.push(json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules}));
            objects.push(json!({
                "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "topoloom.named"},
                "subjects": [{"kind": "ServiceAccount", "name": chart::NAME, "namespace": NAMESPACE}],
            }));
        }
        Ok(objects)
    }

    fn values(&self) -> Value {
        let list = |names: &BTreeSet<(String, String)>| -> Vec<Value> {
            names.iter().map(|(namespace, name)| json!({"namespace": namespace, "name": name})).collect()
        };
        json!({
            "config": {"existing": {"namespace": NAMESPACE, "name": super::CONFIG_MAP}},
            "crds": {"discoverySource": "never", "hyperNode": "never"},
            "access": {"secrets": list(&self.secrets), "configMaps": list(&self.config_maps)},
            "plugins": {"watched": list(&self.plugins), "pullSecrets": list(&self.pull_secrets)},
            "extender": {"enabled": self.locks, "allowAnonymous": self.locks},
        })
    }
}

/// Namespace and name of what is referred to: `{namespace, name}`, or a name, or both with a slash between them.
fn reference(value: &Value) -> Option<(String, String)> {
    let usual = || NAMESPACE.to_owned();
    if let Some(text) = value.as_str() {
        let (namespace, name) = text.split_once('/').unwrap_or((NAMESPACE, text));
        return Some((namespace.to_owned(), name.to_owned()));
    }
    let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((word("namespace").unwrap_or_else(usual), word("name")?))
}

impl Scene {
    /// The host gets the rules of the plain manifest, for which Helm is not needed.
    #[must_use]
    pub fn by_the_plain_manifest(mut self) -> Self {
        self.rights.get_mut().rules = Rules::Manifest;
        self
    }

    /// The kubeconfig file of the host, with the rights that the chart gives it for the documents so far.
    ///
    /// # Errors
    /// When Helm or the API server refuses something.
    pub async fn host_kubeconfig(&self) -> Result<PathBuf> {
        let mut rights = self.rights.lock().await;
        if let Some(kubeconfig) = &rights.kubeconfig {
            return Ok(kubeconfig.clone());
        }
        self.grant(&rights).await?;
        let kubeconfig = self.plane.kubeconfig_for(NAMESPACE, chart::NAME).await?;
        rights.kubeconfig = Some(kubeconfig.clone());
        Ok(kubeconfig)
    }

    /// Gives the host the rights to bind pods and to sweep locks, too.
    ///
    /// # Errors
    /// When Helm or the API server refuses something.
    pub async fn binds(&self) -> Result<()> {
        let mut rights = self.rights.lock().await;
        rights.access.locks = true;
        if rights.kubeconfig.is_some() { self.grant(&rights).await } else { Ok(()) }
    }

    /// Grants what a document names, before the document is written.
    pub(super) async fn allow(&self, document: &str) -> Result<()> {
        let mut rights = self.rights.lock().await;
        let before = rights.access.clone();
        rights.access.add(document);
        if rights.kubeconfig.is_some() && rights.access != before {
            self.grant(&rights).await?;
        }
        Ok(())
    }

    async fn grant(&self, rights: &Rights) -> Result<()> {
        let access = &rights.access;
        let named = access.secrets.iter().chain(&access.config_maps).chain(&access.plugins).chain(&access.pull_secrets);
        for (namespace, _) in named {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.apply_object(&body).await?;
        }
        let objects = match rights.rules {
            Rules::Chart => rendered(access.values()).await?,
            Rules::Manifest => access.with_the_manifest()?,
        };
        for kind in KINDS {
            for object in objects.iter().filter(|object| object["kind"] == kind) {
                self.apply_object(object).await?;
            }
        }
        Ok(())
    }

    async fn apply_object(&self, object: &Value) -> Result<()> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let (version, kind) = (word(&object["apiVersion"]), word(&object["kind"]));
        let (version, kind) = version.zip(kind).context("the object has a version and a kind")?;
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let api: Api<DynamicObject> = match word(&object["metadata"]["namespace"]) {
            Some(namespace) => Api::namespaced_with(self.plane.client(), &namespace, &resource),
            None => Api::all_with(self.plane.client(), &resource),
        };
        let name = word(&object["metadata"]["name"]).context("the object has a name")?;
        let parameters = PatchParams::apply("install").force();
        api.patch(&name, &parameters, &Patch::Apply(object)).await.with_context(|| format!("{kind} {name}"))?;
        Ok(())
    }
}

async fn rendered(values: Value) -> Result<Vec<Value>> {
    let mut rendered = RENDERED.lock().await;
    let key = values.to_string();
    if let Some(objects) = rendered.get(&key) {
        return Ok(objects.clone());
    }
    let objects = Rendering::new(values).objects().await?;
    rendered.insert(key, objects.clone());
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_helm_the_rules_are_those_of_the_manifest_and_of_what_a_document_names() {
        let mut access = Access::default();
        access.add("[{credentials: {secretRef: {name: s}}, plugin: {configMap: {namespace: other, name: p}}}]");
        let objects = access.with_the_manifest().unwrap();
        chart::object(&objects, "ClusterRole", chart::CLUSTER_NAME).unwrap();
        let named: Vec<String> = objects
            .iter()
            .filter(|it| it["kind"] == "Role" && it["metadata"]["name"] == "topoloom.named")
            .map(|it| format!("{} {}", it["metadata"]["namespace"], it["rules"][0]["resourceNames"]))
            .collect();
        assert_eq!(named, [r#""other" ["p"]"#, r#""volcano-system" ["s"]"#]);
        let text = serde_json::to_string(&objects).unwrap();
        assert!(!text.contains(plain::NAMESPACE) && text.contains(super::super::CONFIG_MAP));
        access.locks = true;
        assert!(access.with_the_manifest().is_err());
    }
}
