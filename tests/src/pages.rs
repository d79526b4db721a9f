//! Code that stands on pages of documentation, as a reader copies it: whole blocks, nothing added and nothing left out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A page of this repository, by its path from the root.
///
/// # Errors
/// When there is none.
pub fn page(path: &str) -> Result<String> {
    let file = root()?.join(path);
    std::fs::read_to_string(&file).with_context(|| file.display().to_string())
}

fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("the tests have a folder above them")?.to_owned())
}

/// The fenced blocks of a language, in the order of the page.
#[must_use]
pub fn blocks(page: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut open) = (Vec::new(), None::<(bool, String)>);
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info == language, String::new())),
            (None, None) => {}
            (Some(_), Some(_)) => blocks.extend(open.take().filter(|(wanted, _)| *wanted).map(|(_, text)| text)),
            (Some((_, text)), None) => *text += &format!("{line}\n"),
        }
    }
    blocks
}

/// A crate outside of this workspace, beside a checkout that is named `topoloom`: where the reader of a page for vendors
/// works. Its folder stays from run to run, so that what it depends on is compiled once.
#[derive(Debug)]
pub struct Crate {
    folder: PathBuf,
    name: String,
}

impl Crate {
    /// Writes the manifest and `src/lib.rs`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(name: &str, manifest: &str, code: &str) -> Result<Self> {
        let beside = crate::host::binary()?.ancestors().nth(2).context("a target folder")?.join("pages");
        std::fs::create_dir_all(&beside)?;
        let checkout = beside.join("topoloom");
        // Two tests may come at the same time, and a target folder may have moved.
        let _ = std::fs::remove_file(&checkout);
        let linked = std::os::unix::fs::symlink(root()?, &checkout);
        ensure!(linked.is_ok() || checkout.join("sdk").is_dir(), "{} cannot be made: {linked:?}", checkout.display());
        let folder = beside.join(name);
        std::fs::create_dir_all(folder.join("src"))?;
        std::fs::write(folder.join("Cargo.toml"), manifest)?;
        std::fs::write(folder.join("src/lib.rs"), code)?;
        // The versions of this workspace are on this machine; cargo takes those of them that the crate needs.
        std::fs::copy(root()?.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder, name: name.to_owned() })
    }

    /// Runs cargo as the page says, without network.
    ///
    /// # Errors
    /// With what cargo says when it fails.
    pub fn cargo(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(env!("CARGO"));
        command.args(words).arg("--offline").current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", self.target()?).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        let output = command.output().context("cargo cannot be started")?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(output.status.success(), "cargo {}: {}{}", words.join(" "), said(&output.stdout), said(&output.stderr));
        Ok(said(&output.stdout))
    }

    /// The module that a release build left.
    ///
    /// # Errors
    /// When there is none.
    pub fn module(&self) -> Result<Vec<u8>> {
        let file = self.target()?.join("wasm32-unknown-unknown/release").join(format!("{}.wasm", self.name));
        std::fs::read(&file).with_context(|| file.display().to_string())
    }

    fn target(&self) -> Result<PathBuf> {
        Ok(self.folder.parent().context("a crate has a folder above it")?.join("target"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_one_language_and_whole() {
        let page = "a\n```sh\nb\n```\n```rust\nc\n\nd\n```\n```\nrust\n```\n```rust\ne\n```\n";
        assert_eq!(blocks(page, "rust"), ["c\n\nd\n", "e\n"]);
        assert_eq!(blocks(page, "sh"), ["b\n"]);
    }
}
