//! Collects the ends of cables from port records, record by record.
//!
//! Decisions that need other records are left to [`crate::weave`], after the last record: whether a peer is a gateway, or
//! whether a name belongs to a GUID.

use crate::config::Config;
use crate::names;
use crate::port::{Owner, Port, Unusable};
use crate::switches::Switches;
use crate::systems::{Kind, Systems};
use crate::texts::Texts;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use topoloom_fabric::{Guid, HostNames, LinkState, Wiring, clean_host};
use topoloom_sdk::json::Members;

/// The code of ports that are left out because they name no other end.
pub(crate) const NO_PEER: &str = "no-peer";
/// The sentence for them, behind a number.
pub(crate) const WITHOUT_PEER: &str = "ports do not say which switch they are plugged into";

/// Three times the ports of 16 384 hosts with eight rails: a bound on the memory of a guest.
const MAX_PORTS: usize = 400_000;

/// Where the links between switches come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trunks {
    /// From the list of links.
    Known,
    /// From the ports of switches, since there is no list of links.
    FromPorts,
}

/// A port of a host. Texts and the switch are numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostPort {
    /// 0: it has no usable name.
    pub(crate) host: u32,
    /// Whether the operator ignores its name.
    pub(crate) is_ignored: bool,
    pub(crate) guid: Option<Guid>,
    pub(crate) leaf: u32,
    pub(crate) adapter: u32,
    pub(crate) dname: u32,
    pub(crate) switch_port: u32,
    pub(crate) state: LinkState,
}

/// A port whose description does not say whether a host or a switch owns it.
#[derive(Debug, Clone, Copy)]
struct Unsure {
    port: HostPort,
    system: Option<Guid>,
    system_name: u32,
}

/// The collected ports of one fabric.
#[derive(Debug)]
pub(crate) struct Gathered<'c> {
    from: Trunks,
    names: HostNames<'c>,
    pub(crate) texts: Texts,
    pub(crate) switches: Switches,
    pub(crate) ports: Vec<HostPort>,
    unsure: Vec<Unsure>,
    /// How many ports of the first switch have the second as their peer.
    pub(crate) trunks: HashMap<(u32, u32), u32>,
    /// Ports of hosts and of aggregation nodes: no switches.
    pub(crate) ends: HashSet<Guid>,
    pub(crate) gateways: HashSet<Guid>,
    seen: HashSet<u64>,
    /// Receives the counts of records that are left out.
    pub(crate) wiring: Wiring,
}

impl<'c> Gathered<'c> {
    pub(crate) fn new(config: &'c Config, from: Trunks) -> Self {
        Self {
            from,
            names: HostNames::new(&config.settings.ignore_hosts),
            texts: Texts::new(),
            switches: Switches::default(),
            ports: Vec::new(),
            unsure: Vec::new(),
            trunks: HashMap::new(),
            ends: HashSet::new(),
            gateways: HashSet::new(),
            seen: HashSet::new(),
            wiring: Wiring::new(),
        }
    }

    /// Reads one element of the list of ports.
    pub(crate) fn port(&mut self, members: &mut Members<'_>) -> Result<(), Unusable> {
        let port = Port::read(members)?;
        let [itself, peer] = port.aggregates();
        if itself {
            self.ends.extend(port.own_guid());
            return Ok(());
        }
        if peer {
            return Ok(());
        }
        if let Some(name) = port.name.as_deref()
            && !self.seen.insert(hash(name.trim()))
        {
            self.wiring.skip("duplicate-port", "ports are in the list twice: the first counts", &quoted(name));
            return Ok(());
        }
        match port.owner() {
            Owner::Host => self.host_port(&port),
            Owner::Switch => self.switch_port(&port),
            Owner::Gateway => self.gateways.extend(port.own_guid()),
            Owner::Unknown => self.unsure_port(&port),
        }
        Ok(())
    }

    /// What exceeded its limit. Then the collected ports are incomplete and must not be used.
    pub(crate) fn overflow(&self) -> Option<&'static str> {
        let is_full = [
            (self.texts.is_full(), "the names of all ports take more than 32 MiB"),
            (self.switches.is_full(), "there are more than 300000 switches"),
            (!self.has_room(), "there are more than 400000 ports of hosts"),
        ];
        is_full.into_iter().find(|(is_full, _)| *is_full).map(|(_, what)| what)
    }

    fn has_room(&self) -> bool {
        self.ports.len() + self.unsure.len() < MAX_PORTS
    }

    /// Whether the list of systems is needed to distinguish hosts from switches.
    pub(crate) fn needs_systems(&self) -> bool {
        self.ports.is_empty() && !self.unsure.is_empty()
    }

    /// Takes the owners of ports with unknown owner from the list of systems.
    pub(crate) fn systems(&mut self, systems: &Systems) {
        self.gateways.extend(systems.gateways());
        for unsure in std::mem::take(&mut self.unsure) {
            let kind = systems.kind([unsure.port.guid, unsure.system], self.texts.get(unsure.system_name));
            match kind {
                Some(Kind::Host) => {
                    self.ends.extend(unsure.port.guid);
                    self.ports.push(unsure.port);
                }
                Some(Kind::Switch) => {
                    let own = unsure.port.guid.and_then(|guid| self.switches.number(Some(guid), None, &mut self.texts));
                    self.trunk(own, unsure.port.leaf, unsure.port.state);
                }
                _ => {}
            }
        }
    }

    /// Reports the ports whose owner is still unknown.
    pub(crate) fn finish(&mut self) {
        let count = self.unsure.len() as u64;
        if let Some(unsure) = self.unsure.first().filter(|_| count > 0) {
            let example = quoted(self.texts.get(unsure.system_name));
            self.wiring.skip_many(
                "unknown-owner",
                "ports do not say whether a host or a switch owns them",
                &example,
                count,
            );
        }
    }

    fn host_port(&mut self, port: &Port<'_>) {
        self.ends.extend(port.own_guid());
        if let Some(read) = self.read(port)
            && self.has_room()
        {
            self.ports.push(read);
        }
    }

    fn unsure_port(&mut self, port: &Port<'_>) {
        if let Some(read) = self.read(port)
            && self.has_room()
        {
            let system = port.system_id.as_deref().and_then(Guid::parse);
            let system_name = self.texts.number(port.system_name.as_deref().unwrap_or_default());
            self.unsure.push(Unsure { port: read, system, system_name });
        }
    }

    fn read(&mut self, port: &Port<'_>) -> Option<HostPort> {
        let names = [&port.system_name, &port.node_description];
        let Some(leaf) = self.peer(port) else {
            let example = names.into_iter().flatten().next().map_or_else(String::new, |name| quoted(name));
            self.wiring.skip(NO_PEER, WITHOUT_PEER, &example);
            return None;
        };
        let host = self.names.choose(names.into_iter().filter_map(|name| name.as_deref()));
        let is_ignored = |name: &str| clean_host(name).is_some_and(|name| self.names.is_ignored(name));
        let is_ignored = host.is_none() && names.into_iter().flatten().any(|name| is_ignored(name));
        let adapter = names::adapter(port.node_description.as_deref(), port.dname.as_deref());
        Some(HostPort {
            host: host.map_or(0, |host| self.texts.number(host)),
            is_ignored,
            guid: port.own_guid(),
            leaf,
            adapter: self.texts.number(adapter.unwrap_or_default()),
            dname: self.texts.number(port.dname.as_deref().unwrap_or_default()),
            switch_port: self.texts.number(port.peer_label()),
            state: if port.is_up() { LinkState::Up } else { LinkState::Down },
        })
    }

    fn switch_port(&mut self, port: &Port<'_>) {
        let name = names::switch(port.system_name.as_deref(), port.node_description.as_deref());
        let own = self.switches.number(port.own_guid(), name.as_deref(), &mut self.texts);
        if let Some(known) = own.and_then(|own| self.switches.get_mut(own)) {
            known.has_ports = true;
        }
        if self.from == Trunks::FromPorts
            && port.is_up()
            && let Some(peer) = self.peer(port)
        {
            self.trunk(own, peer, LinkState::Up);
        }
    }

    fn trunk(&mut self, own: Option<u32>, peer: u32, state: LinkState) {
        if let (Some(own), LinkState::Up) = (own, state) {
            *self.trunks.entry((own, peer)).or_default() += 1;
        }
    }

    /// The switch that a port is plugged into.
    fn peer(&mut self, port: &Port<'_>) -> Option<u32> {
        let name = names::switch(port.peer_node_name.as_deref(), port.peer_node_description.as_deref());
        self.switches.number(port.peer_switch_guid(), name.as_deref(), &mut self.texts)
    }
}

/// A name of the fabric, quoted for a message on one line.
pub(crate) fn quoted(name: &str) -> String {
    format!("{name:?}")
}

pub(crate) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_sdk::FromJson;

    fn fill(object: impl Fn(usize) -> String, from: Trunks) -> Option<&'static str> {
        let config = Config::from_json(r#"{"endpoint": "ufm"}"#).unwrap();
        let mut gathered = Gathered::new(&config, from);
        for number in 0..=MAX_PORTS {
            let object = object(number);
            gathered.port(&mut Members::of(object.as_bytes()).unwrap()).unwrap();
        }
        assert!(gathered.ports.len() + gathered.unsure.len() <= MAX_PORTS);
        gathered.overflow()
    }

    #[test]
    fn there_is_an_end_to_what_a_list_may_hold() {
        let host = |_| r#"{"description": "Computer", "peer_node_name": "leaf"}"#.to_owned();
        assert_eq!(fill(host, Trunks::Known), Some("there are more than 400000 ports of hosts"));
        let switch = |number| format!(r#"{{"description": "Switch", "guid": "{:016x}"}}"#, number + 1);
        assert_eq!(fill(switch, Trunks::Known), Some("there are more than 300000 switches"));
        let few = |number| format!(r#"{{"description": "Switch", "guid": "{:016x}"}}"#, number % 1000 + 1);
        assert_eq!(fill(few, Trunks::FromPorts), None);
    }
}
