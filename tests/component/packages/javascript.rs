//! The package for JavaScript: its tests over the source, and over the tarball in a folder that has nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use topoloom_tests::pages::{page, root};
use topoloom_tests::tools::{Tool, folder};

use super::{build, copy, file, run, template};

/// The tests, and the discoverer that they ask.
const TESTS: [&str; 2] = ["sdk.test.js", "racks.js"];
/// A package that has only what is installed.
const EMPTY: &str = r#"{"private": true, "type": "module"}"#;

fn package() -> PathBuf {
    root().unwrap().join("sdk/js")
}

fn node_test(folder: &Path, name: &str) {
    let said = run(Command::new("node").args(["--test", name]).current_dir(folder));
    assert!(said.contains("pass ") && !said.contains("pass 0"), "{said}");
}

/// npm, without a network and without the files of the person who runs the tests.
fn npm(desk: &Path, place: &Path) -> Command {
    let mut command = Command::new("npm");
    command.args(["--offline", "--no-audit", "--no-fund", "--loglevel=error", "--cache"]).arg(desk.join("cache"));
    command.env("npm_config_update_notifier", "false").current_dir(place);
    command
}

/// Installs the tarball into a folder that becomes a package of its own.
fn install(desk: &Path, place: &Path, tarball: &Path) -> PathBuf {
    fs::write(place.join("package.json"), EMPTY).unwrap();
    run(npm(desk, place).arg("install").arg(tarball));
    place.join("node_modules/@topoloom/sdk")
}

#[test]
fn the_tests_of_the_package_pass() {
    node_test(&package(), "test/sdk.test.js");
}

#[test]
fn the_tarball_works_in_an_empty_folder_and_builds_the_template() {
    let desk = tempfile::tempdir().unwrap();
    let desk = desk.path();
    run(npm(desk, &package()).args(["pack", "--pack-destination"]).arg(desk));
    let tarball = file(desk, ".tgz");
    let empty = desk.join("empty");
    copy(&package().join("test"), &TESTS, &empty);
    let installed = install(desk, &empty, &tarball);
    for name in
        ["index.js", "index.d.ts", "testing.js", "rules.js", "host/http.js", "host/native.js", "README.md", "LICENSE"]
    {
        assert!(installed.join(name).is_file(), "{name}");
    }
    assert!(!installed.join("test").exists());
    node_test(&empty, "sdk.test.js");
    let project = template(desk, "javascript");
    fs::remove_dir_all(project.join("vendor")).unwrap();
    install(desk, &project, &tarball);
    // The tools are in a folder above, or where they are looked for anyway.
    if let Some(tools) = folder(Tool::ComponentizeJs).unwrap() {
        symlink(tools, desk.join("node_modules")).unwrap();
    }
    build(&project, Tool::ComponentizeJs);
}

#[test]
fn every_export_has_a_type() {
    for name in ["index", "testing"] {
        let [source, types] = ["js", "d.ts"].map(|end| page(&format!("sdk/js/{name}.{end}")).unwrap());
        let declared = |what: &str| types.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == what);
        for line in source.lines().filter_map(|line| line.strip_prefix("export ")) {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            let kinds = ["async", "function", "class", "const", "let", "from"];
            let exported = words.iter().find(|word| !word.is_empty() && !kinds.contains(*word)).unwrap();
            assert!(declared(exported), "{exported} of {name}.js has no type");
        }
    }
}
