//! Looks at files so that what it finds belongs together, however they are swapped meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;

use super::FolderQuery;
use super::subpath::is_mount_point;
use crate::config::declaration;
use crate::delivery::Offer;
use crate::delivery::parcel::{Parcel, SIGNATURE, beside};
use crate::delivery::unpack::UNPACKED;

/// The link that the kubelet swaps.
const DATA: &str = "..data";

/// The usual name of a module in a folder of its own.
const USUAL: [&str; 2] = ["plugin.wasm", "plugin.wasm.zst"];

/// A folder that is swapped faster than it can be read is read again so often; then it is looked at later.
const TRIES: usize = 10;

/// What a look found.
pub(super) enum FolderFound {
    /// The same files as last time.
    Same,
    /// This.
    Offer(Offer),
    /// No such file: the sentence.
    Nothing(String),
}

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct FolderState {
    files: Option<Vec<Mark>>,
    /// There was a file once: that it is gone is no reason to take another plugin of that name.
    pub(super) had_file: bool,
    is_warned: bool,
}

/// One file, so that any change of it shows: its inode is another after a rename, its change time after a write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    path: PathBuf,
    about: Option<FileStamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
    fn of(path: &Path) -> Self {
        let about = std::fs::metadata(path).ok().map(|about| FileStamp {
            device: about.dev(),
            inode: about.ino(),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        });
        Self { path: path.to_owned(), about }
    }
}

/// A module and what lies beside it, as paths that no swap changes.
struct Files {
    module: PathBuf,
    declaration: PathBuf,
    signature: PathBuf,
}

impl Files {
    fn of(folder: &Path, module: &str) -> Self {
        let (declaration, signature) = beside(module);
        Self { module: folder.join(module), declaration: folder.join(declaration), signature: folder.join(signature) }
    }

    fn marks(&self) -> Vec<Mark> {
        [&self.module, &self.declaration, &self.signature].into_iter().map(|path| Mark::of(path)).collect()
    }
}

impl FolderState {
    /// Looks.
    pub(super) fn look(&mut self, wanted: &FolderQuery) -> FolderFound {
        for _ in 0..TRIES {
            let ways = ways(wanted);
            let Some(files) = locate(wanted) else {
                // A swap in the middle of the search hides files that are there.
                if ways != self::ways(wanted) {
                    continue;
                }
                let same = self.files.replace(Vec::new()).is_some_and(|files| files.is_empty());
                return if same {
                    FolderFound::Same
                } else {
                    FolderFound::Nothing(format!("{}: there is no such file", shown(wanted)))
                };
            };
            let marks = files.marks();
            if self.files.as_ref() == Some(&marks) {
                return FolderFound::Same;
            }
            let offer = open(&files, wanted);
            // What changed while it was read is read again, also by way of another folder.
            let still = locate(wanted).is_some_and(|now| now.marks() == marks);
            if still {
                self.warn(wanted);
                self.had_file = true;
                self.files = Some(marks);
                return FolderFound::Offer(offer);
            }
        }
        FolderFound::Same
    }

    /// A file that is mounted alone never changes.
    fn warn(&mut self, wanted: &FolderQuery) {
        let FolderQuery::File(path) = wanted else { return };
        if !std::mem::replace(&mut self.is_warned, true) && is_mount_point(path) {
            tracing::warn!(
                file = %path.display(),
                "this file is mounted by itself (subPath), so a new version of it never arrives; mount its folder"
            );
        }
    }
}

fn shown(wanted: &FolderQuery) -> String {
    match wanted {
        FolderQuery::File(path) => format!("plugin.file {}", path.display()),
        FolderQuery::Named(folder, name) => format!("plugin {name:?} in {}", folder.display()),
    }
}

/// Where the kubelet's links lead now. Each swap leads somewhere else.
fn ways(wanted: &FolderQuery) -> Vec<Option<PathBuf>> {
    wanted.folders().iter().map(|folder| std::fs::canonicalize(folder.join(DATA)).ok()).collect()
}

/// Where the files are now, by a path that stays the same when the kubelet swaps its link.
fn locate(wanted: &FolderQuery) -> Option<Files> {
    match wanted {
        FolderQuery::File(path) => {
            let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
            // Through the link only if the file really lies behind it.
            let behind = std::fs::canonicalize(folder.join(DATA)).ok().filter(|data| data.join(name).exists());
            let folder = behind.unwrap_or_else(|| folder.to_owned());
            folder.join(name).exists().then(|| Files::of(&folder, name))
        }
        FolderQuery::Named(folder, name) => {
            let own = [format!("{name}.wasm"), format!("{name}.wasm.zst")];
            let folder = settled(folder);
            let beside = own.iter().find(|file| folder.join(file).exists()).map(|file| Files::of(&folder, file));
            beside.or_else(|| usual(&settled(&folder.join(name)))).or_else(|| {
                // A ConfigMap that is mounted as the folder itself has the plugin's name in its declaration.
                usual(&folder).filter(|files| declares(&files.declaration, name))
            })
        }
    }
}

fn usual(folder: &Path) -> Option<Files> {
    USUAL.iter().find(|file| folder.join(file).exists()).map(|file| Files::of(folder, file))
}

/// The folder that the kubelet's link leads to, where there is one.
fn settled(folder: &Path) -> PathBuf {
    std::fs::canonicalize(folder.join(DATA)).unwrap_or_else(|_| folder.to_owned())
}

fn declares(file: &Path, name: &str) -> bool {
    let text = bounded(file, declaration::MAX_BYTES).ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| declaration::parse(&text).ok()).is_some_and(|declared| declared.name == name)
}

fn open(files: &Files, wanted: &FolderQuery) -> Offer {
    let place = shown(wanted);
    let read = || -> Result<Parcel, String> {
        let named = |path: &Path, error: String| format!("plugin.file {}: {error}", path.display());
        let module = bounded(&files.module, UNPACKED).map_err(|error| named(&files.module, error))?;
        let module = module.ok_or_else(|| named(&files.module, "there is no such file".to_owned()))?;
        let declaration =
            bounded(&files.declaration, declaration::MAX_BYTES).map_err(|error| named(&files.declaration, error))?;
        let signature = bounded(&files.signature, SIGNATURE).map_err(|error| named(&files.signature, error))?;
        Ok(Parcel { module, declaration, signature })
    };
    match read() {
        Ok(parcel) => parcel.open(&place, Origin::File),
        Err(message) => Offer::Nothing(Reason::PluginNotFound, message),
    }
}

/// A whole file within a bound; `None` where there is none.
pub(super) fn bounded(path: &Path, most: usize) -> Result<Option<Vec<u8>>, String> {
    let file = match regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > most {
        return Err(format!("more than {most} bytes, at most that many are read"));
    }
    Ok(Some(bytes))
}

/// Opens a regular file. Opening a pipe would wait for its other end, and a device has none.
fn regular(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}
