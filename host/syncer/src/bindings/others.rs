//! Whether another binding has the same `clusterID` and had it first (decision S7).
//!
//! Owns when all bindings are listed live for that: before a binding takes its namespace, and later where the answer may be another
//! one. `clusterID` never changes, so only a binding that was not there at the last look can change it. The watch of all bindings, which
//! every replica has, counts those ([`Added`]). So of two that were made in one second, both of which may have begun, the later look
//! decides, and a binding beside which none is added lists nothing. Never decides by what that watch shows, which may be old: it says
//! when to look.
//!
//! # Failure story
//!
//! A list that fails is no look: the next one is due. The count is read before the list, so what is added meanwhile is looked for
//! again. What is added while the watch is broken counts when the watch is whole again. A virtual API server that was set back may have
//! bindings again that were deleted, so a look is due then, whatever was counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use topoloom_api::ClusterBinding;
use topoloom_cluster::Refusal;

use super::requests::Clients;
use crate::convert::binding::Terms;

/// How often bindings were added, as the watch of all bindings shows. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Added(Arc<AtomicU64>);

impl Added {
    /// One was added, or several.
    pub fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Which look it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Something depends on the answer of this moment.
    Now,
    /// The answer of the last look counts, unless something has changed since.
    WhenDue,
}

/// What one binding knows of all others.
#[derive(Debug)]
pub(super) struct SameId {
    added: Added,
    /// What was counted before the last list; nothing: a look is due.
    looked: Option<u64>,
}

impl SameId {
    pub(super) fn new(added: &Added) -> Self {
        Self { added: added.clone(), looked: None }
    }

    /// The virtual cluster was set back, so what was looked at may be otherwise.
    pub(super) fn forget(&mut self) {
        self.looked = None;
    }

    /// The binding that has the same `clusterID` and had it first, if there is one; nothing at all where no look is due.
    pub(super) async fn earlier(
        &mut self,
        look: Look,
        clients: &Clients,
        ours: &ClusterBinding,
        terms: &Terms,
    ) -> Option<Result<Option<String>, Refusal>> {
        let counted = self.added.count();
        if look == Look::WhenDue && self.looked == Some(counted) {
            return None;
        }
        let all = match clients.all_bindings().await {
            Ok(all) => all,
            Err(refusal) => return Some(Err(refusal)),
        };
        self.looked = Some(counted);
        Some(Ok(earlier_of_same_id(ours, terms, &all)))
    }
}

/// Another binding that has the same `clusterID` and had it first.
pub(super) fn earlier_of_same_id(ours: &ClusterBinding, terms: &Terms, all: &[ClusterBinding]) -> Option<String> {
    let age = |binding: &ClusterBinding| {
        let created = binding.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |created| created.0);
        (created, binding.metadata.uid.clone().unwrap_or_default())
    };
    let has_same =
        |binding: &&ClusterBinding| binding.spec.as_ref().is_ok_and(|spec| spec.cluster_id == *terms.binding.cluster);
    let is_earlier = |binding: &&ClusterBinding| binding.metadata.uid != ours.metadata.uid && age(binding) < age(ours);
    all.iter().filter(has_same).find(is_earlier).map(|binding| binding.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests;
