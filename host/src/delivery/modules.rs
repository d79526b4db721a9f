//! What serves and what served before, kept for the way back, also on another node (decision P5).
//!
//! A module of at most 1 MiB packed is a ConfigMap `topoloom-module-<12 hex>` of our own namespace, immutable and named
//! by its content; a larger one, and every one where the API server refuses, lies only in the local folder, where one
//! is configured. Whatever is read is hashed again: the store is trusted with bytes, never with identities.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use topoloom_api::discovery_source::{DiscoverySourceStatus, PluginOrigin as Origin};
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL, MODULE_DIGEST_ANNOTATION};

use super::Module;
use super::unpack::{PACKED, UNPACKED, pack, unpack};
use crate::cluster::{Reason, Refusal};
use crate::plugin::{Digest, builtin};

/// What fits into a ConfigMap with its name and labels; the API server takes 1 MiB in all.
const FITS: usize = (1 << 20) - (8 << 10);
/// The key in its binaryData.
const KEY: &str = "plugin.wasm.zst";
/// The key of its signature, where it has one.
const SIGNATURE_KEY: &str = "plugin.sig";

/// The store.
pub struct Modules {
    api: Option<Api<ConfigMap>>,
    folder: Option<PathBuf>,
    /// Which source wants which modules; what nobody wants is deleted.
    wanted: Mutex<BTreeMap<Arc<str>, BTreeSet<Digest>>>,
}

/// The modules that a source wants by its status: what serves, what served before, and what waits.
pub fn wanted(status: &DiscoverySourceStatus) -> BTreeSet<Digest> {
    let serving = status.plugin.as_ref().map(|plugin| &plugin.digest);
    let waiting = status.candidate.as_ref().map(|candidate| &candidate.digest);
    let digests = serving.into_iter().chain(waiting).chain(status.previous.iter().map(|kept| &kept.digest));
    digests.filter_map(|text| Digest::parse(text)).collect()
}

/// The name of the ConfigMap of a module.
#[must_use]
pub fn object_name(digest: Digest) -> String {
    format!("topoloom-module-{}", digest.short())
}

impl Modules {
    /// In this namespace, and in this folder, as far as there are any.
    #[must_use]
    pub fn new(client: Option<kube::Client>, namespace: &str, folder: Option<PathBuf>) -> Self {
        Self { api: client.map(|client| Api::namespaced(client, namespace)), folder, wanted: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, BTreeSet<Digest>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which modules a source wants by its status, without storing any: what earlier lives of the host stored, also
    /// for a source that does not run now.
    pub fn remember(&self, source: &Arc<str>, status: &DiscoverySourceStatus) {
        self.lock().entry(Arc::clone(source)).or_default().extend(wanted(status));
    }

    /// Stores what serves, and deletes what no source wants any more. `digests` are all that the source wants.
    ///
    /// # Errors
    /// Why the module is stored nowhere. Whatever runs goes on; only the way back after a restart is missing.
    pub async fn keep(
        &self,
        source: &Arc<str>,
        serving: &Module,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<(), String> {
        let digest = serving.digest;
        let unwanted: Vec<Digest> = {
            let mut wanted = self.lock();
            let new: BTreeSet<Digest> = digests.into_iter().collect();
            let old = wanted.insert(Arc::clone(source), new).unwrap_or_default();
            old.into_iter().filter(|digest| !wanted.values().any(|wanted| wanted.contains(digest))).collect()
        };
        for digest in unwanted {
            self.delete(digest).await;
        }
        if builtin::all().iter().any(|builtin| builtin.digest == digest) {
            // It is part of every host of this version.
            return Ok(());
        }
        let bytes = Arc::clone(&serving.bytes);
        let packed = tokio::task::spawn_blocking(move || pack(&bytes)).await.map_err(|error| error.to_string())?;
        let cluster = self.store(digest, &packed, serving.signature.as_deref()).await;
        let disk = self.write(digest, &packed);
        match (cluster, disk) {
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (Err(cluster), Err(disk)) => Err(format!("{cluster}; {disk}")),
        }
    }

    async fn store(&self, digest: Digest, packed: &[u8], signature: Option<&[u8]>) -> Result<(), String> {
        let Some(api) = &self.api else { return Err("no cluster".to_owned()) };
        if packed.len() > FITS {
            return Err(format!("{} bytes are too many for a ConfigMap, at most {FITS} fit", packed.len()));
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(object_name(digest)),
                labels: Some([(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned())].into()),
                annotations: Some([(MODULE_DIGEST_ANNOTATION.to_owned(), digest.to_string())].into()),
                ..ObjectMeta::default()
            },
            binary_data: Some(
                [(KEY, Some(packed)), (SIGNATURE_KEY, signature)]
                    .into_iter()
                    .filter_map(|(key, bytes)| Some((key.to_owned(), ByteString(bytes?.to_vec()))))
                    .collect(),
            ),
            // Its name says what is in it.
            immutable: Some(true),
            ..ConfigMap::default()
        };
        match api.create(&PostParams::default(), &map).await.map_err(|error| Refusal::of(&error)) {
            Err(refusal) if refusal.reason != Reason::AlreadyExists => {
                Err(format!("the ConfigMap {} cannot be created: {refusal}", object_name(digest)))
            }
            _ => Ok(()),
        }
    }

    fn write(&self, digest: Digest, packed: &[u8]) -> Result<(), String> {
        let Some(folder) = &self.folder else { return Err("no folder is configured for modules".to_owned()) };
        let path = folder.join(object_name(digest));
        if path.exists() {
            return Ok(());
        }
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            std::io::Write::write_all(&mut file, packed)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    async fn delete(&self, digest: Digest) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_file(folder.join(object_name(digest)));
        }
        let Some(api) = &self.api else { return };
        match api.delete(&object_name(digest), &DeleteParams::default()).await.map_err(|error| Refusal::of(&error)) {
            Err(refusal) if refusal.reason != Reason::NotFound => {
                tracing::warn!(%digest, error = %refusal, "a module that nobody wants could not be deleted");
            }
            _ => {}
        }
    }

    /// The module with that digest; `None` where it is not kept.
    ///
    /// # Errors
    /// Why it cannot be said whether it is, or that something else stands in its place.
    pub async fn find(&self, digest: Digest) -> Result<Option<Module>, String> {
        if let Some(builtin) = builtin::all().iter().find(|builtin| builtin.digest == digest) {
            return Ok(Some(Module::plain(Arc::clone(&builtin.bytes), Origin::Builtin)));
        }
        if let Some(module) = self.on_disk(digest) {
            return Ok(Some(module));
        }
        let Some(api) = &self.api else { return Ok(None) };
        let name = object_name(digest);
        let map = api.get_opt(&name).await.map_err(|error| {
            format!("the module {digest} cannot be read from the ConfigMap {name}: {}", Refusal::of(&error))
        })?;
        let mut data = map.and_then(|map| map.binary_data).unwrap_or_default();
        let signature = data.remove(SIGNATURE_KEY).map(|bytes| Arc::from(bytes.0));
        let Some(packed) = data.remove(KEY) else { return Ok(None) };
        checked(&packed.0, digest)
            .map(|bytes| Some(Module { signature, ..Module::plain(bytes, Origin::Kept) }))
            .map_err(|what| format!("the ConfigMap {name} does not hold the module {digest}: {what}"))
    }

    fn on_disk(&self, digest: Digest) -> Option<Module> {
        let packed = std::fs::read(self.folder.as_ref()?.join(object_name(digest))).ok()?;
        checked(&packed, digest).ok().map(|bytes| Module::plain(bytes, Origin::Kept))
    }
}

/// Unpacks within bounds, and hashes what comes out.
fn checked(packed: &[u8], digest: Digest) -> Result<Arc<[u8]>, String> {
    let bytes = unpack(packed, PACKED, UNPACKED).map_err(|error| error.to_string())?;
    let found = Digest::of(&bytes);
    if found == digest { Ok(bytes.into()) } else { Err(format!("its bytes have digest {found}")) }
}
