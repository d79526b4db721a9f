//! Every crate is built once: not again for a build script, with other features or another profile.
//!
//! Cargo unifies the features of build scripts and of what they help to build separately, and gives each a profile. Our
//! build script compiles the embedded plugins with the compiler that the host brings, which is most of a build from
//! nothing. One feature of one small crate below it that only one of the two requests, or one setting of the profile
//! that only one of the two names, is enough to build all of it twice, without a warning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

/// What the verbs of the Makefile build: the arguments of `make bins`, of `make build` and of `make bench`.
const BUILDS: [&[&str]; 3] = [&["--workspace", "--bins"], &["--release", "--package", "topoloom"], &BENCH];
/// Also with each other: the program that is measured is linked of the libraries that measure it.
const BENCH: [&str; 11] = [
    "--profile",
    "bench",
    "--workspace",
    "--bin",
    "topoloom",
    "--bench",
    "bench",
    "--bench",
    "placing",
    "--bench",
    "lending",
];

/// The plan of a build, in a format of cargo that is not stable: `rust-toolchain.toml` names the one version that is read.
#[derive(Debug, Deserialize)]
struct Graph {
    units: Vec<Unit>,
}

/// One run of the compiler.
#[derive(Debug, Deserialize)]
struct Unit {
    pkg_id: String,
    target: Target,
    mode: String,
    features: BTreeSet<String>,
    profile: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: BTreeSet<String>,
}

/// Asks cargo what it would build.
///
/// # Errors
/// Names what would be built more than once, or why that is not known.
pub fn check(workspace: &Path) -> Result<()> {
    for build in BUILDS {
        let twice = twice(&graph(workspace, build)?);
        if !twice.is_empty() {
            bail!(
                "`cargo build {}` builds for the host and again for its build script: give both the same features in \
                 host/builtins/Cargo.toml and host/sandbox/Cargo.toml, and the same profile in Cargo.toml, as is done there \
                 already:\n{}",
                build.join(" "),
                twice.join("\n")
            )
        }
    }
    Ok(())
}

fn graph(workspace: &Path, build: &[&str]) -> Result<Graph> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .arg("build")
        .args(build)
        .args(["--quiet", "--unit-graph", "-Zunstable-options"])
        // A stable cargo prints its plan only with this variable.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(workspace)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "cargo build --unit-graph ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("cargo writes its plan in another format")
}

/// The libraries that are built more than once, and what differs. If nothing differs, a crate below them is built
/// twice.
fn twice(graph: &Graph) -> Vec<String> {
    let mut libraries: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
    for unit in &graph.units {
        let is_library = ["lib", "rlib", "proc-macro"].iter().any(|kind| unit.target.kind.contains(*kind));
        if is_library && unit.mode == "build" {
            libraries.entry(&unit.pkg_id).or_default().push(unit);
        }
    }
    let several = libraries.into_iter().filter(|(_, units)| units.len() > 1);
    // Libraries that differ come first.
    let sorted: BTreeSet<_> = several
        .map(|(package, units)| {
            let differences = differences(&units);
            let is_above = differences.is_empty();
            let why = if is_above { "above one".to_owned() } else { differences.join(", ") };
            (is_above, format!("{package}: {why}"))
        })
        .collect();
    sorted.into_iter().map(|(_, line)| line).collect()
}

/// In which settings the units of one library differ.
fn differences(units: &[&Unit]) -> Vec<String> {
    let mut found = Vec::new();
    let all: BTreeSet<_> = units.iter().flat_map(|unit| &unit.features).collect();
    let missing: Vec<Vec<_>> =
        units.iter().map(|unit| all.iter().filter(|one| !unit.features.contains(**one)).collect()).collect();
    if missing.iter().any(|missing| !missing.is_empty()) {
        found.push(format!("without {missing:?}"));
    }
    let settings: BTreeSet<_> = units.iter().flat_map(|unit| unit.profile.keys()).collect();
    for setting in settings {
        let values: BTreeSet<_> =
            units.iter().map(|unit| unit.profile.get(setting).unwrap_or(&Value::Null).to_string()).collect();
        if values.len() > 1 {
            found.push(format!("{setting} {}", values.into_iter().collect::<Vec<_>>().join(" and ")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn unit(name: &str, kind: &str, features: &[&str], codegen_units: Option<u8>) -> Value {
        json!({
            "pkg_id": name, "target": {"kind": [kind]}, "mode": "build", "features": features,
            "profile": {"opt_level": "1", "codegen_units": codegen_units}, "dependencies": [],
        })
    }

    fn named(units: &[Value]) -> Vec<String> {
        twice(&serde_json::from_value(json!({"version": 1, "units": units, "roots": []})).unwrap())
    }

    #[test]
    fn what_differs_is_named_before_what_is_above_it() {
        let units = [
            unit("above@1", "lib", &[], None),
            unit("above@1", "lib", &[], None),
            unit("below@1", "lib", &["std"], None),
            unit("below@1", "lib", &["std", "more"], None),
            unit("once@1", "lib", &["std"], None),
            // A build script is no library.
            unit("once@1", "custom-build", &["std"], None),
        ];
        assert_eq!(named(&units), [r#"below@1: without [["more"], []]"#, "above@1: above one"]);
        assert_eq!(named(&units[4..]), Vec::<String>::new());
    }

    #[test]
    fn a_setting_that_only_one_of_two_profiles_names_is_a_difference() {
        let units = [unit("compiler@1", "lib", &[], None), unit("compiler@1", "lib", &[], Some(16))];
        assert_eq!(named(&units), ["compiler@1: codegen_units 16 and null"]);
    }
}
