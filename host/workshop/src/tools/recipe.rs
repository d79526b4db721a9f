//! How a source becomes WebAssembly: the command of each built-in build, as data.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::TARGET;
use crate::project::Language;

/// What runs JavaScript inside of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Large and slow to compile, and proven: 12 MB, profile `large` with `compileCpu: 30s`.
    SpiderMonkey,
    /// A sixth of it, which fits into a ConfigMap. Its component is composed of several, which exchange strings.
    QuickJs,
}

impl Engine {
    /// The engine of the built-in build and of the template.
    pub const IN_FORCE: Self = Self::SpiderMonkey;

    /// The script that Node.js runs: where is the source, where are the files of the interface, which world, where to.
    const fn script(self) -> &'static str {
        match self {
            Self::SpiderMonkey => concat!(include_str!("bundle.mjs"), include_str!("componentize-js.mjs")),
            Self::QuickJs => concat!(include_str!("bundle.mjs"), include_str!("componentize-qjs.mjs")),
        }
    }
}

/// What a build is about. Paths are absolute, or seen from `root`.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// The folder of the project, in which the tool is started.
    pub root: &'a Path,
    /// What [`Project::source`](crate::project::Project::source) found.
    pub source: &'a Path,
    /// The folder with the files of the interface.
    pub wit: &'a Path,
    /// The world in it.
    pub world: &'a str,
    /// Where a component, or a core module, is written by a tool that is given a place: below `root`, in a folder in which nothing
    /// is that a tool could overwrite.
    pub output: &'a Path,
}

/// The arguments for the first tool of a language, and what comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The arguments after those of [`Found::words`](super::Found::words).
    pub arguments: Vec<OsString>,
    /// What the tool leaves.
    pub product: Product,
}

/// What a tool leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Product {
    /// A whole component, at this place.
    Component(PathBuf),
    /// A core module at this place, which has to be wrapped.
    Module(PathBuf),
    /// A core module below this folder, with the name of its crate: cargo says where (`--message-format`).
    ModuleOfCargo(PathBuf),
}

/// The built-in build of a language; another language has none.
#[must_use]
pub fn recipe(language: Language, sources: &Sources<'_>) -> Option<Recipe> {
    match language {
        Language::Rust => Some(rust(sources)),
        Language::Python => Some(python(sources)),
        Language::JavaScript => Some(engine_recipe(Engine::IN_FORCE, sources)),
        Language::C => Some(c(sources)),
        Language::Other => None,
    }
}

/// The same for JavaScript with one of its engines.
#[must_use]
pub fn engine_recipe(engine: Engine, sources: &Sources<'_>) -> Recipe {
    // An import of a package is looked for from the folder in which Node.js is started, as for a file there.
    let mut arguments = words(["--input-type=module", "--eval", engine.script(), "--"]);
    arguments.extend([sources.source, sources.wit].map(OsString::from));
    arguments.push(sources.world.into());
    arguments.push(sources.output.into());
    Recipe { arguments, product: Product::Component(sources.output.into()) }
}

fn rust(sources: &Sources<'_>) -> Recipe {
    // So the module is in one place, whatever the machine is set to.
    let folder = sources.root.join("target");
    let mut arguments = words([
        "build",
        "--release",
        "--target",
        TARGET,
        "--message-format",
        "json-render-diagnostics",
        "--manifest-path",
    ]);
    arguments.push(sources.source.into());
    arguments.push("--target-dir".into());
    arguments.push(folder.clone().into());
    Recipe { arguments, product: Product::ModuleOfCargo(folder.join(TARGET).join("release")) }
}

fn python(sources: &Sources<'_>) -> Recipe {
    let mut arguments = words(["--wit-path"]);
    arguments.push(sources.wit.into());
    arguments.extend(words(["--world", sources.world, "componentize", "--stub-wasi", "--python-path"]));
    let folder = sources.source.parent().filter(|folder| !folder.as_os_str().is_empty());
    arguments.push(folder.unwrap_or(Path::new(".")).into());
    arguments.push(sources.source.file_stem().unwrap_or_default().into());
    arguments.push("--output".into());
    arguments.push(sources.output.into());
    Recipe { arguments, product: Product::Component(sources.output.into()) }
}

fn c(sources: &Sources<'_>) -> Recipe {
    let mut arguments = words([
        "cc",
        "-target",
        "wasm32-freestanding",
        "-nostdlib",
        "-O2",
        // The names of functions stay, for what a crash says.
        "-g0",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wl,--no-entry",
    ]);
    arguments.extend([sources.source.as_os_str(), OsStr::new("-o"), sources.output.as_os_str()].map(OsString::from));
    Recipe { arguments, product: Product::Module(sources.output.into()) }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).into()
}
