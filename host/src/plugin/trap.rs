//! From the engine's error to the one word for how a call ended.

use topoloom_core::plugin::{CallError, Transfer, TrapKind, TrapReport};
use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};

use super::budget::Budget;
use super::guest::Guest;
use crate::text;

/// What the engine says when a message is larger than the hostcall fuel. It has no public type (wasmtime 48,
/// `component/func/options.rs`); a component test fails when the words change.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// What it says when a guest has too many handles (wasmtime 48, `vm/component/handle_table.rs`).
const HANDLES_EXHAUSTED: &str = "store handle limit exceeded";

/// What it says when a store gets more instances, memories or tables than it may.
const COUNT_EXCEEDED: &str = "resource limit exceeded";

/// Functions that are named, and the longest name of one: names are the plugin's.
const FRAMES: usize = 20;
const FRAME: usize = 200;

/// The longest message of the engine, which may quote the plugin.
const CAUSE: usize = 1 << 10;

/// Finds out why a guest stopped. The order matters: a deadline or a refusal shows as a trap too.
pub(super) fn classify(error: &wasmtime::Error, guest: &Guest, budget: &Budget) -> CallError {
    let report = || TrapReport { message: cause(error), frames: frames(error), log_tail: guest.voice.tail() };
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt) {
        return CallError::CpuDeadline { used: budget.used(), limit: budget.limit(), report: report() };
    }
    let cause = cause(error);
    if cause.contains(FUEL_EXHAUSTED) {
        return CallError::TooLarge { what: Transfer::Message, limit: guest.limits.transfer };
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref::<ResourceTableError>() {
        return handles(guest);
    }
    if trap.is_none() && cause.contains(HANDLES_EXHAUSTED) {
        return handles(guest);
    }
    if trap.is_none() && cause.contains(COUNT_EXCEEDED) {
        return CallError::LimitExceeded { what: cause };
    }
    if let Some(asked) = guest.limiter.refused_memory() {
        return CallError::OutOfMemory { limit: guest.limiter.limits().memory, asked, report: report() };
    }
    if let Some(asked) = guest.limiter.refused_table() {
        let limit = guest.limiter.limits().table_elements;
        return CallError::LimitExceeded { what: format!("{asked} table elements, of {limit} allowed") };
    }
    CallError::Trap { kind: kind(trap), report: report() }
}

fn handles(guest: &Guest) -> CallError {
    CallError::LimitExceeded { what: format!("more than {} resource handles", guest.limiter.limits().handles) }
}

fn kind(trap: Option<Trap>) -> TrapKind {
    let Some(trap) = trap else { return TrapKind::Abi };
    match trap {
        Trap::UnreachableCodeReached => TrapKind::Unreachable,
        Trap::MemoryOutOfBounds | Trap::HeapMisaligned => TrapKind::Memory,
        Trap::StackOverflow => TrapKind::Stack,
        Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger => TrapKind::Arithmetic,
        Trap::TableOutOfBounds | Trap::IndirectCallToNull | Trap::BadSignature => TrapKind::Table,
        Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::UnalignedPointer
        | Trap::InvalidChar
        | Trap::CannotEnterComponent
        | Trap::CannotLeaveComponent => TrapKind::Abi,
        _ => TrapKind::Other,
    }
}

/// The innermost message: the outer ones are frames and "error while executing".
fn cause(error: &wasmtime::Error) -> String {
    text::line(&error.root_cause().to_string(), CAUSE)
}

/// The guest's functions, innermost first. The engine prints them demangled and only in whole lines, each
/// `<number>: <address> - <module>!<function>`.
fn frames(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let printed = backtrace.to_string();
    let functions = printed.lines().filter_map(|line| line.split_once(" - ")).map(|(_, function)| function.trim());
    functions.take(FRAMES).map(|function| text::line(function, FRAME)).collect()
}
