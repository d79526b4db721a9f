//! Which label keys Nodes have at all: for the message about a key that no Node has.

use std::collections::HashSet;

use crate::near;

/// How many keys are kept. A cluster with more has keys that a program generates.
const MOST: usize = 1024;

/// The keys of labels that Nodes had when they were listed or changed; at most a thousand.
#[derive(Debug, Clone, Default)]
pub struct LabelKeys(HashSet<Box<str>>);

impl LabelKeys {
    /// Whether this key would be new.
    pub(super) fn lacks(&self, key: &str) -> bool {
        self.0.len() < MOST && !self.0.contains(key)
    }

    pub(super) fn add(&mut self, key: &str) {
        if self.lacks(key) {
            self.0.insert(key.into());
        }
    }

    /// The existing key that was most likely meant by one that no Node has: a key with a typing error in it, or the
    /// same name under another prefix.
    #[must_use]
    pub fn nearest(&self, given: &str) -> Option<&str> {
        let mut known: Vec<&str> = self.0.iter().map(|key| &**key).filter(|key| *key != given).collect();
        known.sort_unstable();
        let name = |key: &'_ str| key.rsplit_once('/').map_or(key, |(_, name)| name).to_ascii_lowercase();
        let same_name = || known.iter().copied().find(|key| name(key) == name(given));
        near::nearest(given, known.iter().copied()).or_else(same_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_nearer_than_the_same_name_elsewhere() {
        let mut keys = LabelKeys::default();
        for key in ["ex.io/rack", "ex.io/spine", "topology.kubernetes.io/zone", "kubernetes.io/hostname"] {
            keys.add(key);
        }
        for (given, wanted) in [
            ("ex.io/rak", Some("ex.io/rack")),
            ("ex.io/Rack", Some("ex.io/rack")),
            ("example.com/spine", Some("ex.io/spine")),
            ("zone", Some("topology.kubernetes.io/zone")),
            ("ex.io/rack", None),
            ("volcano.sh/tor", None),
        ] {
            assert_eq!(keys.nearest(given), wanted, "{given}");
        }
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let mut keys = LabelKeys::default();
        (0..2 * MOST).for_each(|number| keys.add(&format!("generated/{number}")));
        assert_eq!(keys.0.len(), MOST);
    }
}
