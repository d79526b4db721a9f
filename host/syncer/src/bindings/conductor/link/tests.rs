use super::*;

#[test]
fn s9_a_hash_for_an_operator_is_short_and_depends_on_every_part() {
    let hash = short_hash(&["cluster", "vc/b1", "c2"]);
    assert_eq!(hash.len(), 12);
    assert_eq!(hash, short_hash(&["cluster", "vc/b1", "c2"]));
    for other in [&["cluster", "vc/b1", "c3"][..], &["clusterv", "c/b1", "c2"], &["cluster", "vc/b1"]] {
        assert_ne!(short_hash(other), hash);
    }
}
