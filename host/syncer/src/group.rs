//! The tasks of one binding, from its take-over to its end (decisions S11, S15, S21).
//!
//! Owns the order of the take-over: first the leases of the nodes that are there are renewed, also those of nodes that
//! have lost labels of identity, then the virtual cluster is known, then the physical one, then nodes and pods are decided
//! about. Once the leases are known, both are listed at the same time. Follows the watches of both sides, which all bindings share ([`shared`](crate::shared)), and starts the workers.
//! Never reads or writes an object by itself but for the first list of virtual nodes. Which connection is used, and what may
//! be written, is the [binding's](crate::bindings) to say.
//!
//! # Failure story
//!
//! The group runs until it is stopped. A cluster that was gone and answers again is listed again: only lists that were asked for since
//! count, since what watches show after a gap may leave out what happened in it. A connection that replaces another one is
//! listed, too. Until then no list of the other connection counts, nor a list of before the gap, nor a policy: its windows may have been
//! moved. Where the store of the physical cluster was set back its watches list again by themselves; until all of them have,
//! the cluster counts as not listed ([`Lists`]), also where an operator has confirmed the restore earlier. If the virtual API
//! server does not answer the first lists, they are tried again; until then nothing is decided. A physical cluster that says that
//! it has no nodes, where some are known, is listed once more after half a minute before that counts. One that has more than is held
//! ([`Most`](crate::shared::Most)) counts as not listed, and so does one whose nodes or pods may not be watched any more, until that
//! watch works again: what is known of them may be old. Where many pods were shown
//! without what is copied of them, because that was taken before, they are listed once more, too. A watch that crashes ends the
//! group with it.

mod lists;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::pages::Pages;
use topoloom_cluster::pause::Pauses;
use topoloom_cluster::work::{self, WorkQueue, run_workers};
use topoloom_cluster::{Refusal, RefusalReason, Restores, Side};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::liveness::{Epoch, Listed};
use topoloom_sync::naming::{BindingName, label_value};
use topoloom_sync::node::PhysicalNode;

pub use self::lists::{Listing, Lists};
use crate::csi::CsiNodes;
use crate::feeds::{
    Feed, LentCsiNodes, LentNodes, LentPods, Machines, OurPods, PhysicalCsiNodes, PhysicalPods, SharedView, WatchNews,
    follow,
};
use crate::heartbeats::{Heartbeats, Memory};
use crate::ledger::{PhysicalName, PodStock, Touched};
use crate::nodes::{self, Leases, Nodes};
use crate::physical::Physical;
use crate::pods::{self, Inbox, Pods};
use crate::policies::{GonePolicies, PolicyFeed, PolicyName, PolicyStatuses};
use crate::ports::Placeholders;
use crate::shared::{LentWatches, ListMark, Stock, Subscription, makes_unknown};
use crate::slices::OnlyMetadata;
use crate::slices::pod::KnownPod;
use crate::troubles::{Thing, Troubles};
use crate::view::{Part, View};

/// Where more pods than this were shown without what is copied of them, a list costs less than to read each.
const UNREAD: usize = 100;

/// How long a page of the first list of virtual nodes may take: before it no lease is renewed, and a lease lasts for 40 s. An API server
/// that is gone without a farewell would hold it for minutes.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long nodes wait after a take-over until the physical cluster is known, each of which would be looked at with each of its lists. Where it
/// does not answer they are looked at without.
const FIRST_LISTS: Duration = Duration::from_secs(5);

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
    /// The virtual nodes whose placeholders for host ports wait for a look.
    pub port_queue: WorkQueue<NodeName>,
    /// How they are looked at.
    pub placeholders: Arc<Placeholders>,
    /// The leases of its virtual nodes.
    pub heartbeats: Heartbeats,
    /// The connection to the physical cluster that is watched; none as long as the binding does not allow it.
    pub physical: watch::Receiver<Option<Arc<Physical>>>,
    /// For how long a physical cluster has to say that it has no nodes any more (`spec.timing.empty`).
    pub empty: watch::Receiver<Duration>,
    /// Reads of the virtual cluster.
    pub lent: kube::Client,
    /// What is watched of the virtual cluster.
    pub watches: LentWatches,
    /// How often the virtual API server was set back.
    pub restores: Restores,
    /// Metrics of the workers.
    pub work: work::Options,
    /// The policies.
    pub policies: Lenders,
    /// What is refused.
    pub troubles: Troubles,
    /// Whether the physical cluster was listed since it was last connected.
    pub lists: Arc<Lists>,
}

/// The policies of a group.
pub struct Lenders {
    /// Their way into the view.
    pub feed: PolicyFeed,
    /// In which cluster they are.
    pub source: watch::Receiver<PolicySource>,
    /// Those whose status waits for a look.
    pub queue: WorkQueue<PolicyName>,
    /// How it is looked at.
    pub statuses: Arc<PolicyStatuses>,
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

    async fn forget(&self, node: &NodeName) {
        Self::stop(self, node, Memory::Dropped).await;
    }

    fn foreign(&self, node: &NodeName) -> Option<String> {
        self.foreign_of(node).map(|why| why.to_string())
    }
}

impl Group {
    /// Runs until it is stopped, and what is under way then has ended. Leases stay as they are: the next holder of the binding renews
    /// them.
    pub async fn run(self, stop: CancellationToken) {
        let identity = self.identity();
        let lent = Arc::new(Lists::new(2));
        // Aborted when dropped.
        let mut tasks = JoinSet::new();
        let take_over = async {
            // Nothing is read beside it: a list of thousands of pods would hold it up.
            self.adopt_leases().await;
            tasks.spawn(read_ahead(self.physical.clone(), identity.virtual_cluster().clone()));
            let (pods, shown) = self.lent_pods(&lent);
            tasks.spawn(pods);
            for task in self.lent_watches(&lent) {
                tasks.spawn(task);
            }
            // Before the virtual pods are known, each physical pod of ours would count as one that uses room.
            tokio::select! {
                () = lent.whole() => {}
                () = crashed(&mut tasks) => {}
            }
            self.drop_texts(&shown);
        };
        if stop.run_until_cancelled(take_over).await.is_none() {
            return;
        }
        let known = PhysicalPods::both(&self.view);
        let physical = connected(
            self.physical.clone(),
            |physical, epoch| {
                let of = (physical.signs().clone(), epoch);
                self.lists.begin_again(Some(of), history(physical.restores()));
                self.view().listed_again();
                self.view().leads_to(physical.cluster());
                // Their list is none of these: it may be refused, and what is known of them be of another connection.
                self.view().csi.begins();
            },
            |physical, epoch| self.physical_watches(physical, epoch, &identity, known.clone()),
        );
        let policies = self.policy_watch(&identity);
        // In this order: lists that another binding has taken are whole at once, and policies of another connection are forgotten before
        // anything counts as listed by this one.
        let shown = async { tokio::join!(biased; policies, physical, self.queue_csi_nodes(), self.queue_ports()) };
        tokio::select! {
            () = self.workers(&stop) => {}
            _ = shown => {}
            () = crashed(&mut tasks) => {}
        }
    }

    /// The workers of all queues, until they are stopped and what each does has ended.
    async fn workers(&self, stop: &CancellationToken) {
        let of_pods = work::Options { workers: pods::WORKERS, ..self.work.clone() };
        let of_nodes = work::Options { workers: nodes::WORKERS, ..self.work.clone() };
        let Lenders { queue: of_policies, work: lenders, statuses, .. } = &self.policies;
        let nodes = async {
            // Before that nothing follows for a node but that it is looked at again.
            let known = async { tokio::time::timeout(FIRST_LISTS, self.lists.whole()).await.is_ok() };
            let _is_known = stop.run_until_cancelled(known).await;
            run_workers(self.queue.clone(), of_nodes, Arc::clone(&self.nodes), stop.clone()).await;
        };
        tokio::join!(
            nodes,
            run_workers(of_policies.clone(), lenders.clone(), Arc::clone(statuses), stop.clone()),
            run_workers(self.pods.inbox().queue().clone(), of_pods, Arc::clone(&self.pods), stop.clone()),
            run_workers(self.csi_queue.clone(), self.work.clone(), Arc::clone(&self.csi_nodes), stop.clone()),
            run_workers(self.port_queue.clone(), self.work.clone(), Arc::clone(&self.placeholders), stop.clone()),
        );
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn identity(&self) -> Identity {
        self.view().binding.identity.clone()
    }

    fn look_at(&self, nodes: Touched) {
        for name in nodes {
            // A full queue is counted, and the next sweep adds what it refused.
            let _refused = self.queue.add(name);
        }
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
        let identity = self.identity();
        let leases = async {
            let stored = self.heartbeats.stored().await;
            (stored, self.heartbeats.wall())
        };
        let ((stored, listed), nodes) = tokio::join!(leases, lent_nodes(&self.lent, &identity));
        self.troubles.of_right(Thing::LeaseLists, Side::Virtual, &stored);
        let stored = stored?;
        self.troubles.of_right(Thing::LentNodeLists, Side::Virtual, &nodes);
        let named: BTreeMap<NodeName, Uid> = nodes?.into_iter().collect();
        let take_over = self.heartbeats.take_over(&stored, &named, listed);
        // A node that has lost a label of identity is in no such list. Until it was read live its lease is renewed.
        let of_ours = stored.iter().filter_map(|lease| lease.node_of(&identity));
        let left: Vec<(NodeName, Uid)> = of_ours.filter(|(name, _)| !named.contains_key(name)).collect();
        let touched = self.view().left_behind(left.clone());
        self.look_at(touched);
        for error in self.heartbeats.adopt(&stored, named.into_iter().chain(left)) {
            tracing::warn!(%error, "the lease of a virtual node cannot be renewed");
        }
        if let Some(take_over) = take_over {
            self.view().took_over(&take_over);
        }
        Ok(())
    }

    /// What follows the watches of the nodes of the virtual cluster. It has no epochs: while it does not answer nothing is decided.
    fn lent_watches(&self, lists: &Arc<Lists>) -> Vec<BoxFuture<'static, ()>> {
        let (queue, epoch) = (&self.queue, Epoch::default());
        let report = self.report(Thing::LentNodes, Side::Virtual, (lists, 0), None);
        let nodes =
            follow(self.watches.nodes.subscribe(epoch), Feed::<LentNodes>::of(&self.view), queue.clone(), report);
        let csi_nodes = follow(
            self.watches.csi_nodes.subscribe(epoch),
            Feed::<LentCsiNodes>::of(&self.view),
            queue.clone(),
            csi_news(&self.troubles, Side::Virtual),
        );
        vec![Box::pin(nodes), Box::pin(csi_nodes)]
    }

    /// What was shown before the nodes were known is taken: of these pods, those on nodes of ours are ours.
    fn drop_texts(&self, shown: &Stock<KnownPod>) {
        let view = self.view();
        shown.visit(|pod| {
            if pod.node().is_some_and(|node| view.knows_lent(node)) {
                drop(pod.take_text());
            }
        });
    }

    /// What follows the watch of the virtual pods, and what that has shown.
    fn lent_pods(&self, lists: &Arc<Lists>) -> (BoxFuture<'static, ()>, Arc<Stock<KnownPod>>) {
        let bound = self.watches.pods.subscribe(Epoch::default());
        let stock = bound.stock();
        let again = self.lists_unread(Arc::clone(&stock), Inbox::take_unread_twins);
        let report = self.report(Thing::LentPods, Side::Virtual, (lists, 1), Some(Part::LentPods));
        let index = LentPods::new(&self.view, self.pods.inbox().clone(), self.restores.clone());
        let follows = follow(bound, index, self.queue.clone(), move |news| {
            report(news);
            again(news);
        });
        (Box::pin(follows), stock)
    }

    /// What becomes of the news of a watch: its list counts among these, in the history of the store in which it began, and a
    /// refusal is a trouble.
    fn report(
        &self,
        thing: Thing,
        side: Side,
        (lists, which): (&Arc<Lists>, usize),
        part: Option<Part>,
    ) -> impl Fn(WatchNews<'_>) + Send + use<> {
        let (troubles, lists, view) = (self.troubles.clone(), Arc::clone(lists), Arc::clone(&self.view));
        move |news| {
            match news {
                WatchNews::Changed => {}
                WatchNews::Listed(_) => {
                    troubles.over(thing);
                    if let Some(part) = part {
                        view.lock().unwrap_or_else(PoisonError::into_inner).listed(part);
                    }
                }
                WatchNews::Opened(_) => troubles.over(thing),
                WatchNews::Failed(refusal) => troubles.met(thing, refusal, side),
            }
            lists.met(which, news);
        }
    }

    /// Once: where a list has shown many pods without what is copied of them, another one is asked for. Another binding has taken
    /// that, or this one did, when it was served before.
    fn lists_unread(
        &self,
        stock: Arc<Stock<KnownPod>>,
        take_unread: fn(&Inbox) -> usize,
    ) -> impl Fn(WatchNews<'_>) + Send + use<> {
        let (inbox, is_done) = (self.pods.inbox().clone(), AtomicBool::new(false));
        move |news| {
            if let WatchNews::Listed(list) = news
                && take_unread(&inbox) > UNREAD
                && !is_done.swap(true, Ordering::Relaxed)
            {
                stock.replace(&list);
            }
        }
    }

    /// What follows the watches of the physical cluster.
    async fn physical_watches(
        &self,
        physical: Arc<Physical>,
        epoch: Epoch,
        identity: &Identity,
        known: [PhysicalPods; 2],
    ) {
        let watches = physical.watches(identity.virtual_cluster());
        let (ours, others) = (watches.our_pods.subscribe(epoch), watches.other_pods.subscribe(epoch));
        let stocks: [Arc<dyn PodStock>; 2] = [ours.stock(), others.stock()];
        self.view().ledger.draw_on(stocks);
        let [our_pods, other_pods] = known;
        let listed = |which: usize, thing: Thing, part: Part| {
            let report = self.report(thing, Side::Physical, (&self.lists, which), Some(part));
            let (lists, signs) = (Arc::clone(&self.lists), physical.signs().clone());
            move |news: WatchNews<'_>| {
                report(news);
                if is_list(news) {
                    lists.tell(&signs, epoch);
                }
            }
        };
        let our_pods = OurPods::new(our_pods, self.pods.inbox().clone(), physical.restores().clone());
        let report = listed(1, Thing::OurPods, Part::OurPods);
        let again = self.lists_unread(ours.stock(), Inbox::take_unread);
        tokio::join!(
            self.forget_lists(physical.restores()),
            self.physical_nodes(&physical, epoch, identity),
            follow(ours, our_pods, self.queue.clone(), move |news| {
                report(news);
                again(news);
            }),
            follow(others, other_pods, self.queue.clone(), listed(2, Thing::OtherPods, Part::OtherPods)),
            // Not one of the lists that make the cluster reachable: where the right to read CSINodes is missing no list of them is
            // ever whole, and the nodes have to be lent all the same. What depends on CSINodes waits for this list by itself
            // (`view::CsiView`).
            follow(
                watches.csi_nodes.subscribe(epoch),
                Feed::<PhysicalCsiNodes>::of(&self.view),
                self.queue.clone(),
                csi_news(&self.troubles, Side::Physical),
            ),
        );
    }

    /// What was listed of a history that the store has left is not listed.
    async fn forget_lists(&self, restores: &Restores) {
        let mut changes = restores.changes();
        loop {
            changed(&mut changes).await;
            self.lists.set_back(history(restores));
        }
    }

    /// The view says which CSINodes something happened to, whatever it was: a CSINode, its node, or what allows writes.
    async fn queue_csi_nodes(&self) {
        let news = self.view().csi.news();
        loop {
            let due = self.view().csi.take_due();
            for name in due {
                // A full queue is counted, and the next sweep adds what it refused.
                let _refused = self.csi_queue.add(name);
            }
            news.notified().await;
        }
    }

    /// The same for the placeholders of virtual nodes: a pod with host ports, a placeholder, its node, or what allows writes.
    async fn queue_ports(&self) {
        let news = self.view().ports.news();
        loop {
            let due = self.view().ports.take_due();
            for name in due {
                // A full queue is counted, and the next sweep adds what it refused.
                let _refused = self.port_queue.add(name);
            }
            news.notified().await;
        }
    }

    /// What follows the watch of the physical nodes. Where they are all gone at once, they are listed again before that counts
    /// (decision S5).
    async fn physical_nodes(&self, physical: &Arc<Physical>, epoch: Epoch, identity: &Identity) {
        let machines = physical.watches(identity.virtual_cluster()).nodes.subscribe(epoch);
        let (stock, in_doubt) = (machines.stock(), watch::Sender::new(None));
        let report = self.report(Thing::PhysicalNodes, Side::Physical, (&self.lists, 0), None);
        let index = Machines::new(&self.view, self.pods.inbox().clone());
        let nodes = follow(machines, index, self.queue.clone(), |news| {
            if let WatchNews::Listed(list) = news {
                in_doubt.send_replace(self.nodes_listed(physical).then_some(list));
            }
            report(news);
            if is_list(news) {
                self.lists.tell(physical.signs(), epoch);
            }
        });
        tokio::join!(nodes, self.list_again(&stock, in_doubt.subscribe()));
    }

    /// A list that is in doubt is replaced once, after some time.
    async fn list_again(&self, stock: &Stock<PhysicalNode>, mut in_doubt: watch::Receiver<Option<ListMark>>) {
        loop {
            let doubted = *in_doubt.borrow_and_update();
            let Some(list) = doubted else {
                changed(&mut in_doubt).await;
                continue;
            };
            let time = *self.empty.borrow();
            tokio::select! {
                // Another list came by itself.
                () = changed(&mut in_doubt) => continue,
                () = tokio::time::sleep(time) => {}
            }
            tracing::info!("a physical cluster that said that it has no nodes is listed once more");
            stock.replace(&list);
            changed(&mut in_doubt).await;
        }
    }

    /// Nodes were listed. Whether it is in doubt that there are none any more.
    fn nodes_listed(&self, physical: &Physical) -> bool {
        let content = content(&self.view());
        let time = *self.empty.borrow();
        if !self.lists.nodes(content, time, physical.signs().now()) {
            return content == Listed::NoneWhereSomeWere;
        }
        tracing::warn!("a physical cluster has no nodes any more: two lists agree");
        let gone = self.view().believe_empty();
        self.lists.emptied();
        self.look_at(gone);
        false
    }

    /// What follows the watch of the policies, in the cluster where they are.
    async fn policy_watch(&self, identity: &Identity) {
        let mut sources = self.policies.source.clone();
        loop {
            let source = *sources.borrow_and_update();
            let watch = async {
                match source {
                    PolicySource::Virtual => {
                        let watch = self.watches.policies.subscribe(Epoch::default());
                        self.watch_policies(watch, Side::Virtual).await;
                    }
                    PolicySource::Physical => {
                        // What is known of them may be of before the cluster was gone.
                        let forget = |_: &Physical, _| self.look_at(self.policies.feed.lost());
                        let watch = |physical: Arc<Physical>, epoch| async move {
                            let watch = physical.watches(identity.virtual_cluster()).policies.subscribe(epoch);
                            self.watch_policies(watch, Side::Physical).await;
                        };
                        connected(self.physical.clone(), forget, watch).await;
                    }
                }
            };
            tokio::select! {
                () = watch => {}
                () = changed(&mut sources) => {}
            }
            // Policies of the one cluster are none of the other.
            self.look_at(self.policies.feed.lost());
        }
    }

    /// Follows them. Where they were not known for a while, because their watch was refused, it lists them again: what happened
    /// meanwhile may be in no watch. So it does some time after one was found gone ([`GonePolicies`]).
    async fn watch_policies(&self, watch: Subscription<ResourceLeasingPolicy>, side: Side) {
        let gone = GonePolicies::new(&self.view, self.empty.clone());
        let (stock, last) = (watch.stock(), watch::Sender::new(None));
        let report = |news: WatchNews<'_>| match news {
            WatchNews::Changed => gone.changed(),
            WatchNews::Listed(list) => {
                self.troubles.over(Thing::Policies);
                last.send_replace(Some(list));
                self.look_at(gone.listed());
            }
            WatchNews::Opened(_) => self.troubles.over(Thing::Policies),
            WatchNews::Failed(refusal) => {
                self.troubles.met(Thing::Policies, refusal, side);
                if refusal.reason == RefusalReason::NoSuchResource {
                    gone.missing();
                }
                if makes_unknown(refusal.reason) {
                    self.look_at(self.policies.feed.lost());
                }
            }
        };
        let list_again = async {
            loop {
                gone.settled().await;
                let list: Option<ListMark> = *last.borrow();
                if let Some(list) = list {
                    stock.replace(&list);
                }
            }
        };
        tokio::join!(follow(watch, self.policies.feed.clone(), self.queue.clone(), report), list_again);
    }
}

/// The physical cluster is listed while the virtual one is: nothing follows it before that one is known.
async fn read_ahead(mut connections: watch::Receiver<Option<Arc<Physical>>>, virtual_cluster: Uid) {
    loop {
        let physical = connections.borrow_and_update().clone();
        let _kept = physical.as_ref().map(|physical| physical.watches(&virtual_cluster).read_ahead());
        changed(&mut connections).await;
    }
}

/// The virtual nodes of a binding, live: the name and the UID of each.
async fn lent_nodes(client: &kube::Client, identity: &Identity) -> Result<Vec<(NodeName, Uid)>, Refusal> {
    let api: Api<core_v1::Node> = Api::all(client.clone());
    let list = ListParams::default().labels(&of_binding(identity));
    let mut pages: Pages<OnlyMetadata> = Pages::metadata(api, list);
    let mut nodes = Vec::new();
    while let Some(page) = answered(PATIENCE, pages.next()).await? {
        nodes.extend(page.into_iter().filter_map(|node| {
            let (name, uid) = (node.metadata.name?, node.metadata.uid?);
            Some((NodeName::from(name.as_str()), Uid::from(uid.as_str())))
        }));
    }
    Ok(nodes)
}

/// Follows with each connection that there is, and again whenever its cluster has been gone, also where another binding on the same
/// connection has listed it already. `begins` is called before that.
async fn connected<F: Future<Output = ()>>(
    mut connections: watch::Receiver<Option<Arc<Physical>>>,
    begins: impl Fn(&Physical, Epoch),
    follow: impl Fn(Arc<Physical>, Epoch) -> F,
) {
    loop {
        let physical = connections.borrow_and_update().clone();
        let Some(physical) = physical else {
            changed(&mut connections).await;
            continue;
        };
        let mut epochs = physical.signs().epochs();
        let epoch = *epochs.borrow_and_update();
        begins(&physical, epoch);
        tokio::select! {
            () = follow(physical, epoch) => {}
            () = changed(&mut epochs) => {}
            () = changed(&mut connections) => {}
        }
    }
}

/// What the watches of CSINodes meet.
fn csi_news(troubles: &Troubles, side: Side) -> impl Fn(WatchNews<'_>) + Send + Sync + use<> {
    let troubles = troubles.clone();
    let thing = match side {
        Side::Physical => Thing::PhysicalCsiNodes,
        Side::Virtual => Thing::LentCsiNodes,
    };
    move |news| match news {
        WatchNews::Changed => {}
        WatchNews::Listed(_) | WatchNews::Opened(_) => troubles.over(thing),
        WatchNews::Failed(refusal) => troubles.met(thing, refusal, side),
    }
}

/// Whether a list counts from now on, also one that did not while its watch was refused.
fn is_list(news: WatchNews<'_>) -> bool {
    match news {
        WatchNews::Listed(_) | WatchNews::Opened(Some(_)) => true,
        WatchNews::Changed | WatchNews::Opened(None) | WatchNews::Failed(_) => false,
    }
}

/// What the last list of physical nodes said.
fn content(view: &View) -> Listed {
    if view.doubts_empty() { Listed::NoneWhereSomeWere } else { Listed::Some }
}

/// Ends with the next value, and never where there will be none: then the binding has ended, and with it this group.
async fn changed<T>(values: &mut watch::Receiver<T>) {
    if values.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Ends with the panic of the first of these tasks that has one, and never otherwise: what such a task followed would be known as it
/// was for ever.
async fn crashed(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }
    std::future::pending().await
}

/// How often a store was set back.
fn history(restores: &Restores) -> u64 {
    *restores.changes().borrow()
}

/// The labels by which objects of a binding are found, whatever the UID of the binding was then.
#[must_use]
pub fn of_binding(identity: &Identity) -> String {
    of_name(identity.virtual_cluster(), identity.binding())
}

/// The same for a binding of this name in this virtual cluster.
#[must_use]
pub fn of_name(virtual_cluster: &Uid, binding: &BindingName) -> String {
    format!("{}={},{}={}", keys::VIRTUAL_CLUSTER, &**virtual_cluster, keys::BINDING, label_value(binding))
}

#[cfg(test)]
mod tests;
