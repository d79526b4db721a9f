//! Which writes the virtual API server does not take (decision S16).
//!
//! A plain value, bounded, that forgets: of those that were not looked at for longest first. What is forgotten costs one
//! more request and one more report.
//!
//! A write that was *refused* (422) is reported once and not repeated for this version of the physical pod; the next one
//! may be good. A write that was *taken and not stored whole*, because the virtual API server is older than the physical
//! one and drops fields that it does not know, would differ for ever and, with its time, be written for ever: it is not
//! repeated for as long as it would say the same.

use std::collections::HashMap;
use std::mem;

use super::StatusPatch;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// What is remembered of the writes to virtual pods, by their UIDs.
#[derive(Debug)]
pub struct Refusals {
    /// How many pods each half holds.
    half: usize,
    young: HashMap<Uid, Known>,
    old: HashMap<Uid, Known>,
}

/// What is known of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    /// The version of the physical pod whose status was refused.
    refused: Option<ResourceVersion>,
    /// What would be written, and was not stored.
    dropped: Option<[u8; 32]>,
}

/// Whether a patch may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// It may.
    Send,
    /// The API server refused the status of this version of the physical pod.
    Refused,
    /// The API server took the same patch before, and did not store it.
    NotStored,
}

/// Whether a refusal has to be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It is new.
    First,
    /// It was reported.
    Known,
}

impl Refusals {
    /// A memory of at most so many pods.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { half: (room / 2).max(1), young: HashMap::new(), old: HashMap::new() }
    }

    /// Whether a patch of a virtual pod may be sent, made from this version of its physical pod.
    #[must_use]
    pub fn may_send(&self, pod: &Uid, physical: &ResourceVersion, patch: &StatusPatch) -> Sending {
        match self.known(pod) {
            Some(known) if known.refused.as_ref() == Some(physical) => Sending::Refused,
            Some(Known { dropped: Some(dropped), .. }) if *dropped == patch.meaning() => Sending::NotStored,
            _ => Sending::Send,
        }
    }

    /// The API server refused the patch.
    pub fn refused(&mut self, pod: &Uid, physical: &ResourceVersion) -> Report {
        let mut known = self.known(pod).cloned().unwrap_or_default();
        let report = if known.refused.as_ref() == Some(physical) { Report::Known } else { Report::First };
        known.refused = Some(physical.clone());
        self.enter(pod, known);
        report
    }

    /// The API server took a patch. `rest` is what would have to be written to the pod that it answered with.
    pub fn stored(&mut self, pod: &Uid, rest: Option<&StatusPatch>) {
        match rest {
            Some(rest) => self.enter(pod, Known { refused: None, dropped: Some(rest.meaning()) }),
            None => self.forget(pod),
        }
    }

    /// A virtual pod is gone.
    pub fn forget(&mut self, pod: &Uid) {
        self.young.remove(pod);
        self.old.remove(pod);
    }

    /// How many pods are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len().saturating_add(self.old.len())
    }

    /// Whether no pod is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    fn known(&self, pod: &Uid) -> Option<&Known> {
        self.young.get(pod).or_else(|| self.old.get(pod))
    }

    /// Into the young half. When that is full it becomes the old one, and the old one is forgotten.
    fn enter(&mut self, pod: &Uid, known: Known) {
        self.old.remove(pod);
        self.young.insert(pod.clone(), known);
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
    }
}
