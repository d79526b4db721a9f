//! Builds the plugins that are embedded in the binary: each is compiled for wasm, wrapped as a component, and compiled
//! once more into the machine code that the host runs, so that no host has to do that when it starts.
//!
//! They are the same components that anybody else would build, so this is the recipe of the SDK's guide and nothing
//! more. The nested cargo has its own target directory: the outer one holds the lock of its own while this runs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

#[allow(dead_code, reason = "the sandbox uses the rest")]
#[path = "../sandbox/src/plugin/engine/settings.rs"]
mod settings;

use settings::{Optimise, Threads, settings};

const TARGET: &str = "wasm32-unknown-unknown";

/// Name of the plugin and the package that it is built from.
const BUILTINS: [(&str, &str); 3] =
    [("label", "topoloom-plugin-label"), ("ufm", "topoloom-plugin-ufm"), ("roce", "topoloom-plugin-roce")];

fn main() {
    if let Err(error) = build() {
        println!("cargo::error={error}");
    }
}

fn build() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    for input in ["plugins", "sdk", "wit", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
    check_target()?;
    let guests = guests_dir(&out);
    for (name, package) in BUILTINS {
        let module = fs::read(compile(&workspace, &guests, package)?)?;
        let component = wit_component::ComponentEncoder::default()
            .validate(true)
            .module(&module)
            .and_then(|mut encoder| encoder.encode())
            .map_err(|error| format!("the plugin {name} is no component: {error:#}"))?;
        let image = image(&component).unwrap_or_else(|error| {
            println!("cargo::warning=the plugin {name} is not compiled ahead; every start will do it: {error:#}");
            Vec::new()
        });
        fs::write(out.join(format!("{name}.wasm")), component)?;
        fs::write(out.join(format!("{name}.image")), image)?;
    }
    Ok(())
}

/// Machine code for any processor of the target: not for the one that builds.
fn image(component: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let mut config = settings(Optimise::Yes, Threads::All);
    config.target(&env::var("TARGET")?)?;
    wasmtime::Engine::new(&config)?.precompile_component(component)
}

/// One sentence that says what to do, in place of hundreds of errors about a missing `core`.
fn check_target() -> Result<(), Box<dyn Error>> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]).output()?;
    let libdir = String::from_utf8(output.stdout)?;
    if Path::new(libdir.trim()).is_dir() {
        return Ok(());
    }
    Err(format!(
        "topoloom embeds plugins built for {TARGET}, which this toolchain lacks: run `rustup target add {TARGET}`"
    )
    .into())
}

/// Where guests are built, shared by all targets, profiles and feature sets of the host: beside the directory of the
/// profile or the target. `OUT_DIR` is `<target>/[<triple>/]<profile>/build/<package>-<hash>/out`.
fn guests_dir(out: &Path) -> PathBuf {
    let above = out.ancestors().nth(4).unwrap_or(out);
    let is_of_target = env::var_os("TARGET").is_some_and(|target| above.file_name() == Some(&target));
    let all = if is_of_target { above.parent() } else { None };
    all.unwrap_or(above).join("guests")
}

fn compile(workspace: &Path, guests: &Path, package: &str) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").ok_or("cargo did not say where it is")?;
    let mut command = Command::new(cargo);
    command
        .current_dir(workspace)
        .args(["build", "--locked", "--profile", "guest", "--target", TARGET, "--package", package, "--lib"])
        .arg("--target-dir")
        .arg(guests)
        // What it says on standard output would be taken for instructions of this script.
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // Flags, wrappers and settings of the outer build are for the outer target; the guest is the same in every build.
    for (name, _) in env::vars_os() {
        if is_of_outer_build(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", without_places(workspace).join("\u{1f}"));
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("the plugin {package} does not build:\n{}", String::from_utf8_lossy(&output.stderr))
            .replace('\n', "\ncargo::error=")
            .into());
    }
    Ok(guests.join(TARGET).join("guest").join(format!("{}.wasm", package.replace('-', "_"))))
}

/// Flags of rustc by which the guest, whose panics name source files, is the same wherever it is built: only its digest
/// says which plugin it is. The last that fits counts.
fn without_places(workspace: &Path) -> Vec<String> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let places = cargo.iter().map(|cargo| (cargo.as_path(), "/cargo")).chain([(workspace, "/topoloom")]);
    places.map(|(place, name)| format!("--remap-path-prefix={}={name}", place.display())).collect()
}

/// `CARGO_HOME` and `CARGO_NET_*` say where crates are and stay; so does `RUSTUP_TOOLCHAIN`.
fn is_of_outer_build(name: &str) -> bool {
    let stays = name == "CARGO_HOME" || name.starts_with("CARGO_NET_") || name.starts_with("CARGO_HTTP_");
    let flags = ["RUSTFLAGS", "RUSTDOCFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "TARGET", "HOST", "OUT_DIR"];
    !stays && (name.starts_with("CARGO_") || flags.contains(&name))
}
