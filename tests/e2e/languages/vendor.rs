//! A vendor: an empty folder on a machine with the program and the tools of one language. There is no checkout.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::Command;
use topoloom_tests::host;
use topoloom_tests::tools::{Tool, folder};

/// How long a block of commands may take: the tools of two languages compute for half a minute, on a busy machine for minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// The lines that `.venv`, `node_modules` and the target of Rust are installed with: what a vendor does once on a machine, and these
/// tests once for all of them.
const INSTALLING: [&str; 3] = ["rustup target add ", "python3 -m venv ", "npm install"];

/// A terminal of the vendor, in the folder that the last `cd` went to.
pub(super) struct Vendor {
    home: TempDir,
    place: PathBuf,
    path: OsString,
    environment: Vec<(&'static str, OsString)>,
}

impl Vendor {
    /// In an empty folder, with these tools.
    pub(super) async fn new(tools: &[Tool]) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("topoloom-vendor-").tempdir()?;
        let place = home.path().join("work");
        let bin = home.path().join("bin");
        for folder in [&place, &bin] {
            std::fs::create_dir_all(folder)?;
        }
        symlink(host::binary()?.canonicalize()?, bin.join("topoloom"))?;
        let mut path = vec![bin];
        for tool in tools.iter().copied() {
            let found = tokio::task::spawn_blocking(move || folder(tool)).await??;
            match found {
                // Packages are looked for in the folders above.
                Some(found) if tool == Tool::ComponentizeJs => symlink(found, place.join("node_modules"))?,
                Some(found) => path.push(found),
                None => {}
            }
        }
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(path)?;
        // Without the accounts of the person who runs the tests.
        let environment = vec![("DOCKER_CONFIG", home.path().join("docker").into_os_string())];
        Ok(Self { home, place, path, environment })
    }

    /// Sets a variable of all commands from here on.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.environment.push((name, value.into()));
    }

    /// A path in the folder where the terminal is.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Writes a file.
    pub(super) fn put(&self, name: &str, text: &str) -> Result<()> {
        let file = self.at(name);
        std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        std::fs::write(&file, text).with_context(|| file.display().to_string())
    }

    /// Replaces the only place of a text in a file, as with an editor.
    pub(super) fn edit(&self, name: &str, from: &str, to: &str) -> Result<()> {
        let file = self.at(name);
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        ensure!(text.matches(from).count() == 1, "{name} has {from:?} {} times", text.matches(from).count());
        self.put(name, &text.replacen(from, to, 1))
    }

    /// Runs a line that the program printed. What it would install is here already.
    pub(super) async fn follow(&mut self, line: &str) -> Result<String> {
        let (kept, installs): (Vec<&str>, Vec<&str>) =
            line.split(" && ").partition(|part| !INSTALLING.iter().any(|word| part.contains(word)));
        // `.venv/bin/pip install …` behind the line that makes `.venv`.
        let kept: Vec<&str> = kept.into_iter().filter(|part| !part.contains("/pip install ")).collect();
        let printed = if kept.is_empty() { String::new() } else { self.sh(&kept.join(" && ")).await? };
        if !installs.is_empty() {
            self.equip()?;
        }
        Ok(printed)
    }

    /// Puts into a project what installing would leave there.
    fn equip(&self) -> Result<()> {
        if self.at("Cargo.toml").is_file() {
            // The machine has the versions of this workspace, and what was compiled of them the last time.
            let root = topoloom_tests::pages::root()?;
            std::fs::copy(root.join("Cargo.lock"), self.at("Cargo.lock"))?;
            let target = kept("rust")?;
            symlink(target, self.at("target"))?;
        }
        if self.at("package.json").is_file() {
            let own = self.at("node_modules/@topoloom");
            std::fs::create_dir_all(&own)?;
            symlink(self.at("vendor/topoloom-sdk"), own.join("sdk"))?;
        }
        let of_python = [Tool::ComponentizePy, Tool::Zig].map(Tool::program);
        let folders: Vec<PathBuf> = std::env::split_paths(&self.path).collect();
        let found = folders.iter().find(|folder| of_python.iter().any(|program| folder.join(program).exists()));
        // One that was installed in another way has no such environment.
        let is_environment = |folder: &&PathBuf| folder.join("../pyvenv.cfg").is_file();
        if let Some(bin) = found.filter(is_environment)
            && !self.at("package.json").is_file()
            && !self.at("Cargo.toml").is_file()
        {
            symlink(bin.parent().context("a folder of programs is in an environment")?, self.at(".venv"))?;
        }
        Ok(())
    }

    /// Runs commands; returns what they printed, on both outputs.
    pub(super) async fn sh(&mut self, commands: &str) -> Result<String> {
        let (printed, complained, status) = self.run(commands).await?;
        if !status.success() {
            bail!("{status}: {commands}\n{printed}\n{complained}");
        }
        Ok(format!("{printed}{complained}"))
    }

    async fn run(&mut self, commands: &str) -> Result<(String, String, std::process::ExitStatus)> {
        let place = self.home.path().join("place");
        let mut command = Command::new("sh");
        command.args(["-euc", &format!("{commands}\npwd > '{}'", place.display())]).current_dir(&self.place);
        command.env("PATH", &self.path).envs(self.environment.iter().map(|(name, value)| (name, value)));
        // Of the cargo that runs the tests.
        for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER"] {
            command.env_remove(variable);
        }
        command.env("CARGO_NET_OFFLINE", "true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output());
        let output = output.await.with_context(|| format!("no end: {commands}"))??;
        if let Ok(place) = std::fs::read_to_string(&place) {
            self.place = place.trim_end().into();
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr), output.status))
    }
}

/// A folder that stays from run to run: what cargo compiles for a plugin takes a minute.
fn kept(language: &str) -> Result<PathBuf> {
    let target = host::binary()?.ancestors().nth(2).context("a target folder")?.join("languages").join(language);
    std::fs::create_dir_all(&target)?;
    target.canonicalize().with_context(|| Path::new(language).display().to_string())
}

/// The commands that a verb prints: lines of their own that begin with two blanks and a program.
pub(super) fn commands(printed: &str) -> Vec<String> {
    let programs = ["cd ", "topoloom "];
    let lines = printed.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim);
    lines.filter(|line| programs.iter().any(|program| line.starts_with(program))).map(str::to_owned).collect()
}
