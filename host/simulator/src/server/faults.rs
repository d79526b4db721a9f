//! The switchboard in a caller's hand.

use super::door::Door;
use crate::Error;
use crate::fault::{Board, Fault, FaultRule};
use std::sync::Arc;

/// The faults of a running simulator. Clones switch the same simulator.
#[derive(Clone)]
pub struct Faults {
    board: Arc<Board>,
    door: Door,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.board.active()).finish()
    }
}

impl Faults {
    pub(super) fn new(board: Arc<Board>, door: Door) -> Self {
        Self { board, door }
    }

    /// This fault and no other, from the next request on.
    ///
    /// # Errors
    /// See [`Faults::set_all`].
    pub async fn set(&self, rule: impl Into<FaultRule>) -> Result<(), Error> {
        self.set_all(vec![rule.into()]).await
    }

    /// These faults and no others, from the next request on. A request meets the first one that fits its path.
    ///
    /// Answers that are on their way stay what they are. Faults of connections break every open connection when they
    /// come and when they go, or a client that keeps one open would never see them.
    ///
    /// # Errors
    /// A rule cannot be, or the listener cannot come back to its port. Nothing has changed in the first case.
    pub async fn set_all(&self, rules: Vec<FaultRule>) -> Result<(), Error> {
        rules.iter().try_for_each(FaultRule::check)?;
        let shuts = rules.iter().any(|rule| *rule.fault() == Fault::Refused);
        let concerns = |rules: &[FaultRule]| rules.iter().any(|rule| rule.fault().is_of_connections());
        let new = concerns(&rules);
        let old = self.board.replace(rules);
        match shuts {
            true => self.door.shut().await,
            false if new || concerns(&old) => {
                self.door.evict().await?;
                self.door.listen().await
            }
            // A counted rule takes itself away, so the old rules alone do not show what is listening now.
            false => self.door.listen().await,
        }
    }

    /// No fault.
    ///
    /// # Errors
    /// The listener cannot come back to its port.
    pub async fn clear(&self) -> Result<(), Error> {
        self.set_all(Vec::new()).await
    }

    /// The rules in force; one that counts shows how often it will still act.
    pub fn active(&self) -> Vec<FaultRule> {
        self.board.active()
    }
}
