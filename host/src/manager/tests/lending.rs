//! The bottom-up syncer in its manager: what it is initialised with, and which gates its clients stand behind.

use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use topoloom_sync::naming::BindingName;
use topoloom_syncer::kubelet::{self, ClientAuthorities};

use super::*;
use crate::cluster::gate::Closed;
use crate::cluster::{Refusal, RefusalReason};
use crate::manager::election::staged::Staged;
use crate::manager::lending::{BindingId, BindingReport, BottomupSyncerController, HeldBinding};
use crate::manager::syncer::{self, Parts};

fn syncer() -> Box<dyn Controller> {
    Box::new(BottomupSyncerController::new(syncer::make()))
}

#[test]
fn every_controller_that_has_a_name_is_part_of_this_program() {
    assert_eq!(controllers().names(), OURS);
}

#[tokio::test]
async fn the_syncer_counts_shows_and_waits_for_nothing_before_there_is_a_binding() {
    let mut process = Process::new(options()).await;
    process.groups = Some(Arc::new(GroupElections::off("me".into(), &process.switch)));
    let ready = process.initialise(vec![syncer()]).unwrap();
    assert_eq!(ready.len(), 1);
    let (is_ready, said) = process.health.report();
    assert!(is_ready && said.contains("[-] virtual-cluster absent: not needed yet\n"), "{said}");
    assert!(!said.contains("syncer-kubelet"), "{said}");
    assert!(process.exposition().contains("topoloom_virtual_kubelet_open_streams{verb=\"exec\"} 0"));
}

#[tokio::test]
async fn s26_without_a_certificate_that_can_be_used_the_process_does_not_start_and_with_one_it_is_ready_when_it_serves()
{
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let served = |certificate: PathBuf, key: PathBuf| Options {
        lending: LendingOptions {
            kubelet: Some(kubelet::Options {
                address: Ipv4Addr::LOCALHOST.into(),
                port: 10_250,
                listen: (Ipv4Addr::LOCALHOST, 0).into(),
                certificate,
                key,
                clients: ClientAuthorities::Cluster,
            }),
            ..LendingOptions::default()
        },
        ..options()
    };
    let authority = topoloom_simulator::Authority::generate().unwrap();
    let issued = authority.serving(&["127.0.0.1"]).unwrap();
    let (good, key) = (file("tls.crt", &issued.certificate), file("tls.key", &issued.key));

    let mut process = Process::new(served(file("bad.crt", "no PEM"), key.clone())).await;
    process.groups = Some(Arc::new(GroupElections::off("me".into(), &process.switch)));
    let error = process.initialise(vec![syncer()]).err().expect("it is fatal").to_string();
    assert!(error.contains("bottomup-syncer") && error.contains("--syncer-tls-cert-file"), "{error}");

    let mut process = Process::new(served(good, key)).await;
    process.groups = Some(Arc::new(GroupElections::off("me".into(), &process.switch)));
    process.initialise(vec![syncer()]).unwrap();
    let (is_ready, said) = process.health.report();
    assert!(!is_ready && said.contains("[ ] syncer-kubelet starting: waiting\n"), "{said}");
}

/// What the syncer of a process is made of.
fn parts(process: &mut super::Process) -> Arc<Parts> {
    let made: Arc<Mutex<Option<Arc<Parts>>>> = Arc::default();
    let slot = Arc::clone(&made);
    let makes = fake("parts", move |mut context| {
        *slot.lock().unwrap() = Some(Arc::new(Parts::new(&mut context)?));
        Ok(Initialized::Waits(String::new()))
    });
    process.initialise(vec![makes]).unwrap();
    let parts = made.lock().unwrap().take();
    parts.unwrap()
}

async fn patch(client: &kube::Client) -> RefusalReason {
    let nodes: Api<Node> = Api::all(client.clone());
    let nothing = Patch::Merge(json!({"metadata": {"labels": {}}}));
    Refusal::of(&nodes.patch("n", &PatchParams::default(), &nothing).await.unwrap_err()).reason
}

#[tokio::test]
async fn s27_heartbeats_have_a_gate_that_no_switch_closes_and_everything_else_stands_behind_both() {
    let mut process = Process::new(options()).await;
    let parts = parts(&mut process);
    let staged = Staged::binding("east", Duration::ZERO);
    let id = BindingId { name: BindingName::parse("east").unwrap(), uid: "u1".into() };
    let switch = staged.election.gate().switch().clone();
    let held = HeldBinding {
        lease: staged.election.lease().cloned(),
        gate: staged.election.gate().clone(),
        heartbeats: staged.election.held().clone(),
        report: BindingReport::new(&process.health, &id),
        binding: id,
    };
    let holding = parts.holding(&held).await.unwrap();
    assert_eq!((holding.lease.namespace.as_str(), holding.lease.name.as_str()), ("default", "test-binding-east"));
    let both = async || (patch(&holding.lent).await, patch(&holding.beats).await);
    // Nothing listens where its API server should be.
    let (closed, sent) = (RefusalReason::NotLeader, RefusalReason::Unreachable);
    assert_eq!(both().await, (closed, closed));
    staged.leads();
    assert_eq!(both().await, (sent, sent));
    switch.set(ReadOnly::Yes);
    assert_eq!(both().await, (RefusalReason::ReadOnly, sent));
    assert_eq!(holding.gate.check(), Err(Closed::ReadOnly), "and so are the writers of its physical cluster");
    switch.set(ReadOnly::No);
    staged.election.gate().close();
    staged.election.held().close();
    assert_eq!(both().await, (closed, closed));

    // What is wrong with the binding is shown with it.
    process.health.binding(&"east".into(), staged.election.clone());
    (holding.tell)(Some("its cluster does not answer"));
    assert!(process.health.report().1.contains("; its cluster does not answer\n"), "{}", process.health.report().1);
    (holding.tell)(None);
    assert!(!process.health.report().1.contains("does not answer"));
}

#[tokio::test(start_paused = true)]
async fn s6_which_cluster_this_is_is_tried_again_until_it_is_known_and_fails_no_replica() {
    let answer = Arc::new(Mutex::new((403_u16, json!({}))));
    let answers = Arc::clone(&answer);
    let serve = move |request: Request<Body>| {
        assert_eq!(request.uri().path(), "/api/v1/namespaces/kube-system");
        let (code, metadata) = answers.lock().unwrap().clone();
        let forbidden = "namespaces \"kube-system\" is forbidden: User \"x\" cannot get resource \"namespaces\" in API group \
                         \"\" in the namespace \"kube-system\"";
        let body = match code {
            200 => json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}),
            _ => json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden",
                "message": forbidden, "code": code,
            }),
        };
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    };
    let client = kube::Client::new(tower::service_fn(serve), "default");
    let health = Health::default();
    let check: Check = health.optional("virtual-cluster").into();
    let mut tasks = Tasks::default();
    let (sender, mut found) = tokio::sync::oneshot::channel();
    let judged = check.clone();
    tasks.spawn("identity", async move {
        let _heard = sender.send(syncer::identity(&client, &judged).await);
    });
    for (code, uid, words) in [(403, "u", "namespaces \"kube-system\" is forbidden"), (200, "", "has no UID")] {
        *answer.lock().unwrap() = (code, json!({"uid": uid}));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (is_ready, said) = health.report();
        assert!(is_ready && said.contains("[!] virtual-cluster failing: ") && said.contains(words), "{said}");
        assert!(found.try_recv().is_err());
    }
    *answer.lock().unwrap() = (200, json!({"uid": "6f1b"}));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(&*found.try_recv().unwrap(), "6f1b");
    assert!(health.report().1.contains("[+] virtual-cluster ok\n"));
}
