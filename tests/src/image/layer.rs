//! A layer: a tar that does not depend on the time, the place or the user of the build, and its compressed form.

use std::io::{self, Write};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

/// What is at a path.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Folder,
    File(&'a [u8]),
}

/// One entry. Everything belongs to root, so that the process, which is not root, can change nothing.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    /// Relative to the root.
    pub path: &'a str,
    pub mode: u32,
    pub content: Content<'a>,
}

impl<'a> Entry<'a> {
    pub(super) fn folder(path: &'a str) -> Self {
        Self { path, mode: 0o755, content: Content::Folder }
    }

    pub(super) fn file(path: &'a str, bytes: &'a [u8]) -> Self {
        Self { path, mode: 0o644, content: Content::File(bytes) }
    }

    pub(super) fn with_mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }
}

/// A finished layer.
pub(super) struct Layer {
    /// Compressed.
    pub blob: Vec<u8>,
    /// The digest of what it unpacks to (`diff_id`).
    pub unpacked: String,
}

/// Makes a layer. Its entries are sorted by path, so a folder is before its content.
pub(super) fn layer(mut entries: Vec<Entry<'_>>) -> Result<Layer> {
    entries.sort_by_key(|entry| entry.path);
    // flate2 writes no time, no name and no system into the header, and the compressor is the one in Cargo.lock.
    let both = Both { hash: Sha256::new(), gzip: GzEncoder::new(Vec::new(), Compression::default()) };
    let mut archive = tar::Builder::new(both);
    for Entry { path, mode, content } in &entries {
        let mut header = Header::new_ustar();
        let (kind, bytes): (_, &[u8]) = match content {
            Content::Folder => (EntryType::Directory, &[]),
            Content::File(bytes) => (EntryType::Regular, bytes),
        };
        header.set_entry_type(kind);
        header.set_mode(*mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, path, bytes).with_context(|| format!("{path} cannot be packed"))?;
    }
    let Both { hash, gzip } = archive.into_inner()?;
    Ok(Layer { blob: gzip.finish()?, unpacked: written(&hash.finalize()) })
}

/// Writes to the hash and to the compressor.
struct Both {
    hash: Sha256,
    gzip: GzEncoder<Vec<u8>>,
}

impl Write for Both {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gzip.write_all(bytes)?;
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.gzip.flush()
    }
}

/// The digest of some bytes as OCI writes it.
pub(super) fn digest(bytes: &[u8]) -> String {
    written(&Sha256::digest(bytes))
}

fn written(hash: &[u8]) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_layer_does_not_depend_on_the_order_of_its_entries() {
        let entries = || vec![Entry::folder("a"), Entry::file("a/b", b"1"), Entry::file("c", b"2").with_mode(0o755)];
        let reversed = entries().into_iter().rev().collect();
        assert_eq!(layer(entries()).unwrap().blob, layer(reversed).unwrap().blob);
    }

    #[test]
    fn a_layer_has_no_time_no_owner_and_no_system() {
        let Layer { blob, unpacked } = layer(vec![Entry::file("c", b"2")]).unwrap();
        // RFC 1952, 2.3: MTIME is 0, no name or comment, OS is unknown.
        assert_eq!((&blob[..8], blob[9]), (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0][..], 255));
        let mut tar = Vec::new();
        flate2::read::GzDecoder::new(&blob[..]).read_to_end(&mut tar).unwrap();
        assert_eq!(digest(&tar), unpacked);
        let mut archive = tar::Archive::new(&tar[..]);
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 0));
        assert_eq!((header.username().unwrap(), header.groupname().unwrap()), (Some(""), Some("")));
    }
}
