//! The events and the orders of the state machine.

use std::fmt;

use super::Comparison;
use crate::plugin::Digest;

/// The steps from bytes to service, in their order; the word of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutStep {
    /// The bytes arrived and could be unpacked.
    Receive,
    /// Digest and signature are as the policy wants them.
    Trust,
    /// The file is a plugin within its bounds.
    Scan,
    /// It compiles.
    Compile,
    /// Its imports and exports fit the interface.
    Link,
    /// It describes itself.
    Describe,
    /// It accepts the entry's configuration.
    Configure,
    /// What it asks for is granted.
    Grant,
    /// It answers a round whose answer is thrown away.
    Shadow,
    /// Its answer is close enough to that of the active plugin.
    Compare,
    /// It answers the first real rounds.
    Watch,
}

impl RolloutStep {
    /// All steps, in their order.
    pub const ALL: [Self; 11] = [
        Self::Receive,
        Self::Trust,
        Self::Scan,
        Self::Compile,
        Self::Link,
        Self::Describe,
        Self::Configure,
        Self::Grant,
        Self::Shadow,
        Self::Compare,
        Self::Watch,
    ];

    /// The word for status and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Receive => "Receive",
            Self::Trust => "Trust",
            Self::Scan => "Scan",
            Self::Compile => "Compile",
            Self::Link => "Link",
            Self::Describe => "Describe",
            Self::Configure => "Configure",
            Self::Grant => "Grant",
            Self::Shadow => "Shadow",
            Self::Compare => "Compare",
            Self::Watch => "Watch",
        }
    }

    /// The step with that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == word)
    }
}

impl fmt::Display for RolloutStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who requests that bytes become active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// They were delivered.
    Delivery,
    /// The operator named their digest, and thereby vouches for what they answer.
    Operator,
    /// The plugin after them failed.
    Rollback,
}

/// What a failed step says about the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// The same bytes and entry can never do better.
    ForGood,
    /// A fault of the plugin: so many of them and a person has to look.
    Fault,
    /// Something around it: an endpoint that is away, a machine without memory. Tried again for as long as it takes.
    Circumstance,
}

/// What happens.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<R> {
    /// These bytes should serve.
    Wanted(Digest, Cause),
    /// No plugin but the active one is wanted.
    Unwanted,
    /// The entry was edited: a plugin that is prepared with the old entry is prepared again, and a refused one is tried
    /// again.
    Edited,
    /// What was refused may do better now: the operator asks, or something else is delivered.
    Again,
    /// The active plugin has to be prepared once more, with the present entry.
    Renew,
    /// The candidate, or the active plugin that is prepared once more, has passed every step up to its grants.
    Prepared(Digest, R),
    /// What is worked on failed.
    Failed(Digest, RolloutStep, Failed),
    /// The candidate has answered a round; `None`: there is nothing to compare the answer with.
    Shadowed(Digest, Option<Comparison>),
    /// The operator lets the candidate with this digest continue: past a comparison that holds it, or past a refusal.
    Continue(Digest),
    /// The operator names these bytes again: an earlier rollback from them no longer counts.
    Forgiven(Digest),
    /// A real call of the serving revision ended.
    Called(Call),
    /// Time passed.
    Tick,
}

/// How a real call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// With a valid answer.
    Answered,
    /// By a fault of the plugin.
    Fault,
    /// By something around it, which says nothing about the plugin.
    Circumstance,
}

/// What the caller has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutOrder {
    /// Make a revision of these bytes.
    Prepare(Digest),
    /// Let the candidate answer a round whose answer is thrown away.
    Shadow(Digest),
    /// The candidate serves from now on.
    Swap(Digest),
    /// Make a revision of these bytes, which serve, with the present entry.
    Renew(Digest),
    /// The active plugin runs with another entry from now on.
    Renewed(Digest),
    /// The serving revision is at the end of its tries.
    Quarantine(Digest),
}
