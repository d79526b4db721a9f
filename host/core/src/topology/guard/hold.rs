//! A held result on its way to being confirmed.

use jiff::Timestamp;

use super::{Rule, Safety};

/// What a source waits for with a held result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hold {}

/// Where a held result stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not confirmed yet.
    Held {
        /// When it was first held.
        since: Timestamp,
        /// Agreeing rounds that count so far.
        agreeing: u32,
        /// How many are needed.
        needed: u32,
        /// When the host should run the next round that counts; `None`: time does not confirm it.
        next_due: Option<Timestamp>,
    },
    /// It may be written.
    Confirmed(Confirmation),
}

/// Who confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// Enough agreeing rounds, far enough apart.
    Time,
    /// The operator named this very result.
    Operator,
}

impl Hold {
    /// A round with this result was held.
    pub fn agree(
        &mut self,
        _result: &str,
        _rule: Rule,
        now: Timestamp,
        _operator: Option<&str>,
        safety: &Safety,
    ) -> Standing {
        Standing::Held { since: now, agreeing: 1, needed: safety.confirmations, next_due: None }
    }

    /// A round passed, or the confirmed result is completely written: nothing is waited for any more.
    pub fn clear(&mut self) {}
}
