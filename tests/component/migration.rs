//! The table of the migration guide names tests: each of them exists in the file that the table names.

use std::path::{Path, PathBuf};

/// One cell: the files that it names, each with the tests that it names there.
type Named = Vec<(String, Vec<String>)>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of the table, each as its cells.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes().get(2).is_some_and(u8::is_ascii_digit);
    text.lines().filter(is_row).map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// What stands in backticks, each with the words before it.
fn quoted(cell: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = cell.split('`').collect();
    parts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Files, and the tests that follow each with nothing but a comma between them.
fn named(cell: &str) -> Named {
    let mut files: Named = Vec::new();
    let mut follows = false;
    for (before, word) in quoted(cell) {
        follows &= matches!(before.trim(), "" | ",");
        if word.ends_with(".rs") {
            files.push((word.to_owned(), Vec::new()));
            follows = true;
        } else if follows && let Some((_, tests)) = files.last_mut() {
            tests.push(word.to_owned());
        }
    }
    files
}

/// Whether a file has this test: a function whose attributes mark it as a test.
fn is_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let heads = [format!("fn {name}("), format!("async fn {name}(")];
    let Some(at) = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head))) else { return false };
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
    above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
}

#[test]
fn every_test_that_the_migration_guide_names_exists() {
    let guide = std::fs::read_to_string(root().join("docs/operators/migrate-from-volcano.md")).unwrap();
    let rows = rows(&guide);
    let numbers: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    for row in rows {
        let [number, _, shown, different] = row[..] else { panic!("{row:?} has not four cells") };
        let shown = named(shown);
        assert!(!shown.is_empty(), "no test shows row {number}");
        for (file, tests) in &shown {
            assert!(!tests.is_empty(), "row {number}: which tests of {file}?");
        }
        for (file, tests) in shown.iter().chain(&named(different)) {
            let source = std::fs::read_to_string(root().join(file));
            let source = source.unwrap_or_else(|error| panic!("row {number}: {file}: {error}"));
            for test in tests {
                assert!(is_test(&source, test), "row {number}: {file} has no test {test}");
            }
        }
    }
}

#[test]
fn what_is_no_test_is_found_out() {
    let cell = "`a.rs` `one`, `two`; admission: `b/c.rs` `three` (a model), `none` and `patch`";
    let wanted = [
        ("a.rs".to_owned(), vec!["one".to_owned(), "two".to_owned()]),
        ("b/c.rs".to_owned(), vec!["three".to_owned()]),
    ];
    assert_eq!(named(cell), wanted);
    let source =
        "#[test]\nfn one() {}\n\nfn helper() {}\n\n#[tokio::test(flavor = \"x\")]\n// Why.\nasync fn two() {}\n";
    assert!(is_test(source, "one") && is_test(source, "two"));
    assert!(!is_test(source, "helper") && !is_test(source, "tw") && !is_test(source, "three"));
}
