//! The test control plane by hand: `build` makes its binary, and that of Helm, which the tests of the chart need, and prints what
//! each path is; `up` runs a control plane until its input closes or Ctrl-C. `--machines` gives it Nodes with test kubelets, which run pods in name
//! only, and `--schedules` a kube-scheduler with the controllers of workloads: together two of them are the clusters of lending.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line tool")]

use std::io::Read;
use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use topoloom_tests::controlplane::{ControlPlane, Programs, Scheduler, WORKLOADS, find_or_build};
use topoloom_tests::helm;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{Kubelets, NewNode, Settings};
use topoloom_tests::registry;

const USAGE: &str = "usage: controlplane build|up [--machines NAME,NAME] [--schedules]";

/// What a machine has.
const MACHINE: [(&str, &str); 4] = [("cpu", "32"), ("memory", "128Gi"), ("pods", "110"), ("nvidia.com/gpu", "8")];

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(verb) = Verb::read(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match verb {
        Verb::Build => build().await,
        Verb::Up(inside) => up(&inside).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("controlplane: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is to be done.
enum Verb {
    Build,
    Up(Inside),
}

/// What a control plane has beside its servers.
#[derive(Default)]
struct Inside {
    machines: Vec<String>,
    schedules: bool,
}

impl Verb {
    fn read(args: &[String]) -> Option<Self> {
        let mut words = args.iter().map(String::as_str);
        match words.next()? {
            "build" if args.len() == 1 => Some(Self::Build),
            "up" => Inside::read(words).map(Self::Up),
            _ => None,
        }
    }
}

impl Inside {
    fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut inside = Self::default();
        while let Some(word) = words.next() {
            match word {
                "--machines" => inside.machines = words.next()?.split(',').map(str::to_owned).collect(),
                "--schedules" => inside.schedules = true,
                _ => return None,
            }
        }
        Some(inside)
    }
}

async fn build() -> Result<()> {
    match tokio::task::spawn_blocking(find_or_build).await?? {
        Programs::Built { servers, kubectl } => {
            println!("{} (etcd and the servers of the control plane)", servers.display());
            println!("{} (kubectl)", kubectl.display());
        }
        Programs::Folder(folder) => {
            println!("{} (etcd, the servers of the control plane and kubectl)", folder.display())
        }
    }
    println!("{} (helm)", tokio::task::spawn_blocking(helm::find_or_build).await??.display());
    println!("{} (a registry)", tokio::task::spawn_blocking(registry::find_or_build).await??.display());
    println!("{} (oras)", tokio::task::spawn_blocking(registry::oras::find_or_build).await??.display());
    Ok(())
}

async fn up(inside: &Inside) -> Result<()> {
    // First of all, so that a signal during the start does not leave the folder behind.
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let closed = input_closed();
    let end = async {
        tokio::select! {
            _ = terminated.recv() => "it got SIGTERM",
            _ = interrupted.recv() => "Ctrl-C",
            _ = closed => "its input has ended; `up` runs until then, so start it in a terminal, or with an input that stays open",
        }
    };
    tokio::pin!(end);
    let mut background = Background::new();
    let (plane, _scheduler) = tokio::select! {
        started = start(inside, &mut background) => started?,
        why = &mut end => {
            eprintln!("controlplane: stopped while it was started: {why}");
            return Ok(());
        }
    };
    println!("KUBECONFIG={}", plane.kubeconfig().display());
    let why = end.await;
    eprintln!("controlplane: stopping: {why}");
    background.stop().await;
    plane.stop().await
}

async fn start(inside: &Inside, background: &mut Background) -> Result<(ControlPlane, Option<Scheduler>)> {
    let mut plane = ControlPlane::start().await?;
    if !inside.machines.is_empty() {
        let (kubelets, run) = Kubelets::new(plane.client(), &Settings::default());
        background.spawn(run);
        let machine = |name: &String| {
            MACHINE.into_iter().fold(NewNode::named(name), |node, (resource, amount)| node.with(resource, amount))
        };
        kubelets.register(inside.machines.iter().map(machine)).await?;
        // They end with the last copy of their handle.
        background.spawn(async move {
            let _kubelets = kubelets;
            std::future::pending().await
        });
    }
    if !inside.schedules {
        return Ok((plane, None));
    }
    plane.start_controllers(&WORKLOADS)?;
    let scheduler = plane.scheduler(&[]).await?;
    Ok((plane, Some(scheduler)))
}

/// A thread of its own: the runtime would wait for a blocked read when it ends, the process does not.
fn input_closed() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        // The end of the input and an error are the same here.
        _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        _ = sender.send(());
    });
    receiver
}
