//! What each node counts as, for the status of the binding and for metrics.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use topoloom_sync::conditions::READY;
use topoloom_sync::deletion::DeletionCause;
use topoloom_sync::identity::Claim;
use topoloom_sync::keys;
use topoloom_sync::liveness::Lease;
use topoloom_sync::node::{Facts, LentNode, NodeDecision, NodeState, Physical, Rest, Window};
use topoloom_sync::phase::Phase;
use topoloom_sync::policy::growth::Growth;
use topoloom_sync::policy::in_force::InForce;
use topoloom_sync::texts::Keyed;
use topoloom_sync::truth::Truth;

use super::View;
use crate::ledger::Touched;

/// What a node was at its last decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing {
    /// The binding selects it.
    selected: bool,
    /// It is outside of the windows of its policy.
    outside: bool,
    /// Its pods request more than is lent.
    overcommitted: bool,
    /// Its virtual node goes.
    leaving: bool,
    /// An invalid policy, or one that cannot be read, keeps it as it is.
    frozen: bool,
    /// Another binding or borrower claims it, or its claim was edited.
    claimed: bool,
    /// Its claim was edited, and is none.
    unreadable: bool,
    /// Its virtual node leads elsewhere, and it does not exist.
    astray: bool,
    /// Whether its lease is renewed; `None` where it has none.
    renewed: Option<bool>,
}

impl Standing {
    pub(super) fn of(decision: &NodeDecision<'_>, facts: &Facts<'_>) -> Self {
        let window = decision.details.as_ref().map(|details| details.window);
        let is_selected = match facts.physical {
            Physical::Present(node) => facts.binding.selector.matches(facts.name, &node.labels),
            Physical::Unlisted | Physical::Absent => false,
        };
        let is_frozen = matches!(decision.state, NodeState::Rest(Rest::NotLent(InForce::Frozen { .. })));
        let (is_claimed, is_unreadable) = match &decision.state {
            NodeState::Rest(Rest::Claimed(Claim::Malformed(_))) => (false, true),
            NodeState::Rest(Rest::Claimed(_)) | NodeState::Leaving(DeletionCause::Claimed) => (true, false),
            NodeState::Lent => {
                let growth = decision.details.as_ref().map(|details| details.growth);
                (false, growth == Some(Growth::ClaimUnreadable))
            }
            NodeState::Rest(_) | NodeState::Asking(_) | NodeState::Leaving(_) => (false, false),
        };
        Self {
            selected: is_selected && !matches!(decision.state, NodeState::Rest(Rest::NotLendable(_))),
            outside: matches!(window, Some(Window::Closed { .. })),
            overcommitted: decision.details.as_ref().is_some_and(|details| details.overcommitted.is_overcommitted()),
            leaving: matches!(decision.state, NodeState::Leaving(_)) && facts.lent.is_some(),
            frozen: window == Some(Window::Kept) || is_frozen,
            claimed: is_claimed || is_unreadable,
            unreadable: is_unreadable,
            astray: decision.state == NodeState::Rest(Rest::Astray),
            renewed: decision.lease.map(|lease| lease == Lease::Renew),
        }
    }

    pub(super) fn is_astray(self) -> bool {
        self.astray
    }
}

/// The nodes and pods of a binding, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Physical nodes that the binding selects.
    pub selected: usize,
    /// Virtual nodes.
    pub lent: usize,
    /// Of these, those that are Ready.
    pub ready: usize,
    /// Of these, those outside of the windows of their policy.
    pub outside: usize,
    /// Of these, those whose pods request more than is lent.
    pub overcommitted: usize,
    /// Of these, those that are being taken away.
    pub leaving: usize,
    /// Nodes that an invalid policy keeps as they are.
    pub frozen: usize,
    /// Physical nodes that another binding or borrower claims, or whose claim was edited.
    pub claimed: usize,
    /// Of these, those whose claim was edited, and is none: also those that are lent.
    pub unreadable: usize,
    /// Virtual pods on its nodes that have not ended.
    pub bound: usize,
    /// Of these, those that are running.
    pub running: usize,
    /// Physical pods of ours that wait for the guard, because they have no virtual pod.
    pub orphans: usize,
    /// Virtual nodes that lack labels of identity, that lead to no physical node, or that an earlier binding made under another
    /// `clusterID`.
    pub unclear: usize,
    /// Leases that are renewed.
    pub renewed: usize,
    /// Leases that are not.
    pub stopped: usize,
}

impl View {
    /// Its nodes and pods, counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { lent: self.lent.len(), orphans: self.orphans.len(), ..Counts::default() };
        let is_ready = |node: &&Arc<LentNode>| {
            node.conditions.iter().any(|condition| condition.kind == READY && condition.status == Truth::True)
        };
        counts.ready = self.lent.values().filter(is_ready).count();
        for remembered in self.remembered.values() {
            let standing = remembered.standing;
            counts.selected += usize::from(standing.selected);
            counts.outside += usize::from(standing.outside);
            counts.overcommitted += usize::from(standing.overcommitted);
            counts.leaving += usize::from(standing.leaving);
            counts.frozen += usize::from(standing.frozen);
            counts.claimed += usize::from(standing.claimed);
            counts.unreadable += usize::from(standing.unreadable);
            counts.renewed += usize::from(standing.renewed == Some(true));
            counts.stopped += usize::from(standing.renewed == Some(false));
        }
        let strays = self.strays();
        counts.unclear = strays.stripped.len() + strays.astray.len() + strays.earlier.len();
        for phase in self.ledger.bound() {
            counts.bound += usize::from(!phase.is_final());
            counts.running += usize::from(phase == Phase::Running);
        }
        counts
    }

    /// Whether the counts are of whole lists, and of a decision about each node since: what a status says of nodes follows from them.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_settled = |name| self.remembered.get(name).is_some_and(|remembered| remembered.is_settled);
        self.is_all_listed() && self.all().iter().all(is_settled)
    }

    /// How many physical nodes the binding claims.
    #[must_use]
    pub fn claims(&self) -> usize {
        let claim = self.binding.identity.claim();
        self.physical.values().filter(|node| node.annotations.text(keys::LEASED_BY) == Some(&claim)).count()
    }

    /// When the windows of a policy of the binding open or close next.
    #[must_use]
    pub fn next_transition(&self, now: Timestamp) -> Option<Timestamp> {
        let policies = self.policies.of(self.binding.identity.binding());
        policies.filter_map(|policy| policy.terms()?.schedule.next_transition(now)).min()
    }

    /// Is notified when something was decided, carried out or listed.
    #[must_use]
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Whether the physical cluster says that it has no nodes any more, where some are known (decision S5).
    #[must_use]
    pub fn doubts_empty(&self) -> bool {
        self.is_empty_in_doubt
    }

    /// A second list, late enough, had no nodes either: those that are known are gone from the cache. Whether they are gone from
    /// the cluster is read live, one by one.
    pub fn believe_empty(&mut self) -> Touched {
        self.is_empty_in_doubt = false;
        self.machines_are_its_own();
        self.placement += 1;
        self.physical.drain().map(|(name, _)| name).collect()
    }
}
