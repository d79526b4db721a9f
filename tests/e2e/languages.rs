//! One vendor per language: from an empty folder to a plugin that serves in a real cluster, is swapped for its next version and
//! rolled back, by the commands that the program prints and the pages name.
//!
//! The tools are the real ones ([`topoloom_tests::tools`]). What fits goes into a ConfigMap, the others into a real registry.

mod followed;
mod go;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use topoloom_simulator::Authority;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::pages;
use topoloom_tests::registry::{Auth, Registry};
use topoloom_tests::scene::{NAMESPACE, Scene};
use topoloom_tests::tools::Tool;
use topoloom_tests::vendor::{self, Vendor, commands};

/// The cluster: what the first case of every template has.
const NODES: [&str; 4] =
    ["m1 example.com/rack=a7", "m2 example.com/rack=a7", "m3 example.com/rack=b1", "m4 example.com/other=x"];
const RACKS: [&str; 2] = ["tier 1 example.com/rack=a7 (2): m1 m2", "tier 1 example.com/rack=b1 (1): m3"];

/// How long a host may take to a new version: it compiles a language runtime in up to a minute of processor time, beside other
/// tests, and twice for the optimised form.
const PATIENCE: Duration = Duration::from_secs(600);

/// A plugin that a vendor wrote.
struct Written {
    /// The file that has its version.
    source: &'static str,
    /// The place of the version in it.
    version: &'static str,
    /// What an entry says about limits.
    limits: &'static str,
}

/// Where a plugin is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    ConfigMap,
    Registry,
}

/// A cluster, a vendor who may use it, and the place where his plugin is pushed.
struct Stage {
    scene: Scene,
    vendor: Vendor,
    shelf: Shelf,
}

impl Stage {
    async fn of(language: &str, tools: &[Tool], place: Place) -> Result<Self> {
        let scene = Scene::new().await?;
        scene.nodes(&NODES).await?;
        let mut vendor = Vendor::new(language, tools).await?.with_cluster(&scene.plane).await?;
        let shelf = Shelf::open(place, &scene, &mut vendor).await?;
        Ok(Self { scene, vendor, shelf })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_of_rust_follows_the_page_from_an_empty_folder_to_a_rollback() -> Result<()> {
    let (source, version) = ("src/lib.rs", "\"racks\", \"0.1.0\"");
    let mut stage = Stage::of("rust", &[], Place::ConfigMap).await?;
    followed::the_first_plugin(&mut stage.vendor).await?;
    serve(stage, &Written { source, version, limits: "{}" }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_of_c_comes_from_an_empty_folder_to_a_rollback() -> Result<()> {
    let (source, version) = ("racks.c", "TL_TEXT(\"0.1.0\")");
    let mut stage = Stage::of("c", &[Tool::Zig], Place::ConfigMap).await?;
    by_what_is_printed(&mut stage.vendor, "c").await?;
    serve(stage, &Written { source, version, limits: "{}" }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_of_python_follows_the_page_from_an_empty_folder_to_a_rollback() -> Result<()> {
    let (source, version) = ("racks.py", "\"racks\", \"0.1.0\"");
    let mut stage = Stage::of("python", &[Tool::ComponentizePy], Place::Registry).await?;
    followed::python(&mut stage.vendor, &stage.shelf.registry()?).await?;
    serve(stage, &Written { source, version, limits: LARGE }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_of_javascript_follows_the_page_from_an_empty_folder_to_a_rollback() -> Result<()> {
    let (source, version) = ("racks.js", "version: '0.1.0'");
    let mut stage = Stage::of("javascript", &[Tool::ComponentizeJs], Place::Registry).await?;
    followed::javascript(&mut stage.vendor, &stage.shelf.registry()?).await?;
    serve(stage, &Written { source, version, limits: LARGE }).await
}

/// What a vendor does after the commands that are printed.
const MEASURE: &str = "topoloom plugin bench --size 1000 --rounds 20";

/// How a vendor signs who has a key.
const SIGN: &str = "topoloom plugin sign racks.wasm --key ../signing.pem";

/// What a language runtime needs; the time is the most that an entry can give, since this machine has other work.
const LARGE: &str = "{profile: large, compileCpu: 60s}";

/// Without a page of its own: by the printed commands alone. `language` is a word of `--lang`.
async fn by_what_is_printed(vendor: &mut Vendor, language: &str) -> Result<()> {
    let printed = vendor.sh(&format!("topoloom plugin new racks --lang {language}")).await?;
    let steps = commands(&printed);
    ensure!(steps.len() == 3, "three commands come next: {printed}");
    for step in &steps {
        let said = vendor.follow(step).await?;
        if step == "topoloom plugin build" {
            ensure!(said.contains("racks 0.1.0") && said.contains("racks.wasm"), "{said}");
            ensure!(said.contains("has room for it"), "{said}");
            is_on_the_page(language, &said)?;
        }
    }
    // The same discoverer as an ordinary program.
    let native = printed.lines().find_map(|line| line.strip_prefix("its native test needs no WebAssembly: "));
    vendor.sh(native.with_context(|| format!("no native test: {printed}"))?).await?;
    let round =
        vendor.sh("topoloom plugin run --nodes cases/first/nodes.yaml --config cases/first/config.yaml").await?;
    ensure!(round.contains("a7") && round.contains("b1") && round.contains("nodeLabels"), "{round}");
    let measured = vendor.sh(MEASURE).await?;
    ensure!(measured.contains("median") && measured.contains("1000"), "{measured}");
    Ok(())
}

/// How far the size of a component may be from that of the page, as a part of it.
const TOLERANCE: f64 = 0.1;

/// Compares the sizes in the table of the page with those of the build that printed this.
fn is_on_the_page(language: &str, printed: &str) -> Result<()> {
    let line = printed.lines().find_map(|line| line.strip_prefix("size ")).context("no size")?;
    let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
    let row = pages::row(&pages::page("docs/vendors/other-languages.md")?, row_of(language)).context("no row")?;
    for cell in row.iter().skip(1).take(2) {
        let (said, is) = pages::size(cell).zip(numbers.next()).with_context(|| format!("{row:?}, {line}"))?;
        ensure!((said - is).abs() <= said * TOLERANCE, "docs/vendors/other-languages.md: {row:?} is {line}");
    }
    Ok(())
}

/// How the row of a language begins.
fn row_of(language: &str) -> &'static str {
    match language {
        "rust" => "Rust,",
        "c" => "C ",
        "python" => "Python,",
        _ => "JavaScript,",
    }
}

/// What was built is pushed, serves, is swapped and rolled back.
async fn serve(stage: Stage, written: &Written) -> Result<()> {
    let Written { source, version, limits } = *written;
    let Stage { scene, mut vendor, shelf } = stage;

    let pushed = vendor.sh(&shelf.push()).await?;
    ensure!(pushed.contains("racks 0.1.0 pushed to"), "{pushed}");
    scene.configure(&shelf.entry(&pushed, limits)?).await?;
    let host = shelf.host(&scene).await?;
    until_serving(&scene, "0.1.0").await;

    vendor.edit(source, version, &version.replace("0.1.0", "0.2.0"))?;
    vendor.sh("topoloom plugin build").await?;
    if vendor.at("racks.sig").exists() {
        // What signs the version before would be refused.
        vendor.sh(SIGN).await?;
    }
    vendor.sh(&shelf.push()).await?;
    until_serving(&scene, "0.2.0").await;

    let said = vendor.sh("topoloom plugin rollback racks").await?;
    ensure!(said.contains("source racks will use plugin"), "{said}");
    until_serving(&scene, "0.1.0").await;
    host.stop().await?;
    scene.plane.stop().await
}

/// Waits until this version serves, with the topology of the cluster.
async fn until_serving(scene: &Scene, version: &str) {
    eventually(&format!("version {version} serves"), PATIENCE, async || {
        let status = scene.source("racks").await.map_err(|error| error.to_string())?.status;
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        let serves = status.plugin.as_ref().is_some_and(|plugin| plugin.version == version);
        if serves && lines == RACKS { Ok(()) } else { Err(format!("{status:#?}\n{lines:#?}")) }
    })
    .await;
}

/// Where plugins are pushed, and hosts find them.
enum Shelf {
    ConfigMap,
    Registry { registry: Registry, authority: Authority },
}

impl Shelf {
    async fn open(place: Place, scene: &Scene, vendor: &mut Vendor) -> Result<Self> {
        if place == Place::ConfigMap {
            return Ok(Self::ConfigMap);
        }
        let authority = Authority::generate()?;
        let registry = Registry::start(scene.plane.folder(), &authority, Auth::Open).await?;
        vendor.set("TOPOLOOM_REGISTRY_CA", registry.ca());
        Ok(Self::Registry { registry, authority })
    }

    /// The address of the registry.
    fn registry(&self) -> Result<String> {
        match self {
            Self::ConfigMap => bail!("there is no registry"),
            Self::Registry { registry, .. } => Ok(registry.host()),
        }
    }

    /// The command.
    fn push(&self) -> String {
        match self {
            Self::ConfigMap => format!("topoloom plugin push racks.wasm --configmap {NAMESPACE}/racks-plugin"),
            Self::Registry { registry, .. } => {
                let reference = format!("oci://{}/acme/racks:stable", registry.host());
                format!("topoloom plugin push racks.wasm {reference} --profile large")
            }
        }
    }

    /// The entry with the line that the push printed.
    fn entry(&self, pushed: &str, limits: &str) -> Result<String> {
        let line = pushed.lines().find(|line| line.starts_with("  plugin: {"));
        let line = line.with_context(|| format!("no line for an entry: {pushed}"))?;
        let line = match self {
            Self::ConfigMap => line.to_owned(),
            Self::Registry { authority, .. } => {
                // This registry is on the machine of the host, and its authority is known to no one else.
                let authority: String = authority.pem().lines().map(|line| format!("        {line}\n")).collect();
                let reference = line.trim().trim_start_matches("plugin: {oci: {").trim_end_matches("}}");
                format!(
                    "  plugin:\n    oci:\n      {reference}\n      addresses: [loopback]\n      caBundle: |\n{authority}"
                )
            }
        };
        Ok(format!(
            "networkTopologyDiscovery:\n- source: racks\n  enabled: true\n{}\n  \
             permissions: {{nodeLabels: [example.com/rack]}}\n  limits: {limits}\n  config: {{label: example.com/rack}}\n",
            line.trim_end()
        ))
    }

    async fn host(&self, scene: &Scene) -> Result<Host> {
        match self {
            Self::ConfigMap => scene.host().await,
            Self::Registry { registry, .. } => {
                // A module of this size is stored in a folder.
                let modules = scene.plane.folder().join("modules");
                std::fs::create_dir_all(&modules)?;
                let (registries, modules) = (registry.host(), modules.display().to_string());
                // What the vendor's commands compiled on this machine, and sealed.
                let (cache, key) = vendor::compiled()?;
                let (cache, key) = (cache.display().to_string(), key.display().to_string());
                let delivery = ["--plugin-registries", &registries, "--plugin-poll", "1", "--module-dir", &modules];
                let compiled = ["--plugin-cache", &cache, "--plugin-cache-key", &key, "--plugin-cache-size", "1Gi"];
                let arguments = [&delivery[..], &compiled].concat();
                scene.host_with(&arguments).await
            }
        }
    }
}
