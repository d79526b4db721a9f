//! The controller of pods at two staged API servers. Time is what the test says.

mod endings;
mod mirror;
mod orphans;
mod strays;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use topoloom_cluster::Restores;
use topoloom_cluster::watched::{Earlier, Index};
use topoloom_cluster::work::WorkQueue;
use topoloom_core::queue::Limiter;
use topoloom_sync::bars::Bar;
use topoloom_sync::keys;

use super::metrics::{Metrics, PodOutcome};
use super::staged::Api;
use super::*;
use crate::feeds::{LentPods, OurPods, PhysicalPods};
use crate::shared::{self, Kind as _, Reading, Shown};
use crate::slices::pod::KnownPod;
use crate::view::examples;

const PHYSICAL: &str = "lent/web-0-x";
const VIRTUAL: &str = "shop/web-0";

/// Two clusters, one binding.
struct Scene {
    physicals: Api,
    virtuals: Api,
    view: Arc<Mutex<View>>,
    pods: Pods,
    ours: OurPods,
    lent: LentPods,
    /// How often the physical and the virtual cluster were set back.
    restores: [watch::Receiver<u64>; 2],
    /// In seconds since the begin.
    time: Arc<AtomicU64>,
    /// By how many seconds the wall clock was set.
    set: Arc<AtomicI64>,
    registry: Registry,
    counted: Counted,
}

impl Scene {
    /// Both sides were listed, and have no pods.
    fn new() -> Self {
        let mut scene = Self::unlisted();
        scene.list_physical(&[]);
        scene.list_virtual(&[]);
        scene
    }

    fn unlisted() -> Self {
        let view = Arc::new(Mutex::new(examples::view(1)));
        let (identity, cluster) = {
            let view = view.lock().unwrap();
            (view.binding.identity.clone(), view.binding.cluster.clone())
        };
        let queue = WorkQueue::new("pods", 1_000.try_into().unwrap(), Limiter::default());
        let (time, set) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
        let (clock, ahead) = (Arc::clone(&time), Arc::clone(&set));
        let now = move || {
            let (begin, passed) = (examples::now(), Duration::from_secs(clock.load(Ordering::SeqCst)));
            let ahead = SignedDuration::from_secs(ahead.load(Ordering::SeqCst));
            Now { wall: begin.wall.checked_add(passed).unwrap() + ahead, steady: begin.steady + passed }
        };
        let steady = now.clone();
        let inbox = Inbox::new(&identity, &cluster, "lent", queue, move || steady().steady);
        let (physicals, virtuals) = (Api::new(), Api::new());
        let clients = PodClients { physical: physicals.client(), orphans: physicals.client(), lent: virtuals.client() };
        let (mut registry, counted) = (Registry::default(), Counted::default());
        let metrics = Metrics::register(&mut registry).of(identity.binding());
        let events = Events::new(virtuals.client());
        let troubles = Troubles::default();
        let pods = Pods::new(Arc::clone(&view), inbox.clone(), clients, events, troubles, metrics, now);
        let pods = pods.counting(counted.clone());
        let [ours, _] = PhysicalPods::both(&view);
        let (was_restored, lent_was) = (Restores::default(), Restores::default());
        let restores = [was_restored.changes(), lent_was.changes()];
        let ours = OurPods::new(ours, inbox.clone(), was_restored);
        let lent = LentPods::new(&view, inbox, lent_was);
        Self { physicals, virtuals, view, pods, ours, lent, restores, time, set, registry, counted }
    }

    /// Of the binding of the example.
    fn labels(&self) -> Value {
        let mut labels = self.view.lock().unwrap().binding.identity.labels();
        labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
        json!(labels)
    }

    /// The physical pod of [`VIRTUAL`].
    fn physical(&self, status: Value) -> Value {
        json!({
            "metadata": {
                "namespace": "lent", "name": "web-0-x", "uid": "p-uid", "labels": self.labels(),
                "annotations": {
                    keys::VIRTUAL_POD_NAMESPACE: "shop", keys::VIRTUAL_POD_NAME: "web-0", keys::VIRTUAL_POD_UID: "v-uid",
                },
            },
            "spec": {"nodeName": "w1", "containers": [{"name": "c"}]},
            "status": status,
        })
    }

    /// The virtual pod of [`PHYSICAL`].
    fn virtual_pod(&self, status: Value) -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-0", "uid": "v-uid",
                "annotations": {
                    keys::PHYSICAL_POD_NAMESPACE: "lent", keys::PHYSICAL_POD_NAME: "web-0-x",
                    keys::PHYSICAL_POD_UID: "p-uid",
                },
            },
            "spec": {"nodeName": "vnode-east-w1", "containers": [{"name": "c"}], "restartPolicy": "Never"},
            "status": status,
        })
    }

    /// A physical pod is stored, and its watch shows it.
    fn show_physical(&mut self, pod: Value) {
        let stored = self.physicals.put(pod);
        self.ours.apply(whole(&stored));
    }

    /// A virtual pod is stored, and its watch shows it.
    fn show_virtual(&mut self, pod: Value) {
        let stored = self.virtuals.put(pod);
        self.lent.apply(whole(&stored));
    }

    /// The watch shows the virtual pod as it is stored.
    fn show_stored(&mut self, name: &str) {
        let stored = self.virtuals.pod(name).unwrap();
        self.lent.apply(whole(&stored));
    }

    /// A physical pod is removed, and its watch shows that.
    fn remove_physical(&mut self, name: &str) {
        let last = self.physicals.remove(name);
        self.ours.delete(whole(&last));
    }

    /// How often the physical and the virtual cluster were found to be set back.
    fn set_back(&self) -> [u64; 2] {
        self.restores.each_ref().map(|count| *count.borrow())
    }

    fn list_physical(&mut self, pods: &[Value]) {
        list(&mut self.ours, pods);
    }

    fn list_virtual(&mut self, pods: &[Value]) {
        list(&mut self.lent, pods);
    }

    /// Both pods run, and nothing is left to do.
    async fn running(&mut self) {
        self.show_virtual(self.virtual_pod(json!({"phase": "Pending"})));
        self.show_physical(self.physical(running()));
        self.run().await;
        self.show_stored(VIRTUAL);
        assert_eq!(self.run().await, [""; 0]);
        self.virtuals.take_seen();
        self.virtuals.take_bodies();
        self.physicals.take_seen();
    }

    fn pass(&self, seconds: u64) {
        self.time.fetch_add(seconds, Ordering::SeqCst);
    }

    /// The wall clock is set.
    fn set_clock(&self, seconds: i64) {
        self.set.store(seconds, Ordering::SeqCst);
    }

    fn bar(&self, bars: &[Bar]) {
        self.view.lock().unwrap().bars = bars.iter().copied().collect();
    }

    /// Works on everything that waits.
    async fn run(&self) -> Vec<String> {
        let queue = self.pods.inbox().queue().clone();
        let mut ended = Vec::new();
        while queue.counts().waiting > 0 {
            let key = queue.next().await.unwrap();
            ended.push(self.work(&key).await);
            queue.done(&key);
        }
        ended
    }

    /// The time of this one has come.
    async fn again(&self, key: PodKey) -> String {
        self.work(&key).await
    }

    async fn work(&self, key: &PodKey) -> String {
        match self.pods.work(key).await {
            Ok(WorkOutcome::Done) => format!("{key}: done"),
            Ok(WorkOutcome::Again(pause)) => format!("{key}: again in {pause:?}"),
            Err(error) => format!("{key}: {error}"),
        }
    }

    fn counted(&self, outcome: PodOutcome) -> u64 {
        self.pods.metrics.counted(outcome)
    }

    /// The number of this series.
    fn shown(&self, series: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{series} is not in\n{text}")).to_owned()
    }

    /// How many bytes of texts of physical pods are held.
    fn held(&self) -> usize {
        self.pods.inbox().book().held()
    }
}

/// A pod as its watch shows it.
fn whole(pod: &Value) -> Shown<KnownPod> {
    let whole: WholePod = serde_json::from_value(pod.clone()).unwrap();
    let read = shared::OurPods::default().read(whole).ok();
    Shown::new(pod["metadata"]["uid"].as_str().unwrap_or_default(), read)
}

/// The same whose text was taken before.
fn without_text(pod: &Value) -> Shown<KnownPod> {
    let shown = whole(pod);
    drop(shown.object.as_ref().unwrap().take_text());
    shown
}

fn list<I: Index<Shown<KnownPod>>>(index: &mut I, pods: &[Value]) {
    list_at(index, pods, "9");
}

/// A list as of this version.
fn list_at<I: Index<Shown<KnownPod>>>(index: &mut I, pods: &[Value], version: &str) {
    let mut list = index.begin(Earlier::Valid);
    for pod in pods {
        index.list(&mut list, whole(pod));
    }
    index.reset(list, &version.into());
}

fn physical() -> PodKey {
    PodKey::Physical(PodName::new("lent", "web-0-x"))
}

fn ending() -> PodKey {
    PodKey::Ending(PodName::new("shop", "web-0"))
}

fn ready(status: &str) -> Value {
    json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-08-03T12:00:00Z"})
}

fn running() -> Value {
    json!({"phase": "Running", "startTime": "2026-08-03T12:00:00Z", "conditions": [ready("True")]})
}
