//! What may be written while something is wrong, or while an operator wants nothing to be written (decisions S5, S6, S7, S22,
//! S23, S25 and S27).
//!
//! Owns one table: which [`Bar`] forbids which [`Doing`]. Every decision of lending asks it, so that a state forbids the same
//! everywhere. Never: decides whether a bar is in force.
//!
//! # Failure story
//!
//! Several bars may be in force at the same time; each takes away what it forbids and gives nothing back. A lease of a node that
//! exists is forbidden by none of them: a lease that stops evicts every pod of its node a few minutes later, and that is the
//! largest disruption of all. This holds where a binding that lends is set to observe, too: an operator who wants nothing to be
//! changed wants no eviction.

use std::collections::BTreeSet;
use std::fmt;

use super::liveness::{Doubt, Reach};

/// Why less than everything may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bar {
    /// The physical cluster may be gone, so what is cached of it proves nothing (S5).
    Suspect,
    /// The physical cluster is gone for now (S5).
    Unreachable,
    /// The virtual API server does not answer (S5).
    VirtualUnreachable,
    /// One of the two clusters was set back to an earlier state (S25).
    Restored,
    /// Another physical cluster answers at the address than the one that was lent from (S6).
    ClusterChanged,
    /// Another borrower or another binding holds what this one wants (S6, S7).
    Conflict,
    /// The operator paused the binding (S23).
    Paused,
    /// The spec of the binding is invalid, and no valid one of it is known.
    Invalid,
    /// The binding was deleted by force: what it lends is orphaned (S22).
    Orphaned,
    /// The binding observes: everything is computed, and nothing written but the leases of nodes that it lent before (S23).
    Observing,
    /// The whole process writes nothing but leases (S27).
    ReadOnly,
}

impl Bar {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Suspect,
        Self::Unreachable,
        Self::VirtualUnreachable,
        Self::Restored,
        Self::ClusterChanged,
        Self::Conflict,
        Self::Paused,
        Self::Invalid,
        Self::Orphaned,
        Self::Observing,
        Self::ReadOnly,
    ];

    /// The bar that follows from how a connection is doing.
    #[must_use]
    pub fn of(reach: Reach) -> Option<Self> {
        match reach {
            Reach::Reachable => None,
            Reach::Suspect(Doubt::Silent | Doubt::NotListed | Doubt::Empty) => Some(Self::Suspect),
            Reach::Unreachable { .. } => Some(Self::Unreachable),
        }
    }

    /// Whether what stands on physical nodes may be of another cluster, or of an earlier state of this one: then a claim of
    /// another may be one that was released long ago.
    #[must_use]
    pub fn doubts_claims(self) -> bool {
        match self {
            Self::Restored | Self::ClusterChanged => true,
            Self::Suspect
            | Self::Unreachable
            | Self::VirtualUnreachable
            | Self::Conflict
            | Self::Paused
            | Self::Invalid
            | Self::Orphaned
            | Self::Observing
            | Self::ReadOnly => false,
        }
    }

    /// Whether it forbids this.
    #[must_use]
    pub fn forbids(self, doing: Doing) -> bool {
        use Doing::{Announce, Create, Disrupt, Drivers, Enlarge, JudgeOrphan, Mirror, Physical, Renew, Shrink};
        match self {
            Self::Suspect | Self::Restored => matches!(doing, Drivers | Create | Enlarge | Disrupt | JudgeOrphan),
            // What is cached is old: to write it again would undo what node-lifecycle wrote meanwhile.
            Self::Unreachable => matches!(doing, Mirror | Drivers | Create | Enlarge | Disrupt | JudgeOrphan),
            Self::VirtualUnreachable => {
                matches!(doing, Drivers | Create | Enlarge | Disrupt | JudgeOrphan | Physical | Announce)
            }
            Self::ClusterChanged => {
                matches!(
                    doing,
                    Mirror | Drivers | Create | Enlarge | Shrink | Disrupt | JudgeOrphan | Physical | Announce
                )
            }
            Self::Conflict | Self::Observing | Self::ReadOnly => !matches!(doing, Renew),
            Self::Paused => matches!(doing, Create | Enlarge | Shrink | Disrupt | JudgeOrphan | Physical),
            Self::Invalid => matches!(doing, Drivers | Create | Enlarge | Shrink | Disrupt | JudgeOrphan | Physical),
            Self::Orphaned => {
                matches!(doing, Drivers | Create | Enlarge | Shrink | Disrupt | JudgeOrphan | Physical | Announce)
            }
        }
    }

    /// The word of metrics and the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Suspect => "suspect",
            Self::Unreachable => "unreachable",
            Self::VirtualUnreachable => "virtual-unreachable",
            Self::Restored => "restored",
            Self::ClusterChanged => "cluster-changed",
            Self::Conflict => "conflict",
            Self::Paused => "paused",
            Self::Invalid => "invalid",
            Self::Orphaned => "orphaned",
            Self::Observing => "observing",
            Self::ReadOnly => "read-only",
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Suspect => "the physical cluster may be unreachable",
            Self::Unreachable => "the physical cluster is unreachable",
            Self::VirtualUnreachable => "the virtual API server does not answer",
            Self::Restored => "a cluster was restored to an earlier state; `topoloom lend confirm` ends this",
            Self::ClusterChanged => {
                "another physical cluster answers at the address; `topoloom lend confirm` accepts it"
            }
            Self::Conflict => "another borrower or binding holds what this binding wants",
            Self::Paused => "an operator paused the binding; `topoloom lend resume` ends this",
            Self::Invalid => "the spec of the binding is invalid",
            Self::Orphaned => "the binding was deleted by force, and its nodes are orphaned",
            Self::Observing => "the binding has mode: observe",
            Self::ReadOnly => "writes are switched off",
        })
    }
}

/// What could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// The renewal of a virtual node's lease.
    Renew,
    /// The status of a pod, the conditions and the metadata of a node: facts that flow up.
    Mirror,
    /// The drivers of a virtual node, in its CSINode (S22). One that changed is two writes, and between them it is missing:
    /// they begin only where the second one can be expected.
    Drivers,
    /// A taint NoSchedule, which keeps new pods away and moves none.
    Protect,
    /// A smaller size of a virtual node.
    Shrink,
    /// A larger size of a virtual node.
    Enlarge,
    /// A new virtual node, CSINode or placeholder for host ports.
    Create,
    /// What [`super::guard`] counts (NoExecute, evictions, deletions), every other deletion, and the final phase of a pod
    /// that is lost.
    Disrupt,
    /// The verdict that a physical pod has no virtual pod.
    JudgeOrphan,
    /// A claim or a label on a physical node.
    Physical,
    /// The status of a policy: facts for the lender, and what announces that windows close.
    Announce,
}

impl Doing {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Renew,
        Self::Mirror,
        Self::Drivers,
        Self::Protect,
        Self::Shrink,
        Self::Enlarge,
        Self::Create,
        Self::Disrupt,
        Self::JudgeOrphan,
        Self::Physical,
        Self::Announce,
    ];
}

/// The bars that are in force for one binding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bars(BTreeSet<Bar>);

impl Bars {
    /// The first bar in force that forbids this, if one does.
    #[must_use]
    pub fn forbid(&self, doing: Doing) -> Option<Bar> {
        self.0.iter().copied().find(|bar| bar.forbids(doing))
    }

    /// Whether nothing forbids this.
    #[must_use]
    pub fn allow(&self, doing: Doing) -> bool {
        self.forbid(doing).is_none()
    }

    /// Whether the claims of others on physical nodes may be those of another history.
    #[must_use]
    pub fn doubt_claims(&self) -> bool {
        self.0.iter().any(|bar| bar.doubts_claims())
    }

    /// These and another one.
    #[must_use]
    pub fn with(&self, bar: Bar) -> Self {
        self.iter().chain([bar]).collect()
    }

    /// Those in force, in order.
    pub fn iter(&self) -> impl Iterator<Item = Bar> {
        self.0.iter().copied()
    }
}

impl FromIterator<Bar> for Bars {
    fn from_iter<T: IntoIterator<Item = Bar>>(bars: T) -> Self {
        Self(bars.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Rows: bars. Columns: as in `Doing::ALL`. `-`: forbidden.
    const TABLE: &str = "
        bar                 renew mirror drivers protect shrink enlarge create disrupt orphan physical announce
        Suspect             yes   yes    -       yes     yes    -       -      -       -      yes      yes
        Unreachable         yes   -      -       yes     yes    -       -      -       -      yes      yes
        VirtualUnreachable  yes   yes    -       yes     yes    -       -      -       -      -        -
        Restored            yes   yes    -       yes     yes    -       -      -       -      yes      yes
        ClusterChanged      yes   -      -       yes     -      -       -      -       -      -        -
        Conflict            yes   -      -       -       -      -       -      -       -      -        -
        Paused              yes   yes    yes     yes     -      -       -      -       -      -        yes
        Invalid             yes   yes    -       yes     -      -       -      -       -      -        yes
        Orphaned            yes   yes    -       yes     -      -       -      -       -      -        -
        Observing           yes   -      -       -       -      -       -      -       -      -        -
        ReadOnly            yes   -      -       -       -      -       -      -       -      -        -";

    #[test]
    fn s5_s22_s23_s25_s27_what_each_state_forbids() {
        let rows: Vec<Vec<&str>> = TABLE.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), Bar::ALL.len());
        for (bar, row) in Bar::ALL.into_iter().zip(rows) {
            assert_eq!(row[0], format!("{bar:?}"));
            assert_eq!(bar.word().replace('-', ""), row[0].to_lowercase());
            for (doing, cell) in Doing::ALL.into_iter().zip(&row[1..]) {
                assert_eq!(bar.forbids(doing), *cell == "-", "{bar:?} {doing:?}");
            }
        }
    }

    #[test]
    fn s23_s27_no_state_stops_the_leases_of_nodes_that_exist() {
        assert!(Bar::ALL.into_iter().all(|bar| !bar.forbids(Doing::Renew)));
    }

    #[test]
    fn s6_what_may_be_judged_an_orphan_may_be_deleted() {
        for bar in Bar::ALL.into_iter().filter(|bar| !bar.forbids(Doing::JudgeOrphan)) {
            assert!(!bar.forbids(Doing::Disrupt), "{bar:?}");
        }
    }

    #[test]
    fn several_bars_forbid_what_one_of_them_forbids() {
        let bars: Bars = [Bar::Paused, Bar::Suspect].into_iter().collect();
        assert_eq!(bars.forbid(Doing::Enlarge), Some(Bar::Suspect));
        assert_eq!(bars.forbid(Doing::Shrink), Some(Bar::Paused));
        assert!(bars.allow(Doing::Renew) && Bars::default().allow(Doing::Disrupt));
        assert_eq!(bars.iter().collect::<Vec<_>>(), [Bar::Suspect, Bar::Paused]);
        assert_eq!(bars.with(Bar::Conflict).forbid(Doing::Mirror), Some(Bar::Conflict));
    }

    #[test]
    fn s5_the_bar_follows_from_the_connection() {
        assert_eq!(Bar::of(Reach::Reachable), None);
        assert_eq!(Bar::of(Reach::Suspect(Doubt::Empty)), Some(Bar::Suspect));
        assert_eq!(Bar::of(Reach::Unreachable { since: Duration::ZERO }), Some(Bar::Unreachable));
    }
}
