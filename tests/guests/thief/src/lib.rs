//! A discoverer that collects everything it can read: its memory at the start, the result of every import for every key
//! and name that it can guess, and its memory at the end. It returns them as the state of the answer, since a state may be
//! any bytes.
//!
//! With `hoard` it does the opposite: it fills memory and stack with a text that the next guest must not find.

#![allow(clippy::panic, reason = "its configuration can make it panic")]

mod memory;

use std::fmt::Write;
use std::hint::black_box;
use std::io::Read as _;

use topoloom_sdk::http::{Request, Response};
use topoloom_sdk::prelude::*;
use topoloom_sdk::{Credential, Outcome, log};

struct Thief;

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Label keys that it asks for.
    ask: Vec<String>,
    /// Endpoints that it asks for, with any credential there is.
    endpoints: Vec<String>,
    /// Keys and names that it guesses.
    guesses: Vec<String>,
    /// Whether it calls what shows names of Nodes.
    names: bool,
    /// How far it grows its memory before it reads it, MiB.
    grow: usize,
    /// The text that it fills that much memory with instead.
    hoard: Option<String>,
    /// How it ends: with an answer, or by `crash` or `loop`.
    end: String,
}

impl Default for Config {
    fn default() -> Self {
        let (ask, endpoints, guesses) = (Vec::new(), Vec::new(), Vec::new());
        Self { ask, endpoints, guesses, names: false, grow: 1, hoard: None, end: String::new() }
    }
}

impl Discoverer for Thief {
    type Config = Config;

    fn describe() -> Description {
        Description::new("thief", "0.1.0").vendor("topoloom").summary("Brings home what it can read")
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let wants =
            config.ask.iter().fold(Requirements::new(), |wants, key| wants.node_label(key).node_annotation(key));
        let kinds = [Credential::Token, Credential::Bearer, Credential::Basic, Credential::Mtls];
        let endpoint = |name: &String| Endpoint::new(name, "To be read").credentials(kinds);
        Ok(config.endpoints.iter().map(endpoint).fold(wants, Requirements::endpoint))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let hoard = config.hoard.as_ref().map(|text| memory::fill(text.as_bytes(), config.grow));
        let mut loot = memory::dump(config.grow);
        loot.extend(seen(config, input).into_bytes());
        loot.extend(memory::dump(config.grow));
        match config.end.as_str() {
            "crash" => panic!("crashes as configured"),
            "loop" => loop {
                black_box(&hoard);
            },
            _ => {}
        }
        black_box(hoard);
        Ok(Answer { outcome: Outcome::Topology(TopologyBuilder::new().finish()), state: loot })
    }
}

topoloom_plugin!(Thief);

/// The whole content of an answer.
fn all(mut response: Response) -> String {
    let headers = ["location", "x-echo", "set-cookie", "www-authenticate", "content-type", "etag"];
    let headers: Vec<_> = headers.iter().map(|name| response.header(name)).collect();
    let mut body = Vec::new();
    let end = response.read_to_end(&mut body);
    format!("{} {headers:?} {} {end:?}", response.status(), String::from_utf8_lossy(&body))
}

/// The result of every import.
fn seen(config: &Config, input: &Input<'_>) -> String {
    let mut text = format!("{} rows of generation {}\n", input.nodes.rows(), input.nodes.generation());
    for guess in &config.guesses {
        let (label, annotation) = (input.nodes.label(guess), input.nodes.annotation(guess));
        let credential = input.http.credential_of(guess);
        let _ = writeln!(text, "{guess}: {label:?} {annotation:?} {credential:?}");
        for path in ["/", "/echo", "/redirect", "/header", "/broken", "/../x"] {
            let _ = match input.http.send(&Request::get(guess, path)) {
                Ok(response) => writeln!(text, "{path}: {}", all(response)),
                Err(error) => writeln!(text, "{path}: {error:?}"),
            };
        }
    }
    if config.names {
        let _ = writeln!(text, "{:?} {:?}", input.nodes.names(), input.nodes.find(&config.guesses));
    }
    let _ = writeln!(text, "{:?} {:?} {}", input.applied.groups(), input.state, input.time);
    log::debug("it has looked at everything");
    text
}
