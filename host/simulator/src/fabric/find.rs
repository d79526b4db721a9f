//! From names to places.

use super::{End, Fabric, Guid, LinkId, PortName};

/// What was to be changed is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the fabric has no {what} {name:?}")]
pub struct Missing {
    /// Host, switch, port, unit.
    pub what: &'static str,
    /// As it was asked for.
    pub name: String,
}

pub(super) fn missing(what: &'static str, name: impl ToString) -> Missing {
    Missing { what, name: name.to_string() }
}

impl Fabric {
    /// The host with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn find_host(&self, name: &str) -> Result<u32, Missing> {
        let found = self.hosts().find(|(_, host)| host.name == name);
        found.map(|(index, _)| index).ok_or_else(|| missing("host", name))
    }

    /// The first switch with this name, or the one with this GUID.
    ///
    /// # Errors
    /// There is none.
    pub fn find_switch(&self, name: &str) -> Result<u32, Missing> {
        let guid: Option<Guid> = name.parse().ok();
        let found = self.switches().find(|(_, switch)| switch.name == name || Some(switch.guid) == guid);
        found.map(|(index, _)| index).ok_or_else(|| missing("switch", name))
    }

    /// The port with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn find_port(&self, name: PortName) -> Result<End, Missing> {
        let mut hosts = self.hosts().flat_map(|(host, machine)| {
            (0..).zip(&machine.hcas).map(move |(hca, device)| (device.guid, End::Host { host, hca }))
        });
        let found = match hosts.find(|(guid, _)| *guid == name.guid) {
            Some((_, end)) => Some(end).filter(|_| name.number == 1),
            None => self.switches().find(|(_, switch)| switch.guid == name.guid).and_then(|(switch, machine)| {
                let port = name.number.checked_sub(1)?;
                ((port as usize) < machine.ports.len()).then_some(End::Switch { switch, port })
            }),
        };
        found.ok_or_else(|| missing("port", name))
    }

    /// The cable at this end, pulled or not. A port that never had one is a spare one.
    pub(crate) fn link_at(&self, end: End) -> Option<LinkId> {
        match end {
            End::Host { host, hca } => self.host(host)?.hcas.get(hca as usize)?.link,
            End::Switch { switch, port } => *self.switch(switch)?.ports.get(port as usize)?,
        }
    }
}
