//! What the host may do on a scene: the ServiceAccount and the rules that the chart renders, and nothing more.
//!
//! An operator names the Secrets and ConfigMaps of a document in the values of the chart; here they are read from the
//! document. Only what has to do with rights is applied; the tests of the chart apply all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{NAMESPACE, Scene};
use crate::chart::{self, Rendering};

/// Kinds that have to do with rights, in an order in which they can be applied.
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

/// What a document needs beside the rules that every host has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    secrets: BTreeSet<(String, String)>,
    config_maps: BTreeSet<(String, String)>,
    plugins: BTreeSet<(String, String)>,
    /// The extender and the sweeper run.
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

    fn values(&self) -> Value {
        let list = |names: &BTreeSet<(String, String)>| -> Vec<Value> {
            names.iter().map(|(namespace, name)| json!({"namespace": namespace, "name": name})).collect()
        };
        json!({
            "config": {"existing": {"namespace": NAMESPACE, "name": super::CONFIG_MAP}},
            "crds": {"discoverySource": "never", "hyperNode": "never"},
            "access": {"secrets": list(&self.secrets), "configMaps": list(&self.config_maps)},
            "plugins": {"watched": list(&self.plugins)},
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
    /// The kubeconfig file of the host, with the rights that the chart gives it for the documents so far.
    ///
    /// # Errors
    /// When Helm or the API server refuses something.
    pub async fn host_kubeconfig(&self) -> Result<PathBuf> {
        let mut rights = self.rights.lock().await;
        if let Some(kubeconfig) = &rights.kubeconfig {
            return Ok(kubeconfig.clone());
        }
        self.grant(&rights.access).await?;
        let kubeconfig = self.plane.kubeconfig_for(NAMESPACE, chart::NAME).await?;
        rights.kubeconfig = Some(kubeconfig.clone());
        Ok(kubeconfig)
    }

    /// The host binds pods and sweeps locks: it gets the rights of those, too.
    ///
    /// # Errors
    /// When Helm or the API server refuses something.
    pub async fn binds(&self) -> Result<()> {
        let mut rights = self.rights.lock().await;
        rights.access.locks = true;
        if rights.kubeconfig.is_some() { self.grant(&rights.access).await } else { Ok(()) }
    }

    /// A document is about to be written: what it names may be read from then on.
    pub(super) async fn allow(&self, document: &str) -> Result<()> {
        let mut rights = self.rights.lock().await;
        let before = rights.access.clone();
        rights.access.add(document);
        if rights.kubeconfig.is_some() && rights.access != before {
            self.grant(&rights.access).await?;
        }
        Ok(())
    }

    async fn grant(&self, access: &Access) -> Result<()> {
        for (namespace, _) in access.secrets.iter().chain(&access.config_maps).chain(&access.plugins) {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.apply_object(&body).await?;
        }
        let objects = rendered(access.values()).await?;
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
