//! A plugin file as it lies on a disk.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

/// The largest file that is read; the host's own bounds are lower and give better sentences.
const MOST: u64 = 64 << 20;

/// How a file that was packed with zstd begins (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A plugin file.
pub(super) struct PluginFile {
    /// The component.
    pub(super) bytes: Arc<[u8]>,
    /// The size of the file, where it is packed.
    pub(super) packed: Option<u64>,
}

impl PluginFile {
    /// Reads a file and unpacks it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let bytes = read_bounded(path, MOST).with_context(named)?;
        unpack(bytes).with_context(named)
    }
}

/// The signature that lies beside a plugin file: `FILE.sig`.
pub(super) fn signature_path(plugin: &Path) -> PathBuf {
    let mut path = plugin.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// A whole regular file, if it is no longer than that. Opening a pipe would wait for its other end.
pub(super) fn read_bounded(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    anyhow::ensure!(file.metadata()?.is_file(), "it is no regular file");
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= most, "it is larger than {most} bytes, which are read at most");
    Ok(bytes)
}

/// The component in a file, which may be packed.
fn unpack(bytes: Vec<u8>) -> anyhow::Result<PluginFile> {
    anyhow::ensure!(!bytes.starts_with(&ZSTD), "it is packed with zstd; unpack it first: unzstd FILE");
    Ok(PluginFile { bytes: bytes.into(), packed: None })
}
