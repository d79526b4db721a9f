//! The active and the earlier plugins, stored for a rollback, also on another node (decision P5).
//!
//! A module of at most 1 MiB packed is a ConfigMap `topoloom-module-<12 hex>` of our own namespace, immutable and named
//! by its content; a larger one, and every one where the API server refuses, lies only in the local folder, where one
//! is configured, and nowhere without one. Everything that is read is hashed again: the store is trusted with bytes, never with identities.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use thiserror::Error;
use topoloom_api::discovery_source::{DiscoverySourceStatus, PluginOrigin as Origin};
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL, MODULE_DIGEST_ANNOTATION};
use topoloom_core::names::SourceName;

use super::Module;
use super::unpack::{PACKED, UNPACKED, pack, unpack};
use crate::cluster::{Refusal, RefusalReason};
use crate::plugin::{Digest, builtin};

/// What fits into a ConfigMap with its name and labels; the API server takes 1 MiB in all.
const FITS: usize = (1 << 20) - (8 << 10);
/// The key in its binaryData.
const KEY: &str = "plugin.wasm.zst";
/// The key of its signature, where it has one.
const SIGNATURE_KEY: &str = "plugin.sig";

/// The ending of its file, where it lies in a folder.
const SIGNATURE_FILE: &str = "sig";

/// Why it is not known whether a module is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindError {
    /// What happened.
    pub message: String,
    /// Whether asking again may help.
    pub may_pass: bool,
}

/// Why a module is stored nowhere.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It could not be packed.
    #[error("it cannot be packed: {0}")]
    Pack(#[from] tokio::task::JoinError),
    /// Neither the cluster nor the folder has it.
    #[error("{cluster}; {folder}")]
    Nowhere {
        /// Why the cluster does not.
        cluster: ClusterError,
        /// Why the folder does not.
        folder: FolderError,
    },
}

/// Why a module is not stored in the cluster.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// There is no client.
    #[error("no cluster")]
    Absent,
    /// It does not fit into a ConfigMap.
    #[error("{0} bytes are too many for a ConfigMap, at most {FITS} fit")]
    TooLarge(usize),
    /// The API server refused it.
    #[error("the ConfigMap {name} cannot be created: {refusal}")]
    Refused {
        /// Of the ConfigMap.
        name: String,
        /// The refusal of the API server.
        refusal: Refusal,
    },
}

/// Why a module is not stored in a folder.
#[derive(Debug, Error)]
pub enum FolderError {
    /// None is configured.
    #[error("no folder is configured for stored modules (--module-dir)")]
    Absent,
    /// It could not be written.
    #[error("{path}: {error}")]
    Write {
        /// Of the file.
        path: String,
        /// The error of the system.
        error: std::io::Error,
    },
}

/// The store.
pub struct Modules {
    api: Option<Api<ConfigMap>>,
    folder: Option<PathBuf>,
    /// Which source wants which modules; what no source wants is deleted.
    wanted: Mutex<BTreeMap<SourceName, BTreeSet<Digest>>>,
    /// One change at a time: what one source does not want any more may be what another one is about to store.
    turn: tokio::sync::Mutex<()>,
}

/// The modules that a source wants by its status: the active, the earlier and the waiting one.
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
        Self {
            api: client.map(|client| Api::namespaced(client, namespace)),
            folder,
            wanted: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SourceName, BTreeSet<Digest>>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the modules that a source wants by its status, without storing any: those stored before the host's restart,
    /// also for a source that does not run now.
    pub fn remember(&self, source: &SourceName, status: &DiscoverySourceStatus) {
        self.lock().entry(source.clone()).or_default().extend(wanted(status));
    }

    /// Stores the active module, and deletes those that no source wants any more. `digests` are all that the source
    /// wants.
    ///
    /// # Errors
    /// Why the module is stored nowhere. The active plugin continues; only a rollback after a restart is not possible.
    pub async fn keep(
        &self,
        source: &SourceName,
        serving: &Module,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<(), StoreError> {
        let _turn = self.turn.lock().await;
        let digest = serving.digest;
        let new: BTreeSet<Digest> = digests.into_iter().collect();
        let unwanted: Vec<Digest> = {
            let wanted = self.lock();
            let others = |digest: &Digest| wanted.iter().any(|(of, wanted)| of != source && wanted.contains(digest));
            let old = wanted.get(source).into_iter().flatten();
            old.filter(|digest| !new.contains(*digest) && !others(digest)).copied().collect()
        };
        let mut known = new;
        for digest in unwanted {
            if !self.delete(digest).await {
                known.insert(digest);
            }
        }
        // Only now, with what could not be deleted: what is given up stays known.
        self.lock().insert(source.clone(), known);
        if builtin::all().iter().any(|builtin| builtin.digest == digest) {
            // It is part of every host of this version.
            return Ok(());
        }
        if self.api.is_none() && self.folder.is_none() {
            // The operator wants it so.
            return Ok(());
        }
        let bytes = Arc::clone(&serving.bytes);
        let packed = tokio::task::spawn_blocking(move || pack(&bytes)).await?;
        let cluster = self.store(digest, &packed, serving.signature.as_deref()).await;
        let disk = self.write(digest, &packed, serving.signature.as_deref());
        match (cluster, disk) {
            (Ok(()), _) | (_, Ok(())) => Ok(()),
            (Err(cluster), Err(folder)) => Err(StoreError::Nowhere { cluster, folder }),
        }
    }

    async fn store(&self, digest: Digest, packed: &[u8], signature: Option<&[u8]>) -> Result<(), ClusterError> {
        let Some(api) = &self.api else { return Err(ClusterError::Absent) };
        if packed.len() > FITS {
            return Err(ClusterError::TooLarge(packed.len()));
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
            Err(refusal) if refusal.reason != RefusalReason::AlreadyExists => {
                Err(ClusterError::Refused { name: object_name(digest), refusal })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, digest: Digest, packed: &[u8], signature: Option<&[u8]>) -> Result<(), FolderError> {
        let Some(folder) = &self.folder else { return Err(FolderError::Absent) };
        let path = folder.join(object_name(digest));
        if path.exists() {
            return Ok(());
        }
        let write = |path: &std::path::Path, bytes: &[u8]| -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            std::io::Write::write_all(&mut file, bytes)?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)?;
            Ok(())
        };
        // The signature first: a module without its own would count as unsigned.
        let signed = signature.map_or(Ok(()), |signature| write(&path.with_extension(SIGNATURE_FILE), signature));
        let written = signed.and_then(|()| write(&path, packed));
        written.map_err(|error| FolderError::Write { path: path.display().to_string(), error })
    }

    /// Answers whether it is gone.
    async fn delete(&self, digest: Digest) -> bool {
        if let Some(folder) = &self.folder {
            let path = folder.join(object_name(digest));
            for file in [path.with_extension(SIGNATURE_FILE), path] {
                if let Err(error) = std::fs::remove_file(&file)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!(%digest, file = %file.display(), %error, "a stored module that no source uses could not be deleted");
                    return false;
                }
            }
        }
        let Some(api) = &self.api else { return true };
        let deleted = delete(api, digest).await;
        if let Err(refusal) = &deleted {
            tracing::warn!(%digest, error = %refusal, "a stored module that no source uses could not be deleted");
        }
        deleted.is_ok()
    }

    /// The module with that digest; `None` where it is not kept.
    ///
    /// # Errors
    /// Why it is not known whether it is stored, or that something else is in its place.
    pub async fn find(&self, digest: Digest) -> Result<Option<Module>, FindError> {
        if let Some(builtin) = builtin::all().iter().find(|builtin| builtin.digest == digest) {
            return Ok(Some(Module::plain(Arc::clone(&builtin.bytes), Origin::Builtin)));
        }
        let on_disk = self.on_disk(digest);
        let Some(api) = &self.api else { return Ok(on_disk) };
        if on_disk.as_ref().is_some_and(|module| module.signature.is_some()) {
            return Ok(on_disk);
        }
        let name = object_name(digest);
        let map = match api.get_opt(&name).await.map_err(|error| Refusal::of(&error)) {
            Ok(map) => map,
            Err(_) if on_disk.is_some() => return Ok(on_disk),
            Err(refusal) => {
                // A permission that is missing will be missing the next time.
                let may_pass = !matches!(
                    refusal.reason,
                    RefusalReason::Forbidden | RefusalReason::Unauthorized | RefusalReason::Invalid
                );
                return Err(FindError { message: format!("the ConfigMap {name} cannot be read: {refusal}"), may_pass });
            }
        };
        let mut data = map.and_then(|map| map.binary_data).unwrap_or_default();
        let signature = data.remove(SIGNATURE_KEY).map(|bytes| Arc::from(bytes.0));
        let Some(packed) = data.remove(KEY) else { return Ok(on_disk) };
        let unpacked = tokio::task::spawn_blocking(move || checked(packed.0, digest)).await;
        match unpacked.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(bytes) => Ok(Some(Module { signature, ..Module::plain(bytes, Origin::Kept) })),
            Err(_) if on_disk.is_some() => Ok(on_disk),
            Err(what) => {
                let message = format!("the ConfigMap {name} does not hold the module {digest}: {what}");
                Err(FindError { message, may_pass: false })
            }
        }
    }

    fn on_disk(&self, digest: Digest) -> Option<Module> {
        let path = self.folder.as_ref()?.join(object_name(digest));
        let packed = std::fs::read(&path).ok()?;
        let signature = std::fs::read(path.with_extension(SIGNATURE_FILE)).ok().map(Into::into);
        checked(packed, digest).ok().map(|bytes| Module { signature, ..Module::plain(bytes, Origin::Kept) })
    }
}

/// Deletes the ConfigMap of a module, if it is one: an object of that name that another program made stays. Answers
/// whether there was one.
///
/// # Errors
/// The refusal.
pub async fn delete(api: &Api<ConfigMap>, digest: Digest) -> Result<bool, Refusal> {
    let name = object_name(digest);
    let found = api.get_metadata_opt(&name).await.map_err(|error| Refusal::of(&error))?;
    let Some(metadata) = found.map(|found| found.metadata) else { return Ok(false) };
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|annotations| annotations.get(key)).cloned();
    if annotation(MODULE_DIGEST_ANNOTATION) != Some(digest.to_string()) {
        return Ok(false);
    }
    let preconditions = Preconditions { uid: metadata.uid, resource_version: metadata.resource_version };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name, &parameters).await.map_err(|error| Refusal::of(&error)) {
        Ok(_) => Ok(true),
        Err(refusal) if refusal.reason == RefusalReason::NotFound => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// Unpacks within bounds, and hashes what comes out.
fn checked(packed: Vec<u8>, digest: Digest) -> Result<Arc<[u8]>, String> {
    let bytes = unpack(packed, PACKED, UNPACKED).map_err(|error| error.to_string())?;
    let found = Digest::of(&bytes);
    if found == digest { Ok(bytes.into()) } else { Err(format!("its bytes have digest {found}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_keeps_nothing_loses_nothing_and_a_folder_alone_is_a_place() {
        let module = Module::plain(Arc::from(*b"bytes"), Origin::File);
        let (source, digest): (SourceName, _) = ("s".parse().unwrap(), module.digest);
        let nowhere = Modules::new(None, "n", None);
        nowhere.keep(&source, &module, [digest]).await.expect("nothing is to be stored");
        assert!(matches!(nowhere.find(digest).await, Ok(None)));

        let folder = tempfile::tempdir().unwrap();
        let kept = Modules::new(None, "n", Some(folder.path().to_owned()));
        kept.keep(&source, &module, [digest]).await.unwrap();
        assert_eq!(kept.find(digest).await.unwrap().map(|found| found.digest), Some(digest));
        // Where there is a place, that it cannot be used is an error.
        let missing = Modules::new(None, "n", Some("/proc/no-such-folder".into()));
        let error = missing.keep(&source, &module, [digest]).await.unwrap_err();
        let no_cluster_and_no_folder = |error: &StoreError| {
            matches!(error, StoreError::Nowhere { cluster: ClusterError::Absent, folder: FolderError::Write { .. } })
        };
        assert!(no_cluster_and_no_folder(&error), "{error:?}");
        assert!(error.to_string().contains("/proc/no-such-folder"), "{error}");
    }
}
