//! The HyperNodes of a source that is no more.

use std::sync::Arc;

use topoloom_core::topology::{Named, diff};

use crate::topology::apply::{Outcome, Writer};

/// Conflicts in a row that are decided again at once.
const QUICK_CONFLICTS: u32 = 5;

/// Deletes every HyperNode of a source, in a safe order.
pub async fn remove(writer: &Writer, source: &Arc<str>) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..=QUICK_CONFLICTS {
        let plan = diff(&writer.hyper_nodes.objects(), &nothing(source));
        outcome = writer.execute(source, &plan).await;
        if outcome.complete() || !outcome.only_conflicts() {
            break;
        }
    }
    outcome
}

/// The wish of a source that wants no object.
fn nothing(source: &Arc<str>) -> Named {
    Named {
        source: Arc::clone(source),
        objects: std::collections::BTreeMap::new(),
        held: std::collections::BTreeSet::new(),
        name_conflicts: Vec::new(),
        tier_name_conflicts: Vec::new(),
    }
}
