use super::*;
use crate::Reader;
use topoloom_sdk::{Problem, json::Value};

fn read(json: &str) -> Result<Settings, Vec<Problem>> {
    let Ok(Value::Object(entries)) = Value::parse(json) else { panic!("no object: {json}") };
    let mut reader = Reader::new();
    let mut settings = Settings::default();
    for (key, value) in &entries {
        if settings.read(&mut reader, key, value) == SharedKey::No {
            reader.unknown(key);
        }
    }
    settings.notes = reader.finish()?;
    Ok(settings)
}

#[test]
fn every_key_is_read_in_any_case() {
    let settings = read(
        r#"{"Similarity": 0.6, "tiernames": ["a", "b"], "downGrace": "1h30m", "includeDown": "yes", "root": "all",
            "hostMap": {"x": "y"}, "rewrite": [{"regex": "^ib-", "replace": ""}], "ignoreHosts": ["^tmp"],
            "guidAnnotation": "acme.com/guids", "other": 1}"#,
    )
    .unwrap();
    assert_eq!(settings.similarity, 0.6);
    assert_eq!(settings.tier_names, ["a", "b"]);
    assert_eq!(settings.down_grace, Duration::from_secs(5400));
    assert_eq!(settings.down, Down::Count);
    assert_eq!(settings.root.as_deref(), Some("all"));
    assert_eq!(settings.host_map, [("x".to_owned(), "y".to_owned())]);
    assert_eq!((settings.rewrite.len(), settings.ignore_hosts.len()), (1, 1));
    assert_eq!(settings.guid_annotation.as_deref(), Some("acme.com/guids"));
    assert_eq!(settings.notes.len(), 1);
    assert!(settings.notes[0].text.contains("other"));
}

#[test]
fn every_mistake_is_shown_with_its_place() {
    let problems = read(
        r#"{"similarity": 1, "tierNames": ["a", "a", ""], "downGrace": 5, "includeDown": 3, "root": 7,
            "hostMap": ["x"], "rewrite": [{"regex": "("}, {"regex": "a"}, 4, {"regex": "a", "replace": "$1"}],
            "ignoreHosts": "[", "guidAnnotation": "a b"}"#,
    )
    .unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    let expected = [
        "similarity",
        "tierNames[1]",
        "tierNames[2]",
        "downGrace",
        "includeDown",
        "root",
        "hostMap",
        "rewrite[0].regex",
        "rewrite[1]",
        "rewrite[2]",
        "rewrite[3].replace",
        "ignoreHosts",
        "guidAnnotation",
    ];
    assert_eq!(paths, expected, "{problems:?}");
}

#[test]
fn levels_are_read_with_every_mistake_in_its_place() {
    let settings = read(
        r#"{"maxTier": 3, "levels": [{"Level": 3, "names": ["^core-"], "switches": ["0x5C6D7E0000BB0203", "mac:AA"]},
            {"level": 2, "below": "^(g\\d+)-"}]}"#,
    )
    .unwrap();
    assert_eq!((settings.max_tier, settings.levels.len()), (3, 2));
    let Which::Switches { ids, names } = &settings.levels[0].which else { panic!("{:?}", settings.levels) };
    assert_eq!((settings.levels[0].level, names.len()), (3, 1));
    assert_eq!(*ids, ["5c6d7e0000bb0203", "mac:aa"]);
    assert!(matches!(&settings.levels[1].which, Which::Below(regex) if regex.is_match("g12-r1")));
    let problems = read(
        r#"{"maxTier": 17, "levels": [{"level": 0, "names": "a"}, {"level": 2}, {"names": "a"}, 7,
            {"level": 1, "below": "(a)"}, {"level": 2, "below": "a"}, {"level": 2, "below": "(a)", "names": "b"},
            {"level": 2.5, "names": "a"}, {"level": 2, "names": "("}]}"#,
    )
    .unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        "maxTier: expected a whole number from 1 to 16, found 17",
        "levels[0].level: expected a whole number from 1 to 16, found 0",
        "levels[1]: names, switches or below is required: it selects the switches",
        "levels[2]: level is missing",
        "levels[3]: expected {level: …, names: […], switches: […]}, found 7",
        "levels[4].level: expected a whole number from 2 to 16, found 1",
        "levels[5].below: \"a\" has 0 capture groups, exactly one is expected: its match becomes the name of the group",
        "levels[6]: below cannot be combined with names or switches",
        "levels[7].level: expected a whole number from 1 to 16, found 2.5",
    ];
    assert_eq!(shown.get(..expected.len()), Some(&expected.map(str::to_owned)[..]), "{shown:#?}");
    assert!(shown.len() == 10 && shown[9].starts_with("levels[8].names"), "{shown:#?}");
}
