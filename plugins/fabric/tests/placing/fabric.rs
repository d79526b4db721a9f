//! Fabrics of any size: units of hosts with rails, pods with spines, cores, storage switches that serve several units.

use topoloom_fabric::{Link, LinkState, Wiring};

/// Numbers without a pattern that are the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.below(index + 1));
        }
    }
}

/// The shape of a fabric without faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) units: usize,
    pub(crate) hosts: usize,
    pub(crate) rails: usize,
    /// Units of one pod; 0: no switches above the leaves.
    pub(crate) pod: usize,
    /// Spines of each pod.
    pub(crate) spines: usize,
    pub(crate) cores: usize,
    /// Storage switches; each serves `storage_units` units in a row.
    pub(crate) storage: usize,
    pub(crate) storage_units: usize,
}

pub(crate) const EIGHT_RAILS: Shape =
    Shape { units: 8, hosts: 20, rails: 8, pod: 0, spines: 0, cores: 0, storage: 0, storage_units: 0 };

#[derive(Debug, Clone)]
pub(crate) struct Cable {
    pub(crate) host: String,
    pub(crate) leaf: String,
    pub(crate) port: String,
    pub(crate) state: LinkState,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Fabric {
    pub(crate) cables: Vec<Cable>,
    pub(crate) adjacent: Vec<(String, String, u32)>,
}

impl Shape {
    pub(crate) fn host(self, unit: usize, host: usize) -> String {
        format!("gpu-u{unit:03}-h{host:02}")
    }

    pub(crate) fn leaf(unit: usize, rail: usize) -> String {
        format!("leaf-u{unit:03}-r{rail}")
    }

    pub(crate) fn names(self) -> Vec<String> {
        (0..self.units).flat_map(|unit| (0..self.hosts).map(move |host| self.host(unit, host))).collect()
    }

    /// The identity of the group of a unit.
    pub(crate) fn id(unit: usize) -> String {
        Self::leaf(unit, 0)
    }

    pub(crate) fn build(self) -> Fabric {
        let mut fabric = Fabric::default();
        // Units that share their storage switches: blocks in a row; switches are dealt out to the blocks in turn.
        let block = self.storage_units.max(1);
        let blocks = self.units.div_ceil(block).max(1);
        for unit in 0..self.units {
            let storage = || (0..self.storage).filter(|storage| storage % blocks == unit / block);
            for host in (0..self.hosts).map(|host| self.host(unit, host)) {
                (0..self.rails).for_each(|rail| fabric.plug(&host, &Self::leaf(unit, rail), &format!("mlx5_{rail}")));
                storage().for_each(|number| {
                    fabric.plug(&host, &format!("storage-{number:03}"), &format!("mlx5_s{number}"));
                });
            }
        }
        let spine = |pod: usize, spine: usize| format!("spine-p{pod:02}-{spine:02}");
        for unit in 0..self.units {
            let Some(pod) = unit.checked_div(self.pod) else { continue };
            for rail in 0..self.rails {
                fabric.adjacent.extend((0..self.spines).map(|number| (Self::leaf(unit, rail), spine(pod, number), 2)));
            }
            if unit % self.pod == 0 {
                for number in 0..self.spines {
                    let cores = (0..self.cores).map(|core| (spine(pod, number), format!("core-{core:02}"), 1));
                    fabric.adjacent.extend(cores);
                }
            }
        }
        fabric
    }
}

impl Fabric {
    pub(crate) fn plug(&mut self, host: &str, leaf: &str, port: &str) {
        let [host, leaf, port] = [host, leaf, port].map(str::to_owned);
        self.cables.push(Cable { host, leaf, port, state: LinkState::Up });
    }

    pub(crate) fn join(&mut self, a: &str, b: &str) {
        self.adjacent.push((a.to_owned(), b.to_owned(), 1));
    }

    /// Takes cables away at random.
    pub(crate) fn without(&self, percent: u64, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut left = self.clone();
        left.cables.retain(|_| !dice.percent(percent));
        left
    }

    pub(crate) fn without_host(&self, host: &str) -> Self {
        let mut left = self.clone();
        left.cables.retain(|cable| cable.host != host);
        left
    }

    pub(crate) fn unplug(&mut self, host: &str, leaf: &str) {
        self.cables.retain(|cable| cable.host != host || cable.leaf != leaf);
    }

    pub(crate) fn renamed(&self, host: impl Fn(&str) -> String, switch: impl Fn(&str) -> String) -> Self {
        let mut new = self.clone();
        for cable in &mut new.cables {
            cable.host = host(&cable.host);
            cable.leaf = switch(&cable.leaf);
        }
        for (a, b, _) in &mut new.adjacent {
            *a = switch(a);
            *b = switch(b);
        }
        new
    }

    pub(crate) fn shuffled(&self, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let mut new = self.clone();
        dice.shuffle(&mut new.cables);
        dice.shuffle(&mut new.adjacent);
        for (a, b, _) in &mut new.adjacent {
            if dice.percent(50) {
                std::mem::swap(a, b);
            }
        }
        new
    }

    pub(crate) fn wiring(&self) -> Wiring {
        let mut wiring = Wiring::new();
        for cable in &self.cables {
            let host = wiring.host(&cable.host);
            let leaf = wiring.switch(&cable.leaf, "");
            wiring.link(host, leaf, Link { state: cable.state, ..Link::up(&cable.port) });
        }
        for (a, b, count) in &self.adjacent {
            let [a, b] = [a, b].map(|name| wiring.switch(name, ""));
            wiring.adjacent(a, b, *count);
        }
        wiring
    }
}

/// A fabric written as lines of `host: leaf leaf …`.
pub(crate) fn drawn(lines: &str) -> Fabric {
    let mut fabric = Fabric::default();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (host, leaves) = line.split_once(':').unwrap();
        for leaf in leaves.split_whitespace() {
            match leaf.strip_prefix('!') {
                None => fabric.plug(host.trim(), leaf, &format!("to-{leaf}")),
                Some(leaf) => {
                    fabric.plug(host.trim(), leaf, &format!("to-{leaf}"));
                    fabric.cables.last_mut().unwrap().state = LinkState::Down;
                }
            }
        }
    }
    fabric
}
