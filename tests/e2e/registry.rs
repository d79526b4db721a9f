//! Plugins of registries, with the real host on a real control plane: a real registry with TLS and both ways to prove who asks, a
//! second client, and a registry that lies. What a registry does wrong has its condition, and changes no topology.

mod accounts;
mod away;
mod lies;
mod oras;
mod page;
mod served;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom::plugin::Digest;
use topoloom_simulator::Authority;
use topoloom_tests::guest;
use topoloom_tests::host::Host;
use topoloom_tests::registry::{PASSWORD, Registry, USER, docker_config};
use topoloom_tests::scene::{NAMESPACE, Scene};

use crate::swaps;

/// The repository of these tests.
const REPOSITORY: &str = "acme/versions";
/// The Secret with the credentials of the registry.
const SECRET: &str = "pull";

/// A cluster with nodes in racks, and an authority that signs for registries.
struct Rig {
    scene: Scene,
    authority: Authority,
}

impl Rig {
    async fn new() -> Result<Self> {
        Ok(Self { scene: swaps::scene().await?, authority: Authority::generate()? })
    }

    fn folder(&self) -> &Path {
        self.scene.plane.folder()
    }

    /// The entry of a source with this plugin; `more` is for its `oci`.
    fn source(&self, name: &str, reference: &str, more: &str) -> String {
        Self::source_by(&self.authority, name, reference, more)
    }

    /// The same with another authority.
    fn source_by(authority: &Authority, name: &str, reference: &str, more: &str) -> String {
        let bundle = json!(authority.pem());
        format!(
            "- source: {name}\n  enabled: true\n  permissions: {{nodeLabels: [example.com/rack]}}\n  limits: {{cpu: 2s}}\n  \
             plugin: {{oci: {{ref: \"{reference}\", addresses: [loopback], caBundle: {bundle}{more}}}}}\n"
        )
    }

    /// Configures the source `fabric` with the plugin of a reference, by the credentials of the Secret.
    async fn configure(&self, reference: &str) -> Result<()> {
        self.configure_with(reference, &format!(", pullSecret: {SECRET}")).await
    }

    /// The same with something else beside the reference.
    async fn configure_with(&self, reference: &str, more: &str) -> Result<()> {
        self.scene.configure(&format!("networkTopologyDiscovery:\n{}", self.source("fabric", reference, more))).await
    }

    /// Writes the Secret with an account for a registry.
    async fn secret(&self, host: &str, user: &str, password: &str) -> Result<()> {
        let body = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": SECRET, "namespace": NAMESPACE},
            "data": {".dockerconfigjson": ByteString(docker_config(host, user, password).into_bytes())},
        });
        let secrets: Api<Secret> = Api::namespaced(self.scene.plane.client(), NAMESPACE);
        secrets.patch(SECRET, &PatchParams::apply("tests").force(), &Patch::Apply(&body)).await?;
        Ok(())
    }

    /// A host that looks every second, and may pull from this registry.
    async fn host(&self, registry: &str) -> Result<Host> {
        self.host_with(registry, &[]).await
    }

    /// The same with more flags.
    async fn host_with(&self, registry: &str, more: &[&str]) -> Result<Host> {
        let named = format!("--plugin-registries={registry}");
        self.scene.host_with(&[&["--plugin-poll=1", named.as_str()], more].concat()).await
    }

    /// A version of the plugin as a file.
    fn version(&self, act: &str, version: &str) -> Result<(PathBuf, Digest)> {
        let bytes = guest::version(act, version)?;
        let file = self.folder().join(format!("{act}-{version}.wasm"));
        std::fs::write(&file, &bytes)?;
        Ok((file, Digest::of(&bytes)))
    }

    /// Pushes a version to a tag, as a vendor does who has logged in.
    async fn push(&self, registry: &Registry, act: &str, version: &str, tag: &str) -> Result<Digest> {
        let (file, digest) = self.version(act, version)?;
        self.account(&registry.host(), PASSWORD)?;
        let said = self.plugin(registry, &["push", &file.to_string_lossy(), &reference(registry, tag)]).await?;
        ensure!(said.contains(&digest.to_string()), "{said}");
        Ok(digest)
    }

    /// Logs the user of tests in, at this desk.
    fn account(&self, host: &str, password: &str) -> Result<()> {
        Ok(std::fs::write(self.folder().join("config.json"), docker_config(host, USER, password))?)
    }

    /// Runs `topoloom plugin …` at this desk, which trusts the authority.
    async fn plugin(&self, registry: &Registry, words: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(topoloom_tests::host::binary()?)
            .arg("plugin")
            .args(words)
            .env("DOCKER_CONFIG", self.folder())
            .env("TOPOLOOM_REGISTRY_CA", registry.ca())
            .env("KUBECONFIG", self.scene.plane.kubeconfig())
            .current_dir(self.folder())
            .output()
            .await
            .context("topoloom cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "topoloom plugin {words:?}: {}: {said}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The reference to a tag of the repository of these tests.
fn reference(registry: &Registry, tag: &str) -> String {
    format!("oci://{}/{REPOSITORY}:{tag}", registry.host())
}
