//! An amount with its unit: the value of a limit.

use std::fmt;
use std::time::Duration;

use crate::rules::bounds::{Bound, Most};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The value of a limit. Prints as the configuration writes it: `256Mi`, `5s`, `1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// A number of things.
    Count(u64),
    /// A time.
    Time(Duration),
    /// So many for each node of the cluster, and some more.
    PerNode {
        /// For each node.
        each: u64,
        /// Beside those.
        more: u64,
    },
    /// A fixed list.
    Words(&'static str),
}

/// What a limit is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things.
    Count,
    /// Time.
    Time,
    /// Things for each node.
    PerNode,
    /// Nothing: a list.
    Words,
}

impl Amount {
    /// What the rules for answers and wishes have.
    #[must_use]
    pub const fn of(bound: Bound) -> Self {
        match bound.most() {
            Most::Count(count) => Self::Count(count),
            Most::Bytes(bytes) => Self::Bytes(bytes),
            Most::PerNode { each, more } => Self::PerNode { each, more },
        }
    }

    /// That many KiB.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self::Bytes(count * KIB)
    }

    /// That many MiB.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self::Bytes(count * MIB)
    }

    /// That many GiB.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Self::Bytes(count * GIB)
    }

    /// That many seconds.
    #[must_use]
    pub const fn seconds(count: u64) -> Self {
        Self::Time(Duration::from_secs(count))
    }

    /// That many milliseconds.
    #[must_use]
    pub const fn millis(count: u64) -> Self {
        Self::Time(Duration::from_millis(count))
    }

    /// What it is counted in.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Bytes(_) => Unit::Bytes,
            Self::Count(_) => Unit::Count,
            Self::Time(_) => Unit::Time,
            Self::PerNode { .. } => Unit::PerNode,
            Self::Words(_) => Unit::Words,
        }
    }

    /// The number of bytes or things; zero, which allows nothing, where it is neither.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Bytes(number) | Self::Count(number) => number,
            Self::Time(_) | Self::PerNode { .. } | Self::Words(_) => 0,
        }
    }

    /// The same as a size in this process.
    #[must_use]
    pub fn size(self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    /// The same in 32 bits.
    #[must_use]
    pub fn small(self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    /// The time; zero, which allows nothing, where it is none.
    #[must_use]
    pub const fn time(self) -> Duration {
        match self {
            Self::Time(time) => time,
            _ => Duration::ZERO,
        }
    }

    /// What a cluster of so many nodes is allowed.
    #[must_use]
    pub fn of_nodes(self, nodes: usize) -> usize {
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            Self::PerNode { each, more } => nodes.saturating_mul(size(each)).saturating_add(size(more)),
            other => other.size(),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => {
                let unit = [(GIB, "Gi"), (MIB, "Mi"), (KIB, "Ki")];
                match unit.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
                    Some((unit, name)) => write!(f, "{}{name}", bytes / unit),
                    None => write!(f, "{bytes}"),
                }
            }
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(time) => {
                let seconds = time.as_secs();
                match seconds {
                    _ if time.subsec_nanos() > 0 => write!(f, "{time:?}"),
                    3600.. if seconds.is_multiple_of(3600) => write!(f, "{}h", seconds / 3600),
                    // Up to two minutes people count in seconds.
                    121.. if seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
                    _ => write!(f, "{seconds}s"),
                }
            }
            Self::PerNode { each, more } => write!(f, "{each} per node and {more} more"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_as_the_configuration_writes_them() {
        for (amount, text) in [
            (Amount::mib(256), "256Mi"),
            (Amount::Bytes(1000), "1000"),
            (Amount::kib(1), "1Ki"),
            (Amount::gib(4), "4Gi"),
            (Amount::Count(20_000), "20000"),
            (Amount::seconds(60), "60s"),
            (Amount::seconds(600), "10m"),
            (Amount::seconds(3600), "1h"),
            (Amount::millis(300), "300ms"),
            (Amount::PerNode { each: 2, more: 100 }, "2 per node and 100 more"),
        ] {
            assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn amounts_per_node_do_not_overflow() {
        assert_eq!(Amount::PerNode { each: 2, more: 100 }.of_nodes(10), 120);
        assert_eq!(Amount::PerNode { each: 2, more: 100 }.of_nodes(usize::MAX), usize::MAX);
        assert_eq!(Amount::Count(7).of_nodes(10), 7);
    }
}
