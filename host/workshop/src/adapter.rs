//! What takes the place of WASI preview 1 in a module that imports it.
//!
//! Plugins have no WASI, and most compilers make modules that import some of it. The adapter answers those imports without a
//! host behind it: `adapter/preview1.wat` has every function and the reason for its answer. The encoder puts it beside the
//! module and leaves out what the module does not import, so what remains of a plugin imports `topoloom:*` only.
//!
//! Owns the text, which the build assembles, and the list of what each function does now, for the report of a build. Never decides
//! whether a module is wrapped.
//!
//! # Failure story
//!
//! A text that does not assemble is an error where this program is built. A module that imports a function of preview 1 that the
//! adapter lacks, or with other types, is refused by the encoder with the name of the function.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use wasmparser::{Parser, Payload};
use wit_component::StringEncoding;

use crate::wit;

/// The name under which modules import preview 1.
pub const PREVIEW1: &str = "wasi_snapshot_preview1";

const ASSEMBLED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preview1.wasm"));

/// What the adapter itself imports.
const NEEDS: &str = "world preview1-adapter { import log; }";

/// What a function of preview 1 does in a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stub {
    /// Standard output and standard error are lines of the log.
    Logs,
    /// A clock that counts calls; a wait has ended when it begins.
    Counts,
    /// The same sequence in every instance.
    Repeats,
    /// There is nothing: no argument, no variable of the environment.
    Empty,
    /// Returns at once.
    Returns,
    /// The error for a descriptor that is not open.
    BadDescriptor,
    /// The error for what does not exist.
    NotThere,
    /// Ends the call.
    Traps,
}

impl Stub {
    /// Of the function with that name. A name that the adapter lacks is refused before this is asked.
    fn of(function: &str) -> Self {
        match function {
            "fd_write" => Self::Logs,
            "clock_time_get" | "clock_res_get" | "poll_oneoff" => Self::Counts,
            "random_get" => Self::Repeats,
            "args_get" | "args_sizes_get" | "environ_get" | "environ_sizes_get" => Self::Empty,
            "sched_yield" => Self::Returns,
            "proc_exit" => Self::Traps,
            _ if function.starts_with("fd_") => Self::BadDescriptor,
            _ => Self::NotThere,
        }
    }
}

impl fmt::Display for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Logs => "standard output and standard error are lines of the log",
            Self::Counts => "the clock counts calls, and a wait ends at once",
            Self::Repeats => "the same sequence in every call",
            Self::Empty => "there are no arguments and no environment",
            Self::Returns => "returns at once",
            Self::BadDescriptor => "no file is open (EBADF)",
            Self::NotThere => "there is no such thing (ENOSYS)",
            Self::Traps => "ends the call as a crash",
        })
    }
}

/// The functions of preview 1 that a module imports, each with what it does in a plugin.
pub type Stubbed = BTreeMap<String, Stub>;

/// Reads which functions of preview 1 a core module imports. Total: of a module that is not valid it sees what comes before
/// the mistake, which the encoder reports.
#[must_use]
pub fn imported(module: &[u8]) -> Stubbed {
    let of_preview1 = imports(module).into_iter().filter(|(from, _)| from == PREVIEW1);
    of_preview1.map(|(_, function)| (function.clone(), Stub::of(&function))).collect()
}

/// Every import of a core module: from where, and what. Total, as [`imported`].
pub(crate) fn imports(module: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
        if let Payload::ImportSection(section) = payload {
            let imports = section.into_imports().map_while(Result::ok);
            found.extend(imports.map(|import| (import.module.to_owned(), import.name.to_owned())));
        }
    }
    found
}

/// The adapter as a module with the description of what it imports, made once.
///
/// # Errors
/// A description that is none: a fault of this program.
pub fn module() -> Result<&'static [u8], &'static str> {
    static DESCRIBED: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    DESCRIBED.get_or_init(described).as_deref().map_err(String::as_str)
}

fn described() -> Result<Vec<u8>, String> {
    let mut module = ASSEMBLED.to_vec();
    let (resolve, world) = wit::resolve("preview1-adapter", NEEDS)?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| format!("{error:#}"))?;
    Ok(module)
}

#[cfg(test)]
mod tests;
