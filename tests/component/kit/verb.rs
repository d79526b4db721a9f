//! `topoloom plugin test` as its reader runs it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use topoloom_tests::pages::{Run, commands, page};
use topoloom_tests::schema;
use topoloom_workshop::kit::check::Check;

use super::{aged, astray, cases};
use crate::guests::host;

/// How the binary ended.
struct End {
    code: Option<i32>,
    out: String,
    error: String,
}

fn run(folder: &Path, words: &[&str]) -> End {
    let mut command = Command::new(host());
    command.args(["plugin", "test"]).args(words).current_dir(folder).env("TOPOLOOM_LOG", "warn");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    End { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
}

/// A folder with these plugins and the case of the other tests.
fn desk(plugins: &[(&str, &[u8])]) -> tempfile::TempDir {
    let desk = tempfile::tempdir().unwrap();
    cases::write(&desk.path().join("cases/small"), None);
    for (name, bytes) in plugins {
        std::fs::write(desk.path().join(name), bytes).unwrap();
    }
    desk
}

#[test]
fn every_check_has_a_line_and_the_exit_code_says_whether_all_hold() {
    let desk = desk(&[("good.wasm", &astray("good")), ("row-ids.wasm", &astray("row-ids"))]);
    let good = run(desk.path(), &["good.wasm"]);
    assert_eq!(good.code, Some(0), "{}{}", good.out, good.error);
    assert!(good.out.starts_with("astray 1.0.0, good.wasm, the case small\n"), "{}", good.out);
    for check in Check::ALL {
        let lines = good.out.lines().filter(|line| line.split_whitespace().nth(1) == Some(check.id())).count();
        assert_eq!(lines, 1, "{check}: {}", good.out);
    }
    let wrong = run(desk.path(), &["row-ids.wasm"]);
    assert_eq!(wrong.code, Some(1), "{}{}", wrong.out, wrong.error);
    for words in
        ["FAIL  function-rows", "case small: with the rows reversed: group ", "docs/vendors/testing.md#function-rows"]
    {
        assert!(wrong.out.contains(words), "{words:?} is not in {}", wrong.out);
    }
}

#[test]
fn programs_get_json_and_pipelines_junit() {
    let desk = desk(&[("wrong.wasm", &astray("row-ids"))]);
    let end = run(desk.path(), &["wrong.wasm", "-o", "json"]);
    let said = schema::checked(&end.out).unwrap();
    assert_eq!((end.code, &said["failed"], &said["cases"]), (Some(1), &json!(true), &json!(["small"])));
    let checks = said["checks"].as_array().unwrap();
    let failed: Vec<&Value> =
        checks.iter().filter(|check| check["mark"] == "failed").map(|check| &check["id"]).collect();
    assert_eq!(failed, [&json!("case-expected"), &json!("function-rows")]);
    let end = run(desk.path(), &["wrong.wasm", "-o", "junit"]);
    assert_eq!(end.code, Some(1));
    let suite = "<testsuite name=\"function\" tests=\"4\" failures=\"1\"";
    assert!(end.out.starts_with("<?xml version=\"1.0\"") && end.out.contains(suite), "{}", end.out);
}

#[test]
fn an_answer_is_blessed_and_then_expected() {
    let desk = desk(&[("other.wasm", &astray("other-ids"))]);
    let before = run(desk.path(), &["other.wasm"]);
    assert!(before.code == Some(1) && before.out.contains("FAIL  case-expected"), "{}{}", before.out, before.error);
    let blessed = run(desk.path(), &["other.wasm", "--bless"]);
    assert!(
        blessed.code == Some(0) && blessed.error.contains("small/expected.txt"),
        "{}{}",
        blessed.out,
        blessed.error
    );
    let expected = std::fs::read_to_string(desk.path().join("cases/small/expected.txt")).unwrap();
    assert!(expected.contains("| rack-r0 |"), "{expected}");
    assert_eq!(run(desk.path(), &["other.wasm"]).code, Some(0));
}

#[test]
fn an_earlier_version_is_compared_with() {
    let plugins: [(&str, &[u8]); 2] = [("old.wasm", &aged("good", "0.9.0")), ("new.wasm", &astray("renamed"))];
    let desk = desk(&plugins);
    let end = run(desk.path(), &["new.wasm", "--against", "old.wasm"]);
    assert!(end.code == Some(1) && end.out.contains("FAIL  swap-name"), "{}{}", end.out, end.error);
    let alone = run(desk.path(), &["new.wasm"]);
    let left = "skip  swap-name              no earlier version was given with --against";
    assert!(alone.code == Some(0) && alone.out.contains(left), "{}{}", alone.out, alone.error);
    let lost = run(desk.path(), &["new.wasm", "--against", "gone.wasm"]);
    assert!(lost.code == Some(1) && lost.error.contains("--against gone.wasm"), "{}", lost.error);
}

#[test]
fn what_is_no_plugin_and_what_is_no_case_are_named() {
    let desk = desk(&[("text.wasm", b"text"), ("good.wasm", &astray("good"))]);
    let end = run(desk.path(), &["text.wasm"]);
    assert!(end.code == Some(1) && end.out.contains("the plugin is not WebAssembly"), "{}{}", end.out, end.error);
    assert!(end.out.contains("skip  sound-answer           file-loads failed"), "{}", end.out);
    // A folder that is named has to be there; the usual one may be missing.
    let lost = run(desk.path(), &["good.wasm", "--cases", "elsewhere"]);
    assert!(
        lost.code == Some(1) && lost.error.contains("--cases elsewhere: there is no such folder"),
        "{}",
        lost.error
    );
    std::fs::create_dir(desk.path().join("empty")).unwrap();
    let none = run(desk.path(), &["good.wasm", "--cases", "empty"]);
    assert!(none.code == Some(0) && none.out.contains("no case: checks that need one are left out"), "{}", none.out);
    std::fs::write(desk.path().join("cases/small/config.yaml"), "[1]\n").unwrap();
    let end = run(desk.path(), &["good.wasm"]);
    assert!(end.code == Some(1) && end.error.contains("config.yaml: it is no mapping"), "{}", end.error);
}

#[test]
fn the_commands_of_the_page_do_what_it_says() {
    let plugins: [(&str, &[u8]); 2] = [("racks.wasm", &astray("good")), ("racks-0.9.wasm", &aged("good", "0.9.0"))];
    let desk = desk(&plugins);
    let path = format!("{}:{}", host().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let page = page("docs/vendors/testing.md").unwrap();
    let blocks = commands(&page).unwrap();
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    for block in blocks {
        assert_eq!(block.run, Run::Whole, "line {}", block.line);
        let mut shell = Command::new("sh");
        let shell = shell.args(["-euc", &block.text]).current_dir(desk.path()).env("PATH", &path);
        let output = shell.env("TOPOLOOM_LOG", "warn").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {said}{}", block.text, String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("pass  file-loads") && said.contains("0 failed"), "{}: {said}", block.text);
    }
    let pipeline = std::fs::read_to_string(desk.path().join("kit.xml")).unwrap();
    assert!(pipeline.contains("<testsuite name=\"identities\""), "{pipeline}");
}
