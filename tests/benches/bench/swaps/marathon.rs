//! A thousand swaps in a row: what the host uses after a hundred of them and at the end.
//!
//! A few plugins take turns; every tenth swap is to bytes that the host has never seen and must compile. The host has a
//! cache of compiled plugins and a folder of modules. The cache is small enough to be full after a hundred swaps, so
//! the host has to delete old images to keep within its size. Each swap starts as soon as the benchmark has seen the
//! one before it. So in most swaps an optimising compile is under way, which ends with the plugin that it was for.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL};
use topoloom_tests::host::Host;
use topoloom_tests::scene::NAMESPACE;

use super::{Parcel, Stage, metric};
use crate::options::Options;
use crate::process::{ProcessMemory, held};
use crate::table::{Row, Table, Target, mib, time};

const SOURCE: &str = "fabric";
const SWAPS: usize = 1_000;
/// The swaps before the first measurement.
const EARLY: usize = 100;
/// After this time the host has done the writes of the last swap.
const REST: Duration = Duration::from_secs(1);
/// An optimising compile has ended after this time.
const COMPILE_SECONDS: u32 = 10;
/// Swaps between two measurements.
const EVERY: usize = 100;
/// Numbers of plugins that no other part uses.
const FIRST: u32 = 30_000;
/// Plugins that take turns, and how often there is a new one instead.
const VERSIONS: usize = 8;
const NEW_EVERY: usize = 10;
const CACHE_MIB: f64 = 24.0;

/// By how much memory may grow from the first measurement to the last, in MiB: an allocator varies by that much.
const GROWTH_MIB: f64 = 8.0;

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("topoloom-bench-").tempdir()?;
    let (cache, modules) = (folder.path().join("cache"), folder.path().join("modules"));
    let arguments = [
        "--plugin-cache",
        cache.to_str().context("the folder has a name")?,
        "--plugin-cache-size",
        &format!("{CACHE_MIB}Mi"),
        "--module-dir",
        modules.to_str().context("the folder has a name")?,
    ];
    let versions =
        (0..VERSIONS as u32).map(|number| Parcel::new(SOURCE, FIRST + number)).collect::<Result<Vec<_>>>()?;
    let first = &versions[0];
    stage.deliver(first).await?;
    let (host, mut statuses) = stage.host(&[SOURCE.to_owned()], &arguments).await?;
    statuses.until_serves(SOURCE, first.digest).await?;
    let swaps = options.runs(SWAPS).max(2 * EARLY);
    let begin = Instant::now();
    let mut looks = Vec::new();
    for swap in 1..=swaps {
        let new = (swap % NEW_EVERY == 0).then(|| Parcel::new(SOURCE, FIRST + (VERSIONS + swap) as u32)).transpose()?;
        let parcel = new.as_ref().unwrap_or(&versions[swap % VERSIONS]);
        stage.deliver(parcel).await?;
        statuses.until_serves(SOURCE, parcel.digest).await?;
        if swap % EVERY == 0 || swap == swaps {
            tokio::time::sleep(REST).await;
            let look = quiet_look(stage, &host, &cache, &modules).await?;
            eprintln!("bench: after {swap} swaps: {look:?}");
            looks.push(look);
        }
    }
    let took = begin.elapsed();
    let failed = metric(&host, "topoloom_rounds_total", &[]).await?
        - metric(&host, "topoloom_rounds_total", &["outcome=\"ok\""]).await?;
    let swapped = metric(&host, "topoloom_plugin_swaps_total", &[SOURCE]).await?;
    ensure!(swapped as usize > swaps, "there were {swapped} swaps");
    let (early, late) = (&looks[0], &looks[looks.len() - 1]);
    let row = Row::new(format!("{swaps} swaps in a row, every tenth to new bytes"), format!("{failed} failed rounds"));
    table.add(row.exactly(failed == 0.0, "0".to_owned()));
    table.add(Row::new("  all of them", time(took)));
    let (then, now) = (early.process.resident, late.process.resident);
    let row =
        Row::new(format!("  memory of the host at the end, and after {EARLY}"), format!("{} {}", mib(now), mib(then)));
    table.add(row.target(now - then, Target::AtMost(GROWTH_MIB), |more| format!("{} more", mib(more))));
    for (what, now, then) in [
        ("file descriptors", late.process.descriptors, early.process.descriptors),
        ("children", late.process.children, early.process.children),
        ("threads", late.process.threads, early.process.threads),
        ("files of the module folder", late.modules.files, early.modules.files),
        ("kept ConfigMaps", late.maps, early.maps),
        ("files of the cache", late.cache.files, early.cache.files),
    ] {
        let row = Row::new(format!("  {what} at the end, and after {EARLY}"), format!("{now} {then}"));
        // A difference of two is allowed: a connection or an image may come or go.
        table.add(row.exactly(now <= then + 2, "the same".to_owned()));
    }
    let (now, then) = (late.cache.mib, early.cache.mib);
    let row =
        Row::new(format!("  size of the cache at the end, and after {EARLY}"), format!("{} {}", mib(now), mib(then)));
    table.add(row.target(now, Target::AtMost(CACHE_MIB), mib));
    host.stop().await
}

/// The resources that are in use at one time.
#[derive(Debug)]
struct Look {
    process: ProcessMemory,
    cache: Folder,
    modules: Folder,
    maps: usize,
}

#[derive(Debug)]
struct Folder {
    files: usize,
    mib: f64,
}

/// A look while no optimising compile is under way: its process has descriptors of its own.
async fn quiet_look(stage: &Stage, host: &Host, cache: &Path, modules: &Path) -> Result<Look> {
    for _ in 0..COMPILE_SECONDS {
        let look = look(stage, host, cache, modules).await?;
        if look.process.children == 0 {
            return Ok(look);
        }
        tokio::time::sleep(REST).await;
    }
    look(stage, host, cache, modules).await
}

async fn look(stage: &Stage, host: &Host, cache: &Path, modules: &Path) -> Result<Look> {
    let maps: Api<ConfigMap> = Api::namespaced(stage.scene.plane.client(), NAMESPACE);
    let kept = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
    let kept = maps.list_metadata(&kept).await?.items.len();
    let process = held(host.id().context("the host has ended")?)?;
    Ok(Look { process, cache: folder(cache)?, modules: folder(modules)?, maps: kept })
}

fn folder(path: &Path) -> Result<Folder> {
    let mut found = Folder { files: 0, mib: 0.0 };
    for entry in std::fs::read_dir(path)? {
        // A file that was deleted meanwhile is not counted.
        if let Ok(metadata) = entry?.metadata() {
            found.files += 1;
            found.mib += metadata.len() as f64 / f64::from(1 << 20);
        }
    }
    Ok(found)
}
