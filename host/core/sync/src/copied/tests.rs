use super::*;

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn list(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn key_rules(map: Map, allow: &[&str], deny: &[&str]) -> KeyRules {
    KeyRules::parse(map, &list(allow), &list(deny)).unwrap()
}

/// Whether a label of this key is copied under these rules.
fn label(key: &str, allow: &[&str], deny: &[&str], topology: &[&str]) -> bool {
    let rules = CopyRules { labels: key_rules(Map::Labels, allow, deny), annotations: KeyRules::default() };
    let topology_keys = list(topology).into_iter().collect();
    let (labels, annotations) = (map([(key, "1")]), BTreeMap::new());
    let physical = Physical { labels: &labels, annotations: &annotations, topology_keys: &topology_keys };
    let copied = copy(&physical, &rules, 0);
    assert_eq!(copied.labels.contains_key(key), copied.left_out.is_empty(), "{copied:?}");
    copied.labels.contains_key(key)
}

fn annotations(annotations: &BTreeMap<String, String>, taken: usize) -> Copied {
    let (labels, topology_keys) = (BTreeMap::new(), BTreeSet::new());
    copy(&Physical { labels: &labels, annotations, topology_keys: &topology_keys }, &CopyRules::default(), taken)
}

#[test]
fn s13_what_is_never_copied_is_not_copied_and_says_why() {
    let keys = [
        "topoloom.dev/binding",
        "hami.io/node-nvidia-register",
        "volcano.sh/node-vgpu-register",
        "node-role.kubernetes.io/worker",
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubeadm.alpha.kubernetes.io/cri-socket",
        "csi.volume.kubernetes.io/nodeid",
        "node.alpha.kubernetes.io/ttl",
        "projectcalico.org/IPv4Address",
        "flannel.alpha.coreos.com/public-ip",
        "k8s.ovn.org/node-subnets",
        "network.cilium.io/ipv4-pod-cidr",
        "io.cilium.network.ipv4-pod-cidr",
        "volumes.kubernetes.io/controller-managed-attach-detach",
    ];
    for (key, never) in keys.iter().zip(NEVER_COPIED) {
        assert!(!label(key, &[], &[], &[]), "{key}");
        let all = map([(key, "x"), ("example.com/rack", "7")]);
        let copied = annotations(&all, 0);
        assert_eq!(copied.annotations, map([("example.com/rack", "7")]), "{key}");
        let [left] = copied.left_out.as_slice() else { panic!("{:?}", copied.left_out) };
        assert!(left.to_string().contains(never.prefix) && left.to_string().contains(never.why), "{left}");
        assert!(!left.why.is_a_loss(), "{left}");
    }
    // Not a prefix of the word, but of the key.
    assert!(label("mytopoloom.dev/x", &[], &[], &[]) && label("hami.io.example.com/x", &[], &[], &[]));
}

#[test]
fn s13_every_virtual_node_is_excluded_from_load_balancers() {
    let copied = annotations(&BTreeMap::new(), 0);
    assert_eq!(copied.labels, map([("node.kubernetes.io/exclude-from-external-load-balancers", "true")]));
    assert!(label(EXCLUDE_LOAD_BALANCERS, &[], &["*"], &[EXCLUDE_LOAD_BALANCERS]));
}

#[test]
fn s13_the_rules_of_a_binding_come_on_top() {
    let role = "node-role.kubernetes.io/worker";
    let table: [(&str, &[&str], &[&str], bool); 17] = [
        ("example.com/a", &[], &[], true),
        ("example.com/a", &[], &["example.com/a"], false),
        ("example.com/a", &[], &["example.com/*"], false),
        ("example.com/a", &["example.com/a"], &["example.com/*"], true),
        ("example.com/a", &["example.com/*"], &["example.com/a"], false),
        ("example.com/a", &["example.com/a"], &["example.com/a"], false),
        ("example.com/a", &["example.com/*"], &["example.com/*"], false),
        ("example.com/a", &["example.com/*"], &["*"], true),
        ("example.com/a", &[], &["*"], false),
        ("bare", &[], &["*"], false),
        ("bare", &["bare"], &["*"], true),
        // What is not firm can be allowed by its name, but not by an asterisk for everything.
        (role, &[], &[], false),
        (role, &["*"], &[], false),
        (role, &["node-role.kubernetes.io/*"], &[], true),
        ("volcano.sh/nodegroup-name", &["volcano.sh/nodegroup-name"], &[], true),
        ("example.com/a", &["*"], &["*"], false),
        ("sub.example.com/a", &[], &["example.com/*"], true),
    ];
    for (key, allow, deny, copied) in table {
        assert_eq!(label(key, allow, deny, &[]), copied, "{key}: allow {allow:?}, deny {deny:?}");
    }
}

#[test]
fn s13_labels_that_a_csi_node_names_are_always_copied_unless_they_would_be_ours() {
    let zone = "topology.csi.example.com/zone";
    assert!(label(zone, &[], &[zone, "*"], &[zone]));
    assert!(label("io.cilium.zone/a", &[], &[], &["io.cilium.zone/a"]));
    assert!(!label("topoloom.dev/binding", &[], &[], &["topoloom.dev/binding"]));
    assert!(!label("example.com/other", &[], &["*"], &[zone]));
}

#[test]
fn a_rule_that_cannot_be_used_says_where_it_is() {
    let parse = |map, allow: &[&str], deny: &[&str]| KeyRules::parse(map, &list(allow), &list(deny));
    let message = |result: Result<KeyRules, RuleError>| result.unwrap_err().to_string();
    assert_eq!(
        message(parse(Map::Labels, &["ok", "a b"], &[])),
        "spec.copy.labels.allow[1] must be a key, a prefix such as example.com/*, or *, got \"a b\": must consist of \
         letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    );
    assert_eq!(
        message(parse(Map::Annotations, &["volumes.kubernetes.io/*"], &[])),
        "spec.copy.annotations.allow[0] must not name a key that begins with volumes.kubernetes.io/, got \
         \"volumes.kubernetes.io/*\": the attach-detach controller of the virtual cluster would make VolumeAttachments \
         that no attacher serves"
    );
    for bad in ["", "a/b/c", "/*", "a*", "*/*", "a/b*", "-", &"x".repeat(64), "a b/*", "Up.example.com/a"] {
        for (allow, deny) in [(&[bad][..], &[][..]), (&[], &[bad])] {
            assert!(matches!(parse(Map::Labels, allow, deny), Err(RuleError::Malformed { at: 0, .. })), "{bad:?}");
        }
    }
    assert!(parse(Map::Annotations, &["Up.example.com/a", "Up.example.com/*"], &[]).is_ok());
    for firm in ["topoloom.dev/binding", "hami.io/x", "io.cilium.network/*", "projectcalico.org/*"] {
        assert!(matches!(parse(Map::Labels, &[firm], &[]), Err(RuleError::Firm { .. })), "{firm}");
        // To deny what is never copied is superfluous, not wrong.
        assert!(parse(Map::Labels, &[], &[firm]).is_ok(), "{firm}");
    }
    assert!(parse(Map::Annotations, &["volcano.sh/*"], &[]).is_err());
    let long = message(parse(Map::Labels, &[&"y".repeat(1_000_000)], &[]));
    assert!(long.len() < 400, "{long}");
}

#[test]
fn what_the_api_server_would_refuse_is_left_out_and_reported() {
    let labels = map([("ok", "1"), ("bad key", "1"), ("long", &"x".repeat(64)), ("Up.example.com/a", "1")]);
    let all = map([("Up.example.com/a", "any text, \u{e4}"), ("a/b/c", "1")]);
    let topology_keys = list(&["bad key"]).into_iter().collect();
    let physical = Physical { labels: &labels, annotations: &all, topology_keys: &topology_keys };
    let copied = copy(&physical, &CopyRules::default(), 0);
    assert_eq!(copied.labels, map([("ok", "1"), (EXCLUDE_LOAD_BALANCERS, "true")]));
    assert_eq!(copied.annotations, map([("Up.example.com/a", "any text, \u{e4}")]));
    let left: Vec<_> = copied.left_out.iter().map(|left| (left.map, left.key.as_str())).collect();
    assert_eq!(
        left,
        [
            (Map::Labels, "Up.example.com/a"),
            (Map::Labels, "bad key"),
            (Map::Labels, "long"),
            (Map::Annotations, "a/b/c"),
        ]
    );
    assert!(copied.left_out.iter().all(|left| left.why.is_a_loss()));
    assert_eq!(
        copied.left_out[2].to_string(),
        "labels \"long\": the API server would refuse it: it is 64 bytes long, at most 63 are allowed"
    );
}

#[test]
fn annotations_that_find_no_room_are_left_out_the_largest_first() {
    let text = |bytes: usize| "x".repeat(bytes);
    let all =
        map([("a", &text(100_000)), ("b", &text(120_000)), ("c", &text(60_000)), ("d", "1"), ("e", &text(60_000))]);
    let left = |taken| -> Vec<String> { annotations(&all, taken).left_out.into_iter().map(|left| left.key).collect() };
    assert_eq!(left(0), ["b"]);
    assert_eq!(left(50_000), ["b", "a"]);
    // Of two of one size the first by key goes.
    assert_eq!(left(150_000), ["b", "a", "c"]);
    assert_eq!(left(ANNOTATIONS_MAX), ["b", "a", "c", "e", "d"]);
    assert_eq!(left(usize::MAX), ["b", "a", "c", "e", "d"]);
    let copied = annotations(&all, 50_000);
    assert!(annotation_bytes(&copied.annotations) + 50_000 + ANNOTATIONS_RESERVE <= ANNOTATIONS_MAX);
    assert_eq!(
        copied.left_out[0].to_string(),
        "annotations \"b\": it has 120001 bytes, and all annotations together must have at most 262144"
    );
    assert!(copied.left_out[0].why.is_a_loss());
}

#[test]
fn ten_thousand_keys_and_rules_are_a_matter_of_milliseconds() {
    let many = |from: usize| (from..from + 10_000).map(|at| format!("p{at}.example.com/k"));
    let labels: BTreeMap<_, _> = many(0).map(|key| (key, "1".to_owned())).collect();
    let deny: Vec<_> = many(5_000).collect();
    let rules = CopyRules {
        labels: KeyRules::parse(Map::Labels, &[], &deny).unwrap(),
        annotations: KeyRules::parse(Map::Annotations, &[], &deny).unwrap(),
    };
    let physical = Physical { labels: &labels, annotations: &labels, topology_keys: &BTreeSet::new() };
    let copied = copy(&physical, &rules, 0);
    assert_eq!((copied.labels.len(), copied.left_out.len() >= 10_000), (5_001, true));
}

#[test]
fn s13_a_csinode_gets_what_is_not_never_copied_and_nothing_that_is_for_nodes() {
    let labels = map([("from", "lender"), ("topoloom.dev/binding", "x"), ("volumes.kubernetes.io/x", "1")]);
    let plugins = ("storage.alpha.kubernetes.io/migrated-plugins", "a,b");
    let copied = copy_csi_node(&labels, &map([plugins, ("kubectl.kubernetes.io/last-applied-configuration", "{}")]));
    assert_eq!((copied.labels, copied.annotations), (map([("from", "lender")]), map([plugins])));
    assert_eq!(copied.left_out.len(), 3);
}
