//! The checks of this repository: `xtask check` is part of `make lint`, `xtask generate` writes the generated files,
//! `xtask manifest` writes the manifests with Helm (the tests of the chart check them, since Helm has to be built for it),
//! `xtask keep` makes the kept component of the present interface, `xtask test` runs all tests and prints the slowest and those that failed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the desk and for CI")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use topoloom_tests::architecture;
use topoloom_tests::arrows;
use topoloom_tests::chart::plain::Manifest;
use topoloom_tests::guest;
use topoloom_tests::limits::{self, Reader};
use topoloom_tests::{doctests, once, timed, words};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let verb = arguments.next().unwrap_or_default();
    let arguments: Vec<_> = arguments.collect();
    let done = match verb.to_str().unwrap_or_default() {
        "test" => return ended(root().and_then(|root| timed::run(&root, &arguments))),
        "timed" => return ended(timed::one(&arguments)),
        "check" => check(),
        "generate" => generate(),
        "manifest" => manifests(),
        "keep" => keep(),
        _ => Err(anyhow::anyhow!("usage: xtask check|generate|manifest|keep|test")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Exits with the code of the program that was run.
fn ended(code: Result<i32>) -> ExitCode {
    match code {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("the tests have a folder above them")?.to_owned())
}

fn check() -> Result<()> {
    generated()?;
    orphans()?;
    doctests::check(&root()?)?;
    arrows::check(&root()?)?;
    once::check(&root()?)?;
    architecture::check(&root()?)?;
    words::check(&root()?)
}

/// The folder with the schemas of the `-o json` output.
const SCHEMAS: &str = "docs/operators/schemas";

/// Everything that is generated, by file name.
fn files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = definitions()?;
    files.push((root()?.join("docs/operators/flags.md"), topoloom::cli::reference()));
    files.push((root()?.join("docs/operators/metrics.md"), topoloom::manager::metrics::catalogue::page()));
    files.push(lock_states()?);
    files.extend(interface()?);
    files.extend(licenses()?);
    for (kind, schema) in topoloom::cli::schemas() {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        files.push((root()?.join(format!("{SCHEMAS}/{kind}.json")), text));
    }
    for (name, reader) in [("docs/operators/plugins.md", Reader::Operator), ("wit/README.md", Reader::Author)] {
        let path = root()?.join(name);
        let text = std::fs::read_to_string(&path).with_context(|| name.to_owned())?;
        let text =
            limits::renewed(&text, reader).with_context(|| format!("{name} has no place for its table of limits"))?;
        files.push((path, text));
    }
    Ok(files)
}

/// The interface as a part of the SDK: a crate of a registry has only what is below its folder.
fn interface() -> Result<Vec<(PathBuf, String)>> {
    let from = root()?.join("wit").join(INTERFACE);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            files.push((root()?.join("sdk/wit").join(path.file_name().unwrap_or_default()), text));
        }
    }
    Ok(files)
}

/// The text of the license in each package: who gets one of them from a registry has no more of this repository.
fn licenses() -> Result<Vec<(PathBuf, String)>> {
    let root = root()?;
    let text = std::fs::read_to_string(root.join("LICENSE")).context("LICENSE")?;
    Ok(["sdk", "sdk/js", "sdk/python"].map(|package| (root.join(package).join("LICENSE"), text.clone())).into())
}

/// The page about the node lock, with the table of its states between two marks.
fn lock_states() -> Result<(PathBuf, String)> {
    const MARKS: [&str; 2] = ["<!-- states: written by `xtask generate` -->\n", "<!-- end of states -->\n"];
    let path = root()?.join("docs/operators/node-lock.md");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).with_context(|| format!("{} has no {begin}", path.display()))?;
    let (_, after) = rest.split_once(end).with_context(|| format!("{} has no {end}", path.display()))?;
    let table = topoloom_core::nodelock::table::table();
    Ok((path, format!("{before}{begin}{table}{end}{after}")))
}

/// The files of deploy/crds, by file name. The chart has them too, since it has to be whole by itself.
fn definitions() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for definition in topoloom_api::crds() {
        let name = definition.pointer("/metadata/name").and_then(|name| name.as_str()).context("a CRD has a name")?;
        let text = topoloom_api::crd::to_yaml(&definition).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        for folder in ["deploy/crds", "deploy/chart/topoloom/files"] {
            files.push((root()?.join(folder).join(format!("{name}.yaml")), text.clone()));
        }
    }
    Ok(files)
}

/// Writes the manifests that are made from the chart.
fn manifests() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    for manifest in Manifest::ALL {
        let (path, text) = (manifest.file(), runtime.block_on(manifest.text())?);
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

fn generate() -> Result<()> {
    for (path, text) in files()? {
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// The interface that guests are built for.
const INTERFACE: &str = "discovery-0.1.0";

/// Makes the kept component of an interface that is not released; see `tests/kept/README.md`.
fn keep() -> Result<()> {
    let folder = root()?.join("tests/kept");
    if folder.join(INTERFACE).exists() {
        bail!("{INTERFACE} is released: its component stays as it is");
    }
    let path = folder.join(format!("{INTERFACE}.wasm"));
    std::fs::write(&path, guest::component(&guest::module("topoloom-guest-whole")?)?)
        .with_context(|| path.display().to_string())?;
    println!("wrote {}", path.display());
    Ok(())
}

fn generated() -> Result<()> {
    for (path, text) in files()? {
        let stored = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        if stored != text {
            bail!(
                "{} is not what the code generates: run `cargo run -p topoloom-tests --bin xtask -- generate`",
                path.display()
            );
        }
    }
    Ok(())
}

/// Every Rust source is compiled: named by a `mod` line next to it, or a root of a target.
fn orphans() -> Result<()> {
    let root = root()?;
    let mut files = Vec::new();
    for folder in ["host", "plugins", "sdk", "tests"] {
        rust_files(&root.join(folder), &mut files)?;
    }
    let mut orphans = BTreeSet::new();
    for file in &files {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder = file.parent().context("a file has a folder")?;
        let is_root = matches!(stem, "main" | "lib" | "build")
            || ["bin", "tests", "benches", "examples"].iter().any(|name| folder.ends_with(name));
        if is_root {
            continue;
        }
        let beside = ["lib.rs", "main.rs"].map(|name| folder.join(name));
        let above = folder.with_extension("rs");
        let named = beside.iter().chain([&above]).any(|parent| {
            std::fs::read_to_string(parent).is_ok_and(|text| {
                text.lines().any(|line| {
                    // `mod a;`, `pub mod a;`, `pub(in crate::cli) mod a;`
                    let line = line.trim_start();
                    let seen_by = line.strip_suffix(&format!("mod {stem};")).map(str::trim_end);
                    seen_by.is_some_and(|word| word.is_empty() || (word.starts_with("pub") && !word.contains("mod")))
                })
            })
        });
        if !named {
            orphans.insert(file.strip_prefix(&root).unwrap_or(file).display().to_string());
        }
    }
    if !orphans.is_empty() {
        bail!("these files are never compiled, since no `mod` line names them: {orphans:?}");
    }
    Ok(())
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name == "target" || name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden {
            rust_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
