use super::*;
use crate::Reader;
use topoloom_sdk::{Problem, json::Value};

fn read(json: &str) -> Result<Settings, Vec<Problem>> {
    let Ok(Value::Object(entries)) = Value::parse(json) else { panic!("no object: {json}") };
    let mut reader = Reader::new();
    let mut settings = Settings::default();
    for (key, value) in &entries {
        if settings.read(&mut reader, key, value) == Known::No {
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
fn every_mistake_is_told_with_its_place() {
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
