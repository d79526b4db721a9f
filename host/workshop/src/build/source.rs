//! The digest of the source of a project: which files a component was made of.
//!
//! Every file below the folder counts, with its name and its bytes, but for what a build writes or a person's tools keep there.
//! What the project file says about limits does not count either: a build may write it, and two builds of one source are to be
//! equal. Files outside of the folder (a crate beside it, a toolchain) are named by their own versions, if at all.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use topoloom_core::plugin::Digest;

use crate::project::{FILE, Limits, Project, with_limits};

/// Folders of tools, wherever they are.
const FOLDERS: [&str; 5] = ["target", "node_modules", "__pycache__", "dist", "zig-out"];

/// Hidden entries are settings of editors, histories and environments, except this: it has flags of the compiler.
const SETTINGS: &str = ".cargo";

/// Endings of what is made.
const MADE: [&str; 3] = ["wasm", "pyc", "o"];

/// The most files: a project has tens, and a folder of another kind would be read for minutes.
const MOST_FILES: usize = 10_000;

/// The most bytes of all files.
const MOST_BYTES: u64 = 256 << 20;

/// Why a source has no digest.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or a folder that cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Too much of it.
    #[error(
        "{} has more than {MOST_FILES} files, or more than {MOST_BYTES} bytes in them: is it the folder of a plugin?",
        .folder.display()
    )]
    TooLarge {
        /// The folder.
        folder: PathBuf,
    },
}

/// The digest of all files that the component of a project can be made of.
///
/// # Errors
/// A file that cannot be read, or a folder that is no project.
pub(super) fn digest(project: &Project) -> Result<Digest, SourceError> {
    let mut files = BTreeMap::new();
    // Neither what is made nor what it is tested with is a part of what it is made of.
    let apart = [project.output.clone(), project.cases.clone()];
    let mut read = Reading { folder: &project.root, apart: &apart, bytes: 0 };
    read.folder(&project.root, &mut files)?;
    let lines: String = files.iter().map(|(path, digest)| format!("{digest} {path}\n")).collect();
    Ok(Digest::of(lines.as_bytes()))
}

struct Reading<'a> {
    folder: &'a Path,
    apart: &'a [PathBuf],
    bytes: u64,
}

impl Reading<'_> {
    fn folder(&mut self, folder: &Path, files: &mut BTreeMap<String, Digest>) -> Result<(), SourceError> {
        let failed = |source| SourceError::Read { path: folder.to_owned(), source };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().map_err(failed)?;
            let is_hidden = name.starts_with('.') && name != SETTINGS;
            if is_hidden || self.apart.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                if !FOLDERS.contains(&name.as_str()) && !name.ends_with(".egg-info") {
                    self.folder(&path, files)?;
                }
            } else if !MADE.iter().any(|ending| path.extension().is_some_and(|found| found == *ending)) {
                let bytes = self.file(&path, kind.is_symlink())?;
                // Names as in a list of files of any system.
                let place = path.strip_prefix(self.folder).unwrap_or(&path).to_string_lossy().into_owned();
                files.insert(place, Digest::of(&bytes));
                if files.len() > MOST_FILES {
                    return Err(self.too_large());
                }
            }
        }
        Ok(())
    }

    /// What counts of a file: of a link where it leads, not what is there.
    fn file(&mut self, path: &Path, is_link: bool) -> Result<Vec<u8>, SourceError> {
        let failed = |source| SourceError::Read { path: path.to_owned(), source };
        if is_link {
            return Ok(std::fs::read_link(path).map_err(failed)?.to_string_lossy().into_owned().into_bytes());
        }
        self.bytes += path.metadata().map_err(failed)?.len();
        if self.bytes > MOST_BYTES {
            return Err(self.too_large());
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        if path.parent() != Some(self.folder) || path.file_name().is_none_or(|name| name != FILE) {
            return Ok(bytes);
        }
        Ok(with_limits(&String::from_utf8_lossy(&bytes), &Limits::default()).into_bytes())
    }

    fn too_large(&self) -> SourceError {
        SourceError::TooLarge { folder: self.folder.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    struct Desk(TempDir);

    impl Desk {
        fn new() -> Self {
            let desk = Self(tempfile::tempdir().unwrap());
            desk.put("topoloom-plugin.yaml", "language: c\n")
                .put("plugin.c", "int x;")
                .put("cases/one/nodes.yaml", "[]");
            desk
        }

        fn put(&self, path: &str, text: &str) -> &Self {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            self
        }

        fn digest(&self) -> Digest {
            digest(&Project::read(self.0.path()).unwrap()).unwrap()
        }
    }

    #[test]
    fn the_same_files_have_the_same_digest_wherever_they_are() {
        assert_eq!(Desk::new().digest(), Desk::new().digest());
    }

    #[test]
    fn every_file_of_the_source_counts_with_its_name() {
        let plain = Desk::new().digest();
        for (path, text) in [
            ("plugin.c", "int y;"),
            ("plugin.h", ""),
            ("deep/er/x.c", ""),
            (".cargo/config.toml", "[build]"),
            ("topoloom-plugin.yaml", "language: c\nuses: [nodes]\n"),
        ] {
            assert_ne!(Desk::new().put(path, text).digest(), plain, "{path}");
        }
        let moved = Desk::new();
        std::fs::rename(moved.0.path().join("plugin.c"), moved.0.path().join("other.c")).unwrap();
        assert_ne!(moved.digest(), plain);
    }

    #[test]
    fn what_a_build_writes_and_what_tools_keep_does_not_count() {
        let plain = Desk::new().digest();
        for (path, text) in [
            ("plugin.wasm", "made"),
            ("target/x.rs", "made"),
            ("node_modules/x/index.js", "fetched"),
            (".topoloom/wit/types.wit", "written"),
            (".git/HEAD", "history"),
            (".plugin.c.swp", "an editor"),
            ("__pycache__/x.pyc", "made"),
            ("cases/one/expected.txt", "a test"),
            ("topoloom-plugin.yaml", "language: c\nlimits: {profile: large, compileCpu: 30s}\n"),
        ] {
            assert_eq!(Desk::new().put(path, text).digest(), plain, "{path}");
        }
    }

    #[test]
    fn a_link_counts_by_where_it_leads() {
        let desk = Desk::new();
        std::os::unix::fs::symlink("/nowhere", desk.0.path().join("link")).unwrap();
        let first = desk.digest();
        std::fs::remove_file(desk.0.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/elsewhere", desk.0.path().join("link")).unwrap();
        assert_ne!(desk.digest(), first);
    }
}
