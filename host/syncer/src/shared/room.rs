//! How much of what another party stores is held.
//!
//! Owns the bounds of a watch of a physical cluster, and what counts against them: objects, and the bytes of what is kept of them, as
//! far as another party chooses how many those are. Each page of a list is bounded, and each pod is reduced to a row ([`slices`](crate::slices)); without these
//! bounds the number of both would be the lender's to choose.
//!
//! # How the numbers were chosen
//!
//! Lending is built for 5 000 nodes and 100 000 pods, and Kubernetes supports clusters of 5 000 nodes and 150 000 pods. The bounds are
//! twice the first, so that no cluster that is supported meets them. A row of a pod of ours takes about 1 KiB and one of another pod
//! 200 bytes, in which some 400 and 200 bytes are names and requests: 128 MiB leave 1 300 bytes for each of 100 000 pods, and 670 for each
//! of 200 000. A node is kept with its labels and annotations, some 5 KiB of them, and twice while a list replaces another: 128 MiB leave
//! 26 KiB for each of 5 000 nodes, and 13 KiB for each of 10 000. A policy is kept whole, and 64 MiB leave 3 KiB for each of 20 000. What
//! lending is built for stays far below the 1 GiB that the chart gives, and the bounds of all kinds together do, too, unless all lists
//! are replaced at once. It is held once, whichever bindings follow it.
//!
//! # Failure story
//!
//! What is too large is not read by half: a pod that is left out would make its node look larger than it is. The watch ends, and each
//! follower is shown that what it knows may be old: the list counts as not read (nothing is made, enlarged, evicted or deleted, and
//! leases are renewed), and each binding says which bound was met, and which namespace has most of it, where that is known. After some
//! minutes it is listed again.
//!
//! A tenant of the lender may give its pods our label. While they use no room nothing is kept of what they ask for, so a few of them
//! meet no bound.

use std::sync::Arc;
use std::time::Duration;

use topoloom_cluster::{Refusal, RefusalReason};

/// After this time what was too large is listed again: each try costs the lists up to the bound.
pub(super) const AGAIN: Duration = Duration::from_secs(300);

/// What is held of some objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// How many objects.
    pub(super) objects: usize,
    /// How many bytes of what is kept of them, as far as another party chooses their number.
    pub(super) bytes: usize,
}

impl Held {
    /// One more, with so many bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// One less.
    pub(super) fn take(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The larger one of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self { objects: self.objects.max(other.objects), bytes: self.bytes.max(other.bytes) }
    }

    /// Half of each.
    pub(super) fn half(self) -> Self {
        Self { objects: self.objects / 2, bytes: self.bytes / 2 }
    }
}

/// The most that is held of the objects of one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// How many objects.
    objects: usize,
    /// How many bytes of what is kept of them.
    bytes: usize,
}

impl Most {
    /// Physical nodes, and their CSINodes.
    pub const NODES: Self = Self { objects: 10_000, bytes: 128 << 20 };
    /// Physical pods: those of ours, and all others that use room.
    pub const PODS: Self = Self { objects: 200_000, bytes: 128 << 20 };
    /// Policies.
    pub const POLICIES: Self = Self { objects: 20_000, bytes: 64 << 20 };
    /// What is in the virtual cluster, which is our own: what its tenants write may stop nothing. What is kept of one of its pods is
    /// bounded for each instead ([`KnownPod::of_virtual`](crate::slices::pod::KnownPod::of_virtual)).
    pub const ALL: Self = Self { objects: usize::MAX, bytes: usize::MAX };

    /// Nothing where this much may be held of the objects with this plural. Where it is more, the namespace is named that has most of it,
    /// where that is known: whose pods it are is what an operator has to find out.
    pub(super) fn refuse(
        self,
        held: Held,
        plural: &str,
        largest: impl FnOnce() -> Option<Arc<str>>,
    ) -> Option<Refusal> {
        let message = if held.objects > self.objects {
            format!("there are more than {} {plural}, and no more are read", self.objects)
        } else if held.bytes > self.bytes {
            format!("what is kept of its {plural} is more than {} MiB", self.bytes >> 20)
        } else {
            return None;
        };
        let message = match largest() {
            Some(namespace) => format!("{message}; the namespace {namespace} has most of them"),
            None => message,
        };
        Some(Refusal { reason: RefusalReason::TooLarge, message, retry_after: None })
    }
}

#[cfg(test)]
mod tests;
