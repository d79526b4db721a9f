use proptest::prelude::*;

use super::borrower::{Borrower, BorrowerVerdict, WhyConflict};
use super::mapping::{Mapping, PhysicalPodRef, PodSide, VirtualPodRef, is_mapped};
use super::*;

type Keys = BTreeMap<String, String>;

fn us() -> Identity {
    Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-2".into()).unwrap()
}

fn with(mut labels: Keys, key: &str, value: Option<&str>) -> Keys {
    match value {
        Some(value) => labels.insert(key.to_owned(), value.to_owned()),
        None => labels.remove(key),
    };
    labels
}

#[test]
fn s6_the_three_labels_of_identity() {
    let labels: Vec<_> = us().labels().into_iter().collect();
    let wanted = [
        ("topoloom.dev/binding", "east"),
        ("topoloom.dev/binding-uid", "binding-2"),
        ("topoloom.dev/virtual-cluster", "cluster-1"),
    ];
    assert_eq!(labels, wanted.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let long = BindingName::parse(&"b".repeat(253)).unwrap();
    let long = Identity::new("c".into(), long, "u".into()).unwrap();
    assert!(long.labels().values().all(|value| is_label_value(value).is_ok()));
    assert_eq!(Ownership::of(&long.labels(), &long), Ownership::Ours);
    assert_eq!(us().node_labels(&ClusterId::parse("e").unwrap(), &"n".repeat(200)).len(), 7);
}

#[test]
fn s6_an_identity_that_no_label_can_hold_is_refused() {
    let binding = || BindingName::parse("east").unwrap();
    let why = Identity::new("a/b".into(), binding(), "u".into()).unwrap_err().to_string();
    assert_eq!(
        why,
        "the identity of the virtual cluster (--virtual-cluster-id) must be 1 to 63 letters, digits, '-', '_' and '.', with \
         a letter or digit at both ends, got \"a/b\""
    );
    assert!(Identity::new("".into(), binding(), "u".into()).is_err());
    assert_eq!(Identity::new("c".into(), binding(), "".into()).unwrap_err().field, "the UID of the ClusterBinding");
}

#[test]
fn s1_an_object_is_ours_by_all_of_its_labels_or_not_at_all() {
    let of = |labels: &Keys| Ownership::of(labels, &us());
    let ours = us().labels();
    assert_eq!(of(&ours), Ownership::Ours);
    assert_eq!(of(&with(ours.clone(), "team", Some("a"))), Ownership::Ours);
    assert_eq!(of(&Keys::new()), Ownership::None);
    // The label of the original system proves nothing.
    assert_eq!(of(&with(Keys::new(), keys::MANAGED_BY_LABEL, Some(keys::MANAGED_BY))), Ownership::None);
    assert_eq!(of(&with(ours.clone(), keys::BINDING_UID, Some("b-1"))), Ownership::OursOfEarlierBinding("b-1".into()));
    for (key, value) in [
        (keys::VIRTUAL_CLUSTER, None),
        (keys::VIRTUAL_CLUSTER, Some("cluster-9")),
        (keys::BINDING, None),
        (keys::BINDING, Some("west")),
        (keys::BINDING_UID, None),
        (keys::BINDING_UID, Some("")),
    ] {
        let Ownership::Foreign(difference) = of(&with(ours.clone(), key, value)) else { panic!("{key}: {value:?}") };
        assert_eq!((difference.key, difference.found.as_deref()), (key, value));
    }
    let foreign = of(&with(ours, keys::VIRTUAL_CLUSTER, Some("cluster-9"))).resolve(Earlier::Gone);
    let Owner::Foreign(why) = foreign else { panic!("{foreign:?}") };
    assert_eq!(why.to_string(), "its label topoloom.dev/virtual-cluster is \"cluster-9\", and ours is \"cluster-1\"");
}

#[test]
fn s6_where_only_the_uid_differs_a_live_list_decides() {
    let earlier = || Ownership::OursOfEarlierBinding("b-1".into());
    assert_eq!(earlier().resolve(Earlier::Unlisted), Owner::Unknown("b-1".into()));
    assert_eq!(earlier().resolve(Earlier::Gone), Owner::Adoptable("b-1".into()));
    assert_eq!(earlier().resolve(Earlier::Stands), Owner::Foreign(WhyForeign::BindingStands("b-1".into())));
    for list in [Earlier::Unlisted, Earlier::Gone, Earlier::Stands] {
        assert_eq!(Ownership::Ours.resolve(list), Owner::Ours);
        assert_eq!(Ownership::None.resolve(list), Owner::Foreign(WhyForeign::Unlabelled));
    }
}

#[test]
fn s6_a_virtual_node_that_names_our_binding_and_no_uid_of_it_is_adopted_without_a_list() {
    for value in [None, Some("")] {
        let labels = with(us().labels(), keys::BINDING_UID, value);
        for bindings in [None, Some(BTreeSet::from(["binding-2".into()]))] {
            assert_eq!(Owner::of_node(&labels, &us(), bindings.as_ref()), Owner::Adoptable("".into()), "{value:?}");
        }
        assert!(names_binding(&labels, &us()));
        assert_eq!(lacking(&labels, &us()), None, "{value:?}");
    }
    let earlier = with(us().labels(), keys::BINDING_UID, Some("b-1"));
    let of = |bindings: &[&str]| {
        let bindings = bindings.iter().map(|uid| Uid::from(*uid)).collect();
        Owner::of_node(&earlier, &us(), Some(&bindings))
    };
    assert_eq!(Owner::of_node(&earlier, &us(), None), Owner::Unknown("b-1".into()));
    assert_eq!(of(&["binding-2"]), Owner::Adoptable("b-1".into()));
    assert_eq!(of(&["b-1"]), Owner::Foreign(WhyForeign::BindingStands("b-1".into())));
    assert_eq!(Owner::of_node(&us().labels(), &us(), None), Owner::Ours);
}

#[test]
fn s6_a_label_that_is_missing_or_empty_is_another_thing_than_one_that_names_another() {
    let both = vec![keys::VIRTUAL_CLUSTER, keys::BINDING];
    assert_eq!(lacking(&us().labels(), &us()), None);
    assert_eq!(lacking(&Keys::new(), &us()), Some(both.clone()));
    for (key, another) in [(keys::VIRTUAL_CLUSTER, "cluster-9"), (keys::BINDING, "west")] {
        for value in [None, Some("")] {
            let labels = with(us().labels(), key, value);
            assert_eq!(lacking(&labels, &us()), Some(vec![key]), "{value:?}");
            assert!(!names_binding(&labels, &us()));
            // Whatever it says of the UID.
            for uid in [None, Some(""), Some("b-1")] {
                assert_eq!(lacking(&with(labels.clone(), keys::BINDING_UID, uid), &us()), Some(vec![key]));
            }
            let other = if key == keys::BINDING { keys::VIRTUAL_CLUSTER } else { keys::BINDING };
            assert_eq!(lacking(&with(labels.clone(), other, value), &us()), Some(both.clone()));
            assert_eq!(lacking(&with(labels, other, Some("another")), &us()), None, "it names another");
        }
        assert_eq!(lacking(&with(us().labels(), key, Some(another)), &us()), None);
    }
}

#[test]
fn s7_a_claim_on_a_node_is_read_as_it_was_written() {
    let read = |value: &str| Claim::read(Some(value), &us());
    assert_eq!(us().claim(), "cluster-1/binding-2");
    assert_eq!(read(&us().claim()), Claim::Ours);
    assert_eq!(Claim::read(None, &us()), Claim::Free);
    assert_eq!(read("cluster-1/binding-1"), Claim::OtherBinding("binding-1".into()));
    let other = Claim::Other { virtual_cluster: "cluster-9".into(), binding_uid: "binding-2".into() };
    assert_eq!(read("cluster-9/binding-2"), other);
    for malformed in ["", "/", "cluster-1", "cluster-1/", "/binding-2", "cluster-1/binding-2/x", " cluster-1/binding-2"]
    {
        let claim = read(malformed);
        assert!(matches!(claim, Claim::Malformed(_)), "{malformed}: {claim:?}");
        assert!(claim.to_string().contains("must be <virtual cluster>/<UID of the ClusterBinding>"), "{claim}");
    }
    assert!(read(&"\u{1b}".repeat(250_000)).to_string().len() < 300);
}

#[test]
fn s7_the_lease_of_a_borrower_is_ours_free_or_a_conflict() {
    let (identity, cluster) = (us(), ClusterId::parse("east").unwrap());
    let borrower = Borrower { identity: &identity, cluster: &cluster };
    let judge = |labels: &Keys| borrower.judge(Some(labels), Earlier::Gone);
    assert_eq!(borrower.holder(), "cluster-1/binding-2");
    assert!(borrower.lease().starts_with("topoloom-borrower-"));
    assert_eq!(borrower.judge(None, Earlier::Unlisted), BorrowerVerdict::Free);
    assert_eq!(judge(&borrower.labels()), BorrowerVerdict::Ours);
    // A lease that says nothing of itself is another's.
    let conflict = |why| BorrowerVerdict::Conflict(WhyConflict::Foreign(why));
    assert_eq!(judge(&Keys::new()), conflict(WhyForeign::Unlabelled));
    let earlier = with(borrower.labels(), keys::BINDING_UID, Some("b-1"));
    assert_eq!(judge(&earlier), BorrowerVerdict::Adopt("b-1".into()));
    assert_eq!(borrower.judge(Some(&earlier), Earlier::Unlisted), BorrowerVerdict::AskBinding("b-1".into()));
    let stands = conflict(WhyForeign::BindingStands("b-1".into()));
    assert_eq!(borrower.judge(Some(&earlier), Earlier::Stands), stands);
    let swapped = with(borrower.labels(), keys::VIRTUAL_CLUSTER, Some("cluster-9"));
    assert!(matches!(judge(&swapped), BorrowerVerdict::Conflict(WhyConflict::Foreign(WhyForeign::Label(_)))));
    for id in [Some("west"), None] {
        let BorrowerVerdict::Conflict(why) = judge(&with(earlier.clone(), keys::PHYSICAL_CLUSTER_ID, id)) else {
            panic!("{id:?}")
        };
        assert!(matches!(why, WhyConflict::ClusterId { .. }) && why.to_string().contains("clusterID"), "{why}");
    }
}

fn annotations(of: [&str; 3], values: [&str; 3]) -> Keys {
    of.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.to_owned())).collect()
}

const OF_VIRTUAL: [&str; 3] = [keys::VIRTUAL_POD_NAMESPACE, keys::VIRTUAL_POD_NAME, keys::VIRTUAL_POD_UID];
const OF_PHYSICAL: [&str; 3] = [keys::PHYSICAL_POD_NAMESPACE, keys::PHYSICAL_POD_NAME, keys::PHYSICAL_POD_UID];

fn mapped(physical: &Keys, twin: &Keys) -> Mapping {
    let (p, v) = ("p-uid".into(), "v-uid".into());
    let physical = PodSide { namespace: "lent", name: "web-0-d8e9", uid: &p, annotations: physical };
    is_mapped(&physical, &PodSide { namespace: "shop", name: "web-0", uid: &v, annotations: twin })
}

#[test]
fn section_4_3_two_pods_are_mapped_when_each_names_the_other() {
    let down = annotations(OF_VIRTUAL, ["shop", "web-0", "v-uid"]);
    let up = annotations(OF_PHYSICAL, ["lent", "web-0-d8e9", "p-uid"]);
    assert_eq!(mapped(&down, &up), Mapping::Both);
    for key in OF_VIRTUAL {
        for value in [None, Some("")] {
            let Mapping::PhysicalIncomplete(part) = mapped(&with(down.clone(), key, value), &up) else {
                panic!("{key}")
            };
            assert_eq!((part.key, part.found), (key, None));
        }
    }
    assert!(matches!(mapped(&with(down.clone(), OF_VIRTUAL[1], Some("web-1")), &up), Mapping::OtherName(_)));
    let other = Mapping::OtherUid { named: "v-0".into(), found: "v-uid".into() };
    assert_eq!(mapped(&with(down.clone(), OF_VIRTUAL[2], Some("v-0")), &up), other);
    for key in [OF_PHYSICAL[0], OF_PHYSICAL[1]] {
        assert!(
            matches!(mapped(&down, &with(up.clone(), key, None)), Mapping::VirtualIncomplete(part) if part.key == key)
        );
        assert!(matches!(mapped(&down, &with(up.clone(), key, Some("other"))), Mapping::OtherPhysical(_)));
    }
}

#[test]
fn d14_the_physical_uid_is_compared_when_it_is_set() {
    let down = annotations(OF_VIRTUAL, ["shop", "web-0", "v-uid"]);
    let up = annotations(OF_PHYSICAL, ["lent", "web-0-d8e9", "p-uid"]);
    for unset in [None, Some("")] {
        assert_eq!(mapped(&down, &with(up.clone(), keys::PHYSICAL_POD_UID, unset)), Mapping::Both);
    }
    let other = Mapping::OtherPhysicalUid { named: "p-0".into(), found: "p-uid".into() };
    assert_eq!(mapped(&down, &with(up.clone(), keys::PHYSICAL_POD_UID, Some("p-0"))), other);
    assert!(matches!(
        mapped(&down, &with(up, keys::PHYSICAL_POD_UID, Some("no uid/at all"))),
        Mapping::VirtualIncomplete(_)
    ));
}

#[test]
fn what_could_not_name_a_pod_never_reaches_the_path_of_a_request() {
    for (namespace, name, uid) in [
        ("a/b", "x", "u"),
        ("..", "x", "u"),
        ("a.b", "x", "u"),
        ("a", "../x", "u"),
        ("a", "X", "u"),
        ("a", "x", "u/v"),
        ("a", "x", "u\n"),
    ] {
        assert!(
            VirtualPodRef::read(&annotations(OF_VIRTUAL, [namespace, name, uid])).is_err(),
            "{namespace}/{name} {uid}"
        );
        assert!(PhysicalPodRef::read(&annotations(OF_PHYSICAL, [namespace, name, uid])).is_err());
    }
    let broken = VirtualPodRef::read(&annotations(OF_VIRTUAL, ["a", &"\u{1b}".repeat(99_999), "u"])).unwrap_err();
    assert!(broken.to_string().len() < 300);
    let read = VirtualPodRef::read(&annotations(OF_VIRTUAL, ["a", "x.y", "u"])).unwrap();
    assert_eq!(read.to_string(), "a/x.y (UID u)");
}

proptest! {
    #[test]
    fn s6_no_labels_are_ours_but_those_that_hold_our_identity(
        values in prop::collection::vec(prop::option::of("cluster-1|east|binding-2|[a-z]{0,3}"), 3),
    ) {
        let keys = [keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID];
        let labels: Keys = keys
            .iter()
            .zip(&values)
            .filter_map(|(key, value)| Some(((*key).to_owned(), value.clone()?)))
            .collect();
        let owner = Ownership::of(&labels, &us()).resolve(Earlier::Gone);
        let is = |at: usize, text: &str| values[at].as_deref() == Some(text);
        let first_two = is(0, "cluster-1") && is(1, "east");
        prop_assert_eq!(owner == Owner::Ours, first_two && is(2, "binding-2"));
        let adoptable = first_two && !is(2, "binding-2") && values[2].as_deref().is_some_and(|uid| !uid.is_empty());
        prop_assert_eq!(matches!(owner, Owner::Adoptable(_)), adoptable);
    }

    #[test]
    fn s7_no_text_is_too_odd_to_be_read_as_a_claim(text in "\\PC{0,40}|[a-z/.-]{0,20}") {
        let claim = Claim::read(Some(&text), &us());
        prop_assert!(claim != Claim::Free);
        prop_assert_eq!(claim == Claim::Ours, text == us().claim());
    }
}
