//! The controller waits while there are no definitions, and begins with the first list.

use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;

use super::super::bindings::BindingMeta;
use super::*;
use crate::manager::health;

/// What the API server answers to a list.
#[derive(Clone)]
enum Answer {
    Refused(u16, &'static str, &'static str),
    Listed(Value),
}

/// An API server whose answer to lists a test sets, and whose watches stay silent.
fn server(answer: &Arc<Mutex<Answer>>) -> kube::Client {
    let answer = Arc::clone(answer);
    let serve = move |request: Request<Body>| {
        let answer = answer.lock().unwrap().clone();
        assert_eq!(request.uri().path(), "/apis/topoloom.dev/v1alpha1/clusterbindings");
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        async move {
            if watches {
                std::future::pending::<()>().await;
            }
            let (code, body) = match answer {
                Answer::Refused(code, reason, message) => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": message, "reason": reason, "code": code,
                    });
                    (code, status)
                }
                Answer::Listed(items) => {
                    let list = json!({
                        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                        "metadata": {"resourceVersion": "7"}, "items": items,
                    });
                    (200, list)
                }
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    };
    kube::Client::new(tower::service_fn(serve), "default")
}

fn object(name: &str, uid: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": name, "uid": uid, "resourceVersion": "5"},
    })
}

const ABSENT: Answer = Answer::Refused(404, "NotFound", "the server could not find the requested resource");
const FORBIDDEN: Answer = Answer::Refused(
    403,
    "Forbidden",
    "clusterbindings.topoloom.dev is forbidden: User \"x\" cannot list resource \"clusterbindings\" in API group \
     \"topoloom.dev\" at the cluster scope",
);

#[tokio::test(start_paused = true)]
async fn m1_the_controller_waits_while_bindings_cannot_be_had_and_goes_on_with_the_first_list() {
    let answer = Arc::new(Mutex::new(ABSENT));
    let health = Health::default();
    let check: Check = health.optional_of_controller("clusterbindings", BOTTOMUP_SYNCER).into();
    let (sender, bindings) = watch::channel(None);
    let mut tasks = Tasks::default();
    tasks.spawn("bindings", bindings::watch(server(&answer), Restores::default(), check, Work::BesideOthers, sender));
    let says = |words: &str| {
        let (ready, text) = health.report();
        assert!(ready && text.contains(words), "{words}: {text}");
    };
    tokio::time::sleep(S).await;
    says("[-] controller bottomup-syncer waiting: clusterbindings.topoloom.dev is absent: ");
    assert!(bindings.borrow().is_none());
    *answer.lock().unwrap() = FORBIDDEN;
    tokio::time::sleep(60 * S).await;
    says("[-] controller bottomup-syncer waiting: clusterbindings.topoloom.dev may not be read: ");
    says("ClusterRole: {apiGroups: [\"topoloom.dev\"], resources: [\"clusterbindings\"], verbs: [\"list\"]}");
    *answer.lock().unwrap() = Answer::Listed(json!([object("east", "u1"), object("west", "u2")]));
    tokio::time::sleep(60 * S).await;
    says("[+] controller bottomup-syncer runs\n");
    assert_eq!(*bindings.borrow(), Some(super::bindings(&[("east", "u1"), ("west", "u2")])));
    assert_eq!(health.controllers().get(BOTTOMUP_SYNCER), Some(&health::Controller::Running));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_no_failure_of_bindings_where_none_was_ever_read_and_other_controllers_run() {
    for (work, words) in [
        (Work::BesideOthers, "[-] clusterbindings absent: not needed yet\n"),
        (Work::BindingsAlone, "[ ] clusterbindings starting: the server is shutting down\n"),
    ] {
        for (code, reason) in [(503, "ServiceUnavailable"), (429, "TooManyRequests")] {
            let health = Health::default();
            let check: Check = match work {
                Work::BesideOthers => health.optional_of_controller("clusterbindings", BOTTOMUP_SYNCER).into(),
                Work::BindingsAlone => health.check_of_bindings_alone("clusterbindings", BOTTOMUP_SYNCER).into(),
            };
            let (sender, _bindings) = watch::channel(None);
            let server = server(&Arc::new(Mutex::new(Answer::Refused(code, reason, "the server is shutting down"))));
            let mut tasks = Tasks::default();
            tasks.spawn("bindings", bindings::watch(server, Restores::default(), check, work, sender));
            tokio::time::sleep(60 * S).await;
            assert_eq!(health.report(), (work == Work::BesideOthers, words.to_owned()), "{work:?} {code}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s11_a_process_for_bindings_alone_is_not_ready_while_it_may_not_read_them_and_never_could() {
    let answer = Arc::new(Mutex::new(FORBIDDEN));
    let health = Health::default();
    let check: Check = health.check_of_bindings_alone("clusterbindings", BOTTOMUP_SYNCER).into();
    let (sender, bindings) = watch::channel(None);
    let mut tasks = Tasks::default();
    let watched = bindings::watch(server(&answer), Restores::default(), check, Work::BindingsAlone, sender);
    tasks.spawn("bindings", watched);
    let says = |is_ready: bool, words: &str| {
        let (ready, text) = health.report();
        assert!(ready == is_ready && text.contains(words), "{words}: {text}");
    };
    says(false, "[ ] clusterbindings starting: waiting\n");
    tokio::time::sleep(S).await;
    says(false, "[ ] clusterbindings starting: clusterbindings.topoloom.dev is forbidden: ");
    *answer.lock().unwrap() = Answer::Listed(json!([object("east", "u1")]));
    tokio::time::sleep(60 * S).await;
    says(true, "[+] clusterbindings ok\n");
    assert!(bindings.borrow().is_some());
    // Where there is no definition, there is nothing to serve.
    let health = Health::default();
    let check: Check = health.check_of_bindings_alone("clusterbindings", BOTTOMUP_SYNCER).into();
    let (sender, _bindings) = watch::channel(None);
    let absent = server(&Arc::new(Mutex::new(ABSENT)));
    tasks.spawn("bindings", bindings::watch(absent, Restores::default(), check, Work::BindingsAlone, sender));
    tokio::time::sleep(S).await;
    let (ready, text) = health.report();
    let waits = "[-] controller bottomup-syncer waiting: clusterbindings.topoloom.dev is absent: ";
    assert!(ready && text.contains(waits), "{text}");
}

/// The controller of this replica, beside others, at a server that answers this.
fn parts(replica: &Replica, answer: &Arc<Mutex<Answer>>) -> LendingParts {
    LendingParts {
        office: Arc::clone(&replica.office),
        own: None,
        reads: server(answer),
        client: server(answer),
        restores: Restores::default(),
        check: replica.health.optional_of_controller("clusterbindings", BOTTOMUP_SYNCER).into(),
        work: Work::BesideOthers,
    }
}

#[tokio::test(start_paused = true)]
async fn s11_s26_what_a_replica_serves_begins_with_it_and_what_it_keeps_warm_with_the_first_binding() {
    let (answer, replica) = (Arc::new(Mutex::new(ABSENT)), Replica::new());
    let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
    tasks.spawn_fallible("lending", parts(&replica, &answer).run(stop.clone()));
    tokio::time::sleep(60 * S).await;
    assert_eq!(replica.groups.told(), ["serving begins"]);
    *answer.lock().unwrap() = Answer::Listed(json!([object("east", "u1")]));
    tokio::time::sleep(60 * S).await;
    assert_eq!(replica.groups.told(), ["serving begins", "warm begins"]);
    replica.ballot.last("east", Staged::leads);
    tokio::time::sleep(S).await;
    stop.cancel();
    tasks.finish().await;
    // Groups need what is kept warm until they have ended.
    let told = replica.groups.told();
    let at = |what: &str| told.iter().position(|told| told.starts_with(what)).unwrap_or_else(|| panic!("{told:?}"));
    assert!(at("east/u1 ends") < at("warm ends") && at("serving ends") < at("east/u1 ends"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn s22_what_bindings_have_left_is_looked_for_once_bindings_can_be_listed_also_where_there_is_none() {
    let (answer, replica) = (Arc::new(Mutex::new(ABSENT)), Replica::new());
    *replica.groups.recorded.lock().unwrap() = vec![id("east", "u1")];
    let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
    tasks.spawn_fallible("lending", parts(&replica, &answer).run(stop.clone()));
    tokio::time::sleep(60 * S).await;
    assert_eq!((replica.ballot.counts(), replica.groups.told().len()), ((0, 0), 1), "nothing is known of bindings");
    *answer.lock().unwrap() = Answer::Listed(json!([]));
    tokio::time::sleep(60 * S).await;
    assert_eq!(replica.groups.told(), ["serving begins", "warm begins"]);
    replica.ballot.last("east", Staged::leads);
    tokio::time::sleep(S).await;
    assert_eq!((replica.groups.tasks(), replica.groups.held().binding), (2, id("east", "u1")));
    stop.cancel();
    tasks.finish().await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (1, 1)));
}

#[test]
fn that_bindings_cannot_be_read_any_more_ends_no_group_and_a_late_deletion_of_an_earlier_one_neither() {
    use crate::cluster::watched::{Earlier, Event, Watched};
    let of = |name: &str, uid: &str| -> BindingMeta { serde_json::from_value(object(name, uid)).unwrap() };
    let (mut watched, mut known) = (Watched::default(), bindings::Known::default());
    let mut take = |event: Event<BindingMeta>| {
        let _nothing = watched.take(&mut known, event);
    };
    take(Event::Init(Earlier::Valid));
    take(Event::InitApply(of("east", "u1")));
    take(Event::whole("7".into()));
    take(Event::Apply(of("west", "u2")));
    // Applied again, and the end of the earlier one is shown late.
    take(Event::Apply(of("east", "u3")));
    take(Event::Delete(of("east", "u1")));
    // A list that breaks off.
    take(Event::Init(Earlier::Valid));
    assert_eq!(known.0, super::bindings(&[("east", "u3"), ("west", "u2")]));
}

#[test]
fn it_is_known_when_a_binding_was_made() {
    use crate::cluster::watched::Index;
    let mut object = object("east", "u1");
    object["metadata"]["creationTimestamp"] = json!("2026-03-01T12:00:00Z");
    let mut known = bindings::Known::default();
    known.apply(serde_json::from_value(object).unwrap());
    let seen = Seen { uid: "u1".into(), created: Some("2026-03-01T12:00:00Z".parse().unwrap()) };
    assert_eq!(known.0.into_values().collect::<Vec<_>>(), [seen]);
}
