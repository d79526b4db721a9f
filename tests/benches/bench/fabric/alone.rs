//! How much memory the first round of a process needs: this program starts itself again to measure it.
//!
//! A process that has run rounds before has memory that it can use again, so its growth would look too small. The
//! growth is counted from when the plugin is ready until the answer is decoded; pages of the guest's own memory are
//! part of it.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::manager::{Known, Manager};
use super::sandbox::{Sandbox, view};
use crate::process::{forget_peak, held, peak_mib};

/// The memory that a round needed, in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundMemory {
    /// By how much the process grew at most.
    pub(super) growth: f64,
    /// How much of that growth is the guest's memory.
    pub(super) guest: f64,
}

/// Lets a process of its own run one round.
pub(super) async fn ask(manager: &Manager) -> Result<RoundMemory> {
    let known = &manager.known;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(super::ALONE).args([&known.ufm, &known.document]).arg(manager.folder.path());
    let output = command.stderr(Stdio::inherit()).output().await?;
    ensure!(output.status.success(), "the process for one round ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [growth, guest] = numbers.try_into().ok().context("the process for one round says something else")?;
    Ok(RoundMemory { growth, guest })
}

/// What the started process does: it runs the round and prints both numbers.
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    let [ufm, document, folder] = arguments else { anyhow::bail!("three arguments: UFM, document, folder") };
    let folder = Path::new(folder);
    let known = Known::read(ufm.clone(), document.clone(), folder)?;
    let sandbox = Sandbox::new("ufm", &known, folder).await?;
    let nodes = view(&known.nodes);
    let id = std::process::id();
    let before = held(id)?.resident;
    forget_peak(id)?;
    let done = sandbox.discover(&nodes, &Arc::default()).await?;
    let growth = peak_mib(id)? - before;
    println!("{growth} {}", done.usage.peak_memory as f64 / f64::from(1 << 20));
    Ok(())
}
