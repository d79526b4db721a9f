//! Sources that are gone from the document and never stopped since the start of the host, or left HyperNodes behind
//! when they did: what happens to those HyperNodes.

use std::sync::Arc;

use tokio::sync::mpsc::unbounded_channel;
use topoloom_api::discovery_source::{DiscoverySourceStatus, Held, OnRemoval, State};
use topoloom_core::names::SourceName;

use super::{RunningSource, Sources, Stopping};
use crate::config::{Document, EntryState, Mode};
use crate::discovery::supervisor::{Left, removal_held, remove};

/// What happens to the HyperNodes of a source without a task.
enum Leftover {
    /// Nothing: it runs, will run, or is done with.
    Nothing,
    /// They stay, and the source is off.
    Keep,
    /// They would go, and a person has to confirm that.
    Hold(Held),
    /// They go.
    Delete,
}

impl Sources {
    /// Sources that are no longer in the document and did not stop since the start of the host, or left HyperNodes
    /// behind when they did.
    pub(super) fn leftovers(&mut self) {
        self.leftovers_at = None;
        let Some(document) = self.document.clone() else { return };
        if self.shared.switch.is_read_only() || self.shared.rival.borrow().is_some() {
            return;
        }
        let sources: Vec<SourceName> = self.known.keys().cloned().collect();
        for source in sources {
            match self.leftover(&source, &document) {
                Leftover::Nothing => {}
                Leftover::Keep => self.let_stay(&source),
                Leftover::Hold(held) => self.shared.reports.publish(removal_held(self.idle(&source), &held)),
                Leftover::Delete => self.delete_leftover(&source),
            }
        }
    }

    /// What happens to the HyperNodes of a source that may be gone. If the host, the entry or the operator forbids
    /// writes, nothing is deleted either.
    fn leftover(&mut self, source: &SourceName, document: &Document) -> Leftover {
        let Some(known) = self.known.get_mut(source) else { return Leftover::Nothing };
        let state = document.state_of(source);
        let gone = matches!(state, EntryState::Absent | EntryState::Disabled(_));
        if !gone || self.running.contains_key(source) || known.status.state == Some(State::Disabled) {
            return Leftover::Nothing;
        }
        let (on_removal, silent) = match state {
            EntryState::Disabled(entry) => (entry.on_removal, entry.mode == Mode::Observe || entry.verbs.pause),
            _ => (known.status.on_removal.unwrap_or_default(), false),
        };
        if on_removal == OnRemoval::Keep || silent || known.verbs.pause || self.shared.mode == Mode::Observe {
            return Leftover::Keep;
        }
        if !document.is_empty() || state != EntryState::Absent {
            return Leftover::Delete;
        }
        let Some(held) = self.removals.hold(source, &known.status) else { return Leftover::Delete };
        if known.verbs.confirm.take_if(|hash| *hash == held.hash).is_none() {
            return Leftover::Hold(held);
        }
        self.removals.confirm(source);
        Leftover::Delete
    }

    /// The status of a source that does not run, without the reports of a running one.
    fn idle(&self, source: &SourceName) -> DiscoverySourceStatus {
        let mut status = self.known.get(source).map(|known| known.status.clone()).unwrap_or_default();
        status.held = None;
        status.conditions.clear();
        status
    }

    fn let_stay(&mut self, source: &SourceName) {
        let mut status = self.idle(source);
        status.state = Some(State::Disabled);
        status.message = "disabled or removed while the host was down; its HyperNodes stay".to_owned();
        if let Some(known) = self.known.get_mut(source) {
            known.status.state = Some(State::Disabled);
        }
        self.shared.reports.publish_idle(status);
    }

    /// Deletes the HyperNodes of a source that is gone, in a task. It counts as a source that stops, so an entry that
    /// is added again meanwhile waits for its end.
    fn delete_leftover(&mut self, source: &SourceName) {
        let mut status = self.idle(source);
        let (mailbox, _) = unbounded_channel();
        let (order, entry) = (usize::MAX, None);
        let stopping = Some(Stopping::default());
        self.running.insert(source.clone(), RunningSource { mailbox, order, stopping, entry });
        let (shared, name) = (Arc::clone(&self.shared), source.clone());
        self.spawn(source.clone(), async move {
            if shared.stop.run_until_cancelled(shared.hyper_nodes.synced()).await.is_none() {
                return Left::Behind;
            }
            let removal = remove(&shared.writer, &name).await;
            let left = match &removal.left {
                None => {
                    status.state = Some(State::Disabled);
                    status.message =
                        "removed while the host was down, and its HyperNodes with it (onRemoval: delete)".to_owned();
                    status.groups = Some(0);
                    status.groups_by_tier.clear();
                    status.nodes = None;
                    Left::AsWanted
                }
                Some(why) => {
                    status.state = Some(State::Stale);
                    status.message = format!(
                        "removed (onRemoval: delete), but not all of its HyperNodes could be deleted, which is tried \
                         again: {why}"
                    );
                    Left::Behind
                }
            };
            shared.reports.publish_idle(status);
            left
        });
    }
}
