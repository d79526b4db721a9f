//! The map of the house: every path that `host/ARCHITECTURE.md` names exists.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The page.
const PAGE: &str = "host/ARCHITECTURE.md";
/// Where its paths lead: from the top, or from any folder below these.
const HOUSES: [&str; 2] = ["host", "plugins"];

/// Fails with every path of the page that leads nowhere.
///
/// # Errors
/// The paths, or a folder that cannot be read.
pub fn check(root: &Path) -> Result<()> {
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

/// What stands between backticks and looks like a path: with a slash, or the name of a source.
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
        check(root.path()).unwrap();
        write("`core/src/topology`, `diff.rs`, `topology/walk`");
        let error = check(root.path()).unwrap_err().to_string();
        assert!(error.ends_with("diff.rs, topology/walk"), "{error}");
    }
}
