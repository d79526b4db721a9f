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
//! 26 KiB for each of 5 000 nodes, and 13 KiB for each of 10 000. All of it together stays below the 1 GiB that the chart gives. It is
//! held once, whichever bindings follow it.
//!
//! # Failure story
//!
//! What is too large is not read by half: a pod that is left out would make its node look larger than it is. The watch ends, and each
//! follower is shown that what it knows may be old: the list counts as not read (nothing is made, enlarged, evicted or deleted, and
//! leases are renewed), and each binding says which bound was met. After some minutes it is listed again.

use std::time::Duration;

use topoloom_cluster::{Refusal, RefusalReason};

/// After this time what was too large is listed again: each try costs the lists up to the bound.
pub(super) const AGAIN: Duration = Duration::from_secs(300);

/// What is held of some objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Held {
    /// How many objects.
    pub(super) objects: usize,
    /// How many bytes of texts, of kinds that are kept with their texts.
    pub(super) bytes: usize,
}

impl Held {
    /// One more, with so many bytes of texts.
    pub(super) fn add(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// One less.
    pub(super) fn take(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// The larger one of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self { objects: self.objects.max(other.objects), bytes: self.bytes.max(other.bytes) }
    }

    /// Half of each.
    pub(super) fn half(self) -> Self {
        Self { objects: self.objects / 2, bytes: self.bytes / 2 }
    }
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
}
