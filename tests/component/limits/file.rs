//! Files that the host does not load.

use std::sync::Arc;
use std::time::Duration;

use topoloom_core::plugin::{Amount, Limit, Limits};

use super::{Scenario, default, lowered};
use crate::guests::{bomb, crowd, wat};

const DISCOVERER: &str = r#"(instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d))"#;

pub(super) fn scenario(row: Limit) -> Scenario {
    let most = default(row);
    let refused = |bytes, words: String| Scenario::Refused { bytes, limits: Limits::default(), words };
    let bounds =
        |bytes, what, found: u64| refused(bytes, format!("the plugin has {what} of {found}, and {most} is allowed"));
    match row {
        Limit::File => {
            let mut bytes = b"\0asm".to_vec();
            bytes.resize((4 << 20) + 1, 0);
            refused(bytes.into(), "the plugin has 4194305 bytes and may have 4194304".to_owned())
        }
        Limit::Features => {
            refused(wat("simd.wat"), "the plugin uses WebAssembly that is switched off, at byte ".to_owned())
        }
        // Two bytes are the number of locals (none) and the end of the body.
        Limit::Function => bounds(component(&format!("(func {})", "nop ".repeat(70_000))), "a function size", 70_002),
        Limit::Locals => bounds(
            component(&format!("(func (local {}))", "i32 ".repeat(1_001))),
            "a number of locals in one function",
            1_001,
        ),
        Limit::Operands => {
            let (values, uses) = ("i32.const 1 ".repeat(1_001), "drop ".repeat(1_001));
            bounds(
                component(&format!("(func {values}{uses})")),
                "a number of values at one time in one function",
                1_001,
            )
        }
        Limit::Functions => bounds(component(&"(func)".repeat(20_001)), "a number of functions", 20_001),
        Limit::Modules => bounds(parse(&"(core module)".repeat(17)), "a number of core modules", 17),
        Limit::Depth => bounds(wat("nested.wat"), "nesting", 3),
        Limit::FileInstances => bounds(crowd(300, 1), "a number of instances", 300),
        Limit::Links => bounds(crowd(1, 20_000), "a number of imports and exports", 20_000),
        Limit::Items => {
            let bytes = component(&"(global i32 (i32.const 0))".repeat(100_001));
            bounds(bytes, "a number of definitions", 100_001)
        }
        Limit::Signature => bounds(branches(101, 10, 1), "a function type with results", 101),
        Limit::ScanCpu => {
            let mut limits = Limits::default();
            limits.scan.cpu = Duration::from_millis(20);
            let words = "compiling the plugin exceeded a limit: 20ms of processor time for reading it".to_owned();
            Scenario::Refused { bytes: branches(100, 30_000, 20), limits, words }
        }
        Limit::CompileCpu => Scenario::Refused {
            bytes: bomb(),
            limits: lowered(row, Amount::seconds(1)),
            words: "compiling the plugin exceeded a limit: 1s of processor time".to_owned(),
        },
        Limit::CompileMemory => Scenario::Refused {
            bytes: bomb(),
            limits: lowered(row, Amount::mib(64)),
            words: "compiling the plugin exceeded a limit: 67108864 bytes of memory".to_owned(),
        },
        Limit::Initial => {
            refused(wat("memory.wat"), format!("the plugin starts with 1073741824 bytes of memory and may have {most}"))
        }
        Limit::Memories => {
            refused(wat("memories.wat"), format!("the plugin starts with 10 memories and may have {most}"))
        }
        Limit::Tables => {
            let tables = "(table 1 funcref)".repeat(9);
            let bytes = parse(&format!("(core module $m {tables}) (core instance (instantiate $m)) {DISCOVERER}"));
            refused(bytes, format!("the plugin starts with 9 tables and may have {most}"))
        }
        other => panic!("{other:?} is not of the file"),
    }
}

/// This many functions, each of which branches from one place to this many targets, with this many values.
pub(crate) fn branches(values: usize, targets: usize, functions: usize) -> Arc<[u8]> {
    let (results, given) = ("i32 ".repeat(values), "i32.const 1 ".repeat(values));
    let function = format!(
        "(func (result {results}) (block (result {results}) {given} local.get 0 br_table {}))",
        "0 ".repeat(targets)
    );
    let function = function.replacen("(func ", "(func (param i32) ", 1);
    component(&function.repeat(functions))
}

/// A component with one core module of this content, which no code instantiates.
fn component(content: &str) -> Arc<[u8]> {
    parse(&format!("(core module {content}) {DISCOVERER}"))
}

fn parse(content: &str) -> Arc<[u8]> {
    wat::parse_str(format!("(component {content})")).unwrap().into()
}
