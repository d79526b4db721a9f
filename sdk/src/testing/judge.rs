//! What the host says to an answer: its own rules ([`crate::rules`]), over the types of the bindings.

use std::fmt;

use crate::bindings::exports::topoloom::discovery::discoverer as wit;
use crate::bindings::topoloom::discovery::types;
use crate::rules::bounds::Bound;
use crate::rules::broken::Unacceptable;
use crate::rules::form::{Form, Malformed, check, check_wishes};
use crate::rules::judge::{Ground, accept};

crate::said!();
crate::wished!();

/// In place of the name that an operator gives the source.
const SOURCE: &str = "test";
/// The label that only the host writes: which source an object is of.
const SOURCE_LABEL: &str = "volcano.sh/network-topology-source";

/// Why the host refuses an answer, in its words. `{:#}` adds where each rule is explained.
///
/// ```
/// use topoloom_sdk::testing::{Cluster, Refused};
/// use topoloom_sdk::{Level, TopologyBuilder};
///
/// let mut topology = TopologyBuilder::new();
/// let level = topology.level(Level::new(0));
/// topology.group(level, "a").rows(vec![0]);
/// let refused: Refused = Cluster::new().node("m1", []).judge(&topology.finish().into()).unwrap_err();
/// assert_eq!(refused.to_string(), "the topology is not valid: group \"a\": tier 0 is not between 1 and 16");
/// assert!(format!("{refused:#}").ends_with("(wit/README.md#rule-tier)"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(Why);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    Malformed(Malformed),
    Unacceptable(Unacceptable),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Malformed(malformed) => malformed.fmt(f),
            Why::Unacceptable(unacceptable) => unacceptable.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// Judges an answer about these nodes.
pub(super) fn answer(answer: &wit::Answer, nodes: &[&str], had_state: bool) -> Result<(), Refused> {
    let rows = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let said = said(answer);
    let form = Form { rows, state: Bound::State.of_nodes(0), had_state };
    check(&said, &form).map_err(|malformed| Refused(Why::Malformed(malformed)))?;
    let ground = Ground { source: SOURCE, nodes, reserved_labels: &[SOURCE_LABEL] };
    match &said.topology {
        Some(topology) => accept(topology, &ground).map_err(|unacceptable| Refused(Why::Unacceptable(unacceptable))),
        None => Ok(()),
    }
}

/// Judges what `configure` asks for.
pub(super) fn wishes(wishes: &wit::Requirements) -> Result<(), Refused> {
    check_wishes(&wished(wishes)).map_err(|malformed| Refused(Why::Malformed(malformed)))
}
