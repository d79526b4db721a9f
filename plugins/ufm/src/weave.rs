//! From the collected records to the wiring: which switch each record means, which ports count, which links join switches.

use crate::config::{Config, Uplinks};
use crate::gather::{Gathered, HostPort, quoted};
use crate::link::Cables;
use crate::switches::Key;
use std::collections::{BTreeMap, HashMap};
use topoloom_fabric::{IGNORED, Link as Cable, NAMELESS, SwitchId, Wiring};

/// The wiring of one fabric. `place` distinguishes switches without GUID from those of other fabrics. An error:
/// the ends of the cables exceed a limit.
pub(crate) fn weave(
    gathered: Gathered<'_>,
    cables: &Cables,
    config: &Config,
    place: &str,
) -> Result<Wiring, &'static str> {
    let mut loom = Loom { gathered, config, place, ids: HashMap::new(), wiring: Wiring::new() };
    loom.wiring = std::mem::take(&mut loom.gathered.wiring);
    loom.gathered.switches.settle();
    for port in std::mem::take(&mut loom.gathered.ports) {
        loom.port(&port);
    }
    if config.uplinks == Uplinks::Auto {
        loom.adjacent(cables);
        if loom.gathered.switches.is_full() {
            return Err("cables have more than 300000 ends");
        }
    }
    Ok(loom.wiring)
}

struct Loom<'g, 'a> {
    gathered: Gathered<'g>,
    config: &'a Config,
    place: &'a str,
    ids: HashMap<u32, SwitchId>,
    wiring: Wiring,
}

impl Loom<'_, '_> {
    fn port(&mut self, port: &HostPort) {
        let number = self.gathered.switches.resolved(port.leaf);
        let text = |number: u32| self.gathered.texts.get(number);
        if let Some(Key::Guid(guid)) = self.gathered.switches.get(number).map(|known| known.key) {
            if self.gathered.gateways.contains(&guid) {
                let example = quoted(text(port.host));
                return self.wiring.skip("gateway-peer", "ports are plugged into a gateway or a router", &example);
            }
            if self.gathered.ends.contains(&guid) {
                let example = quoted(text(port.host));
                return self.wiring.skip("host-peer", "ports are plugged into another host", &example);
            }
        }
        let switch = self.id(number);
        let leaf_name = self.gathered.switches.get(number).map_or(0, |known| known.name);
        if let Some(known) = self.gathered.switches.get_mut(number) {
            known.bears_hosts = true;
        }
        let text = |number: u32| self.gathered.texts.get(number);
        let words = [port.adapter, port.dname, leaf_name].map(|number| Some(text(number)).filter(|t| !t.is_empty()));
        if !self.config.ports.admit(words) {
            self.wiring.leave_out("left out by `ports`", 1);
            return self.wiring.bears_hosts(switch);
        }
        let cable =
            Cable { count: 1, state: port.state, port: text(port.adapter), switch_port: text(port.switch_port) };
        match (port.host, port.guid) {
            (0, Some(guid)) if port.is_ignored => self.wiring.ignored(guid, switch, cable),
            (0, Some(guid)) => self.wiring.nameless(guid, switch, cable),
            (0, None) => {
                self.wiring.leave_out(if port.is_ignored { IGNORED } else { NAMELESS }, 1);
                self.wiring.bears_hosts(switch);
            }
            (host, guid) => {
                let host = self.wiring.host(text(host));
                self.wiring.link(host, switch, cable);
                if let Some(guid) = guid.filter(|_| self.config.settings.guid_annotation.is_some()) {
                    self.wiring.guid(host, guid);
                }
            }
        }
    }

    /// The switch of a key that is resolved.
    fn id(&mut self, number: u32) -> SwitchId {
        if let Some(&id) = self.ids.get(&number) {
            return id;
        }
        let known = self.gathered.switches.get(number);
        let name = known.map_or("", |known| self.gathered.texts.get(known.name));
        let id = match known.map(|known| known.key) {
            Some(Key::Guid(guid)) => self.wiring.switch(&guid.to_string(), name),
            // No GUID has a slash or a colon in it.
            _ => self.wiring.switch(&format!("{}:{name}", self.place), name),
        };
        self.ids.insert(number, id);
        id
    }

    fn adjacent(&mut self, cables: &Cables) {
        let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for ([a, b], count) in cables.iter() {
            let [a, b] = [a, b].map(|guid| self.gathered.switches.number(Some(guid), None, &mut self.gathered.texts));
            pairs.extend(a.zip(b).map(|ends| (ends, count)));
        }
        self.keep_switches(&mut pairs);
        if cables.is_empty() {
            pairs = self.trunks_of_ports();
            self.keep_switches(&mut pairs);
        }
        for ((a, b), count) in pairs {
            let [a, b] = [a, b].map(|number| self.id(number));
            self.wiring.adjacent(a, b, count);
        }
    }

    /// Links between switches, from the ports of switches. One or both ends list a cable: a port that is down lists none.
    fn trunks_of_ports(&self) -> BTreeMap<(u32, u32), u32> {
        let mut directed: HashMap<(u32, u32), u32> = HashMap::new();
        for (&(own, peer), &count) in &self.gathered.trunks {
            let [own, peer] = [own, peer].map(|number| self.gathered.switches.resolved(number));
            *directed.entry((own, peer)).or_default() += count;
        }
        let mut pairs = BTreeMap::new();
        for ((own, peer), count) in directed {
            let known: &mut u32 = pairs.entry((own.min(peer), own.max(peer))).or_default();
            *known = count.max(*known);
        }
        pairs
    }

    /// Drops links that end at a host. Where the ports of switches are listed, only their owners and leaves are switches.
    /// Where they are not, an unknown end is a switch when two others have a link to it: an adapter has one link.
    fn keep_switches(&self, pairs: &mut BTreeMap<(u32, u32), u32>) {
        let are_listed = self.gathered.switches.iter().any(|known| known.has_ports);
        let mut neighbours: HashMap<u32, u32> = HashMap::new();
        for (a, b) in pairs.keys() {
            *neighbours.entry(*a).or_default() += 1;
            *neighbours.entry(*b).or_default() += 1;
        }
        let is_switch = |number: u32| {
            let Some(known) = self.gathered.switches.get(number) else { return false };
            if let Key::Guid(guid) = known.key
                && (self.gathered.ends.contains(&guid) || self.gathered.gateways.contains(&guid))
            {
                return false;
            }
            let is_known = known.bears_hosts || known.has_ports;
            is_known || (!are_listed && neighbours.get(&number).is_some_and(|&count| count > 1))
        };
        pairs.retain(|&(a, b), _| a != b && is_switch(a) && is_switch(b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Trunks;
    use crate::link::Link;
    use topoloom_fabric::Guid;
    use topoloom_sdk::FromJson;

    #[test]
    fn there_is_an_end_to_what_cables_may_join() {
        let woven = |count: u64, config: &str| {
            let mut cables = Cables::default();
            (1..=count).for_each(|number| {
                cables.take(&Link { ends: [Guid(number * 2), Guid(number * 2 + 1)], identity: None });
            });
            let config = Config::from_json(config).unwrap();
            weave(Gathered::new(&config, Trunks::Known), &cables, &config, "ufm").map(|_| ())
        };
        assert_eq!(woven(149_999, r#"{"endpoint": "ufm"}"#), Ok(()));
        assert_eq!(woven(150_001, r#"{"endpoint": "ufm"}"#), Err("cables have more than 300000 ends"));
        assert_eq!(woven(150_001, r#"{"endpoint": "ufm", "uplinks": "off"}"#), Ok(()));
    }
}
