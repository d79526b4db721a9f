//! Switches with a different chassis id on every port.
//!
//! LLDP's chassis id stands for the whole switch. Some switches, Nexus 9000 among them, put the MAC address of the port
//! there, and then every cable seems to end at a switch of its own. Where a system name has as many chassis ids as ports, the
//! name identifies the switch.
//!
//! A node knows only where its own cables end. So nodes are counted: one that reports a chassis id or a port of another
//! node counts against it, and a few of those change nothing for the others.

use crate::chassis;
use crate::config::Identity;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::folded;
use crate::chassis::SwitchClaim;

/// The switch end of a cable, as the node at the other end reports it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortEnd<'a> {
    /// A number of its own for each node.
    pub(crate) node: u32,
    pub(crate) seen: &'a SwitchClaim,
    /// The port of the switch; may be empty.
    pub(crate) port: &'a str,
}

/// What nodes report about one name.
#[derive(Debug, Default)]
struct Name<'a> {
    /// The name as the first of them writes it.
    shown: &'a str,
    /// By node: chassis id and port of each cable.
    nodes: BTreeMap<u32, BTreeSet<(&'a str, &'a str)>>,
}

/// The names that show a chassis id per port: how many ids, on as many ports.
#[derive(Debug, Default)]
pub(crate) struct PerPort(BTreeMap<String, (String, usize)>);

impl PerPort {
    pub(crate) fn find<'a>(ends: impl Iterator<Item = PortEnd<'a>>) -> Self {
        let mut names: BTreeMap<String, Name<'a>> = BTreeMap::new();
        for PortEnd { node, seen, port } in ends {
            let (Some(chassis), Some(name)) = (&seen.chassis, &seen.name) else { continue };
            if !chassis::is_default(name) {
                let known = names.entry(folded(name)).or_insert_with(|| Name { shown: name, ..Name::default() });
                known.nodes.entry(node).or_default().insert((chassis, port));
            }
        }
        let found = names.into_iter().filter_map(|(key, name)| Some((key, (name.shown.to_owned(), name.ports()?))));
        Self(found.collect())
    }

    /// Whether the name of a switch identifies it, with any chassis id.
    pub(crate) fn is_identified_by_name(&self, seen: &SwitchClaim, identity: Identity) -> bool {
        seen.name.as_ref().is_some_and(|name| match identity {
            Identity::Chassis => false,
            Identity::Name => !chassis::is_default(name),
            Identity::Auto => self.0.contains_key(&folded(name)),
        })
    }

    /// The findings: the name of the switch, and a sentence.
    pub(crate) fn reports(&self, identity: Identity) -> impl Iterator<Item = (&str, String)> {
        let outcome = match identity {
            Identity::Auto => Some("it counts as one switch, by its name"),
            Identity::Chassis => {
                Some("each of them counts as a switch of its own: `switches.identity: name` makes it one")
            }
            Identity::Name => None,
        };
        self.0.values().filter_map(move |(name, ports)| {
            Some((name.as_str(), format!("shows {ports} chassis ids on {ports} ports: {}", outcome?)))
        })
    }
}

impl Name<'_> {
    /// How many ports it has, where it shows a different chassis id on each and more than two thirds of the nodes agree.
    fn ports(&self) -> Option<usize> {
        // The node that reports least comes first: a node that reports the ports of all others counts against itself.
        let mut order: Vec<(usize, u32)> = self.nodes.iter().map(|(node, ends)| (ends.len(), *node)).collect();
        order.sort_unstable();
        let (mut ids, mut ports): (HashSet<&str>, HashSet<&str>) = (HashSet::new(), HashSet::new());
        let (mut in_favour, mut against) = (0, 0);
        for ends in order.iter().filter_map(|(_, node)| self.nodes.get(node)) {
            let own_ids: HashSet<&str> = ends.iter().map(|(id, _)| *id).collect();
            let own_ports: HashSet<&str> = ends.iter().map(|(_, port)| *port).collect();
            if own_ports.contains("") {
                // It does not know its port.
                continue;
            }
            let is_one_to_one = own_ids.len() == ends.len() && own_ports.len() == ends.len();
            if is_one_to_one && ids.is_disjoint(&own_ids) && ports.is_disjoint(&own_ports) {
                in_favour += 1;
                ids.extend(own_ids);
                ports.extend(own_ports);
            } else {
                against += 1;
            }
        }
        (in_favour > 1 && in_favour > 2 * against).then_some(ports.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes with the chassis id and port of each of their cables to one name; the number of ports, where it counts.
    fn ports(nodes: &[&[(u32, &str)]]) -> Option<usize> {
        let seen = |id: u32| SwitchClaim::new(Some(&format!("mac:02:00:00:00:00:{id:02x}")), Some("n9k-1")).unwrap();
        let ends: Vec<(u32, SwitchClaim, &str)> = (0..)
            .zip(nodes)
            .flat_map(|(node, ends)| ends.iter().map(move |&(id, port)| (node, seen(id), port)))
            .collect();
        let found = |reverse: bool| {
            let mut ends: Vec<PortEnd<'_>> =
                ends.iter().map(|(node, seen, port)| PortEnd { node: *node, seen, port }).collect();
            if reverse {
                ends.reverse();
            }
            PerPort::find(ends.into_iter()).0.get("n9k-1").map(|(_, ports)| *ports)
        };
        assert_eq!(found(false), found(true), "another order");
        found(false)
    }

    #[test]
    fn a_name_with_as_many_chassis_ids_as_ports_is_one_switch() {
        assert_eq!(ports(&[&[(1, "Eth1/1")], &[(2, "Eth1/2")]]), Some(2));
        assert_eq!(ports(&[&[(1, "Eth1/1"), (2, "Eth1/2")], &[(3, "Eth1/3")]]), Some(3));
    }

    #[test]
    fn switches_that_share_a_name_are_none() {
        assert_eq!(ports(&[&[(1, "swp1")], &[(1, "swp2")], &[(1, "swp3")]]), None, "one switch as it should be");
        assert_eq!(ports(&[&[(1, "swp1")], &[(2, "swp1")], &[(3, "swp1")]]), None, "the same port of three");
        assert_eq!(ports(&[&[(1, "swp1")], &[(1, "swp2")], &[(2, "swp3")], &[(2, "swp4")]]), None);
        assert_eq!(ports(&[&[(1, "")], &[(2, "")]]), None, "the ports are not known");
        assert_eq!(ports(&[&[(1, "swp1"), (2, "swp2")]]), None, "one node alone");
    }

    #[test]
    fn one_node_alone_changes_nothing_for_the_others() {
        let honest: Vec<Vec<(u32, String)>> = (1..=4).map(|id| vec![(id, format!("Eth1/{id}"))]).collect();
        let with = |liar: &[(u32, &str)]| {
            let mut nodes: Vec<Vec<(u32, &str)>> =
                honest.iter().map(|ends| ends.iter().map(|(id, port)| (*id, port.as_str())).collect()).collect();
            nodes.insert(0, liar.to_vec());
            ports(&nodes.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        assert_eq!(with(&[(9, "Eth1/9"), (9, "Eth1/8")]), Some(4));
        assert_eq!(with(&[(1, "Eth1/7")]), Some(4));
        assert_eq!(with(&[(1, "x1"), (2, "x2"), (3, "x3"), (4, "x4")]), Some(4));
        // Nor does it make one of two switches with one name.
        let many: Vec<(u32, String)> = (10..70).map(|id| (id, format!("x{id}"))).collect();
        let many: Vec<(u32, &str)> = many.iter().map(|(id, port)| (*id, port.as_str())).collect();
        let real: [&[(u32, &str)]; 4] = [&[(1, "swp1")], &[(1, "swp2")], &[(2, "swp1")], &[(2, "swp2")]];
        assert_eq!(ports(&[real[0], real[1], real[2], real[3], &many]), None);
    }
}
