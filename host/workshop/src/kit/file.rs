//! The component file: whether a host takes it, and what is missing in it that people need later.

use topoloom_core::plugin::{Import, ImportSet, Limit, Limits};
use topoloom_sandbox::plugin::anatomy;
use wasmparser::{Encoding, KnownCustom, Name, Parser, Payload};

use super::check::Check;
use super::report::Ledger;
use super::sound::NO_ANSWER;

/// What can be read of a file, and how large it is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Bytes of the component.
    pub size: usize,
    /// Bytes of it packed, as `plugin push` packs it.
    pub packed: usize,
    /// What fits into a ConfigMap, packed.
    pub room: usize,
    /// What made it: field, name, version.
    pub producers: Vec<[String; 3]>,
    /// Whether its code has names of functions; `None` where there is no code to be read.
    pub named: Option<bool>,
}

impl FileFacts {
    /// Reads a component.
    #[must_use]
    pub fn of(bytes: &[u8], limits: &Limits, packed: usize, room: usize) -> Self {
        let producers = anatomy(bytes, &limits.scan).producers;
        Self { size: bytes.len(), packed, room, producers, named: named(bytes) }
    }

    /// Whether a host that takes this many packed bytes refuses the file. It counts them where it gets packed bytes: out of a
    /// ConfigMap. What has no room there comes from a volume or a registry, as it is.
    const fn is_above(&self, most: usize) -> bool {
        self.packed <= self.room && self.packed > most
    }
}

/// Whether the module with the most functions names them: that is the vendor's code, the others are small parts that an encoder
/// adds. A file that breaks off has less to show, and is refused elsewhere.
fn named(bytes: &[u8]) -> Option<bool> {
    /// One module while it is read.
    #[derive(Clone, Copy, Default)]
    struct Module {
        functions: u32,
        named: bool,
    }
    // Modules do not nest in each other, and components in between have no code.
    let (mut modules, mut open) = (Vec::new(), Module::default());
    for payload in Parser::new(0).parse_all(bytes).map_while(Result::ok) {
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } => open = Module::default(),
            Payload::CodeSectionStart { count, .. } => open.functions = count,
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    let mut names = names.map_while(Result::ok);
                    open.named |= names.any(|name| matches!(name, Name::Function(map) if map.count() > 0));
                }
            }
            Payload::End(_) => modules.push(std::mem::take(&mut open)),
            _ => {}
        }
    }
    let largest = modules.into_iter().filter(|module| module.functions > 0).max_by_key(|module| module.functions)?;
    Some(largest.named)
}

/// The checks that need no case.
pub(super) fn run(file: &FileFacts, refused: Option<&str>, limits: Option<&Limits>, ledger: &mut Ledger) {
    if let Some(mut sheet) = ledger.open(Check::FileLoads) {
        sheet.note(format!("{} bytes, {} packed", file.size, file.packed));
        if let Some(why) = refused {
            sheet.error(None, why);
        } else if let Some(most) = limits.map(|limits| limits.scan.packed).filter(|most| file.is_above(*most)) {
            let advice = Limit::Packed.advice();
            sheet.error(None, &format!("packed it has {} bytes and may have {most}{advice}", file.packed));
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::FileConfigMap) {
        if file.packed > file.room {
            let (packed, room) = (file.packed, file.room);
            let ways = "deliver it in a volume or from a registry";
            sheet.warning(None, &format!("packed it has {packed} bytes and a ConfigMap takes {room}: {ways}"));
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::FileProducers) {
        if file.producers.is_empty() {
            sheet.warning(None, "it does not say which tools made it: keep the section `producers`");
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::FileNames) {
        if file.named == Some(false) {
            let cure = "keep the section `name`, and strip debug information only";
            sheet.warning(None, &format!("its functions have no names, so that a crash says only numbers: {cure}"));
        }
        ledger.close(sheet);
    }
}

/// The check of the imports, once everything was asked. The log is left out: it needs no grant, and it is how a crash says where
/// it was.
pub(super) fn imports(imports: &[String], called: ImportSet, has_cases: bool, ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::FileImports) else { return };
    let known = imports.iter().filter_map(|import| Import::parse(import)).filter(|import| *import != Import::Write);
    let idle: Vec<String> = known.filter(|import| !called.contains(*import)).map(|import| import.to_string()).collect();
    if !has_cases {
        sheet.nothing(NO_ANSWER);
    } else if !idle.is_empty() {
        let cure = "an operator grants what is imported, so import less, or add the case that uses it";
        sheet.warning(None, &format!("no case calls {}: {cure}", idle.join(", ")));
    }
    ledger.close(sheet);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::report::Mark;

    #[test]
    fn what_is_no_component_has_no_code_to_be_read() {
        for bytes in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0", b"text"] {
            assert_eq!(named(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn the_largest_module_decides_whether_functions_have_names() {
        // One function without parameters: sections type, function, code.
        let code = |functions: u8| {
            let mut bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0".to_vec();
            bytes.extend([3, functions + 1, functions]);
            bytes.extend(std::iter::repeat_n(0, functions.into()));
            bytes.extend([10, functions * 3 + 1, functions]);
            (0..functions).for_each(|_| bytes.extend([2, 0, 11]));
            bytes
        };
        // Subsection 1 of the section `name`: function 0 is called `f`.
        let names = b"\0\x0b\x04name\x01\x04\x01\0\x01f";
        assert_eq!(named(&code(2)), Some(false));
        assert_eq!(named(&[&code(2)[..], names].concat()), Some(true));
        assert_eq!(named(&[&code(2)[..], b"\0\x05\x04name"].concat()), Some(false));
    }

    #[test]
    fn functions_that_no_case_calls_are_named() {
        let mut called = ImportSet::default();
        called.insert(Import::Rows);
        let functions = ["nodes@0.1.0#[method]snapshot.rows", "nodes@0.1.0#[method]snapshot.label", "log@0.1.0#write"];
        let list = functions.map(|function| format!("topoloom:discovery/{function}"));
        let mut ledger = Ledger::default();
        imports(&list, called, true, &mut ledger);
        let report = ledger.report();
        assert_eq!(report.lines[0].mark(), Mark::Warned);
        assert!(
            report.lines[0].findings[0].text.starts_with("no case calls nodes#[method]snapshot.label: "),
            "{report:?}"
        );
    }
}
