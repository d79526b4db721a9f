//! When a new size of a virtual node is written (decisions S14, S5, S8).
//!
//! Smaller is written at once: until then the virtual scheduler places pods for which there is no room. Larger is written once
//! per [`GROW_INTERVAL`] and node, since pods that come and go would otherwise make a write each, and it is not written while
//! growing is barred: with an old view of the physical cluster (S5), or where a policy has just gone (S8).
//!
//! The decision is made for each resource: where one shrinks and another may not grow yet, the first is written now and the
//! second later. Only the time of the rest is returned, never its size, which is computed anew then.
//!
//! Owns: that decision. It never remembers: the caller keeps when it last wrote something larger, by a clock that never goes
//! back; after a restart it does not know, and one node may grow twice within the interval. It does not say why growing is
//! barred: that is the caller's, who shows it.
//!
//! Failure story: none.

use std::fmt;
use std::time::Duration;

use crate::quantity::Quantity;
use crate::resources::{ResourceList, ResourceName};

/// How long after it was written larger a node may be written larger again.
pub const GROW_INTERVAL: Duration = Duration::from_secs(10);

/// Whether the node may grow at all. Times are of a clock that never goes back, since an origin of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growing {
    /// It may.
    Allowed,
    /// It may from that time on.
    BarredUntil(Duration),
    /// It may not until something happens.
    Barred,
}

/// What to write, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pace {
    /// Nothing: the node has this size.
    Same,
    /// This size, now. It is all that is wanted.
    Write {
        /// The size.
        sizes: ResourceList,
        /// Whether anything in it is larger than it is now: then the interval starts.
        growth: Growth,
    },
    /// This size, now: what shrinks. The rest later.
    Partial {
        /// The size, in which nothing is larger than it is now.
        sizes: ResourceList,
        /// When the rest may be written.
        rest: Rest,
    },
    /// Nothing now: all that is wanted is larger.
    Wait(Rest),
}

/// Whether a size is larger in any resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// In none.
    None,
    /// In one at least.
    Some,
}

/// When, and why not before, a node may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rest {
    /// At that time: it grew a moment ago.
    Interval {
        /// The time to decide again.
        at: Duration,
    },
    /// At that time: growing is barred until then.
    BarredUntil {
        /// The time to decide again.
        at: Duration,
    },
    /// When growing is not barred any more.
    Barred,
}

/// What to write now of the size that is wanted. A resource that one of the two lacks is there with nothing: it may come with
/// nothing and go at once.
#[must_use]
pub fn pace(
    current: &ResourceList,
    wanted: &ResourceList,
    last_grown: Option<Duration>,
    growing: Growing,
    now: Duration,
) -> Pace {
    let is_same =
        current.len() == wanted.len() && wanted.iter().all(|(name, wanted)| current.get(name) == Some(wanted));
    if is_same {
        return Pace::Same;
    }
    let grows = |name: &ResourceName, wanted: &Quantity| *wanted > current.get(name).copied().unwrap_or_default();
    if !wanted.iter().any(|(name, wanted)| grows(name, wanted)) {
        return Pace::Write { sizes: wanted.clone(), growth: Growth::None };
    }
    let Some(rest) = rest(last_grown, growing, now) else {
        return Pace::Write { sizes: wanted.clone(), growth: Growth::Some };
    };
    let without_growth = |(name, wanted): (&ResourceName, &Quantity)| {
        // What is new stays away with what grows.
        let amount = if grows(name, wanted) { current.get(name) } else { Some(wanted) };
        Some((name.clone(), *amount?))
    };
    let sizes: ResourceList = wanted.iter().filter_map(without_growth).collect();
    if sizes == *current { Pace::Wait(rest) } else { Pace::Partial { sizes, rest } }
}

/// Why and for how long the node may not grow, if it may not: the reason that lasts longest.
fn rest(last_grown: Option<Duration>, growing: Growing, now: Duration) -> Option<Rest> {
    let next = last_grown.map(|grown| grown.saturating_add(GROW_INTERVAL)).filter(|next| *next > now);
    match growing {
        Growing::Barred => Some(Rest::Barred),
        Growing::BarredUntil(at) if at > now && next.is_none_or(|next| next <= at) => Some(Rest::BarredUntil { at }),
        Growing::BarredUntil(_) | Growing::Allowed => next.map(|at| Rest::Interval { at }),
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interval { .. } => write!(f, "a node is made larger once in {} s", GROW_INTERVAL.as_secs()),
            Self::BarredUntil { .. } => f.write_str("it may not be made larger for some time"),
            Self::Barred => f.write_str("it may not be made larger now"),
        }
    }
}

#[cfg(test)]
mod tests;
