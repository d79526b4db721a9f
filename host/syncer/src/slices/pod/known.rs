//! A pod as it is kept and shared by all that follow it: at most 120 bytes where only its room counts (decision S21).
//!
//! Owns what is kept of each pod that a watch shows. What many pods have in common is held once ([`Commons`]). What is copied of a
//! pod of lending is a text beside it, until the binding whose pod it is has taken it ([`Texts`]).
//!
//! What a pod asks for is the choice of those who write it, so no more of that is kept than is ever read: of a pod that uses no room
//! nothing, and of a virtual pod no ports.
//!
//! # Failure story
//!
//! A virtual pod may ask for thousands of resources that no node has. [`MANY`] of them are kept at most, and those that every node has
//! are among these. What is left out counts as used by its physical pod: the node looks smaller for it, never larger.
//!
//! A text that no binding takes finds no room at some time, and those that came first go first: then its pod is read live. A pod with
//! an amount that is no quantity is not kept: what was read of it before counts.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::{Existence, PodClass};
use topoloom_sync::identity::mapping::{PhysicalPodRef, VirtualPodRef};
use topoloom_sync::keys;
use topoloom_sync::node::LentPod;
use topoloom_sync::phase::Phase;
use topoloom_sync::ports::{HostPort, Placeholder};
use topoloom_sync::quantity::{Format, Quantity};
use topoloom_sync::reclaim::PodRef;
use topoloom_sync::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ResourceError, ResourceList, ResourceName};
use topoloom_sync::taints::Toleration;

use super::{PodSlice, grace};
use crate::slices::pool::Pool;

/// The labels that say whose a pod is.
const LABELS: [&str; 3] = [keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID];
/// So much is held in common before what no pod has any more is looked for.
const CLEANS_AT: usize = 1_024;
/// More resources than a pod asks for that is meant to run.
const MANY: usize = 64;
/// The resources that every node has.
const OF_EVERY_NODE: [&str; 4] = [CPU, MEMORY, EPHEMERAL_STORAGE, PODS];

/// A pod. There may be a hundred thousand of them: what many have in common is held once, and what few have stands apart.
#[derive(Debug)]
pub struct KnownPod {
    uid: Uid,
    node: Option<Arc<str>>,
    room: Arc<Room>,
    more: Option<Box<More>>,
}

/// What pods have in common that were made alike.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Room {
    phase: Phase,
    /// What it requests in total.
    requests: Box<[Requested]>,
}

/// An amount of a resource, in billionths, and how it is written: two amounts that are written otherwise are not the same here.
type Requested = (ResourceName, i128, Format);

/// What most pods of others do not have.
#[derive(Debug, Default)]
struct More {
    ports: Box<[HostPort]>,
    lending: Option<Box<Lending>>,
}

/// What matters of a pod of lending, in either cluster, beside its room.
#[derive(Debug)]
pub struct Lending {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: String,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its labels, those of identity.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The virtual pod that it names, where it names one whole.
    pub names: Option<Box<VirtualPodRef>>,
    /// The physical pod that it names, where it names one.
    pub names_physical: Option<Box<PhysicalPodRef>>,
    /// Its class.
    pub class: PodClass,
    /// Its `deletionTimestamp`.
    pub deletion: Option<Timestamp>,
    /// Its `deletionGracePeriodSeconds`.
    pub grace: Option<i64>,
    /// What it tolerates, as far as that decides about the taint that evicts: one at most.
    pub tolerations: Arc<[Toleration]>,
    /// As a placeholder for host ports, where it is one.
    pub placeholder: Option<Box<Placeholder>>,
    text: Slot,
}

impl Lending {
    /// Whether it is being deleted.
    #[must_use]
    pub fn existence(&self) -> Existence {
        if self.deletion.is_some() { Existence::Terminating } else { Existence::Alive }
    }

    /// How long it has to end from the request to delete it on, where it is being deleted.
    #[must_use]
    pub fn time_to_end(&self) -> Option<Duration> {
        grace(self.grace)
    }

    fn weight(&self) -> usize {
        let of_virtual = |named: &VirtualPodRef| named.namespace.len() + named.name.len() + named.uid.len();
        let of_physical = |named: &PhysicalPodRef| {
            named.namespace.len() + named.name.len() + named.uid.as_ref().map_or(0, |uid| uid.len())
        };
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        let placeholder = |placeholder: &Placeholder| {
            let labels: usize = placeholder.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
            placeholder.name.len() + placeholder.uid.len() + labels
        };
        let names = self.names.as_deref().map_or(0, of_virtual) + self.names_physical.as_deref().map_or(0, of_physical);
        let placeholder = self.placeholder.as_deref().map_or(0, placeholder);
        self.namespace.len() + self.name.len() + self.version.len() + labels + names + placeholder
    }
}

impl KnownPod {
    /// All that is kept of a physical pod, but for a text.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn of(slice: &PodSlice) -> Result<Self, ResourceError> {
        Self::of_lending(slice, &mut Commons::default())
    }

    /// The same of one of many.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn of_lending(slice: &PodSlice, commons: &mut Commons) -> Result<Self, ResourceError> {
        let mut pod = Self::of_others(slice, commons)?;
        pod.more.get_or_insert_default().lending = Some(Box::new(lending(slice, commons)));
        Ok(pod)
    }

    /// Of a physical pod of which only its room counts.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn of_others(slice: &PodSlice, commons: &mut Commons) -> Result<Self, ResourceError> {
        let ports = if uses_room(slice) { slice.host_ports().into_boxed_slice() } else { Box::default() };
        let more = (!ports.is_empty()).then(|| Box::new(More { ports, lending: None }));
        Ok(Self { more, ..Self::without_ports(slice, commons, usize::MAX)? })
    }

    /// Of a pod of the virtual cluster.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn of_virtual(slice: &PodSlice, commons: &mut Commons) -> Result<Self, ResourceError> {
        let more = More { ports: Box::default(), lending: Some(Box::new(lending(slice, commons))) };
        Ok(Self { more: Some(Box::new(more)), ..Self::without_ports(slice, commons, MANY)? })
    }

    /// With the requests of so many resources at most.
    fn without_ports(slice: &PodSlice, commons: &mut Commons, most: usize) -> Result<Self, ResourceError> {
        let requests = if uses_room(slice) { requested(slice.requests()?, most, commons) } else { Box::default() };
        Ok(Self {
            uid: slice.metadata().uid.as_deref().unwrap_or_default().into(),
            node: slice.node().map(|node| commons.names.share(node)),
            room: commons.room(Room { phase: Phase::read(slice.phase()), requests }),
            more: None,
        })
    }

    /// The same with a text, which counts in its room from now on.
    #[must_use]
    pub fn with_text(mut self, text: Option<Arc<str>>, texts: &Texts) -> Self {
        let lending = self.more.as_mut().and_then(|more| more.lending.as_mut());
        if let (Some(lending), Some(text)) = (lending, text) {
            lending.text = texts.slot(text);
        }
        self
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The node that it is bound to.
    #[must_use]
    pub fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }

    /// Its phase; a word that is none is [`Phase::Unknown`].
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.room.phase
    }

    /// What it requests in total, as the scheduler of its cluster counts it: what is more than zero, while it uses room.
    #[must_use]
    pub fn requests(&self) -> ResourceList {
        let requests = self.room.requests.iter();
        requests.map(|(name, nanos, format)| (name.clone(), Quantity::from_nanos(*nanos, *format))).collect()
    }

    /// The ports of the machine that it holds, as a physical pod.
    #[must_use]
    pub fn ports(&self) -> &[HostPort] {
        match &self.more {
            Some(more) => &more.ports,
            None => &[],
        }
    }

    /// What matters of it as a pod of lending.
    #[must_use]
    pub fn lending(&self) -> Option<&Lending> {
        self.more.as_ref()?.lending.as_deref()
    }

    /// The bytes that are kept of it and differ from pod to pod: how many they are is the choice of those who write it. Texts have a
    /// room of their own.
    #[must_use]
    pub fn weight(&self) -> usize {
        let request = |(name, ..): &Requested| size_of::<Requested>() + name.len();
        let requests: usize = self.room.requests.iter().map(request).sum();
        let lending = self.lending().map_or(0, Lending::weight);
        self.uid.len()
            + self.node.as_ref().map_or(0, |node| node.len())
            + requests
            + size_of_val(self.ports())
            + lending
    }

    /// As a pod of a virtual node.
    #[must_use]
    pub fn lent(&self) -> Option<LentPod> {
        let lending = self.lending()?;
        Some(LentPod {
            pod: PodRef { namespace: lending.namespace.to_string(), name: lending.name.clone(), uid: self.uid.clone() },
            version: lending.version.clone(),
            class: lending.class,
            phase: self.phase(),
            existence: lending.existence(),
            tolerations: lending.tolerations.to_vec(),
            refused: None,
            grace: lending.time_to_end(),
        })
    }

    /// Its text, where that is held. It stays.
    #[must_use]
    pub fn text(&self) -> Option<Arc<str>> {
        self.lending()?.text.held().as_ref().map(|held| Arc::clone(&held.text))
    }

    /// Its text, where that is held. It is held no more.
    #[must_use]
    pub fn take_text(&self) -> Option<Arc<str>> {
        self.lending()?.text.held().take().map(|held| Arc::clone(&held.text))
    }

    fn has_text(&self) -> bool {
        self.lending().is_some_and(|lending| lending.text.held().is_some())
    }
}

/// Whether anything that it asks for counts: it is bound to a node, and has not ended.
fn uses_room(slice: &PodSlice) -> bool {
    slice.node().is_some() && !Phase::read(slice.phase()).is_final()
}

/// What is more than zero of these requests, of so many resources at most: first of those that every node has.
fn requested(requests: ResourceList, most: usize, commons: &mut Commons) -> Box<[Requested]> {
    let mut requests: Vec<(ResourceName, Quantity)> =
        requests.into_iter().filter(|(_, amount)| amount.nanos() > 0).collect();
    if requests.len() > most {
        requests.sort_by_key(|(name, _)| !OF_EVERY_NODE.contains(&&**name));
        requests.truncate(most);
    }
    requests.iter().map(|(name, amount)| (commons.resource(name), amount.nanos(), amount.format())).collect()
}

fn lending(slice: &PodSlice, commons: &mut Commons) -> Lending {
    let metadata = slice.metadata();
    let labels = metadata.labels.iter().flatten().filter(|(key, _)| LABELS.contains(&key.as_str()));
    let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let class = slice.class();
    Lending {
        namespace: commons.names.share(metadata.namespace.as_deref().unwrap_or_default()),
        name: metadata.name.clone().unwrap_or_default(),
        version: metadata.resource_version.as_deref().into(),
        labels: commons.labels.share(labels),
        names: slice.names().map(Box::new),
        names_physical: slice.names_physical().map(Box::new),
        class,
        deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        grace: metadata.deletion_grace_period_seconds,
        tolerations: commons.tolerations.share(&*slice.spec.tolerations),
        placeholder: slice.placeholder().map(|(_, placeholder)| Box::new(placeholder)),
        text: Slot::default(),
    }
}

/// What many pods have in common, each held once.
#[derive(Debug, Default)]
pub struct Commons {
    /// Of nodes, namespaces and resources.
    names: Pool<str>,
    rooms: Pool<Room>,
    labels: Pool<BTreeMap<String, String>>,
    tolerations: Pool<[Toleration]>,
}

impl Commons {
    fn resource(&mut self, name: &ResourceName) -> ResourceName {
        self.names.share(&**name).into()
    }

    /// One that is large is not held in common: it would stay for some time after its pod, and count for nothing.
    fn room(&mut self, room: Room) -> Arc<Room> {
        if room.requests.len() > MANY { Arc::new(room) } else { self.rooms.share(room) }
    }
}

/// Where the text of one pod is held.
#[derive(Default)]
struct Slot(Mutex<Option<HeldText>>);

/// A text, which counts in its room while it is held.
struct HeldText {
    text: Arc<str>,
    used: Arc<AtomicUsize>,
}

impl Slot {
    fn held(&self) -> std::sync::MutexGuard<'_, Option<HeldText>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.held().as_ref().map(|held| held.text.len())).finish()
    }
}

impl Drop for HeldText {
    fn drop(&mut self) {
        self.used.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// The room for the texts of pods.
#[derive(Debug)]
pub struct Texts {
    room: usize,
    used: Arc<AtomicUsize>,
    /// The pods whose texts are held, and others, in the order in which they came.
    order: VecDeque<Weak<KnownPod>>,
    cleans_at: usize,
}

impl Texts {
    /// For so many bytes.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room, used: Arc::default(), order: VecDeque::new(), cleans_at: CLEANS_AT }
    }

    /// A pod came with its text: where there is no room, the texts that came first go.
    pub fn admit(&mut self, pod: &Arc<KnownPod>) {
        self.order.push_back(Arc::downgrade(pod));
        while self.used.load(Ordering::Relaxed) > self.room
            && let Some(first) = self.order.pop_front()
        {
            drop(first.upgrade().and_then(|pod| pod.take_text()));
        }
        if self.order.len() >= self.cleans_at {
            self.order.retain(|pod| pod.upgrade().is_some_and(|pod| pod.has_text()));
            self.cleans_at = CLEANS_AT.max(2 * self.order.len());
        }
    }

    fn slot(&self, text: Arc<str>) -> Slot {
        self.used.fetch_add(text.len(), Ordering::Relaxed);
        Slot(Mutex::new(Some(HeldText { text, used: Arc::clone(&self.used) })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(uid: &str, edit: impl FnOnce(&mut Value)) -> PodSlice {
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": uid, "uid": uid, "resourceVersion": "3",
                "labels": {"topoloom.dev/virtual-cluster": "vc", "app": "web"},
            },
            "spec": {
                "nodeName": "w1",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "0"}},
                    "ports": [{"containerPort": 80, "hostPort": 8080}]}],
                "tolerations": [{"key": keys::OUT_OF_WINDOWS_TAINT, "operator": "Exists", "tolerationSeconds": 300}],
            },
            "status": {"phase": "Running"},
        });
        edit(&mut pod);
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn it_is_what_the_slice_is_and_what_is_zero_counts_nothing() {
        let slice = slice("p", |pod| pod["metadata"]["deletionTimestamp"] = "2026-08-03T12:00:00Z".into());
        let pod = KnownPod::of(&slice).unwrap();
        assert_eq!((&**pod.uid(), pod.node().map(|node| &**node), pod.phase()), ("p", Some("w1"), Phase::Running));
        assert_eq!(pod.requests(), read_list([("cpu", "2"), ("pods", "1")]));
        assert_eq!(pod.ports(), slice.host_ports());
        assert_eq!(pod.lent(), Some(slice.lent()));
        let lending = pod.lending().unwrap();
        assert_eq!(lending.tolerations.len(), 1);
        assert_eq!((lending.existence(), lending.labels.len()), (Existence::Terminating, 1));
        assert_eq!(pod.text(), None);
    }

    fn read_list<const N: usize>(amounts: [(&str, &str); N]) -> ResourceList {
        topoloom_sync::resources::read_list(amounts).unwrap()
    }

    #[test]
    fn s21_of_a_pod_of_which_only_its_room_counts_nothing_else_is_kept_and_what_pods_have_in_common_is_held_once() {
        let mut commons = Commons::default();
        let [one, two] = ["p", "q"].map(|uid| KnownPod::of_others(&slice(uid, |_| ()), &mut commons).unwrap());
        assert!(one.lending().is_none() && one.lent().is_none());
        assert!(Arc::ptr_eq(one.node().unwrap(), two.node().unwrap()));
        let [one, two] = ["p", "q"].map(|uid| KnownPod::of_lending(&slice(uid, |_| ()), &mut commons).unwrap());
        let (one, two) = (one.lending().unwrap(), two.lending().unwrap());
        assert!(Arc::ptr_eq(&one.labels, &two.labels) && Arc::ptr_eq(&one.tolerations, &two.tolerations));
    }

    /// A pod of others as most are: with a UID as Kubernetes makes it, three requests and no port of the machine.
    fn typical(number: u32, edit: impl FnOnce(&mut Value)) -> PodSlice {
        slice(&format!("3f2a9c1e-0b7d-4c55-9e1a-{number:012}"), |pod| {
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
            let requests = json!({"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"});
            pod["spec"]["containers"][0]["resources"]["requests"] = requests;
            edit(pod);
        })
    }

    /// What a shared value of this size takes of the heap: two counts stand before it.
    fn in_arc(bytes: usize) -> usize {
        (2 * size_of::<usize>() + bytes).next_multiple_of(align_of::<usize>())
    }

    #[test]
    fn s21_of_each_pod_of_others_at_most_120_bytes_are_kept() {
        let mut commons = Commons::default();
        let mut known = |slice: &PodSlice| Arc::new(KnownPod::of_others(slice, &mut commons).unwrap());
        let [one, two] = [1, 2].map(|number| known(&typical(number, |_| ())));
        // Each field has to be named here: another one would be counted, too.
        let KnownPod { uid, node, room, more } = &*one;
        let own = in_arc(size_of_val(&*one)) + in_arc(uid.len());
        assert!(uid.len() == 36 && own <= 120, "{own}");
        // All the rest is held once for all pods that are alike, or is not there.
        assert!(Arc::ptr_eq(node.as_ref().unwrap(), two.node().unwrap()));
        assert!(Arc::ptr_eq(room, &two.room) && more.is_none());
        assert_eq!(
            one.requests(),
            read_list([("cpu", "2"), ("memory", "4Gi"), ("nvidia.com/gpu", "1"), ("pods", "1")])
        );
    }

    #[test]
    fn s21_pods_that_are_not_alike_share_no_room_and_an_amount_stays_as_it_is_written() {
        let mut commons = Commons::default();
        let mut known = |slice: &PodSlice| KnownPod::of_others(slice, &mut commons).unwrap();
        let first = known(&typical(1, |_| ()));
        let pending = known(&typical(2, |pod| pod["status"]["phase"] = "Pending".into()));
        let memory =
            |pod: &mut Value| pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4294967296".into();
        let bytes = known(&typical(3, memory));
        assert_eq!((first.phase(), pending.phase()), (Phase::Running, Phase::Pending));
        assert_eq!(first.requests(), bytes.requests());
        assert_eq!([first, bytes].map(|pod| pod.requests()["memory"].to_string()), ["4Gi", "4294967296"]);
        let with_port = known(&slice("p", |_| ()));
        assert_eq!((with_port.ports().len(), with_port.lending().is_none()), (1, true));
    }

    #[test]
    fn s21_of_a_pod_that_asks_for_thousands_of_resources_nothing_is_held_after_it() {
        let mut commons = Commons::default();
        let many = |pod: &mut Value| {
            let requests = (0..1_000).map(|number| (format!("example.com/r{number}"), Value::from("1")));
            pod["spec"]["containers"][0]["resources"]["requests"] = Value::Object(requests.collect());
        };
        let pod = KnownPod::of_others(&slice("p", many), &mut commons).unwrap();
        assert_eq!((pod.requests().len(), Arc::strong_count(&pod.room)), (1_000 + 1, 1));
        let usual = KnownPod::of_others(&slice("q", |_| ()), &mut commons).unwrap();
        assert_eq!(Arc::strong_count(&usual.room), 2, "the next one that is like it finds it");
    }

    #[test]
    fn a_pod_with_an_amount_that_is_none_is_an_error() {
        let broken = slice("p", |pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many".into());
        assert!(KnownPod::of(&broken).is_err());
    }

    fn with_text(texts: &mut Texts, uid: &str, bytes: usize) -> Arc<KnownPod> {
        let text: Arc<str> = "x".repeat(bytes).into();
        let pod = Arc::new(KnownPod::of(&slice(uid, |_| ())).unwrap().with_text(Some(text), texts));
        texts.admit(&pod);
        pod
    }

    #[test]
    fn s21_a_text_is_held_until_it_is_taken_and_what_came_first_goes_first() {
        let mut texts = Texts::new(1_000);
        let used = |texts: &Texts| texts.used.load(Ordering::Relaxed);
        let pods: Vec<_> = (0..10).map(|number| with_text(&mut texts, &number.to_string(), 100)).collect();
        assert_eq!((used(&texts), pods[3].text().map(|text| text.len())), (1_000, Some(100)));
        assert_eq!(pods[3].take_text().map(|text| text.len()), Some(100));
        assert_eq!((used(&texts), pods[3].take_text()), (900, None));
        // There is room for one more, and for another one in the place of the first.
        let more = [with_text(&mut texts, "a", 100), with_text(&mut texts, "b", 100)];
        assert_eq!((used(&texts), pods[0].text()), (1_000, None));
        assert!(pods[1].text().is_some() && more.iter().all(|pod| pod.text().is_some()));
        // One that is larger than all the room is not held, and neither is what is gone.
        assert_eq!(with_text(&mut texts, "c", 2_000).text(), None);
        drop((pods, more));
        assert_eq!(used(&texts), 0);
    }

    #[test]
    fn pods_whose_texts_were_taken_are_not_remembered_for_ever() {
        let mut texts = Texts::new(1_000);
        let first = with_text(&mut texts, "first", 10);
        for number in 0..10 * CLEANS_AT {
            drop(with_text(&mut texts, &number.to_string(), 10).take_text());
        }
        assert!(texts.order.len() <= CLEANS_AT, "{}", texts.order.len());
        assert!(first.text().is_some());
    }
}
