//! The hosts of a round: those of the wiring, machines that only a GUID identifies, and hosts of earlier rounds.

mod missing;

use std::collections::HashSet;

use crate::graph::{Edge, Graph, Lists, NONE, at, set};
use crate::guid::Guid;
use crate::interned::Interned;
use crate::matching::{Match, NodeIndex, Rule};
use crate::memory::{Memory, Past};
use crate::settings::Settings;
use crate::wiring::{Cable, LinkState, Wiring};

/// A host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// Its name in the fabric, or that of the Node where it has none.
    pub(crate) key: String,
    pub(crate) found: Match,
    /// Whether the wiring lists it. If not, it is remembered from an earlier round.
    pub(crate) is_listed: bool,
}

/// A port of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Port<'a> {
    /// The number of the switch, in the order of identities.
    pub(crate) switch: u32,
    pub(crate) name: &'a str,
    pub(crate) switch_port: &'a str,
    pub(crate) count: u32,
    pub(crate) state: LinkState,
}

/// All hosts of a round, ascending by key, and their ports, ascending by host and switch.
#[derive(Debug, Default)]
pub(crate) struct Hosts<'a> {
    pub(crate) hosts: Vec<Host>,
    pub(crate) rows: Vec<u32>,
    pub(crate) ports: Vec<Port<'a>>,
    /// By host: the end of its ports.
    ends: Vec<u32>,
    /// The smallest GUID of an unnamed machine that no Node lists, and how many such GUIDs there are.
    pub(crate) strangers: Option<(Guid, usize)>,
}

impl<'a> Hosts<'a> {
    /// Gathers hosts and ports. `switches` gives the number of each switch of the wiring.
    pub(crate) fn gather(wiring: &'a Wiring, switches: &[u32], known: &NodeIndex<'_>, past: &Past<'_>) -> Self {
        let missing::Named { mut hosts, over } = missing::named(wiring, known, past);
        let mut taken = vec![NONE; known.rows() as usize];
        for (number, host) in (0..).zip(&hosts) {
            set(&mut taken, host.found.row(), number);
        }
        let mut cables: Vec<(u32, &Cable)> = wiring.cables.iter().map(|cable| (cable.host, cable)).collect();
        let mut gathered = Self::default();
        gathered.add_strangers(wiring, known, &mut hosts, &mut taken, &mut cables);
        missing::add_dropped(known, &over, &mut hosts, &taken);
        missing::add_applied(wiring, known, past, &mut hosts, &taken);

        let mut order: Vec<u32> = (0..hosts.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| key(&hosts, a).cmp(key(&hosts, b)));
        let mut places = vec![0; hosts.len()];
        (0..).zip(&order).for_each(|(place, &number)| set(&mut places, number, place));
        cables.iter_mut().for_each(|(host, _)| *host = at(&places, *host));
        // Grouped by host first, so that only the few ports of each host have to be sorted.
        let by_host = Lists::collect(hosts.len(), (0..).zip(&cables).map(|(cable, (host, _))| (*host, cable)));
        gathered.ports.reserve_exact(cables.len());
        gathered.ends.reserve_exact(hosts.len());
        for host in 0..hosts.len() as u32 {
            let begin = gathered.ports.len();
            let own = by_host.of(host).iter().filter_map(|&cable| cables.get(cable as usize));
            gathered.ports.extend(own.map(|(_, cable)| Port {
                switch: at(switches, cable.switch),
                name: wiring.texts.get(cable.port),
                switch_port: wiring.texts.get(cable.switch_port),
                count: u32::from(cable.count),
                state: cable.state,
            }));
            gathered.ports.get_mut(begin..).unwrap_or_default().sort_unstable_by(|a, b| {
                (a.switch, a.state)
                    .cmp(&(b.switch, b.state))
                    .then_with(|| (a.name, a.switch_port, a.count).cmp(&(b.name, b.switch_port, b.count)))
            });
            gathered.ends.push(gathered.ports.len() as u32);
        }
        let mut hosts: Vec<Option<Host>> = hosts.into_iter().map(Some).collect();
        gathered.hosts = order.iter().filter_map(|&number| hosts.get_mut(number as usize)?.take()).collect();
        gathered.rows = gathered.hosts.iter().map(|host| host.found.row()).collect();
        gathered
    }

    /// The ports of a host, ascending by switch.
    pub(crate) fn ports_of(&self, host: u32) -> &[Port<'a>] {
        let begin = host.checked_sub(1).map_or(0, |before| at(&self.ends, before));
        self.ports.get(begin as usize..at(&self.ends, host) as usize).unwrap_or_default()
    }

    /// By host: the Node that its GUIDs lead to, where its name does not; else empty.
    pub(crate) fn nodes<'n>(&self, names: &'n Interned) -> Vec<&'n str> {
        let node = |host: &Host| match host.found {
            Match::Node(row, Rule::Guid) => Some(names.get(row)).filter(|name| *name != host.key),
            _ => None,
        };
        self.hosts.iter().map(|host| node(host).unwrap_or_default()).collect()
    }

    pub(crate) fn keys(&self) -> Vec<&str> {
        self.hosts.iter().map(|host| host.key.as_str()).collect()
    }

    /// The links that count. A link to a spine does not: it does not show the unit of a host.
    pub(crate) fn present(&self, settings: &Settings, is_leaf: impl Fn(u32) -> bool) -> Graph {
        let mut graph = Graph::default();
        for host in 0..self.hosts.len() as u32 {
            let counts = |port: &&Port<'_>| settings.counts(port.state) && is_leaf(port.switch);
            let ports = self.ports_of(host).iter().filter(counts);
            graph.push(ports.map(|port| Edge { parent: port.switch, weight: port.count }));
        }
        graph
    }

    /// Adds machines without a name by their GUID: as a port of the host of the Node that lists it, or as a host of its own.
    fn add_strangers(
        &mut self,
        wiring: &'a Wiring,
        known: &NodeIndex<'_>,
        hosts: &mut Vec<Host>,
        taken: &mut [u32],
        cables: &mut Vec<(u32, &'a Cable)>,
    ) {
        let mut strangers: Vec<_> = wiring.strangers.iter().collect();
        strangers.sort_unstable_by_key(|stranger| stranger.guid);
        let was_there: HashSet<String> =
            hosts.iter().filter(|host| !host.is_listed).map(|host| host.key.clone()).collect();
        let mut unknown: Vec<Guid> = Vec::new();
        for stranger in strangers {
            // A GUID that several Nodes list identifies none of them: the machine stays unknown and is reported.
            let row = known.by_guid(&[stranger.guid]).ok().flatten();
            let number = row.and_then(|row| match at(taken, row) {
                NONE => {
                    let name = known.names.get(row);
                    // A host of this very name is another machine: the configuration mapped it to another Node.
                    let is_free = wiring.hosts.find(name).is_none() && !was_there.contains(name);
                    is_free.then(|| {
                        let number = hosts.len() as u32;
                        let found = Match::Node(row, Rule::Guid);
                        hosts.push(Host { key: name.to_owned(), found, is_listed: true });
                        set(taken, row, number);
                        number
                    })
                }
                number => {
                    if let Some(host) = hosts.get_mut(number as usize) {
                        host.is_listed = true;
                    }
                    Some(number)
                }
            });
            match number {
                Some(number) => cables.push((number, &stranger.cable)),
                None if stranger.is_ignored => {}
                None => unknown.push(stranger.guid),
            }
        }
        unknown.dedup();
        self.strangers = unknown.first().map(|&first| (first, unknown.len()));
    }
}

fn key(hosts: &[Host], number: u32) -> &str {
    hosts.get(number as usize).map(|host| host.key.as_str()).unwrap_or_default()
}

/// Identities of all switches of the wiring and the memory, ascending, and their numbers by position in each of the two.
pub(crate) fn switches<'a>(wiring: &'a Wiring, memory: &'a Memory) -> (Vec<&'a str>, Vec<u32>, Vec<u32>) {
    let mut identities: Vec<&str> = wiring.switches.iter().chain(memory.switches.iter().map(String::as_str)).collect();
    identities.sort_unstable();
    identities.dedup();
    let number = |identity: &str| identities.binary_search(&identity).map_or(NONE, |number| number as u32);
    let of_wiring = wiring.switches.iter().map(number).collect();
    let of_memory = memory.switches.iter().map(|identity| number(identity)).collect();
    (identities, of_wiring, of_memory)
}
