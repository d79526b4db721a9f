use std::collections::BTreeMap;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn cluster(text: &str) -> ClusterId {
    ClusterId::parse(text).unwrap()
}

fn vnode(id: &str, node: &str) -> String {
    virtual_node_name(&cluster(id), node).unwrap().to_string()
}

#[test]
fn section_5_the_table_of_virtual_node_names() {
    let short = vnode("cls-east", "ip-10-0-3-17.ec2.internal");
    assert_eq!((short.as_str(), short.len()), ("vnode-cls-east-ip-10-0-3-17.ec2.internal", 40));
    let long = vnode("prod-eu-gpu", "gpu-a100-80gb-rack07-slot12.eu-west-1.compute.internal");
    assert_eq!(long, "vnode-prod-eu-gpu-gpu-a100-80g-759fb171c8cc52d5f60c48928b01cf38");
    assert_eq!(long.len(), 63);
}

#[test]
fn section_5_the_example_of_a_physical_pod_name() {
    assert_eq!(physical_pod_name("shop", "web-0").unwrap(), "web-0-d8e9078212837472931ac9807f48a030");
    assert!(physical_pod_name("shop", "Web").is_err() && physical_pod_name("", "web").is_err());
}

#[test]
fn a_name_of_63_bytes_is_whole_and_one_of_64_is_hashed() {
    let node = "n".repeat(63 - "vnode-east-".len());
    assert_eq!(vnode("east", &node), format!("vnode-east-{node}"));
    let longer = vnode("east", &format!("{node}n"));
    assert!(longer.starts_with("vnode-east-nnnnnnnnnnnnnnnnnnn-") && longer.len() == 63, "{longer}");
}

#[test]
fn a_cut_behind_a_dot_or_a_dash_gives_a_dns_name() {
    // The thirtieth byte is the dot, or the dash.
    for end in [".", "-"] {
        let name = vnode("east", &format!("{}{end}{}", "n".repeat(18), "m".repeat(60)));
        assert!(name.starts_with(&format!("vnode-east-{}-", "n".repeat(18))), "{name}");
        assert_eq!((name.len(), is_object_name(&name)), (62, Ok(())), "{name}");
    }
    let pod = physical_pod_name("a", &format!("{}.q", "p".repeat(29))).unwrap();
    assert_eq!(is_object_name(&pod), Ok(()), "{pod}");
}

#[test]
fn a_cluster_id_is_a_dns_label_of_at_most_24_bytes_and_an_error_names_field_value_and_range() {
    for good in ["a", "0", "east", "a-b--c", &"x".repeat(24)] {
        assert_eq!(ClusterId::parse(good).unwrap().to_string(), good);
    }
    let refused = |text: &str| ClusterId::parse(text).unwrap_err().to_string();
    assert_eq!(
        refused(&"x".repeat(25)),
        "spec.clusterID must have 1 to 24 bytes, got 25 bytes in \"xxxxxxxxxxxxxxxxxxxxxxxxx\""
    );
    assert_eq!(refused(""), "spec.clusterID must have 1 to 24 bytes, got 0 bytes in \"\"");
    for bad in ["East", "-a", "a-", "a.b", "a_b", "ä", "a b", "a/b"] {
        assert_eq!(
            refused(bad),
            format!(
                "spec.clusterID must consist of lower-case letters, digits and '-', with a letter or digit at both ends, \
                 got {bad:?}"
            )
        );
    }
    assert!(refused(&"\u{1b}".repeat(90_000)).len() < 300);
}

#[test]
fn a_binding_has_the_name_of_an_object() {
    assert_eq!(&*BindingName::parse("east.gpu").unwrap(), "east.gpu");
    let why = BindingName::parse("East").unwrap_err().to_string();
    assert!(
        why.starts_with("the name of the ClusterBinding must consist of lower-case letters, digits, '.' and '-'"),
        "{why}"
    );
    assert!(BindingName::parse(&"x".repeat(254)).unwrap_err().to_string().contains("must have 1 to 253 bytes"));
}

#[test]
fn s6_a_short_name_is_its_own_label_value_and_a_long_one_is_hashed() {
    for same in ["", "east", "Policy_1", "a.b-c", &"x".repeat(63)] {
        assert_eq!(label_value(same), same);
    }
    let long = label_value(&"night.shift".repeat(20));
    assert_eq!(long, "night.shiftnight.shiftnight.sh_05b290659fd4689e76c323dfefc45fcb");
    assert_eq!(long.len(), 63);
    for odd in ["a/b", "-", "/", "é", "..", &"-".repeat(100), &"é".repeat(100), "a\n"] {
        let value = label_value(odd);
        assert!(is_label_value(&value).is_ok() && value.len() <= 63 && !value.is_empty(), "{odd:?}: {value}");
    }
}

#[test]
fn s6_no_name_can_be_given_so_that_its_label_value_is_that_of_another() {
    let long = "x".repeat(100);
    let taken = label_value(&long);
    // A thing that is named exactly like the hashed value of another.
    assert_ne!(label_value(&taken), taken);
    assert_ne!(label_value("é"), label_value("-"));
    assert_ne!(label_value(&"x".repeat(101)), taken);
}

#[test]
fn s7_s11_leases_have_legal_names_for_the_longest_binding() {
    let longest = BindingName::parse(&"b".repeat(253)).unwrap();
    let east = BindingName::parse("east").unwrap();
    let (lease, other) = (borrower_lease(&longest), borrower_lease(&east));
    assert_eq!(is_object_name(&lease), Ok(()));
    assert!(lease.starts_with("topoloom-borrower-") && lease.len() == 18 + 32, "{lease}");
    assert_ne!(lease, other);
    let base = "t".repeat(253 - 9 - 32);
    let name = binding_lease(&base, &longest).unwrap();
    assert_eq!((name.len(), is_object_name(&name)), (253, Ok(())));
    assert_ne!(name, binding_lease(&base, &east).unwrap());
    let why = binding_lease(&format!("{base}t"), &east).unwrap_err().to_string();
    assert!(why.contains("must have 1 to 212 bytes, got 213"), "{why}");
    assert!(binding_lease("A", &east).is_err() && binding_lease("", &east).is_err());
    // The lease of a replica is beside them, and is none of a binding.
    let member = member_lease("topoloom", "pod-1_5f0cf0a5").unwrap();
    assert_eq!((is_object_name(&member), base_of_binding_lease(&member)), (Ok(()), None));
    assert_ne!(member, member_lease("topoloom", "pod-1_5f0cf0a6").unwrap());
    assert_eq!(member_lease(&format!("{base}t"), "x"), binding_lease(&format!("{base}t"), &east));
    assert_eq!(base_of_binding_lease(&name), Some(base.as_str()));
    assert_eq!(base_of_binding_lease(&binding_lease("a-binding-b", &east).unwrap()), Some("a-binding-b"));
    for other in ["topoloom-nodelock", "topoloom-binding-east", "-binding-05b290659fd4689e76c323dfefc45fcb", ""] {
        assert_eq!(base_of_binding_lease(other), None, "{other}");
    }
}

fn origin(id: &str, node: &str) -> BTreeMap<String, String> {
    [
        (keys::VIRTUAL_CLUSTER, "v1".to_owned()),
        (keys::BINDING, "east".to_owned()),
        (keys::PHYSICAL_CLUSTER_ID, id.to_owned()),
        (keys::PHYSICAL_NODE_NAME, label_value(node)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

#[test]
fn section_5_pairs_that_give_one_name_are_distinguished_by_their_labels() {
    let (one, two) = (("a", "b-c"), ("a-b", "c"));
    assert_eq!(vnode(one.0, one.1), vnode(two.0, two.1));
    let taken = same_origin(&origin(one.0, one.1), &origin(two.0, two.1)).unwrap_err();
    assert_eq!(
        taken.to_string(),
        "its label topoloom.dev/physical-cluster-id must be \"a-b\" and is \"a\": another physical node or another \
         binding has taken the name"
    );
    assert_eq!(same_origin(&origin("a", "b-c"), &origin("a", "b-c")), Ok(()));
}

#[test]
fn an_object_without_labels_of_origin_is_never_ours() {
    let taken = same_origin(&BTreeMap::new(), &origin("a", "b")).unwrap_err();
    assert_eq!((taken.key, taken.found), (keys::VIRTUAL_CLUSTER, None));
    assert!(same_origin(&BTreeMap::new(), &BTreeMap::new()).is_err());
    for key in ORIGIN {
        let mut existing = origin("a", "b");
        existing.insert(key.to_owned(), "other".to_owned());
        assert_eq!(same_origin(&existing, &origin("a", "b")).unwrap_err().key, key);
    }
}

fn ids() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,22}[a-z0-9])?"
}

fn nodes() -> impl Strategy<Value = String> {
    "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?){0,9}"
}

proptest! {
    #[test]
    fn section_5_every_name_of_a_virtual_node_is_an_object_name_and_a_label_value(id in ids(), node in nodes()) {
        let name = vnode(&id, &node);
        prop_assert_eq!(is_object_name(&name), Ok(()));
        prop_assert_eq!(is_label_value(&name), Ok(()));
        prop_assert!(name.len() <= 63 && name.starts_with(NODE_PREFIX));
        let pod = physical_pod_name(&id, &node).unwrap();
        prop_assert_eq!(is_object_name(&pod), Ok(()));
        prop_assert!(pod.len() <= 63);
    }

    /// Each way to cut one full form into a cluster id and a node.
    #[test]
    fn section_5_different_pairs_with_one_full_form_are_detected(full in "[a-c](-?[a-c]){1,12}") {
        let pairs: BTreeSet<(String, String)> = full
            .match_indices('-')
            .map(|(at, _)| (full[..at].to_owned(), full[at + 1..].to_owned()))
            .filter(|(id, node)| ClusterId::parse(id).is_ok() && is_object_name(node).is_ok())
            .collect();
        for one in &pairs {
            for two in &pairs {
                prop_assert_eq!(vnode(&one.0, &one.1), vnode(&two.0, &two.1));
                prop_assert_eq!(same_origin(&origin(&one.0, &one.1), &origin(&two.0, &two.1)).is_ok(), one == two);
            }
        }
    }

    #[test]
    fn s6_every_text_has_a_label_value(text in "\\PC{0,80}|[a-z_0-9]{28,70}", other in "\\PC{0,80}") {
        let value = label_value(&text);
        prop_assert_eq!(is_label_value(&value), Ok(()));
        prop_assert_eq!(value == label_value(&other), text == other);
    }
}
