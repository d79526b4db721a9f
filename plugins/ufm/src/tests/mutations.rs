//! Lists and documents that are cut, patched and shuffled: an answer or an error comes out, never a panic.
//!
//! Bounded and repeatable: the seeds are files, the changes follow from a number.

use super::net::beside;
use crate::Ufm;
use topoloom_sdk::Failure;
use topoloom_sdk::json::{Elements, Members};
use topoloom_sdk::testing::Reply;

const PORTS: &[u8] = include_bytes!("../../tests/seeds/ports.json");
const LINKS: &[u8] = include_bytes!("../../tests/seeds/links.json");
const SYSTEMS: &[u8] = include_bytes!("../../tests/seeds/systems.json");
const PAGE: &[u8] = include_bytes!("../../tests/seeds/page.json");
const VERSIONING: &[u8] = include_bytes!("../../tests/seeds/versioning.json");
/// What breaks readers of JSON.
const TOKENS: [&[u8]; 24] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\ud800",
    b"\\u0000",
    b"\xff\xfe",
    b"\xe2\x80\x8b",
    b"  ",
    b"\n",
    b"0x",
    b"\"peer\": ",
    b"N/A",
    b"-1",
    b"{\"data\":[",
    b"_",
];
const ROUNDS: u64 = 1500;

/// Marsaglia's xorshift: the same changes on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    fn change(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut text = seed.to_vec();
        for _ in 0..=self.roll(6) {
            let at = self.roll(text.len());
            match self.roll(6) {
                0 => text.truncate(at),
                1 if at < text.len() => text[at] = self.roll(256) as u8,
                2 => {
                    let end = (at + self.roll(40)).min(text.len());
                    text.drain(at..end);
                }
                3 => {
                    let piece = text[at..(at + self.roll(400)).min(text.len())].to_vec();
                    let to = self.roll(text.len());
                    text.splice(to..to, piece);
                }
                _ => {
                    let token = TOKENS[self.roll(TOKENS.len())];
                    text.splice(at..at, token.iter().copied());
                }
            }
        }
        text
    }
}

/// Rounds whose documents are changed where `changed` says so.
fn check(changed: &'static str, seed: &'static [u8], config: &str) {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ seed.len() as u64);
    let (mut good, mut bad) = (0, 0);
    let mut state = Vec::new();
    for _ in 0..ROUNDS {
        let body = dice.change(seed);
        let shown = String::from_utf8_lossy(&body).into_owned();
        let cluster = beside(["gpu-a017", "gpu-a018", "gpu-b001"], move |path| {
            let is = |part: &str| path.contains(part);
            let (part, whole) = match () {
                () if is("ports") => ("ports", PORTS),
                () if is("links") => ("links", LINKS),
                () if is("systems") => ("systems", SYSTEMS),
                () => ("versioning", VERSIONING),
            };
            Reply::new(200, if part == changed { body.clone() } else { whole.to_vec() })
        });
        match cluster.state(state.clone()).discover::<Ufm>(config) {
            Ok(answer) => {
                good += 1;
                assert!(answer.state.len() <= 8 * 1024 * 1024);
                state = if good % 3 == 0 { Vec::new() } else { answer.state };
            }
            Err(Failure::Upstream(_)) => bad += 1,
            Err(other) => panic!("{other:?} for {shown}"),
        }
    }
    assert!(good > ROUNDS / 50, "{changed}: {good} good, {bad} bad: the seed is broken");
}

#[test]
fn changed_ports_are_an_answer_or_an_error() {
    check("ports", PORTS, r#"{"endpoint": "ufm", "maxUnusable": 100}"#);
    check("ports", PAGE, r#"{"endpoint": "ufm", "maxUnusable": 100, "pageSize": 1000, "guidAnnotation": "x"}"#);
    check("ports", PORTS, r#"{"endpoint": "ufm", "compat": "volcano"}"#);
}

#[test]
fn changed_links_are_an_answer_or_an_error() {
    check("links", LINKS, r#"{"endpoint": "ufm", "maxUnusable": 100}"#);
}

#[test]
fn changed_counters_are_an_answer_or_an_error() {
    check("versioning", VERSIONING, r#"{"endpoint": "ufm"}"#);
}

#[test]
fn changed_systems_are_an_answer_or_an_error() {
    // The port has no owner: the list of systems decides.
    let ports = String::from_utf8(PORTS.to_vec()).unwrap().replace("Computer IB Port", "IB Port");
    let mut dice = Dice(7);
    for _ in 0..ROUNDS {
        let (systems, ports) = (dice.change(SYSTEMS), ports.clone());
        let cluster = beside(["gpu-a017"], move |path| match path {
            path if path.contains("ports") => Reply::new(200, ports.clone()),
            path if path.contains("systems") => Reply::new(200, systems.clone()),
            _ => Reply::new(404, ""),
        });
        match cluster.discover::<Ufm>(r#"{"endpoint": "ufm", "maxUnusable": 100}"#) {
            Ok(_) | Err(Failure::Upstream(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Gives its bytes in pieces of changing length.
struct Pieces<'a>(&'a [u8], usize);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let length = self.0.len().min(buffer.len()).min(self.1);
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

type Record = Option<Vec<(Vec<u8>, Vec<u8>)>>;

fn collect(members: &mut Members<'_>) -> Record {
    members.map(|member| member.ok().map(|(key, value)| (key.to_vec(), value.bytes().to_vec()))).collect()
}

#[test]
fn records_are_the_same_read_in_one_pass_or_in_two() {
    let mut dice = Dice(11);
    for seed in [PORTS, LINKS, PAGE] {
        for _ in 0..ROUNDS {
            let text = dice.change(seed);
            let mut one: Vec<Record> = Vec::new();
            let mut elements = Elements::new(Pieces(&text, 0), "data");
            let first = loop {
                match elements.next_members(collect) {
                    Ok(Some(record)) => one.push(record),
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            let mut two: Vec<Record> = Vec::new();
            let mut elements = Elements::new(&text[..], "data");
            let second = loop {
                match elements.next() {
                    Ok(Some(element)) => {
                        two.push(Members::of(element).ok().and_then(|mut members| collect(&mut members)))
                    }
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            assert_eq!((first, one), (second, two), "{}", String::from_utf8_lossy(&text));
        }
    }
}
