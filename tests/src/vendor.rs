//! A vendor: an empty folder on a machine with the program and the tools of one language. There is no checkout.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::controlplane::{ControlPlane, find_or_build};
use crate::terminal::{Running, script};
use crate::tools::{Tool, folder, programs};
use crate::{host, pages};

/// How long a block of commands may take: the tools of two languages compute for half a minute, on a busy machine for minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// The niceness of all that a vendor does.
const NICE: &str = "5";

/// The commands that `.venv`, `node_modules` and the target of Rust are installed with: what a vendor does once on a machine, and
/// these tests once for all of them.
const INSTALLING: [&str; 4] = ["rustup target add ", "python3 -m venv ", "/pip install ", "npm install"];

/// A terminal of the vendor, in the folder that the last `cd` went to.
pub struct Vendor {
    home: TempDir,
    /// Where cargo compiles: it stays from run to run.
    target: PathBuf,
    place: PathBuf,
    path: OsString,
    environment: Vec<(&'static str, OsString)>,
}

impl Vendor {
    /// In an empty folder, with these tools. Each vendor of a process has a name of its own.
    ///
    /// # Errors
    /// When a tool cannot be found or installed; the message says how.
    pub async fn new(name: &str, tools: &[Tool]) -> Result<Self> {
        let home = home(name)?;
        let target = host::binary()?.ancestors().nth(2).context("a target folder")?.join("vendors").join(name);
        let place = home.path().join("work");
        let bin = home.path().join("bin");
        for folder in [&place, &bin, &target] {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let target = target.canonicalize()?;
        symlink(host::binary()?.canonicalize()?, bin.join("topoloom"))?;
        let mut path = vec![bin];
        for tool in tools.iter().copied() {
            let found = move || anyhow::Ok((folder(tool)?, programs(tool)?));
            let (found, programs) = tokio::task::spawn_blocking(found).await??;
            path.extend(programs);
            // Packages are looked for in the folders above.
            if let Some(found) = found.filter(|_| tool == Tool::ComponentizeJs) {
                symlink(found, place.join("node_modules"))?;
            }
        }
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(path)?;
        // Without the accounts of the person who runs the tests, and with what vendors compiled in earlier tests.
        let environment =
            vec![("DOCKER_CONFIG", home.path().join("docker").into_os_string()), ("XDG_CACHE_HOME", caches()?.into())];
        Ok(Self { home, target, place, path, environment })
    }

    /// Gives the vendor kubectl and the kubeconfig of a cluster.
    ///
    /// # Errors
    /// When there is no kubectl.
    pub async fn with_cluster(mut self, plane: &ControlPlane) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(find_or_build).await??;
        let kubectl = self.home.path().join("bin/kubectl");
        std::fs::write(&kubectl, format!("#!/bin/sh\nexec {} \"$@\"\n", programs.in_a_shell("kubectl")))?;
        std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755))?;
        self.set("KUBECONFIG", plane.kubeconfig());
        Ok(self)
    }

    /// Sets a variable of all commands from here on.
    pub fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.environment.push((name, value.into()));
    }

    /// A folder beside that of the vendor.
    #[must_use]
    pub fn beside(&self) -> &Path {
        self.home.path()
    }

    /// A path in the folder where the terminal is.
    #[must_use]
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(&self, name: &str) -> Result<String> {
        let file = self.at(name);
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, text: &str) -> Result<()> {
        let file = self.at(name);
        std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        std::fs::write(&file, text).with_context(|| file.display().to_string())
    }

    /// Replaces the only place of a text in a file, as with an editor.
    ///
    /// # Errors
    /// When the file does not have it, or more than once.
    pub fn edit(&self, name: &str, from: &str, to: &str) -> Result<()> {
        let text = self.read(name)?;
        ensure!(text.matches(from).count() == 1, "{name} has {from:?} {} times", text.matches(from).count());
        self.put(name, &text.replacen(from, to, 1))
    }

    /// Runs commands as the program printed them, or as a page has them; returns what they printed. What they would install is
    /// here already.
    ///
    /// # Errors
    /// When they end without success.
    pub async fn follow(&mut self, commands: &str) -> Result<String> {
        let (kept, installs) = without_installing(commands);
        let printed = if kept.trim().is_empty() { String::new() } else { self.sh(&kept).await? };
        if installs {
            self.equip()?;
        }
        Ok(printed)
    }

    /// Puts into a project what installing would leave there.
    fn equip(&self) -> Result<()> {
        if self.at("Cargo.toml").is_file() {
            // The machine has the versions of this workspace, and what was compiled of them the last time.
            std::fs::copy(pages::root()?.join("Cargo.lock"), self.at("Cargo.lock"))?;
            return Ok(symlink(&self.target, self.at("target"))?);
        }
        if self.at("package.json").is_file() {
            let own = self.at("node_modules/@topoloom");
            std::fs::create_dir_all(&own)?;
            return Ok(symlink(self.at("vendor/topoloom-sdk"), own.join("sdk"))?);
        }
        // One that was installed in another way has no such environment.
        let folders: Vec<PathBuf> = std::env::split_paths(&self.path).collect();
        let Some(bin) = folders.iter().find(|folder| folder.join("../pyvenv.cfg").is_file()) else { return Ok(()) };
        let environment = bin.parent().context("a folder of programs is in an environment")?;
        let own = self.at(".venv/bin");
        std::fs::create_dir_all(&own)?;
        for name in ["pyvenv.cfg", "lib"] {
            symlink(environment.join(name), self.at(".venv").join(name))?;
        }
        for entry in std::fs::read_dir(bin)? {
            let name = entry?.file_name();
            // What stands before it in PATH does so here.
            let program = folders.iter().map(|folder| folder.join(&name)).find(|place| place.exists());
            symlink(program.with_context(|| name.display().to_string())?, own.join(&name))?;
        }
        Ok(())
    }

    /// Runs commands; returns what they printed, on both outputs.
    ///
    /// # Errors
    /// When they end without success.
    pub async fn sh(&mut self, commands: &str) -> Result<String> {
        let (printed, status) = self.run(commands).await?;
        if !status.success() {
            bail!("{status}: {commands}\n{printed}");
        }
        Ok(printed)
    }

    /// Starts commands that run until they are stopped.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn start(&self, commands: &str) -> Result<Running> {
        let said = self.home.path().join("said");
        Ok(Running::start(self.command(&script(commands)), said, commands.trim().to_owned())?.patient(PATIENCE))
    }

    async fn run(&mut self, commands: &str) -> Result<(String, ExitStatus)> {
        let place = self.home.path().join("place");
        let mut command = self.command(&format!("{commands}\npwd > '{}'", place.display()));
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output.await.with_context(|| format!("no end: {commands}"))??;
        if let Ok(place) = std::fs::read_to_string(&place) {
            self.place = place.trim_end().into();
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout) + &text(&output.stderr), output.status))
    }

    fn command(&self, commands: &str) -> Command {
        let mut command = Command::new("nice");
        // Tools of languages compute for minutes, and other tests depend on leases and deadlines.
        command.args(["-n", NICE, "sh", "-euc", commands]).current_dir(&self.place);
        command.env("PATH", &self.path).envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Of the cargo that runs the tests.
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER"] {
            command.env_remove(variable);
        }
        command.env("CARGO_NET_OFFLINE", "true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Where the programs of vendors keep what they computed; it stays from run to run.
///
/// # Errors
/// When there is no binary, whose folder it stands beside.
pub fn caches() -> Result<PathBuf> {
    let caches = host::binary()?.ancestors().nth(2).context("a target folder")?.join("vendors/cache");
    std::fs::create_dir_all(&caches).with_context(|| caches.display().to_string())?;
    Ok(caches.canonicalize()?)
}

/// What they compiled of plugins, and the key that seals it: for a host on the same machine.
///
/// # Errors
/// As [`caches`].
pub fn compiled() -> Result<(PathBuf, PathBuf)> {
    let own = caches()?.join("topoloom");
    Ok((own.join("compiled"), own.join("key")))
}

/// An empty folder, in the same place in each run: cargo knows again there what it compiled.
fn home(name: &str) -> Result<TempDir> {
    let mut checkout = DefaultHasher::new();
    pages::root()?.hash(&mut checkout);
    let folder = format!("topoloom-vendor-{:08x}-{name}", checkout.finish() & 0xffff_ffff);
    let there = std::env::temp_dir().join(&folder);
    if there.exists() {
        // A run that was killed left it.
        std::fs::remove_dir_all(&there).with_context(|| there.display().to_string())?;
    }
    tempfile::Builder::new().prefix(&folder).rand_bytes(0).tempdir().context("no folder for a vendor")
}

/// The commands without those that install something, and whether there were any.
fn without_installing(commands: &str) -> (String, bool) {
    let (mut kept, mut installs) = (String::new(), false);
    for line in commands.lines() {
        let parts: Vec<&str> = line.split(" && ").collect();
        let rest = parts.iter().filter(|part| !INSTALLING.iter().any(|word| part.contains(word)));
        let rest: Vec<&str> = rest.copied().collect();
        installs |= rest.len() < parts.len();
        if !rest.is_empty() {
            kept += &format!("{}\n", rest.join(" && "));
        }
    }
    (kept, installs)
}

/// The commands that a verb prints: lines of their own that begin with two blanks and a program.
#[must_use]
pub fn commands(printed: &str) -> Vec<String> {
    let programs = ["cd ", "topoloom "];
    let lines = printed.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim);
    lines.filter(|line| programs.iter().any(|program| line.starts_with(program))).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_left_out_and_the_rest_stays() {
        let left = |commands: &str| without_installing(commands);
        assert_eq!(left("cd racks && npm install"), ("cd racks\n".to_owned(), true));
        let python = "cd racks && python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";
        assert_eq!(left(python), ("cd racks\n".to_owned(), true));
        assert_eq!(left("rustup target add wasm32-unknown-unknown"), (String::new(), true));
        let kept = "cat > a <<'END'\n\na && b\nEND\n";
        assert_eq!(left(kept), (kept.to_owned(), false));
    }

    #[test]
    fn the_commands_that_are_printed_are_lines_of_their_own() {
        let printed = "racks: the plugin\nnext:\n  cd racks && npm install\n  topoloom plugin build\nit ends\n  so\n";
        assert_eq!(commands(printed), ["cd racks && npm install", "topoloom plugin build"]);
    }
}
