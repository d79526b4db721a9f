//! Who shares a connection, and its end.
//!
//! Owns the tasks of each connection: its probes, its looks, the clock of its silence, and its [watches](PhysicalWatches). Connections
//! are shared by the UID of the physical cluster and the credential (decision S21), and by the timing of the binding: a connection is
//! suspect when its binding says so. What is known of the store of a cluster is shared by all its connections, so a new credential does
//! not forget it.
//!
//! # Failure story
//!
//! A connection ends with its last user: its tasks are ended, and no task is left behind. A task that ends by itself, which none
//! should, leaves its connection unreachable ([`super::signs`]). The registry holds no lock while anything is awaited.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use topoloom_cluster::client::ConnectError;
use topoloom_cluster::{Refusal, Restores};
use topoloom_core::names::Uid;
use topoloom_sync::liveness::ContactTiming;

use super::connection::{Connection, Opens};
use super::probe::{self, History};
use super::signs::{Clock, Signs};
use crate::kubeconfig::{Access, Fingerprint};
use crate::shared::{Life, PhysicalWatches};

/// All connections of the process to physical clusters.
pub struct Registry {
    opens: Arc<dyn Opens>,
    clock: Clock,
    /// Between two looks at the version and the identity of a cluster.
    looks: Duration,
    shared: Mutex<BTreeMap<Key, Weak<Physical>>>,
}

/// What two users of one connection have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    cluster: Uid,
    fingerprint: Fingerprint,
    timing: [Duration; 2],
}

/// A connection to a physical cluster, watched over for as long as it is used.
pub struct Physical {
    cluster: Uid,
    connection: Connection,
    signs: Signs,
    history: History,
    identity: watch::Sender<Uid>,
    trouble: watch::Sender<Option<Refusal>>,
    unseen: watch::Sender<Option<Refusal>>,
    watches: OnceLock<PhysicalWatches>,
    /// Aborted when dropped.
    _tasks: JoinSet<()>,
}

impl Registry {
    /// None yet.
    #[must_use]
    pub fn new(opens: impl Opens + 'static, clock: Clock) -> Self {
        Self { opens: Arc::new(opens), clock, looks: probe::LOOK, shared: Mutex::default() }
    }

    /// The same that looks once in this time at each cluster, and not every half minute. No less than a second.
    #[must_use]
    pub fn looking(self, every: Duration) -> Self {
        Self { looks: every.max(Duration::from_secs(1)), ..self }
    }

    /// Makes a connection that is not shared yet: first it has to say which cluster it leads to.
    ///
    /// # Errors
    /// When no client can be made of what the kubeconfig says.
    pub fn open(&self, access: &Access) -> Result<Connection, ConnectError> {
        self.opens.open(access)
    }

    /// The connection to this cluster that all share, or this one from now on. Must be called in a runtime.
    pub fn share(&self, cluster: &Uid, connection: Connection, timing: ContactTiming) -> Arc<Physical> {
        let key = Key {
            cluster: cluster.clone(),
            fingerprint: connection.fingerprint(),
            timing: [timing.suspect, timing.unreachable],
        };
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|_, known| known.strong_count() > 0);
        let existing = shared.get(&key).and_then(Weak::upgrade);
        // Its identity may have changed since: then it is kept by those that have to decide about that, and is not shared.
        if let Some(existing) = existing.filter(|existing| *existing.identity.borrow() == *cluster) {
            return existing;
        }
        let history = shared.values().filter_map(Weak::upgrade).find(|known| known.cluster == *cluster);
        let history = history.map(|known| known.history.clone()).unwrap_or_default();
        let physical = Arc::new(Physical::start(cluster.clone(), connection, timing, history, self));
        shared.insert(key, Arc::downgrade(&physical));
        physical
    }

    /// How many connections are in use.
    #[must_use]
    pub fn count(&self) -> usize {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.values().filter(|known| known.strong_count() > 0).count()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.count()).finish()
    }
}

impl Physical {
    fn start(
        cluster: Uid,
        connection: Connection,
        timing: ContactTiming,
        history: History,
        registry: &Registry,
    ) -> Self {
        let signs = Signs::new(timing, &registry.clock);
        // The first contact has just been answered.
        signs.answered();
        let (identity, trouble) = (watch::Sender::new(cluster.clone()), watch::Sender::new(None));
        let unseen = watch::Sender::new(None);
        let mut tasks = JoinSet::new();
        let kept = signs.clone();
        tasks.spawn(async move { kept.keep().await });
        tasks.spawn(probe::probes(connection.reads().clone(), signs.clone(), trouble.clone()));
        let (reads, every, seen) = (connection.reads().clone(), registry.looks, identity.clone());
        tasks.spawn(probe::looks(reads, every, signs.clone(), history.clone(), seen, unseen.clone()));
        let watches = OnceLock::new();
        Self { cluster, connection, signs, history, identity, trouble, unseen, watches, _tasks: tasks }
    }

    /// The UID of the cluster, as the connection was made.
    #[must_use]
    pub fn cluster(&self) -> &Uid {
        &self.cluster
    }

    /// The UID of the cluster that answers now. Another one than [`Self::cluster`] is another cluster.
    #[must_use]
    pub fn identity(&self) -> watch::Receiver<Uid> {
        self.identity.subscribe()
    }

    /// Its clients.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether it is reachable. Watches report their signs of life here, and caches their lists.
    #[must_use]
    pub fn signs(&self) -> &Signs {
        &self.signs
    }

    /// What its users watch together, each kind once and for as long as it is followed. A process serves the bindings of one virtual
    /// cluster, whose pods are its own: the first that is named here.
    #[must_use]
    pub fn watches(&self, virtual_cluster: &Uid) -> &PhysicalWatches {
        self.watches.get_or_init(|| {
            let life = Life { heard: self.signs.heard(), epochs: self.signs.epochs() };
            PhysicalWatches::new(self.connection.reads(), self.restores(), life, virtual_cluster)
        })
    }

    /// How often the store of the cluster was set back. Its watches belong to it.
    #[must_use]
    pub fn restores(&self) -> &Restores {
        self.history.restores()
    }

    /// Why the last probe was not answered; nothing where it was.
    #[must_use]
    pub fn trouble(&self) -> watch::Receiver<Option<Refusal>> {
        self.trouble.subscribe()
    }

    /// Why the last look did not see whether the cluster was set back, or is another one; nothing where it did.
    #[must_use]
    pub fn unseen(&self) -> Option<Refusal> {
        self.unseen.borrow().clone()
    }
}

impl fmt::Debug for Physical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Physical");
        shown.field("cluster", &self.cluster).field("connection", &self.connection).field("signs", &self.signs);
        shown.finish_non_exhaustive()
    }
}
