//! Checks pages: every path that `host/ARCHITECTURE.md` names exists, and so does every test and every file that
//! `docs/security.md`, `docs/top-down-contract.md` and `docs/operators/lending.md` cite. On the last two each test is in the file that
//! is named before it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The page.
const PAGE: &str = "host/ARCHITECTURE.md";
/// A path of the page begins at the top, or at any folder below these.
const HOUSES: [&str; 2] = ["host", "plugins"];

/// The pages that cite a test for each promise.
const PROMISES: [&str; 3] = ["docs/security.md", "docs/top-down-contract.md", "docs/operators/lending.md"];
/// Of these, the pages on which each test follows the whole path of its file.
const CITED: [&str; 2] = ["docs/top-down-contract.md", "docs/operators/lending.md"];
/// Where tests are.
const TESTED: [&str; 4] = ["host", "plugins", "sdk", "tests"];

/// Fails if one of the pages names something that does not exist, and lists it.
///
/// # Errors
/// The paths and the names, or a folder that cannot be read.
pub fn check(root: &Path) -> Result<()> {
    map(root)?;
    promises(root)
}

fn promises(root: &Path) -> Result<()> {
    let mut files = BTreeSet::new();
    for folder in TESTED {
        below(&root.join(folder), folder, &mut files)?;
    }
    let mut tests: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.clone())?;
        tests.insert(file, functions(&text).collect());
    }
    for name in PROMISES {
        let page = std::fs::read_to_string(root.join(name)).context(name)?;
        let mut file = "";
        let mut lost = Vec::new();
        for text in page.split('`').skip(1).step_by(2) {
            if is_test(text) {
                let is_there = if CITED.contains(&name) {
                    tests.get(file).is_some_and(|of_file| of_file.contains(text))
                } else {
                    tests.values().any(|of_file| of_file.contains(text))
                };
                lost.extend((!is_there).then_some(text));
            } else if text.ends_with(".rs") && text.contains('/') {
                file = text;
                lost.extend((!root.join(text).exists()).then_some(text));
            }
        }
        if !lost.is_empty() {
            bail!("{name} cites what is not there: {}", lost.join(", "));
        }
    }
    Ok(())
}

/// Whether it is the name of a test: a sentence with underscores, and not the name of a metric.
fn is_test(text: &str) -> bool {
    let is_name = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name && text.matches('_').count() >= 3 && !text.starts_with("topoloom_")
}

/// The names of all functions of a source.
fn functions(text: &str) -> impl Iterator<Item = String> {
    let named = text.split("fn ").skip(1);
    named.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect())
}

fn map(root: &Path) -> Result<()> {
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut files = BTreeSet::new();
    for house in HOUSES {
        below(&root.join(house), house, &mut files)?;
    }
    let lost: Vec<&str> = paths(&page).filter(|path| !exists(path, root, &files)).collect();
    if !lost.is_empty() {
        bail!("{PAGE} names what is not there: {}", lost.join(", "));
    }
    Ok(())
}

/// Texts between backticks that look like a path: with a slash, or the name of a source.
fn paths(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(|text| {
        let is_word = text.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
        let is_page_of_a_server = text.starts_with('/');
        is_word && !is_page_of_a_server && (text.contains('/') || text.ends_with(".rs"))
    })
}

/// Whether it is a file or a folder from the top, from the folder of the page, or from any folder of the houses; `.rs` may
/// be left out.
fn exists(path: &str, root: &Path, files: &BTreeSet<String>) -> bool {
    let path = path.trim_end_matches('/');
    if root.join(path).exists() || root.join("host").join(path).exists() {
        return true;
    }
    let ends = [format!("/{path}"), format!("/{path}.rs")];
    let inside = format!("/{path}/");
    files.iter().any(|file| {
        let file = format!("/{file}");
        ends.iter().any(|end| file.ends_with(end.as_str())) || file.contains(&inside)
    })
}

/// The files below a folder, by their path from the top.
fn below(folder: &Path, above: &str, files: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let inside = format!("{above}/{name}");
        if path.is_dir() {
            below(&path, &inside, files)?;
        } else {
            files.insert(inside);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_nowhere_is_found() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["host/core/src/topology", "plugins/ufm/src", "wit"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for file in ["host/core/src/topology.rs", "host/core/src/topology/plan.rs", "plugins/ufm/src/rounds.rs"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let write = |page: &str| std::fs::write(root.path().join(PAGE), page).unwrap();
        write(
            "`core/src/topology`, `topology/plan`, `plan.rs`, `core/`, `Plan`, `rounds.rs`, `../wit`, `/readyz`, `a b/c`, `--flag`",
        );
        map(root.path()).unwrap();
        write("`core/src/topology`, `diff.rs`, `topology/walk`");
        let error = map(root.path()).unwrap_err().to_string();
        assert!(error.ends_with("diff.rs, topology/walk"), "{error}");
    }

    #[test]
    fn a_promise_without_its_test_is_found() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["docs/operators", "host/src", "plugins", "sdk", "tests"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("host/src/lib.rs"), "#[test]\nasync fn it_is_as_it_should_be() {}\n").unwrap();
        let write = |name: &str, page: &str| std::fs::write(root.path().join(name), page).unwrap();
        let kept = "| `host/src/lib.rs` `it_is_as_it_should_be` | `topoloom_a_b_total`, `limits.rs`, `compile_cpu` |";
        for name in PROMISES {
            write(name, kept);
        }
        promises(root.path()).unwrap();
        std::fs::write(root.path().join("host/src/other.rs"), "").unwrap();
        for name in CITED {
            write(name, "| `host/src/other.rs` `it_is_as_it_should_be` |");
            let error = promises(root.path()).unwrap_err().to_string();
            assert_eq!(error, format!("{name} cites what is not there: it_is_as_it_should_be"));
            write(name, kept);
        }
        for name in PROMISES {
            write(name, "| `host/src/gone.rs` `it_was_as_it_should_be` |");
            let error = promises(root.path()).unwrap_err().to_string();
            assert_eq!(error, format!("{name} cites what is not there: host/src/gone.rs, it_was_as_it_should_be"));
            write(name, kept);
        }
    }
}
