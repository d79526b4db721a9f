//! From the engine's error to the one word for how a call ended.

use topoloom_core::plugin::{CallError, Limit, Spent, Transfer, TrapKind, TrapReport};
use topoloom_core::text;
use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};

use super::budget::Budget;
use super::call::Frame;
use super::guest::{Exceeded, Guest};

/// What the engine says when a message is larger than the hostcall fuel. It has no public type (wasmtime 48,
/// `component/func/options.rs`); a component test fails when the words change.
const FUEL_EXHAUSTED: &str = "fuel allocated for hostcalls has been exhausted";

/// What it says when a guest has too many handles (wasmtime 48, `vm/component/handle_table.rs`).
const HANDLES_EXHAUSTED: &str = "store handle limit exceeded";

/// What it says when a store gets more instances, memories or tables than it may, and which of them.
const COUNT_EXCEEDED: &str = "resource limit exceeded";
const COUNTED: [(&str, Limit); 3] =
    [("instance count", Limit::Instances), ("memory count", Limit::Memories), ("table count", Limit::Tables)];

/// Functions that are named, and the longest name of one: names are the plugin's.
const FRAMES: usize = 20;
const FRAME: usize = 200;

/// The longest message of the engine, which may quote the plugin.
const CAUSE: usize = 1 << 10;

/// Finds out why a guest stopped. The order matters: a deadline or a refusal shows as a trap too.
pub(super) fn classify(error: &wasmtime::Error, guest: &Guest, budget: &Budget, frame: &Frame) -> CallError {
    let cause = cause(error);
    let report = || report(cause.clone(), frames(error), guest, budget);
    let exceeded = |row, what| CallError::LimitExceeded { row, what, report: report() };
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt) {
        let (used, limit) = (budget.used(), budget.limit());
        return CallError::CpuDeadline { row: frame.budget, used, limit, report: report() };
    }
    if let Some(Exceeded { row, what }) = error.downcast_ref::<Exceeded>() {
        return exceeded(*row, what.clone());
    }
    if cause.contains(FUEL_EXHAUSTED) {
        return CallError::TooLarge { what: Transfer::Message, limit: guest.limits.transfer, report: report() };
    }
    let is_full = matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full));
    if is_full || (trap.is_none() && cause.contains(HANDLES_EXHAUSTED)) {
        let what = format!("more than {} resource handles", guest.limiter.limits().handles);
        return exceeded(Limit::Handles, what);
    }
    if trap.is_none() && cause.contains(COUNT_EXCEEDED) {
        let row = COUNTED.into_iter().find(|(words, _)| cause.contains(words));
        return exceeded(row.map_or(Limit::Instances, |(_, row)| row), cause.clone());
    }
    if let Some(asked) = guest.limiter.refused_memory() {
        return CallError::OutOfMemory { limit: guest.limiter.limits().memory, asked, report: report() };
    }
    if let Some(asked) = guest.limiter.refused_table() {
        let limit = guest.limiter.limits().table_elements;
        return exceeded(Limit::TableElements, format!("{asked} table elements, of {limit} allowed"));
    }
    let kind = kind(trap);
    let mut report = report();
    if kind.limit() == Some(Limit::Stack) {
        report.message = format!("{cause}; the stack has {} bytes", frame.stack);
    }
    CallError::Trap { kind, report }
}

/// What is known about a guest that ended by itself, or exceeded its elapsed time: not where it was.
pub(super) fn silent(guest: &Guest, budget: &Budget) -> Box<TrapReport> {
    report(String::new(), Vec::new(), guest, budget)
}

fn report(message: String, frames: Vec<String>, guest: &Guest, budget: &Budget) -> Box<TrapReport> {
    let spent = Spent {
        cpu: budget.used(),
        cpu_limit: budget.limit(),
        peak_memory: guest.limiter.peak_memory(),
        memory_limit: guest.limiter.limits().memory,
    };
    Box::new(TrapReport { message, frames, log_tail: guest.voice.tail(), spent })
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
