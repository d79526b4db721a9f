//! `topoloom-plugin.yaml`: what a folder says about the plugin that is made in it.
//!
//! Owns the file: its fields with their defaults and ranges, which source a build begins with, and the one field that a build may
//! write back. Never looks for a tool, never runs one, and knows nothing of `plugin.yaml`, which is delivered beside a plugin.
//!
//! | field | what | default |
//! |---|---|---|
//! | `language` | `rust`, `python`, `javascript`, `c`, or `other`, which needs `build` | none: it is needed |
//! | `build` | a command of a shell in place of the built-in build; it writes `output` | the built-in one |
//! | `output` | the component, in the folder | `plugin.wasm` |
//! | `uses` | what the plugin imports: `nodes`, `nodeNames`, `applied`, `http`, `log` | all of it |
//! | `cases` | the folder of the cases | `cases` |
//! | `limits` | as in an entry of the operator: `profile`, and any limit that an entry may set | those of `standard` |
//!
//! # Failure story
//!
//! Every mistake of the file is found at once, each with its field, the value that was met and what may be there. A file that
//! cannot be read, or is no mapping, is one error with its path.

mod limits;
mod read;

pub use limits::{Limits, with_limits};

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The name of the file.
pub const FILE: &str = "topoloom-plugin.yaml";

/// The folder of a project in which a build writes what is no result.
pub const WORK: &str = ".topoloom";

/// The component of a project that does not name it.
const OUTPUT: &str = "plugin.wasm";

/// The folder of the cases of a project that does not name it.
const CASES: &str = "cases";

/// The largest file that is read: a hundred times what anyone writes.
const LARGEST: u64 = 64 << 10;

/// Most mistakes that are shown: more than anyone reads at a time.
const MOST_SHOWN: usize = 50;

/// A folder in which a plugin is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The folder, as it was given.
    pub root: PathBuf,
    /// The language.
    pub language: Language,
    /// A command of a shell in place of the built-in build.
    pub build: Option<String>,
    /// The component, below `root`.
    pub output: PathBuf,
    /// What the plugin imports.
    pub uses: BTreeSet<Use>,
    /// The folder of the cases, seen from where `root` is seen.
    pub cases: PathBuf,
    /// What the plugin needs of a host.
    pub limits: Limits,
}

/// What a plugin is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Rust, with the SDK.
    Rust,
    /// Python, with its SDK.
    Python,
    /// JavaScript, with its SDK.
    JavaScript,
    /// C, without a C library.
    C,
    /// Any other language: the command in `build` makes a component or a core module of it.
    Other,
}

/// What a plugin imports, and so what an operator is asked to grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Columns of labels and annotations.
    Nodes,
    /// Names of nodes, and the rows of names.
    NodeNames,
    /// The objects that the source wrote before.
    Applied,
    /// Endpoints.
    Http,
    /// Lines in the log of the host.
    Log,
}

/// Why a project cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder has no such file.
    #[error(
        "{} has no {FILE}; `topoloom plugin new` writes one into a new folder, and `language: rust` alone is enough for one that \
         is there",
        .folder.display()
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The file cannot be read.
    #[error("{} cannot be read", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// More than anyone writes.
    #[error("{} is larger than {LARGEST} bytes, the most that is read of a project file", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// Neither YAML nor JSON, or no mapping.
    #[error("{}: {message}", .file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong, with its line.
        message: String,
    },
    /// Fields with wrong values.
    #[error("{}: {}", .file.display(), Listed(.mistakes))]
    Mistakes {
        /// The file.
        file: PathBuf,
        /// All of them.
        mistakes: Vec<Mistake>,
    },
    /// No file that a build could begin with.
    #[error(
        "{} has no source: expected {wanted}, the name of `output` in {FILE} with the ending .{extension}, or a single file with that \
         ending; `build` in {FILE} may name a command for any other layout",
        .folder.display()
    )]
    NoSource {
        /// The folder.
        folder: PathBuf,
        /// The name that was looked for first.
        wanted: String,
        /// The ending of sources.
        extension: &'static str,
    },
    /// Several of them.
    #[error(
        "{} has several sources, {}: name `output` in {FILE} as the one that is meant, with the ending .wasm",
        .folder.display(), .found.join(", ")
    )]
    ManySources {
        /// The folder.
        folder: PathBuf,
        /// Their names.
        found: Vec<String>,
    },
}

/// One field and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The place: `limits.cpu`, `uses[1]`.
    pub field: String,
    /// The value that was met and what may be there.
    pub message: String,
}

/// Mistakes as lines.
struct Listed<'a>(&'a [Mistake]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("one thing is wrong")?,
            count => write!(f, "{count} things are wrong")?,
        }
        for Mistake { field, message } in self.0.iter().take(MOST_SHOWN) {
            write!(f, "\n  {field}: {message}")?;
        }
        match self.0.len().checked_sub(MOST_SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "\n  and {more} more"),
        }
    }
}

impl Project {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// No file, a file that cannot be read, or all mistakes of it.
    pub fn read(root: &Path) -> Result<Self, ProjectError> {
        let file = root.join(FILE);
        let text = match text(&file) {
            Ok(Some(text)) => text,
            Ok(None) => return Err(ProjectError::TooLarge { file }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProjectError::Missing { folder: root.to_owned() });
            }
            Err(source) => return Err(ProjectError::Read { file, source }),
        };
        Self::parse(root, &text)
    }

    /// The same for a text.
    ///
    /// # Errors
    /// All mistakes of the text.
    pub fn parse(root: &Path, text: &str) -> Result<Self, ProjectError> {
        read::project(root, text)
    }

    /// The name of the component without its ending: also that of the source, where nothing else is said.
    #[must_use]
    pub fn stem(&self) -> String {
        self.output.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What the built-in build begins with: the manifest of a crate, or the source with the name of `output`, or else the only
    /// source in the folder that is no test. Another language has none, and the folder is all that is known.
    ///
    /// # Errors
    /// No such file, or several.
    pub fn source(&self) -> Result<PathBuf, ProjectError> {
        let Some(extension) = self.language.extension() else { return Ok(self.root.clone()) };
        let wanted = if self.language == Language::Rust {
            "Cargo.toml".to_owned()
        } else {
            format!("{}.{extension}", self.stem())
        };
        if self.root.join(&wanted).is_file() {
            return Ok(self.root.join(wanted));
        }
        let found = if self.language == Language::Rust { Vec::new() } else { sources(&self.root, extension) };
        match found.as_slice() {
            [] => Err(ProjectError::NoSource { folder: self.root.clone(), wanted, extension }),
            [one] => Ok(self.root.join(one)),
            _ => Err(ProjectError::ManySources { folder: self.root.clone(), found }),
        }
    }
}

/// A whole file; nothing where it is too large.
fn text(file: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// The names of the sources in a folder that are no tests and no settings of a tool, in order.
fn sources(folder: &Path, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.strip_suffix(extension).and_then(|name| name.strip_suffix('.')).is_some_and(is_source))
        .collect();
    names.sort_unstable();
    names
}

/// Whether a name without its ending is that of a source: the usual names of tests and settings are not.
fn is_source(stem: &str) -> bool {
    let is_test = stem.starts_with("test_") || ["_test", ".test", ".spec"].iter().any(|end| stem.ends_with(end));
    !(stem.is_empty() || is_test || stem.ends_with(".config") || matches!(stem, "conftest" | "setup"))
}

impl Language {
    /// All of them, in the order of messages.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Python, Self::JavaScript, Self::C, Self::Other];

    /// The word of the project file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::C => "c",
            Self::Other => "other",
        }
    }

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
            Self::C => "C",
            Self::Other => "another language",
        }
    }

    /// The ending of its sources.
    #[must_use]
    pub const fn extension(self) -> Option<&'static str> {
        match self {
            Self::Rust => Some("rs"),
            Self::Python => Some("py"),
            Self::JavaScript => Some("js"),
            Self::C => Some("c"),
            Self::Other => None,
        }
    }
}

impl Use {
    /// All of them, in the order of messages.
    pub const ALL: [Self; 5] = [Self::Nodes, Self::NodeNames, Self::Applied, Self::Http, Self::Log];

    /// The word of the project file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::NodeNames => "nodeNames",
            Self::Applied => "applied",
            Self::Http => "http",
            Self::Log => "log",
        }
    }
}

#[cfg(test)]
mod tests;
