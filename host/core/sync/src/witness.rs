//! The witness of two clusters: whether the store of one of them was set back to an earlier state (decision S25).
//!
//! Owns a counter without a clock. It stands in the virtual cluster, is raised each minute, copied to the physical cluster, and
//! the copy is confirmed in the first. In this order, so that at every moment, whichever request failed last:
//!
//! ```text
//! confirmed  ≤  copy  ≤  counter
//! (virtual)  (physical)  (virtual)
//! ```
//!
//! A store that is set back takes its numbers along, and the other one keeps its own: a counter below its copy shows that the
//! virtual cluster was set back, a copy below what was confirmed shows it of the physical one. It also shows where an operator
//! raised the revision with the restore, which is etcd's own advice, and where no syncer ran meanwhile. Never: what follows; the
//! binding is held until an operator confirms ([`Bar::Restored`](crate::bars::Bar::Restored)).
//!
//! # Failure story
//!
//! A restore to a moment within the last minute takes no number back, and is not seen; little was lost by it. Two stores that
//! are set back to one moment agree. A counter or a copy that a person deletes looks like a store that was set back: a confirmation
//! too many, never one too few. Numbers of another binding, or of another physical cluster, are no numbers of this witness.

mod unconfirmed;

use std::fmt;

use sha2::{Digest, Sha256};

use topoloom_core::names::Uid;

pub use self::unconfirmed::{Sign, Unconfirmed};

/// Whose numbers they are: those of another pair mean nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The ClusterBinding.
    pub binding: Uid,
    /// The physical cluster.
    pub physical: Uid,
}

/// What stands in the virtual cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// The counter.
    pub counter: u64,
    /// The copy that was confirmed last.
    pub confirmed: u64,
}

/// Which store was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// That of the virtual cluster.
    Virtual,
    /// That of the physical cluster.
    Physical,
}

/// What two numbers that should agree are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetBack {
    /// Which store was set back.
    pub store: Store,
    /// What stands in it.
    pub found: u64,
    /// What stood in it before, as the other one shows.
    pub before: u64,
}

/// What the numbers show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They agree.
    Agree,
    /// One store was set back, or both.
    SetBack(Vec<SetBack>),
}

/// The next write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Raise the counter: write these in the virtual cluster.
    Keep(Kept),
    /// Write this copy in the physical cluster.
    Copy(u64),
    /// The copy stands: write these in the virtual cluster. With it a round ends.
    Confirm(Kept),
}

/// Judges what stands in both clusters. What is absent is zero.
#[must_use]
pub fn judge(kept: Option<Kept>, copy: Option<u64>) -> Verdict {
    let (Kept { counter, confirmed }, copy) = (kept.unwrap_or_default(), copy.unwrap_or_default());
    let mut found = Vec::new();
    if counter < copy {
        found.push(SetBack { store: Store::Virtual, found: counter, before: copy });
    }
    if copy < confirmed {
        found.push(SetBack { store: Store::Physical, found: copy, before: confirmed });
    }
    if found.is_empty() { Verdict::Agree } else { Verdict::SetBack(found) }
}

/// The writes of one round, in their order, from numbers that agree. A round that was cut off is begun again by the next one.
#[must_use]
pub fn round(kept: Option<Kept>, copy: Option<u64>) -> [Step; 3] {
    let kept = kept.unwrap_or_default();
    let counter = kept.counter.max(copy.unwrap_or_default()).saturating_add(1);
    [Step::Keep(Kept { counter, ..kept }), Step::Copy(counter), Step::Confirm(Kept { counter, confirmed: counter })]
}

/// The same after an operator has confirmed that a store was set back. At each step the numbers agree, so that a process that
/// starts in the middle finds nothing to confirm again.
#[must_use]
pub fn resume(kept: Option<Kept>, copy: Option<u64>) -> [Step; 3] {
    let (Kept { counter, confirmed }, copy) = (kept.unwrap_or_default(), copy.unwrap_or_default());
    let counter = counter.max(copy).max(confirmed).saturating_add(1);
    [
        Step::Keep(Kept { counter, confirmed: confirmed.min(copy) }),
        Step::Copy(counter),
        Step::Confirm(Kept { counter, confirmed: counter }),
    ]
}

/// The kept numbers as one text, with whose they are.
#[must_use]
pub fn write_kept(pair: &Pair, kept: Kept) -> String {
    format!("{}/{}/{}/{}", pair.binding, pair.physical, kept.counter, kept.confirmed)
}

/// Reads them; nothing where they are of another pair, or none.
#[must_use]
pub fn read_kept(pair: &Pair, text: Option<&str>) -> Option<Kept> {
    let [counter, confirmed] = numbers(pair, text?)?;
    Some(Kept { counter, confirmed })
}

/// The copy as one text, with whose it is.
#[must_use]
pub fn write_copy(pair: &Pair, copy: u64) -> String {
    format!("{}/{}/{copy}", pair.binding, pair.physical)
}

/// Reads it; nothing where it is of another pair, or none.
#[must_use]
pub fn read_copy(pair: &Pair, text: Option<&str>) -> Option<u64> {
    let [copy] = numbers(pair, text?)?;
    Some(copy)
}

fn numbers<const N: usize>(pair: &Pair, text: &str) -> Option<[u64; N]> {
    let mut parts = text.split('/');
    if parts.next()? != &*pair.binding || parts.next()? != &*pair.physical {
        return None;
    }
    let numbers: Vec<u64> = parts.map(|part| part.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

/// What an operator confirms: the same for the same numbers.
#[must_use]
pub fn hash(pair: &Pair, found: &[SetBack]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(write_copy(pair, 0));
    for SetBack { store, found, before } in found {
        hasher.update(format!(" {store:?} {found} {before}"));
    }
    hasher.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for SetBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, found, before } = self;
        match store {
            Store::Virtual => write!(
                f,
                "the virtual cluster was set back to an earlier state: its counter is {found}, and the physical cluster has a copy \
                 of {before}"
            ),
            Store::Physical => write!(
                f,
                "the physical cluster was set back to an earlier state: its copy of the counter is {found}, and {before} was \
                 confirmed"
            ),
        }
    }
}

#[cfg(test)]
mod tests;
