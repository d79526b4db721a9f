//! From a shape to a fabric.

use super::build::NewSwitch;
use super::names::Numbers;
use super::random::Random;
use super::{Fabric, HcaRole, HostKind, Layer, Management, Shape};
use crate::value::BadValue;

impl Fabric {
    /// Builds the fabric of a shape; the same shape gives the same fabric, GUID by GUID.
    ///
    /// # Errors
    /// The field of the shape that is out of range.
    pub fn generate(shape: &Shape) -> Result<Self, BadValue> {
        shape.check()?;
        let mut site = Site { shape, fabric: Self::empty(shape.seed), random: Random::new(shape.seed) };
        let leaves = site.leaves();
        let storage = site.storage();
        site.compute(&leaves, &storage);
        site.services(&leaves, &storage);
        site.trunks(&leaves);
        let mut fabric = site.fabric;
        let present = fabric.switches.len() as u32;
        for switch in 0..present {
            for _ in 0..shape.spare_ports {
                fabric.new_port(switch);
            }
        }
        if shape.aggregation_nodes > 0 {
            fabric.add_aggregation_nodes();
        }
        // However it was built, a generated fabric starts with the counters of a fresh one.
        let fresh = Self::empty(shape.seed);
        (fabric.versions, fabric.revision) = (fresh.versions, fresh.revision);
        Ok(fabric)
    }
}

/// A fabric under construction.
struct Site<'a> {
    shape: &'a Shape,
    fabric: Fabric,
    random: Random,
}

/// The leaves of a unit: rail by rail, within a rail plane by plane.
type UnitLeaves = Vec<u32>;

impl Site<'_> {
    /// The plane as a part of a name; a fabric with one plane does not mention it.
    fn plane_suffix(&self, plane: u32) -> String {
        match (self.shape.planes, u8::try_from(plane)) {
            (1, _) | (_, Err(_)) => String::new(),
            (_, Ok(plane)) => char::from(b'a' + plane).to_string(),
        }
    }

    fn management(&mut self) -> Management {
        match self.random.below(100) < self.shape.unmanaged as usize {
            true => Management::Unmanaged,
            false => Management::Managed,
        }
    }

    fn pod_of(&self, unit: u32) -> u32 {
        share(unit, self.shape.units, self.shape.pods)
    }

    fn leaves(&mut self) -> Vec<UnitLeaves> {
        let mut units = Vec::new();
        for unit in 0..self.shape.units {
            let mut leaves = Vec::new();
            for (rail, plane) in pairs(self.shape.rails, self.shape.planes) {
                let name = format!("leaf-su{unit}-r{rail}{}", self.plane_suffix(plane));
                let (pod, management) = (Some(self.pod_of(unit)), self.management());
                let (unit, rail) = (Some(unit), Some(rail));
                let new = NewSwitch { name, layer: Layer::Leaf, unit, pod, rail, plane, management };
                leaves.push(self.fabric.put_switch(new));
            }
            units.push(leaves);
        }
        units
    }

    fn storage(&mut self) -> Vec<u32> {
        let names = (0..self.shape.storage_leaves).map(|number| format!("storage-leaf-{number}"));
        names.map(|name| self.fabric.add_switch(&name, Layer::Storage)).collect()
    }

    fn compute(&mut self, leaves: &[UnitLeaves], storage: &[u32]) {
        for (unit, unit_leaves) in (0..).zip(leaves) {
            // Neighbouring units share a storage leaf.
            let store = storage.get(share(unit, self.shape.units, self.shape.storage_leaves) as usize);
            for host in 0..self.shape.hosts_per_unit {
                let index = unit * self.shape.hosts_per_unit + host;
                let name = self.shape.host_names.name(Numbers { index, unit, host });
                let host = self.fabric.put_host(name, HostKind::Compute, Some(unit));
                for ((rail, plane), leaf) in pairs(self.shape.rails, self.shape.planes).zip(unit_leaves) {
                    self.fabric.put_hca(host, *leaf, HcaRole::Compute { rail, plane });
                }
                if let Some(store) = store {
                    self.fabric.put_hca(host, *store, HcaRole::Storage);
                }
            }
        }
    }

    fn services(&mut self, leaves: &[UnitLeaves], storage: &[u32]) {
        for number in 0..self.shape.service_hosts as usize {
            let host = self.fabric.put_host(format!("service-{number}"), HostKind::Service, None);
            // A leg in two units is what glues units together in the eyes of a naive reader.
            let mut legs: Vec<usize> = (0..2).map(|leg| (2 * number + leg) % leaves.len().max(1)).collect();
            legs.dedup();
            for leaf in legs.into_iter().filter_map(|unit| leaves.get(unit)).filter_map(|unit| unit.first()) {
                self.fabric.put_hca(host, *leaf, HcaRole::Other);
            }
            if let Some(store) = number.checked_rem(storage.len()).and_then(|at| storage.get(at)) {
                self.fabric.put_hca(host, *store, HcaRole::Storage);
            }
        }
    }

    fn trunks(&mut self, leaves: &[UnitLeaves]) {
        let shape = self.shape;
        let mut of_pods: Vec<Vec<u32>> = vec![Vec::new(); shape.pods as usize];
        for (unit, leaves) in (0..).zip(leaves) {
            if let Some(pod) = of_pods.get_mut(self.pod_of(unit) as usize) {
                pod.extend(leaves);
            }
        }
        for plane in 0..shape.planes {
            let suffix = self.plane_suffix(plane);
            let mut spines = Vec::new();
            for (pod, leaves) in (0..).zip(&of_pods) {
                let pod_spines: Vec<u32> = (0..shape.spines)
                    .map(|number| {
                        let name = format!("spine-p{pod}-{number}{suffix}");
                        let (pod, management) = (Some(pod), self.management());
                        let (unit, rail, layer) = (None, None, Layer::Spine);
                        self.fabric.put_switch(NewSwitch { name, layer, unit, pod, rail, plane, management })
                    })
                    .collect();
                let in_plane = |leaf: &u32| self.fabric.switch(*leaf).is_some_and(|leaf| leaf.plane == plane);
                let below: Vec<u32> = leaves.iter().copied().filter(in_plane).collect();
                self.spread(&below, &pod_spines, |_| shape.hosts_per_unit);
                spines.extend(pod_spines);
            }
            let cores: Vec<u32> = (0..shape.cores)
                .map(|number| {
                    let (name, management) = (format!("core-{number}{suffix}"), self.management());
                    let (unit, pod, rail, layer) = (None, None, None, Layer::Core);
                    self.fabric.put_switch(NewSwitch { name, layer, unit, pod, rail, plane, management })
                })
                .collect();
            self.spread(&spines, &cores, |ports| ports);
        }
    }

    /// Gives every lower switch its cables upwards, in turn over the upper ones. `cables` answers how many from the
    /// number of ports that the lower switch has so far.
    fn spread(&mut self, below: &[u32], above: &[u32], cables: impl Fn(u32) -> u32) {
        let mut turn = (0..above.len()).cycle().filter_map(|at| above.get(at));
        for lower in below {
            let ports = self.fabric.switch(*lower).map_or(0, |switch| switch.ports() as u32);
            for upper in turn.by_ref().take(cables(ports) as usize) {
                self.fabric.join_switches(*lower, *upper);
            }
        }
    }
}

/// Which of `parts` the item belongs to when `items` are dealt out in order.
fn share(item: u32, items: u32, parts: u32) -> u32 {
    (u64::from(item) * u64::from(parts)).checked_div(u64::from(items)).unwrap_or(0) as u32
}

fn pairs(rails: u32, planes: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..rails).flat_map(move |rail| (0..planes).map(move |plane| (rail, plane)))
}
