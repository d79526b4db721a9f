//! What a follower keeps warm, so that its first round starts at once when it gets the lease: for every enabled entry
//! the compiled plugin, configured, and the columns of Nodes that it reads.
//!
//! It calls no service outside but registries that plugins come from, and writes nothing: no round runs here. What fails is
//! tried again when the configuration or the plugin changes; the leader reports it, not the follower.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use topoloom_core::names::SourceName;

use crate::cluster::nodes::Interest;
use crate::config::{EntryConfig, Load};
use crate::delivery::Subscription;
use crate::discovery::revision::{Revision, prepare};
use crate::discovery::supervisor::SourceContext;

/// How long the first list of Nodes waits for the plugins' wishes.
const FIRST_WISHES: Duration = Duration::from_secs(5);

/// Everything that is warm. It stays warm for as long as this lives.
pub struct Standby {
    shared: Arc<SourceContext>,
    /// The configuration as it was last received.
    last: Option<Load>,
    entries: BTreeMap<SourceName, Arc<EntryConfig>>,
    tasks: JoinSet<()>,
}

impl Standby {
    /// Nothing yet.
    #[must_use]
    pub fn new(shared: Arc<SourceContext>) -> Self {
        Self { shared, last: None, entries: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Warms until the lease is granted. Of the configurations received meanwhile only the last counts: no source
    /// of ours ran with it.
    pub async fn until(&mut self, granted: impl Future<Output = ()>, loads: &mut UnboundedReceiver<Load>) {
        let mut granted = std::pin::pin!(granted);
        let mut patience = std::pin::pin!(tokio::time::sleep(FIRST_WISHES));
        let mut first = true;
        loop {
            tokio::select! {
                biased;
                () = &mut granted => return,
                Some(load) = loads.recv() => {
                    self.warm(&load);
                    self.last = Some(load);
                    if self.entries.is_empty() && std::mem::take(&mut first) {
                        self.shared.nodes.begin();
                    }
                }
                () = &mut patience, if first => {
                    first = false;
                    self.shared.nodes.begin();
                }
                // A panic there harms no source: the source will meet it, and report it.
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
            }
        }
    }

    /// The last configuration, once.
    pub fn take_last(&mut self) -> Option<Load> {
        self.last.take()
    }

    fn warm(&mut self, load: &Load) {
        let Some(document) = load.document() else { return };
        let wanted: BTreeMap<SourceName, Arc<EntryConfig>> =
            document.enabled().map(|entry| (entry.source.clone(), Arc::new(entry.clone()))).collect();
        let hashes = |entries: &BTreeMap<SourceName, Arc<EntryConfig>>| -> Vec<_> {
            entries.values().map(|entry| entry.hash).collect()
        };
        if hashes(&wanted) == hashes(&self.entries) {
            return;
        }
        self.entries.clone_from(&wanted);
        // What is kept by the old tasks goes only when the new ones have begun, so machine code in use stays in use.
        let old = std::mem::take(&mut self.tasks);
        for entry in wanted.into_values() {
            let place = self.shared.supply.delivery.subscribe(&entry.plugin);
            self.tasks.spawn(keep_warm(Arc::clone(&self.shared), entry, place));
        }
        drop(old);
    }
}

/// What is kept: dropping it lets columns and machine code go.
type Warm = (Revision, Interest);

async fn keep_warm(shared: Arc<SourceContext>, entry: Arc<EntryConfig>, mut place: Subscription) {
    let mut warm: Option<Warm> = None;
    loop {
        let module = place.offer().module().cloned();
        let both = warm.as_ref().zip(module.as_ref());
        // It stays warm while its place gives nothing newer.
        let is_warm = both.is_some_and(|((revision, _), module)| revision.module == *module);
        if let Some(module) = module.filter(|_| !is_warm) {
            let objects = shared.objects(&entry).await;
            match prepare(shared.host(&objects), Arc::clone(&entry), module, None).await {
                Ok(revision) => {
                    let interest = shared.nodes.keep(revision.keys.clone());
                    tracing::debug!(source = &*entry.source, plugin = revision.description.name, "warm");
                    warm = Some((revision, interest));
                }
                Err(refused) => {
                    tracing::debug!(source = &*entry.source, reason = %refused.reason, "a plugin could not be prepared in advance");
                }
            }
            shared.nodes.begin();
        }
        place.changed().await;
        // Held until something else is warm.
        let _ = &warm;
    }
}
