//! One situation between two API servers in memory: it is planned, and then it happens, by the real controller of nodes.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy};
use topoloom_cluster::events::Events;
use topoloom_cluster::work::{Work as _, WorkOutcome};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::{Bar, Doing};
use topoloom_sync::deletion::Evictions;
use topoloom_sync::guard::{Cause, GATHER, Spent};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::liveness::Reach;
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::{NodeOrder, Now, RemovalMeans};
use topoloom_sync::policy::object::Policy;
use topoloom_sync::policy::shadow::Shadowing;
use topoloom_sync::policy::status::decide_status;

use super::super::lists::{LentLists, PhysicalLists};
use super::super::plan::Plan;
use super::super::{Sources, Survey, is_of_binding, policies};
use super::servers::{Cluster, Log, without_version};
use super::situation::{Situation, TermsKind};
use crate::bindings::once::Hindered;
use crate::convert::binding::{Surroundings, Terms, read};
use crate::convert::policy::{object, read_status, write_status};
use crate::ledger::PhysicalName;
use crate::nodes::{Leases, NodeClients, NodeRequests, Nodes};
use crate::slices::node::NodeSlice;
use crate::slices::pod::PodSlice;
use crate::view::{VerbOnBinding, View};

/// When the edit comes. No window opens or closes between what was before and this.
const EDIT: &str = "2026-08-03T13:31:00Z";
/// So long before it the situation begins, and its pods come: what the guard allowed then counts no more.
const BEGINS: Duration = Duration::from_secs(3_600);
const PODS_COME: Duration = Duration::from_secs(2_700);

thread_local! {
    static CLOCK: Cell<Now> = const { Cell::new(Now { wall: Timestamp::UNIX_EPOCH, steady: Duration::ZERO }) };
}

fn clock() -> Now {
    CLOCK.get()
}

struct NoLeases;

impl Leases for NoLeases {
    fn start(&self, _: &NodeName, _: &Uid) {}

    async fn stop(&self, _: &NodeName) {}

    fn foreign(&self, _: &NodeName) -> Option<String> {
        None
    }
}

/// What a binding and its policies say now.
struct Said {
    terms: Terms,
    hindered: Hindered,
    policies: Vec<ResourceLeasingPolicy>,
}

pub(super) struct Play {
    pub(super) lent: Cluster,
    physical: Cluster,
    log: Arc<Mutex<Log>>,
    view: Arc<Mutex<View>>,
    nodes: Nodes<NoLeases>,
    said: Said,
    /// The physical pods that the view knows.
    known: HashSet<Uid>,
    /// What the status of the binding keeps for a plan.
    pub(super) status: ClusterBindingStatus,
    /// The time of the last instant.
    now: Now,
    is_first: bool,
}

fn slices<K: serde::de::DeserializeOwned>(objects: &BTreeMap<String, Value>) -> Vec<K> {
    objects.values().map(|object| serde_json::from_value(object.clone()).unwrap()).collect()
}

fn edit_time() -> Now {
    Now { wall: EDIT.parse().unwrap(), steady: Duration::from_secs(100_000) }
}

fn earlier(by: Duration) -> Now {
    let now = edit_time();
    Now { wall: now.wall.checked_sub(by).unwrap(), steady: now.steady - by }
}

impl Said {
    fn new(kind: &TermsKind) -> Self {
        let evictions = if kind.has_no_evictions { Evictions::Off } else { Evictions::Allowed };
        let around = Surroundings { virtual_cluster: "vc".into(), evictions, endpoint: None };
        let object: ClusterBinding = serde_json::from_value(kind.binding()).unwrap();
        let reading = read(&object, &around).unwrap();
        assert_eq!(reading.problems, None);
        let bars = [(Bar::Paused, kind.is_paused), (Bar::Observing, kind.observes)];
        let hindered = Hindered {
            bars: bars.into_iter().filter_map(|(bar, is_there)| is_there.then_some(bar)).collect(),
            reach: Reach::Reachable,
            verb: match kind.drains {
                0 => VerbOnBinding::None,
                1 => VerbOnBinding::Drain,
                _ => VerbOnBinding::DrainNodes(["w0".to_owned()].into()),
            },
            confirmed: None,
            why: Vec::new(),
            remarks: Vec::new(),
        };
        let stored = kind.stored_policies().into_iter();
        let policies = stored.map(|policy| serde_json::from_value(policy).unwrap()).collect();
        Self { terms: reading.terms, hindered, policies }
    }

    fn judged(&self) -> Vec<Policy> {
        policies(&self.policies, self.terms.binding.identity.binding())
    }
}

impl Play {
    /// The machines, and nothing of lending.
    pub(super) fn nothing_yet(situation: &Situation) -> Self {
        let (lent, physical, log) = Cluster::pair();
        for (index, machine) in situation.machines.iter().enumerate() {
            physical.node(machine.node(index));
            machine.own_pod(index).into_iter().for_each(|pod| physical.pod(pod));
            if machine.is_name_taken {
                lent.node(json!({"metadata": {"name": format!("vnode-east-w{index}"), "labels": {"mine": "yes"}}}));
            }
        }
        let said = Said::new(&situation.before);
        let (view, nodes) = serve(&said, &lent, &physical, edit_time());
        let (known, status) = (HashSet::new(), ClusterBindingStatus::default());
        Self { lent, physical, log, view, nodes, said, known, status, now: edit_time(), is_first: true }
    }

    /// The situation as it was served, at rest, a moment before the edit.
    pub(super) async fn before(situation: &Situation) -> Self {
        let mut play = Self::nothing_yet(situation);
        (play.view, play.nodes) = serve(&play.said, &play.lent, &play.physical, earlier(BEGINS));
        play.pass(earlier(BEGINS)).await;
        let mut labels = identity().labels();
        labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
        let labels = json!(labels);
        for (machine, kind) in situation.machines.iter().enumerate() {
            let is_lent =
                !kind.is_name_taken && play.lent.state().nodes.contains_key(&format!("vnode-east-w{machine}"));
            for (index, pod) in kind.pods.iter().enumerate().filter(|_| is_lent) {
                let (twin, pod) = pod.pair(machine, index, &labels);
                play.lent.pod(twin);
                play.physical.pod(pod);
            }
        }
        play.pass(earlier(PODS_COME)).await;
        // What runs out with time has run out: growth, tolerations, graces.
        play.pass(earlier(Duration::from_secs(1_200))).await;
        play.pass(earlier(Duration::from_secs(60))).await;
        play.log.lock().unwrap().clear();
        if situation.is_restarted {
            (play.view, play.nodes) = serve(&play.said, &play.lent, &play.physical, edit_time());
            play.known.clear();
        }
        play
    }

    /// The binding and its policies say this from now on. Nothing has looked at that yet.
    pub(super) fn edit(&mut self, after: &TermsKind) {
        self.said = Said::new(after);
        let mut view = self.view.lock().unwrap();
        view.set_terms(self.said.terms.binding.clone(), self.said.terms.safety);
        view.set_bars(self.said.hindered.bars.clone(), Reach::Reachable);
        view.set_verb(self.said.hindered.verb.clone());
        view.policies_listed(self.said.judged());
        // A plan is about what follows when it is sure that policies are gone.
        let doubts = view.policies.doubts();
        view.policies_believed(doubts);
    }

    /// What is planned, of what the servers hold and the binding says now; and its writes, by time.
    pub(super) async fn plan(&mut self) -> (Plan, BTreeMap<Timestamp, Log>) {
        let lent = {
            let state = self.lent.state();
            LentLists { nodes: slices(&state.nodes), pods: slices(&state.pods), csi_nodes: Some(Vec::new()) }
        };
        let physical = {
            let state = self.physical.state();
            PhysicalLists { nodes: slices(&state.nodes), pods: slices(&state.pods), csi_nodes: Some(Vec::new()) }
        };
        let sources = Sources {
            terms: &self.said.terms,
            status: &self.status,
            hindered: &self.said.hindered,
            bindings: ["b1".into()].into(),
            lent: &lent,
            physical: Some(&physical),
            policies: Some(self.said.judged()),
        };
        let mut writes: BTreeMap<Timestamp, Log> = BTreeMap::new();
        let plan = Survey::new(sources, edit_time()).rehearse(edit_time(), &mut |stage, name, order| {
            let requests = requests(name, order);
            if !requests.is_empty() {
                writes.entry(stage.at).or_default().entry(name.to_string()).or_default().extend(requests);
            }
        });
        (plan, writes)
    }

    /// What is written at this time, until everything is at rest.
    pub(super) async fn happens_at(&mut self, at: Timestamp) -> Log {
        let passed = Duration::try_from(at.duration_since(self.now.wall)).unwrap();
        self.pass(Now { wall: at, steady: self.now.steady + passed }).await;
        if std::mem::take(&mut self.is_first) {
            self.announce(at);
        }
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// How many acts are held, by cause. A process that runs on keeps a hash that a plan, which begins anew, does not know.
    pub(super) fn held(&self) -> Option<BTreeMap<Cause, usize>> {
        self.view().guard().held().map(|held| held.causes.clone())
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap()
    }

    /// Everything that follows at one time: the guard gathers, and pods that are removed end.
    async fn pass(&mut self, now: Now) {
        self.now = now;
        for gathers in 0..2_u32 {
            self.set_clock(Now { steady: now.steady + gathers * GATHER, ..now });
            self.settle().await;
        }
        self.end_pods();
        self.set_clock(Now { steady: now.steady + 2 * GATHER, ..now });
        self.settle().await;
        self.view().review(clock());
        self.settle().await;
    }

    /// Everything that follows at one time has the same wall clock here, as it has in a plan: it was not set.
    fn set_clock(&self, now: Now) {
        CLOCK.set(now);
        self.view().played(now);
    }

    /// Works on all nodes until nothing is written any more.
    async fn settle(&mut self) {
        for _ in 0..30 {
            self.feed();
            let (names, mut is_at_rest) = (self.view().all(), true);
            for name in names {
                let outcome = self.nodes.work(&name).await.unwrap();
                is_at_rest &= outcome != WorkOutcome::Again(Duration::ZERO);
            }
            if is_at_rest {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.log.lock().unwrap());
    }

    /// The watches show what the servers hold.
    fn feed(&mut self) {
        let (lent, bound): (Vec<NodeSlice>, Vec<PodSlice>) = {
            let state = self.lent.state();
            (slices(&state.nodes), slices(&state.pods))
        };
        let (machines, pods): (Vec<NodeSlice>, Vec<PodSlice>) = {
            let state = self.physical.state();
            (slices(&state.nodes), slices(&state.pods))
        };
        let mut view = self.view.lock().unwrap();
        let ours = lent.into_iter().filter(|node| is_of_binding(node, &identity()));
        let ours = ours.map(|node| (node.name().into(), node.lent().unwrap())).collect();
        view.lent_nodes(ours);
        let machines: HashMap<PhysicalName, _> =
            machines.into_iter().map(|node| (node.name().into(), node.physical().unwrap())).collect();
        view.physical_nodes(machines);
        let there: HashSet<Uid> = bound.iter().map(|pod| pod.pod().uid).collect();
        for pod in bound {
            view.ledger.virtual_pod(pod).unwrap();
        }
        for uid in view.ledger.virtual_uids() {
            if !there.contains(&uid) {
                view.ledger.virtual_pod_gone(&uid);
            }
        }
        let there: HashSet<Uid> = pods.iter().map(|pod| pod.pod().uid).collect();
        for pod in &pods {
            view.ledger.physical_pod(pod).unwrap();
        }
        for gone in self.known.difference(&there) {
            view.ledger.physical_pod_gone(gone);
        }
        self.known = there;
    }

    /// The pods that terminate end: the physical one, and then the virtual one.
    fn end_pods(&mut self) {
        let mut lent = self.lent.state();
        let ends = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let ended: Vec<String> = lent.pods.iter().filter(|(_, pod)| ends(pod)).map(|(key, _)| key.clone()).collect();
        let mut physical = self.physical.state();
        for key in ended {
            lent.pods.remove(&key);
            let (_, name) = key.split_once('/').unwrap();
            physical.pods.remove(&format!("lent/t-{name}"));
        }
    }

    /// The controller of policies writes their status.
    fn announce(&mut self, at: Timestamp) {
        let mut view = self.view.lock().unwrap();
        if !view.bars.allow(Doing::Announce) {
            return;
        }
        for stored in &mut self.said.policies {
            let policy = Policy::new(object(stored, "east"));
            if let Some(status) = decide_status(&read_status(&stored.status), &policy, &Shadowing::Unknown, at) {
                stored.status = write_status(&status, &stored.status);
            }
        }
        view.policies_listed(policies(&self.said.policies, identity().binding()));
    }
}

fn identity() -> Identity {
    Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap()
}

/// A process that serves what is said, and knows nothing yet.
fn serve(said: &Said, lent: &Cluster, physical: &Cluster, now: Now) -> (Arc<Mutex<View>>, Nodes<NoLeases>) {
    let binding = said.terms.binding.clone();
    let mut view = View::new(binding, said.terms.safety, Spent::default(), Reach::Reachable, now);
    view.set_bars(said.hindered.bars.clone(), Reach::Reachable);
    view.agreed(Duration::MAX);
    view.policies_listed(said.judged());
    view.physical_csi_nodes(HashMap::new());
    view.lent_csi_nodes(HashMap::new());
    let view = Arc::new(Mutex::new(view));
    let clients = NodeClients { physical: physical.client(), claims: physical.client(), lent: lent.client() };
    let events = Events::new(lent.client());
    let nodes = Nodes::new(Arc::clone(&view), NodeRequests::new(clients), NoLeases, events, clock);
    (view, nodes)
}

/// An order as the servers see it.
fn requests(machine: &str, order: &NodeOrder) -> Vec<(String, Value)> {
    match order {
        NodeOrder::Ask(_) | NodeOrder::StopLease(_) => Vec::new(),
        NodeOrder::PatchPhysical { body, .. } | NodeOrder::ReleasePhysical { body } => {
            vec![(format!("patch {machine}"), without_version(body))]
        }
        NodeOrder::Create { body, .. } => vec![("create".to_owned(), without_version(body))],
        NodeOrder::PatchStatus { name, body, .. } => vec![(format!("patch {name}/status"), without_version(body))],
        NodeOrder::PatchSpec { name, body, .. } | NodeOrder::RemoveFinalizer { name, body } => {
            vec![(format!("patch {name}"), without_version(body))]
        }
        NodeOrder::Delete { name, .. } => vec![(format!("delete {name}"), Value::Null)],
        NodeOrder::RemovePods(pods) => {
            let how = |means| match means {
                RemovalMeans::Eviction => "EVICT",
                RemovalMeans::Delete => "DELETE",
                RemovalMeans::Shorten => "SHORTEN",
            };
            pods.iter().map(|removal| (format!("{} {}", how(removal.means), removal.pod), Value::Null)).collect()
        }
    }
}
