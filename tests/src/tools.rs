//! The real tools of each language, by exact version: what a vendor installs once, by the lines that `topoloom plugin build` prints.
//!
//! `TOPOLOOM_TOOLS` may name folders that have them: the programs, as in `PATH`, and for JavaScript one that is called
//! `node_modules`. Otherwise the ordinary package clients install them, once, below the target folder: pip into an environment of
//! its own, npm into a folder of its own. Go and Node.js are those of `PATH`.
//!
//! Owns the folders. Never changes what is installed elsewhere, and never installs what no caller names.
//!
//! # Failure story
//!
//! An installation that is cut off has no mark, and begins again from an empty folder. Two processes that want the same wait
//! for each other. Without a registry the error has the last words of the package client, and what to set instead.

mod kept;

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

/// What a language needs beside the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// For C: `zig cc`.
    Zig,
    /// For Python.
    ComponentizePy,
    /// For JavaScript: the packages of Node.js.
    ComponentizeJs,
    /// For Go: its standard toolchain.
    Go,
}

impl Tool {
    /// Those that are installed.
    pub const ALL: [Self; 3] = [Self::Zig, Self::ComponentizePy, Self::ComponentizeJs];

    /// What has to be in its folder: a program, or a package of Node.js.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Zig => "zig",
            Self::ComponentizePy => "componentize-py",
            Self::ComponentizeJs => "@bytecodealliance/componentize-js",
            Self::Go => "go",
        }
    }

    /// The packages of its client. The versions are those that the builds of plugins ask for.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Zig => &["ziglang==0.15.2"],
            Self::ComponentizePy => &["componentize-py==0.25.1"],
            Self::ComponentizeJs => &["@bytecodealliance/componentize-js@0.23.0", "esbuild@0.28.2"],
            Self::Go => &[],
        }
    }

    /// The folder below the target folder, and in it the one with what is wanted.
    const fn folders(self) -> (&'static str, &'static str) {
        match self {
            Self::Zig => ("tools-c", "bin"),
            Self::ComponentizePy => ("tools-python", "bin"),
            Self::ComponentizeJs => ("tools-javascript", "node_modules"),
            Self::Go => ("", ""),
        }
    }
}

/// The folder with a tool: of programs for `PATH`, or `node_modules`. None for what `PATH` has already. Blocks, for a minute on
/// the first call.
///
/// # Errors
/// One sentence that names what is missing, or what the package client wrote last.
pub fn folder(tool: Tool) -> Result<Option<PathBuf>> {
    let wanted = tool.program();
    let first = |folders: &OsString| std::env::split_paths(folders).find(|folder| folder.join(wanted).exists());
    let found = std::env::var_os(FOLDERS).filter(|folders| !folders.is_empty());
    if let Some(found) = found.as_ref().and_then(first) {
        return Ok(Some(found));
    }
    if let Some(folders) = found {
        let is_known = std::env::var_os("PATH").as_ref().and_then(first).is_some();
        ensure!(is_known, "{FOLDERS} is {}, where there is no {wanted}", folders.display());
        return Ok(None);
    }
    if tool.packages().is_empty() {
        let is_known = std::env::var_os("PATH").as_ref().and_then(first).is_some();
        ensure!(is_known, "{wanted} is not in PATH: install it, or name its folder in {FOLDERS}");
        return Ok(None);
    }
    let (own, inside) = tool.folders();
    let own = target().join(own);
    // Another version of the list of packages is another installation.
    let mark = tool.packages().join("\n");
    let is_installed = || fs::read_to_string(own.join(MARK)).is_ok_and(|text| text == mark);
    if !is_installed() {
        fs::create_dir_all(target())?;
        let lock = own.with_extension("lock");
        let lock = File::create(&lock).with_context(|| lock.display().to_string())?;
        lock.lock().context("the lock of an installation")?;
        if !is_installed() {
            let installed = install(tool, &own);
            installed
                .with_context(|| format!("{wanted} cannot be installed; {FOLDERS} may name a folder that has it"))?;
            fs::write(own.join(MARK), &mark)?;
        }
    }
    let folder = own.join(inside);
    ensure!(folder.join(wanted).exists(), "the packages {mark:?} bring no {wanted}");
    Ok(Some(folder))
}

/// The folders of programs that a build with this tool needs before those of `PATH`. What a slow one has made is kept.
///
/// # Errors
/// As [`folder`].
pub fn programs(tool: Tool) -> Result<Vec<PathBuf>> {
    let Some(found) = folder(tool)? else { return Ok(Vec::new()) };
    let slow = match tool {
        Tool::ComponentizePy => Some(found.join(tool.program())),
        Tool::ComponentizeJs => first_in_path("node"),
        Tool::Zig | Tool::Go => None,
    };
    let mut folders = Vec::new();
    if let Some(slow) = slow {
        let own = target().join("vendors/kept").join(tool.folders().0);
        let (programs, made) = (own.join("bin"), own.join("made"));
        fs::create_dir_all(&programs).with_context(|| programs.display().to_string())?;
        let name = slow.file_name().context("a program has a name")?;
        kept::stand_before(&slow, &programs.join(name), "componentize", &tool.packages().join(" "), &made)?;
        folders.push(programs);
    }
    // The packages of Node.js are looked for elsewhere.
    if tool != Tool::ComponentizeJs {
        folders.push(found);
    }
    Ok(folders)
}

fn first_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|place| place.is_file())
}

/// Installs what the tests need, before there are tests that would wait for it.
///
/// # Errors
/// As [`folder`].
pub fn install_all() -> Result<()> {
    Tool::ALL.into_iter().try_for_each(|tool| folder(tool).map(drop))
}

fn install(tool: Tool, own: &Path) -> Result<()> {
    if own.exists() {
        fs::remove_dir_all(own).with_context(|| own.display().to_string())?;
    }
    let (started, packages) = (Instant::now(), tool.packages());
    eprintln!("tools: installing {}", packages.join(" and "));
    match tool {
        Tool::ComponentizeJs => {
            fs::create_dir_all(own)?;
            fs::write(own.join("package.json"), r#"{"private": true}"#)?;
            let words = ["install", "--save-exact", "--no-audit", "--no-fund", "--loglevel=error"];
            run(Command::new("npm").args(words).args(packages).current_dir(own))?;
        }
        Tool::Zig | Tool::ComponentizePy => {
            run(Command::new("python3").args(["-m", "venv"]).arg(own))?;
            let (_, inside) = tool.folders();
            let python = own.join(inside).join("python3");
            let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];
            run(Command::new(&python).args(words).args(packages))?;
            if tool == Tool::Zig {
                // The package has the program beside its module, and calls it by another name; it finds its library by its own
                // place.
                let place = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
                let zig = run(Command::new(&python).args(["-c", place]))?;
                symlink(zig.trim(), own.join(inside).join(tool.program()))?;
            }
        }
        Tool::Go => {}
    }
    eprintln!("tools: installed in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Runs a program to its end; returns what it printed.
fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{program} cannot be started"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let last = lines.get(lines.len().saturating_sub(ERROR_LINES)..).unwrap_or_default().join("\n");
    ensure!(output.status.success(), "{program} ended with {}: {last}", output.status);
    Ok(printed)
}

fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Joining an absolute path gives that path.
    let target = workspace.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    // A virtual environment has its own path in its programs.
    target.canonicalize().unwrap_or(target)
}
