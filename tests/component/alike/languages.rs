//! The packages for Python and JavaScript judge the same answers, and show valid ones alike: each gets all of them in one file,
//! with what the SDK in Rust said.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use topoloom_tests::pages;

use super::{cases, more_texts};

/// One line for each answer that the SDKs of other languages can build: they make packed text themselves.
fn answers(file: &Path) {
    let all = cases().into_iter().chain(more_texts());
    let lines = all.filter(|case| !case.said.to_string().contains("\"packed\"")).map(|case| {
        let verdict = case.by_cluster().map(|refused| refused.to_string());
        let names: Vec<String> = case.names().collect();
        let shown = case.shown();
        let line = json!({
            "nodes": names, "hadState": case.had_state, "said": case.said, "verdict": verdict, "shown": shown,
        });
        line.to_string() + "\n"
    });
    std::fs::write(file, lines.collect::<String>()).unwrap();
}

/// Runs the judge of a package over all answers. It ends with the first one that it judges otherwise.
fn judged(program: &str, script: &str, set: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answers.jsonl");
    answers(&file);
    let root = pages::root().unwrap();
    let output = Command::new(program)
        .arg(root.join(script))
        .arg(&file)
        .envs(set.iter().map(|(key, path)| (key, root.join(path))))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("answers are judged alike"), "{out}{error}");
}

#[test]
fn the_package_for_python_judges_alike() {
    judged("python3", "sdk/python/tests/alike.py", &[("PYTHONPATH", "sdk/python")]);
}

#[test]
fn the_package_for_javascript_judges_alike() {
    judged("node", "sdk/js/test/alike.js", &[]);
}
