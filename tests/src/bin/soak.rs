//! `make soak`: runs replicas with faults for a while, and checks whether the resources that they use stay flat.
//!
//! `soak [MINUTES] [PART]`; without a number twenty. The parts are `topology`, `lending` and `partition`, and without one all of them
//! are run one after the other: the first two last for MINUTES each, the last one for ten minutes, or two where MINUTES is less than
//! twenty. Ctrl-C ends it; the table then covers the time until then.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use std::process::ExitCode;

use topoloom_tests::soak::{self, MINUTES, Outcome, USUAL_MINUTES, lending, partition};

/// A part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Topology,
    Lending,
    Partition,
}

impl Part {
    const ALL: [Self; 3] = [Self::Topology, Self::Lending, Self::Partition];

    fn name(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::Lending => "lending",
            Self::Partition => "partition",
        }
    }

    async fn run(self, minutes: u64) -> anyhow::Result<Outcome> {
        match self {
            Self::Topology => soak::run(minutes).await,
            Self::Lending => lending::run(minutes).await,
            Self::Partition => partition::run(minutes).await,
        }
    }
}

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
    let parts: Vec<Part> = match std::env::args().nth(2) {
        None => Part::ALL.to_vec(),
        Some(text) => Part::ALL.into_iter().filter(|part| part.name() == text).collect(),
    };
    if parts.is_empty() {
        eprintln!("soak: the parts are {}", Part::ALL.map(Part::name).join(", "));
        return ExitCode::from(2);
    }
    let mut code = ExitCode::SUCCESS;
    for part in parts {
        match part.run(minutes).await {
            Ok(Outcome::Flat) => {}
            Ok(Outcome::NotFlat) => code = ExitCode::FAILURE,
            Ok(Outcome::Interrupted) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("soak: {}: {error:#}", part.name());
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
