//! The image as a process: its root folder unpacked, read-only, with nothing else in it, as its own user, on a real API
//! server.
//!
//! That is what a container runtime does, as far as the image can see: there is `/proc`, and two files that a pod would
//! mount. Root does it with mounts of its own and `chroot`, any other user in a user namespace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::assemble::USER;
use super::inspect::Inspected;
use super::platform::Platform;
use crate::guest;
use crate::host::Host;
use crate::scene::{RACKS, Scene};

/// The paths of files that a pod would mount.
const KUBECONFIG: &str = "/etc/kubeconfig";
const PLUGIN: &str = "/etc/villain.wasm";
const EMULATOR: &str = "/etc/emulator";

/// How a shell enters the new root: `$0` is its folder, and the arguments are the program.
const ENTER: &str = r#"mount --bind "$0" "$0" && mount --rbind /proc "$0/proc" && mount -o remount,bind,ro "$0" && "#;

/// What a start shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The version that the binary prints.
    pub version: String,
    /// Whether it was seen to run as the image's user.
    pub user: User,
}

/// Whether a process was seen to run as the image's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// It was seen to.
    Seen,
    /// Not known: from outside, every user of a user namespace is the caller; only root can check.
    NotSeen,
}

/// What runs a binary of another processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Emulator {
    /// None: the binary is for the processor of this machine.
    None,
    /// A static qemu.
    Qemu(PathBuf),
}

impl Emulator {
    /// What a binary for `platform` needs here.
    ///
    /// # Errors
    /// Names what to install.
    pub fn find(platform: Platform) -> Result<Self> {
        if Platform::here() == Some(platform) {
            return Ok(Self::None);
        }
        let name = format!("qemu-{}-static", platform.processor());
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&folders).map(|folder| folder.join(&name)).find(|file| file.is_file());
        found.map(Self::Qemu).with_context(|| format!("{name} is not in PATH (Debian: qemu-user-static)"))
    }
}

/// The user that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunAs {
    Root,
    User,
}

impl RunAs {
    fn find() -> Result<Self> {
        let caller = if rustix::process::geteuid().is_root() { Self::Root } else { Self::User };
        let probe = Command::new("unshare").args(caller.namespaces()).arg("true").stderr(Stdio::null()).status();
        ensure!(
            probe.is_ok_and(|status| status.success()),
            "an empty root needs `unshare` (util-linux), and root or user namespaces"
        );
        Ok(caller)
    }

    fn namespaces(self) -> &'static [&'static str] {
        match self {
            Self::Root => &["--mount", "--propagation", "private"],
            Self::User => &["--user", "--map-root-user", "--mount", "--propagation", "private"],
        }
    }

    /// The end of the shell's line: it becomes the image's user, and then the program, which is found in the image's
    /// `PATH` only.
    fn leave(self, path: &str) -> String {
        let (program, arguments) = match self {
            Self::Root => ("chroot", format!(r#"--userspec={USER}:{USER} --groups= "$0" "$@""#)),
            Self::User => {
                ("unshare", format!(r#"--user --map-user={USER} --map-group={USER} --root="$0" --wd=/ "$@""#))
            }
        };
        format!(r#"program=$(command -v {program}) && export PATH='{path}' && exec "$program" {arguments}"#)
    }
}

/// An unpacked image.
struct Root {
    folder: TempDir,
    caller: RunAs,
    /// Without `PATH`.
    environment: Vec<(String, String)>,
    /// The `PATH` of the image.
    path: String,
    program: Vec<String>,
    /// The program by its name, as in `kubectl exec`. An emulator does not find programs by name.
    name: Vec<String>,
}

impl Root {
    fn unpack(image: &Inspected, platform: Platform, emulator: &Emulator) -> Result<Self> {
        let caller = RunAs::find()?;
        let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir()?;
        image.unpack(platform, folder.path())?;
        fs::create_dir(folder.path().join("proc"))?;
        let config = image.config(platform).context("the image has no configuration")?;
        ensure!(config["User"] == format!("{USER}:{USER}"), "the user is {}", config["User"]);
        let words = |key: &str| -> Vec<String> {
            let list = config[key].as_array().into_iter().flatten();
            list.filter_map(|word| word.as_str()).map(str::to_owned).collect()
        };
        let environment = words("Env");
        let environment = environment.iter().filter_map(|line| line.split_once('='));
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (path, environment): (Vec<_>, Vec<_>) = environment.partition(|(name, _)| name == "PATH");
        let path = path.into_iter().next().context("the image has no PATH: the kubelet cannot run it by its name")?.1;
        ensure!(!path.contains('\''), "the PATH of the image is {path}");
        let mut program = words("Entrypoint");
        let mut name = vec!["topoloom".to_owned()];
        if let Emulator::Qemu(qemu) = emulator {
            let inside = folder.path().join(EMULATOR.trim_start_matches('/'));
            fs::copy(qemu, &inside).with_context(|| format!("{} cannot be copied", qemu.display()))?;
            program.insert(0, EMULATOR.to_owned());
            name.clone_from(&program);
        }
        Ok(Self { folder, caller, environment, path, program, name })
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let path = self.folder.path().join(path.trim_start_matches('/'));
        fs::write(&path, bytes).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?)
    }

    /// A program with these arguments. One process from beginning to end, so that signals reach it.
    fn command(&self, program: &[String], arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(self.caller.namespaces()).args(["sh", "-c", &format!("{ENTER}{}", self.caller.leave(&self.path))]);
        command.arg(self.folder.path()).args(program).args(arguments).env_clear();
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env("PATH", path).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    fn version(&self) -> Result<String> {
        let output = self.command(&self.name, &["--version"]).output().context("unshare cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let name = self.name.join(" ");
        ensure!(output.status.success(), "{name} --version: {}: {}", output.status, said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Starts the image, waits until it is ready and has written a topology, and stops it. On its own processor a plugin that
/// crashes is compiled and run as well: its trap is an error of that plugin and nothing else.
///
/// # Errors
/// When something of that does not work.
///
/// # Panics
/// When something of that does not happen in time, with the last state.
pub async fn start(image: &Inspected, platform: Platform, emulator: &Emulator) -> Result<Started> {
    let root = Root::unpack(image, platform, emulator)?;
    let version = root.version()?;
    let scene = Scene::alone().await?;
    scene.nodes(&["a ex.io/rack=x example.com/rack=x", "b ex.io/rack=y example.com/rack=y"]).await?;
    let mut entries = RACKS.to_owned();
    if *emulator == Emulator::None {
        root.put(PLUGIN, &guest::component(&guest::module("topoloom-guest-villain")?)?)?;
        entries.push_str(&format!(
            "- {{source: villain, enabled: true, plugin: {{file: {PLUGIN}}}, \
             permissions: {{nodeLabels: [example.com/rack]}}, config: {{discover: panic}}}}\n"
        ));
    }
    scene.configure(&entries).await?;
    // The host has the rights that the chart gives it.
    root.put(KUBECONFIG, &fs::read(scene.host_kubeconfig().await?)?)?;
    let command = root.command(&root.program, &["run", "--kubeconfig", KUBECONFIG]);
    let host = Host::spawn(command.into(), &[]).await?;
    host.until_ready().await;
    scene.until(&["tier 1 ex.io/rack=x (1): a", "tier 1 ex.io/rack=y (1): b"]).await;
    let user = if root.caller == RunAs::Root { User::Seen } else { User::NotSeen };
    if user == User::Seen {
        let status = fs::read_to_string(format!("/proc/{}/status", host.id().context("the host has ended")?))?;
        let users = format!("Uid:\t{USER}\t{USER}\t{USER}\t{USER}");
        ensure!(status.lines().any(|line| line == users), "it does not run as {USER}:\n{status}");
    }
    if *emulator == Emulator::None {
        let why = scene.until_condition("villain", "Discovered", "False", "Trap").await;
        ensure!(why.contains("discover panics as configured"), "the trap says {why}");
        ensure!(host.readyz().await.is_ok(), "a plugin that crashes does not decide whether the host is ready");
    }
    host.stop().await?;
    scene.plane.stop().await?;
    Ok(Started { version, user })
}
