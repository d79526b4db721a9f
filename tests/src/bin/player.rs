//! The small top-down half as a program: it carries pods of one ClusterBinding down to the cluster that lends, and ends with
//! Ctrl-C, SIGTERM, or the binding.
//!
//! It is an example of [the contract](../../../docs/top-down-contract.md) and no product: it copies no ConfigMap, no Secret and no
//! volume.
#![allow(clippy::print_stderr, reason = "the output of a command line tool")]

use std::process::ExitCode;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use topoloom_tests::lending::player::program::{self, Arguments};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("player: {error:#}");
            return ExitCode::from(2);
        }
    };
    match play(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("player: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play(arguments: &Arguments) -> Result<()> {
    // First of all, so that a signal during the start ends it in an orderly way, too.
    let (mut terminated, mut interrupted) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    program::run(arguments, stop).await
}
