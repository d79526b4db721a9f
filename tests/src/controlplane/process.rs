//! One server of the control plane as a child process.
//!
//! The child's standard input is a pipe without data. When this process ends, however it ends, the kernel closes
//! the pipe and the child ends too. A program that does not watch its input gets a guardian that does.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::binary::Programs;

const POLL: Duration = Duration::from_millis(20);
/// The memory of a server from which on it collects garbage.
pub(super) const MEMORY: &str = "768MiB";
/// Lines of its log that a failure shows.
const TAIL_LINES: usize = 40;

#[derive(Debug)]
pub(super) struct Server {
    program: &'static str,
    log: PathBuf,
    child: Child,
    guardian: Option<Child>,
}

impl Server {
    /// Starts `program` with its output appended to `<folder>/<program>.log`.
    pub(super) fn start(programs: &Programs, program: &'static str, args: &[String], folder: &Path) -> Result<Self> {
        Self::start_with(programs, program, args, folder, MEMORY)
    }

    /// The same with another size of memory from which on it collects garbage, as Go writes it.
    pub(super) fn start_with(
        programs: &Programs,
        program: &'static str,
        args: &[String],
        folder: &Path,
        memory: &str,
    ) -> Result<Self> {
        let log = folder.join(format!("{program}.log"));
        let out = File::options().create(true).append(true).open(&log).context("cannot open a log")?;
        let child = programs
            .command(program)
            .args(args)
            .current_dir(folder)
            .env("TOPOLOOM_DIE_WITH_STDIN", "1")
            // Most of them live for seconds: without collecting garbage kube-apiserver starts with a third less work.
            .env("GOGC", "off")
            .env("GOMEMLIMIT", memory)
            .stdin(Stdio::piped())
            .stdout(out.try_clone().context("cannot share a log")?)
            .stderr(out)
            // Ctrl-C in a terminal goes to us alone: we stop the servers, in the right order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {program}"))?;
        let mut server = Self { program, log, child, guardian: None };
        if !programs.die_with_stdin() {
            server.guardian = Some(guard(server.id())?);
        }
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it did.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot look at a process")
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("cannot signal a process")
    }

    /// Sends SIGTERM to the process, waits for its end, and kills it when the deadline has passed.
    pub(super) async fn stop(mut self, deadline: Duration) -> Result<()> {
        let deadline = Instant::now() + deadline;
        if self.ended()?.is_none() {
            // A process that ended just now and was not waited for still has its id: no other process gets the signal.
            self.signal(Signal::TERM)?;
        }
        while self.ended()?.is_none() && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
        // Drop kills a process that has not ended.
        Ok(())
    }

    /// The last lines of its log, under a headline.
    pub(super) fn tail(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
        format!("--- the end of {} ---\n{}", self.log.display(), tail.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.guardian.iter_mut().chain([&mut self.child]) {
            // Both fail only for a process that has ended and was waited for.
            _ = child.kill();
            _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{} stopped after a panic\n{}", self.program, self.tail());
        }
    }
}

/// A process that kills `id` as soon as the pipe to it closes.
fn guard(id: u32) -> Result<Child> {
    at_the_end(r#"kill -KILL "$1""#, [id.to_string()])
}

/// A process that removes a folder after the pipe to it closed and the servers that write into it are gone.
pub(super) fn sweep(folder: &Path, ids: &[u32]) -> Result<Child> {
    // A process whose parent does not wait for it stays a zombie, with an id: the wait has a limit.
    let script = r#"folder=$1; shift; turns=100
for id do while kill -0 "$id" 2>/dev/null && [ $turns -gt 0 ]; do turns=$((turns - 1)); sleep 0.1; done; done
rm -rf -- "$folder""#;
    let folder = folder.to_str().context("the temporary folder has a readable name")?.to_owned();
    at_the_end(script, std::iter::once(folder).chain(ids.iter().map(u32::to_string)))
}

/// Runs a script as soon as this process has ended, however it ends.
fn at_the_end(script: &str, args: impl IntoIterator<Item = String>) -> Result<Child> {
    Command::new("sh")
        .args(["-c", &format!("cat >/dev/null; {script}"), "guardian"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start a guardian")
}
