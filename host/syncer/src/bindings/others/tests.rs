use serde_json::json;

use super::super::staged::{Server, clients};
use super::*;
use crate::convert::binding::read;
use crate::convert::binding::tests::{around, binding};

const BINDINGS: &str = "/apis/topoloom.dev/v1alpha1/clusterbindings";
const THEN: &str = "2026-08-02T00:00:00Z";

/// A binding with this id that was made then.
fn made(name: &str, uid: &str, id: &str, created: &str) -> ClusterBinding {
    let mut made = binding(json!({"clusterID": id}));
    made.metadata.name = Some(name.to_owned());
    made.metadata.uid = Some(uid.to_owned());
    made.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
    made
}

/// A look that found this binding.
fn earlier(name: &str) -> Option<Result<Option<String>, Refusal>> {
    Some(Ok(Some(name.to_owned())))
}

/// A virtual cluster with a binding that holds its namespace.
struct World {
    lent: Server,
    added: Added,
    ours: ClusterBinding,
    same_id: SameId,
}

impl World {
    async fn new() -> Self {
        let (lent, added, ours) = (Server::default(), Added::default(), made("ours", "b5", "east", THEN));
        let same_id = SameId::new(&added);
        let mut world = Self { lent, added, ours, same_id };
        world.put(&world.ours);
        assert_eq!(world.look(Look::Now).await, Some(Ok(None)));
        assert_eq!(world.lent.lists(), 1);
        world
    }

    fn put(&self, binding: &ClusterBinding) {
        let name = binding.metadata.name.as_deref().unwrap();
        self.lent.put(&format!("{BINDINGS}/{name}"), serde_json::to_value(binding).unwrap());
    }

    async fn look(&mut self, look: Look) -> Option<Result<Option<String>, Refusal>> {
        let terms = read(&self.ours, &around()).unwrap().terms;
        self.same_id.earlier(look, &clients(&self.lent, &self.lent), &self.ours, &terms).await
    }

    /// What is looked at each minute.
    async fn minute(&mut self) -> Option<Result<Option<String>, Refusal>> {
        self.look(Look::WhenDue).await
    }
}

#[test]
fn s7_of_bindings_with_one_id_the_oldest_has_it() {
    let old = made("old", "b9", "east", "2026-08-01T00:00:00Z");
    let young = made("young", "b1", "east", THEN);
    let twin = made("twin", "b2", "east", THEN);
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

#[tokio::test]
async fn s25_a_binding_beside_which_none_is_added_lists_nothing_in_any_minute() {
    let mut world = World::new().await;
    for minute in 0..10 {
        assert_eq!(world.minute().await, None, "{minute}");
    }
    assert_eq!(world.lent.lists(), 0);
    // What depends on the answer of this moment is never answered from memory.
    assert_eq!(world.look(Look::Now).await, Some(Ok(None)));
    assert_eq!(world.lent.lists(), 1);
}

#[tokio::test]
async fn s7_of_two_that_were_made_in_one_second_the_one_that_began_first_finds_the_other_in_the_next_minute() {
    let mut world = World::new().await;
    // It has the smaller UID, and was made after the look.
    world.put(&made("twin", "b4", "east", THEN));
    world.added.note();
    assert_eq!(world.minute().await, earlier("twin"));
    // One that is no rival is looked at once.
    let mut world = World::new().await;
    world.put(&made("west", "b4", "west", THEN));
    world.added.note();
    world.added.note();
    assert_eq!(world.minute().await, Some(Ok(None)));
    assert_eq!((world.minute().await, world.lent.lists()), (None, 1));
}

#[tokio::test]
async fn s7_one_that_is_added_while_the_list_is_under_way_is_looked_for_again() {
    let mut world = World::new().await;
    world.added.note();
    let added = world.added.clone();
    let (found, ()) = tokio::join!(world.minute(), async { added.note() });
    assert_eq!(found, Some(Ok(None)));
    world.put(&made("twin", "b4", "east", THEN));
    assert_eq!(world.minute().await, earlier("twin"));
    assert_eq!(world.lent.lists(), 2);
}

#[tokio::test]
async fn s25_after_a_virtual_cluster_was_set_back_the_next_minute_looks_whatever_was_counted() {
    let mut world = World::new().await;
    // A rival that had been deleted before the process began is there again.
    world.put(&made("old", "b9", "east", "2026-08-01T00:00:00Z"));
    assert_eq!(world.minute().await, None);
    world.same_id.forget();
    assert_eq!(world.minute().await, earlier("old"));
    assert_eq!(world.lent.lists(), 1);
}

#[tokio::test]
async fn s7_a_list_that_fails_is_no_look() {
    let mut world = World::new().await;
    world.put(&made("twin", "b4", "east", THEN));
    world.added.note();
    world.lent.forbid("list", "clusterbindings");
    for minute in 0..2 {
        assert!(world.minute().await.is_some_and(|looked| looked.is_err()), "{minute}");
    }
    world.lent.allow();
    assert_eq!(world.minute().await, earlier("twin"));
}
