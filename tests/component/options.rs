//! What `run` and `config check` print about mistakes, with the real binary.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use topoloom_tests::schema;

use crate::guests::host;

/// Runs the binary with these variables only in its environment.
fn run(words: &[&str], variables: &[(&str, &str)], input: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(host());
    command.args(words).env_clear().envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn b7_every_mistake_of_every_layer_is_printed_and_the_code_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("options.yaml");
    std::fs::write(&file, "drain-timeout: 30\nconcurency: 3\n").unwrap();
    let file = file.to_str().unwrap();
    let words = ["run", "--concurrency=0", "--leader-elect-retry-period=9s"];
    let variables = [("TOPOLOOM_LEADER_ELECT", "perhaps"), ("TOPOLOOM_OPTIONS", file)];
    let (code, out, error) = run(&words, &variables, "");
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    for wanted in [
        "--concurrency 0 (command line): must be a whole number, 1 to 64",
        "--leader-elect perhaps (environment variable TOPOLOOM_LEADER_ELECT): must be true or false",
        "line 1): must be a duration with units, 1s to 10m",
        "line 2: concurency: is no flag of `run`; did you mean `concurrency`?",
        "--leader-elect-retry-period 9s (command line): the deadline must be longer than 1.2 times the period",
        "not started: 5 things",
    ] {
        assert!(error.contains(wanted), "{wanted}\n{error}");
    }
}

#[test]
fn flags_that_do_not_exist_have_the_code_two_and_help_has_none() {
    let (code, _, error) = run(&["run", "--concurency=3"], &[], "");
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--concurrency"), "{error}");
    let (code, out, _) = run(&["run", "--help"], &[("TOPOLOOM_CONCURRENCY", "nonsense")], "");
    assert_eq!(code, Some(0));
    assert!(out.contains("[env: TOPOLOOM_CONCURRENCY]") && out.contains("[default: 8]"), "{out}");
    let (code, out, _) = run(&["run", "--version"], &[], "");
    assert_eq!((code, out.starts_with("topoloom")), (Some(0), true), "{out}");
}

#[test]
fn files_are_checked_where_no_cluster_is() {
    let document = "networkTopologyDiscovery:\n- source: label\n  enabled: true\n";
    let (code, out, error) = run(&["config", "check", "-"], &[], document);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
    assert_eq!(out, "-: line 1: discovery document, entries: 1, enabled and valid: 1\n");
    let (code, out, _) = run(&["config", "check", "/no/such", "-"], &[], "read-only: 3\n");
    assert_eq!(code, Some(1), "{out}");
    let (_, json, _) = run(&["config", "check", "/no/such", "-", "-o", "json"], &[], "read-only: 3\n");
    let checked = schema::checked(&json).unwrap();
    let files: Vec<_> = checked["files"].as_array().unwrap().iter().map(|file| file["mistakes"].clone()).collect();
    assert_eq!(files, [1, 1], "{json}");
    assert_eq!(checked["files"][1]["findings"][0]["kind"], "part", "{json}");
    assert!(out.contains("/no/such: mistake: ") && out.contains("--read-only 3 (- line 1): must be true"), "{out}");
}

#[test]
fn k4_without_a_cluster_in_sight_the_code_is_one_and_every_way_to_name_one_is_said() {
    let home = tempfile::tempdir().unwrap();
    let variables = [("HOME", home.path().to_str().unwrap())];
    let (code, out, error) = run(&["run", "--admin-address=127.0.0.1:0"], &variables, "");
    assert_eq!((code, out.as_str()), (Some(1), ""), "{error}");
    let sentence = "no API server is configured: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster with a ServiceAccount";
    assert!(error.contains(sentence), "{error}");
    let missing = home.path().join("missing");
    let (code, _, error) = run(&["run", "--kubeconfig", missing.to_str().unwrap()], &variables, "");
    assert!(code == Some(1) && error.contains("missing: there is no such file"), "{code:?}: {error}");
}
