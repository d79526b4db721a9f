//! What of a write finds room among the annotations of a virtual node (decisions S10, S12, S13 and S17).
//!
//! An API server refuses an object whose annotations are larger together than [`ANNOTATIONS_MAX`], whatever else is written with
//! them: a user who fills them up would keep taints, sizes and marks from being written. A patch carries the version that it was
//! made from, so it is known before it is sent how large they would be.
//!
//! Owns which annotations of ours give way: first what only informs a person, then what costs least when a later process does not
//! find it. Labels, taints, the cordon and the status never do, and no annotation of another client is ever touched.
//!
//! # Failure story
//!
//! What finds no room is tried again with each look, and written when there is some. Until then the process remembers the closing of
//! the windows. A later process does not: pods have more time then, and never less.

use std::collections::BTreeMap;

use super::{Metadata, MetadataPatch, OWN_ANNOTATIONS, is_of_the_merge};
use crate::copied::{ANNOTATIONS_MAX, annotation_bytes};
use crate::keys;
use crate::texts::{Keyed, TextMap};

/// Annotations of ours that only inform a person. They give way to all others.
pub const INFORMATION: [&str; 3] = [keys::LAST_SYNC_TIME, keys::LEASE_SUMMARY, keys::POLICY_DETAILS];

/// What comes first where not all finds room. Of the first one nothing else says what it says: without it a closing does not count as
/// announced. Without the others a later process takes our cordon for that of another client, or begins a grace again.
const FIRST: [&str; 8] = [
    keys::POLICIES_APPLIED,
    keys::CORDONED,
    keys::DELETION_TAINT_TIME,
    keys::RECLAIM_GRACE,
    keys::RECLAIM_SINCE,
    keys::RECLAIM_STARTED,
    keys::RECLAIM_MARKED,
    keys::EXPECTED_METADATA,
];

/// Annotations to set, and those to remove (`None`).
type Changes = BTreeMap<String, Option<String>>;

impl Metadata {
    /// The annotations of other clients, which are neither ours nor copied, each with its bytes.
    pub(crate) fn annotations_of_others(&self) -> impl Iterator<Item = (&str, usize)> {
        let base = self.base().unwrap_or_default();
        let is_ours =
            move |key: &str| base.annotations.contains(key) || OWN_ANNOTATIONS.contains(&key) || is_of_the_merge(key);
        let others = self.annotations.texts().filter(move |(key, _)| !is_ours(key));
        others.map(|(key, value)| (key, key.len() + value.len()))
    }
}

impl MetadataPatch {
    /// The same with the annotations that find room beside what is there.
    #[must_use]
    pub fn fitting(self, existing: &Metadata) -> Self {
        Self { annotations: fitting(self.annotations, &existing.annotations), ..self }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// These changes of annotations, as far as they find room beside what is there.
pub(crate) fn fitting(mut changes: Changes, there: &TextMap) -> Changes {
    if bytes_after(&changes, there) <= ANNOTATIONS_MAX {
        return changes;
    }
    for key in INFORMATION {
        changes.remove(key);
        if there.contains_key(key) {
            changes.insert(key.to_owned(), None);
        }
    }
    let (mut fitting, set): (Changes, Changes) = changes.into_iter().partition(|(_, value)| value.is_none());
    let mut room = ANNOTATIONS_MAX.saturating_sub(bytes_after(&fitting, there));
    let mut set: Vec<(String, String)> = set.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    set.sort_by_key(|(key, _)| FIRST.iter().position(|first| *first == key.as_str()).unwrap_or(FIRST.len()));
    for (key, value) in set {
        let has = room + there.get(&key).map_or(0, |before| key.len() + before.len());
        if let Some(left) = has.checked_sub(key.len() + value.len()) {
            room = left;
            fitting.insert(key, Some(value));
        }
    }
    fitting
}

/// How many bytes all annotations have after these changes.
fn bytes_after(changes: &Changes, there: &TextMap) -> usize {
    let changed = |(key, _): (&String, _)| there.get(key).map_or(0, |before| key.len() + before.len());
    let set = changes.iter().filter_map(|(key, value)| Some(key.len() + value.as_ref()?.len()));
    let before = annotation_bytes(there).saturating_sub(changes.iter().map(changed).sum());
    before.saturating_add(set.sum())
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::super::{Cordon, Wanted, merge};
    use super::*;

    fn text(bytes: usize) -> String {
        "x".repeat(bytes)
    }

    fn set<const N: usize>(changes: [(&str, &str); N]) -> Changes {
        changes.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned()))).collect()
    }

    fn goes(key: &str) -> (String, Option<String>) {
        (key.to_owned(), None)
    }

    #[test]
    fn s12_what_finds_room_is_written_as_it_is() {
        let there = map([("user", &text(ANNOTATIONS_MAX - 6)), ("a", "1")]);
        assert_eq!(fitting(set([("a", "2")]), &there), set([("a", "2")]), "to the last byte");
        let changes: Changes = set([("big", &text(1_000))]).into_iter().chain([goes("user")]).collect();
        assert_eq!(fitting(changes.clone(), &there), changes, "what goes makes room");
    }

    #[test]
    fn s12_what_only_informs_makes_room_and_what_a_later_process_needs_most_comes_first() {
        let (summary, details) = (text(400), text(100));
        let own: usize =
            annotation_bytes(&map::<_, TextMap>([(keys::LEASE_SUMMARY, &summary), (keys::POLICY_DETAILS, &details)]));
        let user = text(ANNOTATIONS_MAX - own - "user".len());
        let there = map([("user", &user), (keys::LEASE_SUMMARY, &summary), (keys::POLICY_DETAILS, &details)]);
        let wanted = set([
            (keys::LAST_SYNC_TIME, "2026-08-03T12:00:00Z"),
            (keys::RECLAIM_STARTED, "2026-08-03T12:00:00Z"),
            (keys::EXPECTED_METADATA, &text(600)),
        ]);
        let without: Changes = [goes(keys::LEASE_SUMMARY), goes(keys::POLICY_DETAILS)].into();
        let started = set([(keys::RECLAIM_STARTED, "2026-08-03T12:00:00Z")]);
        let fits: Changes = without.into_iter().chain(started).collect();
        assert_eq!(fitting(wanted, &there), fits);
    }

    #[test]
    fn s10_s17_where_no_byte_is_left_only_what_is_no_annotation_is_written() {
        let there = Metadata { annotations: map([("user", &text(ANNOTATIONS_MAX - 4))]), ..Metadata::default() };
        let patch = MetadataPatch { annotations: set([(keys::CORDONED, "true")]), ..MetadataPatch::default() };
        assert!(patch.clone().fitting(&there).is_empty());
        let fits = MetadataPatch { cordon: Some(Cordon::Cordoned), ..patch }.fitting(&there);
        assert!(!fits.is_empty() && fits.annotations.is_empty(), "{fits:?}");
    }

    #[test]
    fn s12_of_the_annotations_only_those_of_other_clients_are_counted_as_theirs() {
        let (nothing, wanted) =
            (Metadata::default(), Wanted { annotations: map([("copied", "1")]), ..Wanted::default() });
        let mut node = merge(&wanted, &nothing).patch.unwrap().onto(&nothing);
        node.annotations.extend([("user", "xy"), (keys::LEASE_SUMMARY, "edited"), (keys::CORDONED, "true")]);
        assert_eq!(node.annotations_of_others().collect::<Vec<_>>(), [("user", 6)]);
    }
}
