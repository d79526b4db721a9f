//! The engine: one per process, never without its ticker.
//!
//! A store with epochs that nobody advances would let an endless loop run for ever, and a ticker without epochs would
//! stop nothing; so [`start`] makes both or neither.

use std::time::Duration;

use wasmtime::{Config, Engine, EngineWeak, OptLevel, WasmBacktraceDetails};

/// How often a guest that computes gives its thread back, and how late a deadline may be noticed. Shorter costs more
/// wake-ups than it gains: deadlines are seconds.
const TICK: Duration = Duration::from_millis(10);

/// The stack of wasm code. A Rust guest has its own stack of 1 MiB in linear memory and needs little of this one.
const GUEST_STACK: usize = 512 << 10;

/// The whole stack of a call: what host functions use lies between this and [`GUEST_STACK`], and must never run out,
/// since an overflow there ends the process.
const CALL_STACK: usize = 2 << 20;

/// Functions named in a trap report: enough to see a cycle of recursion, too few to fill a status.
const FRAMES: usize = 20;

/// How much work the compiler puts into an image. Images of both kinds load into one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimise {
    /// Fast to compile, slower to run: to find out quickly whether a plugin works at all.
    No,
    /// For service.
    Yes,
}

/// How many threads compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    /// Only the one that asks: for the compiler process, whose limits count for one.
    One,
    /// As many as there are.
    All,
}

/// The settings that decide which plugins run and what their images look like. The compiler process uses the same
/// ones, or its images would be refused.
pub(super) fn config(optimise: Optimise, threads: Threads) -> Config {
    let mut config = Config::new();
    // What no discoverer needs is not there: less compiler to trust. Rust, Python and JavaScript guests compile
    // without these (measured). Threads, gc and exceptions are left out of the build altogether.
    config
        .wasm_simd(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false)
        .wasm_bulk_memory(true)
        .wasm_extended_const(true)
        .wasm_component_model(true);
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .max_wasm_stack(GUEST_STACK)
        .async_stack_size(CALL_STACK)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES))
        // Function names come from the name section. DWARF of a stranger is not read in this process.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .parallel_compilation(threads == Threads::All)
        .cranelift_opt_level(match optimise {
            Optimise::No => OptLevel::None,
            Optimise::Yes => OptLevel::Speed,
        });
    config
}

/// Makes the engine and starts its ticker, which ends when the last handle of the engine is gone.
///
/// The ticker is a thread of its own: a task could be starved by the very guest that it should stop.
pub(super) fn start() -> Result<Engine, super::StartError> {
    let engine =
        Engine::new(&config(Optimise::Yes, Threads::All)).map_err(|e| super::StartError::Engine(super::chain(&e)))?;
    let weak = engine.weak();
    std::thread::Builder::new()
        .name("plugin-epoch".to_owned())
        .spawn(move || tick(&weak))
        .map_err(|source| super::StartError::Thread { name: "plugin-epoch", source })?;
    Ok(engine)
}

#[allow(clippy::disallowed_methods, reason = "a clock tick is the one thing that is waited for by time")]
fn tick(weak: &EngineWeak) {
    while let Some(engine) = weak.upgrade() {
        engine.increment_epoch();
        drop(engine);
        std::thread::sleep(TICK);
    }
}
