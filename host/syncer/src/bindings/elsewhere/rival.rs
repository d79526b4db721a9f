//! The name of another installation in the status of a binding that this one serves.
//!
//! Owns what is read until it is known whose the binding is: the Lease of the other one, or the leases of the virtual nodes, those
//! that this process renews apart from all others. [`silence`](topoloom_sync::served::silence) decides. Never stops a lease: a life
//! that ended because of a text that a person wrote would leave every node of the binding without renewals.
//!
//! # Failure story
//!
//! What cannot be read shows nothing, and is asked for again. Until the answer is there the binding is barred, as by any conflict:
//! its leases are renewed and nothing else is written.

use std::time::Duration;

use tokio::time::Instant;
use topoloom_sync::served::Vigil;
use topoloom_sync::served::silence::{self, Claim, Doubts, Facts, Heard, Rival, Silence};

use super::{Reads, pause_after};
use crate::heartbeats::Heartbeats;

/// A renewal that was sent before the look began may still be carried out for so long.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// The leases that this process renews. Times are those of the boot-time clock.
pub(in crate::bindings) trait OwnLeases {
    /// How often one of them was found renewed by another client.
    fn by_another(&self) -> u64;

    /// Whether that of this node is one, or was since this time.
    fn renews_since(&self, node: &str, since: Duration) -> bool;

    /// Whether there is any.
    fn renews(&self) -> bool;
}

impl OwnLeases for Heartbeats {
    fn by_another(&self) -> u64 {
        Self::by_another(self)
    }

    fn renews_since(&self, node: &str, since: Duration) -> bool {
        Self::renews_since(self, node, since)
    }

    fn renews(&self) -> bool {
        Self::renews(self)
    }
}

/// What is known of an installation whose name is in the status.
#[derive(Debug)]
pub(in crate::bindings) struct Rivalry {
    /// Its Lease.
    pub(in crate::bindings) lease: String,
    /// When it is looked at next.
    pub(in crate::bindings) at: Instant,
    /// What is said of it, once it was looked at.
    pub(in crate::bindings) says: Option<String>,
    rival: Rival,
    since: Duration,
    /// How often a lease of ours had been found renewed by another before.
    by_another: u64,
    silence: Silence,
}

impl Rivalry {
    /// The one with this Lease has written its name.
    pub(in crate::bindings) fn new(lease: &str, rival: Rival, own: &impl OwnLeases, now: Duration) -> Self {
        Self {
            lease: lease.to_owned(),
            at: Instant::now(),
            says: None,
            rival,
            since: now,
            by_another: own.by_another(),
            silence: Silence::default(),
        }
    }

    /// Looks at it, and says what follows.
    pub(in crate::bindings) async fn look(&mut self, reads: &Reads<'_>, own: &impl OwnLeases, now: Duration) -> Claim {
        let refusal = match reads.lease(&self.lease).await {
            Ok((look, place)) => return silence::claim_by_lease(Vigil::default().look(look, place, now)),
            Err(refusal) => refusal,
        };
        let claim = self.listen(reads, own, now).await;
        if let Claim::Wait(pause) = claim {
            self.at = Instant::now() + pause;
            self.says = Some(format!(
                "its status has the name of another installation, with the Lease {}, which cannot be read: {refusal}. Until it is \
                 known whether that one renews leases of virtual nodes, nothing but leases is written",
                self.lease
            ));
        }
        claim
    }

    async fn listen(&mut self, reads: &Reads<'_>, own: &impl OwnLeases, now: Duration) -> Claim {
        let heard = match reads.beats().await {
            Ok(mut beats) => {
                let since = self.since.saturating_sub(UNDER_WAY);
                // Whether another client renews these as well is seen by the versions that our renewals meet.
                beats.renewed.retain(|node, _| !own.renews_since(node, since));
                self.silence.heard(beats, Doubts::default(), now)
            }
            Err(refusal) => {
                self.silence.unread();
                Heard::Quiet(pause_after(&refusal))
            }
        };
        silence::claim(&Facts {
            rival: self.rival,
            theirs: &self.lease,
            ours: &reads.ours.to_string(),
            is_contested: own.by_another() > self.by_another,
            renews: own.renews(),
            heard,
        })
    }
}

#[cfg(test)]
mod tests;
