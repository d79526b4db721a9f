//! From what is stored to what is wanted: which writes, in which order (decision H7).

use super::model::Object;
use super::naming::Named;
use super::plan::Plan;

/// Plans the writes that turn the stored objects of a source into the wanted ones.
#[must_use]
pub fn diff(observed: &[Object], desired: &Named) -> Plan {
    let _ = (observed, desired);
    Plan::default()
}
