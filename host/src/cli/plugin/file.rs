//! A plugin as a person has it: a file, or an artifact of a registry or of a folder, each with what lies beside it.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use topoloom_api::discovery_source::PluginOrigin as Origin;

use super::place::{PluginPlace, RegistryArgs};
use crate::config::declaration::Declaration;
use crate::delivery::parcel::{Parcel, beside};
use crate::delivery::unpack::{PACKED, UNPACKED, is_packed, unpack};
use crate::delivery::{Module, Offer};
use crate::plugin::Digest;
use crate::plugin::trust::MAX_SIGNATURE_FILE;

/// The largest file that is read; the host's own bounds are lower and give better sentences.
const MOST: u64 = 64 << 20;

/// A plugin file.
pub(in crate::cli) struct PluginFile {
    /// The component.
    pub(in crate::cli) bytes: Arc<[u8]>,
    /// Bytes of the file, if it is compressed.
    pub(super) packed: Option<usize>,
    /// Where it is, for messages.
    pub(super) place: String,
    /// The digest of its manifest, where it has one.
    pub(super) manifest: Option<Digest>,
    /// What was declared beside it, where that was read.
    pub(super) declared: Option<Declaration>,
    origin: Origin,
    signature: SignaturePlace,
}

/// Where its signature is.
enum SignaturePlace {
    /// In a file, if there is one.
    Beside(PathBuf),
    /// It came with it, or there is none.
    Came(Option<Arc<[u8]>>),
}

/// A signature as it was found.
pub(super) struct FoundSignature {
    /// Where it is, for messages.
    pub(super) place: String,
    /// Its text, at most one byte more than one may have.
    pub(super) bytes: Vec<u8>,
}

impl PluginFile {
    /// As it would be delivered.
    pub(super) fn module(&self) -> Module {
        let signature = match &self.signature {
            SignaturePlace::Came(signature) => signature.clone(),
            SignaturePlace::Beside(_) => None,
        };
        let (packed, declared) = (self.packed, self.declared.clone());
        Module { packed, declared, signature, ..Module::plain(Arc::clone(&self.bytes), self.origin) }
    }

    /// Reads a file and unpacks it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let named = || path.display().to_string();
        let bytes = read_bounded(path, MOST).with_context(named)?;
        let packed = is_packed(&bytes).then_some(bytes.len());
        Ok(Self {
            bytes: unpack(bytes, PACKED, UNPACKED).with_context(named)?.into(),
            packed,
            place: named(),
            manifest: None,
            declared: None,
            origin: Origin::File,
            signature: SignaturePlace::Beside(signature_path(path)),
        })
    }

    /// Reads or pulls what a person names.
    pub(in crate::cli) async fn find(place: &PluginPlace, registry: &RegistryArgs) -> anyhow::Result<Self> {
        let (manifest, parcel) = match place {
            PluginPlace::File(path) => return Self::read(path),
            PluginPlace::Registry(reference) => registry.pull(reference).await?,
            PluginPlace::Layout(layout) => layout.read().map_err(anyhow::Error::msg)?,
        };
        Self::open(parcel, manifest, place.to_string())
    }

    /// What came in one piece, judged as a host judges it: a declaration of other bytes is a mistake here, too.
    fn open(parcel: Parcel, manifest: Digest, place: String) -> anyhow::Result<Self> {
        let module = match parcel.open(&place, Origin::Registry) {
            Offer::Module(module) => module,
            offer => bail!("{}", offer.trouble().map(|(_, message)| message.to_owned()).unwrap_or_default()),
        };
        Ok(Self {
            bytes: Arc::clone(&module.bytes),
            packed: module.packed,
            place,
            manifest: Some(manifest),
            declared: module.declared.clone(),
            origin: Origin::Registry,
            signature: SignaturePlace::Came(module.signature.clone()),
        })
    }

    /// Where a signature of it would be, if there is none.
    pub(super) fn unsigned(&self) -> String {
        match &self.signature {
            SignaturePlace::Beside(path) => format!("there is no {}", path.display()),
            SignaturePlace::Came(_) => format!("{} has none with it", self.place),
        }
    }

    /// The signature, if it has one.
    pub(super) fn signature(&self) -> anyhow::Result<Option<FoundSignature>> {
        match &self.signature {
            SignaturePlace::Came(bytes) => Ok(bytes.as_ref().map(|bytes| FoundSignature {
                place: format!("the signature of {}", self.place),
                bytes: bytes.to_vec(),
            })),
            SignaturePlace::Beside(path) => {
                let place = path.display().to_string();
                let found = std::fs::metadata(path);
                if matches!(found, Err(error) if error.kind() == std::io::ErrorKind::NotFound) {
                    return Ok(None);
                }
                // One byte more, so that the check of its size refuses what is too large.
                let bytes = read_bounded(path, MAX_SIGNATURE_FILE as u64 + 1).with_context(|| place.clone())?;
                Ok(Some(FoundSignature { place, bytes }))
            }
        }
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
