//! Helm, as an operator runs it.
//!
//! `HELM` may name a binary (version 4); otherwise the Go module beside this crate is built, once.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::gomodule::{GoModule, LANGUAGE};

const MODULE: GoModule = GoModule {
    folder: "helm",
    package: ".",
    name: "helm",
    ldflags: "-s -w",
    holds: "Helm",
    cost: "three minutes and 1 GB",
    instead: "set HELM to a binary of Helm 4",
};

/// The variable with the path of another binary.
const BINARY: &str = "HELM";

/// Those of this process that wait for a command.
static SERVING: Mutex<Vec<Serving>> = Mutex::new(Vec::new());

/// Finds Helm, and builds it where there is none. Blocks, for minutes on the first call.
///
/// # Errors
///
/// Says in one sentence what is missing or which build failed.
pub fn find_or_build() -> Result<PathBuf> {
    match std::env::var_os(BINARY).filter(|binary| !binary.is_empty()).map(PathBuf::from) {
        Some(binary) if binary.is_file() => Ok(binary),
        Some(binary) => bail!("HELM is {}, which is no file", binary.display()),
        None => MODULE.find_or_build(),
    }
}

/// What Helm wrote to standard output. Without a kubeconfig it reaches no cluster, whatever the environment says.
///
/// # Errors
///
/// With what it wrote to standard error, when it fails.
pub async fn helm<A: AsRef<OsStr>>(kubeconfig: Option<&Path>, args: &[A]) -> Result<String> {
    let binary = tokio::task::spawn_blocking(find_or_build).await.context("the build panicked")??;
    let home = tempfile::tempdir().context("no folder for Helm")?;
    let mut command = tokio::process::Command::from(command(&binary, home.path()));
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().await.context("helm cannot be started")?;
    if !output.status.success() {
        let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        bail!("{}", failed(args, &output.status.to_string(), &said, &printed));
    }
    String::from_utf8(output.stdout).context("the output of helm is not text")
}

/// What `helm template` with these arguments writes to standard output, by a process that has rendered other charts before. One of
/// the arguments has to be `--namespace`, since Helm remembers it.
///
/// # Errors
///
/// As [`helm`].
pub async fn template(args: &[&str]) -> Result<String> {
    let words: Vec<String> = std::iter::once("template").chain(args.iter().copied()).map(str::to_owned).collect();
    // A binary that was not built here serves nothing.
    if std::env::var_os(BINARY).is_some_and(|binary| !binary.is_empty()) {
        return helm(None, &words).await;
    }
    let rendered = tokio::task::spawn_blocking(move || -> Result<String> {
        // A statement of its own: the lock ends with it.
        let waiting = SERVING.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut serving = waiting.map_or_else(Serving::start, Ok)?;
        // One that breaks is not used again.
        let answer = serving.answer(&words)?;
        SERVING.lock().unwrap_or_else(PoisonError::into_inner).push(serving);
        let Answer { code, stdout, stderr } = answer;
        ensure!(code == 0, "{}", failed(&words, &format!("exit status: {code}"), &stderr, &stdout));
        Ok(stdout)
    });
    rendered.await.context("the rendering panicked")?
}

/// Helm in a folder of its own, and without a cluster.
fn command(binary: &Path, home: &Path) -> Command {
    let mut command = Command::new(binary);
    // No repositories, plugins and settings of the user.
    for (variable, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
    {
        command.env(variable, home.join(folder));
    }
    command.env("KUBECONFIG", home.join("no-kubeconfig"));
    // It lives for a moment: without collecting garbage it needs a fifth less of the processor.
    command.env("GOGC", "off").env("GOMEMLIMIT", "512MiB").env(LANGUAGE.0, LANGUAGE.1);
    command
}

fn failed<A: AsRef<OsStr>>(args: &[A], status: &str, said: &str, printed: &str) -> String {
    let words: Vec<_> = args.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    format!("helm {} ended with {status}: {}{}", words.join(" "), said.trim(), printed.trim())
}

/// A process of Helm that runs one command after the other. It ends with this process, whose end closes its input.
struct Serving {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Serving {
    fn start() -> Result<Self> {
        let binary = find_or_build()?;
        // Nothing is ever in that folder, and it is gone before the first command.
        let home = tempfile::tempdir().context("no folder for Helm")?;
        let mut command = command(&binary, home.path());
        command.env("TOPOLOOM_SERVES", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("helm cannot be started")?;
        let commands = child.stdin.take().context("its input is a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("its output is a pipe")?);
        Ok(Self { child, commands, answers })
    }

    fn answer(&mut self, words: &[String]) -> Result<Answer> {
        let mut line = serde_json::to_vec(words)?;
        line.push(b'\n');
        self.commands.write_all(&line).context("helm reads no command")?;
        let mut answer = String::new();
        let read = self.answers.read_line(&mut answer).context("helm cannot be read")?;
        ensure!(read > 0, "helm has ended over {words:?}");
        serde_json::from_str(&answer).with_context(|| format!("helm answers {answer:?}"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
