//! Lists the files of the SDKs, so that they are in the program: `plugin new` writes them into the folder of a vendor, who has no
//! checkout, and for whom no registry has them. Assembles the adapter in place of WASI, so that no assembler is in the program.
//!
//! A list that is written by hand would lack the file that is added to an SDK tomorrow. A folder that is not there has no files; a
//! test of the templates says so.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The name of a list, the folder, and what of it is taken: names of files and folders at its top; all of it, where there are none.
const LISTS: [(&str, &str, &[&str]); 4] = [
    ("RUST", "sdk", &["src", "wit", "README.md", "LICENSE"]),
    // Where the interface is no part of the SDK, it is beside it.
    ("WIT", "wit/discovery-0.1.0", &[]),
    ("PYTHON", "sdk/python/topoloom", &[]),
    ("JAVASCRIPT", "sdk/js", &[]),
];

/// What is never taken, wherever it is.
const LEFT_OUT: [&str; 7] =
    ["test", "tests", "target", "node_modules", "__pycache__", "package-lock.json", "sketches.md"];

/// The text of the adapter.
const ADAPTER: &str = "src/adapter/preview1.wat";

fn main() {
    if let Err(error) = build() {
        println!("cargo::error={error}");
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut text = String::new();
    for (list, folder, taken) in LISTS {
        let root = workspace.join(folder);
        let all = [root.clone()];
        let parts: Vec<PathBuf> = taken.iter().map(|name| root.join(name)).collect();
        let mut files = Vec::new();
        for path in if taken.is_empty() { all.as_slice() } else { parts.as_slice() } {
            println!("cargo::rerun-if-changed={}", path.display());
            below(path, &root, &mut files)?;
        }
        files.sort();
        writeln!(text, "pub(super) const {list}: &[(&str, &str)] = &[")?;
        for file in files {
            writeln!(text, "    ({file:?}, include_str!({:?})),", root.join(&file))?;
        }
        writeln!(text, "];")?;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("sdks.rs"), text)?;
    println!("cargo::rerun-if-changed={ADAPTER}");
    fs::write(out.join("preview1.wasm"), wat::parse_file(ADAPTER)?)?;
    Ok(())
}

/// The files at and below a path, by their paths from the root.
fn below(path: &Path, root: &Path, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !path.exists() || name.starts_with('.') || LEFT_OUT.contains(&name) {
        return Ok(());
    }
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            below(&entry?.path(), root, files)?;
        }
    } else {
        let inside = path.strip_prefix(root)?;
        files.push(inside.to_str().ok_or("a file of an SDK has a name that is no text")?.to_owned());
    }
    Ok(())
}
