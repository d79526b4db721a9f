//! Helm, as an operator runs it.
//!
//! `HELM` may name a binary (version 4); otherwise the Go module beside this crate is built, once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::gomodule::{GoModule, LANGUAGE};

const MODULE: GoModule = GoModule {
    name: "helm",
    ldflags: "-s -w",
    holds: "Helm",
    cost: "three minutes and 1 GB",
    instead: "set HELM to a binary of Helm 4",
};

/// Finds Helm, and builds it where there is none. Blocks, for minutes on the first call.
///
/// # Errors
///
/// Says in one sentence what is missing or which build failed.
pub fn find_or_build() -> Result<PathBuf> {
    match std::env::var_os("HELM").filter(|binary| !binary.is_empty()).map(PathBuf::from) {
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
    let mut command = tokio::process::Command::new(binary);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    // No repositories, plugins and settings of the user.
    for (variable, folder) in [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
    {
        command.env(variable, home.path().join(folder));
    }
    let nowhere = home.path().join("no-kubeconfig");
    command.env("KUBECONFIG", kubeconfig.unwrap_or(&nowhere));
    // It lives for a moment: without collecting garbage it needs a fifth less of the processor.
    command.env("GOGC", "off").env("GOMEMLIMIT", "512MiB").env(LANGUAGE.0, LANGUAGE.1);
    let output = command.output().await.context("helm cannot be started")?;
    if !output.status.success() {
        let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        let words: Vec<_> = args.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        bail!("helm {} ended with {}: {}{}", words.join(" "), output.status, said.trim(), printed.trim());
    }
    String::from_utf8(output.stdout).context("the output of helm is not text")
}
