//! The fabric itself: hosts, switches and the cables between them.
//!
//! Owns what is plugged into what, and the four counters that say what has changed. Knows no wire format and no server.
//! Everything is a function of the shape, the seed and the edits so far. A cable is one record with two ends, and both
//! ends point at it, so no list that is written from here can disagree with itself.
//!
//! Nothing is ever taken out of the middle of a list: what is removed is marked, so that an index stays what it was.

mod build;
pub(crate) mod edit;
mod find;
mod generate;
mod guid;
mod names;
pub(crate) mod random;
mod shape;
mod shared;
mod words;

pub use find::Missing;
pub use guid::{Guid, PortName};
pub use names::NamePattern;
pub use shape::{Field, Shape};
pub use shared::SharedFabric;
pub use words::{Edit, EditHelp};

use guid::Mint;
use serde::Serialize;

/// A fabric at one moment.
#[derive(Debug, Clone)]
pub struct Fabric {
    hosts: Vec<Host>,
    switches: Vec<Switch>,
    links: Vec<Link>,
    versions: Versions,
    revision: u64,
    mint: Mint,
}

/// A machine with HCAs.
#[derive(Debug, Clone)]
pub struct Host {
    /// As the operating system calls it.
    pub name: String,
    /// What it is for.
    pub kind: HostKind,
    /// Its unit; hosts that do not compute have none.
    pub unit: Option<u32>,
    /// Its ports, in the order of their devices.
    pub hcas: Vec<Hca>,
    pub(crate) present: bool,
}

/// What a host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// It computes.
    Compute,
    /// Login, management or storage.
    Service,
    /// The virtual host of a switch that adds numbers on their way; all of them have the same name.
    Aggregation,
}

/// One port of a host. A split HCA is several of them.
#[derive(Debug, Clone)]
pub struct Hca {
    /// Identity of the port.
    pub guid: Guid,
    /// The `N` of `mlx5_N`.
    pub device: u32,
    /// What it is for.
    pub role: HcaRole,
    /// How UFM knows the host behind it.
    pub naming: Naming,
    pub(crate) link: Option<LinkId>,
}

/// What an HCA is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HcaRole {
    /// Computing, on one rail and one plane.
    Compute {
        /// The rail, from 0.
        rail: u32,
        /// The plane, from 0.
        plane: u32,
    },
    /// Storage.
    Storage,
    /// Management, or a cable that has no business there.
    Other,
}

/// How UFM knows the host behind an HCA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// By its name.
    Resolved,
    /// By its name with the device left in, `node01 mlx5_0`.
    SuffixKept,
    /// By the text that the firmware ships with, since no driver ever set a name.
    Default,
}

/// A switch.
#[derive(Debug, Clone)]
pub struct Switch {
    /// Identity.
    pub guid: Guid,
    /// The name that an operator gave it; two switches may share a name.
    pub name: String,
    /// What the vendor calls it.
    pub model: &'static str,
    /// Its layer.
    pub layer: Layer,
    /// The unit it serves, if it is the leaf of one.
    pub unit: Option<u32>,
    /// Its pod, if it is a leaf of a unit or a spine.
    pub pod: Option<u32>,
    /// The rail it serves, if it is the leaf of a unit.
    pub rail: Option<u32>,
    /// The plane it belongs to.
    pub plane: u32,
    /// Who looks after it.
    pub management: Management,
    pub(crate) ports: Vec<Option<LinkId>>,
    pub(crate) present: bool,
}

impl Switch {
    /// How many ports it has, with and without a cable.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }
}

/// The layer of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// Above hosts, for computing.
    Leaf,
    /// Above hosts, for storage.
    Storage,
    /// Above leaves.
    Spine,
    /// Above spines.
    Core,
}

/// Who looks after a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Management {
    /// It has an address and answers for itself.
    Managed,
    /// It is managed from outside only.
    Unmanaged,
}

/// Which link: an index into the list of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkId(u32);

/// A cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Both ends; which comes first means nothing.
    pub ends: [End; 2],
    /// Whether it works.
    pub state: LinkState,
}

/// One end of a cable, by index into the lists of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// An HCA of a host.
    Host {
        /// Index of the host.
        host: u32,
        /// Index of the HCA in it.
        hca: u32,
    },
    /// A port of a switch.
    Switch {
        /// Index of the switch.
        switch: u32,
        /// Index of the port; its number is one more.
        port: u32,
    },
}

/// Whether a cable works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// It carries data.
    Up,
    /// It carries nothing, but both ends still know each other.
    Down,
    /// It is pulled; neither end knows of the other.
    Unplugged,
}

/// The counters of `app/versioning`. They only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// Moves when any field of any port changes.
    pub ports: u64,
    /// Moves when a link comes, goes or changes its ends.
    pub links: u64,
    /// Moves when a switch comes, goes or changes its name or identity.
    pub switches: u64,
    /// Moves when a host comes, goes or changes its name.
    pub servers: u64,
}

/// How much of everything there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FabricCounts {
    /// Hosts that compute.
    pub hosts: usize,
    /// Hosts of all kinds.
    pub all_hosts: usize,
    /// Switches.
    pub switches: usize,
    /// Links that are up.
    pub links: usize,
    /// Ports with a link that is up, on both sides.
    pub active_ports: usize,
}

impl Fabric {
    /// The hosts that are there, of every kind, with their index.
    pub fn hosts(&self) -> impl Iterator<Item = (u32, &Host)> {
        (0..).zip(&self.hosts).filter(|(_, host)| host.present)
    }

    /// The switches that are there, with their index.
    pub fn switches(&self) -> impl Iterator<Item = (u32, &Switch)> {
        (0..).zip(&self.switches).filter(|(_, switch)| switch.present)
    }

    /// Every cable that is plugged in, up or down.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(|link| link.state != LinkState::Unplugged)
    }

    /// The cable with this number, if it is plugged in.
    pub(crate) fn link(&self, number: u32) -> Option<&Link> {
        self.links.get(number as usize).filter(|link| link.state != LinkState::Unplugged)
    }

    /// The numbers of all cables that are up.
    pub(crate) fn links_up(&self) -> impl Iterator<Item = (u32, &Link)> {
        (0..).zip(&self.links).filter(|(_, link)| link.state == LinkState::Up)
    }

    /// The host with this index, if it is there.
    pub fn host(&self, index: u32) -> Option<&Host> {
        self.hosts.get(index as usize).filter(|host| host.present)
    }

    /// The switch with this index, if it is there.
    pub fn switch(&self, index: u32) -> Option<&Switch> {
        self.switches.get(index as usize).filter(|switch| switch.present)
    }

    /// The name of the port at this end, if it is there.
    pub fn port_name(&self, end: End) -> Option<PortName> {
        match end {
            End::Host { host, hca } => {
                let hca = self.host(host)?.hcas.get(hca as usize)?;
                Some(PortName { guid: hca.guid, number: 1 })
            }
            End::Switch { switch, port } => {
                let switch = self.switch(switch)?;
                switch.ports.get(port as usize)?;
                Some(PortName { guid: switch.guid, number: port + 1 })
            }
        }
    }

    /// What is plugged in at this end: the far end and the state of the cable.
    pub fn peer(&self, end: End) -> Option<(End, LinkState)> {
        let link = match end {
            End::Host { host, hca } => self.host(host)?.hcas.get(hca as usize)?.link?,
            End::Switch { switch, port } => *self.switch(switch)?.ports.get(port as usize)?.as_ref()?,
        };
        let link = self.links.get(link.0 as usize).filter(|link| link.state != LinkState::Unplugged)?;
        let [first, second] = link.ends;
        Some((if first == end { second } else { first }, link.state))
    }

    /// Every port that is there, hosts first, each with its end.
    pub fn ports(&self) -> impl Iterator<Item = End> {
        let hosts = self.hosts().flat_map(|(host, machine)| {
            (0..).zip(&machine.hcas).map(move |(hca, _): (u32, _)| End::Host { host, hca })
        });
        let switches = self.switches().flat_map(|(switch, machine)| {
            (0..).zip(&machine.ports).map(move |(port, _): (u32, _)| End::Switch { switch, port })
        });
        hosts.chain(switches)
    }

    /// The counters of `app/versioning`.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// Grows with every edit that changed something.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// How much of everything there is.
    pub fn counts(&self) -> FabricCounts {
        let links = self.links().filter(|link| link.state == LinkState::Up).count();
        FabricCounts {
            hosts: self.hosts().filter(|(_, host)| host.kind == HostKind::Compute).count(),
            all_hosts: self.hosts().count(),
            switches: self.switches().count(),
            links,
            active_ports: links * 2,
        }
    }
}
