//! Looks for a tool: in the project's own folders first, then where the shell would.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use topoloom_core::text::{line, shell_word};

use super::{Tool, Wanted, Way};

/// Where package managers put the programs of one project: those of npm, and those of a virtual environment of Python.
const OWN: [&str; 2] = [".venv/bin", "node_modules/.bin"];

/// Longest part of an answer that has no version and is shown.
const MAX_SHOWN: usize = 100;

/// Where tools are looked for.
#[derive(Debug, Clone)]
pub struct Search {
    project: PathBuf,
    folders: Vec<PathBuf>,
}

/// A tool that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The tool.
    pub tool: &'static Tool,
    /// How it is started: a program and its first arguments; for a package, or a part of a toolchain, its folder.
    pub words: Vec<OsString>,
    /// The version that it says; empty where it has none.
    pub version: String,
}

/// Why a tool cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The tool.
    pub tool: &'static Tool,
    /// What was found in its place.
    pub others: Vec<Other>,
    /// The folder of the project, where the line that installs it belongs, if that is not the current one.
    pub folder: Option<PathBuf>,
}

/// A tool of another version, or one that does not say its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Where it is.
    pub place: String,
    /// What it says of its version, or why it says nothing.
    pub said: String,
}

/// Every tool of a build that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct MissingTools(pub Vec<Missing>);

impl Search {
    /// In the folders of this project, and in `PATH`.
    #[must_use]
    pub fn of(project: &Path) -> Self {
        Self::along(project, std::env::var_os("PATH").unwrap_or_default().as_os_str())
    }

    /// In the folders of this project, and along this text in place of `PATH`.
    #[must_use]
    pub fn along(project: &Path, path: &OsStr) -> Self {
        // A program is started in the folder of the project: the path to it must not depend on where that is seen from.
        let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        let own = OWN.iter().map(|folder| project.join(folder));
        let folders = own.chain(std::env::split_paths(path).filter(|folder| folder.is_absolute())).collect();
        Self { project, folders }
    }

    /// The folder of the project, if it is not the current one.
    fn elsewhere(&self) -> Option<PathBuf> {
        let here = std::env::current_dir().and_then(std::fs::canonicalize).ok();
        let is_here = here.is_some() && here == self.project.canonicalize().ok();
        (!is_here).then(|| self.project.clone())
    }

    /// The first program of this name.
    fn program(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|file| is_program(file))
    }

    /// The folder of a package, where Node.js would look for it: here, or in a folder above.
    fn package(&self, name: &str) -> Option<PathBuf> {
        let folders = self.project.ancestors().map(|folder| folder.join("node_modules").join(name));
        folders.into_iter().find(|folder| folder.join("package.json").is_file())
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

impl Found {
    /// The command that starts it, for a program.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().map_or_else(|| OsStr::new(self.tool.name), OsString::as_os_str));
        command.args(words);
        command
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tool { name, wanted, install, is_of_folder, .. } = self.tool;
        write!(f, "{name}{wanted} is needed, and ")?;
        match self.others.as_slice() {
            [] => f.write_str("it is not there")?,
            others => {
                let said: Vec<String> = others.iter().map(|Other { place, said }| format!("{place} {said}")).collect();
                f.write_str(&said.join(", "))?;
            }
        }
        f.write_str("; the line that installs it:\n  ")?;
        if let Some(folder) = self.folder.as_deref().filter(|_| *is_of_folder) {
            write!(f, "cd {} && ", shell_word(&folder.to_string_lossy()))?;
        }
        f.write_str(install)
    }
}

impl std::error::Error for Missing {}

/// After the name of the tool.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(version) => write!(f, " {version}"),
            Self::AtLeast(version) => write!(f, " {version} or newer"),
            Self::Present => Ok(()),
        }
    }
}

impl Wanted {
    /// Whether a version is a good one.
    #[must_use]
    pub fn accepts(self, version: &str) -> bool {
        match self {
            Self::Exactly(wanted) => wanted == version,
            Self::AtLeast(wanted) => numbers(version) >= numbers(wanted),
            Self::Present => true,
        }
    }
}

/// The numbers at the beginning of a version.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '-', '+']);
    parts.map_while(|part| part.parse().ok()).collect()
}

/// Looks for a tool and asks it for its version.
///
/// # Errors
/// The tool is not there, or is another version.
pub fn find(tool: &'static Tool, search: &Search) -> Result<Found, Missing> {
    find_by(tool, search, &|words| output(words, &search.project))
}

/// Looks for all tools of a list.
///
/// # Errors
/// Every one that is not there, or is another version.
pub fn find_all(tools: &[&'static Tool], search: &Search) -> Result<Vec<Found>, MissingTools> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for tool in tools {
        match find(tool, search) {
            Ok(one) => found.push(one),
            Err(one) => missing.push(one),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(MissingTools(missing)) }
}

/// What a program prints, or, where it fails, the last line that it says of that.
type Answer = io::Result<Result<String, String>>;
type Ask<'a> = dyn Fn(&[OsString]) -> Answer + 'a;

pub(super) fn find_by(tool: &'static Tool, search: &Search, ask: &Ask<'_>) -> Result<Found, Missing> {
    let mut others = Vec::new();
    for way in tool.ways {
        let Some((words, said)) = look(way, search, ask) else { continue };
        let place = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        match said {
            Ok(version) if tool.wanted.accepts(&version) => return Ok(Found { tool, words, version }),
            Ok(version) => others.push(Other { place, said: format!("is {version}") }),
            Err(said) => others.push(Other { place, said }),
        }
    }
    Err(Missing { tool, others, folder: search.elsewhere() })
}

/// How a tool is started and its version, or why that is not known; nothing where it is not there.
fn look(way: &Way, search: &Search, ask: &Ask<'_>) -> Option<(Vec<OsString>, Result<String, String>)> {
    match way {
        Way::Program { words, version } => {
            let (name, rest) = words.split_first()?;
            let mut words = vec![search.program(name)?.into_os_string()];
            words.extend(rest.iter().map(OsString::from));
            let asked: Vec<OsString> = words.iter().cloned().chain(version.iter().map(OsString::from)).collect();
            let said = match ask(&asked) {
                Ok(Ok(text)) => version_in(&text)
                    .map(str::to_owned)
                    .ok_or_else(|| format!("says no version, but {:?}", line(text.trim(), MAX_SHOWN))),
                // A program that others come with: `python3` is there, and the module is not.
                Ok(Err(_)) if !rest.is_empty() => return None,
                Ok(Err(why)) if why.is_empty() => Err("fails when it is asked for its version".to_owned()),
                Ok(Err(why)) => Err(format!("fails when it is asked for its version: {:?}", line(&why, MAX_SHOWN))),
                Err(error) => Err(format!("cannot be started: {error}")),
            };
            Some((words, said))
        }
        Way::Package(name) => {
            let folder = search.package(name)?;
            let read = std::fs::read(folder.join("package.json")).ok();
            let manifest = read.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let version = manifest.as_ref().and_then(|manifest| manifest.get("version")?.as_str());
            let said = version.map(str::to_owned).ok_or_else(|| "has no version in its package.json".to_owned());
            Some((vec![folder.into_os_string()], said))
        }
        Way::Folder(words) => {
            let (name, rest) = words.split_first()?;
            let mut words = vec![search.program(name)?.into_os_string()];
            words.extend(rest.iter().map(OsString::from));
            let folder = ask(&words).ok()?.ok()?;
            let folder = Path::new(folder.trim());
            (folder.is_absolute() && folder.is_dir()).then(|| (vec![folder.into()], Ok(String::new())))
        }
    }
}

/// What a program says that is started in the folder of the project: a toolchain may depend on it.
fn output(words: &[OsString], project: &Path) -> Answer {
    let mut words = words.iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    if project.is_dir() {
        command.current_dir(project);
    }
    let output = command.output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(Ok(text(&output.stdout)));
    }
    Ok(Err(text(&output.stderr).lines().next_back().unwrap_or_default().to_owned()))
}

/// The first version in what a program prints of itself: `cargo 1.95.0 (f2d3ce0bd 2026-03-21)`, `v20.20.2`.
pub(super) fn version_in(text: &str) -> Option<&str> {
    let words = text.split_whitespace().map(|word| word.strip_prefix('v').unwrap_or(word));
    words.map(|word| word.trim_end_matches([',', ';', ')'])).find(|word| {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts = word.split('.');
        parts.next().is_some_and(is_number)
            && parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    })
}
