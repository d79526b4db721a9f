//! `compat: volcano`: the groups that Volcano's own discoverer makes of a fabric.
//!
//! Leaves that share a host, directly or through other leaves, are one group. Groups are numbered by their smallest leaf;
//! one spine group contains them all. Names are used as they are: no matching with Nodes and no memory. Only a name that no
//! Node can have is left out, because the API server would refuse the whole object for it.

use topoloom_sdk::{GroupRef, Level, Subject, Topology, TopologyBuilder};

use crate::graph::{Lists, NONE, Sets, at, set};
use crate::report;
use crate::wiring::Wiring;

/// The answer for a wiring whose hosts and switches go by their raw names: `system_name` and `peer_node_name` as they
/// are, links of every state. What the discoverer left out ([`Wiring::skip`]) is reported.
#[must_use]
pub fn volcano(wiring: &Wiring) -> Topology {
    let hosts = wiring.hosts.len();
    let links = || wiring.cables.iter().map(|cable| (cable.host, cable.switch));
    let mut sets = Sets::new(wiring.switches.len() as u32);
    let mut first_leaf = vec![NONE; hosts];
    for (host, leaf) in links() {
        match at(&first_leaf, host) {
            NONE => set(&mut first_leaf, host, leaf),
            first => {
                sets.join(first, leaf);
            }
        }
    }
    // Groups in the order of their smallest leaf, as bytes.
    let mut leaves: Vec<(&str, u32)> = links().map(|(_, leaf)| (wiring.switches.get(leaf), leaf)).collect();
    leaves.sort_unstable();
    leaves.dedup();
    let mut number_of = vec![NONE; wiring.switches.len()];
    let mut groups = 0;
    for (_, leaf) in leaves {
        let set_of = sets.find(leaf);
        if at(&number_of, set_of) == NONE {
            set(&mut number_of, set_of, groups);
            groups += 1;
        }
    }
    let members = (0..).zip(&first_leaf).filter(|&(_, &leaf)| leaf != NONE);
    let members: Vec<(u32, u32)> = members.map(|(host, &leaf)| (at(&number_of, sets.find(leaf)), host)).collect();
    write(wiring, &Lists::collect(groups as usize, members.iter().copied()), groups)
}

fn write(wiring: &Wiring, members: &Lists, groups: u32) -> Topology {
    let mut topology = TopologyBuilder::new();
    let mut impossible = Vec::new();
    let mut written: Vec<(String, GroupRef)> = Vec::new();
    let level = (groups > 0).then(|| topology.level(Level::new(1)));
    for (number, level) in (0..groups).zip(std::iter::repeat(level).flatten()) {
        let mut names: Vec<&str> = members.of(number).iter().map(|&host| wiring.hosts.get(host)).collect();
        names.sort_unstable();
        impossible.extend(names.extract_if(.., |name| !is_node_name(name)));
        if !names.is_empty() {
            let name = format!("leaf-hn-{number}");
            let group = topology.group(level, &name).fixed_name(&name).names(names);
            written.push((name, group));
        }
    }
    if !written.is_empty() {
        let level = topology.level(Level::new(2));
        written.sort_unstable();
        topology.group(level, "spine-hn").fixed_name("spine-hn").groups(written.into_iter().map(|(_, group)| group));
    }
    if let Some(first) = impossible.first() {
        let detail = format!("{} hosts have names that no Node can have, for instance {first:?}", impossible.len());
        topology.diagnose("impossible-name", Subject::Source, detail);
    }
    report::skipped(wiring, &mut topology);
    topology.finish()
}

/// A lower-case DNS-1123 subdomain.
fn is_node_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().copied().is_some_and(is_inner)
                && bytes.last().copied().is_some_and(is_inner)
                && bytes.iter().all(|&byte| is_inner(byte) || byte == b'-')
        })
}
