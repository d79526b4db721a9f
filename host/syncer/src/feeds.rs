//! The watches of a binding, each on its way into the [`View`], and those of pods into the [`Inbox`] of their controller, too.
//!
//! Owns how objects of either cluster become events of the view, and which nodes the controller looks at because of them. A
//! list replaces what is known only when it is whole. Never decides anything.
//!
//! # Failure story
//!
//! A watch that breaks continues by itself, and what is known stays. A server that was set back is listed anew, also where only a
//! list of pods shows it; until the
//! list is whole the old content stays, since a node whose pods are forgotten for a moment would look empty. An object that
//! cannot be read leaves what was read of it before, with a line in the log. How much another party can make us hold is bounded
//! (`room`).

mod csi;
mod machines;
mod named;
mod room;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::{Api, Resource as _};
use tokio::sync::Notify;
use topoloom_cluster::watched::{Earlier, Event, Index, Watched};
use topoloom_cluster::watches::{self, Config, Heard};
use topoloom_cluster::work::WorkQueue;
use topoloom_cluster::{Refusal, Restores};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

pub use self::csi::{LentCsiNodes, PhysicalCsiNodes};
pub use self::machines::Machines;
pub use self::named::{Feed, LentNodes, Named, NamedList, PhysicalNodes};
use self::room::AGAIN;
pub use self::room::{Held, Holds, Most};
use crate::ledger::{PhysicalName, Touched};
use crate::pods::{Inbox, PodName};
use crate::slices::pod::{Copied, PodSlice, WholePod};
use crate::view::View;

/// A view that several tasks share.
pub type SharedView = Arc<Mutex<View>>;

fn locked(view: &SharedView) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pods of the physical cluster that one of two watches shows: those with the label of the virtual cluster, in every phase,
/// and all others that use room (decision S21). Clones are the same: a watch that is opened again continues with what the one
/// before it has shown.
#[derive(Debug, Clone)]
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

/// The physical pods with the label of the virtual cluster, whose status is copied.
#[derive(Debug)]
pub struct OurPods {
    pods: PhysicalPods,
    inbox: Inbox,
    restores: Restores,
}

/// The pods of the virtual cluster that are bound to a node.
#[derive(Debug)]
pub struct LentPods {
    view: SharedView,
    inbox: Inbox,
    restores: Restores,
}

/// A list of pods on its way: they are taken in one by one, since a pod that exists counts at once; what the list does not
/// name goes at its end.
#[derive(Debug, Default)]
pub struct PodList {
    seen: HashSet<Uid>,
    touched: Touched,
    /// Of the pods that the list shows in a version before the one that is known: the lowest known version, and the one in the
    /// list.
    older: Option<(ResourceVersion, ResourceVersion)>,
}

impl PodList {
    fn held(&self) -> Held {
        Held { objects: self.seen.len(), bytes: 0 }
    }

    /// The list shows a pod in another version than the one that is known.
    fn older(&mut self, found: Option<(ResourceVersion, ResourceVersion)>) {
        let Some((known, shown)) = found else { return };
        if self.older.as_ref().is_none_or(|(lowest, _)| known.is_older_than(lowest)) {
            self.older = Some((known, shown));
        }
    }

    /// The list is as of this version. Where that is not before a version in which a pod was known, both are not of one history:
    /// the store was set back, and its revision raised.
    fn judge(&self, version: &ResourceVersion, restores: &Restores) {
        if let Some((known, shown)) = &self.older
            && !version.is_older_than(known)
        {
            restores.contradicted(known, shown);
        }
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
        locked(&self.view).physical_pod(object).unwrap_or_else(|error| {
            tracing::warn!(pod = %object.pod(), %error, "a physical pod cannot be read; what was read of it before counts");
            Touched::new()
        })
    }

    /// This watch does not show a pod any more. Where its labels changed the other one does, or will: a pod that the other
    /// one shows is not gone.
    fn gone(&self, uid: &Uid) -> Touched {
        let is_gone = self.shown(|shown, other| shown.remove(uid) && !other.contains(uid));
        if is_gone { locked(&self.view).physical_pod_gone(uid) } else { Touched::new() }
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

impl Holds<PodSlice> for PhysicalPods {
    fn held(&self) -> Held {
        Held { objects: self.shown(|shown, _| shown.len()), bytes: 0 }
    }

    fn listed(list: &PodList) -> Held {
        list.held()
    }

    fn cut(&mut self, list: PodList) -> Touched {
        // What it has not named may be gone, or come behind the end: it is not known any more, or the next list would find no room.
        self.reset(list, &ResourceVersion::default())
    }
}

/// The UID of a pod that may not be readable otherwise.
fn uid_of(pod: &WholePod) -> Uid {
    pod.meta().uid.as_deref().unwrap_or_default().into()
}

/// Its namespace and its name.
fn name_of(pod: &WholePod) -> PodName {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    PodName::new(&text(&pod.meta().namespace), &text(&pod.meta().name))
}

/// A pod that was read whole; nothing where its status has another form than that of a pod.
fn split(pod: WholePod) -> Option<(PodSlice, Copied)> {
    let name = pod.meta().name.clone().unwrap_or_default();
    let read = pod.split();
    read.inspect_err(|error| {
        tracing::warn!(pod = name, %error, "a pod cannot be read; what was read of it before counts");
    })
    .ok()
}

impl OurPods {
    /// What one of the two watches of physical pods shows, and the inbox of their controller.
    #[must_use]
    pub fn new(ours: PhysicalPods, inbox: Inbox, restores: Restores) -> Self {
        Self { pods: ours, inbox, restores }
    }

    fn take(&self, slice: &PodSlice, copied: Copied) -> Touched {
        let touched = self.pods.take(slice);
        self.inbox.physical(slice, copied);
        touched
    }
}

impl Index<WholePod> for OurPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        self.inbox.physical_begin(earlier);
        PodList::default()
    }

    fn list(&mut self, list: &mut PodList, object: WholePod) {
        list.seen.insert(uid_of(&object));
        let Some((slice, copied)) = split(object) else { return };
        list.older(self.inbox.older_physical(&slice));
        list.touched.append(&mut self.take(&slice, copied));
    }

    fn reset(&mut self, list: PodList, version: &ResourceVersion) -> Touched {
        list.judge(version, &self.restores);
        self.inbox.physical_listed(&list.seen);
        Index::<PodSlice>::reset(&mut self.pods, list, version)
    }

    fn apply(&mut self, object: WholePod) -> Touched {
        split(object).map(|(slice, copied)| self.take(&slice, copied)).unwrap_or_default()
    }

    fn delete(&mut self, object: WholePod) -> Touched {
        let (name, uid) = (name_of(&object), uid_of(&object));
        match split(object) {
            Some((slice, copied)) => self.inbox.physical_gone(&slice, copied),
            // It is gone all the same.
            None => self.inbox.physical_lost(&name, &uid),
        }
        self.pods.gone(&uid)
    }
}

impl Holds<WholePod> for OurPods {
    fn held(&self) -> Held {
        self.pods.held()
    }

    fn listed(list: &PodList) -> Held {
        list.held()
    }

    fn cut(&mut self, list: PodList) -> Touched {
        self.inbox.physical_listed(&list.seen);
        self.pods.cut(list)
    }
}

impl LentPods {
    /// The view, and the inbox of the controller of pods.
    #[must_use]
    pub fn new(view: &SharedView, inbox: Inbox, restores: Restores) -> Self {
        Self { view: Arc::clone(view), inbox, restores }
    }

    fn take(&self, slice: PodSlice, copied: Copied) -> Touched {
        self.inbox.twin(&slice, copied);
        let pod = slice.pod();
        locked(&self.view).lent_pod(slice).unwrap_or_else(|error| {
            tracing::warn!(%pod, %error, "a virtual pod cannot be read; what was read of it before counts");
            Touched::new()
        })
    }
}

impl Index<WholePod> for LentPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        self.inbox.twins_begin(earlier);
        if earlier == Earlier::Void {
            locked(&self.view).forget_answers();
        }
        PodList::default()
    }

    fn list(&mut self, list: &mut PodList, object: WholePod) {
        list.seen.insert(uid_of(&object));
        let Some((slice, copied)) = split(object) else { return };
        list.older(self.inbox.older_twin(&slice));
        list.touched.append(&mut self.take(slice, copied));
    }

    fn reset(&mut self, mut list: PodList, version: &ResourceVersion) -> Touched {
        list.judge(version, &self.restores);
        self.inbox.twins_listed(&list.seen);
        let mut view = locked(&self.view);
        for uid in view.ledger.virtual_uids() {
            if !list.seen.contains(&uid) {
                list.touched.append(&mut view.lent_pod_gone(&uid));
            }
        }
        view.lent_pods_listed(&list.seen);
        list.touched
    }

    fn apply(&mut self, object: WholePod) -> Touched {
        split(object).map(|(slice, copied)| self.take(slice, copied)).unwrap_or_default()
    }

    fn delete(&mut self, object: WholePod) -> Touched {
        let uid = uid_of(&object);
        self.inbox.twin_gone(&name_of(&object), &uid);
        locked(&self.view).lent_pod_gone(&uid)
    }
}

impl Holds<WholePod> for LentPods {
    fn held(&self) -> Held {
        Held { objects: locked(&self.view).ledger.virtual_count(), bytes: 0 }
    }

    fn listed(list: &PodList) -> Held {
        list.held()
    }

    fn cut(&mut self, list: PodList) -> Touched {
        // A list of our own cluster has no bound. What was taken in of it counts.
        list.touched
    }
}

/// What a watch met.
#[derive(Debug, Clone, Copy)]
pub enum WatchNews<'a> {
    /// A list begins.
    Begins,
    /// The server showed a change.
    Changed,
    /// A list is whole.
    Listed,
    /// The watch is open. After a refusal it is opened again without a list.
    Opened,
    /// A request was refused, or not answered.
    Failed(&'a Refusal),
}

/// Follows the objects of a kind for ever, and reports what the watch met. Where there is more than the most that is held the watch
/// ends with a refusal, and begins again after some minutes.
pub async fn follow<K, I>(
    api: Api<K>,
    config: Config,
    most: Most,
    mut index: I,
    queue: WorkQueue<PhysicalName>,
    report: impl Fn(WatchNews<'_>) + Send,
) where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
    I: Holds<K> + Send,
    I::List: Send,
{
    loop {
        let opened = Arc::new(Notify::new());
        let noted = Arc::clone(&opened);
        let config = config.clone().opened(&Heard::new(move || noted.notify_one()));
        let mut watched: Watched<I::List> = Watched::default();
        let mut events = Box::pin(watches::events(api.clone(), config));
        let too_large = loop {
            let event = tokio::select! {
                biased;
                () = opened.notified() => {
                    report(WatchNews::Opened);
                    continue;
                }
                event = events.next() => event,
            };
            let Some(event) = event else { return };
            match event {
                Ok(event) => {
                    let news = match &event {
                        Event::InitDone(_) => Some(WatchNews::Listed),
                        Event::Apply(_) | Event::Delete(_) => Some(WatchNews::Changed),
                        Event::Init(_) => Some(WatchNews::Begins),
                        Event::InitApply(_) => None,
                    };
                    let touched = watched.take(&mut index, event).unwrap_or_default();
                    let held = watched.under_way().map_or_else(|| index.held(), I::listed);
                    let too_large = most.refuse(held, &K::plural(&()));
                    let given_up = if too_large.is_some() { watched.cut() } else { None };
                    let cut = given_up.map(|list| index.cut(list)).unwrap_or_default();
                    for name in touched.into_iter().chain(cut) {
                        // A full queue is counted, and the next sweep adds what it refused.
                        let _refused = queue.add(name);
                    }
                    if let Some(refusal) = too_large {
                        break refusal;
                    }
                    news.into_iter().for_each(&report);
                }
                Err(refusal) => {
                    tracing::debug!(reason = refusal.reason.as_str(), error = %refusal, "a watch of a binding broke");
                    report(WatchNews::Failed(&refusal));
                }
            }
        };
        drop(events);
        report(WatchNews::Failed(&too_large));
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::slices::csi::CsiNodeSlice;
    use crate::slices::node::NodeSlice;
    use crate::view::{CsiEvidence, examples};

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
        let mut index = Feed::<PhysicalNodes>::of(&view);
        let broken = || -> NodeSlice {
            let node = json!({"metadata": {"name": "w1"}, "status": {"allocatable": {"cpu": "many"}}});
            serde_json::from_value(node).unwrap()
        };
        assert!(index.apply(broken()).is_empty());
        assert_eq!(locked(&view).all().len(), 1);
        // Nor is it gone, where a list shows it so.
        list(&mut index, vec![broken()]);
        assert_eq!(&*locked(&view).physical("w1").unwrap().uid, "u1");
        let other = json!({"metadata": {"name": "w2", "uid": "u2"}});
        list(&mut index, vec![serde_json::from_value(other).unwrap()]);
        assert!(locked(&view).physical("w1").is_none());
    }
    #[test]
    fn s19_a_list_of_physical_csinodes_that_begins_holds_decisions_until_it_is_whole() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let mut index = Feed::<PhysicalCsiNodes>::of(&view);
        let node = |drivers: Value| -> CsiNodeSlice {
            let object = json!({"metadata": {"name": "w1", "uid": "c1"}, "spec": {"drivers": drivers}});
            serde_json::from_value(object).unwrap()
        };
        list(&mut index, vec![node(json!(null))]);
        list(&mut Feed::<LentCsiNodes>::of(&view), Vec::<CsiNodeSlice>::new());
        let decides = || {
            let now = examples::now().wall;
            locked(&view).decide_csi_node(&"w1".into(), &CsiEvidence::default(), now).is_some()
        };
        assert!(decides());
        let mut watched = Watched::default();
        watched.take(&mut index, Event::Init(Earlier::Valid));
        assert!(!decides());
        // One that cannot be read is there, and as it was.
        let driver = json!({"name": "d", "nodeID": "x".repeat(1000)});
        watched.take(&mut index, Event::InitApply(node(json!([driver]))));
        assert!(!decides());
        watched.take(&mut index, Event::InitDone("9".into()));
        assert!(decides());
        assert_eq!(locked(&view).csi.physical("w1").unwrap().drivers, []);
    }
}
