//! A private folder of bounded size, whose files are complete or absent.
//!
//! Everything goes through one handle of the folder, taken when it was checked: an attacker who puts another folder in
//! its place later gets nothing and gives nothing.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};

use super::seal::SUFFIX;
use super::trouble::{OpenError, Trouble};

/// Permissions that would let others write.
const OTHERS_WRITE: u32 = 0o022;

/// How names of files end that are being written.
const UNFINISHED: &str = ".tmp";

/// A file that has been unfinished for so long was left behind: writing the largest takes seconds.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    bound: u64,
}

/// A file that was read.
pub(super) struct CachedFile {
    pub(super) bytes: Vec<u8>,
    file: File,
}

impl CachedFile {
    /// Remembers that it was used. On a disk that does not let us it only goes earlier.
    pub(super) fn touch(&self) {
        // See above: then the image is evicted earlier.
        let _ = self.file.set_modified(SystemTime::now());
    }
}

impl Folder {
    /// Opens the folder, or creates it for this user alone.
    pub(super) fn open(path: PathBuf, bound: u64) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Open { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let handle = File::from(handle);
        let about = handle.metadata().map_err(failed)?;
        let us = rustix::process::geteuid().as_raw();
        if about.uid() != us {
            return Err(OpenError::Owner { path, owner: about.uid(), us });
        }
        if about.mode() & OTHERS_WRITE != 0 {
            return Err(OpenError::Writable { path, mode: about.mode() & 0o777 });
        }
        Ok(Self { handle: handle.into(), path, bound })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file, if it is there.
    pub(super) fn read(&self, name: &str, most: u64) -> io::Result<Option<CachedFile>> {
        // Not blocking: it might be a pipe by now.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = match self.at(name, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let about = file.metadata()?;
        if !about.is_file() || about.len() > most {
            return Err(io::Error::other(format!("it is not a regular file of at most {most} bytes")));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
        (&file).take(most + 1).read_to_end(&mut bytes)?;
        Ok(Some(CachedFile { bytes, file }))
    }

    /// Writes a file under another name, and gives it its own when it is whole and on the disk. Two writers of the same
    /// file do not disturb each other: the later file stays. Returns how many files were evicted.
    pub(super) fn write(&self, name: &str, parts: &[&[u8]]) -> Result<usize, Trouble> {
        let size = parts.iter().map(|part| part.len() as u64).sum();
        if size > self.bound {
            return Err(Trouble::TooLarge { size, limit: self.bound });
        }
        let evicted = self.make_room(size).map_err(Trouble::Write)?;
        let unfinished = unfinished_name().map_err(Trouble::Write)?;
        let written = self.write_through(&unfinished, parts).and_then(|()| {
            rustix::fs::renameat(&self.handle, &*unfinished, &self.handle, name)?;
            // The name is part of the folder, which is a file of its own.
            rustix::fs::fsync(&self.handle)?;
            Ok(())
        });
        if written.is_err() {
            self.remove(&unfinished);
        }
        written.map(|()| evicted).map_err(Trouble::Write)
    }

    fn write_through(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = self.at(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        // The clock that files get by themselves is too coarse to order those of one moment.
        file.set_modified(SystemTime::now())?;
        file.sync_all()
    }

    /// Removes a file. One that cannot be removed is refused again the next time.
    pub(super) fn remove(&self, name: &str) {
        // See above.
        let _ = rustix::fs::unlinkat(&self.handle, name, AtFlags::empty());
    }

    /// Removes what was not used for the longest time, until that much more fits, and what writers left behind. Returns
    /// how many images were evicted.
    fn make_room(&self, size: u64) -> io::Result<usize> {
        let mut images = Vec::new();
        for name in self.names()? {
            // Another process may have removed it.
            let Ok(about) = self.at(&name, OFlags::PATH).and_then(|file| file.metadata()) else { continue };
            let used = about.modified()?;
            if name.ends_with(SUFFIX) {
                images.push((used, name, about.len()));
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                self.remove(&name);
            }
        }
        images.sort();
        let mut total: u64 = images.iter().map(|(_, _, size)| size).sum();
        let mut removed = 0;
        for (_, name, its) in images {
            if total.saturating_add(size) <= self.bound {
                break;
            }
            self.remove(&name);
            total = total.saturating_sub(its);
            removed += 1;
        }
        Ok(removed)
    }

    /// The files that are ours. Other files in the folder are left alone.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name.ends_with(SUFFIX) || name.ends_with(UNFINISHED) {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(file))
    }
}

/// A unique name: process numbers are the same in every container.
fn unfinished_name() -> io::Result<String> {
    let mut random = [0; 8];
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("the system gives no random bytes"))?;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{random}{UNFINISHED}"))
}
