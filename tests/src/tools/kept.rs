//! What a slow tool has made is kept: the tests of one language build the same plugin many times, for 20 s of processor time each.
//!
//! A script stands before the tool. Where the same tool was given the same words over the same files, it copies what the tool made
//! then; otherwise it starts the tool. So the tool is the real one, and runs once for each source.
//!
//! Owns the script. Never keeps what a tool that failed has left.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

/// How the script begins: which tool, for which words it is kept, where, and the version of it.
const SCRIPT: &str = r#"#!/bin/sh
# The last word is the file that is made; everything else, with the files of the folder, is what it is made of.
set -eu
tool='TOOL' kept='KEPT' version='VERSION'
case "$*" in *WORD*) ;; *) exec "$tool" "$@" ;; esac
for output in "$@"; do :; done
files() {
  find -L . \( -path '*/node_modules/*' ! -path '*/node_modules/@topoloom*' -o -name .venv -o -name target -o -name __pycache__ \) -prune \
    -o -type f ! -name '*.wasm' -print | LC_ALL=C sort | while read -r file; do sha256sum "$file"; done
}
words() {
  for word in "$@"; do
    if [ "$word" != "$output" ]; then printf '%s\n' "$word"; fi
  done | sed "s|$PWD|.|g"
}
key=$( { printf '%s\n' "$version"; words "$@"; files; } | sha256sum | cut -d' ' -f1)
if [ -f "$kept/$key" ]; then
  touch "$kept/$key"
  exec cp "$kept/$key" "$output"
fi
"$tool" "$@"
mkdir -p "$kept"
find "$kept" -type f -mtime +7 -delete
cp "$output" "$kept/$key.$$" && mv "$kept/$key.$$" "$kept/$key"
"#;

/// Writes a script to `place` that stands before `tool`, where one of its words has `word` in it. The tool is of this version,
/// and `kept` is the folder with what it has made.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn stand_before(tool: &Path, place: &Path, word: &str, version: &str, kept: &Path) -> Result<()> {
    let mut script = SCRIPT.to_owned();
    let [tool, kept] = [tool, kept].map(|path| path.display().to_string());
    for (name, value) in [("TOOL", &*tool), ("KEPT", &kept), ("VERSION", version), ("WORD", word)] {
        script = script.replace(name, value);
    }
    // Another process may start it while it is written.
    let written = place.with_extension(std::process::id().to_string());
    fs::write(&written, script)
        .and_then(|()| fs::set_permissions(&written, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&written, place))
        .with_context(|| place.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_tool_runs_once_for_each_source() {
        let desk = tempfile::tempdir().unwrap();
        let (work, tool, front) = (desk.path().join("work"), desk.path().join("real"), desk.path().join("front"));
        fs::create_dir(&work).unwrap();
        let count = "echo run >> ../runs; for output in \"$@\"; do :; done; cat source > \"$output\"";
        fs::write(&tool, format!("#!/bin/sh\nset -e\n{count}\n")).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let stand = |version| stand_before(&tool, &front, "make", version, &desk.path().join("kept")).unwrap();
        let run = |words: &[&str]| {
            let status = Command::new(&front).args(words).current_dir(&work).status().unwrap();
            let runs = fs::read_to_string(desk.path().join("runs")).unwrap_or_default().lines().count();
            (status.success(), runs, fs::read_to_string(work.join("out.wasm")).unwrap_or_default())
        };
        stand("1");
        assert_eq!(run(&["make", "out.wasm"]), (false, 1, String::new()), "a failure is not kept");
        fs::write(work.join("source"), "one").unwrap();
        assert_eq!(run(&["make", "out.wasm"]), (true, 2, "one".to_owned()));
        fs::write(work.join("out.wasm"), "other").unwrap();
        assert_eq!(run(&["make", "out.wasm"]), (true, 2, "one".to_owned()));
        assert_eq!(run(&["make", "--more", "out.wasm"]).1, 3, "other words");
        fs::write(work.join("source"), "two").unwrap();
        assert_eq!(run(&["make", "out.wasm"]), (true, 4, "two".to_owned()));
        stand("2");
        assert_eq!(run(&["make", "out.wasm"]).1, 5, "another version");
        assert_eq!(run(&["other", "out.wasm"]).1, 6, "not a word that is kept");
        assert_eq!(run(&["other", "out.wasm"]).1, 7);
    }
}
