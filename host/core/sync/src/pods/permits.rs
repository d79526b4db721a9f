//! What the state of a binding and its connections permits (decisions S5, S23, S25, S27 and S6).
//!
//! Owns which order each state withholds. Never finds out the state.

use std::fmt;

/// Why something is withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The physical cluster was silent for a moment: what it shows may be behind.
    Suspect,
    /// The physical cluster does not answer: nothing new is known of any pod, and what is known would undo what
    /// node-lifecycle of the virtual cluster wrote.
    Unreachable,
    /// The virtual cluster does not answer: what is known of its pods may be behind.
    VirtualSilent,
    /// An API server was set back in time: what is missing there is no proof.
    Restored,
    /// The address leads to another physical cluster than before.
    ClusterChanged,
    /// An operator paused the binding.
    Paused,
    /// The binding is only observed.
    Observe,
    /// The process may not write.
    ReadOnly,
}

/// What may be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permits {
    /// Everything.
    Everything,
    /// Facts may be written upward. Nothing is created, judged an orphan, or deleted.
    Mirroring(Limit),
    /// Nothing is written.
    Nothing(Limit),
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Suspect,
        Self::Unreachable,
        Self::VirtualSilent,
        Self::Restored,
        Self::ClusterChanged,
        Self::Paused,
        Self::Observe,
        Self::ReadOnly,
    ];

    /// What is still permitted under it.
    #[must_use]
    pub fn permits(self) -> Permits {
        match self {
            Self::Suspect | Self::VirtualSilent | Self::Restored | Self::Paused => Permits::Mirroring(self),
            Self::Unreachable | Self::ClusterChanged | Self::Observe | Self::ReadOnly => Permits::Nothing(self),
        }
    }

    /// The word of metrics and the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Suspect => "suspect",
            Self::Unreachable => "unreachable",
            Self::VirtualSilent => "virtual-silent",
            Self::Restored => "restored",
            Self::ClusterChanged => "cluster-changed",
            Self::Paused => "paused",
            Self::Observe => "observe",
            Self::ReadOnly => "read-only",
        }
    }
}

impl Permits {
    /// What is permitted under all of these: what the strictest permits, and of equals the first.
    #[must_use]
    pub fn under(limits: impl IntoIterator<Item = Limit>) -> Self {
        limits.into_iter().fold(Self::Everything, |permits, limit| match (permits, limit.permits()) {
            (Self::Everything, next) | (Self::Mirroring(_), next @ Self::Nothing(_)) => next,
            (Self::Mirroring(_) | Self::Nothing(_), _) => permits,
        })
    }

    /// Why no fact may be written upward; `None` where it may.
    #[must_use]
    pub fn mirroring(self) -> Option<Limit> {
        match self {
            Self::Everything | Self::Mirroring(_) => None,
            Self::Nothing(limit) => Some(limit),
        }
    }

    /// Why nothing may be created, judged an orphan, or deleted; `None` where it may.
    #[must_use]
    pub fn beyond_mirroring(self) -> Option<Limit> {
        match self {
            Self::Everything => None,
            Self::Mirroring(limit) | Self::Nothing(limit) => Some(limit),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Suspect => "because the physical cluster has been silent for a moment",
            Self::Unreachable => "because the physical cluster does not answer",
            Self::VirtualSilent => "because the virtual cluster does not answer",
            Self::Restored => "because an API server was set back in time, until an operator confirms",
            Self::ClusterChanged => "because this is another physical cluster than before, until an operator confirms",
            Self::Paused => "because the binding is paused",
            Self::Observe => "because the binding is only observed",
            Self::ReadOnly => "because topoloom is read-only",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_s23_s25_what_each_state_permits() {
        let table: Vec<_> = Limit::ALL
            .map(|limit| {
                let permits = limit.permits();
                (limit.word(), permits.mirroring().is_none(), permits.beyond_mirroring().is_none())
            })
            .into();
        let wanted = [
            ("suspect", true, false),
            ("unreachable", false, false),
            ("virtual-silent", true, false),
            ("restored", true, false),
            ("cluster-changed", false, false),
            ("paused", true, false),
            ("observe", false, false),
            ("read-only", false, false),
        ];
        assert_eq!(table, wanted);
        assert_eq!((Permits::Everything.mirroring(), Permits::Everything.beyond_mirroring()), (None, None));
    }

    #[test]
    fn of_several_states_the_strictest_decides() {
        assert_eq!(Permits::under([]), Permits::Everything);
        assert_eq!(Permits::under([Limit::Paused, Limit::Suspect]), Permits::Mirroring(Limit::Paused));
        assert_eq!(Permits::under([Limit::Paused, Limit::Observe, Limit::Suspect]), Permits::Nothing(Limit::Observe));
        assert_eq!(Permits::under([Limit::ReadOnly, Limit::Observe]), Permits::Nothing(Limit::ReadOnly));
    }
}
