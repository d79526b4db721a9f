//! A machine without the tools of a language: the first thing that a vendor reads is what to install.

use std::process::Command;

use crate::guests::host;

/// What a build in a new folder says where `PATH` has nothing.
fn refused(language: &str) -> String {
    let desk = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(host());
        command.arg("plugin").args(words).current_dir(desk.path()).env("PATH", "").env("HOME", desk.path());
        command.output().unwrap()
    };
    let made = run(&["new", "racks", "--lang", language]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let built = run(&["build", "racks"]);
    assert_eq!(built.status.code(), Some(1), "{language}");
    assert!(!desk.path().join("racks/racks.wasm").exists());
    String::from_utf8_lossy(&built.stderr).into_owned()
}

#[test]
fn a_tool_that_is_missing_is_named_with_the_line_that_installs_it() {
    for (language, tools) in [
        (
            "rust",
            &[
                ("cargo", "https://sh.rustup.rs"),
                ("wasm32-unknown-unknown", "rustup target add wasm32-unknown-unknown"),
            ][..],
        ),
        ("python", &[("componentize-py 0.25.1", ".venv/bin/pip install componentize-py==0.25.1")]),
        (
            "javascript",
            &[
                ("node", "https://nodejs.org"),
                ("esbuild 0.28.2", "npm install --save-dev --save-exact esbuild@0.28.2"),
                ("@bytecodealliance/componentize-js 0.23.0", "--save-exact @bytecodealliance/componentize-js@0.23.0"),
            ],
        ),
        ("c", &[("zig 0.15.2", ".venv/bin/pip install ziglang==0.15.2")]),
    ] {
        let said = refused(language);
        for (tool, line) in tools {
            assert!(said.contains(tool) && said.contains(line), "{language}, {tool}: {said}");
        }
    }
}
