//! The source tree once more, in another place: the binary that is built from it must be the same to the last bit.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::compile::Checkout;

/// Copies the tree, as git knows it with all that is not committed, into `folder`, which is made anew. Crates are unpacked
/// in another place too.
///
/// # Errors
/// When git does not know the tree, or something cannot be copied.
pub fn twin(checkout: &Checkout, folder: &Path) -> Result<Checkout> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    // The path as cargo will use it, so that this path is the one that is replaced.
    let folder = folder.canonicalize()?;
    let twin = Checkout {
        sources: folder.join("a-folder-elsewhere/sources"),
        target: folder.join("results"),
        cargo_home: folder.join("cargo-home"),
    };
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&checkout.sources);
    let listed = git.output().context("git cannot be started")?;
    ensure!(listed.status.success(), "git does not know the sources: {}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).context("a file name is not UTF-8")?;
    for file in listed.split_terminator('\0') {
        let (from, to) = (checkout.sources.join(file), twin.sources.join(file));
        // A file that was deleted without a commit is listed too.
        if from.is_file() {
            fs::create_dir_all(to.parent().context("a file has a folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("{} cannot be copied", from.display()))?;
        }
    }
    // Downloads and configuration are read where they are; crates are unpacked again.
    link(&checkout.cargo_home, &twin.cargo_home, "registry")?;
    link(&checkout.cargo_home.join("registry"), &twin.cargo_home.join("registry"), "src")?;
    Ok(twin)
}

/// A new folder with links to everything of another one `but` a name.
fn link(from: &Path, to: &Path, but: &str) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("{} cannot be made", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("{} cannot be read", from.display()))? {
        let entry = entry?;
        if entry.file_name() != but {
            symlink(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
