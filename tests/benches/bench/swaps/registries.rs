//! From `topoloom plugin push` to a registry until the new plugin serves, as a user of the API sees it: the time begins before the
//! command is started, and ends when a watch has shown the new digest in `status.plugin`. The registry is a real one, over TLS; the
//! host asks it every second. Each push comes at another moment of that second.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use topoloom::plugin::Digest;
use topoloom_simulator::Authority;
use topoloom_tests::host::binary;
use topoloom_tests::registry::{Auth, Registry};

use super::{Stage, metric};
use crate::options::Options;
use crate::plugins::variant;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const SOURCE: &str = "fabric";
const PUSHES: usize = 100;
const P99_SECONDS: f64 = 2.0;
/// `--plugin-poll`.
const POLL: Duration = Duration::from_secs(1);
/// After this time the plugin of the last push is compiled with optimisation, and nothing is under way.
const REST: Duration = Duration::from_millis(1_500);
/// Numbers of plugins that no other part uses.
const FIRST: u32 = 40_000;

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    let authority = Authority::generate()?;
    let folder = stage.scene.plane.folder();
    let registry = Registry::start(folder, &authority, Auth::Open).await?;
    let first = push(folder, &registry, FIRST).await?;
    let plugin = json!({"oci": {
        "ref": reference(&registry), "addresses": ["loopback"], "caBundle": authority.pem(),
    }});
    let arguments = [format!("--plugin-poll={}", POLL.as_secs()), format!("--plugin-registries={}", registry.host())];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (host, mut statuses) = stage.host_of(&[(SOURCE, plugin)], &arguments).await?;
    statuses.until_serves(SOURCE, first).await?;
    let pushes = options.runs(PUSHES) as u32;
    let (mut whole, mut pushed) = (Sample::default(), Sample::default());
    for number in 1..=pushes {
        tokio::time::sleep(REST + POLL * number / pushes).await;
        let began = Instant::now();
        let digest = push(folder, &registry, FIRST + number).await?;
        pushed.push(began.elapsed());
        statuses.until_serves(SOURCE, digest).await?;
        whole.push(began.elapsed());
    }
    for percent in [50, 99] {
        let took = whole.percentile(percent);
        let measure =
            format!("plugin push oci://… → new plugin serves, looked at every second, p{percent} of {}", whole.len());
        let target = if percent == 99 { Target::Below(P99_SECONDS) } else { Target::None };
        table.add(Row::new(measure, time(took)).target(took.as_secs_f64(), target, seconds));
    }
    table.add(Row::new(format!("  of it: the command, median of {}", pushed.len()), time(pushed.median())));
    let failed = metric(&host, "topoloom_plugin_refusals_total", &[SOURCE]).await?;
    ensure!(failed == 0.0, "{failed} plugins were refused");
    host.stop().await
}

fn reference(registry: &Registry) -> String {
    format!("oci://{}/bench/label:stable", registry.host())
}

/// Pushes the plugin of that number, as a vendor does.
async fn push(folder: &Path, registry: &Registry, number: u32) -> Result<Digest> {
    let bytes = variant(number)?;
    let file = folder.join("label.wasm");
    std::fs::write(&file, &bytes)?;
    let output = tokio::process::Command::new(binary()?)
        .args(["plugin", "push"])
        .arg(&file)
        .arg(reference(registry))
        // No account of this machine is used.
        .env("DOCKER_CONFIG", folder)
        .env("TOPOLOOM_REGISTRY_CA", registry.ca())
        .output()
        .await
        .context("topoloom cannot be started")?;
    ensure!(output.status.success(), "plugin push: {}", String::from_utf8_lossy(&output.stderr));
    Ok(Digest::of(&bytes))
}
