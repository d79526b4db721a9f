//! What the watches show of a binding's objects, each on its way into the [`View`], and pods into the [`Inbox`] of their controller,
//! too.
//!
//! Owns how objects of either cluster become events of the view, and which nodes the controller looks at because of them. All bindings
//! follow the same watches ([`shared`](crate::shared)): here each takes what is its own. A
//! list replaces what is known only when it is whole. Never decides anything.
//!
//! # Failure story
//!
//! A watch that breaks continues by itself, and what is known stays. A server that was set back is listed anew, also where only a
//! list of pods shows it; until the
//! list is whole the old content stays, since a node whose pods are forgotten for a moment would look empty. An object that
//! cannot be read leaves what was read of it before, with a line in the log. Where there is more than is held the list is given up, and
//! the binding leaves everything as it is ([`Most`](crate::shared::Most)).

mod csi;
mod machines;
mod named;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use topoloom_cluster::watched::{Earlier, Event, Index, Watched};
use topoloom_cluster::work::WorkQueue;
use topoloom_cluster::{Refusal, Restores};
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

pub use self::csi::{LentCsiNodes, PhysicalCsiNodes};
pub use self::machines::Machines;
pub use self::named::{Feed, LentNodes, Named, NamedList, PhysicalNodes};
use crate::ledger::{PhysicalName, PodStock, PodWatch, Touched};
use crate::pods::Inbox;
use crate::shared::{ListMark, Reading, Shown, Step, Stock, Subscription};
use crate::slices::pod::{KnownPod, PodName};
use crate::view::View;

/// A view that several tasks share.
pub type SharedView = Arc<Mutex<View>>;

/// So many steps of a watch are taken in before other tasks have their turn: a list may have tens of thousands.
const TURN: usize = 128;

fn locked(view: &SharedView) -> MutexGuard<'_, View> {
    view.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PodStock for Stock<KnownPod> {
    fn on(&self, node: &str) -> Vec<Arc<KnownPod>> {
        self.at(node)
    }

    fn has(&self, uid: &str) -> bool {
        Self::has(self, uid)
    }
}

/// What a watch shows is taken into it.
pub trait Follows<T>: Index<Shown<T>, Change = Touched> {
    /// There is more than is held: what is known may be old, and a list that was under way is given up. What was taken in of it before
    /// its end, and before it, is forgotten as far as the next one needs the room.
    fn given_up(&mut self, list: Option<Self::List>) -> Touched;

    /// Another list begins in place of this one, which broke off. Which nodes it has changed already: the other one shows the same, and
    /// changes nothing.
    fn broken_off(&mut self, _: Self::List) -> Touched {
        Touched::new()
    }
}

/// The pods of the physical cluster that one of two watches shows: those with the label of the virtual cluster, in every phase,
/// and all others that use room (decision S21).
#[derive(Debug, Clone)]
pub struct PhysicalPods {
    view: SharedView,
    watch: PodWatch,
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
    /// Those that the binding knows, or may know of before: all bindings are shown the pods of all.
    seen: HashSet<Uid>,
    touched: Touched,
    /// Of the pods that the list shows in a version before the one that is known: the lowest known version, and the one in the
    /// list.
    older: Option<(ResourceVersion, ResourceVersion)>,
    /// How often the API server had been set back when it began.
    history: u64,
}

impl PodList {
    fn of(restores: &Restores) -> Self {
        Self { history: *restores.changes().borrow(), ..Self::default() }
    }

    /// The list shows a pod in another version than the one that is known. Of one that cannot be read it shows nothing: what is known
    /// of it by the watch may be older than an answer to a request.
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
            restores.contradicted_as_of(self.history, known, shown);
        }
    }
}

/// The UID of a pod that is shown.
fn uid(shown: &Shown<KnownPod>) -> Uid {
    Arc::clone(&shown.key).into()
}

impl PhysicalPods {
    /// The two watches: of pods of the virtual cluster, and of all others.
    #[must_use]
    pub fn both(view: &SharedView) -> [Self; 2] {
        [PodWatch::Ours, PodWatch::Others].map(|watch| Self { view: Arc::clone(view), watch })
    }

    fn take(&self, pod: &Arc<KnownPod>) -> Touched {
        locked(&self.view).pod_shown(self.watch, pod)
    }

    /// Whether the ledger may have this pod: one of a node that counts, and one that cannot be read or has no node, since it may have
    /// had one before. The pods of a node that counts later come out of what the watch has shown, and are there by that.
    fn may_have(&self, shown: &Shown<KnownPod>) -> bool {
        let node = shown.object.as_ref().and_then(|pod| pod.node());
        node.is_none_or(|node| locked(&self.view).ledger.counts(node))
    }
}

impl Index<Shown<KnownPod>> for PhysicalPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> PodList {
        PodList::default()
    }

    fn list(&mut self, list: &mut PodList, shown: Shown<KnownPod>) {
        if !self.may_have(&shown) {
            return;
        }
        list.seen.insert(uid(&shown));
        list.touched.extend(shown.object.map(|pod| self.take(&pod)).unwrap_or_default());
    }

    fn reset(&mut self, mut list: PodList, _: &ResourceVersion) -> Touched {
        list.touched.extend(locked(&self.view).pods_listed(self.watch, &list.seen));
        list.touched
    }

    fn apply(&mut self, shown: Shown<KnownPod>) -> Touched {
        shown.object.map(|pod| locked(&self.view).pod_came(self.watch, &pod)).unwrap_or_default()
    }

    fn delete(&mut self, shown: Shown<KnownPod>) -> Touched {
        locked(&self.view).pod_hidden(self.watch, &uid(&shown))
    }
}

impl Follows<KnownPod> for PhysicalPods {
    fn given_up(&mut self, list: Option<PodList>) -> Touched {
        let Some(mut list) = list else { return Touched::new() };
        // Each list that is given up would leave others behind.
        list.touched.extend(locked(&self.view).pods_given_up(self.watch, &list.seen));
        list.touched
    }

    fn broken_off(&mut self, list: PodList) -> Touched {
        list.touched
    }
}

impl OurPods {
    /// What one of the two watches of physical pods shows, and the inbox of their controller.
    #[must_use]
    pub fn new(ours: PhysicalPods, inbox: Inbox, restores: Restores) -> Self {
        Self { pods: ours, inbox, restores }
    }
}

impl Index<Shown<KnownPod>> for OurPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        self.inbox.physical_begin(earlier);
        PodList::of(&self.restores)
    }

    fn list(&mut self, list: &mut PodList, shown: Shown<KnownPod>) {
        if self.pods.may_have(&shown) || shown.object.as_ref().is_some_and(|pod| self.inbox.is_ours(pod)) {
            list.seen.insert(uid(&shown));
        }
        let Some(pod) = shown.object else { return };
        if shown.reading == Reading::Current {
            list.older(self.inbox.older_physical(&pod));
        }
        list.touched.extend(self.pods.take(&pod));
        self.inbox.physical(&pod);
    }

    fn reset(&mut self, list: PodList, version: &ResourceVersion) -> Touched {
        list.judge(version, &self.restores);
        self.inbox.physical_listed(&list.seen);
        self.pods.reset(list, version)
    }

    fn apply(&mut self, shown: Shown<KnownPod>) -> Touched {
        let pod = shown.object.clone();
        let touched = self.pods.apply(shown);
        if let Some(pod) = pod {
            self.inbox.physical(&pod);
        }
        touched
    }

    fn delete(&mut self, shown: Shown<KnownPod>) -> Touched {
        if let Some(pod) = &shown.object {
            self.inbox.physical_gone(pod);
        }
        self.pods.delete(shown)
    }
}

impl Follows<KnownPod> for OurPods {
    fn given_up(&mut self, list: Option<PodList>) -> Touched {
        if let Some(list) = &list {
            self.inbox.physical_listed(&list.seen);
        }
        self.pods.given_up(list)
    }

    fn broken_off(&mut self, list: PodList) -> Touched {
        list.touched
    }
}

impl LentPods {
    /// The view, and the inbox of the controller of pods.
    #[must_use]
    pub fn new(view: &SharedView, inbox: Inbox, restores: Restores) -> Self {
        Self { view: Arc::clone(view), inbox, restores }
    }

    /// A pod on a node that cannot be ours is none of ours, and never will be: pods do not move.
    fn may_be_ours(&self, pod: &KnownPod) -> bool {
        pod.node().is_some_and(|node| self.inbox.may_be_lent(node))
    }

    fn take(&self, pod: &Arc<KnownPod>) -> Touched {
        // Another binding may have an id that begins with ours: only what is known to be ours is taken from others.
        let is_ours = pod.node().is_some_and(|node| locked(&self.view).knows_lent(node));
        let text = if is_ours { pod.take_text() } else { pod.text() };
        self.inbox.twin(pod, text.as_deref());
        locked(&self.view).lent_pod_shown(pod)
    }
}

impl Index<Shown<KnownPod>> for LentPods {
    type List = PodList;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> PodList {
        self.inbox.twins_begin(earlier);
        if earlier == Earlier::Void {
            locked(&self.view).forget_answers();
        }
        PodList::of(&self.restores)
    }

    fn list(&mut self, list: &mut PodList, shown: Shown<KnownPod>) {
        if shown.object.as_ref().is_some_and(|pod| !self.may_be_ours(pod)) {
            return;
        }
        // Also one that cannot be read: it is there, and may be ours.
        list.seen.insert(uid(&shown));
        let Some(pod) = shown.object else { return };
        if shown.reading == Reading::Current {
            list.older(self.inbox.older_twin(&pod));
        }
        list.touched.extend(self.take(&pod));
    }

    fn reset(&mut self, mut list: PodList, version: &ResourceVersion) -> Touched {
        list.judge(version, &self.restores);
        self.inbox.twins_listed(&list.seen);
        let mut view = locked(&self.view);
        for uid in view.ledger.virtual_uids() {
            if !list.seen.contains(&uid) {
                list.touched.extend(view.lent_pod_gone(&uid));
            }
        }
        view.lent_pods_listed(&list.seen);
        list.touched
    }

    fn apply(&mut self, shown: Shown<KnownPod>) -> Touched {
        let pod = shown.object.filter(|pod| self.may_be_ours(pod));
        pod.map(|pod| self.take(&pod)).unwrap_or_default()
    }

    fn delete(&mut self, shown: Shown<KnownPod>) -> Touched {
        let uid = uid(&shown);
        if let Some(lending) = shown.object.as_ref().and_then(|pod| pod.lending()) {
            self.inbox.twin_gone(&PodName::new(&lending.namespace, &lending.name), &uid);
        }
        locked(&self.view).lent_pod_gone(&uid)
    }
}

impl Follows<KnownPod> for LentPods {
    fn given_up(&mut self, list: Option<PodList>) -> Touched {
        // A list of our own cluster has no bound. What was taken in of it counts.
        list.map(|list| list.touched).unwrap_or_default()
    }

    fn broken_off(&mut self, list: PodList) -> Touched {
        list.touched
    }
}

/// What a watch met.
#[derive(Debug, Clone, Copy)]
pub enum WatchNews<'a> {
    /// The server showed a change.
    Changed,
    /// A list is whole: this one.
    Listed(ListMark),
    /// After a refusal the watch works again: all that happened since this list is shown, where no other one is under way.
    Opened(Option<ListMark>),
    /// A request was refused, or not answered.
    Failed(&'a Refusal),
}

/// Follows the objects of a kind for ever, and reports what the watch met.
pub async fn follow<T, I>(
    mut watch: Subscription<T>,
    mut index: I,
    queue: WorkQueue<PhysicalName>,
    report: impl Fn(WatchNews<'_>) + Send,
) where
    T: Send + Sync,
    I: Follows<T> + Send,
    I::List: Send,
{
    let mut watched: Watched<I::List> = Watched::default();
    let (mut steps, mut skips, mut last) = (0_usize, false, None::<ListMark>);
    loop {
        let shown = watch.next().await;
        for step in shown {
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
            // A list of a history that the API server has left is none: the next one is under way.
            if let Step::Begins(list) | Step::Whole(list, _) = &step {
                skips = !watch.is_of_now(list) || (skips && matches!(step, Step::Whole(..)));
            }
            let (event, news) = match step {
                Step::Begins(_) | Step::Listed(_) | Step::Whole(..) if skips => continue,
                Step::Begins(list) => (Event::Init(watch.begins(&list)), None),
                Step::Listed(object) => (Event::InitApply(object), None),
                Step::Whole(list, version) => (Event::InitDone(version), Some(WatchNews::Listed(list))),
                Step::Changed(object) => (Event::Apply(object), Some(WatchNews::Changed)),
                Step::Gone(object) => (Event::Delete(object), Some(WatchNews::Changed)),
                Step::Opened => {
                    report(WatchNews::Opened(last.filter(|list| watch.is_at(list))));
                    continue;
                }
                Step::Failed(refusal) => {
                    watch.was_refused(&refusal);
                    report(WatchNews::Failed(&refusal));
                    continue;
                }
                Step::GivenUp(refusal) => {
                    watch.was_refused(&refusal);
                    // Before anything is forgotten.
                    report(WatchNews::Failed(&refusal));
                    look_at(&queue, index.given_up(watched.cut()));
                    continue;
                }
            };
            look_at(&queue, taken(&mut watched, &mut index, event));
            if let Some(news) = news {
                if let WatchNews::Listed(list) = news {
                    watch.took_list();
                    last = Some(list);
                }
                report(news);
            }
        }
    }
}

/// Takes one event in. Which nodes have to be looked at: also those of a list that broke off, since pods count as they are listed.
fn taken<T, I: Follows<T>>(watched: &mut Watched<I::List>, index: &mut I, event: Event<Shown<T>>) -> Touched {
    let broken = if let Event::Init(_) = &event { watched.cut() } else { None };
    let mut touched = broken.map(|list| index.broken_off(list)).unwrap_or_default();
    touched.extend(watched.take(index, event).unwrap_or_default());
    touched
}

fn look_at(queue: &WorkQueue<PhysicalName>, nodes: Touched) {
    for name in nodes {
        // A full queue is counted, and the next sweep adds what it refused.
        let _refused = queue.add(name);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use serde_json::{Value, json};
    use topoloom_core::queue::Limiter;
    use topoloom_sync::node::LentNode;

    use super::*;
    use crate::pods::PodKey;
    use crate::slices::csi::CsiNodeSlice;
    use crate::slices::node::NodeSlice;
    use crate::slices::pod::Commons;
    use crate::view::{CsiEvidence, examples};

    fn pods(names: &[(&str, &str)]) -> Vec<Shown<KnownPod>> {
        let pod = |(uid, cpu): &(&str, &str)| -> Value {
            json!({
                "metadata": {"namespace": "a", "name": uid, "uid": uid, "resourceVersion": "1"},
                "spec": {"nodeName": "w1", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
                "status": {"phase": "Running"},
            })
        };
        let known = |pod: Value| {
            let pod = KnownPod::of_others(&serde_json::from_value(pod).unwrap(), &mut Commons::default()).unwrap();
            Shown::new(&pod.uid().clone(), Some(Arc::new(pod)))
        };
        names.iter().map(|name| known(pod(name))).collect()
    }

    /// A list of these objects, as its watch shows it.
    pub(crate) fn list<K, I: Index<K>>(index: &mut I, objects: Vec<K>) -> I::Change {
        let mut watched = Watched::default();
        watched.take(index, Event::Init(Earlier::Valid));
        for object in objects {
            watched.take(index, Event::InitApply(object));
        }
        watched.take(index, Event::InitDone("9".into())).unwrap()
    }

    /// A pod with these labels, in the namespace of the pods of the binding.
    fn labelled(uid: &str, node: &str, labels: &BTreeMap<String, String>) -> Shown<KnownPod> {
        let pod = json!({
            "metadata": {"namespace": "lent", "name": uid, "uid": uid, "resourceVersion": "1", "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running"},
        });
        let pod = KnownPod::of(&serde_json::from_value(pod).unwrap()).unwrap();
        Shown::new(uid, Some(Arc::new(pod)))
    }

    /// All that a watch has shown.
    #[derive(Debug)]
    struct Stocked(Vec<Arc<KnownPod>>);

    impl PodStock for Stocked {
        fn on(&self, node: &str) -> Vec<Arc<KnownPod>> {
            self.0.iter().filter(|pod| pod.node().is_some_and(|at| **at == *node)).cloned().collect()
        }

        fn has(&self, uid: &str) -> bool {
            self.0.iter().any(|pod| **pod.uid() == *uid)
        }
    }

    /// A view that shares watches which have shown this, and counts no node yet.
    fn sharing(pods: Vec<Arc<KnownPod>>) -> SharedView {
        let mut view = examples::view(2);
        let stock: Arc<dyn PodStock> = Arc::new(Stocked(pods));
        view.ledger.draw_on([Arc::clone(&stock), stock]);
        Arc::new(Mutex::new(view))
    }

    #[test]
    fn s21_of_a_list_that_is_shared_the_pods_of_nodes_that_do_not_count_are_not_remembered() {
        let none = BTreeMap::new();
        let late = labelled("late", "w2", &none);
        let view = sharing(late.object.iter().cloned().collect());
        locked(&view).ledger.take_up(&"w1".into());
        let [_, mut index] = PhysicalPods::both(&view);
        let mut list = index.begin(Earlier::Valid);
        for number in 0..10_000 {
            index.list(&mut list, Shown::new(&format!("p{number}"), late.object.clone()));
        }
        index.list(&mut list, late);
        assert_eq!(list.seen.len(), 0);
        index.list(&mut list, labelled("here", "w1", &none));
        index.list(&mut list, Shown::new("unreadable", None));
        assert_eq!(list.seen, HashSet::from(["here", "unreadable"].map(Uid::from)));
        // This node counts before the list is whole. Its pod is there, though the list has shown it before that.
        locked(&view).ledger.take_up(&"w2".into());
        index.reset(list, &"9".into());
        let used = |node: &str| locked(&view).ledger.used(node)["cpu"].to_string();
        assert_eq!([used("w1"), used("w2")], ["1", "1"]);
    }

    #[test]
    fn s21_of_a_list_that_is_shared_each_binding_remembers_what_is_its_own_on_any_node() {
        let view = sharing(Vec::new());
        let (identity, cluster) = {
            let view = locked(&view);
            (view.binding.identity.clone(), view.binding.cluster.clone())
        };
        let queue: WorkQueue<PodKey> = WorkQueue::new("test", NonZeroUsize::MIN.saturating_add(99), Limiter::default());
        let inbox = Inbox::new(&identity, &cluster, "lent", queue, || Duration::ZERO);
        let ([ours, _], restores) = (PhysicalPods::both(&view), Restores::default());
        let mut index = OurPods::new(ours, inbox.clone(), restores.clone());
        let mut list = index.begin(Earlier::Valid);
        let (labels, mut another) = (identity.labels(), identity.labels());
        another.insert(topoloom_sync::keys::BINDING.to_owned(), "west".to_owned());
        index.list(&mut list, labelled("ours", "w1", &labels));
        index.list(&mut list, labelled("theirs", "w1", &another));
        index.list(&mut list, Shown::new("unreadable", None));
        assert_eq!(list.seen, HashSet::from(["ours", "unreadable"].map(Uid::from)));
        let mut index = LentPods::new(&view, inbox, restores);
        let mut list = index.begin(Earlier::Valid);
        for (uid, node) in [("ours", "vnode-east-w1"), ("theirs", "vnode-west-w1")] {
            index.list(&mut list, labelled(uid, node, &BTreeMap::new()));
        }
        index.list(&mut list, Shown::new("unreadable", None));
        assert_eq!(list.seen, HashSet::from(["ours", "unreadable"].map(Uid::from)));
    }

    #[test]
    fn s14_an_event_of_a_new_pod_of_ours_may_come_before_what_its_virtual_pod_says_of_it_and_a_list_does_not() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let (identity, cluster) = {
            let view = locked(&view);
            (view.binding.identity.clone(), view.binding.cluster.clone())
        };
        let queue: WorkQueue<PodKey> = WorkQueue::new("test", NonZeroUsize::MIN.saturating_add(99), Limiter::default());
        let inbox = Inbox::new(&identity, &cluster, "lent", queue, || Duration::ZERO);
        let [ours, _] = PhysicalPods::both(&view);
        let mut index = OurPods::new(ours, inbox, Restores::default());
        let mut used = |shown: Vec<Shown<KnownPod>>, by_event: bool| {
            if by_event {
                shown.into_iter().for_each(|pod| drop(index.apply(pod)));
            } else {
                list(&mut index, shown);
            }
            let (used, due) = locked(&view).ledger.used_at("w1", Duration::from_secs(9));
            (used.get("cpu").map(ToString::to_string), due.is_some())
        };
        let pod = |uid: &str| labelled(uid, "w1", &identity.labels());
        assert_eq!(used(vec![pod("listed")], false), (Some("1".to_owned()), false));
        assert_eq!(used(vec![pod("listed"), pod("new")], true), (Some("1".to_owned()), true));
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
    fn s14_a_node_whose_pods_a_list_has_changed_is_looked_at_also_where_the_list_breaks_off() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let [_, mut index] = PhysicalPods::both(&view);
        let mut watched = Watched::default();
        let pod = || Event::InitApply(pods(&[("p1", "1")]).remove(0));
        let begin = || Event::Init(Earlier::Valid);
        let looks: Vec<usize> = [begin(), pod(), begin(), pod(), begin(), pod(), Event::InitDone("9".into())]
            .into_iter()
            .map(|event| taken(&mut watched, &mut index, event).len())
            .collect();
        // The second list shows nothing new, and so does the third one.
        assert_eq!(looks, [0, 0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_list_of_pods_that_is_given_up_leaves_no_more_behind_than_it_named() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let [_, mut index] = PhysicalPods::both(&view);
        let used = || locked(&view).ledger.used("w1")["cpu"].to_string();
        // Each list names others, and none comes to its end.
        for round in 0..10 {
            let names: Vec<String> = (0..5).map(|number| format!("p{}", 5 * round + number)).collect();
            let named: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
            let mut list = index.begin(Earlier::Valid);
            pods(&named).into_iter().for_each(|pod| index.list(&mut list, pod));
            index.given_up(Some(list));
            assert_eq!(used(), "5");
        }
        assert!(index.given_up(None).is_empty());
        assert_eq!(used(), "5", "between two lists nothing is known to be gone");
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
        let broken = || Shown::new("w1", None);
        assert!(index.apply(broken()).is_empty());
        assert_eq!(locked(&view).all().len(), 1);
        // Nor is it gone, where a list shows it so.
        list(&mut index, vec![broken()]);
        assert_eq!(&*locked(&view).physical("w1").unwrap().uid, "u1");
        let other: NodeSlice = serde_json::from_value(json!({"metadata": {"name": "w2", "uid": "u2"}})).unwrap();
        list(&mut index, vec![Shown::new("w2", Some(Arc::new(other.physical().unwrap())))]);
        assert!(locked(&view).physical("w1").is_none());
    }

    #[test]
    fn s21_of_the_virtual_nodes_that_all_bindings_share_each_takes_its_own() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let identity = locked(&view).binding.identity.clone();
        let node = |name: &str, binding: Option<&str>| {
            let mut labels = identity.labels();
            if let Some(binding) = binding {
                labels.insert(topoloom_sync::keys::BINDING.to_owned(), binding.to_owned());
            }
            let metadata = json!({"name": name, "uid": name, "resourceVersion": "1", "labels": labels});
            let node: NodeSlice = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            Shown::new(name, Some(Arc::new(node.lent().unwrap())))
        };
        let mut index = Feed::<LentNodes>::of(&view);
        let is_known = |name: &str| locked(&view).lent(name).is_some();
        list(&mut index, vec![node("vnode-east-w1", None), node("vnode-west-w1", Some("west"))]);
        assert!(is_known("vnode-east-w1") && !is_known("vnode-west-w1"));
        index.apply(node("vnode-west-w2", Some("west")));
        assert!(!is_known("vnode-west-w2"));
        // A user gives it to another binding: it is none of this one, as a watch by its label would show it.
        index.apply(node("vnode-east-w1", Some("west")));
        assert!(!is_known("vnode-east-w1"));
    }

    #[test]
    fn s6_a_virtual_node_that_loses_a_label_leaves_its_watch_and_is_not_gone() {
        let lent = || {
            let mut view = examples::view(1);
            examples::lend(&mut view, 1);
            let view: SharedView = Arc::new(Mutex::new(view));
            (Feed::<LentNodes>::of(&view), view)
        };
        let name = "vnode-east-w1";
        let is_kept = |view: &SharedView| {
            let view = locked(view);
            (view.lent(name).is_none(), view.uid_of_lent(name).is_some(), view.lends_nothing()) == (true, true, false)
        };
        // The one label is in the selector of the watch, and the other one is not.
        let (mut index, view) = lent();
        assert_eq!(index.delete(Shown::new(name, None)).len(), 1);
        assert!(is_kept(&view));
        let (mut index, view) = lent();
        let mut node = examples::lent(1);
        node.version = "30".into();
        node.metadata.labels.remove(topoloom_sync::keys::BINDING);
        assert_eq!(index.apply(Shown::new(name, Some(Arc::new(node)))).len(), 1);
        assert!(is_kept(&view));
        // It has the label again.
        let node = LentNode { version: "31".into(), ..examples::lent(1) };
        assert_eq!(index.apply(Shown::new(name, Some(Arc::new(node)))).len(), 1);
        assert!(locked(&view).lent(name).is_some());
    }

    #[test]
    fn s19_a_list_of_physical_csinodes_that_begins_holds_decisions_until_it_is_whole() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let mut index = Feed::<PhysicalCsiNodes>::of(&view);
        let object = json!({"metadata": {"name": "w1", "uid": "c1"}, "spec": {"drivers": null}});
        let node: CsiNodeSlice = serde_json::from_value(object).unwrap();
        list(&mut index, vec![Shown::new("w1", Some(Arc::new(node.physical().unwrap())))]);
        list(&mut Feed::<LentCsiNodes>::of(&view), Vec::new());
        let decides = || {
            let now = examples::now().wall;
            locked(&view).decide_csi_node(&"w1".into(), &CsiEvidence::default(), now).is_some()
        };
        assert!(decides());
        let mut watched = Watched::default();
        watched.take(&mut index, Event::Init(Earlier::Valid));
        assert!(!decides());
        // One that cannot be read is there, and as it was.
        watched.take(&mut index, Event::InitApply(Shown::new("w1", None)));
        assert!(!decides());
        watched.take(&mut index, Event::InitDone("9".into()));
        assert!(decides());
        assert_eq!(locked(&view).csi.physical("w1").unwrap().drivers, []);
        // There are more than are held: what is known may be old.
        assert!(index.given_up(None).is_empty());
        assert!(!decides());
    }
}
