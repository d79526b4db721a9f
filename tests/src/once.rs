//! Every crate is built once: not again for a build script, with other features.
//!
//! Cargo unifies the features of build scripts and of what they help to build separately. Our build script compiles the
//! embedded plugins with the compiler that the host brings, which is most of a build from nothing; one feature of one small
//! crate below it that only one of the two asks for, and all of it is built twice, without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// A line of what cargo says: one thing that it built.
#[derive(Debug, Deserialize)]
struct Artifact {
    package_id: String,
    target: Target,
    features: BTreeSet<String>,
    filenames: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: BTreeSet<String>,
}

/// The features of a library, by the files that were made of it.
type Builds = BTreeMap<BTreeSet<String>, BTreeSet<String>>;

/// Asks cargo what it built in this workspace.
///
/// # Errors
/// Names what was built more than once, or says why that is not known.
pub fn check(workspace: &Path) -> Result<()> {
    // It was built a moment ago, by `make bins`: cargo only names everything.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--workspace", "--bins", "--quiet", "--message-format=json"])
        .current_dir(workspace)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "cargo build ended with {}", output.status);
    let twice = twice(&String::from_utf8(output.stdout).context("cargo speaks UTF-8")?)?;
    if twice.is_empty() {
        return Ok(());
    }
    bail!(
        "built more than once, for the host and again for its build script: give both the same features in \
         host/builtins/Cargo.toml and host/sandbox/Cargo.toml, as is done there already:\n{}",
        twice.join("\n")
    )
}

/// The libraries that were built more than once, and what differs. Where nothing does, something below them was.
fn twice(said: &str) -> Result<Vec<String>> {
    let mut libraries: BTreeMap<String, Builds> = BTreeMap::new();
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).context("cargo says something else")?;
        if line["reason"] != "compiler-artifact" {
            continue;
        }
        let artifact: Artifact = serde_json::from_value(line).context("cargo says something else of an artifact")?;
        if ["lib", "rlib", "proc-macro"].iter().any(|kind| artifact.target.kind.contains(*kind)) {
            libraries.entry(artifact.package_id).or_default().insert(artifact.filenames, artifact.features);
        }
    }
    let several = libraries.into_iter().filter(|(_, builds)| builds.len() > 1);
    let described = several.map(|(package, builds)| {
        let all: BTreeSet<_> = builds.values().flatten().cloned().collect();
        let missing: Vec<_> = builds.values().map(|own| all.difference(own).cloned().collect::<Vec<_>>()).collect();
        let differs = missing.iter().any(|missing| !missing.is_empty());
        (!differs, format!("{package}: {}", if differs { format!("without {missing:?}") } else { "above one".into() }))
    });
    // What differs first.
    let sorted: BTreeSet<_> = described.collect();
    Ok(sorted.into_iter().map(|(_, line)| line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(name: &str, file: &str, features: &[&str]) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "package_id": name, "target": {"kind": ["lib"]}, "features": features,
            "filenames": [file], "fresh": true,
        })
        .to_string()
    }

    #[test]
    fn what_differs_is_named_before_what_is_above_it() {
        let said = [
            library("above@1", "a-1", &[]),
            library("above@1", "a-2", &[]),
            library("below@1", "b-1", &["std"]),
            library("below@1", "b-2", &["std", "more"]),
            library("once@1", "c-1", &["std"]),
            // Named by both that depend on it.
            library("once@1", "c-1", &["std"]),
            r#"{"reason": "build-finished", "success": true}"#.to_owned(),
        ];
        let named = twice(&said.join("\n")).unwrap();
        assert_eq!(named, [r#"below@1: without [["more"], []]"#, "above@1: above one"]);
        assert_eq!(twice(&said[4]).unwrap(), Vec::<String>::new());
    }
}
