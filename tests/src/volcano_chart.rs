//! The part of Volcano's chart that meets ours: the definition of HyperNodes as an object of its release, in a
//! template, as Volcano's chart has it; and a repository of charts from which Helm installs it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{Path as Name, State};
use axum::routing::get;
use http::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::helm::helm;

/// The name of the definition.
pub const HYPER_NODES: &str = "hypernodes.topology.volcano.sh";

const MANIFEST: &str = "apiVersion: v2\nname: volcano\nversion: 1.14.0\ndescription: a batch system\n";
const FILE: &str = "crd/bases/topology.volcano.sh_hypernodes.yaml";
/// The definition comes out of a file.
const TEMPLATE: &str = "{{- tpl ($.Files.Get \"crd/bases/topology.volcano.sh_hypernodes.yaml\") . }}\n";

/// Writes the chart into a folder; returns the chart's own folder.
///
/// # Errors
/// When it cannot be written.
pub fn write(folder: &Path) -> Result<PathBuf> {
    let chart = folder.join("volcano");
    for part in ["crd/bases", "templates"] {
        std::fs::create_dir_all(chart.join(part))?;
    }
    std::fs::write(chart.join("Chart.yaml"), MANIFEST)?;
    std::fs::write(chart.join(FILE), topoloom_api::crd::to_yaml(&definition()?)?)?;
    std::fs::write(chart.join("templates/topology_v1alpha1_hypernodes.yaml"), TEMPLATE)?;
    Ok(chart)
}

/// Volcano's definition: with the same meaning as ours, its generator's annotation, and none of our texts.
///
/// # Errors
/// When there is none of ours.
pub fn definition() -> Result<Value> {
    let definitions = topoloom_api::crds().into_iter();
    let mut found =
        definitions.into_iter().find(|it| it["metadata"]["name"] == HYPER_NODES).context("no definition")?;
    found["metadata"]["annotations"] = json!({"controller-gen.kubebuilder.io/version": "v0.18.0"});
    without_texts(&mut found["spec"]["versions"][0]["schema"]);
    Ok(found)
}

/// Removes every description from a schema.
fn without_texts(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "description" || !value.is_string());
            fields.values_mut().for_each(without_texts);
        }
        Value::Array(items) => items.iter_mut().for_each(without_texts),
        _ => {}
    }
}

/// A repository with the chart in it, at an address of this machine.
pub struct Repository {
    /// Its address for Helm.
    pub url: String,
    _server: JoinSet<()>,
    _folder: TempDir,
}

impl Repository {
    /// Packs the chart and serves it until the value is dropped.
    ///
    /// # Errors
    /// When Helm cannot pack it.
    pub async fn serve() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let chart = write(folder.path())?;
        let served = folder.path().join("served");
        std::fs::create_dir(&served)?;
        let (chart, destination) = (chart.to_string_lossy(), served.to_string_lossy());
        helm(None, &["package", &*chart, "--destination", &*destination]).await?;
        helm(None, &["repo", "index", &*destination]).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let app = Router::new().route("/{file}", get(file)).with_state(served.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { url, _server: server, _folder: folder })
    }
}

async fn file(State(folder): State<PathBuf>, Name(name): Name<String>) -> Result<Vec<u8>, StatusCode> {
    std::fs::read(folder.join(name)).map_err(|_| StatusCode::NOT_FOUND)
}
