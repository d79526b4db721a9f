//! One link object of `resources/links`, and the cables of all of them.

use crate::gather::hash;
use crate::port::{Text, Unusable, text};
use std::collections::{HashMap, HashSet};
use topoloom_fabric::{Guid, is_aggregation_node};
use topoloom_sdk::json::Members;

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
}
