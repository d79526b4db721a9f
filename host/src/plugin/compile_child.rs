//! The compiler process: WebAssembly in at standard input, an image out at standard output.
//!
//! It is this same binary, started with [`SUBCOMMAND`], one word, and its limits: no environment. It puts those limits on
//! itself before it reads the first byte, and never runs what it compiles.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use topoloom_core::plugin::{Amount, CompileLimits, Limit, Setting};
use wasmtime::Engine;

use super::engine::{Optimise, Threads, settings};

/// The hidden subcommand of the binary that ends in [`main`].
pub const SUBCOMMAND: &str = "compile-plugin";

/// The exit code when memory ran out (`ENOMEM`).
pub(super) const OUT_OF_MEMORY: u8 = 12;

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
            if is_out_of_memory(&error) { ExitCode::from(OUT_OF_MEMORY) } else { ExitCode::FAILURE }
        }
    }
}

/// Memory runs out in three ways: where the compiler notices it, where the standard library does, and where nobody does,
/// which ends the process by a signal.
fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<wasmtime::error::OutOfMemory>().is_some()
        || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

fn compile(arguments: &[String]) -> wasmtime::Result<()> {
    let (optimise, bounds) = read(arguments)?;
    confine(&bounds)?;
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let image = Engine::new(&settings(optimise, Threads::One))?.precompile_component(&bytes)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&image)?;
    stdout.flush()?;
    Ok(())
}

/// What the process that started this one asks for.
fn read(arguments: &[String]) -> wasmtime::Result<(Optimise, CompileLimits)> {
    let usage = || {
        wasmtime::format_err!(
            "{SUBCOMMAND} takes a word (quick, optimised), seconds of processor time and bytes of memory, not {arguments:?}"
        )
    };
    let (word, bounds) = match arguments {
        [word] => (word, CompileLimits::default()),
        [word, seconds, bytes] => {
            let number = |text: &str| text.parse::<u64>().map_err(|_| usage());
            let cpu = within(Limit::CompileCpu, Amount::seconds(number(seconds)?))?.time();
            let memory = within(Limit::CompileMemory, Amount::Bytes(number(bytes)?))?.size();
            (word, CompileLimits { cpu, memory })
        }
        _ => return Err(usage()),
    };
    let optimise = [Optimise::No, Optimise::Yes].into_iter().find(|optimise| optimise.word() == word);
    Ok((optimise.ok_or_else(usage)?, bounds))
}

/// The range is that of the table, whoever asks.
fn within(limit: Limit, amount: Amount) -> wasmtime::Result<Amount> {
    match limit.row().setting {
        Setting::Entry { low, high, .. } if amount < low || amount > high => {
            Err(wasmtime::format_err!("the limit {} must be {low} to {high}, not {amount}", limit.word()))
        }
        _ => Ok(amount),
    }
}

/// Takes away from this process what a compile does not need.
fn confine(bounds: &CompileLimits) -> wasmtime::Result<()> {
    rustix::process::nice(NICE)?;
    // Should memory run out all the same, this process goes and not the host. Best effort: not every sandbox lets us.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // At the first number comes SIGXCPU, which says what happened; at the second SIGKILL, which could be anything.
    let seconds = seconds(bounds.cpu);
    limit(Resource::Cpu, seconds, seconds + 1)?;
    let memory = memory(left_in_cgroup(), bounds.memory as u64);
    limit(Resource::As, memory, memory)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)
}

fn limit(resource: Resource, current: u64, maximum: u64) -> wasmtime::Result<()> {
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}

/// Processor time as the kernel counts it: whole seconds, at least one.
pub(super) fn seconds(cpu: Duration) -> u64 {
    (cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0)).max(1)
}

/// Half of what is left, so that a compile cannot take the host with it, and never more than the limit. Where that is
/// too little even for the compiler itself, its end says so.
fn memory(left: Option<u64>, limit: u64) -> u64 {
    left.map_or(limit, |left| (left / 2).min(limit))
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
        let limit = 1 << 30;
        assert_eq!(memory(None, limit), limit);
        assert_eq!(memory(Some(64 << 30), limit), limit);
        assert_eq!(memory(Some(1 << 30), limit), 512 << 20);
        assert_eq!(memory(Some(64 << 20), limit), 32 << 20);
        assert_eq!(number("max\n"), None);
        assert_eq!(number("1073741824\n"), Some(1 << 30));
    }

    #[test]
    fn limits_are_read_within_the_ranges_of_the_table() {
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            super::read(&arguments).map_err(|error| error.to_string())
        };
        let (optimise, bounds) = read(&["optimised", "20", "2147483648"]).unwrap();
        assert_eq!((optimise, bounds.cpu.as_secs(), bounds.memory), (Optimise::Yes, 20, 2 << 30));
        assert_eq!(read(&["quick"]).unwrap(), (Optimise::No, CompileLimits::default()));
        for (arguments, words) in [
            (["quick", "61", "2147483648"], "the limit compile-cpu must be 1s to 60s, not 61s"),
            (["quick", "0", "2147483648"], "the limit compile-cpu must be 1s to 60s, not 0s"),
            (["quick", "1", "8589934592"], "the limit compile-memory must be 16Mi to 4Gi, not 8Gi"),
            (["slow", "1", "2147483648"], "compile-plugin takes a word (quick, optimised)"),
            (["quick", "1", "-1"], "compile-plugin takes a word (quick, optimised)"),
        ] {
            let error = read(&arguments).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        assert_eq!((seconds(Duration::from_millis(1)), seconds(Duration::from_millis(1500))), (1, 2));
    }
}
