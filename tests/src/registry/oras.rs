//! oras, as a vendor or an operator runs it: a client of registries that shares no line with ours.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::{Registry, binary};
use crate::gomodule::GoModule;

const MODULE: GoModule = GoModule {
    folder: "registry",
    package: "./oras",
    name: "oras",
    ldflags: "-s -w",
    holds: "oras",
    cost: "a minute",
    instead: "set ORAS to a binary of oras 1.3",
};

/// The variable with the path of another binary.
const BINARY: &str = "ORAS";

/// Finds oras, and builds it where there is none. Blocks, for a minute on the first call.
///
/// # Errors
///
/// Says in one sentence what is missing or which build failed.
pub fn find_or_build() -> Result<PathBuf> {
    binary(BINARY, &MODULE)
}

/// Runs it in a folder, with the accounts of that folder's `config.json`, if there is one.
///
/// # Errors
///
/// With what it wrote to standard error, when it fails.
pub async fn oras<A: AsRef<OsStr>>(folder: &Path, args: &[A]) -> Result<String> {
    let binary = tokio::task::spawn_blocking(find_or_build).await.context("the build panicked")??;
    let mut command = tokio::process::Command::new(binary);
    command.args(args).current_dir(folder).env("DOCKER_CONFIG", folder).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.context("oras cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let words: Vec<_> = args.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    ensure!(output.status.success(), "oras {} ended with {}: {said}", words.join(" "), output.status);
    String::from_utf8(output.stdout).context("the output of oras is not text")
}

/// The same against a registry of tests, whose authority it has to trust.
///
/// # Errors
///
/// As [`oras`].
pub async fn with(registry: &Registry, folder: &Path, args: &[&str]) -> Result<String> {
    let ca = registry.ca().display().to_string();
    oras(folder, &[args, &["--ca-file", ca.as_str()]].concat()).await
}
