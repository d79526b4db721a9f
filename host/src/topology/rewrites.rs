//! Statuses that another program keeps writing over: they are written again, but less and less often.
//!
//! Volcano's own controller writes `status.nodeCount`, too, with another meaning (`hypernode.md` 12). Two writers that
//! each correct the other at once would load the API server without end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use topoloom_core::status::NodeCount;

/// The same status is written so often before the pauses begin.
const PATIENT: u32 = 3;
/// The first pause; doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(300);
/// A write that was not undone for so long is forgotten.
const CALM: Duration = Duration::from_secs(600);

/// What was written lately, and how often.
#[derive(Default)]
pub(super) struct Rewrites {
    of: BTreeMap<Arc<str>, Rewrite>,
}

struct Rewrite {
    count: NodeCount,
    times: u32,
    last: Instant,
}

impl Rewrites {
    /// When this status may be written; `None`: now.
    pub(super) fn not_before(&self, name: &str, count: &NodeCount, now: Instant) -> Option<Instant> {
        let same = self.of.get(name).filter(|rewrite| rewrite.count == *count && rewrite.times >= PATIENT)?;
        let doubled = FIRST.saturating_mul(1 << (same.times - PATIENT).min(16));
        Some(same.last + doubled.min(LONGEST)).filter(|until| *until > now)
    }

    /// Forgets what was not undone for long.
    pub(super) fn forget(&mut self, now: Instant) {
        self.of.retain(|_, rewrite| now.duration_since(rewrite.last) < CALM);
    }

    /// This status was written.
    pub(super) fn wrote(&mut self, name: &Arc<str>, count: &NodeCount, now: Instant) {
        let times = self.of.get(name).filter(|rewrite| rewrite.count == *count).map_or(1, |rewrite| rewrite.times + 1);
        if times == PATIENT {
            tracing::warn!(
                hyper_node = &**name,
                "another program keeps changing this status; it is written again less and less often (is Volcano's \
                 HyperNode controller still on?)"
            );
        }
        self.of.insert(Arc::clone(name), Rewrite { count: count.clone(), times, last: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(nodes: u64) -> NodeCount {
        NodeCount { nodes, ..NodeCount::default() }
    }

    #[test]
    fn a_status_that_is_written_over_again_and_again_waits_longer_each_time() {
        let (mut rewrites, name, mut now) = (Rewrites::default(), Arc::from("spine"), Instant::now());
        for _ in 0..PATIENT {
            assert_eq!(rewrites.not_before(&name, &count(16), now), None);
            rewrites.wrote(&name, &count(16), now);
        }
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let until = rewrites.not_before(&name, &count(16), now).expect("a pause");
            pauses.push((until - now).as_secs());
            now = until;
            assert_eq!(rewrites.not_before(&name, &count(16), now), None);
            rewrites.wrote(&name, &count(16), now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        // Another count is news, and is written at once; so is an object without a fight.
        assert_eq!(rewrites.not_before(&name, &count(17), now), None);
        assert_eq!(rewrites.not_before("rack", &count(16), now), None);
    }

    #[test]
    fn what_was_not_undone_for_long_is_forgotten() {
        let (mut rewrites, name, now) = (Rewrites::default(), Arc::from("spine"), Instant::now());
        for _ in 0..10 {
            rewrites.wrote(&name, &count(16), now);
        }
        let later = now + CALM;
        rewrites.forget(later);
        rewrites.wrote(&name, &count(16), later);
        assert_eq!(rewrites.not_before(&name, &count(16), later), None);
    }
}
