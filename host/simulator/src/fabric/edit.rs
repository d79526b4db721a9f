//! What happens to a fabric: cables, machines and names change. Every change moves exactly the counters it concerns.

use super::find::missing;
use super::guid::GuidKind;
use super::random::Random;
use super::{End, Fabric, Guid, HcaRole, Host, HostKind, LinkId, LinkState, Missing, Naming, PortName, Switch};

/// The name that all aggregation nodes share.
pub(crate) const AGGREGATION: &str = "Mellanox Technologies Aggregation Node";

impl Fabric {
    /// Takes the cable at this port down, or pulls it.
    ///
    /// # Errors
    /// There is no such port.
    pub fn cut_port(&mut self, port: PortName, how: LinkState) -> Result<(), Missing> {
        let end = self.find_port(port)?;
        let link = self.link_at(end);
        self.set_states(link, how);
        Ok(())
    }

    /// Takes every cable of the host down, or pulls it. Answers how many.
    ///
    /// # Errors
    /// There is no such host.
    pub fn cut_host(&mut self, name: &str, how: LinkState) -> Result<usize, Missing> {
        let host = self.find_host(name)?;
        let links: Vec<LinkId> =
            self.host(host).into_iter().flat_map(|host| &host.hcas).filter_map(|hca| hca.link).collect();
        Ok(self.set_states(links, how))
    }

    /// Takes a share of the cables between compute hosts and leaves down, drawn by lot, or pulls them. Answers how many;
    /// the same seed draws the same cables from the same fabric.
    pub fn cut_share(&mut self, percent: u8, seed: u64, how: LinkState) -> usize {
        let compute = self.hosts().filter(|(_, host)| host.kind == HostKind::Compute);
        let mut links: Vec<LinkId> = compute
            .flat_map(|(_, host)| &host.hcas)
            .filter_map(|hca| hca.link)
            .filter(|link| self.links.get(link.0 as usize).is_some_and(|link| link.state == LinkState::Up))
            .collect();
        Random::new(seed).shuffle(&mut links);
        links.truncate((links.len() * usize::from(percent.min(100)) + 50) / 100);
        self.set_states(links, how)
    }

    /// Brings every cable up again that has both its ends. Answers how many.
    pub fn mend(&mut self) -> usize {
        let whole = |link: &LinkId| {
            let ends = self.links.get(link.0 as usize).map(|link| link.ends);
            ends.is_some_and(|ends| ends.iter().all(|end| self.link_at(*end) == Some(*link)))
        };
        let links: Vec<LinkId> = (0..self.links.len() as u32).map(LinkId).filter(whole).collect();
        self.set_states(links, LinkState::Up)
    }

    /// Exchanges the far ends of the cables at two ports, as a technician does who plugs them back the wrong way round.
    ///
    /// # Errors
    /// One of the ports is not there, or has no cable.
    pub fn swap(&mut self, one: PortName, other: PortName) -> Result<(), Missing> {
        let ends = [self.find_port(one)?, self.find_port(other)?];
        let far = |end, name| self.peer(end).map(|(far, _)| far).ok_or_else(|| missing("cable at", name));
        let (here, there) = (far(ends[0], one)?, far(ends[1], other)?);
        if here == ends[1] || ends[0] == ends[1] {
            return Ok(());
        }
        self.unplug(ends[0]);
        self.unplug(ends[1]);
        self.join(ends[0], there);
        self.join(ends[1], here);
        self.cabled();
        Ok(())
    }

    /// Pulls the cable out of a port of a host and plugs it into the switch instead.
    ///
    /// # Errors
    /// The port or the switch is not there.
    pub fn plug(&mut self, port: PortName, switch: &str) -> Result<(), Missing> {
        let end = self.find_port(port)?;
        let switch = self.find_switch(switch)?;
        // Chosen before the cable is pulled, or a port of the same switch would be plugged into itself.
        let free = self.free_port(switch);
        self.unplug(end);
        if let Some(free) = free.filter(|free| *free != end) {
            self.join(end, free);
        }
        self.cabled();
        Ok(())
    }

    /// Gives the host one more HCA with a cable to this switch, which has no business there.
    ///
    /// # Errors
    /// The host or the switch is not there.
    pub fn add_stray(&mut self, host: &str, switch: &str) -> Result<(), Missing> {
        let (host, switch) = (self.find_host(host)?, self.find_switch(switch)?);
        self.put_hca(host, switch, HcaRole::Other);
        Ok(())
    }

    /// Carries a host to another unit: each of its compute HCAs goes to the leaf of the same rail and plane there.
    ///
    /// # Errors
    /// There is no such host, or the unit has no leaf for one of its rails.
    pub fn move_host(&mut self, name: &str, unit: u32) -> Result<(), Missing> {
        let host = self.find_host(name)?;
        let mut plan = Vec::new();
        for (hca, device) in (0..).zip(self.host(host).into_iter().flat_map(|host| &host.hcas)) {
            let HcaRole::Compute { rail, plane } = device.role else { continue };
            let fits =
                |switch: &Switch| switch.unit == Some(unit) && switch.rail == Some(rail) && switch.plane == plane;
            let leaf = self.switches().find(|(_, switch)| fits(switch));
            plan.push((End::Host { host, hca }, leaf.ok_or_else(|| missing("unit", unit))?.0));
        }
        for (end, leaf) in plan {
            self.unplug(end);
            if let Some(free) = self.free_port(leaf) {
                self.join(end, free);
            }
        }
        self.with_host(host, |host| host.unit = Some(unit));
        self.cabled();
        Ok(())
    }

    /// Takes a host away with all its cables.
    ///
    /// # Errors
    /// There is no such host.
    pub fn remove_host(&mut self, name: &str) -> Result<(), Missing> {
        let host = self.find_host(name)?;
        let hcas = self.host(host).map_or(0, |host| host.hcas.len() as u32);
        (0..hcas).for_each(|hca| self.unplug(End::Host { host, hca }));
        self.with_host(host, |host| host.present = false);
        self.cabled();
        self.touch(|versions| versions.servers += 1);
        Ok(())
    }

    /// Takes a switch away with all its cables.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn remove_switch(&mut self, name: &str) -> Result<(), Missing> {
        let switch = self.find_switch(name)?;
        let ports = self.switch(switch).map_or(0, |switch| switch.ports.len() as u32);
        (0..ports).for_each(|port| self.unplug(End::Switch { switch, port }));
        self.with_switch(switch, |switch| switch.present = false);
        self.cabled();
        self.touch(|versions| versions.switches += 1);
        Ok(())
    }

    /// Gives a switch another name; its identity stays. Two switches may have the same.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn rename_switch(&mut self, name: &str, new: &str) -> Result<(), Missing> {
        let switch = self.find_switch(name)?;
        self.with_switch(switch, |switch| new.clone_into(&mut switch.name));
        self.touch(|versions| {
            versions.switches += 1;
            versions.ports += 1;
        });
        Ok(())
    }

    /// Puts another switch in the place of this one: same name, same cables, another GUID. Answers the new one.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn replace_guid(&mut self, name: &str) -> Result<Guid, Missing> {
        let switch = self.find_switch(name)?;
        let guid = self.mint.make(GuidKind::Switch);
        self.with_switch(switch, |switch| switch.guid = guid);
        self.cabled();
        self.touch(|versions| versions.switches += 1);
        Ok(guid)
    }

    /// Gives every switch an aggregation node: a virtual host with the same name on each of them.
    pub fn add_aggregation_nodes(&mut self) {
        let switches: Vec<u32> = self.switches().map(|(index, _)| index).collect();
        for switch in switches {
            let host = self.put_host(AGGREGATION.to_owned(), HostKind::Aggregation, None);
            self.put_hca(host, switch, HcaRole::Other);
        }
    }

    /// Gives a host another name.
    ///
    /// # Errors
    /// There is no such host.
    pub fn rename_host(&mut self, name: &str, new: &str) -> Result<(), Missing> {
        let host = self.find_host(name)?;
        self.with_host(host, |host| new.clone_into(&mut host.name));
        self.touch(|versions| {
            versions.servers += 1;
            versions.ports += 1;
        });
        Ok(())
    }

    /// Changes how UFM knows the HCAs of a host.
    ///
    /// # Errors
    /// There is no such host.
    pub fn set_naming(&mut self, name: &str, naming: Naming) -> Result<(), Missing> {
        let host = self.find_host(name)?;
        self.with_host(host, |host| host.hcas.iter_mut().for_each(|hca| hca.naming = naming));
        self.touch(|versions| {
            versions.servers += 1;
            versions.ports += 1;
        });
        Ok(())
    }

    fn with_host(&mut self, host: u32, change: impl FnOnce(&mut Host)) {
        if let Some(host) = self.hosts.get_mut(host as usize) {
            change(host);
        }
    }

    fn with_switch(&mut self, switch: u32, change: impl FnOnce(&mut Switch)) {
        if let Some(switch) = self.switches.get_mut(switch as usize) {
            change(switch);
        }
    }

    fn cabled(&mut self) {
        self.touch(|versions| {
            versions.ports += 1;
            versions.links += 1;
        });
    }

    /// Takes the cable at this end away for good: neither end points at it any more.
    fn unplug(&mut self, end: End) {
        let Some(id) = self.link_at(end) else { return };
        let Some(link) = self.links.get_mut(id.0 as usize) else { return };
        link.state = LinkState::Unplugged;
        let ends = link.ends;
        ends.into_iter().for_each(|end| self.set_link(end, None));
    }

    fn set_states(&mut self, links: impl IntoIterator<Item = LinkId>, state: LinkState) -> usize {
        let mut changed = 0;
        for LinkId(link) in links {
            if let Some(link) = self.links.get_mut(link as usize).filter(|link| link.state != state) {
                link.state = state;
                changed += 1;
            }
        }
        if changed > 0 {
            self.cabled();
        }
        changed
    }
}
