//! Bindings that come, change and go, with Secrets that lead to API servers in memory; time is paused.

use std::convert::Infallible;
use std::time::Duration;

use futures::channel::mpsc;
use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;
use topoloom_cluster::client::ConnectError;

use super::*;
use crate::convert::binding::tests::{around, binding};
use crate::kubeconfig::Access;
use crate::kubeconfig::tests::secret;
use crate::physical::{Clock, Connection, Opens, Writers};

const S: Duration = Duration::from_secs(1);

/// The UID of the cluster at each host.
#[derive(Clone)]
struct Clusters(Arc<Mutex<BTreeMap<&'static str, &'static str>>>);

impl Clusters {
    fn of<const N: usize>(clusters: [(&'static str, &'static str); N]) -> Self {
        Self(Arc::new(Mutex::new(clusters.into())))
    }

    fn change(&self, host: &'static str, uid: &'static str) {
        self.0.lock().unwrap().insert(host, uid);
    }
}

impl Opens for Clusters {
    fn open(&self, access: &Access) -> Result<Connection, ConnectError> {
        let (clusters, host) = (self.clone(), access.server().host().unwrap().to_owned());
        let serve = move |request: Request<Body>| {
            let uid = clusters.0.lock().unwrap().get(host.as_str()).copied().unwrap();
            let body = match request.uri().path() {
                "/api/v1/namespaces/kube-system" => partial("PartialObjectMetadata", json!({"uid": uid})).to_string(),
                "/api/v1/nodes" => partial("PartialObjectMetadataList", json!({"resourceVersion": "7"})).to_string(),
                _ => "ok".to_owned(),
            };
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes()))) }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let writes = client.clone();
        let writers = move |_: &_| Ok(Writers { nodes: writes.clone(), others: writes.clone() });
        Ok(Connection::of(access, client, writers))
    }
}

fn partial(kind: &str, metadata: Value) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata, "items": []})
}

/// Secrets, each with the name of its host.
fn secrets() -> Api<Secret> {
    let serve = |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        async move {
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let name = query.split("metadata.name%3D").nth(1).unwrap().split('&').next().unwrap();
            let object = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "namespace": "lend", "resourceVersion": "5"},
                "data": secret(&format!("https://{name}:6443"), "token"),
            });
            let list = json!({
                "apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "7"}, "items": [object],
            });
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        }
    };
    Api::namespaced(kube::Client::new(tower::service_fn(serve), "default"), "lend")
}

struct Scene {
    clusters: Clusters,
    registry: Arc<Registry>,
    lent: LentBindings,
    events: mpsc::UnboundedSender<Result<Event<ClusterBinding>, Refusal>>,
    tasks: JoinSet<()>,
}

impl Scene {
    fn new() -> Self {
        let clusters = Clusters::of([("a", "uid-a"), ("b", "uid-b")]);
        let began = tokio::time::Instant::now();
        let registry = Arc::new(Registry::new(clusters.clone(), Clock::new(move || 1000 * S + began.elapsed())));
        let (lent, (events, stream)) = (LentBindings::default(), mpsc::unbounded());
        let ways = Ways {
            registry: Arc::clone(&registry),
            secrets: secrets(),
            restores: Restores::default(),
            around: around(),
            loopback: Loopback::Refused,
        };
        let (mut tasks, follows) = (JoinSet::new(), lent.clone());
        tasks.spawn(async move { follows.reach(&ways, stream).await });
        Self { clusters, registry, lent, events, tasks }
    }

    fn happens(&self, event: Event<ClusterBinding>) {
        self.events.unbounded_send(Ok(event)).unwrap();
    }

    /// Who reaches the pods of `east`, once that is as wanted.
    async fn until(&self, what: &str, wanted: impl Fn(&Option<Lender>) -> bool) -> Option<Lender> {
        let found = timeout(120 * S, async {
            loop {
                let lender = self.lent.lender(&labels("b1"));
                if wanted(&lender) {
                    return lender;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("{what}: {:?}", self.lent))
    }

    async fn reached(&self) -> Lender {
        self.until("it is reached", Option::is_some).await.unwrap()
    }

    async fn not_reached(&self) {
        self.until("it is not reached", Option::is_none).await;
    }
}

/// The labels of a virtual node of the binding `east` with this UID.
fn labels(uid: &str) -> BTreeMap<String, String> {
    let name = topoloom_sync::naming::BindingName::parse("east").unwrap();
    Identity::new("vc".into(), name, uid.into()).unwrap().labels()
}

/// The binding `east` with these fields, which borrows from this cluster.
fn east(fields: Value, cluster: &str) -> ClusterBinding {
    let mut east = binding(fields);
    east.status.physical_cluster_uid = (!cluster.is_empty()).then(|| cluster.to_owned());
    east
}

fn at(host: &str) -> Value {
    json!({"secretRef": {"name": host}})
}

#[tokio::test(start_paused = true)]
async fn s26_a_binding_is_reached_from_when_its_status_names_a_cluster_until_it_is_gone() {
    let mut scene = Scene::new();
    scene.happens(Event::Init(Earlier::Valid));
    scene.happens(Event::InitApply(east(at("a"), "")));
    scene.happens(Event::whole("7".into()));
    tokio::time::sleep(60 * S).await;
    assert!(scene.lent.lender(&labels("b1")).is_none() && scene.registry.count() == 0, "nothing is borrowed yet");
    scene.happens(Event::Apply(east(at("a"), "uid-a")));
    let lender = scene.reached().await;
    assert_eq!((lender.mount_namespace.as_str(), lender.connection.server().host()), ("lent", Some("a")));
    // A node of another cluster, of another binding, and of an earlier one of this name.
    for (key, value) in [(keys::VIRTUAL_CLUSTER, "other"), (keys::BINDING, "west"), (keys::BINDING_UID, "b0")] {
        let mut others = labels("b1");
        others.insert(key.to_owned(), value.to_owned());
        assert!(scene.lent.lender(&others).is_none(), "{key}");
    }
    assert!(scene.lent.lender(&BTreeMap::new()).is_none());
    // Numbers in its status change, and a spec with a mistake changes nothing.
    let mut counted = east(at("a"), "uid-a");
    counted.status.holder = Some("replica-1".to_owned());
    scene.happens(Event::Apply(counted));
    scene.happens(Event::Apply(east(json!({"secretRef": {"name": "b"}, "mode": "x"}), "uid-a")));
    tokio::time::sleep(60 * S).await;
    assert!(!lender.ends.is_cancelled() && scene.registry.count() == 1);
    let shown = scene.lent.dump()["east"].clone();
    assert!(shown["server"].as_str().is_some_and(|server| server.starts_with("https://a:6443")), "{shown}");
    assert_eq!((&shown["cluster"], &shown["answersAs"]), (&json!("uid-a"), &json!("uid-a")));

    scene.happens(Event::Delete(east(at("a"), "uid-a")));
    scene.not_reached().await;
    assert!(lender.ends.is_cancelled());
    tokio::time::sleep(S).await;
    assert_eq!(scene.registry.count(), 0);

    // It ends with what follows the bindings, too.
    scene.happens(Event::Apply(east(at("a"), "uid-a")));
    let lender = scene.reached().await;
    scene.tasks.shutdown().await;
    assert!(lender.ends.is_cancelled() && scene.lent.lender(&labels("b1")).is_none());
}

#[tokio::test(start_paused = true)]
async fn s6_s26_streams_never_reach_another_cluster_than_the_one_that_the_binding_borrows_from() {
    let scene = Scene::new();
    scene.happens(Event::Init(Earlier::Valid));
    // Its Secret leads elsewhere.
    scene.happens(Event::InitApply(east(at("b"), "uid-a")));
    scene.happens(Event::whole("7".into()));
    tokio::time::sleep(120 * S).await;
    assert!(scene.lent.lender(&labels("b1")).is_none());
    // An operator confirms that cluster.
    scene.happens(Event::Apply(east(at("b"), "uid-b")));
    let lender = scene.reached().await;
    assert_eq!(lender.connection.server().host(), Some("b"));
    // Another one answers at that address, and then the first one again.
    scene.clusters.change("b", "uid-c");
    scene.not_reached().await;
    assert!(lender.ends.is_cancelled());
    scene.clusters.change("b", "uid-b");
    assert!(!scene.reached().await.ends.is_cancelled());
}
