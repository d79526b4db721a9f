//! Configurations as people write them, and what they mean.

use super::*;

fn problems(text: &str) -> Vec<String> {
    Config::from_json(text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Types as text: name, then the keys of each level from inside.
fn types(text: &str) -> String {
    let config = Config::from_json(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    let levels = |kind: &Type| kind.levels.iter().map(|level| level.keys.join("|")).collect::<Vec<_>>().join(" < ");
    config.types.iter().map(|kind| format!("{}: {}", kind.name, levels(kind))).collect::<Vec<_>>().join("; ")
}

fn notes(text: &str) -> Vec<String> {
    let config = Config::from_json(text).unwrap();
    config.notes.into_iter().map(|note| format!("{} {}", note.code, note.text)).collect()
}

#[test]
fn volcanos_document_is_read() {
    let text = r#"{"networkTopologyTypes": {"gpu": [
        {"nodeLabel": "ex.io/spine"}, {"nodeLabel": "ex.io/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;
    assert_eq!(types(text), "gpu: ex.io/rack < ex.io/spine");
    assert!(notes(text).is_empty());
}

#[test]
fn shapes_are_lenient() {
    assert_eq!(
        types(r#"{"NETWORKTOPOLOGYTYPES": [{"a": {"NodeLabel": "x"}}, {"b": [{"nodelabel": 42}]}]}"#),
        "a: x; b: 42"
    );
    assert_eq!(types(r#"{"networkTopologyTypes": {"a": null, "": []}}"#), "a: ; : ");
    assert_eq!(types(r#"{"networkTopologyTypes": {}}"#), "");
}

#[test]
fn surprises_are_noted() {
    assert_eq!(
        notes(r#"{"networkTopologyTypes": {"a": [{"nodeLabel": true, "color": 1}]}, "interval": 3}"#),
        [
            "coerced networkTopologyTypes.a[0].nodeLabel is a boolean: read as \"1\"; put it in quotes",
            "unknown-key \"networkTopologyTypes.a[0].color\" is not a known key and is ignored",
            "differs-from-volcano type \"a\": the last label \"1\" is tier 1 here, Volcano would drop it",
            "unknown-key \"interval\" is not a known key and is ignored",
        ]
    );
    let shared = r#"{"networkTopologyTypes": {"a": [{"nodeLabel": "x"}, {"nodeLabel": "kubernetes.io/hostname"}],
                                              "b": [{"nodeLabel": "x"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;
    assert_eq!(notes(shared).len(), 1);
}

#[test]
fn the_last_entry_goes_only_where_it_is_the_hostname_or_volcano_is_asked_for() {
    let list = r#""networkTopologyTypes": {"a": [{"nodeLabel": "x"}, {"nodeLabel": "y"}]}"#;
    assert_eq!(types(&format!("{{{list}}}")), "a: y < x");
    assert_eq!(types(&format!(r#"{{{list}, "compat": "volcano"}}"#)), "a: x");
}

#[test]
fn every_mistake_is_reported_at_once_with_its_place() {
    let text = r#"{
        "networkTopologyTypes": {
            "gpu": [{"nodeLabel": "ex.io/a"}, {"nodeLabel": "not a key"}, {"nodeLabel": "ex.io/a"}, "plain", {}],
            "a-name-that-is-too-long": [],
            "text": "x"
        },
        "preset": ["aws", "moon"],
        "compat": "slurm",
        "collapse": 3,
        "profiles": [{"type": "absent"}, {"nodeSelector": {"!": "x"}}]
    }"#;
    assert_eq!(
        problems(text),
        [
            r#"compat: expected "volcano" or nothing, found "slurm""#,
            r#"networkTopologyTypes.gpu[1].nodeLabel: "not a key" is not a label key: expected a name, or prefix/name"#,
            r#"networkTopologyTypes.gpu[2]: the label "ex.io/a" is in this list already"#,
            r#"networkTopologyTypes.gpu[3]: expected {nodeLabel: …}, found "plain""#,
            r#"networkTopologyTypes.gpu[4]: nodeLabel is missing"#,
            r#"networkTopologyTypes.a-name-that-is-too-long: the type name has 23 bytes, at most 20 are allowed"#,
            r#"networkTopologyTypes.text: expected a list of {nodeLabel: …}, found a string"#,
            r#"collapse: expected true or false, found 3"#,
            r#"preset[1]: there is no preset "moon"; there are aws, aws-ultraserver, gke, oci, coreweave, coreweave-nvl, nebius, nebius-nvl, alibaba, topograph, topograph-nvl, topograph-old, nvlink, ascend-a2, ascend-a3, zones"#,
            r#"profiles[0].type: there is no type "absent""#,
            r#"profiles[1].nodeSelector.!: "!" is not a label key: expected a name, or prefix/name"#,
            r#"profiles[1]: type is missing"#,
        ]
    );
}

#[test]
fn a_document_that_names_no_label_is_refused() {
    for text in ["{}", r#"{"networkTopologyType": {}}"#, "null"] {
        assert_eq!(problems(text), ["networkTopologyTypes or preset is required: it says which labels to read"]);
    }
    assert_eq!(problems("[]"), ["expected a mapping, found a list"]);
    assert!(problems("{")[0].contains("the text ends too early"));
}

#[test]
fn a_key_twice_counts_the_hostname_entry_and_fallbacks_too() {
    let text = r#"{"networkTopologyTypes": {"a": [{"nodeLabel": "x"}, {"nodeLabel": "y", "fallbacks": "x"}]}}"#;
    assert_eq!(problems(text), [r#"networkTopologyTypes.a[1]: the label "x" is in this list already"#]);
    let host = r#"{"nodeLabel": "kubernetes.io/hostname"}"#;
    let text = format!(r#"{{"networkTopologyTypes": {{"a": [{host}, {{"nodeLabel": "x"}}, {host}]}}}}"#);
    assert_eq!(problems(&text).len(), 1);
}

#[test]
fn exactly_twenty_bytes_are_a_type_name() {
    assert_eq!(types(r#"{"networkTopologyTypes": {"12345678901234567890": []}}"#), "12345678901234567890: ");
}

#[test]
fn presets_are_types_of_their_name() {
    assert_eq!(types(r#"{"preset": "zones"}"#), "zones: topology.kubernetes.io/zone < topology.kubernetes.io/region");
    assert_eq!(types(r#"{"presets": ["gke", "nvlink"]}"#).matches(';').count(), 1);
    assert_eq!(
        problems(r#"{"preset": "gke", "networkTopologyTypes": {"gke": []}}"#),
        [r#"preset: the type "gke" is given twice"#]
    );
}

#[test]
fn an_extraction_has_one_group() {
    let text = |pattern: &str| {
        format!(r#"{{"networkTopologyTypes": {{"a": [{{"nodeLabel": "x", "extract": "{pattern}"}}]}}}}"#)
    };
    assert_eq!(types(&text(r"^([^.]+)[.]")), "a: x");
    let path = "networkTopologyTypes.a[0].extract";
    assert_eq!(problems(&text("x")), [format!("{path}: \"x\" has 0 capture groups, exactly one is expected")]);
    assert!(problems(&text("("))[0].contains("is not a valid regular expression"));
}

#[test]
fn where_volcano_is_asked_for_a_bad_type_refuses_itself_alone() {
    let key = |key: &str| format!(r#"{{"nodeLabel": "{key}"}}"#);
    let list = |keys: &[&str]| format!("[{}]", keys.iter().map(|name| key(name)).collect::<Vec<_>>().join(", "));
    let levels: Vec<String> = (0..18).map(|level| format!("l{level}")).collect();
    let levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    let bad = [
        ("a-name-that-is-too-long", list(&["x", "y"]), "the type name has 23 bytes"),
        ("b", list(&["x", "x", "y"]), "is in this list already"),
        ("b", list(&["x", "y", "y"]), "is in this list already"),
        ("b", list(&["x", "no key", "y"]), "is not a label key"),
        ("b", list(&levels), "levels, at most 16 are allowed"),
        ("b", "\"x\"".to_owned(), "expected a list of {nodeLabel: …}, found a string"),
        ("b", "[\"x\"]".to_owned(), "expected {nodeLabel: …}, found \"x\""),
        ("b", "[{}]".to_owned(), "nodeLabel is missing"),
    ];
    for (name, list_of_bad, said) in bad {
        let document =
            |head: &str, good: &str| format!(r#"{{{head}"networkTopologyTypes": {{"{name}": {list_of_bad}{good}}}}}"#);
        let good = format!(r#", "good": {}"#, list(&["ex.io/spine", "ex.io/rack", "kubernetes.io/hostname"]));
        for head in [r#""compat": "volcano", "#, r#""badTypes": "leaveOut", "#] {
            let text = document(head, &good);
            assert_eq!(types(&text), "good: ex.io/rack < ex.io/spine");
            let notes = notes(&text);
            assert!(
                matches!(notes.as_slice(), [note] if note.starts_with("bad-type ") && note.contains(said)),
                "{notes:?}"
            );
            assert_eq!(Config::from_json(&text).unwrap().left_out, [name]);
            // Without a neighbour there is nothing to go on with.
            assert!(problems(&document(head, "")).iter().any(|problem| problem.contains(said)));
        }
        for head in ["", r#""compat": "volcano", "badTypes": "refuse", "#] {
            assert!(problems(&document(head, &good)).iter().any(|problem| problem.contains(said)), "{head}");
        }
    }
    assert_eq!(
        problems(r#"{"badTypes": "skip", "preset": "gke"}"#),
        [r#"badTypes: expected "refuse" or "leaveOut", found "skip""#]
    );
}

#[test]
fn volcano_knows_no_extensions() {
    let text = r#"{"compat": "volcano", "networkTopologyTypes": {"a": [{"nodeLabel": "x", "name": "rack"}, {"nodeLabel": "y"}]}}"#;
    assert!(problems(text)[0].starts_with("compat: "));
}

#[test]
fn the_presets_of_the_schema_are_the_presets() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../schema.json")).unwrap();
    let names: Vec<_> =
        schema["$defs"]["presetName"]["enum"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    assert_eq!(names.join(", "), crate::presets::names());
}
