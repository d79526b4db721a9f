//! The bricks: a switch, a host, a cable. The generator is made of them, and so is a fabric written by hand in a test.

use super::guid::GuidKind;
use super::{
    End, Fabric, Guid, Hca, HcaRole, Host, HostKind, Layer, Link, LinkId, LinkState, Management, Mint, Naming, Switch,
    Versions,
};

/// A switch to be added.
#[derive(Debug, Clone)]
pub(super) struct NewSwitch {
    pub(super) name: String,
    pub(super) layer: Layer,
    pub(super) unit: Option<u32>,
    pub(super) pod: Option<u32>,
    pub(super) rail: Option<u32>,
    pub(super) plane: u32,
    pub(super) management: Management,
}

impl Fabric {
    /// A fabric with nothing in it; the seed decides the GUIDs of what is added.
    pub fn empty(seed: u64) -> Self {
        // Counters of a real manager have moved since it was installed: no client may take zero for "never asked".
        let versions = Versions { ports: 100, links: 100, switches: 100, servers: 100 };
        let (hosts, switches, links) = (Vec::new(), Vec::new(), Vec::new());
        Self { hosts, switches, links, versions, revision: 1, mint: Mint::new(seed) }
    }

    /// Adds a managed switch and answers its index.
    pub fn add_switch(&mut self, name: &str, layer: Layer) -> u32 {
        let (name, management) = (name.to_owned(), Management::Managed);
        self.put_switch(NewSwitch { name, layer, unit: None, pod: None, rail: None, plane: 0, management })
    }

    /// Adds a host without HCAs and answers its index; every [`Fabric::add_cable`] gives it one.
    pub fn add_host(&mut self, name: &str) -> u32 {
        self.put_host(name.to_owned(), HostKind::Compute, None)
    }

    /// Adds an HCA to the host and plugs it into a new port of the switch. Nothing happens if one of them is not there.
    pub fn add_cable(&mut self, host: u32, switch: u32) -> Option<Guid> {
        let role = HcaRole::Compute { rail: self.host(host)?.hcas.len() as u32, plane: 0 };
        self.put_hca(host, switch, role)
    }

    /// Plugs so many cables between new ports of two switches. Nothing happens if one of them is not there.
    pub fn add_trunk(&mut self, below: u32, above: u32, cables: u32) {
        if self.switch(below).is_none() || self.switch(above).is_none() {
            return;
        }
        for _ in 0..cables {
            self.join_switches(below, above);
        }
        self.touch(|versions| {
            versions.ports += 1;
            versions.links += 1;
        });
    }

    pub(super) fn put_switch(&mut self, new: NewSwitch) -> u32 {
        let NewSwitch { name, layer, unit, pod, rail, plane, management } = new;
        let guid = self.mint.make(GuidKind::Switch);
        // What the vendor sells for 400 Gbit/s, with and without a management board.
        let model = match management {
            Management::Managed => "MQM9700",
            Management::Unmanaged => "MQM9790",
        };
        let ports = Vec::new();
        self.switches.push(Switch {
            guid,
            name,
            model,
            layer,
            unit,
            pod,
            rail,
            plane,
            management,
            ports,
            present: true,
        });
        self.touch(|versions| versions.switches += 1);
        (self.switches.len() - 1) as u32
    }

    pub(super) fn put_host(&mut self, name: String, kind: HostKind, unit: Option<u32>) -> u32 {
        self.hosts.push(Host { name, kind, unit, hcas: Vec::new(), present: true });
        self.touch(|versions| versions.servers += 1);
        (self.hosts.len() - 1) as u32
    }

    pub(super) fn put_hca(&mut self, host: u32, switch: u32, role: HcaRole) -> Option<Guid> {
        self.switch(switch)?;
        let guid = self.mint.make(GuidKind::HostPort);
        let machine = self.hosts.get_mut(host as usize).filter(|host| host.present)?;
        let hca = machine.hcas.len() as u32;
        machine.hcas.push(Hca { guid, device: hca, role, naming: Naming::Resolved, link: None });
        let port = self.new_port(switch)?;
        self.join(End::Host { host, hca }, port);
        self.touch(|versions| {
            versions.ports += 1;
            versions.links += 1;
        });
        Some(guid)
    }

    pub(super) fn join_switches(&mut self, below: u32, above: u32) {
        if let (Some(one), Some(other)) = (self.new_port(below), self.new_port(above)) {
            self.join(one, other);
        }
    }

    /// A free port: one whose cable was taken away for good, else one more.
    pub(super) fn free_port(&mut self, switch: u32) -> Option<End> {
        let found = self.switch(switch)?.ports.iter().position(Option::is_none);
        match found {
            Some(port) => Some(End::Switch { switch, port: port as u32 }),
            None => self.new_port(switch),
        }
    }

    pub(super) fn new_port(&mut self, switch: u32) -> Option<End> {
        let ports = &mut self.switches.get_mut(switch as usize)?.ports;
        ports.push(None);
        Some(End::Switch { switch, port: (ports.len() - 1) as u32 })
    }

    pub(super) fn join(&mut self, one: End, other: End) {
        let id = LinkId(self.links.len() as u32);
        self.links.push(Link { ends: [one, other], state: LinkState::Up });
        self.set_link(one, Some(id));
        self.set_link(other, Some(id));
    }

    pub(super) fn set_link(&mut self, end: End, link: Option<LinkId>) {
        let slot = match end {
            End::Host { host, hca } => self
                .hosts
                .get_mut(host as usize)
                .and_then(|host| host.hcas.get_mut(hca as usize))
                .map(|hca| &mut hca.link),
            End::Switch { switch, port } => {
                self.switches.get_mut(switch as usize).and_then(|switch| switch.ports.get_mut(port as usize))
            }
        };
        if let Some(slot) = slot {
            *slot = link;
        }
    }

    pub(super) fn touch(&mut self, moved: impl FnOnce(&mut Versions)) {
        moved(&mut self.versions);
        self.revision += 1;
    }
}
