//! The compiler process: WebAssembly in at standard input, an image out at standard output.
//!
//! It is this same binary, started with [`SUBCOMMAND`], one word, and its limits; its environment holds only a setting
//! of the allocator. It puts those limits on itself before it reads the first byte, and never runs what it compiles.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;

use topoloom_core::plugin::{Amount, CompileLimits, Limit, LimitSetting};
use topoloom_core::text;
use wasmtime::Engine;

use super::confine::{Effort, confine};
use super::engine::{Optimise, Threads, settings};

/// The hidden subcommand of the binary that ends in [`main`].
pub const SUBCOMMAND: &str = "compile-plugin";

/// The exit code when memory ran out (`ENOMEM`).
pub(super) const OUT_OF_MEMORY: u8 = 12;

/// The exit code when this process could not give up what it does not need (`EACCES`). It has read nothing then.
pub(super) const UNCONFINED: u8 = 13;

/// The exit code when the compiler panicked: that of every program in Rust that does.
pub(super) const PANICKED: u8 = 101;

/// Compiles standard input to standard output. What goes wrong is one line on standard error and a failed exit code.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    // The one reader is the process that started us.
    let say = |words: &str| writeln!(io::stderr(), "{words}").unwrap_or_default();
    let complain = |error: &wasmtime::Error| say(&super::chain(error));
    let (optimise, bounds, effort) = match read(arguments) {
        Ok(read) => read,
        Err(error) => {
            complain(&error);
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = confine(&bounds, effort) {
        complain(&error);
        return ExitCode::from(UNCONFINED);
    }
    // The place of a panic is a path of the machine that built the engine.
    set_hook(Box::new(|_| {}));
    match caught(|| compile(optimise, effort.threads())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            complain(&error);
            if is_out_of_memory(&error) { ExitCode::from(OUT_OF_MEMORY) } else { ExitCode::FAILURE }
        }
        Err(panic) => {
            say(&panic);
            ExitCode::from(PANICKED)
        }
    }
}

/// What the compiler returns, or the message of its panic in one line. Nothing of it is used after a panic.
fn caught<T>(compile: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(compile)).map_err(|panic| text::of_panic(&*panic))
}

/// Memory runs out in three ways: where the compiler notices it, where the standard library does, and where neither
/// does, which ends the process by a signal.
fn is_out_of_memory(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<wasmtime::error::OutOfMemory>().is_some()
        || error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

fn compile(optimise: Optimise, threads: Threads) -> wasmtime::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let image = Engine::new(&settings(optimise, threads))?.precompile_component(&bytes)?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(&image)?;
    stdout.flush()?;
    Ok(())
}

/// What the process that started this one asks for.
fn read(arguments: &[String]) -> wasmtime::Result<(Optimise, CompileLimits, Effort)> {
    let usage = || {
        wasmtime::format_err!(
            "{SUBCOMMAND} takes a word (baseline, quick, optimised), seconds of processor time, bytes of memory and an effort (lowest, one, all), \
             not {arguments:?}"
        )
    };
    let (word, bounds, effort) = match arguments {
        [word] => (word, CompileLimits::default(), Effort::Lowest),
        [word, seconds, bytes, effort] => {
            let number = |text: &str| text.parse::<u64>().map_err(|_| usage());
            let cpu = within(Limit::CompileCpu, Amount::seconds(number(seconds)?))?.time();
            let memory = within(Limit::CompileMemory, Amount::Bytes(number(bytes)?))?.size();
            let effort = Effort::ALL.into_iter().find(|known| known.word() == effort).ok_or_else(usage)?;
            (word, CompileLimits { cpu, memory }, effort)
        }
        _ => return Err(usage()),
    };
    let optimise = Optimise::ALL.into_iter().find(|optimise| optimise.word() == word);
    Ok((optimise.ok_or_else(usage)?, bounds, effort))
}

/// The range is that of the table, for every caller.
fn within(limit: Limit, amount: Amount) -> wasmtime::Result<Amount> {
    match limit.row().setting {
        LimitSetting::Entry { low, high, .. } if amount < low || amount > high => {
            Err(wasmtime::format_err!("the limit {} must be {low} to {high}, not {amount}", limit.word()))
        }
        _ => Ok(amount),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_message_without_its_place() {
        assert_eq!(caught(|| 7), Ok(7));
        let panic = caught::<()>(|| panic!("invalid adapter: multiple memories")).unwrap_err();
        assert_eq!(panic, "invalid adapter: multiple memories");
    }

    #[test]
    fn limits_are_read_within_the_ranges_of_the_table() {
        let read = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            super::read(&arguments).map_err(|error| error.to_string())
        };
        let (optimise, bounds, effort) = read(&["optimised", "20", "2147483648", "all"]).unwrap();
        assert_eq!((optimise, bounds.cpu.as_secs(), bounds.memory), (Optimise::Yes, 20, 2 << 30));
        assert_eq!(effort, Effort::All);
        assert_eq!(read(&["baseline", "1", "2147483648", "one"]).unwrap().0, Optimise::Baseline);
        assert_eq!(read(&["quick"]).unwrap(), (Optimise::No, CompileLimits::default(), Effort::Lowest));
        for (arguments, words) in [
            (["quick", "61", "2147483648", "one"], "the limit compile-cpu must be 1s to 60s, not 61s"),
            (["quick", "0", "2147483648", "one"], "the limit compile-cpu must be 1s to 60s, not 0s"),
            (["quick", "1", "8589934592", "one"], "the limit compile-memory must be 16Mi to 4Gi, not 8Gi"),
            (["slow", "1", "2147483648", "one"], "compile-plugin takes a word (baseline, quick, optimised)"),
            (["quick", "1", "-1", "one"], "compile-plugin takes a word (baseline, quick, optimised)"),
            (["quick", "1", "2147483648", "high"], "compile-plugin takes a word (baseline, quick, optimised)"),
        ] {
            let error = read(&arguments).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
