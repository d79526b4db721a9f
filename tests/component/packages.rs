//! The SDKs as a registry gets them: the crate compiles from what is packed alone, the wheel and the tarball install into an
//! empty environment, where their own tests pass and the template is built with them.

mod javascript;
mod python;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use topoloom_tests::pages::{page, root};
use topoloom_tests::tools::{Tool, folder};
use topoloom_tests::vendor::caches;

use crate::guests::host;

/// What cargo says where it cannot ask the registry: without a network, and where it was told to use none.
const NO_REGISTRY: [&str; 4] =
    ["failed to update", "attempting to make an HTTP request", "failed to download", "spurious network error"];
/// A file of an SDK that is read by vendors has fewer lines.
const MOST_LINES: usize = 400;
/// The version of all of them.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A folder below the target folder, which stays.
fn kept(name: &str) -> PathBuf {
    let host = host();
    let kept = host.ancestors().nth(2).unwrap().join("packages").join(name);
    fs::create_dir_all(&kept).unwrap();
    kept
}

/// What a program printed, on both outputs.
fn text(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn output(command: &mut Command) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{program} cannot be started: {error}"))
}

/// Runs a program to its end, which is a good one; returns what it printed.
fn run(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output));
    text(&output)
}

/// The file in a folder that was written there with this end.
fn file(within: &Path, end: &str) -> PathBuf {
    let mut files = fs::read_dir(within).unwrap().map(|entry| entry.unwrap().path());
    let found = files.find(|file| file.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} in {}", within.display()))
}

/// Copies files of one folder into another.
fn copy(from: &Path, names: &[&str], to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in names {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Makes the template of a language in a folder without checkout.
fn template(desk: &Path, language: &str) -> PathBuf {
    run(Command::new(host()).args(["plugin", "new", "racks", "--lang", language]).current_dir(desk));
    desk.join("racks")
}

/// Builds a project with the tool of its language, and examines what came out.
fn build(project: &Path, tool: Tool) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let before = folder(tool).unwrap().into_iter();
    let path = std::env::join_paths(before.chain(std::env::split_paths(&path))).unwrap();
    for verb in ["build", "test"] {
        let mut command = Command::new(host());
        command.args(["plugin", verb]).current_dir(project).env("PATH", &path);
        run(command.env("XDG_CACHE_HOME", caches().unwrap()));
    }
    assert!(project.join("racks.wasm").is_file());
}

fn cargo(words: &[&str]) -> Output {
    let target = kept("crate");
    output(
        Command::new(env!("CARGO"))
            .args(words)
            .args(["--locked", "--allow-dirty", "--package", "topoloom-sdk", "--target-dir"])
            .arg(target)
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            // Where there is no network, that is soon known.
            .envs([("CARGO_NET_RETRY", "0"), ("CARGO_HTTP_TIMEOUT", "10")])
            .current_dir(root().unwrap()),
    )
}

#[test]
fn the_crate_can_be_published_and_compiles_from_what_is_packed() {
    let mut published = cargo(&["publish", "--dry-run"]);
    let said = text(&published);
    if !published.status.success() && NO_REGISTRY.iter().any(|words| said.contains(words)) {
        // The same package, compiled in the same way; that no other one has its name and version is not asked.
        eprintln!("crates.io cannot be reached: cargo package in place of cargo publish --dry-run");
        published = cargo(&["package", "--offline"]);
    }
    assert!(published.status.success(), "{}", text(&published));
}

#[test]
fn the_crate_has_the_interface_and_nothing_of_the_other_sdks() {
    let packed = cargo(&["package", "--offline", "--list"]);
    let said = text(&packed);
    assert!(packed.status.success(), "{said}");
    let files: Vec<&str> = said.lines().filter(|line| line.contains('.')).collect();
    let wit = fs::read_dir(root().unwrap().join("wit/discovery-0.1.0")).unwrap();
    for file in wit.map(|file| file.unwrap().file_name()).filter(|name| name.to_string_lossy().ends_with(".wit")) {
        let name = format!("wit/{}", file.to_string_lossy());
        assert!(files.contains(&name.as_str()), "{name} is not in {files:?}");
    }
    for name in ["README.md", "Cargo.toml", "src/lib.rs", "src/rules.rs", "src/rules/judge.rs", "src/testing/judge.rs"]
    {
        assert!(files.contains(&name), "{name} is not in {files:?}");
    }
    assert!(said.lines().any(|line| line == "LICENSE"), "{said}");
    let others = ["python", "js/", "examples", "tests/"];
    assert!(files.iter().all(|file| !others.iter().any(|other| file.starts_with(other))), "{files:?}");
}

/// The value of a key of a manifest, as `key = "value"`.
fn value<'a>(manifest: &'a str, key: &str) -> &'a str {
    let mut lines = manifest.lines().filter_map(|line| line.split_once(" = "));
    let (_, value) = lines.find(|(known, _)| *known == key).unwrap_or_else(|| panic!("no {key}"));
    value.trim_matches('"')
}

#[test]
fn the_packages_have_one_version_and_one_home() {
    let manifest = page("sdk/Cargo.toml").unwrap();
    let python = page("sdk/python/pyproject.toml").unwrap();
    let javascript: serde_json::Value = serde_json::from_str(&page("sdk/js/package.json").unwrap()).unwrap();
    assert_eq!(value(&python, "version"), VERSION);
    assert_eq!(javascript["version"], VERSION);
    let (homepage, repository) = (value(&manifest, "homepage"), value(&manifest, "repository"));
    assert_eq!((value(&python, "Homepage"), value(&python, "Repository")), (homepage, repository));
    assert_eq!(javascript["homepage"], homepage);
    assert_eq!(javascript["repository"]["url"], repository);
    let keywords = value(&manifest, "keywords");
    assert_eq!(value(&python, "keywords"), keywords);
    assert_eq!(javascript["keywords"], serde_json::from_str::<serde_json::Value>(keywords).unwrap());
}

#[test]
fn a_file_of_an_sdk_is_short_enough_to_be_read() {
    for (place, end) in [("sdk/python/topoloom", ".py"), ("sdk/js", ".js"), ("sdk/js/host", ".js")] {
        let files = fs::read_dir(root().unwrap().join(place)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.to_string_lossy().ends_with(end)) {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines < MOST_LINES, "{} has {lines} lines", file.display());
        }
    }
}
