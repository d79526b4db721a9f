//! When nothing is left to do for a physical pod and its virtual one.
//!
//! Owns what is compared for that: the digests of both, and whether they name each other. Never decides what is to do otherwise.

use std::collections::BTreeSet;

use super::{Book, Done, Mapped, Presence, Rested, TwinSeen};
use crate::pod_state::PodState;
use crate::pods::shelf::Expected;
use crate::slices::pod::PodName;

impl Book {
    /// A physical pod that is shown for the first time, as most are after a take-over: where its virtual pod says what it says, nothing is
    /// left to do, and it needs no look. Returns whether it does.
    pub(super) fn settle(&mut self, name: &PodName, pod: &PodState) -> bool {
        let Some(row) = self.physical.get(name) else { return false };
        let Some((twin_name, _)) = &row.twin else { return false };
        let digest = self.twins.get(twin_name).and_then(|twin| twin.digest);
        let (Some(physical), Some(text)) = (row.digest, self.texts.get(twin_name).filter(|_| digest.is_some())) else {
            return false;
        };
        let Some(twin) = PodState::read(text) else { return false };
        let is_mirrored = pod.is_mirrored_by(&twin, &self.identity, &self.copied);
        if let Some(row) = self.physical.get_mut(name).filter(|_| is_mirrored) {
            row.done = Some(Done { physical, twin: Some(TwinSeen { digest, mapped: Mapped::Yes }) });
            self.followed(&twin.uid());
        }
        is_mirrored
    }

    /// Nothing is left to do for this state of both pods. Where one of them has changed meanwhile, its event may have found the
    /// pair at rest by what was done before.
    pub(in crate::pods) fn done(&mut self, pod: &PodState, twin: Option<&PodState>) -> Rested {
        let (name, uid) = (pod.pod_name(), pod.uid());
        let Some(row) = self.physical.get_mut(&name).filter(|row| row.uid == uid) else { return Rested::Yes };
        let twin = twin.filter(|_| row.twin.is_some());
        let digest = pod.digest();
        if row.version == pod.version() {
            // One version says one thing. Another server of the cluster may have written its fields in another order.
            row.digest = Some(digest);
        }
        let mut known = row.twin.as_ref().and_then(|(twin, _)| self.twins.get_mut(twin));
        let twin = twin.map(|twin| {
            let digest = Some(twin.digest());
            if let Some(known) =
                known.as_mut().filter(|known| known.uid == twin.uid() && known.version == twin.version())
            {
                known.digest = digest;
            }
            TwinSeen { digest, mapped: is_mapped(pod, twin).into() }
        });
        row.done = Some(Done { physical: digest, twin });
        let known = known.map(|known| known.digest);
        // A virtual pod that its watch has not shown yet, or still shows, is none that has changed.
        let is_same_twin = known.zip(twin).is_none_or(|(known, seen)| known.is_none() || known == seen.digest);
        let is_same = row.digest == Some(digest) && is_same_twin;
        if row.presence == Presence::Gone {
            self.forget_physical(&name);
            return Rested::Yes;
        }
        if self.is_at_rest(&name) {
            self.rests(&name, Expected::Soon);
        }
        if is_same {
            self.take_shown(&name);
            Rested::Yes
        } else {
            Rested::No
        }
    }

    /// Nothing is left to do for a physical pod: its text is not needed again, and that of its virtual pod may be.
    pub(super) fn rests(&mut self, name: &PodName, expected: Expected) {
        self.statuses.remove(name);
        if let Some((twin, _)) = self.physical.get(name).and_then(|row| row.twin.as_ref()) {
            self.texts.rest(twin, expected);
        }
    }

    /// Whether these are known, and nothing is left to do for any of them.
    pub(super) fn are_at_rest(&self, names: &BTreeSet<PodName>) -> bool {
        !names.is_empty() && names.iter().all(|name| self.physical.contains_key(name) && self.is_at_rest(name))
    }

    pub(super) fn is_at_rest(&self, name: &PodName) -> bool {
        let Some(row) = self.physical.get(name) else { return true };
        let Some(done) = row.done else { return false };
        let twin = row.twin.as_ref().and_then(|(twin, uid)| {
            let twin = self.twins.get(twin)?;
            Some(TwinSeen { digest: twin.digest, mapped: (twin.uid == *uid && twin.names(name, &row.uid)).into() })
        });
        row.presence == Presence::There && row.digest == Some(done.physical) && done.twin == twin
    }
}

/// Whether a physical pod names a virtual one, and is named by it.
fn is_mapped(pod: &PodState, twin: &PodState) -> bool {
    let is_named = pod.names_virtual().is_some_and(|named| named.uid == twin.uid());
    is_named && twin.is_naming(pod)
}
