//! A cluster beside a simulated fabric: there is a Node for every compute host.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::json;
use topoloom_simulator::{Credentials, Fabric, HostKind, Shape, SharedFabric, Simulator, Ufm};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, Scene};

/// The token that every UFM here accepts, until a test changes it.
pub(crate) const TOKEN: &str = "canary-token-9a4c77e1";

/// Two units of four hosts on two rails, below two spines.
const SHAPE: &str = "units=2,hosts-per-unit=4,rails=2,pods=1,spines=2,cores=0,seed=7";

/// The topology of that fabric as counts: one tree over both units.
pub(crate) const WHOLE: [(i64, i64); 3] = [(1, 4), (1, 4), (2, 8)];

/// A cluster and a fabric.
pub(crate) struct Rig {
    pub(crate) scene: Scene,
    pub(crate) fabric: SharedFabric,
}

impl Rig {
    /// A Node for every host, a Secret with the token, no configuration.
    pub(crate) async fn new() -> Result<Self> {
        Self::of(SHAPE).await
    }

    /// The same for another fabric.
    pub(crate) async fn of(shape: &str) -> Result<Self> {
        let fabric = SharedFabric::new(Fabric::generate(&shape.parse::<Shape>()?)?);
        let scene = Scene::new().await?;
        let now = fabric.now();
        let hosts = now.hosts().filter(|(_, host)| host.kind == HostKind::Compute);
        scene.plane.create_nodes(hosts.map(|(_, host)| (host.name.clone(), Vec::<(String, String)>::new()))).await?;
        let rig = Self { scene, fabric };
        rig.secret("ufm", &[("token", TOKEN)]).await?;
        Ok(rig)
    }

    /// Starts a UFM for the fabric, which accepts the token.
    pub(crate) async fn ufm(&self) -> Result<Simulator> {
        let credentials = Credentials::none().token(TOKEN);
        Ok(Ufm::builder(self.fabric.clone()).credentials(credentials).start().await?)
    }

    /// Writes a Secret.
    pub(crate) async fn secret(&self, name: &str, data: &[(&str, &str)]) -> Result<()> {
        let data: serde_json::Map<_, _> = data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": NAMESPACE}, "stringData": data,
        });
        let file = self.scene.plane.folder().join(format!("secret-{name}.json"));
        std::fs::write(&file, secret.to_string())?;
        self.scene
            .plane
            .kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file.to_string_lossy()])
            .await?;
        Ok(())
    }

    /// The fabric reports a change, although nothing changed, so that the host has to request the lists again.
    pub(crate) fn stir(&self) -> Result<()> {
        Ok(self.fabric.edit(|fabric| fabric.rename_switch("spine-p0-0", "spine-p0-0"))?)
    }

    /// Requests one round now.
    pub(crate) async fn run(&self, source: &str) -> Result<()> {
        self.scene.cli(&["source", "run", source]).await.map(drop)
    }

    /// Waits until the HyperNodes have these tiers and counts.
    pub(crate) async fn until(&self, wanted: &[(i64, i64)]) {
        eventually(&format!("the topology is {wanted:?}"), PATIENCE, async || {
            let is = self.counts().await.map_err(|error| error.to_string())?;
            if is == wanted { Ok(()) } else { Err(format!("{is:?} {:?}", self.scene.cli(&["source", "list"]).await)) }
        })
        .await;
    }

    /// Tier and count of each HyperNode.
    pub(crate) async fn counts(&self) -> Result<Vec<(i64, i64)>> {
        let stored = self.scene.stored().await?;
        let mut counts: Vec<_> = stored
            .values()
            .map(|object| {
                let count = object.status.as_ref().and_then(|status| status.node_count);
                (object.spec.tier, count.unwrap_or(-1))
            })
            .collect();
        counts.sort_unstable();
        Ok(counts)
    }

    /// Name, resource version and UID of every HyperNode: every write to one changes this.
    pub(crate) async fn versions(&self) -> Result<Vec<String>> {
        let stored = self.scene.stored().await?;
        let version = |(name, object): (&String, &topoloom_api::HyperNode)| {
            let (version, uid) = (&object.metadata.resource_version, &object.metadata.uid);
            format!("{name} {} {}", version.as_deref().unwrap_or_default(), uid.as_deref().unwrap_or_default())
        };
        Ok(stored.iter().map(version).collect())
    }
}

/// The entry of a source for these servers, with short timeouts.
pub(crate) fn entry(source: &str, servers: &[&Simulator], config: &str) -> String {
    let urls: Vec<String> = servers.iter().map(|server| format!("\"{}\"", server.url())).collect();
    let pems: String = servers.iter().filter_map(|server| server.ca_pem()).collect();
    let pem: String = pems.lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "- source: {source}
  discoverer: ufm
  enabled: true
  interval: 1h
  credentials: {{secretRef: {{name: ufm}}}}
  permissions:
    endpoints:
      ufm: {{addresses: [loopback], timeouts: {{connect: 1s, firstByte: 1s, total: 3s}}, maxBody: 2Mi}}
  config:
    endpoints: [{}]
    caBundle: |
{pem}{config}",
        urls.join(", ")
    )
}

/// A whole document.
pub(crate) fn document(entries: &[String]) -> String {
    format!("networkTopologyDiscovery:\n{}", entries.concat())
}

/// How many rounds of a source ended with each outcome, as the host counts them.
pub(crate) async fn rounds(host: &Host, source: &str) -> Result<BTreeMap<String, u64>> {
    let metrics = host.get("/metrics").await?;
    let of = format!("topoloom_rounds_total{{source=\"{source}\",outcome=\"");
    let mut rounds = BTreeMap::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(&of)) {
        let (outcome, count) = line.split_once("\"} ").with_context(|| line.to_owned())?;
        rounds.insert(outcome.to_owned(), count.parse()?);
    }
    Ok(rounds)
}
