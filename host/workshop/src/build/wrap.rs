//! From a core module to a component.

use std::fmt;

use wasmparser::{BinaryReader, ExternalKind, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding};

use crate::adapter::{self, PREVIEW1, Stubbed};
use crate::wit;

/// How the sections begin in which bindings leave the world that they were made for.
const WORLD_SECTION: &str = "component-type";

/// The package, as imports and exports of a module begin with it, in the usual form and in the newer one.
const PACKAGES: [&str; 2] = ["topoloom:discovery/", "cm32p2|topoloom:discovery/"];

/// What the functions of a discoverer are called in a module.
const DISCOVERER: [&str; 2] = ["topoloom:discovery/discoverer@", "cm32p2|topoloom:discovery/discoverer@"];

/// What a memory is called that functions of the interface may see.
const MEMORIES: [&str; 2] = ["memory", "cm32p2_memory"];

/// Names that a message lists: a program that calls a C library lacks hundreds.
const LISTED: usize = 20;

/// A component that was a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped {
    /// Its bytes.
    pub component: Vec<u8>,
    /// The functions of WASI preview 1 that it would call, and what they do now.
    pub stubbed: Stubbed,
    /// Whether the module came without a world, and has that of plugins now.
    pub embedded: bool,
}

/// Why a module cannot become a component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrapError {
    /// Not a core module.
    #[error("it is neither a component nor a core module of WebAssembly")]
    NotWasm,
    /// Imports that no host has.
    #[error(
        "the module imports {}, which no host of plugins has{}",
        Listed(.imports.iter().map(|(module, name)| format!("{module}.{name}")).collect()),
        of_env(.imports)
    )]
    Imports {
        /// All of them, each from where and what.
        imports: Vec<(String, String)>,
    },
    /// None of the functions of a discoverer.
    #[error(
        "the module exports no function of topoloom:discovery/discoverer@{}; it exports {}; a function is exported under its whole \
         name, such as topoloom:discovery/discoverer@{}#describe",
        wit::VERSION, Listed(.exports.clone()), wit::VERSION
    )]
    NoDiscoverer {
        /// What it exports instead.
        exports: Vec<String>,
    },
    /// The interface passes lists and texts through a memory.
    #[error("the module exports no memory; link it so that its memory has the name `memory`")]
    NoMemory,
    /// What the encoder says.
    #[error("the module does not fit the interface: {0}")]
    Encode(String),
    /// A fault of this program.
    #[error("the adapter for WASI preview 1 is broken, by a fault of topoloom: {0}")]
    Adapter(&'static str),
}

/// Names in a sentence; none is `nothing`.
struct Listed(Vec<String>);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        f.write_str(&self.0.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", "))?;
        match self.0.len().checked_sub(LISTED) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, " and {more} more"),
        }
    }
}

/// What `env` means: a linker puts there what it did not find.
fn of_env(imports: &[(String, String)]) -> &'static str {
    if imports.iter().any(|(module, _)| module == "env") {
        "; the linker puts under `env` what is called and not defined anywhere: a C library that is not there, or a function \
         without its import_module attribute"
    } else {
        ""
    }
}

/// Whether these are the first bytes of a component.
#[must_use]
pub fn is_component(bytes: &[u8]) -> bool {
    Parser::is_component(bytes)
}

/// Makes a component of a module: with the world that it names or that of plugins, and with the adapter in place of WASI
/// preview 1. The same bytes give the same component.
///
/// # Errors
/// What the module imports that no host has, or lacks, or what the encoder says.
pub fn wrap(module: &[u8]) -> Result<Wrapped, WrapError> {
    if !Parser::is_core_wasm(module) {
        return Err(WrapError::NotWasm);
    }
    let imports = adapter::imports(module);
    let foreign: Vec<_> = imports.into_iter().filter(|(module, _)| !is_known(module)).collect();
    if !foreign.is_empty() {
        return Err(WrapError::Imports { imports: foreign });
    }
    let found = Found::of(module);
    if !found.is_discoverer {
        return Err(WrapError::NoDiscoverer { exports: found.exports });
    }
    if !found.has_memory {
        return Err(WrapError::NoMemory);
    }
    let encode = |error: &dyn fmt::Display| WrapError::Encode(format!("{error:#}"));
    let mut module = module.to_vec();
    if !found.has_world {
        let (resolve, world) = wit::resolve(wit::WORLD, "").map_err(|error| encode(&error))?;
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .map_err(|error| encode(&error))?;
    }
    let stubbed = adapter::imported(&module);
    let mut encoder = ComponentEncoder::default().validate(true).module(&module).map_err(|error| encode(&error))?;
    if !stubbed.is_empty() {
        let adapter = adapter::module().map_err(WrapError::Adapter)?;
        encoder = encoder.adapter(PREVIEW1, adapter).map_err(|error| encode(&error))?;
    }
    let component = encoder.encode().map_err(|error| encode(&error))?;
    let component = without_its_names(&component).unwrap_or(component);
    Ok(Wrapped { component, stubbed, embedded: !found.has_world })
}

/// The component without what the encoder calls its parts. No trap names them, and they are delivered with every plugin.
fn without_its_names(component: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 8;
    let mut kept = component.get(..HEADER)?.to_vec();
    let mut sections = BinaryReader::new(component.get(HEADER..)?, HEADER);
    while !sections.eof() {
        let begin = sections.original_position();
        let is_custom = sections.read_u8().ok()? == 0;
        let size = sections.read_var_u32().ok()?;
        let bytes = sections.read_bytes(size as usize).ok()?;
        if !is_custom || BinaryReader::new(bytes, 0).read_string().ok()? != "component-name" {
            kept.extend_from_slice(component.get(begin..sections.original_position())?);
        }
    }
    Some(kept)
}

/// Whether a module may be imported from: the interface, also for what belongs to an export of it, and what the adapter answers.
fn is_known(module: &str) -> bool {
    let module = module.strip_prefix("[export]").unwrap_or(module);
    module == PREVIEW1 || PACKAGES.iter().any(|package| module.starts_with(package))
}

/// What a module brings for the interface.
#[derive(Default)]
struct Found {
    exports: Vec<String>,
    is_discoverer: bool,
    has_memory: bool,
    has_world: bool,
}

impl Found {
    fn of(module: &[u8]) -> Self {
        let mut found = Self::default();
        for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
            match payload {
                Payload::ExportSection(section) => {
                    for export in section.into_iter().map_while(Result::ok) {
                        found.is_discoverer |= DISCOVERER.iter().any(|name| export.name.starts_with(name));
                        found.has_memory |= export.kind == ExternalKind::Memory && MEMORIES.contains(&export.name);
                        found.exports.push(export.name.to_owned());
                    }
                }
                Payload::CustomSection(section) => found.has_world |= section.name().starts_with(WORLD_SECTION),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Stub;
    use topoloom_sandbox::plugin::measure;

    /// The functions of a discoverer as a module has them, without bodies.
    const EXPORTS: &str = r#"
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "topoloom:discovery/discoverer@0.1.0#describe") (result i32) unreachable)
        (func (export "topoloom:discovery/discoverer@0.1.0#configure") (param i32 i32) (result i32) unreachable)
        (func (export "topoloom:discovery/discoverer@0.1.0#discover")
          (param i32 i32 i32 i64 i32 i32) (result i32) unreachable)"#;

    fn module(imports: &str) -> Vec<u8> {
        wat::parse_str(format!("(module {imports} {EXPORTS})")).unwrap()
    }

    /// What a component imports, as the host reads it; it has to be one that a host takes.
    fn imports(component: &[u8]) -> Vec<String> {
        let (anatomy, judged) = measure(component);
        judged.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(anatomy.exports, ["topoloom:discovery/discoverer@0.1.0"]);
        anatomy.functions
    }

    #[test]
    fn a_module_without_a_world_becomes_a_component_that_imports_what_it_calls() {
        let wrapped = wrap(&module("")).unwrap();
        let names = |payload: Payload<'_>| matches!(payload, Payload::CustomSection(section) if section.name() == "component-name");
        assert!(!Parser::new(0).parse_all(&wrapped.component).map(Result::unwrap).any(names));
        assert!(wrapped.embedded && wrapped.stubbed.is_empty() && is_component(&wrapped.component));
        assert_eq!(imports(&wrapped.component), [""; 0]);
        let reads = module(
            r#"(import "topoloom:discovery/nodes@0.1.0" "[method]snapshot.label" (func (param i32 i32 i32 i32)))
               (import "topoloom:discovery/nodes@0.1.0" "[resource-drop]snapshot" (func (param i32)))"#,
        );
        let wrapped = wrap(&reads).unwrap();
        assert_eq!(imports(&wrapped.component), ["topoloom:discovery/nodes@0.1.0#[method]snapshot.label"]);
        assert_eq!(wrap(&reads).unwrap(), wrapped, "the same every time");
    }

    #[test]
    fn a_module_with_a_world_keeps_it() {
        let mut bytes = module("");
        let (resolve, world) = wit::resolve("narrow", "world narrow { export discoverer; }").unwrap();
        wit_component::embed_component_metadata(&mut bytes, &resolve, world, StringEncoding::UTF8).unwrap();
        let wrapped = wrap(&bytes).unwrap();
        assert!(!wrapped.embedded);
        assert_eq!(imports(&wrapped.component), [""; 0]);
    }

    #[test]
    fn what_a_module_imports_of_preview_1_is_answered_and_said() {
        let quiet = wrap(&module(
            r#"(import "wasi_snapshot_preview1" "clock_time_get" (func (param i32 i64 i32) (result i32)))
               (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#,
        ))
        .unwrap();
        let stubs: Vec<_> = quiet.stubbed.iter().map(|(name, stub)| (name.as_str(), *stub)).collect();
        assert_eq!(stubs, [("clock_time_get", Stub::Counts), ("proc_exit", Stub::Traps)]);
        assert_eq!(imports(&quiet.component), [""; 0], "nothing is written, so there is no log");
        let loud = wrap(&module(
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
        ))
        .unwrap();
        assert_eq!(imports(&loud.component), ["topoloom:discovery/log@0.1.0#write"]);
        // Both the module and the adapter write to the log.
        let both = wrap(&module(
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
               (import "topoloom:discovery/log@0.1.0" "write" (func (param i32 i32 i32)))"#,
        ))
        .unwrap();
        assert_eq!(imports(&both.component), ["topoloom:discovery/log@0.1.0#write"]);
    }

    #[test]
    fn every_function_of_preview_1_fits() {
        let exports: Vec<String> = Parser::new(0)
            .parse_all(adapter::module().unwrap())
            .filter_map(|payload| match payload.unwrap() {
                Payload::ExportSection(section) => {
                    Some(section.into_iter().map(|export| export.unwrap().name.to_owned()))
                }
                _ => None,
            })
            .flatten()
            .collect();
        let text = include_str!("../adapter/preview1.wat");
        let mut all = String::new();
        for name in &exports {
            // The types are those of the text: the encoder compares them.
            let (_, rest) = text.split_once(&format!("(export \"{name}\")")).unwrap();
            let types: Vec<&str> = rest.split(['(', ')']).map(str::trim).filter(|part| !part.is_empty()).collect();
            let kinds = types.iter().take_while(|part| part.starts_with("param") || part.starts_with("result"));
            let form = |part: &str| {
                let (word, rest) = part.split_once(' ').unwrap();
                let types: Vec<&str> = rest.split(' ').filter(|word| !word.starts_with('$')).collect();
                format!("({word} {})", types.join(" "))
            };
            let signature: String = kinds.map(|part| form(part)).collect();
            all.push_str(&format!("(import \"{PREVIEW1}\" \"{name}\" (func {signature}))\n"));
        }
        let wrapped = wrap(&module(&all)).unwrap_or_else(|error| panic!("{error}\n{all}"));
        assert_eq!(wrapped.stubbed.len(), exports.len());
        assert_eq!(imports(&wrapped.component), ["topoloom:discovery/log@0.1.0#write"]);
    }

    #[test]
    fn what_cannot_be_wrapped_is_refused_in_words() {
        let refused = |bytes: &[u8]| wrap(bytes).unwrap_err().to_string();
        assert!(refused(b"").contains("neither a component nor a core module"));
        assert!(refused(&wrap(&module("")).unwrap().component).contains("neither a component nor a core module"));
        let libc =
            module(r#"(import "env" "printf" (func (param i32 i32) (result i32))) (import "env" "malloc" (func))"#);
        let words = refused(&libc);
        assert!(words.starts_with("the module imports env.printf, env.malloc, which no host"), "{words}");
        assert!(words.contains("a C library that is not there"), "{words}");
        let wasi = module(r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func (result i32)))"#);
        assert_eq!(refused(&wasi), "the module imports wasi:cli/stdout@0.2.0.get-stdout, which no host of plugins has");
        let other = wat::parse_str(r#"(module (memory (export "memory") 1) (func (export "run")))"#).unwrap();
        assert!(refused(&other).contains("it exports memory, run; a function is exported under its whole name"));
        let blind = EXPORTS.replace(r#"(export "memory")"#, "");
        let blind = wat::parse_str(format!("(module {blind})")).unwrap();
        assert!(refused(&blind).contains("exports no memory"));
        // One function of three.
        let half = r#"(module (memory (export "memory") 1)
            (func (export "topoloom:discovery/discoverer@0.1.0#describe") (result i32) unreachable))"#;
        let words = refused(&wat::parse_str(half).unwrap());
        assert!(words.starts_with("the module does not fit the interface: ") && words.contains("configure"), "{words}");
        // A function of preview 1 with other types.
        let words = refused(&module(r#"(import "wasi_snapshot_preview1" "fd_close" (func (param i64) (result i32)))"#));
        assert!(words.starts_with("the module does not fit the interface: "), "{words}");
    }
}
