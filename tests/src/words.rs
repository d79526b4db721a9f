//! Words that users of topoloom must not have to read: riddles in place of the field's own words.
//!
//! CONTRIBUTING has the glossary. The check reads the string literals of production code, the help of flags and verbs,
//! the pages under `docs`, the README, and the texts of the chart. It skips code between backticks: names are not
//! prose.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// A word, and what to write in its place.
const WORST: &[(&str, &str)] = &[
    ("whoever", "name the actor: the client, the pod, anyone who can connect"),
    ("whomever", "name the actor"),
    ("nobody", "no one, no replica, no pod; an orphaned lock"),
    ("nobody's", "orphaned, expired, free"),
    ("somebody", "another program, another pod, a person"),
    ("somebody's", "of another program, of a person"),
    ("rob", "take over"),
    ("robs", "takes over"),
    ("robbed", "lost its lock"),
    ("is told", "is notified, is shown"),
    ("was told", "was notified, was given"),
    ("are told", "are notified, are shown"),
    ("way back", "rollback"),
    ("ways back", "rollbacks"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("given back", "released"),
    ("gives back", "releases"),
    ("in the clear", "unencrypted"),
    ("stands for", "means"),
    ("anew", "again"),
    ("speaks of", "names"),
    ("speak of", "name"),
];

/// The place of one of the words.
#[derive(Debug, PartialEq, Eq)]
struct BadWord {
    line: usize,
    word: &'static str,
    instead: &'static str,
}

/// Fails with every place of one of the words.
///
/// # Errors
/// The places, and what to write there; or a file that cannot be read.
pub fn check(root: &Path) -> Result<()> {
    let mut places = Vec::new();
    for path in sources(root)? {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let is_help = shown.starts_with("host/src/cli");
        let found = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => in_rust(&text, is_help),
            Some("md") => in_text(&without_code(&text)),
            _ => in_text(&text),
        };
        places.extend(found.iter().map(|found| {
            let BadWord { line, word, instead } = found;
            format!("{shown}:{line}: {word:?}: {instead}")
        }));
    }
    if !places.is_empty() {
        bail!("words that CONTRIBUTING's glossary replaces:\n{}", places.join("\n"));
    }
    Ok(())
}

/// All files that are checked.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = vec![root.join("README.md")];
    for (folder, extensions) in [
        ("host", &["rs"][..]),
        ("plugins", &["rs"]),
        ("sdk", &["rs"]),
        ("docs", &["md"]),
        ("deploy/chart/topoloom", &["yaml", "txt", "tpl", "json"]),
    ] {
        below(&root.join(folder), extensions, &mut files)?;
    }
    Ok(files)
}

/// Files below a folder, without those that only tests reach.
fn below(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if stem.starts_with('.')
            || matches!(stem.as_str(), "target" | "tests" | "benches")
            || only_for_tests(&path, &stem)
        {
            continue;
        }
        if path.is_dir() {
            below(&path, extensions, files)?;
        } else if path.extension().is_some_and(|found| extensions.iter().any(|extension| found == *extension)) {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether the file that names this module names it for tests alone.
fn only_for_tests(path: &Path, stem: &str) -> bool {
    let Some(folder) = path.parent() else { return false };
    let parents = [folder.join("lib.rs"), folder.join("main.rs"), folder.with_extension("rs")];
    parents.iter().any(|parent| {
        std::fs::read_to_string(parent).is_ok_and(|text| {
            let mut above = "";
            text.lines().map(str::trim).any(|line| {
                let is_it = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ") == format!("mod {stem};");
                let found = is_it && above.starts_with("#[cfg(test)]");
                above = line;
                found
            })
        })
    })
}

/// The words in the strings of a source, and in its doc comments where they are help.
fn in_rust(text: &str, is_help: bool) -> Vec<BadWord> {
    let production = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    in_text(&prose(production, is_help))
}

/// A source with blanks in place of everything but strings and, where asked for, doc comments. Lines stay where they are.
fn prose(text: &str, is_help: bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, keep) = if rest.starts_with("//") {
            let comment = rest.split('\n').next().unwrap_or(rest);
            (comment.len(), is_help && comment.starts_with("///"))
        } else if first == '"' {
            (string(rest), true)
        } else if rest.starts_with("r\"") || rest.starts_with("r#") {
            (raw(rest), true)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A character, which may be a quotation mark.
            (3, false)
        } else {
            (first.len_utf8(), false)
        };
        let (piece, after) = rest.split_at(taken.min(rest.len()));
        kept.extend(piece.chars().map(|c| if keep || c == '\n' { c } else { ' ' }));
        rest = after;
    }
    kept
}

/// The length of the string literal with which the text begins.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the raw string literal with which the text begins, or of the `r` that begins none.
fn raw(text: &str) -> usize {
    let hashes = text.chars().skip(1).take_while(|c| *c == '#').count();
    let Some(body) = text.get(1 + hashes..).filter(|body| body.starts_with('"')) else { return 1 };
    let end = format!("\"{}", "#".repeat(hashes));
    body.get(1..).and_then(|body| body.find(&end)).map_or(text.len(), |at| 1 + hashes + 1 + at + end.len())
}

/// A page with blanks in place of the text between backticks.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let blank = |c: char| {
        if c == '`' {
            is_code = !is_code;
        }
        if is_code && c != '\n' { ' ' } else { c }
    };
    text.chars().map(blank).collect()
}

/// The words in a text, in any case, as words of their own.
fn in_text(text: &str) -> Vec<BadWord> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<String> = line
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '_' | '-'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let line = format!(" {} ", words.join(" "));
        let here = WORST.iter().filter(|(word, _)| line.contains(&format!(" {word} ")));
        found.extend(here.map(|(word, instead)| BadWord { line: at + 1, word, instead }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(found: &[BadWord]) -> Vec<(usize, &str)> {
        found.iter().map(|found| (found.line, found.word)).collect()
    }

    #[test]
    fn a_word_is_found_in_strings_and_in_help_and_nowhere_else() {
        let source = "// whoever\n/// nobody\nfn robs() {\n    let c = '\"';\n    say(\"Somebody's\n  way\\\"  Nobody\");\n}\n\
                      #[cfg(test)]\nmod tests { say(\"whoever\") }\n";
        assert_eq!(words(&in_rust(source, false)), [(5, "somebody's"), (6, "nobody")]);
        assert_eq!(words(&in_rust(source, true)), [(2, "nobody"), (5, "somebody's"), (6, "nobody")]);
        assert_eq!(words(&in_rust("let r = 1; f(r#\"a \"way back\" b\"#, \"ok\");", false)), [(1, "way back")]);
    }

    #[test]
    fn a_page_is_read_without_its_code() {
        let page =
            "A test `whoever_is_there` shows\nthat the robbed pod\n```\nnobody\n```\nis told so. Unsound, robust.\n";
        assert_eq!(words(&in_text(&without_code(page))), [(2, "robbed"), (6, "is told")]);
    }

    #[test]
    fn a_file_for_tests_alone_is_not_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let host = root.path().join("host/src");
        std::fs::create_dir_all(&host).unwrap();
        for folder in ["plugins", "sdk", "docs", "deploy/chart/topoloom"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("README.md"), "").unwrap();
        std::fs::write(host.join("lib.rs"), "mod seen;\n#[cfg(test)]\nmod histories;\n").unwrap();
        std::fs::write(host.join("histories.rs"), "const A: &str = \"nobody\";").unwrap();
        std::fs::write(host.join("seen.rs"), "").unwrap();
        check(root.path()).unwrap();
        std::fs::write(host.join("seen.rs"), "const A: &str = \"nobody\";").unwrap();
        let error = check(root.path()).unwrap_err().to_string();
        assert!(error.contains("host/src/seen.rs:1: \"nobody\""), "{error}");
    }
}
