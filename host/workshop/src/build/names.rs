//! The names of functions in a module, as people read them: a trap names them, and each byte of them is delivered.
//!
//! A Rust compiler writes mangled names, which are twice as long as what they say. Names of variables, types and data are left
//! out: no one reads them in a plugin.

use std::fmt::{self, Write as _};

use rustc_demangle::try_demangle;
use wasm_encoder::{Module, NameMap, NameSection, RawSection};
use wasmparser::{KnownCustom, Name, NameSectionReader, Parser, Payload};

/// The longest readable name: parts of a mangled one may refer to others, and its text grows with each.
const MOST: usize = 1 << 10;

/// The most bytes of all readable names: a large plugin has a tenth of that.
const MOST_OF_ALL: usize = 8 << 20;

/// The module with readable names. Nothing but the section of names is another one.
///
/// A module that breaks off, or whose names do, comes back as it is: what is wrong with it is said where it is used.
pub(super) fn readable(module: &[u8]) -> Vec<u8> {
    rewritten(module).unwrap_or_else(|| module.to_vec())
}

fn rewritten(module: &[u8]) -> Option<Vec<u8>> {
    let mut written = Module::new();
    let mut has_names = false;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.ok()?;
        if let Payload::CustomSection(section) = &payload
            && let KnownCustom::Name(names) = section.as_known()
        {
            written.section(&of_functions(names)?);
            has_names = true;
        } else if let Some((id, range)) = payload.as_section() {
            written.section(&RawSection { id, data: module.get(range)? });
        }
    }
    has_names.then(|| written.finish())
}

/// What the section has of the module and its functions.
fn of_functions(names: NameSectionReader<'_>) -> Option<NameSection> {
    let mut section = NameSection::new();
    let mut left = MOST_OF_ALL;
    for name in names {
        match name.ok()? {
            Name::Module { name, .. } => section.module(name),
            Name::Function(map) => {
                let mut functions = NameMap::new();
                for naming in map {
                    let naming = naming.ok()?;
                    let readable = short(naming.name, left);
                    left = left.saturating_sub(readable.as_ref().map_or(0, String::len));
                    functions.append(naming.index, readable.as_deref().unwrap_or(naming.name));
                }
                section.functions(&functions);
            }
            _ => {}
        }
    }
    Some(section)
}

/// Without the mangling and its hash. Nothing for what no Rust compiler mangled, and for what would be too long: it stays as it is.
fn short(name: &str, left: usize) -> Option<String> {
    let mut short = Short { text: String::new(), most: MOST.min(left) };
    write!(short, "{:#}", try_demangle(name).ok()?).ok()?;
    Some(short.text)
}

/// A text that takes no more than so many bytes.
struct Short {
    text: String,
    most: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.text.len() + part.len() > self.most {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANGLED: &str = "_ZN10serde_json5error10make_error17hb979e11d4ec734d9E";

    fn module(name: &str) -> Vec<u8> {
        wat::parse_str(format!(
            r#"(module $racks (memory (export "memory") 1) (func ${name} (export "f") (param $first i32) nop) (func $plain)
               (@custom "kept" "bytes"))"#
        ))
        .unwrap()
    }

    fn functions(module: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(module).map(Result::unwrap) {
            let Payload::CustomSection(section) = payload else { continue };
            let KnownCustom::Name(names) = section.as_known() else { continue };
            for name in names.map(Result::unwrap) {
                match name {
                    Name::Function(map) => found.extend(map.into_iter().map(|naming| naming.unwrap().name.to_owned())),
                    Name::Module { name, .. } => found.push(format!("module {name}")),
                    _ => found.push("more".to_owned()),
                }
            }
        }
        found
    }

    #[test]
    fn names_are_what_people_read_and_everything_else_stays() {
        let before = module(MANGLED);
        assert_eq!(functions(&before), ["module racks", MANGLED, "plain", "more"]);
        let after = readable(&before);
        assert_eq!(functions(&after), ["module racks", "serde_json::error::make_error", "plain"]);
        let sections = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let payloads = Parser::new(0).parse_all(bytes).map(Result::unwrap);
            let ranges = payloads
                .filter(|payload| !matches!(payload, Payload::CustomSection(section) if section.name() == "name"));
            ranges.filter_map(|payload| payload.as_section()).map(|(_, range)| bytes[range].to_vec()).collect()
        };
        assert_eq!(sections(&after), sections(&before));
        assert_eq!(readable(&after), after, "the same every time");
    }

    #[test]
    fn a_name_that_would_grow_beyond_measure_stays_as_it_is() {
        // A tuple of a tuple of a tuple: each refers to the one in it a second time.
        let grown = |levels: u32| {
            let back = |place| format!("B{}_E", char::from_digit(place, 36).unwrap());
            let backs: String = (3..levels + 3).rev().map(back).collect();
            format!("_RMC0{}p{backs}", "T".repeat(levels as usize))
        };
        let name = grown(20);
        assert!(try_demangle(&name).is_ok() && name.len() < 200, "{name}");
        assert_eq!(short(&name, MOST_OF_ALL), None);
        assert_eq!(functions(&readable(&module(&name)))[1], name);
        let little = grown(3);
        assert_eq!(short(&little, MOST_OF_ALL).as_deref(), Some("<(((_, _), (_, _)), ((_, _), (_, _)))>"));
        // Nor is there room for all names.
        assert_eq!(short(MANGLED, 10), None);
    }

    #[test]
    fn what_has_no_names_or_breaks_off_comes_back_as_it_is() {
        let bare = wat::parse_str("(module)").unwrap();
        assert_eq!(readable(&bare), bare);
        let whole = module(MANGLED);
        for end in 0..whole.len() {
            let cut = &whole[..end];
            let read = readable(cut);
            assert!(read == cut || Parser::new(0).parse_all(&read).all(|payload| payload.is_ok()), "cut at {end}");
        }
    }
}
