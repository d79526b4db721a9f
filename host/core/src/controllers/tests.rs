use super::*;

/// The list over names of Volcano's, so that it can be compared with the rows of the specification.
fn row(list: &str, wanted: Option<[bool; 3]>) {
    let read = Selection::parse([list], &VOLCANOS);
    let found = read.as_ref().ok().map(|read| {
        ["job-controller", "gc-controller", "sharding-controller"].map(|name| read.selection.enables(name))
    });
    assert_eq!(found, wanted, "{list:?}: {read:?}");
}

fn mistakes(list: &str) -> Vec<String> {
    let read = Selection::parse([list], &OURS);
    read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn b6_every_row_of_the_table_as_r1_corrects_it() {
    row("", Some([true, true, true]));
    row("*", Some([true, true, true]));
    row("*,-sharding-controller", Some([true, true, false]));
    row("-sharding-controller,*,-job-controller", Some([false, true, false]));
    row("job-controller,queue-controller", Some([true, false, false]));
    row("+gc-controller,+jobflow-controller", Some([false, true, false]));
    row("*,-gc-controller,-cronjob-controller", Some([true, false, true]));
    // Refused: the list would switch everything off.
    row("-gc-controller", None);
    // Blanks are ignored; in Volcano they would be part of the name.
    row("*, -job-controller", Some([false, true, true]));
    // Refused; Volcano would accept and ignore it.
    row("*,-Job-Controller", None);
}

#[test]
fn b6_a_name_is_listed_once_whatever_its_prefix() {
    for list in ["+a,-a", "a,+a", "a,a", "*,-a,-a", "-a,*,+a", "a,*,-a"] {
        let list = list.replace('a', EXTENDER);
        let found = mistakes(&list);
        assert!(found.len() == 1 && found[0].contains("more than once"), "{list}: {found:?}");
    }
    assert!(mistakes("*,*,-extender,*").is_empty());
}

#[test]
fn bx_5_the_worked_example() {
    let refused = Selection::parse(["+job-controller,job-controller"], &VOLCANOS).unwrap_err();
    let tokens = vec!["+job-controller".to_owned(), "job-controller".to_owned()];
    assert_eq!(refused, [Mistake::Repeated { name: "job-controller".into(), tokens }]);
    row("*,*,-gc-controller", Some([true, false, true]));
}

#[test]
fn b5_values_that_are_given_one_by_one_are_one_list() {
    let read = Selection::parse(["*", " -extender , -nodelock-sweeper "], &OURS).unwrap();
    assert_eq!(OURS.map(|name| read.selection.enables(name)), [true, false, true, false]);
    let refused = Selection::parse(["extender", "-extender"], &OURS).unwrap_err();
    assert!(matches!(refused.as_slice(), [Mistake::Repeated { .. }]), "{refused:?}");
}

#[test]
fn r1_unknown_names_are_mistakes_that_list_the_known_ones() {
    let found = mistakes("*,-extendre");
    assert_eq!(
        found,
        ["`extendre` is not a controller; the controllers are bottomup-syncer, extender, hyperNode-controller, \
            nodelock-sweeper"]
    );
}

#[test]
fn r1_capitals_count_and_the_message_has_the_right_ones() {
    for (list, meant) in [
        ("hypernode-controller", "hyperNode-controller"),
        ("*,-HyperNode-Controller", "hyperNode-controller"),
        ("*,-Job-Controller", "job-controller"),
    ] {
        let found = mistakes(list);
        assert!(found.len() == 1 && found[0].contains(&format!("did you mean `{meant}`")), "{list}: {found:?}");
    }
}

#[test]
fn r1_a_list_that_only_switches_off_is_refused_with_a_hint() {
    let found = mistakes("-extender,-bottomup-syncer");
    assert_eq!(
        found,
        [
            "the list only switches controllers off, so none would run; add `*` for all others: `*,-extender,-bottomup-syncer`"
        ]
    );
    assert!(mistakes("-gc-controller")[0].contains("`*,-gc-controller`"));
}

#[test]
fn m1_a_controller_of_volcano_may_be_switched_off_and_not_on() {
    let read = Selection::parse(["*,-sharding-controller,-job-controller"], &OURS).unwrap();
    assert_eq!(read.elsewhere, ["sharding-controller", "job-controller"]);
    assert!(OURS.iter().all(|name| read.selection.enables(name)));
    for list in ["job-controller", "*,+gc-controller"] {
        let found = mistakes(list);
        assert!(found.len() == 1 && found[0].contains("of Volcano's own binary"), "{list}: {found:?}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let found = mistakes("*,+nope,,job-controller,extender,-extender,-*");
    assert_eq!(found.len(), 5, "{found:?}");
    for words in ["`nope` is no", "between commas", "Volcano's own", "more than once", "`*` has no prefix"] {
        assert!(found.iter().any(|mistake| mistake.contains(words)), "{words}: {found:?}");
    }
}

#[test]
fn the_default_is_everything() {
    let star = Selection::parse(["*"], &OURS).unwrap();
    assert_eq!(star, ControllerList { selection: Selection::all(), elsewhere: Vec::new() });
}
