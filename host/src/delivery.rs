//! How the bytes of plugins arrive: from this binary, from a folder, from a ConfigMap, from a registry, and from the modules
//! kept for a rollback.
//!
//! Owns the watches on those places, unpacking within bounds, and the check of what is delivered against what is
//! declared beside it. All ways end in one thing, a [`Module`] with its digest, and in one message, an [`Offer`]. Never
//! looks inside a module, never decides whether it becomes active.
//!
//! | file | idea |
//! |---|---|
//! | [`unpack`] | zstd or not, within bounds |
//! | [`parcel`] | a module with its `.yaml` and its `.sig`, opened and checked |
//! | [`folder`] | files and folders, as the kubelet and people swap them |
//! | [`config_map`] | one key of a ConfigMap, through the API |
//! | [`oci`] | an artifact of a registry |
//! | [`refused`] | why a source does not get a plugin |
//! | [`modules`] | what served before, kept for a rollback (decision P5) |
//!
//! # Failure story
//!
//! A place that is gone, unreadable or half written is an [`Offer`] that says so, and removes nothing: an active plugin
//! continues. What a registry gave last stays on offer beside what is wrong now, so a candidate continues as well. Each place has
//! its own task; two sources on one place share it. If that task crashes, both sources do, and restart with a new one.

pub mod config_map;
pub mod folder;
pub mod modules;
pub mod oci;
pub mod parcel;
pub mod refused;
pub mod unpack;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;

use topoloom_core::plugin::Limit;
use topoloom_core::plugin::rollout::{Failed, RolloutStep};

pub use self::modules::Modules;
pub use self::oci::Registries;
pub use self::refused::Refused;
use crate::cluster::Restores;
use crate::config::registry::OciOrigin;
use crate::config::{EntryConfig, PluginOrigin, PluginRef};
use crate::endpoints::vault::Vault;
use crate::plugin::{Digest, Metrics, builtin};

/// A module as it was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The component file, unpacked.
    pub bytes: Arc<[u8]>,
    /// Its identity.
    pub digest: Digest,
    /// Its origin.
    pub origin: Origin,
    /// Bytes as they were delivered, where that was packed.
    pub packed: Option<usize>,
    /// What was declared beside it.
    pub declared: Option<crate::config::declaration::Declaration>,
    /// The signature beside it.
    pub signature: Option<Arc<[u8]>>,
    /// The manifest that named it, where it is of a registry.
    pub manifest: Option<Digest>,
}

impl Module {
    /// For bytes without anything beside them.
    #[must_use]
    pub fn plain(bytes: Arc<[u8]>, origin: Origin) -> Self {
        Self {
            digest: Digest::of(&bytes),
            bytes,
            origin,
            packed: None,
            declared: None,
            signature: None,
            manifest: None,
        }
    }

    /// The plugin of this binary with that name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        builtin::find(name).map(|found| Self {
            bytes: Arc::clone(&found.bytes),
            digest: found.digest,
            origin: Origin::Builtin,
            packed: None,
            declared: None,
            signature: None,
            manifest: None,
        })
    }
}

/// What a place has to offer now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// It was not looked at yet.
    Pending,
    /// A module.
    Module(Arc<Module>),
    /// The module as it was received last, while the place gives none: what it would be without that module.
    Last(Arc<Module>, Box<Self>),
    /// Nothing, or nothing that could be taken: the word and the sentence.
    Nothing(Reason, String),
    /// More than any entry may allow: the row of the table and the sentence.
    Beyond(Limit, String),
}

impl Offer {
    fn missing(message: impl Into<String>) -> Self {
        Self::Nothing(Reason::PluginNotFound, message.into())
    }

    /// The module that the place gives, or gave last.
    #[must_use]
    pub fn module(&self) -> Option<&Arc<Module>> {
        match self {
            Self::Module(module) | Self::Last(module, _) => Some(module),
            Self::Pending | Self::Nothing(..) | Self::Beyond(..) => None,
        }
    }

    /// The same, named by this manifest.
    fn named_by(self, manifest: Digest) -> Self {
        match self {
            Self::Module(module) => {
                Self::Module(Arc::new(Module { manifest: Some(manifest), ..Arc::unwrap_or_clone(module) }))
            }
            other => other,
        }
    }

    /// What is offered where this is no module and that one was received before.
    fn after(self, last: Option<&Arc<Module>>) -> Self {
        match (self, last) {
            (trouble @ (Self::Nothing(..) | Self::Beyond(..)), Some(last)) => {
                Self::Last(Arc::clone(last), Box::new(trouble))
            }
            (offer, _) => offer,
        }
    }

    /// The row of the table of limits that is crossed.
    fn beyond(&self) -> Option<Limit> {
        match self {
            Self::Beyond(limit, _) => Some(*limit),
            Self::Last(_, trouble) => trouble.beyond(),
            Self::Pending | Self::Module(_) | Self::Nothing(..) => None,
        }
    }

    /// Why the place gives no module: the word and the sentence.
    #[must_use]
    pub fn trouble(&self) -> Option<(Reason, &str)> {
        match self {
            Self::Pending | Self::Module(_) => None,
            Self::Last(_, trouble) => trouble.trouble(),
            Self::Nothing(reason, message) => Some((*reason, message)),
            Self::Beyond(_, message) => Some((Reason::PluginInvalid, message)),
        }
    }
}

/// Where a place says what it has.
pub struct OfferSender {
    offers: watch::Sender<Offer>,
    metrics: Metrics,
}

impl OfferSender {
    /// Sends it to the listeners, unless they know it; what is beyond a limit is counted.
    fn send(&self, offer: Offer) {
        let beyond = offer.beyond();
        let is_news = self.offers.send_if_modified(|present| {
            let differs = *present != offer;
            *present = offer;
            differs
        });
        if let Some(limit) = beyond.filter(|_| is_news) {
            self.metrics.limit(limit);
        }
    }

    /// Whether a module is offered.
    fn has_module(&self) -> bool {
        self.offers.borrow().module().is_some()
    }
}

/// One place that modules come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ModulePlace {
    Installed(String),
    File(PathBuf),
    ConfigMap { namespace: String, name: String, key: String },
    Registry(Box<OciOrigin>),
}

/// Where modules can come from in this process.
#[derive(Debug, Clone)]
pub struct Sites {
    /// The namespace of ConfigMaps that are named without one.
    pub namespace: String,
    /// The folder of installed plugins.
    pub folder: Option<PathBuf>,
    /// How often files are looked at without an event, and registries at all.
    pub poll: Duration,
    /// The registries that plugins may come from.
    pub registries: Registries,
}

impl Sites {
    /// A namespace, without a folder and without registries.
    #[must_use]
    pub fn at(namespace: &str) -> Self {
        let registries = Registries::default();
        Self { namespace: namespace.to_owned(), folder: None, poll: folder::POLL, registries }
    }
}

/// All places that anybody listens to.
pub struct Delivery {
    client: Option<kube::Client>,
    restores: Restores,
    sites: Sites,
    metrics: Metrics,
    places: Mutex<BTreeMap<ModulePlace, Weak<WatchedPlace>>>,
}

/// One place that is watched for as long as it has listeners.
struct WatchedPlace {
    /// What it offers; only its task sends that, and the channel closes with it.
    offers: watch::Receiver<Offer>,
    look: Arc<Notify>,
    /// Ends with its last listener.
    task: Mutex<JoinSet<()>>,
}

impl WatchedPlace {
    /// For one more source.
    fn listen(self: &Arc<Self>) -> Subscription {
        let mut offers = self.offers.clone();
        offers.mark_unchanged();
        Subscription { offers, place: Some(Arc::clone(self)) }
    }

    /// Whether its task is gone.
    fn is_broken(&self) -> bool {
        self.offers.is_closed()
    }
}

/// What one source receives from its place.
pub struct Subscription {
    offers: watch::Receiver<Offer>,
    /// Ends the watch with its last listener; nothing where there is nothing to watch.
    place: Option<Arc<WatchedPlace>>,
}

impl Delivery {
    /// Without listeners. Without a client there are no ConfigMaps.
    #[must_use]
    pub fn new(client: Option<kube::Client>, sites: Sites, metrics: Metrics) -> Self {
        Self { client, restores: Restores::default(), sites, metrics, places: Mutex::default() }
    }

    /// The same in a process that knows of these restores.
    #[must_use]
    pub fn of(self, restores: &Restores) -> Self {
        Self { restores: restores.clone(), ..self }
    }

    /// Listens to the place that an entry names.
    #[must_use]
    pub fn subscribe(&self, plugin: &PluginRef) -> Subscription {
        let place = match &plugin.origin {
            PluginOrigin::Builtin(name) => return Subscription::still(builtin_offer(name, None)),
            PluginOrigin::Installed(name) if self.sites.folder.is_none() => {
                return Subscription::still(builtin_offer(name, None));
            }
            PluginOrigin::Installed(name) => ModulePlace::Installed(name.clone()),
            PluginOrigin::File(path) => ModulePlace::File(path.clone()),
            PluginOrigin::ConfigMap(key) if self.client.is_none() => {
                return Subscription::still(Offer::missing(format!(
                    "plugin.configMap {}[{}] can only be read with a cluster; name the file with --plugin",
                    key.name, key.key
                )));
            }
            PluginOrigin::ConfigMap(key) => ModulePlace::ConfigMap {
                namespace: key.namespace.clone().unwrap_or_else(|| self.sites.namespace.clone()),
                name: key.name.clone(),
                key: key.key.clone(),
            },
            PluginOrigin::Oci(origin) if self.client.is_none() => return Subscription::still(oci::offline(origin)),
            PluginOrigin::Oci(origin) => match self.sites.registries.refuse(origin) {
                Some(offer) => return Subscription::still(offer),
                None => ModulePlace::Registry(origin.clone()),
            },
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|_, watched| watched.strong_count() > 0);
        if let Some(watched) = places.get(&place).and_then(Weak::upgrade).filter(|watched| !watched.is_broken()) {
            return watched.listen();
        }
        let watched = Arc::new(self.watch(&place));
        let subscription = watched.listen();
        places.insert(place, Arc::downgrade(&watched));
        subscription
    }

    fn watch(&self, place: &ModulePlace) -> WatchedPlace {
        let (offers, received) = watch::channel(Offer::Pending);
        let sender = OfferSender { offers, metrics: self.metrics.clone() };
        let watched = WatchedPlace { offers: received, look: Arc::new(Notify::new()), task: Mutex::default() };
        let look = Arc::clone(&watched.look);
        let mut task = watched.task.lock().unwrap_or_else(PoisonError::into_inner);
        let poll = self.sites.poll;
        match place {
            ModulePlace::ConfigMap { namespace, name, key } => {
                // Without one, no caller gets here.
                if let Some(client) = self.client.clone() {
                    let (restores, namespace) = (self.restores.clone(), namespace.clone());
                    task.spawn(config_map::watch(client, restores, namespace, name.clone(), key.clone(), sender));
                }
            }
            ModulePlace::Registry(origin) => {
                let client = self.sites.registries.client(origin, &self.vault());
                task.spawn(oci::watch(client, origin.reference.clone(), poll, look, sender));
            }
            ModulePlace::File(path) => {
                let path = path.clone();
                task.spawn(folder::watch(folder::FolderQuery::File(path), poll, look, sender));
            }
            ModulePlace::Installed(name) => {
                let wanted = folder::FolderQuery::Named(self.sites.folder.clone().unwrap_or_default(), name.clone());
                task.spawn(folder::watch(wanted, poll, look, sender));
            }
        }
        drop(task);
        watched
    }

    /// Where the objects are that entries refer to.
    fn vault(&self) -> Vault {
        match &self.client {
            None => Vault::Nothing,
            Some(client) => Vault::Cluster {
                client: client.clone(),
                restores: self.restores.clone(),
                namespace: self.sites.namespace.as_str().into(),
            },
        }
    }

    /// What an entry names, looked at once: for the command line.
    pub async fn once(&self, plugin: &PluginRef) -> Offer {
        let mut subscription = self.subscribe(plugin);
        loop {
            match subscription.offer() {
                Offer::Pending => {}
                offer => return offer,
            }
            subscription.changed().await;
        }
    }
}

impl Subscription {
    /// To a place where nothing ever changes.
    fn still(offer: Offer) -> Self {
        Self { offers: watch::Sender::new(offer).subscribe(), place: None }
    }

    /// The present offer; it counts as seen.
    pub fn offer(&mut self) -> Offer {
        self.offers.borrow_and_update().clone()
    }

    /// Waits for another offer; never returns if there will be none. Panics with the task that watches the place.
    pub async fn changed(&mut self) {
        if self.offers.changed().await.is_ok() {
            return;
        }
        if self.place.is_some() {
            // Why, it has said itself. Each listener has to break, and only one could receive the panic.
            std::panic::resume_unwind(Box::new("the task that watches the source of the plugin crashed"));
        }
        std::future::pending::<()>().await;
    }

    /// Looks again, without waiting for an event.
    pub fn look(&self) {
        if let Some(place) = &self.place {
            place.look.notify_one();
        }
    }
}

/// Everything that modules come from.
pub struct Supply {
    /// What is delivered.
    pub delivery: Delivery,
    /// What is kept.
    pub modules: Modules,
}

impl Supply {
    /// Without a cluster: files and what is part of the binary.
    #[must_use]
    pub fn offline() -> Self {
        Self { delivery: Delivery::new(None, Sites::at(""), Metrics::default()), modules: Modules::new(None, "", None) }
    }

    /// The module that an entry names, looked at once: for the command line.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn fetch(&self, entry: &EntryConfig) -> Result<Arc<Module>, Refused> {
        let offer = self.delivery.once(&entry.plugin).await;
        match (entry.plugin.digest, offer) {
            (None, Offer::Module(module)) => Ok(module),
            (Some(pinned), Offer::Module(module)) if module.digest == pinned => Ok(module),
            (Some(pinned), offer) => self.pinned(pinned, &offer).await,
            (None, offer) => Err(offer.refused()),
        }
    }

    /// The module with a digest that is wanted and not delivered.
    ///
    /// # Errors
    /// What is delivered instead, and why the wanted one is not kept either.
    pub async fn pinned(&self, wanted: Digest, offer: &Offer) -> Result<Arc<Module>, Refused> {
        let (failed, why) = match self.modules.find(wanted).await {
            Ok(Some(module)) => return Ok(Arc::new(module)),
            Ok(None) => (Failed::ForGood, "no module with that digest is stored".to_owned()),
            Err(error) => (if error.may_pass { Failed::Circumstance } else { Failed::ForGood }, error.message),
        };
        Err(match offer {
            Offer::Module(module) => {
                let message = format!(
                    "the delivered plugin has digest {}, but {wanted} is required (it was active before, or is \
                        pinned): {why}; the delivered plugin waits",
                    module.digest
                );
                Refused::loading(RolloutStep::Trust, Reason::DigestMismatch, message, failed)
            }
            offer => Refused { failed, ..offer.refused() },
        })
    }
}

impl Offer {
    /// The refusal if a module is missing.
    fn refused(&self) -> Refused {
        let (reason, message) = self.trouble().unwrap_or((Reason::Pending, "the module is not there yet"));
        Refused::loading(RolloutStep::Receive, reason, message, Failed::ForGood)
    }
}

/// The plugin of this binary with that name, or why there is none.
fn builtin_offer(name: &str, folder: Option<&std::path::Path>) -> Offer {
    if let Some(module) = Module::builtin(name) {
        return Offer::Module(Arc::new(module));
    }
    let names = builtin::all().iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ");
    let looked = folder.map(|folder| format!(", and {} has none of that name", folder.display())).unwrap_or_default();
    Offer::missing(format!(
        "there is no plugin {name:?} (by `source`, `discoverer` or `plugin.builtin`); there are: {names}{looked}; name a \
         file with `plugin: {{file: PATH}}`, a ConfigMap with `plugin: {{configMap: {{name: NAME, key: plugin.wasm}}}}`, or a \
         registry with `plugin: {{oci: {{ref: 'oci://REGISTRY/NAME:TAG'}}}}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_breaks_with_the_watch_and_begins_with_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let origin = PluginOrigin::File(folder.path().join("p.wasm"));
        let plugin = PluginRef { origin, digest: None, trust: None, expected_name: None };
        let delivery = Delivery::new(None, Sites::at("n"), Metrics::default());
        let (mut first, mut second) = (delivery.subscribe(&plugin), delivery.subscribe(&plugin));
        first.changed().await;
        assert!(first.offer().trouble().is_some(), "there is no such file");
        let place = Arc::clone(first.place.as_ref().unwrap());
        assert!(Arc::ptr_eq(&place, second.place.as_ref().unwrap()), "one place, one watch");
        second.offer();

        // As a panic would: what the task holds is dropped.
        place.task.lock().unwrap().abort_all();
        let mut listeners = JoinSet::new();
        for mut listener in [first, second] {
            listeners.spawn(async move { listener.changed().await });
        }
        while let Some(ended) = listeners.join_next().await {
            let panic = ended.unwrap_err().into_panic();
            assert_eq!(panic.downcast_ref(), Some(&"the task that watches the source of the plugin crashed"));
        }
        let mut again = delivery.subscribe(&plugin);
        assert!(!Arc::ptr_eq(&place, again.place.as_ref().unwrap()), "a watch that is gone has no listener");
        again.changed().await;
        assert!(again.offer().trouble().is_some());
    }
}
