//! How much of what another party stores is held.
//!
//! Owns the bounds of a watch of a physical cluster, and what counts against them: objects, and for those that are kept with their
//! texts their bytes, too. Each page of a list is bounded, and each pod is reduced to a row ([`slices`](crate::slices)); without these
//! bounds the number of both would be the lender's to choose.
//!
//! # How the numbers were chosen
//!
//! Lending is built for 5 000 nodes and 100 000 pods, and Kubernetes supports clusters of 5 000 nodes and 150 000 pods. The bounds are
//! twice the first, so that no cluster that is supported meets them. A row of a pod of ours takes about 1 KiB and one of another pod
//! 200 bytes; a node is kept with its labels and annotations, some 5 KiB of them, and twice while a list replaces another: 128 MiB leave
//! 26 KiB for each of 5 000 nodes, and 13 KiB for each of 10 000. All of it together stays below the 1 GiB that the chart gives.
//!
//! # Failure story
//!
//! What is too large is not read by half: a pod that is left out would make its node look larger than it is. The watch ends, its
//! lists count as not read (nothing is made, enlarged, evicted or deleted, and leases are renewed), and the binding says which bound
//! was met. After some minutes it is listed again.

use std::time::Duration;

use topoloom_cluster::watched::Index;
use topoloom_cluster::{Refusal, RefusalReason};

use crate::ledger::Touched;

/// After this time what was too large is listed again: each try costs the lists up to the bound.
pub(super) const AGAIN: Duration = Duration::from_secs(300);

/// What a cache holds, or a list that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// How many objects.
    pub objects: usize,
    /// How many bytes of texts, of kinds that are kept with their texts.
    pub bytes: usize,
}

/// The most that is held of the objects of one watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// How many objects.
    objects: usize,
    /// How many bytes of texts.
    bytes: usize,
}

impl Most {
    /// Physical nodes, and their CSINodes.
    pub const NODES: Self = Self { objects: 10_000, bytes: 128 << 20 };
    /// Physical pods: those of ours, and all others that use room.
    pub const PODS: Self = Self { objects: 200_000, bytes: usize::MAX };
    /// Policies.
    pub const POLICIES: Self = Self { objects: 20_000, bytes: usize::MAX };
    /// What is in the virtual cluster, which is our own.
    pub const ALL: Self = Self { objects: usize::MAX, bytes: usize::MAX };

    /// Nothing where this much may be held of the objects with this plural.
    pub(super) fn refuse(self, held: Held, plural: &str) -> Option<Refusal> {
        let message = if held.objects > self.objects {
            format!("there are more than {} {plural}, and no more are read", self.objects)
        } else if held.bytes > self.bytes {
            format!("its {plural} have more than {} MiB of labels, annotations and status", self.bytes >> 20)
        } else {
            return None;
        };
        Some(Refusal { reason: RefusalReason::TooLarge, message, retry_after: None })
    }
}

/// A cache that knows how much it holds.
pub trait Holds<K>: Index<K, Change = Touched> {
    /// What it holds.
    fn held(&self) -> Held;

    /// What a list that is under way holds.
    fn listed(list: &Self::List) -> Held;

    /// A list was too large, and is given up. What was taken in of it before its end is forgotten again, as far as that is needed for
    /// the next one to have room.
    fn cut(&mut self, list: Self::List) -> Touched;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use futures::StreamExt as _;
    use futures::stream::{self, BoxStream};
    use http::{Request, Response};
    use http_body_util::{Either, Full, StreamBody};
    use hyper::body::{Bytes, Frame};
    use kube::Api;
    use kube::client::Body;
    use serde_json::{Value, json};
    use topoloom_cluster::Restores;
    use topoloom_cluster::watches::Config;
    use topoloom_cluster::work::WorkQueue;
    use topoloom_core::queue::Limiter;

    use super::super::{Feed, PhysicalNodes, PhysicalPods, SharedView, WatchNews, follow};
    use super::*;
    use crate::slices::node::NodeSlice;
    use crate::slices::pod::PodSlice;
    use crate::view::examples;

    #[test]
    fn what_is_too_large_is_said_with_the_bound_and_what_lending_is_built_for_fits() {
        let said = |most: Most, held: Held| most.refuse(held, "nodes").map(|refusal| refusal.to_string());
        let built_for = Held { objects: 5_000, bytes: 5_000 * (20 << 10) };
        assert_eq!(said(Most::NODES, built_for), None);
        assert_eq!(said(Most::PODS, Held { objects: 100_000, bytes: 0 }), None);
        let many = Held { objects: 10_001, bytes: 0 };
        assert_eq!(said(Most::NODES, many).as_deref(), Some("there are more than 10000 nodes, and no more are read"));
        let heavy = Held { objects: 1, bytes: (128 << 20) + 1 };
        let wanted = "its nodes have more than 128 MiB of labels, annotations and status";
        assert_eq!(said(Most::NODES, heavy).as_deref(), Some(wanted));
        assert_eq!(said(Most::ALL, Held { objects: usize::MAX, bytes: usize::MAX }), None);
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

    /// A watch of the nodes of this server, of which so many are held, and what it reports.
    fn follows(server: &Server, objects: usize) -> (SharedView, Arc<Mutex<Vec<String>>>) {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let index = Feed::<PhysicalNodes>::of(&view);
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let says = Arc::clone(&said);
        let report = move |news: WatchNews<'_>| {
            says.lock().unwrap().push(match news {
                WatchNews::Begins => "begins".to_owned(),
                WatchNews::Changed => "changed".to_owned(),
                WatchNews::Listed => "listed".to_owned(),
                WatchNews::Opened => "opened".to_owned(),
                WatchNews::Failed(refusal) => refusal.to_string(),
            });
        };
        let queue = WorkQueue::new("nodes", 100.try_into().unwrap(), Limiter::default());
        let (api, config) = (Api::<NodeSlice>::all(server.client()), Config::of(&Restores::default()));
        let most = Most { objects, bytes: usize::MAX };
        tokio::spawn(follow(api, config, most, index, queue, report));
        (view, said)
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
        let (view, reported) = follows(&server, 3);
        tokio::time::sleep(AGAIN - Duration::from_secs(1)).await;
        assert_eq!(said(&reported), ["begins", "there are more than 3 nodes, and no more are read"]);
        assert_eq!((server.lists.load(Ordering::SeqCst), knows(&view, "w1"), knows(&view, "n0")), (1, true, false));
        server.nodes.store(3, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(said(&reported), ["begins", "listed", "opened"]);
        assert_eq!((server.lists.load(Ordering::SeqCst), knows(&view, "w1"), knows(&view, "n2")), (2, false, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_shows_more_and_more_ends_at_the_bound() {
        let server = Server::default();
        server.nodes.store(2, Ordering::SeqCst);
        server.more.store(1_000, Ordering::SeqCst);
        let (view, reported) = follows(&server, 3);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = said(&reported);
        assert_eq!(
            all.last().map(String::as_str),
            Some("there are more than 3 nodes, and no more are read"),
            "{all:?}"
        );
        assert!(knows(&view, "m1") && !knows(&view, "m2"), "no more is read of it");
    }

    #[test]
    fn what_is_held_follows_each_list_change_and_deletion_also_of_what_cannot_be_read() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let mut index = Feed::<PhysicalNodes>::of(&view);
        let read = |node: Value| -> NodeSlice { serde_json::from_value(node).unwrap() };
        let broken = || {
            let mut node = node("n2", 100);
            node["status"] = json!({"allocatable": {"cpu": "many"}});
            read(node)
        };
        let held = |index: &Feed<PhysicalNodes>| (index.held().objects, index.held().bytes);
        let weight = read(node("n1", 10)).weight();
        let mut list = index.begin(topoloom_cluster::watched::Earlier::Valid);
        index.list(&mut list, read(node("n1", 10)));
        index.list(&mut list, broken());
        let under_way = Feed::<PhysicalNodes>::listed(&list);
        assert_eq!((under_way.objects, under_way.bytes), (2, weight + broken().weight()));
        assert_eq!(held(&index), (0, 0));
        index.reset(list, &"9".into());
        assert_eq!(held(&index), (2, weight + broken().weight()));
        index.apply(read(node("n1", 110)));
        assert_eq!(held(&index), (2, weight + 100 + broken().weight()));
        index.delete(broken());
        index.delete(read(node("n1", 10)));
        assert_eq!(held(&index), (0, 0));
    }

    #[test]
    fn a_list_of_pods_that_is_given_up_leaves_no_more_behind_than_it_named() {
        let view: SharedView = Arc::new(Mutex::new(examples::view(1)));
        let [_, mut index] = PhysicalPods::both(&view);
        let pod = |number: usize| -> PodSlice {
            serde_json::from_value(json!({
                "metadata": {"namespace": "a", "name": format!("p{number}"), "uid": format!("p{number}")},
                "spec": {"nodeName": "w1", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": "Running"},
            }))
            .unwrap()
        };
        // Each list names others, and none comes to its end.
        for round in 0..10 {
            let mut list = index.begin(topoloom_cluster::watched::Earlier::Valid);
            (0..5).for_each(|number| index.list(&mut list, pod(5 * round + number)));
            assert_eq!(PhysicalPods::listed(&list).objects, 5);
            index.cut(list);
            assert_eq!(
                (index.held().objects, view.lock().unwrap().ledger.used("w1")["cpu"].to_string()),
                (5, "5".into())
            );
        }
    }
}
