//! How big a fabric is and how it is wired: numbers with ranges, one table for all of them.

use super::names::NamePattern;
use crate::value::{BadValue, number};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the generator builds.
///
/// A unit is a group of hosts that share one leaf switch per rail and plane. Pods hold units in order; every leaf of a pod
/// goes up to the spines of its pod and plane, every spine to the cores of its plane, with as many links up as down, so
/// each tier doubles the number of links between switches. Written as `units=4,rails=8`, after an optional preset:
/// `large,seed=3`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Shape {
    /// Units of hosts, over all pods.
    pub units: u32,
    /// Hosts of one unit.
    pub hosts_per_unit: u32,
    /// HCAs for computing of one host; rail `n` of every host of a unit ends at the same leaf.
    pub rails: u32,
    /// Planes; every rail is split over all of them, with a leaf of its own in each.
    pub planes: u32,
    /// Pods; units are dealt out to them in order.
    pub pods: u32,
    /// Spine switches of one pod and plane; 0 leaves every unit alone.
    pub spines: u32,
    /// Core switches of one plane; 0 leaves every pod alone.
    pub cores: u32,
    /// Leaf switches for storage; each serves several units through one more HCA of every host.
    pub storage_leaves: u32,
    /// Hosts for login, management and storage: no computing, a leg in two units and on a storage leaf.
    pub service_hosts: u32,
    /// Ports of every switch that have no cable.
    pub spare_ports: u32,
    /// Of a hundred switches, how many are unmanaged.
    pub unmanaged: u32,
    /// Whether every switch has an aggregation node: 0 or 1.
    pub aggregation_nodes: u32,
    /// Decides GUIDs and everything that is drawn by lot.
    pub seed: u64,
    /// How hosts are called.
    pub host_names: NamePattern,
}

/// One number of a shape.
#[derive(Clone, Copy)]
pub struct Field {
    /// As it is written in text.
    pub name: &'static str,
    /// Smallest and largest value.
    pub range: (u64, u64),
    /// One sentence.
    pub help: &'static str,
    get: fn(&Shape) -> u64,
    set: fn(&mut Shape, u64),
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field").field("name", &self.name).field("range", &self.range).finish_non_exhaustive()
    }
}

macro_rules! fields {
    ($($name:literal $field:ident $range:expr, $help:literal;)*) => {
        &[$(Field {
            name: $name,
            range: $range,
            help: $help,
            get: |shape| u64::from(shape.$field),
            // The range was checked before and fits the type of every field.
            set: |shape, value| shape.$field = value as _,
        },)*]
    };
}

const FIELDS: &[Field] = fields! {
    "units" units (1, 65_536), "Units of hosts over all pods.";
    "hosts-per-unit" hosts_per_unit (1, 4_096), "Hosts of one unit.";
    "rails" rails (1, 32), "Compute HCAs of one host.";
    "planes" planes (1, 8), "Planes that every rail is split over.";
    "pods" pods (1, 4_096), "Pods that units are dealt out to.";
    "spines" spines (0, 4_096), "Spine switches of one pod and plane.";
    "cores" cores (0, 8_192), "Core switches of one plane.";
    "storage-leaves" storage_leaves (0, 4_096), "Leaf switches for storage, shared by units.";
    "service-hosts" service_hosts (0, 4_096), "Hosts that do not compute.";
    "spare-ports" spare_ports (0, 128), "Ports without a cable on every switch.";
    "unmanaged" unmanaged (0, 100), "Of a hundred switches, how many are unmanaged.";
    "aggregation-nodes" aggregation_nodes (0, 1), "Whether every switch has an aggregation node.";
    "seed" seed (0, u64::MAX), "Decides GUIDs and what is drawn by lot.";
};

/// Most cables of one fabric. The largest fabric that anyone plans, 16 384 hosts with 8 rails, has 393 216.
const MOST_LINKS: u64 = 4_000_000;
/// Most switches of one fabric: ten times those of the largest fabric that anyone plans.
const MOST_SWITCHES: u64 = 100_000;
/// Most ports of one fabric, with and without a cable: both ends of as many cables as are allowed, and room to spare.
const MOST_PORTS: u64 = 10_000_000;

impl Default for Shape {
    /// Four units of eight hosts with four rails in two pods: small enough to read, with every tier.
    fn default() -> Self {
        Self {
            units: 4,
            hosts_per_unit: 8,
            rails: 4,
            planes: 1,
            pods: 2,
            spines: 4,
            cores: 2,
            storage_leaves: 0,
            service_hosts: 0,
            spare_ports: 0,
            unmanaged: 25,
            aggregation_nodes: 0,
            seed: 1,
            host_names: NamePattern::default(),
        }
    }
}

impl Shape {
    /// 2 048 hosts with eight rails under three tiers: 98 304 active port objects.
    pub fn large() -> Self {
        Self { units: 64, hosts_per_unit: 32, rails: 8, pods: 4, spines: 128, cores: 256, ..Self::default() }
    }

    /// 16 384 hosts with eight rails under three tiers: 786 432 active port objects.
    pub fn huge() -> Self {
        Self { units: 512, pods: 32, cores: 2_048, ..Self::large() }
    }

    /// The fabrics that have a name, which may come first in a shape, for help and documents.
    pub fn presets() -> [(&'static str, Self); 3] {
        [("default", Self::default()), ("large", Self::large()), ("huge", Self::huge())]
    }

    /// The numbers with names, ranges and one sentence each, for help and documents.
    pub fn fields() -> &'static [Field] {
        FIELDS
    }

    /// Sets one field from text: one of [`Shape::fields`], or `host-names`. What must hold between fields is only held
    /// against each other by [`Shape::check`].
    ///
    /// # Errors
    /// There is no such field, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        if name == "host-names" {
            self.host_names = value.parse()?;
            return Ok(());
        }
        let known = || FIELDS.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
        let field = FIELDS.iter().find(|field| field.name == name);
        let field = field.ok_or_else(|| BadValue::new("shape", name, format!("{}, host-names", known())))?;
        (field.set)(self, number(name, value, field.range.0..=field.range.1)?);
        Ok(())
    }

    /// Hosts that compute.
    pub fn hosts(&self) -> u64 {
        u64::from(self.units) * u64::from(self.hosts_per_unit)
    }

    /// Cables between hosts that compute and their leaves, without storage.
    pub fn host_links(&self) -> u64 {
        self.hosts() * u64::from(self.rails) * u64::from(self.planes)
    }

    /// Switches of all tiers, with those for storage.
    pub fn switches(&self) -> u64 {
        let [units, rails, pods, spines] = [self.units, self.rails, self.pods, self.spines].map(u64::from);
        let plane = units * rails + pods * spines + u64::from(self.cores);
        u64::from(self.planes) * plane + u64::from(self.storage_leaves)
    }

    /// Cables at most: as many between two tiers as below them, one of every host for storage, three of a service host.
    fn cables(&self) -> u64 {
        let storage = if self.storage_leaves > 0 { self.hosts() } else { 0 };
        self.host_links() * 3 + storage + u64::from(self.service_hosts) * 3
    }

    /// Ports at most: two of every cable, and those of every switch that have none or lead to its aggregation node.
    fn ports(&self) -> u64 {
        let own = u64::from(self.spare_ports) + 2 * u64::from(self.aggregation_nodes);
        self.cables() * 2 + self.switches() * own
    }

    /// Holds every number against its range and the whole against what fits into memory.
    ///
    /// # Errors
    /// The first field that is not allowed.
    pub fn check(&self) -> Result<(), BadValue> {
        for field in FIELDS {
            number(field.name, &(field.get)(self).to_string(), field.range.0..=field.range.1)?;
        }
        if self.pods > self.units {
            return Err(BadValue::new("pods", &self.pods.to_string(), "at most as many pods as units"));
        }
        if self.cores > 0 && self.spines == 0 {
            return Err(BadValue::new("cores", &self.cores.to_string(), "0 when there are no spines"));
        }
        for (count, what, most, made_of) in [
            (self.cables(), "cables", MOST_LINKS, "units, hosts-per-unit, rails, planes"),
            (self.switches(), "switches", MOST_SWITCHES, "planes * (units * rails + pods * spines + cores)"),
            (self.ports(), "ports", MOST_PORTS, "two of every cable, and spare-ports of every switch"),
        ] {
            if count > most {
                return Err(BadValue::new(
                    "shape",
                    &format!("{count} {what}"),
                    format!("at most {most} {what} ({made_of})"),
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let mut shape = Self::default();
        for (place, word) in text.split(',').map(str::trim).filter(|word| !word.is_empty()).enumerate() {
            match (place, word.split_once('=')) {
                (place, None) => {
                    let preset = Self::presets().into_iter().find(|(name, _)| place == 0 && *name == word);
                    let names = || Self::presets().map(|(name, _)| name).join(", ");
                    let expected = || format!("name=value, or first a preset: {}", names());
                    shape = preset.ok_or_else(|| BadValue::new("shape", word, expected()))?.1;
                }
                (_, Some((name, value))) => shape.set(name, value)?,
            }
        }
        shape.check()?;
        Ok(shape)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FIELDS.iter().try_for_each(|field| write!(f, "{}={},", field.name, (field.get)(self)))?;
        write!(f, "host-names={}", self.host_names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_as_it_is_written() {
        for shape in [Shape::default(), Shape::large(), Shape { seed: u64::MAX, ..Shape::huge() }] {
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
        assert_eq!((Shape::huge().switches(), Shape::huge().cables()), (10_240, 393_216));
        for (name, shape) in Shape::presets() {
            assert_eq!(name.parse(), Ok(shape));
        }
        let shape: Shape = "large, units=8,pods=2,host-names=n{index}".parse().unwrap();
        assert_eq!((shape.units, shape.pods, shape.rails), (8, 2, 8));
    }

    #[test]
    fn a_wrong_shape_says_what_is_allowed() {
        for (text, says) in [
            ("units=0", "units: \"0\" is not allowed; expected a whole number from 1 to 65536"),
            ("rack=1", "shape: \"rack\" is not allowed; expected units, hosts-per-unit"),
            ("units=2,large", "expected name=value, or first a preset: default, large, huge"),
            ("units=2,pods=3", "pods: \"3\" is not allowed; expected at most as many pods as units"),
            ("spines=0", "cores: \"2\" is not allowed; expected 0 when there are no spines"),
            ("units=65536,hosts-per-unit=4096", "cables\" is not allowed; expected at most 4000000 cables (units"),
            (
                "units=65536,hosts-per-unit=1,rails=1,planes=8,pods=4096,spines=4096",
                "shape: \"134742032 switches\" is not allowed; expected at most 100000 switches (planes * (units",
            ),
            ("units=65536,hosts-per-unit=1,rails=2,cores=0,spines=0", "shape: \"131072 switches\" is not allowed"),
            ("pods=1,planes=8,spines=4096,cores=8192,storage-leaves=4096", "\"102528 switches\" is not allowed"),
            (
                "units=65536,hosts-per-unit=1,rails=1,cores=0,pods=8,spines=4096,spare-ports=128",
                "\"12976128 ports\" is not allowed; expected at most 10000000 ports (two of every cable",
            ),
            ("units=10000,hosts-per-unit=33,storage-leaves=1", "shape: \"4290000 cables\" is not allowed"),
        ] {
            let error = text.parse::<Shape>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
