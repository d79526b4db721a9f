//! The tools of each language: what they are called, which version is meant, where they are found, how a source becomes
//! WebAssembly with them, and the line that installs each.
//!
//! Owns the table of tools with their versions, the search, and the command of each built-in build ([`recipe()`]). Never installs
//! anything, and runs a tool for its version only: who builds runs the command.
//!
//! Versions are exact where two of them make different components, so that a vendor, his CI and the pages of topoloom speak about
//! the same bytes. Compilers that keep their promises may be newer.
//!
//! | language | tools | comes out |
//! |---|---|---|
//! | Rust | cargo, its target `wasm32-unknown-unknown` | a core module |
//! | Python | componentize-py | a component |
//! | JavaScript | node, esbuild, and one engine of [`Engine`] | a component |
//! | C | zig, whose C compiler is clang | a core module |
//!
//! # Failure story
//!
//! A tool that is missing, or that says another version, is a [`Missing`]: its name, the version that is needed, what was found
//! where, and the line that installs it. All that are missing are reported at once.

mod find;
mod recipe;

pub use find::{Found, Missing, MissingTools, Other, Search, find, find_all};
pub use recipe::{Engine, Product, Recipe, Sources, engine_recipe, recipe};

use crate::project::Language;

/// A program, a package or a part of a toolchain.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// As people call it.
    pub name: &'static str,
    /// Which version is meant.
    pub wanted: Wanted,
    /// Where it may be, in the order of the search.
    pub(crate) ways: &'static [Way],
    /// The line that installs it, in the folder of the project.
    pub install: &'static str,
    /// Whether that line depends on the folder.
    pub is_of_folder: bool,
}

/// Which versions of a tool are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one alone.
    Exactly(&'static str),
    /// This one or a newer one.
    AtLeast(&'static str),
    /// It has no version of its own: it is there or not.
    Present,
}

/// One way to have a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A program with its first arguments, and the arguments that make it print its version.
    Program { words: &'static [&'static str], version: &'static [&'static str] },
    /// A package of Node.js, below `node_modules`.
    Package(&'static str),
    /// A folder whose path a program prints: it is there if the folder is.
    Folder(&'static [&'static str]),
}

/// The target of Rust.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Rust's build tool.
pub const CARGO: Tool = Tool {
    name: "cargo",
    // The version of `rust-toolchain.toml`: the SDK needs it.
    wanted: Wanted::AtLeast("1.95.0"),
    ways: &[Way::Program { words: &["cargo"], version: &["--version"] }],
    install: "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh",
    is_of_folder: false,
};

/// The standard library of Rust for plugins.
pub const RUST_TARGET: Tool = Tool {
    name: "the Rust target wasm32-unknown-unknown",
    wanted: Wanted::Present,
    ways: &[Way::Folder(&["rustc", "--print", "target-libdir", "--target", TARGET])],
    install: "rustup target add wasm32-unknown-unknown",
    is_of_folder: true,
};

/// Makes components of Python.
pub const COMPONENTIZE_PY: Tool = Tool {
    name: "componentize-py",
    wanted: Wanted::Exactly("0.25.1"),
    ways: &[Way::Program { words: &["componentize-py"], version: &["--version"] }],
    install: "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1",
    is_of_folder: true,
};

/// Runs the tools of JavaScript.
pub const NODE: Tool = Tool {
    name: "node",
    wanted: Wanted::AtLeast("20.0.0"),
    ways: &[Way::Program { words: &["node"], version: &["--version"] }],
    install: "install Node.js 20 or newer from https://nodejs.org/en/download",
    is_of_folder: false,
};

/// Makes one file of a source and what it imports: an engine reads one.
pub const ESBUILD: Tool = Tool {
    name: "esbuild",
    wanted: Wanted::Exactly("0.28.2"),
    ways: &[Way::Package("esbuild")],
    install: "npm install --save-dev --save-exact esbuild@0.28.2",
    is_of_folder: true,
};

/// Makes components of JavaScript with SpiderMonkey.
pub const COMPONENTIZE_JS: Tool = Tool {
    name: "@bytecodealliance/componentize-js",
    wanted: Wanted::Exactly("0.23.0"),
    ways: &[Way::Package("@bytecodealliance/componentize-js")],
    install: "npm install --save-dev --save-exact @bytecodealliance/componentize-js@0.23.0",
    is_of_folder: true,
};

/// Makes components of JavaScript with QuickJS.
pub const COMPONENTIZE_QJS: Tool = Tool {
    name: "componentize-qjs",
    wanted: Wanted::Exactly("0.4.5"),
    ways: &[Way::Package("componentize-qjs")],
    install: "npm install --save-dev --save-exact componentize-qjs@0.4.5",
    is_of_folder: true,
};

/// A compiler of C that needs nothing else. The package of PyPI calls its program `python-zig`.
pub const ZIG: Tool = Tool {
    name: "zig",
    wanted: Wanted::Exactly("0.15.2"),
    ways: &[
        Way::Program { words: &["zig"], version: &["version"] },
        Way::Program { words: &["python-zig"], version: &["version"] },
        Way::Program { words: &["python3", "-m", "ziglang"], version: &["version"] },
    ],
    install: "python3 -m venv .venv && .venv/bin/pip install ziglang==0.15.2",
    is_of_folder: true,
};

/// The tools that the built-in build of a language needs. The first is the one that is run.
#[must_use]
pub fn of(language: Language) -> &'static [&'static Tool] {
    match language {
        Language::Rust => &[&CARGO, &RUST_TARGET],
        Language::Python => &[&COMPONENTIZE_PY],
        Language::JavaScript => of_engine(Engine::IN_FORCE),
        Language::C => &[&ZIG],
        Language::Other => &[],
    }
}

/// The same for JavaScript with one of its engines.
#[must_use]
pub fn of_engine(engine: Engine) -> &'static [&'static Tool] {
    match engine {
        Engine::SpiderMonkey => &[&NODE, &ESBUILD, &COMPONENTIZE_JS],
        Engine::QuickJs => &[&NODE, &ESBUILD, &COMPONENTIZE_QJS],
    }
}

#[cfg(test)]
mod tests;
