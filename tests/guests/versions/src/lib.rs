//! One discoverer in many versions: its act and its version are bytes in the file that a test replaces, so that a new
//! version needs no compiler. It groups by the label `example.com/rack`.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "misbehaving is its trade")]

use std::hint::black_box;

use topoloom_sdk::prelude::*;
use topoloom_sdk::{Level, Outcome, Topology};

/// What it does, padded with blanks:
///
/// | act | |
/// |---|---|
/// | `good` | one group per rack |
/// | `some` | the same for six of ten nodes |
/// | `tall` | the same, and a group above all racks |
/// | `third` | good twice, and a crash in the third round |
/// | `crash` | a crash in every round |
/// | `loop` | a round that never ends |
/// | `slow` | good, after a while of computing |
/// | `deaf` | `describe` never ends |
/// | `picky` | it accepts no configuration |
/// | `greedy` | asks for a label that is not granted |
static ACT: [u8; 14] = *b"act=good      ";

/// The version that `describe` returns.
static VERSION: [u8; 13] = *b"version=1.0.0";

const RACK: &str = "example.com/rack";

struct Versions;

#[derive(serde::Deserialize)]
struct Config {}

fn act() -> String {
    let bytes = black_box(ACT);
    String::from_utf8_lossy(&bytes[4..]).trim_end().to_owned()
}

impl Discoverer for Versions {
    type Config = Config;

    fn describe() -> Description {
        if act() == "deaf" {
            forever();
        }
        let version = black_box(VERSION);
        let version = String::from_utf8_lossy(&version[8..]).into_owned();
        Description::new("versions", &version).vendor("topoloom").summary("Good and bad versions of one discoverer")
    }

    fn configure(_: &Config) -> Result<Requirements, Vec<Problem>> {
        match act().as_str() {
            "picky" => Err(vec![Problem { path: "label".into(), message: "is missing".into() }]),
            "greedy" => Ok(Requirements::new().node_label(RACK).node_label("example.com/secret")),
            _ => Ok(Requirements::new().node_label(RACK).trigger(Trigger::on_columns())),
        }
    }

    fn discover(_: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let round = input.state.first().copied().unwrap_or_default().saturating_add(1);
        let topology = match act().as_str() {
            "some" => racks(input, Above::Nothing, |row| row % 10 < 6),
            "tall" => racks(input, Above::All, |_| true),
            "third" if round >= 3 => panic!("the third round of this version crashes"),
            "crash" => panic!("this version crashes in every round"),
            "loop" => forever(),
            "slow" => {
                // About a second on a slow machine, in steps that no compiler can leave out.
                let mut sum = 0_u64;
                for step in 0..300_000_000_u64 {
                    sum = black_box(sum.wrapping_mul(31).wrapping_add(step));
                }
                racks(input, Above::Nothing, |_| true)
            }
            _ => racks(input, Above::Nothing, |_| true),
        };
        Ok(Answer { outcome: Outcome::Topology(topology), state: vec![round] })
    }
}

topoloom_plugin!(Versions);

/// The groups above the racks.
#[derive(Clone, Copy, PartialEq)]
enum Above {
    Nothing,
    All,
}

/// A group per rack, of the rows that are wanted.
fn racks(input: &Input<'_>, above: Above, wanted: impl Fn(u32) -> bool) -> Topology {
    let column = input.nodes.label(RACK);
    let mut topology = TopologyBuilder::new();
    let level = topology.level(Level::new(1).named("rack"));
    let mut racks = Vec::new();
    for (rack, rows) in column.by_value() {
        let rows: Vec<u32> = rows.into_iter().filter(|row| wanted(*row)).collect();
        if !rows.is_empty() {
            racks.push(topology.group(level, rack).label(RACK, rack).rows(rows));
        }
    }
    if above == Above::All && !racks.is_empty() {
        let level = topology.level(Level::new(2).named("room"));
        topology.group(level, "all").label(RACK, "all").groups(racks);
    }
    topology.finish()
}

fn forever() -> ! {
    loop {
        black_box(());
    }
}
