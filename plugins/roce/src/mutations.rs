//! What comes from outside, broken in every way that a generator thinks of: nothing may panic, and nothing may grow
//! beyond what is written beside it. The seeds lie in `seeds/`; the same broken texts are made in every run.

use crate::document::{Entry, MAX_LINKS, Role, Rules, Sheet, Speaker, page};
use crate::fabrics::{NOW, annotated, nodes, round, serve};
use crate::lldp::{self, Protocols};
use std::io::Read;
use topoloom_sdk::Outcome;
use topoloom_sdk::json::Value;
use topoloom_sdk::testing::Reply;

/// Broken texts per seed and test; a whole run takes a few seconds.
const ROUNDS: usize = 1500;
/// No seed grows beyond this.
const MAX_TEXT: usize = 64 * 1024;
/// Pieces that break readers.
const PIECES: [&str; 22] = [
    "null",
    "{}",
    "[]",
    "[",
    "{",
    "]",
    "}",
    "\"",
    ",",
    ":",
    "-1",
    "1e999",
    "NaN",
    "true",
    "\"\"",
    "\"\\ud800\"",
    "\\u0000",
    "18446744073709551616",
    "\"name\"",
    "\"value\"",
    "\"lldp\"",
    "\"switch\"",
];
const ENTRIES: [&str; 1] = [include_str!("../seeds/entry.json")];
const BODIES: [&str; 1] = [include_str!("../seeds/document.json")];
const OUTPUTS: [&str; 9] = [
    include_str!("../seeds/two-interfaces.json0"),
    include_str!("../seeds/two-interfaces.json"),
    include_str!("../seeds/one-interface.json"),
    include_str!("../seeds/two-neighbours.json0"),
    include_str!("../seeds/two-neighbours.json"),
    include_str!("../seeds/summary.json0"),
    include_str!("../seeds/station.json0"),
    include_str!("../seeds/no-neighbour.json0"),
    include_str!("../seeds/no-neighbour.json"),
];

/// Numbers that are the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let begin = self.below(length + 1);
        begin..(begin + self.below(200)).min(length)
    }
}

/// One to eight accidents.
fn broken(seed: &str, other: &str, dice: &mut Dice) -> Vec<u8> {
    let mut text = seed.as_bytes().to_vec();
    for _ in 0..=dice.below(8) {
        let at = dice.below(text.len() + 1);
        match dice.below(7) {
            0 if at < text.len() => text[at] = dice.below(256) as u8,
            1 => drop(text.drain(dice.range(text.len()))),
            2 => {
                let copy = text[dice.range(text.len())].to_vec();
                drop(text.splice(at..at, copy));
            }
            3 => {
                let piece = PIECES[dice.below(PIECES.len())];
                let range = dice.range(text.len());
                drop(text.splice(range, piece.bytes()));
            }
            4 => {
                let piece = PIECES[dice.below(PIECES.len())];
                drop(text.splice(at..at, piece.bytes()));
            }
            5 => {
                let copy = other.as_bytes()[dice.range(other.len())].to_vec();
                drop(text.splice(at..at, copy));
            }
            _ => text.truncate(at),
        }
        text.truncate(MAX_TEXT);
    }
    text
}

fn each(seeds: &[&str], mut check: impl FnMut(&[u8])) {
    let mut dice = Dice(0x5eed_0000_0000_0001);
    for seed in seeds {
        check(seed.as_bytes());
        for _ in 0..ROUNDS {
            let other = seeds[dice.below(seeds.len())];
            check(&broken(seed, other, &mut dice));
        }
    }
}

fn rules() -> Rules {
    let roles = Role::ALL.map(|(_, role)| role).to_vec();
    Rules { include: Vec::new(), exclude: Vec::new(), roles, protocols: Protocols::LldpAndCdp }
}

fn check_entry(text: &[u8]) {
    for speaker in [Speaker::Node("n1"), Speaker::Document] {
        if let Ok(entry) = Entry::parse(text, speaker, &rules()) {
            assert!(entry.links.len() <= MAX_LINKS);
            assert!(entry.notes.len() <= 8, "{:?}", entry.notes);
            let mut sheet = Sheet::default();
            sheet.add("n1", entry).unwrap();
            assert!(sheet.notes.iter().all(|note| note.detail.len() <= 500));
        }
    }
}

#[test]
fn broken_annotations_do_not_panic() {
    each(&ENTRIES, check_entry);
}

#[test]
fn broken_output_of_lldpcli_does_not_panic() {
    each(&OUTPUTS, |text| {
        let Ok(value) = std::str::from_utf8(text).map_err(|_| ()).and_then(|text| Value::parse(text).map_err(|_| ()))
        else {
            return;
        };
        if let Ok(neighbours) = lldp::read(&value) {
            assert!(neighbours.len() <= 256);
            for protocols in [Protocols::Lldp, Protocols::LldpAndCdp] {
                assert!(lldp::decide(neighbours.clone(), protocols).len() <= neighbours.len());
            }
        }
    });
}

#[test]
fn broken_output_inside_of_entries_does_not_panic() {
    let entries: Vec<String> = OUTPUTS
        .iter()
        .map(|output| {
            format!(r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "lldpcli": {output}}}"#)
        })
        .collect();
    each(&entries.iter().map(String::as_str).collect::<Vec<_>>(), check_entry);
}

#[test]
fn broken_bodies_do_not_panic_and_stay_small() {
    each(&BODIES, |text| {
        let mut sheet = Sheet::default();
        let _ = page(text, &rules(), &mut sheet);
        assert!(sheet.hosts.len() + sheet.switches.len() + sheet.bad <= text.len());
        assert!(sheet.seen.len() <= sheet.hosts.len() * MAX_LINKS);
    });
}

#[test]
fn whole_rounds_over_broken_documents_do_not_panic() {
    let mut dice = Dice(7);
    for _ in 0..ROUNDS / 5 {
        let [body, entry] = [BODIES[0], ENTRIES[0]].map(|seed| broken(seed, OUTPUTS[0], &mut dice));
        let cluster = annotated(&[("n1", String::from_utf8_lossy(&entry).into_owned())]).node("n2", []);
        let (cluster, _) = serve(cluster, "fabric", move |_, _| Reply::new(200, body.clone()));
        let config = r#"{"carriers": ["http", "annotation"], "endpoint": "f"}"#;
        if let Ok(answer) = round(&cluster, config)
            && let Outcome::Topology(topology) = &answer.outcome
        {
            assert!(topology.groups.len() <= 4, "{}", cluster.show(&answer));
            // What it kept is read again, and changes nothing.
            let again = cluster.state(answer.state.clone());
            assert!(round(&again, config).is_ok_and(|again| again.outcome == Outcome::Unchanged));
        }
    }
}

/// A document that begins like one and never ends, cut after so many bytes.
fn endless(begin: &str, repeated: &'static str, bytes: u64) -> impl Read {
    struct Again(&'static str, usize);
    impl Read for Again {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            for byte in buffer.iter_mut() {
                *byte = self.0.as_bytes()[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(buffer.len())
        }
    }
    std::io::Cursor::new(begin.as_bytes().to_vec()).chain(Again(repeated, 0)).take(bytes)
}

#[test]
fn endless_bodies_end_in_an_error_and_little_memory() {
    const MIB: u64 = 1024 * 1024;
    for (begin, repeated, bytes) in [
        (r#"{"nodes": ["#, "7,", 2 * MIB),
        (r#"{"nodes": ["#, "{},", 2 * MIB),
        (r#"{"nodes": ["#, "[", 6 * MIB),
        (r#"{"nodes": ["#, "1", 6 * MIB),
        (r#"{"nodes": [""#, "x", 6 * MIB),
        (r#"{"x": "#, "[", 6 * MIB),
        (r#"{"x": ""#, "\\", 6 * MIB),
        (r#"{"switches": ["#, r#"{"id": "a"},"#, 2 * MIB),
        ("", " ", MIB),
    ] {
        let mut sheet = Sheet::default();
        assert!(page(endless(begin, repeated, bytes), &rules(), &mut sheet).is_err(), "{begin}{repeated}");
        assert!(sheet.notes.len() <= 2000 && sheet.switches.len() <= 50_000, "{begin}{repeated}");
    }
    let one = r#"{"node":"n","observedAt":"2026-03-04T05:06:07Z","links":[]},"#;
    let mut sheet = Sheet::default();
    let error = page(endless(r#"{"nodes": ["#, one, 10 * MIB), &rules(), &mut sheet).unwrap_err();
    assert!(error.contains("more than 100000 nodes"), "{error}");
}

#[test]
fn problems_of_thousands_of_nodes_are_reported_in_few_sentences() {
    let broken: Vec<String> =
        (0..20_000).map(|number| format!(r#"{{"node": "h{number}", "observedAt": "{number}"}}"#)).collect();
    let good: Vec<String> = (0..20_000)
        .map(|number| {
            let links: String = (0..number % 900).take(1).map(|_| format!(r#"{{"if": "rdma{number}"}}"#)).collect();
            format!(r#"{{"node": "n{number}", "observedAt": "2026-03-04T05:06:07Z", "links": [{links}]}}"#)
        })
        .collect();
    for (list, fails) in [(broken, true), (good, false)] {
        let names: Vec<String> = (0..20_000).map(|number| format!("n{number}")).collect();
        let cluster = nodes(&names.iter().map(String::as_str).collect::<Vec<_>>()).at(NOW);
        let text = crate::fabrics::body(&list, "");
        let (cluster, _) = serve(cluster, "fabric", move |_, _| Reply::new(200, text.clone()));
        match round(&cluster, r#"{"endpoint": "f"}"#) {
            Ok(answer) => {
                let Outcome::Topology(topology) = &answer.outcome else { panic!("unchanged") };
                assert!(!fails && topology.diagnostics.len() < 1000, "{}", topology.diagnostics.len());
                assert!(answer.state.len() < 8 * 1024 * 1024);
            }
            Err(_) => assert!(fails),
        }
    }
}
