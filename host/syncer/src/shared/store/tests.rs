use std::collections::BTreeMap;

use proptest::prelude::*;
use topoloom_cluster::RefusalReason;

use super::*;

/// A pod: its node, and a number that changes.
type Pod = (Option<Arc<str>>, u64);

fn store() -> Store<Pod> {
    Store::new(|pod| pod.0.as_ref(), |_| None)
}

/// One that shows two objects at a time, and whose log has three changes, and a hundred bytes of what is gone.
fn small() -> Store<Pod> {
    Store { bounds: Bounds { log: 3, ended: 100, portion: 2 }, ..store() }
}

fn pod(node: &str, number: u64) -> Option<Arc<Pod>> {
    Some(Arc::new((Some(node.into()), number)))
}

fn listed(store: &mut Store<Pod>, pods: &[(&str, u64)]) {
    store.begin(0, Epoch::default());
    for (key, number) in pods {
        store.put(key, pod("w1", *number), 0);
    }
    store.whole("9".into());
}

fn refusal(message: &str) -> Refusal {
    Refusal { reason: RefusalReason::Forbidden, message: message.to_owned(), retry_after: None }
}

/// What a follower is shown, in words.
fn words(store: &Store<Pod>, cursor: &mut Cursor<Pod>) -> Vec<String> {
    let word = |shown: Shown<Pod>| {
        let number = shown.object.map_or_else(|| "?".to_owned(), |pod| pod.1.to_string());
        format!("{}={number}", shown.key)
    };
    let words = store.take(cursor).into_iter().map(|step| match step {
        Step::Begins(mark) => format!("begins {}", mark.number),
        Step::Listed(shown) => format!("listed {}", word(shown)),
        Step::Whole(mark, version) => format!("whole {} {version}", mark.number),
        Step::Changed(shown) => format!("changed {}", word(shown)),
        Step::Gone(shown) => format!("gone {}", word(shown)),
        Step::Opened => "opened".to_owned(),
        Step::Failed(refusal) => format!("failed {}", refusal.message),
        Step::GivenUp(refusal) => format!("given up {}", refusal.message),
    });
    words.collect()
}

fn cursor() -> Cursor<Pod> {
    Cursor::new(Epoch::default())
}

#[test]
fn s21_the_part_is_known_that_has_most_of_what_is_held() {
    let mut store = store();
    let largest = |store: &Store<Pod>| store.largest(|pod| pod.0.as_ref());
    assert_eq!(largest(&store), None);
    store.begin(0, Epoch::default());
    for (key, part, weight) in [("a", "team", 10), ("b", "shop", 15), ("c", "team", 10)] {
        store.put(key, pod(part, 1), weight);
    }
    store.put("d", Some(Arc::new((None, 1))), 100);
    assert_eq!(largest(&store).as_deref(), Some("team"));
}

#[test]
fn the_key_of_a_new_object_is_its_own_text_where_that_says_the_same() {
    let mut store: Store<(Arc<str>, u64)> = Store::new(|_| None, |(own, _)| Some(Arc::clone(own)));
    let (own, other): (Arc<str>, Arc<str>) = ("a".into(), "other".into());
    store.put("a", Some(Arc::new((Arc::clone(&own), 1))), 0);
    store.put("b", Some(Arc::new((Arc::clone(&other), 1))), 0);
    store.put("c", None, 0);
    let keys: Vec<&Arc<str>> = store.objects.keys().collect();
    assert_eq!(keys.iter().map(|key| &***key).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(Arc::ptr_eq(keys[0], &own) && !Arc::ptr_eq(keys[1], &other));
}

#[test]
fn all_objects_are_those_that_are_there_and_were_read() {
    let mut store = store();
    listed(&mut store, &[("a", 1), ("b", 2), ("c", 3)]);
    store.put("unreadable", None, 0);
    store.remove("b", None, 0);
    let numbers: Vec<u64> = store.objects().map(|pod| pod.1).collect();
    assert_eq!(numbers, [1, 3]);
}

#[test]
fn s21_a_follower_sees_a_whole_list_and_then_each_change() {
    let (mut store, mut cursor) = (store(), cursor());
    assert_eq!(words(&store, &mut cursor), [""; 0]);
    store.begin(0, Epoch::default());
    store.put("a", pod("w1", 1), 0);
    assert_eq!(words(&store, &mut cursor), ["begins 1", "listed a=1"]);
    store.put("b", pod("w1", 1), 0);
    assert_eq!(words(&store, &mut cursor), ["listed b=1"]);
    assert!(!cursor.is_whole());
    store.whole("9".into());
    assert_eq!(words(&store, &mut cursor), ["whole 1 9"]);
    assert!(cursor.is_whole());
    store.put("b", pod("w1", 2), 0);
    store.remove("a", pod("w1", 7), 0);
    assert_eq!(words(&store, &mut cursor), ["changed b=2", "gone a=7"]);
    assert_eq!(words(&store, &mut cursor), [""; 0]);
}

#[test]
fn s21_one_that_comes_late_sees_what_is_there_as_a_list() {
    let mut store = store();
    listed(&mut store, &[("a", 1), ("b", 1), ("c", 1)]);
    store.put("b", pod("w1", 2), 0);
    store.remove("c", pod("w1", 3), 0);
    let mut late = cursor();
    let seen = words(&store, &mut late);
    // What ended a moment ago is shown in its last state, and as gone.
    assert_eq!(seen, ["begins 1", "listed a=1", "listed b=2", "listed c=3", "whole 1 9", "gone c=3"]);
    // Also where the log does not reach back any more.
    for number in 0..=LOG as u64 {
        store.put("b", pod("w1", number), 0);
    }
    let mut later = cursor();
    let mut seen = words(&store, &mut later);
    seen.sort();
    assert_eq!(seen, ["begins 1".to_owned(), "listed a=1".into(), format!("listed b={LOG}"), "whole 1 9".into()]);
    assert_eq!(words(&store, &mut later), [""; 0]);
}

#[test]
fn s21_a_slow_follower_sees_the_latest_state_and_each_end_and_a_list_where_it_was_too_slow() {
    let (mut store, mut slow) = (store(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1)]);
    words(&store, &mut slow);
    for number in 2..100 {
        store.put("a", pod("w1", number), 0);
    }
    store.put("c", pod("w1", 1), 0);
    store.remove("c", pod("w1", 2), 0);
    assert_eq!(words(&store, &mut slow), ["changed a=99", "changed c=2", "gone c=2"], "a whole life is a life");
    store.remove("b", pod("w1", 5), 0);
    for number in 0..=LOG as u64 {
        store.put("a", pod("w1", number), 0);
    }
    assert_eq!(words(&store, &mut slow), ["begins 1".to_owned(), format!("listed a={LOG}"), "whole 1 9".into()]);
    assert_eq!(store.log.len(), LOG);
}

#[test]
fn s21_what_is_there_is_listed_in_portions_and_what_changes_between_two_of_them_is_shown_as_it_is_then() {
    let (mut store, mut slow) = (small(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
    assert_eq!(words(&store, &mut slow), ["begins 1", "listed a=1", "listed b=1"]);
    store.put("a", pod("w1", 2), 0);
    store.put("d", pod("w1", 2), 0);
    store.remove("b", pod("w1", 3), 0);
    assert_eq!(words(&store, &mut slow), ["listed a=2", "listed b=3", "listed c=1", "listed d=2"]);
    store.put("f", pod("w1", 1), 0);
    assert_eq!(words(&store, &mut slow), ["listed e=1", "listed f=1"]);
    assert!(!slow.is_whole());
    assert_eq!(words(&store, &mut slow), ["whole 1 9", "gone b=3"]);
    assert!(slow.is_whole());
    store.put("c", pod("w1", 2), 0);
    assert_eq!(words(&store, &mut slow), ["changed c=2"]);
}

#[test]
fn s21_one_that_falls_behind_between_two_portions_begins_again_and_misses_no_end_that_it_was_shown() {
    let (mut store, mut slow) = (small(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
    words(&store, &mut slow);
    store.remove("a", pod("w1", 2), 0);
    assert_eq!(words(&store, &mut slow), ["listed a=2", "listed c=1", "listed d=1"]);
    for number in 2..6 {
        store.put("e", pod("w1", number), 0);
    }
    assert_eq!(words(&store, &mut slow), ["gone a=2", "begins 1", "listed b=1", "listed c=1"]);
    assert_eq!(words(&store, &mut slow), ["listed d=1", "listed e=5"]);
    // Another list begins, and comes to its end.
    listed(&mut store, &[("a", 7), ("b", 7), ("c", 7), ("d", 7)]);
    assert_eq!(words(&store, &mut slow), ["begins 2", "listed a=7", "listed b=7"]);
    assert_eq!(words(&store, &mut slow), ["listed c=7", "listed d=7"]);
    assert_eq!(words(&store, &mut slow), ["whole 2 9"]);
}

#[test]
fn the_ends_that_are_kept_for_one_that_is_shown_a_list_have_the_bound_of_the_log() {
    let (mut store, mut slow) = (small(), cursor());
    let all = ["a", "b", "c", "d", "e", "f", "g"].map(|key| (key, 1));
    listed(&mut store, &all);
    words(&store, &mut slow);
    store.remove("a", pod("w1", 2), 60);
    assert_eq!(words(&store, &mut slow), ["listed a=2", "listed c=1", "listed d=1"]);
    store.remove("b", pod("w1", 2), 60);
    assert_eq!(words(&store, &mut slow), ["listed b=2", "listed e=1", "listed f=1"]);
    assert_eq!(words(&store, &mut slow), ["gone a=2", "gone b=2", "begins 1", "listed c=1", "listed d=1"]);
    assert_eq!((slow.ended.len(), slow.weight), (0, 0));
}

#[test]
fn s19_a_refusal_that_comes_between_two_portions_is_shown_after_the_list_that_was_whole_before_it() {
    let (mut store, mut slow, mut late) = (small(), cursor(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]);
    words(&store, &mut slow);
    store.failed(&refusal("no"));
    assert_eq!(words(&store, &mut slow), ["listed c=1", "listed d=1"]);
    assert_eq!(words(&store, &mut slow), ["listed e=1", "whole 1 9", "failed no"]);
    // What was forgotten is shown no further.
    assert_eq!(words(&store, &mut late), ["begins 1", "listed a=1", "listed b=1"]);
    store.failed(&refusal("never"));
    store.forget();
    assert_eq!(words(&store, &mut late), ["failed never"]);
    listed(&mut store, &[("c", 2)]);
    assert_eq!(words(&store, &mut late), ["begins 2", "listed c=2", "whole 2 9", "opened"]);
}

#[test]
fn a_list_replaces_what_is_known_and_one_that_breaks_off_changes_nothing_else() {
    let (mut store, mut cursor) = (store(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1)]);
    words(&store, &mut cursor);
    store.remove("a", pod("w1", 8), 0);
    store.begin(0, Epoch::default());
    store.put("c", pod("w1", 1), 0);
    assert_eq!(words(&store, &mut cursor), ["gone a=8", "begins 2", "listed c=1"], "an end that came before is seen");
    assert!(store.has("b"), "until the list is whole");
    store.begin(0, Epoch::default());
    store.put("c", pod("w1", 2), 0);
    assert_eq!(words(&store, &mut cursor), ["begins 3", "listed c=2"]);
    store.whole("12".into());
    assert_eq!(words(&store, &mut cursor), ["whole 3 12"]);
    assert!(!store.has("b") && store.has("c"));
}

#[test]
fn s21_what_changed_just_before_a_list_began_is_shown_also_where_that_list_never_comes_to_its_end() {
    let (mut store, mut slow) = (store(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1), ("c", 1)]);
    words(&store, &mut slow);
    store.put("a", pod("w1", 2), 0);
    store.put("a", pod("w1", 3), 0);
    store.put("b", pod("w1", 2), 0);
    store.put("d", pod("w1", 1), 0);
    store.remove("d", pod("w1", 2), 0);
    store.begin(0, Epoch::default());
    store.put("b", pod("w1", 3), 0);
    // One life that was whole, the latest state of each, and in the list what it shows itself.
    let seen = words(&store, &mut slow);
    assert_eq!(seen, ["changed a=3", "changed d=2", "gone d=2", "begins 2", "listed b=3"]);
    store.failed(&refusal("no"));
    assert_eq!(words(&store, &mut slow), ["failed no"]);
}

#[test]
fn what_comes_again_under_its_key_while_a_follower_is_behind_is_not_gone() {
    let mut store = store();
    listed(&mut store, &[("w1", 1)]);
    store.remove("w1", pod("", 1), 0);
    store.put("w1", pod("", 2), 0);
    let seen = words(&store, &mut cursor());
    assert_eq!(seen, ["begins 1", "listed w1=1", "listed w1=2", "whole 1 9"]);
    let mut slow = cursor();
    words(&store, &mut slow);
    store.remove("w1", pod("", 2), 0);
    store.put("w1", pod("", 3), 0);
    assert_eq!(words(&store, &mut slow), ["gone w1=2", "changed w1=3"]);
}

#[test]
fn s5_a_list_of_an_earlier_epoch_is_none_for_a_follower_of_a_later_one() {
    let mut contact = topoloom_sync::liveness::Contact::new(Default::default(), std::time::Duration::ZERO);
    let first = contact.epoch();
    contact.answered(std::time::Duration::from_secs(900));
    let second = contact.epoch();
    let (mut store, mut later) = (store(), Cursor::new(second));
    listed(&mut store, &[("a", 1)]);
    assert_eq!(words(&store, &mut later), [""; 0]);
    assert_eq!(words(&store, &mut Cursor::new(first)).len(), 3);
    store.begin(0, second);
    store.put("a", pod("w1", 1), 0);
    store.whole("10".into());
    assert_eq!(words(&store, &mut later), ["begins 2", "listed a=1", "whole 2 10"]);
}

#[test]
fn s19_each_follower_is_shown_a_refusal_until_the_watch_works_also_one_that_comes_late() {
    let (mut store, mut cursor) = (store(), cursor());
    store.begin(0, Epoch::default());
    store.failed(&refusal("no"));
    assert_eq!(words(&store, &mut cursor), ["begins 1", "failed no"]);
    store.failed(&refusal("still no"));
    store.failed(&refusal("never"));
    assert_eq!(words(&store, &mut cursor), ["failed never"]);
    let mut late = self::cursor();
    assert_eq!(words(&store, &mut late), ["begins 1", "failed never"]);
    store.works();
    store.works();
    assert_eq!(
        (words(&store, &mut cursor), words(&store, &mut late)),
        (vec!["opened".to_owned()], vec!["opened".into()])
    );
    store.failed(&refusal("again"));
    store.whole("9".into());
    assert_eq!(words(&store, &mut cursor), ["whole 1 9", "opened"]);
}

#[test]
fn s8_what_was_forgotten_is_shown_to_no_follower_before_the_next_list() {
    let (mut store, mut cursor) = (store(), cursor());
    listed(&mut store, &[("a", 1)]);
    words(&store, &mut cursor);
    store.failed(&refusal("no"));
    store.forget();
    assert_eq!((store.content(), words(&store, &mut cursor)), (Content::Forgotten, vec!["failed no".to_owned()]));
    assert_eq!(words(&store, &mut self::cursor()), ["failed no"]);
    listed(&mut store, &[("b", 1)]);
    assert_eq!(words(&store, &mut cursor), ["begins 2", "listed b=1", "whole 2 9", "opened"]);
    assert_eq!(store.at("w1").len(), 1);
}

#[test]
fn what_is_given_up_is_shown_to_each_follower_before_the_next_list_and_not_to_one_that_comes_after_that() {
    let (mut store, mut whole, mut under_way) = (store(), cursor(), cursor());
    listed(&mut store, &[("a", 1)]);
    words(&store, &mut whole);
    store.failed(&refusal("no"));
    store.begin(0, Epoch::default());
    store.put("b", pod("w1", 1), 0);
    assert_eq!(words(&store, &mut under_way), ["begins 2", "listed b=1", "failed no"]);
    store.give_up(refusal("too large"));
    assert_eq!((store.content(), store.at("w1").len()), (Content::Forgotten, 2), "no node looks empty");
    // What else was met comes first: the bound is why nothing is known.
    assert_eq!(words(&store, &mut whole), ["opened", "given up too large"]);
    assert_eq!((words(&store, &mut whole), whole.is_whole()), (vec![], false));
    assert_eq!(words(&store, &mut cursor()), ["opened", "given up too large"], "one that comes meanwhile");
    listed(&mut store, &[("c", 1)]);
    assert_eq!(words(&store, &mut under_way), ["given up too large", "begins 3", "listed c=1", "whole 3 9"]);
    assert_eq!(words(&store, &mut whole), ["begins 3", "listed c=1", "whole 3 9"]);
    assert_eq!((store.at("w1").len(), store.held().objects), (1, 1));
    let late = words(&store, &mut cursor());
    assert_eq!(late, ["begins 3", "listed c=1", "whole 3 9", "opened"]);
    // Once more, and a follower has missed the list between the two.
    store.give_up(refusal("too large"));
    store.give_up(refusal("still too large"));
    assert_eq!(words(&store, &mut whole), ["given up still too large"]);
}

#[test]
fn the_last_of_what_a_follower_is_shown_is_why_nothing_is_known_and_no_bound_that_was_met_before() {
    let (mut store, mut slow) = (store(), cursor());
    listed(&mut store, &[("a", 1)]);
    words(&store, &mut slow);
    // The list after it is refused.
    store.give_up(refusal("too large"));
    store.failed(&refusal("no"));
    assert_eq!(words(&store, &mut slow), ["given up too large", "failed no"]);
    assert_eq!(words(&store, &mut cursor()), ["given up too large", "failed no"]);
    // It fits again, and then it may not be read any more.
    listed(&mut store, &[("a", 1)]);
    store.failed(&refusal("never"));
    store.forget();
    assert_eq!(words(&store, &mut cursor()), ["failed never"], "that bound is met no more");
    assert_eq!(words(&store, &mut slow), ["failed never"]);
}

#[test]
fn what_is_held_follows_each_list_change_and_end_also_of_what_cannot_be_read() {
    let mut store = store();
    let held = |objects: usize, bytes: usize| Held { objects, bytes };
    store.begin(0, Epoch::default());
    store.put("a", pod("w1", 1), 10);
    store.put("b", None, 7);
    assert_eq!(store.held(), held(2, 17));
    store.whole("9".into());
    store.put("a", pod("w1", 2), 110);
    // One that cannot be read any more stays what it was, and as large.
    store.put("a", None, 3);
    assert_eq!(store.held(), held(2, 117));
    // While a list replaces another one both are held, and twice as much may be.
    store.begin(0, Epoch::default());
    store.put("a", pod("w1", 3), 10);
    assert_eq!((store.held(), store.all), (held(1, 10), held(2, 17)));
    for number in 0..3 {
        store.begin(0, Epoch::default());
        store.put(&format!("c{number}"), pod("w1", 1), 10);
    }
    assert_eq!((store.held(), store.all), (held(2, 23), held(5, 47)), "lists that break off leave something behind");
    store.whole("10".into());
    assert_eq!((store.held(), store.all), (held(1, 10), held(1, 10)));
    store.remove("c2", pod("w1", 1), 10);
    store.remove("never", None, 10);
    assert_eq!((store.held(), store.all), (held(0, 0), held(0, 0)));
}

#[test]
fn the_last_states_of_what_is_gone_have_a_bound_and_a_follower_that_was_behind_sees_a_list() {
    let (mut store, mut slow) = (store(), cursor());
    listed(&mut store, &[("a", 1)]);
    words(&store, &mut slow);
    for number in 0..20 {
        let key = format!("b{number}");
        store.put(&key, pod("w1", 1), ENDED / 8);
        store.remove(&key, pod("w1", 2), ENDED / 8);
        assert!(store.ended <= ENDED, "{}", store.ended);
    }
    let gone = store.log.iter().filter(|logged| matches!(logged, Logged::Gone(..))).count();
    assert_eq!(gone, 8);
    assert_eq!(words(&store, &mut slow)[..2], ["begins 1", "listed a=1"]);
    assert!(slow.is_whole());
    store.remove("a", pod("w1", 1), ENDED + 1);
    assert_eq!((store.ended, store.log.len()), (0, 0), "one alone is too large");
    assert_eq!(words(&store, &mut slow), ["begins 1", "whole 1 9"]);
}

#[test]
fn an_object_that_cannot_be_read_is_there_and_stays_what_it_was() {
    let (mut store, mut cursor) = (store(), cursor());
    listed(&mut store, &[("a", 1)]);
    words(&store, &mut cursor);
    store.put("a", None, 0);
    store.put("b", None, 0);
    assert_eq!(words(&store, &mut cursor), ["changed a=1", "changed b=?"]);
    store.remove("a", None, 0);
    assert_eq!(words(&store, &mut cursor), ["gone a=1"]);
}

#[test]
fn s25_what_was_read_of_an_object_before_is_shown_as_that_and_not_as_its_state() {
    let (mut store, mut late) = (store(), cursor());
    listed(&mut store, &[("a", 1), ("b", 1)]);
    store.put("a", None, 0);
    store.remove("b", None, 0);
    let readings = |store: &Store<Pod>, cursor: &mut Cursor<Pod>| -> Vec<(String, Reading)> {
        let shown = store.take(cursor).into_iter().filter_map(|step| match step {
            Step::Listed(shown) | Step::Changed(shown) | Step::Gone(shown) => Some(shown),
            Step::Begins(_) | Step::Whole(..) | Step::Opened | Step::Failed(_) | Step::GivenUp(_) => None,
        });
        shown.map(|shown| (shown.key.to_string(), shown.reading)).collect()
    };
    let earlier = |key: &str| (key.to_owned(), Reading::Earlier);
    assert_eq!(readings(&store, &mut late), [earlier("a"), earlier("b"), earlier("b")]);
    store.put("a", pod("w1", 2), 0);
    assert_eq!(readings(&store, &mut late), [("a".to_owned(), Reading::Current)]);
}

#[test]
fn a_list_is_replaced_once_however_many_ask_for_it() {
    let (mut store, mut cursor) = (store(), cursor());
    listed(&mut store, &[]);
    let marks = |store: &Store<Pod>, cursor: &mut Cursor<Pod>| match &store.take(cursor)[..] {
        [Step::Begins(_), Step::Whole(mark, _)] => *mark,
        other => panic!("{other:?}"),
    };
    let first = marks(&store, &mut cursor);
    assert_eq!([store.replace(&first), store.replace(&first)], [true, false]);
    listed(&mut store, &[]);
    assert!(!store.replace(&first), "one has begun since");
    let second = marks(&store, &mut cursor);
    assert!(store.replace(&second));
}

#[test]
fn objects_are_found_by_their_place() {
    let mut store = store();
    store.begin(0, Epoch::default());
    store.put("a", pod("w1", 1), 0);
    store.put("b", pod("w1", 1), 0);
    store.put("c", Some(Arc::new((None, 1))), 0);
    let at = |store: &Store<Pod>, place: &str| store.at(place).len();
    assert_eq!((at(&store, "w1"), at(&store, "w2")), (2, 0));
    store.put("c", pod("w2", 1), 0);
    store.put("b", None, 0);
    store.remove("a", None, 0);
    assert_eq!((at(&store, "w1"), at(&store, "w2")), (1, 1));
    // A list that does not name it.
    store.begin(0, Epoch::default());
    store.put("c", pod("w2", 1), 0);
    store.whole("9".into());
    assert_eq!((at(&store, "w1"), at(&store, "w2"), store.places.len()), (0, 1, 1));
}

/// What happens to a store: an object of this number comes or changes, goes, a list of these begins and ends, or breaks off.
#[derive(Debug, Clone)]
enum Happens {
    Put(u8),
    Remove(u8),
    List(Vec<u8>),
    Break(Vec<u8>),
    Forget,
    GiveUp(Vec<u8>),
}

fn happens() -> impl Strategy<Value = Happens> {
    let keys = || prop::collection::vec(0..6_u8, 0..6);
    prop_oneof![
        6 => (0..6_u8).prop_map(Happens::Put),
        4 => (0..6_u8).prop_map(Happens::Remove),
        2 => keys().prop_map(Happens::List),
        1 => keys().prop_map(Happens::Break),
        1 => Just(Happens::Forget),
        1 => keys().prop_map(Happens::GiveUp),
    ]
}

/// What a follower knows, as an index keeps it.
#[derive(Default)]
struct Follower {
    known: BTreeMap<String, u64>,
    list: Option<BTreeMap<String, u64>>,
    /// The latest state of each object that it was shown.
    latest: BTreeMap<String, u64>,
}

impl Follower {
    /// All that there is for it to see.
    fn take_all(&mut self, store: &Store<Pod>, cursor: &mut Cursor<Pod>) {
        loop {
            let steps = store.take(cursor);
            if steps.is_empty() {
                return;
            }
            self.take(steps);
        }
    }

    fn take(&mut self, steps: Vec<Step<Pod>>) {
        let latest = &mut self.latest;
        let mut read = |shown: &Shown<Pod>| {
            let (key, number) = (shown.key.to_string(), shown.object.as_ref().unwrap().1);
            let before = latest.insert(key.clone(), number);
            assert!(before <= Some(number), "{key} is shown as {number} after {before:?}");
            (key, number)
        };
        for step in steps {
            match step {
                Step::Begins(_) => self.list = Some(BTreeMap::new()),
                Step::Listed(shown) => self.list.as_mut().unwrap().extend([read(&shown)]),
                Step::Whole(..) => self.known = self.list.take().unwrap(),
                Step::Changed(shown) => self.known.extend([read(&shown)]),
                Step::Gone(shown) => {
                    self.known.remove(&*shown.key);
                }
                // The list that was under way is no more.
                Step::GivenUp(_) => self.list = None,
                Step::Opened | Step::Failed(_) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn s21_every_follower_knows_what_is_there_whenever_it_came_and_however_seldom_it_looks(
        steps in prop::collection::vec((happens(), any::<bool>(), prop::bool::weighted(0.1)), 0..80),
        (log, portion) in (1..8_usize, 1..4_usize),
    ) {
        let mut store = Store { bounds: Bounds { log, ended: ENDED, portion }, ..store() };
        let (mut truth, mut number) = (BTreeMap::new(), 0);
        let mut followers = vec![(cursor(), Follower::default()), (cursor(), Follower::default())];
        listed(&mut store, &[]);
        for (happens, looks, comes) in steps {
            number += 1;
            let put = |store: &mut Store<Pod>, key: u8| {
                store.put(&key.to_string(), pod("w1", number), 0);
                (key.to_string(), number)
            };
            match happens {
                Happens::Put(key) => truth.extend([put(&mut store, key)]),
                Happens::Remove(key) => {
                    if let Some(number) = truth.remove(&key.to_string()) {
                        store.remove(&key.to_string(), pod("w1", number), 0);
                    }
                }
                Happens::List(keys) => {
                    store.begin(0, Epoch::default());
                    truth = keys.into_iter().map(|key| put(&mut store, key)).collect();
                    store.whole("9".into());
                }
                Happens::Break(keys) => {
                    store.begin(0, Epoch::default());
                    keys.into_iter().for_each(|key| drop(put(&mut store, key)));
                    store.begin(0, Epoch::default());
                    truth = truth.into_keys().map(|key| put(&mut store, key.parse().unwrap())).collect();
                    store.whole("9".into());
                }
                Happens::Forget => {
                    store.forget();
                    listed(&mut store, &[]);
                    truth.clear();
                }
                Happens::GiveUp(keys) => {
                    store.begin(0, Epoch::default());
                    keys.into_iter().for_each(|key| drop(put(&mut store, key)));
                    store.give_up(refusal("too large"));
                    store.begin(0, Epoch::default());
                    truth = truth.into_keys().map(|key| put(&mut store, key.parse().unwrap())).collect();
                    store.whole("9".into());
                }
            }
            if comes {
                followers.push((cursor(), Follower::default()));
            }
            // The first one looks until it has seen all; all others sometimes, and at a portion.
            for (which, (cursor, follower)) in followers.iter_mut().enumerate() {
                match (which, looks) {
                    (0, _) => follower.take_all(&store, cursor),
                    (_, true) => follower.take(store.take(cursor)),
                    (_, false) => continue,
                }
                prop_assert!(which > 0 || cursor.is_whole());
                if cursor.is_whole() {
                    prop_assert_eq!(&follower.known, &truth);
                }
            }
            prop_assert_eq!(store.at("w1").len(), truth.len());
            prop_assert_eq!((store.all, store.listed), (store.held(), store.held()));
            prop_assert_eq!(store.held().objects, truth.len());
        }
        for (cursor, follower) in &mut followers {
            follower.take_all(&store, cursor);
            prop_assert!(cursor.is_whole());
            prop_assert_eq!(&follower.known, &truth);
        }
    }
}
