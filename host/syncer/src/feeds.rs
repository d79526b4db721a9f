//! The watches of a binding, each on its way into the [`View`].
//!
//! Owns how objects of either cluster become events of the view, and which nodes the controller looks at because of them. A
//! list replaces what is known only when it is whole. Never decides anything.
//!
//! # Failure story
//!
//! A watch that breaks continues by itself, and what is known stays. A server that was set back is listed anew; until the
//! list is whole the old content stays, since a node whose pods are forgotten for a moment would look empty. An object that
//! cannot be read leaves what was read of it before, with a line in the log.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::Api;
use topoloom_cluster::Refusal;
use topoloom_cluster::watched::{Earlier, Event, Index, Watched};
use topoloom_cluster::watches::{self, Config};
use topoloom_cluster::work::WorkQueue;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::node::{LentNode, PhysicalNode};

use crate::ledger::{PhysicalName, Touched};
use crate::slices::node::NodeSlice;
use crate::slices::pod::PodSlice;
use crate::view::View;

/// A view that several tasks share.
pub type SharedView = Arc<Mutex<View>>;

fn locked(view: &SharedView) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The nodes of the physical cluster.
#[derive(Debug)]
pub struct PhysicalNodes(pub SharedView);

/// The virtual nodes of the binding.
#[derive(Debug)]
pub struct LentNodes(pub SharedView);

/// The pods of the physical cluster that one of two watches shows: those with the label of the virtual cluster, in every phase,
/// and all others that use room (decision S21).
#[derive(Debug)]
pub struct PhysicalPods {
    view: SharedView,
    which: PodWatch,
    shown: Arc<Mutex<[HashSet<Uid>; 2]>>,
}

/// Which watch of physical pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodWatch {
    Ours = 0,
    Others = 1,
}

/// The pods of the virtual cluster that are bound to a node.
#[derive(Debug)]
pub struct LentPods(pub SharedView);

/// A list of pods on its way: they are taken in one by one, since a pod that exists counts at once; what the list does not
/// name goes at its end.
#[derive(Debug, Default)]
pub struct PodList {
    seen: HashSet<Uid>,
    touched: Touched,
}

fn physical(slice: NodeSlice) -> Option<(PhysicalName, PhysicalNode)> {
    let name: PhysicalName = slice.name().into();
    match slice.physical() {
        Ok(node) => Some((name, node)),
        Err(error) => {
            tracing::warn!(node = %name, %error, "a physical node cannot be read; what was read of it before counts");
            None
        }
    }
}

fn lent(slice: NodeSlice) -> Option<(NodeName, LentNode)> {
    let name: NodeName = slice.name().into();
    match slice.lent() {
        Ok(node) => Some((name, node)),
        Err(error) => {
            tracing::warn!(node = %name, %error, "a virtual node cannot be read; what was read of it before counts");
            None
        }
    }
}

impl Index<NodeSlice> for PhysicalNodes {
    type List = HashMap<PhysicalName, PhysicalNode>;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> Self::List {
        HashMap::new()
    }

    fn list(&mut self, list: &mut Self::List, object: NodeSlice) {
        list.extend(physical(object));
    }

    fn reset(&mut self, list: Self::List, _: &ResourceVersion) -> Touched {
        locked(&self.0).physical_nodes(list)
    }

    fn apply(&mut self, object: NodeSlice) -> Touched {
        physical(object).map(|(name, node)| locked(&self.0).physical_node(&name, node)).unwrap_or_default()
    }

    fn delete(&mut self, object: NodeSlice) -> Touched {
        locked(&self.0).physical_node_gone(object.name())
    }
}

impl Index<NodeSlice> for LentNodes {
    type List = HashMap<NodeName, LentNode>;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> Self::List {
        HashMap::new()
    }

    fn list(&mut self, list: &mut Self::List, object: NodeSlice) {
        list.extend(lent(object));
    }

    fn reset(&mut self, list: Self::List, _: &ResourceVersion) -> Touched {
        locked(&self.0).lent_nodes(list)
    }

    fn apply(&mut self, object: NodeSlice) -> Touched {
        lent(object).map(|(name, node)| locked(&self.0).lent_node(&name, node)).unwrap_or_default()
    }

    fn delete(&mut self, object: NodeSlice) -> Touched {
        locked(&self.0).lent_node_gone(object.name())
    }
}

impl PhysicalPods {
    /// The two watches: of pods of the virtual cluster, and of all others.
    #[must_use]
    pub fn both(view: &SharedView) -> [Self; 2] {
        let shown = Arc::new(Mutex::new([HashSet::new(), HashSet::new()]));
        [PodWatch::Ours, PodWatch::Others].map(|which| Self {
            view: Arc::clone(view),
            which,
            shown: Arc::clone(&shown),
        })
    }

    /// Does something with the pods that this watch shows, and with those of the other one.
    fn shown<T>(&self, act: impl FnOnce(&mut HashSet<Uid>, &HashSet<Uid>) -> T) -> T {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let [ours, others] = &mut *shown;
        match self.which {
            PodWatch::Ours => act(ours, others),
            PodWatch::Others => act(others, ours),
        }
    }

    fn take(&self, object: &PodSlice) -> Touched {
        self.shown(|shown, _| shown.insert(object.pod().uid));
        locked(&self.view).ledger.physical_pod(object).unwrap_or_else(|error| {
            tracing::warn!(pod = %object.pod(), %error, "a physical pod cannot be read; what was read of it before counts");
            Touched::new()
        })
    }

    /// This watch does not show a pod any more. Where its labels changed the other one does, or will: a pod that the other
    /// one shows is not gone.
    fn gone(&self, uid: &Uid) -> Touched {
        let is_gone = self.shown(|shown, other| shown.remove(uid) && !other.contains(uid));
        if is_gone { locked(&self.view).ledger.physical_pod_gone(uid) } else { Touched::new() }
    }
}

impl Index<PodSlice> for PhysicalPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> PodList {
        PodList::default()
    }

    fn list(&mut self, list: &mut PodList, object: PodSlice) {
        list.seen.insert(object.pod().uid);
        list.touched.append(&mut self.take(&object));
    }

    fn reset(&mut self, mut list: PodList, _: &ResourceVersion) -> Touched {
        let missing: Vec<Uid> = self.shown(|shown, _| shown.difference(&list.seen).cloned().collect());
        for uid in missing {
            list.touched.append(&mut self.gone(&uid));
        }
        list.touched
    }

    fn apply(&mut self, object: PodSlice) -> Touched {
        self.take(&object)
    }

    fn delete(&mut self, object: PodSlice) -> Touched {
        self.gone(&object.pod().uid)
    }
}

impl LentPods {
    fn take(&self, object: PodSlice) -> Touched {
        let pod = object.pod();
        locked(&self.0).ledger.virtual_pod(object).unwrap_or_else(|error| {
            tracing::warn!(%pod, %error, "a virtual pod cannot be read; what was read of it before counts");
            Touched::new()
        })
    }
}

impl Index<PodSlice> for LentPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        if earlier == Earlier::Void {
            locked(&self.0).ledger.forget_removals();
        }
        PodList::default()
    }

    fn list(&mut self, list: &mut PodList, object: PodSlice) {
        list.seen.insert(object.pod().uid);
        list.touched.append(&mut self.take(object));
    }

    fn reset(&mut self, mut list: PodList, _: &ResourceVersion) -> Touched {
        let mut view = locked(&self.0);
        for uid in view.ledger.virtual_uids() {
            if !list.seen.contains(&uid) {
                list.touched.append(&mut view.ledger.virtual_pod_gone(&uid));
            }
        }
        list.touched
    }

    fn apply(&mut self, object: PodSlice) -> Touched {
        self.take(object)
    }

    fn delete(&mut self, object: PodSlice) -> Touched {
        locked(&self.0).ledger.virtual_pod_gone(&object.pod().uid)
    }
}

/// What a watch met.
#[derive(Debug, Clone, Copy)]
pub enum Heard<'a> {
    /// The server showed a change.
    Changed,
    /// A list is whole.
    Listed,
    /// A request was refused, or not answered.
    Failed(&'a Refusal),
}

/// Follows the objects of a kind for ever, and reports what the watch met.
pub async fn follow<K, I>(
    api: Api<K>,
    config: Config,
    mut index: I,
    queue: WorkQueue<PhysicalName>,
    heard: impl Fn(Heard<'_>) + Send,
) where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    I: Index<K, Change = Touched> + Send,
    I::List: Send,
{
    let mut watched: Watched<I::List> = Watched::default();
    let mut events = std::pin::pin!(watches::events(api, config));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let met = match &event {
                    Event::InitDone(_) => Some(Heard::Listed),
                    Event::Apply(_) | Event::Delete(_) => Some(Heard::Changed),
                    Event::Init(_) | Event::InitApply(_) => None,
                };
                for name in watched.take(&mut index, event).unwrap_or_default() {
                    // A full queue is counted, and the next sweep adds what it refused.
                    let _refused = queue.add(name);
                }
                met.into_iter().for_each(&heard);
            }
            Err(refusal) => {
                tracing::debug!(reason = refusal.reason.as_str(), error = %refusal, "a watch of a binding broke");
                heard(Heard::Failed(&refusal));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::examples;

    fn pods(names: &[(&str, &str)]) -> Vec<PodSlice> {
        let pod = |(uid, cpu): &(&str, &str)| -> Value {
            json!({
                "metadata": {"namespace": "a", "name": uid, "uid": uid, "resourceVersion": "1"},
                "spec": {"nodeName": "w1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                "status": {"phase": "Running"},
            })
        };
        names.iter().map(|name| serde_json::from_value(pod(name)).unwrap()).collect()
    }

    fn list<K, I: Index<K>>(index: &mut I, objects: Vec<K>) -> I::Change {
        let mut watched = Watched::default();
        watched.take(index, Event::Init(Earlier::Valid));
        for object in objects {
            watched.take(index, Event::InitApply(object));
        }
        watched.take(index, Event::InitDone("9".into())).unwrap()
    }

    #[test]
    fn a_list_that_breaks_off_makes_no_node_larger() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let [_, mut index] = PhysicalPods::both(&view);
        list(&mut index, pods(&[("p1", "1"), ("p2", "2")]));
        let used = || locked(&view).ledger.used("w1")["cpu"].to_string();
        assert_eq!(used(), "3");
        let mut watched = Watched::default();
        watched.take(&mut index, Event::Init(Earlier::Void));
        watched.take(&mut index, Event::InitApply(pods(&[("p3", "1")]).remove(0)));
        assert_eq!(used(), "4", "a new pod counts at once, and one that the list has not named yet as before");
        watched.take(&mut index, Event::InitDone("9".into()));
        assert_eq!(used(), "1");
    }

    #[test]
    fn a_pod_whose_labels_change_goes_from_one_watch_to_the_other_in_any_order_and_is_not_gone() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let [mut ours, mut others] = PhysicalPods::both(&view);
        let pod = || pods(&[("p1", "1")]).remove(0);
        let used = || locked(&view).ledger.used("w1").len();
        others.apply(pod());
        ours.apply(pod());
        assert!(others.delete(pod()).is_empty());
        assert_ne!(used(), 0);
        assert!(!ours.delete(pod()).is_empty());
        assert_eq!(used(), 0);
        // A list of the one says nothing about what the other shows.
        others.apply(pod());
        list(&mut ours, Vec::new());
        assert_ne!(used(), 0);
    }

    #[test]
    fn a_node_that_cannot_be_read_stays_what_it_was() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let mut index = PhysicalNodes(Arc::clone(&view));
        let broken = json!({"metadata": {"name": "w1"}, "status": {"allocatable": {"cpu": "many"}}});
        assert!(index.apply(serde_json::from_value(broken).unwrap()).is_empty());
        assert_eq!(locked(&view).all().len(), 1);
    }
}
