//! The HyperNodes of a source that is no more.

use std::time::Duration;

use tokio::time::Instant;
use topoloom_core::names::SourceName;
use topoloom_core::topology::{Named, diff};

use crate::cluster::RefusalReason;
use crate::topology::apply::Writer;
use crate::topology::refusals::Refusals;

/// How long it is tried again what an API server refuses that is away.
const PATIENCE: Duration = Duration::from_secs(30);

/// The outcome for the HyperNodes of a source.
#[derive(Debug, Default)]
pub struct Removal {
    /// How many were deleted.
    pub deleted: usize,
    /// Why some are still there.
    pub left: Option<String>,
}

/// Deletes every HyperNode of a source, in a safe order. What fails for a passing reason is tried again for half a
/// minute, unless the process stops.
#[tracing::instrument(level = "debug", skip_all, fields(source = &**source))]
pub async fn remove(writer: &Writer, source: &SourceName) -> Removal {
    let mut removal = Removal::default();
    let (mut refusals, end) = (Refusals::default(), Instant::now() + PATIENCE);
    loop {
        let plan = diff(writer.hyper_nodes.observed().all(), &nothing(source));
        let outcome = writer.execute(source, &plan, &mut refusals).await;
        // A plan of deletions updates a parent only to let go of children; an object that is gone afterwards was deleted.
        removal.deleted += outcome.deleted;
        let refused = refusals.first().map(|refused| format!("HyperNode {}: {}", refused.object, refused.refusal));
        let cut_short = outcome.is_cut_short.then(|| "the process stops".to_owned());
        removal.left = cut_short.or(refused).or_else(|| plan.blocked.first().map(ToString::to_string));
        if outcome.complete() || outcome.is_cut_short {
            return removal;
        }
        let now = Instant::now();
        let Some(due) = refusals.due(now).filter(|due| *due < end && refusals.reasons().any(passes)) else {
            return removal;
        };
        if writer.stop.run_until_cancelled(tokio::time::sleep_until(due)).await.is_none() {
            return removal;
        }
    }
}

/// Whether the same write may succeed in a moment, without anybody changing a permission or a policy.
fn passes(reason: RefusalReason) -> bool {
    !matches!(
        reason,
        RefusalReason::Forbidden
            | RefusalReason::Unauthorized
            | RefusalReason::NoSuchResource
            | RefusalReason::Invalid
            | RefusalReason::DeniedByAdmission
    )
}

/// The result of a source that wants no object.
fn nothing(source: &SourceName) -> Named {
    Named {
        source: source.clone(),
        objects: std::collections::BTreeMap::new(),
        held: std::collections::BTreeSet::new(),
        name_conflicts: Vec::new(),
        tier_name_conflicts: Vec::new(),
    }
}
