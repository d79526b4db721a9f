//! The binary `topoloom`.

use std::process::ExitCode;

use topoloom::plugin::compile_child;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(word) if word == compile_child::SUBCOMMAND => compile_child::main(&arguments.collect::<Vec<_>>()),
        _ => ExitCode::FAILURE,
    }
}
