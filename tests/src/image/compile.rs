//! The static binary, from a source tree.
//!
//! Paths on disk are the only property of a machine that would get into it (in messages of panics, and in what build
//! scripts write into sources), so they are replaced by fixed names. Cargo passes flags of a cross build only to what
//! is built for the image, so build scripts get theirs from a program that cargo calls in the place of the compiler.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::platform::Platform;
use super::toolchain::Compiler;

/// The profile in the workspace's `Cargo.toml`. Not called like the folder of the result, which cargo would share.
const PROFILE: &str = "shipped";

/// What is built. Only this package: the features that tests need of a dependency are not in the image. The feature is named
/// without its package, since a dependency of the package has the same name.
const SELECTED: [&str; 6] = ["--package", "topoloom", "--bin", "topoloom", "--features", "any-processor"];

/// What replaces the flags of `.cargo/config.toml`.
const FLAGS: [&str; 2] = [
    // As in every other build.
    "-Cforce-frame-pointers=yes",
    // Thin LTO names what it exports from a module after the module, and not after a hash of its content: the content
    // has positions in sources, which depend on the length of paths where macros name them (`bindgen!` does).
    "-Cllvm-args=-use-source-filename-for-promoted-locals",
];

/// A source tree, and where it is built.
#[derive(Debug, Clone)]
pub struct Checkout {
    /// The workspace.
    pub sources: PathBuf,
    /// The target folder.
    pub target: PathBuf,
    /// Where cargo keeps sources of crates.
    pub cargo_home: PathBuf,
}

impl Checkout {
    /// The tree that this program was built from.
    ///
    /// # Errors
    /// When its folder is gone, or there is no home folder.
    pub fn here() -> Result<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let target = sources.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
        let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home).context("HOME is not set")?;
        // The path without links: build scripts are started there, and a script that finds its files under another path
        // writes whole paths into sources.
        let cargo_home = cargo_home.canonicalize().with_context(|| cargo_home.display().to_string())?;
        Ok(Self { sources, target, cargo_home })
    }

    /// The folder of this build only: other builds do not replace paths, and cargo would use the results of their build
    /// scripts.
    fn results(&self) -> PathBuf {
        self.target.join("image/build")
    }

    /// A flag for each path. The results are often inside of the sources: where several paths fit, the last one counts.
    fn replaced(&self, flag: &str) -> Vec<String> {
        let places = [(&self.cargo_home, "/cargo"), (&self.sources, "/topoloom"), (&self.results(), "/target")];
        places.into_iter().map(|(place, name)| format!("{flag}={}={name}", place.display())).collect()
    }

    /// A program that calls the compiler with the paths replaced, for build scripts and macros too. Other flags come
    /// after these, so that they count. Cargo does not know what the program does: the results of another one are
    /// removed.
    fn wrapper(&self) -> Result<PathBuf> {
        let quoted = |flag: String| format!("'{}'", flag.replace('\'', r"'\''"));
        let flags: Vec<String> = self.replaced("--remap-path-prefix").into_iter().map(quoted).collect();
        let text = format!("#!/bin/sh\nrustc=$1\nshift\nexec \"$rustc\" {} \"$@\"\n", flags.join(" "));
        let results = self.results();
        let path = results.join("rustc-without-places");
        if results.exists() && !fs::read(&path).is_ok_and(|before| before == text.as_bytes()) {
            fs::remove_dir_all(&results).with_context(|| format!("{} cannot be removed", results.display()))?;
        }
        fs::create_dir_all(&results).with_context(|| format!("{} cannot be made", results.display()))?;
        let written =
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
        written.with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }
}

/// Builds the host and returns the path of the binary.
///
/// # Errors
/// When it does not build, or is not static, or not for that processor.
pub fn compile(checkout: &Checkout, platform: Platform, compiler: &Compiler) -> Result<PathBuf> {
    let target = platform.target();
    let of_target = target.replace('-', "_");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--locked", "--profile", PROFILE, "--target", &target])
        .args(SELECTED)
        .current_dir(&checkout.sources)
        .env("CARGO_HOME", &checkout.cargo_home)
        .env("CARGO_TARGET_DIR", checkout.results())
        .env("RUSTC_WRAPPER", checkout.wrapper()?)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}"))
        // A repository around cargo's folder is not that of a crate: cranelift's build script writes its commit into the
        // binary.
        .env("GIT_CEILING_DIRECTORIES", &checkout.cargo_home)
        .env(format!("CARGO_TARGET_{}_LINKER", of_target.to_uppercase()), "rust-lld")
        .env(format!("CC_{of_target}"), &compiler.cc)
        .env(format!("AR_{of_target}"), &compiler.ar)
        .env(format!("CFLAGS_{of_target}"), checkout.replaced("-ffile-prefix-map").join(" "))
        // For C sources that name the day on which they are compiled. Not the day of the commit: then the same sources
        // could give another binary.
        .env("SOURCE_DATE_EPOCH", "0")
        .env("CARGO_INCREMENTAL", "0");
    let others = ["CC", "AR", "CFLAGS", "TARGET_CC", "TARGET_AR", "TARGET_CFLAGS"];
    for name in others.into_iter().chain(["RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]) {
        cargo.env_remove(name);
    }
    let status = cargo.status().context("cargo cannot be started")?;
    ensure!(status.success(), "the host does not build for {target}");
    let binary = checkout.results().join(&target).join(PROFILE).join("topoloom");
    let bytes = std::fs::read(&binary).with_context(|| format!("{} cannot be read", binary.display()))?;
    is_static(&bytes, platform).with_context(|| binary.display().to_string())?;
    Ok(binary)
}

/// Checks that the kernel can start a file without help: an ELF file of 64 bits, little endian, for this processor,
/// that names no interpreter (`PT_INTERP`).
fn is_static(elf: &[u8], platform: Platform) -> Result<()> {
    const INTERPRETER: u64 = 3;
    ensure!(elf.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]), "this is no ELF file of 64 bits, little endian");
    let number = |at: usize, bytes: usize| {
        let field = at.checked_add(bytes).and_then(|end| elf.get(at..end));
        let field = field.with_context(|| format!("the file ends before its byte {at}"))?;
        Ok::<_, anyhow::Error>(field.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let machine = number(18, 2)?;
    ensure!(machine == u64::from(platform.machine()), "it is for the processor {machine}, and not for {platform}");
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for i in 0..count {
        let header = usize::try_from(headers.saturating_add(i * size))?;
        ensure!(number(header, 4)? != INTERPRETER, "it is not static: it names an interpreter");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_script_says_of_its_place_is_the_same_on_every_machine() {
        let folder = tempfile::tempdir().unwrap();
        // A quote in a name is part of it.
        let home = folder.path().join("it's");
        let checkout = Checkout {
            sources: folder.path().join("sources"),
            target: folder.path().join("target"),
            cargo_home: home.clone(),
        };
        fs::create_dir_all(home.join("registry")).unwrap();
        let (script, program) = (home.join("registry/build.rs"), folder.path().join("program"));
        fs::write(&script, "fn main() { print!(\"{}\", std::panic::Location::caller().file()) }").unwrap();
        let mut compiler = Command::new(checkout.wrapper().unwrap());
        let status = compiler.arg("rustc").arg(&script).arg("-o").arg(&program).status().unwrap();
        assert!(status.success());
        let said = Command::new(&program).output().unwrap().stdout;
        assert_eq!(String::from_utf8(said).unwrap(), "/cargo/registry/build.rs");
    }

    /// The image is built seldom, and the manifests change often.
    #[test]
    fn the_manifests_have_what_is_selected() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["rustc", "--locked", "--offline", "--profile", PROFILE]).args(SELECTED);
        // Cargo answers before it builds anything.
        cargo.args(["--unit-graph", "-Zunstable-options"]).env("RUSTC_BOOTSTRAP", "1");
        let answer = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        let (plan, why) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        assert!(answer.status.success(), "{why}");
        assert!(plan.contains("\"any-processor\"") && plan.contains("\"all-arch\""), "{plan}");
    }

    #[test]
    fn what_was_built_with_other_places_is_not_taken_for_fresh() {
        let folder = tempfile::tempdir().unwrap();
        let here = |name: &str| folder.path().join(name);
        let mut checkout = Checkout { sources: here("sources"), target: here("target"), cargo_home: here("cargo") };
        let wrapper = checkout.wrapper().unwrap();
        let built = wrapper.with_file_name("built");
        fs::write(&built, "").unwrap();
        assert_eq!((checkout.wrapper().unwrap(), built.exists()), (wrapper.clone(), true));
        checkout.cargo_home = here("elsewhere");
        assert_eq!((checkout.wrapper().unwrap(), built.exists()), (wrapper, false));
    }

    #[test]
    fn an_ordinary_program_is_not_static_and_a_text_is_no_program() {
        let here = Platform::here().unwrap();
        let other = Platform::ALL.into_iter().find(|platform| *platform != here).unwrap();
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let why = |bytes: &[u8], platform| is_static(bytes, platform).unwrap_err().to_string();
        assert_eq!(why(&program, here), "it is not static: it names an interpreter");
        assert!(why(&program, other).ends_with(&format!("not for {other}")));
        assert!(why(b"#!/bin/sh", here).starts_with("this is no ELF file"));
        assert!(why(&program[..40], here).starts_with("the file ends"));
    }
}
