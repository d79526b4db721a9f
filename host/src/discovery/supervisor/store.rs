//! Stores the active and the earlier modules, so that a rollback works after a restart, on any node (decision P5).
//!
//! Failure story: what cannot be stored is named by the condition `ModuleNotStored`, a metric and the log, and is tried
//! again after pauses that grow, for as long as the source wants it. The active plugin continues meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use topoloom_core::plugin::Digest;

use super::Supervisor;
use super::swap::named;
use crate::delivery::Module;
use crate::delivery::modules::StoreError;

/// The first pause before a module is stored once more.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest of these pauses: what refuses, like a quota or a missing right, waits for a person.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How long the process waits for modules that are being stored when it stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// The modules that must be stored and are stored nowhere so far.
#[derive(Default)]
pub(super) struct Storing {
    missing: Vec<Arc<Module>>,
    /// What was stored since the start of the host.
    stored: BTreeSet<Digest>,
    /// All modules that the source needs stored.
    wanted: Vec<Digest>,
    pause: Duration,
}

/// A module that could not be stored, and why.
pub(super) type Unstored = (Arc<Module>, StoreError);

impl Storing {
    /// Another plugin serves: it should be stored, and what served until now, which may have had no time for that. Of all
    /// modules these should be kept. What could not be stored before and is still wanted is tried with them.
    fn request(&mut self, serving: Arc<Module>, earlier: Option<Arc<Module>>, wanted: Vec<Digest>) {
        self.missing.retain(|module| wanted.contains(&module.digest));
        self.stored.retain(|digest| wanted.contains(digest));
        let earlier = earlier.filter(|module| !self.stored.contains(&module.digest));
        for module in earlier.into_iter().chain([serving]) {
            if !self.missing.iter().any(|missing| missing.digest == module.digest) {
                self.missing.push(module);
            }
        }
        self.wanted = wanted;
        self.pause = Duration::ZERO;
    }

    /// An attempt ended, and these were not stored.
    fn ended(&mut self, unstored: &[Unstored]) {
        self.stored.extend(self.missing.iter().map(|module| module.digest));
        self.missing = unstored.iter().map(|(module, _)| Arc::clone(module)).collect();
        for module in &self.missing {
            self.stored.remove(&module.digest);
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
    }
}

impl Supervisor {
    /// Stores what serves and what served before it.
    pub(super) fn store(&mut self) {
        let rollout = &self.serving.rollout;
        let Some(serving) = rollout.revision() else { return };
        let earlier = rollout.earlier().map(|revision| Arc::clone(&revision.module));
        let waiting = rollout.candidate().map(|candidate| candidate.digest);
        let wanted = self.serving.wanted(self.pins()).map(|(wanted, _)| wanted);
        let digests = [serving.module.digest].into_iter().chain(rollout.previous()).chain(waiting).chain(wanted);
        self.storing.request(Arc::clone(&serving.module), earlier, digests.collect());
        self.try_to_store();
    }

    fn try_to_store(&mut self) {
        let (shared, source) = (Arc::clone(&self.shared), self.source.clone());
        let Storing { missing, wanted, pause, stored: _ } = &self.storing;
        let (missing, wanted, pause) = (missing.clone(), wanted.clone(), *pause);
        // Only the latest wish counts.
        self.storing_now = JoinSet::new();
        self.storing_now.spawn(async move {
            tokio::time::sleep(pause).await;
            let mut unstored = Vec::new();
            for module in missing {
                if let Err(error) = shared.supply.modules.keep(&source, &module, wanted.iter().copied()).await {
                    unstored.push((module, error));
                }
            }
            unstored
        });
    }

    /// An attempt to store modules ended; these are stored nowhere.
    pub(super) fn stored(&mut self, unstored: &[Unstored]) {
        self.storing.ended(unstored);
        for (module, error) in unstored {
            tracing::warn!(
                source = &*self.source,
                digest = %module.digest,
                %error,
                again_in = ?self.storing.pause,
                "a plugin cannot be stored: after a restart a rollback to it is not possible"
            );
        }
        let revisions = self.serving.rollout.revision().into_iter().chain(self.serving.rollout.earlier());
        let names: Vec<(Digest, String)> =
            revisions.map(|revision| (revision.module.digest, named(revision))).collect();
        let unstored: Vec<(String, String)> = unstored
            .iter()
            .map(|(module, error)| {
                let name = names.iter().find(|(digest, _)| *digest == module.digest).map(|(_, name)| name.clone());
                (name.unwrap_or_else(|| module.digest.short().to_string()), error.to_string())
            })
            .collect();
        self.shared.metrics.not_stored(&self.source, unstored.len());
        self.report.stored(&unstored, LONGEST_PAUSE);
        if !unstored.is_empty() {
            self.try_to_store();
        }
    }

    /// The active plugin should be there after the host's restart, too: waits a moment for running writes of the store.
    pub(super) async fn finish_storing(&mut self) {
        let all = async {
            while let Some(Ok(unstored)) = self.storing_now.join_next().await {
                self.stored(&unstored);
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!(source = &*self.source, "the process stops before all plugins of the source were stored");
        }
    }
}

#[cfg(test)]
mod tests {
    use topoloom_api::discovery_source::PluginOrigin;

    use super::*;
    use crate::delivery::modules::{ClusterError, FolderError};

    fn module(name: &str) -> Arc<Module> {
        Arc::new(Module::plain(Arc::from(name.as_bytes()), PluginOrigin::File))
    }

    fn refused(module: &Arc<Module>) -> Unstored {
        let (cluster, folder) = (ClusterError::Absent, FolderError::Absent);
        (Arc::clone(module), StoreError::Nowhere { cluster, folder })
    }

    fn missing(storing: &Storing) -> Vec<Digest> {
        storing.missing.iter().map(|module| module.digest).collect()
    }

    #[test]
    fn what_could_not_be_stored_is_tried_again_less_and_less_often() {
        let (mut storing, a) = (Storing::default(), module("a"));
        storing.request(Arc::clone(&a), None, vec![a.digest]);
        assert_eq!(storing.pause, Duration::ZERO, "at once");
        for seconds in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            storing.ended(&[refused(&a)]);
            assert_eq!((missing(&storing), storing.pause), (vec![a.digest], Duration::from_secs(seconds)));
        }
        storing.ended(&[]);
        assert!(missing(&storing).is_empty());
    }

    #[test]
    fn another_swap_tries_at_once_and_forgets_only_what_is_not_wanted_any_more() {
        let (mut storing, a, b, c) = (Storing::default(), module("a"), module("b"), module("c"));
        storing.request(Arc::clone(&b), Some(Arc::clone(&a)), vec![a.digest, b.digest]);
        assert_eq!(missing(&storing), [a.digest, b.digest]);
        storing.ended(&[refused(&a), refused(&b)]);
        storing.request(Arc::clone(&c), Some(Arc::clone(&b)), vec![b.digest, c.digest]);
        assert_eq!((missing(&storing), storing.pause), (vec![b.digest, c.digest], Duration::ZERO));
    }

    #[test]
    fn what_served_until_now_and_was_stored_is_not_stored_again() {
        let (mut storing, a, b) = (Storing::default(), module("a"), module("b"));
        storing.request(Arc::clone(&a), None, vec![a.digest]);
        storing.ended(&[]);
        storing.request(Arc::clone(&b), Some(Arc::clone(&a)), vec![a.digest, b.digest]);
        assert_eq!(missing(&storing), [b.digest], "that it cannot be created again is no failure");
        storing.ended(&[refused(&b)]);
        // It served in between and was let go: what serves is always stored.
        storing.request(Arc::clone(&a), Some(Arc::clone(&b)), vec![a.digest, b.digest]);
        assert_eq!(missing(&storing), [b.digest, a.digest]);
    }
}
