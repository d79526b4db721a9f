//! The real binary against a real control plane on this machine.
//!
//! One control plane per size. At the largest, what a running host costs is measured too: requests, edits, memory.

mod convergence;
pub(crate) mod edits;
mod profile;
mod raw;
mod requests;
pub(crate) mod watch;

use anyhow::{Context, Result};
use kube::api::{Api, DeleteParams, ListParams};
use topoloom_api::DiscoverySource;
use topoloom_tests::host::Host;
use topoloom_tests::scene::Scene;

use crate::cluster::{configuration, labels, name};
use crate::options::Options;
use crate::process::peak_mib;
use crate::table::{Row, Table, Target, mib};
use watch::Watch;

const SIZES: [u32; 3] = [1_000, 5_000, 20_000];
/// The most memory that the host may use at the largest size.
const PEAK_MIB: f64 = 64.0;

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let sizes = options.nodes(&SIZES);
    let largest = sizes.iter().copied().max().unwrap_or_default();
    let is_running_wanted = ["requests", "edits", "memory"].iter().any(|part| options.wants(part));
    let largest_wanted = is_running_wanted || options.wants("profile");
    for size in sizes {
        if !options.wants("convergence") && (size != largest || !largest_wanted) {
            continue;
        }
        let live = Live::start(size).await?;
        if options.wants("convergence") {
            convergence::measure(&live, options, table).await?;
        }
        if is_running_wanted && size == largest {
            running(&live, options, table).await?;
        }
        if options.wants("profile") && size == largest {
            profile::measure(&live, table).await?;
        }
        live.scene.plane.stop().await?;
    }
    Ok(())
}

async fn running(live: &Live, options: &Options, table: &mut Table) -> Result<()> {
    live.clear().await?;
    let mut watch = live.watch();
    let mut host = live.host().await?;
    watch.until_right(live.size).await?;
    if options.wants("requests") {
        host = requests::measure(live, host, &mut watch, table).await?;
    }
    if options.wants("edits") {
        edits::measure(live, &mut watch, options, table).await?;
    }
    if options.wants("memory") {
        let peak = peak_mib(host.id().context("the host has ended")?)?;
        let row = Row::new(format!("peak memory of the host, {} nodes", live.size), mib(peak));
        table.add(row.target(peak, Target::AtMost(PEAK_MIB), mib));
    }
    host.stop().await
}

/// A control plane with nodes and a configuration.
struct Live {
    scene: Scene,
    size: u32,
}

impl Live {
    async fn start(size: u32) -> Result<Self> {
        eprintln!("bench: starting a control plane with {size} nodes");
        let scene = Scene::alone().await?;
        scene.plane.create_nodes((0..size).map(|node| (name(node), labels(node)))).await?;
        scene.configure(&configuration()).await?;
        Ok(Self { scene, size })
    }

    /// The host as an operator runs it.
    async fn host(&self) -> Result<Host> {
        Host::launch(&self.scene.plane.kubeconfig(), &["--log", "info"]).await
    }

    fn watch(&self) -> Watch {
        Watch::new(self.scene.hyper_nodes())
    }

    /// Deletes everything that a host leaves behind.
    async fn clear(&self) -> Result<()> {
        let (deletion, all) = (DeleteParams::default(), ListParams::default());
        let sources: Api<DiscoverySource> = Api::all(self.scene.plane.client());
        sources.delete_collection(&deletion, &all).await?;
        self.scene.hyper_nodes().delete_collection(&deletion, &all).await?;
        let mut watch = self.watch();
        watch.until("no HyperNode is left", |objects| objects.is_empty()).await
    }
}
