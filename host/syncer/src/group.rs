//! The tasks of one binding, from its take-over to its end (decisions S11, S15, S21).
//!
//! Owns the order of the take-over: first the leases of the nodes that are there are renewed, then both clusters are listed, then
//! nodes and pods are decided about. Starts the watches of both sides, and the workers. Never reads or writes an object by
//! itself but for the first list of virtual nodes.
//!
//! # Failure story
//!
//! The group runs until it is stopped. A cluster that was gone and answers again is listed anew: its watches are ended and
//! opened again, since what they show after a gap may leave out what happened in it. If the virtual API server does not answer
//! the first lists, they are tried again; until then nothing is decided.

use std::sync::{Arc, PoisonError};

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::ListParams;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topoloom_cluster::pause::Pauses;
use topoloom_cluster::watches::Config;
use topoloom_cluster::work::{self, WorkQueue, run_workers};
use topoloom_cluster::{Refusal, Restores, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::liveness::{Doubt, Listed, Reach};

use crate::csi::CsiNodes;
use crate::feeds::{
    Feed, LentCsiNodes, LentNodes, LentPods, OurPods, PhysicalCsiNodes, PhysicalNodes, PhysicalPods, SharedView,
    WatchNews, follow,
};
use crate::heartbeats::{Heartbeats, Memory};
use crate::ledger::PhysicalName;
use crate::nodes::{Leases, Nodes};
use crate::physical::Physical;
use crate::pods::{self, Pods};
use crate::slices::csi::CsiNodeSlice;
use crate::slices::node::NodeSlice;
use crate::view::CsiTrouble;

/// Pods that use no room, which need not be watched unless they are ours.
const USES_ROOM: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// What the tasks of a binding need.
pub struct Group {
    /// What is known.
    pub view: SharedView,
    /// The nodes that wait for a look.
    pub queue: WorkQueue<PhysicalName>,
    /// How they are looked at.
    pub nodes: Arc<Nodes<Heartbeats>>,
    /// How pods are looked at.
    pub pods: Arc<Pods>,
    /// The CSINodes that wait for a look, by physical node.
    pub csi_queue: WorkQueue<PhysicalName>,
    /// How they are looked at.
    pub csi_nodes: Arc<CsiNodes>,
    /// The leases of its virtual nodes.
    pub heartbeats: Heartbeats,
    /// The connection to the physical cluster.
    pub physical: Arc<Physical>,
    /// Reads of the virtual cluster.
    pub lent: kube::Client,
    /// The watches of the virtual cluster.
    pub restores: Restores,
    /// Metrics of the workers.
    pub work: work::Options,
}

impl Leases for Heartbeats {
    fn start(&self, node: &NodeName, uid: &Uid) {
        if let Err(error) = Self::start(self, node, uid) {
            tracing::warn!(%node, %error, "the lease of a virtual node cannot be renewed");
        }
    }

    async fn stop(&self, node: &NodeName) {
        Self::stop(self, node, Memory::Kept).await;
    }
}

impl Group {
    /// Runs until it is stopped. Leases stay as they are then: the next holder of the binding renews them.
    pub async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.take_over_and_work(&stop) => {}
        }
    }

    async fn take_over_and_work(&self, stop: &CancellationToken) {
        self.adopt_leases().await;
        let identity = self.identity();
        let mut tasks = JoinSet::new();
        for task in self.lent_watches(&identity) {
            tasks.spawn(task);
        }
        let workers = run_workers(self.queue.clone(), self.work.clone(), Arc::clone(&self.nodes), stop.clone());
        let of_pods = work::Options { workers: pods::WORKERS, ..self.work.clone() };
        let queue = self.pods.inbox().queue().clone();
        let pod_workers = run_workers(queue, of_pods, Arc::clone(&self.pods), stop.clone());
        let csi_workers =
            run_workers(self.csi_queue.clone(), self.work.clone(), Arc::clone(&self.csi_nodes), stop.clone());
        let csi_nodes = async { tokio::join!(self.queue_csi_nodes(), csi_workers) };
        tokio::join!(self.physical_watches(&identity), self.follow_reach(), workers, pod_workers, csi_nodes);
    }

    fn identity(&self) -> Identity {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).binding.identity.clone()
    }

    /// The first thing after a take-over: every lease that is there is renewed before anything is read of the physical cluster.
    async fn adopt_leases(&self) {
        let mut pauses = Pauses::default();
        loop {
            match self.stored_leases().await {
                Ok(()) => return,
                Err(refusal) => {
                    tracing::warn!(reason = refusal.reason.as_str(), error = %refusal, "the leases of a binding cannot be listed");
                    let pause = pauses.failed(tokio::time::Instant::now(), refusal.retry_after);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    async fn stored_leases(&self) -> Result<(), Refusal> {
        let stored = self.heartbeats.stored().await?;
        let api: Api<core_v1::Node> = Api::all(self.lent.clone());
        let list = ListParams::default().labels(&of_binding(&self.identity()));
        let nodes = api.list_metadata(&list).await.map_err(|error| Refusal::of(&error))?;
        let named = nodes.items.into_iter().filter_map(|node| {
            let (name, uid) = (node.metadata.name?, node.metadata.uid?);
            Some((NodeName::from(name.as_str()), Uid::from(uid.as_str())))
        });
        for error in self.heartbeats.adopt(&stored, named) {
            tracing::warn!(%error, "the lease of a virtual node cannot be renewed");
        }
        Ok(())
    }

    /// The watches of the virtual cluster.
    fn lent_watches(&self, identity: &Identity) -> Vec<futures::future::BoxFuture<'static, ()>> {
        let config = Config::of(&self.restores);
        let nodes: Api<NodeSlice> = Api::all(self.lent.clone());
        let of_binding = of_binding(identity);
        let index = Feed::<LentNodes>::of(&self.view);
        let nodes = follow(nodes, config.clone().labels(&of_binding), index, self.queue.clone(), |_| ());
        let csi_nodes = follow(
            Api::<CsiNodeSlice>::all(self.lent.clone()),
            config.clone().labels(&of_binding),
            Feed::<LentCsiNodes>::of(&self.view),
            self.queue.clone(),
            csi_news(&self.view, Side::Virtual),
        );
        let pods = follow(
            Api::all(self.lent.clone()),
            config.fields("spec.nodeName!="),
            LentPods::new(&self.view, self.pods.inbox().clone()),
            self.queue.clone(),
            |_| (),
        );
        vec![Box::pin(nodes), Box::pin(csi_nodes), Box::pin(pods)]
    }

    /// The watches of the physical cluster, opened again whenever it has been gone.
    async fn physical_watches(&self, identity: &Identity) {
        let client = self.physical.connection().reads().clone();
        let mut reach = self.physical.signs().changes();
        loop {
            let config = Config::of(self.physical.restores()).heard(&self.physical.signs().heard());
            let ours = format!("{}={}", keys::VIRTUAL_CLUSTER, &**identity.virtual_cluster());
            let others = format!("{}!={}", keys::VIRTUAL_CLUSTER, &**identity.virtual_cluster());
            let [our_pods, other_pods] = PhysicalPods::both(&self.view);
            let lists = Arc::new(Lists::default());
            let listed = |which: usize| {
                let (lists, signs) = (Arc::clone(&lists), self.physical.signs().clone());
                move |news: WatchNews<'_>| {
                    if matches!(news, WatchNews::Listed) && lists.add(which) {
                        signs.listed(Listed::Some);
                    }
                }
            };
            let our_pods = OurPods::new(our_pods, self.pods.inbox().clone());
            let all = async {
                tokio::join!(
                    follow(
                        Api::<NodeSlice>::all(client.clone()),
                        config.clone(),
                        Feed::<PhysicalNodes>::of(&self.view),
                        self.queue.clone(),
                        listed(0),
                    ),
                    follow(
                        Api::all(client.clone()),
                        config.clone().labels(&ours),
                        our_pods,
                        self.queue.clone(),
                        listed(1),
                    ),
                    follow(
                        Api::all(client.clone()),
                        config.clone().labels(&others).fields(USES_ROOM),
                        other_pods,
                        self.queue.clone(),
                        listed(2),
                    ),
                    // Not one of the lists that make the cluster reachable: where the right to read CSINodes is missing no list of
                    // them is ever whole, and the nodes have to be lent all the same. What depends on CSINodes waits for this list
                    // by itself (`view::CsiView`).
                    follow(
                        Api::<CsiNodeSlice>::all(client.clone()),
                        config.clone(),
                        Feed::<PhysicalCsiNodes>::of(&self.view),
                        self.queue.clone(),
                        csi_news(&self.view, Side::Physical),
                    ),
                )
            };
            tokio::select! {
                _ = all => {}
                () = returned(&mut reach) => {}
            }
        }
    }

    /// The view says which CSINodes something happened to, whatever it was: a CSINode, its node, or what allows writes.
    async fn queue_csi_nodes(&self) {
        let news = self.view.lock().unwrap_or_else(PoisonError::into_inner).csi.news();
        loop {
            let due = self.view.lock().unwrap_or_else(PoisonError::into_inner).csi.take_due();
            for name in due {
                // A full queue is counted, and the next sweep adds what it refused.
                let _refused = self.csi_queue.add(name);
            }
            news.notified().await;
        }
    }

    /// What the connection allows is what the view allows.
    async fn follow_reach(&self) {
        let mut changes = self.physical.signs().changes();
        loop {
            let reach = *changes.borrow_and_update();
            {
                let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
                view.reach = reach;
                let bars: Bars = Bar::of(reach).into_iter().collect();
                view.bars = bars;
                for name in view.all() {
                    // A full queue is counted, and the next sweep adds what it refused.
                    let _refused = self.queue.add(name);
                }
                view.look_at_csi_nodes();
            }
            self.pods.inbox().wake();
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

/// What the watches of CSINodes meet is kept in the view, for the conditions of the binding.
fn csi_news(view: &SharedView, side: Side) -> impl Fn(WatchNews<'_>) + Send + Sync + use<> {
    let view = Arc::clone(view);
    let trouble = match side {
        Side::Physical => CsiTrouble::Physical,
        Side::Virtual => CsiTrouble::Virtual,
    };
    move |news| {
        let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            WatchNews::Changed | WatchNews::Listed => view.csi.answered(trouble),
            WatchNews::Failed(refusal) => view.csi.refused(trouble, refusal.clone().on(side)),
        }
    }
}

/// Ends when a cluster that was gone answers again.
async fn returned(reach: &mut tokio::sync::watch::Receiver<Reach>) {
    let was_gone = |reach: &Reach| matches!(reach, Reach::Unreachable { .. });
    let is_back = |reach: &Reach| matches!(reach, Reach::Suspect(Doubt::NotListed));
    if reach.wait_for(was_gone).await.is_err() || reach.wait_for(is_back).await.is_err() {
        // The connection has ended, and with it this group.
        std::future::pending::<()>().await;
    }
}

fn of_binding(identity: &Identity) -> String {
    let labels = identity.labels();
    let label = |key: &str| labels.get(key).map(|value| format!("{key}={value}"));
    [keys::VIRTUAL_CLUSTER, keys::BINDING].into_iter().filter_map(label).collect::<Vec<_>>().join(",")
}

/// Which of the lists of a cluster were read to their end since it was opened, of those without which nothing is known about its
/// nodes.
#[derive(Debug, Default)]
struct Lists(std::sync::Mutex<std::collections::BTreeSet<usize>>);

impl Lists {
    /// How many there are.
    const ALL: usize = 3;

    /// One was. Whether all were, then.
    fn add(&self, which: usize) -> bool {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.insert(which);
        lists.len() == Self::ALL
    }
}
