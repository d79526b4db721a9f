//! What a plugin file is made of, for people who look at it before anything runs it.

use std::collections::BTreeMap;

use topoloom_core::plugin::{Amount, Limit, Limits, ScanLimits, Unit};
use topoloom_core::text;
use wasmparser::ProducersSectionReader;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::TypesRef;

use super::load::LoadError;
use super::scan::{self, NAME};

/// Tools that are listed as makers of a file: a language, a compiler, a linker, an encoder, each with a few parts.
const PRODUCERS: usize = 32;

/// Functions that are listed as imported. The whole interface has a few dozen.
const FUNCTIONS: usize = 1_000;

/// What can be read of a file without compiling it, for people. All texts are fit for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anatomy {
    /// What the component imports: interfaces with their versions.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// The single functions of imported interfaces, as `interface#function`; empty if the file is not valid.
    pub functions: Vec<String>,
    /// Core modules that are instantiated.
    pub core_instances: u64,
    /// What it was made with: field (`language`, `processed-by`, `sdk`), name, version.
    pub producers: Vec<[String; 3]>,
    /// What it has of each limit of a file, as far as it was read: the largest function, the number of modules.
    pub measures: BTreeMap<Limit, Amount>,
}

/// Reads as much of a file as can be read within the limits. Total: a file that is wrong in some way has less to show.
#[must_use]
pub fn anatomy(bytes: &[u8], limits: &ScanLimits) -> Anatomy {
    let mut seen = Anatomy::default();
    // Loading it reports what is wrong with it.
    let _ = scan::look(bytes, limits, &scan::ScanInterest::default(), &mut seen);
    seen
}

/// Reads a whole file within the widest limits that an entry can set: its [`measures`](Anatomy::measures) say which limits it
/// needs.
///
/// # Errors
/// What is wrong with it, or more than any entry allows. What was read until then is in the anatomy.
pub fn measure(bytes: &[u8]) -> (Anatomy, Result<(), LoadError>) {
    let mut seen = Anatomy::default();
    let judged = scan::look(bytes, &Limits::widest().scan, &scan::ScanInterest::default(), &mut seen);
    (seen, judged.map(drop))
}

impl Anatomy {
    /// Notes what was met of a limit, if it is more than before.
    pub(super) fn meet(&mut self, row: Limit, found: u64) {
        let amount = if row.row().standard.unit() == Unit::Bytes { Amount::Bytes(found) } else { Amount::Count(found) };
        let most = self.measures.entry(row).or_insert(amount);
        *most = amount.max(*most);
    }

    /// The same, and refuses what is more than the limit.
    pub(super) fn within(&mut self, row: Limit, what: &'static str, found: u64, limit: u64) -> Result<(), LoadError> {
        self.meet(row, found);
        if found > limit { Err(LoadError::Bounds { row, what, found, limit }) } else { Ok(()) }
    }

    /// A section without a check: what cannot be read of it is left out.
    pub(super) fn read_producers(&mut self, producers: ProducersSectionReader<'_>) {
        for field in producers.into_iter().map_while(Result::ok).take(PRODUCERS) {
            for value in field.values.into_iter().map_while(Result::ok).take(PRODUCERS) {
                let words = [field.name, value.name, value.version].map(|word| text::line(word, NAME));
                if self.producers.len() < PRODUCERS && !self.producers.contains(&words) {
                    self.producers.push(words);
                }
            }
        }
    }

    pub(super) fn read_functions(&mut self, types: TypesRef<'_>) {
        for import in &self.imports {
            let item = types.component_item_for_import(import);
            let Some(ComponentEntityType::Instance(instance)) = item.map(|item| item.ty) else { continue };
            let exports = types.get(instance).into_iter().flat_map(|instance| &instance.exports);
            let functions = exports.filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)));
            let names = functions.map(|(name, _)| format!("{import}#{}", text::line(name, NAME)));
            self.functions.extend(names.take(FUNCTIONS.saturating_sub(self.functions.len())));
        }
        self.functions.sort();
    }
}
