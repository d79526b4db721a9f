use serde_json::json;

use super::*;
use crate::convert::binding::read;
use crate::convert::binding::tests::{around, binding};

/// A binding with this id that was made then.
fn made(name: &str, uid: &str, id: &str, created: &str) -> ClusterBinding {
    let mut made = binding(json!({"clusterID": id}));
    made.metadata.name = Some(name.to_owned());
    made.metadata.uid = Some(uid.to_owned());
    made.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
    made
}

#[test]
fn s7_of_bindings_with_one_id_the_oldest_has_it() {
    let old = made("old", "b9", "east", "2026-08-01T00:00:00Z");
    let young = made("young", "b1", "east", "2026-08-02T00:00:00Z");
    let twin = made("twin", "b2", "east", "2026-08-02T00:00:00Z");
    let west = made("west", "b3", "west", "2026-07-01T00:00:00Z");
    let unread = json!({"metadata": {"name": "unread", "uid": "b4"}, "spec": {"clusterID": 5}});
    let unread: ClusterBinding = serde_json::from_value(unread).unwrap();
    assert!(unread.spec.is_err());
    let all = [young.clone(), twin.clone(), west, old.clone(), unread];
    let earlier = |ours: &ClusterBinding| earlier_of_same_id(ours, &read(ours, &around()).unwrap().terms, &all);
    assert_eq!(earlier(&old), None);
    assert_eq!(earlier(&young).as_deref(), Some("old"));
    assert!(earlier(&twin).is_some());
    // Without the oldest one the UID decides, and never both.
    let all = [young.clone(), twin.clone()];
    let earlier = |ours: &ClusterBinding| earlier_of_same_id(ours, &read(ours, &around()).unwrap().terms, &all);
    assert_eq!((earlier(&young), earlier(&twin).as_deref()), (None, Some("young")));
}

#[test]
fn s9_a_hash_for_an_operator_is_short_and_depends_on_every_part() {
    let hash = short_hash(&["cluster", "vc/b1", "c2"]);
    assert_eq!(hash.len(), 12);
    assert_eq!(hash, short_hash(&["cluster", "vc/b1", "c2"]));
    for other in [&["cluster", "vc/b1", "c3"][..], &["clusterv", "c/b1", "c2"], &["cluster", "vc/b1"]] {
        assert_ne!(short_hash(other), hash);
    }
}
