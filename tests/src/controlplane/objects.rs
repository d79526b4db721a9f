//! Objects that most tests need: nodes, and resource definitions that are ready to use.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use serde_json::{Value, json};

use super::{Content, ControlPlane, eventually};

const AT_ONCE: usize = 16;
const MANAGER: &str = "test";
/// The field manager of `kubectl apply --server-side`.
const KUBECTL: &str = "kubectl";
const CRD_TIMEOUT: Duration = Duration::from_secs(20);

/// The resources of kinds, by version and kind: every control plane has the same for one.
static KINDS: Mutex<BTreeMap<(String, String), (ApiResource, Scope)>> = Mutex::new(BTreeMap::new());

impl ControlPlane {
    /// Creates one node for each (name, labels). They have no kubelet and no status.
    ///
    /// # Errors
    ///
    /// The first refusal.
    pub async fn create_nodes<N, L, K, V>(&self, nodes: impl IntoIterator<Item = (N, L)>) -> Result<()>
    where
        N: Into<String>,
        L: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<String>,
    {
        let api: Api<Node> = Api::all(self.client());
        let create = |(name, labels): (N, L)| {
            let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            let metadata = ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() };
            let node = Node { metadata, ..Node::default() };
            let api = api.clone();
            async move { api.create(&PostParams::default(), &node).await }
        };
        stream::iter(nodes)
            .map(create)
            .buffer_unordered(AT_ONCE)
            .try_for_each(async |_| Ok(()))
            .await
            .context("a node cannot be created")
    }

    /// Sets a label of a node, or with `None` removes it.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn relabel<'a>(&self, node: &str, key: &str, value: impl Into<Option<&'a str>>) -> Result<Node> {
        let patch = json!({"metadata": {"labels": {key: value.into()}}});
        let api: Api<Node> = Api::all(self.client());
        let patched = api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("node {node} cannot be relabelled"))
    }

    /// Applies objects one after the other, as `kubectl apply --server-side --force-conflicts` does, without a process
    /// for it.
    ///
    /// # Errors
    ///
    /// The first refusal, also of a field that the API server does not know.
    pub async fn apply(&self, objects: &[Value]) -> Result<()> {
        self.apply_with(objects, &PatchParams::apply(KUBECTL).force().validation_strict()).await
    }

    /// The same with `--dry-run=server`: the API server says whether it would take them, and stores nothing.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply).
    pub async fn apply_dry(&self, objects: &[Value]) -> Result<()> {
        self.apply_with(objects, &PatchParams::apply(KUBECTL).force().validation_strict().dry_run()).await
    }

    /// Adds what a test expects.
    pub(super) async fn add(&self, content: &Content) -> Result<()> {
        try_join_all(content.definitions.iter().map(|definition| self.apply_crd(definition.clone()))).await?;
        self.apply_with(&content.objects, &PatchParams::apply(MANAGER)).await
    }

    async fn apply_with(&self, objects: &[Value], parameters: &PatchParams) -> Result<()> {
        for object in objects {
            let (api, name) = self.place(object).await?;
            let applied = api.patch(&name, parameters, &Patch::Apply(object)).await;
            applied.with_context(|| format!("{} {name} is refused", object["kind"].as_str().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// Whether an object of this version, kind, namespace and name exists.
    ///
    /// # Errors
    ///
    /// When the API server does not know the kind, or does not answer.
    pub async fn has(&self, object: &Value) -> Result<bool> {
        let (api, name) = self.place(object).await?;
        Ok(api.get_metadata_opt(&name).await?.is_some())
    }

    /// Where an object is, or is to be.
    async fn place(&self, object: &Value) -> Result<(Api<DynamicObject>, String)> {
        let DynamicObject { types, metadata, .. } =
            serde_json::from_value(object.clone()).context("this is no object")?;
        let types = types.context("an object has a version and a kind")?;
        let name = metadata.name.context("an object has a name")?;
        let (resource, scope) = self.kind(&types).await?;
        let api = match (scope, &metadata.namespace) {
            (Scope::Cluster, _) => Api::all_with(self.client(), &resource),
            (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(self.client(), namespace, &resource),
            (Scope::Namespaced, None) => Api::default_namespaced_with(self.client(), &resource),
        };
        Ok((api, name))
    }

    /// The resource of a kind. An API server is asked once for each.
    async fn kind(&self, types: &TypeMeta) -> Result<(ApiResource, Scope)> {
        let key = (types.api_version.clone(), types.kind.clone());
        if let Some(known) = KINDS.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let kind = GroupVersionKind::try_from(types).context("the version of an object")?;
        let found = pinned_kind(&self.client(), &kind).await;
        let (resource, capabilities) = found.with_context(|| format!("the API server does not know {kind:?}"))?;
        let found = (resource, capabilities.scope);
        KINDS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found.clone());
        Ok(found)
    }

    /// Applies a CustomResourceDefinition and waits until every served version of it can be listed.
    ///
    /// # Errors
    ///
    /// The refusal.
    ///
    /// # Panics
    ///
    /// When it does not become usable.
    pub async fn apply_crd(&self, definition: Value) -> Result<()> {
        let crd: CustomResourceDefinition =
            serde_json::from_value(definition.clone()).context("this is not a CustomResourceDefinition")?;
        let name = crd.metadata.name.clone().context("the CustomResourceDefinition has no name")?;
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(definition)).await.with_context(|| format!("CRD {name} is refused"))?;
        eventually(&format!("CRD {name} is established"), CRD_TIMEOUT, async || {
            let stored = api.get(&name).await.map_err(|error| error.to_string())?;
            let conditions = stored.status.and_then(|status| status.conditions).unwrap_or_default();
            let established = conditions.iter().any(|it| it.type_ == "Established" && it.status == "True");
            if established { Ok(()) } else { Err(format!("{conditions:?}")) }
        })
        .await;
        // Storage is initialised a moment later.
        self.until_listed(&crd).await;
        Ok(())
    }

    /// Waits until the objects of these definitions can be listed: an API server answers 429 while it reads them for the first time,
    /// also those of a store that was there before it.
    pub(super) async fn until_all_listed(&self, definitions: &[Value]) -> Result<()> {
        for definition in definitions {
            let crd: CustomResourceDefinition =
                serde_json::from_value(definition.clone()).context("this is not a CustomResourceDefinition")?;
            self.until_listed(&crd).await;
        }
        Ok(())
    }

    async fn until_listed(&self, crd: &CustomResourceDefinition) {
        let name = crd.metadata.name.as_deref().unwrap_or_default();
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
            let api: Api<DynamicObject> = Api::all_with(self.client(), &resource);
            eventually(&format!("{name} can be listed as {}", version.name), CRD_TIMEOUT, async || {
                api.list(&ListParams::default().limit(1)).await.map(drop).map_err(|error| error.to_string())
            })
            .await;
        }
    }
}
