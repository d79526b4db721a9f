//! The digest of the source of a project: which files a component was made of.
//!
//! Every file below the folder counts, with its name and its bytes, also where a link leads to it. These do not:
//!
//! * what a build writes, and what tools keep there ([`is_of_tools`]);
//! * signatures and keys, which come after a build;
//! * in the folder itself, the files that the guide for vendors gives to `plugin run` and `plugin inspect`, by their names there;
//! * what the project file says about limits: a build may write it, and two builds of one source are to be equal.
//!
//! Files outside of the folder (a crate beside it, a toolchain) are named by their own versions, if at all.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use topoloom_core::plugin::Digest;

use crate::project::{FILE, Limits, Project, with_limits};

/// Folders that tools fill, wherever they are: no person names a folder so.
const FOLDERS: [&str; 2] = ["node_modules", "__pycache__"];

/// The same in the folder of the project. Deeper, such a folder may have sources in it.
const AT_TOP: [&str; 3] = ["target", "dist", "zig-out"];

/// Files by which a folder says that a tool has made it: a virtual environment of Python, a cache.
const MARKS: [&str; 2] = ["pyvenv.cfg", "CACHEDIR.TAG"];

/// Hidden entries are settings of editors, histories and environments, except this: it has flags of the compiler.
const SETTINGS: &str = ".cargo";

/// Endings of what is made, of signatures, and of keys.
const MADE: [&str; 5] = ["wasm", "pyc", "o", "sig", "pem"];

/// What `plugin run` and `plugin inspect` are given in the guide for vendors. A person edits these between two rounds of one
/// component.
const GIVEN: [&str; 4] = ["nodes.json", "nodes.yaml", "config.yaml", "entry.yaml"];

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
        "{} has more than {MOST_FILES} files, or more than {MOST_BYTES} bytes in them, with those that its links lead to: is it the \
         folder of a plugin?",
        .folder.display()
    )]
    TooLarge {
        /// The folder.
        folder: PathBuf,
    },
}

/// Whether a folder is none of sources, since tools fill it. `is_top` is one that lies in the folder of the project itself.
#[must_use]
pub fn is_of_tools(folder: &Path, is_top: bool) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    FOLDERS.contains(&name.as_ref())
        || (is_top && AT_TOP.contains(&name.as_ref()))
        || name.ends_with(".egg-info")
        || MARKS.iter().any(|mark| folder.join(mark).is_file())
}

/// Every file that the component of a project can be made of, by its path in the folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<String, Digest>);

impl Files {
    /// As they are now. `output` is where the component is put.
    ///
    /// # Errors
    /// A file that cannot be read, or a folder that is no project.
    pub(super) fn of(project: &Project, output: &Path) -> Result<Self, SourceError> {
        // Neither what is made nor what it is tested with is a part of what it is made of.
        let apart = [project.output.as_path(), output, project.cases.as_path()];
        let mut reading = Reading { root: &project.root, apart, open: Vec::new(), bytes: 0, found: BTreeMap::new() };
        reading.folder(&project.root)?;
        Ok(Self(reading.found))
    }

    pub(super) fn digest(&self) -> Digest {
        let lines: String = self.0.iter().map(|(path, digest)| format!("{digest} {path}\n")).collect();
        Digest::of(lines.as_bytes())
    }

    /// Of what a component was built that took these before, and these after the tool had ended. New files are the tool's
    /// (`Cargo.lock`, generated sources), and the next build begins with them. Where a file is another one, a person may have saved it
    /// after the tool had read it: then the component is of the files before, and the next build builds.
    pub(super) fn built(self, after: Self) -> Self {
        let is_kept = self.0.iter().all(|(path, digest)| after.0.get(path) == Some(digest));
        if is_kept { after } else { self }
    }
}

struct Reading<'a> {
    root: &'a Path,
    apart: [&'a Path; 3],
    /// The folders that are being read, without links: one that leads into them ends there.
    open: Vec<PathBuf>,
    bytes: u64,
    found: BTreeMap<String, Digest>,
}

impl Reading<'_> {
    fn folder(&mut self, folder: &Path) -> Result<(), SourceError> {
        let failed = |source| SourceError::Read { path: folder.to_owned(), source };
        let real = folder.canonicalize().map_err(failed)?;
        if self.open.contains(&real) {
            return Ok(());
        }
        self.open.push(real);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            self.entry(&entry.map_err(failed)?.path(), folder == self.root)?;
        }
        self.open.pop();
        Ok(())
    }

    fn entry(&mut self, path: &Path, is_top: bool) -> Result<(), SourceError> {
        let failed = |source| SourceError::Read { path: path.to_owned(), source };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_hidden = name.starts_with('.') && name != SETTINGS;
        if is_hidden || self.apart.contains(&path) {
            return Ok(());
        }
        let bytes = match path.metadata() {
            Ok(found) if found.is_dir() && is_of_tools(path, is_top) => return Ok(()),
            Ok(found) if found.is_dir() => return self.folder(path),
            _ if MADE.iter().any(|ending| path.extension().is_some_and(|found| found == *ending)) => return Ok(()),
            _ if is_top && GIVEN.contains(&name.as_ref()) => return Ok(()),
            Ok(found) if found.is_file() => self.file(path, is_top && name == FILE)?,
            // A pipe or a socket has nothing that a tool could read twice.
            Ok(_) => return Ok(()),
            // A link that leads nowhere counts by where that is.
            Err(error) => match path.read_link() {
                Ok(target) => target.to_string_lossy().into_owned().into_bytes(),
                Err(_) => return Err(failed(error)),
            },
        };
        // Names as in a list of files of any system.
        let place = path.strip_prefix(self.root).unwrap_or(path).to_string_lossy().into_owned();
        self.found.insert(place, Digest::of(&bytes));
        if self.found.len() > MOST_FILES { Err(self.too_large()) } else { Ok(()) }
    }

    /// What counts of a file.
    fn file(&mut self, path: &Path, is_project_file: bool) -> Result<Vec<u8>, SourceError> {
        let left = MOST_BYTES.saturating_sub(self.bytes);
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(left + 1).read_to_end(&mut bytes))
            .map_err(|source| SourceError::Read { path: path.to_owned(), source })?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MOST_BYTES {
            return Err(self.too_large());
        }
        if !is_project_file {
            return Ok(bytes);
        }
        Ok(with_limits(&String::from_utf8_lossy(&bytes), &Limits::default()).into_bytes())
    }

    fn too_large(&self) -> SourceError {
        SourceError::TooLarge { folder: self.root.to_owned() }
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

        fn files(&self) -> Files {
            let project = Project::read(self.0.path()).unwrap();
            Files::of(&project, &project.output).unwrap()
        }

        fn link(&self, to: &Path, path: &str) {
            std::os::unix::fs::symlink(to, self.0.path().join(path)).unwrap();
        }

        fn digest(&self) -> Digest {
            self.files().digest()
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
            // Names of tools, deeper than tools put them, and names of the guide in another folder.
            ("src/target/x.c", ""),
            ("src/dist/x.c", ""),
            ("zig/zig-out/x.c", ""),
            ("data/config.yaml", ""),
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
            ("package/node_modules/x/index.js", "fetched"),
            ("venv/pyvenv.cfg", "home = /usr/bin"),
            ("crate/target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55"),
            ("plugin.sig", "a signature"),
            ("signing.pem", "a key"),
            ("nodes.json", "given to run"),
            ("nodes.yaml", "given to run"),
            ("config.yaml", "given to run"),
            ("entry.yaml", "given to inspect"),
            ("cases/one/expected.txt", "a test"),
            ("topoloom-plugin.yaml", "language: c\nlimits: {profile: large, compileCpu: 30s}\n"),
        ] {
            assert_eq!(Desk::new().put(path, text).digest(), plain, "{path}");
        }
    }

    #[test]
    fn a_link_counts_by_what_it_leads_to() {
        let outside = tempfile::tempdir().unwrap();
        let file = outside.path().join("shared.c");
        let look = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let desk = Desk::new();
            desk.link(&file, "link.c");
            desk.link(outside.path(), "folder");
            desk.link(desk.0.path(), "itself");
            desk.digest()
        };
        // As `itself`, it leads into a folder that is being read.
        std::os::unix::fs::symlink(outside.path(), outside.path().join("again")).unwrap();
        assert_ne!(look("int x;"), look("int y;"));
        assert_eq!(look("int x;"), look("int x;"));
        let nowhere = |target: &str| {
            let desk = Desk::new();
            desk.link(Path::new(target), "link");
            desk.digest()
        };
        assert_ne!(nowhere("/nowhere"), nowhere("/elsewhere"));
    }

    #[test]
    fn what_a_tool_adds_is_a_part_of_the_source_and_what_a_person_saves_meanwhile_is_not() {
        let desk = Desk::new();
        let before = || Desk::new().files();
        desk.put("generated/x.c", "made");
        assert_eq!(before().built(desk.files()), desk.files());
        // Saved while the tool worked.
        desk.put("plugin.c", "int y;");
        assert_eq!(before().built(desk.files()), before());
        std::fs::remove_file(desk.0.path().join("plugin.c")).unwrap();
        assert_eq!(before().built(desk.files()), before());
    }
}
