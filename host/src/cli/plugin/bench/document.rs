//! What was measured, for a pipeline that compares two versions. Whole numbers: two equal measures are equal texts.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::plugin::Amount;
use topoloom_workshop::bench::{Bench, Size, Spread};
use topoloom_workshop::rounds::shares::Share;

use crate::cli::output::Document;
use crate::plugin::Digest;

/// What a plugin takes, by the number of nodes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Benched {
    file: String,
    /// `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// Elapsed microseconds from the bytes to a plugin that can be called.
    load_micros: u64,
    /// Processor time of the compiler; 0 for a plugin that brings its image.
    compile_cpu_micros: u64,
    /// The same for the second compile, with optimisation.
    optimise_cpu_micros: u64,
    /// An instance.
    instantiate: Times,
    /// `configure`, its instance included.
    configure: Times,
    /// Shares of limits that do not depend on the nodes.
    limits: Vec<LimitShare>,
    /// One for each number of nodes, as far as it came.
    sizes: Vec<SizeMeasure>,
}

impl Document for Benched {
    const KIND: &'static str = "PluginBench";
}

/// Times of the same thing.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Times {
    /// How often it was measured.
    count: usize,
    median_micros: u64,
    p99_micros: u64,
}

/// What was used of a limit.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LimitShare {
    /// The word of the limit, as in metrics.
    limit: String,
    /// `bytes`, `count` or `micros`.
    unit: &'static str,
    used: u64,
    most: u64,
    /// Rounded up.
    percent: u64,
}

/// One number of nodes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SizeMeasure {
    nodes: usize,
    /// Groups of the answer.
    groups: usize,
    /// One round.
    round: Times,
    /// The most memory of a round, bytes.
    peak_memory: usize,
    /// The largest shares of a round.
    limits: Vec<LimitShare>,
    /// Why it was not measured to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Benched {
    /// The document of a measure.
    pub(super) fn of(file: String, digest: &Digest, bench: &Bench) -> Self {
        Self {
            file,
            digest: digest.to_string(),
            load_micros: micros(bench.compile.wall),
            compile_cpu_micros: micros(bench.compile.cpu),
            optimise_cpu_micros: micros(bench.compile.optimised),
            instantiate: times(bench.instantiate),
            configure: times(bench.configure),
            limits: bench.shares.iter().map(share).collect(),
            sizes: bench.sizes.iter().map(size).collect(),
        }
    }
}

fn size(size: &Size) -> SizeMeasure {
    SizeMeasure {
        nodes: size.nodes,
        groups: size.groups,
        round: times(size.round),
        peak_memory: size.peak_memory,
        limits: size.shares.iter().map(share).collect(),
        error: size.ended.as_ref().map(ToString::to_string),
    }
}

fn times(Spread { count, median, p99 }: Spread) -> Times {
    Times { count, median_micros: micros(median), p99_micros: micros(p99) }
}

fn share(share: &Share) -> LimitShare {
    let number = |amount: Amount| match amount {
        Amount::Time(time) => micros(time),
        other => other.number(),
    };
    let unit = match share.most {
        Amount::Time(_) => "micros",
        Amount::Bytes(_) => "bytes",
        _ => "count",
    };
    let (used, most) = (number(share.used), number(share.most));
    let percent = match (used, most) {
        (0, _) => 0,
        (_, 0) => 100,
        (used, most) => used.saturating_mul(100).div_ceil(most),
    };
    LimitShare { limit: share.limit.word().to_owned(), unit, used, most, percent }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_whole_and_have_a_unit() {
        let document = Benched::of("racks.wasm".into(), &Digest::of(b"x"), &super::super::tests::bench());
        let said = serde_json::to_value(&document).unwrap();
        assert_eq!(said["loadMicros"], json!(48_000));
        let size = &said["sizes"][0];
        assert_eq!(size["round"], json!({"count": 200, "medianMicros": 612, "p99Micros": 1_840}));
        let limits = size["limits"].as_array().unwrap();
        let memory = limits.iter().find(|limit| limit["limit"] == "memory").unwrap();
        let wanted = json!({"limit": "memory", "unit": "bytes", "used": 3 << 20, "most": 256 << 20, "percent": 2});
        assert_eq!(memory, &wanted);
        assert_eq!(size.get("error"), None);
    }
}
