//! One link object of `resources/links`, and one system object of `resources/systems`.

use crate::gather::hash;
use crate::port::{Text, Unusable, text};
use std::collections::{HashMap, HashSet};
use topoloom_fabric::{Guid, is_aggregation_node};
use topoloom_sdk::json::{Elements, Members, Raw};

/// The two ends of a link. Which of them is called the source means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) ends: [Guid; 2],
    /// The same for the same cable, from whichever end it is listed; none: the record does not say which ports.
    pub(crate) identity: Option<u64>,
}

impl Link {
    /// Reads a link. `None`: an end has no GUID, or is an aggregation node.
    pub(crate) fn read(members: &mut Members<'_>) -> Result<Option<Self>, Unusable> {
        let (mut name, mut source, mut destination): (Text<'_>, Text<'_>, Text<'_>) = (None, None, None);
        let mut aggregates = false;
        for member in members {
            let (key, value) = member.map_err(|_| Unusable::NoObject)?;
            match key {
                b"name" => name = text("name", value)?,
                b"source_guid" => source = text("source_guid", value)?,
                b"destination_guid" => destination = text("destination_guid", value)?,
                b"source_port_node_description" | b"destination_port_node_description" => {
                    aggregates |= value.text().is_some_and(|text| is_aggregation_node(&text));
                }
                _ => {}
            }
        }
        // `<guid>_<port>:<guid>_<port>`
        let named = name.as_deref().and_then(|name| name.split_once(':'));
        let identity = named.map(|(left, right)| hash(left.min(right)) ^ hash(left.max(right)).rotate_left(32));
        let named = named.map(|(left, right)| [left, right].map(Guid::of_port));
        let [left, right] = named.unwrap_or_default();
        let end = |field: &Text<'_>, named| field.as_deref().and_then(Guid::parse).or(named);
        let ends = end(&source, left).zip(end(&destination, right));
        Ok(ends.filter(|_| !aggregates).map(|(source, destination)| Self { ends: [source, destination], identity }))
    }
}

/// More adapters and chips than any system has; beyond it somebody is lying.
const MAX_GUIDS: usize = 4096;

/// The cables between switches, each once.
#[derive(Debug, Default)]
pub(crate) struct Cables {
    count: HashMap<[Guid; 2], u32>,
    seen: HashSet<u64>,
}

impl Cables {
    /// Takes a record of the list of links. A cable that is listed from both ends is one.
    pub(crate) fn take(&mut self, link: &Link) {
        let [a, b] = link.ends;
        let is_new = link.identity.is_none_or(|identity| self.seen.insert(identity));
        if a != b && is_new {
            *self.count.entry([a.min(b), a.max(b)]).or_default() += 1;
        }
    }

    /// Whether nothing was listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.is_empty()
    }

    /// Two ends, and how many cables join them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ([Guid; 2], u32)> + '_ {
        self.count.iter().map(|(&ends, &count)| (ends, count))
    }
}

/// What a system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Switch,
    /// A gateway or a router.
    Gateway,
    Other,
}

/// A system: its kind, its names, the GUIDs of itself and of its ports.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    pub(crate) guids: Vec<Guid>,
}

impl System {
    pub(crate) fn read(members: &mut Members<'_>) -> Result<Self, Unusable> {
        let mut system = Self { kind: Kind::Other, name: None, guids: Vec::new() };
        for member in members {
            let (key, value) = member.map_err(|_| Unusable::NoObject)?;
            match key {
                b"type" => {
                    system.kind = match text("type", value)?.as_deref().map(str::to_ascii_lowercase).as_deref() {
                        Some("host" | "computer") => Kind::Host,
                        Some("switch") => Kind::Switch,
                        Some("gateway" | "router") => Kind::Gateway,
                        _ => Kind::Other,
                    }
                }
                b"system_name" => system.name = text("system_name", value)?.map(std::borrow::Cow::into_owned),
                b"name" | b"guid" | b"system_guid" => system.guid(value),
                b"ports" => {
                    let mut ports = Elements::new(value.bytes(), "");
                    while let Ok(Some(port)) = ports.next() {
                        system.guid(Raw::new(port));
                    }
                }
                _ => {}
            }
        }
        Ok(system)
    }

    fn guid(&mut self, value: Raw<'_>) {
        let guid = value.text().and_then(|text| Guid::of_port(&text));
        self.guids.extend(guid.filter(|guid| self.guids.len() < MAX_GUIDS && !self.guids.contains(guid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(object: &str) -> Result<Option<Link>, Unusable> {
        Link::read(&mut Members::of(object.as_bytes()).map_err(|_| Unusable::NoObject)?)
    }

    fn ends(link: &str) -> Option<[String; 2]> {
        self::link(link).unwrap().map(|link| link.ends.map(|guid| guid.to_string()))
    }

    #[test]
    fn the_ends_of_a_link_come_with_and_without_prefix_or_from_its_name() {
        let expected = Some(["5c6d7e0000bb0203", "77889900cc000001"].map(str::to_owned));
        for link in [
            r#"{"source_guid": "5c6d7e0000bb0203", "destination_guid": "0x77889900CC000001", "cable_info": {}}"#,
            r#"{"source_guid": "0x5c6d7e0000bb0203", "destination_guid": "77889900cc000001", "cable_info": [{"a": []}]}"#,
            r#"{"name": "5c6d7e0000bb0203_33:77889900cc000001_5", "source_port": 33}"#,
        ] {
            assert_eq!(ends(link), expected, "{link}");
        }
    }

    #[test]
    fn a_link_without_ends_or_to_an_aggregation_node_is_none() {
        assert_eq!(ends(r#"{"source_guid": "5c6d7e0000bb0203", "destination_guid": "N/A"}"#), None);
        assert_eq!(
            ends(
                r#"{"source_guid": "5c6d7e0000bb0203", "destination_guid": "77889900cc000001",
                "destination_port_node_description": "Mellanox Technologies Aggregation Node:1"}"#
            ),
            None
        );
        assert_eq!(link(r#"{"source_guid": 7}"#), Err(Unusable::Field("source_guid")));
        assert_eq!(link("[]"), Err(Unusable::NoObject));
    }

    #[test]
    fn a_system_knows_the_guids_of_all_its_adapters() {
        let mut members = Members::of(
            br#"{"type": "Host", "name": "a1b2c30000aa0170", "guid": "a1b2c30000aa0170", "system_name": "gpu-a017",
                "ports": ["a1b2c30000aa0170_1", 3, "a1b2c30000aa0171_1"]}"#,
        )
        .unwrap();
        let system = System::read(&mut members).unwrap();
        assert_eq!((system.kind, system.name.as_deref()), (Kind::Host, Some("gpu-a017")));
        assert_eq!(system.guids, [Guid(0xa1b2_c300_00aa_0170), Guid(0xa1b2_c300_00aa_0171)]);
    }
}
