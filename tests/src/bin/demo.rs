//! `make demo`: a real cluster on this machine, a few hundred nodes, and the topology that follows them.
//!
//! Everything lives in a temporary folder and on 127.0.0.1, and ends with this program.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a program for people: it prints, and stops with what went wrong"
)]

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::Scene;

/// Nodes of the demo: 2 spines × 6 racks × 20 nodes and a rest without labels.
const SPINES: usize = 2;
const RACKS: usize = 6;
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
      - nodeLabel: example.com/rack
      - nodeLabel: kubernetes.io/hostname
";

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> ExitCode {
    let shown = tokio::select! {
        shown = show() => shown,
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

fn step(text: &str) {
    println!("\n== {text}");
}

async fn show() -> Result<()> {
    step("starting etcd and kube-apiserver (built once, some minutes the first time)");
    let scene = Scene::new().await?;
    println!("   the API server is {} and the CRDs are installed", scene.plane.server_url());

    step(&format!("creating {} nodes and the configuration", SPINES * RACKS * NODES + SPARE));
    let nodes = (0..SPINES * RACKS * NODES).map(|i| {
        let (spine, rack) = (i / (RACKS * NODES), i / NODES);
        (
            format!("gpu-{i:03}"),
            vec![("example.com/spine", format!("s{spine}")), ("example.com/rack", format!("r{rack:02}"))],
        )
    });
    let spare = (0..SPARE).map(|i| (format!("spare-{i:02}"), Vec::new()));
    scene.plane.create_nodes(nodes.chain(spare)).await?;
    scene.configure(CONFIG).await?;
    print!("{CONFIG}");

    step("running the host");
    let host = scene.host().await?;
    let groups = SPINES + SPINES * RACKS;
    until(&scene, groups, "(20)", SPINES * RACKS).await;
    show_tree(&scene).await?;

    step("what the cluster says");
    print!("{}", scene.plane.kubectl(&["get", "hypernodes"]).await?);
    print!("{}", scene.plane.kubectl(&["get", "discoverysources"]).await?);

    step("somebody moves ten nodes from rack r00 to rack r01, and gives the spare nodes a rack of their own");
    for i in 0..10 {
        scene.plane.relabel(&format!("gpu-{i:03}"), "example.com/rack", "r01").await?;
    }
    for i in 0..SPARE {
        let node = format!("spare-{i:02}");
        scene.plane.relabel(&node, "example.com/spine", "s1").await?;
        scene.plane.relabel(&node, "example.com/rack", "r99").await?;
    }
    until(&scene, groups + 1, "r01 (30)", 1).await;
    show_tree(&scene).await?;

    step("somebody makes a mistake: a configuration under which no node has a place");
    scene.configure(&CONFIG.replace("example.com/rack", "example.com/typo")).await?;
    let why = scene.until_condition("label", "Held", "True", "EmptyResult").await;
    println!("   the topology stays, and the source says why:\n   {why}");
    scene.configure(CONFIG).await?;
    scene.until_state("label", "Serving").await;

    step("have a look around");
    let kubeconfig = scene.plane.kubeconfig();
    let binary = topoloom_tests::host::binary()?;
    println!("   export KUBECONFIG={}", kubeconfig.display());
    println!("   kubectl get hypernodes,discoverysources      kubectl describe discoverysource label");
    println!("   {} tree", binary.display());
    println!("   {} explain gpu-000", binary.display());
    println!("   kubectl label node gpu-000 example.com/rack=r42 --overwrite, then look again");
    if std::env::var_os("CI").is_some() || !std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        println!("   (no terminal: the demo ends here)");
    } else {
        println!("   Ctrl-C ends the demo and removes everything");
        tokio::signal::ctrl_c().await?;
    }
    host.stop().await?;
    scene.plane.stop().await
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
