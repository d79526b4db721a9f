use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::texts::TextMap;

pub(super) fn map<const N: usize, M: FromIterator<(String, String)>>(pairs: [(&str, &str); N]) -> M {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// `key=value:effect@time`, all but the key and the effect optional.
pub(super) fn taint(text: &str) -> Taint {
    let (rest, time) = text.split_once('@').map_or((text, None), |(rest, time)| (rest, Some(time.parse().unwrap())));
    let (rest, effect) = rest.rsplit_once(':').unwrap();
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint { time_added: time, ..Taint::new(key, value, effect.into()) }
}

fn taints(texts: &[&str]) -> Vec<Taint> {
    texts.iter().map(|text| taint(text)).collect()
}

fn wants_taints(texts: &[&str]) -> Wanted {
    Wanted { taints: taints(texts), ..Wanted::default() }
}

/// What a node carries after the syncer wrote this.
fn written(wanted: &Wanted) -> Metadata {
    let nothing = Metadata::default();
    merge(wanted, &nothing).patch.map_or(nothing.clone(), |patch| patch.onto(&nothing))
}

fn merged(wanted: &Wanted, existing: &Metadata) -> Metadata {
    merge(wanted, existing).patch.map_or_else(|| existing.clone(), |patch| patch.onto(existing))
}

fn at_rest(wanted: &Wanted, existing: &Metadata) {
    let again = merge(wanted, &merged(wanted, existing));
    assert_eq!(again.patch, None, "{wanted:?} on {existing:?}");
}

fn changes(of: &BTreeMap<String, Option<String>>) -> Vec<String> {
    let shown = |(key, value): (&String, &Option<String>)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key} goes"),
    };
    of.iter().filter(|(key, _)| *key != keys::EXPECTED_METADATA).map(shown).collect()
}

#[test]
fn example_e_a_key_that_is_no_longer_wanted_goes_and_those_of_users_stay() {
    let mut existing = written(&Wanted { labels: map([("a", "1"), ("b", "1")]), ..Wanted::default() });
    existing.labels.extend([("user", "x"), ("b2", "y")]);
    let wanted = Wanted { labels: map([("a", "2")]), ..Wanted::default() };
    let patch = merge(&wanted, &existing).patch.unwrap();
    assert_eq!(changes(&patch.labels), ["a=2", "b goes"]);
    assert_eq!(patch.onto(&existing).labels, map([("a", "2"), ("user", "x"), ("b2", "y")]));
    at_rest(&wanted, &existing);
    // Annotations follow the same rule.
    let mut existing = written(&Wanted { annotations: map([("a", "1"), ("b", "1")]), ..Wanted::default() });
    existing.annotations.insert("user".to_owned(), "x".to_owned());
    let wanted = Wanted { annotations: map([("a", "2")]), ..Wanted::default() };
    let patch = merge(&wanted, &existing).patch.unwrap();
    assert_eq!(changes(&patch.annotations), ["a=2", "b goes"]);
    at_rest(&wanted, &existing);
}

#[test]
fn example_f_the_window_taint_comes_the_users_stays_and_the_deleting_one_goes() {
    let lent = "topoloom.dev/vnode:NoSchedule";
    let window = "topoloom.dev/out-of-time-windows=true:NoSchedule@2026-03-01T08:01:00Z";
    let mut existing = written(&wants_taints(&[lent]));
    existing.taints.extend(taints(&["team=blue:NoSchedule", "topoloom.dev/vnode-deleting=true:NoSchedule"]));
    let wanted = wants_taints(&[lent, window]);
    let patch = merge(&wanted, &existing).patch.unwrap();
    assert_eq!(patch.taints, Some(taints(&[lent, window, "team=blue:NoSchedule"])));
    at_rest(&wanted, &existing);
}

#[test]
fn s17_a_second_look_does_not_restart_the_clock_of_the_window_taint() {
    let first = "topoloom.dev/out-of-time-windows=true:NoSchedule@2026-03-01T08:01:00Z";
    let existing = written(&wants_taints(&[first]));
    let later = "topoloom.dev/out-of-time-windows=true:NoSchedule@2026-03-01T08:11:00.5Z";
    assert_eq!(merge(&wants_taints(&[later]), &existing).patch, None);
    // Not even when the effect changes, and with it the identity of the taint.
    let executes = "topoloom.dev/out-of-time-windows=true:NoExecute@2026-03-01T08:11:00Z";
    let after = merged(&wants_taints(&[executes]), &existing);
    assert_eq!(after.taints, taints(&["topoloom.dev/out-of-time-windows=true:NoExecute@2026-03-01T08:01:00Z"]));
    let replace = Wanted { stamp: Stamp::Replace, ..wants_taints(&[later]) };
    assert_eq!(merged(&replace, &existing).taints, taints(&[later]));
    at_rest(&replace, &existing);
    // A taint without a time gets the wanted one.
    let timeless = written(&wants_taints(&["topoloom.dev/out-of-time-windows=true:NoSchedule"]));
    assert_eq!(merged(&wants_taints(&[first]), &timeless).taints, taints(&[first]));
}

#[test]
fn s12_taints_of_kubernetes_are_never_ours() {
    let of_kubernetes = ["node.kubernetes.io/not-ready:NoSchedule", "node.cloudprovider.kubernetes.io/x:NoSchedule"];
    let wanted = wants_taints(&["topoloom.dev/vnode:NoSchedule"]);
    let mut existing = written(&wanted);
    existing.taints.splice(0..0, taints(&of_kubernetes));
    // They are there from admission on, and no reason for a write, nor is the order.
    assert_eq!(merge(&wanted, &existing).patch, None);
    // Not even a base that names them lets them go.
    let named = r#"{"v":1,"t":{"node.kubernetes.io/not-ready":["NoSchedule"],"topoloom.dev/vnode":["NoSchedule"]}}"#;
    existing.annotations = map([(keys::EXPECTED_METADATA, named)]);
    let nothing = Wanted::default();
    assert_eq!(merged(&nothing, &existing).taints, taints(&of_kubernetes));
    at_rest(&nothing, &existing);
    // And one that is wanted is not set.
    let merge = merge(&wants_taints(&["node.kubernetes.io/unschedulable:NoSchedule"]), &Metadata::default());
    assert_eq!(merge.patch.map(|patch| patch.taints), Some(None));
    assert!(matches!(merge.notes.as_slice(), [Note::NotOurs(_)]), "{:?}", merge.notes);
}

#[test]
fn s12_a_taint_is_identified_by_key_and_effect() {
    let mut existing = written(&wants_taints(&["gpu=a:NoSchedule"]));
    existing.taints.push(taint("gpu=user:NoExecute"));
    let wanted = wants_taints(&["gpu=b:NoSchedule"]);
    assert_eq!(merged(&wanted, &existing).taints, taints(&["gpu=b:NoSchedule", "gpu=user:NoExecute"]));
    assert_eq!(merged(&Wanted::default(), &existing).taints, taints(&["gpu=user:NoExecute"]));
}

#[test]
fn s12_the_base_holds_names_and_a_hash_and_no_values() {
    let wanted = Wanted {
        labels: map([("zone", "eu-1")]),
        annotations: map([("note", "secret-value"), (keys::LAST_SYNC_TIME, "now")]),
        taints: taints(&["gpu=a:NoSchedule", "gpu=a:NoExecute@2026-03-01T08:01:00Z"]),
        conditions: BTreeSet::from(["Ready".to_owned()]),
        ..Wanted::default()
    };
    let text = encode(&wanted);
    let expected = decode(&text).unwrap();
    let hash = expected.hash.clone().unwrap();
    let want = format!(
        r#"{{"a":["note"],"c":["Ready"],"h":"{hash}","l":["zone"],"t":{{"gpu":["NoSchedule","NoExecute"]}},"v":1}}"#
    );
    let members = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(members(&text), members(&want));
    assert_eq!((hash.len(), expected.encode()), (16, text.clone()));
    assert_eq!(written(&wanted).annotations[keys::EXPECTED_METADATA], text);
    // The hash follows values, and neither times nor volatile keys.
    let hash_of = |change: &dyn Fn(&mut Wanted)| {
        let mut other = wanted.clone();
        change(&mut other);
        decode(&encode(&other)).unwrap().hash.unwrap()
    };
    let volatile = |wanted: &mut Wanted| {
        wanted.annotations.insert(keys::LAST_SYNC_TIME.to_owned(), "later".to_owned());
        wanted.taints[1].time_added = None;
        wanted.taints.reverse();
    };
    assert_eq!(hash_of(&volatile), hash);
    let value = |wanted: &mut Wanted| drop(wanted.labels.insert("zone".to_owned(), "eu-2".to_owned()));
    let shifted = |wanted: &mut Wanted| wanted.labels = map([("zonee", "u-1")]);
    let tainted = |wanted: &mut Wanted| "b".clone_into(&mut wanted.taints[0].value);
    let fewer = |wanted: &mut Wanted| wanted.conditions.clear();
    let others = [hash_of(&value), hash_of(&shifted), hash_of(&tainted), hash_of(&fewer), hash];
    assert_eq!(others.iter().collect::<BTreeSet<_>>().len(), 5, "{others:?}");
}

#[test]
fn s12_the_format_of_the_original_system_is_read() {
    let base = |json: &str| map([(keys::EXPECTED_METADATA, &*STANDARD.encode(json))]);
    let json = r#"{"labels":{"old":"1","kept":"1"},"annotations":{"note":"x"},
        "taints":[{"key":"gpu","value":"a","effect":"NoSchedule"},{"key":"x","effect":"NoExecute","timeAdded":null}]}"#;
    let mut existing = Metadata { annotations: base(json), ..Metadata::default() };
    existing.labels = map([("old", "1"), ("kept", "1"), ("user", "1")]);
    existing.annotations.insert("note".to_owned(), "edited".to_owned());
    existing.taints = taints(&["gpu=other:NoSchedule", "x:NoExecute", "gpu:NoExecute"]);
    let wanted = Wanted { labels: map([("kept", "2")]), ..Wanted::default() };
    let after = merged(&wanted, &existing);
    assert_eq!(after.labels, map([("kept", "2"), ("user", "1")]));
    assert_eq!(after.annotations, map([(keys::EXPECTED_METADATA, &encode(&wanted))]));
    assert_eq!(after.taints, taints(&["gpu:NoExecute"]));
    for empty in ["{}", r#"{"labels":null,"annotations":null,"taints":null}"#] {
        assert_eq!(decode(&STANDARD.encode(empty)), Ok(Expected::default()), "{empty}");
    }
}

#[test]
fn s12_a_broken_base_counts_as_empty_and_is_reported() {
    let base64 = |json: &str| STANDARD.encode(json);
    let deep = "[".repeat(200_000);
    let (list, labels, half, later) = (base64("[]"), base64(r#"{"labels":[]}"#), base64("{"), r#"{"v":2,"l":["a"]}"#);
    let taint = base64(r#"{"taints":[{"key":"a"}]}"#);
    let broken = [
        "",
        "x",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"v":"1"}"#,
        r#"{"v":-1}"#,
        r#"{"v":1,"l":"a"}"#,
        r#"{"v":1,"a":[1]}"#,
        r#"{"v":1,"t":[]}"#,
        r#"{"v":1,"t":{"a":"NoSchedule"}}"#,
        later,
        &list,
        &labels,
        &half,
        &taint,
        &deep,
        "e30",
        "\u{e4}",
    ];
    for text in broken {
        let mut existing = Metadata { labels: map([("a", "old"), ("b", "2")]), ..Metadata::default() };
        existing.annotations = map([(keys::EXPECTED_METADATA, text)]);
        existing.taints = vec![taint_of_window(), super::tests::taint("gpu:NoSchedule")];
        let wanted = Wanted { labels: map([("a", "1")]), ..Wanted::default() };
        let merge = merge(&wanted, &existing);
        assert!(matches!(merge.notes.first(), Some(Note::Base(_))), "{text:.40}: {:?}", merge.notes);
        assert!(merge.notes[0].to_string().len() < 300, "{}", merge.notes[0]);
        let after = merge.patch.unwrap().onto(&existing);
        assert_eq!(after.labels, map([("a", "1"), ("b", "2")]), "{text:.40}");
        // What only the syncer sets goes all the same: nothing else would ever remove it.
        assert_eq!(after.taints, taints(&["gpu:NoSchedule"]), "{text:.40}");
        at_rest(&wanted, &existing);
    }
    assert_eq!(decode(later).unwrap_err().to_string(), "must be of version 1, got version 2");
    // A member of a later minor change is no reason to forget the rest.
    assert_eq!(decode(r#"{"v":1,"l":["a"],"new":{}}"#).unwrap().labels, BTreeSet::from(["a".to_owned()]));
}

fn taint_of_window() -> Taint {
    taint("topoloom.dev/out-of-time-windows=true:NoSchedule@2026-03-01T08:01:00Z")
}

#[test]
fn s12_volatile_keys_are_written_with_another_change_only() {
    let wish = |time: &str, zone: &str| Wanted {
        labels: map([("zone", zone)]),
        annotations: map([(keys::LAST_SYNC_TIME, time), (keys::LEASE_SUMMARY, time)]),
        ..Wanted::default()
    };
    let existing = written(&wish("1", "a"));
    let quiet = merge(&wish("2", "a"), &existing);
    assert_eq!((quiet.patch, quiet.notes), (None, Vec::new()));
    // A caller that writes a status takes them along.
    assert_eq!(changes(&quiet.riders), ["topoloom.dev/last-sync-time=2", "topoloom.dev/lease-summary=2"]);
    let patch = merge(&wish("2", "b"), &existing).patch.unwrap();
    assert_eq!(changes(&patch.annotations), ["topoloom.dev/last-sync-time=2", "topoloom.dev/lease-summary=2"]);
    let without = Wanted { annotations: BTreeMap::new(), ..wish("", "a") };
    assert_eq!(merge(&without, &existing).patch, None);
    assert_eq!(
        merge(&Wanted { labels: map([("zone", "b")]), ..without }, &existing).patch.unwrap().annotations.len(),
        3
    );
}

#[test]
fn s10_a_deletion_began_when_it_began_and_ends_without_a_trace() {
    let deleting = |time: &str| Wanted {
        annotations: map([(keys::DELETION_TAINT_TIME, time)]),
        taints: vec![Taint::deleting()],
        cordon: CordonWish::Cordon,
        ..Wanted::default()
    };
    let existing = written(&deleting("2026-03-01T08:00:00Z"));
    assert_eq!(existing.cordon, Cordon::Cordoned);
    assert_eq!(existing.annotations[keys::CORDONED], "true");
    assert_eq!(merge(&deleting("2026-03-01T09:00:00Z"), &existing).patch, None);
    let mut broken = existing.clone();
    broken.annotations.insert(keys::DELETION_TAINT_TIME.to_owned(), "yesterday".to_owned());
    let repaired = merged(&deleting("2026-03-01T09:00:00Z"), &broken);
    assert_eq!(repaired.annotations[keys::DELETION_TAINT_TIME], "2026-03-01T09:00:00Z");
    // Its cause is gone, with a base that is lost, too.
    let mut lost = existing.clone();
    lost.annotations.remove(keys::EXPECTED_METADATA);
    for deleted in [existing, lost] {
        let recovered = merged(&Wanted::default(), &deleted);
        let base = map([(keys::EXPECTED_METADATA, &encode(&Wanted::default()))]);
        assert_eq!(recovered, Metadata { annotations: base, ..Metadata::default() });
    }
}

#[test]
fn s10_a_cordon_is_taken_back_only_if_it_is_ours() {
    let delete = Wanted { cordon: CordonWish::Cordon, ..Wanted::default() };
    let keep = Wanted::default();
    let check = |wanted: &Wanted, existing: &Metadata, cordon, marked| {
        let after = merged(wanted, existing);
        assert_eq!((after.cordon, after.annotations.contains_key(keys::CORDONED)), (cordon, marked));
        at_rest(wanted, existing);
        after
    };
    let users = Metadata { cordon: Cordon::Cordoned, ..written(&keep) };
    assert_eq!(merge(&keep, &users).notes, [Note::CordonOfAnother]);
    let deleted = check(&delete, &users, Cordon::Cordoned, false);
    check(&keep, &deleted, Cordon::Cordoned, false);
    let ours = check(&delete, &written(&keep), Cordon::Cordoned, true);
    assert_eq!(merge(&delete, &ours).notes, []);
    check(&keep, &ours, Cordon::Open, false);
    // A user takes our cordon off: it is set again, and is ours still.
    let open = Metadata { cordon: Cordon::Open, ..ours.clone() };
    check(&delete, &open, Cordon::Cordoned, true);
    check(&keep, &open, Cordon::Open, false);
    // A user takes the mark off: the cordon is the user's from now on.
    let mut unmarked = ours;
    unmarked.annotations.remove(keys::CORDONED);
    check(&keep, &unmarked, Cordon::Cordoned, false);
}

#[test]
fn scenario_15_4_what_users_add_survives_and_what_they_change_of_ours_is_reverted() {
    let wish = |zone: &str| Wanted {
        labels: map([("zone", zone), (keys::BINDING, "east")]),
        taints: vec![Taint::lent()],
        ..Wanted::default()
    };
    let mut existing = written(&wish("a"));
    existing.labels.insert("team".to_owned(), "a".to_owned());
    existing.taints.push(taint("team=a:NoSchedule"));
    assert_eq!(merge(&wish("a"), &existing).patch, None);
    // The physical label changes.
    let existing = merged(&wish("b"), &existing);
    assert_eq!(existing.labels, map([("zone", "b"), (keys::BINDING, "east"), ("team", "a")]));
    assert_eq!(existing.taints, vec![Taint::lent(), taint("team=a:NoSchedule")]);
    // A user edits what is ours.
    let mut edited = existing.clone();
    edited.labels.insert(keys::BINDING.to_owned(), "west".to_owned());
    edited.labels.remove("zone");
    "x".clone_into(&mut edited.taints[0].value);
    let reverted = merge(&wish("b"), &edited);
    assert_eq!(reverted.patch.unwrap().onto(&edited), existing);
    let notes: Vec<_> = reverted.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "another client changed \"topoloom.dev/binding\" in the labels; it is set again",
            "another client changed \"zone\" in the labels; it is set again",
            "another client changed the taint topoloom.dev/vnode:NoSchedule; it is set again",
        ]
    );
    // A new wish of our own is no edit of another client.
    assert_eq!(merge(&wish("c"), &existing).notes, []);
}

#[test]
fn s22_an_edited_label_of_identity_is_repaired() {
    let wanted = Wanted { labels: map([(keys::PHYSICAL_NODE_UID, "u1")]), ..Wanted::default() };
    let mut existing = written(&wanted);
    existing.labels.insert(keys::PHYSICAL_NODE_UID.to_owned(), "u2".to_owned());
    assert_eq!(changes(&merge(&wanted, &existing).patch.unwrap().labels), ["topoloom.dev/physical-node-uid=u1"]);
}

#[test]
fn s12_a_process_that_dies_between_two_requests_leaves_no_taint_and_no_cordon_for_ever() {
    let deleting = Wanted { cordon: CordonWish::Cordon, ..wants_taints(&["gpu=a:NoSchedule"]) };
    let existing = written(&deleting);
    let wanted = Wanted { labels: map([("zone", "a")]), ..Wanted::default() };
    let patch = merge(&wanted, &existing).patch.unwrap();
    assert!(patch.changes_spec());
    let (first, second) = patch.clone().in_two();
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.changes_spec(), second.changes_spec()), (false, true));
    assert_eq!((first.taints.is_none(), first.cordon), (true, None));
    let between = first.onto(&existing);
    assert_eq!(second.onto(&between), patch.onto(&existing));
    // The second request is never sent, and the next pass makes up for it.
    assert_eq!(merge(&wanted, &between).notes, [], "no other client has changed anything");
    let after = merged(&wanted, &between);
    assert_eq!((after.cordon, after.taints.len()), (Cordon::Open, 0));
    at_rest(&wanted, &between);
    // To set a cordon, its mark goes with it: a user may cordon the node in between.
    let patch = merge(&deleting, &Metadata::default()).patch.unwrap();
    let (first, second) = patch.clone().in_two();
    let between = first.unwrap().onto(&Metadata::default());
    assert!(!between.annotations.contains_key(keys::CORDONED));
    assert_eq!(second.unwrap().onto(&between), patch.onto(&Metadata::default()));
    // Labels alone are one request, taints alone another.
    let labels = merge(&wanted, &Metadata::default()).patch.unwrap();
    assert_eq!(labels.clone().in_two(), (Some(labels), None));
    let added = merge(&wants_taints(&["gpu=a:NoSchedule"]), &written(&Wanted::default())).patch.unwrap();
    let (first, second) = added.in_two();
    assert_eq!((first.is_some(), second.map(|second| second.annotations.len())), (true, Some(1)));
}

#[test]
fn the_address_of_a_node_that_has_none_any_more_goes() {
    let wanted = Wanted { labels: map([(keys::PHYSICAL_NODE_INNER_IP, "10.0.0.7")]), ..Wanted::default() };
    let mut existing = written(&wanted);
    existing.annotations = TextMap::default();
    assert_eq!(merged(&Wanted::default(), &existing).labels, TextMap::default());
}

#[test]
fn ten_thousand_keys_of_others_are_a_matter_of_milliseconds() {
    let many: Vec<String> = (0..10_000).map(|at| format!("k{at}")).collect();
    let all: BTreeMap<_, _> = many.iter().map(|key| (key.clone(), "1".to_owned())).collect();
    let taints: Vec<_> = many.iter().map(|key| Taint::new(key, "", Effect::NoSchedule)).collect();
    let existing = Metadata {
        labels: all.clone().into(),
        annotations: all.clone().into(),
        taints: taints.clone(),
        ..Metadata::default()
    };
    let wanted = Wanted { labels: all.clone(), annotations: all, taints, ..Wanted::default() };
    let after = merged(&wanted, &existing);
    assert_eq!(after.taints.len(), 10_000);
    assert_eq!(merged(&Wanted::default(), &after).taints, []);
}
