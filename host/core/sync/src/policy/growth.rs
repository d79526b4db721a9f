//! Whether a node may become larger (decision S8).
//!
//! Owns the wait of a node that leaves its policy for none. A policy that was deleted by mistake, or whose selector was
//! edited, would otherwise lend at once all that the lender had kept. Becoming smaller never waits.
//!
//! What a node was under last is what its annotation `policies-applied` says, and while the node waits that stays. Since
//! when it waits is memory of the process alone, so a restart lengthens the wait and never shortens it. A wait that has begun
//! goes on where another client takes the annotation off.

use std::fmt;
use std::time::Duration;

use super::in_force::InForce;
use crate::keys;

/// How long a node without a policy waits by default, before it becomes larger.
pub const GROW: Duration = Duration::from_secs(600);

/// Whether a node may become larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// It may.
    Free,
    /// It may not yet: it left its policy for none.
    Waits {
        /// For how long, if nothing changes.
        left: Duration,
    },
    /// It may not, and time does not change that: nothing says how large it may be.
    Never,
    /// It may not: the claim on its machine was edited, so it is not known whether another borrower may have it.
    ClaimUnreadable,
}

/// Whether a node may become larger, under what is in force on it now.
///
/// `applied` is the annotation `policies-applied` of its virtual node; `None` where there is no virtual node or no
/// annotation. `alone_since` is when this process first saw the node without a policy while the annotation named one, and
/// `now` is by the same steady clock; the first time, and where the node does not wait, it is `None`.
#[must_use]
pub fn growth(
    applied: Option<&str>,
    in_force: &InForce<'_>,
    alone_since: Option<Duration>,
    now: Duration,
    grow: Duration,
) -> Growth {
    match in_force {
        InForce::Policy { .. } => Growth::Free,
        InForce::LeaseAll if alone_since.is_none() && applied.is_none_or(str::is_empty) => Growth::Free,
        InForce::LeaseAll => {
            let left = alone_since.unwrap_or(now).saturating_add(grow).saturating_sub(now);
            if left.is_zero() { Growth::Free } else { Growth::Waits { left } }
        }
        InForce::Withdraw | InForce::Frozen { .. } | InForce::NotSynced | InForce::OutsideBinding => Growth::Never,
    }
}

/// What the annotation `policies-applied` of a virtual node has to be. It changes only when the node is free of what it was
/// under before: a wait that a restart interrupts is found in it.
#[must_use]
pub fn policies_applied<'a>(applied: Option<&'a str>, in_force: &InForce<'a>, growth: Growth) -> &'a str {
    match (in_force, growth) {
        (InForce::Policy { policy, .. }, _) => policy.name(),
        (InForce::LeaseAll, Growth::Free) => "",
        _ => applied.unwrap_or_default(),
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("may grow"),
            Self::Waits { left } => {
                write!(f, "left its policy for none, so it does not grow for another {} s", seconds_up(*left))
            }
            Self::Never => f.write_str("does not grow: nothing that applies says how large it may be"),
            Self::ClaimUnreadable => write!(
                f,
                "does not grow: the annotation {} of its machine is no claim; the lender has to remove it",
                keys::LEASED_BY
            ),
        }
    }
}

/// Whole seconds, rounded up: a wait that is not over is not 0 s.
fn seconds_up(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::super::examples::{broken, policy};
    use super::super::object::Policy;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn s8_a_node_that_leaves_its_policy_for_none_grows_after_ten_minutes() {
        let at = |since: Option<Duration>, now| growth(Some("night"), &InForce::LeaseAll, since, now, GROW);
        assert_eq!(at(None, 100 * MINUTE), Growth::Waits { left: 10 * MINUTE });
        assert_eq!(at(Some(100 * MINUTE), 103 * MINUTE), Growth::Waits { left: 7 * MINUTE });
        let nearly = 110 * MINUTE - Duration::from_millis(1);
        assert_eq!(
            at(Some(100 * MINUTE), nearly).to_string(),
            "left its policy for none, so it does not grow for another 1 s"
        );
        assert_eq!(at(Some(100 * MINUTE), 110 * MINUTE), Growth::Free);
        // A memory that is younger than now waits for the whole time, and no length overflows.
        assert_eq!(at(Some(MINUTE), Duration::ZERO), Growth::Waits { left: 11 * MINUTE });
        let longest = growth(Some("night"), &InForce::LeaseAll, Some(Duration::MAX), MINUTE, Duration::MAX);
        assert_eq!(longest, Growth::Waits { left: Duration::MAX - MINUTE });
    }

    #[test]
    fn s8_the_annotation_keeps_the_policy_until_the_wait_is_over_so_that_a_restart_does_not_shorten_it() {
        let none = InForce::LeaseAll;
        let waits = growth(Some("night"), &none, Some(Duration::ZERO), MINUTE, GROW);
        assert_eq!(policies_applied(Some("night"), &none, waits), "night");
        // Restarted: the memory is gone, the annotation is not.
        let again = growth(Some("night"), &none, None, Duration::ZERO, GROW);
        assert_eq!(again, Growth::Waits { left: GROW });
        let over = growth(Some("night"), &none, Some(Duration::ZERO), GROW, GROW);
        assert_eq!(policies_applied(Some("night"), &none, over), "");
        // Without a policy before it never waited.
        for applied in [None, Some("")] {
            assert_eq!(growth(applied, &none, None, MINUTE, GROW), Growth::Free);
        }
    }

    #[test]
    fn s8_a_wait_that_has_begun_goes_on_although_the_annotation_is_wiped() {
        for applied in [None, Some("")] {
            let at = |now| growth(applied, &InForce::LeaseAll, Some(Duration::ZERO), now, GROW);
            assert_eq!(at(MINUTE), Growth::Waits { left: 9 * MINUTE }, "{applied:?}");
            assert_eq!(at(GROW), Growth::Free, "{applied:?}");
        }
    }

    #[test]
    fn s8_a_node_under_a_policy_grows_at_once_and_a_frozen_one_never() {
        let (day, frozen) = (Policy::new(policy("day")), Policy::new(broken("night")));
        let under = InForce::Policy { policy: &day, terms: day.terms().unwrap() };
        assert_eq!(growth(Some("night"), &under, None, MINUTE, GROW), Growth::Free);
        assert_eq!(policies_applied(Some("night"), &under, Growth::Free), "day");
        for kept in [InForce::Frozen { by: &frozen }, InForce::NotSynced, InForce::Withdraw, InForce::OutsideBinding] {
            let growth = growth(Some("night"), &kept, Some(Duration::ZERO), 100 * MINUTE, GROW);
            assert_eq!(growth, Growth::Never, "{kept}");
            assert_eq!(policies_applied(Some("night"), &kept, growth), "night");
            assert_eq!(policies_applied(None, &kept, growth), "");
        }
    }
}
