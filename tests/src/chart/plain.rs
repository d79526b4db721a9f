//! The manifests for `kubectl apply`, made from the chart: for those who do not use Helm.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{IMAGE, NAME, Rendering, SYNCER, folder, parse};

/// Their namespace.
pub const NAMESPACE: &str = "topoloom-system";
/// The configuration that the host reads. The syncer reads one annotation of it.
pub const CONFIG_MAP: &str = "topoloom-controller-configmap";
/// The Secret with a kubeconfig that the syncer may read: that of `deploy/examples/lending`.
pub const SECRET: &str = "east-kubeconfig";

/// One of the manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manifest {
    /// All of the host but the syncer.
    Host,
    /// The bottom-up syncer, which needs nothing of the other.
    Syncer,
}

impl Manifest {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Host, Self::Syncer];

    /// Its path.
    #[must_use]
    pub fn file(self) -> PathBuf {
        folder().join(match self {
            Self::Host => "../../topoloom.yaml",
            Self::Syncer => "../../topoloom-syncer.yaml",
        })
    }

    /// The name of its Deployment and its ServiceAccount, and of all its objects in their label `app.kubernetes.io/name`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => NAME,
            Self::Syncer => SYNCER,
        }
    }

    /// What is in front of the objects of the chart.
    fn head(self) -> &'static str {
        match self {
            Self::Host => HOST,
            Self::Syncer => LENDING,
        }
    }

    fn values(self) -> Value {
        let (syncer, crds) = match self {
            Self::Host => (json!({}), json!({"discoverySource": "always", "hyperNode": "never"})),
            Self::Syncer => (
                json!({"enabled": true, "secrets": [SECRET]}),
                json!({"discoverySource": "never", "hyperNode": "never", "lending": "always"}),
            ),
        };
        json!({
            "image": {"repository": IMAGE},
            "config": {"existing": {"namespace": NAMESPACE, "name": CONFIG_MAP}},
            "crds": crds,
            "syncer": syncer,
        })
    }

    /// Whether what this template of the chart renders is part of it.
    fn has(self, template: &str) -> bool {
        match self {
            Self::Host => true,
            Self::Syncer => template.starts_with("syncer-") || template == "crds.yaml",
        }
    }

    /// Its text.
    ///
    /// # Errors
    /// With the message of Helm.
    pub async fn text(self) -> Result<String> {
        let rendering = Rendering { namespace: NAMESPACE.to_owned(), ..Rendering::new(self.values()) };
        let rendered = rendering.text().await?;
        let mut text = self.head().to_owned();
        for (_, document) in documents(&rendered).filter(|(template, _)| self.has(template)) {
            text.push_str("---\n");
            for line in document.lines().filter(|line| !is_helms(line)) {
                text.push_str(line.trim_end());
                text.push('\n');
            }
        }
        Ok(text)
    }
}

/// The documents that Helm prints, each with its template.
fn documents(rendered: &str) -> impl Iterator<Item = (&str, &str)> {
    rendered.split("---\n# Source: topoloom/templates/").filter_map(|document| document.split_once('\n'))
}

/// The objects of the host, for another namespace and another ConfigMap, as an operator changes them with `sed`.
///
/// # Errors
/// When the file cannot be read, or is no YAML.
pub fn objects_for(namespace: &str, config_map: &str) -> Result<Vec<Value>> {
    let file = Manifest::Host.file();
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    parse(&text.replace(CONFIG_MAP, config_map).replace(NAMESPACE, namespace))
}

const HOST: &str = "\
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

const LENDING: &str = "\
# The bottom-up syncer of topoloom for `kubectl apply --server-side -f`, made from the chart beside it by `xtask manifest`: do not
# edit it here. It needs nothing of topoloom.yaml.
#
# It may read one Secret of this namespace, east-kubeconfig, with the kubeconfig of a physical cluster under the key kubeconfig. If
# your Secrets have other names, change the rule in the Role.
#
# The name of the image is one that no registry has. Replace it with yours: docs/operators/install.md has the sed command.
apiVersion: v1
kind: Namespace
metadata:
  name: topoloom-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// Whether a line is only true of a release of Helm.
fn is_helms(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("# Source: ")
        || line.starts_with("helm.sh/chart: ")
        || line == "app.kubernetes.io/managed-by: Helm"
        || line.is_empty()
}
