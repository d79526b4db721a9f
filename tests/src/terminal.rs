//! Commands of a shell that run until they are stopped, as a person has them in a second window.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::controlplane::eventually;
use crate::scene::PATIENCE;

/// Makes `commands` a script in which Ctrl-C is for the program: the shell ends with the exit status of the program, as at a
/// prompt.
#[must_use]
pub fn script(commands: &str) -> String {
    format!("trap : INT\n{commands}")
}

/// Commands that run.
pub struct Running {
    child: Child,
    said: PathBuf,
    what: String,
    patience: Duration,
}

impl Running {
    /// Starts them, in a process group of their own; what they print goes into the file `said`.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn start(mut command: Command, said: PathBuf, what: String) -> Result<Self> {
        let output = File::create(&said).with_context(|| said.display().to_string())?;
        command.stdout(output.try_clone()?).stderr(output).process_group(0).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("{what} cannot be started"))?;
        Ok(Self { child, said, what, patience: PATIENCE })
    }

    /// Everything may take so long.
    #[must_use]
    pub const fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What they have printed, on both outputs.
    #[must_use]
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Waits until they have printed these words.
    pub async fn until_says(&self, words: &str) {
        self.until(words, |said| said.contains(words)).await;
    }

    /// Waits until what they have printed is as wanted.
    pub async fn until(&self, wanted: &str, is_wanted: impl Fn(&str) -> bool) {
        eventually(&format!("{} says {wanted:?}", self.what), self.patience, async || {
            let said = self.said();
            if is_wanted(&said) { Ok(()) } else { Err(said) }
        })
        .await;
    }

    /// Sends Ctrl-C, and checks that they end with success.
    ///
    /// # Errors
    /// When they end in another way, or not at all.
    pub async fn interrupt(mut self) -> Result<()> {
        self.signal(Signal::INT)?;
        let ended = tokio::time::timeout(self.patience, self.child.wait()).await;
        let said = self.said();
        let status = ended.with_context(|| format!("{} does not end: {said}", self.what))??;
        ensure!(status.success(), "{} ended with {status}: {said}", self.what);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().with_context(|| format!("{} has ended", self.what))?;
        let group = Pid::from_raw(i32::try_from(id)?).context("a process id is above 0")?;
        Ok(kill_process_group(group, signal)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Otherwise the programs that the shell started would outlive it.
        let _ = self.signal(Signal::KILL);
    }
}
