//! Nodes and switches of the document.

use super::Chassis;
use crate::fabric::{End, Fabric, Guid, Hca, HcaRole, Host, Layer, LinkState, Switch};
use crate::wire::{Rows, decimal, escaped, quoted};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The hosts, as collectors on them would report.
pub(super) struct HostRows {
    pub(super) fabric: Arc<Fabric>,
    pub(super) hosts: Vec<u32>,
    pub(super) chassis: Chassis,
    pub(super) observed_at: Timestamp,
}

impl Rows for HostRows {
    fn write(&self, index: usize, out: &mut Vec<u8>) {
        let host = self.hosts.get(index).and_then(|index| Some((*index, self.fabric.host(*index)?)));
        match host {
            Some((index, host)) => self.node(index, host, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl HostRows {
    fn node(&self, index: u32, host: &Host, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"schema\":\"topoloom.fabric/v1\",\"node\":");
        quoted(out, &host.name);
        out.extend_from_slice(
            format!(",\"observedAt\":\"{}\",\"collector\":\"lldpd 1.0.18\",\"links\":[", self.observed_at).as_bytes(),
        );
        let mut first = true;
        for (number, hca) in (0..).zip(&host.hcas) {
            // A pulled cable has no neighbour, and without a neighbour LLDP reports nothing.
            let Some((End::Switch { switch, port }, state)) = self.fabric.peer(End::Host { host: index, hca: number })
            else {
                continue;
            };
            let Some(switch) = self.fabric.switch(switch) else { continue };
            if !std::mem::take(&mut first) {
                out.push(b',');
            }
            link(out, hca, self.chassis, (switch, port), state);
        }
        out.extend_from_slice(b"]}");
    }
}

fn link(out: &mut Vec<u8>, hca: &Hca, kind: Chassis, (switch, port): (&Switch, u32), state: LinkState) {
    let (interface, role) = match hca.role {
        HcaRole::Compute { .. } => ("rdma", "compute"),
        HcaRole::Storage => ("sto", "storage"),
        HcaRole::Other => ("eth", "mgmt"),
    };
    out.extend_from_slice(format!("{{\"if\":\"{interface}{}\",", hca.device).as_bytes());
    if let HcaRole::Compute { rail, plane } = hca.role {
        let plane = char::from(b'a' + (plane % 26) as u8);
        out.extend_from_slice(format!("\"rail\":{rail},\"plane\":\"{plane}\",").as_bytes());
    }
    out.extend_from_slice(format!("\"role\":\"{role}\",\"switch\":{{\"name\":\"").as_bytes());
    escaped(out, &switch.name);
    out.extend_from_slice(b"\",\"chassis\":\"");
    match kind {
        Chassis::OfSwitch => chassis(out, switch.guid),
        // An address of its own next to that of the host's port, which no other cable has.
        Chassis::OfPort => chassis(out, hca.guid),
    }
    out.extend_from_slice(b"\"},\"port\":\"swp");
    decimal(out, port + 1);
    let up = state == LinkState::Up;
    out.extend_from_slice(format!("\",\"up\":{up},\"speedMbps\":{}}}", if up { 400_000 } else { 0 }).as_bytes());
}

/// The switches, as their controller would report.
pub(super) struct Switches {
    pub(super) fabric: Arc<Fabric>,
    pub(super) switches: Vec<u32>,
}

impl Rows for Switches {
    fn write(&self, index: usize, out: &mut Vec<u8>) {
        let switch = self.switches.get(index).and_then(|index| Some((*index, self.fabric.switch(*index)?)));
        match switch {
            Some((index, switch)) => self.switch(index, switch, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl Switches {
    fn switch(&self, index: u32, switch: &Switch, out: &mut Vec<u8>) {
        let mut uplinks: BTreeMap<Guid, u32> = BTreeMap::new();
        for port in 0..switch.ports() as u32 {
            let far = self.fabric.peer(End::Switch { switch: index, port });
            let Some((End::Switch { switch: far, .. }, LinkState::Up)) = far else { continue };
            let above = self.fabric.switch(far).filter(|far| level(far) > level(switch));
            if let Some(above) = above {
                *uplinks.entry(above.guid).or_default() += 1;
            }
        }
        out.extend_from_slice(b"{\"id\":\"");
        chassis(out, switch.guid);
        out.extend_from_slice(b"\",\"name\":");
        quoted(out, &switch.name);
        out.extend_from_slice(format!(",\"level\":{},\"uplinks\":[", level(switch)).as_bytes());
        for (place, (guid, count)) in uplinks.into_iter().enumerate() {
            out.extend_from_slice(if place == 0 { b"{\"to\":\"" } else { b",{\"to\":\"" });
            chassis(out, guid);
            out.extend_from_slice(format!("\",\"count\":{count}}}").as_bytes());
        }
        out.extend_from_slice(b"]}");
    }
}

fn chassis(out: &mut Vec<u8>, guid: Guid) {
    out.extend_from_slice(guid.chassis().as_bytes());
}

/// Levels count from the hosts.
fn level(switch: &Switch) -> u32 {
    match switch.layer {
        Layer::Leaf | Layer::Storage => 1,
        Layer::Spine => 2,
        Layer::Core => 3,
    }
}
