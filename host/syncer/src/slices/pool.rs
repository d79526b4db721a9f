//! Values that many objects have in common, each held once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

/// How many values a pool has at least before it looks which of them are used.
const CLEANS_AT: usize = 1_024;

/// Values of which each is held once. What is held here alone goes when there are twice as many as were used.
pub(crate) struct Pool<T: ?Sized> {
    held: HashSet<Arc<T>>,
    cleans_at: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { held: HashSet::new(), cleans_at: CLEANS_AT }
    }
}

impl<T: ?Sized> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.held.len()).finish()
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    pub(crate) fn share<V: Borrow<T> + Into<Arc<T>>>(&mut self, value: V) -> Arc<T> {
        if let Some(known) = self.held.get(Borrow::<T>::borrow(&value)) {
            return Arc::clone(known);
        }
        if self.held.len() >= self.cleans_at {
            self.held.retain(|held| Arc::strong_count(held) > 1);
            self.cleans_at = CLEANS_AT.max(2 * self.held.len());
        }
        let shared: Arc<T> = value.into();
        self.held.insert(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_pod_has_any_more_is_not_held_for_ever() {
        let mut pool: Pool<str> = Pool::default();
        let kept = pool.share("kept");
        for number in 0..10 * CLEANS_AT {
            drop(pool.share(number.to_string().as_str()));
        }
        assert!(pool.held.len() <= CLEANS_AT, "{}", pool.held.len());
        assert!(Arc::ptr_eq(&kept, &pool.share("kept")));
    }
}
