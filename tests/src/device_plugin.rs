//! The kubelets of all nodes with their device plugins: what happens to a pod after it was bound
//! (`node-lock-and-bind.md` A19).
//!
//! A kubelet admits the pods of its node one after the other, in the order in which they were bound. For every
//! container that requests devices it calls the plugin, without the name of the pod: the plugin finds the pod by the
//! lock of the node, as HAMi's plugins do. Tests check whether it was the right pod ([`Kubelets::mistakes`]).
//!
//! Nodes need no registration: each gets its kubelet with its first pod. The kubelets tolerate an API server that is
//! stopped or killed; they repeat their requests.

mod answers;
mod crew;
mod kubelet;
mod plugin;
mod queue;
mod release;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hami::Vendor;
pub(crate) use answers::is_an_answer;
use crew::Crew;

/// One pod, and no other of its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Arc<str>,
}

impl PodName {
    /// The name of an object from the API server.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let text = |text: &Option<String>| -> Arc<str> { text.as_deref().unwrap_or_default().into() };
        let metadata = &pod.metadata;
        Self { namespace: text(&metadata.namespace), name: text(&metadata.name), uid: text(&metadata.uid) }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.namespace, self.name, self.uid)
    }
}

/// What the device plugin does with a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It gives the devices, and releases the lock.
    Completes,
    /// It releases the shared lock once its own work is done, although another vendor's is not, as the reference does.
    ReleasesEarly,
    /// It refuses, writes `failed` and releases the lock.
    Fails,
    /// It answers `success` and dies before it releases the lock. The kubelet has its answer and continues.
    KeepsLock,
    /// It never answers. The kubelet waits until the pod is gone, and then for the next pod.
    Silent,
}

/// Decides the fate of each pod.
pub type Fates = Arc<dyn Fn(&Pod) -> Fate + Send + Sync>;

/// How the device plugins of all nodes behave.
#[derive(Clone)]
pub struct Settings {
    /// How long one Allocate takes: half of it before the plugin finds its pod, half of it after that.
    pub answers_after: Duration,
    /// Called once for each pod, when its turn comes.
    pub fate: Fates,
}

impl Default for Settings {
    /// Every pod is served at once.
    fn default() -> Self {
        Self { answers_after: Duration::ZERO, fate: Arc::new(|_| Fate::Completes) }
    }
}

/// How an Allocate ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// These were the last devices of the pod; it is served, and the plugin is done with the lock.
    Completed,
    /// Other containers still wait for their devices, so the lock stays.
    Partly,
    /// These were the last devices of the pod, and the lock stays: the plugin died, or could not release it.
    KeptLock,
    /// It failed with this message.
    Failed(String),
    /// It never ended.
    Silent,
}

/// One Allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The node.
    pub node: Arc<str>,
    /// The vendor of the plugin.
    pub vendor: Vendor,
    /// The pod that the kubelet asked for.
    pub asked: PodName,
    /// The pod that the plugin took it for.
    pub found: Option<PodName>,
    /// How it ended.
    pub outcome: Outcome,
}

/// What all kubelets did.
#[derive(Default)]
struct Record {
    served: Mutex<Vec<Served>>,
    mistakes: Mutex<Vec<String>>,
}

impl Record {
    fn serves(&self, served: Served) {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).push(served);
    }

    fn mistake(&self, what: String) {
        self.mistakes.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// The kubelets of all nodes. They stop when this value is dropped.
pub struct Kubelets {
    record: Arc<Record>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Kubelets {
    /// Starts them. Pods that are bound already, and were not admitted, are admitted too.
    #[must_use]
    pub fn start(client: kube::Client, settings: Settings) -> Self {
        let record = Arc::<Record>::default();
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(Crew::new(client, settings, Arc::clone(&record)).run(stop.clone()));
        Self { record, stop, tasks }
    }

    /// Every Allocate that has ended, and those that never will, in that order.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        self.record.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What must not happen: a plugin served another pod than the kubelet asked for, or did not find out which pod that
    /// is. A pod that was deleted by force meanwhile is no mistake.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        self.record.mistakes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends them, also in the middle of their work.
    ///
    /// # Panics
    /// When one of them has panicked, as the test's own choice of fates may do.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            pass_on(ended);
        }
    }
}

/// A panic of a task is also a panic of the caller that waits for it.
fn pass_on(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}
