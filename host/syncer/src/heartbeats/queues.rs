//! Which lease is next: those that are ready, by the age of their last renewal, and those that wait after a failure.
//!
//! Owns the order and the bound on what is under way. Leases whose last request failed have a lane of their own with half of
//! the places, so that those that never succeed hold up no other.

use std::collections::BTreeSet;
use std::time::Duration;

use topoloom_core::names::NodeName;

use super::entry::{Entry, Lane, Pause, Place};
use super::options::Options;

/// A lease with its last renewal; those that were never renewed come first.
type ByAge = (Option<Duration>, NodeName);

#[derive(Default)]
pub(super) struct Queues {
    first: BTreeSet<ByAge>,
    retries: BTreeSet<ByAge>,
    pauses: BTreeSet<(Duration, NodeName)>,
    /// Requests under way.
    first_in_flight: usize,
    retries_in_flight: usize,
}

impl Queues {
    /// It wants a request.
    pub(super) fn ready(&mut self, node: &NodeName, entry: &mut Entry) {
        self.leave(node, entry);
        let lane = entry.lane();
        entry.place = Place::Ready(lane);
        self.lane(lane).insert((entry.renewed, node.clone()));
    }

    /// It waits.
    pub(super) fn pause(&mut self, node: &NodeName, entry: &mut Entry, until: Duration, why: Pause) {
        self.leave(node, entry);
        entry.place = Place::Paused { until, why };
        self.pauses.insert((until, node.clone()));
    }

    /// It neither waits nor wants anything. A request that is under way stays so.
    pub(super) fn leave(&mut self, node: &NodeName, entry: &mut Entry) {
        match entry.place {
            Place::Idle | Place::InFlight(_) => return,
            Place::Ready(lane) => {
                self.lane(lane).remove(&(entry.renewed, node.clone()));
            }
            Place::Paused { until, .. } => {
                self.pauses.remove(&(until, node.clone()));
            }
        }
        entry.place = Place::Idle;
    }

    /// The next lease, if there is room for its request, which counts as under way from now on.
    pub(super) fn take(&mut self, options: Options) -> Option<(NodeName, Lane)> {
        if self.in_flight() >= options.most_in_flight() {
            return None;
        }
        let may_retry = self.retries_in_flight < options.most_retries();
        let lane = match (self.first.first(), self.retries.first().filter(|_| may_retry)) {
            (Some(first), Some(retry)) if retry < first => Lane::Retry,
            (Some(_), _) => Lane::First,
            (None, Some(_)) => Lane::Retry,
            (None, None) => return None,
        };
        let (_, node) = self.lane(lane).pop_first()?;
        *self.count(lane) += 1;
        Some((node, lane))
    }

    /// A request of this lane was answered.
    pub(super) fn landed(&mut self, lane: Lane) {
        let count = self.count(lane);
        *count = count.saturating_sub(1);
    }

    /// The next lease whose pause is over.
    pub(super) fn resumes(&mut self, now: Duration) -> Option<NodeName> {
        let due = self.pauses.first().is_some_and(|(until, _)| *until <= now);
        if due { self.pauses.pop_first().map(|(_, node)| node) } else { None }
    }

    /// When the next pause is over.
    pub(super) fn next(&self) -> Option<Duration> {
        self.pauses.first().map(|(until, _)| *until)
    }

    /// Requests under way.
    pub(super) fn in_flight(&self) -> usize {
        self.first_in_flight + self.retries_in_flight
    }

    fn lane(&mut self, lane: Lane) -> &mut BTreeSet<ByAge> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Retry => &mut self.retries,
        }
    }

    fn count(&mut self, lane: Lane) -> &mut usize {
        match lane {
            Lane::First => &mut self.first_in_flight,
            Lane::Retry => &mut self.retries_in_flight,
        }
    }
}
