//! The real tools of each language, by exact version: what a vendor installs once, by the lines that the pages name.
//!
//! `TOPOLOOM_TOOLS` may name the folders that have them, as `PATH` does. Otherwise the ordinary package clients install them,
//! once, below the target folder: pip into an environment of its own, npm into a folder of its own. Go is that of `PATH`, since
//! the control plane is built with it.
//!
//! Owns the folders. Never changes what is installed elsewhere, and never asks for a tool that no test of this run needs.
//!
//! # Failure story
//!
//! An installation that is cut off has no mark, and begins again from an empty folder. Two processes that want the same wait
//! for each other. Without a registry the error is the last words of the package client, and what to set instead.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// The variable with the folders of tools that were installed before.
const FOLDERS: &str = "TOPOLOOM_TOOLS";
/// The file that an installation writes last.
const MARK: &str = "installed";
/// Lines of a package client that a failed installation shows.
const ERROR_LINES: usize = 20;

/// zig, for C.
pub const ZIG: &str = "0.15.2";
/// componentize-py, for Python.
pub const COMPONENTIZE_PY: &str = "0.25.1";
/// componentize-js, for JavaScript.
pub const COMPONENTIZE_JS: &str = "0.23.0";

/// What a test needs beside the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The compiler for C: `zig cc`.
    Zig,
    /// What makes a component of Python.
    ComponentizePy,
    /// What makes a component of JavaScript.
    ComponentizeJs,
    /// The Go toolchain.
    Go,
}

impl Tool {
    /// The program that a build runs.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Zig => "zig",
            Self::ComponentizePy => "componentize-py",
            Self::ComponentizeJs => "componentize-js",
            Self::Go => "go",
        }
    }

    /// The package, and the client that installs it; nothing for what is installed by hand.
    fn package(self) -> Option<(Client, String)> {
        match self {
            Self::Zig => Some((Client::Pip, format!("ziglang=={ZIG}"))),
            Self::ComponentizePy => Some((Client::Pip, format!("componentize-py=={COMPONENTIZE_PY}"))),
            Self::ComponentizeJs => Some((Client::Npm, format!("@bytecodealliance/componentize-js@{COMPONENTIZE_JS}"))),
            Self::Go => None,
        }
    }
}

/// A package client.
#[derive(Debug, Clone, Copy)]
enum Client {
    Pip,
    Npm,
}

/// `PATH` with these tools before everything else. Blocks, for a minute on the first call.
///
/// # Errors
/// One sentence that names what is missing, or what the package client wrote last.
pub fn path(tools: &[Tool]) -> Result<OsString> {
    let mut folders = Vec::new();
    for tool in tools {
        folders.extend(folder(*tool)?);
    }
    let before = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain(std::env::split_paths(&before));
    std::env::join_paths(all).context("a folder of a tool has a colon in its name")
}

/// Installs what the tests need, before there are tests that would wait for it.
///
/// # Errors
/// As [`path`].
pub fn install_all() -> Result<()> {
    path(&[Tool::Zig, Tool::ComponentizePy, Tool::ComponentizeJs]).map(drop)
}

/// The folder with the program of a tool; none for one that `PATH` has.
fn folder(tool: Tool) -> Result<Option<PathBuf>> {
    let program = tool.program();
    let in_any = |folders: &OsString| std::env::split_paths(folders).find(|folder| folder.join(program).is_file());
    if let Some(folders) = std::env::var_os(FOLDERS).filter(|folders| !folders.is_empty()) {
        let found = in_any(&folders);
        // A tool of the system, such as Go, need not be named a second time.
        let known = std::env::var_os("PATH").as_ref().and_then(in_any);
        ensure!(found.is_some() || known.is_some(), "{FOLDERS} is {}, where there is no {program}", folders.display());
        return Ok(found);
    }
    let Some((client, package)) = tool.package() else {
        let known = std::env::var_os("PATH").as_ref().and_then(in_any);
        ensure!(known.is_some(), "{program} is not in PATH: install it, or name its folder in {FOLDERS}");
        return Ok(None);
    };
    let name: String = package.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let folder = target().join(format!("tools-{}", name.trim_matches('-')));
    let bin = match client {
        Client::Pip => folder.join("bin"),
        Client::Npm => folder.join("node_modules/.bin"),
    };
    if !folder.join(MARK).is_file() {
        fs::create_dir_all(target())?;
        let lock = folder.with_extension("lock");
        let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
        lock.lock().context("the lock of an installation")?;
        if !folder.join(MARK).is_file() {
            install(client, &package, &folder, &bin).with_context(|| {
                format!("{package} cannot be installed; {FOLDERS} may name a folder that has {program}")
            })?;
            fs::write(folder.join(MARK), &package)?;
        }
    }
    ensure!(bin.join(program).exists(), "{package} brings no {program}: {}", bin.display());
    Ok(Some(bin))
}

fn install(client: Client, package: &str, folder: &Path, bin: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let started = Instant::now();
    eprintln!("tools: installing {package}");
    match client {
        Client::Pip => {
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            let python = bin.join("python3");
            let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", package];
            run(Command::new(&python).args(words))?;
            if package.starts_with("ziglang") {
                // The package has the program beside its module; it finds its library by its own place.
                let place = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
                let zig = run(Command::new(&python).args(["-c", place]))?;
                symlink(zig.trim(), bin.join("zig"))?;
            }
        }
        Client::Npm => {
            fs::create_dir_all(folder)?;
            fs::write(folder.join("package.json"), r#"{"private": true}"#)?;
            let words = ["install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error", package];
            run(Command::new("npm").args(words).current_dir(folder))?;
        }
    }
    eprintln!("tools: {package} installed in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Runs a program to its end; returns what it printed.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{program} cannot be started"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    let last: Vec<&str> = said.lines().rev().take(ERROR_LINES).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    ensure!(output.status.success(), "{program} ended with {}: {}", output.status, last.join("\n"));
    Ok(printed)
}

fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Joining an absolute path gives that path.
    let target = workspace.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    // A virtual environment has its own path in its programs.
    target.canonicalize().unwrap_or(target)
}
