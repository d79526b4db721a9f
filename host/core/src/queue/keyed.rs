//! The last request about each key, apart from the queue of keys: retries count per key and not per request (R9).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::NotAdded;

/// One request per key: a newer one is merged into the present one.
#[derive(Debug, Clone)]
pub struct Keyed<K, V> {
    requests: BTreeMap<K, V>,
    capacity: NonZeroUsize,
    merge: fn(older: V, newer: V) -> V,
}

impl<K: Ord + Clone, V> Keyed<K, V> {
    /// Only the newest request counts.
    #[must_use]
    pub fn latest(capacity: NonZeroUsize) -> Self {
        Self::merging(capacity, |_, newer| newer)
    }

    /// Two requests about one key are merged into one.
    #[must_use]
    pub fn merging(capacity: NonZeroUsize, merge: fn(older: V, newer: V) -> V) -> Self {
        Self { requests: BTreeMap::new(), capacity, merge }
    }

    /// Notes a request. The caller adds its key to the queue afterwards.
    ///
    /// # Errors
    /// [`NotAdded::Full`]: there are too many keys, and nothing was noted.
    pub fn put(&mut self, key: K, request: V) -> Result<(), NotAdded> {
        let request = match self.requests.remove(&key) {
            Some(older) => (self.merge)(older, request),
            None if self.requests.len() >= self.capacity.get() => return Err(NotAdded::Full),
            None => request,
        };
        self.requests.insert(key, request);
        Ok(())
    }

    /// Adds a failed request again; a request that was added meanwhile is newer. There is always room: only a key that
    /// is worked on right now can be added again.
    pub fn put_back(&mut self, key: K, request: V) {
        let request = match self.requests.remove(&key) {
            Some(newer) => (self.merge)(request, newer),
            None => request,
        };
        self.requests.insert(key, request);
    }

    /// Takes the request about a key, if it was not taken already.
    pub fn take(&mut self, key: &K) -> Option<V> {
        self.requests.remove(key)
    }

    /// How many keys have a request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

    #[test]
    fn the_newest_request_counts_and_is_taken_once() {
        let mut requests = Keyed::latest(TWO);
        requests.put("a", 1).unwrap();
        requests.put("a", 2).unwrap();
        assert_eq!((requests.take(&"a"), requests.take(&"a")), (Some(2), None));
    }

    #[test]
    fn a_failed_request_is_older_than_one_that_came_meanwhile() {
        let mut latest = Keyed::latest(TWO);
        latest.put("a", 2).unwrap();
        latest.put_back("a", 1);
        assert_eq!(latest.take(&"a"), Some(2));
        let mut merged = Keyed::merging(TWO, |older: String, newer| older + &newer);
        merged.put("a", "2".to_owned()).unwrap();
        merged.put("a", "3".to_owned()).unwrap();
        merged.put_back("a", "1".to_owned());
        assert_eq!(merged.take(&"a").as_deref(), Some("123"));
    }

    #[test]
    fn a_key_too_many_is_refused_and_the_others_stay() {
        let mut requests = Keyed::latest(TWO);
        requests.put("a", 1).unwrap();
        requests.put("b", 1).unwrap();
        assert_eq!(requests.put("c", 1), Err(NotAdded::Full));
        requests.put("a", 2).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests.take(&"a"), Some(2));
        requests.put("c", 1).unwrap();
        requests.put_back("a", 2);
        assert_eq!(requests.len(), 3, "what was accepted once is not lost");
    }
}
