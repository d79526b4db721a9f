//! Which tier name means which tier, over all sources (decision H15): the earlier entry wins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use topoloom_core::names::SourceName;
use topoloom_core::topology::{Observed, Tier, TierNameUse, TierNames};

use super::wake::Wake;

/// Tier names of all sources, so that the earlier entry wins (decision H15).
#[derive(Default)]
pub struct TierRegistry {
    inner: Mutex<BTreeMap<SourceName, Registered>>,
}

struct Registered {
    order: usize,
    /// What it last decided to write.
    names: Option<TierNames>,
    wake: Arc<Wake>,
}

impl TierRegistry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SourceName, Registered>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the position of a source. From here on, changes in earlier entries wake it.
    pub(super) fn enter(&self, source: &SourceName, order: usize, wake: &Arc<Wake>) {
        let (names, wake) = (None, Arc::clone(wake));
        self.lock().insert(source.clone(), Registered { order, names, wake });
    }

    /// The tier names of everything before a source: the entries above it, each with what it last wrote, or has stored
    /// if it wrote nothing since the start of the host; and sources without an entry, whose objects were left in the
    /// cluster. The earliest use of a name counts.
    pub(super) fn before(&self, source: &SourceName, order: usize, observed: &Observed) -> TierNames {
        let mut inner = self.lock();
        if let Some(entry) = inner.get_mut(source) {
            let moved_from = std::mem::replace(&mut entry.order, order);
            if moved_from != order {
                wake_after(&inner, order.min(moved_from), source);
            }
        }
        let mut stored: BTreeMap<&SourceName, TierNames> = BTreeMap::new();
        let silent = |owner: &SourceName| {
            owner != source && inner.get(owner).is_none_or(|entry| entry.order < order && entry.names.is_none())
        };
        for owner in observed.sources().filter(|owner| silent(owner)) {
            for object in observed.of(owner) {
                if let (Some(name), Ok(tier)) = (&object.spec.tier_name, Tier::new(object.spec.tier)) {
                    let used = TierNameUse { tier, source: owner.clone() };
                    stored.entry(owner).or_default().entry(Arc::clone(name)).or_insert(used);
                }
            }
        }
        let mut earlier: Vec<_> =
            inner.iter().filter(|(other, entry)| *other != source && entry.order < order).collect();
        earlier.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.order));
        let entered =
            earlier.into_iter().flat_map(|(other, entry)| entry.names.clone().or_else(|| stored.remove(other)));
        let mut names: TierNames = entered.flatten().collect();
        // What has no entry cannot give way.
        names.extend(stored.into_values().flatten());
        names
    }

    /// Enters the names of a source, and wakes the sources that they concern.
    pub(super) fn publish(&self, source: &SourceName, names: TierNames) {
        let mut inner = self.lock();
        let Some(entry) = inner.get_mut(source).filter(|entry| entry.names.as_ref() != Some(&names)) else { return };
        entry.names = Some(names);
        let order = entry.order;
        wake_after(&inner, order, source);
    }

    /// A source is gone: its names are free.
    pub fn forget(&self, source: &SourceName) {
        let mut inner = self.lock();
        if let Some(gone) = inner.remove(source) {
            wake_after(&inner, gone.order, source);
        }
    }
}

/// Wakes the entries from a position on, all but the one that changed.
fn wake_after(all: &BTreeMap<SourceName, Registered>, order: usize, changed: &SourceName) {
    for (_, entry) in all.iter().filter(|(source, entry)| *source != changed && entry.order >= order) {
        entry.wake.tiers();
    }
}
