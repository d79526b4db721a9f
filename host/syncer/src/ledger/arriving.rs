//! Physical pods of ours that have just come, and whose virtual pods are not known to name them yet.
//!
//! The top-down half writes the names on the virtual pod before it creates the physical one. These are two API servers, so the second
//! event may come first. Such a pod is bound to the virtual node, where its scheduler counts it: were it counted as another's for the few
//! milliseconds between the two events, the node would be written smaller, and larger again ten seconds later, for each pod that starts.
//!
//! Owns which pods these are, and for how long. Never: how much a pod counts.

use std::collections::HashMap;
use std::time::Duration;

use topoloom_core::names::Uid;

use super::PhysicalName;

/// For how long such a pod does not count: less than the second within which a node becomes smaller (decision S14).
pub(super) const ARRIVES: Duration = Duration::from_millis(500);

/// By node: each pod, and when a decision saw it first, by the steady clock.
#[derive(Debug, Default)]
pub(super) struct Arriving(HashMap<PhysicalName, HashMap<Uid, Option<Duration>>>);

impl Arriving {
    /// An event has shown this pod, which is new.
    pub(super) fn came(&mut self, node: &PhysicalName, pod: &Uid) {
        self.0.entry(PhysicalName::clone(node)).or_default().insert(pod.clone(), None);
    }

    /// It counts by what is known of it from now on, or is gone.
    pub(super) fn settled(&mut self, node: &str, pod: &Uid) {
        let Some(pods) = self.0.get_mut(node) else { return };
        pods.remove(pod);
        if pods.is_empty() {
            self.0.remove(node);
        }
    }

    /// The pods of a node that do not count yet, and when the first of them does.
    pub(super) fn of(&mut self, node: &str, now: Duration) -> (Vec<Uid>, Option<Duration>) {
        let Some(pods) = self.0.get_mut(node) else { return Default::default() };
        let mut first = None::<Duration>;
        pods.retain(|_, seen| {
            let due = seen.get_or_insert(now).saturating_add(ARRIVES);
            let arrives = now < due;
            if arrives {
                first = Some(first.map_or(due, |first| first.min(due)));
            }
            arrives
        });
        let left = pods.keys().cloned().collect();
        if pods.is_empty() {
            self.0.remove(node);
        }
        (left, first)
    }
}
