//! Where the programs of the control plane come from.
//!
//! Where `KUBEBUILDER_ASSETS` names a folder with `etcd` and `kube-apiserver`, those are used. Otherwise the Go module
//! beside this crate is built, once: the binary lies under the target folder, keyed by a hash of the module's files, so
//! that an edit there gives a new binary and everything else finds the old one.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// What decides over the binary, apart from the Go version.
const MODULE_FILES: [&str; 3] = ["go.mod", "go.sum", "main.go"];
/// Without the version stamps nothing that parses a server or client version works.
const LDFLAGS: &str = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
                       -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3";
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Lines of the compiler that a failed build shows.
const ERROR_LINES: usize = 20;

/// The programs of the control plane, ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// One binary whose first argument names the program.
    Combined(PathBuf),
    /// A folder with one binary per program.
    Folder(PathBuf),
}

impl Programs {
    /// The command that runs `program`.
    pub fn command(&self, program: &str) -> Command {
        match self {
            Self::Combined(binary) => {
                let mut command = Command::new(binary);
                command.arg(program);
                command
            }
            Self::Folder(folder) => Command::new(folder.join(program)),
        }
    }

    /// Whether the servers watch their standard input by themselves.
    pub(super) fn die_with_stdin(&self) -> bool {
        matches!(self, Self::Combined(_))
    }
}

/// Finds the programs, and builds them where there are none. Blocks, for minutes on the first call.
///
/// # Errors
///
/// Says in one sentence what is missing or which build failed.
pub fn find_or_build() -> Result<Programs> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        for program in ["etcd", "kube-apiserver"] {
            if !folder.join(program).is_file() {
                bail!("KUBEBUILDER_ASSETS is {}, where there is no {program}", folder.display());
            }
        }
        return Ok(Programs::Folder(folder));
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane");
    let store = target_folder().join("controlplane");
    let folder = store.join(hash(&module)?);
    let binary = folder.join("controlplane");
    if binary.is_file() {
        return Ok(Programs::Combined(binary));
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let _lock = lock(&store.join("lock"))?;
    if !binary.is_file() {
        // Built beside its place and then renamed: nobody ever sees half a binary.
        let unfinished = folder.join("controlplane.unfinished");
        build(&module, &unfinished)?;
        fs::rename(&unfinished, &binary).with_context(|| format!("cannot move the binary to {}", binary.display()))?;
    }
    Ok(Programs::Combined(binary))
}

fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Joining an absolute path gives that path.
    workspace.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

fn hash(module: &Path) -> Result<String> {
    let mut hasher = Sha256::new();
    for name in MODULE_FILES {
        let path = module.join(name);
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        hasher.update(name);
        hasher.update((content.len() as u64).to_le_bytes());
        hasher.update(content);
    }
    hasher.update(LDFLAGS);
    Ok(hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("controlplane: waiting for another process that builds it");
            file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    Ok(file)
}

fn build(module: &Path, output: &Path) -> Result<()> {
    let started = Instant::now();
    let spawned = Command::new("go")
        .args(["build", "-v", "-trimpath", "-ldflags", LDFLAGS, "-o"])
        .arg(output)
        .arg(".")
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "Go is needed to build the test control plane and is not in PATH: install Go 1.26 or newer (https://go.dev/dl), \
             or set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
        ),
        Err(error) => return Err(error).context("cannot run go"),
    };
    eprintln!("controlplane: building etcd and Kubernetes with Go (several minutes and 3 GB the first time)");
    let mut last = VecDeque::with_capacity(ERROR_LINES);
    let (mut packages, mut downloads, mut reported) = (0_u32, 0_u32, started);
    // With -v the compiler names every package, and every module that it downloads, in a line of its own.
    for line in BufReader::new(child.stderr.take().expect("it is piped")).lines() {
        let line = line.context("cannot read what go says")?;
        if line.starts_with("go: downloading ") {
            downloads += 1
        } else {
            packages += 1
        }
        if last.len() == ERROR_LINES {
            last.pop_front();
        }
        last.push_back(line);
        if reported.elapsed() >= PROGRESS_EVERY {
            reported = Instant::now();
            let seconds = started.elapsed().as_secs();
            eprintln!("controlplane: {seconds} s: {downloads} modules downloaded, {packages} packages compiled");
        }
    }
    let status = child.wait().context("cannot wait for go")?;
    if !status.success() {
        let lines: Vec<String> = last.into();
        bail!("the test control plane cannot be built: go build ended with {status}:\n{}", lines.join("\n"));
    }
    eprintln!("controlplane: built in {} s", started.elapsed().as_secs());
    Ok(())
}
