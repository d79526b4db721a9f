//! The files of a new plugin, embedded in the program: source, one native test, one case, the project file, and what a CI runs.
//!
//! Owns the texts below `templates/` and where each is written, what goes along with them (`vendored.rs`: the SDK of the language,
//! which no registry has, with the interface), and the commands that come next. Every template is the same discoverer: one group
//! per value of a node label ([`Template::Racks`]); or the same second one, which asks a service ([`Template::Listed`]). Never
//! overwrites a file, and needs neither a checkout nor a network.
//!
//! What is written by `topoloom` and not to be edited has a place of its own: `vendor/` in Rust, JavaScript and C, and for Python the
//! package `topoloom` beside the source, where both `python3` and `componentize-py` look without a setting. When a registry has the
//! SDK, a vendor deletes that folder and names the package in `Cargo.toml`, `requirements.txt` or `package.json`.
//!
//! # Failure story
//!
//! A folder with anything in it, but for an empty repository, is refused before anything is written, with the name of what is there.
//! A file that cannot be written is named; what was written before it stays.

mod vendored;

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::project::{FILE, Language};
use crate::tools::{RUST_TARGET, ZIG};

/// Which discoverer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// One group per value of a node label.
    Racks,
    /// One group per rack of a list that a service has.
    Listed,
}

/// Why no plugin is begun.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// There is something in the folder.
    #[error("{} is not empty, it has {found}: name a folder that is new or empty", .folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// The first of what is in it.
        found: String,
    },
    /// The folder cannot be looked at: it is a file, or belongs to another user.
    #[error("{} cannot be used as a folder", .folder.display())]
    Look {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A language of which nothing is known.
    #[error("there is no template for {0}; docs/vendors/other-languages.md has the three ways that are left")]
    NoTemplate(&'static str),
    /// A file cannot be written.
    #[error("{} cannot be written", .file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A text of the template.
macro_rules! embedded {
    ($file:literal) => {
        include_str!(concat!("../templates/", $file))
    };
}

/// Files by their paths in the new folder.
type Files = &'static [(&'static str, &'static str)];

const RUST: Files = &[
    (".github/workflows/plugin.yml", embedded!("rust/workflow.yml")),
    (".gitignore", embedded!("rust/gitignore")),
    ("rust-toolchain.toml", embedded!("rust/toolchain.toml")),
    ("rustfmt.toml", embedded!("rust/rustfmt.toml")),
];
const RUST_RACKS: Files = &[
    ("Cargo.toml", embedded!("rust/racks/manifest.toml")),
    ("config.schema.json", embedded!("rust/racks/schema.json")),
    ("src/lib.rs", embedded!("rust/racks/lib.rs")),
    ("tests/racks.rs", embedded!("rust/racks/tests/racks.rs")),
    (FILE, embedded!("rust/racks/project.yaml")),
];
const RUST_LISTED: Files = &[
    ("Cargo.toml", embedded!("rust/listed/manifest.toml")),
    ("src/lib.rs", embedded!("rust/listed/lib.rs")),
    ("tests/listed.rs", embedded!("rust/listed/tests/listed.rs")),
    (FILE, embedded!("rust/listed/project.yaml")),
];
const PYTHON: Files = &[
    (".github/workflows/plugin.yml", embedded!("python/workflow.yml")),
    (".gitignore", embedded!("python/gitignore")),
    ("requirements.txt", embedded!("python/requirements.txt")),
];
const PYTHON_RACKS: Files = &[
    ("racks.py", embedded!("python/racks/racks.py")),
    ("test_racks.py", embedded!("python/racks/test_racks.py")),
    (FILE, embedded!("python/racks/project.yaml")),
];
const PYTHON_LISTED: Files = &[
    ("listed.py", embedded!("python/listed/listed.py")),
    ("test_listed.py", embedded!("python/listed/test_listed.py")),
    (FILE, embedded!("python/listed/project.yaml")),
];
const JAVASCRIPT: Files = &[
    (".github/workflows/plugin.yml", embedded!("javascript/workflow.yml")),
    (".gitignore", embedded!("javascript/gitignore")),
];
const JAVASCRIPT_RACKS: Files = &[
    ("package.json", embedded!("javascript/racks/package.json")),
    ("racks.js", embedded!("javascript/racks/racks.js")),
    ("racks.test.js", embedded!("javascript/racks/racks.test.js")),
    (FILE, embedded!("javascript/racks/project.yaml")),
];
const JAVASCRIPT_LISTED: Files = &[
    ("listed.js", embedded!("javascript/listed/listed.js")),
    ("listed.test.js", embedded!("javascript/listed/listed.test.js")),
    ("package.json", embedded!("javascript/listed/package.json")),
    (FILE, embedded!("javascript/listed/project.yaml")),
];
const C: Files = &[
    (".github/workflows/plugin.yml", embedded!("c/workflow.yml")),
    (".gitignore", embedded!("c/gitignore")),
    ("vendor/topoloom.h", embedded!("c/topoloom.h")),
    ("vendor/topoloom_test.h", embedded!("c/topoloom_test.h")),
];
const C_RACKS: Files = &[
    ("racks.c", embedded!("c/racks/racks.c")),
    ("racks_test.c", embedded!("c/racks/racks_test.c")),
    (FILE, embedded!("c/racks/project.yaml")),
];
const C_LISTED: Files = &[
    ("listed.c", embedded!("c/listed/listed.c")),
    ("listed_test.c", embedded!("c/listed/listed_test.c")),
    (FILE, embedded!("c/listed/project.yaml")),
];
const CASES_RACKS: Files = &[
    ("cases/first/config.yaml", embedded!("shared/racks/config.yaml")),
    ("cases/first/expected.txt", embedded!("shared/racks/expected.txt")),
    ("cases/first/nodes.yaml", embedded!("shared/racks/nodes.yaml")),
];
const CASES_LISTED: Files = &[
    ("cases/first/config.yaml", embedded!("shared/listed/config.yaml")),
    ("cases/first/expected.txt", embedded!("shared/listed/expected.txt")),
    ("cases/first/nodes.yaml", embedded!("shared/listed/nodes.yaml")),
    ("cases/first/recording.json", embedded!("shared/listed/recording.json")),
];

/// One file of a new plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    /// Where, in the new folder.
    pub path: PathBuf,
    /// What is in it.
    pub text: Cow<'static, str>,
}

impl NewFile {
    fn new(path: impl Into<PathBuf>, text: impl Into<Cow<'static, str>>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

impl Template {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Racks, Self::Listed];

    /// The name of the plugin.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Racks => "racks",
            Self::Listed => "listed",
        }
    }

    /// The file that the vendor writes, in the new folder.
    #[must_use]
    pub fn source(self, language: Language) -> String {
        match language.extension() {
            None | Some("rs") => "src/lib.rs".to_owned(),
            Some(extension) => format!("{}.{extension}", self.name()),
        }
    }

    const fn cases(self) -> Files {
        match self {
            Self::Racks => CASES_RACKS,
            Self::Listed => CASES_LISTED,
        }
    }
}

/// All files of a new plugin, in the order of their paths.
///
/// # Errors
/// The language has no template.
pub fn files(language: Language, template: Template) -> Result<Vec<NewFile>, NewError> {
    let (of_language, own) = match (language, template) {
        (Language::Rust, Template::Racks) => (RUST, RUST_RACKS),
        (Language::Rust, Template::Listed) => (RUST, RUST_LISTED),
        (Language::Python, Template::Racks) => (PYTHON, PYTHON_RACKS),
        (Language::Python, Template::Listed) => (PYTHON, PYTHON_LISTED),
        (Language::JavaScript, Template::Racks) => (JAVASCRIPT, JAVASCRIPT_RACKS),
        (Language::JavaScript, Template::Listed) => (JAVASCRIPT, JAVASCRIPT_LISTED),
        (Language::C, Template::Racks) => (C, C_RACKS),
        (Language::C, Template::Listed) => (C, C_LISTED),
        (Language::Other, _) => return Err(NewError::NoTemplate(language.name())),
    };
    let texts = of_language.iter().chain(own).chain(template.cases());
    let mut files: Vec<NewFile> = texts.map(|(path, text)| NewFile::new(*path, *text)).collect();
    files.extend(vendored::files(language, template));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Writes a new plugin into a folder that is new or empty, or an empty repository, and gives the paths of what was written, seen from there.
///
/// # Errors
/// The folder is not empty or none, a file cannot be written, or there is no template.
pub fn write(folder: &Path, language: Language, template: Template) -> Result<Vec<PathBuf>, NewError> {
    let files = files(language, template)?;
    is_empty(folder)?;
    for NewFile { path, text } in &files {
        let file = folder.join(path);
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| create(&file, text));
        written.map_err(|source| NewError::Write { file, source })?;
    }
    Ok(files.into_iter().map(|file| file.path).collect())
}

/// What a fresh clone has, and what a file manager leaves.
const NO_FILES: [&str; 2] = [".git", ".DS_Store"];

/// Whether there is nothing in the folder, or no such folder yet.
fn is_empty(folder: &Path) -> Result<(), NewError> {
    let look = |source| NewError::Look { folder: folder.to_owned(), source };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(look(error)),
    };
    for entry in entries {
        let found = entry.map_err(look)?.file_name().to_string_lossy().into_owned();
        if !NO_FILES.contains(&found.as_str()) {
            return Err(NewError::NotEmpty { folder: folder.to_owned(), found });
        }
    }
    Ok(())
}

/// Writes a file that is not there yet: nothing is overwritten, even if another program writes here at the same time.
fn create(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).open(file)?.write_all(text.as_bytes())
}

/// The three commands that come next. The folder is a word of a shell.
#[must_use]
pub fn steps(folder: &str, language: Language) -> [String; 3] {
    let tools = match language {
        Language::Rust => RUST_TARGET.install,
        Language::Python => "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
        Language::JavaScript => "npm install",
        Language::C => ZIG.install,
        Language::Other => "true",
    };
    [format!("cd {folder} && {tools}"), "topoloom plugin build".to_owned(), "topoloom plugin test".to_owned()]
}

/// The command that runs the native test, in the new folder.
#[must_use]
pub fn native_test(language: Language, template: Template) -> Option<String> {
    match language {
        Language::Rust => Some("cargo test".to_owned()),
        Language::Python => Some("python3 -m unittest".to_owned()),
        Language::JavaScript => Some("npm test".to_owned()),
        Language::C => {
            // A program in the folder itself would be a part of the source.
            let (test, folder) = (format!("{}_test", template.name()), crate::project::WORK);
            let program = format!("{folder}/{test}");
            Some(format!("mkdir -p {folder} && .venv/bin/python3 -m ziglang cc {test}.c -o {program} && {program}"))
        }
        Language::Other => None,
    }
}

#[cfg(test)]
mod tests;
