//! Programs that are written in Go and built here: a folder of this crate with a module of its own, and nothing else of Go
//! around it.
//!
//! Each is built once. The binary lies under the target folder, keyed by a hash of the module's files, so that an edit
//! there gives a new binary and everything else finds the old one.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

/// The files that decide the content of the binary, apart from the program itself and the Go version.
const MODULE_FILES: [&str; 2] = ["go.mod", "go.sum"];
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// Lines of the compiler that a failed build shows.
const ERROR_LINES: usize = 20;

/// A variable of the environment of each of them. Packages of kubectl, which Helm has, too, load a table of texts in the language of
/// the user whenever a program with them starts, whatever it does then: the English table takes 40 ms of processor time. This one
/// has seven short descriptions of verbs, and all else stays English.
pub(crate) const LANGUAGE: (&str, &str) = ("LC_ALL", "zh_TW.UTF-8");

/// A Go module beside this crate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoModule {
    /// Its folder.
    pub(crate) folder: &'static str,
    /// The package of the program in it, as a path below its folder.
    pub(crate) package: &'static str,
    /// The name of the binary.
    pub(crate) name: &'static str,
    /// The flags for the linker.
    pub(crate) ldflags: &'static str,
    /// What is in it, for messages.
    pub(crate) holds: &'static str,
    /// What the first build costs.
    pub(crate) cost: &'static str,
    /// What to do where there is no Go.
    pub(crate) instead: &'static str,
}

impl GoModule {
    /// The binary; it is built where there is none. Blocks, for minutes on the first call.
    pub(crate) fn find_or_build(&self) -> Result<PathBuf> {
        let module = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let store = target_folder().join(self.name);
        let folder = store.join(self.hash(&module)?);
        let binary = folder.join(self.name);
        if binary.is_file() {
            return Ok(binary);
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let _lock = self.lock(&store.join("lock"))?;
        if !binary.is_file() {
            // Built beside its place and then renamed: no reader ever sees half a binary.
            let unfinished = folder.join(format!("{}.unfinished", self.name));
            self.build(&module, &unfinished)?;
            fs::rename(&unfinished, &binary)
                .with_context(|| format!("cannot move the binary to {}", binary.display()))?;
        }
        Ok(binary)
    }

    fn hash(&self, module: &Path) -> Result<String> {
        let mut hasher = Sha256::new();
        let program = format!("{}/main.go", self.package);
        for name in MODULE_FILES.into_iter().chain([program.as_str()]) {
            let path = module.join(name);
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            hasher.update(name);
            hasher.update((content.len() as u64).to_le_bytes());
            hasher.update(content);
        }
        hasher.update(self.ldflags);
        Ok(hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    fn lock(&self, path: &Path) -> Result<File> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("{}: waiting for another process that builds it", self.name);
                file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        Ok(file)
    }

    fn build(&self, module: &Path, output: &Path) -> Result<()> {
        let (name, started) = (self.name, Instant::now());
        let spawned = Command::new("go")
            .args(["build", "-v", "-trimpath", "-ldflags", self.ldflags, "-o"])
            .arg(output)
            .arg(self.package)
            .current_dir(module)
            .env("CGO_ENABLED", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "Go is needed to build {} for the tests and is not in PATH: install Go 1.26 or newer \
                 (https://go.dev/dl), or {}",
                self.holds,
                self.instead
            ),
            Err(error) => return Err(error).context("cannot run go"),
        };
        eprintln!("{name}: building {} with Go ({} the first time)", self.holds, self.cost);
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
                eprintln!("{name}: {seconds} s: {downloads} modules downloaded, {packages} packages compiled");
            }
        }
        let status = child.wait().context("cannot wait for go")?;
        if !status.success() {
            let lines: Vec<String> = last.into();
            bail!("{name} cannot be built: go build ended with {status}:\n{}", lines.join("\n"));
        }
        eprintln!("{name}: built in {} s", started.elapsed().as_secs());
        Ok(())
    }
}

fn target_folder() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Joining an absolute path gives that path.
    workspace.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}
