//! The examples of the SDK, each with its cases: built with the real tools of its language, and examined by `topoloom plugin test`
//! as a vendor examines a plugin.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use topoloom_tests::guest::{EXAMPLES, example};
use topoloom_tests::pages::{commands, page, root};
use topoloom_tests::tools::{Tool, folder, programs};
use topoloom_tests::vendor::caches;

use crate::guests::host;

/// The folder of the examples.
fn examples() -> PathBuf {
    root().unwrap().join("sdk/examples")
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, place) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if entry.is_dir() {
            copy(&entry, &place);
        } else {
            std::fs::copy(&entry, &place).unwrap();
        }
    }
}

/// Runs a command in a folder, with the program and these folders before those of `PATH`; returns what it printed.
fn run(place: &Path, before: &[PathBuf], words: &[&str]) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = host().parent().unwrap().to_owned();
    let folders = std::iter::once(own).chain(before.iter().cloned()).chain(std::env::split_paths(&path));
    let path: OsString = std::env::join_paths(folders).unwrap();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place).env("PATH", path).env("XDG_CACHE_HOME", caches().unwrap());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{words:?} in {}: {}\n{said}", place.display(), output.status);
    said
}

#[test]
fn every_example_has_cases_and_a_project_in_each_language() {
    for name in EXAMPLES {
        let cases: Vec<_> = std::fs::read_dir(examples().join(name).join("cases")).unwrap().collect();
        assert!(!cases.is_empty(), "{name}");
    }
    for project in ["cmdb/rust", "cmdb/python", "cmdb/javascript", "names/rust", "names/c"] {
        assert!(examples().join(project).join("topoloom-plugin.yaml").is_file(), "{project}");
    }
}

#[test]
fn the_examples_in_rust_pass_the_kit_with_their_cases() {
    for name in EXAMPLES {
        let desk = tempfile::tempdir().unwrap();
        let file = format!("{name}.wasm");
        std::fs::write(desk.path().join(&file), example(name).unwrap()).unwrap();
        copy(&examples().join(name).join("cases"), &desk.path().join("cases"));
        run(desk.path(), &[], &["topoloom", "plugin", "test", &file]);
    }
}

/// A copy of the CMDB in one language, with its cases beside it.
fn copied(language: &str) -> (tempfile::TempDir, PathBuf) {
    let desk = tempfile::tempdir().unwrap();
    for part in [language, "cases"] {
        copy(&examples().join("cmdb").join(part), &desk.path().join(part));
    }
    let place = desk.path().join(language);
    (desk, place)
}

#[test]
fn the_example_in_c_is_built_by_zig_as_the_page_of_the_examples_says() {
    let desk = tempfile::tempdir().unwrap();
    copy(&examples().join("names"), &desk.path().join("names"));
    let zig = programs(Tool::Zig).unwrap();
    let [block] = commands(&page("sdk/examples/README.md").unwrap()).unwrap().try_into().unwrap();
    let said = run(desk.path(), &zig, &["sh", "-euc", &block.text]);
    for words in ["names 0.1.0", "pass  file-loads", "nodeNames: true", "have a place"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Nothing in place of WASI: there is no C library.
    assert!(!said.contains("without WASI"), "{said}");
}

#[test]
fn the_example_in_python_passes_its_native_test_and_the_kit() {
    let (_desk, place) = copied("python");
    copy(&root().unwrap().join("sdk/python/topoloom"), &place.join("topoloom"));
    run(&place, &[], &["python3", "-m", "unittest"]);
    let tool = programs(Tool::ComponentizePy).unwrap();
    run(&place, &tool, &["topoloom", "plugin", "build"]);
    run(&place, &tool, &["topoloom", "plugin", "test"]);
}

#[test]
fn the_example_in_javascript_passes_its_native_test_and_the_kit() {
    let (desk, place) = copied("javascript");
    // The tools are in a folder above, as Node.js looks for them; the SDK is where npm would link it.
    symlink(folder(Tool::ComponentizeJs).unwrap().unwrap(), desk.path().join("node_modules")).unwrap();
    let own = place.join("node_modules/@topoloom");
    std::fs::create_dir_all(&own).unwrap();
    symlink(root().unwrap().join("sdk/js"), own.join("sdk")).unwrap();
    run(&place, &[], &["node", "--test"]);
    let tool = programs(Tool::ComponentizeJs).unwrap();
    run(&place, &tool, &["topoloom", "plugin", "build"]);
    run(&place, &tool, &["topoloom", "plugin", "test"]);
}
