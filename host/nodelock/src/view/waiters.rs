//! The waiters for changes of nodes: tasks of attempts, and the sweeper.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use topoloom_core::nodelock::sightings::Wake;
use topoloom_core::nodelock::{NodeName, Sightings};

use super::View;

/// All waiters.
#[derive(Default)]
pub(super) struct Waiters {
    /// Tasks that wait for a node.
    listeners: HashMap<NodeName, watch::Sender<u64>>,
    /// Receives the name of every node on which something about locks changed.
    changed: Option<UnboundedSender<NodeName>>,
}

impl Waiters {
    /// Waits for changes of a node.
    pub(super) fn listen(&mut self, view: &Arc<View>, node: &str) -> Listener {
        let node: NodeName = node.into();
        let changes = self.listeners.entry(node.clone()).or_default().subscribe();
        Listener { view: Arc::clone(view), node, changes }
    }

    /// Receives the names of these nodes first, and of all that change later. Only the last receiver gets anything.
    pub(super) fn changes(&mut self, first: Vec<NodeName>) -> UnboundedReceiver<NodeName> {
        let (sender, receiver) = unbounded_channel();
        for name in first {
            // The receiver is here, so there is no error.
            let _ = sender.send(name);
        }
        self.changed = Some(sender);
        receiver
    }

    /// Notifies as a step demands.
    pub(super) fn follow(&self, wake: Wake, known: &Sightings) {
        match wake {
            Wake::Nodes(nodes) => nodes.iter().for_each(|node| self.wake(&known.name(node))),
            Wake::All => {
                let waited = self.listeners.keys().filter(|node| known.locks(node).is_none());
                known.names().chain(waited).for_each(|node| self.wake(node));
            }
        }
    }

    /// How many nodes are waited for.
    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }

    fn wake(&self, node: &NodeName) {
        if let Some(changed) = &self.changed {
            // The sweeper is gone when the process stops.
            let _ = changed.send(node.clone());
        }
        if let Some(sender) = self.listeners.get(node) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

/// Notifies a task that waits for a node, or for the pod that holds it. Made before the look that leads to the wait, so that
/// nothing is missed in between.
pub struct Listener {
    view: Arc<View>,
    node: NodeName,
    changes: watch::Receiver<u64>,
}

impl Listener {
    /// Waits for the next change.
    pub async fn changed(&mut self) {
        // The sender lives as long as this does.
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let listeners = &mut self.view.lock().waiters.listeners;
        // This one still counts.
        if listeners.get(&self.node).is_none_or(|sender| sender.receiver_count() <= 1) {
            listeners.remove(&self.node);
        }
    }
}
