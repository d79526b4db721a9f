//! Guests: plugins of this workspace that only tests run, built from source so that they use today's interface.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

const TARGET: &str = "wasm32-unknown-unknown";

/// Modules by package: cargo would look each time for what has changed, and no source changes while tests run.
static MODULES: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Components by what they are made of: to make one takes longer than most of what a test does with it.
static COMPONENTS: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Returns the core module of a guest; the first call of a process builds it.
///
/// # Errors
/// With the output of the compiler.
pub fn module(package: &str) -> Result<Vec<u8>> {
    // Held over the build: another test that wants the same guest waits for it, and another cargo would wait as well.
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = modules.get(package) {
        return Ok(module.clone());
    }
    let module = build(package)?;
    modules.insert(package.to_owned(), module.clone());
    Ok(module)
}

/// Builds all guests, before there are tests that would wait for a compiler, or for another cargo that holds the lock.
///
/// # Errors
/// With the output of the compiler.
pub fn build_all() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests");
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        // Others are not compiled.
        if entry.path().join("Cargo.toml").is_file() {
            module(&format!("topoloom-guest-{}", entry.file_name().to_string_lossy()))?;
        }
    }
    Ok(())
}

fn build(package: &str) -> Result<Vec<u8>> {
    let target = folder()?;
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--profile", "guest", "--target", TARGET, "--package", package, "--lib"])
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "{package} does not build: {}", String::from_utf8_lossy(&output.stderr));
    let file = target.join(TARGET).join("guest").join(format!("{}.wasm", package.replace('-', "_")));
    std::fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))
}

/// Makes a core module a component, as a vendor would.
///
/// # Errors
/// When the module is no plugin.
pub fn component(module: &[u8]) -> Result<Vec<u8>> {
    wit_component::ComponentEncoder::default().validate(true).module(module)?.encode()
}

/// Builds a guest and writes it as a plugin file into `folder`.
///
/// # Errors
/// When it does not build, or the file cannot be written.
pub fn file(package: &str, folder: &Path) -> Result<PathBuf> {
    let file = folder.join(format!("{package}.wasm"));
    std::fs::write(&file, made(package.to_owned(), || component(&module(package)?))?)?;
    Ok(file)
}

/// A component that was made before, or is made now.
fn made(name: String, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    // The lock is not held meanwhile: of two tests that want the same at one time, both make it.
    let known = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let made = make()?;
    COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner).insert(name, made.clone());
    Ok(made)
}

/// Where guests are built: the same place that the build script of the host uses.
fn folder() -> Result<PathBuf> {
    let binary = crate::host::binary()?;
    Ok(binary.ancestors().nth(2).context("the binary lies in a folder of the target directory")?.join("guests"))
}

/// One version of the guest `topoloom-guest-versions`: what it does, and which version it reports.
///
/// # Errors
/// When it does not build, or has no such marks any more.
pub fn version(act: &str, version: &str) -> Result<Vec<u8>> {
    made(format!("{act} {version}"), || {
        let mut module = module("topoloom-guest-versions")?;
        replace(&mut module, b"act=good      ", format!("act={act:<10}").as_bytes())?;
        replace(&mut module, b"version=1.0.0", format!("version={version}").as_bytes())?;
        component(&module)
    })
}

/// A guest with other texts in the place of its marks, each as long as the mark.
///
/// # Errors
/// When it does not build, or has no such mark any more.
pub fn marked(package: &str, marks: &[(&str, String)]) -> Result<Vec<u8>> {
    let texts: Vec<&str> = marks.iter().map(|(_, text)| text.as_str()).collect();
    made(format!("{package} {}", texts.join(" ")), || {
        let mut module = module(package)?;
        for (mark, text) in marks {
            replace(&mut module, mark.as_bytes(), text.as_bytes())?;
        }
        component(&module)
    })
}

fn replace(module: &mut [u8], old: &[u8], new: &[u8]) -> Result<()> {
    ensure!(old.len() == new.len(), "{:?} is not as long as the mark", String::from_utf8_lossy(new));
    let at = module.windows(old.len()).position(|bytes| bytes == old);
    let at = at.with_context(|| format!("the guest has no mark {:?}", String::from_utf8_lossy(old)))?;
    if let Some(mark) = module.get_mut(at..at + old.len()) {
        mark.copy_from_slice(new);
    }
    Ok(())
}
