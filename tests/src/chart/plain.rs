//! The manifest for `kubectl apply`, made from the chart: one file for those who do not use Helm.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{IMAGE, Rendering, folder, parse};

/// Its namespace.
pub const NAMESPACE: &str = "topoloom-system";
/// The configuration that it reads.
pub const CONFIG_MAP: &str = "topoloom-controller-configmap";

/// The path of the manifest.
#[must_use]
pub fn file() -> PathBuf {
    folder().join("../../topoloom.yaml")
}

/// Its objects, for another namespace and another ConfigMap, as an operator changes them with `sed`.
///
/// # Errors
/// When the file cannot be read, or is no YAML.
pub fn objects_for(namespace: &str, config_map: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file()).with_context(|| file().display().to_string())?;
    parse(&text.replace(CONFIG_MAP, config_map).replace(NAMESPACE, namespace))
}

const HEAD: &str = "\
# topoloom for `kubectl apply --server-side -f`, made from the chart beside it by `xtask manifest`: do not edit it here.
#
# The configuration is your ConfigMap topoloom-controller-configmap of this namespace. It is not in this file, so that a newer
# file never overwrites it. HyperNode's definition is Volcano's; if it is absent, first apply
# crds/hypernodes.topology.volcano.sh.yaml.
#
# The name of the image is one that no registry has. Replace it with yours: docs/operators/install.md has the sed command.
apiVersion: v1
kind: Namespace
metadata:
  name: topoloom-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// The manifest.
///
/// # Errors
/// With the message of Helm.
pub async fn manifest() -> Result<String> {
    let values = json!({
        "image": {"repository": IMAGE},
        "config": {"existing": {"namespace": NAMESPACE, "name": CONFIG_MAP}},
        "crds": {"discoverySource": "always", "hyperNode": "never"},
    });
    let rendering = Rendering { namespace: NAMESPACE.to_owned(), ..Rendering::new(values) };
    let text = rendering.text().await?;
    let mut manifest = HEAD.to_owned();
    for line in text.lines().filter(|line| !is_helms(line)) {
        manifest.push_str(line.trim_end());
        manifest.push('\n');
    }
    Ok(manifest)
}

/// Whether a line is only true of a release of Helm.
fn is_helms(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("# Source: ")
        || line.starts_with("helm.sh/chart: ")
        || line == "app.kubernetes.io/managed-by: Helm"
        || line.is_empty()
}
