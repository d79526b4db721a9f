//! What lists, events and answers of our own writes make of the cache.

use serde_json::json;

use super::*;

fn object(name: &str, uid: &str, version: u64, tier: u32) -> HyperNode {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"tier": tier, "members": []},
    }))
    .unwrap()
}

/// Takes in a whole list as of a version; gives the versions that contradict each other.
fn lists(
    inner: &mut ObservedState,
    earlier: Earlier,
    objects: &[HyperNode],
    version: u64,
) -> Option<(ResourceVersion, ResourceVersion)> {
    let mut list = inner.begin(earlier);
    objects.iter().for_each(|object| inner.list(&mut list, object.clone()));
    inner.reset(list, &version.to_string().into()).went_back
}

/// Every object as `NAME@VERSION`.
fn known(inner: &ObservedState) -> Vec<String> {
    let all = inner.objects.values().map(|stored| &stored.object);
    all.map(|object| format!("{}@{}", object.name, object.resource_version)).collect()
}

#[test]
fn a_list_replaces_what_is_known_but_not_what_was_written_since() {
    let mut inner = ObservedState::default();
    lists(&mut inner, Earlier::Valid, &[object("a", "1", 3, 1), object("b", "2", 4, 1)], 5);
    assert_eq!(known(&inner), ["a@3", "b@4"]);
    let mut list = inner.begin(Earlier::Valid);
    // What the list shows was so at 7. After that, two of our writes are answered.
    inner.list(&mut list, object("a", "1", 6, 1));
    inner.put(&object("a", "1", 8, 2));
    inner.put(&object("c", "3", 9, 2));
    assert_eq!(known(&inner), ["a@8", "b@4", "c@9"]);
    let step = inner.reset(list, &"7".into());
    assert_eq!((known(&inner), step.went_back), (vec!["a@8".to_owned(), "c@9".to_owned()], None));
}

#[test]
fn an_object_that_we_deleted_stays_away_until_a_later_list_has_it() {
    let hyper_nodes = HyperNodes::default();
    let a = object("a", "1", 3, 1);
    lists(&mut hyper_nodes.lock(), Earlier::Valid, std::slice::from_ref(&a), 5);
    let mut inner = hyper_nodes.lock();
    let mut list = inner.begin(Earlier::Valid);
    inner.list(&mut list, a.clone());
    drop(inner);
    hyper_nodes.gone("a", &"1".into());
    let mut inner = hyper_nodes.lock();
    inner.reset(list, &"6".into());
    assert_eq!(known(&inner), [""; 0], "the list was made before");
    inner.put(&a);
    assert_eq!(known(&inner), [""; 0], "so was the event");
    lists(&mut inner, Earlier::Valid, &[a], 7);
    assert_eq!(known(&inner), ["a@3"], "this list was made after: it was restored");
}

#[test]
fn after_a_restore_everything_is_replaced_whatever_its_version() {
    let mut inner = ObservedState::default();
    lists(&mut inner, Earlier::Valid, &[object("a", "1", 50, 2), object("b", "2", 60, 1)], 70);
    let back = lists(&mut inner, Earlier::Void, &[object("a", "1", 30, 1)], 40);
    assert_eq!((known(&inner), back), (vec!["a@30".to_owned()], None));
    inner.put(&object("a", "1", 41, 3));
    assert_eq!(known(&inner), ["a@41"], "versions count again");
    inner.put(&object("a", "1", 40, 1));
    assert_eq!(known(&inner), ["a@41"]);
}

#[test]
fn a_list_that_broke_off_after_a_restore_leaves_the_next_one_to_replace_everything() {
    let mut inner = ObservedState::default();
    lists(&mut inner, Earlier::Valid, &[object("a", "1", 50, 2)], 70);
    drop(inner.begin(Earlier::Void));
    lists(&mut inner, Earlier::Valid, &[object("a", "1", 30, 1)], 40);
    assert_eq!(known(&inner), ["a@30"]);
}

#[test]
fn a_restore_with_a_raised_revision_shows_by_an_object_that_is_older_than_it_was() {
    let mut inner = ObservedState::default();
    lists(&mut inner, Earlier::Valid, &[object("a", "1", 50, 2), object("b", "2", 60, 1)], 70);
    let back = lists(&mut inner, Earlier::Valid, &[object("a", "1", 30, 1), object("b", "2", 60, 1)], 1_000_000);
    assert_eq!(back, Some(("50".into(), "30".into())));
    assert_eq!(known(&inner), ["a@30", "b@60"]);
    // An object that was created again under its name has a version of its own.
    assert_eq!(lists(&mut inner, Earlier::Valid, &[object("a", "3", 20, 1)], 1_000_001), None);
}
