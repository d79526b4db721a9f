//! The HyperNodes of a source that is no more.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use topoloom_core::topology::{Named, diff};

use crate::cluster::Reason;
use crate::topology::apply::{Outcome, Writer};

/// Conflicts in a row that are decided again at once.
const QUICK_CONFLICTS: u32 = 5;
/// An API server that is away is asked again so often, with pauses that double from [`FIRST_PAUSE`]: half a minute.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// What became of the HyperNodes of a source.
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
pub async fn remove(writer: &Writer, source: &Arc<str>, stop: &CancellationToken) -> Removal {
    let mut removal = Removal::default();
    let (mut conflicts, mut attempts, mut pause) = (0, 1, FIRST_PAUSE);
    loop {
        let plan = diff(writer.hyper_nodes.observed().all(), &nothing(source));
        let outcome = writer.execute(source, &plan).await;
        // A plan of deletions updates a parent only to let go of children; whoever is gone afterwards was deleted.
        removal.deleted += outcome.deleted;
        removal.left = left(&outcome).or_else(|| plan.blocked.first().map(ToString::to_string));
        if outcome.complete() {
            return removal;
        }
        if outcome.only_conflicts() && conflicts < QUICK_CONFLICTS {
            conflicts += 1;
            continue;
        }
        if attempts == ATTEMPTS || !outcome.refused.iter().any(|(_, refusal)| passes(refusal.reason)) {
            return removal;
        }
        attempts += 1;
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return removal;
        }
        pause *= 2;
    }
}

fn left(outcome: &Outcome) -> Option<String> {
    let (name, refusal) = outcome.refused.first()?;
    Some(format!("HyperNode {name}: {refusal}"))
}

/// Whether the same write may succeed in a moment, without anybody changing a permission or a policy.
fn passes(reason: Reason) -> bool {
    !matches!(
        reason,
        Reason::Forbidden | Reason::Unauthorized | Reason::NoSuchResource | Reason::Invalid | Reason::DeniedByAdmission
    )
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
