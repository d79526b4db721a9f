//! The first look at a file, before anything compiles it.
//!
//! One pass of the validator that also measures: the compiler's work grows with the square of a function's size, so a
//! file within these bounds cannot keep it busy for long. The pass itself is bounded by its processor time, and it ends
//! soon after it was given up: it checks [`Patience`] all the way. Reads the names of imports and exports, which show
//! what the plugin needs and which version of the interface it uses; a refusal here is clearer than a linker's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use topoloom_core::plugin::{Limit, ScanLimits};
use topoloom_core::text;
use wasmparser::{
    BinaryReaderError, CompositeInnerType, Encoding, FuncValidator, FunctionBody, Instance, KnownCustom, Parser,
    Payload, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};
use wasmtime::Engine;

use super::anatomy::Anatomy;
use super::load::{CompileLimit, LoadError};
use super::maker::Maker;
use super::processor;

/// The package that discoverers are written against.
const PACKAGE: &str = "topoloom:discovery/";

/// What every plugin exports.
const DISCOVERER: &str = "topoloom:discovery/discoverer";

/// For sentences.
const SUPPORTED: &str = "0.1";

/// What core modules import that were made for WASI.
const PREVIEW1: &str = "wasi_snapshot_preview1";

/// The longest part of a name that a message repeats, in bytes.
pub(super) const NAME: usize = 200;

/// Exports that a message lists.
const EXPORTS: usize = 5;

/// A version of the interface that this host supports. Patch versions are compatible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// 0.1.x
    V0_1,
}

impl Version {
    fn parse(version: &str) -> Option<Self> {
        version.starts_with("0.1.").then_some(Self::V0_1)
    }
}

/// What the scan found out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScanFacts {
    pub(super) version: Version,
}

/// Looks at a file.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub(super) fn scan(bytes: &[u8], limits: &ScanLimits, wanted: &ScanInterest) -> Result<ScanFacts, LoadError> {
    look(bytes, limits, wanted, &mut Anatomy::default())
}

/// As [`scan`], and fills in what it sees on its way.
pub(super) fn look(
    bytes: &[u8],
    limits: &ScanLimits,
    wanted: &ScanInterest,
    seen: &mut Anatomy,
) -> Result<ScanFacts, LoadError> {
    seen.meet(Limit::File, bytes.len() as u64);
    if bytes.len() > limits.file {
        return Err(LoadError::FileTooLarge { size: bytes.len(), limit: limits.file });
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWasm);
    }
    if Parser::is_core_wasm(bytes) {
        return Err(LoadError::CoreModule { imports_preview1: imports_preview1(bytes) });
    }
    let mut patience = Patience { began: processor::of_this_thread(), limit: limits.cpu, wanted, steps: 0 };
    match walk(bytes, limits, features(), &mut patience, seen) {
        Ok(()) => seen.judge(bytes),
        Err(LoadError::Invalid { offset, message }) => {
            // What is valid at this place with everything switched on is not broken, only not for here.
            // Both looks are on the same budget.
            let is_off = match walk(bytes, limits, WasmFeatures::all(), &mut patience, &mut Anatomy::default()) {
                Err(LoadError::Invalid { offset: other, .. }) => other > offset,
                Err(error @ (LoadError::CompileLimit { .. } | LoadError::GivenUp)) => return Err(error),
                _ => true,
            };
            Err(if is_off { LoadError::Feature { offset, message } } else { LoadError::Invalid { offset, message } })
        }
        Err(error) => Err(error),
    }
}

/// What is on: what the engine has on, without what is only for other guests than ours, and without modules of more than
/// one memory, which the engine has on for those that it makes itself. Beside the engine's own settings because it judges
/// a file before the engine sees it.
fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::FLOATS
        | WasmFeatures::COMPONENT_MODEL
}

/// Whether a source still waits for what a scan finds out. Clones are the same wish.
#[derive(Debug, Clone, Default)]
pub(super) struct ScanInterest(Arc<AtomicBool>);

impl ScanInterest {
    /// None does any more.
    pub(super) fn give_up(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The bytes of an instruction without a list; constants of 64 bits have eleven.
const LONG: usize = 32;

/// Instructions between two looks at the clock: some tens of microseconds.
const STEPS: u32 = 1 << 12;

/// How long a scan may still take.
struct Patience<'a> {
    began: Duration,
    limit: Duration,
    wanted: &'a ScanInterest,
    steps: u32,
}

impl Patience<'_> {
    /// One more instruction.
    fn step(&mut self) -> Result<(), LoadError> {
        self.steps += 1;
        if self.steps < STEPS { Ok(()) } else { self.check() }
    }

    fn check(&mut self) -> Result<(), LoadError> {
        self.steps = 0;
        if self.wanted.0.load(Ordering::Relaxed) {
            return Err(LoadError::GivenUp);
        }
        if processor::of_this_thread().saturating_sub(self.began) > self.limit {
            return Err(LoadError::CompileLimit { limit: CompileLimit::Scan(self.limit) });
        }
        Ok(())
    }
}

fn walk(
    bytes: &[u8],
    limits: &ScanLimits,
    features: WasmFeatures,
    patience: &mut Patience<'_>,
    seen: &mut Anatomy,
) -> Result<(), LoadError> {
    let invalid = |error: BinaryReaderError| LoadError::Invalid {
        offset: error.offset() as u64,
        message: text::line(error.message(), NAME),
    };
    let mut validator = Validator::new_with_features(features);
    let mut allocations = wasmparser::FuncValidatorAllocations::default();
    let most_operands = u64::from(limits.operands);
    let (mut depth, mut modules, mut functions) = (0_u64, 0_u64, 0_u64);
    let (mut instances, mut links, mut items) = (0_u64, 0_u64, 0_u64);
    // The encoding of each open component or module; only the first is the plugin itself.
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(invalid)?;
        patience.check()?;
        // Counted before the validator sees them: it looks at every import and export for every instance, so its work
        // grows with the product.
        let (of_instances, of_links, of_items) = counts(&payload);
        (instances, links, items) = (instances + of_instances, links + of_links, items + of_items);
        seen.within(Limit::FileInstances, "a number of instances", instances, Limit::FileInstances.fixed().number())?;
        seen.within(Limit::Links, "a number of imports and exports", links, Limit::Links.fixed().number())?;
        seen.within(Limit::Items, "a number of definitions", items, Limit::Items.fixed().number())?;
        match &payload {
            Payload::Version { encoding, .. } => {
                depth += 1;
                // Modules nest too, and do not count as components.
                let nested = depth - u64::from(*encoding == Encoding::Module);
                seen.within(Limit::Depth, "nesting", nested, limits.depth.into())?;
                if *encoding == Encoding::Module {
                    modules += 1;
                    seen.within(Limit::Modules, "a number of core modules", modules, limits.modules.into())?;
                }
            }
            Payload::End(_) => depth -= 1,
            Payload::CodeSectionStart { count, .. } => {
                functions += u64::from(*count);
                seen.within(Limit::Functions, "a number of functions", functions, limits.functions.into())?;
            }
            Payload::CodeSectionEntry(body) => {
                seen.within(Limit::Function, "a function size", body.range().len() as u64, limits.function as u64)?;
                let mut locals = 0;
                for group in body.get_locals_reader().map_err(invalid)? {
                    locals += u64::from(group.map_err(invalid)?.0);
                }
                seen.within(Limit::Locals, "a number of locals in one function", locals, limits.locals.into())?;
            }
            Payload::TypeSection(section) => {
                let most = limits.signature.into();
                for group in section.clone() {
                    for of in group.map_err(invalid)?.types() {
                        let CompositeInnerType::Func(function) = &of.composite_type.inner else { continue };
                        let (takes, gives) = (function.params().len() as u64, function.results().len() as u64);
                        seen.within(Limit::Signature, "a function type with parameters", takes, most)?;
                        seen.within(Limit::Signature, "a function type with results", gives, most)?;
                    }
                }
            }
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.clone() {
                    seen.imports.push(text::line(import.map_err(invalid)?.name.name, NAME));
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section.clone() {
                    seen.exports.push(text::line(export.map_err(invalid)?.name.name, NAME));
                }
            }
            Payload::InstanceSection(section) => {
                let instances = section.clone().into_iter().map_while(Result::ok);
                seen.core_instances +=
                    instances.filter(|instance| matches!(instance, Instance::Instantiate { .. })).count() as u64;
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Producers(producers) = section.as_known() {
                    seen.read_producers(producers);
                }
            }
            _ => {}
        }
        match validator.payload(&payload).map_err(invalid)? {
            ValidPayload::Func(function, body) => {
                let mut function = function.into_validator(std::mem::take(&mut allocations));
                let operands = validate(&mut function, &body, patience, invalid)?;
                seen.within(
                    Limit::Operands,
                    "a number of values at one time in one function",
                    operands,
                    most_operands,
                )?;
                allocations = function.into_allocations();
            }
            ValidPayload::End(types) if depth == 0 => seen.read_functions(types.as_ref()),
            _ => {}
        }
    }
    Ok(())
}

/// Validates a function and answers how many values wait at one time to be used.
fn validate(
    function: &mut FuncValidator<ValidatorResources>,
    body: &FunctionBody<'_>,
    patience: &mut Patience<'_>,
    invalid: impl Fn(BinaryReaderError) -> LoadError + Copy,
) -> Result<u64, LoadError> {
    let mut reader = body.get_binary_reader();
    function.read_locals(&mut reader).map_err(invalid)?;
    // Some encodings belong to features: the reader has to know, as it does in `FuncValidator::validate`.
    reader.set_features(*function.features());
    let mut most = 0;
    while !reader.eof() {
        let before = reader.original_position();
        reader.visit_operator(&mut function.visitor(before)).and_then(|visited| visited).map_err(invalid)?;
        // One that is longer than any other has a list of targets, and each of them is work.
        if reader.original_position() - before > LONG {
            patience.check()?
        } else {
            patience.step()?
        }
        most = most.max(function.operand_stack_height());
    }
    reader.finish_expression(&function.visitor(reader.original_position())).map_err(invalid)?;
    Ok(most.into())
}

/// Instances, imports and exports, and definitions of other kinds that a payload brings.
fn counts(payload: &Payload<'_>) -> (u64, u64, u64) {
    let (instances, links, items) = match payload {
        Payload::InstanceSection(section) => (section.count(), 0, 0),
        Payload::ComponentInstanceSection(section) => (section.count(), 0, 0),
        Payload::ImportSection(section) => (0, section.count(), 0),
        Payload::ExportSection(section) => (0, section.count(), 0),
        Payload::ComponentImportSection(section) => (0, section.count(), 0),
        Payload::ComponentExportSection(section) => (0, section.count(), 0),
        Payload::TypeSection(section) => (0, 0, section.count()),
        Payload::CoreTypeSection(section) => (0, 0, section.count()),
        Payload::ComponentTypeSection(section) => (0, 0, section.count()),
        Payload::ComponentAliasSection(section) => (0, 0, section.count()),
        Payload::ComponentCanonicalSection(section) => (0, 0, section.count()),
        Payload::TableSection(section) => (0, 0, section.count()),
        Payload::MemorySection(section) => (0, 0, section.count()),
        Payload::GlobalSection(section) => (0, 0, section.count()),
        Payload::ElementSection(section) => (0, 0, section.count()),
        Payload::DataSection(section) => (0, 0, section.count()),
        _ => (0, 0, 0),
    };
    (instances.into(), links.into(), items.into())
}

/// Whether a core module imports WASI preview 1. It may be no valid module: it is not read beyond its imports.
fn imports_preview1(module: &[u8]) -> bool {
    let payloads = Parser::new(0).parse_all(module).map_while(Result::ok);
    let imports = payloads.into_iter().find_map(|payload| match payload {
        Payload::ImportSection(section) => Some(section),
        _ => None,
    });
    let imports = imports.into_iter().flat_map(|section| section.into_imports().map_while(Result::ok));
    imports.into_iter().any(|import| import.module == PREVIEW1)
}

impl Anatomy {
    /// Imports first: for a component of another world the message names the surplus imports before the missing
    /// exports.
    fn judge(&self, bytes: &[u8]) -> Result<ScanFacts, LoadError> {
        // All of them: one flag of a tool removes them together.
        let foreign = self.imports.iter().filter(|import| !import.starts_with("topoloom:"));
        let imports: Vec<String> = foreign.cloned().collect();
        if !imports.is_empty() {
            return Err(LoadError::ForeignImport { imports, maker: Maker::of(bytes, &self.producers) });
        }
        if let Some(import) = self.imports.iter().find(|import| !import.starts_with(PACKAGE)) {
            return Err(LoadError::UnknownImport { import: import.clone() });
        }
        let discoverer = self.exports.iter().find(|export| split(export).0 == DISCOVERER);
        for name in self.imports.iter().chain(discoverer) {
            let (_, version) = split(name);
            if Version::parse(version).is_none() {
                let needs = format!("topoloom:discovery {}", minor(version));
                return Err(LoadError::Version { needs, supports: SUPPORTED });
            }
        }
        match discoverer.and_then(|export| Version::parse(split(export).1)) {
            Some(version) => Ok(ScanFacts { version }),
            None if self.exports.is_empty() => {
                Err(LoadError::World { export: DISCOVERER, found: "it exports nothing".to_owned() })
            }
            None => {
                let shown = self.exports.iter().take(EXPORTS).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = if self.exports.len() > EXPORTS { " and more" } else { "" };
                let found = format!("it exports {shown}{more}");
                Err(LoadError::World { export: DISCOVERER, found })
            }
        }
    }
}

/// `package:name/interface` and its version, empty if it has none.
fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// The part of a version that decides about compatibility: `0.3.1` is `0.3`, a pre-release is itself.
fn minor(version: &str) -> &str {
    match version.rsplit_once('.') {
        Some((minor, patch)) if patch.bytes().all(|b| b.is_ascii_digit()) => minor,
        _ if version.is_empty() => "without a version",
        _ => version,
    }
}
