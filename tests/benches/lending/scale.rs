//! How large the clusters are and how long each row lasts: by the environment, since `make bench` gives no arguments.
//!
//! | variable | what it sets |
//! |---|---|
//! | `LENDING_ROWS=idle,start` | the rows; without it all, or those of the command line |
//! | `LENDING_NODES=300` | the machines of counting runs, and the most of timing runs; pods follow |
//! | `LENDING_SECONDS=60` | how long the idle run lasts, and the most of each stream of pods |
//! | `SIZE=full` | 100 000 pods where it is 30 000 otherwise |
//! | `LENDING_NAIVE=off` | leaves out the naive mode |
//! | `LENDING_BEATS=status` | the machines write their status and no leases, which no program of lending looks at: half of the writes |

use std::time::Duration;

use anyhow::{Context, Result, bail};
use topoloom_tests::lending::kubelets::Beats;

use crate::options::Options;

/// Machines of counting runs, and of timing runs.
const COUNTED: u32 = 5_000;
const TIMED: u32 = 1_000;
/// Physical pods per machine of the start: 30 000 and 100 000 on 5 000. Of a timing run: 10 000 on 1 000.
const PODS: u32 = 6;
const FULL_PODS: u32 = 20;
const TIMED_PODS: u32 = 10;
/// How long the idle run lasts, and a stream of pods.
const IDLE: Duration = Duration::from_secs(600);
const STREAM: Duration = Duration::from_secs(60);

/// How many pods there are at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Usual,
    Full,
}

/// Whether the naive mode is measured, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naive {
    Measured,
    LeftOut,
}

/// All of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Machines of counting runs.
    pub(crate) counted: u32,
    /// Machines of timing runs.
    pub(crate) timed: u32,
    /// Physical pods at the start, and in timing runs.
    pub(crate) pods: u32,
    pub(crate) timed_pods: u32,
    /// How long the idle run lasts, and a stream of pods.
    pub(crate) idle: Duration,
    pub(crate) stream: Duration,
    pub(crate) size: Size,
    pub(crate) naive: Naive,
    /// What the machines write.
    pub(crate) beats: Beats,
}

impl Scale {
    pub(crate) fn read(options: &Options) -> Result<Self> {
        let nodes = number("LENDING_NODES")?.unwrap_or(COUNTED);
        let counted = options.nodes(&[nodes]).into_iter().max().unwrap_or(nodes);
        let seconds = number("LENDING_SECONDS")?.map(|seconds| Duration::from_secs(seconds.into()));
        let size = match word("SIZE").as_str() {
            "" => Size::Usual,
            "full" => Size::Full,
            other => bail!("SIZE must be full, or absent, got {other:?}"),
        };
        let naive = match word("LENDING_NAIVE").as_str() {
            "" => Naive::Measured,
            "off" => Naive::LeftOut,
            other => bail!("LENDING_NAIVE must be off, or absent, got {other:?}"),
        };
        let beats = match word("LENDING_BEATS").as_str() {
            "" => Beats::All,
            "status" => Beats::Status,
            other => bail!("LENDING_BEATS must be status, or absent, got {other:?}"),
        };
        let timed = counted.min(TIMED);
        let per_node = if size == Size::Full { FULL_PODS } else { PODS };
        Ok(Self {
            counted,
            timed,
            pods: counted * per_node,
            timed_pods: timed * TIMED_PODS,
            idle: seconds.unwrap_or(IDLE),
            stream: seconds.unwrap_or(STREAM).min(STREAM),
            size,
            naive,
            beats,
        })
    }
}

/// The rows that the environment names, as arguments.
pub(crate) fn rows() -> Vec<String> {
    word("LENDING_ROWS").split(',').map(str::trim).filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

fn word(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn number(name: &str) -> Result<Option<u32>> {
    let text = word(name);
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.trim().parse().ok().filter(|number: &u32| *number > 0);
    number.map(Some).with_context(|| format!("{name} must be a whole number above 0, got {text:?}"))
}
