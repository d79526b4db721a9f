//! What a machine has for static binaries: Rust targets, and C compilers for the few C and assembler sources of our
//! dependencies. The linker is Rust's own, and not that of the machine.
//!
//! The preferred compiler is zig, in one version, from a wheel with a known hash: then a binary does not depend on the
//! machine. If it cannot be installed, `musl-gcc` is used for the processor of the machine itself.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::platform::Platform;

const ZIG: &str = "0.15.2";
/// The wheels of `ziglang` on PyPI for the machines that build.
const WHEELS: [(&str, &str); 2] = [
    ("x86_64", "806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130"),
    ("aarch64", "edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230"),
];

/// A C compiler and its archiver, as the environment of a build names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    pub(super) cc: PathBuf,
    pub(super) ar: PathBuf,
    said: String,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

/// The compilers of this machine.
#[derive(Debug)]
pub struct Toolchain {
    zig: Result<PathBuf, String>,
}

impl Toolchain {
    /// Finds zig or installs it under `tools`.
    #[must_use]
    pub fn find(tools: &Path) -> Self {
        Self { zig: zig(tools).map_err(|error| format!("{error:#}")) }
    }

    /// The compiler for a processor; a sentence on what to install, if there is none.
    ///
    /// # Errors
    /// When something is missing.
    pub fn compiler(&self, platform: Platform) -> Result<Compiler> {
        rust_target(&platform.target())?;
        match &self.zig {
            Ok(folder) => wrapped(folder, platform),
            Err(_) if Platform::here() == Some(platform) && runs("musl-gcc", &["--version"]) => {
                let said = "musl-gcc of this machine, on whose version the digest depends".to_owned();
                Ok(Compiler { cc: "musl-gcc".into(), ar: "ar".into(), said })
            }
            Err(why) => {
                let debian = if Platform::here() == Some(platform) { ", or musl-gcc (Debian: musl-tools)" } else { "" };
                anyhow::bail!(
                    "no C compiler for {platform}: `python3 -m pip` that reaches PyPI is needed, for the wheel \
                     ziglang {ZIG}{debian}; {why}"
                )
            }
        }
    }
}

/// The standard library of a target, installed when it is not there.
fn rust_target(target: &str) -> Result<()> {
    let library = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    let library = library.context("rustc cannot be started: install Rust with https://rustup.rs")?;
    if Path::new(String::from_utf8_lossy(&library.stdout).trim()).is_dir() {
        return Ok(());
    }
    ensure!(
        runs("rustup", &["target", "add", target]),
        "the Rust target {target} is missing and could not be added: run `rustup target add {target}` where the network \
         reaches static.rust-lang.org"
    );
    Ok(())
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut quiet = Command::new(program);
    quiet.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The folder with zig in it.
fn zig(tools: &Path) -> Result<PathBuf> {
    let folder = tools.join(format!("ziglang-{ZIG}"));
    if folder.join("ziglang/zig").is_file() {
        return Ok(folder);
    }
    let hash = WHEELS.iter().find(|(processor, _)| *processor == std::env::consts::ARCH);
    let (_, hash) = hash.with_context(|| format!("no wheel of ziglang is known for {}", std::env::consts::ARCH))?;
    println!("image: installing the C compiler ziglang {ZIG} under {} (100 MB)", folder.display());
    // Installed beside its place and then renamed, so that an unfinished folder is never used.
    let unfinished = tools.join(format!("ziglang-{ZIG}.unfinished"));
    fs::create_dir_all(&unfinished).with_context(|| format!("{} cannot be made", unfinished.display()))?;
    let list = unfinished.join("requirements.txt");
    fs::write(&list, format!("ziglang=={ZIG} --hash=sha256:{hash}\n"))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"];
    let mut command = Command::new("python3");
    command.args(pip).args(["--only-binary", ":all:", "--upgrade", "--target"]).arg(&unfinished).arg("-r").arg(&list);
    let output = command.stdin(Stdio::null()).output().context("python3 cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "pip could not install it: {}", said.lines().last().unwrap_or_default());
    fs::rename(&unfinished, &folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(folder)
}

/// zig as a compiler for one target. The crate `cc` names targets as Rust does, which zig does not understand, so that
/// argument is dropped. The checks and debug information that zig adds by default are switched off.
fn wrapped(folder: &Path, platform: Platform) -> Result<Compiler> {
    let folder = folder.canonicalize()?;
    let zig = folder.join("ziglang/zig");
    let (zig, processor) = (zig.display(), platform.processor());
    let drop = r#"for word; do shift; case $word in --target=*) ;; *) set -- "$@" "$word" ;; esac; done"#;
    // What zig compiles for itself (the C library's headers and start code) is kept beside it, and not in the home
    // folder.
    let cache = folder.join("cache");
    let cache = format!("export ZIG_GLOBAL_CACHE_DIR='{0}' ZIG_LOCAL_CACHE_DIR='{0}'", cache.display());
    let flags = format!("-target {processor}-linux-musl -fno-sanitize=undefined -g0");
    let cc =
        script(&folder.join(format!("cc-{processor}")), &format!("{cache}\n{drop}\nexec '{zig}' cc {flags} \"$@\""))?;
    let ar = script(&folder.join("ar"), &format!("exec '{zig}' ar \"$@\""))?;
    Ok(Compiler { cc, ar, said: format!("zig {ZIG}") })
}

fn script(path: &Path, body: &str) -> Result<PathBuf> {
    let body = format!("#!/bin/sh\n{body}\n");
    // Not written if it is the same: after a newer compiler cargo would compile everything again.
    if fs::read_to_string(path).ok().as_deref() != Some(body.as_str()) {
        fs::write(path, body).with_context(|| format!("{} cannot be written", path.display()))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(path.canonicalize()?)
}
