//! `make soak`: runs replicas with faults for a while, and checks whether the resources that they use stay flat.
//!
//! `soak [MINUTES]`; without a number twenty. Ctrl-C ends it; the table then covers the time until then.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::process::ExitCode;

use topoloom_tests::soak::{self, MINUTES, Outcome, USUAL_MINUTES};

#[tokio::main]
async fn main() -> ExitCode {
    let minutes = match std::env::args().nth(1).map(|text| (text.parse::<u64>(), text)) {
        None => USUAL_MINUTES,
        Some((Ok(minutes), _)) if MINUTES.contains(&minutes) => minutes,
        Some((_, text)) => {
            eprintln!("soak: {text:?} is not a number of minutes from {} to {}", MINUTES.start(), MINUTES.end());
            return ExitCode::from(2);
        }
    };
    match soak::run(minutes).await {
        Ok(Outcome::Flat) => ExitCode::SUCCESS,
        Ok(Outcome::NotFlat | Outcome::Interrupted) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("soak: {error:#}");
            ExitCode::FAILURE
        }
    }
}
