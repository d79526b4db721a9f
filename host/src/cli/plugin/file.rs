//! A plugin file as it lies on a disk.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use topoloom_api::discovery_source::PluginOrigin as Origin;

use crate::delivery::Module;
use crate::delivery::parcel::beside;
use crate::delivery::unpack::{PACKED, UNPACKED, is_packed, unpack};

/// The largest file that is read; the host's own bounds are lower and give better sentences.
const MOST: u64 = 64 << 20;

/// A plugin file.
pub(super) struct PluginFile {
    /// The component.
    pub(super) bytes: Arc<[u8]>,
    /// Bytes of the file, if it is compressed.
    pub(super) packed: Option<usize>,
}

impl PluginFile {
    /// As it would be delivered.
    pub(super) fn module(&self) -> Module {
        Module { packed: self.packed, ..Module::plain(Arc::clone(&self.bytes), Origin::File) }
    }

    /// Reads a file and unpacks it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let bytes = read_bounded(path, MOST).with_context(named)?;
        unpacked(bytes).with_context(named)
    }
}

/// The signature that lies beside a plugin file: `acme.sig` beside `acme.wasm`, where the host looks for it.
pub(super) fn signature_path(plugin: &Path) -> PathBuf {
    let name = plugin.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    plugin.with_file_name(beside(&name).1)
}

/// A whole regular file, if it is no longer than that. Opening a pipe would wait for its other end.
pub(in crate::cli) fn read_bounded(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    anyhow::ensure!(file.metadata()?.is_file(), "it is not a regular file");
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    anyhow::ensure!(bytes.len() as u64 <= most, "it is larger than {most} bytes, the most that is read");
    Ok(bytes)
}

/// The component in a file, which may be packed.
fn unpacked(bytes: Vec<u8>) -> anyhow::Result<PluginFile> {
    let packed = is_packed(&bytes).then_some(bytes.len());
    Ok(PluginFile { bytes: unpack(&bytes, PACKED, UNPACKED)?.into(), packed })
}
