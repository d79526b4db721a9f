//! A real client with a scripted API server that keeps policies.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use http::{Method, Request, Response};
use kube::client::Body;
use topoloom_cluster::watched::{Earlier, Event, Watched};
use topoloom_core::queue::Limiter;
use topoloom_sync::bars::Bar;
use topoloom_sync::liveness::Reach;

use super::*;
use crate::shared::Shown;
use crate::view::examples;

/// An API server that keeps policies, by name, and what was sent to it.
#[derive(Clone, Default)]
struct Server {
    stored: Arc<Mutex<BTreeMap<String, Value>>>,
    sent: Arc<Mutex<Vec<Value>>>,
    refuses: Arc<Mutex<Option<u16>>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.serve(request).await) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let body = request.into_body().collect_bytes().await.unwrap();
        if method == Method::POST {
            // An Event.
            return answer(201, &serde_json::from_slice(&body).unwrap());
        }
        let name = path.strip_suffix("/status").and_then(|path| path.rsplit('/').next()).unwrap();
        let patch: Value = serde_json::from_slice(&body).unwrap();
        self.sent.lock().unwrap().push(patch.clone());
        let refuses = *self.refuses.lock().unwrap();
        if let Some(code) = refuses {
            return answer(
                code,
                &json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "no", "code": code}),
            );
        }
        let mut stored = self.stored.lock().unwrap();
        let object = stored.get_mut(name).unwrap();
        let version = object["metadata"]["resourceVersion"].clone();
        assert_eq!(patch["metadata"]["resourceVersion"], version, "each write carries the version that was judged");
        apply(&mut object["status"], &patch["status"]);
        let next: u64 = version.as_str().unwrap().parse().unwrap();
        object["metadata"]["resourceVersion"] = (next + 1).to_string().into();
        answer(200, object)
    }

    /// The writes since the last call.
    fn sent(&self) -> Vec<Value> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    fn status(&self, name: &str) -> Value {
        self.stored.lock().unwrap()[name]["status"].clone()
    }
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            apply(&mut target[key.as_str()], value);
        }
    }
}

fn now() -> Now {
    // A Monday, 12:00 UTC.
    examples::now()
}

/// A policy as its watch shows it.
fn shown(object: Value) -> Shown<ResourceLeasingPolicy> {
    let policy: ResourceLeasingPolicy = serde_json::from_value(object).unwrap();
    Shown::new(&policy.metadata.name.clone().unwrap(), Some(Arc::new(policy)))
}

/// A controller over these policies, with two nodes.
fn controller(server: &Server, specs: &[(&str, Value)]) -> PolicyStatuses {
    let mut view = examples::view(2);
    view.policies_lost();
    let view: SharedView = Arc::new(Mutex::new(view));
    let queue = || WorkQueue::new("test", std::num::NonZeroUsize::MIN.saturating_add(99), Limiter::default());
    let mut feed = PolicyFeed::new(&view, &queue());
    let mut watched = Watched::default();
    watched.take(&mut feed, Event::Init(Earlier::Valid));
    for (name, spec) in specs {
        let metadata = json!({"name": name, "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "5"});
        let object = json!({"metadata": metadata, "spec": spec});
        server.stored.lock().unwrap().insert((*name).to_owned(), object.clone());
        watched.take(&mut feed, Event::InitApply(shown(object)));
    }
    watched.take(&mut feed, Event::InitDone("9".into()));
    let clients = PolicyClients { physical: server.client(), lent: Server::default().client() };
    let (_, source) = watch::channel(PolicySource::Physical);
    PolicyStatuses::new(&view, feed, queue(), clients, source, Events::new(server.client()), Troubles::default(), now)
}

async fn work(controller: &PolicyStatuses, name: &str) -> Result<WorkOutcome, PolicyError> {
    controller.work(&PolicyName::from(name)).await
}

fn evenings() -> Value {
    json!({"cluster": "east", "timeWindows": [{"start": "18:00", "end": "23:59"}]})
}

#[tokio::test]
async fn s18_a_status_is_written_once_and_looked_at_again_at_the_next_boundary() {
    let server = Server::default();
    let controller = controller(&server, &[("evenings", evenings())]);
    let six_hours = Duration::from_secs(6 * 3600);
    assert_eq!(work(&controller, "evenings").await.unwrap(), WorkOutcome::Again(six_hours));
    assert_eq!(server.sent().len(), 1);
    let status = server.status("evenings");
    assert_eq!((&status["phase"], &status["activeTimeWindow"]), (&json!("Inactive"), &json!(false)));
    assert_eq!((&status["nextTransition"], &status["timeZone"]), (&json!("2026-08-03T18:00:00Z"), &json!("UTC")));
    assert_eq!(status["nextTransitionSince"], "2026-08-03T12:00:00Z");
    assert_eq!(status["lastValid"], evenings());
    // Its own answer counts, before any watch has shown it.
    assert_eq!(work(&controller, "evenings").await.unwrap(), WorkOutcome::Again(six_hours));
    assert_eq!(server.sent(), [] as [Value; 0]);
    assert_eq!(controller.all(), [PolicyName::from("evenings")]);
}

#[tokio::test]
async fn d5_s8_a_policy_with_a_mistake_is_failed_with_field_and_value_and_keeps_what_was_valid() {
    let server = Server::default();
    let mut spec = evenings();
    let controller = controller(&server, &[("evenings", spec.clone())]);
    work(&controller, "evenings").await.unwrap();
    spec["timeWindows"][0]["end"] = "24:00".into();
    let mut edited = {
        let mut stored = server.stored.lock().unwrap();
        let object = stored.get_mut("evenings").unwrap();
        object["spec"] = spec;
        object["metadata"]["generation"] = 2.into();
        object["metadata"]["resourceVersion"] = "20".into();
        object.clone()
    };
    let mut feed = controller.feed.clone();
    let mut watched: Watched<HashMap<PolicyName, StoredPolicy>> = Watched::default();
    watched.take(&mut feed, Event::Apply(shown(edited.clone())));
    work(&controller, "evenings").await.unwrap();
    let status = server.status("evenings");
    assert_eq!((&status["phase"], &status["lastValid"]), (&json!("Failed"), &evenings()));
    let valid = &status["conditions"][0];
    assert!(valid["message"].as_str().unwrap().contains("spec.timeWindows[0].end must be"), "{valid}");
    assert!(valid["message"].as_str().unwrap().contains("got \"24:00\""), "{valid}");
    // An event from before our write changes nothing.
    edited["metadata"]["resourceVersion"] = "19".into();
    watched.take(&mut feed, Event::Apply(shown(edited)));
    server.sent();
    work(&controller, "evenings").await.unwrap();
    assert_eq!(server.sent(), [] as [Value; 0]);
}

#[tokio::test]
async fn s7_only_the_binding_that_a_policy_names_writes_its_status() {
    let server = Server::default();
    let elsewhere = json!({"cluster": "east", "virtualCluster": "another"});
    let specs = [("west", json!({"cluster": "west"})), ("elsewhere", elsewhere), ("odd", json!({"cluster": 5}))];
    let controller = controller(&server, &specs);
    for name in ["west", "elsewhere", "unknown"] {
        assert_eq!(work(&controller, name).await.unwrap(), WorkOutcome::Done, "{name}");
    }
    assert_eq!(server.sent(), [] as [Value; 0]);
    // For whom this one is meant cannot be read, so every binding that sees it shows it as failed.
    work(&controller, "odd").await.unwrap();
    assert_eq!(server.status("odd")["phase"], "Failed");
}

#[tokio::test]
async fn s18_of_two_policies_for_all_nodes_the_second_is_shadowed_by_name() {
    let server = Server::default();
    let specs = [("a", json!({"cluster": "east", "priority": 1})), ("b", json!({"cluster": "east"}))];
    let controller = controller(&server, &specs);
    for name in ["a", "b"] {
        work(&controller, name).await.unwrap();
    }
    let shadowed = |name: &str| server.status(name)["conditions"][2].clone();
    assert_eq!((&shadowed("a")["status"], &shadowed("a")["reason"]), (&json!("False"), &json!("InForce")));
    assert_eq!(shadowed("b")["status"], "True");
    assert!(shadowed("b")["message"].as_str().unwrap().contains("policy a comes before it"));
}

#[tokio::test]
async fn s23_while_the_binding_observes_nothing_is_written_and_while_it_is_paused_lenders_are_still_informed() {
    let server = Server::default();
    let controller = controller(&server, &[("evenings", evenings())]);
    let bar = |bar: Bar| {
        let mut view = controller.view.lock().unwrap();
        view.set_bars([bar].into_iter().collect(), Reach::Reachable);
    };
    for forbids in [Bar::Observing, Bar::Conflict, Bar::ClusterChanged, Bar::ReadOnly] {
        bar(forbids);
        work(&controller, "evenings").await.unwrap();
        assert_eq!(server.sent(), [] as [Value; 0], "{forbids:?}");
    }
    bar(Bar::Paused);
    work(&controller, "evenings").await.unwrap();
    assert_eq!(server.sent().len(), 1);
}

#[tokio::test]
async fn s19_a_status_that_a_missing_right_forbids_is_a_trouble_until_it_is_written() {
    let server = Server::default();
    let controller = controller(&server, &[("evenings", evenings())]);
    *server.refuses.lock().unwrap() = Some(403);
    let error = work(&controller, "evenings").await.unwrap_err();
    assert!(error.to_string().starts_with("the status of policy evenings could not be written: "), "{error}");
    assert_eq!(controller.troubles.all().len(), 1);
    *server.refuses.lock().unwrap() = Some(409);
    assert!(work(&controller, "evenings").await.is_err(), "the queue tries again");
    *server.refuses.lock().unwrap() = None;
    work(&controller, "evenings").await.unwrap();
    assert_eq!(controller.troubles.all(), []);
}
