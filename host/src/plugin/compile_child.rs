//! The compiler process: WebAssembly in at standard input, an image out at standard output.
//!
//! It is this same binary, started with [`SUBCOMMAND`] and nothing else: no environment, no arguments of an operator. It
//! takes its own limits before it reads the first byte, and never runs what it compiles.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit};
use wasmtime::Engine;

use super::engine::{Optimise, Threads, settings};

/// The hidden subcommand of the binary that ends in [`main`].
pub const SUBCOMMAND: &str = "compile-plugin";

/// Processor time of one compile. Honest plugins take 16 ms to 5 s (Python), measured.
pub(super) const CPU_SECONDS: u64 = 10;

/// Address space of one compile. An honest Rust plugin needs 60 MiB, Python 700.
const MEMORY: u64 = 1 << 30;

/// Politeness: compiling waits for everything else.
const NICE: i32 = 19;

/// Compiles standard input to standard output. What goes wrong is one line on standard error and a failed exit code.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    match compile(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The one reader is the process that started us.
            let _ = writeln!(io::stderr(), "{}", super::chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn compile(arguments: &[String]) -> wasmtime::Result<()> {
    confine()?;
    let optimise = match arguments {
        [word] if word == "quick" => Optimise::No,
        [word] if word == "optimised" => Optimise::Yes,
        other => return Err(wasmtime::format_err!("{SUBCOMMAND} takes one word, quick or optimised, not {other:?}")),
    };
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let image = Engine::new(&settings(optimise, Threads::One))?.precompile_component(&bytes)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&image)?;
    stdout.flush()?;
    Ok(())
}

/// Takes away from this process what a compile does not need.
fn confine() -> wasmtime::Result<()> {
    rustix::process::nice(NICE)?;
    // Should memory run out all the same, this process goes and not the host. Best effort: not every sandbox lets us.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // At the first number comes SIGXCPU, which says what happened; at the second SIGKILL, which could be anything.
    limit(Resource::Cpu, CPU_SECONDS, CPU_SECONDS + 1)?;
    let memory = memory(left_in_cgroup());
    limit(Resource::As, memory, memory)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)
}

fn limit(resource: Resource, current: u64, maximum: u64) -> wasmtime::Result<()> {
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}

/// Half of what is left, so that a compile cannot take the host with it, and never more than [`MEMORY`]. Where that is
/// too little even for the compiler itself, its end says so.
fn memory(left: Option<u64>) -> u64 {
    match left {
        Some(left) => (left / 2).min(MEMORY),
        None => MEMORY,
    }
}

/// What the cgroup of this container has left; `None` without a limit or where it cannot be read. Inside a container
/// its own cgroup is the root of the hierarchy; version 2 first, then version 1.
fn left_in_cgroup() -> Option<u64> {
    let left = |limit: &str, used: &str| {
        let limit = number(&std::fs::read_to_string(limit).ok()?)?;
        let used = number(&std::fs::read_to_string(used).ok()?)?;
        Some(limit.saturating_sub(used))
    };
    left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
        .or_else(|| left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))
}

/// `max`, which means no limit, is no number.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_half_of_what_is_left_within_bounds() {
        assert_eq!(memory(None), MEMORY);
        assert_eq!(memory(Some(64 << 30)), MEMORY);
        assert_eq!(memory(Some(1 << 30)), 512 << 20);
        assert_eq!(memory(Some(64 << 20)), 32 << 20);
        assert_eq!(number("max\n"), None);
        assert_eq!(number("1073741824\n"), Some(1 << 30));
    }
}
