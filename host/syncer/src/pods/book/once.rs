//! The names and UIDs of a pair of pods, each held in one text: there may be tens of thousands of pairs.
//!
//! Each of two pods names the other one. What a pod says takes the texts in which the same is held of it, or of the other pod, already:
//! whichever of the two is shown first.

use topoloom_core::names::Uid;

use super::{Book, PhysicalRow, PodName, TwinRow};
use crate::pod_state::PodState;

/// Who a pod is, and whom it names. `U` is the UID of that one.
pub(super) struct Names<U> {
    /// Its name.
    pub(super) name: PodName,
    /// Its UID.
    pub(super) uid: Uid,
    /// The pod that it names.
    pub(super) other: Option<(PodName, U)>,
}

impl Book {
    /// The names and UIDs of a physical pod.
    pub(super) fn names_of_physical(&self, pod: &PodState) -> Names<Uid> {
        let name = pod.pod_name();
        let twin = pod.names_virtual().map(|named| (PodName::new(&named.namespace, &named.name), named.uid));
        let known = self.physical.get_key_value(&name);
        let row: Option<&PhysicalRow> = known.map(|(_, row)| &**row);
        let known_twin = twin.as_ref().and_then(|(twin, _)| self.twins.get_key_value(twin));
        let twin_row: Option<&TwinRow> = known_twin.map(|(_, row)| &**row);
        let back = twin_row.and_then(|row| row.back.as_ref());
        let before = row.and_then(|row| row.twin.as_ref());
        Names {
            uid: once(pod.uid(), [row.map(|row| &row.uid), back.and_then(|(_, uid)| uid.as_ref())]),
            other: twin.map(|(twin, uid)| {
                let twin = once(twin, [known_twin.map(|(twin, _)| twin), before.map(|(twin, _)| twin)]);
                (twin, once(uid, [twin_row.map(|row| &row.uid), before.map(|(_, uid)| uid)]))
            }),
            // A table keeps the key that it has, so that one comes first.
            name: once(name, [known.map(|(name, _)| name), back.map(|(name, _)| name)]),
        }
    }

    /// The same of a virtual pod.
    pub(super) fn names_of_twin(&self, pod: &PodState) -> Names<Option<Uid>> {
        let name = pod.pod_name();
        let back = pod.names_physical().map(|back| (PodName::new(&back.namespace, &back.name), back.uid));
        let known = self.twins.get_key_value(&name);
        let row: Option<&TwinRow> = known.map(|(_, row)| &**row);
        let borne = self.bearers.get_key_value(&name);
        let bearer = borne.and_then(|(_, bearer)| self.physical.get(bearer)).and_then(|bearer| bearer.twin.as_ref());
        let named = back.as_ref().and_then(|(back, _)| self.physical.get_key_value(back));
        let before = row.and_then(|row| row.back.as_ref());
        Names {
            uid: once(pod.uid(), [row.map(|row| &row.uid), bearer.map(|(_, uid)| uid)]),
            other: back.map(|(back, uid)| {
                let back = once(back, [named.map(|(name, _)| name), before.map(|(back, _)| back)]);
                let known_uids = [named.map(|(_, row)| &row.uid), before.and_then(|(_, uid)| uid.as_ref())];
                (back, uid.map(|uid| once(uid, known_uids)))
            }),
            name: once(name, [known.map(|(name, _)| name), borne.map(|(name, _)| name)]),
        }
    }
}

/// The first of those that are held which is the same as this one, or this one where none is.
fn once<T: Clone + PartialEq>(this: T, held: [Option<&T>; 2]) -> T {
    held.into_iter().flatten().find(|held| **held == this).cloned().unwrap_or(this)
}
