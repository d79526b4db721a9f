//! The entry of one node: its cables, as a list of links or as the output of lldpcli.

use super::left_out::{LeftOut, Unused};
use super::{MAX_ENTRY, MAX_LINKS, Role, Rules, SCHEMA, State};
use crate::chassis::{self, SwitchClaim};
use crate::lldp::{self, Duty, Peer};
use crate::time;
use std::collections::BTreeMap;
use topoloom_sdk::json::Value;

/// Names in `upInterfaces` of one entry.
const MAX_INTERFACES: usize = 256;

/// The entry of a node, after the rules of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The node that it describes, where it names one.
    pub(crate) node: Option<String>,
    /// When it was observed, in milliseconds since 1970.
    pub(crate) observed: u64,
    /// The cables that count.
    pub(crate) links: Vec<Link>,
    /// Notes on what was dropped or looks wrong: code and sentence, each code once.
    pub(crate) notes: Vec<(&'static str, String)>,
    /// Links that the configuration excludes.
    pub(crate) left_out: LeftOut,
}

/// One cable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    /// The node's port.
    pub(crate) interface: String,
    /// The switch at the other end.
    pub(crate) switch: SwitchClaim,
    /// The switch's port; may be empty.
    pub(crate) port: String,
    /// Whether it carries traffic.
    pub(crate) state: State,
}

/// The author of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Speaker<'a> {
    /// A node about itself: the entry must name no other, and must carry the schema.
    Node(&'a str),
    /// A document about nodes: each entry names its own.
    Document,
}

impl Entry {
    /// Reads an entry. An error says why the whole entry cannot be used.
    pub(crate) fn parse(text: &[u8], speaker: Speaker<'_>, rules: &Rules) -> Result<Self, String> {
        if text.len() > MAX_ENTRY {
            return Err(format!("the entry has {} bytes, at most {MAX_ENTRY} are allowed", text.len()));
        }
        let text = std::str::from_utf8(text).map_err(|error| format!("the entry is not UTF-8: {error}"))?;
        let Value::Object(fields) =
            Value::parse(text).map_err(|problems| problems.first().map_or_else(String::new, ToString::to_string))?
        else {
            return Err("the entry is not a JSON object".to_owned());
        };
        let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let node = match field("node") {
            None | Some(Value::Null) => None,
            Some(Value::String(node)) => Some(chassis::text("node", node)?.to_owned()),
            Some(other) => return Err(format!("node is {}, a string is expected", other.kind())),
        };
        schema(field("schema"), speaker)?;
        match (speaker, node.as_deref()) {
            (Speaker::Node(own), Some(other)) if own != other => {
                return Err(format!("node is {other:?}: an annotation must describe its own node"));
            }
            (Speaker::Document, None | Some("")) => return Err("node is missing".to_owned()),
            _ => {}
        }
        let observed = match field("observedAt") {
            Some(Value::String(text)) => time::parse(text).ok_or_else(|| {
                format!("observedAt is {text:?}, a time such as \"2026-03-04T05:06:07Z\" is expected")
            })?,
            Some(other) => return Err(format!("observedAt is {}, a time in a string is expected", other.kind())),
            None => return Err("observedAt is missing".to_owned()),
        };
        let mut cables = Cables { rules, peers: Vec::new(), notes: BTreeMap::new(), unused: Unused::default() };
        match (field("links"), field("lldpcli")) {
            (Some(links), _) => cables.links(links)?,
            (None, Some(output)) => cables.lldpcli(output)?,
            (None, None) => return Err("links or lldpcli is required".to_owned()),
        }
        cables.silent(field("upInterfaces"))?;
        let left_out = cables.unused.count;
        let (links, notes) = cables.finish();
        Ok(Self { node, observed, links, notes, left_out })
    }
}

fn schema(value: Option<&Value>, speaker: Speaker<'_>) -> Result<(), String> {
    match (value, speaker) {
        (Some(Value::String(text)), _) if text == SCHEMA => Ok(()),
        (Some(Value::String(text)), _) => Err(format!("schema is {text:?}, only {SCHEMA:?} is understood")),
        (Some(other), _) => Err(format!("schema is {}, {SCHEMA:?} is expected", other.kind())),
        (None, Speaker::Node(_)) => Err(format!("schema is missing, {SCHEMA:?} is expected")),
        // The body around it carries one.
        (None, Speaker::Document) => Ok(()),
    }
}

/// The interfaces of an entry, while it is read.
struct Cables<'a> {
    rules: &'a Rules,
    peers: Vec<(String, State, Peer)>,
    notes: BTreeMap<&'static str, Vec<String>>,
    unused: Unused,
}

impl Cables<'_> {
    fn note(&mut self, code: &'static str, text: String) {
        self.notes.entry(code).or_default().push(text);
    }

    /// Whether an interface counts; one that does not is counted.
    fn takes_interface(&mut self, interface: &str) -> bool {
        let is_taken = self.rules.takes_interface(interface);
        if !is_taken {
            self.unused.interface(interface);
        }
        is_taken
    }

    fn links(&mut self, links: &Value) -> Result<(), String> {
        let Value::Array(links) = links else {
            return Err(format!("links is {}, a list is expected", links.kind()));
        };
        if links.len() > MAX_LINKS {
            return Err(format!("{} links, at most {MAX_LINKS} are allowed", links.len()));
        }
        for (index, link) in links.iter().enumerate() {
            if let Err(problem) = self.link(link) {
                self.note("bad-link", format!("links[{index}]: {problem}"));
            }
        }
        Ok(())
    }

    /// One link. An error costs that link only.
    fn link(&mut self, link: &Value) -> Result<(), String> {
        let Value::Object(fields) = link else { return Err(format!("expected a link, found {}", link.kind())) };
        let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let interface = match text_of("if", field("if"))? {
            Some(interface) if !interface.is_empty() => interface,
            _ => return Err("if is missing".to_owned()),
        };
        let role = match text_of("role", field("role"))? {
            None => Role::Compute,
            Some(word) => Role::parse(word)
                .ok_or_else(|| format!("role is {word:?}, one of compute, storage and mgmt is expected"))?,
        };
        if !self.rules.roles.contains(&role) {
            self.unused.role(role, 1);
            return Ok(());
        }
        if !self.takes_interface(interface) {
            return Ok(());
        }
        let state = match field("up") {
            None | Some(Value::Null | Value::Bool(true)) => State::Up,
            Some(Value::Bool(false)) => State::Down,
            Some(other) => return Err(format!("up is {}, true or false is expected", other.kind())),
        };
        let switch = match field("switch") {
            None | Some(Value::Null) => {
                match state {
                    State::Up => self.note("no-neighbour", interface.to_owned()),
                    State::Down => self.unused.unplugged += 1,
                }
                return Ok(());
            }
            Some(Value::Object(fields)) => {
                let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
                let chassis = text_of("switch.chassis", field("chassis"))?;
                let seen = SwitchClaim::new(chassis, text_of("switch.name", field("name"))?)?;
                if let Some(fault) = chassis.and_then(chassis::fault) {
                    self.note("bad-link", by_name(interface, &fault));
                }
                seen
            }
            Some(other) => return Err(format!("switch is {}, a mapping is expected", other.kind())),
        };
        let port = text_of("port", field("port"))?.unwrap_or_default().to_owned();
        self.peers.push((interface.to_owned(), state, Peer::Switch { switch, port }));
        Ok(())
    }

    fn lldpcli(&mut self, output: &Value) -> Result<(), String> {
        let parsed;
        // A collector that cannot put JSON into JSON may put it into a string.
        let output = match output {
            Value::String(text) => {
                parsed = Value::parse(text).map_err(|problems| {
                    problems.first().map_or_else(String::new, |problem| format!("lldpcli: {problem}"))
                })?;
                &parsed
            }
            other => other,
        };
        let mut neighbours = lldp::read(output)?;
        if !self.rules.roles.contains(&Role::Compute) {
            self.unused.role(Role::Compute, neighbours.len());
            return Ok(());
        }
        let is_empty = neighbours.is_empty();
        neighbours.retain(|neighbour| self.takes_interface(&neighbour.interface));
        for neighbour in neighbours.iter().filter(|neighbour| neighbour.duty != Duty::Station) {
            if let Some(fault) = &neighbour.fault {
                self.note("bad-link", by_name(&neighbour.interface, fault));
            }
        }
        for (interface, peer) in lldp::decide(neighbours, self.rules.protocols) {
            chassis::text("the name of an interface", &interface)?;
            self.peers.push((interface, State::Up, peer));
        }
        if self.peers.len() > MAX_LINKS {
            return Err(format!("{} interfaces with neighbours, at most {MAX_LINKS} are allowed", self.peers.len()));
        }
        if is_empty {
            self.note("no-neighbour", "no interface has a neighbour".to_owned());
        }
        Ok(())
    }

    /// Interfaces that are up without a neighbour: the firmware keeps LLDP for itself, or the switch does not send it.
    fn silent(&mut self, interfaces: Option<&Value>) -> Result<(), String> {
        let interfaces = match interfaces {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(format!("upInterfaces is {}, a list is expected", other.kind())),
        };
        if interfaces.len() > MAX_INTERFACES {
            let count = interfaces.len();
            return Err(format!("upInterfaces has {count} names, at most {MAX_INTERFACES} are allowed"));
        }
        let mut silent = Vec::new();
        for interface in interfaces {
            let Value::String(name) = interface else {
                return Err(format!("upInterfaces holds {}, names are expected", interface.kind()));
            };
            let name = chassis::text("a name in upInterfaces", name)?;
            if self.rules.takes_interface(name) && !self.peers.iter().any(|(known, ..)| known == name) {
                silent.push(name.to_owned());
            }
        }
        if !silent.is_empty() {
            self.notes.insert("no-neighbour", silent);
        }
        Ok(())
    }

    /// The cables that count, and one note per code. An interface with two switches has no cable that counts.
    fn finish(mut self) -> (Vec<Link>, Vec<(&'static str, String)>) {
        let mut interfaces: BTreeMap<String, Vec<(State, Peer)>> = BTreeMap::new();
        for (interface, state, peer) in std::mem::take(&mut self.peers) {
            interfaces.entry(interface).or_default().push((state, peer));
        }
        let mut links = Vec::new();
        for (interface, peers) in interfaces {
            let mut switches: Vec<&SwitchClaim> = peers.iter().filter_map(|(_, peer)| peer.switch()).collect();
            switches.sort();
            switches.dedup();
            if let [first, second, ..] = switches.as_slice() {
                let [first, second] = [first, second].map(|seen| lldp::show(seen));
                self.note("several-neighbours", format!("{interface}: both {first} and {second}"));
                continue;
            }
            match peers.into_iter().next() {
                Some((state, Peer::Switch { switch, port })) => links.push(Link { interface, switch, port, state }),
                Some((_, Peer::Unusable(code, why))) => self.note(code, format!("{interface}: {why}")),
                None => {}
            }
        }
        if links.is_empty() && self.notes.is_empty() {
            self.note("unused-entry", self.unused.sentence());
        }
        let notes = self.notes.into_iter().map(|(code, texts)| (code, sentence(code, &texts.join("; ")))).collect();
        (links, notes)
    }
}

/// The note on a cable that counts although the chassis id of its switch is invalid.
fn by_name(interface: &str, fault: &str) -> String {
    format!("{interface}: {fault}; the switch is identified by its name alone")
}

/// The detail of a note.
fn sentence(code: &str, texts: &str) -> String {
    match code {
        "no-neighbour" => format!("link up, no neighbour: {texts}"),
        _ => texts.to_owned(),
    }
}

fn text_of<'a>(what: &str, value: Option<&'a Value>) -> Result<Option<&'a str>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => chassis::text(what, text).map(Some),
        Some(other) => Err(format!("{what} is {}, a string is expected", other.kind())),
    }
}
