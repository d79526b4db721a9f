use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use topoloom_core::text::shell_word;

use super::find::{find_by, version_in};
use super::*;

/// A project and a folder of programs, which answer by a table: their files are empty.
struct Desk {
    folder: tempfile::TempDir,
    said: BTreeMap<String, Result<Option<String>, io::ErrorKind>>,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("project")).unwrap();
        Self { folder, said: BTreeMap::new() }
    }

    /// A program at this place, and what it says when it is called like this.
    fn program(mut self, place: &str, call: &str, said: Result<Option<&str>, io::ErrorKind>) -> Self {
        let file = self.folder.path().join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.said.insert(format!("{} {call}", file.display()), said.map(|said| said.map(str::to_owned)));
        self
    }

    fn file(self, place: &str, text: &str) -> Self {
        let file = self.folder.path().join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        self
    }

    fn at(&self, place: &str) -> String {
        self.folder.path().join(place).display().to_string()
    }

    fn find(&self, tool: &'static Tool) -> Result<Found, Missing> {
        let search = Search::along(&self.folder.path().join("project"), self.folder.path().join("bin").as_os_str());
        find_by(tool, &search, &|words| {
            let call = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            let said = self.said.get(&call).unwrap_or_else(|| panic!("{call}")).clone().map_err(io::Error::from)?;
            Ok(said.ok_or_else(|| "error: toolchain '1.95.0' is not installed".to_owned()))
        })
    }

    /// How it is started, and its version.
    fn found(&self, tool: &'static Tool) -> (String, String) {
        let found = self.find(tool).unwrap_or_else(|missing| panic!("{missing}"));
        (found.words.join(OsStr::new(" ")).into_string().unwrap(), found.version)
    }
}

#[test]
fn a_tool_in_the_path_is_found_with_its_version() {
    let desk = Desk::new().program("bin/node", "--version", Ok(Some("v20.20.2\n")));
    assert_eq!(desk.found(&NODE), (desk.at("bin/node"), "20.20.2".to_owned()));
    let desk = Desk::new().program("bin/cargo", "--version", Ok(Some("cargo 1.96.1 (f2d3ce0bd 2026-03-21)\n")));
    assert_eq!(desk.found(&CARGO).1, "1.96.1");
}

#[test]
fn the_tools_of_the_project_are_found_before_those_of_the_machine() {
    let desk = Desk::new().program("bin/componentize-py", "--version", Ok(Some("componentize-py 0.24.0"))).program(
        "project/.venv/bin/componentize-py",
        "--version",
        Ok(Some("componentize-py 0.25.1")),
    );
    assert_eq!(desk.found(&COMPONENTIZE_PY), (desk.at("project/.venv/bin/componentize-py"), "0.25.1".to_owned()));
}

#[test]
fn a_missing_tool_is_named_with_its_version_and_the_line_that_installs_it() {
    let desk = Desk::new();
    let mut missing = desk.find(&COMPONENTIZE_PY).unwrap_err();
    let said = |before: &str| {
        format!(
            "componentize-py 0.25.1 is needed, and it is not there; the line that installs it:\n  \
             {before}python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1"
        )
    };
    // In the folder of the project, which is not that of the tests.
    assert_eq!(missing.to_string(), said(&format!("cd '{}' && ", desk.at("project"))));
    missing.folder = None;
    assert_eq!(missing.to_string(), said(""));
    let node = desk.find(&NODE).unwrap_err().to_string();
    assert!(node.starts_with("node 20.0.0 or newer is needed, ") && !node.contains("cd "), "{node}");
    let here = find_by(&COMPONENTIZE_PY, &Search::along(Path::new("."), OsStr::new("")), &|_| Ok(Err(String::new())));
    assert_eq!(here.unwrap_err().folder, None);
}

#[test]
fn a_program_that_fails_is_quoted_with_its_last_line() {
    const ANSWER: &str = "echo first >&2; echo no such toolchain >&2; exit 1";
    static FAILS: Tool = Tool {
        name: "sh",
        wanted: Wanted::Exactly("1"),
        ways: &[Way::Program { words: &["sh"], version: &["-c", ANSWER] }],
        install: "",
        is_of_folder: false,
    };
    let search = Search::along(Path::new("."), OsStr::new("/bin:/usr/bin"));
    let said = find(&FAILS, &search).unwrap_err().to_string();
    assert!(said.contains("fails when it is asked for its version: \"no such toolchain\"; "), "{said}");
}

#[test]
fn a_tool_of_another_version_is_named_with_both_versions() {
    let desk = Desk::new().program("bin/componentize-py", "--version", Ok(Some("componentize-py 0.25.0")));
    let said = desk.find(&COMPONENTIZE_PY).unwrap_err().to_string();
    let place = desk.at("bin/componentize-py");
    assert!(said.starts_with(&format!("componentize-py 0.25.1 is needed, and {place} is 0.25.0; ")), "{said}");
    assert!(said.ends_with("pip install componentize-py==0.25.1"), "{said}");
}

#[test]
fn a_tool_that_does_not_say_its_version_is_not_used() {
    for (answer, wanted) in [
        (Ok(Some("usage: node [options]")), "says no version, but \"usage: node [options]\""),
        (Ok(None), "fails when it is asked for its version: \"error: toolchain '1.95.0' is not installed\""),
        (Err(io::ErrorKind::PermissionDenied), "cannot be started: permission denied"),
    ] {
        let desk = Desk::new().program("bin/node", "--version", answer);
        let said = desk.find(&NODE).unwrap_err().to_string();
        assert!(said.contains(&format!("{} {wanted}; ", desk.at("bin/node"))), "{said}");
    }
}

#[test]
fn a_compiler_out_of_a_package_is_found_where_its_own_program_is_another() {
    let desk = Desk::new().program("bin/zig", "version", Ok(Some("0.14.1\n"))).program(
        "bin/python3",
        "-m ziglang version",
        Ok(Some("0.15.2\n")),
    );
    assert_eq!(desk.found(&ZIG), (format!("{} -m ziglang", desk.at("bin/python3")), "0.15.2".to_owned()));
    // Python is there, and the module is not: then Python is not what was found in its place.
    let desk = Desk::new().program("bin/python3", "-m ziglang version", Ok(None));
    assert_eq!(desk.find(&ZIG).unwrap_err().others, []);
}

#[test]
fn a_package_of_node_is_found_in_the_project_or_above_it() {
    let manifest = "node_modules/@bytecodealliance/componentize-js/package.json";
    for above in ["project/", ""] {
        let desk = Desk::new().file(&format!("{above}{manifest}"), r#"{"version": "0.23.0"}"#);
        let (place, version) = desk.found(&COMPONENTIZE_JS);
        assert_eq!(
            (format!("{place}/package.json"), version.as_str()),
            (desk.at(&format!("{above}{manifest}")), "0.23.0")
        );
    }
    let desk = Desk::new().file(&format!("project/{manifest}"), r#"{"version": "0.22.0"}"#);
    assert!(desk.find(&COMPONENTIZE_JS).unwrap_err().to_string().contains(" is 0.22.0; "));
    let desk = Desk::new().file(&format!("project/{manifest}"), "{");
    assert!(desk.find(&COMPONENTIZE_JS).unwrap_err().to_string().contains(" has no version in its package.json; "));
}

#[test]
fn a_target_is_there_if_the_folder_that_its_compiler_names_is() {
    let call = "--print target-libdir --target wasm32-unknown-unknown";
    let desk = Desk::new().file("lib/core.rlib", "");
    let lib = format!("{}\n", desk.at("lib"));
    let desk = desk.program("bin/rustc", call, Ok(Some(&lib)));
    assert_eq!(desk.found(&RUST_TARGET), (desk.at("lib"), String::new()));
    let desk = Desk::new().program("bin/rustc", call, Ok(Some("/nowhere/at/all\n")));
    let said = desk.find(&RUST_TARGET).unwrap_err().to_string();
    assert!(said.starts_with("the Rust target wasm32-unknown-unknown is needed, and it is not there; "), "{said}");
    assert!(said.ends_with("rustup target add wasm32-unknown-unknown"), "{said}");
}

#[test]
fn a_file_that_is_no_program_is_no_tool() {
    let desk = Desk::new().file("bin/node", "");
    assert_eq!(desk.find(&NODE).unwrap_err().others, []);
    std::fs::create_dir_all(desk.folder.path().join("project/.venv/bin/node")).unwrap();
    assert_eq!(desk.find(&NODE).unwrap_err().others, []);
}

#[test]
fn everything_that_is_missing_is_reported_at_once() {
    let desk = tempfile::tempdir().unwrap();
    let search = Search::along(desk.path(), desk.path().as_os_str());
    let missing = find_all(of(Language::JavaScript), &search).unwrap_err();
    let said = missing.to_string();
    for tool in of(Language::JavaScript) {
        assert!(said.contains(&format!("{}{} is needed, ", tool.name, tool.wanted)), "{said}");
        let place = if tool.is_of_folder {
            format!("cd {} && ", shell_word(&desk.path().to_string_lossy()))
        } else {
            String::new()
        };
        assert!(said.contains(&format!("\n  {place}{}", tool.install)), "{said}");
    }
    assert_eq!(find_all(of(Language::Other), &search), Ok(Vec::new()));
}

#[test]
fn a_program_is_started_and_read() {
    // The shell is there wherever these tests are.
    const SHELL: Tool = Tool {
        name: "sh",
        wanted: Wanted::AtLeast("1.2"),
        ways: &[Way::Program { words: &["sh", "-c"], version: &["echo it is v1.2.3, as \"$(pwd)\" says"] }],
        install: "",
        is_of_folder: false,
    };
    let desk = tempfile::tempdir().unwrap();
    let found = find(&SHELL, &Search::of(desk.path())).unwrap();
    assert_eq!((found.version.as_str(), found.words.len()), ("1.2.3", 2));
    let output = found.command().arg("echo done").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
}

#[test]
fn versions_are_found_in_what_programs_say() {
    for (text, wanted) in [
        ("cargo 1.95.0 (f2d3ce0bd 2026-03-21)", Some("1.95.0")),
        ("v20.20.2", Some("20.20.2")),
        ("0.15.2\n", Some("0.15.2")),
        ("zig 0.16.0-dev.1+abc", Some("0.16.0-dev.1+abc")),
        ("tool (version 3.1, of 2026)", Some("3.1")),
        ("version seven", None),
        ("2026", None),
        ("", None),
    ] {
        assert_eq!(version_in(text), wanted, "{text}");
    }
}

#[test]
fn versions_are_compared_by_their_numbers() {
    let least = Wanted::AtLeast("1.95.0");
    for (version, is_good) in
        [("1.95.0", true), ("1.100.0", true), ("2.0.0-beta", true), ("1.94.9", false), ("x", false)]
    {
        assert_eq!(least.accepts(version), is_good, "{version}");
    }
    assert!(Wanted::Exactly("0.25.1").accepts("0.25.1") && !Wanted::Exactly("0.25.1").accepts("0.25.10"));
}

#[test]
fn every_tool_is_installed_in_the_version_that_is_needed() {
    for tool in Language::ALL.iter().flat_map(|language| of(*language)).chain(of_engine(Engine::QuickJs)) {
        if let Wanted::Exactly(version) = tool.wanted {
            let is_named = ["==", "@"].iter().any(|sign| tool.install.contains(&format!("{sign}{version}")));
            assert!(is_named, "{}: {}", tool.name, tool.install);
        }
        assert!(!tool.ways.is_empty() && !tool.install.is_empty(), "{}", tool.name);
    }
}

#[test]
fn the_cargo_that_is_needed_is_the_one_that_builds_this() {
    let toolchain = include_str!("../../../../rust-toolchain.toml");
    let Wanted::AtLeast(version) = CARGO.wanted else { panic!("a compiler may be newer") };
    assert!(toolchain.contains(&format!("channel = \"{version}\"")), "{toolchain}");
}

/// The arguments as one line.
fn line(recipe: &Recipe) -> String {
    recipe.arguments.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_recipe_is_the_command_of_its_tool() {
    let of = |language, source: &str| {
        let (root, output) = (Path::new("/p"), Path::new("/p/racks.wasm"));
        let source = root.join(source);
        let sources = Sources { root, source: &source, wit: Path::new("/p/wit"), world: "narrow", output };
        recipe(language, &sources)
    };
    let rust = of(Language::Rust, "Cargo.toml").unwrap();
    assert_eq!(
        line(&rust),
        "build --release --target wasm32-unknown-unknown --message-format json-render-diagnostics --manifest-path \
         /p/Cargo.toml --target-dir /p/target"
    );
    assert_eq!(rust.product, Product::ModuleOfCargo("/p/target/wasm32-unknown-unknown/release".into()));
    let python = of(Language::Python, "racks.py").unwrap();
    assert_eq!(
        line(&python),
        "--wit-path /p/wit --world narrow componentize --stub-wasi --python-path /p racks --output /p/racks.wasm"
    );
    assert_eq!(python.product, Product::Component("/p/racks.wasm".into()));
    let c = of(Language::C, "racks.c").unwrap();
    assert!(line(&c).starts_with("cc -target wasm32-freestanding -nostdlib -O2 -g0 "), "{}", line(&c));
    assert!(line(&c).ends_with(" /p/racks.c -o /p/racks.wasm") && c.product == Product::Module("/p/racks.wasm".into()));
    assert_eq!(of(Language::Other, ""), None);
}

#[test]
fn both_engines_have_a_script_and_one_is_in_force() {
    let (root, output) = (Path::new("/p"), Path::new("/p/racks.wasm"));
    let sources = Sources { root, source: Path::new("racks.js"), wit: Path::new("wit"), world: "narrow", output };
    for (engine, package) in [(Engine::SpiderMonkey, COMPONENTIZE_JS), (Engine::QuickJs, COMPONENTIZE_QJS)] {
        let recipe = engine_recipe(engine, &sources);
        let script = recipe.arguments[2].to_string_lossy();
        assert!(script.contains(&format!("from '{}'", package.name)) && script.contains("from 'esbuild'"), "{script}");
        assert_eq!(recipe.arguments[3..], ["--", "racks.js", "wit", "narrow", "/p/racks.wasm"].map(OsString::from));
        assert!(of_engine(engine).iter().any(|tool| **tool == package));
    }
    assert_eq!(of(Language::JavaScript), of_engine(Engine::IN_FORCE));
}
