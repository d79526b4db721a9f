//! The settings that decide which plugins run and what their images look like.
//!
//! Part of three programs that must agree, or images are refused: this library, its compiler process, and the build
//! script, which compiles the embedded plugins. So nothing here but the engine itself is used.

use wasmtime::{Config, OptLevel, Strategy, WasmBacktraceDetails};

/// Address space of a linear memory and behind it: so much that no bound has to be checked by code.
const RESERVED: u64 = 4 << 30;
const GUARD: u64 = 32 << 20;

/// Functions named in a trap report: enough to see a cycle of recursion, too few to fill a status.
const FRAMES: usize = 20;

/// How much work the compiler puts into an image. The last two kinds load into one engine, the first one into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Optimise {
    /// In one pass (Winch): a quarter of the time of the next kind. For a look at a desk, never for service.
    Baseline,
    /// Fast to compile, slower to run: to find out quickly whether a plugin works at all.
    No,
    /// For service.
    Yes,
}

impl Optimise {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Baseline, Self::No, Self::Yes];

    /// The word for metrics, and for the compiler process.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::No => "quick",
            Self::Yes => "optimised",
        }
    }
}

/// How many threads compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Only the one that asks: for the compiler process, whose limits count for one.
    One,
    /// As many as there are.
    All,
}

/// The settings.
pub(crate) fn settings(optimise: Optimise, threads: Threads) -> Config {
    let mut config = Config::new();
    // What no discoverer needs is not there: less compiler to trust. Rust, Python and JavaScript guests compile
    // without these (measured). Threads, gc and exceptions are left out of the build altogether.
    config
        .wasm_simd(false)
        .wasm_relaxed_simd(false)
        // For the engine's own code: where two components inside of a plugin exchange strings, it makes a module between them
        // that sees the memories of both. The scan refuses such modules in what is delivered.
        .wasm_multi_memory(true)
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
        .memory_reservation(RESERVED)
        .memory_guard_size(GUARD)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(FRAMES))
        // Function names come from the name section. DWARF of a stranger is not read in this process.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .parallel_compilation(threads == Threads::All);
    match optimise {
        // What is around the functions of a plugin is made by the other compiler all the same. Without addresses of the code, a
        // report of a trap would name no function.
        Optimise::Baseline => config.strategy(Strategy::Winch).cranelift_opt_level(OptLevel::None),
        Optimise::No => config.cranelift_opt_level(OptLevel::None),
        Optimise::Yes => config.cranelift_opt_level(OptLevel::Speed),
    };
    config
}
