//! The pages for vendors show files whole: they are those that `topoloom plugin new` writes, so that a reader who copies and one
//! who does not have the same folder. Their commands are followed end to end (`tests/e2e/languages`).

use std::process::Command;

use topoloom_tests::pages::{files, page};

use crate::guests::host;

/// Compares all files on a page with what `topoloom plugin new` writes with these words.
fn shows(path: &str, words: &str, wanted: &[&str]) {
    let desk = tempfile::tempdir().unwrap();
    let mut command = Command::new(host());
    command.args(["plugin", "new", "plugin"]).args(words.split_whitespace()).current_dir(desk.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = files(&page(path).unwrap());
    assert_eq!(shown.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), wanted, "{path}");
    for (name, text) in shown {
        let written = std::fs::read_to_string(desk.path().join("plugin").join(&name)).unwrap();
        assert!(text == written, "{path}: {name} is not what `plugin new {words}` writes:\n{written}");
    }
}

#[test]
fn the_files_on_the_pages_for_vendors_are_those_that_are_written() {
    shows("docs/vendors/first-plugin.md", "--lang rust", &["src/lib.rs", "tests/racks.rs"]);
    shows("docs/vendors/http.md", "--lang rust --http", &["src/lib.rs", "tests/listed.rs"]);
    shows("docs/vendors/python.md", "--lang python", &["racks.py", "test_racks.py"]);
    shows("docs/vendors/javascript.md", "--lang javascript", &["racks.js", "racks.test.js"]);
}
