//! A conductor between two API servers in memory, woken step by step.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use kube::Api;
use prometheus_client::registry::Registry as Counters;
use serde_json::{Value, json};
use topoloom_api::names::PAUSE_ANNOTATION;
use topoloom_cluster::client::ConnectError;
use topoloom_cluster::events::Events;
use topoloom_cluster::gate::{ReadOnly, Switch};
use topoloom_cluster::{Restores, work};
use topoloom_core::queue::Limiter;
use topoloom_sync::deletion::Evictions;
use topoloom_sync::guard::{ActKind, GrantedActs, Guard, HeldBefore, Inherited, Spent};
use topoloom_sync::liveness::{ContactTiming, Reach};

use super::super::life::link_terms;
use super::super::staged::{Server, clients};
use super::super::{Added, Shown};
use super::*;
use crate::convert::binding::tests::{around, binding};
use crate::kubeconfig::tests::access;
use crate::kubeconfig::{Access, Loopback};
use crate::nodes::Pace;
use crate::physical::{Clock, Connection, Opens, Problem, Registry, Signs, Writers};
use crate::shared::LentWatches;
use crate::view::examples::now;
use crate::{heartbeats, metrics, pods};

const BINDING: &str = "/apis/topoloom.dev/v1alpha1/clusterbindings/east";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/topoloom/leases/east";

/// Connections to the physical server.
struct Opened(Server);

impl Opens for Opened {
    fn open(&self, access: &Access) -> Result<Connection, ConnectError> {
        let (reads, writes) = (self.0.client(), self.0.client());
        let writers = move |_: &Gate| Ok(Writers { nodes: writes.clone(), others: writes.clone() });
        Ok(Connection::of(access, reads, writers))
    }
}

struct Stage {
    lent: Server,
    physical: Server,
    link: watch::Sender<CredentialState>,
    /// The watch of the binding.
    objects: watch::Sender<Seen>,
    seen: watch::Receiver<Seen>,
    conductor: Conductor,
}

impl Stage {
    /// A binding with this status, in version 50.
    fn new(status: Value) -> Self {
        let (lent, physical) = (Server::default(), Server::default());
        lent.goes_on_after(48);
        lent.put(LEASE, json!({"metadata": {"name": "east"}, "spec": {"holderIdentity": "replica"}}));
        let mut object = serde_json::to_value(binding(json!({}))).unwrap();
        object["status"] = status;
        lent.put(BINDING, object);
        let object: Arc<ClusterBinding> = Arc::new(serde_json::from_value(lent.get(BINDING).unwrap()).unwrap());

        let process = process(&lent, &physical);
        let holding = Holding {
            name: "east".to_owned(),
            gate: Gate::open(&Switch::new(ReadOnly::No)),
            lent: lent.client(),
            beats: lent.client(),
            lease: LeaseName { namespace: "topoloom".to_owned(), name: "east".to_owned() },
            tell: Arc::new(|_: Option<&str>| {}),
        };
        let (reading, carried) = (read(&object, &around()).unwrap(), Carried::stored(&object.status));
        let link = watch::Sender::new(CredentialState::default());
        let parts = parts(&process, &reading.terms, &carried.kept, link.subscribe(), clients(&lent, &physical));
        let objects = watch::Sender::new(Seen::Present(Arc::clone(&object)));
        let beginning =
            Beginning { object, existing: Existing::Stored, reading, carried, taken_from: None, earlier: None };
        let conductor = Conductor::new(&process, &holding, parts, beginning);
        Self { lent, physical, link, seen: objects.subscribe(), objects, conductor }
    }

    /// The binding as it is stored.
    fn stored(&self) -> Value {
        self.lent.get(BINDING).unwrap()
    }

    fn restored(&self) -> Value {
        self.stored()["status"]["restored"].clone()
    }

    /// A condition of the binding.
    fn condition(&self, kind: &str) -> Value {
        let stored = self.stored();
        let mut conditions = stored["status"]["conditions"].as_array().unwrap().iter();
        conditions.find(|condition| condition["type"] == kind).unwrap().clone()
    }

    /// The Secret leads to the physical server, which was the cluster `c1`.
    fn connect(&self, problem: Option<Problem>) {
        let registry = &self.conductor.process.registry;
        let connection = registry.open(&access("https://east.example:6443", "t")).unwrap();
        let in_use = registry.share(&"c1".into(), connection, ContactTiming::default());
        self.link.send_replace(CredentialState { in_use: Some(in_use), end: None, problem });
    }

    /// An operator writes an annotation.
    fn annotate(&self, key: &str, value: &Value) {
        let mut object = self.stored();
        object["metadata"]["annotations"][key] = value.clone();
        self.lent.put(BINDING, object);
    }

    /// The watch shows the binding as it is stored.
    fn show(&self) {
        let object = serde_json::from_value(self.stored()).unwrap();
        self.objects.send_replace(Seen::Present(Arc::new(object)));
    }

    async fn woken(&mut self, woke: Woke) {
        assert_eq!(Box::pin(self.conductor.woke(woke, &mut self.seen)).await, None);
    }

    /// Everything that follows is done, and the watch shows it.
    async fn settles(&mut self) {
        // How far two statuses are apart is not what is asked here.
        self.conductor.written = None;
        assert_eq!(Box::pin(self.conductor.settle()).await, None);
        self.show();
    }

    async fn wakes(&mut self, woke: Woke) {
        self.woken(woke).await;
        self.settles().await;
    }

    /// So many seconds go by, in each of which the watch shows what is stored.
    async fn lasts(&mut self, seconds: usize) {
        for _ in 0..seconds {
            assert_eq!(Box::pin(self.conductor.settle()).await, None);
            self.show();
            self.woken(Woke::Object).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }

    /// An operator confirms this.
    async fn confirms(&mut self, hash: &Value) {
        self.annotate(CONFIRM_ANNOTATION, hash);
        self.show();
        self.wakes(Woke::Object).await;
    }
}

fn process(lent: &Server, physical: &Server) -> Arc<Process> {
    let (clock, restores, mut counters) = (Clock::new(|| now().steady), Restores::default(), Counters::default());
    Arc::new(Process {
        lent: lent.client(),
        watches: LentWatches::new(&lent.client(), &restores, &"vc".into()),
        restores,
        lent_signs: Signs::new(ContactTiming::default(), &clock),
        registry: Arc::new(Registry::new(Opened(physical.clone()), clock)),
        secrets: Api::namespaced(lent.client(), "topoloom"),
        virtual_cluster: "vc".into(),
        kube_system: "vc".into(),
        evictions: Evictions::Allowed,
        endpoint: None,
        loopback: Loopback::Refused,
        holder: "replica".to_owned(),
        events: Events::new(Server::default().client()),
        beats: heartbeats::metrics::Metrics::register(&mut counters),
        pods: pods::metrics::Metrics::register(&mut counters),
        metrics: metrics::Metrics::default(),
        pace: Pace::default(),
        work: work::Options::default(),
        now,
        clock: heartbeats::Clock::new(|| now().steady, || now().wall),
        added: Added::default(),
        witness: Duration::from_secs(60),
        shown: Shown::default(),
    })
}

fn parts(
    process: &Process,
    terms: &Terms,
    kept: &Kept,
    link_state: watch::Receiver<CredentialState>,
    clients: Clients,
) -> Parts {
    let (identity, cluster) = (&terms.binding.identity, &terms.binding.cluster);
    let view = View::new(terms.binding.clone(), terms.safety, Spent::default(), Reach::Reachable, now());
    let view: SharedView = Arc::new(Mutex::new(view));
    let (beats, _) = Heartbeats::new(
        clients.lent.clone(),
        identity.clone(),
        terms.heartbeats,
        &process.beats,
        process.clock.clone(),
        Box::new(|_| {}),
    );
    Parts {
        clients,
        policies: PolicyFeed::new(&view, &queue()),
        view,
        nodes: queue(),
        pods: Inbox::new(identity, cluster, &terms.mount_namespace, queue(), || now().steady),
        heartbeats: beats,
        forward: Forward::new(),
        troubles: Troubles::default(),
        writes: Counted::default(),
        link: watch::Sender::new(None),
        watched: watch::Sender::new(None),
        link_terms: watch::Sender::new(link_terms(terms, kept, Loopback::Refused)),
        link_state,
        source: watch::Sender::new(terms.policy_source),
        empty: watch::Sender::new(terms.contact.empty),
        hindrances: watch::Sender::new(Hindrances::default()),
    }
}

fn queue<K: work::WorkKey>() -> WorkQueue<K> {
    WorkQueue::new("test", NonZeroUsize::MIN.saturating_add(99), Limiter::default())
}

#[tokio::test]
async fn s9_s20_s25_a_life_that_begins_again_knows_what_the_one_before_has_not_stored() {
    let mut stage = Stage::new(json!({"physicalClusterUID": "c1"}));
    stage.conductor.kept.confirm("h", now().wall);
    let nodes = ["vnode-east-w1".into()].into();
    let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: true, nodes, pods: 0 };
    let held = HeldBefore { hash: "b".to_owned(), ..HeldBefore::default() };
    let left = Inherited { spent: Spent { nodes: 2, pods: 3 }, grants: vec![acts], held: Some(held) };
    *stage.conductor.view().guard() = Guard::inherit(left.clone(), now().steady);
    let carried = stage.conductor.carried();
    assert_eq!((carried.guard, carried.kept), (left, stage.conductor.kept.clone()));
}

#[tokio::test(start_paused = true)]
async fn s9_a_definition_that_lacks_a_field_of_the_status_is_named_and_nothing_is_written_at_rest() {
    let mut stage = Stage::new(json!({"physicalClusterUID": "c1", "lease": "topoloom/east"}));
    let identity = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "c1"}});
    stage.physical.put("/api/v1/namespaces/kube-system", identity);
    stage.connect(None);
    stage.settles().await;
    stage.lasts(12).await;
    assert_eq!(stage.condition("Ready")["reason"], "Ok");
    stage.lent.drops(Some("granted"));
    let nodes = ["vnode-east-w1".into()].into();
    let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: true, nodes, pods: 0 };
    let left = Inherited { grants: vec![acts], ..Inherited::default() };
    *stage.conductor.view().guard() = Guard::inherit(left, now().steady);
    stage.lent.writes();
    stage.lasts(10).await;
    let once = format!("PATCH {BINDING}/status");
    // The grants, and then that they are not stored.
    assert_eq!(stage.lent.writes(), [once.clone(), once.clone()]);
    assert_eq!(stage.stored()["status"]["granted"], Value::Null);
    let ready = stage.condition("Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("WriteNotStored")));
    let message = ready["message"].as_str().unwrap();
    assert!(message.contains("topoloom crd | kubectl apply") && message.contains("status.granted"), "{message}");
    assert_eq!(stage.conductor.said_unstored.as_deref(), Some(message));
    // The definition is applied, and noticed with the next try.
    stage.lent.drops(None);
    stage.lasts(10).await;
    assert_eq!(stage.lent.writes(), [""; 0]);
    tokio::time::advance(Duration::from_secs(600)).await;
    stage.lasts(5).await;
    assert_eq!(stage.lent.writes(), [once.clone(), once]);
    assert_eq!(stage.stored()["status"]["granted"][0]["nodes"], json!(["vnode-east-w1"]));
    assert_eq!(stage.condition("Ready")["reason"], "Ok");
}

#[tokio::test(start_paused = true)]
async fn s11_a_replica_that_takes_over_leaves_the_status_until_it_knows_as_much_and_says_at_once_what_is_wrong() {
    let status = format!("PATCH {BINDING}/status");
    let patches = |stage: &Stage| stage.lent.writes().into_iter().filter(|write| *write == status).count();
    let stage = |status: &Value| {
        let stage = Stage::new(status.clone());
        let identity =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "c1"}});
        stage.physical.put("/api/v1/namespaces/kube-system", identity);
        stage
    };
    let mut before = stage(&json!({"physicalClusterUID": "c1", "lease": "topoloom/east"}));
    before.connect(None);
    before.lasts(12).await;
    let stored = before.stored()["status"].clone();
    assert_eq!((before.condition("Ready")["reason"].clone(), patches(&before)), (json!("Ok"), 1));

    // The connection is there after some seconds, and nothing has changed.
    let mut next = stage(&stored);
    next.lasts(5).await;
    next.connect(None);
    next.lasts(60).await;
    assert_eq!((patches(&next), &next.stored()["status"]), (0, &stored));

    // It is not there for too long.
    let mut next = stage(&stored);
    next.lasts(30).await;
    assert_eq!(patches(&next), 0);
    next.lasts(10).await;
    assert_eq!((patches(&next), next.condition("Ready")["reason"].clone()), (1, json!("Pending")));

    // The Secret is gone.
    let mut next = stage(&stored);
    next.link.send_replace(CredentialState { in_use: None, end: None, problem: Some(Problem::Missing) });
    next.lasts(1).await;
    assert_eq!((patches(&next), next.condition("Ready")["reason"].clone()), (1, json!("CredentialsMissing")));
}

#[tokio::test]
async fn s25_a_cluster_that_is_set_back_while_the_other_one_waits_is_confirmed_by_another_hash() {
    const VIRTUAL: &str = "The virtual API server went back to an earlier version";
    let mut stage = Stage::new(json!({}));
    stage.wakes(Woke::VirtualSetBack).await;
    let first = stage.restored();
    assert_eq!((&first["cluster"], &first["sentence"]), (&json!("Virtual"), &json!(VIRTUAL)));
    stage.wakes(Woke::PhysicalSetBack).await;
    let both = stage.restored();
    let sentence = format!("{VIRTUAL}; and the physical API server went back to an earlier version");
    assert_eq!((&both["sentence"], &both["since"]), (&json!(sentence), &first["since"]));
    assert_ne!(both["hash"], first["hash"]);
    assert_eq!(stage.condition("Restored")["reason"], "PhysicalClusterRestored", "which is an Event of its own");
    // Another binding has found the same.
    stage.wakes(Woke::VirtualSetBack).await;
    stage.wakes(Woke::PhysicalSetBack).await;
    assert_eq!(stage.restored(), both);
    stage.confirms(&first["hash"]).await;
    assert_eq!(stage.restored(), both);
    assert_eq!(stage.stored()["metadata"]["annotations"][CONFIRM_ANNOTATION], Value::Null, "it confirms nothing");
    stage.confirms(&both["hash"]).await;
    assert_eq!(stage.restored(), Value::Null);
    assert_eq!(stage.stored()["status"]["confirmed"][0]["hash"], both["hash"]);
}

#[tokio::test]
async fn s9_s25_what_an_operator_confirmed_is_asked_for_again_also_where_the_cluster_is_set_back_a_second_time() {
    let mut stage = Stage::new(json!({}));
    stage.wakes(Woke::VirtualSetBack).await;
    let first = stage.restored();
    let nodes = ["vnode-east-w1".into()].into();
    let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: false, nodes, pods: 0 };
    let left = Inherited { grants: vec![acts], ..Inherited::default() };
    *stage.conductor.view().guard() = Guard::inherit(left, now().steady);
    stage.wakes(Woke::VirtualSetBack).await;
    assert_eq!((stage.restored(), stage.conductor.view().guard().grants()), (first, vec![]));
}

#[tokio::test]
async fn s25_what_only_the_numbers_show_while_another_restore_waits_is_not_confirmed_with_it() {
    for is_found_before in [true, false] {
        let mut stage = Stage::new(json!({"physicalClusterUID": "c1", "lease": "topoloom/east"}));
        stage.connect(None);
        stage.settles().await;
        let saved = stage.physical.save();
        stage.wakes(Woke::Minute).await;
        stage.wakes(Woke::VirtualSetBack).await;
        let first = stage.restored();
        stage.wakes(Woke::Minute).await;
        assert_eq!(stage.restored(), first, "the numbers agree");
        stage.physical.restore(saved);
        if is_found_before {
            stage.wakes(Woke::Minute).await;
            assert_ne!(stage.restored(), first);
        }
        stage.confirms(&first["hash"]).await;
        let both = stage.restored();
        let sentence = both["sentence"].as_str().unwrap();
        let ends = "; and the physical cluster was set back to an earlier state: its copy of the counter is 1, and 2 was \
                    confirmed";
        assert!(sentence.starts_with("The virtual API server") && sentence.ends_with(ends), "{sentence}");
        assert_ne!(both["hash"], first["hash"]);
        stage.confirms(&both["hash"]).await;
        assert_eq!(stage.restored(), Value::Null, "{is_found_before}");
        // The numbers agree again.
        stage.wakes(Woke::Minute).await;
        assert_eq!(stage.restored(), Value::Null, "{is_found_before}");
    }
}

#[tokio::test]
async fn s25_after_a_restore_to_a_lower_revision_the_binding_is_followed_from_the_version_that_it_has_then() {
    for is_shown_first in [true, false] {
        let mut stage = Stage::new(json!({}));
        let saved = stage.lent.save();
        stage.settles().await;
        assert_eq!(stage.stored()["metadata"]["resourceVersion"], "51");
        stage.lent.restore(saved);
        stage.lent.goes_on_after(39);
        stage.annotate(PAUSE_ANNOTATION, &json!("true"));
        if is_shown_first {
            stage.show();
            stage.woken(Woke::Object).await;
        }
        stage.woken(Woke::VirtualSetBack).await;
        if !is_shown_first {
            stage.show();
            stage.woken(Woke::Object).await;
        }
        stage.settles().await;
        assert_eq!(stage.stored()["metadata"]["resourceVersion"], "41", "{is_shown_first}");
        for kind in ["Paused", "Restored"] {
            assert_eq!(stage.condition(kind)["status"], "True", "{kind} {is_shown_first}");
        }
        // What is behind that write says nothing new again.
        assert!(!stage.conductor.is_version_void);
    }
}

#[tokio::test]
async fn s6_s25_a_restore_is_not_confirmed_while_another_physical_cluster_answers_and_nothing_is_written_there() {
    let restored =
        json!({"cluster": "Virtual", "sentence": "It was set back", "hash": "h1", "since": "2026-08-03T11:00:00Z"});
    let status = json!({"physicalClusterUID": "c1", "lease": "topoloom/east", "restored": restored});
    let mut stage = Stage::new(status);
    stage.connect(Some(Problem::ClusterChanged { known: "c1".into(), found: "c2".into() }));
    stage.confirms(&json!("h1")).await;
    assert_eq!(stage.physical.writes(), [""; 0]);
    assert_eq!(stage.restored(), restored);
    assert_eq!(stage.stored()["metadata"]["annotations"][CONFIRM_ANNOTATION], "h1", "it counts later");
    let message = stage.condition("Restored")["message"].clone();
    assert!(message.as_str().unwrap().ends_with("or the first one answers."), "{message}");
    // The first cluster answers again.
    stage.connect(None);
    stage.wakes(Woke::Changed).await;
    assert_eq!(stage.restored(), Value::Null);
    assert_ne!(stage.physical.writes(), [""; 0]);
}

#[tokio::test]
async fn s22_s25_after_a_restore_of_the_virtual_cluster_the_lease_has_the_record_of_the_binding_again() {
    let mut stage = Stage::new(json!({"physicalClusterUID": "c1", "lease": "topoloom/east"}));
    let record =
        |stage: &Stage| stage.lent.get(LEASE).unwrap()["metadata"]["annotations"][keys::BINDING_RECORD].clone();
    let saved = stage.lent.save();
    stage.connect(None);
    stage.settles().await;
    let written = record(&stage);
    assert!(written.is_string(), "{written}");
    stage.lent.restore(saved);
    assert_eq!(record(&stage), Value::Null);
    stage.show();
    stage.wakes(Woke::VirtualSetBack).await;
    assert_eq!(record(&stage), written);
}

#[tokio::test]
async fn s4_s7_a_cluster_whose_namespace_is_taken_is_watched_where_an_earlier_cluster_id_has_left_nodes() {
    for leaves in [false, true] {
        let mut stage = Stage::new(json!({"physicalClusterUID": "c1", "lease": "topoloom/east"}));
        let identity = stage.conductor.identity.clone();
        let est = topoloom_sync::naming::ClusterId::parse("est").unwrap();
        let borrower = topoloom_sync::identity::borrower::Borrower { identity: &identity, cluster: &est };
        let namespace = stage.conductor.terms.mount_namespace.clone();
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{}", borrower.lease());
        stage.physical.put(&path, json!({"metadata": {"name": borrower.lease(), "labels": borrower.labels()}}));
        if leaves {
            let (name, mut node) = crate::view::examples::of_est(1, "b-0");
            let (cluster, binding) = (identity.virtual_cluster().clone(), identity.binding().clone());
            let maker = topoloom_sync::identity::Identity::new(cluster, binding, "b-0".into()).unwrap();
            node.metadata.labels.extend(maker.node_labels(&est, "w1"));
            stage.conductor.view().lent_node(&name, node);
        }
        stage.connect(None);
        stage.settles().await;
        assert_eq!(stage.condition("Conflict")["reason"], "BorrowerLeaseTaken");
        assert_eq!(stage.conductor.parts.watched.borrow().is_some(), leaves);
        let told = stage.conductor.view().was_lent_from(&"c1".into(), "est");
        assert_eq!(told, Touched::new(), "the view knows it by now");
        assert_eq!(stage.physical.writes(), [""; 0]);
    }
}
