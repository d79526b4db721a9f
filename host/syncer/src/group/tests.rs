use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use futures::FutureExt as _;
use serde_json::{Value, json};
use topoloom_cluster::requests;
use topoloom_sync::liveness::ContactTiming;

use super::*;
use crate::kubeconfig::tests::access;
use crate::physical::{Clock, Dialer, Registry};

#[tokio::test]
async fn a_watch_of_the_virtual_cluster_that_crashes_takes_its_group_with_it() {
    let mut tasks: JoinSet<()> = JoinSet::new();
    tasks.spawn(async {});
    tokio::task::yield_now().await;
    assert!(crashed(&mut tasks).now_or_never().is_none(), "one that has ended otherwise");
    tasks.spawn(async {
        panic!("a mistake");
    });
    let panic = AssertUnwindSafe(crashed(&mut tasks)).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a mistake"));
}

#[tokio::test]
async fn s11_the_virtual_nodes_of_a_binding_are_listed_page_by_page_at_a_take_over() {
    let serve = |request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let node = |number: usize| json!({"metadata": {"name": format!("n{number}"), "uid": format!("u{number}")}});
        let (items, next) = match query.contains("continue=") {
            false => ((0..500).map(node).collect::<Vec<Value>>(), "500"),
            true => (vec![node(500)], ""),
        };
        // All at once would be too much.
        let code = if query.contains("limit=500") { 200 } else { 500 };
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": items});
        let body = kube::client::Body::from(list.to_string().into_bytes());
        async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
    };
    let client = kube::Client::new(tower::service_fn(serve), "default");
    let nodes = lent_nodes(&client, &crate::view::examples::binding().identity).await.unwrap();
    assert_eq!((nodes.len(), nodes.last()), (501, Some(&("n500".into(), "u500".into()))));
}

#[tokio::test]
async fn s5_each_connection_and_each_return_of_its_cluster_begins_anew() {
    let passed = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&passed);
    let clock = Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
    let metrics = requests::Metrics::register(&mut prometheus_client::registry::Registry::default());
    let connections = Registry::new(Dialer::new(&metrics, 1), clock);
    // Names that never resolve (RFC 6761, 6.4).
    let physical = |cluster: &str| {
        let connection = connections.open(&access(&format!("https://{cluster}.invalid:6443"), "t")).unwrap();
        connections.share(&cluster.into(), connection, ContactTiming::default())
    };
    let (first, second) = (physical("c1"), physical("c2"));
    let (sender, begun) = (watch::Sender::new(None), Mutex::new(Vec::new()));
    let begins =
        |physical: &Physical, epoch: Epoch| begun.lock().unwrap().push((physical.cluster().to_string(), epoch));
    let mut watches = std::pin::pin!(connected(sender.subscribe(), begins, |_, _| std::future::pending()));
    let mut look = || {
        assert!(watches.as_mut().now_or_never().is_none());
        std::mem::take(&mut *begun.lock().unwrap())
    };
    assert!(look().is_empty());
    sender.send_replace(Some(Arc::clone(&first)));
    let epoch = first.signs().epoch();
    assert_eq!(look(), [("c1".to_owned(), epoch)]);
    assert!(look().is_empty());
    passed.store(100, Ordering::Relaxed);
    first.signs().answered();
    assert_ne!(first.signs().epoch(), epoch);
    assert_eq!(look(), [("c1".to_owned(), first.signs().epoch())]);
    sender.send_replace(Some(Arc::clone(&second)));
    assert_eq!(look(), [("c2".to_owned(), second.signs().epoch())]);
}
