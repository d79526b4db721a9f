//! Hypernode specification 5 and 6, decisions H1 and H6: what a document means as a whole.

use super::*;
use crate::config::{EntryState, Load, Location};
use crate::endpoints::spec::Credentials;
use std::collections::BTreeMap;
use topoloom_core::plugin::{Amount, Limit};

const LABEL: &str = "networkTopologyDiscovery:\n- source: label\n  enabled: true\n";

fn sources(document: &Document) -> Vec<&str> {
    document.enabled().map(|config| &*config.source).collect()
}

#[test]
fn documents_without_entries_are_valid_and_enable_nothing() {
    for text in [
        "",
        "# nothing but a comment\n",
        "\n\n",
        "---\n",
        "null",
        "~",
        "{}",
        "networkTopologyDiscovery:",
        "networkTopologyDiscovery: null",
        "networkTopologyDiscovery: []",
        "somethingElse: {a: 1}",
        "---\n---\nnetworkTopologyDiscovery: [{source: label, enabled: true}]",
        "''",
    ] {
        let document = document(text);
        assert!(document.entries.is_empty(), "{text:?}");
        assert!(document.names_all_sources(), "{text:?}");
        assert!(document.is_empty(), "{text:?}");
    }
}

#[test]
fn a_document_that_still_has_an_entry_is_not_empty() {
    for entry in ["{source: label, enabled: true}", "{source: label, enabled: false}", "{enabled: true}"] {
        assert!(!document(&format!("networkTopologyDiscovery: [{entry}]")).is_empty(), "{entry}");
    }
}

#[test]
fn only_the_first_document_is_read() {
    let text = format!("{LABEL}---\n][ this is no YAML\n");
    assert_eq!(sources(&document(&text)), ["label"]);
    assert_eq!(sources(&document(&format!("# a comment\n---\n{LABEL}...\n"))), ["label"]);
    assert_eq!(sources(&document(&format!("%YAML 1.1\n---\n{LABEL}"))), ["label"]);
}

#[test]
fn carriage_returns_and_a_byte_order_mark_do_not_matter() {
    assert_eq!(sources(&document(&LABEL.replace('\n', "\r\n"))), ["label"]);
    assert_eq!(sources(&document(&format!("\u{feff}{LABEL}"))), ["label"]);
}

#[test]
fn malformed_yaml_is_an_error_of_the_document_with_its_place() {
    let Error::Syntax { line, column, .. } = broken("networkTopologyDiscovery:\n- source: [label\n") else { panic!() };
    assert!(line >= 2, "{line}:{column}");
    for text in ["a: b: c", "{a: 1", "a: *nowhere", "\"", "a: &x [*x]", "? [a, b]\n: 1", "~: 1", "a\u{0}b"] {
        assert!(matches!(broken(text), Error::Syntax { .. }), "{text:?}");
    }
}

#[test]
fn the_wrong_shape_at_the_top_is_an_error_of_the_document() {
    for (text, found) in [
        ("[1, 2]", "a list"),
        ("just words", "a text"),
        ("42", "a number"),
        ("networkTopologyDiscovery: {source: label}", "a mapping"),
        ("networkTopologyDiscovery: label", "a text"),
        ("networkTopologyDiscovery: yes", "a boolean"),
    ] {
        let error = broken(text);
        assert!(matches!(error, Error::Shape { found: it, .. } if it == found), "{text:?}: {error}");
    }
}

#[test]
fn a_document_that_is_a_text_holding_the_mapping_is_unwrapped() {
    let indented: String = LABEL.lines().map(|line| format!("  {line}\n")).collect();
    for text in [
        format!("|\n{indented}"),
        format!("|-\n{indented}"),
        ">-\n  {networkTopologyDiscovery: [{source: label, enabled: true}]}\n".to_owned(),
        format!("{:?}", LABEL),
        "'networkTopologyDiscovery: [{source: label, enabled: true}]'".to_owned(),
    ] {
        assert_eq!(sources(&document(&text)), ["label"], "{text}");
    }
    // One wrapping is an accident that has a cause, two are not.
    assert!(matches!(broken("\"'a: 1'\""), Error::Shape { found: "a text", .. }));
}

#[test]
fn lines_of_an_unwrapped_block_are_lines_of_the_value() {
    let plain = document(&entry_with("interval: 600"));
    let text: String = entry_with("interval: 600").lines().map(|line| format!("  {line}\n")).collect();
    let line = |document: &Document| document.errors().next().unwrap().line;
    for (before, lines) in [("|\n", 1), ("# a comment\n--- |-\n", 2), ("|\n\n\n", 3)] {
        let wrapped = document(&format!("{before}{text}"));
        assert_eq!(line(&wrapped), line(&plain) + lines, "{before:?}");
    }
}

#[test]
fn a_bad_entry_harms_only_itself() {
    let text = "
networkTopologyDiscovery:
- {source: a, enabled: true}
- {source: b, enabled: true, interval: 600}
- {source: c, enabled: yes}
- just words
- {source: d, enabled: 'true'}
- {source: Bad Name, enabled: true}
- [e]
";
    let document = document(text);
    assert_eq!(sources(&document), ["a", "c"]);
    assert!(matches!(document.state_of(&"a".parse().unwrap()), EntryState::Enabled(_)));
    assert!(matches!(document.state_of(&"b".parse().unwrap()), EntryState::Invalid(problems) if problems.len() == 1));
    assert!(matches!(document.state_of(&"d".parse().unwrap()), EntryState::Invalid(_)));
    assert!(matches!(document.state_of(&"e".parse().unwrap()), EntryState::Absent));
    let places: Vec<String> = document.errors().map(|problem| format!("{}:{}", problem.line, problem.path)).collect();
    assert_eq!(
        places,
        [
            "4:networkTopologyDiscovery[1].interval",
            "6:networkTopologyDiscovery[3]",
            "7:networkTopologyDiscovery[4].enabled",
            "8:networkTopologyDiscovery[5].source",
            "9:networkTopologyDiscovery[6]",
        ]
    );
}

#[test]
fn an_entry_without_a_readable_source_makes_absence_doubtful() {
    for (entry, certain) in [
        ("{source: label, enabled: true}", true),
        ("{source: Not A Label, enabled: true}", false),
        ("{enabled: true}", false),
        ("words", false),
        ("{enabled: 'true'}", false),
        // Volcano runs nothing for these, so nothing can hide behind them.
        ("{}", true),
        ("null", true),
        ("{source: Not A Label}", true),
        ("{source: Not A Label, enabled: false}", true),
    ] {
        let document = document(&format!("networkTopologyDiscovery:\n- {entry}\n"));
        assert_eq!(document.names_all_sources(), certain, "{entry}");
        assert!(certain || !document.entries.is_empty(), "{entry}");
    }
}

#[test]
fn of_entries_for_one_source_the_first_enabled_one_counts() {
    let text = "
networkTopologyDiscovery:
- {source: ufm, enabled: false, interval: 1m}
- {source: ufm, enabled: true, interval: 2m}
- {source: ufm, enabled: true, interval: 3m}
- {source: ufm, enabled: false, interval: 4m}
- {source: label}
- {source: label, enabled: false, settle: 1s}
";
    let document = document(text);
    let EntryState::Enabled(ufm) = document.state_of(&"ufm".parse().unwrap()) else { panic!("{document:#?}") };
    assert_eq!(ufm.interval.as_secs(), 120);
    let EntryState::Disabled(label) = document.state_of(&"label".parse().unwrap()) else { panic!("{document:#?}") };
    assert!(label.settle.is_zero());
    assert_eq!(document.entries.len(), 2);
    let warnings: Vec<String> = document.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].starts_with("line 5: networkTopologyDiscovery[2].source"), "{}", warnings[0]);
    assert!(warnings[0].contains("networkTopologyDiscovery[1]"), "{}", warnings[0]);
}

#[test]
fn a_broken_first_entry_is_not_replaced_by_a_second_one() {
    let text = "
networkTopologyDiscovery:
- {source: ufm, enabled: true, interval: 600}
- {source: ufm, enabled: true}
";
    assert!(matches!(document(text).state_of(&"ufm".parse().unwrap()), EntryState::Invalid(_)));
}

#[test]
fn a_disabled_entry_is_disabled_whatever_else_is_wrong_with_it() {
    for enabled in ["enabled: false", "enabled: off", "enabled:", "other: 1"] {
        let document = document(&format!(
            "networkTopologyDiscovery:\n- source: label\n  {enabled}\n  interval: 600\n  config: []\n"
        ));
        assert!(matches!(document.state_of(&"label".parse().unwrap()), EntryState::Disabled(_)), "{enabled}");
        assert!(document.warnings.len() >= 2, "{enabled}: {:#?}", document.warnings);
    }
}

#[test]
fn unknown_and_repeated_keys_are_reported_and_harmless() {
    let text = "
networktopologydiscovery: 1
networkTopologyDiscovery: []
networkTopologyDiscovery:
- source: other
  source: label
  enabled: true
  Interval: 600
  intervall: 5m
  zzz: {a: 1}
";
    let document = document(text);
    assert_eq!(sources(&document), ["label"]);
    let warnings = document.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for words in [
        "line 2: networktopologydiscovery: is not known here and has no effect; did you mean `networkTopologyDiscovery`?",
        "line 4: networkTopologyDiscovery: is given again here",
        "line 6: source: is given again here",
        "networkTopologyDiscovery[0].Interval: is not known here and has no effect; did you mean `interval`?",
        "networkTopologyDiscovery[0].intervall: is not known here and has no effect; did you mean `interval`?",
        "line 10: networkTopologyDiscovery[0].zzz: is not known here and has no effect",
    ] {
        assert!(warnings.contains(words), "{words:?} is not in\n{warnings}");
    }
}

#[test]
fn a_key_that_yaml_reads_as_something_else_is_said() {
    let types = |key: &str| format!("config:\n  networkTopologyTypes:\n    {key}: [{{nodeLabel: ex.io/rack}}]");
    for (key, kind, means) in [
        ("y", "a boolean", "true"),
        ("yes", "a boolean", "true"),
        ("No", "a boolean", "false"),
        ("on", "a boolean", "true"),
        ("0x10", "a number", "16"),
    ] {
        let wanted = format!(
            "{key}: without quotes this key is {kind} in YAML 1.1 and means {means:?}; write it in quotes if the text is meant"
        );
        assert_eq!(warnings(&types(key)), [wanted]);
        assert_eq!(warnings(&types(&format!("'{key}'"))), [""; 0]);
    }
    for key in ["true", "16", "yEs", "gpu"] {
        assert_eq!(warnings(&types(key)), [""; 0], "{key}");
    }
    // In the manifest of a ConfigMap, and in a document inside of a text, it is the same.
    let text = "|\n  networkTopologyDiscovery:\n  - {source: a, config: {y: 1}}\n";
    assert_eq!(document(text).warnings.iter().map(|it| (it.line, it.path.as_str())).collect::<Vec<_>>(), [(3, "y")]);
}

#[test]
fn aliases_and_merges_mean_what_they_stand_for() {
    let text = "
common: &common {enabled: true, interval: 5m, settle: 1s}
networkTopologyDiscovery:
- <<: *common
  source: a
  interval: 7m
- {<<: [{settle: 2s}, *common], source: b}
- &c {source: c, enabled: true}
- *c
";
    let document = document(text);
    let read: Vec<_> = document.enabled().map(|it| (&*it.source, it.interval.as_secs(), it.settle.as_secs())).collect();
    assert_eq!(read, [("a", 420, 1), ("b", 300, 2), ("c", 3600, 0)]);
    assert!(matches!(broken("<<: 5"), Error::Syntax { .. }));
    assert!(matches!(broken("<<: [5]"), Error::Syntax { .. }));
}

#[test]
fn absence_of_configmap_or_key_is_no_document() {
    let data = |key: &str, text: &str| BTreeMap::from([(key.to_owned(), text.to_owned())]);
    let load = |data: Option<&BTreeMap<String, String>>| Load::from_data(data, "volcano-controller.conf");
    assert_eq!(load(None), Load::NoConfigMap);
    assert_eq!(load(Some(&BTreeMap::new())), Load::NoKey);
    assert_eq!(load(Some(&data("other", LABEL))), Load::NoKey);
    assert!(matches!(load(Some(&data("volcano-controller.conf", "["))), Load::Invalid(Error::Syntax { .. })));
    let valid = load(Some(&data("volcano-controller.conf", LABEL)));
    assert_eq!(valid.document().map(sources), Some(vec!["label"]));
    assert_eq!(load(None).document(), None);
}

#[test]
fn the_location_follows_the_environment_of_volcano() {
    let check = |namespace, release, wanted: &str| {
        let it = Location::from_environment(namespace, release);
        assert_eq!(format!("{}/{}/{}", it.namespace, it.name, it.key), wanted);
    };
    check(None, None, "volcano-system/volcano-controller-configmap/volcano-controller.conf");
    check(Some(""), Some(""), "volcano-system/volcano-controller-configmap/volcano-controller.conf");
    check(Some("ns"), Some("vc"), "ns/vc-controller-configmap/volcano-controller.conf");
}

#[test]
fn the_example_of_the_specification_reads_as_it_says() {
    let text = r#"
networkTopologyDiscovery:
- source: ufm
  enabled: true
  interval: 10m
  credentials: {secretRef: {name: my-ufm-login, namespace: volcano-system}}
  config: {endpoint: "https://ufm.example:8443", insecureSkipVerify: false}
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      trainium:                       # topology type name
      - nodeLabel: example.com/spine  # highest tier first
      - nodeLabel: example.com/rack   # ... down to tier 1
      - nodeLabel: kubernetes.io/hostname   # the Node itself; always dropped
- source: roce
  enabled: false
"#;
    let document = document(text);
    assert!(document.warnings.is_empty(), "{:#?}", document.warnings);
    let EntryState::Enabled(ufm) = document.state_of(&"ufm".parse().unwrap()) else { panic!("{document:#?}") };
    assert_eq!(ufm.interval.as_secs(), 600);
    let Some(Credentials::Secret(secret)) = &ufm.credentials else { panic!("{ufm:?}") };
    assert_eq!((secret.name.as_str(), secret.namespace.as_deref()), ("my-ufm-login", Some("volcano-system")));
    assert_eq!(ufm.config, serde_json::json!({"endpoint": "https://ufm.example:8443", "insecureSkipVerify": false}));
    let EntryState::Enabled(label) = document.state_of(&"label".parse().unwrap()) else { panic!("{document:#?}") };
    assert_eq!(label.interval.as_secs(), 3600);
    assert_eq!(
        label.config,
        serde_json::json!({"networkTopologyTypes": {"trainium": [
            {"nodeLabel": "example.com/spine"}, {"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"},
        ]}})
    );
    assert!(matches!(document.state_of(&"roce".parse().unwrap()), EntryState::Disabled(_)));
}

#[test]
fn the_example_of_the_design_reads_as_it_says() {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let text = format!(
        r#"
networkTopologyDiscovery:
- source: label                      # owns the objects
  enabled: true
  config: {{ networkTopologyTypes: {{ gpu: [ {{nodeLabel: example.com/spine}}, {{nodeLabel: kubernetes.io/hostname}} ] }} }}
- source: ufm
  enabled: true
  interval: 10m
  credentials: {{ secretRef: {{ name: ufm-credentials, namespace: volcano-system }} }}
  config: {{ endpoint: "https://ufm.example:443" }}
- source: acme-fabric
  enabled: true
  plugin: {{ configMap: {{ name: acme-fabric-plugin, key: plugin.wasm }}, digest: "{digest}" }}
  permissions:
    nodeLabels: [ "acme.example/*" ]
    endpoints: {{ fabric: {{ url: "https://fabric.acme.example:8443/api/", methods: [GET], credentials: {{ secretRef: {{ name: acme, namespace: volcano-system }} }} }} }}
  limits: {{ memory: 256Mi, timeout: 30s }}
  safety: {{ maxDeletePercent: 50, confirmations: 2 }}
  config: {{ anything: 1 }}
"#
    );
    let document = document(&text);
    assert!(document.warnings.is_empty(), "{:#?}", document.warnings);
    assert_eq!(sources(&document), ["label", "ufm", "acme-fabric"]);
    let EntryState::Enabled(acme) = document.state_of(&"acme-fabric".parse().unwrap()) else { panic!("{document:#?}") };
    assert_eq!(acme.plugin.digest.map(|it| it.to_string()), Some(digest));
    let permissions = acme.permissions.as_ref().unwrap();
    assert!(permissions.node_labels[0].matches("acme.example/rack"));
    assert!(!permissions.node_labels[0].matches("acme.example.com/rack"));
    assert_eq!(permissions.endpoints["fabric"].credentials.as_ref().unwrap().name, "acme");
    assert_eq!(acme.limits.get(Limit::Memory), Some(Amount::mib(256)));
    assert_eq!(acme.limits.get(Limit::Wall), Some(Amount::seconds(30)));
}

#[test]
fn definitions_printed_as_yaml_read_back_as_they_are() {
    for definition in topoloom_api::crds() {
        let text = topoloom_api::crd::to_yaml(&definition).unwrap();
        let tree = crate::config::yaml::load(&text, 0).unwrap();
        assert_eq!(tree.root.unwrap().to_json("").unwrap(), definition);
    }
}

#[test]
fn the_page_for_operators_knows_every_key() {
    let page = include_str!("../../../../docs/operators/plugins.md");
    for key in crate::config::entry::KEYS {
        assert!(page.contains(&format!("`{key}`")), "docs/operators/plugins.md does not mention {key}");
    }
    let limits = Limit::ALL.iter().filter_map(|limit| limit.key());
    for key in limits.chain(["profile", "nodeLabels", "nodeAnnotations", "nodeNames"]) {
        assert!(page.contains(&format!("`{key}`")), "docs/operators/plugins.md does not mention {key}");
    }
}
