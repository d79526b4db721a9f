//! What each binding that this process serves shows of itself, for `topoloom debug dump`.
//!
//! Owns which bindings can be asked, for as long as each is served. Nothing is copied beforehand: a binding is asked when a person
//! asks. Shows names, numbers and sentences that are in conditions and logs anyway; never a credential.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use topoloom_sync::bars::Bar;

use crate::feeds::SharedView;
use crate::heartbeats::Heartbeats;
use crate::physical::{CredentialState, Physical};
use crate::view::Counts;

/// How many leases of another are named.
const NAMED: usize = 20;

type State = Arc<dyn Fn() -> Value + Send + Sync>;

/// The bindings that are served. Clones are the same.
#[derive(Clone, Default)]
pub struct Shown(Arc<Mutex<BTreeMap<String, State>>>);

impl Shown {
    /// What each binding says now, by its name.
    #[must_use]
    pub fn dump(&self) -> Value {
        // A binding takes locks of its own to answer.
        let all = self.lock().clone();
        all.into_iter().map(|(name, state)| (name, state())).collect()
    }

    /// A binding can be asked for as long as what is returned is kept. One of the same name that comes later takes its place.
    #[must_use]
    pub(super) fn add(&self, name: &str, state: impl Fn() -> Value + Send + Sync + 'static) -> ShownBinding {
        let state: State = Arc::new(state);
        self.lock().insert(name.to_owned(), Arc::clone(&state));
        ShownBinding { all: self.clone(), name: name.to_owned(), state }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// One binding that can be asked.
pub(super) struct ShownBinding {
    all: Shown,
    name: String,
    state: State,
}

impl Drop for ShownBinding {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if all.get(&self.name).is_some_and(|state| Arc::ptr_eq(state, &self.state)) {
            all.remove(&self.name);
        }
    }
}

/// What the state of a binding is made of.
pub(super) struct Sources {
    pub(super) view: SharedView,
    pub(super) heartbeats: Heartbeats,
    /// The connection that there is.
    pub(super) link: watch::Receiver<Option<Arc<Physical>>>,
    /// What came of its Secret.
    pub(super) credential: watch::Receiver<CredentialState>,
}

impl Sources {
    pub(super) fn state(&self) -> Value {
        let (identity, cluster, counts, bars, reach, is_listed) = {
            let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            let bars: Vec<&str> = view.bars.iter().map(Bar::word).collect();
            let (identity, cluster) = (view.binding.identity.clone(), view.binding.cluster.to_string());
            (identity, cluster, view.counts(), bars, format!("{:?}", view.reach), view.is_lent_listed())
        };
        let foreign = self.heartbeats.foreign();
        let named: BTreeMap<String, String> =
            foreign.iter().take(NAMED).map(|(node, why)| (node.to_string(), why.to_string())).collect();
        json!({
            "uid": &**identity.binding_uid(),
            "clusterID": cluster,
            "bars": bars,
            "reach": reach,
            "lentListed": is_listed,
            "nodes": nodes(&counts),
            "pods": {"bound": counts.bound, "running": counts.running, "orphans": counts.orphans},
            "leases": {"renewed": counts.renewed, "stopped": counts.stopped, "foreign": foreign.len(), "foreignNodes": named},
            "connection": self.link.borrow().as_deref().map(connection),
            "secret": self.credential.borrow().sentence(),
        })
    }
}

fn nodes(counts: &Counts) -> Value {
    json!({
        "selected": counts.selected,
        "lent": counts.lent,
        "ready": counts.ready,
        "outsideWindows": counts.outside,
        "overcommitted": counts.overcommitted,
        "leaving": counts.leaving,
        "frozen": counts.frozen,
        "claimedByOthers": counts.claimed,
    })
}

/// A connection: where it leads, and how it is doing.
pub(super) fn connection(physical: &Physical) -> Value {
    let trouble = physical.trouble().borrow().as_ref().map(ToString::to_string);
    json!({
        "server": physical.connection().server().to_string(),
        "cluster": &**physical.cluster(),
        "answersAs": &**physical.identity().borrow(),
        "reach": format!("{:?}", physical.signs().reach()),
        "trouble": trouble,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_shown_while_it_is_served_and_an_earlier_one_removes_no_later_one() {
        let shown = Shown::default();
        assert_eq!(shown.dump(), json!({}));
        let first = shown.add("east", || json!(1));
        let second = shown.add("east", || json!(2));
        let west = shown.add("west", || json!(3));
        assert_eq!(shown.dump(), json!({"east": 2, "west": 3}));
        drop(first);
        assert_eq!(shown.dump(), json!({"east": 2, "west": 3}));
        drop((second, west));
        assert_eq!(shown.dump(), json!({}));
    }
}
