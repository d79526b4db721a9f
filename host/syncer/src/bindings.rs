//! The controller of a ClusterBinding: from the object and a Secret to lent nodes, and back into the object's status
//! (`bottomup-syncer.md` 2.1 and 11.1, decisions S2, S6, S7, S9, S10, S20, S22, S23, S25).
//!
//! | room | owns |
//! |---|---|
//! | `conductor` | one binding: what is done in which order after each change |
//! | `bars` | what may not be written, by everything that is known |
//! | `keeper` | that the view has these bars at once, whatever the conductor waits for |
//! | `life` | the tasks of one binding, of one UID |
//! | `orphans` | what is kept of a binding for the nodes that it leaves if it is deleted by force |
//! | `others` | whether another binding has the same `clusterID`, and when that is looked at |
//! | `elsewhere` | another installation that serves a binding, or whose name is in its status |
//! | [`once`] | the same judgement for a command, which looks once and serves no binding |
//! | `stated` | the bars that the status of a binding says are in force, and the nodes of which only leases are written |
//! | `borrower` | the Lease in `mountNamespace` |
//! | `witness` | the rounds by which a restored cluster is found |
//! | `going` | the deletion of a binding |
//! | `verbs` | annotations of operators |
//! | `report` | what the status says |
//! | `news` | which changes of it have an Event |
//! | `unstored` | what of it an API server took and did not store |
//! | `requests` | the requests of all these |
//! | `lent` | by which connection streams reach the pods of each binding, also on replicas that do not hold it |
//! | `shown` | what each binding shows of itself for `topoloom debug dump` |
//!
//! Runs one binding for as long as its lease is held: [`run`] is called by the replica that holds it, and ends when it is stopped, or
//! when the binding is gone and nothing of it is left.
//! Never decides about a node: that is [`topoloom_sync::node`]'s. Never writes anything for a binding before it is known that the
//! physical cluster is the right one and its namespace is ours.
//!
//! # Failure story
//!
//! Everything that outlives a process stands in the status: which cluster it is, what was spent and held, what was confirmed, and
//! what was set back. A process that takes over reads that first. A spec with a mistake changes nothing: the last valid one of this
//! process stays in force, and where there is none the binding is served without being changed. A binding that is deleted by force
//! leaves its nodes as they are: for as long as any is left, the replica that holds its lease renews those of its nodes and mirrors
//! their pods, since a lease that stops evicts every pod of its node. What the binding said stands in the lease of the binding then, so
//! that another replica, also one that starts later, continues.

mod bars;
mod borrower;
mod conductor;
mod elsewhere;
mod going;
mod keeper;
mod lent;
mod life;
mod news;
pub mod once;
mod orphans;
mod others;
mod report;
mod requests;
mod shown;
#[cfg(test)]
mod staged;
mod stated;
mod strays;
mod unstored;
mod verbs;
mod witness;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_cluster::events::Events;
use topoloom_cluster::gate::Gate;
use topoloom_cluster::watches::Heard;
use topoloom_cluster::{Refusal, Restores, Side, single, work};
use topoloom_core::names::Uid;
use topoloom_sync::deletion::Evictions;
use topoloom_sync::guard::Inherited;
use topoloom_sync::node::{KubeletEndpoint, Now};
use topoloom_sync::served::{Server, server};

use self::elsewhere::Rivals;
pub use self::lent::LentBindings;
pub use self::orphans::Records;
pub use self::others::Added;
use self::report::Kept;
pub use self::requests::LeaseName;
pub use self::shown::Shown;
pub use self::stated::{stated, unclear};
use crate::convert::binding::{self, Reading, Surroundings};
use crate::kubeconfig::Loopback;
use crate::nodes::Pace;
use crate::physical::{Registry, Signs, probe};
use crate::shared::LentWatches;
use crate::troubles::{Thing, Troubles};
use crate::{heartbeats, metrics, pods};

/// What all bindings of a process have in common.
pub struct Process {
    /// Reads of the virtual cluster.
    pub lent: kube::Client,
    /// The watches of the virtual cluster.
    pub restores: Restores,
    /// What is watched of the virtual cluster, once for all bindings.
    pub watches: LentWatches,
    /// Whether the virtual API server answers. [`Process::watch_over`] keeps them.
    pub lent_signs: Signs,
    /// The connections to physical clusters.
    pub registry: Arc<Registry>,
    /// The Secrets in the namespace of the syncer.
    pub secrets: Api<Secret>,
    /// The identity of the virtual cluster.
    pub virtual_cluster: Uid,
    /// The UID of its namespace `kube-system`, which is the identity unless a flag says otherwise.
    pub kube_system: Uid,
    /// Whether the Eviction API may be used.
    pub evictions: Evictions,
    /// Where the kubelet's API of virtual nodes is served, where it is.
    pub endpoint: Option<KubeletEndpoint>,
    /// Whether this machine may be a physical cluster.
    pub loopback: Loopback,
    /// The name of this replica, for the status.
    pub holder: String,
    /// Events about bindings, nodes and policies, in the virtual cluster.
    pub events: Events,
    /// Metrics of heartbeats.
    pub beats: heartbeats::metrics::Metrics,
    /// Metrics of pods.
    pub pods: pods::metrics::Metrics,
    /// Metrics of everything else that is done for bindings, and of how they are.
    pub metrics: metrics::Metrics,
    /// How fast nodes of clusters that do not answer are tainted, and pods of nodes removed.
    pub pace: Pace,
    /// How the queues are worked on.
    pub work: work::Options,
    /// Both clocks.
    pub now: fn() -> Now,
    /// The same for heartbeats.
    pub clock: heartbeats::Clock,
    /// How often bindings were added, as the watch of all bindings shows. What runs that watch counts them.
    pub added: Added,
    /// How often the witness makes a round: each minute.
    pub witness: Duration,
    /// What each binding shows of itself.
    pub shown: Shown,
}

/// Is notified of what is wrong with a binding, in a sentence without secrets; nothing: it is well. It must not wait.
pub type Tell = Arc<dyn Fn(Option<&str>) + Send + Sync>;

/// What comes with the lease of one binding.
#[derive(Clone)]
pub struct Holding {
    /// The name of the ClusterBinding.
    pub name: String,
    /// Opens with the lease, and listens to the switch of all writes. Writes in both clusters go through it.
    pub gate: Gate,
    /// Writes in the virtual cluster, behind that gate.
    pub lent: kube::Client,
    /// Heartbeats, behind a gate that opens with the lease and has no other switch.
    pub beats: kube::Client,
    /// The lease, which keeps the counter of the witness, and what outlives the binding.
    pub lease: LeaseName,
    /// Is notified of what is wrong.
    pub tell: Tell,
}

/// How often the witness makes a round (decision S25).
pub const WITNESS: Duration = Duration::from_secs(60);

/// The watch of a binding.
#[derive(Clone)]
struct ObjectWatch {
    /// What it shows.
    objects: watch::Receiver<Seen>,
    /// What is refused for the binding, beginning with this watch.
    troubles: Troubles,
}

/// The ClusterBinding, as its watch shows it.
#[derive(Debug, Clone)]
enum Seen {
    /// It has not been read yet.
    Unread,
    /// There is none.
    Gone,
    /// It is this.
    Present(Arc<ClusterBinding>),
}

/// Why the life of a binding ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    /// It is gone, and nothing of it is left, or another one has its name.
    Gone,
    /// A part of its spec changed that everything is made of: it begins again with what it knows beside its status.
    Again {
        /// That.
        carried: Box<Carried>,
        /// The Lease of the installation that it is taken over from, where the status does not have ours yet.
        taken_from: Option<String>,
    },
    /// It was served by its record, and exists: an API server was set back. What it says itself counts.
    Returned,
    /// Another installation serves it.
    Elsewhere,
}

/// Whether the object of a binding exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// It does.
    Stored,
    /// It was deleted by force, and is made of its record.
    Recorded,
}

/// What a life of a binding begins with beside the spec: what its status keeps, or what the life before has not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Carried {
    /// What its guard knows.
    guard: Inherited,
    /// Which clusters it knows, what was set back, and what was confirmed.
    kept: Kept,
}

impl Carried {
    /// What a status keeps.
    fn stored(status: &ClusterBindingStatus) -> Self {
        Self { guard: binding::inherited(status), kept: Kept::of(status) }
    }
}

/// A life of a binding, as it begins.
struct Beginning {
    object: Arc<ClusterBinding>,
    existing: Existing,
    reading: Reading,
    carried: Carried,
    /// The Lease of the installation that it is taken over from.
    taken_from: Option<String>,
    /// That of the one that it was taken over from last, also by an earlier life.
    earlier: Option<String>,
}

impl Process {
    fn around(&self) -> Surroundings {
        Surroundings {
            virtual_cluster: self.virtual_cluster.clone(),
            evictions: self.evictions,
            endpoint: self.endpoint.clone(),
        }
    }

    /// Probes the virtual API server, until it is dropped: while it does not answer nothing is written to physical ones.
    pub async fn watch_over(&self) {
        let trouble = watch::Sender::<Option<Refusal>>::new(None);
        tokio::join!(self.lent_signs.keep(), probe::probes(self.lent.clone(), self.lent_signs.clone(), trouble));
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("holder", &self.holder)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

/// Serves one binding until it is stopped, and what is under way then has ended; or until the binding is gone, and nothing of it is
/// left. The caller holds its lease meanwhile, and closes its gates when it loses that. Everything that was started here ends with
/// this future.
pub async fn run(process: Arc<Process>, holding: Holding, stop: CancellationToken) {
    let objects = watch::Sender::new(Seen::Unread);
    let (seen, troubles) = (objects.subscribe(), Troubles::default());
    let watched = ObjectWatch { objects: seen, troubles: troubles.clone() };
    tokio::select! {
        () = watch_object(&process, &holding.name, &objects, &troubles) => {}
        () = live(&process, &holding, watched, &stop) => {}
    }
}

async fn watch_object(process: &Process, name: &str, objects: &watch::Sender<Seen>, troubles: &Troubles) {
    let api: Api<ClusterBinding> = Api::all(process.lent.clone());
    let noted = troubles.clone();
    let opened = Heard::new(move || noted.over(Thing::BindingWatch));
    let mut states = std::pin::pin!(single::watch_heard(api, name, &process.restores, &opened));
    while let Some(state) = states.next().await {
        match state {
            Ok(Some(object)) => drop(objects.send_replace(Seen::Present(Arc::new(object)))),
            Ok(None) => drop(objects.send_replace(Seen::Gone)),
            Err(refusal) => {
                troubles.met(Thing::BindingWatch, &refusal, Side::Virtual);
                tracing::debug!(binding = name, reason = refusal.reason.as_str(), error = %refusal, "the watch of a binding broke");
            }
        }
    }
}

/// One life after the other: of each binding that has the name, until there is none, and nothing of one is left.
async fn live(process: &Arc<Process>, holding: &Holding, watched: ObjectWatch, stop: &CancellationToken) {
    let (mut objects, mut earlier) = (watched.objects.clone(), None::<(Option<String>, Carried)>);
    let mut rivals = Rivals::default();
    loop {
        let found = Box::pin(found(process, holding, &mut objects));
        let Some(Some((object, existing))) = stop.run_until_cancelled(found).await else { return };
        let named = match server(object.status.lease.as_deref(), &holding.lease.to_string()) {
            Server::Another(lease) => Some(lease),
            Server::Us | Server::None => None,
        };
        let taken_from = rivals.take_over(named);
        if let Some(lease) = named.filter(|_| taken_from.is_none()) {
            // What the other one does until then stands in the status.
            earlier = None;
            let wait = elsewhere::wait(process, holding, &object, lease, &mut objects, &mut rivals);
            match stop.run_until_cancelled(Box::pin(wait)).await {
                None => return,
                // The binding is another one by now, or says other things.
                Some(()) => continue,
            }
        }
        let reading = match (binding::read(&object, &process.around()), existing) {
            (Ok(reading), _) => reading,
            (Err(problems), Existing::Stored) => {
                conductor::unusable(process, holding, &object, &problems).await;
                // Until it is another one; an error means that the watch has ended, and with it this task.
                let _ended = stop.run_until_cancelled(objects.changed()).await;
                continue;
            }
            (Err(problems), Existing::Recorded) => {
                tracing::error!(binding = holding.name, error = %problems, "the record of a binding that is gone cannot be used");
                return;
            }
        };
        match existing {
            Existing::Stored => tracing::info!(binding = holding.name, "a binding is served"),
            Existing::Recorded => tracing::warn!(
                binding = holding.name,
                "a ClusterBinding was deleted by force while it lent nodes: they are orphaned, and their leases are renewed by what \
                 its Lease keeps of it. Apply it again to adopt them, or remove them with topoloom lend release"
            ),
        }
        // What it has shown so far is known.
        let watched = ObjectWatch { objects: objects.clone(), ..watched.clone() };
        let carried = earlier.take().filter(|(uid, _)| *uid == object.metadata.uid).map(|(_, carried)| carried);
        let carried = carried.unwrap_or_else(|| Carried::stored(&object.status));
        let beginning = Beginning {
            object: Arc::clone(&object),
            existing,
            reading,
            carried,
            taken_from,
            earlier: rivals.taken_from(),
        };
        // In a box, since it is large, and would be moved from stack to stack.
        let life = Box::pin(life::live(process, holding, watched, beginning, stop));
        match life.await {
            None => return,
            Some(Ended::Gone) => {
                tracing::info!(binding = holding.name, "a binding is gone");
                let _stopped = stop.run_until_cancelled(wait_for_another(&mut objects, &object)).await;
            }
            Some(Ended::Again { carried, taken_from }) => {
                earlier = Some((object.metadata.uid.clone(), *carried));
                if let Some(lease) = taken_from {
                    rivals.ended(lease);
                }
            }
            Some(Ended::Elsewhere) => rivals.leave(),
            Some(Ended::Returned) => {}
        }
    }
}

/// The binding, as soon as it is read, or what its Lease keeps of it; nothing where there is none, and nothing of it is left.
async fn found(
    process: &Process,
    holding: &Holding,
    objects: &mut watch::Receiver<Seen>,
) -> Option<(Arc<ClusterBinding>, Existing)> {
    loop {
        if let Some(object) = next(objects).await {
            return Some((object, Existing::Stored));
        }
        tokio::select! {
            left = orphans::left(process, holding) => return left.map(|object| (object, Existing::Recorded)),
            changed = objects.changed() => changed.ok()?,
        }
    }
}

/// The binding, as soon as it is read; nothing where there is none.
async fn next(objects: &mut watch::Receiver<Seen>) -> Option<Arc<ClusterBinding>> {
    loop {
        match objects.borrow_and_update().clone() {
            Seen::Unread => {}
            Seen::Gone => return None,
            Seen::Present(object) => return Some(object),
        }
        objects.changed().await.ok()?;
    }
}

/// Ends when there is another binding than this one, or none.
async fn wait_for_another(objects: &mut watch::Receiver<Seen>, last: &ClusterBinding) {
    let is_another = |seen: &Seen| match seen {
        Seen::Unread => false,
        Seen::Gone => true,
        Seen::Present(object) => object.metadata.uid != last.metadata.uid,
    };
    // An error means that the watch has ended, and with it this task.
    let _ended = objects.wait_for(is_another).await;
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;
    use topoloom_api::cluster_binding::{
        GrantedStatus, HeldBatchStatus, OtherClusterStatus, RestoredStatus, SpentStatus,
    };
    use topoloom_sync::guard::{ActKind, GrantedActs, Spent};

    use super::*;

    #[test]
    fn s9_s20_s25_a_replica_that_takes_over_knows_what_the_status_has() {
        let restored = RestoredStatus { hash: "r".to_owned(), ..RestoredStatus::default() };
        let other = OtherClusterStatus { uid: "c2".to_owned(), ..OtherClusterStatus::default() };
        let mut kept = Kept {
            physical_cluster: Some("c1".to_owned()),
            other_cluster: Some(other),
            restored: Some(restored),
            ..Kept::default()
        };
        kept.confirm("h", "2026-08-03T12:00:00Z".parse().unwrap());
        let nodes = vec!["n".to_owned()];
        let granted = GrantedStatus { act: "DeleteNode".to_owned(), counts: true, nodes, ..GrantedStatus::default() };
        let status = ClusterBindingStatus {
            physical_cluster_uid: kept.physical_cluster.clone(),
            other_cluster: kept.other_cluster.clone(),
            restored: kept.restored.clone(),
            confirmed: kept.confirmed.clone(),
            held: Some(HeldBatchStatus { hash: "b".to_owned(), ..HeldBatchStatus::default() }),
            spent: Some(SpentStatus { nodes: 2, pods: 3, at: String::new() }),
            granted: vec![granted],
            ..ClusterBindingStatus::default()
        }
        .written("2026-08-03T12:00:00Z".to_owned());
        let Carried { guard, kept: known } = Carried::stored(&status);
        assert_eq!((known, guard.held.map(|held| held.hash)), (kept, Some("b".to_owned())));
        let nodes = ["n".into()].into();
        let acts = GrantedActs { kind: ActKind::DeleteNode, is_counted: true, nodes, pods: 0 };
        assert_eq!((guard.spent, guard.grants), (Spent { nodes: 2, pods: 3 }, vec![acts]));
    }

    fn seen(uid: &str) -> Seen {
        let mut object = ClusterBinding::new("east", topoloom_api::ClusterBindingSpec::default());
        object.metadata.uid = Some(uid.to_owned());
        Seen::Present(Arc::new(object))
    }

    #[tokio::test]
    async fn a_binding_is_served_once_it_is_read_and_again_when_another_one_has_its_name() {
        let objects = watch::Sender::new(Seen::Unread);
        let mut receiver = objects.subscribe();
        let ready = Arc::new(Notify::new());
        let waits = Arc::clone(&ready);
        let serving = async {
            let first = next(&mut receiver).await.unwrap();
            waits.notify_one();
            wait_for_another(&mut receiver, &first).await;
            next(&mut receiver).await.unwrap().metadata.uid.clone()
        };
        let writing = async {
            objects.send_replace(seen("b1"));
            ready.notified().await;
            objects.send_replace(seen("b1"));
            objects.send_replace(Seen::Gone);
            objects.send_replace(seen("b2"));
        };
        let (uid, ()) = tokio::join!(serving, writing);
        assert_eq!(uid.as_deref(), Some("b2"));
    }

    #[tokio::test]
    async fn s22_where_there_is_no_binding_nothing_is_served_and_none_is_waited_for() {
        let objects = watch::Sender::new(Seen::Gone);
        let mut receiver = objects.subscribe();
        assert!(next(&mut receiver).await.is_none());
        // One that is gone while it is served.
        objects.send_replace(seen("b1"));
        let first = next(&mut receiver).await.unwrap();
        objects.send_replace(Seen::Gone);
        wait_for_another(&mut receiver, &first).await;
        assert!(next(&mut receiver).await.is_none());
    }
}
