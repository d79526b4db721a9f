//! The bars of a binding in its view, at once after each change.
//!
//! Owns one loop that never waits for a request: a connection that becomes suspect takes rights away in the same moment, whatever else
//! is under way for the binding.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;
use topoloom_cluster::gate::{Gate, Position};
use topoloom_cluster::work::WorkQueue;
use topoloom_sync::bars::Bar;
use topoloom_sync::liveness::{Doubt, Reach};

use super::bars::{Hindrances, Reaches, bars};
use crate::feeds::SharedView;
use crate::group::{Listing, Lists};
use crate::ledger::PhysicalName;
use crate::physical::{Physical, Signs};
use crate::pods::Inbox;
use crate::policies::PolicyFeed;

/// What the bars follow from.
pub(super) struct Keeper {
    pub(super) view: SharedView,
    pub(super) queue: WorkQueue<PhysicalName>,
    pub(super) pods: Inbox,
    pub(super) policies: PolicyFeed,
    pub(super) hindrances: watch::Receiver<Hindrances>,
    /// The connection that there is.
    pub(super) link: watch::Receiver<Option<Arc<Physical>>>,
    /// The signs of life in its place, while there is none: silence since the beginning.
    pub(super) absent: Signs,
    pub(super) lists: Arc<Lists>,
    /// Those of the virtual cluster.
    pub(super) lent: Signs,
    pub(super) gate: Gate,
}

/// Everything that may change.
struct Changes {
    hindrances: watch::Receiver<Hindrances>,
    link: watch::Receiver<Option<Arc<Physical>>>,
    reach: watch::Receiver<Reach>,
    lists: watch::Receiver<Listing>,
    lent: watch::Receiver<Reach>,
    switch: watch::Receiver<Position>,
}

impl Keeper {
    /// Keeps them, until it is dropped.
    pub(super) async fn run(self) {
        loop {
            // Before the look, so that no change is missed.
            let mut changes = self.changes();
            self.apply();
            let Changes { hindrances, link, reach, lists, lent, switch } = &mut changes;
            let ended = tokio::select! {
                changed = hindrances.changed() => changed.is_err(),
                changed = link.changed() => changed.is_err(),
                changed = reach.changed() => changed.is_err(),
                changed = lists.changed() => changed.is_err(),
                changed = lent.changed() => changed.is_err(),
                changed = switch.changed() => changed.is_err(),
            };
            if ended {
                // A sender is gone, and with it the binding.
                std::future::pending::<()>().await;
            }
        }
    }

    fn signs(&self) -> Signs {
        self.link.borrow().as_ref().map_or_else(|| self.absent.clone(), |physical| physical.signs().clone())
    }

    fn changes(&self) -> Changes {
        let (mut hindrances, mut link) = (self.hindrances.clone(), self.link.clone());
        hindrances.mark_unchanged();
        link.mark_unchanged();
        Changes {
            hindrances,
            link,
            reach: self.signs().changes(),
            lists: self.lists.changes(),
            lent: self.lent.changes(),
            switch: self.gate.switch().changes(),
        }
    }

    fn apply(&self) {
        let hindrances = self.hindrances.borrow().clone();
        let signs = self.signs();
        let (reach, listing) = (signs.reach(), self.lists.listing(&signs));
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let reaches = Reaches {
            physical: reach,
            listing,
            lent: self.lent.reach(),
            is_read_only: self.gate.switch().is_read_only(),
        };
        let (bars, reach) = (bars(&hindrances, reaches), reaches.physical());
        let before = view.bars.clone();
        if reach != view.reach && is_unseen(reach) {
            // Before the bars allow to write it.
            self.pods.forget_texts();
        }
        let touched = view.set_bars(bars, reach);
        let is_news = before != view.bars;
        let words: Vec<&str> = view.bars.iter().map(Bar::word).collect();
        drop(view);
        if is_news {
            tracing::info!(bars = words.join(","), "what may be written for a binding has changed");
            self.policies.look_at_all();
            self.pods.wake();
        }
        for name in touched {
            // A full queue is counted, and the next sweep adds what it refused.
            let _refused = self.queue.add(name);
        }
    }
}

/// Whether what is held of the physical cluster may be from before it was gone.
fn is_unseen(reach: Reach) -> bool {
    match reach {
        Reach::Unreachable { .. } | Reach::Suspect(Doubt::NotListed) => true,
        Reach::Reachable | Reach::Suspect(Doubt::Silent | Doubt::Empty) => false,
    }
}
