//! `make demo`: a real cluster on this machine, a few hundred nodes, a simulated fabric manager, and the topology that
//! follows them. `make demo SHOW=lending`: [two clusters](topoloom_tests::show::lending), of which one lends nodes to the other.
//!
//! Everything lives in temporary folders and on 127.0.0.1, and ends with this program.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program for people: it prints, and stops with what went wrong"
)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use topoloom_simulator::{Credentials, Fabric, FaultRule, HostKind, LinkState, Shape, Simulator, Ufm};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::scene::{NAMESPACE, Scene};
use topoloom_tests::show::{Show, lending, step, vendor};

/// Nodes of the demo: 2 spines × 6 leaves × 20 nodes and a rest without labels.
const SPINES: usize = 2;
const LEAVES: usize = 6;
const NODES: usize = 20;
const SPARE: usize = 12;

const CONFIG: &str = "\
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      gpu:
      - nodeLabel: example.com/spine
      - nodeLabel: example.com/leaf
      - nodeLabel: kubernetes.io/hostname
";

/// A source whose plugin comes from a vendor, in a ConfigMap.
const PLUGIN: &str = "\
- source: edge
  enabled: true
  plugin: {configMap: {name: edge-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
";

/// The fabric of the demo: two pods of two units, eight rails.
const FABRIC: &str = "units=4,hosts-per-unit=20,rails=8,pods=2,spines=8,cores=4,host-names=ib-{index:03}";

/// The token that the simulated UFM accepts.
const TOKEN: &str = "demo-token-of-the-simulated-ufm";

/// HyperNodes of the fabric: four units, two pods, one core.
const FABRIC_GROUPS: usize = 7;

/// Nodes that only the vendor's plugin knows.
const EDGE: usize = 12;

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = match Show::read(&words) {
        Ok(wanted) => wanted,
        Err(error) => {
            eprintln_chain(&error.into());
            return ExitCode::from(2);
        }
    };
    let plays = async {
        match wanted {
            Show::Topology => show().await,
            Show::Lending => lending::show(look_around()).await,
        }
    };
    let shown = tokio::select! {
        shown = plays => shown,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    match shown {
        Ok(()) => {
            println!("\ndemo: everything is stopped and removed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln_chain(&error);
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stderr, reason = "the one place that reports a failure of the demo")]
fn eprintln_chain(error: &anyhow::Error) {
    eprintln!("demo: {error:#}");
}

/// Waits until the person at the terminal has seen enough.
async fn look_around() -> Result<()> {
    if std::env::var_os("CI").is_some() || !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        println!("   (no terminal: the demo ends here)");
        return Ok(());
    }
    println!("   Ctrl-C ends the demo and removes everything");
    Ok(tokio::signal::ctrl_c().await?)
}

async fn show() -> Result<()> {
    step("starting etcd, kube-apiserver and a registry (built once, some minutes the first time)");
    // Building Helm would take minutes.
    let scene = Scene::alone().await?.by_the_plain_manifest();
    let shelf = vendor::Shelf::open(scene.plane.folder()).await?;
    println!("   the API server is {} and the CRDs are installed", scene.plane.server_url());

    step(&format!("creating {} nodes and the configuration", SPINES * LEAVES * NODES + SPARE));
    let nodes = (0..SPINES * LEAVES * NODES).map(|i| {
        let (spine, rack) = (i / (LEAVES * NODES), i / NODES);
        (
            format!("gpu-{i:03}"),
            vec![("example.com/spine", format!("s{spine}")), ("example.com/leaf", format!("r{rack:02}"))],
        )
    });
    let spare = (0..SPARE).map(|i| (format!("spare-{i:02}"), Vec::new()));
    scene.plane.create_nodes(nodes.chain(spare)).await?;
    scene.configure(CONFIG).await?;
    print!("{CONFIG}");

    step("running the host");
    let flags = shelf.flags();
    let host = scene.host_with(&flags.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let groups = SPINES + SPINES * LEAVES;
    until(&scene, groups, "(20)", SPINES * LEAVES).await;
    show_tree(&scene).await?;

    step("what the cluster says");
    print!("{}", scene.plane.kubectl(&["get", "hypernodes"]).await?);
    print!("{}", scene.plane.kubectl(&["get", "discoverysources"]).await?);

    step("an operator moves ten nodes from leaf r00 to leaf r01, and gives the spare nodes a leaf of their own");
    for i in 0..10 {
        scene.plane.relabel(&format!("gpu-{i:03}"), "example.com/leaf", "r01").await?;
    }
    for i in 0..SPARE {
        let node = format!("spare-{i:02}");
        scene.plane.relabel(&node, "example.com/spine", "s1").await?;
        scene.plane.relabel(&node, "example.com/leaf", "r99").await?;
    }
    until(&scene, groups + 1, "r01 (30)", 1).await;
    show_tree(&scene).await?;

    step("an operator makes a mistake: a configuration under which no node has a place");
    scene.configure(&CONFIG.replace("example.com/leaf", "example.com/typo")).await?;
    let why = scene.until_condition("label", "Held", "True", "EmptyResult").await;
    println!("   the topology stays, and the source says why:\n   {why}");
    scene.configure(CONFIG).await?;
    scene.until_state("label", "Serving").await;

    let ufm = fabric(&scene).await?;
    let config = swap_plugins(&scene, &ufm).await?;
    vendor::show(&scene, &shelf, &config).await?;

    step("have a look around");
    let kubeconfig = scene.plane.kubeconfig();
    let binary = topoloom_tests::host::binary()?;
    println!("   export KUBECONFIG={}", kubeconfig.display());
    println!("   kubectl get hypernodes,discoverysources      kubectl describe discoverysource label");
    println!("   {} tree", binary.display());
    println!("   {} plugin list", binary.display());
    println!("   {} explain gpu-000", binary.display());
    println!("   kubectl label node gpu-000 example.com/leaf=r42 --overwrite, then look again");
    println!("   {} fabric report", binary.display());
    println!("   {} fabric simulate --help: a fabric of your own, and what can be wrong with it", binary.display());
    look_around().await?;
    host.stop().await?;
    ufm.stop().await;
    scene.plane.stop().await
}

/// The entry of the simulated UFM.
fn ufm_entry(ufm: &Simulator) -> String {
    let authority: String = ufm.ca_pem().unwrap_or_default().lines().map(|line| format!("      {line}\n")).collect();
    format!(
        "\
- source: ufm
  enabled: true
  interval: 10m
  credentials: {{secretRef: {{name: ufm-credentials}}}}
  permissions: {{endpoints: {{ufm: {{addresses: [loopback]}}}}}}   # it runs on this machine
  config:
    endpoint: {}
    caBundle: |
{authority}",
        ufm.url()
    )
}

/// A second source beside the labels: the cables, as the fabric manager reports them. Then the manager breaks.
async fn fabric(scene: &Scene) -> Result<Simulator> {
    step("an InfiniBand fabric: a simulated UFM over TLS, a Node for each of its hosts, a Secret with its token");
    let fabric = Fabric::generate(&FABRIC.parse::<Shape>()?)?;
    let names: Vec<String> =
        fabric.hosts().filter(|(_, host)| host.kind == HostKind::Compute).map(|(_, host)| host.name.clone()).collect();
    let ufm = Ufm::builder(fabric).credentials(Credentials::none().token(TOKEN)).start().await?;
    scene.plane.create_nodes(names.into_iter().map(|name| (name, Vec::<(String, String)>::new()))).await?;
    let secret =
        ["create", "secret", "generic", "ufm-credentials", "-n", NAMESPACE, &format!("--from-literal=token={TOKEN}")];
    scene.plane.kubectl(&secret).await?;
    let entry = ufm_entry(&ufm);
    scene.configure(&format!("{CONFIG}{entry}")).await?;
    entry.lines().filter(|line| !line.starts_with("      ")).for_each(|line| println!("   {line}"));
    until_source(scene, "ufm", FABRIC_GROUPS).await;
    println!("   $ topoloom tree --source ufm");
    scene.cli(&["tree", "--source", "ufm"]).await?.lines().for_each(|line| println!("   {line}"));

    step("the fabric manager breaks on stage: its token is revoked, it answers with a login page, its list is empty");
    for (rule, reason) in [("status:401", Some("Unauthorized")), ("html", Some("Upstream")), ("empty-list", None)] {
        // The edit changes the counters of the fabric manager, so that the plugin fetches the lists; without a change a
        // round is one small request.
        ufm.fabric().edit(|fabric| fabric.rename_switch("spine-p0-0", "spine-p0-0"))?;
        ufm.faults().set(rule.parse::<FaultRule>()?).await?;
        scene.cli(&["source", "run", "ufm"]).await?;
        let why = match reason {
            Some(reason) => scene.until_condition("ufm", "Discovered", "False", reason).await,
            None => until_kept(scene).await,
        };
        println!("   {rule}: the topology stays, and the source says why:\n      {why}");
        until_source(scene, "ufm", FABRIC_GROUPS).await;
    }
    ufm.faults().clear().await?;
    scene.cli(&["source", "run", "ufm"]).await?;
    scene.until_state("ufm", "Serving").await;
    println!("   it is well again, and so is the source");

    step("a cable of ib-003 too many, into a switch of another unit; three dead links of ib-044");
    ufm.fabric().edit(|fabric| {
        fabric.add_stray("ib-003", "leaf-su2-r1")?;
        let down: Vec<_> =
            fabric.host(fabric.find_host("ib-044")?).into_iter().flat_map(|host| &host.hcas).take(3).collect();
        let ports: Vec<_> = down.iter().map(|hca| topoloom_simulator::PortName { guid: hca.guid, number: 1 }).collect();
        ports.into_iter().try_for_each(|port| fabric.cut_port(port, LinkState::Down))
    })?;
    println!("   $ topoloom fabric report");
    scene.cli(&["fabric", "report", "--source", "ufm"]).await?.lines().for_each(|line| println!("   {line}"));
    Ok(ufm)
}

/// Waits until all hosts of the fabric keep their place although no list has them; returns the message.
async fn until_kept(scene: &Scene) -> String {
    eventually("the hosts are reported as kept", PATIENCE, async || {
        let status = scene.source("ufm").await.map_err(|error| error.to_string())?.status;
        let kept = status.diagnostics.iter().find(|said| said.code == "kept-while-down");
        kept.map(|said| format!("{} ({}): {}", said.code, said.count, said.example))
            .ok_or_else(|| format!("{status:#?}"))
    })
    .await
}

/// Waits until a source has this many HyperNodes, all with a node count.
async fn until_source(scene: &Scene, source: &str, groups: usize) {
    eventually(&format!("{source} has {groups} HyperNodes"), PATIENCE, async || {
        let stored = scene.stored().await.map_err(|error| error.to_string())?;
        let own = stored.values().filter(|object| {
            let labels = object.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get(topoloom_api::names::SOURCE_LABEL)).is_some_and(|owner| owner == source)
        });
        let counted =
            own.filter(|object| object.status.as_ref().and_then(|status| status.node_count).is_some()).count();
        let status = scene.source(source).await.map_err(|error| error.to_string())?.status;
        if counted == groups { Ok(()) } else { Err(format!("{counted} of {groups}: {status:#?}")) }
    })
    .await;
}

/// A vendor's plugin, a newer one and a broken one, each pushed into the same ConfigMap while the host runs. Returns the
/// configuration with it.
async fn swap_plugins(scene: &Scene, ufm: &Simulator) -> Result<String> {
    let config = format!("{CONFIG}{}{PLUGIN}", ufm_entry(ufm));
    step("a vendor ships a plugin as one file: an operator pushes it into a ConfigMap and grants it one label");
    let edge = (0..EDGE).map(|i| (format!("edge-{i:02}"), vec![("example.com/rack", format!("e{}", i / (EDGE / 2)))]));
    scene.plane.create_nodes(edge).await?;
    push(scene, "good", "1.0.0").await?;
    scene.configure(&config).await?;
    print!("{PLUGIN}");
    until_edge(scene, "1.0.0", 2).await;
    show_edge(scene).await?;

    step("version 2.0.0, pushed while the host runs: it knows a level above the racks");
    push(scene, "tall", "2.0.0").await?;
    until_edge(scene, "2.0.0", 3).await;
    show_edge(scene).await?;

    step("version 3.0.0 is broken: it is tried in the shadow of the one that serves, and refused");
    push(scene, "crash", "3.0.0").await?;
    let why = scene.until_condition("edge", "Loaded", "False", "Trap").await;
    println!("   the tree stays, and the source says why:\n   {why}");
    until_edge(scene, "2.0.0", 3).await;
    show_edge(scene).await?;
    Ok(config)
}

async fn push(scene: &Scene, act: &str, version: &str) -> Result<()> {
    let file = scene.plane.folder().join(format!("edge-{version}.wasm"));
    std::fs::write(&file, guest::version(act, version)?)?;
    println!("   $ topoloom plugin push edge-{version}.wasm --configmap {NAMESPACE}/edge-plugin");
    let map = format!("{NAMESPACE}/edge-plugin");
    let said = scene.cli(&["plugin", "push", &file.to_string_lossy(), "--configmap", &map]).await?;
    said.lines().take(2).for_each(|line| println!("   {line}"));
    Ok(())
}

async fn show_edge(scene: &Scene) -> Result<()> {
    println!("   $ topoloom plugin list");
    scene.cli(&["plugin", "list"]).await?.lines().for_each(|line| println!("   {line}"));
    println!("   $ topoloom tree --source edge");
    scene.cli(&["tree", "--source", "edge"]).await?.lines().for_each(|line| println!("   {line}"));
    Ok(())
}

/// Waits until this version serves the source, with this many HyperNodes that have a node count.
async fn until_edge(scene: &Scene, version: &str, groups: usize) {
    eventually(&format!("version {version} serves with {groups} HyperNodes"), PATIENCE, async || {
        let status = scene.source("edge").await.map_err(|error| error.to_string())?.status;
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        let found = lines.iter().filter(|line| line.contains("example.com/rack=") && !line.contains("(?)")).count();
        let serves = status.plugin.as_ref().is_some_and(|plugin| plugin.version == version);
        if serves && found == groups { Ok(()) } else { Err(format!("{status:#?}\n{lines:#?}")) }
    })
    .await;
}

async fn show_tree(scene: &Scene) -> Result<()> {
    println!("   $ topoloom tree");
    scene.cli(&["tree"]).await?.lines().for_each(|line| println!("   {line}"));
    Ok(())
}

/// Waits for that many HyperNodes, of which `times` show `part`.
async fn until(scene: &Scene, groups: usize, part: &str, times: usize) {
    eventually(&format!("{groups} HyperNodes"), PATIENCE, async || {
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        let found = lines.iter().filter(|line| line.contains(part)).count();
        match lines.len() == groups && found == times && lines.iter().all(|line| !line.contains("(?)")) {
            true => Ok(()),
            false => Err(format!("{lines:#?}")),
        }
    })
    .await;
}
