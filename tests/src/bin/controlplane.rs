//! The test control plane by hand: `build` makes its binary, and that of Helm, which the tests of the chart need; `up`
//! runs a control plane until its input closes or Ctrl-C.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line tool")]

use std::io::Read;
use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use topoloom_tests::controlplane::{ControlPlane, Programs, find_or_build};
use topoloom_tests::helm;

const USAGE: &str = "usage: controlplane build|up";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["build"] => build().await,
        ["up"] => up().await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("controlplane: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn build() -> Result<()> {
    match tokio::task::spawn_blocking(find_or_build).await?? {
        Programs::Combined(binary) => println!("{}", binary.display()),
        Programs::Folder(folder) => println!("{}", folder.display()),
    }
    println!("{}", tokio::task::spawn_blocking(helm::find_or_build).await??.display());
    Ok(())
}

async fn up() -> Result<()> {
    // First of all, so that a signal during the start does not leave the folder behind.
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let closed = input_closed();
    let end = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            _ = closed => {}
        }
    };
    tokio::pin!(end);
    let plane = tokio::select! {
        plane = ControlPlane::start() => plane?,
        () = &mut end => return Ok(()),
    };
    println!("KUBECONFIG={}", plane.kubeconfig().display());
    end.await;
    eprintln!("controlplane: stopping");
    plane.stop().await
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
