use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use topoloom_cluster::Restores;
use topoloom_cluster::watches::Config;
use topoloom_cluster::work::WorkQueue;
use topoloom_core::queue::Limiter;
use topoloom_sync::liveness::Epoch;
use topoloom_sync::node::PhysicalNode;

use super::super::{Machines, SharedWatch, Stock};
use super::*;
use crate::feeds::{Feed, PhysicalNodes, SharedView, WatchNews, follow};
use crate::view::examples;

#[test]
fn what_is_too_large_is_said_with_the_bound_and_what_lending_is_built_for_fits() {
    let said = |most: Most, held: Held| most.refuse(held, "nodes", || None).map(|refusal| refusal.to_string());
    let built_for = Held { objects: 5_000, bytes: 5_000 * (20 << 10) };
    assert_eq!(said(Most::NODES, built_for), None);
    assert_eq!(said(Most::PODS, Held { objects: 100_000, bytes: 100_000 * 1_000 }), None);
    assert_eq!(said(Most::POLICIES, Held { objects: 10_000, bytes: 10_000 * 5_000 }), None);
    for most in [Most::NODES, Most::PODS, Most::POLICIES] {
        assert!(said(most, Held { objects: 1, bytes: usize::MAX }).is_some(), "another party chooses how large one is");
    }
    let many = Held { objects: 10_001, bytes: 0 };
    assert_eq!(said(Most::NODES, many).as_deref(), Some("there are more than 10000 nodes, and no more are read"));
    let heavy = Held { objects: 1, bytes: (128 << 20) + 1 };
    let wanted = "what is kept of its nodes is more than 128 MiB";
    assert_eq!(said(Most::NODES, heavy).as_deref(), Some(wanted));
    assert_eq!(said(Most::ALL, Held { objects: usize::MAX, bytes: usize::MAX }), None);
    let named = Most::PODS.refuse(heavy, "pods", || Some("team".into())).unwrap().message;
    assert_eq!(named, "what is kept of its pods is more than 128 MiB; the namespace team has most of them");
}

type Frames = BoxStream<'static, Result<Frame<Bytes>, Infallible>>;

fn node(name: &str, annotation: usize) -> Value {
    let annotations = json!({"a": "x".repeat(annotation)});
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": "5", "annotations": annotations}})
}

/// An API server with so many nodes, whose watches show so many more, and then nothing.
#[derive(Clone, Default)]
struct Server {
    nodes: Arc<AtomicUsize>,
    more: Arc<AtomicUsize>,
    lists: Arc<AtomicUsize>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let body = server.answer(request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    fn answer(&self, query: &str) -> Either<Full<Bytes>, StreamBody<Frames>> {
        if query.contains("watch=") {
            let more = self.more.load(Ordering::SeqCst);
            let added = |number: usize| {
                let line = json!({"type": "ADDED", "object": node(&format!("m{number}"), 10)});
                Ok(Frame::data(Bytes::from(format!("{line}\n"))))
            };
            let frames = stream::iter((0..more).map(added)).chain(stream::pending());
            return Either::Right(StreamBody::new(frames.boxed()));
        }
        if query.contains("limit=500") {
            self.lists.fetch_add(1, Ordering::SeqCst);
        }
        let nodes = self.nodes.load(Ordering::SeqCst);
        let items: Vec<Value> = (0..nodes).map(|number| node(&format!("n{number}"), 10)).collect();
        let metadata = json!({"resourceVersion": "7"});
        let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": metadata, "items": items});
        Either::Left(Full::from(list.to_string()))
    }
}

/// Two bindings that follow the nodes of this server, of which so many are held.
struct Followed {
    views: [SharedView; 2],
    said: [Arc<Mutex<Vec<String>>>; 2],
    stock: Arc<Stock<PhysicalNode>>,
    watch: SharedWatch<Machines>,
    tasks: JoinSet<()>,
}

fn follows(server: &Server, objects: usize) -> Followed {
    let (restores, most) = (Restores::default(), Most { objects, bytes: usize::MAX });
    let watch = SharedWatch::<Machines>::new(&server.client(), &restores, Config::of(&restores), None, most);
    let views = [(); 2].map(|()| Arc::new(Mutex::new(examples::view(1))));
    let said = [(); 2].map(|()| Arc::default());
    let mut tasks = JoinSet::new();
    for (view, said) in views.iter().zip(&said) {
        join(&mut tasks, &watch, view, said);
    }
    // Of the watch that runs for them.
    let stock = watch.subscribe(Epoch::default()).stock();
    Followed { views, said, stock, watch, tasks }
}

/// One more follows, and says what it is shown.
fn join(tasks: &mut JoinSet<()>, watch: &SharedWatch<Machines>, view: &SharedView, said: &Arc<Mutex<Vec<String>>>) {
    let (index, says) = (Feed::<PhysicalNodes>::of(view), Arc::clone(said));
    let report = move |news: WatchNews<'_>| {
        says.lock().unwrap().push(match news {
            WatchNews::Changed => "changed".to_owned(),
            WatchNews::Listed(_) => "listed".to_owned(),
            WatchNews::Opened(_) => "opened".to_owned(),
            WatchNews::Failed(refusal) => refusal.to_string(),
        });
    };
    let queue = WorkQueue::new("nodes", 100.try_into().unwrap(), Limiter::default());
    tasks.spawn(follow(watch.subscribe(Epoch::default()), index, queue, report));
}

fn said(of: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut of.lock().unwrap())
}

fn knows(view: &SharedView, name: &str) -> bool {
    view.lock().unwrap().physical(name).is_some()
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_too_large_changes_nothing_and_is_read_again_some_minutes_later() {
    let server = Server::default();
    server.nodes.store(4, Ordering::SeqCst);
    let mut followed = follows(&server, 3);
    tokio::time::sleep(AGAIN - Duration::from_secs(1)).await;
    let refused = "there are more than 3 nodes, and no more are read";
    for (view, reported) in followed.views.iter().zip(&followed.said) {
        assert_eq!(said(reported), [refused]);
        assert!(knows(view, "w1") && !knows(view, "n0"));
    }
    // One that comes meanwhile has to know it, too.
    let (late, reported) = (Arc::new(Mutex::new(examples::view(1))), Arc::default());
    join(&mut followed.tasks, &followed.watch, &late, &reported);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(said(&reported), [refused]);
    assert_eq!(server.lists.load(Ordering::SeqCst), 1);
    server.nodes.store(3, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (view, reported) in followed.views.iter().chain([&late]).zip(followed.said.iter().chain([&reported])) {
        assert_eq!(said(reported), ["listed"]);
        assert!(!knows(view, "w1") && knows(view, "n2"));
    }
    assert_eq!(server.lists.load(Ordering::SeqCst), 2, "once for all");
    assert!(followed.stock.has("n2") && !followed.stock.has("n3"), "nothing is left of what was given up");
    // One that comes later sees what is there alone.
    let (later, reported) = (Arc::new(Mutex::new(examples::view(1))), Arc::default());
    join(&mut followed.tasks, &followed.watch, &later, &reported);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(said(&reported), ["listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_shows_more_and_more_ends_at_the_bound() {
    let server = Server::default();
    server.nodes.store(2, Ordering::SeqCst);
    server.more.store(1_000, Ordering::SeqCst);
    let followed = follows(&server, 3);
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (view, reported) in followed.views.iter().zip(&followed.said) {
        let all = said(reported);
        assert_eq!(
            all.last().map(String::as_str),
            Some("there are more than 3 nodes, and no more are read"),
            "{all:?}"
        );
        assert!(!knows(view, "m1"), "no more is read of it");
    }
    assert!(!followed.stock.has("m2") && !followed.stock.has("m999"));
}
