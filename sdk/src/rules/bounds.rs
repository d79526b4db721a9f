//! How many there may be of what a plugin sends. Checked on arrival, before anything is copied or compared: data that is cheap to
//! send must not be expensive to check.

/// A bound that no entry can change. Each is a row of the table of limits, which gives the reason for its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Groups, and levels, of an answer.
    Groups,
    /// Members of all groups of an answer, and rows of its diagnostics.
    Members,
    /// Diagnostics of an answer.
    Diagnostics,
    /// Labels of one group.
    Labels,
    /// Requirements of one selector.
    Selector,
    /// Values of one selector.
    SelectorValues,
    /// Bytes of one text of an answer or of requirements.
    Text,
    /// Bytes of the state of an answer.
    State,
    /// Labels, annotations, or parts of one endpoint, that `configure` asks for.
    Requirements,
    /// Endpoints, and triggers, that `configure` asks for.
    Endpoints,
    /// Bytes of a bundle of certificates of one endpoint.
    Bundle,
}

/// A number and what it is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Most {
    /// Things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// So many for each node of the cluster, and some more.
    PerNode {
        /// For each node.
        each: u64,
        /// Beside those.
        more: u64,
    },
}

impl Bound {
    /// The number.
    #[must_use]
    pub const fn most(self) -> Most {
        match self {
            Self::Groups => Most::PerNode { each: 2, more: 100 },
            Self::Members => Most::PerNode { each: 16, more: 100_000 },
            Self::Diagnostics => Most::Count(10_000),
            Self::Labels | Self::Selector | Self::Requirements => Most::Count(64),
            Self::SelectorValues => Most::Count(1_000),
            Self::Text => Most::Bytes(4 << 10),
            Self::State => Most::Bytes(8 << 20),
            Self::Endpoints => Most::Count(16),
            Self::Bundle => Most::Bytes(1 << 20),
        }
    }

    /// What a cluster of so many nodes is allowed.
    #[must_use]
    pub fn of_nodes(self, nodes: usize) -> usize {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        match self.most() {
            Most::PerNode { each, more } => nodes.saturating_mul(size(each)).saturating_add(size(more)),
            Most::Count(number) | Most::Bytes(number) => size(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_with_the_cluster_does_not_overflow() {
        assert_eq!(Bound::Groups.of_nodes(4), 108);
        assert_eq!(Bound::Members.of_nodes(usize::MAX), usize::MAX);
        assert_eq!(Bound::Text.of_nodes(1000), 4096);
    }
}
