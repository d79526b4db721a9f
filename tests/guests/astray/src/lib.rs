//! A discoverer that is wrong in one way at a time: its act and its version are bytes in the file that a test replaces. It groups
//! nodes by a label, and again by an annotation; without an act it keeps every promise.
//!
//! It calls the same functions of the host in every act but `idle`, so that its list of imports is no finding of its own.

#![allow(clippy::panic, clippy::indexing_slicing, clippy::unwrap_used, reason = "misbehaving is its trade")]

use std::hint::black_box;

use serde_json::{Value, json};
use topoloom_sdk::prelude::*;
use topoloom_sdk::{FromJson, GroupBuilder, Outcome, Packed, Topology, log};

/// | act | what is wrong |
/// |---|---|
/// | `good` | nothing |
/// | `idle` | it imports a function that it never calls |
/// | `mute` | `describe` crashes |
/// | `name`, `version`, `summary` | no name, no version, two lines |
/// | `schema`, `schema-cases` | no schema, and one that refuses the case |
/// | `picky`, `fragile`, `lenient` | `configure` accepts nothing, crashes on other types, takes any type |
/// | `pathless`, `first` | problems without a path, the first mistake only |
/// | `sloppy`, `scan` | unknown keys are accepted, and text that is no JSON |
/// | `unchanged`, `tier` | `unchanged` from nothing; a tier that does not exist |
/// | `no-nodes`, `one-node`, `absent`, `half` | a crash over such nodes |
/// | `unused` | a group for a value that no node has |
/// | `long-values`, `long-names` | a label value that becomes too long |
/// | `chars` | takes ends of packed text for characters |
/// | `row-ids`, `generation`, `time` | ids from row numbers, from the generation, from the time |
/// | `rounds`, `state-cut` | counts rounds in its state, and indexes what it reads from it |
/// | `state-data`, `state-stale` | trusts a state of another version, answers `unchanged` to other nodes |
/// | `applied`, `size-ids`, `first-ids`, `mixed-ids` | ids that follow objects, sizes, one member, the label of one member |
/// | `fixed-names` | names that follow sizes |
/// | `many`, `slow`, `hoard`, `greedy`, `chatty` | over many nodes: crashes, never ends, takes memory, data, lines |
/// | `renamed`, `needs-pod` | of a swap: another name, a new key without a default |
/// | `asks-more`, `half-nodes` | of a swap: a new permission, half of the nodes |
/// | `other-ids` | not what its case expects |
static ACT: [u8; 20] = *b"act=good            ";

/// The version that `describe` returns.
static VERSION: [u8; 13] = *b"version=1.0.0";

const RACK: &str = "example.com/rack";
const SWITCH: &str = "example.com/switch";

/// From so many nodes on, the acts about many nodes are wrong.
const MANY: u32 = 1_000;

struct Astray;

struct Config {
    label: String,
    pod: Option<String>,
}

fn act() -> String {
    let bytes = black_box(&ACT);
    String::from_utf8_lossy(&bytes[4..]).trim_end().to_owned()
}

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        let act = act();
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) if act == "scan" && error.is_eof() && text.contains("label") => json!({"label": RACK}),
            Err(error) => return Err(vec![Problem::new("", error.to_string())]),
        };
        if act == "fragile" {
            assert!(value.is_object(), "a configuration is an object");
        }
        let Some(fields) = value.as_object() else { return Err(vec![Problem::new("", "must be an object")]) };
        let mut problems = Vec::new();
        let mut key = |name: &str, needed: bool| match fields.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) if act == "lenient" => Some(other.to_string()),
            None if !needed => None,
            other => {
                problems.push(Problem::new(name, format!("must be the key of a label, and is {other:?}")));
                None
            }
        };
        let label = key("label", true);
        let pod = key("pod", act == "needs-pod");
        let unknown = fields.keys().filter(|key| !["label", "pod"].contains(&key.as_str()) && act != "sloppy");
        problems.extend(unknown.map(|key| Problem::new(key.as_str(), format!("{key} is no key"))));
        match act.as_str() {
            "first" => problems.truncate(1),
            "pathless" => problems.iter_mut().for_each(|problem| problem.path = String::new()),
            "picky" => problems.push(Problem::new("label", "is never right")),
            _ => {}
        }
        match label {
            Some(label) if problems.is_empty() => Ok(Self { label, pod }),
            _ => Err(problems),
        }
    }
}

impl Discoverer for Astray {
    type Config = Config;

    fn describe() -> Description {
        let act = act();
        assert!(act != "mute", "it does not describe itself");
        let name = match act.as_str() {
            "name" => "Astray Racks",
            "renamed" => "astray-two",
            _ => "astray",
        };
        let version = black_box(&VERSION);
        let version = String::from_utf8_lossy(&version[8..]).into_owned();
        let version = if act == "version" { "1.0" } else { version.as_str() };
        let summary = if act == "summary" { "One group\nper rack" } else { "One group per rack" };
        let text = json!({"type": "string", "minLength": 1});
        let mut schema = json!({"type": "object", "required": ["label"], "properties": {"label": text, "pod": text}});
        match act.as_str() {
            "schema" => schema["type"] = json!("strnig"),
            "schema-cases" => schema["required"] = json!(["label", "row"]),
            _ => {}
        }
        Description::new(name, version).vendor("topoloom").summary(summary).config_schema(&schema.to_string())
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        let requirements = Requirements::new().node_label(&config.label).node_annotation(SWITCH);
        let requirements = config.pod.iter().fold(requirements, |requirements, pod| requirements.node_label(pod));
        let more = if act() == "asks-more" { requirements.node_annotation("example.com/more") } else { requirements };
        Ok(more.trigger(Trigger::on_columns()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let act = act();
        if act == "unchanged" || act == "state-stale" && input.state == [7] {
            return Ok(Answer { outcome: Outcome::Unchanged, state: input.state.to_vec() });
        }
        let round = Round::of(&act, config, input);
        round.trouble(input);
        Ok(Answer { outcome: Outcome::Topology(round.topology(input)), state: round.state() })
    }
}

topoloom_plugin!(Astray);

/// What is read of one round.
struct Round<'a> {
    act: &'a str,
    rows: u32,
    generation: u64,
    objects: usize,
    names: Vec<String>,
    label: Column,
    switches: Column,
    /// How many rounds there were, as far as the state says it.
    count: u8,
}

impl<'a> Round<'a> {
    fn of(act: &'a str, config: &Config, input: &Input<'_>) -> Self {
        let nodes = &input.nodes;
        let round = Self {
            act,
            rows: nodes.rows(),
            generation: nodes.generation(),
            objects: input.applied.groups().len(),
            names: nodes.names().iter().map(str::to_owned).collect(),
            label: nodes.label(&config.label),
            switches: nodes.annotation(SWITCH),
            count: input.state.first().copied().unwrap_or_default(),
        };
        if act != "idle" {
            let found = nodes.find(["elsewhere"]);
            log::debug(&format!("{} rows, {found:?}", round.rows));
        }
        if let Some(pod) = &config.pod {
            black_box(nodes.label(pod));
        }
        round
    }

    /// Everything that goes wrong before there is an answer.
    fn trouble(&self, input: &Input<'_>) {
        let codes = &self.label.codes;
        let (lacks, has) = (codes.contains(&0), codes.iter().any(|code| *code != 0));
        let is_large = self.rows >= MANY;
        match self.act {
            "no-nodes" => assert!(self.rows > 0, "there is a node"),
            "one-node" => assert!(self.rows != 1, "there are two nodes"),
            "absent" => assert!(self.rows == 0 || has, "some node has a rack"),
            "half" => assert!(!(lacks && has), "every node has a rack"),
            "state-cut" if !input.state.is_empty() => {
                black_box(u32::from_le_bytes(input.state[..4].try_into().unwrap()));
            }
            "many" => assert!(self.label.dictionary.len() <= 200, "200 racks are enough"),
            "slow" if is_large => loop {
                black_box(());
            },
            "hoard" if is_large => {
                black_box(vec![1_u8; self.rows as usize * (180 << 10)]);
            }
            "greedy" if is_large => (0..60).for_each(|_| drop(black_box(input.nodes.names()))),
            "chatty" if is_large => self.names.iter().for_each(|name| log::info(name)),
            _ => {}
        }
    }

    fn state(&self) -> Vec<u8> {
        match self.act {
            "rounds" => vec![self.count.saturating_add(1)],
            "state-cut" => vec![1, 2, 3, 4],
            "state-data" => vec![u8::try_from(self.label.by_value().len()).unwrap_or(u8::MAX)],
            "state-stale" => vec![7],
            _ => Vec::new(),
        }
    }

    fn topology(&self, input: &Input<'_>) -> Topology {
        let mut topology = TopologyBuilder::new();
        let tier = if self.act == "tier" { 99 } else { 1 };
        let racks = topology.level(Level::new(tier).named("rack"));
        let switches = topology.level(Level::new(2).named("switch"));
        for (rack, rows) in self.racks() {
            let group = topology.group(racks, self.id(&rack, &rows, input));
            self.labelled(group, &rack, &rows).rows(rows);
        }
        for (switch, rows) in self.switches() {
            topology.group(switches, format!("switch/{switch}")).rows(rows);
        }
        topology.finish()
    }

    /// The racks with their nodes, as the act sees them.
    fn racks(&self) -> Vec<(String, Vec<Row>)> {
        let column = &self.label;
        let mut racks: Vec<(String, Vec<Row>)> = match self.act {
            "unused" => {
                let rows = |code: u32| (0..self.rows).filter(|row| column.code(*row) == code).collect();
                (1..).zip(column.dictionary.iter()).map(|(code, rack)| (rack.to_owned(), rows(code))).collect()
            }
            _ => column.by_value().into_iter().map(|(rack, rows)| (rack.to_owned(), rows)).collect(),
        };
        if self.act == "state-data" && self.count > 0 {
            racks.truncate(self.count.into());
        }
        self.wanted(racks)
    }

    /// What is left of the groups where half of the nodes are not wanted.
    fn wanted(&self, mut groups: Vec<(String, Vec<Row>)>) -> Vec<(String, Vec<Row>)> {
        if self.act == "half-nodes" {
            let is_wanted = |row: &Row| self.name(*row).is_some_and(|name| name.ends_with(['1', '2', '3']));
            groups.iter_mut().for_each(|(_, rows)| rows.retain(is_wanted));
            groups.retain(|(_, rows)| !rows.is_empty());
        }
        groups
    }

    fn id(&self, rack: &str, rows: &[Row], input: &Input<'_>) -> String {
        let first = self.first(rows);
        match self.act {
            "row-ids" => rows.first().map(ToString::to_string).unwrap_or_default(),
            "generation" => format!("{rack}-{}", self.generation),
            "time" => format!("{rack}-{}", input.time),
            "rounds" => format!("{rack}-{}", self.count),
            "applied" if self.objects > 0 => format!("{rack}-written"),
            "size-ids" => format!("{rack}-{}", rows.len()),
            "first-ids" => first.and_then(|row| self.name(row)).unwrap_or_default().to_owned(),
            "mixed-ids" => format!("{rack}@{}", first.and_then(|row| self.switches.value(row)).unwrap_or_default()),
            "other-ids" => format!("rack-{rack}"),
            _ => rack.to_owned(),
        }
    }

    fn labelled<'g>(&self, group: GroupBuilder<'g>, rack: &str, rows: &[Row]) -> GroupBuilder<'g> {
        let value = if self.act == "long-values" { format!("rack-{rack}") } else { rack.to_owned() };
        let group = group.label(RACK, &value);
        let first = self.first(rows).and_then(|row| self.name(row)).unwrap_or_default();
        match self.act {
            "long-names" => group.label("example.com/first", first),
            "fixed-names" => group.fixed_name(&format!("hn-{rack}-{}", rows.len())),
            _ => group,
        }
    }

    /// The nodes of each switch. The act `chars` cuts the values out of their text by characters.
    fn switches(&self) -> Vec<(String, Vec<Row>)> {
        let Packed { text, ends } = &self.switches.dictionary;
        let mut begin = 0;
        let by_chars: Vec<String> = ends
            .iter()
            .map(|end| {
                let value = text.chars().skip(begin).take(*end as usize - begin).collect();
                begin = *end as usize;
                value
            })
            .collect();
        let cut = |(switch, rows): (&str, Vec<Row>)| match self.act {
            "chars" => {
                let code = rows.first().map_or(0, |row| self.switches.code(*row)) as usize;
                (by_chars.get(code.wrapping_sub(1)).cloned().unwrap_or_default(), rows)
            }
            _ => (switch.to_owned(), rows),
        };
        self.wanted(self.switches.by_value().into_iter().map(cut).collect())
    }

    /// The member whose name is the first one.
    fn first(&self, rows: &[Row]) -> Option<Row> {
        rows.iter().copied().min_by_key(|row| self.name(*row))
    }

    fn name(&self, row: Row) -> Option<&str> {
        self.names.get(row as usize).map(String::as_str)
    }
}
