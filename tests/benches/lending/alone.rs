//! A part of the benchmark as a process of its own, so that its processor time and its memory are its own: the program starts
//! itself again. The process ends with the value.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long it may take until it says that it is ready.
const PATIENCE: Duration = Duration::from_secs(900);

/// What such a process prints when it has begun what it is for.
pub(crate) const READY: &str = "ready";

/// A process.
pub(crate) struct Alone {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Alone {
    /// Starts it, and waits until it is ready.
    pub(crate) async fn start(role: &str, files: &[&Path]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).args(files).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut alone = Self { child, lines: BufReader::new(output).lines() };
        let ready = tokio::time::timeout(PATIENCE, alone.until_ready()).await;
        ready.with_context(|| format!("{role} is not ready after {PATIENCE:?}"))??;
        Ok(alone)
    }

    async fn until_ready(&mut self) -> Result<()> {
        while let Some(line) = self.lines.next_line().await? {
            if line == READY {
                return Ok(());
            }
        }
        bail!("the process has ended: {}", self.child.wait().await?)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.child.kill().await.context("the process cannot be killed")
    }
}
