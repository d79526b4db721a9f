//! The engine: one per process, never without its ticker.
//!
//! With epochs that never advance, an endless loop would never stop, and a ticker without epochs would stop nothing; so
//! [`start`] makes both or neither.

mod settings;

use std::time::Duration;

use topoloom_core::plugin::Limits;
use wasmtime::{Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

pub(super) use settings::{Optimise, Threads, settings};

use super::runtime::{Codegen, Options};

/// What host functions have of the stack of a call, beyond what WebAssembly may use of it. It must never run out: an
/// overflow there ends the process.
const HOST_STACK: usize = 1536 << 10;

/// How often a guest that computes gives its thread back, and how late a deadline may be noticed. Shorter costs more
/// wake-ups than it gains: deadlines are seconds.
const TICK: Duration = Duration::from_millis(10);

/// What a place in the pool keeps of an ended call, so that the next one meets no page faults.
const KEPT_MEMORY: usize = 512 << 10;
const KEPT_TABLE: usize = 16 << 10;
const KEPT_STACK: usize = 64 << 10;

/// Memory of instances is taken from a pool and returned to it: mapping and unmapping it anew would be a third of a
/// short call. The pool is as large as all calls together may use, so it never refuses what the limits allow; nearly
/// all of it is address space and no memory: 4 GiB for each linear memory, four of them for each call.
fn pool(calls: usize) -> PoolingAllocationConfig {
    let each = Limits::large().store;
    let all = |per_call: usize| u32::try_from(calls * per_call).unwrap_or(u32::MAX);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(all(1))
        .total_core_instances(all(each.instances))
        .total_memories(all(each.memories))
        // Twice the limit: a plugin that wants more is refused by the limit, in its words, and not by the pool.
        .total_tables(all(2 * each.tables))
        .max_tables_per_module(u32::try_from(2 * each.tables).unwrap_or(u32::MAX))
        .total_stacks(all(1))
        .table_elements(2 * each.table_elements)
        .linear_memory_keep_resident(KEPT_MEMORY)
        .table_keep_resident(KEPT_TABLE)
        .async_stack_keep_resident(KEPT_STACK)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// Makes the engine and starts its ticker, which ends when the last handle of the engine is gone.
///
/// The ticker is a thread of its own: a task could be starved by the very guest that it should stop.
pub(super) fn start(options: Options) -> Result<Engine, super::StartError> {
    let images = match options.codegen {
        Codegen::Service => Optimise::Yes,
        Codegen::Baseline => Optimise::Baseline,
    };
    let mut config = settings(images, Threads::All);
    // Neither is part of an image: what was compiled for one stack runs on another.
    config.max_wasm_stack(options.stack).async_stack_size(options.stack + HOST_STACK);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options.calls)));
    let engine = Engine::new(&config).map_err(|error| super::StartError::Engine(super::chain(&error)))?;
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
