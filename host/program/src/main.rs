//! The program `topoloom`: the host, and the plugins that it carries in itself.

use std::process::ExitCode;

use topoloom::plugin::compile_child;

/// The allocator of musl has one lock for all threads, and gives little back. Elsewhere the one of the system is good.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).take(1).collect();
    match arguments.first() {
        // The compiler's own process never sees the rest of the host: no flags, no environment, no threads.
        Some(word) if word == compile_child::SUBCOMMAND => {
            compile_child::main(&std::env::args().skip(2).collect::<Vec<_>>())
        }
        _ => topoloom::cli::main(&topoloom_builtins::ALL),
    }
}
