//! The cables of a fabric: hosts, switches and the links between them.
//!
//! A discoverer builds a [`Wiring`] out of its input, record by record. A wiring does not know the cluster and decides
//! nothing; [`crate::place`] does. Everything is a number but the names, which are stored once: 16 384 hosts with
//! eight rails take about 4 MiB.

mod stored;

use std::borrow::Cow;

use crate::guid::Guid;
use crate::interned::{self, Interned};

/// Identities and names beyond this are cut: a group's identity has to fit into 512 bytes.
const MAX_TEXT: usize = 256;

/// A reason for [`Wiring::leave_out`]: the port has neither a name nor a GUID, since the operator ignores the name.
pub const IGNORED: &str = "of hosts that `ignoreHosts` leaves out";
/// A reason for [`Wiring::leave_out`]: the port has neither a name nor a GUID.
pub const NAMELESS: &str = "of machines without a name";

/// A host of the fabric, by the name that the fabric gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) u32);

/// A switch, by its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub(crate) u32);

/// Whether a cable carries traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// It does.
    Up,
    /// The other end is known, but the port is not up.
    Down,
}

/// One cable from a host to a switch, or several parallel ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// How many.
    pub count: u16,
    /// Whether they carry traffic.
    pub state: LinkState,
    /// The host's port, as an operator knows it: `mlx5_4`, `rdma0`. May be empty.
    pub port: &'a str,
    /// The switch's port: `1/9/1`, `swp17s0`. May be empty.
    pub switch_port: &'a str,
}

impl<'a> Link<'a> {
    /// One cable that is up.
    #[must_use]
    pub fn up(port: &'a str) -> Self {
        Self { count: 1, state: LinkState::Up, port, switch_port: "" }
    }

    /// One cable that is down.
    #[must_use]
    pub fn down(port: &'a str) -> Self {
        Self { state: LinkState::Down, ..Self::up(port) }
    }

    /// The port at the other end.
    #[must_use]
    pub fn to(self, switch_port: &'a str) -> Self {
        Self { switch_port, ..self }
    }
}

/// A link as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cable {
    pub(crate) host: u32,
    pub(crate) switch: u32,
    pub(crate) port: u32,
    pub(crate) switch_port: u32,
    pub(crate) count: u16,
    pub(crate) state: LinkState,
}

/// What is known of a switch beside its identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Number of its readable name.
    pub(crate) name: u32,
    /// The declared level; 0: none.
    pub(crate) level: u8,
    /// Cables to hosts without a name.
    pub(crate) unnamed: u32,
}

/// The port of a machine whose name does not identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stranger {
    pub(crate) guid: Guid,
    pub(crate) cable: Cable,
    /// Whether the operator ignores its name: then it is not reported.
    pub(crate) is_ignored: bool,
}

/// Records that were left out, counted by reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) code: String,
    pub(crate) meaning: String,
    pub(crate) example: String,
    pub(crate) count: u64,
}

/// All cables of one or more fabrics.
#[derive(Debug, Clone, Default)]
pub struct Wiring {
    pub(crate) hosts: Interned,
    pub(crate) switches: Interned,
    pub(crate) features: Vec<Features>,
    /// Readable names of switches, and labels of ports.
    pub(crate) texts: Interned,
    pub(crate) cables: Vec<Cable>,
    pub(crate) strangers: Vec<Stranger>,
    pub(crate) guids: Vec<(u32, Guid)>,
    pub(crate) adjacent: Vec<(u32, u32, u32)>,
    pub(crate) skipped: Vec<Skipped>,
    /// Links that the discoverer left out on purpose, by reason: reported only where no link is left.
    pub(crate) left_out: Vec<(String, u64)>,
    pub(crate) partial: bool,
}

impl Wiring {
    /// A wiring without cables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A host, by the name that the fabric gives it (see [`crate::HostNames`]). The same name is the same host.
    pub fn host(&mut self, name: &str) -> HostId {
        HostId(self.hosts.intern(&bounded(name)))
    }

    /// A switch. `identity` identifies it (a GUID, a chassis); `name` is for people and may be empty. Of several names the
    /// alphabetically first counts, in any order of the calls.
    pub fn switch(&mut self, identity: &str, name: &str) -> SwitchId {
        // Number 0 is the empty text, so that features without a name have one.
        self.texts.intern("");
        let number = self.switches.intern(&bounded(identity));
        let name = self.texts.intern(&bounded(name));
        match self.features.get_mut(number as usize) {
            Some(features) if features.name == name || name == 0 => {}
            // Of several names the alphabetically first counts, in any order of the calls.
            Some(features) if features.name == 0 || self.texts.get(name) < self.texts.get(features.name) => {
                features.name = name;
            }
            Some(_) => {}
            None => self.features.push(Features { name, ..Features::default() }),
        }
        SwitchId(number)
    }

    /// A cable between a host and a switch. Cables between the same ports add up.
    pub fn link(&mut self, host: HostId, switch: SwitchId, link: Link<'_>) {
        let cable = self.cable(host.0, switch, link);
        self.cables.push(cable);
    }

    /// The port of a machine that has no usable name: it belongs to the Node that lists this GUID
    /// ([`crate::Settings::guid_annotation`]). It counts as a cable to a host in any case.
    pub fn nameless(&mut self, guid: Guid, switch: SwitchId, link: Link<'_>) {
        let cable = self.cable(0, switch, link);
        self.strangers.push(Stranger { guid, cable, is_ignored: false });
    }

    /// [`Wiring::nameless`] for a machine whose name the operator ignores ([`crate::HostNames::is_ignored`]): it is not
    /// reported.
    pub fn ignored(&mut self, guid: Guid, switch: SwitchId, link: Link<'_>) {
        let cable = self.cable(0, switch, link);
        self.strangers.push(Stranger { guid, cable, is_ignored: true });
    }

    /// The switch has one more cable to a host without a name: it may be a leaf.
    pub fn bears_hosts(&mut self, switch: SwitchId) {
        self.bears_many(switch, 1);
    }

    fn bears_many(&mut self, switch: SwitchId, cables: u32) {
        if let Some(features) = self.features.get_mut(switch.0 as usize) {
            features.unnamed = features.unnamed.saturating_add(cables);
        }
    }

    /// A GUID of one of the host's ports. Only needed where Nodes list theirs.
    pub fn guid(&mut self, host: HostId, guid: Guid) {
        self.guids.push((host.0, guid));
    }

    /// Cables between two switches, in any order. Counts of the same pair add up, so add each cable once.
    pub fn adjacent(&mut self, a: SwitchId, b: SwitchId, count: u32) {
        if a != b && count > 0 {
            self.adjacent.push((a.0.min(b.0), a.0.max(b.0), count));
        }
    }

    /// Declares the level of a switch, 1 (leaf) to 16. It overrides the computed distance; 0 removes the declaration.
    pub fn level(&mut self, switch: SwitchId, level: u8) {
        if let Some(features) = self.features.get_mut(switch.0 as usize) {
            features.level = level.min(16);
        }
    }

    /// Counts a record that was left out or corrected. Each `code` (lower-case letters, digits, hyphens) becomes one
    /// diagnostic of the answer: `<count> <meaning>, for instance <example>`. The first example stays.
    pub fn skip(&mut self, code: &str, meaning: &str, example: &str) {
        self.skip_many(code, meaning, example, 1);
    }

    /// [`Wiring::skip`] for several records.
    pub fn skip_many(&mut self, code: &str, meaning: &str, example: &str, count: u64) {
        if let Some(known) = self.skipped.iter_mut().find(|known| known.code == code) {
            known.count = known.count.saturating_add(count);
        } else {
            let [code, meaning, example] = [code, meaning, example].map(|text| bounded(text).into_owned());
            self.skipped.push(Skipped { code, meaning, example, count });
        }
    }

    /// Counts links that the operator excludes, or that cannot belong to a host. `reason` ends the sentence "so many links
    /// are …". It is reported only where no Node has a link that counts: a filter that works needs no report.
    pub fn leave_out(&mut self, reason: &str, count: u64) {
        if let Some((_, known)) = self.left_out.iter_mut().find(|(known, _)| known == reason) {
            *known = known.saturating_add(count);
        } else if count > 0 {
            self.left_out.push((bounded(reason).into_owned(), count));
        }
    }

    /// Declares the wiring incomplete: the answer only adds.
    pub fn partial(&mut self) {
        self.partial = true;
    }

    /// Adds another fabric: hosts of the same name and switches of the same identity are the same.
    pub fn absorb(&mut self, other: &Self) {
        let hosts: Vec<HostId> = other.hosts.iter().map(|name| self.host(name)).collect();
        let switches: Vec<SwitchId> = (0..)
            .zip(&other.features)
            .map(|(number, features)| {
                let id = self.switch(other.switches.get(number), other.texts.get(features.name));
                self.bears_many(id, features.unnamed);
                if features.level != 0 {
                    self.level(id, features.level);
                }
                id
            })
            .collect();
        let host = |number: u32| hosts.get(number as usize).copied();
        let switch = |number: u32| switches.get(number as usize).copied();
        for cable in &other.cables {
            if let (Some(host), Some(switch)) = (host(cable.host), switch(cable.switch)) {
                self.link(host, switch, other.link_of(cable));
            }
        }
        for stranger in &other.strangers {
            if let Some(switch) = switch(stranger.cable.switch) {
                let link = other.link_of(&stranger.cable);
                if stranger.is_ignored {
                    self.ignored(stranger.guid, switch, link);
                } else {
                    self.nameless(stranger.guid, switch, link);
                }
            }
        }
        for &(number, guid) in &other.guids {
            if let Some(host) = host(number) {
                self.guid(host, guid);
            }
        }
        for &(a, b, count) in &other.adjacent {
            if let (Some(a), Some(b)) = (switch(a), switch(b)) {
                self.adjacent(a, b, count);
            }
        }
        for skipped in &other.skipped {
            self.skip_many(&skipped.code, &skipped.meaning, &skipped.example, skipped.count);
        }
        for (reason, count) in &other.left_out {
            self.leave_out(reason, *count);
        }
        self.partial |= other.partial;
    }

    /// How many hosts have a name.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// How many switches there are.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// How many host links there are, up or down.
    #[must_use]
    pub fn links(&self) -> usize {
        self.cables.len() + self.strangers.len()
    }

    fn cable(&mut self, host: u32, switch: SwitchId, link: Link<'_>) -> Cable {
        let port = self.texts.intern(&bounded(link.port));
        let switch_port = self.texts.intern(&bounded(link.switch_port));
        Cable { host, switch: switch.0, port, switch_port, count: link.count.max(1), state: link.state }
    }

    fn link_of(&self, cable: &Cable) -> Link<'_> {
        let [port, switch_port] = [cable.port, cable.switch_port].map(|text| self.texts.get(text));
        Link { count: cable.count, state: cable.state, port, switch_port }
    }
}

/// The text on one line; a long one is cut and ends with a hash of the whole.
fn bounded(text: &str) -> Cow<'_, str> {
    let text: Cow<'_, str> =
        if text.contains(char::is_control) { text.replace(char::is_control, " ").into() } else { text.into() };
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = text.floor_char_boundary(MAX_TEXT - 17);
    format!("{}~{:016x}", text.get(..end).unwrap_or_default(), interned::hash(&text)).into()
}
