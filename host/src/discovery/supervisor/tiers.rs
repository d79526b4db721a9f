//! Which tier name stands for which tier, over all sources (decision H15): the earlier entry wins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use topoloom_core::topology::TierNames;

use super::wake::Wake;

/// Tier names of all sources, so that the earlier entry wins (decision H15).
#[derive(Default)]
pub struct TierRegistry {
    inner: Mutex<BTreeMap<Arc<str>, Registered>>,
}

struct Registered {
    order: usize,
    names: TierNames,
    wake: Arc<Wake>,
}

impl TierRegistry {
    /// The tier names of entries before this one. The earliest use of a name stands.
    pub fn before(&self, source: &Arc<str>, order: usize) -> TierNames {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut earlier: Vec<_> = inner
            .iter()
            .filter(|(name, entry)| *name != source && entry.order < order)
            .map(|(_, entry)| entry)
            .collect();
        earlier.sort_by_key(|entry| std::cmp::Reverse(entry.order));
        earlier.into_iter().flat_map(|entry| entry.names.clone()).collect()
    }

    /// Enters the names of a source. Answers whom that concerns.
    pub(super) fn publish(
        &self,
        source: &Arc<str>,
        order: usize,
        names: TierNames,
        wake: &Arc<Wake>,
    ) -> Vec<Arc<Wake>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.get(source).is_some_and(|known| known.names == names && known.order == order) {
            return Vec::new();
        }
        inner.insert(Arc::clone(source), Registered { order, names, wake: Arc::clone(wake) });
        inner.values().filter(|entry| entry.order > order).map(|entry| Arc::clone(&entry.wake)).collect()
    }

    /// A source is gone: its names are free.
    pub(super) fn forget(&self, source: &Arc<str>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gone) = inner.remove(source) {
            for entry in inner.values().filter(|entry| entry.order > gone.order) {
                entry.wake.tiers();
            }
        }
    }
}
