//! A document that names no source at all, while HyperNodes would be deleted with their sources (`onRemoval: delete`):
//! people empty it by mistake far more often than to give up every topology, so it is held as an empty result is
//! (decision H6). Running sources continue meanwhile. Removing one entry from a list that still has others is an
//! intended change and is not held.

use std::collections::BTreeMap;

use jiff::Timestamp;
use topoloom_api::discovery_source::{DiscoverySourceStatus, Held, HeldRule, OnRemoval};
use topoloom_core::names::SourceName;
use topoloom_core::snapshot::Store;
use topoloom_core::topology::{Coverage, Topology};

use super::{RunningSource, Sources};
use crate::config::Mode;
use crate::discovery::decide::accept;
use crate::discovery::supervisor::Command;

/// What waits, by source.
#[derive(Default)]
pub(super) struct Removals(BTreeMap<SourceName, Removal>);

struct Removal {
    held: Held,
    is_confirmed: bool,
}

impl Removals {
    /// Holds the removal of a source; nothing where a person confirmed it, or nothing would be deleted. What was held
    /// before is held since then.
    pub(super) fn hold(&mut self, source: &SourceName, status: &DiscoverySourceStatus) -> Option<Held> {
        if status.groups == Some(0) {
            return None;
        }
        let removal = self.0.entry(source.clone()).or_insert_with(|| {
            tracing::warn!(
                source = &**source,
                "the configuration names no source at all; topoloom keeps the HyperNodes of this source until an operator confirms the removal"
            );
            Removal { held: held(source, status.groups), is_confirmed: false }
        });
        (!removal.is_confirmed).then(|| removal.held.clone())
    }

    /// Whether the removal of that source waits under that hash.
    pub(super) fn is_held(&self, source: &SourceName, hash: &str) -> bool {
        self.0.get(source).is_some_and(|removal| !removal.is_confirmed && removal.held.hash == hash)
    }

    /// A person confirmed it.
    pub(super) fn confirm(&mut self, source: &SourceName) {
        if let Some(removal) = self.0.get_mut(source) {
            removal.is_confirmed = true;
            tracing::info!(
                source = &**source,
                "an operator confirmed the removal of this source: its HyperNodes are deleted"
            );
        }
    }
}

fn held(source: &SourceName, groups: Option<i64>) -> Held {
    let what = match groups {
        Some(1) => "the one HyperNode".to_owned(),
        Some(groups) => format!("the {groups} HyperNodes"),
        None => "all HyperNodes".to_owned(),
    };
    Held {
        rule: HeldRule::Empty,
        sentence: format!(
            "Held, nothing was deleted: the configuration names no source at all, and this would delete {what} \
             of this source (onRemoval: delete). Time does not confirm it. If it is right, run `topoloom confirm {source}`; if not, \
             write the entry back into the ConfigMap."
        ),
        hash: nothing(source),
        since: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        confirmations: 1,
        next_round: None,
    }
}

/// The hash of a result without groups, which is what is confirmed.
fn nothing(source: &SourceName) -> String {
    let empty = Topology { groups: Vec::new(), diagnostics: Vec::new(), coverage: Coverage::Complete };
    let forest = accept(&empty, source, &Store::new().view(&[]));
    forest.map(|forest| forest.hash().to_string()).unwrap_or_default()
}

impl Sources {
    /// Lets a source continue that an empty document would remove with its HyperNodes. Returns whether it did.
    pub(super) fn hold_removal(&mut self, source: &SourceName) -> bool {
        // A source that waits for its restart continues, too.
        let goes_on =
            |running: &&RunningSource| running.stopping.as_ref().is_none_or(|stopping| stopping.next.is_some());
        let Some(running) = self.running.get(source).filter(goes_on) else { return false };
        let is_paused = self.known.get(source).is_some_and(|known| known.verbs.pause);
        let deletes = running.entry.as_ref().is_some_and(|entry| {
            entry.on_removal == OnRemoval::Delete && entry.mode == Mode::Apply && !entry.verbs.pause && !is_paused
        });
        if !deletes || self.shared.mode == Mode::Observe {
            return false;
        }
        let status = self.shared.reports.get(source).unwrap_or_default();
        let Some(held) = self.removals.hold(source, &status) else { return false };
        running.send(Command::RemovalHeld(held));
        true
    }

    /// A person confirmed that a source goes with its HyperNodes.
    pub(super) fn removal_confirmed(&mut self, source: &SourceName) {
        self.removals.confirm(source);
        if self.running.contains_key(source) {
            self.stop_source(source, None);
        } else {
            self.leftovers();
        }
    }
}
