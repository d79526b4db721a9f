//! The announcement of a replica against an API server of one namespace of leases, and what the others make of it. Time is
//! paused.

use std::convert::Infallible;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::cluster::watched::Event;

const S: Duration = Duration::from_secs(1);
/// The announcement of the replica under test.
const OWN: &str = "topoloom-member-pod-0";

/// The leases that are stored.
#[derive(Default)]
struct Store {
    version: u64,
    leases: BTreeMap<String, Value>,
    asked: Vec<String>,
}

impl Store {
    fn put(&mut self, name: &str, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if lease["metadata"]["uid"].is_null() {
            lease["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.leases.insert(name.to_owned(), lease.clone());
        lease
    }

    fn serve(&mut self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
        let name = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/n/leases").unwrap();
        let name = name.trim_start_matches('/').to_owned();
        self.asked.push(method.to_string());
        let given: Value = serde_json::from_slice(body).unwrap_or_default();
        let stored = self.leases.get(&name).cloned();
        match (method.as_str(), stored) {
            ("GET", Some(lease)) => (StatusCode::OK, lease),
            ("POST", _) => {
                let name = given["metadata"]["name"].as_str().unwrap().to_owned();
                if self.leases.contains_key(&name) {
                    return refused(StatusCode::CONFLICT, "AlreadyExists");
                }
                (StatusCode::CREATED, self.put(&name, given))
            }
            ("PUT", Some(lease)) => {
                let same = |key: &str| lease["metadata"][key] == given["metadata"][key];
                if !same("resourceVersion") || !same("uid") {
                    return refused(StatusCode::CONFLICT, "Conflict");
                }
                (StatusCode::OK, self.put(&name, given))
            }
            ("DELETE", Some(lease)) => {
                let wanted = &given["preconditions"];
                let differs = |key: &str| !wanted[key].is_null() && wanted[key] != lease["metadata"][key];
                if wanted["uid"].is_null() || differs("uid") || differs("resourceVersion") {
                    return refused(StatusCode::CONFLICT, "Conflict");
                }
                self.leases.remove(&name);
                (StatusCode::OK, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
            }
            _ => refused(StatusCode::NOT_FOUND, "NotFound"),
        }
    }
}

fn refused(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": reason, "code": code.as_u16(),
    });
    (code, status)
}

type Shared = Arc<Mutex<Store>>;

fn client(store: &Shared) -> kube::Client {
    let store = Arc::clone(store);
    let serve = move |request: Request<Body>| {
        let store = Arc::clone(&store);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let (code, answer) = store.lock().unwrap().serve(&head.method, head.uri.path(), &body);
            let body = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    };
    kube::Client::new(tower::service_fn(serve), "default")
}

/// What a replica sees of the others, and its own announcement, which runs until it is stopped.
fn replica(store: &Shared) -> (Announcements, CancellationToken, JoinSet<()>) {
    let begun = tokio::time::Instant::now();
    let crew = Crew::new(&"pod-0".into(), Arc::new(move || 1000 * S + begun.elapsed()));
    let all = Announcements::new(client(store), "n", "topoloom", &crew);
    let announcer = Announcer { all: all.clone(), name: OWN.to_owned(), identity: "pod-0".into(), lasts: 15 * S };
    let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
    tasks.spawn(announcer.run(stop.clone()));
    (all, stop, tasks)
}

async fn stopped(stop: CancellationToken, mut tasks: JoinSet<()>) {
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

fn stored(store: &Shared, name: &str) -> Option<Value> {
    store.lock().unwrap().leases.get(name).cloned()
}

#[tokio::test(start_paused = true)]
async fn s11_a_replica_announces_itself_three_times_within_the_time_that_it_lasts_and_withdraws_when_it_stops() {
    let store = Shared::default();
    let (_all, stop, tasks) = replica(&store);
    tokio::time::sleep(S).await;
    let made = stored(&store, OWN).unwrap();
    assert_eq!((&made["spec"]["holderIdentity"], &made["spec"]["leaseDurationSeconds"]), (&json!("pod-0"), &json!(15)));
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["topoloom.dev/member-of"], "topoloom");
    assert!(labels["app.kubernetes.io/name"].is_null(), "by that label a command line finds leaders");
    tokio::time::sleep(30 * S).await;
    assert_eq!(store.lock().unwrap().asked, ["GET", "POST", "PUT", "PUT", "PUT", "PUT", "PUT", "PUT"]);
    // Another program writes it, and later deletes it.
    let written = stored(&store, OWN).unwrap();
    store.lock().unwrap().put(OWN, written);
    tokio::time::sleep(10 * S).await;
    assert_eq!(store.lock().unwrap().asked.split_off(8), ["PUT", "GET", "PUT"]);
    store.lock().unwrap().leases.clear();
    tokio::time::sleep(10 * S).await;
    assert!(stored(&store, OWN).is_some());
    stopped(stop, tasks).await;
    assert_eq!(stored(&store, OWN), None);
}

#[tokio::test(start_paused = true)]
async fn s11_an_announcement_whose_replica_died_is_removed_an_hour_later_in_the_version_that_was_seen() {
    let store = Shared::default();
    let left = |name: &str| {
        let lease = json!({
            "metadata": {"name": format!("topoloom-member-{name}")},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 15},
        });
        let lease = store.lock().unwrap().put(&format!("topoloom-member-{name}"), lease);
        serde_json::from_value::<Lease>(lease).unwrap()
    };
    let (all, stop, tasks) = replica(&store);
    let mut observer = Observer(all.clone());
    let (first, second) = (left("pod-1"), left("pod-2"));
    observer.apply(first.clone());
    observer.apply(second);
    assert_eq!(all.crew.live(), 3);
    // The second is written again, and the watch does not show it yet.
    left("pod-2");
    let deletes = || store.lock().unwrap().asked.iter().filter(|asked| *asked == "DELETE").count();
    tokio::time::sleep(3500 * S).await;
    let leases = store.lock().unwrap().leases.len();
    assert_eq!((all.crew.live(), leases, deletes()), (1, 3, 0));
    tokio::time::sleep(500 * S).await;
    assert_eq!(stored(&store, "topoloom-member-pod-1"), None);
    observer.delete(first);
    let before = deletes();
    tokio::time::sleep(10 * S).await;
    assert!(deletes() > before, "the second is to be removed, too");
    assert!(stored(&store, "topoloom-member-pod-2").is_some(), "and is not in the version that was seen");
    stopped(stop, tasks).await;
}

fn lease(name: &str, holder: &str, seconds: i64, version: u64) -> Lease {
    let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": seconds});
    let metadata = json!({"name": name, "uid": name, "resourceVersion": version.to_string()});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn s11_what_is_no_announcement_is_no_member_and_one_that_is_withdrawn_is_gone_at_once() {
    let (all, _stop, _tasks) = replica(&Shared::default());
    let (mut observer, mut watched) = (Observer(all.clone()), Watched::default());
    let mut take = |event: Event<Lease>| {
        let _nothing = watched.take(&mut observer, event);
    };
    take(Event::Init(Earlier::Valid));
    for (name, holder, seconds) in [("a", "pod-1", 15), ("b", "", 15), ("c", "pod-2", 0), ("d", "pod-3", -1)] {
        take(Event::InitApply(lease(name, holder, seconds, 5)));
    }
    let long = "x".repeat(LONGEST_NAME + 1);
    take(Event::InitApply(lease("e", &long, 15, 5)));
    assert_eq!(all.crew.live(), 1, "the list is not whole yet");
    take(Event::whole("7".into()));
    assert_eq!(all.crew.live(), 2);
    take(Event::Apply(lease("f", "pod-4", 15, 8)));
    // An object of another name that says the same is not the one that counts.
    take(Event::Delete(lease("z", "pod-4", 15, 9)));
    assert_eq!(all.crew.live(), 3);
    take(Event::Delete(lease("f", "pod-4", 15, 10)));
    take(Event::Delete(lease("a", "pod-1", 15, 11)));
    assert_eq!(all.crew.live(), 1);
}
