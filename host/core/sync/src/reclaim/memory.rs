//! What a process remembers of the closing of a node's windows beside what stands on the node: another client may take the taint
//! off, or its time, or the annotations.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Reclaim, moved};

/// A closing, with the times of the clock of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// When its clock started.
    pub start: Timestamp,
    /// By which time the windows were judged closed then.
    pub marked: Timestamp,
    /// The longest grace in force since then.
    pub promised: Option<Duration>,
    /// Since when the node evicts, where it does.
    pub since: Option<Timestamp>,
}

/// What a process remembers of the present closing. Where it has seen that the windows are open, that is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClosingMemory {
    /// What stood on the node at the last look, or was written since, or could not be.
    known: Option<Closing>,
    /// What stands on the node once the answer to the last look is written.
    planned: Option<Closing>,
}

impl ClosingMemory {
    /// The present closing.
    #[must_use]
    pub fn known(&self) -> Option<Closing> {
        self.known
    }

    /// The node was looked at, and this has to be done.
    pub fn decided(&mut self, reclaim: &Reclaim) {
        (self.known, self.planned) = (reclaim.known, reclaim.closing());
    }

    /// It was looked at, and nothing was decided about its windows.
    pub fn undecided(&mut self) {
        self.planned = self.known;
    }

    /// The taints that the last look asked for were written, or may have been, or are refused for what they say.
    pub fn written(&mut self) {
        let evicted = self.known.and_then(|known| known.since);
        self.known = self.planned.map(|planned| Closing { since: planned.since.or(evicted), ..planned });
    }

    /// The wall clock was set by so much.
    pub fn stepped(&mut self, by: SignedDuration) {
        for closing in [&mut self.known, &mut self.planned].into_iter().flatten() {
            closing.start = moved(closing.start, by);
            closing.since = closing.since.map(|since| moved(since, by));
        }
    }
}
