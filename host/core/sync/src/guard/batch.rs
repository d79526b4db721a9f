//! A batch that is held: what it would do, which limit that breaks, and what confirms it (decision S9).
//!
//! Owns what is said of a batch. Whether there is one is decided by the [guard](super::Guard).

use std::collections::BTreeMap;
use std::fmt;

use super::{Cause, Size, Spent};

/// A batch that is held, for the condition `Held`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBatch {
    /// What an operator confirms. A batch that only became smaller keeps it.
    pub hash: String,
    /// The nodes that it would take away or empty, with those that were spent before.
    pub nodes: usize,
    /// The pods that it would remove, with those that were spent before.
    pub pods: usize,
    /// The size of the binding that the limits refer to, before anything was spent.
    pub size: Size,
    /// What was spent before, when it was held. It does not shrink with time, or time would release the batch.
    pub spent: Spent,
    /// The causes with the number of acts of each.
    pub causes: BTreeMap<Cause, usize>,
    /// The limits that it breaks.
    pub broken: Vec<BrokenLimit>,
}

/// A limit that a batch breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenLimit {
    /// `spec.safety.maxEvictPercent`.
    Pods {
        /// The limit.
        percent: u8,
    },
    /// `spec.safety.maxNodesPercent`.
    Nodes {
        /// The limit.
        percent: u8,
    },
}

/// A batch that would be held, and is not yet: no hash confirms it.
#[derive(Debug, Clone, Copy)]
pub struct WouldBeHeld<'a>(pub &'a HeldBatch);

impl fmt::Display for HeldBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; confirm with hash {}, or take the cause back", WouldBeHeld(self), self.hash)
    }
}

impl fmt::Display for WouldBeHeld<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldBatch { nodes, pods, size, spent, causes, broken, .. } = self.0;
        write!(f, "{nodes} of {} nodes and {pods} of {} running pods would be taken away", size.nodes, size.pods)?;
        // Both numbers have them, or a person would believe that they are there still.
        if *spent != Spent::default() {
            write!(f, ", counting {spent} that went shortly before")?;
        }
        let all: usize = causes.values().sum();
        for (index, (cause, count)) in causes.iter().enumerate() {
            write!(f, "{} {cause}", if index == 0 { ":" } else { "," })?;
            // Of a single cause the sentence has said how much it is.
            if *count != all {
                write!(f, " ({count} of {all} writes)")?;
            }
        }
        for limit in broken {
            match limit {
                BrokenLimit::Pods { percent } => write!(f, "; safety.maxEvictPercent allows {percent} %")?,
                BrokenLimit::Nodes { percent } => write!(f, "; safety.maxNodesPercent allows {percent} %")?,
            }
        }
        Ok(())
    }
}

/// A batch that an earlier process held, as far as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldBefore {
    /// What an operator confirms.
    pub hash: String,
    /// The nodes that it would take away or empty.
    pub nodes: usize,
    /// The pods that it would remove.
    pub pods: usize,
    /// The size of the binding that the limits refer to.
    pub size: Size,
    /// What was spent before, when it was held.
    pub spent: Spent,
}

/// A confirmation that confirms nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "hash {asked} confirms nothing: {}",
    held.as_ref().map_or_else(|| "no batch is held".to_owned(), |held| format!("the held batch has hash {held}"))
)]
pub struct NotHeld {
    /// What the operator wrote.
    pub asked: String,
    /// What is held.
    pub held: Option<String>,
}
