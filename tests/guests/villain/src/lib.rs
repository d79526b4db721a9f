//! A discoverer that misbehaves on demand, as `{"configure": ACT}` and `{"discover": ACT}` say. `describe` has no
//! argument, so its act is a text in the file that a test overwrites.
//!
//! The tests build it from source, so that it always has the current interface.

#![allow(clippy::panic, reason = "its configuration can make it panic")]

use std::hint::black_box;

use topoloom_sdk::prelude::*;
use topoloom_sdk::{
    Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Level, Members, Outcome, Packed, Tls, Topology,
    log,
};

/// What `describe` does: `describe=good` or `describe=loop`. A test replaces the bytes.
static DESCRIBE: [u8; 13] = *b"describe=good";

/// The label that it groups by where it behaves.
const RACK: &str = "example.com/rack";

struct Villain;

#[derive(serde::Deserialize)]
struct Config {
    #[serde(default)]
    configure: String,
    #[serde(default)]
    discover: String,
}

impl Discoverer for Villain {
    type Config = Config;

    fn describe() -> Description {
        if black_box(&DESCRIBE).ends_with(b"loop") {
            forever();
        }
        Description::new("villain", "0.1.0").vendor("topoloom").summary("Misbehaves on demand")
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        match config.configure.as_str() {
            "loop" => forever(),
            "panic" => panic!("configure panics as configured"),
            "problems" => {
                let problem = |path: &str, message: &str| Problem { path: path.into(), message: message.into() };
                return Err(vec![problem("a.b[0]", "is 7 and must be 8"), problem("", "is odd")]);
            }
            "many-problems" => {
                let problem = Problem { path: "a\nb".into(), message: "\u{1b}[2J".repeat(1_000) };
                return Err(vec![problem; 500]);
            }
            "many-labels" => {
                let labels = (0..100_000).map(|i| format!("example.com/{i}"));
                return Ok(Requirements { node_labels: labels.collect(), ..Requirements::new() });
            }
            "many-endpoints" => {
                let endpoints = (0..17).map(|i| Endpoint::new(&i.to_string(), "to be too many"));
                return Ok(Requirements { endpoints: endpoints.collect(), ..Requirements::new() });
            }
            "long-bundle" => {
                let tls = Tls { ca_bundle: Some("x".repeat(2 << 20)), server_name: None, insecure_skip_verify: false };
                return Ok(Requirements::new().endpoint(Endpoint::new("a", "to be too long").tls(tls)));
            }
            "no-label" => return Ok(Requirements::new().node_label("no label\nat all")),
            _ => {}
        }
        Ok(Requirements::new().node_label(RACK).trigger(Trigger::on_columns()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let topology = match config.discover.as_str() {
            "loop" => forever(),
            "panic" => panic!("discover panics as configured"),
            "grow" => grow(),
            "recurse" => recurse(),
            "recurse-deep" => Next(deeper).go(1),
            "internal" => return Err(Failure::Internal("as configured".into())),
            "shout" => return Err(Failure::Internal("\u{1b}[2J\n".repeat(1 << 20))),
            "unchanged" => return Ok(Answer { outcome: Outcome::Unchanged, state: Vec::new() }),
            "state" => return Ok(Answer { outcome: Outcome::Topology(good(input)), state: vec![1; 9 << 20] }),
            "remember" => {
                let state = input.state.iter().copied().chain([7]).collect();
                return Ok(Answer { outcome: Outcome::Topology(good(input)), state });
            }
            "flood" => {
                (0..1_000).for_each(|line| log::info(&format!("line {line}")));
                good(input)
            }
            "long-line" => {
                log::info(&"x".repeat(10_000));
                good(input)
            }
            "secret-label" => {
                let seen = input.nodes.label("example.com/secret").by_value().len();
                assert_eq!(seen, 0, "a label that was not granted");
                good(input)
            }
            act => answer(act, input),
        };
        Ok(topology.into())
    }
}

topoloom_plugin!(Villain);

/// Answers that are wrong in one way each.
fn answer(act: &str, input: &Input<'_>) -> Topology {
    match act {
        "giant" => with(vec![group("giant", names("x".repeat(80 << 20), vec![80 << 20]))]),
        "row" => with(vec![group("a", Members::Rows(vec![0, input.nodes.rows()]))]),
        "level" => with(vec![Group { level: 7, ..group("a", rows()) }]),
        "position" => with(vec![group("a", Members::Groups(vec![1]))]),
        "offsets" => with(vec![group("a", names("abcd".into(), vec![3, 1, 4]))]),
        "boundary" => with(vec![group("a", names("é".into(), vec![1, 2]))]),
        "rest" => with(vec![group("a", names("abcd".into(), vec![2]))]),
        "groups" => with((0..1_000).map(|i| group(&i.to_string(), rows())).collect()),
        "diagnostics" => {
            let note = Diagnostic { code: "x".into(), subject: Subject::Source, detail: String::new() };
            Topology { diagnostics: vec![note; 10_001], ..with(Vec::new()) }
        }
        // Cheap for the guest and expensive for the host.
        "long-key" => with(vec![group("a", selector("x".repeat(30 << 20), vec!["!".into(); 100]))]),
        "values" => with(vec![group("a", selector("x".into(), vec!["!".into(); 1_000_000]))]),
        "requirements" => {
            let label = |i: u32| (format!("example.com/{i}"), String::new());
            let match_labels = (0..20_000).map(label).collect();
            with(vec![group("a", Members::Selector(LabelSelector { match_labels, match_expressions: Vec::new() }))])
        }
        "labels" => {
            let labels = (0..30_000).map(|i| (format!("example.com/{i}"), String::new())).collect();
            with(vec![Group { labels, ..group("a", rows()) }])
        }
        "nobodies" => with(vec![group("a", names(String::new(), vec![0; 8_000_000]))]),
        "same-row" => {
            let subject = Subject::Rows(vec![0; 8_000_000]);
            let note = Diagnostic { code: "x".into(), subject, detail: String::new() };
            Topology { diagnostics: vec![note], ..with(Vec::new()) }
        }
        "long-kind" => {
            let level = Level::new(1).kind(&"k".repeat(30 << 20));
            Topology { levels: vec![level], ..with(vec![group("a", rows())]) }
        }
        "long-detail" => {
            let detail = "\u{202e}\n".repeat(1 << 20);
            let note = Diagnostic { code: "x".into(), subject: Subject::Name(detail.clone()), detail };
            Topology { diagnostics: vec![note], ..with(vec![group("a", rows())]) }
        }
        // These are well-formed and invalid: the validation of topologies refuses them, not the sandbox.
        "twice" => with(vec![group("a", rows()), group("a", rows())]),
        "cycle" => with(vec![group("a", Members::Groups(vec![1])), group("b", Members::Groups(vec![0]))]),
        "parents" => {
            let parent = |id| Group { level: 1, ..group(id, Members::Groups(vec![0])) };
            with(vec![group("a", rows()), parent("b"), parent("c")])
        }
        "tier-zero" => Topology { levels: vec![Level::new(0)], ..with(vec![group("a", rows())]) },
        _ => good(input),
    }
}

fn good(input: &Input<'_>) -> Topology {
    let column = input.nodes.label(RACK);
    let mut topology = TopologyBuilder::new();
    let racks = topology.level(Level::new(1).named("rack"));
    for (rack, rows) in column.by_value() {
        topology.group(racks, rack).label(RACK, rack).rows(rows);
    }
    topology.finish()
}

fn with(groups: Vec<Group>) -> Topology {
    Topology { levels: vec![Level::new(1), Level::new(2)], groups, ..TopologyBuilder::new().finish() }
}

fn group(id: &str, members: Members) -> Group {
    Group { id: id.into(), level: 0, labels: Vec::new(), members, description: None, fixed_name: None }
}

fn rows() -> Members {
    Members::Rows(vec![0])
}

fn selector(key: String, values: Vec<String>) -> Members {
    let requirement = LabelRequirement { key, operator: LabelOperator::In, values };
    Members::Selector(LabelSelector { match_labels: Vec::new(), match_expressions: vec![requirement] })
}

fn names(text: String, ends: Vec<u32>) -> Members {
    Members::Names(Packed { text, ends })
}

fn forever() -> ! {
    loop {
        black_box(());
    }
}

fn grow() -> ! {
    let mut hoard = Vec::new();
    loop {
        hoard.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Fills the guest's own stack in linear memory.
#[allow(unconditional_recursion, reason = "that is the point")]
fn recurse() -> ! {
    let frame = [1_u8; 1 << 10];
    black_box(&frame);
    recurse()
}

/// A function that calls itself in a way that the compiler cannot see through, with nothing on the stack in linear
/// memory: fills the engine's stack.
struct Next(fn(u64, &Next) -> u64);

impl Next {
    fn go(&self, depth: u64) -> Topology {
        let reached = (black_box(self).0)(depth, self);
        with(vec![group(&reached.to_string(), rows())])
    }
}

fn deeper(depth: u64, next: &Next) -> u64 {
    (next.0)(depth + 1, next).rotate_left(7) ^ depth
}
