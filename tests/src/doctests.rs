//! Every example in documentation is a test.
//!
//! rustdoc reads a whole crate to look for its examples, which takes seconds even if it has none: such a crate has
//! `doctest = false`. An example that is added later would then never be compiled, so this check looks for one. And every public
//! item of the SDK has one: its readers have nothing else.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Words that rustdoc knows in the first line of an example.
const RUST: [&str; 7] =
    ["rust", "no_run", "should_panic", "compile_fail", "ignore", "test_harness", "standalone_crate"];

/// Looks at every crate of the workspace.
///
/// # Errors
/// Names the examples that are never compiled.
pub fn check(root: &Path) -> Result<()> {
    let mut untested = Vec::new();
    for folder in ["host", "plugins", "sdk", "tests"] {
        crates(&root.join(folder), &mut untested)?;
    }
    ensure!(
        untested.is_empty(),
        "these examples are never compiled, since their crate says `doctest = false`: {untested:?}"
    );
    let mut bare = Vec::new();
    each_source(&root.join("sdk/src"), &mut |path, text| {
        // What is not documented has no reader: generated code, and the rules that the host has, too.
        let is_hidden = ["bindings.rs", "glue.rs", "rules.rs", "tests.rs"].iter().any(|name| path.ends_with(name));
        if !is_hidden && !path.components().any(|part| part.as_os_str() == "rules") {
            bare.extend(without_example(text).into_iter().map(|line| format!("{}:{line}", path.display())));
        }
    })?;
    ensure!(bare.is_empty(), "these public items of the SDK have no example: {bare:?}");
    Ok(())
}

/// Looks at the crates in and below a folder.
fn crates(folder: &Path, untested: &mut Vec<String>) -> Result<()> {
    let manifest = folder.join("Cargo.toml");
    if std::fs::read_to_string(&manifest).is_ok_and(|text| text.lines().any(|line| line == "doctest = false")) {
        sources(&folder.join("src"), untested)?;
    }
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let is_apart = ["target", "src"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_apart {
            crates(&path, untested)?;
        }
    }
    Ok(())
}

fn sources(folder: &Path, untested: &mut Vec<String>) -> Result<()> {
    each_source(folder, &mut |path, text| {
        untested.extend(examples(text).into_iter().map(|line| format!("{}:{line}", path.display())));
    })
}

/// Reads every Rust source in and below a folder.
fn each_source(folder: &Path, read: &mut dyn FnMut(&Path, &str)) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            each_source(&path, read)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            read(&path, &text);
        }
    }
    Ok(())
}

/// The lines of public items whose documentation has no example.
fn without_example(text: &str) -> Vec<usize> {
    const ITEMS: [&str; 6] = ["pub fn ", "pub struct ", "pub enum ", "pub trait ", "pub type ", "pub const "];
    let (mut found, mut has_one, mut is_hidden, mut is_exported) = (Vec::new(), false, false, false);
    let documented = text.split("#[cfg(test)]").next().unwrap_or(text);
    for (line, text) in documented.lines().enumerate() {
        let text = text.trim_start();
        if let Some(doc) = text.strip_prefix("///") {
            has_one |= doc.trim_start().starts_with("```");
        } else if text.starts_with("#[") {
            is_hidden |= text == "#[doc(hidden)]";
            is_exported |= text == "#[macro_export]";
        } else if !text.starts_with("//") {
            let is_public =
                ITEMS.iter().any(|item| text.starts_with(item)) || is_exported && text.starts_with("macro_rules! ");
            if is_public && !has_one && !is_hidden {
                found.push(line + 1);
            }
            (has_one, is_hidden, is_exported) = (false, false, false);
        }
    }
    found
}

/// The lines on which examples begin.
fn examples(text: &str) -> Vec<usize> {
    let (mut found, mut open) = (Vec::new(), false);
    for (line, text) in text.lines().enumerate() {
        let text = text.trim_start();
        let doc = text.strip_prefix("//!").or_else(|| text.strip_prefix("///"));
        let Some(info) = doc.and_then(|doc| doc.trim().strip_prefix("```")) else { continue };
        let mut words = info.split(',').map(str::trim);
        if !open && words.all(|word| word.is_empty() || word.starts_with("edition") || RUST.contains(&word)) {
            found.push(line + 1);
        }
        open = !open;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_blocks_without_another_language() {
        let block = |info: &str| format!("//! Words.\n//! ```{info}\n//! one();\n//! ```\nfn it() {{}}\n");
        for (info, is_one) in
            [("", true), ("rust", true), ("no_run", true), ("rust,edition2024", true), ("text", false), ("yaml", false)]
        {
            let wanted: &[usize] = if is_one { &[2] } else { &[] };
            assert_eq!(examples(&block(info)), wanted, "{info:?}");
        }
        assert_eq!(examples("    /// ```\n    /// x\n    /// ```\n    /// ```text\n    /// x\n    /// ```\n"), [1]);
    }

    #[test]
    fn a_public_item_without_an_example_is_found() {
        let good = "/// Words.\n///\n/// ```\n/// one();\n/// ```\n#[must_use]\npub fn one() {}\n";
        let hidden = "/// Words.\n#[doc(hidden)]\npub fn two() {}\n    pub(crate) fn three() {}\n";
        assert_eq!(without_example(&format!("{good}{hidden}/// Words.\npub struct Four;\n")), [13]);
        assert_eq!(without_example(&format!("{good}#[cfg(test)]\nmod tests {{ pub fn five() {{}} }}\n")), [0_usize; 0]);
        assert_eq!(
            without_example("macro_rules! own { () => {} }\n#[macro_export]\nmacro_rules! all { () => {} }\n"),
            [3]
        );
    }

    #[test]
    fn no_example_of_this_workspace_is_left_out() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        check(here.parent().unwrap()).unwrap();
    }
}
