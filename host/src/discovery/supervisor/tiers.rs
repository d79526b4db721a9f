//! Which tier name stands for which tier, over all sources (decision H15): the earlier entry wins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Registered>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters where a source stands, and gives the tier names of the entries before it; the earliest use of a name
    /// stands. From here on the source hears of what changes before it, so a change in this very moment is not missed.
    pub(super) fn before(&self, source: &Arc<str>, order: usize, wake: &Arc<Wake>) -> TierNames {
        let mut inner = self.lock();
        let entry = inner.entry(Arc::clone(source)).or_insert_with(|| Registered {
            order,
            names: TierNames::new(),
            wake: Arc::clone(wake),
        });
        let moved_from = std::mem::replace(&mut entry.order, order);
        if moved_from != order {
            wake_after(&inner, order.min(moved_from), source);
        }
        let mut earlier: Vec<_> = inner.values().filter(|entry| entry.order < order).collect();
        earlier.sort_by_key(|entry| std::cmp::Reverse(entry.order));
        earlier.into_iter().flat_map(|entry| entry.names.clone()).collect()
    }

    /// Enters the names of a source, and wakes whom that concerns.
    pub(super) fn publish(&self, source: &Arc<str>, names: TierNames) {
        let mut inner = self.lock();
        let Some(entry) = inner.get_mut(source).filter(|entry| entry.names != names) else { return };
        entry.names = names;
        let order = entry.order;
        wake_after(&inner, order, source);
    }

    /// A source is gone: its names are free.
    pub(super) fn forget(&self, source: &Arc<str>) {
        let mut inner = self.lock();
        if let Some(gone) = inner.remove(source) {
            wake_after(&inner, gone.order, source);
        }
    }
}

/// Wakes the entries from a position on, all but the one that changed.
fn wake_after(all: &BTreeMap<Arc<str>, Registered>, order: usize, changed: &Arc<str>) {
    for (_, entry) in all.iter().filter(|(source, entry)| *source != changed && entry.order >= order) {
        entry.wake.tiers();
    }
}
