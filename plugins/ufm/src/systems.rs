//! The owners of ports out of `resources/systems`: record by record, and only the fields that are needed.

use crate::port::{Text, Unusable, text};
use std::collections::{HashMap, HashSet};
use topoloom_fabric::Guid;
use topoloom_sdk::json::{Elements, Members, Raw};

/// More adapters and chips than any system has; further GUIDs of a record are ignored.
const MAX_GUIDS: usize = 4096;
/// Ten times the hosts and switches of the largest fabric.
const MAX_SYSTEMS: usize = 300_000;
/// Memory for names and GUIDs of all systems. The largest fabric takes a sixth.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The memory of a GUID, and of a name beside its letters.
const COST: usize = 32;

/// The kind of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Switch,
    /// A gateway or a router.
    Gateway,
    Other,
}

/// One record: its kind, its name, the GUIDs of itself and of its ports.
#[derive(Debug)]
struct System<'a> {
    kind: Kind,
    name: Text<'a>,
    guids: Vec<Guid>,
}

/// All systems of a fabric.
#[derive(Debug, Default)]
pub(crate) struct Systems {
    count: usize,
    bytes: usize,
    guids: HashMap<Guid, Kind>,
    names: HashMap<String, Kind>,
    gateways: HashSet<Guid>,
}

impl Systems {
    /// Reads one element of the list of systems.
    pub(crate) fn take(&mut self, members: &mut Members<'_>) -> Result<(), Unusable> {
        let system = System::read(members)?;
        self.count += 1;
        if self.overflow().is_some() {
            return Ok(());
        }
        for &guid in &system.guids {
            self.bytes += if self.guids.insert(guid, system.kind).is_none() { COST } else { 0 };
            if system.kind == Kind::Gateway {
                self.bytes += if self.gateways.insert(guid) { COST } else { 0 };
            }
        }
        if let Some(name) = system.name.as_deref() {
            match self.names.get_mut(name) {
                Some(kind) => *kind = system.kind,
                None => {
                    self.bytes += name.len() + COST;
                    self.names.insert(name.to_owned(), system.kind);
                }
            }
        }
        Ok(())
    }

    /// What exceeded its limit. Then the list is incomplete and must not be used.
    pub(crate) fn overflow(&self) -> Option<&'static str> {
        match () {
            () if self.count > MAX_SYSTEMS => Some("there are more than 300000 systems"),
            () if self.bytes > MAX_BYTES => Some("the names and GUIDs of all systems take more than 32 MiB"),
            () => None,
        }
    }

    /// The kind of the system that has one of these GUIDs, else of the one of this name.
    pub(crate) fn kind(&self, guids: [Option<Guid>; 2], name: &str) -> Option<Kind> {
        let by_guid = guids.into_iter().flatten().find_map(|guid| self.guids.get(&guid));
        by_guid.or_else(|| self.names.get(name)).copied()
    }

    /// The GUIDs of gateways and routers.
    pub(crate) fn gateways(&self) -> impl Iterator<Item = Guid> + '_ {
        self.gateways.iter().copied()
    }
}

impl<'a> System<'a> {
    fn read(members: &mut Members<'a>) -> Result<Self, Unusable> {
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
                b"system_name" => system.name = text("system_name", value)?,
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
        // All ports of a chip have its GUID, one after the other.
        let is_new = |guid: &Guid| self.guids.len() < MAX_GUIDS && self.guids.last() != Some(guid);
        self.guids.extend(guid.filter(is_new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(systems: &mut Systems, object: &str) {
        systems.take(&mut Members::of(object.as_bytes()).unwrap()).unwrap();
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

    #[test]
    fn a_port_is_known_by_its_guid_first_and_by_the_name_of_its_system_second() {
        let mut systems = Systems::default();
        take(&mut systems, r#"{"type": "host", "system_name": "h", "ports": ["a1b2c30000aa0170_1"]}"#);
        take(&mut systems, r#"{"type": "switch", "system_name": "s", "guid": "5c6d7e0000bb0203"}"#);
        take(&mut systems, r#"{"type": "router", "guid": "77889900cc000001"}"#);
        let [port, switch, router] = [0xa1b2_c300_00aa_0170, 0x5c6d_7e00_00bb_0203, 0x7788_9900_cc00_0001].map(Guid);
        assert_eq!(systems.kind([Some(port), Some(switch)], "s"), Some(Kind::Host));
        assert_eq!(systems.kind([Some(Guid(1)), Some(switch)], "h"), Some(Kind::Switch));
        assert_eq!(systems.kind([Some(Guid(1)), None], "h"), Some(Kind::Host));
        assert_eq!(systems.kind([None, None], "x"), None);
        assert_eq!(systems.gateways().collect::<Vec<_>>(), [router]);
    }

    #[test]
    fn there_is_an_end_to_what_a_list_may_hold() {
        let filled = |object: &dyn Fn(usize) -> String, count| {
            let mut systems = Systems::default();
            (0..count).for_each(|number| take(&mut systems, &object(number)));
            assert!(systems.bytes <= MAX_BYTES + (MAX_GUIDS + 1) * 2 * COST + 1024, "{}", systems.bytes);
            systems.overflow()
        };
        assert_eq!(filled(&|_| "{}".to_owned(), MAX_SYSTEMS), None);
        assert_eq!(filled(&|_| "{}".to_owned(), MAX_SYSTEMS + 1), Some("there are more than 300000 systems"));
        let bytes = Some("the names and GUIDs of all systems take more than 32 MiB");
        let long = "x".repeat(1000);
        assert_eq!(filled(&|number| format!(r#"{{"system_name": "{number}{long}"}}"#), 40_000), bytes);
        let ports = |system: usize| {
            let ports: Vec<String> = (1..=4000).map(|port| format!("\"{:016x}_1\"", system * 4000 + port)).collect();
            format!(r#"{{"type": "gateway", "ports": [{}]}}"#, ports.join(","))
        };
        assert_eq!(filled(&ports, 300), bytes);
        // The same ones again and again cost nothing more.
        assert_eq!(filled(&|number| ports(number % 2), 300), None);
    }
}
