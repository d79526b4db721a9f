use proptest::prelude::*;
use serde_json::{Value, json};
use topoloom_sync::naming::BindingName;

use super::*;
use crate::pod_state::tests::state;
use crate::slices::json::Json;

fn book() -> Book {
    let identity = Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap();
    Book::new(identity, &ClusterId::parse("east").unwrap(), "lent")
}

fn name(side: &str, number: usize) -> PodName {
    PodName::new(side, &format!("p{number}"))
}

fn physical_pod(number: usize, version: u64, status: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "lent", "name": format!("p{number}"), "uid": format!("p-{number}"),
            "resourceVersion": version.to_string(),
            "labels": {
                "topoloom.dev/managed-by": "topoloom", "topoloom.dev/virtual-cluster": "vc", "topoloom.dev/binding": "east",
                "topoloom.dev/binding-uid": "b1",
            },
            "annotations": {
                "topoloom.dev/virtual-pod-namespace": "shop", "topoloom.dev/virtual-pod-name": format!("p{number}"),
                "topoloom.dev/virtual-pod-uid": format!("v-{number}"),
            },
        },
        "spec": {"nodeName": "w1"},
        "status": {"phase": "Running", "reason": status},
    })
}

fn virtual_pod(number: usize, version: u64, status: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "shop", "name": format!("p{number}"), "uid": format!("v-{number}"),
            "resourceVersion": version.to_string(),
            "annotations": {
                "topoloom.dev/physical-pod-namespace": "lent", "topoloom.dev/physical-pod-name": format!("p{number}"),
                "topoloom.dev/physical-pod-uid": format!("p-{number}"),
            },
        },
        "spec": {"nodeName": "vnode-east-w1"},
        "status": {"phase": "Running", "reason": status},
    })
}

#[test]
fn s21_pairs_at_rest_hold_no_text_of_a_physical_pod() {
    let mut book = book();
    for number in 0..500 {
        let (pod, twin) = (state(&physical_pod(number, 1, "b")), state(&virtual_pod(number, 1, "a")));
        book.twin(&twin);
        assert_eq!(book.physical(&pod), [PodKey::Physical(name("lent", number))]);
        assert_ne!(book.held(), 0);
        book.done(&pod, Some(&twin));
        assert_eq!(book.held(), 0);
    }
    assert_eq!(book.waiting(), []);
}

/// What is changed of a physical pod and its virtual one.
type Edit = fn(&mut Value, &mut Value);

/// What has to be looked at when these two are shown, the virtual one first, and how many bytes are held then.
fn looks_at(edit: impl Fn(&mut Value, &mut Value)) -> (Vec<PodKey>, usize) {
    let mut book = book();
    let (mut pod, mut twin) = (physical_pod(1, 1, "a"), virtual_pod(1, 1, "a"));
    edit(&mut pod, &mut twin);
    book.twin(&state(&twin));
    let looks = book.physical(&state(&pod));
    assert_eq!(book.waiting(), looks);
    (looks, book.held())
}

#[test]
fn a_pair_that_says_the_same_needs_no_look_when_it_is_shown_and_one_that_differs_in_anything_does() {
    assert_eq!(looks_at(|_, _| ()), (vec![], 0));
    assert_eq!(looks_at(|pod, _| pod["status"]["qosClass"] = "Burstable".into()), (vec![], 0), "it is not copied");
    let edits: [(&str, Edit); 7] = [
        ("another status", |pod, _| pod["status"]["reason"] = "b".into()),
        ("a final phase of the virtual pod", |_, twin| twin["status"]["phase"] = "Failed".into()),
        ("of an earlier binding", |pod, _| pod["metadata"]["labels"]["topoloom.dev/binding-uid"] = "b0".into()),
        ("not managed", |pod, _| pod["metadata"]["labels"]["topoloom.dev/managed-by"] = "helm".into()),
        ("another physical pod is named", |_, twin| {
            twin["metadata"]["annotations"]["topoloom.dev/physical-pod-uid"] = "p-0".into();
        }),
        ("none is named", |_, twin| twin["metadata"]["annotations"] = json!({})),
        ("another virtual pod is named", |_, twin| twin["metadata"]["uid"] = "v-0".into()),
    ];
    for (what, edit) in edits {
        let (looks, held) = looks_at(edit);
        assert_eq!(looks, [PodKey::Physical(name("lent", 1))], "{what}");
        assert_ne!(held, 0, "{what}");
    }
}

#[test]
fn a_pair_of_which_one_is_shown_without_its_text_and_one_that_was_known_before_are_looked_at() {
    let (pod, twin) = (state(&physical_pod(1, 1, "a")), state(&virtual_pod(1, 1, "a")));
    let look = [PodKey::Physical(name("lent", 1))];
    let mut unread = book();
    unread.twin_unread(&twin);
    assert_eq!(unread.physical(&pod), look);
    let mut known = book();
    assert_eq!(known.physical(&pod), look);
    known.twin(&twin);
    // What was asked for about it has to be withdrawn, which a look does.
    assert_eq!(known.physical(&state(&physical_pod(1, 2, "a"))), look);
}

/// The only pair is held, and each of its names and UIDs in one text.
fn assert_held_once(book: &Book, when: &str) {
    let (name, row) = book.physical.iter().next().unwrap();
    let (twin, twin_row) = book.twins.iter().next().unwrap();
    let (borne, bearer) = book.bearers.iter().next().unwrap();
    let (named, named_uid) = row.twin.as_ref().unwrap();
    let (back, back_uid) = twin_row.back.as_ref().unwrap();
    for (one, other) in [(name, bearer), (name, back), (twin, borne), (twin, named)] {
        assert!(Arc::ptr_eq(one.text(), other.text()), "{when}: {one} and {other}");
    }
    for (one, other) in [(&row.uid, back_uid.as_ref().unwrap()), (&twin_row.uid, named_uid)] {
        assert!(std::ptr::eq(one.as_ptr(), other.as_ptr()), "{when}: {one} and {other}");
    }
}

#[test]
fn each_name_and_uid_of_a_pair_is_held_once_whichever_of_the_two_is_shown_first() {
    let pod = |version: u64| state(&physical_pod(1, version, "a"));
    let twin = |version: u64| state(&virtual_pod(1, version, "a"));
    let (mut first, mut second, mut third) = (book(), book(), book());
    first.physical(&pod(1));
    first.twin(&twin(1));
    assert_held_once(&first, "the physical one first");
    second.twin(&twin(1));
    second.physical(&pod(1));
    assert_held_once(&second, "the virtual one first");
    // As a pair comes to be: the virtual one names the physical one last.
    let mut unbound = virtual_pod(1, 1, "a");
    unbound["metadata"]["annotations"] = json!({});
    third.twin(&state(&unbound));
    third.physical(&pod(1));
    third.twin(&twin(2));
    assert_held_once(&third, "a new pair");
    for book in [&mut first, &mut second, &mut third] {
        book.physical(&pod(7));
        assert_held_once(book, "the physical one again");
        book.twin(&twin(7));
        assert_held_once(book, "the virtual one again");
    }
    // Of each that comes again, the other one still has the texts.
    first.twin_gone(&name("shop", 1), &"v-1".into());
    first.twin(&twin(8));
    assert_held_once(&first, "the virtual one anew");
    second.physical_gone(&name("lent", 1), &"p-1".into(), None);
    second.physical(&pod(8));
    assert_held_once(&second, "the physical one anew");
}

#[test]
fn names_of_virtual_nodes_that_no_pod_is_on_any_more_are_bounded() {
    let mut book = book();
    for number in 0..5 * NODES {
        let mut pod = virtual_pod(number, 1, "a");
        pod["spec"]["nodeName"] = format!("vnode-east-w{number}").into();
        let pod = state(&pod);
        book.twin(&pod);
        book.twin_gone(&name("shop", number), &pod.uid());
    }
    assert!((1..=NODES + 1).contains(&book.nodes.len()), "{}", book.nodes.len());
}

#[test]
fn what_is_older_than_what_was_read_says_nothing_and_a_server_that_was_set_back_begins_again() {
    let mut book = book();
    book.twin(&state(&virtual_pod(1, 7, "a")));
    let (pod, twin) = (state(&physical_pod(1, 7, "a")), state(&virtual_pod(1, 7, "a")));
    book.physical(&pod);
    book.done(&pod, Some(&twin));
    assert_eq!(book.physical(&state(&physical_pod(1, 6, "b"))), []);
    assert_eq!(book.twin(&state(&virtual_pod(1, 6, "b"))), []);
    assert_eq!(book.waiting(), []);
    book.physical_begin(History::Void);
    book.twins_begin(History::Void);
    assert_eq!(book.physical(&state(&physical_pod(1, 6, "b"))), [PodKey::Physical(name("lent", 1))]);
    assert_eq!(book.sight(&name("lent", 1)).unwrap().twin, TwinSight::Unlisted);
    book.twins_listed(&HashSet::new());
    assert_eq!(book.sight(&name("lent", 1)).unwrap().twin, TwinSight::Absent);
}

#[test]
fn s21_a_pod_without_its_text_is_looked_at_and_what_is_known_of_its_very_version_stays() {
    let mut book = book();
    let (pod, twin) = (state(&physical_pod(1, 7, "a")), state(&virtual_pod(1, 7, "a")));
    let phase = Json::written(&json!({"phase": "Running"}));
    let unread = |pod: &PodState| PodState { spec: Json::default(), status: phase.clone(), ..pod.clone() };
    assert_eq!(book.twin_unread(&unread(&twin)), []);
    assert_eq!(book.physical_unread(&unread(&pod)), [PodKey::Physical(name("lent", 1))]);
    assert_eq!((book.unread, book.unread_twins, book.held()), (1, 1, 0), "nothing is taken for its status");
    // What is read live counts, also in this version.
    assert!(book.answer_physical(&pod));
    book.answer(&twin);
    assert_eq!(book.done(&pod, Some(&twin)), Rested::Yes);
    assert_eq!((book.waiting(), book.held()), (vec![], 0));
    // It is shown so once more, as by a list.
    assert_eq!((book.physical_unread(&unread(&pod)), book.twin_unread(&unread(&twin))), (vec![], vec![]));
    assert_eq!((book.unread, book.unread_twins), (1, 1));
    let later = state(&physical_pod(1, 8, "b"));
    assert_eq!(book.physical_unread(&unread(&later)), [PodKey::Physical(name("lent", 1))]);
    assert_eq!(book.sight(&name("lent", 1)).unwrap().text, None);
}

#[test]
fn a_pod_that_was_made_again_under_its_name_is_another_one() {
    let mut book = book();
    let (pod, twin) = (state(&physical_pod(1, 7, "a")), state(&virtual_pod(1, 7, "a")));
    book.twin(&twin);
    book.physical(&pod);
    book.done(&pod, Some(&twin));
    let mut again = physical_pod(1, 3, "a");
    again["metadata"]["uid"] = json!("p-new");
    assert_eq!(
        book.physical(&state(&again)),
        [PodKey::Physical(name("lent", 1))],
        "the virtual pod names the earlier one"
    );
    // The end of the earlier one is not its end.
    assert_eq!(book.physical_gone(&name("lent", 1), &"p-1".into(), None), []);
    assert!(book.sight(&name("lent", 1)).is_some());
    assert_eq!(book.twin_gone(&name("shop", 1), &"v-other".into()), []);
    assert!(matches!(book.sight(&name("lent", 1)).unwrap().twin, TwinSight::Held(_)));
}

#[test]
fn an_answer_about_a_pod_that_no_watch_shows_makes_none() {
    let mut book = book();
    let (pod, twin) = (state(&physical_pod(1, 7, "a")), state(&virtual_pod(1, 7, "a")));
    // Both were shown as gone before the answers came.
    assert!(!book.answer_physical(&pod));
    assert_eq!(book.answer(&twin), []);
    assert!(!book.knows(&name("lent", 1)));
    book.twins_listed(&HashSet::new());
    book.physical(&pod);
    assert_eq!(book.sight(&name("lent", 1)).unwrap().twin, TwinSight::Absent);
    book.twin(&twin);
    assert!(book.answer_physical(&state(&physical_pod(1, 8, "b"))));
    assert_eq!(book.answer(&state(&virtual_pod(1, 8, "b"))), [PodKey::Physical(name("lent", 1))]);
}

#[test]
fn a_pair_that_changed_back_while_it_was_worked_on_is_looked_at_again() {
    let mut book = book();
    let (first, twin) = (state(&physical_pod(1, 1, "a")), state(&virtual_pod(1, 1, "a")));
    book.twin(&twin);
    book.physical(&first);
    assert_eq!(book.done(&first, Some(&twin)), Rested::Yes);
    let second = state(&physical_pod(1, 2, "b"));
    assert_eq!(book.physical(&second), [PodKey::Physical(name("lent", 1))]);
    // While the second status is written the first one is back, which finds the pair at rest.
    assert_eq!(book.physical(&state(&physical_pod(1, 3, "a"))), []);
    let stored = state(&virtual_pod(1, 2, "b"));
    book.answer(&stored);
    assert_eq!(book.done(&second, Some(&stored)), Rested::No);
    // The same of the virtual pod.
    let first = state(&physical_pod(1, 3, "a"));
    book.twin(&state(&virtual_pod(1, 3, "c")));
    assert_eq!(book.done(&first, Some(&stored)), Rested::No);
}

#[test]
fn a_pair_is_at_rest_also_where_another_server_writes_the_same_version_in_another_order() {
    let mut book = book();
    let (pod, twin) = (state(&physical_pod(1, 7, "b")), state(&virtual_pod(1, 7, "a")));
    book.twin(&twin);
    assert_eq!(book.physical(&pod), [PodKey::Physical(name("lent", 1))]);
    let otherwise = |pod: &PodState| {
        let Value::Object(fields) = pod.status.value() else { panic!("{pod:?}") };
        let fields: Vec<String> = fields.iter().rev().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        PodState { status: serde_json::from_str(&format!("{{{}}}", fields.join(","))).unwrap(), ..pod.clone() }
    };
    assert_ne!(otherwise(&pod).digest(), pod.digest());
    assert_eq!(book.done(&otherwise(&pod), Some(&otherwise(&twin))), Rested::Yes);
    assert_eq!((book.waiting(), book.held()), (vec![], 0));
    // Of another version it is another state.
    let later = PodState { version: "8".to_owned(), ..otherwise(&pod) };
    book.physical(&later);
    assert_eq!(book.done(&pod, Some(&twin)), Rested::No);
}

/// A virtual pod on the node of this machine, which terminates since that second.
fn terminating(number: usize, version: u64, machine: &str, second: u8) -> PodState {
    let mut pod = virtual_pod(number, version, "a");
    pod["spec"]["nodeName"] = format!("vnode-east-{machine}").into();
    pod["metadata"]["deletionTimestamp"] = format!("2026-08-03T12:00:{second:02}Z").into();
    state(&pod)
}

#[test]
fn s10_when_a_machine_goes_the_ends_are_looked_at_that_were_left_to_others_on_it_and_no_others() {
    let mut book = book();
    let ends = |numbers: &[usize]| -> Vec<PodKey> {
        numbers.iter().map(|number| PodKey::Ending(name("shop", *number))).collect()
    };
    for (number, machine) in [(1, "w1"), (2, "w1"), (3, "w2"), (4, "w1")] {
        assert_eq!(book.twin(&terminating(number, 1, machine, 0)), ends(&[number]));
    }
    assert_eq!(book.node_gone("vnode-east-w1"), [], "none is left to others");
    (1..=3).for_each(|number| book.leave(&name("shop", number)));
    // One that does not terminate has no end, and neither has one that is not known.
    book.twin(&state(&virtual_pod(5, 1, "a")));
    [5, 6].into_iter().for_each(|number| book.leave(&name("shop", number)));
    assert_eq!(book.waiting(), ends(&[4]));
    assert_eq!(book.node_gone("vnode-east-w9"), []);
    assert_eq!(book.node_gone("vnode-east-w1"), ends(&[1, 2]));
    assert_eq!(book.node_gone("vnode-east-w1"), [], "they are not left to others any more");
    book.leave(&name("shop", 2));
    assert_eq!(book.nodes_gone(), ends(&[2, 3]), "of all machines");
    assert_eq!(book.nodes_gone(), []);
}

#[test]
fn s10_a_pod_that_something_happens_to_is_not_left_to_others_any_more() {
    let left = |happens: &dyn Fn(&mut Book)| {
        let mut book = book();
        book.physical(&state(&physical_pod(1, 1, "a")));
        book.twin(&terminating(1, 1, "w1", 0));
        book.leave(&name("shop", 1));
        happens(&mut book);
        book.nodes_gone()
    };
    assert_eq!(left(&|_| ()), [PodKey::Ending(name("shop", 1))]);
    let happens: [&dyn Fn(&mut Book); 5] = [
        &|book| drop(book.twin(&terminating(1, 2, "w1", 7))),
        &|book| drop(book.twin_gone(&name("shop", 1), &"v-1".into())),
        &|book| drop(book.physical_gone(&name("lent", 1), &"p-1".into(), None)),
        &|book| drop(book.twins_listed(&HashSet::new())),
        &|book| book.twins_begin(History::Void),
    ];
    assert!(happens.into_iter().all(|happens| left(happens).is_empty()));
    // Another pod of its name is on another machine.
    let mut again = virtual_pod(1, 3, "a");
    (again["metadata"]["uid"], again["spec"]["nodeName"]) = ("v-new".into(), "vnode-east-w2".into());
    assert_eq!(left(&|book| drop(book.twin(&state(&again)))), []);
}

#[test]
fn pods_of_other_nodes_are_not_remembered() {
    let mut book = book();
    for node in ["", "w1", "vnode-west-w1", "vnode-eastern-w1"] {
        let mut twin = virtual_pod(1, 7, "a");
        twin["spec"]["nodeName"] = json!(node);
        book.twin(&state(&twin));
        assert!(book.twins.is_empty(), "{node}");
    }
}

#[test]
fn s6_a_binding_that_is_gone_is_remembered_and_one_that_stands_is_not() {
    let mut book = book();
    let listed: BTreeSet<Uid> = ["b1".into()].into();
    assert_eq!(book.earlier(None, Some(&listed)), Earlier::Unlisted);
    assert_eq!(book.earlier(Some("b0"), None), Earlier::Unlisted);
    assert_eq!(book.earlier(Some("b1"), Some(&listed)), Earlier::Stands);
    assert_eq!(book.earlier(Some("b1"), None), Earlier::Unlisted);
    assert_eq!(book.earlier(Some("b0"), Some(&listed)), Earlier::Gone);
    assert_eq!(book.earlier(Some("b0"), None), Earlier::Gone);
    book.twins_begin(History::Void);
    assert_eq!(book.earlier(Some("b0"), None), Earlier::Unlisted);
}

/// What happens to one of three pairs.
#[derive(Debug, Clone)]
enum Happens {
    Physical(usize, u8),
    Virtual(usize, u8),
    PhysicalGone(usize),
    VirtualGone(usize),
    Looked(usize),
    Listed,
}

fn happens() -> impl Strategy<Value = Happens> {
    let pod = || 0..3_usize;
    prop_oneof![
        3 => (pod(), 0..3_u8).prop_map(|(pod, status)| Happens::Physical(pod, status)),
        3 => (pod(), 0..3_u8).prop_map(|(pod, status)| Happens::Virtual(pod, status)),
        1 => pod().prop_map(Happens::PhysicalGone),
        1 => pod().prop_map(Happens::VirtualGone),
        3 => pod().prop_map(Happens::Looked),
        1 => Just(Happens::Listed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Over any history of both sides: a pair that differs from what was looked at last waits, one that does not rests, and
    /// every event that makes a pair wait says so.
    #[test]
    fn a_pair_waits_exactly_while_it_differs_from_what_was_looked_at(history in prop::collection::vec(happens(), 1..40)) {
        let mut book = book();
        book.twins_listed(&HashSet::new());
        let mut pods: [(Option<u8>, Option<u8>); 3] = [(None, None); 3];
        let mut looked: [Option<(u8, Option<u8>)>; 3] = [None; 3];
        for (version, event) in history.into_iter().enumerate() {
            let version = u64::try_from(version).unwrap() + 1;
            let before: BTreeSet<PodKey> = book.waiting().into_iter().collect();
            let said = match event {
                Happens::Physical(pod, status) => {
                    // One that is shown for the first time is as good as looked at where its virtual pod says the same.
                    if pods[pod] == (None, Some(status)) {
                        looked[pod] = Some((status, Some(status)));
                    }
                    pods[pod].0 = Some(status);
                    book.physical(&state(&physical_pod(pod, version, &status.to_string())))
                }
                Happens::Virtual(pod, status) => {
                    pods[pod].1 = Some(status);
                    book.twin(&state(&virtual_pod(pod, version, &status.to_string())))
                }
                Happens::PhysicalGone(pod) => {
                    (pods[pod].0, looked[pod]) = (None, None);
                    book.physical_gone(&name("lent", pod), &format!("p-{pod}").into(), None)
                }
                Happens::VirtualGone(pod) => {
                    pods[pod].1 = None;
                    book.twin_gone(&name("shop", pod), &format!("v-{pod}").into())
                }
                Happens::Looked(pod) => {
                    if let (Some(status), twin) = pods[pod] {
                        looked[pod] = Some((status, twin));
                        let twin = twin.map(|twin| state(&virtual_pod(pod, version, &twin.to_string())));
                        book.done(&state(&physical_pod(pod, version, &status.to_string())), twin.as_ref());
                    }
                    Vec::new()
                }
                Happens::Listed => {
                    let uids = |side: &str, is_there: &dyn Fn(usize) -> bool| -> HashSet<Uid> {
                        (0..3).filter(|pod| is_there(*pod)).map(|pod| format!("{side}-{pod}").into()).collect()
                    };
                    let mut said = book.physical_listed(&uids("p", &|pod| pods[pod].0.is_some()));
                    said.extend(book.twins_listed(&uids("v", &|pod| pods[pod].1.is_some())));
                    said
                }
            };
            let wanted: BTreeSet<PodKey> = (0..3)
                .filter(|pod| pods[*pod].0.is_some_and(|status| looked[*pod] != Some((status, pods[*pod].1))))
                .map(|pod| PodKey::Physical(name("lent", pod)))
                .collect();
            let waiting: BTreeSet<PodKey> = book.waiting().into_iter().collect();
            prop_assert_eq!(&waiting, &wanted);
            prop_assert!(wanted.difference(&before).all(|key| said.contains(key)), "{:?}", said);
        }
    }
}
