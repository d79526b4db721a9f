//! What may not be written for a binding, by everything that is known of it (decisions S5 to S8, S22, S23, S25, S27).
//!
//! Owns one function from those states to [`Bars`]. Each state has its own source, and none hides another.

use topoloom_api::cluster_binding::Mode;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::liveness::{Doubt, Reach};

use crate::group::Listing;

/// What the controller of a binding knows that forbids something, beside its two connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hindrances {
    /// `spec.mode`.
    pub(super) mode: Mode,
    /// An operator paused it.
    pub(super) is_paused: bool,
    /// Its spec is invalid, and no valid one of it is known.
    pub(super) is_invalid: bool,
    /// It was deleted by force.
    pub(super) is_orphaned: bool,
    /// Another binding or borrower has what it needs.
    pub(super) is_in_conflict: bool,
    /// Another physical cluster answers.
    pub(super) is_another_cluster: bool,
    /// One of the clusters was set back.
    pub(super) is_restored: bool,
    /// The physical cluster is gone for good, as an operator says.
    pub(super) is_detached: bool,
}

impl Default for Hindrances {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            is_paused: false,
            is_invalid: false,
            is_orphaned: false,
            is_in_conflict: false,
            is_another_cluster: false,
            is_restored: false,
            is_detached: false,
        }
    }
}

/// How the connections are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reaches {
    /// The physical one.
    pub(super) physical: Reach,
    /// How far the physical cluster is known since it was last connected: another binding on the same connection may have listed
    /// it for itself.
    pub(super) listing: Listing,
    /// The virtual one.
    pub(super) lent: Reach,
    /// Whether writes are switched off in the whole process.
    pub(super) is_read_only: bool,
}

impl Reaches {
    /// The physical connection, as this binding may believe it.
    pub(super) fn physical(self) -> Reach {
        match (self.physical, self.listing) {
            (Reach::Reachable, Listing::Unlisted) => Reach::Suspect(Doubt::NotListed),
            (Reach::Reachable, Listing::Doubted) => Reach::Suspect(Doubt::Empty),
            (reach, _) => reach,
        }
    }

    /// Whether the virtual API server does not answer.
    fn is_virtual_gone(self) -> bool {
        match self.lent {
            Reach::Reachable | Reach::Suspect(Doubt::NotListed | Doubt::Empty) => false,
            Reach::Suspect(Doubt::Silent) | Reach::Unreachable { .. } => true,
        }
    }
}

/// What may not be written.
pub(super) fn bars(hindrances: &Hindrances, reaches: Reaches) -> Bars {
    let rows = [
        (Bar::VirtualUnreachable, reaches.is_virtual_gone()),
        (Bar::Restored, hindrances.is_restored && !hindrances.is_detached),
        (Bar::ClusterChanged, hindrances.is_another_cluster && !hindrances.is_detached),
        (Bar::Conflict, hindrances.is_in_conflict),
        (Bar::Paused, hindrances.is_paused),
        (Bar::Invalid, hindrances.is_invalid),
        (Bar::Orphaned, hindrances.is_orphaned),
        (Bar::Observing, hindrances.mode == Mode::Observe),
        (Bar::ReadOnly, reaches.is_read_only),
    ];
    let in_force = rows.into_iter().filter_map(|(bar, is_in_force)| is_in_force.then_some(bar));
    // What a dead cluster would have to say is waited for no more.
    let of_reach = Bar::of(reaches.physical()).filter(|_| !hindrances.is_detached);
    in_force.chain(of_reach).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topoloom_sync::bars::Doing;

    use super::*;

    const GONE: Reach = Reach::Unreachable { since: Duration::ZERO };
    const WELL: Reaches =
        Reaches { physical: Reach::Reachable, listing: Listing::Listed, lent: Reach::Reachable, is_read_only: false };

    fn of(hindrances: &Hindrances, reaches: Reaches) -> Vec<Bar> {
        bars(hindrances, reaches).iter().collect()
    }

    #[test]
    fn s5_each_connection_has_its_bar() {
        let none = Hindrances::default();
        assert_eq!(of(&none, WELL), []);
        for (reaches, bar) in [
            (Reaches { physical: GONE, ..WELL }, Bar::Unreachable),
            (Reaches { physical: Reach::Suspect(Doubt::Silent), ..WELL }, Bar::Suspect),
            (Reaches { listing: Listing::Unlisted, ..WELL }, Bar::Suspect),
            (Reaches { listing: Listing::Doubted, ..WELL }, Bar::Suspect),
            (Reaches { physical: GONE, listing: Listing::Doubted, ..WELL }, Bar::Unreachable),
            (Reaches { lent: GONE, ..WELL }, Bar::VirtualUnreachable),
            (Reaches { lent: Reach::Suspect(Doubt::Silent), ..WELL }, Bar::VirtualUnreachable),
            (Reaches { is_read_only: true, ..WELL }, Bar::ReadOnly),
        ] {
            assert_eq!(of(&none, reaches), [bar], "{reaches:?}");
        }
        assert_eq!(Reaches { listing: Listing::Doubted, ..WELL }.physical(), Reach::Suspect(Doubt::Empty));
        // Nothing is listed of the virtual connection as such.
        assert_eq!(of(&none, Reaches { lent: Reach::Suspect(Doubt::NotListed), ..WELL }), []);
    }

    #[test]
    fn each_state_has_its_bar_and_none_hides_another() {
        let none = Hindrances::default();
        let rows = [
            (Hindrances { is_paused: true, ..none.clone() }, Bar::Paused),
            (Hindrances { is_invalid: true, ..none.clone() }, Bar::Invalid),
            (Hindrances { is_orphaned: true, ..none.clone() }, Bar::Orphaned),
            (Hindrances { is_in_conflict: true, ..none.clone() }, Bar::Conflict),
            (Hindrances { is_another_cluster: true, ..none.clone() }, Bar::ClusterChanged),
            (Hindrances { is_restored: true, ..none }, Bar::Restored),
        ];
        for (hindrances, bar) in &rows {
            assert_eq!(of(hindrances, WELL), [*bar]);
        }
        let all = Hindrances {
            mode: Mode::Enforce,
            is_paused: true,
            is_invalid: true,
            is_orphaned: true,
            is_in_conflict: true,
            is_another_cluster: true,
            is_restored: true,
            is_detached: false,
        };
        assert_eq!(of(&all, WELL).len(), rows.len());
    }

    #[test]
    fn s23_a_binding_that_observes_renews_the_leases_of_what_it_lends_and_does_nothing_else() {
        let observes = Hindrances { mode: Mode::Observe, ..Hindrances::default() };
        assert_eq!(of(&observes, WELL), [Bar::Observing]);
        let allowed = |doing: &Doing| bars(&observes, WELL).allow(*doing);
        assert_eq!(Doing::ALL.into_iter().filter(allowed).collect::<Vec<_>>(), [Doing::Renew]);
    }

    #[test]
    fn s23_a_cluster_that_is_gone_for_good_holds_up_nothing() {
        let detached =
            Hindrances { is_detached: true, is_restored: true, is_another_cluster: true, ..Hindrances::default() };
        assert_eq!(of(&detached, Reaches { physical: GONE, ..WELL }), []);
        assert_eq!(of(&detached, Reaches { physical: GONE, lent: GONE, ..WELL }), [Bar::VirtualUnreachable]);
    }
}
