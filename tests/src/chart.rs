//! The chart in `deploy/chart/topoloom`: rendered, installed, and what a pod of it would be started with.
//!
//! There is no kubelet here, so the Deployment is left out and its container is a process of the test: with the
//! ServiceAccount's token, the arguments and the environment that the chart gives.

mod container;
pub mod plain;
pub mod rights;
mod rules;
pub mod values;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub use container::Container;
pub use rules::{Rule, rules};

use crate::helm::template;
use crate::scene::{CONFIG_MAP, NAMESPACE, Scene};

/// The release that tests install.
pub const RELEASE: &str = "topoloom";
/// The name that the chart gives the cluster-wide objects and the roles, for that release in [`NAMESPACE`].
pub const CLUSTER_NAME: &str = "topoloom.volcano-system";
/// The name that the chart gives the other objects.
pub const NAME: &str = "topoloom";
/// The name that the chart gives the syncer's Deployment and ServiceAccount, and the name of its pods in their labels.
pub const SYNCER: &str = "topoloom-syncer";
/// The name that the chart gives the syncer's cluster-wide objects and its roles.
pub const SYNCER_CLUSTER_NAME: &str = "topoloom-syncer.volcano-system";
/// An image that no registry has: nothing here pulls one.
pub const IMAGE: &str = "registry.invalid/topoloom";
/// The user name of the host in a request.
pub const USER: &str = "system:serviceaccount:volcano-system:topoloom";
/// The user name of the syncer in a request.
pub const SYNCER_USER: &str = "system:serviceaccount:volcano-system:topoloom-syncer";

/// The folder of the chart.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/topoloom")
}

/// One way to render a chart.
#[derive(Debug, Clone)]
pub struct Rendering {
    /// The folder of the chart, or a packed one.
    pub chart: PathBuf,
    /// The name of the release.
    pub release: String,
    /// Its namespace.
    pub namespace: String,
    /// What differs from the chart's own values.
    pub values: Value,
}

impl Rendering {
    /// Our chart as the release `topoloom` in [`NAMESPACE`], with [`IMAGE`] unless the values name another.
    #[must_use]
    pub fn new(values: Value) -> Self {
        let mut all = json!({"image": {"repository": IMAGE}});
        merge(&mut all, values);
        Self { chart: folder(), release: RELEASE.to_owned(), namespace: NAMESPACE.to_owned(), values: all }
    }

    /// What `helm template` prints.
    ///
    /// # Errors
    /// With the message of Helm, for instance about a value that the schema refuses.
    pub async fn text(&self) -> Result<String> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().context("no file for the values")?;
        // JSON is YAML.
        std::fs::write(file.path(), self.values.to_string()).context("the values cannot be written")?;
        let (chart, values) = (self.chart.to_string_lossy(), file.path().to_string_lossy());
        template(&[&self.release, &chart, "--namespace", &self.namespace, "--values", &values]).await
    }

    /// Every object that it makes.
    ///
    /// # Errors
    /// As [`text`](Self::text), and when the text is no YAML.
    pub async fn objects(&self) -> Result<Vec<Value>> {
        parse(&self.text().await?)
    }
}

/// The objects of a manifest.
///
/// # Errors
/// When the text is no YAML.
pub fn parse(manifest: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).context("the manifest is no YAML")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// The object of this kind and name.
///
/// # Errors
/// When there is none; the error lists the objects that exist.
pub fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.with_context(|| format!("there is no {kind} {name} among {:?}", titles(objects)))
}

/// `KIND NAMESPACE/NAME` of each object, in order.
#[must_use]
pub fn titles(objects: &[Value]) -> Vec<String> {
    let title = |object: &Value| {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        format!("{} {}/{}", word(&object["kind"]), word(&metadata["namespace"]), word(&metadata["name"]))
    };
    objects.iter().map(title).collect()
}

/// A chart whose objects are in the cluster, except for the Deployments.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The kubeconfig of the ServiceAccount: its rights are exactly the chart's.
    pub kubeconfig: PathBuf,
    /// The arguments and the environment of its container.
    pub container: Container,
    /// Everything that was rendered.
    pub objects: Vec<Value>,
}

/// Installs the chart, or brings an install to other values: everything but the Deployments. The configuration is the
/// scene's own, and the scene has the resource definitions already; `values` is put over that.
///
/// # Errors
/// When Helm or the API server refuses something.
pub async fn install(scene: &Scene, values: Value) -> Result<Installed> {
    let mut all = json!({
        "config": {"existing": {"namespace": NAMESPACE, "name": CONFIG_MAP}},
        "crds": {"discoverySource": "never", "hyperNode": "never", "lending": "never"},
    });
    merge(&mut all, values);
    put(scene, Rendering::new(all)).await
}

/// The same in a namespace of its own, which is made, with the configuration that the values hold.
///
/// # Errors
/// As [`install`].
pub async fn install_in(scene: &Scene, namespace: &str, values: Value) -> Result<Installed> {
    let mut all = json!({"crds": {"discoverySource": "never", "hyperNode": "never", "lending": "never"}});
    merge(&mut all, values);
    scene.plane.kubectl(&["create", "namespace", namespace]).await?;
    put(scene, Rendering { namespace: namespace.to_owned(), ..Rendering::new(all) }).await
}

async fn put(scene: &Scene, rendering: Rendering) -> Result<Installed> {
    let objects = rendering.objects().await?;
    let container = Container::of(&objects)?;
    let others: Vec<_> = objects.iter().filter(|object| object["kind"] != "Deployment").cloned().collect();
    scene.plane.apply(&others).await?;
    let kubeconfig = scene.plane.kubeconfig_for(&rendering.namespace, NAME).await?;
    Ok(Installed { kubeconfig, container, objects })
}

/// Applies objects as `kubectl apply --server-side` does, in their order.
///
/// # Errors
/// The refusal.
pub async fn apply(scene: &Scene, objects: &[Value]) -> Result<()> {
    scene.plane.apply(objects).await
}

/// Puts `over` over `under`, mapping by mapping, as Helm does it with values.
pub fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}
