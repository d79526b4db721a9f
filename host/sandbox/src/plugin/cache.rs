//! Images on disk, so that a restart does not compile what an earlier process compiled already.
//!
//! Loading an image is running native code, and the engine checks its version and settings but not its bytes: of 83
//! single bits that were turned over in an image, it accepted 81 (measured). So an image is taken only from a folder
//! that no other user may write, under a name that says exactly what it is, and after its seal was verified; what is
//! verified is loaded, without reading the file again.
//!
//! Owns the folder, the key, and the decision whether a file is what it should be. Never compiles, never keeps an
//! embedded plugin (its image is part of the binary), never takes an image from anywhere else. A key that is made when
//! the process starts is lost when it ends: such a cache helps only a plugin that is removed and added again. A cache
//! that outlives the process needs a key that does.
//!
//! # Failure story
//!
//! Nothing here can keep a plugin from being loaded. Whatever is wrong (a full disk, a folder that became read-only, a
//! file cut short, another key, one bit turned over, a disk that does not answer) is a [`Trouble`]: counted, logged
//! once, the file removed where that is possible, and the plugin is compiled.

mod folder;
mod key;
mod origin;
mod seal;
mod trouble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use wasmtime::Engine;
use wasmtime::component::Component;

pub use key::{CacheKey, KeyError};
pub use trouble::{OpenError, Trouble};

use super::Digest;
use super::compile::{self, IMAGE};
use super::engine::Optimise;
use folder::Folder;
use seal::ImageIdentity;

pub(super) use seal::Verified;

/// Bytes in the folder where nothing else is said. Images have two to four times the size of the plugin: room for a
/// thousand Rust plugins, or for seven with a language runtime.
pub const DEFAULT_SIZE: u64 = 256 << 20;

/// How long a disk may take to answer before the plugin is compiled without it. Reading the largest image takes less
/// than a second; a network disk without its server never answers.
const DISK: Duration = Duration::from_secs(10);

/// Where the cache is and which key seals its files.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// The folder. It is created; one that exists has to be ours alone.
    pub folder: PathBuf,
    /// The key that seals.
    pub key: CacheKey,
    /// Bytes of all images together; what was not used for the longest time goes first.
    pub size: u64,
}

/// The cache. Clones share it.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<CacheInner>,
}

struct CacheInner {
    folder: Folder,
    key: CacheKey,
    build: [u8; 32],
    counts: Mutex<BTreeMap<&'static str, u64>>,
    reported: Mutex<BTreeSet<&'static str>>,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cache").field(&self.shared.folder.path()).finish()
    }
}

impl Cache {
    /// Opens the folder, or creates it.
    ///
    /// # Errors
    ///
    /// When the folder is not safe to use. The host continues without a cache, and should log why.
    pub fn open(options: CacheOptions) -> Result<Self, OpenError> {
        let CacheOptions { folder, key, size } = options;
        let folder = Folder::open(folder, size)?;
        let build = origin::build().map_err(OpenError::Build)?;
        Ok(Self {
            shared: Arc::new(CacheInner { folder, key, build, counts: Mutex::default(), reported: Mutex::default() }),
        })
    }

    /// What happened so far: `Hit`, `Miss`, `Stored`, `Evicted`, and each [`Trouble::reason`].
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The image of a plugin, if there is a valid one.
    pub(super) async fn load(&self, engine: &Engine, module: Digest, optimise: Optimise) -> Option<Component> {
        let (cache, engine) = (Arc::clone(&self.shared), engine.clone());
        let found = off_thread(move || cache.load(&engine, module, optimise)).await;
        match found {
            Ok(Some(component)) => {
                self.shared.count("Hit");
                Some(component)
            }
            Ok(None) => {
                self.shared.count("Miss");
                None
            }
            Err(trouble) => {
                self.shared.report(&trouble, &module);
                None
            }
        }
    }

    /// Keeps an image that the compiler just made. It is stored, and counted, even if no caller waits for it any more:
    /// the caller of the compile may be gone while others use the result.
    pub(super) async fn store(&self, engine: &Engine, module: Digest, optimise: Optimise, image: Vec<u8>) {
        let (cache, engine) = (Arc::clone(&self.shared), engine.clone());
        let stored = off_thread(move || {
            cache.store(&engine, module, optimise, &image)?;
            cache.count("Stored");
            Ok(())
        });
        if let Err(trouble) = stored.await {
            self.shared.report(&trouble, &module);
        }
    }
}

/// Disks block, so they do it on a thread of their own, and are not waited for without end.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    match tokio::time::timeout(DISK, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(broke)) => Err(Trouble::Host(broke.to_string())),
        Err(_) => Err(Trouble::Slow(DISK)),
    }
}

impl CacheInner {
    fn identity(&self, engine: &Engine, module: Digest, optimise: Optimise) -> ImageIdentity {
        ImageIdentity { module, optimise, engine: origin::engine(engine), build: self.build }
    }

    fn load(&self, engine: &Engine, module: Digest, optimise: Optimise) -> Result<Option<Component>, Trouble> {
        let identity = self.identity(engine, module, optimise);
        let name = identity.file_name();
        let most = (IMAGE + seal::HEAD) as u64;
        let Some(file) = self.folder.read(&name, most).map_err(Trouble::Read)? else { return Ok(None) };
        let verified = self.key.verify(&identity, &file.bytes);
        let component = verified.and_then(|verified| {
            compile::verified(engine, &verified).map_err(|error| Trouble::Refused(error.to_string()))
        });
        match component {
            // An image that did not load will not load the next time.
            Err(_) => self.folder.remove(&name),
            Ok(_) => file.touch(),
        }
        component.map(Some)
    }

    fn store(&self, engine: &Engine, module: Digest, optimise: Optimise, image: &[u8]) -> Result<(), Trouble> {
        let identity = self.identity(engine, module, optimise);
        let head = self.key.seal(&identity, image);
        let evicted = self.folder.write(&identity.file_name(), &[&head, image])?;
        (0..evicted).for_each(|_| self.count("Evicted"));
        Ok(())
    }

    fn count(&self, what: &'static str) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    /// Logs each kind of trouble once: it is the same for every plugin, and each of them is compiled anyway.
    fn report(&self, trouble: &Trouble, module: &Digest) {
        let reason = trouble.reason();
        self.count(reason);
        let first = self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(reason);
        let (plugin, error, folder) = (module.short(), trouble.chain(), self.folder.path().display());
        if first {
            tracing::warn!(plugin, reason, error, %folder, "the plugin cache cannot be used; the plugin is compiled");
        } else {
            tracing::debug!(plugin, reason, error, %folder, "the plugin cache cannot be used; the plugin is compiled");
        }
    }
}

/// Read from the cache at each scrape, so that the numbers cannot drift.
impl Collector for Cache {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        encode(encoder, self.counts())
    }
}

/// Placeholder series for a disabled cache: one, whose event means any.
#[derive(Debug)]
pub struct Example(pub &'static str);

impl Collector for Example {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        encode(encoder, BTreeMap::from([(self.0, 0)]))
    }
}

fn encode(mut encoder: DescriptorEncoder<'_>, counts: BTreeMap<&'static str, u64>) -> std::fmt::Result {
    let help = "Compiled images of plugins by event: found, missed, stored, evicted, or why one was not used";
    let mut family = encoder.encode_descriptor("plugin_cache_events", help, None, MetricType::Counter)?;
    for (event, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(&[("event", event)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
